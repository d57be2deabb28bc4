"""Where DuckDB finds a relation: names that mean one thing, and views, whose text has no database.

It looks for a schema among its databases, too, which go by the names of their files, and for a
relation among the temporary ones of a connection first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from dbanon.sessions.names import RelationName, quote
from dbanon.stores.duckdb.dialect import literal

_MEANT = """
SELECT current_database(), EXISTS (
  SELECT 1 FROM duckdb_databases() WHERE lower(database_name) = lower($schema)
) OR EXISTS (
  SELECT 1 FROM duckdb_tables() WHERE temporary
  AND lower(schema_name) = lower($schema) AND lower(table_name) = lower($name)
) OR EXISTS (
  SELECT 1 FROM duckdb_views() WHERE temporary AND NOT internal
  AND lower(schema_name) = lower($schema) AND lower(view_name) = lower($name)
)
"""


def placed(connection: duckdb.DuckDBPyConnection, schema: str, name: str) -> RelationName:
    """A relation of the connection's database, named so that nothing else can be meant."""
    found = connection.execute(_MEANT, {"schema": schema, "name": name}).fetchall()
    [(catalog, another)] = found
    return RelationName(schema, name, catalog=catalog if another else None)


def create_view(name: RelationName, columns: str, shown: RelationName, *, replaces: bool) -> str:
    """CREATE of a view that shows a relation of the same schema, where ``within`` says."""
    view, relation = (
        one.quoted if name.catalog is None else quote(one.name) for one in (name, shown)
    )
    create = "CREATE OR REPLACE" if replaces else "CREATE"
    return f"{create} VIEW {view} ({columns}) AS SELECT {columns} FROM {relation}"


@contextmanager
def within(connection: duckdb.DuckDBPyConnection, name: RelationName) -> Iterator[None]:
    """Have names without a schema mean this one's, where it cannot be named in a view.

    DuckDB keeps a view's text without its database, and finds the schema ambiguous then.
    """
    if name.catalog is None:
        yield
        return
    [(before,)] = connection.execute("SELECT current_setting('search_path')").fetchall()
    connection.execute(f"USE {quote(name.catalog)}.{quote(str(name.schema))}")
    back = f"SET search_path = {literal(before)}"
    try:
        yield
    except BaseException:
        # It takes no statement before the transaction has ended, which has failed.
        connection.execute("ROLLBACK")
        connection.execute(back)
        raise
    connection.execute(back)
