"""What a transaction on PostgreSQL is made independent of: settings, and the search path."""

from __future__ import annotations

# SET LOCAL ends with the transaction. row_security: PostgreSQL shall refuse, not filter.
# The sort and the hash joins of one release fit this, whatever the server's default is.
SETTINGS = """
SET LOCAL row_security = off;
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL idle_in_transaction_session_timeout = 0;
SET LOCAL timezone = 'UTC';
SET LOCAL datestyle = 'ISO, YMD';
SET LOCAL intervalstyle = 'postgres';
SET LOCAL bytea_output = 'hex';
SET LOCAL extra_float_digits = 1;
SET LOCAL lock_timeout = '60s';
SET LOCAL work_mem = '192MB';
SET LOCAL jit = off;
SET LOCAL constraint_exclusion = off;
SET LOCAL client_min_messages = warning"""


# Every name is qualified: until the path is pinned, it may name anybody's functions first.
CALLER_PATH = "SELECT pg_catalog.current_schemas(false)::pg_catalog.text[]"
