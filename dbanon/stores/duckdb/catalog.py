"""The catalog of a DuckDB database.

Public methods without a docstring override documented ones of ``sessions.catalog.Catalog``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dbanon.data.schema import Schema
from dbanon.sessions.base import (
    ExistingRelation,
    Locator,
    Relation,
    choose_key,
    is_integer_key,
    key_required_error,
    with_key_locator,
)
from dbanon.sessions.names import RelationName
from dbanon.stores.duckdb import dialect
from dbanon.stores.duckdb.connection import DuckdbConnection
from dbanon.stores.duckdb.display import expression_as_displayed
from dbanon.stores.duckdb.errors import source_not_found
from dbanon.stores.file_catalog import FileCatalog


class DuckdbCatalog(FileCatalog):
    """The catalog of a DuckDB database."""

    _connection: DuckdbConnection

    expression_as_displayed = staticmethod(expression_as_displayed)

    def find_source(self, name: RelationName) -> Relation:
        schema = name.schema if name.schema is not None else self._current_schema()
        relations = self._connection.rows(
            "SELECT table_name, 'table', estimated_size FROM duckdb_tables()"
            " WHERE database_name = current_database() AND schema_name = ? AND table_name = ?"
            " UNION ALL SELECT view_name, 'view', 0 FROM duckdb_views()"
            " WHERE database_name = current_database() AND schema_name = ? AND view_name = ?",
            (schema, name.name) * 2,
        )
        if not relations:
            raise source_not_found(self._connection.rows, name, schema)
        _, kind, estimated_rows = relations[0]
        resolved_name = self._connection.qualify_name(schema, name.name)
        columns = self._connection.rows(
            "SELECT column_name, data_type, is_nullable FROM duckdb_columns()"
            " WHERE database_name = current_database() AND schema_name = ? AND table_name = ?"
            " ORDER BY column_index",
            (schema, name.name),
        )
        # Any column of a view may be NULL, whatever the catalog says.
        attributes = tuple(
            dialect.to_attribute(column, sql_type, nullable or kind == "view")
            for column, sql_type, nullable in columns
        )
        return Relation(resolved_name, Schema(attributes), kind, int(estimated_rows or 0))

    def find_existing(self, name: RelationName) -> ExistingRelation | None:
        relations = self._connection.rows(
            "SELECT 'table', comment FROM duckdb_tables() WHERE database_name = current_database()"
            " AND lower(schema_name) = lower(?) AND lower(table_name) = lower(?) UNION ALL"
            " SELECT 'view', comment FROM duckdb_views() WHERE database_name = current_database()"
            " AND lower(schema_name) = lower(?) AND lower(view_name) = lower(?)",
            (name.schema, name.name) * 2,
        )
        return ExistingRelation(*relations[0]) if relations else None

    def resolve_output(self, name: RelationName) -> RelationName:
        return self._connection.qualify_name(name.schema or self._current_schema(), name.name)

    def _current_schema(self) -> str:
        return str(self._connection.rows("SELECT current_schema()")[0][0])

    def find_unique_columns(self, source: Relation) -> frozenset[str]:
        keys = self._constraint_columns(source, "IN ('PRIMARY KEY', 'UNIQUE')")
        return frozenset(names[0] for names in keys if len(names) == 1)

    def _constraint_columns(self, source: Relation, type_condition: str) -> list[list[str]]:
        """List the column names of each constraint of some types.

        Parameters
        ----------
        type_condition : SQL after the column ``constraint_type``, such as ``= 'PRIMARY KEY'``.
        """
        rows = self._connection.rows(
            "SELECT constraint_column_names FROM duckdb_constraints()"
            " WHERE database_name = current_database() AND schema_name = ? AND table_name = ?"
            f" AND constraint_type {type_condition}",
            (source.name.schema, source.name.name),
        )
        return [names for (names,) in rows]

    def _has_primary_key(self, source: Relation) -> bool:
        # Listing constraints takes ten times as long in a new connection, so look here first.
        return self._connection.rows(
            "SELECT has_primary_key FROM duckdb_tables() WHERE database_name = current_database()"
            " AND schema_name = ? AND table_name = ?",
            (source.name.schema, source.name.name),
        ) == [(True,)]

    def with_row_locator(self, source: Relation, key: Sequence[str]) -> Relation:
        is_user_key = bool(key)
        has_rowid = source.kind == "table"
        if not is_user_key and has_rowid and self._has_primary_key(source):
            key = next(iter(self._constraint_columns(source, "= 'PRIMARY KEY'")), ())
        attributes = choose_key(source, key)
        if attributes:
            fits_bigint = is_integer_key(attributes) and attributes[0].bits <= 64
            return with_key_locator(
                source,
                attributes,
                "BIGINT",
                is_single_integer=fits_bigint,
                needs_uniqueness_check=is_user_key,
            )
        if has_rowid and not any(a.name.lower() == "rowid" for a in source.schema.attributes):
            return replace(source, locator=Locator(("s.rowid",), ("BIGINT",)))
        raise key_required_error(source, shadowing_column="rowid" if has_rowid else None)

    def read_column_comments(self, source: RelationName) -> dict[str, str]:
        comments = self._connection.rows(
            "SELECT column_name, comment FROM duckdb_columns() WHERE comment IS NOT NULL"
            " AND database_name = current_database() AND schema_name = ? AND table_name = ?",
            (source.schema, source.name),
        )
        return dict(comments)

    def has_schema(self, name: RelationName) -> bool:
        return dialect.has_schema(self._connection.rows, name)
