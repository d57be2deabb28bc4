"""Helpful messages: they quote the input in whole sentences, and say what to write instead."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.doors.plpython_options import check_advice_options
from dbanon.errors import (
    DuplicateKeys,
    InsufficientRights,
    MissingDependency,
    NullInQuasiIdentifier,
    UnknownOption,
    UnsupportedType,
)
from tests.spark.statements import execute


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with a file of rows."""
    monkeypatch.chdir(tmp_path)
    lines = [f"{20 + i % 50},{1000 + i * 7 % 400},{'abc'[i % 3]}" for i in range(100)]
    Path("rows.csv").write_text("\n".join(["age,pay,ill", *lines]) + "\n")
    Path("tree.csv").write_text("".join(f"{age};*\n" for age in range(20, 70)))
    return tmp_path


def run(*words: str) -> Any:
    return CliRunner().invoke(main, list(words), env={"DBANON_URL": None})


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        "anonymize URL --table rows -q age -q pay --k 5 --output x --target duckdb:///out.duckdb",
        "plan URL --table rows -q age -q pay --k 5 --output x --target duckdb:///out.duckdb",
        "advise URL --table rows",
        "bound URL --table rows -q age -q pay --k 5",
        "init URL --table rows",
        "verify URL rows -q age --k 2",
        "hierarchy suggest URL --table rows --column age",
        "hierarchy check tree.csv URL --table rows --column age",
    ],
)
def test_help_mentions_files_of_rows(rows: Path, line: str) -> None:
    done = run(*line.replace("URL", "file:rows.csv").split())
    assert done.exit_code == 0, done.output
    words = [word for word in line.partition("URL")[0].split() if word != "tree.csv"]
    assert "file:people.csv" in run(*words, "--help").output


def test_a_csv_file_is_verified_as_a_table(rows: Path) -> None:
    done = run("verify", "rows.csv")
    assert done.exit_code == 2
    assert "rows.csv is a CSV file, which does not say which release it is." in done.output
    output = " ".join(done.output.split())
    assert "dbanon verify file:rows.csv rows, with --quasi-identifiers and --k" in output
    assert run("verify", "file:rows.csv", "rows", "-q", "age", "--k", "2").exit_code == 0


def test_a_bound_on_text_is_refused_with_an_explanation(rows: Path) -> None:
    done = run("bound", "file:rows.csv", "--table", "rows", "-q", "ill", "--k", "2")
    assert done.exit_code == 2
    output = " ".join(done.output.split())
    assert "a bound needs numbers, dates, or ordered text." in output
    assert "--order" in output
    assert "--recoding" not in output
    frame = duckdb.sql("SELECT 'a' AS ill, 1 AS age FROM range(10)").df()
    with pytest.raises(UnsupportedType, match=r'"ill" .* a bound needs numbers'):
        dbanon.lower_bound(frame, 2)
    done = run(
        "bound", "file:rows.csv", "--table", "rows", "-q", "ill", "--k", "2", "--order", "ill=a,b,c"
    )
    assert done.exit_code == 0, done.output


def test_the_version_of_a_job_file_is_not_the_programs(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("version: 2\nsource: {url: 'duckdb:///x'}\njobs: []\n")
    done = run("check", str(tmp_path / "job.yaml"))
    assert "version: must be 1: the version of the file format, not of dbanon" in done.output


def test_an_unknown_option_is_named() -> None:
    with pytest.raises(UnknownOption, match=r'no option "sed"') as caught:
        check_advice_options({"sed": 1})
    assert '"seed"' in str(caught.value.hint)


def test_singular_and_plural(tmp_path: Path) -> None:
    clinic = duckdb.connect()
    clinic.execute(
        "CREATE TABLE rows AS SELECT range AS id, range AS age FROM range(20);"
        " UPDATE rows SET id = NULL WHERE age = 3; CREATE TABLE holes AS"
        " SELECT age AS id, id AS age FROM rows"
    )
    arguments: Any = {"quasi_identifiers": ["age"], "k": 5, "output": "out", "key": ["id"]}
    with pytest.raises(DuplicateKeys, match="1 row with NULL in the key"):
        dbanon.anonymize(clinic, table="rows", **arguments)
    with pytest.raises(NullInQuasiIdentifier, match=r'"age" in 1 row\.'):
        dbanon.anonymize(clinic, table="holes", **arguments)


class NoDriver:
    """An import that finds no PostgreSQL driver."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name.partition(".")[0] == "psycopg":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


@pytest.mark.parametrize("command", ["install --sql-only", "releases"])
def test_without_the_driver_each_command_names_the_package(
    monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    for name in list(sys.modules):
        if name.startswith(("psycopg", "dbanon.stores.postgresql", "sqlalchemy.dialects.postg")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [NoDriver(), *sys.meta_path])
    done = run(*command.split(), "postgresql://nobody@127.0.0.1:1/nothing")
    assert done.exit_code == MissingDependency.exit_code
    assert "pip install 'psycopg[binary]>=3.2.1' " in done.output


@pytest.mark.postgresql
def test_a_forbidden_schema_creation_names_the_role(pg_url: str, pg_role: Any) -> None:
    role = pg_role("Anna-Lena", "IN ROLE pg_read_all_data")
    execute(pg_url, "CREATE TABLE people AS SELECT i AS id, i AS age FROM generate_series(1, 9) i")
    arguments: Any = {"table": "people", "quasi_identifiers": ["age"], "k": 5, "key": ["id"]}
    with pytest.raises(InsufficientRights) as caught:
        dbanon.anonymize(role, output='"no pe".x', **arguments)
    assert str(caught.value.hint).endswith('CREATE SCHEMA "no pe" AUTHORIZATION "Anna-Lena";')
    with pytest.raises(InsufficientRights) as caught:
        dbanon.anonymize(role, output="public.x", **arguments)
    assert str(caught.value.hint).endswith('ON SCHEMA "public" TO "Anna-Lena";')
