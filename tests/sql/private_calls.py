"""Shared by tests of CALL dbanon.dp_ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

MAGIC = """CREATE TABLE app.magic AS
SELECT (g % 350)::float8 AS a, (g * 7919 % 1000)::int AS b, g % 50 AS p
FROM generate_series(1, 1000) AS g;
ALTER TABLE app.magic ALTER a SET NOT NULL, ALTER b SET NOT NULL, ALTER p SET NOT NULL"""
CALL = (
    "CALL dbanon.dp_ranks('app.magic', 'release.{}', '{{a,b}}', epsilon => {},"
    """ bounds => '{{"a": [0, 350], "b": [0, 1000]}}', budget => 'magic')"""
)

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]


def spent(run_sql: Run, name: str = "magic") -> tuple[float, int]:
    """The spent amount of the budget and the number of spendings."""
    [(budget_spent,)] = run_sql("SELECT spent::float8 FROM dbanon.budget WHERE name = %s", name)
    [(rows,)] = run_sql("SELECT count(*) FROM dbanon.spending WHERE budget = %s", name)
    return budget_spent, rows


def state_of(failure: pytest.ExceptionInfo[Any]) -> str:
    return str(failure.value.sqlstate)
