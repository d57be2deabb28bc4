"""The catalog of a database: which relations exist, who owns them, and what this role may do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from dbanon.data.schema import Attribute
from dbanon.data.types import JsonObject
from dbanon.sessions.base import ExistingRelation, Relation
from dbanon.sessions.connection import Connection
from dbanon.sessions.names import DOUBLE_QUOTE, RelationName, quote


class Catalog(ABC):
    """The catalog of a database, as one session sees it.

    Parameters
    ----------
    connection : the connection that queries the catalog.
    """

    # Whether relations and roles have object IDs, which survive renames.
    has_oids = False

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @abstractmethod
    def find_source(self, name: RelationName) -> Relation:
        """Look up a relation; the result has no row locator yet.

        Raises
        ------
        TableNotFound : the relation does not exist.
        """

    @abstractmethod
    def find_existing(self, name: RelationName) -> ExistingRelation | None:
        """Return the relation that has this name, or None."""

    @abstractmethod
    def resolve_output(self, name: RelationName) -> RelationName:
        """Resolve the output's name, with its schema."""

    def is_same_name(self, name: RelationName, other_name: RelationName) -> bool:
        """Return True if both names refer to the same relation."""
        return name == other_name

    def list_columns(self, relation: RelationName) -> list[tuple[str, str]]:
        """Return the names and types of a relation's columns, in catalog order."""
        attributes = self.find_source(relation).schema.attributes
        return [(attribute.name, attribute.sql_type) for attribute in attributes]

    @abstractmethod
    def find_unique_columns(self, source: Relation) -> frozenset[str]:
        """Return the columns that the database declares unique."""

    @abstractmethod
    def with_row_locator(self, source: Relation, key: Sequence[str]) -> Relation:
        """Return the source with a locator that addresses its rows.

        Parameters
        ----------
        key : names of the key columns that the job declares; empty to choose one.

        Raises
        ------
        KeyRequired : no key was declared, and the rows have no other address.
        ColumnNotFound : a column of the key does not exist.
        """

    def expression_as_displayed(self, attribute: Attribute, column: str) -> tuple[str, ...]:
        """SQL expressions to group by, so that values that readers can tell apart are separate.

        Values that compare equal may be displayed differently, such as 7.5 and 7.50, texts under a
        case-insensitive collation, or intervals.

        The first expression is NULL if the value is. If equal values always look the same, the
        column itself is the only expression.

        Parameters
        ----------
        attribute : the column's type.
        column : SQL of the column.
        """
        return (column,)

    def expressions_as_displayed(
        self, relation: RelationName, columns: Mapping[str, str]
    ) -> list[tuple[str, ...]]:
        """Return the result of ``expression_as_displayed`` for each of several SQL expressions.

        Parameters
        ----------
        relation : a relation whose columns have the types of the expressions.
        columns : SQL of each expression, by the name of the column whose type it has.
        """
        source = self.find_source(relation)
        return [
            self.expression_as_displayed(source.attribute(name), column)
            for name, column in columns.items()
        ]

    def columns_as_displayed(
        self, relation: RelationName, names: Sequence[str], mark: str = DOUBLE_QUOTE
    ) -> list[tuple[str, ...]]:
        """Return the result of ``expression_as_displayed`` for each column, over the alias s.

        Parameters
        ----------
        mark : the quotation mark of names; see ``names.quote``.
        """
        columns = {name: f"s.{quote(name, mark)}" for name in names}
        return self.expressions_as_displayed(relation, columns)

    def read_column_comments(self, source: RelationName) -> dict[str, str]:
        """Return the comments on a table's columns, by column; empty if there are none."""
        return {}

    def summarize_table_state(self, source: RelationName) -> JsonObject:
        """Summarize a table's state without reading its rows, to let later runs detect changes.

        The keys are ``oid``, which changes if the table is replaced; ``writes``, the numbers of
        rows inserted, updated and deleted; ``since``, when the database began to count these; and
        ``file``, which changes if the table is emptied or rewritten. Empty if the database does not
        count writes.
        """
        return {}

    def find_orphaned_tables(self) -> list[RelationName]:
        """Return tables that workers of a Spark cluster left behind, whose driver has ended."""
        return []

    @abstractmethod
    def find_current_user(self) -> str | None:
        """Return the publishing role, if the database has roles."""

    def find_role_id(self) -> int | None:
        """Return the id of the publishing role, which survives renames; None without ids."""
        return None

    @abstractmethod
    def require_readable(self, source: Relation, columns: Sequence[str]) -> None:
        """Check that these columns may be read.

        Raises
        ------
        InsufficientRights : a right is missing; the hint says which one to grant.
        """

    def find_readable_columns(self, source: Relation, columns: Sequence[str]) -> frozenset[str]:
        """Return those of these columns that this role may read; all of them without roles."""
        return frozenset(columns)

    def require_comparable_types(  # noqa: B027
        self, source: Relation, columns: Sequence[str]
    ) -> None:
        """Check that the values of these columns can be compared.

        Does nothing on databases where every type has an equality operator.

        Raises
        ------
        UnsupportedType : a column's type has no equality operator.
        """

    def find_missing_read_grants(self, name: RelationName, columns: Sequence[str]) -> list[str]:
        """Return the GRANT statements that would let this role read the columns.

        Empty if no right is missing, or on databases without roles.
        """
        return []

    def find_missing_write_grants(self, output: RelationName) -> list[str]:
        """Return the GRANT statements that would let this role write the output.

        Empty if no right is missing, or on databases without roles.
        """
        return []

    def must_create_schema(self, name: RelationName, *, strict: bool = False) -> bool:
        """Check the role's rights, and return whether the output's schema is missing.

        Without roles or schemas, nothing is checked, and the result is False.

        Parameters
        ----------
        strict : True to refuse a missing schema.

        Raises
        ------
        InsufficientRights : the role may not create tables in the schema, or the missing schema.
        SchemaNotFound : the schema is missing, and the release is strict.
        """
        return False

    def may_drop(self, existing: ExistingRelation) -> bool:
        """Return True if this role may drop a relation and nothing depends on it."""
        return True
