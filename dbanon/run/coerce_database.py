"""Connections and other things that people have in hand where a database is asked for."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dbanon.errors import InvalidParameter

_FRAME = "Give it to dbanon.anonymize_frame."
_ENGINE = "Give its URL, or a SQLAlchemy engine: sqlalchemy.create_engine(…)."

# By package: what is said of its objects where they are no database.
_SAID: dict[str, tuple[str, str]] = {
    "pandas": ("A data frame is no database.", _FRAME),
    "polars": ("A data frame is no database.", _FRAME),
    "pyarrow": ("An Arrow table is no database.", _FRAME),
    "psycopg": ("A psycopg connection is not taken: a run opens its own.", _ENGINE),
    "psycopg2": ("A psycopg2 connection is not taken: a run opens its own.", _ENGINE),
    "asyncpg": ("An asyncpg connection is not taken: a run opens its own.", _ENGINE),
    "aiosqlite": ("An aiosqlite connection is not taken: a run opens its own.", _ENGINE),
}


def handed(database: Any) -> Any:
    """What a store can be opened on: a URL, an engine, a SQLite or a DuckDB connection.

    A SQLAlchemy connection stands for its engine. What is none of these comes back as it is, for
    ``open_store`` to refuse.

    Raises
    ------
    InvalidParameter : it is something that people have in hand, and no database; or a SQLAlchemy
        connection with a transaction open, whose changes a run would not see.
    """
    if isinstance(database, sqlite3.Connection):
        return database
    kind = type(database)
    package = kind.__module__.partition(".")[0]
    if package in ("duckdb", "_duckdb"):
        if hasattr(database, "cursor"):
            return database
        raise InvalidParameter(
            "A DuckDB relation is no database.",
            hint="Give the connection and the name of a table, or the relation to"
            " dbanon.anonymize_frame.",
        )
    if isinstance(database, Path):
        raise InvalidParameter(
            "A path does not say which database its file is of.",
            hint=f"Write duckdb:///{database} or sqlite:///{database}.",
        )
    if package in _SAID:
        message, hint = _SAID[package]
        raise InvalidParameter(message, hint=hint)
    return _of_sqlalchemy(database) if package == "sqlalchemy" else database


def _of_sqlalchemy(database: Any) -> Any:
    from sqlalchemy import Connection

    if isinstance(database, Connection):
        if database.in_transaction():
            raise InvalidParameter(
                "The SQLAlchemy connection has a transaction open. A run has one of its own, and"
                " would not see what that one changed.",
                hint="Commit or roll back first, or give connection.engine.",
            )
        return database.engine
    bound: Callable[[], Any] | None = getattr(database, "get_bind", None)
    if bound is not None:
        raise InvalidParameter(
            "A SQLAlchemy session is not taken: a run has a transaction of its own.",
            hint="Commit first, and give session.get_bind().",
        )
    if type(database).__module__.startswith("sqlalchemy.ext.asyncio"):
        raise InvalidParameter("An asynchronous engine or connection is not taken.", hint=_ENGINE)
    return database
