"""Sources that no store knows: databases by SQLAlchemy or ADBC, Arrow streams, frames in turn.

Each is read once, from its beginning to its end, in batches of Arrow. Where it can be asked, its
rows are counted before and after, and it says how sure it is that what was read was one state.
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

ONE = "one statement"
# Of a decimal.
_MOST_DIGITS = 38


def _none() -> int | None:
    return None


@dataclass(frozen=True)
class Flow:
    """Rows on their way.

    Parameters
    ----------
    columns : all that the relation has, in their order.
    batches : of those that were asked for; one at least, if without rows.
    rows : counted before; None where nobody can.
    count : counts them again, once all batches were taken.
    narrow : columns of texts that are numbers of unknown size.
    how : what makes them one state, in words.
    """

    columns: tuple[str, ...]
    batches: Iterator[pa.RecordBatch]
    how: str
    rows: int | None = None
    count: Callable[[], int | None] = _none
    narrow: frozenset[str] = frozenset()


class Origin(Protocol):
    """Where rows are drawn from."""

    @property
    def url(self) -> str:
        """What it is, without secrets."""

    def flow(self, table: str, names: Sequence[str], chunk_rows: int) -> Any:
        """A context that gives the ``Flow`` of these columns.

        Raises
        ------
        TableNotFound, ColumnNotFound, UnsupportedType, DatabaseUnreachable, DatabaseFailure : it
            does not come about.
        """


@contextmanager
def translate_failures(
    message: str = "The source failed while its rows were drawn; nothing was published.",
) -> Iterator[None]:
    """Raise what drivers and generators of others raise by their class: texts may quote values."""
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
        f'Column "{name}" holds a value that is not of its type, {kind}.',
        hint="Cast it in a view, or in the stream.",
    )


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """A batch that says which columns there are."""
    return pa.RecordBatch.from_pylist([], schema=schema)


# -- ADBC, Arrow and frames -----------------------------------------------------------------------


class AdbcOrigin:
    """A table of a database that an ADBC connection of the caller's leads to.

    Its transaction is the caller's: it is neither committed nor rolled back.
    """

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    @property
    def url(self) -> str:
        """What it is: the connection does not say where it leads."""
        return "adbc:"

    @contextmanager
    def flow(self, table: str, names: Sequence[str], chunk_rows: int) -> Iterator[Flow]:
        """The columns by one SELECT; raises as ``Origin``."""
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
            how = f"{ONE} on the caller's connection"
            batches = select_columns(chain([empty_batch(reader.schema)], reader), names)
            narrow = numeric_texts(reader.schema)
            yield Flow(columns, batches, how, rows, count, narrow)


class StreamOrigin:
    """An Arrow stream, or frames in turn, of the caller's: it can be read once."""

    def __init__(self, stream: Any) -> None:
        self._stream: Any = stream

    @property
    def url(self) -> str:
        """What it is."""
        return "stream:"

    @contextmanager
    def flow(self, table: str, names: Sequence[str], chunk_rows: int) -> Iterator[Flow]:
        """The columns as they come; raises as ``Origin``."""
        if self._stream is None:
            raise InvalidParameter(
                "The stream was read already.", hint="Give a new one to each call."
            )
        stream, self._stream = self._stream, None
        with translate_failures():
            batches = _batches_of(stream)
            first = next(batches, None)
        if first is None:
            raise InvalidParameter("The stream ended before it said which columns it has.")
        columns = tuple(first.schema.names)
        require_columns(names, columns)

        how = "a stream, of which nobody counted"
        narrow = numeric_texts(first.schema)
        yield Flow(columns, select_columns(chain([first], batches), names), how, narrow=narrow)


def _batches_of(stream: Any) -> Iterator[pa.RecordBatch]:
    """Batches of a stream, a frame or frames in turn; an empty one says the columns, too."""
    if hasattr(stream, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(stream)
        # A stream of no batch has columns all the same.
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
                "What the iterator gives is no frame.",
                hint="Give data frames of pandas or polars, Arrow tables or batches.",
            )


def select_columns(
    batches: Iterable[pa.RecordBatch], names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The wanted columns in the types of the first batch.

    Raises
    ------
    ColumnNotFound, UnsupportedType : a batch has another column, or one of another type.
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
    """Columns of numbers of unknown size that come as texts, as ADBC has them of PostgreSQL."""
    return frozenset(field.name for field in schema if is_numeric_text(field.type))


def _plain(field: pa.Field) -> pa.Field:
    """The field with a type that the database of drawn rows has.

    Raises
    ------
    UnsupportedType : it has none that holds the values.
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
            hint="Give frames of one schema: Arrow tables with their types.",
        )
    return pa.field(field.name, kind)


def _cast(batch: pa.RecordBatch, name: str, kind: pa.DataType) -> pa.Array:
    try:
        return batch.column(batch.schema.get_field_index(name)).cast(kind)
    except (pa.ArrowException, ValueError):
        raise unfit_value(name, kind) from None


# -- which one ------------------------------------------------------------------------------------


def stream_of(database: Any) -> Origin | None:
    """The origin of what is no database to SQLAlchemy; None where it is none."""
    if hasattr(database, "adbc_get_table_schema"):
        return AdbcOrigin(database)
    is_turn = isinstance(database, Iterator) or (
        isinstance(database, (list, tuple)) and bool(database)
    )
    if hasattr(database, "__arrow_c_stream__") or is_turn:
        return StreamOrigin(database)
    return None
