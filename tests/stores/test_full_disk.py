"""A full disk has its own error, whichever component notices it, and nothing is published."""

from __future__ import annotations

import os
import resource
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pymysql
import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import DatabaseFailure, DbanonError, DiskFull
from dbanon.extensions.mariadb import errors as of_mariadb
from dbanon.stores.duckdb import errors as of_duckdb
from dbanon.stores.postgresql import connection, session, settings
from dbanon.stores.postgresql import errors as of_postgresql
from tests.stores.databases import DuckdbDatabase, PostgresqlDatabase

_N = 60_000
OPTIONS: dict[str, Any] = {
    "table": "people",
    "output": "released",
    "quasi_identifiers": ["age"],
    "k": 5,
    "keep": ["note"],
    "method": "kward",
}


@contextmanager
def limited_files(room: int) -> Iterator[None]:
    """No file of this process can grow beyond so many bytes: a full disk without a disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A DuckDB database with rows of 100 bytes that do not compress."""
    path = tmp_path_factory.mktemp("people") / "people.duckdb"
    DuckdbDatabase(path).execute(
        "CREATE TABLE people AS SELECT range AS id, range % 70 AS age,"
        f" md5('a' || range) || md5('b' || range) || md5('c' || range) AS note FROM range({_N})"
    )
    return f"duckdb:///{path}"


def refused(run: Callable[[], object], folder: Path | None = None) -> DiskFull:
    with pytest.raises(DiskFull) as caught:
        run()
    error = caught.value
    assert (error.code, error.exit_code, error.sqlstate) == ("disk_full", 4, "53100")
    assert error.hint
    assert "Make room" in error.hint
    if folder is not None:
        assert str(folder) in error.message
    return error


@pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")
def test_the_file_of_duckdb(people: str, tmp_path: Path) -> None:
    """It fails at the commit, which DuckDB calls an error of its transaction."""
    target = tmp_path / "target.duckdb"
    with limited_files(1 << 19):
        refused(lambda: dbanon.anonymize(people, target=f"duckdb:///{target}", **OPTIONS), tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")
def test_an_existing_file_of_duckdb_stays_as_it_was(people: str, tmp_path: Path) -> None:
    target = DuckdbDatabase(tmp_path / "target.duckdb")
    target.execute("CREATE TABLE own AS SELECT 1 AS a")
    with limited_files(1 << 19):
        refused(lambda: dbanon.anonymize(people, target=target.url, **OPTIONS), tmp_path)
    assert target.rows("SELECT a FROM own") == [(1,)]
    assert dbanon.anonymize(people, target=target.url, **OPTIONS).rows_out == _N


def test_the_directory_that_duckdb_spills_to(tmp_path: Path) -> None:
    with closing(duckdb.connect()) as connection:
        connection.execute("SET memory_limit = '20MB'")
        connection.execute(f"SET temp_directory = '{tmp_path}/spill'")
        connection.execute("SET max_temp_directory_size = '1MB'")
        with (
            pytest.raises(DiskFull, match="database spills") as caught,
            of_duckdb.translate_errors(),
        ):
            connection.execute(
                "CREATE TABLE t AS SELECT md5(range::VARCHAR) AS a FROM range(2000000) ORDER BY a"
            )
    assert "`spill`" not in str(caught.value)
    assert "spill" in str(caught.value.hint)


@pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")
def test_sqlite() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, age INTEGER, note TEXT)")
        rows = [(i, i % 50, os.urandom(100).hex()) for i in range(2000)]
        connection.executemany("INSERT INTO people VALUES (?, ?, ?)", rows)
        connection.commit()
        [(pages,)] = connection.execute("PRAGMA page_count").fetchall()
        connection.execute(f"PRAGMA max_page_count = {pages + 20}")
        error = refused(lambda: dbanon.anonymize(connection, **OPTIONS))
        assert "SQLITE_TMPDIR" in str(error.hint)
        tables = connection.execute("SELECT name FROM sqlite_master").fetchall()
    assert tables == [("people",)]


@pytest.mark.parametrize(
    "error",
    [
        (1021, "Disk full (/tmp/x); waiting for someone to free some space..."),
        (1114, "The table 'x' is full"),
        (1030, 'Got error 28 "No space left on device" from storage engine InnoDB'),
        (3, "Error writing file '/tmp/x' (Errcode: 28 \"No space left on device\")"),
    ],
    ids=lambda error: str(error[0]),
)
def test_mariadb(error: tuple[int, str]) -> None:
    def run() -> None:
        with of_mariadb.translate_errors():
            raise pymysql.err.OperationalError(*error)

    assert error[1] not in str(refused(run))


def test_mariadb_says_28_of_other_things() -> None:
    with pytest.raises(DatabaseFailure) as caught, of_mariadb.translate_errors():
        raise pymysql.err.OperationalError(1030, "Got error 128 from storage engine InnoDB")
    assert not isinstance(caught.value, DiskFull)


def test_postgresql() -> None:
    error = of_postgresql.translate_driver_error(SimpleNamespace(sqlstate="53100", diag=None))

    def run() -> None:
        raise error

    refused(run)


@pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_an_export(people: str, tmp_path: Path, ending: str) -> None:
    export = str(tmp_path / f"out.{ending}")
    with closing(duckdb.connect()) as memory, limited_files(1 << 19):
        refused(
            lambda: dbanon.anonymize(people, target=memory, exports=[export], **OPTIONS), tmp_path
        )
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_an_export_that_is_smaller_than_a_buffer(tmp_path: Path, ending: str) -> None:
    """Its bytes are written when the file is closed, which fails as writing did."""
    rows = [(number, 20 + number % 50, f"{number:0100}") for number in range(100)]
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, age INTEGER, note TEXT)")
        connection.executemany("INSERT INTO people VALUES (?, ?, ?)", rows)
        connection.commit()
        exports = [str(tmp_path / "out" / f"{number}.{ending}") for number in range(2)]
        with limited_files(1 << 8):
            error = refused(
                lambda: dbanon.anonymize(connection, exports=exports, **OPTIONS), tmp_path / "out"
            )
    assert "Nothing was published." in error.message
    assert list((tmp_path / "out").iterdir()) == []


def test_files_of_blocks(people: str, tmp_path: Path) -> None:
    options = OPTIONS | {"keep": [], "output": "in_blocks", "block_size": 5000}
    with limited_files(1 << 17):
        refused(lambda: dbanon.anonymize(people, **options, spill=str(tmp_path / "s")), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_report_is_a_warning_that_says_how_to_write_it_again(
    people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The release is committed: a scheduler must not repeat it for its report."""
    path = tmp_path / "report.json"
    line = [
        "anonymize",
        people,
        "--table",
        "people",
        "--output",
        "with_report",
        "-q",
        "age",
        "--k",
        "5",
        "--no-progress",
        "--report",
        str(path),
    ]
    write = Path.replace

    def full(self: Path, target: Path) -> Path:
        if target == path:
            raise OSError(28, os.strerror(28), str(self))
        return write(self, target)

    monkeypatch.setattr(Path, "replace", full)
    done = CliRunner().invoke(main, line)
    assert done.exit_code == 0
    assert f"its report {path} could not be written (No space left on device)" in done.output
    again = ["report", people, "with_report", "-o", str(path)]
    assert f"dbanon report URL main.with_report -o {path}" in done.output
    # Not published by this command: a full disk is its failure.
    failed = CliRunner().invoke(main, again)
    assert (failed.exit_code, "disk_full" in failed.output) == (4, True)
    assert "Nothing was published" not in failed.output
    monkeypatch.undo()
    assert CliRunner().invoke(main, again).exit_code == 0
    assert path.exists()
    assert not [left for left in tmp_path.iterdir() if left != path]


def test_what_a_full_disk_is_not() -> None:
    assert not DiskFull.caused_by(OSError(5, os.strerror(5)))
    assert not DiskFull.caused_by(ValueError("a disk"))
    assert issubclass(DiskFull, DbanonError)


@pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")
def test_the_limit_of_temporary_files_of_postgresql(
    pg_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has the state of a quota of the ledger for it."""
    postgresql = PostgresqlDatabase(pg_url)
    postgresql.execute(
        "CREATE TABLE people AS SELECT g AS id, g % 70 AS age, repeat(md5(g::text), 4) AS note"
        " FROM generate_series(1, 20000) AS g"
    )
    for name in ("SORT_MEM", "WORK_MEM"):
        monkeypatch.setattr(session, name, "64kB")
    small = settings.CLIENT_STATEMENTS.replace(f"'{settings.WORK_MEM}'", "'64kB'")
    assert small != settings.CLIENT_STATEMENTS
    monkeypatch.setattr(connection, "CLIENT_STATEMENTS", small)
    database = f'ALTER DATABASE "{pg_url.rpartition("/")[2]}" SET temp_file_limit ='
    options = OPTIONS | {"output": "release.people", "method": "mdav", "key": ["id"]}
    postgresql.execute(f"{database} 64")
    with pytest.raises(DiskFull) as caught:
        dbanon.anonymize(pg_url, **options)
    error = caught.value
    assert "temp_file_limit" in error.message
    assert (error.code, error.exit_code) == ("disk_full", 4)
    # The hint, as a superuser of this database follows it.
    assert "SET temp_file_limit = '16GB', or -1" in str(error.hint)
    postgresql.execute(f"{database} '16GB'")
    assert dbanon.anonymize(pg_url, **options).rows_out == 20000


@pytest.mark.parametrize(
    ("constraint", "function", "code", "words"),
    [
        ("dbanon_entries_a_day", "exec_stmt_raise", "ledger_quota", "limit of ledger entries"),
        ("dbanon_rules_of_role", "exec_stmt_raise", "ledger_quota", "rules for 100,000 columns"),
        (None, "exec_stmt_raise", "ledger_quota", "limit of ledger entries"),
        (None, "FileWriteV", "disk_full", "temp_file_limit"),
    ],
)
def test_limits_of_postgresql(constraint: str | None, function: str, code: str, words: str) -> None:
    diagnosis = SimpleNamespace(constraint_name=constraint, source_function=function)
    error = of_postgresql.translate_driver_error(SimpleNamespace(sqlstate="53400", diag=diagnosis))
    assert error.code == code
    assert words in error.message
    assert error.hint
