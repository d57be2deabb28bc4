"""Kept columns that travel with the client and back: the release is the one by the server."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import dbanon
from tests.postgres_server import Server
from tests.stores.databases import PostgresqlDatabase
from tests.stores.test_written_from_arrays import CREATE_PEOPLE, HISTORIES, STAGED, classes_of

# Kept columns of row g, one for each kind with its own wire format.
KEPT_TYPES = {
    "whole": ("integer", "g"),
    "small": ("smallint", "CASE WHEN g % 3 > 0 THEN g END"),
    "money": ("numeric(9,3)", "g / 7.0"),
    "open": ("numeric", "CASE g % 4 WHEN 0 THEN 'NaN' WHEN 1 THEN 'infinity' ELSE g * 1.500 END"),
    "zero": ("float8", "CASE g % 3 WHEN 0 THEN '-0' WHEN 1 THEN 'NaN' ELSE g::float8 END"),
    "single": ("real", "g / 3.0"),
    "word": ("text", "CASE g % 5 WHEN 0 THEN '' WHEN 1 THEN NULL ELSE E'é\\n\\t\\\\N \"' || g END"),
    "short": ("varchar(12)", "'v' || g"),
    "padded": ("char(7)", "'c' || g"),
    "letter": ('"char"', "'x'"),
    "bits": ("bit varying(9)", "(g % 512)::bit(9)"),
    "raw": ("bytea", "decode(md5(g::text), 'hex') || '\\x00ff'::bytea"),
    "doc": ("jsonb", "CASE WHEN g % 2 = 0 THEN jsonb_build_object('a', g, 'b', NULL) END"),
    "asis": ("json", "('{\"b\":  ' || g || ' }')::json"),
    "list": ("text[]", "ARRAY['a', NULL, 'g' || g]"),
    "grid": ("integer[]", "'[0:1][2:3]={{1,2},{3,NULL}}'::integer[]"),
    "empty": ("date[]", "'{}'"),
    "day": ("date", "CASE g % 9 WHEN 0 THEN '-infinity' ELSE date '1999-01-01' + g END"),
    "instant": ("timestamptz(3)", "timestamptz '1999-12-31 23:59:59.12+02' + g * '1h'::interval"),
    "clock": ("time with time zone", "time '12:30' + g * '1s'::interval"),
    "span": ("interval", "g * interval '1 month 2 days 3 s'"),
    "yes": ("boolean", "g % 2 = 0"),
    "id": ("uuid", "md5(g::text)::uuid"),
    "net": ("inet", "('10.0.0.' || g % 256)::inet"),
    "spot": ("point", "point(g, -g)"),
    "range": ("int4range", "int4range(g, g + 3)"),
    "spans": ("datemultirange", "datemultirange(daterange('2000-01-01', date '2000-01-02' + g))"),
    "mood": ("mood", "(enum_range(NULL::mood))[1 + g % 3]"),
    "moods": ("mood[]", "enum_range(NULL::mood)"),
    "checked": ("positive", "g"),
    "pair": ("pair", "ROW(g, 'p' || g)::pair"),
    "words": ("tsvector", "to_tsvector('simple', 'some words ' || g)"),
    "page": ("xml", "xmlparse(content '<a>' || g || '</a>')"),
    "sorted": ('text COLLATE "C"', "'s' || g"),
}
OWN_TYPES = (
    "CREATE TYPE mood AS ENUM ('low', 'mid', 'hi\"gh')",
    "CREATE DOMAIN positive AS numeric(8,2) CHECK (VALUE > 0)",
    "CREATE TYPE pair AS (a integer, b text)",
)
# Quasi-identifiers, released as means and as nodes of trees.
NUMBERS = {
    "a": ("double precision", "(g * 7919 % 1009) / 8.0"),
    "b": ("integer", "CASE WHEN g % 11 > 0 THEN g * 104729 % 997 END"),
    "c": ("bigint", "g::bigint * 1000003"),
    "d": ("smallint NOT NULL", "g % 100"),
    "e": ("numeric(7,2)", "g / 3.0"),
    "f": ("numeric", "CASE WHEN g % 11 > 1 THEN g * 0.125 END"),
    "h": ("date", "date '2001-02-03' - g"),
    "i": ("timestamp(0)", "timestamp '2020-01-01' + g * interval '1 day'"),
    "j": ("real", "g / 16.0"),
    "k": ("numeric(30)", "(g % 9) * 1e25::numeric"),
    "l": ("positive", "g"),
}
PLAIN = ["a", "c", "d", "h"]


def make(database: PostgresqlDatabase, rows: int = 240, **more: tuple[str, str]) -> list[str]:
    """A table with all of these columns; the names of those that are kept."""
    database.execute(*OWN_TYPES)
    columns = {**KEPT_TYPES, **NUMBERS, **more}
    body = ", ".join(f'"{name}" {kind}' for name, (kind, _) in columns.items())
    database.execute(
        f"CREATE TABLE people ({body}, twice integer GENERATED ALWAYS AS (whole * 2) STORED)"
    )
    names = ", ".join(f'"{name}"' for name in columns)
    values = ", ".join(
        f"({value})::{kind.partition(' NOT')[0]}" for kind, value in columns.values()
    )
    database.execute(
        f"INSERT INTO people ({names}) SELECT {values} FROM generate_series(1, {rows}) AS g"
    )
    return [*KEPT_TYPES, "twice"]


def texts(database: PostgresqlDatabase, table: str) -> Counter[str]:
    return Counter(row for (row,) in database.rows(f"SELECT r::text FROM {table} AS r"))


def types(database: PostgresqlDatabase, table: str) -> list[tuple[Any, ...]]:
    return database.rows(
        "SELECT attname, format_type(atttypid, atttypmod), attcollation FROM pg_attribute"
        f" WHERE attrelid = '{table}'::regclass AND attnum > 0 ORDER BY attnum"
    )


def both_ways(
    database: PostgresqlDatabase, statements: list[str] | None = None, **options: Any
) -> dbanon.Report:
    """Release both ways, and check that releases, types and reports are alike."""
    executed = [] if statements is None else statements
    by_server = database.anonymize(output="release.by_server", **options)
    report = database.anonymize(
        output="release.people", kept_columns="client", on_sql=executed.append, **options
    )
    assert any("FROM STDIN (FORMAT binary, FREEZE)" in sql for sql in executed)
    assert not any("INSERT INTO" in sql and '"people' in sql for sql in executed)
    assert types(database, "release.people") == types(database, "release.by_server")
    assert texts(database, "release.people") == texts(database, "release.by_server")
    for name in ("rows_out", "suppressed", "classes", "k_achieved", "information_loss"):
        assert getattr(report, name) == getattr(by_server, name)
    assert report.arguments["kept_columns"] == "client"
    assert "kept_columns" not in by_server.arguments
    assert dbanon.verify(database.url, "release.people").digest == "unchanged"
    return report


pytestmark = pytest.mark.postgresql


@pytest.mark.parametrize("chunk_rows", [7, 65_536])
def test_every_type_comes_back_as_it_was(postgresql: PostgresqlDatabase, chunk_rows: int) -> None:
    columns = make(postgresql)
    report = both_ways(
        postgresql, quasi_identifiers=PLAIN, keep=columns, k=5, chunk_rows=chunk_rows
    )
    assert report.rows_out == 240
    assert postgresql.rows("SELECT count(*) FROM release.people WHERE word IS NULL") == [(48,)]


def test_values_of_classes_have_their_types(postgresql: PostgresqlDatabase) -> None:
    make(postgresql)
    both_ways(postgresql, quasi_identifiers=[*NUMBERS], keep=["mood"], k=4, nulls="category")


@pytest.mark.parametrize("intervals", ["text", "bounds", "midpoint", "range"])
def test_trees_intervals_and_strata(postgresql: PostgresqlDatabase, intervals: str) -> None:
    make(postgresql, site=("text", "chr(97 + g % 4)"))
    both_ways(
        postgresql,
        quasi_identifiers=["site", "a", "e", "h", "mood"],
        by=["yes"],
        sensitive=["small"],
        keep=["doc", "list"],
        method="mondrian",
        intervals=intervals,
    )


def test_plain_values_are_not_staged(postgresql: PostgresqlDatabase) -> None:
    make(postgresql)
    for names, staged in ((PLAIN, False), ([*PLAIN, "e"], True)):
        statements: list[str] = []
        both_ways(
            postgresql, statements, quasi_identifiers=names, keep=["word"], if_exists="replace"
        )
        assert any("dbanon_classes" in sql for sql in statements) == staged
        assert not any("dbanon_arrays" in sql or "dbanon_labels" in sql for sql in statements)


def test_no_kept_columns(postgresql: PostgresqlDatabase) -> None:
    make(postgresql)
    both_ways(postgresql, quasi_identifiers=PLAIN)


@pytest.mark.parametrize("history", [*HISTORIES, *STAGED])
def test_values_belong_to_their_rows(postgresql: PostgresqlDatabase, history: str) -> None:
    postgresql.execute(*CREATE_PEOPLE)
    for statement in (HISTORIES | STAGED)[history]:
        postgresql.execute(statement)
    kept_column = "place" if history == "a name of ours" else "kept"
    report = both_ways(
        postgresql,
        quasi_identifiers=["x", "y"],
        keep=[kept_column],
        nulls="suppress",
        max_suppression=0.6,
        chunk_rows=50,
    )
    assert report.rows_out == classes_of(postgresql, ("x", "y"), kept_column)


@pytest.mark.parametrize("kind", ["VIEW", "MATERIALIZED VIEW"])
def test_rows_in_another_order_than_their_keys(postgresql: PostgresqlDatabase, kind: str) -> None:
    postgresql.execute(
        *CREATE_PEOPLE,
        f"CREATE {kind} shown AS SELECT x, y, kept, 'k' || md5(id::text) AS key FROM people"
        " ORDER BY md5(id::text || 'x')",
    )
    for key in ([], ["key"]):
        if kind == "VIEW" and not key:
            continue
        both_ways(
            postgresql,
            table="shown",
            quasi_identifiers=["x", "y"],
            keep=["kept"],
            key=key,
            if_exists="replace",
            chunk_rows=33,
        )
        classes_of(postgresql, ("x", "y"), "kept")


def test_withheld_rows_and_a_condition(postgresql: PostgresqlDatabase) -> None:
    postgresql.execute(*CREATE_PEOPLE, "UPDATE people SET x = NULL WHERE id % 10 = 0")
    report = both_ways(
        postgresql,
        quasi_identifiers=["x", "y"],
        keep=["kept"],
        where="id < 333",
        nulls="suppress",
        max_suppression=0.5,
    )
    assert (report.rows_out, report.suppressed) == (299, 33)


def test_classes_that_fail_a_model_are_withheld(postgresql: PostgresqlDatabase) -> None:
    make(postgresql)
    both_ways(
        postgresql,
        quasi_identifiers=["a"],
        sensitive=["mood"],
        keep=["word"],
        k=3,
        models=[{"attribute": "mood", "kind": "distinct_l", "level": 3}],
        withhold_failing=True,
        max_suppression=0.9,
    )


def test_rows_go_in_random_order(postgresql: PostgresqlDatabase) -> None:
    postgresql.execute(
        "CREATE TABLE people AS SELECT g::float8 AS x, g AS id FROM generate_series(1, 2000) g"
    )
    orders = []
    for _ in range(2):
        postgresql.anonymize(
            quasi_identifiers=["x"], keep=["id"], k=50, kept_columns="client", if_exists="replace"
        )
        orders.append(
            [row for (row,) in postgresql.rows("SELECT id FROM release.people ORDER BY ctid")]
        )
    assert sorted(orders[0]) == sorted(orders[1])
    for order in orders:
        # Within a class, which are 50 neighbours, too: as many steps go up as down.
        ups = int((np.diff(order) > 0).sum())
        assert 850 < ups < 1150
    assert sum(a == b for a, b in zip(*orders, strict=True)) < 60


def test_another_encoding(pg_server: Server) -> None:
    """Texts come back as their bytes were, also those that are no UTF-8."""
    for encoding in ("SQL_ASCII", "LATIN1"):
        pg_server.execute(
            f"CREATE DATABASE {encoding} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0"
        )
        name = encoding.lower()
        try:
            database = PostgresqlDatabase(pg_server.url(name))
            site_expression = "chr(65 + g % 20)" if encoding == "SQL_ASCII" else "chr(192 + g % 40)"
            database.execute(
                f"CREATE TABLE people AS SELECT g AS id, g::float8 AS x, {site_expression} AS site,"
                " 'plain'::text AS kept FROM generate_series(1, 60) AS g",
            )
            if encoding == "SQL_ASCII":
                database.execute("SET client_encoding = 'SQL_ASCII'")
                database.execute(
                    "UPDATE people SET kept = kept || convert_from('\\xe9ff'::bytea, 'SQL_ASCII')"
                )
            database.anonymize(
                quasi_identifiers=["x", "site"],
                keep=["id", "kept"],
                method="mondrian",
                kept_columns="client",
            )
            assert database.rows(
                "SELECT count(*) FROM release.people AS r JOIN people AS p USING (id)"
                " WHERE r.kept::bytea = p.kept::bytea AND r.site IN (p.site, '*')"
            ) == [(60,)]
        finally:
            pg_server.drop_database(name)
