"""Kept columns that travel through the client: snapshot, gate and rights hold, and no value
leaks.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import dbanon
from dbanon import kernels
from dbanon.doors.cli.main import main
from dbanon.errors import (
    DatabaseFailure,
    InsufficientRights,
    InvalidParameter,
    MemoryLimit,
    NonFiniteValue,
    RecountFailed,
    UnsupportedType,
)
from dbanon.stores.postgresql.client_connection import PsycopgConnection
from dbanon.stores.postgresql.client_passthrough import PostgresqlPassthrough
from tests.postgres_server import Server
from tests.stores.databases import Database, PostgresqlDatabase
from tests.stores.refusal import refuse
from tests.stores.test_passthrough import texts, types
from tests.stores.test_written_from_arrays import CREATE_PEOPLE

pytestmark = [pytest.mark.postgresql, pytest.mark.own_backends]

SECRET = "Jane Roe 123-45-6789"


def test_a_writer_meanwhile_changes_nothing(
    postgresql: PostgresqlDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgresql.execute(*CREATE_PEOPLE)
    before = texts(postgresql, "people")
    read = PostgresqlPassthrough.read_chunks

    def disturbed(self: Any, *args: Any) -> Any:
        chunks = read(self, *args)
        yield next(chunks)
        postgresql.execute(
            "UPDATE people SET kept = 'changed' WHERE id % 2 = 0",
            "DELETE FROM people WHERE id % 3 = 0",
            "INSERT INTO people (id, x, y, kept) VALUES (0, 0, 0, 'new')",
        )
        yield from chunks

    monkeypatch.setattr(PostgresqlPassthrough, "read_chunks", disturbed)
    postgresql.anonymize(
        quasi_identifiers=["x", "y"], keep=["kept", "id"], kept_columns="client", chunk_rows=20
    )
    rows = postgresql.rows("SELECT id, kept FROM release.people ORDER BY id")
    assert rows == [(g, f"row {g}") for g in range(1, 401)]
    assert sum(before.values()) == 400


def test_what_was_written_is_counted(
    postgresql: PostgresqlDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that are written beside another class's values, and nothing is published."""
    postgresql.execute(*CREATE_PEOPLE)
    shuffled = kernels.shuffled_classes

    def wrong(*args: Any) -> Any:
        places, records = shuffled(*args)
        # All but one of a class.
        places[np.flatnonzero(places == places[0])[1:]] = (places[0] + 1) % len(args[1])
        return places, records

    monkeypatch.setattr("dbanon.kernels.shuffled_classes", wrong)
    refuse(
        postgresql,
        RecountFailed,
        "",
        quasi_identifiers=["x", "y"],
        keep=["kept"],
        kept_columns="client",
    )


def test_rights_are_the_same(pg_server: Server, pg_url: str) -> None:
    owner = PostgresqlDatabase(pg_url)
    owner.execute(*CREATE_PEOPLE)
    url = pg_server.create_role("publisher", url=pg_url)
    name = pg_url.rpartition("/")[2]
    owner.execute(
        "GRANT SELECT (x, y, ctid) ON people TO publisher",
        f'GRANT CREATE ON DATABASE "{name}" TO publisher',
    )
    publisher = PostgresqlDatabase(url)
    options: dict[str, Any] = {"quasi_identifiers": ["x", "y"], "kept_columns": "client"}
    with pytest.raises(InsufficientRights):
        publisher.anonymize(keep=["kept"], **options)
    owner.execute("GRANT SELECT (kept) ON people TO publisher")
    assert publisher.anonymize(keep=["kept"], **options).rows_out == 400
    owner.execute(
        "ALTER TABLE people ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY half ON people USING (id % 2 = 0)",
    )
    with pytest.raises(InsufficientRights, match="Row-level security"):
        publisher.anonymize(keep=["kept"], if_exists="replace", **options)
    assert owner.rows("SELECT count(*) FROM release.people") == [(400,)]


