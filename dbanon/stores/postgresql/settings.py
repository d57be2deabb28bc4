"""Settings for dbanon's statements on PostgreSQL, whatever the caller has set.

Databases and roles can have default settings. ``PINNED_SETTINGS`` fixes those that change the
meaning of SQL, the text of values, or the rows of a query: SQL functions do so with SET clauses,
the client at the start of a transaction.
"""

from __future__ import annotations

from collections.abc import Sequence

# Enough for the joins and groups of a release, whatever the server's default.
WORK_MEM = "192MB"
# Sorts cache-sized runs and merges them, which is faster than one large sort.
SORT_MEM = "32MB"
# Statistics for new tables are coarse (default: 100), since autovacuum refines them later.
STATISTICS = 25

# Every version of PostgreSQL accepts these from every role, so that a dump with dbanon's functions
# can be restored on a later version. escape_string_warning is left out, as PostgreSQL 19 lacks it
# and pinned literals never cause it. The path comes first: until it is pinned, names could resolve
# to objects of any role.
PINNED_SETTINGS = (
    ("search_path", "pg_catalog, pg_temp"),
    ("standard_conforming_strings", "on"),
    # Raise an error instead of filtering rows.
    ("row_security", "off"),
    # Otherwise the planner would evaluate check constraints, which are code.
    ("constraint_exclusion", "off"),
    ("gin_fuzzy_search_limit", "0"),
    ("quote_all_identifiers", "off"),
    ("array_nulls", "on"),
    ("transform_null_equals", "off"),
    ("xmloption", "content"),
    ("xmlbinary", "base64"),
    ("bytea_output", "hex"),
    ("extra_float_digits", "1"),
    ("datestyle", "ISO, YMD"),
    ("intervalstyle", "postgres"),
    ("timezone", "UTC"),
    # lc_monetary is not pinned: it determines the number of decimals of the type money.
    ("lc_numeric", "C"),
    ("lc_time", "C"),
)


def _assignments(settings: Sequence[tuple[str, str]]) -> list[str]:
    # A quoted search_path would be the name of a single schema.
    return [
        f"{name} = {value}" if name == "search_path" else f"{name} = '{value}'"
        for name, value in settings
    ]


def set_local(settings: Sequence[tuple[str, str]]) -> str:
    """SQL of settings for the rest of a transaction, without a final ``;``."""
    return ";\n".join(f"SET LOCAL {assignment}" for assignment in _assignments(settings))


def set_clauses(settings: Sequence[tuple[str, str]]) -> str:
    """Return the SET clauses of a function, one per line."""
    return "\n".join(f"SET {assignment}" for assignment in _assignments(settings))


# Statements that pin the settings. SET LOCAL ends with the transaction: a pooler would pass longer
# settings to another session. None of these takes a snapshot or contains a backslash, which could
# be an escape until they are pinned.
PIN_STATEMENTS = set_local(PINNED_SETTINGS)

# Statements that make the settings of the client's transactions.
CLIENT_STATEMENTS = set_local(
    (
        *PINNED_SETTINGS,
        ("idle_in_transaction_session_timeout", "0"),
        ("work_mem", WORK_MEM),
        ("default_statistics_target", str(STATISTICS)),
        ("jit", "off"),
        ("client_min_messages", "warning"),
    )
)

# Settings of the Python functions, and of the procedure, which must repeat them after each commit.
# They override the caller's settings, and end with the call.
FUNCTION_SETTINGS = (
    *PINNED_SETTINGS,
    ("work_mem", WORK_MEM),
    ("default_statistics_target", str(STATISTICS)),
    ("jit", "off"),
    ("enable_hashjoin", "on"),
    ("enable_mergejoin", "on"),
    ("enable_sort", "on"),
    ("parallel_tuple_cost", "0.1"),
)

# Maximum wait for a lock, unless the caller's lock_timeout is shorter. It is no SET clause, which
# would hide the caller's value.
LOCK_SECONDS = 60.0
_UNIT_MILLISECONDS = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
# SHOW takes no snapshot.
SHOW_LOCK_TIMEOUT = "SHOW lock_timeout"


def lock_milliseconds(setting: str) -> int:
    """Return the lock timeout in ms: the caller's setting, but at most ``LOCK_SECONDS``.

    Parameters
    ----------
    setting : lock_timeout as the server shows it, such as ``10s``; 0 means no limit.
    """
    number = setting.rstrip("abcdefghijklmnopqrstuvwxyz")
    milliseconds = int(number) * _UNIT_MILLISECONDS.get(setting.removeprefix(number), 1)
    maximum = int(LOCK_SECONDS * 1000)
    return min(milliseconds, maximum) if milliseconds else maximum


def set_lock_timeout(milliseconds: int) -> str:
    """SQL that sets the lock timeout for the rest of a transaction."""
    return f"SET LOCAL lock_timeout = {milliseconds}"


# The caller's search path. All names are qualified, since the path is not pinned yet.
CALLER_PATH = "SELECT pg_catalog.current_schemas(false)::pg_catalog.text[]"
