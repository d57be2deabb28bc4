"""Mallory, a role whose code must never run with the rights of another.

He owns a schema, and a trap in it that remembers, past every rollback, that another role called it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from typing import Any

from dbanon.errors import ForeignCode

TRAP = (
    "CREATE SEQUENCE evil.sprung; GRANT USAGE ON SEQUENCE evil.sprung TO PUBLIC;"
    # For bodies of functions: as it is volatile, a plan that a session keeps calls it each time.
    "CREATE FUNCTION evil.note() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN"
    " IF current_user <> 'mallory' THEN PERFORM nextval('evil.sprung'); END IF; RETURN true;"
    " END $$;"
    "CREATE FUNCTION evil.spring() RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS"
    " $$ BEGIN RETURN evil.note(); END $$;"
    "CREATE FUNCTION evil.one(a integer) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS"
    " $$ BEGIN PERFORM evil.note(); RETURN a; END $$;"
)
MOOD = "CREATE TYPE evil.mood AS ENUM ('sad', 'calm', 'glad');"
PLAIN_MOOD = "(ARRAY['sad', 'calm', 'glad'])[1 + g % 3]::evil.mood"


def cast(source: str, target: str, value: str, how: str = "") -> str:
    """A cast with a function that springs the trap."""
    name = f"cast_{zlib.crc32((source + target).encode())}"
    return (
        f"CREATE FUNCTION evil.{name}(a {source}) RETURNS {target} LANGUAGE plpgsql IMMUTABLE AS"
        f" $$ BEGIN PERFORM evil.note(); RETURN {value}; END $$;"
        f"CREATE CAST ({source} AS {target}) WITH FUNCTION evil.{name}({source}) {how};"
    )


def sprung(run_sql: Callable[..., list[tuple[Any, ...]]]) -> bool:
    """Whether the trap was called since it was last asked; it is set again."""
    [(called,)] = run_sql("SELECT is_called FROM evil.sprung")
    run_sql("SELECT setval('evil.sprung', 1, false)")
    return bool(called)


def calls_not_refused(
    run_sql: Callable[..., list[tuple[Any, ...]]], calls: Iterable[tuple[str, Callable[[], object]]]
) -> list[tuple[str, object]]:
    """The calls of the client, by name, that are not refused as foreign code or that ran some."""
    wrong: list[tuple[str, object]] = []
    for name, call in calls:
        try:
            call()
            wrong.append((name, "not refused"))
        except ForeignCode as error:
            if "role mallory" not in str(error):
                wrong.append((name, error))
        if sprung(run_sql):
            wrong.append((name, "ran foreign code"))
    return wrong
