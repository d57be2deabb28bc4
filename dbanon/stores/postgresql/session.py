"""A session on PostgreSQL, shared by the client and the backend.

The client connects through psycopg; the backend is the server process that runs dbanon's SQL
functions. They differ only in how they transfer data. Everything else is here and in the parts of a
session: reading the catalog, checking rights, and writing and publishing releases.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, ClassVar

from numpy.typing import NDArray

from dbanon.data.schema import CASEFOLD, WHITE_SPACE, Attribute, Kind
from dbanon.data.words import json_text
from dbanon.sessions.base import (
    Relation,
)
from dbanon.sessions.interface import Dialect
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.person_records import PersonRecords
from dbanon.sessions.rule_catalog import RuleCatalog
from dbanon.sessions.session import Session
from dbanon.stores.postgresql import catalog
from dbanon.stores.postgresql import dialect as postgresql_dialect
from dbanon.stores.postgresql.arrays import PostgresqlArraySession
from dbanon.stores.postgresql.digest import PostgresqlDigests
from dbanon.stores.postgresql.ledger import PostgresqlLedger
from dbanon.stores.postgresql.persons import PostgresqlPersonRecords
from dbanon.stores.postgresql.publication import PostgresqlPublication
from dbanon.stores.postgresql.relation_catalog import NAME_LIMIT, PostgresqlCatalog
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


class PostgresqlSession(PostgresqlArraySession, Session):
    """One transaction on PostgreSQL."""

    dialect: ClassVar[Dialect] = postgresql_dialect
    name_limit = NAME_LIMIT
    staging_suffix = " ON COMMIT DROP"
    # Maximum seconds to wait for locks on ledger tables.
    lock_seconds = LOCK_SECONDS

    @property
    @abstractmethod
    def ledger(self) -> PostgresqlLedger:
        """The ledger of the database."""

    @property
    def tags(self) -> PostgresqlPersonTags:
        """The keyed and salted hashes of person identifiers."""
        return PostgresqlPersonTags(self, self._staged_key)

    @property
    @abstractmethod
    def catalog(self) -> PostgresqlCatalog:
        """The catalog of the database: its relations, their owners, and the rights on them."""

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
        return PostgresqlPersonRecords(self, self.catalog.find_existing)

    def begin(self) -> None:
        """Record the caller's search path, then set the transaction's settings to fixed values."""
        self.catalog.search_path = self.read_search_path()
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

    def read_search_path(self) -> list[str]:
        """Return the schemas in which unqualified names are looked up."""
        schemas: list[str] = self.rows(SHOW_SEARCH_PATH)[0][0]
        return schemas

    # -- source -----------------------------------------------------------------------------------

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

    def analyze(self, relation: RelationName) -> None:
        self.run(f"ANALYZE {relation.quoted}")

    def call(self, function: str, arguments: Sequence[str]) -> str:
        parameters = ", ".join("?::jsonb" for _ in arguments)
        return str(self.rows(f"SELECT {function}({parameters})::text", arguments)[0][0])

    def texts_query(self, values: Sequence[str]) -> tuple[str, Any]:
        return "SELECT jsonb_array_elements_text(CAST(? AS jsonb))", json_text(values)
