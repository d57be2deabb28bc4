"""How much memory and how many threads a call may use inside a PostgreSQL backend.

Many backends call at once, and their users must not decide for all of them. An administrator says
the most that a call may use: of all databases by ``ALTER ROLE ALL SET dbanon.memory_limit``, which
takes a superuser, or of one by ``ALTER DATABASE … SET``, which takes its owner; the smaller holds.
These are read where PostgreSQL keeps them, in pg_db_role_setting, and not as a setting's current
value: everybody may change that, in a session, in the options of a connection, and for a role of
their own. Such a value can only ask for less.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dbanon.data.memory import half_of_memory, limit_threads
from dbanon.doors.spelling import bytes_of
from dbanon.errors import InvalidParameter

MEMORY, THREADS = "dbanon.memory_limit", "dbanon.threads"

# What administrators said; rows of single roles are left out, as a role may set its own.
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


def memory_of_call(plpy: Any, wanted: Mapping[str, Any]) -> int:
    """The bytes that a call may use; from now on this backend works with the threads it may have.

    Parameters
    ----------
    wanted : options of the call.

    Raises
    ------
    InvalidParameter : it asks for more than an administrator allows, or a setting is none.
    """
    most: dict[str, list[int]] = {MEMORY: [], THREADS: []}
    own: dict[str, int] = {}
    for row in plpy.execute(_MOST):
        name, value = row["name"], row["value"]
        if name.startswith("session "):
            if value:
                own[name.removeprefix("session ")] = _number(name.removeprefix("session "), value)
        else:
            most[name].append(_number(name, value))
    # More than one thread is the administrator's to allow: other backends have work, too.
    threads = min(most[THREADS], default=1)
    limit_threads(min(threads, own.get(THREADS, threads)))
    allowed = min(most[MEMORY], default=None)
    asked: int | None = wanted.get("memory_limit")
    if asked is None:
        return min([*most[MEMORY], own.get(MEMORY, half_of_memory())])
    if allowed is not None and asked > allowed:
        raise InvalidParameter(
            f"memory_limit is {asked} bytes, and a call in this database may use {allowed}.",
            hint="Ask for less (`memory_limit`), or ask an administrator for more: docs/sql.md has"
            " the settings.",
        )
    return asked


def _number(name: str, value: str) -> int:
    number = bytes_of(value) if name == MEMORY else int(value) if value.isdecimal() else None
    if number is None or number < 1:
        form = "a size such as 512MiB" if name == MEMORY else "a whole number, 1 or more"
        raise InvalidParameter(f"The setting {name} must be {form}.")
    return number
