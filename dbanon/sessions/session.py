"""What sessions on all SQL databases share.

A session is one transaction on one snapshot; its changes become visible at the commit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dbanon.data.chunks import Chunk, microdata_from_chunks, with_progress
from dbanon.data.counts import Recount
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.data.pieces import Disk
from dbanon.data.schema import Attribute, Role
from dbanon.data.types import SqlRow
from dbanon.errors import ChainsNotHere, DbanonError, DuplicateKeys, InvalidParameter, pluralize
from dbanon.job.job import DEFAULT_CHUNK_ROWS
from dbanon.partitioning.record_memory import RecordMemory
from dbanon.recoding import ReleasedColumn
from dbanon.sessions import chain_staging, person_tags, recount_statements, statements
from dbanon.sessions.base import (
    ColumnReading,
    Relation,
    ReleasedBatch,
    StagedRows,
    random_order,
)
from dbanon.sessions.catalog import Catalog
from dbanon.sessions.chain_dialect import ChainDialect
from dbanon.sessions.connection import Connection
from dbanon.sessions.dialect import Dialect
from dbanon.sessions.digests import Digests
from dbanon.sessions.ledger import Ledger
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.passthrough import ColumnPassthrough
from dbanon.sessions.person_records import PersonRecords
from dbanon.sessions.person_tags import PersonTags
from dbanon.sessions.publication import Publication
from dbanon.sessions.rule_catalog import RuleCatalog

if TYPE_CHECKING:
    from dbanon.sessions.chain_arrays import ChainArrays

Progress = Callable[[float], None]

# The largest position of a staged label: that of a 32-bit integer.
_MAX_POSITION = 2**31 - 1


class Session(ABC):
    """One transaction on one database: reads sources, stages classes, and writes releases.

    What else can be done in the transaction is in the parts of the session.

    Parameters
    ----------
    connection : executes SQL in the transaction.
    catalog : the relations of the database, their owners, and the rights on them.
    publication : writes and publishes tables and views.
    ledger : the tables of the ledger.
    digests : hashes the rows of tables.
    tags : the keyed and salted hashes of person identifiers.
    chain_dialect : the SQL with which the database makes releases of chains; None if it makes none.
    passthrough : the retained columns that the client copies without parsing their values; None if
        the database does not support that.
    rules, persons : the declared rules, and the ledger's records of persons; None for those of a
        database without roles.
    """

    # False if the database is discarded after the run, so its ledger has no earlier releases.
    is_persistent: ClassVar[bool] = True
    # URL of the files whose rows were loaded into this database; None if there are no such files.
    file_url: str | None = None
    # The numbers of labels in the files of SPSS and Stata that were loaded, by column and label.
    label_codes: Mapping[str, Mapping[str, int]] = MappingProxyType({})
    # The rows of files that this transaction has staged for a chain; None if there are none.
    staged_rows: StagedRows | None = None
    # The number of the job's databases that run in this process, and so share the memory limit with
    # the records.
    n_databases = 0
    # The memory limit of the database, in bytes, if it runs in this process within the limit of a
    # job; None for a server, for a caller's connection, and without a limit.
    memory_bytes: int | None = None
    # The capabilities that this database lacks (see ``require_capability``), with their errors.
    unsupported_features: ClassVar[Mapping[str, type[DbanonError]]] = {}

    def __init__(
        self,
        connection: Connection,
        *,
        catalog: Catalog,
        publication: Publication,
        ledger: Ledger,
        digests: Digests,
        tags: PersonTags,
        chain_dialect: ChainDialect | None,
        passthrough: ColumnPassthrough | None = None,
        rules: RuleCatalog | None = None,
        persons: PersonRecords | None = None,
    ) -> None:
        self.connection = connection
        self.catalog = catalog
        self.publication = publication
        self.ledger = ledger
        self.digests = digests
        self.tags = tags
        self._chain_dialect = chain_dialect
        self.passthrough = passthrough or ColumnPassthrough()
        self.rules = rules or RuleCatalog(connection, catalog)
        self.persons = persons or PersonRecords(connection)
        # The partition whose labels (classes of rows) are staged; None before that.
        self._staged_partition: Partition | None = None
        # The result of ``class_numbers``.
        self._class_numbers: NDArray[np.int32] | None = None
        # The staging tables that ``stage_values`` has created.
        self._value_tables: list[str] = []
        # For each record, the number of its date offset, int32 (n,), and how many there are; None
        # and 1 if no dates are shifted.
        self._offsets: NDArray[np.int32] | None = None
        self._n_offsets = 1

    @property
    def dialect(self) -> Dialect:
        """How the database writes values and types."""
        return self.connection.dialect

    @property
    def chain_dialect(self) -> ChainDialect:
        """The SQL and the settings with which the database makes releases of chains.

        Raises
        ------
        ChainsNotHere : the database makes none.
        """
        if self._chain_dialect is None:
            raise ChainsNotHere()
        return self._chain_dialect

    @property
    def chain_arrays(self) -> ChainArrays | None:
        """The arrays that chains exchange with the database; None if it exchanges none."""
        return None

    def run(self, sql: str, parameters: Sequence[object] = ()) -> None:
        """Execute a statement; bind parameters are written ``?``."""
        self.connection.run(sql, parameters)

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[SqlRow]:
        """Execute a query and fetch all of its rows."""
        return self.connection.rows(sql, parameters)

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
    def copied_rows_summary(self) -> Mapping[str, object]:
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
    ) -> Iterator[tuple[NDArray[np.int64], list[SqlRow]]]:
        """Yield chunks of rows: their keys, int64 (n_rows, n_key_columns), and these columns."""

    def read_batches(
        self, source: Relation, columns: Sequence[str], chunk_rows: int
    ) -> Iterator[Any]:
        """Yield the values of these columns as lists of rows, or as Arrow batches if supported."""
        return (rows for _, rows in self.read_rows(source, columns, chunk_rows))

    @abstractmethod
    def read_numbers(self, query: str, chunk_rows: int) -> Iterator[NDArray[np.float64]]:
        """Yield the rows of a query of doubles in chunks, float64 (n_rows, n_columns).

        NULL becomes NaN.
        """

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
    def load_rows(self, attributes: Sequence[Attribute], batches: Iterable[ReleasedBatch]) -> None:
        """Create and fill the staging table of rows that are copied from another database.

        Parameters
        ----------
        attributes : the columns of the rows.
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
        self, attributes: Sequence[Attribute], batches: Iterable[Sequence[SqlRow]]
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

    def pin(self, source: Relation, columns: Sequence[str]) -> Relation:
        """Return the source with these columns fixed in one snapshot until the transaction ends.

        All statements must read the same rows. If statements of the transaction see different
        snapshots, the columns are copied; else the source is returned unchanged.
        """
        return source

    def read(
        self,
        source: Relation,
        attributes: Sequence[Attribute],
        *,
        chunk_rows: int = DEFAULT_CHUNK_ROWS,
        memory: RecordMemory | None = None,
        progress: Progress | None = None,
        disk: Disk | None = None,
        passthrough: Sequence[Attribute] | None = None,
    ) -> Microdata:
        """Read only the row keys and the requested attributes, in record order.

        Rows with a NULL in a required column are not read, but counted as withheld.

        Parameters
        ----------
        chunk_rows : the number of rows to read at a time.
        memory : counts the memory of the records against a limit; None for no limit.
        progress : called with the share of rows that have been read.
        disk : stores the values in files; None keeps them in memory.
        passthrough : the columns whose raw values are kept; None for no passthrough.
        """
        locator = source.required_locator
        if key_columns := locator.key_map_columns or locator.columns_to_check:
            self._require_unique_keys(source, key_columns)
        if locator.key_map_columns:
            sort_keys = [
                self.dialect.sort_key(source.attribute(key)) for key in locator.key_map_columns
            ]
            self.run(
                statements.create_key_map(
                    source.numbered_relation,
                    locator.key_map_columns,
                    sort_keys,
                    self.dialect.staging_suffix,
                    locator.comparison_sql,
                )
            )
        categories = self.stage_values(source, attributes)
        if passthrough is None:
            chunks = self.read_chunks(source, attributes, chunk_rows)
        else:
            chunks = self.passthrough.read_chunks(
                source, attributes, passthrough, chunk_rows, memory
            )
        if progress:
            chunks = with_progress(chunks, source.estimated_rows, progress)
        microdata = microdata_from_chunks(
            attributes,
            chunks,
            categories=categories,
            key_width=len(locator.types),
            require_memory=None if memory is None else memory.require_so_far,
            disk=disk,
        )
        return replace(microdata, n_withheld=self.count_withheld(source))

    def free_cache(self) -> None:  # noqa: B027
        """Free the rows that the database caches in this process; does nothing for a server."""

    def count_withheld(self, source: Relation) -> int:
        """Count the rows that are not read because a required column is NULL."""
        if not source.non_null_columns:
            return 0
        query = statements.count_incomplete(source.relation_to_read, source.not_null_condition)
        return int(self.rows(query)[0][0])

    def _require_unique_keys(self, source: Relation, keys: Sequence[str]) -> None:
        """Check that the key columns have no NULLs and no duplicates; raises DuplicateKeys."""
        n_null_rows, n_repeated_keys = self.rows(
            statements.key_problems(source.relation_to_read, keys)
        )[0]
        if n_null_rows or n_repeated_keys:
            raise DuplicateKeys(
                f"The key of {source.name} is not unique: {pluralize(n_repeated_keys, 'key')}"
                f" more than once, {pluralize(n_null_rows, 'row')} with NULL in the key.",
                hint='Name columns that are unique for each row: `key=["…"]`.',
            )

    def stage_values(
        self, source: Relation, attributes: Sequence[Attribute]
    ) -> list[tuple[str, ...]]:
        """Stage a dictionary for every non-numeric attribute, and return the dictionaries.

        A dictionary has the distinct values of a column in sorted order; the number of a value is
        its code. The database then transfers a code for each row, and each value only once. The
        values of identifiers are not transferred: their dictionaries are returned empty.
        """
        dictionaries: list[tuple[str, ...]] = []
        for position, attribute in enumerate(attributes):
            if not attribute.kind.is_coded:
                continue
            table = statements.values_table(position)
            self.run(
                statements.create_values(
                    f"{source.relation_to_read.quoted} AS s",
                    position,
                    self.dialect.value_of(attribute),
                    f"s.{quote(attribute.name)}",
                    self.dialect.staging_suffix,
                    source.and_not_null_condition,
                )
            )
            self._value_tables.append(table)
            if attribute.role is Role.IDENTIFIER:
                dictionaries.append(())
                continue
            value_rows = self.rows(f"SELECT value FROM {quote(table)} ORDER BY code")
            dictionaries.append(tuple(value for (value,) in value_rows))
        return dictionaries

    @property
    def staging_tables(self) -> tuple[str, ...]:
        """The temporary tables that this session may have created."""
        return (
            *statements.STAGING,
            person_tags.SECRET,
            *chain_staging.STAGING,
            *self._value_tables,
        )

    def stage_labels(
        self, microdata: Microdata, partition: Partition, types: Sequence[str]
    ) -> None:
        """Stage the class number of every released record, if not yet staged.

        Class numbers are random (see ``class_numbers``). The records are staged in key order, which
        makes the join with the source fast. Each has a random position, which determines the row
        order of the release.

        Parameters
        ----------
        types : SQL types of the key columns.
        """
        if self._staged_partition is partition:
            return
        self.unstage_labels()
        keys, labels = microdata.keys, partition.labels
        released_records = None
        # Copies of these arrays would be a large part of the memory that a spilled run needs.
        if partition.n_suppressed:
            released_records = np.flatnonzero(labels >= 0)
            keys, labels = keys[released_records], labels[released_records]
        positions = self.draw_positions(partition, released_records)
        self.load_labels(keys, self.class_numbers(partition)[labels], positions, types)
        self._staged_partition = partition

    def stage_offsets(
        self,
        source: Relation,
        microdata: Microdata,
        partition: Partition,
        offsets: NDArray[np.int32],
        days: int,
    ) -> None:
        """Stage labels whose positions tell the date offsets, as ``statements.offset_days`` reads.

        Parameters
        ----------
        offsets : int32 (n,), the offset of each record, from -days to days.
        """
        # Labels may have been staged without offsets.
        self.unstage_labels()
        self._offsets, self._n_offsets = offsets + np.int32(days), 2 * days + 1
        self.stage_labels(microdata, partition, source.required_locator.types)

    def draw_positions(
        self, partition: Partition, records: NDArray[np.int64] | None
    ) -> NDArray[np.int32]:
        """Draw positions that put the rows of each class in random order, int32 (m,).

        Parameters
        ----------
        records : int64 (m,), the records to draw positions for, without duplicates; None for all.

        Raises
        ------
        InvalidParameter : there are too many rows in a class for that many offsets.
        """
        n = len(partition.labels)
        order = random_order(n if records is None else len(records))
        if self._offsets is None:
            return np.asarray(order, np.int32)
        if records is None:
            records = np.arange(n)
        classes = partition.labels[records]
        by_class = np.lexsort((order, classes))
        _, starts, sizes = np.unique(classes[by_class], return_index=True, return_counts=True)
        if int(sizes.max(initial=0)) * self._n_offsets > _MAX_POSITION:
            raise InvalidParameter(
                "A class has too many rows for that many different offsets of dates.",
                hint="Name fewer days in `shift_dates`.",
            )
        positions = np.empty(len(records), np.int32)
        ranks = np.arange(len(records)) - np.repeat(starts, sizes)
        positions[by_class] = ranks * self._n_offsets + self._offsets[records[by_class]]
        return positions

    def unstage_labels(self) -> None:
        """Drop the staged labels, so that those of another partition can be staged."""
        if self._staged_partition is not None:
            self.run(f"DROP TABLE {quote(statements.LABELS)}")
            self._staged_partition = self._class_numbers = None

    def released_rows(self, source: Relation, microdata: Microdata, partition: Partition) -> str:
        """FROM clause for the released rows of a source, with the alias s."""
        # If all rows are released, no join with the labels is needed.
        if not (partition.n_suppressed or microdata.n_withheld):
            return f"{source.relation_to_read.quoted} AS s"
        self.stage_labels(microdata, partition, source.required_locator.types)
        return statements.released_rows(source.from_clause, source.required_locator.expressions)

    def class_numbers(self, partition: Partition) -> NDArray[np.int32]:
        """Return the random number of each class in staging tables, int32 (n_classes,).

        Staging tables use these numbers instead of the partition's labels, whose order could reveal
        how the classes were found. The numbers are drawn once for each staged partition.
        """
        if self._class_numbers is None:
            self._class_numbers = random_order(partition.n_classes).astype(np.int32)
        return self._class_numbers

    def classes_by_number(self, partition: Partition) -> NDArray[np.int64]:
        """Return the inverse of ``class_numbers``: the class of each number, int64 (n_classes,)."""
        classes = np.empty(partition.n_classes, np.int64)
        classes[self.class_numbers(partition)] = np.arange(len(classes))
        return classes

    def stage(
        self,
        source: Relation,
        microdata: Microdata,
        partition: Partition,
        columns: Sequence[ReleasedColumn],
    ) -> None:
        """Stage the class of each record and the released values of each class."""
        self.stage_labels(microdata, partition, source.required_locator.types)
        self.stage_classes(partition, columns)

    def stage_classes(self, partition: Partition, columns: Sequence[ReleasedColumn]) -> None:
        """Stage the released values of every class, ordered by class number."""
        self.load_classes(self.parts_by_class(partition, columns), partition.n_classes)

    def parts_by_class(
        self, partition: Partition, columns: Sequence[ReleasedColumn]
    ) -> list[ReleasedColumn]:
        """Return the columns to stage, ordered by class number.

        A released column can have several parts, such as both bounds of a range.
        """
        order = self.classes_by_number(partition)
        return [part.take_values(order) for column in columns for part in column.written_columns]

    def exact_totals(
        self,
        source: Relation,
        microdata: Microdata,
        partition: Partition,
        attributes: Sequence[Attribute],
    ) -> dict[str, NDArray[np.object_]]:
        """Sum attributes in each class by exact integer arithmetic in SQL.

        Returns object arrays (n_classes,) of Python integers by attribute name, in units of
        10**-scale. NULL counts as 0.
        """
        self.stage_labels(microdata, partition, source.required_locator.types)
        parts = [self.dialect.quotient_and_remainder(attribute) for attribute in attributes]
        totals = {attribute.name: np.zeros(partition.n_classes, object) for attribute in attributes}
        query = statements.exact_sums(
            parts, source.from_clause, source.required_locator.expressions
        )
        # The query returns a quotient and a remainder for each attribute, see ``exact_sums``.
        labels_by_number = self.classes_by_number(partition)
        for class_number, *sums in self.rows(query):
            label = labels_by_number[class_number]
            size = int(partition.sizes[label])
            for position, attribute in enumerate(attributes):
                quotient, remainder = sums[2 * position], sums[2 * position + 1]
                if quotient is not None:
                    totals[attribute.name][label] = int(quotient) * size + int(remainder)
        return totals

    def insert(
        self,
        table: RelationName,
        values: Mapping[str, str],
        source: Relation | None,
        source_columns: Sequence[str] = (),
        joins: str = "",
    ) -> None:
        """Fill a table with one row per released row, from staging tables and the source.

        Parameters
        ----------
        values : SQL expression by column name.
        source : the source from which expressions take retained values; None if these were copied
            from another database to a staging table.
        source_columns : columns of the source that the expressions and joins use.
        joins : further JOINs of the query.
        """
        names, expressions = list(values), list(values.values())
        for part in self.cut_order(source, source_columns, len(names)):
            if source is None:
                self.run(statements.write_from_copies(table, names, expressions, part))
            else:
                self.run(
                    statements.write_from_source(
                        table,
                        names,
                        expressions,
                        source.from_clause,
                        source.required_locator.expressions,
                        joins,
                        part,
                    )
                )

    def cut_order(
        self, source: Relation | None, source_columns: Sequence[str], n_columns: int
    ) -> Sequence[str]:
        """Cut the rows that ``insert`` writes into parts that are sorted one after the other.

        Returns a WHERE clause for each part. There is one part, with an empty one, unless sorting
        all rows would take too much memory.

        Parameters
        ----------
        source, source_columns : as for ``insert``.
        n_columns : the number of columns that are written.
        """
        return ("",)

    def batch_columns(self, columns: Sequence[Attribute]) -> list[Sequence[Attribute]]:
        """Cut columns that one query would compare into batches for which the memory suffices."""
        return [columns]

    def recount(self, relation: RelationName, quasi_identifiers: Sequence[str]) -> Recount:
        """Count the classes of a relation with GROUP BY over its quasi-identifiers."""
        keys = self.catalog.columns_as_displayed(relation, quasi_identifiers)
        return Recount.of_sizes(self.rows(recount_statements.recount_classes(relation, keys)))
