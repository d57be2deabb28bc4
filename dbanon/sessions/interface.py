"""What each database does in its own way: the part of a session that a new store has to write."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from dbanon.data.chunks import Chunk
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import DbanonError, InvalidName
from dbanon.recoding import ReleasedColumn
from dbanon.sessions.base import (
    AsWritten,
    Existing,
    Output,
    Relation,
    StagedFile,
)
from dbanon.sessions.names import RelationName, quote, released_name
from dbanon.sessions.passthrough import PassthroughInterface


class Dialect(Protocol):
    """The module of a database's types, which spells columns as the session of it tells."""

    def bounded(self, attribute: Attribute, low: str, high: str) -> str: ...

    def released_expression(self, position: int, column: ReleasedColumn) -> str: ...

    def wide_parts(self, attribute: Attribute) -> tuple[str, str]: ...

    def type_of(self, attribute: Attribute) -> str: ...


class SessionInterface(PassthroughInterface, ABC):
    """One transaction on one database."""

    dialect: ClassVar[Dialect]
    # How a release gets its place: ``transaction``: with all that the session wrote, at its commit;
    # ``swap``: by a statement of its own at the session's end, which the ledger's entry follows.
    atomic: ClassVar[Literal["transaction", "swap"]] = "transaction"
    # Seconds for which readers may keep a release from its place, where that is swapped.
    swap_seconds: float = 60.0
    name_limit: ClassVar[int | None] = None
    ledger_types: ClassVar[Mapping[str, str]]
    staging_suffix: ClassVar[str] = ""
    # Whether what is written lasts longer than the run, so that its ledger knows earlier releases.
    is_lasting: ClassVar[bool] = True
    # The URL of the files that were loaded here; None for databases.
    file_url: str | None = None
    # The rows of files that this transaction has staged, as the source of a chain.
    staged_file: StagedFile | None = None
    # What this database cannot keep, and the error that says so.
    never_here: ClassVar[Mapping[str, type[DbanonError]]] = {}
    never_in_views: ClassVar[frozenset[str]] = frozenset()
    digest_way: ClassVar[str]

    @abstractmethod
    def run(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        """Execute a statement; bind parameters are written ``?``."""

    @abstractmethod
    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Execute a query and fetch all of its rows."""

    def as_written(self, relation: Relation) -> tuple[AsWritten, ...]:
        """What the columns of a CSV file were read as; none of what has types of its own."""
        return ()

    def require_typed(self, columns: Iterable[str]) -> None:
        """Check that columns of a file have types; raises AmbiguousValues, FileMalformed."""

    @property
    def drawn(self) -> Mapping[str, Any]:
        """How many rows were drawn from elsewhere, and how; nothing where they are at home."""
        return {}

    @abstractmethod
    def find_source(self, name: RelationName) -> Relation:
        """The relation of this name, without locator.

        Raises
        ------
        TableNotFound : there is none.
        """

    @abstractmethod
    def locate(self, source: Relation, key: Sequence[str]) -> Relation:
        """The source with the locator of its rows; ``key`` names key columns, or is empty."""

    @abstractmethod
    def require_rights(self, source: Relation, columns: Sequence[str]) -> None:
        """Check that these columns may be read.

        Raises
        ------
        InsufficientRights : a right is missing; the hint says which to grant.
        """

    def readable(self, source: Relation, columns: Sequence[str]) -> frozenset[str]:
        """Those of these columns that this role may read; all where there are no roles."""
        return frozenset(columns)

    def inspect(self, source: Relation, attributes: Sequence[Attribute]) -> tuple[Attribute, ...]:
        """The attributes with what only their values tell, such as an undeclared scale.

        Raises
        ------
        MixedTypes : a column holds values of another type than it declares.
        """
        return tuple(attributes)

    @abstractmethod
    def text_of(self, attribute: Attribute) -> str:
        """SQL of a column's values as text that sorts by code point."""

    def compared(self, attribute: Attribute) -> str:
        """SQL of a column's values, of the alias s, that GROUP BY takes and tells apart."""
        if attribute.kind is Kind.OTHER:
            return self.text_of(attribute)
        return f"s.{quote(attribute.name)}"

    def matches(self, text: str, pattern: str) -> str:
        """SQL that is true where a text matches a regular expression of ``advice.forms``.

        The expression holds no quote and no backslash, so that no setting changes what it is.
        """
        return f"{text} ~ '{pattern}'"

    def different_of_few(self, value: str) -> str:
        """SQL that counts how many values there are in some thousand rows at most; NULL is none.

        Values that only a collation of the column makes equal may count as several.
        """
        return f"count(DISTINCT {value})"

    @abstractmethod
    def lone_keys(self, source: Relation) -> frozenset[str]:
        """The columns of which the database declares that no two rows share a value."""

    @abstractmethod
    def sample(self, relation: RelationName, share: float) -> str:
        """What FROM has for a random share of a relation's rows, with the alias s."""

    @abstractmethod
    def read_chunks(
        self, source: Relation, attributes: Sequence[Attribute], chunk_rows: int
    ) -> Iterator[Chunk]:
        """The keys and these attributes of all rows, in pieces, in any order."""

    @abstractmethod
    def read_rows(
        self, source: Relation, columns: Sequence[str], chunk_rows: int
    ) -> Iterator[tuple[NDArray[np.int64], list[tuple[Any, ...]]]]:
        """Keys, int64 (c, m), and the values of these columns, row by row, in pieces."""

    def read_pieces(
        self, source: Relation, columns: Sequence[str], chunk_rows: int
    ) -> Iterator[Any]:
        """The values of these columns in pieces: rows, or batches of Arrow where it has these."""
        return (rows for _, rows in self.read_rows(source, columns, chunk_rows))

    def bounded(self, attribute: Attribute, low: str, high: str) -> str:
        """SQL of a number, truth or moment of the alias s as a double between two bounds.

        NULL where it is, and where it is NaN or nothing of its type: no value makes it fail. Of
        whole numbers, truths and what has no limits of its type, it may be beyond the bounds.
        Moments are days or microseconds since 1970.

        Parameters
        ----------
        low, high : as SQL spells them.
        """
        return self.dialect.bounded(attribute, low, high)

    def bound_of(self, sql_type: str) -> str:
        """SQL of a bind parameter, a text, as a value of a type."""
        return f"CAST(? AS {sql_type})"

    @abstractmethod
    def texts(self, given: Sequence[str]) -> tuple[str, Any]:
        """SQL of a query of texts, with a bind parameter, and what is bound to it."""

    @abstractmethod
    def figures(self, query: str, chunk_rows: int) -> Iterator[NDArray[np.float64]]:
        """The rows of a query of doubles, float64 (c, p), in pieces; NaN where NULL."""

    @abstractmethod
    def insert_rows(
        self, relation: RelationName, columns: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> None:
        """Add rows to a table of dbanon's own, with the values of these columns."""

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
        """SQL that gives the class value at this position the column's own type."""
        return self.dialect.released_expression(position, column)

    def wide_parts(self, attribute: Attribute) -> tuple[str, str]:
        """SQL of the quotient and the remainder by n.size of an integer or unscaled decimal."""
        return self.dialect.wide_parts(attribute)

    def type_of(self, attribute: Attribute) -> str:
        """The SQL type here of a column that may come from another database.

        Raises
        ------
        UnsupportedType : this database has no such type.
        """
        return self.dialect.type_of(attribute)

    @abstractmethod
    def resolve_output(self, name: RelationName) -> RelationName:
        """The output's name as this database has it, with its schema."""

    @abstractmethod
    def require_ledger_rights(self) -> None:
        """Check that the release can be written into the ledger.

        Raises
        ------
        InsufficientRights : the role may not; the hint says what to grant.
        """

    @abstractmethod
    def find_existing(self, name: RelationName) -> Existing | None:
        """The relation that has this name now, or None."""

    @abstractmethod
    def create_released(
        self, output: Output, columns: Sequence[tuple[str, str]], release_id: str
    ) -> None:
        """Create the table that is written, with dbanon's mark; columns are names and types."""

    def written_as(self, name: RelationName, kind: str, release_id: str) -> RelationName:
        """The name that a release's own table is written under.

        Raises
        ------
        ViewsNotHere : a view was asked for, and this database releases none.
        """
        return released_name(name, release_id, self.name_limit)

    @abstractmethod
    def publish(self, output: Output, columns: Sequence[str]) -> None:
        """Give the written table its place: rename it, or point the view to it.

        Others see it once the session has ended without an error.
        """

    @abstractmethod
    def digest_rows(self, relation: RelationName, salt: int) -> tuple[int, int]:
        """The number of rows, and the sum of their hashes under a salt, 1 to 2**62."""

    @abstractmethod
    def digest_columns(
        self, relation: Relation, names: Sequence[str], salt: int
    ) -> tuple[int, int]:
        """The same of these columns of the rows that are read of a relation."""

    @abstractmethod
    def digest_probe(self) -> str:
        """The hash of fixed values: another one where this database hashes in another way."""

    @abstractmethod
    def analyze(self, relation: RelationName) -> None:
        """Collect the statistics of released values."""

    @abstractmethod
    def ensure_ledger(self) -> None:
        """Create the ledger, or bring it to this version."""

    @abstractmethod
    def tie_releases(self) -> None:
        """Tie entries of the ledger to their relations again, where the database numbers them."""

    def has_ledger(self) -> bool:
        """True when this database has a ledger."""
        return self.find_existing(self.ledger_name("release")) is not None

    @abstractmethod
    def require_trusted_ledger(self) -> None:
        """Check that nobody else's code runs when the ledger is read or written.

        Raises
        ------
        LedgerNotTrusted : somebody's could.
        """

    def have_release_recorded(
        self, row: Mapping[str, Any], columns: Sequence[Mapping[str, Any]], run: Mapping[str, Any]
    ) -> str | None:
        """Have the ledger's owner write a release; the time that it was recorded with.

        None where this session has to write it with its own rights, as where there are no roles.

        Parameters
        ----------
        row, columns : by column of the ledger; JSON as text, times in ISO format.
        run : its door, and the seconds that it took until now.
        """
        return None

    def have_run_recorded(self, run: Mapping[str, Any]) -> bool:
        """Have the ledger's owner write a run that made no release; False where nobody does."""
        return False

    def have_spent(self, budget: str, epsilon: str, spending_id: str) -> bool | None:
        """Have the ledger's owner spend of a budget; False where less is left.

        None where this session has to write it with its own rights, as where there are no roles.
        """
        return None

    def writes_own_ledger(self) -> bool:
        """True where this session writes the ledger with its own rights."""
        return True

    def missing_to_read(self, name: RelationName, columns: Sequence[str]) -> list[str]:
        """What this role lacks to read columns of a relation, as statements; none without roles."""
        return []

    def missing_to_write(self, output: RelationName) -> list[str]:
        """What this role lacks to release there, as statements; none without roles."""
        return []

    def same_name(self, one: RelationName, other: RelationName) -> bool:
        """True when two names are those of one relation here."""
        return one == other

    def require(self, what: str) -> None:
        """Check that this database can keep ``chains`` or ``budgets``, or make ``pseudonyms``.

        Raises
        ------
        ChainsNotHere, BudgetsNotHere, PseudonymsNotHere : it cannot.
        """
        if what in self.never_here:
            raise self.never_here[what]()

    def may_drop(self, existing: Existing) -> bool:
        """True when this role may drop a relation, and nothing depends on it."""
        return True

    @abstractmethod
    def ledger_name(self, table: str) -> RelationName:
        """The name of a table of the ledger here."""

    @abstractmethod
    def current_user(self) -> str | None:
        """The role that publishes, where the database has roles."""

    def require_columns_of_views(self, names: Sequence[str]) -> None:
        """Check that views, and queries in FROM, can have columns of these names.

        Raises
        ------
        InvalidName : the database would call one otherwise.
        """
        found = [quote(name) for name in names if name.lower() in self.never_in_views]
        if found:
            raise InvalidName(
                "This database has no view, and no query of chosen rows, with a column of this"
                f" name: {', '.join(found)}. It would call it column1, column2 ….",
                hint="Release a table of all rows, or give the column another name in a view and"
                f' anonymize the view: SELECT …, {found[0]} AS "is_{found[0][1:-1].lower()}".',
            )

    def drop_view(self, relation: RelationName) -> None:
        """Drop the view that shows a release."""
        self.run(f"DROP VIEW {relation.quoted}")

    def dead_pieces(self) -> list[RelationName]:
        """What a cluster's workers wrote for a driver that is gone since; none where none write."""
        return []

    def drop_table(self, relation: RelationName) -> None:
        """Drop a released table."""
        self.run(f"DROP TABLE {relation.quoted}")
