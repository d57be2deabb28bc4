"""The catalog of a PostgreSQL database: relations, columns, owners and rights.

The module ``catalog`` has the SQL.

Public methods without a docstring override documented ones of ``sessions.catalog.Catalog``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from dbanon.data.types import JsonObject, SqlRow
from dbanon.errors import (
    InsufficientRights,
    InvalidName,
    SchemaNotFound,
    SourceChanged,
    TableNotFound,
)
from dbanon.sessions.base import (
    ExistingRelation,
    Locator,
    Relation,
    choose_key,
    is_integer_key,
    key_required_error,
    with_key_locator,
)
from dbanon.sessions.catalog import Catalog
from dbanon.sessions.names import RelationName, require_length
from dbanon.stores.postgresql import catalog, digest, foreign, rights
from dbanon.stores.postgresql.connection import PostgresqlConnection
from dbanon.stores.postgresql.dialect import NAME_LIMIT
from dbanon.stores.postgresql.display import expressions_as_displayed


class _Relation(NamedTuple):
    """What the catalog says about a source relation.

    Parameters
    ----------
    kind : ``pg_class.relkind``.
    has_children : whether other tables inherit from it, or are its partitions.
    """

    oid: int
    kind: str
    has_children: bool


class PostgresqlCatalog(Catalog):
    """The catalog of a PostgreSQL database."""

    has_oids = True

    _connection: PostgresqlConnection

    def __init__(self, connection: PostgresqlConnection) -> None:
        super().__init__(connection)
        # The sources that this session has looked up.
        self._relations: dict[RelationName, _Relation] = {}

    def find_source(self, name: RelationName) -> Relation:
        row = self._look_up_relation(name)
        if row is None:
            raise self._missing_error(name)
        oid, schema, relation_name, relkind, row_estimate, has_children, has_row_security = row
        resolved_name = RelationName(schema, relation_name)
        if relkind not in catalog.RELATION_KINDS:
            # An index or a sequence, for instance, which has no rows to anonymize.
            raise self._missing_error(name)
        if has_row_security:
            raise InsufficientRights(
                f"Row-level security filters {resolved_name} for this role.",
                hint="Use a role that sees all rows: the table's owner, or one with BYPASSRLS."
                " Otherwise the rows that a policy shows would be mistaken for the whole table.",
            )
        kind = catalog.RELATION_KINDS[relkind]
        if has_children and relkind == "r":
            kind = "inherited table"
        self.require_no_foreign_code(oid)
        columns = catalog.read_schema(self._connection.look_up, oid)
        source = Relation(resolved_name, columns, kind, estimated_rows=max(row_estimate, 0))
        self._relations[resolved_name] = _Relation(oid, relkind, has_children)
        return source

    def _look_up_relation(self, name: RelationName) -> SqlRow | None:
        """Return the row that ``catalog.RELATION`` selects for a name; None if there is none."""
        schemas = [name.schema] if name.schema is not None else self._connection.search_path
        for schema in schemas:
            require_length(schema, NAME_LIMIT, "name of the schema")
            require_length(name.name, NAME_LIMIT, "name of the table")
            oids = self._connection.rows(
                "SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
                " WHERE n.nspname = ? AND c.relname = ?",
                (schema, name.name),
            )
            if oids:
                return self._connection.rows(catalog.RELATION, oids[0])[0]
        return None

    def _missing_error(self, name: RelationName) -> TableNotFound | SchemaNotFound:
        schemas = [name.schema] if name.schema is not None else self._connection.search_path
        return catalog.missing_relation_error(self._connection, name, schemas)

    def describe_staging_table(self, name: RelationName, oid: int) -> Relation:
        """Return a staging table as a source whose rows are identified by ``ctid``."""
        self._relations[name] = _Relation(oid, "r", has_children=False)
        schema = catalog.read_schema(self._connection.look_up, oid)
        return Relation(name, schema, "table", locator=Locator(("s.ctid",), ("tid",)))

    def oid_of(self, source: RelationName) -> int:
        """Return the oid of a source that this session has looked up."""
        return self._relations[source].oid

    @property
    def source_oids(self) -> list[int]:
        """The oids of all sources that this session has looked up."""
        return [relation.oid for relation in self._relations.values()]

    def require_no_foreign_code(self, oid: int) -> None:
        """Check that reading a relation runs no code of another role.

        Raises
        ------
        ForeignCode : reading it would run such code.
        """
        if self.has_no_attached_code(oid):
            return
        foreign.require_no_foreign_code(
            self._connection.rows(foreign.foreign_code_query(f"{int(oid)}::oid"))
        )

    def has_no_attached_code(self, oid: int) -> bool:
        """Return True if a table certainly has no object with code, such as an expression index."""
        return self._connection.look_up(foreign.no_attached_code_query(f"{int(oid)}::oid")) == [
            (True,)
        ]

    def find_existing(self, name: RelationName) -> ExistingRelation | None:
        rows = self._connection.look_up(catalog.RELATION_BY_NAME, (name.schema, name.name))
        if len(rows) > 1:
            # This transaction's snapshot shows both the new relation and the one it replaced.
            raise SourceChanged(
                f"Another session replaced {name} in the meantime; nothing was published.",
                hint="Try again.",
            )
        return ExistingRelation(*rows[0]) if rows else None

    def resolve_output(self, name: RelationName) -> RelationName:
        if name.schema is None:
            if not self._connection.search_path:
                raise SchemaNotFound(
                    "The search path of this role names no schema that exists.",
                    hint="Name its schema, as in release.people.",
                )
            name = RelationName(self._connection.search_path[0], name.name)
        if str(name.schema).startswith("pg_"):
            raise InvalidName(
                "The output's schema belongs to PostgreSQL or is temporary.",
                hint="Name another schema, as in release.people.",
            )
        return name

    def list_columns(self, relation: RelationName) -> list[tuple[str, str]]:
        rows = self._connection.look_up(digest.COLUMNS_FOR_NAMES, (relation.schema, relation.name))
        return [(name, sql_type) for name, sql_type in rows]

    def find_unique_columns(self, source: Relation) -> frozenset[str]:
        rows = self._connection.rows(catalog.UNIQUE_COLUMNS, (self.oid_of(source.name),))
        return frozenset(name for (name,) in rows)

    def with_row_locator(self, source: Relation, key: Sequence[str]) -> Relation:
        is_explicit = bool(key)
        relation = self._relations[source.name]
        # The primary key of an inherited table is not unique: it does not cover the children.
        if not is_explicit and not (relation.has_children and relation.kind == "r"):
            key = [name for (name,) in self._connection.rows(catalog.PRIMARY_KEY, (relation.oid,))]
        # Empty without a key: then rows are identified by their address, if they have one.
        attributes = choose_key(source, key)
        if attributes:
            comparison_sql: tuple[str, ...] = ()
            if any(attribute.uses_output_function for attribute in attributes):
                # The key map stores texts instead, since comparing these types could run code.
                comparison_sql = tuple(map(self._connection.dialect.value_of_key, attributes))
            # ``bigint`` is the type of a single integer key, and of the numbers in a key map.
            return with_key_locator(
                source,
                attributes,
                "bigint",
                is_single_integer=is_integer_key(attributes),
                # Nothing is known of a key that the job names; a primary key is unique.
                needs_uniqueness_check=is_explicit,
                comparison_sql=comparison_sql,
            )
        if relation.kind == "p" or relation.has_children:
            if self._connection.rows(catalog.HAS_FOREIGN_TABLES, (relation.oid,))[0][0]:
                raise key_required_error(replace(source, kind=f"{source.kind} with a foreign part"))
            # A row address is unique only within a partition or child table.
            return replace(source, locator=Locator(("s.tableoid", "s.ctid"), ("oid", "tid")))
        if relation.kind in catalog.KINDS_WITH_CTID:
            return replace(source, locator=Locator(("s.ctid",), ("tid",)))
        raise key_required_error(source)

    def expressions_as_displayed(
        self, relation: RelationName, columns: Mapping[str, str]
    ) -> list[tuple[str, ...]]:
        existing_relation = self.find_existing(relation)
        if existing_relation is None or existing_relation.oid is None:
            raise self._missing_error(relation)
        return expressions_as_displayed(self._connection.look_up, existing_relation.oid, columns)

    def read_column_comments(self, source: RelationName) -> dict[str, str]:
        return dict(self._connection.rows(catalog.COLUMN_COMMENTS, (source.schema, source.name)))

    def summarize_table_state(self, source: RelationName) -> JsonObject:
        name = (source.schema, source.name)
        rows = self._connection.rows(
            f"SELECT state::text FROM ({catalog.STATE_BY_NAME}) AS s(state)", (*name, *name)
        )
        [(state_json,)] = rows
        state: JsonObject = json.loads(state_json) if state_json else {}
        return state

    def find_orphaned_tables(self) -> list[RelationName]:
        from dbanon.stores.postgresql import pieces

        return pieces.find_abandoned(self._connection)

    def find_current_user(self) -> str | None:
        return str(self._connection.rows(catalog.CURRENT_USER)[0][0])

    def find_role_id(self) -> int:
        rows = self._connection.look_up(
            "SELECT oid::bigint FROM pg_roles WHERE rolname = current_user"
        )
        return int(rows[0][0])

    def require_readable(self, source: Relation, columns: Sequence[str]) -> None:
        # This session owns its staging tables.
        if source.name.staging_table is None:
            rights.require_readable(self._connection, source, columns, self.oid_of(source.name))

    def find_readable_columns(self, source: Relation, columns: Sequence[str]) -> frozenset[str]:
        names = [name for name in columns if not source.attribute(name).type_of_other_role]
        oid = self.oid_of(source.name)
        unreadable = {
            name for (name,) in self._connection.rows(catalog.UNREADABLE_COLUMNS, (names, oid, oid))
        }
        return frozenset(names) - unreadable

    def require_comparable_types(self, source: Relation, columns: Sequence[str]) -> None:
        rights.require_comparable_types(self._connection, source, columns)

    def find_missing_read_grants(self, name: RelationName, columns: Sequence[str]) -> list[str]:
        schemas = [str(name.schema)] if name.schema is not None else self._connection.search_path
        return rights.find_missing_read_grants(self._connection, schemas, name.name, columns)

    def find_missing_write_grants(self, output: RelationName) -> list[str]:
        return rights.find_missing_write_grants(
            self._connection, str(self.resolve_output(output).schema)
        )

    def must_create_schema(self, name: RelationName, *, strict: bool = False) -> bool:
        return rights.must_create_schema(self._connection, str(name.schema), strict)

    def may_drop(self, existing: ExistingRelation) -> bool:
        return bool(self._connection.rows(catalog.MAY_DROP, (existing.oid,))[0][0])
