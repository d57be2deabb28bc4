"""Limits of memory and threads for a call inside a PostgreSQL backend.

Many backends call at once, so their users must not choose the limits. An administrator sets them
for all databases (``ALTER ROLE ALL SET dbanon.memory_limit``, as superuser) or for one
(``ALTER DATABASE … SET``, as its owner); the smaller limit applies. They are read from
pg_db_role_setting rather than from the current setting, which every user can change in a session,
in connection options or for their role. Such a value can only lower the limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dbanon.data.memory import half_of_memory, limit_threads
from dbanon.doors.spelling import bytes_of
from dbanon.errors import InvalidParameter

MEMORY, THREADS = "dbanon.memory_limit", "dbanon.threads"

# The administrators' limits, without settings of single roles, which roles set for themselves.
_MOST = """
SELECT pg_catalog.split_part(setting, '=', 1) AS name,
    pg_catalog.regexp_replace(setting, '^[^=]*=', '') AS value
FROM pg_catalog.pg_db_role_setting AS s
    CROSS JOIN LATERAL pg_catalog.unnest(s.setconfig) AS setting
WHERE s.setrole OPERATOR(pg_catalog.=) 0
    AND (s.setdatabase OPERATOR(pg_catalog.=) 0 OR s.setdatabase OPERATOR(pg_catalog.=) (
        SELECT d.oid FROM pg_catalog.pg_database AS d
        WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()))
    AND pg_catalog.split_part(setting, '=', 1) OPERATOR(pg_catalog.=)
        ANY (ARRAY['dbanon.memory_limit', 'dbanon.threads'])
UNION ALL
SELECT pg_catalog.concat('session ', name), pg_catalog.current_setting(name, true)
FROM pg_catalog.unnest(ARRAY['dbanon.memory_limit', 'dbanon.threads']) AS name
"""


def memory_of_call(plpy: Any, call_options: Mapping[str, Any]) -> int:
    """Return the bytes that a call may use, and limit this backend's threads.

    Parameters
    ----------
    call_options : of the call, in which ``memory_limit`` may ask for less.

    Raises
    ------
    InvalidParameter : the call asks for more than the limit, or a setting is invalid.
    """
    most: dict[str, list[int]] = {MEMORY: [], THREADS: []}
    session_settings: dict[str, int] = {}
    for row in plpy.execute(_MOST):
        name, value = row["name"], row["value"]
        if name.startswith("session "):
            if value:
                session_settings[name.removeprefix("session ")] = _number(
                    name.removeprefix("session "), value
                )
        else:
            most[name].append(_number(name, value))
    # Administrators must allow more than one thread, since other backends need cores, too.
    threads = min(most[THREADS], default=1)
    limit_threads(min(threads, session_settings.get(THREADS, threads)))
    allowed = min(most[MEMORY], default=None)
    requested: int | None = call_options.get("memory_limit")
    if requested is None:
        return min([*most[MEMORY], session_settings.get(MEMORY, half_of_memory())])
    if allowed is not None and requested > allowed:
        raise InvalidParameter(
            f"memory_limit is {requested} bytes, and a call in this database may use {allowed}.",
            hint=f"Use `memory_limit={allowed}` or less. An administrator can raise the limit of"
            " the database (ALTER DATABASE … SET dbanon.memory_limit) and of all roles (ALTER ROLE"
            " ALL SET dbanon.memory_limit).",
        )
    return requested


def _number(name: str, value: str) -> int:
    number = bytes_of(value) if name == MEMORY else int(value) if value.isdecimal() else None
    if number is None or number < 1:
        form = "a size such as 512MiB" if name == MEMORY else "a whole number, 1 or more"
        raise InvalidParameter(f"The setting {name} must be {form}.")
    return number
