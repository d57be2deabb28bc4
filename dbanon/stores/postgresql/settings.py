"""Settings for dbanon's statements on PostgreSQL, whatever the caller has set.

Databases and roles can have their own defaults. ``PINNED_SETTINGS`` has fixed values for all
settings that change the meaning of SQL, the text of values, or the rows of a query. SQL functions
apply them by SET clauses, the client at the start of each transaction.
"""

from __future__ import annotations

from collections.abc import Sequence

# Memory that suffices for the joins and groups of a release, whatever the server's default.
WORK_MEM = "192MB"
# Memory for sorting. With this little memory, the server sorts runs that fit into the CPU's cache
# and merges them, which is faster than one large sort.
SORT_MEM = "32MB"
# Statistics target for new tables (default: 100). Coarse statistics suffice, since autovacuum
# refines them later.
STATISTICS = 25

# Every version of PostgreSQL accepts these from every role, so that a dump with dbanon's functions
# can be restored on a later version. escape_string_warning is left out, as PostgreSQL 19 lacks it
# and literals never cause that warning with these settings. The search path comes first: until it
# is fixed, names could resolve to objects of any role.
PINNED_SETTINGS = (
    ("search_path", "pg_catalog, pg_temp"),
    ("standard_conforming_strings", "on"),
    # Raises an error instead of silently filtering rows.
    ("row_security", "off"),
    # Otherwise the planner would evaluate check constraints, which may contain another role's code.
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
    """Write pairs of name and value as assignments, for SET."""
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


# Statements that apply the pinned settings. SET LOCAL ends with the transaction; other settings
# would reach another client's session through a pooler. None of the statements takes the snapshot
# of the transaction, since locks may have to be taken before it. None has a backslash, whose
# meaning depends on a setting.
PIN_STATEMENTS = set_local(PINNED_SETTINGS)

# Statements that apply the settings of the client's transactions.
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

# Settings of the SQL functions written in Python, for the duration of a call. Procedures
# for synthetic rows commit, and must apply them again after each commit.
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

# Maximum seconds to wait for a lock, unless the caller's lock_timeout is shorter. This is not
# applied by a SET clause, which would hide the caller's value.
LOCK_SECONDS = 60.0
_UNIT_MILLISECONDS = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
# SHOW takes no snapshot, unlike SELECT.
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
SHOW_SEARCH_PATH = "SELECT pg_catalog.current_schemas(false)::pg_catalog.text[]"
