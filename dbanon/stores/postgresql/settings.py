"""The settings that dbanon's statements run under on PostgreSQL, whatever the caller has set.

The owner of a database may set defaults for all its sessions, a role for its own. ``PINS`` has what
changes the meaning of SQL, the text of values, or which rows a query gives: the functions in SQL
have it in their SET clauses, and the client in the first statements of a transaction.
"""

from __future__ import annotations

from collections.abc import Sequence

# What joins and groups of one release fit in, whatever the server's default is.
WORK_MEM = "192MB"
# Rows are sorted in runs that processors have near, then merged: faster than all of them at once.
SORT_MEM = "32MB"
# Of each column 25 ranges, not 100: a table that is new is looked at again by autovacuum, closer.
STATISTICS = 25

# Every release of PostgreSQL takes each of them from every role, so a dump with functions that have
# them can be restored on a later one: escape_string_warning, which PostgreSQL 19 does not know, is
# left out, and never warns where the literals are pinned. The path comes first: until it is, a name
# may be anybody's.
PINS = (
    ("search_path", "pg_catalog, pg_temp"),
    ("standard_conforming_strings", "on"),
    # PostgreSQL shall refuse, not filter.
    ("row_security", "off"),
    # The planner would evaluate checks of tables, which are code.
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
    # Not lc_monetary: it says how many digits of an amount of money are cents.
    ("lc_numeric", "C"),
    ("lc_time", "C"),
)


def _assignments(settings: Sequence[tuple[str, str]]) -> list[str]:
    # As one literal the path would be the name of a single schema.
    return [
        f"{name} = {value}" if name == "search_path" else f"{name} = '{value}'"
        for name, value in settings
    ]


def set_local(settings: Sequence[tuple[str, str]]) -> str:
    """SQL that makes settings for the rest of a transaction, without a ``;`` at its end."""
    return ";\n".join(f"SET LOCAL {text}" for text in _assignments(settings))


def set_clauses(settings: Sequence[tuple[str, str]]) -> str:
    """The SET clauses of a function, one a line."""
    return "\n".join(f"SET {text}" for text in _assignments(settings))


# SET LOCAL ends with the transaction: behind a pooler another session would find what lasts longer.
# None of them takes a snapshot, nor has a backslash, which might escape until they are run.
PINNED = set_local(PINS)

# Of the client's transactions beside the pins.
SETTINGS = set_local(
    (
        *PINS,
        ("idle_in_transaction_session_timeout", "0"),
        ("work_mem", WORK_MEM),
        ("default_statistics_target", str(STATISTICS)),
        ("jit", "off"),
        ("client_min_messages", "warning"),
    )
)

# Of the functions in Python, and of the procedure, which has to set them itself, again after each
# commit. A setting of the caller changes nothing, and none of these stays.
FUNCTION_SETTINGS = (
    *PINS,
    ("work_mem", WORK_MEM),
    ("default_statistics_target", str(STATISTICS)),
    ("jit", "off"),
    ("enable_hashjoin", "on"),
    ("enable_mergejoin", "on"),
    ("enable_sort", "on"),
    ("parallel_tuple_cost", "0.1"),
)

# A lock is waited for as long as this, or as the caller's own lock_timeout says if that is less. A
# SET clause would hide the caller's. Nothing takes a snapshot here.
LOCK_SECONDS = 60.0
_MILLISECONDS = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
CALLER_PATIENCE = "SHOW lock_timeout"


def lock_milliseconds(setting: str) -> int:
    """How long locks are waited for, in ms, by the caller's lock_timeout as the server shows it."""
    number = setting.rstrip("abcdefghijklmnopqrstuvwxyz")
    milliseconds = int(number) * _MILLISECONDS.get(setting.removeprefix(number), 1)
    most = int(LOCK_SECONDS * 1000)
    return min(milliseconds, most) if milliseconds else most


def set_patience(milliseconds: int) -> str:
    """SQL that has the rest of a transaction wait so long for a lock."""
    return f"SET LOCAL lock_timeout = {milliseconds}"


# Every name is qualified: until the path is pinned, it may name anybody's functions first.
CALLER_PATH = "SELECT pg_catalog.current_schemas(false)::pg_catalog.text[]"
