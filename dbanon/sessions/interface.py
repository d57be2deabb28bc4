"""The part of a session that differs between databases and that a new store must implement."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from dbanon.data.chunks import Chunk
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import DbanonError, InvalidName
from dbanon.recoding import ReleasedColumn
from dbanon.sessions.base import (
    ColumnReading,
    ExistingRelation,
    Output,
    Relation,
    StagedRows,
    passthrough_error,
)
from dbanon.sessions.names import RelationName, quote, released_name


class PassthroughInterface:
    """Session methods for columns that are copied through the client; by default they refuse."""

    def require_passthrough(self, source: Relation, columns: Sequence[Attribute]) -> None:
        """Check that values of these columns can be copied through the client unread.

        Raises
        ------
        InvalidParameter : this database does not support it, or not with this interface.
        UnsupportedType : a column's type does not support it.
        """
        raise passthrough_error()

    def read_passthrough(
        self,
        source: Relation,
        attributes: Sequence[Attribute],
        passthrough: Sequence[Attribute],
        chunk_rows: int,
        memory_limit: int | None,
    ) -> Iterator[Chunk]:
        """Read as ``read_chunks``, and store the unread values of ``passthrough`` columns.

        Raises
        ------
        MemoryLimit : the values need more memory than allowed.
        """
        raise passthrough_error()

    def insert_passthrough(
        self,
        table: RelationName,
        released: Sequence[tuple[str, str, str]],
        columns: Sequence[ReleasedColumn],
        passthrough: Sequence[str],
        microdata: Microdata,
        partition: Partition,
    ) -> None:
        """Fill a table with shuffled passthrough values and the values of their classes.

        Parameters
        ----------
        released : name, SQL type and SQL expression over staged classes, of each class column.
        columns : the released values of each class.
        passthrough : names of the passthrough columns, in order.

        Raises
        ------
        DatabaseFailure : the database rejects a value.
        """
        raise passthrough_error()


class Dialect(Protocol):
    """A module that renders a database's types and values as SQL."""

    def bounded(self, attribute: Attribute, low: str, high: str) -> str: ...

    def released_expression(self, position: int, column: ReleasedColumn) -> str: ...

    def wide_parts(self, attribute: Attribute) -> tuple[str, str]: ...

    def type_of(self, attribute: Attribute) -> str: ...