def test_no_code_of_another_role_runs(pg_server: Server, pg_url: str) -> None:
    """Values come in through their types' checks: those of another's domains are not asked."""
    owner = PostgresqlDatabase(pg_url)
    url = pg_server.create_role("mallory", url=pg_url)
    owner.execute(
        "CREATE SCHEMA evil AUTHORIZATION mallory",
        "CREATE DOMAIN outer_list AS text[]",
        "GRANT USAGE ON SCHEMA public TO PUBLIC",
    )
    mallory = PostgresqlDatabase(url)
    mallory.execute(
        "CREATE SEQUENCE evil.sprung",
        "CREATE FUNCTION evil.trap(value text) RETURNS boolean LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM nextval('evil.sprung'); RETURN true; END $$",
        "CREATE DOMAIN evil.word AS text CHECK (evil.trap(VALUE))",
        "CREATE TYPE evil.mood AS ENUM ('low', 'high')",
    )
    owner.execute(
        "CREATE DOMAIN by_trap AS text CHECK (evil.trap(VALUE))",
        "CREATE TABLE people (x double precision, word evil.word, mood evil.mood, mine by_trap,"
        " nested by_trap[])",
        "INSERT INTO people SELECT g, 'w' || g, 'low', 'm' || g, ARRAY['n']"
        " FROM generate_series(1, 30) AS g",
    )
    called = owner.rows("SELECT last_value, is_called FROM evil.sprung")
    options: dict[str, Any] = {"quasi_identifiers": ["x"], "kept_columns": "client"}
    owner.anonymize(keep=["word", "mood", "mine"], **options)
    assert owner.rows("SELECT count(DISTINCT mine), min(mood) FROM release.people") == [(30, "low")]
    assert [kind for _, kind, _ in types(owner, "release.people")][1:] == ["text"] * 3
    with pytest.raises(UnsupportedType, match="a domain within another type"):
        owner.anonymize(keep=["nested"], if_exists="replace", **options)
    assert owner.rows("SELECT last_value, is_called FROM evil.sprung") == called


def test_types_without_a_binary_form(postgresql: PostgresqlDatabase) -> None:
    postgresql.execute(
        *CREATE_PEOPLE,
        "ALTER TABLE people ADD may aclitem[] DEFAULT '{}'",
    )
    error = refuse(
        postgresql,
        UnsupportedType,
        'Column "may"',
        quasi_identifiers=["x"],
        keep=["may"],
        kept_columns="client",
    )
    assert "aclitem has no binary form" in str(error)
    assert postgresql.anonymize(quasi_identifiers=["x"], keep=["may"]).rows_out == 400


