"""Ordinal columns in SQL: same release as through the client."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from sqlalchemy import NullPool, create_engine

import dbanon

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]

SET_UP = (
    "CREATE TYPE app.mood AS ENUM ('sad', 'ok', 'it''s', 'glad, or not')",
    "CREATE TABLE app.people AS SELECT g AS id, g * 37 % 53 AS age,"
    " (enum_range(NULL::app.mood))[1 + g * 17 / 3 % 4] AS mood,"
    " (ARRAY['none', 'school', 'bachelor'])[1 + g * 7 / 2 % 3] AS school"
    " FROM generate_series(1, 120) AS g",
    "UPDATE app.people SET mood = NULL WHERE id % 10 = 3",
)
ORDERS = {"school": ["none", "school", "bachelor"]}


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("mdav", {}),
        ("mdav", {"recoding": "medoid", "standardize": "range"}),
        ("gaa_cp", {}),
        ("gaa_cp", {"intervals": "bounds"}),
        ("mdav", {"orders": {"mood": ["it's", "sad", "glad, or not", "ok"]}}),
    ],
)
def test_the_same_by_both_ways(
    run_sql: Run, sql_url: str, method: str, options: dict[str, Any]
) -> None:
    for statement in SET_UP:
        run_sql(statement)
    options = options | {"orders": ORDERS | options.get("orders", {})}
    names = ["age", "mood", "school"]
    dbanon.anonymize(
        create_engine(sql_url, poolclass=NullPool),
        table="app.people",
        output="release.client",
        quasi_identifiers=names,
        keep=["id"],
        k=4,
        method=method,
        nulls="category",
        **options,
    )
    run_sql(
        f"SELECT dbanon.{method}('app.people', 'release.sql', %s, 4, nulls => 'category',"
        " keep => '{id}', options => %s)",
        names,
        json.dumps(options),
    )
    client = run_sql("SELECT t::text FROM release.client t ORDER BY t::text")
    assert len(client) == 120
    assert run_sql("SELECT t::text FROM release.sql t ORDER BY t::text") == client
    assert len(run_sql("SELECT DISTINCT information_loss FROM dbanon.release")) == 1
    types = run_sql(
        "SELECT count(*) FROM pg_attribute WHERE attrelid = 'release.sql'::regclass"
        " AND atttypid = 'app.mood'::regtype"
    )
    assert types == [(2 if "intervals" in options else 0 if method == "gaa_cp" else 1,)]
    classes = run_sql(
        "SELECT class, count(*) FROM dbanon.classes('app.people', %s, %s, 4, %s) GROUP BY 1",
        method,
        names,
        json.dumps({"orders": options["orders"], "nulls": "category"}),
    )
    assert min(size for _, size in classes) >= 4


@pytest.mark.parametrize(
    ("orders", "message"),
    [
        ({"school": ["none", "school"]}, "1 of 3 values, in "),
        ({"school": "none"}, "orders must be lists of texts"),
        ({"school": ["none", 1]}, "orders must be lists of texts"),
        (["none"], "orders must be lists of texts"),
        ({"nobody": ["none"]}, "is not a quasi-identifier"),
    ],
)
def test_refused(run_sql: Run, orders: Any, message: str) -> None:
    for statement in SET_UP[:2]:
        run_sql(statement)
    with pytest.raises(psycopg.Error, match=message) as failure:
        run_sql(
            "SELECT dbanon.mdav('app.people', 'release.p', '{age,school}', 4, options => %s)",
            json.dumps({"orders": orders}),
        )
    assert failure.value.sqlstate == "22023"
    assert "bachelor" not in str(failure.value)
    assert run_sql("SELECT to_regclass('release.p')") == [(None,)]
