"""Python code that uses dbanon: public names, types, and warnings at the caller's line."""

from __future__ import annotations

import os
import pydoc
import re
import subprocess
import sys
import venv
import warnings
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

import dbanon
from dbanon.errors import KeptColumnTells, NotDifferentiallyPrivate, RowsNotAnonymous
from tests.house import ROOT

# Ten lines of user code for a type checker.
SCRIPT = """
import pandas as pd
import polars as pl

import dbanon

frame, report = dbanon.anonymize_frame(pd.DataFrame(), quasi_identifiers=["a"], k=5, rows="input")
print(frame.index, report.evaluate(frame).losses, report.page()[:1])
rows, _ = dbanon.anonymize_frame([{"a": 1}], quasi_identifiers=["a"], k=5, method="gaa_cp")
print(rows.index)
polars, _ = dbanon.anonymize_frame(pl.DataFrame(), quasi_identifiers=["a"], k=5, refine="fast")
print(polars.height)
ranked: dbanon.AttributePartition = dbanon.partition([[1.0]], 2, method="individual_ranking")
asked = dbanon.anonymize("duckdb:///x", table="t", quasi_identifiers=["age"], k=5, output="r")
print(asked.k_achieved + 1, dbanon.Policy(k=5).k)
classes: dbanon.Partition = dbanon.partition([[1.0], [2.0]], 2)
found: dbanon.Verification | dbanon.PrivateVerification = dbanon.verify("duckdb:///x", "r")
made: dbanon.Report | dbanon.PrivateReport | None = dbanon.run_job("job.yaml")
if isinstance(made, dbanon.Report) and isinstance(found, dbanon.Verification):
    print(made.rows_out + 1, found.k_achieved)
"""

# One mistake per line.
WRONG = """asked.is_nothing()
dbanon.anonymize_frames
polars.iloc
dbanon.partition([[1.0]], 2, method="mdva")
dbanon.anonymize_frame(polars, quasi_identifiers=["a"], k=5, nulls="supress")
dbanon.anonymize_frame(frame, quasi_identifiers=["a"], k=5, rows="sorted")
dbanon.plan("duckdb:///x", table="t", k=5, output="r", if_exists="overwrite")
"""


@pytest.mark.slow
def test_a_script_is_checked_where_the_package_is_installed(tmp_path: Path) -> None:
    """In an environment with this package, as from a wheel, and what the script imports.

    No other package is there: reading the types of all of them takes most of the time.
    """
    venv.create(tmp_path / "env", symlinks=True)
    [packages] = (tmp_path / "env").glob("lib/python*/site-packages")
    for module in (dbanon, np, pd, pl):
        package = Path(module.__file__).parent
        for types in package.parent.glob(f"{package.name}*"):
            if types.name in (package.name, f"{package.name}-stubs"):
                (packages / types.name).symlink_to(types)
    (tmp_path / "script.py").write_text(SCRIPT + WRONG)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--config-file",
            str(ROOT / "pyproject.toml"),
            "script.py",
            "--cache-dir",
            os.devnull,
            "--python-executable",
            str(tmp_path / "env" / "bin" / "python"),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "MYPYPATH"},
    )
    errors = re.findall(r"^script.py:(\d+): error: .*\[([\w-]+)\]$", done.stdout, re.M)
    last = SCRIPT.count("\n")
    assert [(int(line) - last, kind) for line, kind in errors] == [
        (1, "attr-defined"),
        (2, "attr-defined"),
        (3, "attr-defined"),
        (4, "call-overload"),
        (5, "call-overload"),
        (6, "call-overload"),
        (7, "arg-type"),
    ], done.stdout + done.stderr


def test_names_are_listed() -> None:
    assert set(dbanon.__all__) <= set(dir(dbanon))
    assert not {"Any", "import_module", "TYPE_CHECKING", "annotations"} & set(dir(dbanon))
    documentation = pydoc.render_doc(dbanon, renderer=pydoc.plaintext)
    assert [name for name in dbanon.__all__ if name not in documentation] == []
    assert "Anonymize a database table" in documentation
    assert dbanon.errors.TooFewRecords.code == "too_few_records"


def classes_in(annotation: Any) -> set[type]:
    """The package's classes in a type annotation."""
    if get_origin(annotation) in (Union, UnionType, list, tuple, dict):
        return set().union(*map(classes_in, get_args(annotation)))
    ours = isinstance(annotation, type) and annotation.__module__.startswith("dbanon.")
    return {annotation} if ours else set()


def test_return_types_of_public_functions_are_public() -> None:
    public = {getattr(dbanon, name) for name in dbanon.__all__ if name != "METHODS"}
    for name in dbanon.__all__:
        function = getattr(dbanon, name)
        if isinstance(function, type) or not callable(function):
            continue
        module = sys.modules[function.__module__]
        # Names that the module only has for type checkers must be public, or this fails.
        names = {value.__name__: value for value in public if isinstance(value, type)}
        hints = get_type_hints(
            type("Told", (), {"__annotations__": {"r": function.__annotations__["return"]}}),
            globalns={**vars(module), "Any": Any},
            localns=names,
        )
        assert classes_in(hints["r"]) <= public, name


def warned_in(category: type[Warning], call: Any) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    [warning] = [entry for entry in caught if entry.category is category]
    return warning.filename


def test_warnings_name_the_line_that_called(tmp_path: Path) -> None:
    frame = pd.DataFrame({"age": range(20, 60), "income": range(40), "id": range(40)})
    numbers = np.arange(40.0).reshape(20, 2)
    clinic = duckdb.connect()
    clinic.register("people", frame)
    arguments: Any = {"quasi_identifiers": ["age", "income"], "k": 5, "keep": ["id"]}

    def of_a_database() -> None:
        clinic.execute("CREATE TABLE rows AS SELECT * FROM people")
        dbanon.anonymize(clinic, table="rows", output="released", **arguments)

    def of_arrays() -> None:
        dbanon.partition(numbers, 5, method="individual_ranking")

    def of_noise() -> None:
        arguments: Any = {"k": 5, "epsilon": 1.0, "guarantee": "as_published"}
        dbanon.synthesize(numbers, method="dcmdp", **arguments)

    assert (
        warned_in(KeptColumnTells, lambda: dbanon.anonymize_frame(frame, **arguments)) == __file__
    )
    assert warned_in(KeptColumnTells, of_a_database) == __file__
    assert warned_in(RowsNotAnonymous, of_arrays) == __file__
    assert warned_in(NotDifferentiallyPrivate, of_noise) == __file__
