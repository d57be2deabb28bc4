"""How tests handle a missing prerequisite: a skip with a reason, or a failure in CI."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests import prerequisites
from tests.prerequisites import import_or_skip, require_reference, skip_or_fail
from tests.reference.data import CASC_SHAPES, load_casc, load_magic

TESTS = Path(__file__).parent
# The module that may call pytest's own functions.
DECIDES = Path(prerequisites.__file__)
SKIPS = {"skip", "skipif", "importorskip", "skipIf", "skipUnless", "SkipTest"}


def skips_of(tree: ast.AST) -> Iterator[int]:
    """The lines that skip a test without tests/prerequisites.py."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name in SKIPS:
                yield node.lineno
        if (
            isinstance(node, ast.ImportFrom)
            and node.module in ("pytest", "unittest")
            and {alias.name for alias in node.names} & SKIPS
        ):
            yield node.lineno


def test_every_skip_is_decided_in_one_place() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(TESTS.rglob("*.py"))}
    del texts[DECIDES]
    undecided = [
        f"{path.relative_to(TESTS)}:{line}"
        for path, text in texts.items()
        # Parsing a file takes longer than reading it.
        if any(name in text for name in SKIPS)
        for line in skips_of(ast.parse(text))
    ]
    assert len(texts) > 300
    assert undecided == []


@pytest.mark.parametrize(
    "line",
    [
        "pytest.skip('no server')",
        "x = pytest.importorskip('numpy')",
        "from pytest import skip",
        "A = pytest.mark.skipif(True, reason='so')",
        "from unittest import SkipTest",
        "unittest.skipIf(True, 'so')",
        "@pytest.mark.skip(reason='so')\ndef test(): pass",
    ],
)
def test_a_bare_skip_is_noticed(line: str) -> None:
    assert [*skips_of(ast.parse(line))]


@pytest.mark.parametrize("ci", [False, True])
def test_a_missing_package_or_server_fails_in_ci_alone(
    monkeypatch: pytest.MonkeyPatch, ci: bool
) -> None:
    monkeypatch.setattr(prerequisites, "IN_CI", ci)
    ending = pytest.fail.Exception if ci else pytest.skip.Exception
    with pytest.raises(ending, match="missing: no PostgreSQL"):
        skip_or_fail("no PostgreSQL server")
    for name in ("no_such_package", "no_such_package.module", "tests.no_such_module"):
        with pytest.raises(ending, match=r"missing: no package (no_such_package|tests\.no_such)"):
            import_or_skip(name)
    assert import_or_skip("numpy.random") is np.random


@pytest.mark.parametrize("code", ["import no_such_package", "from numpy import no_such_name"])
def test_a_package_that_cannot_be_imported_is_a_fault(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: str
) -> None:
    """A skip would hide that a library is broken."""
    (tmp_path / "broken_package.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match="no_such"):
        import_or_skip("broken_package")


@pytest.mark.slow
@pytest.mark.parametrize("ci", ["", "true"])
def test_a_run_of_pytest_fails_in_ci_alone(tmp_path: Path, ci: str) -> None:
    """A file whose import needs a package, and a test that needs one."""
    imported = "from tests.prerequisites import import_or_skip\n"
    call = "import_or_skip('no_such_package')\n"
    (tmp_path / "test_file.py").write_text(f"{imported}{call}def test_it(): pass\n")
    (tmp_path / "test_test.py").write_text(
        f"{imported}def test_it(): {call}def test_other(): pass\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-rs",
            "-p",
            "no:cacheprovider",
            "--continue-on-collection-errors",
        ],
        env=os.environ | {"CI": ci, "PYTHONPATH": str(TESTS.parent)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == bool(ci), done.stdout
    counted = "1 failed, 1 passed, 1 error" if ci else "1 passed, 2 skipped"
    assert counted in done.stdout
    assert "missing: no package no_such_package" in done.stdout


FILES = ("casc/census.csv", "adult/adult.csv")


@pytest.mark.parametrize("ci", [False, True])
def test_missing_reference_data_is_a_skip_that_names_file_and_variable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ci: bool
) -> None:
    """No folder, an empty one, one with some of the files; in CI, too."""
    monkeypatch.setattr(prerequisites, "IN_CI", ci)
    monkeypatch.setenv("DBANON_DATA", str(tmp_path / "data"))
    with pytest.raises(pytest.skip.Exception, match=r"no casc/census\.csv in .*DBANON_DATA"):
        require_reference(*FILES)
    (tmp_path / "data" / "casc").mkdir(parents=True)
    with pytest.raises(pytest.skip.Exception, match=r"no casc/census\.csv in .*DBANON_DATA"):
        require_reference(*FILES)
    (tmp_path / "data" / "casc" / "census.csv").touch()
    assert require_reference("casc/census.csv") == tmp_path / "data"
    with pytest.raises(pytest.skip.Exception, match=r"no adult/adult\.csv in .*DBANON_DATA"):
        require_reference(*FILES)
    (tmp_path / "data" / "adult" / "adult.csv").mkdir(parents=True)
    with pytest.raises(pytest.skip.Exception, match=r"no adult/adult\.csv"):
        require_reference(*FILES)


@pytest.mark.parametrize("name", CASC_SHAPES)
def test_casc_tables_match_the_literature(tmp_path: Path, name: str) -> None:
    """Text and dates are left out; a table of another shape is refused."""
    (tmp_path / "casc").mkdir()
    n, p = CASC_SHAPES[name]
    values = np.random.default_rng(0).integers(-9, 99, (n, p)).astype(float)
    names = [f"a{j}" for j in range(p)]
    texts = {"UTILNAME": "City of A, B", "STATE": "AK", "YEAR": "96", "MONTH": "1"}
    rows = [[*names[:2], *texts, *names[2:]]]
    rows += [[*row[:2], *texts.values(), *row[2:]] for row in values.astype(str).tolist()]
    lines = [",".join(f'"{field}"' for field in row) for row in rows]
    file = tmp_path / "casc" / f"{name}.csv"
    file.write_text("\n".join(lines))
    table = load_casc(name, tmp_path)
    assert table.names == tuple(names)
    np.testing.assert_array_equal(table.values, values)
    file.write_text("\n".join(lines[:-1]))
    with pytest.raises(ValueError, match="shape"):
        load_casc(name, tmp_path)


def test_magic_is_read_without_its_class(tmp_path: Path) -> None:
    (tmp_path / "magic").mkdir()
    values = np.random.default_rng(0).integers(0, 99, (19_020, 10)).astype(float)
    lines = [",".join([f"a{j}" for j in range(10)] + ["class"])]
    lines += [",".join([*map(str, row), "g"]) for row in values.tolist()]
    file = tmp_path / "magic" / "magic04.csv"
    file.write_text("\n".join(lines))
    np.testing.assert_array_equal(load_magic(tmp_path).values, values)
    file.write_text("\n".join(lines[:-1]))
    with pytest.raises(ValueError, match="shape"):
        load_magic(tmp_path)
