"""Ranges in SQL: same values as through the client."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import NullPool, create_engine

import dbanon

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]


@pytest.mark.parametrize("local_range", [False, True])
def test_the_same_by_both_ways(run_sql: Run, sql_url: str, local_range: bool) -> None:
    run_sql(
        "CREATE TABLE app.people AS SELECT g AS id, g * 37 % 53 AS age, sin(g) AS height,"
        " (g * 17 % 1013 / 100.0)::numeric(10,2) AS money, g * 10::bigint AS wide,"
        " date '2000-02-28' + g * 11 % 400 AS born,"
        " timestamp(0) '2020-01-01' + g * 41 % 1000 * interval '59 min' AS clock,"
        " timestamptz '2020-01-01 00:00:00+00' + g * 37 % 1000 * interval '1 hour' AS seen"
        " FROM generate_series(1, 120) AS g"
    )
    run_sql("UPDATE app.people SET money = NULL WHERE id % 6 = 0")
    names = ["age", "height", "money", "wide", "born", "clock", "seen"]
    options = {"intervals": "range", "local_range": local_range, "steps": {"height": 0.1}}
    dbanon.anonymize(
        create_engine(sql_url, poolclass=NullPool),
        table="app.people",
        output="release.client",
        quasi_identifiers=names,
        keep=["id"],
        k=4,
        method="gaa_cp",
        nulls="category",
        intervals="range",
        local_range=local_range,
        steps={"height": 0.1},
    )
    run_sql(
        "SELECT dbanon.gaa_cp('app.people', 'release.sql', %s, 4, nulls => 'category',"
        " keep => '{id}', options => %s)",
        names,
        json.dumps(options),
    )
    client = run_sql("SELECT t::text FROM release.client t ORDER BY t::text")
    assert len(client) == 120
    assert run_sql("SELECT t::text FROM release.sql t ORDER BY t::text") == client
    types = run_sql(
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute"
        " WHERE attrelid = 'release.sql'::regclass AND attnum > 1 ORDER BY attnum"
    )
    assert [kind for (kind,) in types] == [
        *("int4range", "numrange", "numrange", "int8range", "daterange", "tsrange", "tstzrange"),
    ]
    assert run_sql("SELECT unchanged FROM dbanon.verify('release.sql')") == [(True,)]
