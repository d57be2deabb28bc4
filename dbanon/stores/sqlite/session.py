"""One transaction on SQLite, through Python's own client.

SQLite has no schemas, so a schema becomes a prefix of names: ``release.people`` is the table
``release_people``. It does not enforce types either, so values are checked against the declared
types.

Public methods without a docstring override documented ones of ``sessions.session.Session``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain

import numpy as np
import sqlalchemy
from numpy.typing import NDArray

from dbanon.data.chunks import Chunk
from dbanon.data.counts import Recount
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute, Kind, Schema
from dbanon.data.types import SqlRow
from dbanon.errors import MixedTypes
from dbanon.job.job import DEFAULT_CHUNK_ROWS
from dbanon.recoding import ReleasedColumn
from dbanon.sessions import recount_statements, statements
from dbanon.sessions.base import (
    Locator,
    OnSql,
    Relation,
    ReleasedBatch,
    prepend_class_and_position,
    row_id_shadowed_error,
)
from dbanon.sessions.names import RelationName, quote, quote_list, unused_name
from dbanon.sessions.storable_rows import storable_rows
from dbanon.stores.file_session import FileSession
from dbanon.stores.sqlite import dialect
from dbanon.stores.sqlite.catalog import ROWID_NAMES, SqliteCatalog
from dbanon.stores.sqlite.chain_dialect import SqliteChainDialect
from dbanon.stores.sqlite.connection import SqliteConnection
from dbanon.stores.sqlite.dialect import SqliteValue
from dbanon.stores.sqlite.digests import SqliteDigests
from dbanon.stores.sqlite.errors import translate_errors
from dbanon.stores.sqlite.ledger import SqliteLedger
from dbanon.stores.sqlite.publication import SqlitePublication
from dbanon.stores.sqlite.tags import SqlitePersonTags

# SQLite takes so many parameters. A statement of many rows stages them in half the time.
_MAX_PARAMETERS = 999
# The staging table of the source's released rows in their order: ordinal, class, and the source
# columns under their own names.
_SORTED_ROWS = "dbanon_sorted"


class SqliteSession(FileSession):
    """One transaction on SQLite."""

    connection: SqliteConnection
    tags: SqlitePersonTags

    def __init__(
        self, alembic_connection: sqlalchemy.Connection, on_sql: OnSql | None = None
    ) -> None:
        connection = SqliteConnection(alembic_connection, on_sql)
        catalog = SqliteCatalog(connection)
        super().__init__(
            connection,
            catalog=catalog,
            publication=SqlitePublication(connection),
            ledger=SqliteLedger(connection, catalog.find_existing),
            digests=SqliteDigests(connection, catalog.find_source),
            tags=SqlitePersonTags(connection),
            chain_dialect=SqliteChainDialect(connection),
        )

    # -- source -----------------------------------------------------------------------------------

    def sample(self, relation: RelationName, share: float) -> str:
        # Sample without a subquery in FROM, in which SQLite may rename columns.
        return f"{relation.quoted} AS s WHERE {self.dialect.random_number} < {share:.9f}"

    def complete_attributes_from_values(
        self, source: Relation, attributes: Sequence[Attribute]
    ) -> tuple[Attribute, ...]:
        # The values of nominal columns are read as text, whatever their type.
        typed_attributes = [
            a for a in attributes if a.kind in dialect.STORAGE_CLASSES and not a.nominal
        ]
        if not typed_attributes:
            return tuple(attributes)
        checks = [
            f"{dialect.malformed_count(a)}, {dialect.longest_or_largest_expression(a)}"
            for a in typed_attributes
        ]
        results = self.rows(
            f"SELECT {', '.join(checks)} FROM {source.relation_to_read.quoted} AS s"
            f"{source.where_clause}"
        )[0]
        completed_attributes = {}
        # Each column has two results.
        for attribute, n_invalid, longest_or_largest in zip(
            typed_attributes, results[::2], results[1::2], strict=True
        ):
            if n_invalid:
                raise MixedTypes(
                    f'Column "{attribute.name}" of {source.name} declares {attribute.sql_type}, but'
                    f" {n_invalid} of its values are not {dialect.describe_expected(attribute)}.",
                    hint="Correct these values, or cast the column in a view.",
                )
            completed_attributes[attribute.name] = dialect.with_observed_digits(
                attribute, longest_or_largest
            )
        return tuple(completed_attributes.get(a.name, a) for a in attributes)

    def read_chunks(
        self, source: Relation, attributes: Sequence[Attribute], chunk_rows: int
    ) -> Iterator[Chunk]:
        locator = source.required_locator
        # ``joins`` joins the staged dictionary of the values of column i as d{i}.
        expressions = [
            *locator.expressions,
            *(
                f"d{i}.code" if a.kind.is_coded else f"s.{quote(a.name)}"
                for i, a in enumerate(attributes)
            ),
        ]
        joins = self.dialect.value_joins(attributes)
        query = (
            f"SELECT {', '.join(expressions)} FROM {source.from_clause}{joins}{source.where_clause}"
        )
        self.connection.report(query)
        with translate_errors():
            cursor = self.connection.driver.execute(query)
            while len((chunk := dialect.take_chunk(cursor, chunk_rows, attributes)).keys):
                yield chunk

    def read_rows(
        self, source: Relation, columns: Sequence[str], chunk_rows: int
    ) -> Iterator[tuple[NDArray[np.int64], list[SqlRow]]]:
        expressions = [
            *source.required_locator.expressions,
            *(f"s.{quote(name)}" for name in columns),
        ]
        query = f"SELECT {', '.join(expressions)} FROM {source.from_clause}{source.where_clause}"
        for rows in self.connection.batches(query, chunk_rows):
            keys = np.array([row[0] for row in rows], np.int64).reshape(-1, 1)
            yield keys, [row[1:] for row in rows]

    def read_numbers(self, query: str, chunk_rows: int) -> Iterator[NDArray[np.float64]]:
        return (np.array(rows, np.float64) for rows in self.connection.batches(query, chunk_rows))

    def recount(self, relation: RelationName, quasi_identifiers: Sequence[str]) -> Recount:
        keys = self.catalog.columns_as_displayed(relation, quasi_identifiers)
        if self._is_plain_table(relation):
            # Without COLLATE, SQLite groups by the column itself. It would store the value of an
            # expression beside the column, for each row that it sorts.
            source = self.catalog.find_source(relation)
            for index, name in enumerate(quasi_identifiers):
                column = f"s.{quote(name)}"
                # A column that stores all numbers as floats does not hold both 1 and 1.0, so that
                # the value alone tells its values apart.
                is_real = dialect.has_real_affinity(source.attribute(name).sql_type)
                keys[index] = (column,) if is_real else (column, *keys[index][1:])
                if is_real and index == 0:
                    # SQLite sorts faster by integers, and compares floats where they are equal.
                    keys[index] = (f"CAST({column} * 1e9 AS INTEGER)", column)
        return Recount.of_sizes(self.rows(recount_statements.recount_classes(relation, keys)))

    def _is_plain_table(self, relation: RelationName) -> bool:
        """Whether a relation is neither a view nor a virtual table, and has no collations."""
        query = (
            "SELECT count(*) FROM sqlite_master WHERE name = ? AND rootpage > 0"
            " AND instr(lower(sql), 'collate') = 0"
        )
        [(n_tables,)] = self.rows(query, (self.catalog.resolve_output(relation).name,))
        return bool(n_tables)

    # -- staging ----------------------------------------------------------------------------------

    def _stage(
        self, table: str, columns: Sequence[tuple[str, str]], rows: Iterable[SqlRow]
    ) -> None:
        """Create a staging table with these rows."""
        self.run(statements.create_staging(table, columns))
        placeholders = ", ".join("?" for _ in columns)
        insert_statement = f"INSERT INTO {quote(table)} VALUES ({placeholders})"
        self.connection.report(insert_statement)
        with translate_errors():
            self.connection.driver.executemany(insert_statement, rows).close()

    def drop_staging(self) -> None:
        super().drop_staging()
        self.tags.drop_key()

    def load_labels(
        self,
        keys: NDArray[np.int64],
        classes: NDArray[np.int32],
        positions: NDArray[np.int32],
        types: Sequence[str],
    ) -> None:
        # The join looks labels up one by one, which a primary key makes faster.
        columns = [("key0", "INTEGER PRIMARY KEY"), ("class", "INTEGER"), ("position", "INTEGER")]
        order = np.argsort(keys[:, 0])
        self._stage(statements.LABELS, columns, ())
        for start in range(0, len(order), DEFAULT_CHUNK_ROWS):
            chunk = order[start : start + DEFAULT_CHUNK_ROWS]
            rows = np.column_stack((keys[chunk, 0], classes[chunk], positions[chunk]))
            self._insert_values(statements.LABELS, len(columns), rows.ravel().tolist())

    def load_classes(self, columns: Sequence[ReleasedColumn], n_classes: int) -> None:
        class_columns = [("class", "INTEGER PRIMARY KEY")]
        value_lists: list[Sequence[SqliteValue]] = [range(n_classes)]
        for position, column in enumerate(columns):
            class_columns.append((statements.value_column(position), ""))
            value_lists.append(dialect.stored_values(column))
        self._stage(statements.CLASSES, class_columns, ())
        values = list(chain.from_iterable(zip(*value_lists, strict=True)))
        self._insert_values(statements.CLASSES, len(class_columns), values)

    def _insert_values(self, table: str, n_columns: int, values: Sequence[SqliteValue]) -> None:
        """Insert values, row after row, into a staging table, many rows at once."""
        row = f"({', '.join('?' * n_columns)})"
        start = 0
        # The last rows are inserted one by one.
        for n_rows in (max(_MAX_PARAMETERS // n_columns, 1), 1):
            insert_statement = f"INSERT INTO {quote(table)} VALUES {', '.join([row] * n_rows)}"
            size = n_rows * n_columns
            end = len(values) - (len(values) - start) % size
            rows = (values[index : index + size] for index in range(start, end, size))
            with translate_errors():
                self.connection.driver.executemany(insert_statement, rows).close()
            start = end

    def load_rows(self, attributes: Sequence[Attribute], batches: Iterable[ReleasedBatch]) -> None:
        columns = [("class", "INTEGER"), ("position", "INTEGER")]
        columns += [
            (statements.retained_column_name(i), self.dialect.type_of(a))
            for i, a in enumerate(attributes)
        ]
        rows = storable_rows(attributes, prepend_class_and_position(batches), dialect.to_storable)
        self._stage(statements.ROWS, columns, rows)

    def create_file_rows(self, name: RelationName, columns: Sequence[tuple[str, str]]) -> Relation:
        self.run(statements.create_staging(statements.FILE_ROWS, columns))
        schema = Schema(tuple(dialect.to_attribute(*column, nullable=True) for column in columns))
        relation = Relation(replace(name, staging_table=statements.FILE_ROWS), schema, "table")
        column_names = {column.lower() for column, _ in columns}
        free_names = [name for name in ROWID_NAMES if name not in column_names]
        if not free_names:
            raise row_id_shadowed_error(relation, ROWID_NAMES[0])
        return replace(relation, locator=Locator((f"s.{free_names[0]}",), ("INTEGER",)))

    def fill_file_rows(
        self, attributes: Sequence[Attribute], batches: Iterable[Sequence[SqlRow]]
    ) -> None:
        placeholders = ", ".join("?" for _ in attributes)
        insert_statement = f"INSERT INTO {quote(statements.FILE_ROWS)} VALUES ({placeholders})"
        self.connection.report(insert_statement)
        rows = (row for batch in batches for row in batch)
        with translate_errors():
            # The rows of a file have no class and position before their values.
            rows_to_store = storable_rows(
                attributes, rows, dialect.to_storable, first_value_index=0
            )
            self.connection.driver.executemany(insert_statement, rows_to_store).close()

    def insert(
        self,
        table: RelationName,
        values: Mapping[str, str],
        source: Relation | None,
        source_columns: Sequence[str] = (),
        joins: str = "",
    ) -> None:
        # Sorted rows have no positions. Their columns have no collation and no affinity, on which
        # comparisons in other expressions and in joins depend.
        copied_values = {f"s.{quote(name)}" for name in source_columns}
        copies_only = not joins and all(
            value in copied_values or (value.startswith("c.") and "s." not in value)
            for value in values.values()
        )
        if source is None or not copies_only:
            super().insert(table, values, source, source_columns, joins)
            return
        # First sort the rows, then look up the values of their classes: in the order of the
        # source, each lookup would read another page.
        ordinal, class_column = (unused_name(name, source_columns) for name in ("ordinal", "class"))
        sorted_columns = [class_column, *source_columns]
        # Without a type, a column keeps values as they are.
        columns = [(ordinal, "INTEGER PRIMARY KEY"), *((name, "") for name in sorted_columns)]
        self.run(statements.create_staging(_SORTED_ROWS, columns))
        read_columns = "".join(f", s.{quote(name)}" for name in source_columns)
        released_rows = statements.released_rows(
            source.from_clause, source.required_locator.expressions
        )
        self.run(
            f"INSERT INTO {quote(_SORTED_ROWS)} ({quote_list(sorted_columns)})"
            f" SELECT l.class{read_columns} FROM {released_rows}"
            " ORDER BY l.class, l.position"
        )
        # SQLite does not reorder the tables of a CROSS JOIN.
        self.run(
            f"INSERT INTO {table.quoted} ({quote_list(values)}) SELECT {', '.join(values.values())}"
            f" FROM {quote(_SORTED_ROWS)} AS s CROSS JOIN {quote(statements.CLASSES)} AS c"
            f" ON c.class = s.{quote(class_column)} ORDER BY s.{quote(ordinal)}"
        )
        self.run(f"DROP TABLE {self.temporary_schema}.{quote(_SORTED_ROWS)}")

    def exact_totals(
        self,
        source: Relation,
        microdata: Microdata,
        partition: Partition,
        attributes: Sequence[Attribute],
    ) -> dict[str, NDArray[np.object_]]:
        """Sum decimals in Python, with unlimited precision; sum other types in SQL."""
        self.stage_labels(microdata, partition, source.required_locator.types)
        non_decimals = [a for a in attributes if a.kind is not Kind.DECIMAL]
        totals_by_column = (
            super().exact_totals(source, microdata, partition, non_decimals) if non_decimals else {}
        )
        # Staged class numbers are a random permutation of the labels; this is its inverse.
        label_of_class_number = np.argsort(self.class_numbers(partition))
        for attribute in (a for a in attributes if a.kind is Kind.DECIMAL):
            # Sum integers without the decimal point, as the other databases do.
            scale_factor = 10**attribute.scale
            totals = np.zeros(partition.n_classes, object)
            query = statements.class_values(
                f"s.{quote(attribute.name)}",
                source.from_clause,
                source.required_locator.expressions,
            )
            for rows in self.connection.batches(query, DEFAULT_CHUNK_ROWS):
                for class_number, value in rows:
                    totals[label_of_class_number[class_number]] += round(
                        Fraction(value or 0) * scale_factor
                    )
            totals_by_column[attribute.name] = totals
        return totals_by_column
