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
    """Session methods for columns that travel through the client; the default refuses."""

    def require_passthrough(self, source: Relation, columns: Sequence[Attribute]) -> None:
        """Check that values of these columns can travel through the client unread.

        Raises
        ------
        InvalidParameter : this database, or this interface, does not support it.
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
        """Read as ``read_chunks``, and keep the values of further columns, unread, for later.

        Raises
        ------
        MemoryLimit : they need more memory than allowed.
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
        columns : the values of classes.
        passthrough : names of the passthrough columns, in order.

        Raises
        ------
        DatabaseFailure : the database rejects a value.
        """
        raise passthrough_error()


class Dialect(Protocol):
    """The module with a database's types, which spells columns for its session."""

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
    name_limit: ClassVar[int | None] = None
    ledger_types: ClassVar[Mapping[str, str]]
    staging_suffix: ClassVar[str] = ""
    # False if the database disappears with the run, so that its ledger knows no earlier releases.
    is_persistent: ClassVar[bool] = True
    # URL of the files that were loaded here; None for databases.
    file_url: str | None = None
    # The rows of files that this transaction has staged, as the source of a chain.
    staged_rows: StagedRows | None = None
    # Capabilities that this database lacks, with the error to raise.
    unsupported_features: ClassVar[Mapping[str, type[DbanonError]]] = {}
    unsupported_in_views: ClassVar[frozenset[str]] = frozenset()
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
    def drawn(self) -> Mapping[str, Any]:
        """How many rows were copied from elsewhere, and how; empty if the rows are local."""
        return {}

    @abstractmethod
    def find_source(self, name: RelationName) -> Relation:
        """Look up a relation, without locator.

        Raises
        ------
        TableNotFound : it does not exist.
        """

    @abstractmethod
    def locate(self, source: Relation, key: Sequence[str]) -> Relation:
        """Return the source with a locator for its rows; ``key`` names key columns, or is empty."""

    @abstractmethod
    def require_rights(self, source: Relation, columns: Sequence[str]) -> None:
        """Check that these columns may be read.

        Raises
        ------
        InsufficientRights : a right is missing; the hint says which one to grant.
        """

    def find_readable_columns(self, source: Relation, columns: Sequence[str]) -> frozenset[str]:
        """Return those columns that this role may read; all if there are no roles."""
        return frozenset(columns)

    def inspect(self, source: Relation, attributes: Sequence[Attribute]) -> tuple[Attribute, ...]:
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
        """SQL for a column's values, over the alias s, that GROUP BY can distinguish."""
        if attribute.kind is Kind.OTHER:
            return self.text_of(attribute)
        return f"s.{quote(attribute.name)}"

    def matches(self, text: str, pattern: str) -> str:
        """SQL that is true if a text matches a regular expression of ``advice.forms``.

        The expression contains no quote or backslash, so no setting changes its meaning.
        """
        return f"{text} ~ '{pattern}'"

    def count_distinct_sql(self, value: str) -> str:
        """SQL that counts the distinct values in at most a few thousand rows, ignoring NULL.

        Values that are equal only by the column's collation may be counted separately.
        """
        return f"count(DISTINCT {value})"

    @abstractmethod
    def unique_columns(self, source: Relation) -> frozenset[str]:
        """Return the columns that the database declares unique."""

    @abstractmethod
    def sample(self, relation: RelationName, share: float) -> str:
        """FROM clause for a random share of a relation's rows, with the alias s."""

    @abstractmethod
    def read_chunks(
        self, source: Relation, attributes: Sequence[Attribute], chunk_rows: int
    ) -> Iterator[Chunk]:
        """Yield the keys and these attributes of all rows in chunks, in any order."""

    @abstractmethod
    def read_rows(
        self, source: Relation, columns: Sequence[str], chunk_rows: int
    ) -> Iterator[tuple[NDArray[np.int64], list[tuple[Any, ...]]]]:
        """Yield keys, int64 (c, m), and the values of these columns row by row, in chunks."""

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
    def texts(self, values: Sequence[str]) -> tuple[str, Any]:
        """SQL for a query that returns these texts, and the bind parameter for it."""

    @abstractmethod
    def figures(self, query: str, chunk_rows: int) -> Iterator[NDArray[np.float64]]:
        """Yield the rows of a query of doubles, float64 (c, p), in chunks; NaN for NULL."""

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

        ``pieces`` are triples of classes, int32 (c,), positions, int32 (c,), and rows.
        """

    def create_file_rows(self, name: RelationName, columns: Sequence[tuple[str, str]]) -> Relation:
        """Create the staging table of a file's rows, where the database keeps chains.

        Only this session reads it, and it goes with the transaction. Returns it located.

        Parameters
        ----------
        name : of the file as a source.
        columns : pairs of name and SQL type.
        """
        raise NotImplementedError

    def fill_file_rows(
        self, attributes: Sequence[Attribute], pieces: Iterable[Sequence[tuple[Any, ...]]]
    ) -> None:
        """Fill that table with rows, in their order.

        Parameters
        ----------
        attributes : of the values, as the file has them.

        Raises
        ------
        UnsupportedType : a value has no place here.
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
        InsufficientRights : the role may not; the hint says what to grant.
        """

    @abstractmethod
    def find_existing(self, name: RelationName) -> ExistingRelation | None:
        """Return the relation that has this name, or None."""

    @abstractmethod
    def create_released(
        self, output: Output, columns: Sequence[tuple[str, str]], release_id: str
    ) -> None:
        """Create the table to write, with dbanon's mark; columns are names and types."""

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
        """The same for some columns of the rows read from a relation."""

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
        LedgerNotTrusted : it could.
        """

    def record_release_as_owner(
        self, row: Mapping[str, Any], columns: Sequence[Mapping[str, Any]], run: Mapping[str, Any]
    ) -> str | None:
        """Record a release with the ledger owner's rights, and return its timestamp.

        None if this session must write it with its own rights, as on databases without roles.

        Parameters
        ----------
        row, columns : by ledger column; JSON as text, times in ISO format.
        run : its interface, and its duration so far in seconds.
        """
        return None

    def record_run_as_owner(self, run: Mapping[str, Any]) -> bool:
        """Record a run without release with the ledger owner's rights; False if not supported."""
        return False

    def spend_budget_as_owner(self, budget: str, epsilon: str, spending_id: str) -> bool | None:
        """Spend budget with the ledger owner's rights; False if too little is left.

        None if this session must write it with its own rights, as on databases without roles.
        """
        return None

    def writes_own_ledger(self) -> bool:
        """Return True if this session writes the ledger with its own rights."""
        return True

    def find_missing_read_grants(self, name: RelationName, columns: Sequence[str]) -> list[str]:
        """Statements that grant what this role lacks to read the columns; empty without roles."""
        return []

    def find_missing_write_grants(self, output: RelationName) -> list[str]:
        """Statements that grant what this role lacks to release there; empty without roles."""
        return []

    def is_same_name(self, name: RelationName, other_name: RelationName) -> bool:
        """Return True if both names refer to the same relation."""
        return name == other_name

    def require(self, capability: str) -> None:
        """Check that this database supports ``chains``, ``budgets`` or ``pseudonyms``.

        Raises
        ------
        ChainsNotHere, BudgetsNotHere, PseudonymsNotHere : it does not.
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
        refused = [quote(name) for name in names if name.lower() in self.unsupported_in_views]
        if refused:
            raise InvalidName(
                "This database cannot have a view, or a query of chosen rows, with a column of"
                f" this name: {', '.join(refused)}. It would call it column1, column2 ….",
                hint="Release a table of all rows, or give the column another name in a view and"
                f' anonymize the view: SELECT …, {refused[0]} AS "is_{refused[0][1:-1].lower()}".',
            )

    def drop_view(self, relation: RelationName) -> None:
        """Drop the view that shows a release."""
        self.run(f"DROP VIEW {relation.quoted}")

    def find_orphaned_tables(self) -> list[RelationName]:
        """Tables left behind by workers of a dead cluster driver; empty without workers."""
        return []

    def drop_table(self, relation: RelationName) -> None:
        """Drop a released table."""
        self.run(f"DROP TABLE {relation.quoted}")
