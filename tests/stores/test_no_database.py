"""Files that are no database are refused as source and target: no verified release is lost."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

from dbanon.doors.cli.main import main
from dbanon.errors import (
    DatabaseNotFound,
    InsufficientRights,
    InvalidParameter,
    NotADatabase,
    OutputExists,
    TooFewRecords,
    UsageError,
)
from dbanon.run.open import open_store
from dbanon.run.verify import verify
from dbanon.sessions.names import parse_relation
from tests.stores.databases import Database, DuckdbDatabase, SqliteDatabase
from tests.stores.forked import Command
from tests.stores.people import load_people

OPTIONS: dict[str, Any] = {"quasi_identifiers": ["age", "height"], "k": 3}


def _rows_file(path: Path) -> Path:
    if path.suffix == ".parquet":
        duckdb.sql("SELECT i AS age, i AS height FROM range(20) AS t(i)").write_parquet(str(path))
    elif path.suffix == ".json":
        path.write_text('[{"age": 1, "height": 2}]')
    else:
        path.write_text("age,height\n1,2\n3,4\n")
    return path


@pytest.fixture
def people(sqlite_file: SqliteDatabase) -> SqliteDatabase:
    """The other one of two databases, which answers soonest."""
    load_people(sqlite_file)
    return sqlite_file


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
@pytest.mark.parametrize("name", ["people.csv", "people.parquet", "people.json", "people.data"])
@pytest.mark.parametrize("role", ["source", "target"])
def test_files_of_rows(
    kind: str, name: str, role: str, tmp_path: Path, people: SqliteDatabase
) -> None:
    path = _rows_file(tmp_path / name)
    before = path.read_bytes()
    database = people.url if role == "target" else f"{kind}:///{path}"
    target = f"{kind}:///{path}" if role == "target" else None
    with pytest.raises(NotADatabase, match="is not a database file"):
        people.anonymize(database=database, target=target, **OPTIONS)
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted({name, people.path.name})


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
@pytest.mark.parametrize("name", ["out.csv", "out.parquet", "out.csv.gz", "OUT.JSON"])
def test_a_new_file_that_would_be_taken_for_rows(
    kind: str, name: str, tmp_path: Path, people: SqliteDatabase
) -> None:
    with pytest.raises(NotADatabase, match="extension of another kind of file"):
        people.anonymize(target=f"{kind}:///{tmp_path / name}", **OPTIONS)
    assert not (tmp_path / name).exists()
    with pytest.raises(DatabaseNotFound, match="There is no file"):
        people.anonymize(database=f"{kind}:///{tmp_path / name}", **OPTIONS)
    assert not (tmp_path / name).exists()


def test_the_hint_is_two_commands_that_work(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    lines = "".join(f"{i},{i * 7 % 50}\n" for i in range(20))
    Path("people.csv").write_text("age,height\n" + lines)
    options = "--quasi-identifiers age,height --k 3 --output release.people --no-progress"
    words = ["anonymize", "duckdb:///people.csv", "--table", "people", *options.split()]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    first, second = done.stderr.splitlines()[-3:-1]
    assert first.startswith("  python -c ")
    assert second.startswith("  dbanon anonymize duckdb:///people.duckdb --table people")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for line in (first, second.replace("…", options)):
        subprocess.run(["bash", "-c", line], check=True, env={**os.environ, "PATH": path})
    with duckdb.connect("people.duckdb") as connection:
        counts = connection.execute("SELECT count(*) FROM release.people").fetchall()
    assert counts == [(20,)]


@pytest.mark.parametrize("role", ["source", "target"])
def test_one_database_given_as_the_other(
    role: str, people: SqliteDatabase, duckdb_file: DuckdbDatabase
) -> None:
    load_people(duckdb_file)
    files = {"duckdb": duckdb_file.url, "sqlite": people.url}
    for kind, other in (("duckdb", "sqlite"), ("sqlite", "duckdb")):
        wrong = files[other].replace(other, kind, 1)
        where = {"target": wrong} if role == "target" else {"database": wrong}
        with pytest.raises(NotADatabase, match="another kind") as caught:
            people.anonymize(**where, **OPTIONS)
        assert files[other] in str(caught.value.hint)


@pytest.mark.parametrize("role", ["source", "target"])
def test_empty_files_and_directories(role: str, tmp_path: Path, people: SqliteDatabase) -> None:
    empty, directory = tmp_path / "empty", tmp_path / "directory"
    empty.touch()
    directory.mkdir()
    for url in (f"duckdb:///{empty}", f"duckdb:///{directory}", f"sqlite:///{directory}"):
        where = {"target": url} if role == "target" else {"database": url}
        with pytest.raises(NotADatabase):
            people.anonymize(**where, **OPTIONS)
    assert empty.stat().st_size == 0


def test_an_empty_file_is_a_database_of_sqlite(tmp_path: Path, people: SqliteDatabase) -> None:
    path = tmp_path / "empty.db"
    path.touch()
    people.anonymize(target=f"sqlite:///{path}", **OPTIONS)
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*) FROM release_people").fetchall() == [(40,)]
    connection.close()


@pytest.mark.parametrize(
    "url",
    [
        "duckdb://",
        "duckdb:///",
        "duckdb:///:memory:",
        "duckdb:///:memory:x",
        "duckdb:///md:",
        "duckdb:///md:people",
        "duckdb:///s3://bucket/people.duckdb",
        "duckdb:///sqlite:people.db",
        "duckdb:///people.duckdb?access_mode=READ_WRITE",
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite:///file::memory:?uri=true",
        "sqlite:///file:people?mode=memory&uri=true",
    ],
)
@pytest.mark.parametrize("role", ["source", "target"])
def test_urls_that_name_no_file(
    url: str, role: str, people: SqliteDatabase, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    where = {"target": url} if role == "target" else {"database": url}
    with pytest.raises((InvalidParameter, NotADatabase)) as caught:
        people.anonymize(**where, **OPTIONS)
    assert isinstance(caught.value, UsageError)
    assert caught.value.hint
    assert [p.name for p in tmp_path.iterdir()] == [people.path.name]


def test_arguments_of_a_url_are_not_ignored(duckdb_file: DuckdbDatabase) -> None:
    load_people(duckdb_file)
    with pytest.raises(InvalidParameter, match="takes no arguments"):
        duckdb_file.anonymize(database=f"{duckdb_file.url}?access_mode=READ_ONLY", **OPTIONS)


@contextmanager
def _without_roots_rights() -> Iterator[None]:
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
@pytest.mark.parametrize("mode", [0o444, 0o000])
def test_files_that_may_not_be_written_or_read(
    kind: str, mode: int, make_database: Callable[[str], Database]
) -> None:
    database = make_database(kind)
    load_people(database)
    # All is imported before rights are given up.
    database.anonymize(**OPTIONS)
    # Not below pytest's own directory, which is closed to the role that root becomes here.
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        path = Path(name) / "people.db"
        path.write_bytes(Path(database.url.partition("///")[2]).read_bytes())
        path.chmod(mode)
        with _without_roots_rights(), pytest.raises(InsufficientRights, match="may not be"):
            database.anonymize(database=f"{kind}:///{path}", output="release.other", **OPTIONS)


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_a_file_that_another_process_made_meanwhile_stays(
    kind: str, tmp_path: Path, people: SqliteDatabase, monkeypatch: Any
) -> None:
    """Two first releases into one new file: the slower one, which fails, removes nothing."""
    target = tmp_path / "new.db"
    url = f"{kind}:///{target}"
    resolve = Path.resolve
    others: list[str] = []

    def faster(path: Path, strict: bool = False) -> Path:
        # Called where a missing file was found missing, and is not made yet.
        if path == target and not others:
            others.append("running")
            people.anonymize(target=url, **OPTIONS)
        return resolve(path, strict)

    monkeypatch.setattr(Path, "resolve", faster)
    with pytest.raises(OutputExists):
        people.anonymize(target=url, **OPTIONS)
    monkeypatch.undo()
    assert others
    verification = verify(open_store(url), parse_relation("release.people"))
    assert verification.rows == 40


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_a_failed_run_removes_its_own_file_and_nothing_beside_it(
    kind: str, tmp_path: Path, people: SqliteDatabase
) -> None:
    stray = tmp_path / ("new.db.wal" if kind == "sqlite" else "new.db-journal")
    stray.write_text("somebody's")
    with pytest.raises(TooFewRecords):
        people.anonymize(target=f"{kind}:///{tmp_path / 'new.db'}", **(OPTIONS | {"k": 1000}))
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([people.path.name, stray.name])


_LONG = """
import sys
import duckdb
from dbanon.run.open import open_store

connect = duckdb.connect

def eager(*given, **named):
    # For statements of a tenth of a second, not of two: less may pass before it is switched off.
    connection = connect(*given, **named)
    connection.execute("SET progress_bar_time = 100")
    return connection

duckdb.connect = eager
with open_store(sys.argv[1]).session(write=sys.argv[2] == "write") as session:
    session.run("CREATE TEMPORARY TABLE t AS SELECT sum(hash(i)) FROM range(100000000) AS r(i)")
"""


@pytest.mark.parametrize("mode", ["read", "write"])
def test_duckdb_draws_nothing_into_the_result(mode: str, duckdb_file: DuckdbDatabase) -> None:
    duckdb_file.execute("CREATE TABLE there (a INTEGER)")
    with Command(_LONG, duckdb_file.url, mode, env=os.environ) as run:
        output = run.communicate()
    assert (output, run.returncode) == (("", ""), 0)
