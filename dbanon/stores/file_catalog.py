"""The catalog of databases in files, which have no roles: DuckDB and SQLite.

Anyone who can open the file can read and write all of it.

Public methods without a docstring override documented ones of ``sessions.catalog.Catalog``.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbanon.sessions.base import Relation
from dbanon.sessions.catalog import Catalog
from dbanon.sessions.names import RelationName, quote, schema_not_found


class FileCatalog(Catalog):
    """The catalog of a database in a file."""

    def is_same_name(self, name: RelationName, other_name: RelationName) -> bool:
        return str(name).lower() == str(other_name).lower()

    def find_current_user(self) -> str | None:
        return None

    def require_readable(self, source: Relation, columns: Sequence[str]) -> None:
        """Do nothing: there are no roles."""

    def has_schema(self, name: RelationName) -> bool:
        """Whether the schema of a relation exists; True for databases without schemas."""
        return True

    def must_create_schema(self, name: RelationName, *, strict: bool = False) -> bool:
        if self.has_schema(name):
            return False
        # A strict policy refuses to create a missing schema.
        if strict:
            schema = str(name.schema)
            raise schema_not_found(schema, f"CREATE SCHEMA {quote(schema)}")
        return True
