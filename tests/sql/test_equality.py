"""The same table through SQL and through the client: the same classes and values."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import NullPool, create_engine

import dbanon
from dbanon.methods import METHODS

Run = Callable[..., list[tuple[Any, ...]]]

EDGE_CASES = """
CREATE TABLE app.edges AS
SELECT (g * 7919 % 1000)::smallint AS small, (9007199254740992 + g * 104729 % 5000)::bigint AS wide,
       (g * 31 % 97)::numeric / 7 AS bare, (g * 17 % 1013 / 100.0)::numeric(10,2) AS money,
       (g * 13 % 89 * 1e-300)::float8 AS tiny, (g % 53 / 3.0)::real AS single,
       date '2000-02-28' + (g * 11 % 400)::integer AS born,
       timestamptz '1999-12-31 23:59:59.999999+00' + g * 37 % 1000 * interval '1 hour 0.000001 s'
           AS seen,
       timestamp(0) '1969-12-31 00:00:00' + g * 41 % 1000 * interval '59 min' AS clock,
       'text ' || g AS label, g AS id
FROM generate_series(1, 300) AS g"""
EDGE_COLUMNS = ["small", "wide", "bare", "money", "tiny", "single", "born", "seen", "clock"]


def _by_both(run_sql: Run, url: str, table: str, columns: list[str], **given: Any) -> None:
    """Release the table by both ways, and compare all rows."""
    given = {"k": 4, "method": "mdav", "nulls": "error", "keep": [], "options": {}, **given}
    engine = create_engine(url, poolclass=NullPool)
    dbanon.anonymize(
        engine, table=table, output="release.client", quasi_identifiers=columns,
        k=given["k"], method=given["method"], nulls=given["nulls"], keep=given["keep"],
        options={name: value for name, value in given["options"].items() if name != "seed"},
        seed=given["options"].get("seed", 0),
    )  # fmt: skip
    run_sql(
        "SELECT dbanon." + given["method"] + "(%s::regclass, 'release.sql', %s, %s, nulls => %s,"
        " keep => %s, options => %s, max_suppression => 1)",
        table, columns, given["k"], given["nulls"], given["keep"], json.dumps(given["options"]),
    )  # fmt: skip
    client = run_sql("SELECT t::text FROM release.client t ORDER BY t::text")
    assert client
    assert run_sql("SELECT t::text FROM release.sql t ORDER BY t::text") == client
    losses = run_sql("SELECT DISTINCT information_loss, histogram::text FROM dbanon.release")
    assert len(losses) == 1


@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_the_same_release(run_sql: Run, sql_url: str, method: str) -> None:
    run_sql(
        "CREATE TABLE app.people AS SELECT g AS id, sin(g) AS a, cos(g * g) AS b,"
        " g * 7919 % 101 AS c, 'n ' || g AS name FROM generate_series(1, 400) AS g"
    )
    _by_both(
        run_sql, sql_url, "app.people", ["a", "b", "c"],
        method=method, keep=["name"], options={"seed": 11},
    )  # fmt: skip


@pytest.mark.parametrize("key", ["", "PRIMARY KEY (id)", "PRIMARY KEY (label)"])
def test_numeric_edge_cases(run_sql: Run, sql_url: str, key: str) -> None:
    run_sql(EDGE_CASES)
    if key:
        run_sql(f"ALTER TABLE app.edges ADD {key}")
    _by_both(run_sql, sql_url, "app.edges", EDGE_COLUMNS, keep=["label"])


@pytest.mark.parametrize("nulls", ["suppress", "category"])
def test_null_handling(run_sql: Run, sql_url: str, nulls: str) -> None:
    run_sql(EDGE_CASES)
    run_sql("UPDATE app.edges SET wide = NULL WHERE id % 10 = 0")
    run_sql("UPDATE app.edges SET born = NULL, tiny = NULL WHERE id % 15 = 0")
    _by_both(run_sql, sql_url, "app.edges", EDGE_COLUMNS, keep=["label"], nulls=nulls)


@pytest.mark.parametrize(
    "made",
    [
        "CREATE TABLE app.parts (id integer, a float8) PARTITION BY LIST (id);"
        "CREATE TABLE app.parts1 PARTITION OF app.parts FOR VALUES IN (1);"
        "CREATE TABLE app.parts2 PARTITION OF app.parts DEFAULT;"
        "INSERT INTO app.parts SELECT g % 3, sin(g) FROM generate_series(1, 100) AS g",
        "CREATE TABLE app.base (id integer, a float8);"
        "INSERT INTO app.base SELECT g % 3, sin(g) FROM generate_series(1, 100) AS g;"
        "CREATE MATERIALIZED VIEW app.parts AS SELECT * FROM app.base",
        "CREATE TABLE app.parts (id integer, a float8);"
        "CREATE TABLE app.child (b integer) INHERITS (app.parts);"
        "INSERT INTO app.parts SELECT g % 3, sin(g) FROM generate_series(1, 50) AS g;"
        "INSERT INTO app.child SELECT g % 3, cos(g) FROM generate_series(1, 50) AS g",
    ],
    ids=["partitioned", "materialized", "inherited"],
)
def test_other_relations(run_sql: Run, sql_url: str, made: str) -> None:
    for statement in made.split(";"):
        run_sql(statement)
    _by_both(run_sql, sql_url, "app.parts", ["a"], keep=["id"])


def test_a_view_needs_a_key(run_sql: Run, sql_url: str) -> None:
    run_sql("CREATE VIEW app.numbers AS SELECT g AS id, sin(g) AS a FROM generate_series(1, 99) g")
    call = "SELECT (dbanon.mdav('app.numbers', 'release.n', '{a}', 3, options => %s)).rows_out"
    with pytest.raises(Exception, match="no key of their own") as failure:
        run_sql(call, "{}")
    assert failure.value.sqlstate == "0A000"  # type: ignore[attr-defined]
    assert run_sql(call, '{"key": ["id"]}') == [(99,)]


def test_classes_are_those_of_the_release(run_sql: Run, sql_url: str) -> None:
    run_sql("CREATE TABLE app.t AS SELECT g AS id, sin(g) AS a FROM generate_series(1, 200) AS g")
    run_sql("ALTER TABLE app.t ADD PRIMARY KEY (id)")
    labels = [
        label
        for _, label in run_sql(
            "SELECT (row_key->>'id')::integer, class FROM dbanon.classes('app.t', 'mdav', '{a}', 5)"
            " ORDER BY 1"
        )
    ]
    values = [[value] for (value,) in run_sql("SELECT a FROM app.t ORDER BY id")]
    assert labels == dbanon.partition(values, k=5).labels.tolist()
