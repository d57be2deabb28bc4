"""Design weights in SQL: the same release as through the client, by options and by rules."""

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
    "CREATE TABLE app.people AS SELECT g AS id, g * 37 % 97 AS age, g * 17 % 50 + 150 AS height,"
    " (10 + g * 13 % 89 / 7.0)::numeric(10, 3) AS w FROM generate_series(1, 120) AS g"
)
RULES = '{"id": "identifier", "age": "quasi_identifier", "height": "quasi_identifier"}'


@pytest.mark.parametrize("form", ["mean", "rounded"])
def test_the_same_by_all_ways(run_sql: Run, sql_url: str, form: str) -> None:
    run_sql(SET_UP)
    dbanon.anonymize(
        create_engine(sql_url, poolclass=NullPool),
        table="app.people",
        output="release.client",
        quasi_identifiers=["age", "height"],
        k=4,
        design_weight="w",
        weight_as=form,
    )
    options = {"design_weight": "w", "weight_as": form, "releases": "independent"}
    call = "SELECT dbanon.mdav('app.people', 'release.{}', {}k => 4, options => %s)"
    run_sql(call.format("sql", "'{age,height}', "), json.dumps(options))
    run_sql("SELECT dbanon.declare('app.people', %s)", RULES)
    rule = {"w": {"role": "weight", "weight_as": form}}
    run_sql("SELECT dbanon.declare('app.people', %s)", json.dumps(rule))
    run_sql(call.format("rules", ""), json.dumps({"releases": "independent"}))
    by_client, by_sql, by_rules = (
        run_sql(
            f"SELECT age, height, w, count(*) FROM release.{name} GROUP BY 1, 2, 3 ORDER BY 1, 2"
        )
        for name in ("client", "sql", "rules")
    )
    assert by_client == by_sql == by_rules
    [(total,)] = run_sql("SELECT sum(w) FROM app.people")
    released_total = sum(weight * n for *_, weight, n in by_sql)
    largest_class = max(n for *_, n in by_sql)
    assert released_total == pytest.approx(
        float(total), rel=1e-9, abs=0 if form == "mean" else largest_class / 2 + 0.5
    )
    assert isinstance(released_total, float if form == "mean" else int)
    assert run_sql("SELECT unchanged FROM dbanon.verify('release.rules')") == [(True,)]


def test_one_column_is_the_weight(run_sql: Run) -> None:
    run_sql(SET_UP)
    run_sql(
        """SELECT dbanon.declare('app.people', '{"w": {"role": "weight", "weight_as": "mean"}}')"""
    )
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="More than one column"):
        run_sql("""SELECT dbanon.declare('app.people', '{"height": "weight"}')""")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="has a key that"):
        run_sql("""SELECT dbanon.declare('app.people', '{"w": {"role": "weight", "step": 2}}')""")
