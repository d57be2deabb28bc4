"""Statements on the databases of these tests."""

from __future__ import annotations

from typing import Any

import psycopg

from tests.postgres_server import conninfo


def execute(url: str, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a statement in a transaction of its own; none where it has none."""
    with psycopg.connect(conninfo(url)) as connection:
        cursor = connection.execute(sql)
        return cursor.fetchall() if cursor.description else []
