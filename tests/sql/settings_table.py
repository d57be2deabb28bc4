"""All settings that a database owner or a role may change: pinned by dbanon, or why not.

The server lists them. A setting that is missing from this table fails a test, so that new
ones of a PostgreSQL version are noticed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

# Pinned: they affect the meaning of SQL, the text of values, or the rows of a query.
MEANINGS = {
    "search_path": "whose functions, operators and types a name without a schema is",
    "standard_conforming_strings": "whether a backslash in a plain literal escapes",
    "row_security": "whether policies filter rows, or refuse the query",
    "constraint_exclusion": "whether the planner evaluates checks of tables, which are code",
    "gin_fuzzy_search_limit": "whether a search by a GIN index gives all rows",
    "quote_all_identifiers": "how names and types print, which the ledger compares",
    "array_nulls": "whether NULL in the text of an array is a value or a word",
    "transform_null_equals": "whether = NULL is IS NULL",
    "xmloption": "whether a text that is no document is XML",
    "xmlbinary": "how bytes print in XML",
    "bytea_output": "how bytes print",
    "extra_float_digits": "how many digits floats print with",
    "DateStyle": "how dates and instants print, and how they are read",
    "IntervalStyle": "how intervals print, and how they are read",
    "TimeZone": "the day of an instant, and how it prints",
    "lc_numeric": "separators that to_char writes",
    "lc_time": "names of days and months that to_char writes",
}

HARMLESS = {
    "backslash_quote": "no statement of dbanon's writes a quote as backslash and quote",
    "escape_string_warning": "warns only where standard_conforming_strings is off; PostgreSQL 19"
    " does not have it, so that a function with it could not be restored there",
    "lc_monetary": "how money prints, and how many of its digits are cents: pinned, amounts of a"
    " database with another number would be wrong; no money is compared by its text",
    "client_encoding": "the client sets it at the connect; in the server texts have its own",
    "timezone_abbreviations": "no instant is read with the abbreviation of a zone",
    "default_text_search_config": "part of what somebody's view says; dbanon searches no text",
    "local_preload_libraries": "loads what the server's administrator has put among the plugins",
    "check_function_bodies": "of CREATE FUNCTION alone; install writes bodies that are tested",
    "client_min_messages": "which messages a client is sent",
    "default_table_access_method": "how a new table is stored",
    "default_tablespace": "where a new table is stored",
    "temp_tablespaces": "where a temporary table is stored",
    "default_toast_compression": "how long values are stored",
    "default_transaction_deferrable": "of serializable transactions; the client states its own",
    "default_transaction_isolation": "the client states its own; SQL functions read one snapshot",
    "default_transaction_read_only": "what writes is refused",
    "transaction_deferrable": "cannot be set for a database or a role",
    "transaction_isolation": "cannot be set for a database or a role",
    "transaction_read_only": "cannot be set for a database or a role",
    "restrict_nonsystem_relation_kind": "refuses views or foreign tables",
    "password_encryption": "of CREATE ROLE … PASSWORD",
    "md5_password_warnings": "of CREATE ROLE … PASSWORD",
    "exit_on_error": "an error ends the session, too",
    "plan_cache_mode": "which plan a statement has",
    "stats_fetch_consistency": "when counters of activity are read",
    "application_name": "what pg_stat_activity calls the session",
    "synchronize_seqscans": "where a scan begins; all that depends on an order states it",
    "synchronous_commit": "when a commit is reported",
    "createrole_self_grant": "of CREATE ROLE",
    "event_triggers": "a superuser's: whether event triggers fire",
    "icu_validation_level": "of CREATE COLLATION",
    "vacuum_truncate": "of VACUUM",
    "file_copy_method": "of CREATE DATABASE",
}

# For superusers, who may grant them since PostgreSQL 15. Functions cannot have them in a SET
# clause, since their callers may not set them. The values differ from the defaults.
SUPERUSERS = {
    "session_replication_role": ("replica", "whether triggers fire: dbanon's guarantees need none"),
    "lc_messages": ("POSIX", "the language of messages: nothing is decided by their text"),
    "allow_system_table_mods": ("on", "whether tables of the catalog may be changed by hand"),
    "lo_compat_privileges": ("on", "who may read large objects"),
}

# For query plans, logs and maintenance: they affect speed and what an administrator's log shows.
FAMILIES = re.compile(
    r"enable_|jit|geqo|parallel_|force_parallel_mode$|debug_|trace_|log_|track_|vacuum_|plpgsql[.]"
    r"|plpython|compute_query_id$"
)

# Non-default values of strings and numbers; those of booleans and enums are listed by the server.
_VALUES = {
    "DateStyle": ("SQL, DMY", "German, DMY", "Postgres, MDY"),
    "TimeZone": ("Asia/Kolkata", "America/St_Johns"),
    "search_path": ("evil, pg_catalog, public", '"$user"'),
    "client_encoding": ("LATIN1",),
    "lc_monetary": ("POSIX",),
    "lc_numeric": ("POSIX",),
    "lc_time": ("POSIX",),
    "timezone_abbreviations": ("India",),
    "default_text_search_config": ("pg_catalog.simple",),
    "default_tablespace": ("pg_default",),
    "temp_tablespaces": ("pg_default",),
    "restrict_nonsystem_relation_kind": ("view, foreign-table",),
    "application_name": ("'; SELECT \\d",),
    "extra_float_digits": ("-15", "3"),
    "gin_fuzzy_search_limit": ("1",),
}
# For a single transaction, or read at session start from files that tests lack.
_NOT_SET = frozenset(
    (
        "transaction_deferrable",
        "transaction_isolation",
        "transaction_read_only",
        "exit_on_error",
        "local_preload_libraries",
        "default_table_access_method",
        "createrole_self_grant",
    )
)

_SETTINGS = (
    "SELECT name, vartype, setting, enumvals FROM pg_catalog.pg_settings WHERE context = 'user'"
    " ORDER BY name"
)


def other_values(run_sql: Callable[..., list[tuple[Any, ...]]]) -> list[tuple[str, str]]:
    """Each setting that a role may change, with each value that is not its current one.

    Includes only those numeric settings that dbanon pins, and those superuser settings that are in
    the table.
    """
    pairs = [(name, value) for name, (value, _) in SUPERUSERS.items()]
    for name, kind, now, allowed in run_sql(_SETTINGS):
        if name in _NOT_SET:
            continue
        if kind == "bool":
            values: tuple[str, ...] = ("off" if now == "on" else "on",)
        elif kind == "enum":
            values = tuple(value for value in allowed if value != now)
        else:
            values = _VALUES.get(name, ())
        pairs += [(name, value) for value in values]
    return pairs


def unknown_settings(run_sql: Callable[..., list[tuple[Any, ...]]]) -> list[str]:
    """Non-numeric settings that any role may change and that this table lacks.

    A name with a dot belongs to an extension loaded in the session.
    """
    return [
        name
        for name, kind, _, _ in run_sql(_SETTINGS)
        if kind in ("bool", "enum", "string")
        and name not in MEANINGS
        and name not in HARMLESS
        and not FAMILIES.match(name)
        and "." not in name
    ]
