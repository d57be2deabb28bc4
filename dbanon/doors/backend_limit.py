"""Limits of memory and threads for a call inside a PostgreSQL backend.

Many backends run calls at the same time, so users must not choose the limits themselves. An
administrator sets them for all databases (``ALTER ROLE ALL SET dbanon.memory_limit``, as superuser)
or for one (``ALTER DATABASE … SET``, as its owner); the smaller limit applies.

The limits are read from pg_db_role_setting. Any user can change the current settings of a session
(in the session, in connection options or for their own role), so these can only lower the limits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dbanon.data.memory import half_of_memory, limit_threads
from dbanon.data.types import KeywordArguments
from dbanon.doors.spelling import parse_bytes
from dbanon.errors import InvalidParameter

if TYPE_CHECKING:
    from dbanon.stores.postgresql.plpython import PlPython

MEMORY_SETTING, THREADS_SETTING = "dbanon.memory_limit", "dbanon.threads"

# The administrators' limits, and the session's settings, whose names get the prefix "session ".
# Settings of single roles are left out, because roles can set them for themselves. Operators have
# their schema, because a user could put an operator of their own into the search path.
_SETTINGS_QUERY = """
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


def apply_backend_limits(plpy: PlPython, call_options: KeywordArguments) -> int:
    """Limit this backend's threads, and return the bytes of memory that the call may use.

    Parameters
    ----------
    plpy : PL/Python's module for queries.
    call_options : the call's options by name; a ``memory_limit`` among them can lower the limit.

    Raises
    ------
    InvalidParameter : the call asks for more than the limit, or a setting is invalid.
    """
    # Up to two limits of administrators per setting: for all databases, and for this one.
    administrator_limits: dict[str, list[int]] = {MEMORY_SETTING: [], THREADS_SETTING: []}
    session_settings: dict[str, int] = {}
    for row in plpy.execute(_SETTINGS_QUERY):
        name, value = row["name"], row["value"]
        if name.startswith("session "):
            if value:
                setting = name.removeprefix("session ")
                session_settings[setting] = _parse_setting(setting, value)
        else:
            administrator_limits[name].append(_parse_setting(name, value))
    # One thread unless administrators allow more, since other backends need cores, too.
    max_threads = min(administrator_limits[THREADS_SETTING], default=1)
    limit_threads(min(max_threads, session_settings.get(THREADS_SETTING, max_threads)))
    allowed_bytes = min(administrator_limits[MEMORY_SETTING], default=None)
    requested_bytes: int | None = call_options.get("memory_limit")
    if requested_bytes is None:
        session_bytes = session_settings.get(MEMORY_SETTING, half_of_memory())
        return min([*administrator_limits[MEMORY_SETTING], session_bytes])
    if allowed_bytes is not None and requested_bytes > allowed_bytes:
        raise InvalidParameter(
            f"memory_limit is {requested_bytes} bytes, and a call in this database may use"
            f" {allowed_bytes}.",
            hint=f"Use `memory_limit={allowed_bytes}` or less. An administrator can raise the limit"
            " of the database (ALTER DATABASE … SET dbanon.memory_limit) and of all roles (ALTER"
            " ROLE ALL SET dbanon.memory_limit).",
        )
    return requested_bytes


def _parse_setting(name: str, value: str) -> int:
    """Read a setting: bytes of memory, or a number of threads."""
    is_memory = name == MEMORY_SETTING
    number = parse_bytes(value) if is_memory else int(value) if value.isdecimal() else None
    if number is None or number < 1:
        expected_form = "a size such as 512MiB" if is_memory else "a whole number, 1 or more"
        raise InvalidParameter(f"The setting {name} must be {expected_form}.")
    return number