class SessionInterface(PassthroughInterface, ABC):
    """One transaction on one database."""

    dialect: ClassVar[Dialect]
    # How a release is published: ``transaction``: at the session's commit, with everything else;
    # ``swap``: by a separate statement at the end of the session, followed by the ledger entry.
    atomic: ClassVar[Literal["transaction", "swap"]] = "transaction"
    # Seconds that readers may block a swap.
    swap_seconds: float = 60.0
    # The maximum length of a name in bytes; None for no limit.
    name_limit: ClassVar[int | None] = None
    # SQL types of ledger columns, from the type's name to the database's.
    ledger_types: ClassVar[Mapping[str, str]]
    # SQL that follows the definition of a temporary table.
    staging_suffix: ClassVar[str] = ""
    # False if the database disappears with the run, so that its ledger knows no earlier releases.
    is_persistent: ClassVar[bool] = True
    # URL of the files that were loaded here; None for databases.
    file_url: str | None = None
    # The rows of files that this transaction has staged, as the source of a chain.
    staged_rows: StagedRows | None = None
    # From a capability that this database lacks to the error to raise.
    unsupported_features: ClassVar[Mapping[str, type[DbanonError]]] = {}
    # Lower-case column names that views cannot have.
    unsupported_in_views: ClassVar[frozenset[str]] = frozenset()
    # The name of the algorithm of ``digest_rows``, as the ledger records it.
    digest_method: ClassVar[str]

    @abstractmethod
    def run(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        """Execute a statement; bind parameters are written ``?``."""

    @abstractmethod
    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Execute a query and fetch all of its rows."""

    def describe_file_columns(self, relation: Relation) -> tuple[ColumnReading, ...]:
        """Describe how the columns of a CSV file were read; empty for typed sources."""
        return ()

    def require_typed(self, columns: Iterable[str]) -> None:
        """Check that a file's columns have types; raises AmbiguousValues, FileMalformed."""

    @property
    def copied_rows_summary(self) -> Mapping[str, Any]:
        """The number of rows copied from elsewhere, and how; empty if the rows are local."""
        return {}

    @abstractmethod
    def find_source(self, name: RelationName) -> Relation:
        """Look up a relation, without locator.

        Raises
        ------
        TableNotFound : the relation does not exist.
        """

    @abstractmethod
    def with_row_locator(self, source: Relation, key: Sequence[str]) -> Relation:
        """Return the source with a locator for its rows; ``key`` names key columns, or is empty."""

    @abstractmethod
    def require_rights(self, source: Relation, columns: Sequence[str]) -> None:
        """Check that these columns may be read.

        Raises
        ------
        InsufficientRights : a right is missing; the hint says which one to grant.
        """

    def find_readable_columns(self, source: Relation, columns: Sequence[str]) -> frozenset[str]:
        """Return those of the columns that this role may read; all if there are no roles."""
        return frozenset(columns)

    def refine_attributes(self, source: Relation, attributes: Sequence[Attribute]) -> tuple[Attribute, ...]:
        """Refine the attributes by what only their values show, such as an undeclared scale.

        Raises
        ------
        MixedTypes : a column holds values of another type than it declares.
        """
        return tuple(attributes)

    @abstractmethod
    def text_of(self, attribute: Attribute) -> str:
        """SQL for a column's values as text that sorts by code point."""

    def compared(self, attribute: Attribute) -> str:
        """SQL for a column's values, over the alias s, in a form that GROUP BY can distinguish."""
        if attribute.kind is Kind.OTHER:
            return self.text_of(attribute)
        return f"s.{quote(attribute.name)}"

    def matches(self, text: str, pattern: str) -> str:
        """SQL that is true if a text matches a regular expression from ``advice.forms``.

        Parameters
        ----------
        text : SQL of the text.
        pattern : the regular expression.

        The expression contains no quote or backslash, so no setting changes its meaning.
        """
        return f"{text} ~ '{pattern}'"

    def count_distinct_sql(self, value: str) -> str:
        """SQL that counts distinct values, ignoring NULL, for at most a few thousand rows.

        Values that are equal only by the column's collation may be counted separately.
        """
        return f"count(DISTINCT {value})"

    @abstractmethod
    def unique_columns(self, source: Relation) -> frozenset[str]:
        """Return the columns that the database declares unique."""

    @abstractmethod
    def sample(self, relation: RelationName, share: float) -> str:
        """FROM clause for a random share, 0 to 1, of a relation's rows, with the alias s."""

    @abstractmethod
    def read_chunks(
        self, source: Relation, attributes: Sequence[Attribute], chunk_rows: int
    ) -> Iterator[Chunk]:
        """Yield the keys and these attributes of all rows in chunks, in any order."""

    @abstractmethod
    def read_rows(
        self, source: Relation, columns: Sequence[str], chunk_rows: int
    ) -> Iterator[tuple[NDArray[np.int64], list[tuple[Any, ...]]]]:
        """Yield chunks: keys, int64 (n_rows, n_key_columns), and the rows with these columns."""

    def read_pieces(
        self, source: Relation, columns: Sequence[str], chunk_rows: int
    ) -> Iterator[Any]:
        """Yield the values of these columns in chunks: rows, or Arrow batches if available."""
        return (rows for _, rows in self.read_rows(source, columns, chunk_rows))

    def bounded(self, attribute: Attribute, low: str, high: str) -> str:
        """SQL for a number, boolean or timestamp of the alias s as a double between two bounds.

        NULL for NULL, NaN and values that do not match the column's type; it never fails. Integers,
        booleans and types without limits may exceed the bounds. Dates and timestamps are days or
        microseconds since 1970.

        Parameters
        ----------
        low, high : SQL of the bounds.
        """
        return self.dialect.bounded(attribute, low, high)

    def cast_parameter(self, sql_type: str) -> str:
        """SQL that casts a bind parameter, a text, to a type."""
        return f"CAST(? AS {sql_type})"

    @abstractmethod
    def texts_query(self, values: Sequence[str]) -> tuple[str, Any]:
        """SQL for a query that returns these texts, and the bind parameter for it."""

    @abstractmethod
    def read_numbers(self, query: str, chunk_rows: int) -> Iterator[NDArray[np.float64]]:
        """Yield the rows of a query of doubles in chunks, float64 (n_rows, n_columns).

        NULL becomes NaN.
        """

    @abstractmethod
    def insert_rows(
        self, relation: RelationName, columns: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> None:
        """Insert rows into one of dbanon's own tables."""

    @abstractmethod
    def load_labels(
        self,
        keys: NDArray[np.int64],
        classes: NDArray[np.int32],
        positions: NDArray[np.int32],
        types: Sequence[str],
    ) -> None:
        """Create and fill the staging table of labels: key columns, class, position."""

    @abstractmethod
    def load_classes(self, columns: Sequence[ReleasedColumn], n_classes: int) -> None:
        """Create and fill the staging table of class values."""

    @abstractmethod
    def load_rows(self, attributes: Sequence[Attribute], pieces: Iterable[tuple[Any, ...]]) -> None:
        """Create and fill the staging table of copied rows.

        Parameters
        ----------
        pieces : triples of the classes, int32 (n_rows,), positions, int32 (n_rows,), and rows.
        """

    def create_file_rows(self, name: RelationName, columns: Sequence[tuple[str, str]]) -> Relation:
        """Create the staging table for the rows of a file, and return it with a locator.

        Only this session can read it, and it is dropped at the end of the transaction.

        Parameters
        ----------
        name : the file's name as a source.
        columns : pairs of name and SQL type.
        """
        raise NotImplementedError

    def fill_file_rows(
        self, attributes: Sequence[Attribute], pieces: Iterable[Sequence[tuple[Any, ...]]]
    ) -> None:
        """Fill the table of ``create_file_rows`` with rows, in their order.

        Parameters
        ----------
        attributes : the columns of the file.
        pieces : lists of rows.

        Raises
        ------
        UnsupportedType : this database cannot store a value.
        DatabaseFailure : a value does not fit the type of its column.
        """
        raise NotImplementedError

    def released_expression(self, position: int, column: ReleasedColumn) -> str:
        """SQL that converts the class value at this position to the column's own type."""
        return self.dialect.released_expression(position, column)

    def wide_parts(self, attribute: Attribute) -> tuple[str, str]:
        """SQL for quotient and remainder by n.size of an integer or unscaled decimal."""
        return self.dialect.wide_parts(attribute)

    def type_of(self, attribute: Attribute) -> str:
        """Return this database's SQL type for a column that may come from another one.

        Raises
        ------
        UnsupportedType : this database has no such type.
        """
        return self.dialect.type_of(attribute)

    @abstractmethod
    def resolve_output(self, name: RelationName) -> RelationName:
        """Resolve the output's name, with its schema."""

    @abstractmethod
    def require_ledger_rights(self) -> None:
        """Check that the release can be recorded in the ledger.

        Raises
        ------
        InsufficientRights : the role lacks a right; the hint says which one to grant.
        """

    @abstractmethod
    def find_existing(self, name: RelationName) -> ExistingRelation | None:
        """Return the relation that has this name, or None."""

    @abstractmethod
    def create_released(
        self, output: Output, columns: Sequence[tuple[str, str]], release_id: str
    ) -> None:
        """Create the table of a release, with dbanon's mark.

        Parameters
        ----------
        columns : pairs of name and SQL type.
        """

    def staging_name_of(self, name: RelationName, kind: str, release_id: str) -> RelationName:
        """Return the name under which a release's table is written.

        Raises
        ------
        ViewsNotHere : a view is requested, and this database cannot release views.
        """
        return released_name(name, release_id, self.name_limit)

    @abstractmethod
    def publish(self, output: Output, columns: Sequence[str]) -> None:
        """Publish the written table: rename it, or point the view to it.

        Other sessions see it once this one ends without an error.
        """

    @abstractmethod
    def digest_rows(self, relation: RelationName, salt: int) -> tuple[int, int]:
        """Return the row count and the sum of the row hashes under a salt, 1 to 2**62."""

    @abstractmethod
    def digest_columns(
        self, relation: Relation, names: Sequence[str], salt: int
    ) -> tuple[int, int]:
        """Return the same as ``digest_rows`` for some columns of the rows of a source."""

    @abstractmethod
    def digest_probe(self) -> str:
        """Hash fixed values; the result changes if the database's hash function does."""

    @abstractmethod
    def analyze(self, relation: RelationName) -> None:
        """Collect statistics about the released values."""

    @abstractmethod
    def ensure_ledger(self) -> None:
        """Create the ledger, or migrate it to this version."""

    @abstractmethod
    def tie_releases(self) -> None:
        """Update ledger entries to the relations' current ids, where the database has ids."""

    def has_ledger(self) -> bool:
        """Return True if this database has a ledger."""
        return self.find_existing(self.ledger_name("release")) is not None

    @abstractmethod
    def require_trusted_ledger(self) -> None:
        """Check that accessing the ledger cannot run another role's code.

        Raises
        ------
        LedgerNotTrusted : it could run such code.
        """

    def record_release_as_owner(
        self, row: Mapping[str, Any], columns: Sequence[Mapping[str, Any]], run: Mapping[str, Any]
    ) -> str | None:
        """Record a release with the ledger owner's rights, and return its timestamp.

        Returns None if this session must record it with its own rights, as on databases without
        roles.

        Parameters
        ----------
        row, columns : from ledger column to value; JSON as text, times in ISO format.
        run : the interface that started the run, and its duration so far in seconds.
        """
        return None

    def record_run_as_owner(self, run: Mapping[str, Any]) -> bool:
        """Record a run without release with the ledger owner's rights; False if not supported."""
        return False

    def spend_budget_as_owner(self, budget: str, epsilon: str, spending_id: str) -> bool | None:
        """Spend budget with the ledger owner's rights; False if too little is left.

        Returns None if this session must record it with its own rights, as on databases without
        roles.
        """
        return None

    def writes_own_ledger(self) -> bool:
        """Return True if this session writes the ledger with its own rights."""
        return True

    def find_missing_read_grants(self, name: RelationName, columns: Sequence[str]) -> list[str]:
        """Return GRANT statements for missing rights to read the columns; empty without roles."""
        return []

    def find_missing_write_grants(self, output: RelationName) -> list[str]:
        """Return GRANT statements for missing rights to write an output; empty without roles."""
        return []

    def is_same_name(self, name: RelationName, other_name: RelationName) -> bool:
        """Return True if both names refer to the same relation."""
        return name == other_name

    def require(self, capability: str) -> None:
        """Check that this database supports ``chains``, ``budgets`` or ``pseudonyms``.

        Raises
        ------
        ChainsNotHere, BudgetsNotHere, PseudonymsNotHere : the database does not support it.
        """
        if capability in self.unsupported_features:
            raise self.unsupported_features[capability]()

    def may_drop(self, existing: ExistingRelation) -> bool:
        """Return True if this role may drop a relation and nothing depends on it."""
        return True

    @abstractmethod
    def ledger_name(self, table: str) -> RelationName:
        """Return this database's name of a ledger table."""

    @abstractmethod
    def current_user(self) -> str | None:
        """Return the publishing role, if the database has roles."""

    def require_columns_of_views(self, names: Sequence[str]) -> None:
        """Check that views, and subqueries in FROM, can have columns with these names.

        Raises
        ------
        InvalidName : the database would rename one.
        """
        unsupported_names = [
            quote(name) for name in names if name.lower() in self.unsupported_in_views
        ]
        if unsupported_names:
            first_name = unsupported_names[0]
            raise InvalidName(
                "This database cannot have a view, or a query of chosen rows, with a column of"
                f" this name: {', '.join(unsupported_names)}. It would call it column1, column2 ….",
                hint="Release a table of all rows, or give the column another name in a view and"
                f' anonymize the view: SELECT …, {first_name} AS "is_{first_name[1:-1].lower()}".',
            )

    def drop_view(self, relation: RelationName) -> None:
        """Drop the view that shows a release."""
        self.run(f"DROP VIEW {relation.quoted}")

    def find_orphaned_tables(self) -> list[RelationName]:
        """Return tables left by workers whose cluster driver is dead; empty without workers."""
        return []

    def drop_table(self, relation: RelationName) -> None:
        """Drop a released table."""
        self.run(f"DROP TABLE {relation.quoted}")
