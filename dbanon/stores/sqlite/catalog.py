"""The catalog of a SQLite database.

SQLite has no schemas, so a schema becomes a prefix of names: ``release.people`` is the table
``release_people``.

Public methods without a docstring override documented ones of ``sessions.catalog.Catalog``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from dbanon.data.schema import Attribute, Schema
from dbanon.errors import TableNotFound, nearest_names
from dbanon.sessions.base import (
    MARK,
    ExistingRelation,
    Locator,
    Relation,
    choose_key,
    is_integer_key,
    key_required_error,
    with_key_locator,
)
from dbanon.sessions.names import RelationName, quote
from dbanon.stores.file_catalog import FileCatalog
from dbanon.stores.sqlite import dialect
from dbanon.stores.sqlite.display import expression_as_displayed

# SQLite's names for the row ID. A column of the same name hides it.
ROWID_NAMES = ("rowid", "_rowid_", "oid")


class SqliteCatalog(FileCatalog):
    """The catalog of a SQLite database."""

    expression_as_displayed = staticmethod(expression_as_displayed)

    def find_source(self, name: RelationName) -> Relation:
        resolved_name = self.resolve_output(name)
        relation_rows = self._connection.rows(
            "SELECT type FROM sqlite_master WHERE name = ? AND type IN ('table', 'view')",
            (resolved_name.name,),
        )
        if not relation_rows:
            table_names = self._connection.rows(
                "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
            )
            raise TableNotFound(
                f"There is no table {resolved_name}.",
                hint=nearest_names(resolved_name.name, [n for (n,) in table_names]),
            )
        attributes = tuple(
            dialect.to_attribute(column, declared_type, nullable=not not_null)
            for column, declared_type, not_null, _ in self._columns(resolved_name)
        )
        [(kind,)] = relation_rows
        return Relation(resolved_name, Schema(attributes), kind)

    def find_existing(self, name: RelationName) -> ExistingRelation | None:
        relation_rows = self._connection.rows(
            "SELECT type, sql FROM sqlite_master"
            " WHERE name = ? COLLATE NOCASE AND type IN ('table', 'view')",
            (name.name,),
        )
        if not relation_rows:
            return None
        kind, sql = relation_rows[0]
        mark = re.search(rf"/\* ({MARK}[0-9a-f-]{{36}}) \*/", sql or "")
        return ExistingRelation(kind, mark.group(1) if mark else None)

    def resolve_output(self, name: RelationName) -> RelationName:
        if name.schema is None or name.schema == "main":
            return RelationName(None, name.name)
        return RelationName(None, f"{name.schema}_{name.name}")

    def _columns(self, name: RelationName) -> list[tuple[str, str, bool, int]]:
        """List name, declared type, NOT NULL, and position in the primary key of each column.

        Positions count from 1; columns outside the primary key have 0.
        """
        return [
            (column, declared_type, bool(not_null), key_position)
            for _, column, declared_type, not_null, _, key_position, *_ in self._connection.rows(
                "SELECT * FROM pragma_table_xinfo(?)", (name.name,)
            )
        ]

    def find_unique_columns(self, source: Relation) -> frozenset[str]:
        primary_key = [name for name, _, _, position in self._columns(source.name) if position]
        unique_rows = self._connection.rows(
            # List the columns of unique indexes on a single column.
            "SELECT min(i.name) FROM pragma_index_list(?) AS l, pragma_index_info(l.name) AS i"
            ' WHERE l."unique" AND NOT l.partial GROUP BY l.name HAVING count(*) = 1',
            (source.name.name,),
        )
        single_key_column = primary_key if len(primary_key) == 1 else []
        return frozenset(
            [*single_key_column, *(name for (name,) in unique_rows if name is not None)]
        )

    def with_row_locator(self, source: Relation, key: Sequence[str]) -> Relation:
        columns = self._columns(source.name)
        if not key:
            positions = {name: position for name, _, _, position in columns if position}
            key = sorted(positions, key=positions.__getitem__)
        attributes = choose_key(source, key)
        if attributes:
            holds_integers = is_integer_key(attributes) and self._holds_integers(
                source, attributes[0]
            )
            return with_key_locator(
                source,
                attributes,
                "INTEGER",
                is_single_integer=holds_integers,
                # SQLite allows NULL in primary keys.
                needs_uniqueness_check=True,
            )
        names = {name.lower() for name, *_ in columns}
        free_names = [name for name in ROWID_NAMES if name not in names]
        if source.kind == "table" and free_names:
            return replace(source, locator=Locator((f"s.{free_names[0]}",), ("INTEGER",)))
        raise key_required_error(source)

    def _holds_integers(self, source: Relation, attribute: Attribute) -> bool:
        """Whether all values of a column are stored as integers."""
        column = f"s.{quote(attribute.name)}"
        query = f"SELECT 1 FROM {source.name.quoted} AS s WHERE typeof({column}) <> 'integer'"
        return not self._connection.rows(f"{query} LIMIT 1")
