"""The part of a session that all SQL databases share.

A session is one transaction on one snapshot; its changes become visible at the commit.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.chunks import microdata_from_chunks, with_progress
from dbanon.data.counts import Recount
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.data.pieces import Disk
from dbanon.data.schema import CASEFOLD, WHITE_SPACE, Attribute, Role
from dbanon.errors import DuplicateKeys, UnsupportedType, pluralize
from dbanon.job.job import DEFAULT_CHUNK_ROWS
from dbanon.recoding import ReleasedColumn
from dbanon.sessions import chain_staging, person_tags, recount_statements, statements
from dbanon.sessions.base import OnSql, Relation, random_order
from dbanon.sessions.chain_arrays import ChainArrays
from dbanon.sessions.chain_dialect import ChainDialect
from dbanon.sessions.interface import SessionInterface
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.person_records import PersonRecords
from dbanon.sessions.person_tags import PersonTags, StagedKey
from dbanon.sessions.rule_catalog import RuleCatalog

Progress = Callable[[float], None]


class Session(SessionInterface):
    """One transaction on one database."""

    def __init__(self, on_sql: OnSql | None = None) -> None:
        self._on_sql = on_sql
        # The partition whose labels (classes of rows) are staged; None before that.
        self._staged_partition: Partition | None = None
        # The result of ``class_numbers``.
        self._class_numbers: NDArray[np.int32] | None = None
        # The staging tables that ``stage_values`` has created.
        self._value_tables: list[str] = []
        self._staged_key = StagedKey()

    @property
    def rules(self) -> RuleCatalog:
        """The declared rules of the database."""
        return RuleCatalog(self)

    @property
    def persons(self) -> PersonRecords:
        """The ledger's records of the persons in releases."""
        return PersonRecords(self)

    @property
    @abstractmethod
    def tags(self) -> PersonTags:
        """The keyed and salted hashes of person identifiers."""

    @property
    @abstractmethod
    def chain_dialect(self) -> ChainDialect:
        """The SQL and the settings with which the database makes releases of chains."""

    @property
    def chain_arrays(self) -> ChainArrays | None:
        """The arrays that chains exchange with the database; None if it exchanges none."""
        return None

    def report_sql(self, sql: str) -> None:
        """Pass a statement to the function that the caller passed as ``on_sql``, if any."""
        if self._on_sql is not None:
            self._on_sql(sql)

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
        memory_limit: int | None = None,
        progress: Progress | None = None,
        disk: Disk | None = None,
        passthrough: Sequence[Attribute] | None = None,
    ) -> Microdata:
        """Read only the row keys and the requested attributes, in record order.

        Rows with a NULL in a required column are not read, but counted as withheld.

        Parameters
        ----------
        chunk_rows : the number of rows to read at a time.
        memory_limit : in bytes; None for no limit.
        progress : called with the share of rows that have been read.
        disk : stores the values in files; None keeps them in memory.
        passthrough : the columns whose raw values are kept; None for no passthrough.
        """
        locator = source.required_locator
        if key_columns := locator.key_map_columns or locator.columns_to_check:
            self._require_unique_keys(source, key_columns)
        if locator.key_map_columns:
            sort_keys = [self.sort_key(source.attribute(key)) for key in locator.key_map_columns]
            self.run(
                statements.create_key_map(
                    source.numbered_relation,
                    locator.key_map_columns,
                    sort_keys,
                    self.staging_suffix,
                    locator.comparison_sql,
                )
            )
        categories = self.stage_values(source, attributes)
        if passthrough is None:
            chunks = self.read_chunks(source, attributes, chunk_rows)
        else:
            chunks = self.passthrough.read_chunks(
                source, attributes, passthrough, chunk_rows, memory_limit
            )
        if progress:
            chunks = with_progress(chunks, source.estimated_rows, progress)
        microdata = microdata_from_chunks(
            attributes,
            chunks,
            categories=categories,
            key_width=len(locator.types),
            memory_limit=memory_limit,
            disk=disk,
        )
        return replace(microdata, n_withheld=self.count_withheld(source))

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
                    self.value_of(attribute),
                    f"s.{quote(attribute.name)}",
                    self.staging_suffix,
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

    def value_joins(self, attributes: Sequence[Attribute]) -> str:
        """JOINs with the dictionaries that ``stage_values`` staged, for a query that reads rows."""
        return "".join(
            statements.join_values(position, self.value_of(attribute))
            for position, attribute in enumerate(attributes)
            if attribute.kind.is_coded
        )

    def value_of(self, attribute: Attribute) -> str:
        """SQL for an attribute's values as the dictionary of ``stage_values`` stores them.

        Identifiers are compared as the database compares their type, other values as texts.
        """
        if attribute.role is Role.IDENTIFIER:
            return self.normalized_sql(attribute, f"s.{quote(attribute.name)}")
        return self.text_of(attribute)

    def retained_value(self, attribute: Attribute) -> str:
        """SQL for a retained column in its released type."""
        return f"s.{quote(attribute.name)}"

    @property
    def staging_tables(self) -> tuple[str, ...]:
        """The temporary tables that this session may have created."""
        return (
            *statements.STAGING,
            person_tags.SECRET,
            *chain_staging.STAGING,
            *self._value_tables,
        )

    def sort_key(self, attribute: Attribute) -> str:
        """SQL of a key column that sorts texts by code point, regardless of the collation."""
        return f"s.{quote(attribute.name)}"

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
        released_records = np.flatnonzero(partition.labels >= 0)
        self.load_labels(
            microdata.keys[released_records],
            self.class_numbers(partition)[partition.labels[released_records]],
            random_order(len(released_records)).astype(np.int32),
            types,
        )
        self._staged_partition = partition

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
        return [part.take(order) for column in columns for part in column.written_columns]

    def range_type(self, attribute: Attribute, borders: Sequence[NDArray[Any]] = ()) -> str:
        """Return the SQL type of a column's ranges.

        Parameters
        ----------
        borders : arrays of lower and upper ends, for which the type must be wide enough.

        Raises
        ------
        UnsupportedType : this database has no range types.
        """
        raise UnsupportedType(
            f'Column "{attribute.name}" cannot be released as ranges: this database has no range'
            " types.",
            hint='Use `intervals="text"`, `intervals="bounds"` or `intervals="midpoint"`.',
        )

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
        parts = [self.quotient_and_remainder(attribute) for attribute in attributes]
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

    def insert_rows(
        self, relation: RelationName, columns: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> None:
        """Insert rows into one of dbanon's own tables."""
        values = [value for row in rows for value in row]
        self.run(statements.insert_rows(relation, columns, len(rows)), values)

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
        if source is None:
            self.run(statements.write_from_copies(table, names, expressions))
        else:
            self.run(
                statements.write_from_source(
                    table,
                    names,
                    expressions,
                    source.from_clause,
                    source.required_locator.expressions,
                    joins,
                )
            )

    def recount(self, relation: RelationName, quasi_identifiers: Sequence[str]) -> Recount:
        """Count the classes of a relation with GROUP BY over its quasi-identifiers."""
        keys = self.catalog.columns_as_displayed(relation, quasi_identifiers)
        return Recount.of_sizes(self.rows(recount_statements.recount_classes(relation, keys)))

    def declared_type(self, sql_type: str) -> str:
        """Return a column's type in a form that CREATE TABLE accepts."""
        return sql_type

    def normalized_sql(self, attribute: Attribute, value: str) -> str:
        """SQL for an identifier's value, normalized so that spellings of one person are equal."""
        # Empty if spellings are not unified. Otherwise spaces are trimmed, and with CASEFOLD upper
        # and lower case are unified, too.
        if not attribute.normalize:
            return value
        # The first of these characters is the plain space, by which the others are replaced.
        for space in WHITE_SPACE[1:]:
            value = f"replace({value}, '{space}', ' ')"
        value = f"trim({value})"
        return self.lowercase_sql(value) if attribute.normalize == CASEFOLD else value

    def lowercase_sql(self, text: str) -> str:
        """SQL for a text in lowercase."""
        return f"lower({text})"
