"""A session on PostgreSQL, shared by the client and the backend.

The client connects through psycopg; the backend is the server process that runs dbanon's SQL
functions. They differ only in how they transfer data. Everything else is here: reading the catalog,
checking rights, and writing and publishing releases.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

from numpy.typing import NDArray

from dbanon.data.schema import CASEFOLD, WHITE_SPACE, Attribute, Kind
from dbanon.data.words import json_text
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
    OnSql,
    Relation,
    choose_key,
    is_integer_key,
    key_required_error,
    with_key_locator,
)
from dbanon.sessions.interface import Dialect
from dbanon.sessions.names import RelationName, quote, require_length
from dbanon.sessions.person_records import PersonRecords
from dbanon.sessions.rule_catalog import RuleCatalog
from dbanon.sessions.session import Session
from dbanon.stores.postgresql import catalog, digest, foreign, pieces, rights
from dbanon.stores.postgresql import dialect as postgresql_dialect
from dbanon.stores.postgresql.arrays import PostgresqlArraySession
from dbanon.stores.postgresql.digest import PostgresqlDigests
from dbanon.stores.postgresql.display import expressions_as_displayed
from dbanon.stores.postgresql.ledger import PostgresqlLedger
from dbanon.stores.postgresql.persons import PostgresqlPersonRecords
from dbanon.stores.postgresql.publication import PostgresqlPublication
from dbanon.stores.postgresql.rules import PostgresqlRuleCatalog
from dbanon.stores.postgresql.settings import (
    CLIENT_STATEMENTS,
    LOCK_SECONDS,
    SHOW_LOCK_TIMEOUT,
    SHOW_SEARCH_PATH,
    lock_milliseconds,
    set_lock_timeout,
)
from dbanon.stores.postgresql.tags import PostgresqlPersonTags


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


class PostgresqlSession(PostgresqlArraySession, Session):
    """One transaction on PostgreSQL."""

    dialect: ClassVar[Dialect] = postgresql_dialect
    name_limit = 63
    staging_suffix = " ON COMMIT DROP"
    # Maximum seconds to wait for locks on ledger tables.
    lock_seconds = LOCK_SECONDS
    _search_path: list[str]

    def __init__(self, on_sql: OnSql | None = None) -> None:
        super().__init__(on_sql)
        # The sources that this session has looked up.
        self._relations: dict[RelationName, _Relation] = {}

    @property
    @abstractmethod
    def ledger(self) -> PostgresqlLedger:
        """The ledger of the database."""

    @property
    def tags(self) -> PostgresqlPersonTags:
        """The keyed and salted hashes of person identifiers."""
        return PostgresqlPersonTags(self, self._staged_key)

    @property
    def rules(self) -> RuleCatalog:
        """The declared rules of the database."""
        return PostgresqlRuleCatalog(self, self.call)

    @property
    def digests(self) -> PostgresqlDigests:
        """The digests of the rows of tables."""
        return PostgresqlDigests(self)

    @property
    @abstractmethod
    def publication(self) -> PostgresqlPublication:
        """The tables and views that this session writes and publishes."""

    @property
    def persons(self) -> PersonRecords:
        """The ledger's records of the persons in releases."""
        return PostgresqlPersonRecords(self, self.find_existing)

    def begin(self) -> None:
        """Record the caller's search path, then set the transaction's settings to fixed values."""
        self._search_path = self.read_search_path()
        self.run(CLIENT_STATEMENTS)
        [(setting,)] = self.rows(SHOW_LOCK_TIMEOUT)
        lock_timeout_ms = lock_milliseconds(setting)
        self.run(set_lock_timeout(lock_timeout_ms))
        self.lock_seconds = lock_timeout_ms / 1000

    def look_up(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query on the catalog, whose plan subclasses may cache."""
        return self.rows(sql, parameters)

    @abstractmethod
    def savepoint(self) -> AbstractContextManager[Any]:
        """If the block raises, roll back only its own statements."""

    def summarize_table_state(self, source: RelationName) -> dict[str, Any]:
        name = (source.schema, source.name)
        rows = self.rows(
            f"SELECT state::text FROM ({catalog.STATE_BY_NAME}) AS s(state)", (*name, *name)
        )
        [(state_json,)] = rows
        state: dict[str, Any] = json.loads(state_json) if state_json else {}
        return state

    def read_column_comments(self, source: RelationName) -> dict[str, str]:
        return dict(self.rows(catalog.COLUMN_COMMENTS, (source.schema, source.name)))

    def read_search_path(self) -> list[str]:
        """Return the schemas in which unqualified names are looked up."""
        schemas: list[str] = self.rows(SHOW_SEARCH_PATH)[0][0]
        return schemas

    # -- source -----------------------------------------------------------------------------------

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
        columns = catalog.read_schema(self.look_up, oid)
        source = Relation(resolved_name, columns, kind, estimated_rows=max(row_estimate, 0))
        self._relations[resolved_name] = _Relation(oid, relkind, has_children)
        return source

    def staged_relation(self, name: RelationName, oid: int) -> Relation:
        """Return a staging table as a source whose rows are identified by ``ctid``."""
        self._relations[name] = _Relation(oid, "r", has_children=False)
        schema = catalog.read_schema(self.look_up, oid)
        return Relation(name, schema, "table", locator=Locator(("s.ctid",), ("tid",)))

    def require_no_foreign_code(self, oid: int) -> None:
        """Check that reading a relation runs no code of another role.

        Raises
        ------
        ForeignCode : reading it would run such code.
        """
        if self.has_no_attached_code(oid):
            return
        foreign.require_no_foreign_code(self.rows(foreign.foreign_code_query(f"{int(oid)}::oid")))

    def has_no_attached_code(self, oid: int) -> bool:
        """Return True if a table certainly has no object with code, such as an expression index."""
        return self.look_up(foreign.no_attached_code_query(f"{int(oid)}::oid")) == [(True,)]

    def _look_up_relation(self, name: RelationName) -> tuple[Any, ...] | None:
        """Return the row that ``catalog.RELATION`` selects for a name; None if there is none."""
        schemas = [name.schema] if name.schema is not None else self._search_path
        for schema in schemas:
            require_length(schema, self.name_limit, "name of the schema")
            require_length(name.name, self.name_limit, "name of the table")
            oids = self.rows(
                "SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
                " WHERE n.nspname = ? AND c.relname = ?",
                (schema, name.name),
            )
            if oids:
                return self.rows(catalog.RELATION, oids[0])[0]
        return None

    def _missing_error(self, name: RelationName) -> TableNotFound | SchemaNotFound:
        schemas = [name.schema] if name.schema is not None else self._search_path
        return catalog.missing_relation_error(self, name, schemas)

    def with_row_locator(self, source: Relation, key: Sequence[str]) -> Relation:
        is_explicit = bool(key)
        relation = self._relations[source.name]
        # The primary key of an inherited table is not unique: it does not cover the children.
        if not is_explicit and not (relation.has_children and relation.kind == "r"):
            key = [name for (name,) in self.rows(catalog.PRIMARY_KEY, (relation.oid,))]
        # Empty without a key: then rows are identified by their address, if they have one.
        attributes = choose_key(source, key)
        if attributes:
            comparison_sql: tuple[str, ...] = ()
            if any(attribute.uses_output_function for attribute in attributes):
                # The key map stores texts instead, since comparing these types could run code.
                comparison_sql = tuple(map(self.value_of_key, attributes))
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
            if self.rows(catalog.HAS_FOREIGN_TABLES, (relation.oid,))[0][0]:
                raise key_required_error(replace(source, kind=f"{source.kind} with a foreign part"))
            # A row address is unique only within a partition or child table.
            return replace(source, locator=Locator(("s.tableoid", "s.ctid"), ("oid", "tid")))
        if relation.kind in catalog.KINDS_WITH_CTID:
            return replace(source, locator=Locator(("s.ctid",), ("tid",)))
        raise key_required_error(source)

    def sort_key(self, attribute: Attribute) -> str:
        column = super().sort_key(attribute)
        # Sort texts by their bytes, so that the order depends on no collation. A uuid needs no
        # conversion; user-defined types may have any name.
        is_uuid = "uuid" in attribute.sql_type and not attribute.uses_output_function
        if attribute.uses_output_function or (attribute.kind is Kind.CATEGORY and not is_uuid):
            return self.text_of(attribute)
        return column

    def value_of(self, attribute: Attribute) -> str:
        if attribute.normalize:
            # btrim keeps the column's collation; not all collations support replace().
            trimmed = f"btrim({postgresql_dialect.as_text(attribute)}, '{WHITE_SPACE}')"
            return self.lowercase_sql(trimmed) if attribute.normalize == CASEFOLD else trimmed
        # Compare user-defined types as text: resolving their = operator could use their owner's
        # casts.
        return (
            self.text_of(attribute)
            if attribute.uses_output_function
            else super().value_of(attribute)
        )

    def value_of_key(self, attribute: Attribute) -> str:
        """SQL of a key column in a form that can be compared."""
        return (
            self.text_of(attribute)
            if attribute.uses_output_function
            else f"s.{quote(attribute.name)}"
        )

    def retained_value(self, attribute: Attribute) -> str:
        return postgresql_dialect.retained_column(attribute)

    def require_rights(self, source: Relation, columns: Sequence[str]) -> None:
        # This session owns its staging tables.
        if source.name.staging_table is None:
            rights.require_readable(self, source, columns, self._relations[source.name].oid)

    def find_readable_columns(self, source: Relation, columns: Sequence[str]) -> frozenset[str]:
        names = [name for name in columns if not source.attribute(name).type_of_other_role]
        oid = self._relations[source.name].oid
        unreadable = {name for (name,) in self.rows(catalog.UNREADABLE_COLUMNS, (names, oid, oid))}
        return frozenset(names) - unreadable

    def require_comparable_types(self, source: Relation, columns: Sequence[str]) -> None:
        rights.require_comparable_types(self, source, columns)

    def stage_values(
        self, source: Relation, attributes: Sequence[Attribute]
    ) -> list[tuple[str, ...]]:
        dictionaries = super().stage_values(source, attributes)
        # Without statistics the planner assumes large tables, and sorts the source for each of
        # them.
        for table in self._value_tables:
            self.run(f"ANALYZE {quote(table)}")
        return dictionaries

    def text_of(self, attribute: Attribute) -> str:
        return f'{postgresql_dialect.as_text(attribute)} COLLATE "C"'

    def grouping_sql(self, attribute: Attribute) -> str:
        # As in ``value_of``, user-defined types are compared as text.
        return (
            self.text_of(attribute)
            if attribute.uses_output_function
            else super().grouping_sql(attribute)
        )

    def expressions_as_displayed(
        self, relation: RelationName, columns: Mapping[str, str]
    ) -> list[tuple[str, ...]]:
        existing_relation = self.find_existing(relation)
        if existing_relation is None or existing_relation.oid is None:
            raise self._missing_error(relation)
        return expressions_as_displayed(self.look_up, existing_relation.oid, columns)

    def unique_columns(self, source: Relation) -> frozenset[str]:
        rows = self.rows(catalog.UNIQUE_COLUMNS, (self._relations[source.name].oid,))
        return frozenset(name for (name,) in rows)

    def sample(self, relation: RelationName, share: float) -> str:
        return f"{relation.quoted} AS s TABLESAMPLE BERNOULLI ({100 * share:.6f})"

    def complete_attributes_from_values(
        self, source: Relation, attributes: Sequence[Attribute]
    ) -> tuple[Attribute, ...]:
        # A column of type numeric that declares no scale gets the largest scale of its values.
        unscaled_attributes = [a for a in attributes if a.scale == catalog.UNKNOWN_SCALE]
        if not unscaled_attributes:
            return tuple(attributes)
        maxima = ", ".join(f"max(scale(s.{quote(a.name)}))" for a in unscaled_attributes)
        from_clause = f"{source.relation_to_read.quoted} AS s{source.where_clause}"
        [scales] = self.rows(f"SELECT {maxima} FROM {from_clause}")
        scale_by_name = {
            a.name: scale or 0 for a, scale in zip(unscaled_attributes, scales, strict=True)
        }
        return tuple(replace(a, scale=scale_by_name.get(a.name, a.scale)) for a in attributes)

    def range_type(self, attribute: Attribute, bounds: Sequence[NDArray[Any]] = ()) -> str:
        return postgresql_dialect.range_type(attribute, bounds)

    # -- output -----------------------------------------------------------------------------------

    def resolve_output(self, name: RelationName) -> RelationName:
        if name.schema is None:
            if not self._search_path:
                raise SchemaNotFound(
                    "The search path of this role names no schema that exists.",
                    hint="Name its schema, as in release.people.",
                )
            name = RelationName(self._search_path[0], name.name)
        if str(name.schema).startswith("pg_"):
            raise InvalidName(
                "The output's schema belongs to PostgreSQL or is temporary.",
                hint="Name another schema, as in release.people.",
            )
        return name

    def role_id(self) -> int:
        rows = self.look_up("SELECT oid::bigint FROM pg_roles WHERE rolname = current_user")
        return int(rows[0][0])

    def find_missing_read_grants(self, name: RelationName, columns: Sequence[str]) -> list[str]:
        schemas = [str(name.schema)] if name.schema is not None else self._search_path
        return rights.find_missing_read_grants(self, schemas, name.name, columns)

    def find_missing_write_grants(self, output: RelationName) -> list[str]:
        return rights.find_missing_write_grants(self, str(self.resolve_output(output).schema))

    def must_create_schema(self, name: RelationName, *, strict: bool = False) -> bool:
        return rights.must_create_schema(self, str(name.schema), strict)

    def find_existing(self, name: RelationName) -> ExistingRelation | None:
        rows = self.look_up(catalog.RELATION_BY_NAME, (name.schema, name.name))
        if len(rows) > 1:
            # This transaction's snapshot shows both the new relation and the one it replaced.
            raise SourceChanged(
                f"Another session replaced {name} in the meantime; nothing was published.",
                hint="Try again.",
            )
        return ExistingRelation(*rows[0]) if rows else None

    def columns_of(self, relation: RelationName) -> list[tuple[str, str]]:
        rows = self.look_up(digest.COLUMNS_FOR_NAMES, (relation.schema, relation.name))
        return [(name, sql_type) for name, sql_type in rows]

    def analyze(self, relation: RelationName) -> None:
        self.run(f"ANALYZE {relation.quoted}")

    def call(self, function: str, arguments: Sequence[str]) -> str:
        parameters = ", ".join("?::jsonb" for _ in arguments)
        return str(self.rows(f"SELECT {function}({parameters})::text", arguments)[0][0])

    def may_drop(self, existing: ExistingRelation) -> bool:
        return bool(self.rows(catalog.MAY_DROP, (existing.oid,))[0][0])

    def current_user(self) -> str | None:
        return str(self.rows("SELECT current_user::text")[0][0])

    def texts_query(self, values: Sequence[str]) -> tuple[str, Any]:
        return "SELECT jsonb_array_elements_text(CAST(? AS jsonb))", json_text(values)

    def find_orphaned_tables(self) -> list[RelationName]:
        return pieces.find_abandoned(self)
