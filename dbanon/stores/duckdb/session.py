"""Sessions on DuckDB, through its Python client; Arrow transfers rows in bulk.

Importing Arrow takes as long as transferring ten thousand rows. Fewer rows are therefore
transferred as NumPy arrays, and their values are the same.

Public methods without a docstring override documented ones of ``sessions.session.Session``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from dbanon.data.chunks import Chunk, chunk_from_columns
from dbanon.data.memory import MIN_DATABASE_BYTES, duckdb_limit_statements
from dbanon.data.schema import Attribute, Kind, Schema
from dbanon.data.types import SqlRow
from dbanon.errors import UnsupportedType
from dbanon.recoding import ReleasedColumn
from dbanon.sessions import statements
from dbanon.sessions.base import (
    Locator,
    OnSql,
    Relation,
    ReleasedBatch,
    row_id_shadowed_error,
    uncopyable_value_error,
)
from dbanon.sessions.names import RelationName, quote
from dbanon.stores.duckdb import dialect
from dbanon.stores.duckdb.catalog import DuckdbCatalog
from dbanon.stores.duckdb.chain_dialect import DuckdbChainDialect
from dbanon.stores.duckdb.connection import DuckdbConnection
from dbanon.stores.duckdb.digests import DuckdbDigests
from dbanon.stores.duckdb.ledger import DuckdbLedger
from dbanon.stores.duckdb.publication import DuckdbPublication
from dbanon.stores.duckdb.tags import DuckdbPersonTags
from dbanon.stores.file_session import FileSession

if TYPE_CHECKING:
    import pyarrow as pa

# The name under which Arrow tables are registered for INSERT.
_INCOMING_VIEW = "dbanon_incoming"
# Up to this many rows, numbers are transferred as NumPy arrays.
_MAX_NUMPY_ROWS = 10_000
# To sort rows, DuckDB needs about 15 MiB and the bytes of all rows. These are at most: the class,
# the position and what the sort adds, and each value besides the bytes of a text.
_BYTES_PER_ROW, _BYTES_PER_VALUE = 24, 16
# Rows are sorted at once if the memory limit is this many times their bytes.
_SORT_COPIES = 3
# To group rows, DuckDB needs memory for some 130,000 groups, however many there are: these bytes,
# and these for each column whose least and greatest values it finds, or whose values it counts.
_GROUPS_BYTES, _COLUMN_BYTES = 40 * 2**20, 16 * 2**20
# About this many rows are sampled to measure texts.
_MEASURED_ROWS = 200_000
# Number of sampled rows for each border between parts of the rows that are sorted.
_SAMPLED_ROWS = 200


class DuckdbSession(FileSession):
    """One transaction on DuckDB."""

    connection: DuckdbConnection
    temporary_schema = "temp.main"

    def __init__(self, driver: duckdb.DuckDBPyConnection, on_sql: OnSql | None = None) -> None:
        connection = DuckdbConnection(driver, on_sql)
        catalog = DuckdbCatalog(connection)
        publication = DuckdbPublication(connection, catalog.resolve_output)
        super().__init__(
            connection,
            catalog=catalog,
            publication=publication,
            ledger=DuckdbLedger(connection, catalog.find_existing, publication.ensure_schema),
            digests=DuckdbDigests(connection, catalog.find_source),
            tags=DuckdbPersonTags(connection),
            chain_dialect=DuckdbChainDialect(connection, catalog.find_source),
        )
        # The values of settings before the store or this session changed them, by name. The store
        # restores them.
        self.previous_settings: dict[str, str] = {}

    # -- source -----------------------------------------------------------------------------------

    def sample(self, relation: RelationName, share: float) -> str:
        return f"{relation.quoted} AS s TABLESAMPLE BERNOULLI ({100 * share:.6f} PERCENT)"

    def read_chunks(
        self, source: Relation, attributes: Sequence[Attribute], chunk_rows: int
    ) -> Iterator[Chunk]:
        expressions = [
            f"{key} AS key{i}" for i, key in enumerate(source.required_locator.expressions)
        ]
        expressions += [
            f"{dialect.number_expression(i, a)} AS {statements.value_column(i)}"
            for i, a in enumerate(attributes)
        ]
        joins = self.dialect.value_joins(attributes)
        query = (
            f"SELECT {', '.join(expressions)} FROM {source.from_clause}{joins}{source.where_clause}"
        )
        max_rows = min(chunk_rows, _MAX_NUMPY_ROWS)
        if 0 < source.estimated_rows <= max_rows:
            # The estimate does not count the rows that a caller's transaction has yet to commit.
            arrays = self.connection.arrays(f"{query} LIMIT {max_rows + 1}")
            if len(arrays[0]) <= max_rows:
                if len(arrays[0]):
                    yield _to_chunk(arrays, attributes)
                return
        from dbanon.stores.duckdb import arrow

        for batch in self.connection.batches(query, chunk_rows):
            yield arrow.to_chunk(batch, attributes)

    def read_rows(
        self, source: Relation, columns: Sequence[str], chunk_rows: int
    ) -> Iterator[tuple[NDArray[np.int64], list[SqlRow]]]:
        import pyarrow as pa

        from dbanon.stores.duckdb.arrow import to_numpy

        keys = [f"{key} AS key{i}" for i, key in enumerate(source.required_locator.expressions)]
        for batch in self.read_batches(source, columns, chunk_rows, keys):
            # The first column is the row key, which is always one column here.
            value_lists = []
            for name, column in zip(columns, batch.columns[1:], strict=True):
                try:
                    value_lists.append(column.to_pylist())
                except (pa.ArrowException, ValueError, OverflowError):
                    raise uncopyable_value_error(name) from None
            rows = list(zip(*value_lists, strict=True)) if value_lists else [()] * batch.num_rows
            yield to_numpy(batch.column(0)).astype(np.int64).reshape(-1, 1), rows

    def read_batches(
        self,
        source: Relation,
        columns: Sequence[str],
        chunk_rows: int,
        key_expressions: Sequence[str] = (),
    ) -> Iterator[pa.RecordBatch]:
        self._require_microseconds(source, columns)
        expressions = [
            *key_expressions,
            *(dialect.portable_expression(source.attribute(name)) for name in columns),
        ]
        query = f"SELECT {', '.join(expressions)} FROM {source.from_clause}{source.where_clause}"
        return self.connection.batches(query, chunk_rows)

    def _require_microseconds(self, source: Relation, columns: Sequence[str]) -> None:
        """Check that timestamps can be copied in microseconds without loss.

        Raises
        ------
        UnsupportedType : a column has nanoseconds.
        """
        nanosecond_columns = [n for n in columns if source.attribute(n).sql_type == "TIMESTAMP_NS"]
        if not nanosecond_columns:
            return
        epochs = (f"epoch_ns(s.{quote(name)})" for name in nanosecond_columns)
        conditions = (f"coalesce(bool_or({epoch} % 1000 <> 0), false)" for epoch in epochs)
        query = f"SELECT {', '.join(conditions)} FROM {source.from_clause}{source.where_clause}"
        [row] = self.rows(query)
        for name, has_nanoseconds in zip(nanosecond_columns, row, strict=True):
            if has_nanoseconds:
                raise UnsupportedType(
                    f'Column "{name}"'
                    " has nanoseconds, which other databases and files cannot store: they would be"
                    " cut off.",
                    hint="Cast it to TIMESTAMP in a view, and anonymize the view.",
                )

    def read_numbers(self, query: str, chunk_rows: int) -> Iterator[NDArray[np.float64]]:
        from dbanon.stores.duckdb.arrow import NAN, to_numpy

        for batch in self.connection.batches(query, chunk_rows):
            yield np.column_stack([to_numpy(c.fill_null(NAN)) for c in batch.columns])

    def free_cache(self) -> None:
        if self.memory_bytes is None or self.connection.stays_open:
            return
        # DuckDB only frees what it has cached when its limit falls. Use another connection, because
        # an error would abort the transaction of this one.
        with self.connection.driver.cursor() as cursor, suppress(duckdb.Error):
            for limit_bytes in (MIN_DATABASE_BYTES, self.memory_bytes):
                for statement in duckdb_limit_statements(limit_bytes):
                    cursor.execute(statement)

    # -- staging ----------------------------------------------------------------------------------

    def drop_staging(self) -> None:
        # If the connection is closed, that drops the tables.
        existing_tables = (
            {name for (name,) in self.rows(dialect.TEMPORARY_TABLES_QUERY)}
            if self.connection.stays_open
            else ()
        )
        for name in sorted({*self.staging_tables}.intersection(existing_tables)):
            self.run(f"DROP TABLE {self.temporary_schema}.{quote(name)}")

    def _stage(
        self,
        table: str,
        columns: Sequence[tuple[str, str]],
        arrays: Sequence[NDArray[np.int32 | np.int64 | np.float64]],
    ) -> None:
        """Create a staging table with rows of numbers, one array (n,) per column."""
        self.run(statements.create_staging(table, columns))
        # DuckDB takes NaN in a NumPy array for NULL.
        if len(arrays[0]) <= _MAX_NUMPY_ROWS and not any(np.isnan(a).any() for a in arrays):
            self._insert(table, {str(i): np.ascontiguousarray(a) for i, a in enumerate(arrays)})
        else:
            from dbanon.stores.duckdb.arrow import to_arrow

            self._append(table, [to_arrow(array) for array in arrays])

    def _append(self, table: str, arrays: list[pa.Array]) -> None:
        """Append rows to a table."""
        import pyarrow as pa

        from dbanon.stores.duckdb.arrow import to_table

        data = to_table(arrays)
        # DuckDB keeps a registered table until the transaction ends, but of a reader only what was
        # not read yet.
        self._insert(table, pa.RecordBatchReader.from_batches(data.schema, iter(data.to_batches())))

    def _insert(self, table: str, incoming: object) -> None:
        """Append rows to a table, from an Arrow reader or a dictionary of NumPy arrays."""
        self.connection.driver.register(_INCOMING_VIEW, incoming)
        try:
            self.run(f"INSERT INTO {quote(table)} SELECT * FROM {_INCOMING_VIEW}")
        finally:
            # DuckDB refuses to unregister in a failed transaction.
            with suppress(duckdb.Error):
                self.connection.driver.unregister(_INCOMING_VIEW)

    def load_labels(
        self,
        keys: NDArray[np.int64],
        classes: NDArray[np.int32],
        positions: NDArray[np.int32],
        key_types: Sequence[str],
    ) -> None:
        # The row key is one column: the row ID, an integer column, or the number that a key map, a
        # staging table, gives to each combination of values of the key columns.
        column_types = [("key0", key_types[0]), ("class", "INTEGER"), ("position", "INTEGER")]
        self._stage(statements.LABELS, column_types, [keys[:, 0], classes, positions])

    def load_classes(self, columns: Sequence[ReleasedColumn], n_classes: int) -> None:
        column_types = [("class", "INTEGER")]
        column_types += [
            (statements.value_column(i), dialect.staged_type(c)) for i, c in enumerate(columns)
        ]
        classes = np.arange(n_classes, dtype=np.int32)
        if all(_is_number(column) for column in columns):
            self._stage(statements.CLASSES, column_types, [classes, *(c.values for c in columns)])
            return
        from dbanon.stores.duckdb.arrow import staged_values, to_arrow

        self.run(statements.create_staging(statements.CLASSES, column_types))
        self._append(statements.CLASSES, [to_arrow(classes), *map(staged_values, columns)])

    def load_rows(self, attributes: Sequence[Attribute], batches: Iterable[ReleasedBatch]) -> None:
        import pyarrow as pa

        from dbanon.stores.duckdb.arrow import to_arrow, to_arrow_values

        column_types = [("class", "INTEGER"), ("position", "INTEGER")]
        column_types += [
            (statements.retained_column_name(i), self.dialect.type_of(a))
            for i, a in enumerate(attributes)
        ]
        self.run(statements.create_staging(statements.ROWS, column_types))
        for classes, positions, rows in batches:
            value_lists = list(zip(*rows, strict=True)) if attributes else []
            arrays = [to_arrow(classes), to_arrow(positions)]
            for attribute, values in zip(attributes, value_lists, strict=True):
                try:
                    arrays.append(to_arrow_values(attribute, list(values)))
                except (pa.ArrowException, OverflowError):
                    raise uncopyable_value_error(attribute.name) from None
            self._append(statements.ROWS, arrays)

    def cut_order(
        self, source: Relation | None, source_columns: Sequence[str], n_columns: int
    ) -> Sequence[str]:
        # DuckDB sorts in memory rows that hardly fit, and then fails to merge them.
        if self.memory_bytes is None:
            return ("",)
        alias, table = ("r", statements.ROWS) if source is None else ("l", statements.LABELS)
        [(n_rows,)] = self.rows(f"SELECT count(*) FROM {quote(table)}")
        if source is None:
            rows = quote(table)
            texts = [
                name
                for (name,) in self.rows(
                    "SELECT column_name FROM duckdb_columns() WHERE database_name = 'temp'"
                    " AND table_name = ? AND data_type = 'VARCHAR'",
                    (table,),
                )
            ]
        else:
            rows = source.relation_to_read.quoted
            attributes = map(source.attribute, dict.fromkeys(source_columns))
            texts = [a.name for a in attributes if a.kind in (Kind.CATEGORY, Kind.OTHER)]
        row_bytes = _BYTES_PER_ROW + n_columns * _BYTES_PER_VALUE
        if texts and n_rows:
            lengths = " + ".join(
                f"coalesce(strlen(CAST(s.{quote(name)} AS VARCHAR)), 0)" for name in texts
            )
            share = min(1.0, _MEASURED_ROWS / n_rows)
            [(mean,)] = self.rows(
                f"SELECT avg({lengths}) FROM {rows} AS s"
                f" TABLESAMPLE SYSTEM ({100 * share:.6f} PERCENT)"
            )
            row_bytes += ceil(mean or 0)
        n_parts = ceil(_SORT_COPIES * n_rows * row_bytes / self.memory_bytes)
        if n_parts < 2:
            return ("",)
        sample = sorted(
            (int(number), int(position))
            for number, position in self.rows(
                f"SELECT class, position FROM {quote(table)}"
                f" USING SAMPLE {_SAMPLED_ROWS * n_parts} ROWS"
            )
        )
        borders = [sample[len(sample) * part // n_parts] for part in range(1, n_parts)]
        return statements.order_ranges(alias, borders)

    def batch_columns(self, columns: Sequence[Attribute]) -> list[Sequence[Attribute]]:
        if self.memory_bytes is None:
            return [columns]
        n_at_once = max(1, (self.memory_bytes - _GROUPS_BYTES) // _COLUMN_BYTES)
        starts = range(0, max(len(columns), 1), n_at_once)
        return [columns[start : start + n_at_once] for start in starts]

    def create_file_rows(self, name: RelationName, columns: Sequence[tuple[str, str]]) -> Relation:
        # Keep rows of files in memory: if the run were killed, spilled rows would remain on disk.
        # DuckDB refuses the setting on a connection that has spilled already.
        [(directory,)] = self.rows("SELECT system.main.current_setting('temp_directory')")
        with suppress(duckdb.Error):
            self.connection.driver.execute("SET temp_directory = ''")
            self.previous_settings["temp_directory"] = str(directory)
        self.run(statements.create_staging(statements.FILE_ROWS, columns))
        column_rows = self.rows(
            "SELECT column_name, data_type, is_nullable FROM duckdb_columns()"
            " WHERE database_name = 'temp' AND table_name = ? ORDER BY column_index",
            (statements.FILE_ROWS,),
        )
        schema = Schema(tuple(dialect.to_attribute(*column) for column in column_rows))
        relation = Relation(replace(name, staging_table=statements.FILE_ROWS), schema, "table")
        if any(column.lower() == "rowid" for column, _ in columns):
            raise row_id_shadowed_error(relation, "rowid")
        return replace(relation, locator=Locator(("s.rowid",), ("BIGINT",)))

    def fill_file_rows(
        self, attributes: Sequence[Attribute], batches: Iterable[Sequence[SqlRow]]
    ) -> None:
        import pyarrow as pa

        from dbanon.stores.duckdb.arrow import to_arrow_values

        for rows in batches:
            arrays = []
            for attribute, values in zip(attributes, zip(*rows, strict=True), strict=True):
                try:
                    arrays.append(to_arrow_values(attribute, list(values)))
                except (pa.ArrowException, OverflowError):
                    raise uncopyable_value_error(attribute.name) from None
            self._append(statements.FILE_ROWS, arrays)


def _is_number(column: ReleasedColumn) -> bool:
    """Return whether NumPy holds the staged values of a column: numbers without NULL."""
    values = column.values
    return (
        column.missing is None
        and values.dtype != object
        and column.attribute.kind is not Kind.DECIMAL
    )


def _to_chunk(arrays: Sequence[Any], attributes: Sequence[Attribute]) -> Chunk:
    """Convert columns to a chunk; the first ones are the row key, the others the attributes.

    Those with NULL are masked arrays.
    """
    n_key_columns = len(arrays) - len(attributes)
    keys = np.column_stack([a.astype(np.int64, copy=False) for a in arrays[:n_key_columns]])
    numbers = np.empty((len(keys), len(attributes)))
    valid = None
    for position, array in enumerate(arrays[n_key_columns:]):
        missing = getattr(array, "mask", None)
        if missing is not None:
            if valid is None:
                valid = np.ones(numbers.shape, bool)
            valid[:, position] = ~missing
            array = array.filled(0)
        numbers[:, position] = array
    return chunk_from_columns(keys, numbers, valid, attributes)
