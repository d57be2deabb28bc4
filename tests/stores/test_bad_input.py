"""Bad input: each case its own error, and nothing left behind."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

import dbanon
from dbanon import errors
from tests.stores.databases import (
    Database,
    DuckdbDatabase,
    PostgresqlDatabase,
    SqliteDatabase,
    inserts,
    quote,
)
from tests.stores.people import load_people

EXIT_CODES = {
    errors.UsageError: 2,
    errors.PrivacyRefusal: 3,
    errors.DatabaseFailure: 4,
    errors.InsufficientRights: 5,
}


def refuse(
    database: Database, error: type[errors.DbanonError], said: str = "", /, **given: Any
) -> errors.DbanonError:
    """Run, expect the error, and check that it is of its family and nothing was left behind."""
    before = database.state()
    with pytest.raises(error) as caught:
        database.anonymize(**({"quasi_identifiers": ["age", "height"]} | given))
    assert type(caught.value) is error
    assert said in str(caught.value)
    assert caught.value.exit_code == next(
        code for family, code in EXIT_CODES.items() if issubclass(error, family)
    )
    # What caused it may quote a value.
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert caught.value.__cause__ is None
    assert database.state() == before
    return caught.value


def anonymize(url: Any) -> None:
    dbanon.anonymize(url, table="people", quasi_identifiers=["x"], k=3, output="release.people")


CASES: dict[str, tuple[type[errors.DbanonError], str, dict[str, Any]]] = {
    "unknown table": (errors.TableNotFound, 'Did you mean "people"', {"table": "poeple"}),
    "other case": (errors.TableNotFound, 'Did you mean "people"', {"table": "People"}),
    "unknown column": (errors.ColumnNotFound, 'Did you mean "age"', {"quasi_identifiers": ["aeg"]}),
    "unknown kept column": (errors.ColumnNotFound, 'Did you mean "site"', {"keep": ["sites"]}),
    "unknown sensitive column": (errors.ColumnNotFound, "sit", {"sensitive": ["sit"]}),
    "unknown key": (errors.ColumnNotFound, 'Did you mean "id"', {"key": ["idd"]}),
    "column with an empty name": (errors.ColumnNotFound, '""', {"quasi_identifiers": [""]}),
    "column with a NUL": (errors.ColumnNotFound, "", {"quasi_identifiers": ["a\0b"]}),
    "table with a NUL": (errors.InvalidName, "", {"table": "a\0b"}),
    "empty table": (errors.InvalidName, "not valid", {"table": ""}),
    "three parts": (errors.InvalidName, "not valid", {"table": "a.b.c"}),
    "open quote": (errors.InvalidName, "not valid", {"output": '"release.people'}),
    "k of one": (errors.InvalidParameter, "k must be", {"k": 1}),
    "negative k": (errors.InvalidParameter, "k must be", {"k": -3}),
    "k with a fraction": (errors.InvalidParameter, "k must be", {"k": 2.5}),
    "k as text": (errors.InvalidParameter, "k must be", {"k": "5"}),
    "k as truth": (errors.InvalidParameter, "k must be", {"k": True}),
    "k over rows": (errors.TooFewRecords, "k can be 40 at most", {"k": 41}),
    "unknown method": (errors.UnknownMethod, 'Did you mean "mdav"', {"method": "mdva"}),
    "unknown option": (errors.UnknownOption, "no option", {"options": {"gama": 1}}),
    "unknown standardization": (errors.InvalidParameter, "zscore", {"standardize": "z"}),
    "unknown nulls": (errors.InvalidParameter, "category", {"nulls": "drop"}),
    "unknown recoding": (errors.InvalidParameter, "mean", {"recoding": "average"}),
    "budget over one": (errors.InvalidParameter, "0 to 1", {"max_suppression": 1.5}),
    "budget is no number": (errors.InvalidParameter, "0 to 1", {"max_suppression": float("nan")}),
    "negative seed": (errors.InvalidParameter, "seed", {"seed": -1}),
    "weight of nothing": (errors.InvalidParameter, "names no", {"weights": {"site": 1.0}}),
    "negative weight": (errors.InvalidParameter, "0 or more", {"weights": {"age": -1.0}}),
    "infinite weight": (errors.InvalidParameter, "finite", {"weights": {"age": float("inf")}}),
    "no quasi-identifier": (errors.InvalidParameter, "No quasi", {"quasi_identifiers": []}),
    "names as one text": (errors.InvalidParameter, "a list", {"quasi_identifiers": "age"}),
    "names that are none": (errors.InvalidParameter, "a list", {"quasi_identifiers": [1]}),
    "named twice": (errors.InvalidParameter, "more than once", {"quasi_identifiers": ["age"] * 2}),
    "named in two roles": (errors.InvalidParameter, "more than once", {"keep": ["age"]}),
    "key named twice": (errors.InvalidParameter, "twice", {"key": ["id", "id"]}),
    "text column": (errors.UnsupportedType, "takes numbers", {"quasi_identifiers": ["name"]}),
    "no rows at a time": (errors.InvalidParameter, "chunk_rows", {"chunk_rows": 0}),
    "kind of output": (errors.InvalidParameter, "output_kind", {"output_kind": "matview"}),
    "if_exists": (errors.InvalidParameter, "if_exists", {"if_exists": "append"}),
    "memory": (errors.MemoryLimit, "records were read so far", {"memory_limit": 1000}),
    "output is the source": (errors.OutputExists, "if_exists=replace", {"output": "people"}),
    "source replaced": (
        errors.OutputNotOurs, "drop it yourself", {"output": "people", "if_exists": "replace"},
    ),
    "output is the ledger": (errors.InvalidName, "ledger", {"output": "dbanon.release"}),
    "equal keys": (errors.DuplicateKeys, "keys occur more than once", {"key": ["twice"]}),
    "equal integer keys": (errors.DuplicateKeys, "more than once", {"key": ["same"]}),
    "NULL in a key": (errors.DuplicateKeys, "1 rows have a key with NULL", {"key": ["hole"]}),
    "NULL in a key of two": (errors.DuplicateKeys, "with NULL", {"key": ["hole", "twice"]}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_bad_input(database: Database, case: str) -> None:
    load_people(database)
    database.execute(
        "ALTER TABLE people ADD COLUMN twice " + database.types["text"],
        "ALTER TABLE people ADD COLUMN same integer",
        "ALTER TABLE people ADD COLUMN hole integer",
        "UPDATE people SET twice = 'a' || (id % 20), same = id % 20,"
        " hole = CASE WHEN id > 1 THEN id END",
    )
    error, said, given = CASES[case]
    refuse(database, error, said, **given)


@pytest.mark.parametrize("rows", [0, 1])
def test_a_table_of_hardly_any_rows(database: Database, rows: int) -> None:
    database.load("people", {"x": "integer"}, [(1,)] * rows)
    refuse(database, errors.TooFewRecords, f"{rows} records", quasi_identifiers=["x"], k=2)


def test_unknown_schema(database: Database) -> None:
    load_people(database)
    if database.name == "sqlite":
        refuse(database, errors.TableNotFound, table="pubic.people")
        return
    schema = "main" if database.name == "duckdb" else "public"
    refuse(database, errors.SchemaNotFound, f'"{schema}"', table=f"{schema[:-1]}x.people")


def test_an_output_that_exists_and_is_not_ours(database: Database) -> None:
    load_people(database)
    database.make_schema("release")
    database.execute(f"CREATE TABLE {database.relation('release.people')} (x integer)")
    refuse(database, errors.OutputExists, "exists already")
    refuse(database, errors.OutputNotOurs, "was not made by dbanon", if_exists="replace")
    database.execute(
        f"DROP TABLE {database.relation('release.people')}",
        f"CREATE VIEW {database.relation('release.people')} AS SELECT * FROM people",
    )
    refuse(database, errors.OutputNotOurs, if_exists="replace", output_kind="view")


def test_embedded_databases_know_no_case(database: Database) -> None:
    if database.name == "postgresql":
        pytest.skip("names that differ in case are two names in PostgreSQL")
    load_people(database)
    refuse(database, errors.OutputExists, output="PEOPLE")
    refuse(database, errors.OutputNotOurs, output="PEOPLE", if_exists="replace")


def test_other_objects_of_that_name(postgresql: PostgresqlDatabase) -> None:
    load_people(postgresql)
    postgresql.make_schema("release")
    for statement, name in (
        ("CREATE SEQUENCE release.a", "a"),
        ("CREATE INDEX b ON people (age)", "b"),
        ("CREATE MATERIALIZED VIEW release.c AS SELECT 1 AS x", "c"),
    ):
        postgresql.execute(statement)
        where = "public" if name == "b" else "release"
        refuse(postgresql, errors.OutputExists, output=f"{where}.{name}")
    postgresql.execute("CREATE TYPE release.d AS ENUM ('x')")
    refuse(postgresql, errors.OutputExists, output="release.d")


def test_a_view_and_a_foreign_table_need_a_key(database: Database) -> None:
    load_people(database, table="base")
    database.execute("CREATE VIEW people AS SELECT * FROM base")
    error = refuse(database, errors.KeyRequired, "is a view")
    assert "--key" in str(error.hint)
    if database.name == "postgresql":
        database.execute(
            "CREATE EXTENSION file_fdw",
            "CREATE SERVER files FOREIGN DATA WRAPPER file_fdw",
            "CREATE FOREIGN TABLE abroad (age integer, height integer) SERVER files"
            " OPTIONS (filename '/dev/null')",
        )
        refuse(database, errors.KeyRequired, "is a foreign table", table="abroad")


# --- names ----------------------------------------------------------------------------------------

AWKWARD = [
    "Zip Code", 'a""b', "select", "MiXed", "100%", "%s", "a%sb%%", "what?", "a:b", ":name", "it's",
    "$1", "$2::tid", "{x}", "é€", "back\\slash", "semi;colon--", "/* comment */", "tab\there",
    "s", "class", "position", "key0", "v0", "size", "null_in_class", "ctid_", "x" * 63,
]  # fmt: skip


@pytest.mark.parametrize("with_key", [True, False])
def test_awkward_names_of_columns(database: Database, with_key: bool) -> None:
    columns = {'the "id"?%s': "integer" + (" PRIMARY KEY" if with_key else "")}
    columns |= dict.fromkeys(AWKWARD, "integer")
    rows = [tuple(i * (j + 1) % 13 for j in range(len(columns))) for i in range(12)]
    rows = [(i, *row[1:]) for i, row in enumerate(rows)]
    database.load("people", columns, rows)
    half = len(AWKWARD) // 2
    for first, second in ((AWKWARD[:half], AWKWARD[half:]), (AWKWARD[half:], AWKWARD[:half])):
        report = database.anonymize(
            quasi_identifiers=first, keep=second[:5], sensitive=second[5:], if_exists="replace"
        )
        assert report.quasi_identifiers == tuple(first)
        names = ", ".join(quote(name) for name in first)
        smallest = database.rows(
            f"SELECT min(n) FROM (SELECT count(*) AS n FROM {database.relation('release.people')}"
            f" GROUP BY {names}) AS classes"
        )
        assert smallest == [(report.k_achieved,)]


@pytest.mark.parametrize("name", [*AWKWARD, 'x"y.z'])
def test_awkward_names_of_tables(database: Database, name: str) -> None:
    rows = [(i, i) for i in range(9)]
    if database.name == "sqlite":
        database.execute(f"CREATE TABLE {quote(name)} (x integer, kept integer)",
                         *inserts(quote(name), rows))  # fmt: skip
        source = quote(name)
    else:
        schema = "Off the %s ? path"
        database.execute(f"CREATE SCHEMA {quote(schema)}",
                         f"CREATE TABLE {quote(schema)}.{quote(name)} (x integer, kept integer)",
                         *inserts(f"{quote(schema)}.{quote(name)}", rows))  # fmt: skip
        source = f"{quote(schema)}.{quote(name)}"
    output = name[:49]
    ways: list[dict[str, str]] = [{}]
    if name in AWKWARD[:5]:
        view = {"output": f"v_{output}"[:49], "output_kind": "view"}
        ways += [{"if_exists": "replace"}, view, view | {"if_exists": "replace"}]
    for how in ways:
        given: dict[str, Any] = {"output": output} | how
        given["output"] = f"{quote('Out ? %')}.{quote(given['output'])}"
        report = database.anonymize(table=source, quasi_identifiers=["x"], keep=["kept"], **given)
        assert report.rows_out == 9


def test_awkward_names_travel(
    make_database: Callable[[str], Database], sqlite_file: SqliteDatabase
) -> None:
    rows = [tuple([i] * len(AWKWARD)) for i in range(9)]
    sqlite_file.load("people", dict.fromkeys(AWKWARD, "integer"), rows)
    for name in ("duckdb", "postgresql"):
        target = make_database(name)
        report = sqlite_file.anonymize(
            quasi_identifiers=AWKWARD[:3], keep=AWKWARD[3:], target=target.url
        )
        assert report.rows_out == 9
        again = target.anonymize(
            table="release.people",
            output="release.again",
            quasi_identifiers=AWKWARD[:3],
            keep=AWKWARD[3:],
            target=DuckdbDatabase(sqlite_file.path.parent / f"{name}.duckdb").url,
        )
        assert again.rows_out == 9


def test_names_that_are_too_long(postgresql: PostgresqlDatabase) -> None:
    load_people(postgresql)
    for given in (
        {"table": "x" * 64},
        {"table": f"{'x' * 64}.people"},
        {"output": f"{'é' * 32}.people"},
        {"output": f"release.{'é' * 32}"},
        {"output": f"release.{'x' * 64}", "output_kind": "view"},
    ):
        refuse(postgresql, errors.NameTooLong, "64 bytes long", **given)


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [("INTEGER", 5, "secret"), ("INTEGER", 5, 1.5), ("REAL", 0.5, "secret"),
     ("DECIMAL(10,2)", 1.25, "1,25"), ("DATE", "2020-01-01", "01.02.2020"),
     ("DATE", "2020-01-01", ""),
     ("DATE", "2020-01-01", "now"), ("DATE", "2020-01-01", "NaT"),
     ("DATE", "2020-01-01", "2021-02-29"),
     ("DATE", "2020-01-01", 2458849.5), ("DATE", "2020-01-01", "2020-01-01 10:00:00"),
     ("TIMESTAMP", "2020-01-01 00:00:00", "2020-01-01 24:00:00"),
     ("TIMESTAMP", "2020-01-01 00:00:00", "2020-01-01T00:00:00Z"),
     ("TIMESTAMP", "2020-01-01T00:00:00", "2020-01-01 00:00:00+02:00"),
     ("TIMESTAMP", "2020-01-01", 1577836800)],
)  # fmt: skip
def test_values_of_sqlite_that_are_not_what_they_declare(
    sqlite_file: SqliteDatabase, kind: str, good: Any, bad: Any
) -> None:
    sqlite_file.load("people", {"x": kind}, [(good,)] * 8)
    assert sqlite_file.anonymize(quasi_identifiers=["x"], output="fine").classes == 1
    sqlite_file.execute(*inserts("people", [(bad,)]))
    error = refuse(sqlite_file, errors.MixedTypes, "1 of its values", quasi_identifiers=["x"])
    assert f"declares {kind}" in error.message


@pytest.mark.parametrize("kind", ["json", "integer[]", "interval", "bytea", "point"])
def test_columns_that_are_no_numbers(postgresql: PostgresqlDatabase, kind: str) -> None:
    postgresql.load("people", {"x": kind, "y": "integer"}, [(None, 1)] * 5)
    refuse(postgresql, errors.UnsupportedType, f"of type {kind}", quasi_identifiers=["x"])


# --- rights ---------------------------------------------------------------------------------------


def as_role(database: PostgresqlDatabase, url: str, said: str, /, **given: Any) -> None:
    before = database.state()
    with pytest.raises(errors.InsufficientRights) as caught:
        database.anonymize(**({"database": url, "quasi_identifiers": ["age"]} | given))
    assert said in str(caught.value)
    assert caught.value.exit_code == 5
    assert database.state() == before


def test_each_right_that_is_missing_is_named(pg_url: str, pg_role: Callable[..., str]) -> None:
    database = PostgresqlDatabase(pg_url)
    load_people(database)
    url = pg_role("anna")
    name = database.rows("SELECT quote_ident(current_database())")[0][0]
    database.execute(
        "CREATE SCHEMA hidden", "CREATE TABLE hidden.people AS TABLE people",
        "GRANT SELECT ON hidden.people TO anna", f"REVOKE ALL ON DATABASE {name} FROM PUBLIC",
        f"GRANT CONNECT ON DATABASE {name} TO anna", "REVOKE ALL ON SCHEMA public FROM PUBLIC",
        "CREATE SCHEMA release",
    )  # fmt: skip
    as_role(database, url, "GRANT SELECT ON", table="public.people")
    as_role(database, url, 'schema "hidden"', table="hidden.people", key=["id"])
    database.execute("GRANT USAGE ON SCHEMA public TO anna")
    as_role(database, url, '"age"', table="public.people")
    database.execute("GRANT SELECT (age, id) ON people TO anna")
    as_role(database, url, '"site"', keep=["site"])
    as_role(database, url, "temporary tables")
    database.execute(f"GRANT TEMPORARY ON DATABASE {name} TO anna")
    as_role(database, url, 'schema "release"')
    as_role(database, url, "may not create it", output="brand_new.people")
    database.execute("GRANT USAGE, CREATE ON SCHEMA release TO anna")
    as_role(database, url, "ledger")
    # With these and a ledger that is there, it goes: the minimum.
    database.anonymize(quasi_identifiers=["age"], output="release.by_owner")
    as_role(database, url, "ledger")
    database.execute(
        "GRANT USAGE ON SCHEMA dbanon TO anna",
        "GRANT SELECT, INSERT, UPDATE ON dbanon.release, dbanon.release_column TO anna",
        "GRANT SELECT ON dbanon.alembic_version TO anna",
    )
    report = database.anonymize(database=url, quasi_identifiers=["age"])
    assert report.k_achieved >= 3
    # Without the whole table not even its row numbers may be read.
    database.execute("ALTER TABLE people DROP CONSTRAINT people_pkey")
    as_role(database, url, '"ctid"', output="release.other")


def test_row_level_security_is_not_fallen_for(pg_url: str, pg_role: Callable[..., str]) -> None:
    database = PostgresqlDatabase(pg_url)
    load_people(database)
    url = pg_role("anna")
    database.execute(
        "GRANT SELECT ON people TO anna", "GRANT CREATE, USAGE ON SCHEMA public TO anna",
        "ALTER TABLE people ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY half ON people TO anna USING (id % 2 = 0)",
        "CREATE VIEW through AS SELECT * FROM people", "GRANT SELECT ON through TO anna",
        "ALTER VIEW through OWNER TO anna",
    )  # fmt: skip
    as_role(database, url, "Row-level security", output="public.out")
    as_role(database, url, "", table="through", key=["id"], output="public.out")


def test_a_file_that_may_not_be_written(database: Database) -> None:
    if database.name == "postgresql":
        pytest.skip("PostgreSQL is no file")
    load_people(database)
    path = database.path  # type: ignore[attr-defined]
    path.chmod(0o400)
    if os.geteuid() == 0:
        # Root may write anything: only a directory in the way of the file stops it.
        path = path.parent / "directory"
        path.mkdir()
        with pytest.raises(errors.DatabaseUnreachable):
            database.anonymize(database=f"{database.name}:///{path}", quasi_identifiers=["age"])
        return
    with pytest.raises(errors.DbanonError) as caught:
        database.anonymize(quasi_identifiers=["age"])
    assert caught.value.exit_code in (4, 5)


# --- the database itself --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    ["", "no url", "postgresql://h:port/x", "mysql://h/x", "oracle://h/x", "duckdb://",
     "duckdb:///:memory:", "://", "postgresql", "sqlit:///x.db", None, 7],
)  # fmt: skip
def test_urls_that_are_none(url: Any) -> None:
    with pytest.raises(errors.InvalidParameter) as caught:
        anonymize(url)
    assert caught.value.hint


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
@pytest.mark.parametrize("name", ["missing.file", "missing/directory/file"])
def test_a_missing_file_is_not_made(tmp_path: Any, kind: str, name: str) -> None:
    with pytest.raises(errors.DatabaseUnreachable) as caught:
        anonymize(f"{kind}:///{tmp_path / name}")
    assert caught.value.exit_code == 4
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_a_target_file_is_made_only_by_success(
    sqlite_file: SqliteDatabase, tmp_path: Any, kind: str
) -> None:
    load_people(sqlite_file)
    target = tmp_path / "new" / "file"
    target.parent.mkdir()
    refuse(sqlite_file, errors.TooFewRecords, k=41, target=f"{kind}:///{target}")
    assert list(target.parent.iterdir()) == []
    sqlite_file.anonymize(quasi_identifiers=["age"], target=f"{kind}:///{target}")
    assert target.exists()


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_a_file_of_something_else(tmp_path: Any, kind: str) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("secret " * 1000)
    with pytest.raises(errors.DatabaseUnreachable) as caught:
        anonymize(f"{kind}:///{path}")
    assert "secret" not in str(caught.value)


def test_no_server_is_there() -> None:
    with pytest.raises(errors.DatabaseUnreachable) as caught:
        anonymize("postgresql://anna:hush@127.0.0.1:1/people?connect_timeout=2")
    assert "hush" not in str(caught.value)
    assert "127.0.0.1:1" in str(caught.value)


def test_a_wrong_password_and_a_missing_database(pg_server: Any, pg_url: str) -> None:
    for url in (pg_server.url(password="wrong-one"), pg_server.url("no_such_database")):
        with pytest.raises(errors.DatabaseUnreachable) as caught:
            anonymize(url)
        assert "wrong-one" not in str(caught.value)
        assert pg_server.password not in str(caught.value)


def test_sqlite_locked_by_a_writer(sqlite_file: SqliteDatabase) -> None:
    load_people(sqlite_file)
    with closing(sqlite3.connect(sqlite_file.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        refuse(
            sqlite_file, errors.DatabaseBusy, "Try again", database=f"{sqlite_file.url}?timeout=0.1"
        )
        other.execute("ROLLBACK")
    sqlite_file.anonymize(quasi_identifiers=["age"])


HOLD = """
import duckdb, sys
connection = duckdb.connect(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""


def test_duckdb_open_in_another_process(duckdb_file: DuckdbDatabase) -> None:
    load_people(duckdb_file)
    state = duckdb_file.state()
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(duckdb_file.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(errors.DatabaseBusy, match="Another process") as caught:
            duckdb_file.anonymize(quasi_identifiers=["age"])
        assert caught.value.exit_code == 4
        other.communicate()
    assert duckdb_file.state() == state
    duckdb_file.anonymize(quasi_identifiers=["age"])


def test_a_lock_on_the_source(postgresql: PostgresqlDatabase) -> None:
    load_people(postgresql)
    with postgresql.connect() as other:
        other.autocommit = False
        other.execute("LOCK TABLE people IN ACCESS EXCLUSIVE MODE")
        # A limit of the caller's role is kept when it is shorter than dbanon's own.
        url = f"{postgresql.url}?options=-c%20statement_timeout%3D300"
        refuse(postgresql, errors.Cancelled, "time limit", database=url)
    postgresql.anonymize(quasi_identifiers=["age"])


@pytest.mark.parametrize("phase", ["read", "cluster", "write", "verify"])
def test_a_connection_lost_midway(postgresql: PostgresqlDatabase, phase: str) -> None:
    load_people(postgresql)

    def cut(now: str, share: float) -> None:
        if now == phase:
            postgresql.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )

    error = refuse(postgresql, errors.ConnectionLost, progress=cut, chunk_rows=7)
    assert error.exit_code == 4
    postgresql.anonymize(quasi_identifiers=["age"])
