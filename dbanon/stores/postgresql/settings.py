"""What a transaction on PostgreSQL is made independent of: settings, and the search path."""

from __future__ import annotations

# What joins and groups of one release fit in, whatever the server's default is.
WORK_MEM = "192MB"
# Rows are sorted in runs that processors have near, then merged: faster than all of them at once.
SORT_MEM = "32MB"
# Of each column 25 ranges, not 100: a table that is new is looked at again by autovacuum, closer.
STATISTICS = 25

# For a transaction: behind a pooler another session would find what lasts longer.
PINNED = "SET LOCAL search_path = pg_catalog, pg_temp"

# SET LOCAL ends with the transaction. row_security: PostgreSQL shall refuse, not filter.
SETTINGS = f"""
SET LOCAL row_security = off;
{PINNED};
SET LOCAL idle_in_transaction_session_timeout = 0;
SET LOCAL timezone = 'UTC';
SET LOCAL datestyle = 'ISO, YMD';
SET LOCAL intervalstyle = 'postgres';
SET LOCAL bytea_output = 'hex';
SET LOCAL extra_float_digits = 1;
SET LOCAL lock_timeout = '60s';
SET LOCAL work_mem = '{WORK_MEM}';
SET LOCAL default_statistics_target = {STATISTICS};
SET LOCAL jit = off;
SET LOCAL constraint_exclusion = off;
SET LOCAL client_min_messages = warning"""


# Of the functions in Python, and of the procedure, which has to set them itself, again after each
# commit. A setting of the caller changes nothing, and none of these stays.
FUNCTION_SETTINGS = (
    ("row_security", "off"),
    ("timezone", "UTC"),
    ("datestyle", "ISO, YMD"),
    ("extra_float_digits", "1"),
    ("lock_timeout", "60s"),
    ("work_mem", WORK_MEM),
    ("default_statistics_target", str(STATISTICS)),
    ("jit", "off"),
    ("array_nulls", "on"),
    ("enable_hashjoin", "on"),
    ("enable_mergejoin", "on"),
    ("enable_sort", "on"),
    ("parallel_tuple_cost", "0.1"),
    ("constraint_exclusion", "off"),
)

# Every name is qualified: until the path is pinned, it may name anybody's functions first.
CALLER_PATH = "SELECT pg_catalog.current_schemas(false)::pg_catalog.text[]"
