"""Mallory, a role whose code must never run with another role's rights.

He owns a schema with a trap that records calls by other roles, even if the transaction is rolled
back.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from typing import Any

from dbanon.errors import ForeignCode

TRAP = (
    "CREATE SEQUENCE evil.sprung; GRANT USAGE ON SEQUENCE evil.sprung TO PUBLIC;"
    # For function bodies: the trap is volatile, so a cached plan calls it each time.
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
    """Create a cast whose function springs the trap."""
    name = f"cast_{zlib.crc32((source + target).encode())}"
    return (
        f"CREATE FUNCTION evil.{name}(a {source}) RETURNS {target} LANGUAGE plpgsql IMMUTABLE AS"
        f" $$ BEGIN PERFORM evil.note(); RETURN {value}; END $$;"
        f"CREATE CAST ({source} AS {target}) WITH FUNCTION evil.{name}({source}) {how};"
    )


def sprung(run_sql: Callable[..., list[tuple[Any, ...]]]) -> bool:
    """Whether the trap was called since the last check; resets it."""
    [(called,)] = run_sql("SELECT is_called FROM evil.sprung")
    run_sql("SELECT setval('evil.sprung', 1, false)")
    return bool(called)


def calls_not_refused(
    run_sql: Callable[..., list[tuple[Any, ...]]], calls: Iterable[tuple[str, Callable[[], object]]]
) -> list[tuple[str, object]]:
    """Names of the client's calls that were not refused as foreign code, or that ran some."""
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
