"""Coding in SQL: the same release as through the client."""

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
    "CREATE TABLE app.people AS SELECT g AS id, g * 37 % 97 AS age, g * 17 % 50 + 150 AS height"
    " FROM generate_series(1, 120) AS g",
    "UPDATE app.people SET age = NULL WHERE id % 10 = 3",
)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("mdav", {"top": {"height": 190}, "bottom": {"height": 160}}),
        ("gaa_cp", {"recode": {"age": [0, 18, 30.0, 45, 65]}}),
    ],
)
def test_the_same_by_both_ways(
    run_sql: Run, sql_url: str, method: str, options: dict[str, Any]
) -> None:
    for statement in SET_UP:
        run_sql(statement)
    dbanon.anonymize(
        create_engine(sql_url, poolclass=NullPool),
        table="app.people",
        output="release.client",
        quasi_identifiers=["age", "height"],
        k=4,
        method=method,
        nulls="category",
        **options,
    )
    run_sql(
        f"SELECT dbanon.{method}('app.people', 'release.sql', %s, 4, nulls => 'category',"
        " options => %s)",
        ["age", "height"],
        json.dumps({**options, "releases": "independent"}),
    )
    client, sql = (
        run_sql(f"SELECT age, height, count(*) FROM release.{name} GROUP BY 1, 2 ORDER BY 1, 2")
        for name in ("client", "sql")
    )
    assert client == sql
    labels = {str(value) for row in sql for value in row[:2]}
    assert labels & {"190+", "<160", "18-29", "65+", "45-64"}


def test_groups(run_sql: Run) -> None:
    run_sql(
        "CREATE TABLE app.people AS SELECT g AS id, chr(65 + g % 5) AS town, g % 3 AS walls"
        " FROM generate_series(1, 120) AS g"
    )
    groups = {"town": {"West": ["A", "B"], "Other": "*"}, "walls": {"wood": [0, 1], "brick": [2]}}
    run_sql(
        "SELECT dbanon.gaa_cp('app.people', 'release.sql', '{town,walls}', 4, options => %s)",
        json.dumps({"recode": groups}),
    )
    labels = run_sql("SELECT DISTINCT town, walls FROM release.sql ORDER BY 1, 2")
    assert labels == [
        *(("Other", "brick"), ("Other", "wood")),
        *(("West", "brick"), ("West", "wood")),
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top": {"age": "90"}}, "top must be numbers, or percentiles such as p99.5, by column"),
        ({"recode": {"age": [30, 18]}}, "do not ascend"),
        ({"bottom": {"id": 5}}, "neither a quasi-identifier nor copied"),
        ({"recode": {"age": {"young": [1]}}}, '"age" of type text is not a number'),
        ({"recode": {"age": {"young": []}}}, "A group has no value"),
    ],
)
def test_wrong_values(run_sql: Run, options: dict[str, Any], message: str) -> None:
    for statement in SET_UP:
        run_sql(statement)
    with pytest.raises(psycopg.Error, match=message):
        run_sql(
            "SELECT dbanon.mdav('app.people', 'release.sql', '{age}', 4, nulls => 'category',"
            " options => %s)",
            json.dumps(options),
        )


def test_a_profile(run_sql: Run) -> None:
    for statement in SET_UP:
        run_sql(statement)
    call = (
        "SELECT dbanon.mdav('app.people', 'release.sql', %s, 4, nulls => 'category', options => %s)"
    )
    with pytest.raises(psycopg.Error, match="break the profile hipaa") as refused:
        run_sql(call, ["age", "height"], json.dumps({"profile": "hipaa"}))
    assert refused.value.sqlstate == "ZK002"
    assert '"age": (C) ages above 89' in str(refused.value.diag.message_detail)
    run_sql(call, ["age", "height"], json.dumps({"profile": "hipaa", "top": {"age": 90}}))
    assert run_sql("SELECT arguments ->> 'profile' FROM dbanon.release") == [("hipaa",)]


def test_zip_codes_of_large_areas(run_sql: Run) -> None:
    run_sql(
        "CREATE TABLE app.patients AS SELECT g AS id, (array['10001', '10002', '03601', NULL])"
        "[1 + g % 4] AS zip FROM generate_series(1, 32) AS g"
    )
    run_sql(
        "CREATE TABLE app.census AS SELECT * FROM (VALUES ('10001', 15000), ('10002', 6000),"
        " ('03601', 20000)) AS v(zip, population)"
    )
    run_sql(
        "SELECT dbanon.gaa_cp('app.patients', 'release.sql', '{zip}', 4, nulls => 'category',"
        " options => %s)",
        json.dumps({"profile": "hipaa", "zip_population": "app.census"}),
    )
    counts = run_sql("SELECT zip, count(*) FROM release.sql GROUP BY 1 ORDER BY 1")
    assert counts == [("000", 8), ("100", 16), (None, 8)]
    assert run_sql("SELECT arguments ->> 'zip_population' FROM dbanon.release") == [("app.census",)]
