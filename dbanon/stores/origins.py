"""Sources without a store: databases through SQLAlchemy or ADBC, Arrow streams, series of frames.

Each is read once, from beginning to end, in Arrow batches. If possible, its rows are counted before
and after, and it describes what makes the rows it read a consistent state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

import pyarrow as pa

from dbanon.data.conversion import is_numeric_text
from dbanon.errors import (
    ColumnNotFound,
    DatabaseFailure,
    DatabaseUnreachable,
    DbanonError,
    InvalidParameter,
    UnsupportedType,
    nearest_names,
)
from dbanon.sessions.names import parse_relation, quote_list

SINGLE_STATEMENT = "one statement"
# Digits of a decimal.
_MOST_DIGITS = 38


def _none() -> int | None:
    return None


@dataclass(frozen=True)
class RowStream:
    """A stream of rows from a source.

    Parameters
    ----------
    columns : all columns of the relation, in order.
    batches : the requested columns; at least one batch, which may be empty.
    rows : the number of rows, counted before reading; None if unknown.
    count : counts the rows again after all batches were read.
    narrow : text columns that hold numbers of unknown size.
    how : what makes the rows a consistent state, in words.
    """

    columns: tuple[str, ...]
    batches: Iterator[pa.RecordBatch]
    how: str
    rows: int | None = None
    count: Callable[[], int | None] = _none
    narrow: frozenset[str] = frozenset()


class Origin(Protocol):
    """A source that rows are drawn from."""

    @property
    def url(self) -> str:
        """The URL of the source, without secrets."""

    def flow(self, table: str, names: Sequence[str], chunk_rows: int) -> Any:
        """Return a context manager that yields the ``RowStream`` of these columns.

        Raises
        ------
        TableNotFound, ColumnNotFound, UnsupportedType, DatabaseUnreachable, DatabaseFailure : the
            source cannot be read.
        """


@contextmanager
def translate_failures(
    message: str = "The source failed while its rows were drawn; nothing was published.",
) -> Iterator[None]:
    """Translate foreign exceptions, reporting only their class: their text may quote values."""
    try:
        yield
    except DbanonError:
        raise
    except MemoryError:
        raise
    except Exception as error:
        unreachable = type(error).__name__ in ("OperationalError", "InterfaceError", "TimeoutError")
        kind = DatabaseUnreachable if unreachable else DatabaseFailure
        raise kind(message, detail=type(error).__name__) from None


def require_columns(names: Sequence[str], columns: Sequence[str]) -> None:
    for name in names:
        if name not in columns:
            raise ColumnNotFound(
                f'The source has no column "{name}".', hint=nearest_names(name, columns)
            )


def unfit_value(name: str, kind: Any) -> UnsupportedType:
    return UnsupportedType(
        f'Column "{name}" has a value that is not of its type, {kind}.',
        hint="Cast the column in a view or in the stream, or correct the value.",
    )


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """An empty batch that carries the columns."""
    return pa.RecordBatch.from_pylist([], schema=schema)


# -- ADBC, Arrow and frames -----------------------------------------------------------------------


class AdbcOrigin:
    """A table of a database, read through the caller's ADBC connection.

    The transaction belongs to the caller and is neither committed nor rolled back.
    """

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    @property
    def url(self) -> str:
        """The scheme only: a connection does not reveal its address."""
        return "adbc:"

    @contextmanager
    def flow(self, table: str, names: Sequence[str], chunk_rows: int) -> Iterator[RowStream]:
        """Read the columns with one SELECT; raises as ``Origin``."""
        name = parse_relation(table).quoted

        def count() -> int:
            with translate_failures(), self._connection.cursor() as cursor:
                cursor.execute(f"SELECT count(*) FROM {name}")
                return int(cursor.fetchone()[0])

        with translate_failures(
            "The source does not have this table, or does not allow it to be read."
        ):
            with self._connection.cursor() as cursor:
                cursor.execute(f"SELECT * FROM {name} WHERE 1 = 0")
                columns = tuple(cursor.fetch_arrow_table().schema.names)
            rows = count()
        require_columns(names, columns)
        with self._connection.cursor() as cursor:
            with translate_failures():
                cursor.execute(f"SELECT {quote_list(names)} FROM {name}")
                reader = cursor.fetch_record_batch()
            how = f"{SINGLE_STATEMENT} on the caller's connection"
            batches = select_columns(chain([empty_batch(reader.schema)], reader), names)
            narrow = numeric_texts(reader.schema)
            yield RowStream(columns, batches, how, rows, count, narrow)


class StreamOrigin:
    """The caller's Arrow stream or series of frames; it can be read only once."""

    def __init__(self, stream: Any) -> None:
        self._stream: Any = stream

    @property
    def url(self) -> str:
        """The scheme only: a stream has no address."""
        return "stream:"

    @contextmanager
    def flow(self, table: str, names: Sequence[str], chunk_rows: int) -> Iterator[RowStream]:
        """Read the columns as they arrive; raises as ``Origin``."""
        if self._stream is None:
            raise InvalidParameter(
                "The stream has already been read.", hint="Give a new stream to each call."
            )
        stream, self._stream = self._stream, None
        with translate_failures():
            batches = _batches_of(stream)
            first = next(batches, None)
        if first is None:
            raise InvalidParameter("The stream ended before its schema.")
        columns = tuple(first.schema.names)
        require_columns(names, columns)

        how = "a stream, of which nobody counted"
        narrow = numeric_texts(first.schema)
        yield RowStream(columns, select_columns(chain([first], batches), names), how, narrow=narrow)


