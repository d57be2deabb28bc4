"""Origins: sources that dbanon can only read rows from, such as ADBC connections and Arrow streams.

A run reads an origin once, from beginning to end, in Arrow batches. If possible, it counts the rows
before and after. Reports quote ``RowStream.consistency``, which says why the rows are from one
state of the source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
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

# How ``RowStream.consistency`` begins for rows that one statement selects.
SINGLE_STATEMENT = "one statement"
# The maximum number of digits of an Arrow decimal that DuckDB supports.
_MAX_DECIMAL_DIGITS = 38


def _unknown_count() -> int | None:
    """The default of ``RowStream.recount``, for sources that cannot count their rows."""
    return None


@dataclass(frozen=True)
class RowStream:
    """A stream of rows from a source.

    Parameters
    ----------
    columns : the names of all columns of the relation, in order.
    batches : the rows of the requested columns; at least one batch, which may be empty.
    consistency : why the rows are from one state of the source, as text for the report.
    n_rows : the number of rows, counted before reading; None if unknown.
    recount : counts the rows again, after all batches have been read; returns None if it cannot.
    numeric_texts : names of text columns that hold numbers with an unknown number of digits.
    """

    columns: tuple[str, ...]
    batches: Iterator[pa.RecordBatch]
    consistency: str
    n_rows: int | None = None
    recount: Callable[[], int | None] = _unknown_count
    numeric_texts: frozenset[str] = frozenset()


class Origin(Protocol):
    """A source whose rows are copied into this process."""

    @property
    def url(self) -> str:
        """The URL of the source, without secrets."""

    def open_stream(
        self, table: str, names: Sequence[str], chunk_rows: int
    ) -> AbstractContextManager[RowStream]:
        """Return a context manager that yields a ``RowStream``.

        Parameters
        ----------
        table : the name of the table, with its schema if needed; ignored by a stream.
        names : the columns to read.
        chunk_rows : the number of rows to fetch at once, if the source allows it.

        Raises
        ------
        TableNotFound, ColumnNotFound, UnsupportedType, DatabaseUnreachable, DatabaseFailure : the
            source cannot be read.
        """


@contextmanager
def translate_failures(
    message: str = "The source failed while its rows were read; nothing was published.",
) -> Iterator[None]:
    """Translate exceptions of other packages into DbanonError.

    Only the class of the exception is reported, because its text may quote data.

    Parameters
    ----------
    message : the text of the error to raise.
    """
    try:
        yield
    except DbanonError:
        raise
    except MemoryError:
        raise
    except Exception as error:
        is_unreachable = type(error).__name__ in (
            "OperationalError",
            "InterfaceError",
            "TimeoutError",
        )
        error_class = DatabaseUnreachable if is_unreachable else DatabaseFailure
        raise error_class(message, detail=type(error).__name__) from None


def require_columns(names: Sequence[str], columns: Sequence[str]) -> None:
    """Check that the source has columns of these names; raises ColumnNotFound."""
    for name in names:
        if name not in columns:
            raise ColumnNotFound(
                f'The source has no column "{name}".', hint=nearest_names(name, columns)
            )


def value_type_error(name: str, arrow_type: object) -> UnsupportedType:
    """The error for a column with a value that its Arrow type cannot hold."""
    return UnsupportedType(
        f'Column "{name}" has a value that is not of its type, {arrow_type}.',
        hint="Cast the column in a view or in the stream, or correct the value.",
    )


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """Build a batch without rows, so that the columns are known even if the source is empty."""
    return pa.RecordBatch.from_pylist([], schema=schema)


# -- ADBC, Arrow and frames -----------------------------------------------------------------------


class AdbcOrigin:
    """A table that is read through the caller's ADBC connection.

    The transaction belongs to the caller, and is neither committed nor rolled back here.
    """

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    @property
    def url(self) -> str:
        """The scheme only: ADBC connections have no attribute with their address."""
        return "adbc:"

    @contextmanager
    def open_stream(self, table: str, names: Sequence[str], chunk_rows: int) -> Iterator[RowStream]:
        """Read the columns with one SELECT; raises the same errors as ``Origin.open_stream``."""
        name = parse_relation(table).quoted

        def count() -> int:
            with translate_failures(), self._connection.cursor() as cursor:
                cursor.execute(f"SELECT count(*) FROM {name}")
                return int(cursor.fetchone()[0])

        with translate_failures(
            "The source does not have this table, or does not allow it to be read."
        ):
            with self._connection.cursor() as cursor:
                # A query without rows returns the names of all columns.
                cursor.execute(f"SELECT * FROM {name} WHERE 1 = 0")
                columns = tuple(cursor.fetch_arrow_table().schema.names)
            n_rows = count()
        require_columns(names, columns)
        with self._connection.cursor() as cursor:
            with translate_failures():
                cursor.execute(f"SELECT {quote_list(names)} FROM {name}")
                reader = cursor.fetch_record_batch()
            consistency = f"{SINGLE_STATEMENT} on the caller's connection"
            batches = select_columns(chain([empty_batch(reader.schema)], reader), names)
            yield RowStream(
                columns,
                batches,
                consistency,
                n_rows=n_rows,
                recount=count,
                numeric_texts=find_numeric_texts(reader.schema),
            )


class StreamOrigin:
    """The caller's Arrow stream or iterable of data frames; it can be read only once."""

    def __init__(self, stream: object) -> None:
        # None after it has been read.
        self._stream: object = stream

    @property
    def url(self) -> str:
        """The scheme only: a stream has no address."""
        return "stream:"

    @contextmanager
    def open_stream(self, table: str, names: Sequence[str], chunk_rows: int) -> Iterator[RowStream]:
        """Read the columns as they arrive; raises the same errors as ``Origin.open_stream``."""
        if self._stream is None:
            raise InvalidParameter(
                "The stream has already been read.", hint="Pass a new stream to each call."
            )
        stream, self._stream = self._stream, None
        with translate_failures():
            batches = _read_batches(stream)
            first_batch = next(batches, None)
        if first_batch is None:
            raise InvalidParameter("The stream ended before its schema.")
        columns = tuple(first_batch.schema.names)
        require_columns(names, columns)

        yield RowStream(
            columns,
            select_columns(chain([first_batch], batches), names),
            "a stream, whose rows were not counted",
            numeric_texts=find_numeric_texts(first_batch.schema),
        )


