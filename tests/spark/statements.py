"""Runs statements on the databases of these tests."""

from __future__ import annotations

from typing import Any

import psycopg

from tests.postgres_server import conninfo


def execute(url: str, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a statement in its own transaction; none if it returns none."""
    with psycopg.connect(conninfo(url)) as connection:
        cursor = connection.execute(sql)
        return cursor.fetchall() if cursor.description else []
