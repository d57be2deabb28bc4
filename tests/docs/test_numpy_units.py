"""No date, time or duration without a unit: numpy 2.5 deprecates them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("dbanon", "tests", "benchmarks", "examples", ".ci")
SCALARS = {"datetime64", "timedelta64"}
GENERIC = {"m8", "M8", "<m8", "<M8", "datetime64", "timedelta64"}
# A test of arrays without a unit needs one.
ALLOWED = {"tests/unit/data/test_conversion.py"}
EMPTY = {"", "nat", "none"}


def without_unit(tree: ast.AST) -> Iterator[int]:
    """The lines that create or convert a date, time or duration without a unit."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if name in SCALARS and len(node.args) == 1 and not node.keywords:
            [value] = node.args
            empty = isinstance(value, ast.Constant) and str(value.value).strip().lower() in EMPTY
            if name == "timedelta64" or empty:
                yield node.lineno
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        if name in {"astype", "view", "array", "asarray", "zeros", "full", "empty", "dtype"}:
            for argument in arguments:
                if isinstance(argument, ast.Constant) and argument.value in GENERIC:
                    yield node.lineno
                if isinstance(argument, ast.Attribute) and argument.attr in SCALARS:
                    yield node.lineno


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_date_and_time_has_a_unit(folder: str) -> None:
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    lines = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in files
        if str(path.relative_to(ROOT)) not in ALLOWED
        for line in without_unit(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not lines


@pytest.mark.parametrize(
    "code",
    [
        'np.datetime64("NaT")',
        "np.datetime64(None)",
        "np.timedelta64(3)",
        'x.astype("m8")',
        "x.astype(np.timedelta64)",
        'np.array(x, dtype="datetime64")',
    ],
)
def test_a_missing_unit_is_seen(code: str) -> None:
    assert list(without_unit(ast.parse(code)))


@pytest.mark.parametrize(
    "code", ['np.datetime64("NaT", "us")', "np.datetime64(x)", 'x.astype("datetime64[D]")']
)
def test_a_unit_is_enough(code: str) -> None:
    assert not list(without_unit(ast.parse(code)))
