"""Shared by tests of the ledger: a source, and entries in the form that the recording function
takes.
"""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest
from sqlalchemy import NullPool, create_engine

import dbanon

PEOPLE = (
    "CREATE TABLE app.people AS SELECT g AS id, sin(g) AS a, 'n ' || g AS name"
    " FROM generate_series(1, 60) AS g"
)


def anonymize(url: str, output: str = "release.p", **overrides: Any) -> dbanon.Report:
    engine = create_engine(url, poolclass=NullPool)
    arguments: dict[str, Any] = {"table": "app.people", "quasi_identifiers": ["a"], "k": 5}
    return dbanon.anonymize(engine, output=output, **(arguments | overrides))


def entry(release_id: str, relation: int, output: int | None = None, **changes: Any) -> list[str]:
    """The three arguments of the recording function, for a release of one column."""
    release = {
        "release_id": release_id,
        "relation_oid": relation,
        "output_oid": output or relation,
        "dbanon_version": "0.2.0",
        "source": "app.people",
        "method": "mdav",
        "arguments": {"by": []},
        "k_requested": 5,
        "k_achieved": 5,
        "rows_in": 5,
        "rows_out": 5,
        "suppressed": 0,
        "null_rows": 0,
        "classes": 1,
        "smallest_class": 5,
        "median_class": 5,
        "largest_class": 5,
        "histogram": {"5": 1},
        "information_loss": 0,
        "information_loss_before_rounding": 0,
        "seconds": {},
        "guarantee": "rows",
        "seed_policy": "fresh",
        "earlier_releases": "none",
    }
    columns = [{"position": 0, "name": "a", "role": "quasi_identifier", "sql_type": "integer"}]
    run = {"door": "sql", "elapsed": 1}
    return [json.dumps(part) for part in (release | changes, columns, run)]


RECORD = "SELECT dbanon._record_release(%s::jsonb, %s::jsonb, %s::jsonb)"
MAKE = "CREATE TABLE {0} AS SELECT 1 AS a FROM generate_series(1, 5)"


def oid(connection: psycopg.Connection[Any], name: str) -> int:
    row = connection.execute("SELECT %s::regclass::oid::bigint", (name,)).fetchone()
    assert row is not None
    return int(row[0])


def mark(
    connection: psycopg.Connection[Any], name: str, release_id: str, kind: str = "TABLE"
) -> None:
    connection.execute(f"COMMENT ON {kind} {name} IS 'dbanon release {release_id}'".encode())


def expect_refusal(connection: psycopg.Connection[Any], arguments: list[str], *states: str) -> None:
    with pytest.raises(psycopg.Error) as failure, connection.transaction():
        connection.execute(RECORD, arguments)
    assert failure.value.sqlstate in (states or ("42501",)), failure.value