def _batches_of(stream: Any) -> Iterator[pa.RecordBatch]:
    """Batches of a stream, a frame or a series of frames; the first may be empty."""
    if hasattr(stream, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(stream)
        # A stream without batches still has columns.
        yield empty_batch(reader.schema)
        yield from reader
        return
    for item in stream:
        if isinstance(item, pa.RecordBatch):
            yield item
        elif hasattr(item, "__arrow_c_stream__"):
            yield from _batches_of(item)
        else:
            raise InvalidParameter(
                "The iterator does not yield data frames.",
                hint="Yield data frames of pandas or polars, or Arrow tables or batches.",
            )


def select_columns(
    batches: Iterable[pa.RecordBatch], names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Select these columns of each batch, in the types of the first batch.

    Raises
    ------
    ColumnNotFound, UnsupportedType : a batch lacks a column, or its type differs.
    """
    schema: pa.Schema | None = None
    with translate_failures():
        for batch in batches:
            require_columns(names, batch.schema.names)
            if schema is None:
                schema = pa.schema([_plain(batch.schema.field(name)) for name in names])
            yield pa.record_batch(
                [_cast(batch, name, schema.field(name).type) for name in names], schema=schema
            )


def numeric_texts(schema: pa.Schema) -> frozenset[str]:
    """Columns of numbers of unknown size that arrive as text, as from PostgreSQL through ADBC."""
    return frozenset(field.name for field in schema if is_numeric_text(field.type))


def _plain(field: pa.Field) -> pa.Field:
    """The field with a type that DuckDB supports.

    Raises
    ------
    UnsupportedType : no such type holds the values.
    """
    kind = field.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_float16(kind):
        kind = pa.float32()
    if isinstance(kind, pa.Decimal256Type):
        if not 0 <= kind.scale <= _MOST_DIGITS:
            raise unfit_value(field.name, f"decimal({_MOST_DIGITS}, 0)")
        kind = pa.decimal128(min(kind.precision, _MOST_DIGITS), kind.scale)
    if pa.types.is_timestamp(kind) and kind.unit == "ns" and kind.tz is not None:
        kind = pa.timestamp("us", kind.tz)
    if pa.types.is_null(kind):
        raise UnsupportedType(
            f'Column "{field.name}" is NULL in all of the first frame, so its type is not known.',
            hint="Give the column a type in the first frame, as a pyarrow.Table of a schema does.",
        )
    return pa.field(field.name, kind)


def _cast(batch: pa.RecordBatch, name: str, kind: pa.DataType) -> pa.Array:
    try:
        return batch.column(batch.schema.get_field_index(name)).cast(kind)
    except (pa.ArrowException, ValueError):
        raise unfit_value(name, kind) from None


# -- choosing an origin ---------------------------------------------------------------------------


def stream_of(database: Any) -> Origin | None:
    """Return the origin for an ADBC connection, stream or series of frames; None for others."""
    if hasattr(database, "adbc_get_table_schema"):
        return AdbcOrigin(database)
    is_turn = isinstance(database, Iterator) or (
        isinstance(database, (list, tuple)) and bool(database)
    )
    if hasattr(database, "__arrow_c_stream__") or is_turn:
        return StreamOrigin(database)
    return None
