"""DuckDB as source and target, and files whose rows it loads."""