def test_a_check_that_a_value_fails_tells_nothing_of_it(
    postgresql: PostgresqlDatabase, pg_server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """A domain's check that was added later: values are there that it refuses."""
    postgresql.execute(
        "CREATE DOMAIN person AS text",
        "CREATE TABLE people (x double precision, who person)",
        f"INSERT INTO people SELECT g, '{SECRET} ' || g FROM generate_series(1, 30) AS g",
        "ALTER DOMAIN person ADD CONSTRAINT no_digits CHECK (VALUE !~ '[0-9]') NOT VALID",
    )
    with pg_server.capture_log() as log:
        error = refuse(
            postgresql,
            DatabaseFailure,
            "a check of its type",
            quasi_identifiers=["x"],
            keep=["who"],
            kept_columns="client",
        )
    error_text = f"{error} {error.detail} {error.hint} {error!r} {caplog.text}"
    assert "SQLSTATE 23514" in error_text
    for trace in ("Jane", "123-45"):
        assert trace not in error_text
        assert trace not in log.text
    # Where they stay, nothing is checked anew.
    assert postgresql.anonymize(quasi_identifiers=["x"], keep=["who"]).rows_out == 30


def test_a_server_that_breaks_off_tells_no_value(
    postgresql: PostgresqlDatabase, pg_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes that are no rows: the server says what it cannot read, without what it read."""
    postgresql.execute(
        "CREATE TABLE people (x double precision, who text)",
        f"INSERT INTO people SELECT g, '{SECRET} ' || g FROM generate_series(1, 30) AS g",
    )
    copied = PsycopgConnection.copy_bytes

    def broken(self: Any, copy: str, pieces: Any) -> None:
        payload = b"".join(bytes(piece) for piece in pieces)
        copied(self, copy, [payload.replace(SECRET.encode(), b"\xff" + SECRET[1:].encode())])

    monkeypatch.setattr(PsycopgConnection, "copy_bytes", broken)
    with pg_server.capture_log() as log:
        error = refuse(
            postgresql,
            UnsupportedType,
            "",
            quasi_identifiers=["x"],
            keep=["who"],
            kept_columns="client",
        )
    for trace in ("ane Roe", "123-45"):
        assert trace not in f"{error} {error.detail} {error.hint}"
        assert trace not in log.text


def test_no_logging_shows_a_value(postgresql: PostgresqlDatabase, pg_server: Server) -> None:
    postgresql.execute(
        "CREATE TABLE people (x double precision, who text)",
        f"INSERT INTO people SELECT 7317300.5 + g, '{SECRET} ' || g FROM generate_series(1, 30) g",
    )
    statements: list[str] = []
    with pg_server.capture_log(statements=True) as log:
        report = postgresql.anonymize(
            quasi_identifiers=["x"], keep=["who"], kept_columns="client", on_sql=statements.append
        )
    assert "FREEZE" in log.text
    for trace in ("Jane", "123-45", "73173"):
        for text in (log.text, json.dumps(statements), json.dumps(report.to_dict())):
            assert trace not in text


def test_a_plan_counts_what_passes_through_the_client(postgresql: PostgresqlDatabase) -> None:
    postgresql.execute(
        "CREATE TABLE people AS SELECT g AS id, g / 7.0::float8 AS x, (g % 9)::integer AS number,"
        " repeat('long ', g % 30) AS kept FROM generate_series(1, 3000) AS g",
        "ALTER TABLE people ADD PRIMARY KEY (id)",
    )
    options: dict[str, Any] = {"quasi_identifiers": ["x"], "k": 5, "kept_columns": "client"}

    def plan(**further: Any) -> int:
        call = options | further | {"table": "people", "output": "release.people"}
        call["if_exists"] = "replace"
        return dbanon.plan(postgresql.url, **call).memory

    # The widths of whole numbers are known: the plan says what the run needs, to the byte.
    needed = plan(keep=["number"])
    assert needed == plan(keep=["number"], kept_columns="server") + 3000 * (16 + 4 + 4)
    for function in (plan, postgresql.anonymize):
        with pytest.raises(MemoryLimit):
            function(**options | {"keep": ["number"], "memory_limit": needed - 1})
    report = postgresql.anonymize(**options, keep=["number"], memory_limit=needed)
    assert report.rows_out == 3000
    # Of texts the plan knows what the statistics say, and without any the lengths before them.
    assert plan(keep=["number", "kept"]) == needed + 3000 * 4
    postgresql.execute("ANALYZE people")
    with_statistics = plan(keep=["number", "kept"])
    read = needed + 3000 * 4 + sum(5 * (g % 30) for g in range(1, 3001))
    assert read <= with_statistics < 1.1 * read
    report = postgresql.anonymize(
        **options, keep=["number", "kept"], if_exists="replace", memory_limit=with_statistics
    )
    assert report.rows_out == 3000


def test_infinity_and_memory_end_it_as_ever(postgresql: PostgresqlDatabase) -> None:
    postgresql.execute(*CREATE_PEOPLE, "ALTER TABLE people ADD big numeric DEFAULT 1e305")
    options: dict[str, Any] = {"kept_columns": "client", "keep": ["kept"]}
    refuse(postgresql, NonFiniteValue, '"big"', quasi_identifiers=["big"], **options)
    postgresql.execute("UPDATE people SET kept = repeat('long ', 100)")
    refuse(
        postgresql,
        MemoryLimit,
        "kept columns in the client's memory",
        quasi_identifiers=["x"],
        memory_limit=100_000,
        **options,
    )
    assert (
        postgresql.anonymize(quasi_identifiers=["x"], keep=["kept"], memory_limit=100_000).rows_out
        == 400
    )


@pytest.mark.parametrize(
    "overrides",
    [
        {"entity": "id"},
        {"spill": "somewhere", "block_size": 50},
        {"kept_columns": "nowhere"},
        {"kept_columns": ""},
        {"kept_columns": None},
    ],
)
def test_what_does_not_go_with_it(
    postgresql: PostgresqlDatabase, overrides: dict[str, Any]
) -> None:
    postgresql.execute(*CREATE_PEOPLE)
    options = {"quasi_identifiers": ["x"], "keep": ["kept"], "kept_columns": "client"} | overrides
    refuse(postgresql, InvalidParameter, "", **options)


def test_another_database_is_another_way(
    postgresql: PostgresqlDatabase, duckdb_file: Database
) -> None:
    postgresql.execute(*CREATE_PEOPLE)
    refuse(
        postgresql,
        InvalidParameter,
        "one PostgreSQL",
        quasi_identifiers=["x"],
        keep=["kept"],
        kept_columns="client",
        target=duckdb_file.url,
    )


@pytest.mark.parametrize("name", ["duckdb", "sqlite"])
def test_other_databases_refuse_it(make_database: Callable[[str], Database], name: str) -> None:
    database = make_database(name)
    database.load("people", {"x": database.types["double"]}, [(float(i),) for i in range(9)])
    refuse(
        database, InvalidParameter, "one PostgreSQL", quasi_identifiers=["x"], kept_columns="client"
    )
    assert database.anonymize(quasi_identifiers=["x"], kept_columns="server").rows_out == 9


def test_a_plan_carries_nothing(postgresql: PostgresqlDatabase, tmp_path: Path) -> None:
    postgresql.execute(*CREATE_PEOPLE)
    statements: list[str] = []
    planned = dbanon.plan(
        postgresql.url,
        table="people",
        output="release.people",
        quasi_identifiers=["x"],
        k=3,
        keep=["kept"],
        kept_columns="client",
        cluster=True,
        on_sql=statements.append,
    )
    assert not any("kept" in sql and "COPY" in sql for sql in statements)
    assert planned.arguments["kept_columns"] == "client"
    assert (
        "columns copied as they are",
        "pass through this program's memory",
    ) in planned.pairs()


def test_an_export_is_the_release(postgresql: PostgresqlDatabase, tmp_path: Path) -> None:
    postgresql.execute(*CREATE_PEOPLE)
    path = tmp_path / "people.csv"
    report = postgresql.anonymize(
        quasi_identifiers=["x"], keep=["kept"], kept_columns="client", exports=[str(path)]
    )
    assert len(path.read_text().splitlines()) == report.rows_out + 1


def test_the_command_line_and_job_files_say_it(
    postgresql: PostgresqlDatabase, tmp_path: Path
) -> None:
    postgresql.execute(
        "CREATE TABLE people AS SELECT x, kept FROM (VALUES (1.5, 'a'), (2, 'b'),"
        " (3, 'a'), (4, 'b')) AS v (x, kept)"
    )
    words = ["anonymize", postgresql.url, "--table", "people", "--quasi-identifiers", "x", "--k"]
    words += ["2", "--keep", "kept", "--output", "release.people", "--kept-columns", "client"]
    done = CliRunner().invoke(main, words, env={"COLUMNS": "200"})
    assert done.exit_code == 0
    assert "passed through the client's memory" in done.stdout
    file = tmp_path / "job.yaml"
    file.write_text(
        'version: 1\nsource: {url: "${PEOPLE}"}\ndefaults: {k: 2, kept_columns: client}\njobs:\n'
        "  - name: people\n    table: people\n    columns: {x: {role: quasi_identifier},"
        " kept: {role: keep, reason: public}}\n    output: {table: release.again}\n"
    )
    environment = {"PEOPLE": postgresql.url, "COLUMNS": "200"}
    done = CliRunner().invoke(main, ["run", str(file)], env=environment)
    assert done.exit_code == 0, done.output
    rows = postgresql.rows(
        "SELECT output_name, arguments::json->>'kept_columns' FROM"
        " dbanon.release ORDER BY output_name"
    )
    assert rows == [("again", "client"), ("people", "client")]
