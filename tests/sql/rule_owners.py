"""Shared by tests of rules and their owners: three roles, their rules and releases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]
Role = Callable[..., str]

# Columns that a table's owner should not have released.
LEAK = (
    '{"age": "quasi_identifier", "person_id": {"role": "keep", "reason": "x"},'
    ' "name": {"role": "keep", "reason": "x"}, "diagnosis": {"role": "keep", "reason": "x"}}'
)
LEAKING = f"SELECT * FROM dbanon.declare('app.person', '{LEAK}')"
RELEASE = "SELECT k_achieved FROM dbanon.mdav('app.person', 'release.p', k => 5)"
# Another release of the same persons; declared rules do not confirm that it is intended.
AGAIN = (
    "SELECT k_achieved FROM dbanon.mdav('app.person', 'release.{}', k => 5,"
    ' options => \'{{"releases": "independent"}}\')'
)
STATES = "SELECT DISTINCT state FROM dbanon.rules('app.person')"


@pytest.fixture
def roles(run_sql: Run, sql_role: Role) -> dict[str, str]:
    """URLs of anna, bob and mallory, who run dbanon and may create tables in app."""
    urls = {name: sql_role(name) for name in ("anna", "bob", "mallory")}
    for name in urls:
        run_sql(f"GRANT CREATE ON SCHEMA app TO {name}")
    return urls


@contextmanager
def not_trusted(*columns: str) -> Iterator[None]:
    """Run a statement that must be refused because the rules of these columns are not trusted."""
    with pytest.raises(psycopg.Error, match="not declared by its present owner") as refused:
        yield
    assert refused.value.sqlstate == "42501"
    detail = str(refused.value.diag.message_detail)
    assert all(f'"{name}"' in detail for name in columns)


def released_columns(run_sql: Run) -> set[str]:
    return {
        name
        for (name,) in run_sql(
            "SELECT attname::text FROM pg_attribute WHERE attrelid = 'release.p'::regclass"
            " AND attnum > 0"
        )
    }