def _read_batches(stream: Any) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a stream, a frame or an iterable of frames; the first may be empty."""
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
            yield from _read_batches(item)
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
                schema = pa.schema(
                    [_to_supported_field(batch.schema.field(name)) for name in names]
                )
            yield pa.record_batch(
                [_cast_column(batch, name, schema.field(name).type) for name in names],
                schema=schema,
            )


def find_numeric_texts(schema: pa.Schema) -> frozenset[str]:
    """Find the columns of numbers that arrive as text, as PostgreSQL's numeric does through ADBC.

    ADBC marks them by an extension type of Arrow.
    """
    return frozenset(field.name for field in schema if is_numeric_text(field.type))


def _to_supported_field(field: pa.Field) -> pa.Field:
    """Give a field a type that DuckDB supports.

    Raises
    ------
    UnsupportedType : DuckDB has no type for the values.
    """
    arrow_type = field.type
    if pa.types.is_dictionary(arrow_type):
        arrow_type = arrow_type.value_type
    if pa.types.is_float16(arrow_type):
        arrow_type = pa.float32()
    # Decimals of DuckDB have 38 digits at most.
    if isinstance(arrow_type, pa.Decimal256Type):
        if not 0 <= arrow_type.scale <= _MAX_DECIMAL_DIGITS:
            # DuckDB has no such scale. The type in the message only shows its limit of digits.
            raise value_type_error(field.name, f"decimal({_MAX_DECIMAL_DIGITS}, 0)")
        arrow_type = pa.decimal128(min(arrow_type.precision, _MAX_DECIMAL_DIGITS), arrow_type.scale)
    # DuckDB has no timestamps with nanoseconds and a time zone.
    if pa.types.is_timestamp(arrow_type) and arrow_type.unit == "ns" and arrow_type.tz is not None:
        arrow_type = pa.timestamp("us", arrow_type.tz)
    if pa.types.is_null(arrow_type):
        raise UnsupportedType(
            f'Column "{field.name}" is NULL in all of the first frame, so its type is not known.',
            hint="Give the column a type in the first frame, as in a pyarrow.Table with a schema.",
        )
    return pa.field(field.name, arrow_type)


def _cast_column(batch: pa.RecordBatch, name: str, arrow_type: pa.DataType) -> pa.Array:
    """Convert a column of a batch to a type; raises UnsupportedType."""
    try:
        return batch.column(batch.schema.get_field_index(name)).cast(arrow_type)
    except (pa.ArrowException, ValueError):
        raise value_type_error(name, arrow_type) from None


# -- choosing an origin ---------------------------------------------------------------------------


def find_stream_origin(database: object) -> Origin | None:
    """Return the origin for an ADBC connection, stream or iterable of frames; None for others."""
    if hasattr(database, "adbc_get_table_schema"):
        return AdbcOrigin(database)
    # A list or a generator is taken for frames; ``_read_batches`` refuses other items.
    is_iterable_of_frames = isinstance(database, Iterator) or (
        isinstance(database, (list, tuple)) and bool(database)
    )
    if hasattr(database, "__arrow_c_stream__") or is_iterable_of_frames:
        return StreamOrigin(database)
    return None
