"""The methods of a session that differ between databases, which a new store implements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from dbanon.data.chunks import Chunk
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import DbanonError, InvalidName
from dbanon.recoding import ReleasedColumn
from dbanon.sessions.base import (
    ColumnReading,
    Relation,
    StagedRows,
)
from dbanon.sessions.catalog import Catalog
from dbanon.sessions.digests import Digests
from dbanon.sessions.ledger import Ledger
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.passthrough import ColumnPassthrough
from dbanon.sessions.publication import Publication


class Dialect(Protocol):
    """A module that renders a database's types and values as SQL.

    ``SessionInterface`` documents its functions in the methods of the same names.
    """

    def bounded_number(self, attribute: Attribute, low: str, high: str) -> str: ...

    def released_expression(self, position: int, column: ReleasedColumn) -> str: ...

    def quotient_and_remainder(self, attribute: Attribute) -> tuple[str, str]: ...

    def type_of(self, attribute: Attribute) -> str: ...


class SessionInterface(ABC):
    """One transaction on one database."""

    dialect: ClassVar[Dialect]
    # The maximum length of a name in bytes; None for no limit.
    name_limit: ClassVar[int | None] = None
    # SQL that follows the definition of a temporary table.
    staging_suffix: ClassVar[str] = ""
    # False if the database is discarded after the run, so its ledger has no earlier releases.
    is_persistent: ClassVar[bool] = True
    # URL of the files whose rows were loaded into this database; None if there are no such files.
    file_url: str | None = None
    # The rows of files that this transaction has staged for a chain; None if there are none.
    staged_rows: StagedRows | None = None
    # The capabilities that this database lacks (see ``require_capability``), with their errors.
    unsupported_features: ClassVar[Mapping[str, type[DbanonError]]] = {}
    # Lower-case column names that views cannot have.
    unsupported_in_views: ClassVar[frozenset[str]] = frozenset()

    @property
    @abstractmethod
    def publication(self) -> Publication:
        """The tables and views that this session writes and publishes."""

    @property
    @abstractmethod
    def digests(self) -> Digests:
        """The digests of the rows of tables."""

    @property
    def passthrough(self) -> ColumnPassthrough:
        """The retained columns that the client copies without parsing their values."""
        return ColumnPassthrough()

    @property
    @abstractmethod
    def ledger(self) -> Ledger:
        """The ledger of the database."""

    @abstractmethod
    def run(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        """Execute a statement; bind parameters are written ``?``."""

    @abstractmethod
    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Execute a query and fetch all of its rows."""

    @property
    @abstractmethod
    def catalog(self) -> Catalog:
        """The catalog of the database: its relations, and the rights on them."""

    def describe_file_columns(self, relation: Relation) -> tuple[ColumnReading, ...]:
        """Describe how the columns of a CSV file were read; empty if the source declares types."""
        return ()

    def require_typed(self, columns: Iterable[str]) -> None:  # noqa: B027
        """Check that the types of a file's columns could be inferred from their values.

        Does nothing if the source declares types.

        Raises
        ------
        AmbiguousValues : a column can be read in several ways.
        FileMalformed : a column has values of different types.
        """

    @property
    def copied_rows_summary(self) -> Mapping[str, Any]:
        """How many rows were copied here from another system, and how; empty for local rows."""
        return {}

    def complete_attributes_from_values(
        self, source: Relation, attributes: Sequence[Attribute]
    ) -> tuple[Attribute, ...]:
        """Complete the attributes by looking at their values, such as an undeclared decimal scale.

        Databases that declare complete types return the attributes unchanged.

        Raises
        ------
        MixedTypes : a column holds values of another type than it declares.
        """
        return tuple(attributes)

    @abstractmethod
    def text_of(self, attribute: Attribute) -> str:
        """SQL for a column's values as text that sorts by code point."""

    def grouping_sql(self, attribute: Attribute) -> str:
        """SQL, over the alias s, that GROUP BY uses to distinguish a column's values."""
        if attribute.kind is Kind.OTHER:
            return self.text_of(attribute)
        return f"s.{quote(attribute.name)}"

    def matches(self, text: str, pattern: str) -> str:
        """SQL that is true if a text matches the format of an identifier (see ``advice.forms``).

        Parameters
        ----------
        text : SQL of the text.
        pattern : the regular expression. It contains no quote or backslash, so that no setting of
            the database changes what it means.
        """
        return f"{text} ~ '{pattern}'"

    def count_distinct_sql(self, value: str) -> str:
        """SQL that counts distinct values, ignoring NULL, for at most a few thousand rows.

        Values that are equal only by the column's collation may be counted separately.
        """
        return f"count(DISTINCT {value})"

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
        """Yield chunks of rows: their keys, int64 (n_rows, n_key_columns), and these columns."""

    def read_batches(
        self, source: Relation, columns: Sequence[str], chunk_rows: int
    ) -> Iterator[Any]:
        """Yield the values of these columns as lists of rows, or as Arrow batches if supported."""
        return (rows for _, rows in self.read_rows(source, columns, chunk_rows))

    def bounded_number(self, attribute: Attribute, low: str, high: str) -> str:
        """SQL for a number, boolean, date or timestamp as a double, over the alias s.

        The SQL never fails: if a conversion could fail, values beyond a bound are first replaced by
        that bound. Otherwise, values are not clipped, and may lie outside the bounds. The SQL is
        NULL for NULL, NaN and values that do not match the column's type. Dates are days and
        timestamps microseconds since 1970.

        Parameters
        ----------
        low, high : the bounds, as text in the column's SQL type.
        """
        return self.dialect.bounded_number(attribute, low, high)

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
        """Create and fill the staging table of labels: key columns, class, position.

        Parameters
        ----------
        keys : the row keys, int64 (n_rows, n_key_columns).
        classes : the class of each row, int32 (n_rows,).
        positions : the position of each row in the release, int32 (n_rows,).
        types : SQL types of the key columns.
        """

    @abstractmethod
    def load_classes(self, columns: Sequence[ReleasedColumn], n_classes: int) -> None:
        """Create and fill the staging table of class values.

        Parameters
        ----------
        columns : the released values, one per class in each column.
        n_classes : the number of classes.
        """

    @abstractmethod
    def load_rows(
        self, attributes: Sequence[Attribute], batches: Iterable[tuple[Any, ...]]
    ) -> None:
        """Create and fill the staging table of rows that are copied from another database.

        Parameters
        ----------
        attributes : the columns of the rows.
        batches : triples: the class of each row, int32 (n_rows,); its position in the release,
            int32 (n_rows,); and the rows.
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
        self, attributes: Sequence[Attribute], batches: Iterable[Sequence[tuple[Any, ...]]]
    ) -> None:
        """Fill the table that ``create_file_rows`` created, in the order of the rows.

        Parameters
        ----------
        attributes : the columns of the file.
        batches : lists of rows.

        Raises
        ------
        UnsupportedType : this database cannot store a value.
        DatabaseFailure : a value does not fit the type of its column.
        """
        raise NotImplementedError

    def released_expression(self, position: int, column: ReleasedColumn) -> str:
        """SQL that converts a class value from the staging table of classes to its released type.

        Parameters
        ----------
        position : the index of the (first) staging column that holds the value.
        column : the released column.
        """
        return self.dialect.released_expression(position, column)

    def quotient_and_remainder(self, attribute: Attribute) -> tuple[str, str]:
        """SQL for quotient and remainder of a value divided by the number of rows in its class.

        This number is ``n.size``; n is the alias of the relation of classes. The sums of quotients
        and of remainders give the exact total of a class, and do not overflow.

        The value is an integer: a decimal without its point, or a timestamp in its smallest unit.
        """
        return self.dialect.quotient_and_remainder(attribute)

    def type_of(self, attribute: Attribute) -> str:
        """Return this database's SQL type for a column that may come from another one.

        Raises
        ------
        UnsupportedType : this database has no such type.
        """
        return self.dialect.type_of(attribute)

    @abstractmethod
    def analyze(self, relation: RelationName) -> None:
        """Collect statistics about the released values."""

    def require_capability(self, capability: str) -> None:
        """Check that this database supports ``chains``, ``budgets`` or ``pseudonyms``.

        Raises
        ------
        ChainsNotHere, BudgetsNotHere, PseudonymsNotHere : the database does not support it.
        """
        if capability in self.unsupported_features:
            raise self.unsupported_features[capability]()

    def require_names_allowed_in_views(self, names: Sequence[str]) -> None:
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
            # The rows are chosen by the job's option ``where``. SQLite would rename the column.
            raise InvalidName(
                "This database cannot have a view, or a query of chosen rows, with a column of"
                f" this name: {', '.join(unsupported_names)}. It would name it column1, column2 ….",
                hint="Release a table of all rows, or give the column another name in a view and"
                f' anonymize the view: SELECT …, {first_name} AS "is_{first_name[1:-1].lower()}".',
            )
