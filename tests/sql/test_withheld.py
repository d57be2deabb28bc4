"""Rows withheld for a NULL do not affect anything that a SQL call returns."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]

# Numbers without a scale, a dictionary, numbers beyond 2**53, and rows that are withheld.
TABLE = (
    "CREATE TABLE app.{0} AS SELECT g AS id, CASE WHEN g % 10 > 0 THEN (g * 7 % 31)::numeric END"
    " AS age, (1000 + g * 37 % 500)::numeric AS pay, (g * 13 % 97)::bigint AS wide,"
    " chr(97 + g % 3) AS place, (ARRAY['flu', 'gout', 'none'])[1 + g % 3] AS ill,"
    " 'p' || g / 2 AS who FROM generate_series(1, 60) AS g"
)
CHANGE = (
    "UPDATE app.changed SET pay = 1e15 + 0.00001, wide = 2^62, place = 'a longer name ' || id,"
    " ill = 'plague', who = 'nobody' WHERE age IS NULL"
)
CALLS: dict[str, tuple[str, list[str], dict[str, Any], dict[str, Any]]] = {
    "points": ("mdav", ["age", "pay", "wide"], {}, {}),
    "generalized": (
        "gaa_cp",
        ["age", "pay", "place"],
        {"place": {"ordered": True}},
        {"local_range": True},
    ),
    "refined": ("gaa_cp", ["age", "pay", "wide", "place"], {}, {"refine": "fast"}),
    "models": (
        "gaa_cp",
        ["age", "place"],
        {"place": {"mask": True}},
        {"t_closeness": {"ill": 0.6}, "refine": "fast"},
    ),
    "key": ("mdav", ["age", "pay"], {}, {"key": ["id", "who"]}),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("entity", [None, "who"])
def test_a_withheld_row_changes_nothing(run_sql: Run, call: str, entity: str | None) -> None:
    method, columns, hierarchies, options = CALLS[call]
    if call == "key":
        entity = None
    results = []
    for table in ("plain", "changed"):
        run_sql(TABLE.format(table))
        if table == "changed":
            run_sql(CHANGE)
        summary = run_sql(
            f"SELECT rows_in, rows_out, suppressed, classes, information_loss FROM dbanon.{method}"
            "(%s::regclass, %s, %s, 3, entity => %s, sensitive => '{ill}', keep => '{id}',"
            " nulls => 'suppress', max_suppression => 0.1, hierarchies => %s, options => %s)",
            f"app.{table}",
            f"release.{table}",
            columns,
            entity,
            json.dumps(hierarchies),
            json.dumps(options),
        )
        assert summary[0][:3] == (60, 54, 6)
        rows = run_sql(f"SELECT r::text FROM release.{table} AS r ORDER BY r::text")
        results.append((summary, rows))
    assert results[0] == results[1]


def test_classes_are_those_of_the_other_rows(run_sql: Run) -> None:
    assignments = []
    for table in ("plain", "changed"):
        run_sql(TABLE.format(table))
        if table == "changed":
            run_sql(CHANGE)
        options = {"nulls": "suppress", "max_suppression": 0.1}
        assignments.append(
            run_sql(
                "SELECT row_key, class FROM dbanon.classes(%s::regclass, 'gaa_cp',"
                " '{age,pay,place}', 3, %s)",
                f"app.{table}",
                json.dumps(options),
            )
        )
    # Keys are row addresses, which change with the rows.
    assert [c for _, c in assignments[0] if c is not None] == [
        c for _, c in assignments[1] if c is not None
    ]
    assert [sum(c is None for _, c in rows) for rows in assignments] == [6, 6]


def test_the_default_budget_is_none(run_sql: Run) -> None:
    run_sql(TABLE.format("plain"))
    for call in (
        "dbanon.classes('app.plain', 'mdav', '{age}', 3, '{\"nulls\": \"suppress\"}')",
        "dbanon.mdav('app.plain', 'release.plain', '{age}', 3, nulls => 'suppress')",
    ):
        with pytest.raises(Exception, match="6 of 60 records") as failure:
            run_sql(f"SELECT * FROM {call}")
        assert failure.value.sqlstate == "ZK003"  # type: ignore[attr-defined]


def test_a_null_that_comes_late(run_sql: Run) -> None:
    """Rows are read without masks until a NULL comes; all values around it must be right."""
    run_sql(
        "CREATE TABLE app.late AS SELECT g AS id, (g / 5)::double precision AS a,"
        " CASE WHEN g <= 79975 THEN g / 5 END AS b FROM generate_series(1, 80000) AS g"
    )
    run_sql(
        "SELECT FROM dbanon.mdav('app.late', 'release.late', '{a,b}', 5, nulls => 'category',"
        " keep => '{id}')"
    )
    [recorded] = run_sql(
        "SELECT count(*), count(b), min(id) FILTER (WHERE b IS NULL), max(abs(a - id / 5)) < 3,"
        " max(abs(b - id / 5)) < 3 FROM release.late"
    )
    assert recorded == (80_000, 79_975, 79_976, True, True)
