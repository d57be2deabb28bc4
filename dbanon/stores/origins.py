"""Sources that no store knows: databases by SQLAlchemy or ADBC, Arrow streams, frames in turn.

Each is read once, from its beginning to its end, in batches of Arrow. Where it can be asked, its
rows are counted before and after, and it says how sure it is that what was read was one state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from dbanon.errors import (
    ColumnNotFound,
    DatabaseFailure,
    DatabaseUnreachable,
    DbanonError,
    InvalidParameter,
    MissingDependency,
    TableNotFound,
    UnsupportedType,
    nearest_names,
)
from dbanon.sessions.names import parse_relation, quote_list

if TYPE_CHECKING:
    from sqlalchemy import Column, Connection, Engine

# In this order one is asked for, where the dialect lists it: a snapshot that stops nobody first.
_LEVELS = ("SNAPSHOT", "REPEATABLE READ", "SERIALIZABLE")
_ONE = "one statement"


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

    def flow(self, table: str, wanted: Sequence[str], chunk_rows: int) -> Any:
        """A context that gives the ``Flow`` of these columns.

        Raises
        ------
        TableNotFound, ColumnNotFound, UnsupportedType, DatabaseUnreachable, DatabaseFailure : it
            does not come about.
        """


@contextmanager
def failing(what: str = "The source failed while its rows were drawn; nothing was published."
            ) -> Iterator[None]:  # fmt: skip
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
        raise kind(what, detail=type(error).__name__) from None


def _require_columns(wanted: Sequence[str], columns: Sequence[str]) -> None:
    for name in wanted:
        if name not in columns:
            raise ColumnNotFound(
                f'The source has no column "{name}".', hint=nearest_names(name, columns)
            )


# -- SQLAlchemy -----------------------------------------------------------------------------------


class SqlOrigin:
    """A table or view of a database that SQLAlchemy has a dialect of."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def url(self) -> str:
        """Its URL without password and arguments."""
        return self._engine.url.set(query={}).render_as_string(hide_password=True)

    @contextmanager
    def flow(self, table: str, wanted: Sequence[str], chunk_rows: int) -> Iterator[Flow]:
        """The columns by one SELECT, in a transaction of its own; raises as ``Origin``."""
        from sqlalchemy import func, select

        with failing("The source cannot be reached."):
            connection = self._engine.connect()
        try:
            with failing("The source cannot be read."):
                read = self._reflected(connection, table)
                _require_columns(wanted, list(read.columns.keys()))
                kinds = {name: _kind_of(read.columns[name]) for name in wanted}
                count = select(func.count()).select_from(read)
                rows, how = self._counted(connection, count)
            chosen = select(*(read.columns[name] for name in wanted))

            def again() -> int | None:
                with failing():
                    return int(connection.execute(count).scalar_one())

            yield Flow(
                tuple(read.columns.keys()),
                self._batches(connection, chosen, kinds, chunk_rows),
                how,
                rows,
                again,
                frozenset(name for name, (_, narrow) in kinds.items() if narrow),
            )
        finally:
            with failing("The connection to the source could not be closed."):
                connection.close()

    def _reflected(self, connection: Connection, table: str) -> Any:
        from sqlalchemy import MetaData, Table
        from sqlalchemy.exc import NoSuchTableError

        name = parse_relation(table)
        try:
            return Table(
                name.name, MetaData(), schema=name.schema, autoload_with=connection,
                resolve_fks=False,
            )  # fmt: skip
        except NoSuchTableError:
            raise TableNotFound(
                f"There is no table {name} at the source.",
                hint="Names are taken as SQLAlchemy's dialect has them: where all of a name is in"
                " capitals on Oracle or Snowflake, it is written in small letters.",
            ) from None

    def _counted(self, connection: Connection, count: Any) -> tuple[int, str]:
        """The rows, in a transaction that keeps to one state where the dialect has such a level."""
        try:
            listed = connection.dialect.get_isolation_level_values(
                connection.connection.dbapi_connection  # type: ignore[arg-type]
            )
        except NotImplementedError:
            listed = ()
        # What was asked of the catalog has a transaction of its own.
        connection.rollback()
        for level in [*[one for one in _LEVELS if one in listed][:1], None]:
            try:
                if level is not None:
                    connection.execution_options(isolation_level=level)
                rows = int(connection.execute(count).scalar_one())
            except Exception:
                # Some databases take a level only where an administrator allowed it.
                if level is None:
                    raise
                connection.rollback()
                connection.execution_options(isolation_level=connection.default_isolation_level)
                continue
            told = "the database's own level" if level is None else f"level {level}"
            return rows, f"{_ONE} in a transaction of {told}"
        raise AssertionError

    def _batches(
        self, connection: Connection, chosen: Any, kinds: Mapping[str, Any], chunk_rows: int
    ) -> Iterator[pa.RecordBatch]:
        yield _no_rows(pa.schema([(name, kind) for name, (kind, _) in kinds.items()]))
        with failing():
            result = connection.execution_options(
                stream_results=True, max_row_buffer=chunk_rows
            ).execute(chosen)
            for rows in result.partitions(chunk_rows):
                columns = zip(*rows, strict=True)
                arrays = [
                    _array(name, kind, list(values))
                    for (name, (kind, _)), values in zip(kinds.items(), columns, strict=True)
                ]
                yield pa.record_batch(arrays, names=list(kinds))


def _kind_of(column: Column[Any]) -> tuple[pa.DataType, bool]:
    """The Arrow type of a column, and whether it holds numbers as texts, of unknown size."""
    from sqlalchemy import types as kinds

    kind = column.type
    if isinstance(kind, kinds.Boolean):
        return pa.bool_(), False
    if isinstance(kind, kinds.Integer):
        return pa.int64(), False
    if isinstance(kind, kinds.Float):
        return pa.float64(), False
    if isinstance(kind, kinds.Numeric):
        if kind.scale is None or not 0 <= kind.scale <= (kind.precision or 38) <= 38:
            return pa.string(), True
        return pa.decimal128(kind.precision or 38, kind.scale), False
    if isinstance(kind, kinds.DateTime):
        return pa.timestamp("us", "UTC" if kind.timezone else None), False
    if isinstance(kind, kinds.Date):
        return pa.date32(), False
    if isinstance(kind, (kinds.String, kinds.Uuid)):
        return pa.string(), False
    raise UnsupportedType(
        f'Column "{column.name}" is of a type that cannot be drawn: {type(kind).__name__}.',
        hint="Cast it to a number, text, date, timestamp or boolean in a view, or do not name it.",
    )


def _array(name: str, kind: pa.DataType, values: list[Any]) -> pa.Array:
    try:
        if pa.types.is_string(kind):
            values = [_text(value) for value in values]
        return pa.array(values, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError, ArithmeticError):
        raise _unfit(name, kind) from None


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    # A number without end stays what it is called: it is none that can be averaged.
    return f"{value:f}" if isinstance(value, Decimal) and value.is_finite() else str(value)


def _unfit(name: str, kind: Any) -> UnsupportedType:
    return UnsupportedType(
        f'Column "{name}" holds a value that is none of its type, {kind}.',
        hint="Cast it in a view, or in the stream.",
    )


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
    def flow(self, table: str, wanted: Sequence[str], chunk_rows: int) -> Iterator[Flow]:
        """The columns by one SELECT; raises as ``Origin``."""
        name = parse_relation(table).quoted

        def count() -> int:
            with failing(), self._connection.cursor() as cursor:
                cursor.execute(f"SELECT count(*) FROM {name}")
                return int(cursor.fetchone()[0])

        with failing("The source has no such table, or does not let it be read."):
            with self._connection.cursor() as cursor:
                cursor.execute(f"SELECT * FROM {name} WHERE 1 = 0")
                columns = tuple(cursor.fetch_arrow_table().schema.names)
            rows = count()
        _require_columns(wanted, columns)
        with self._connection.cursor() as cursor:
            with failing():
                cursor.execute(f"SELECT {quote_list(wanted)} FROM {name}")
                reader = cursor.fetch_record_batch()
            how = f"{_ONE} in the caller's transaction"
            batches = chain([_no_rows(reader.schema)], reader)
            yield Flow(columns, _unified(batches, wanted), how, rows, count)


class StreamOrigin:
    """An Arrow stream, or frames in turn, of the caller's: it can be read once."""

    def __init__(self, stream: Any) -> None:
        self._stream: Any = stream

    @property
    def url(self) -> str:
        """What it is."""
        return "stream:"

    @contextmanager
    def flow(self, table: str, wanted: Sequence[str], chunk_rows: int) -> Iterator[Flow]:
        """The columns as they come; raises as ``Origin``."""
        if self._stream is None:
            raise InvalidParameter(
                "The stream was read already.", hint="Give a new one to each call."
            )
        stream, self._stream = self._stream, None
        with failing():
            batches = _batches_of(stream)
            first = next(batches, None)
        if first is None:
            raise InvalidParameter("The stream ended before it said which columns it has.")
        columns = tuple(first.schema.names)
        _require_columns(wanted, columns)

        how = "a stream, of which nobody counted"
        yield Flow(columns, _unified(chain([first], batches), wanted), how)


def _batches_of(stream: Any) -> Iterator[pa.RecordBatch]:
    """Batches of a stream, a frame or frames in turn; an empty one says the columns, too."""
    if hasattr(stream, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(stream)
        # A stream of no batch has columns all the same.
        yield _no_rows(reader.schema)
        yield from reader
        return
    for one in stream:
        if isinstance(one, pa.RecordBatch):
            yield one
        elif hasattr(one, "__arrow_c_stream__"):
            yield from _batches_of(one)
        else:
            raise InvalidParameter(
                "What the iterator gives is no frame.",
                hint="Give data frames of pandas or polars, Arrow tables or batches.",
            )


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """A batch that says which columns there are."""
    return pa.RecordBatch.from_pylist([], schema=schema)


def _unified(batches: Iterable[pa.RecordBatch], wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The wanted columns in the types of the first batch.

    Raises
    ------
    ColumnNotFound, UnsupportedType : a batch has another column, or one of another type.
    """
    schema: pa.Schema | None = None
    with failing():
        for batch in batches:
            _require_columns(wanted, batch.schema.names)
            if schema is None:
                schema = pa.schema([_plain(batch.schema.field(name)) for name in wanted])
            yield pa.record_batch(
                [_cast(batch, name, schema.field(name).type) for name in wanted], schema=schema
            )


def _plain(field: pa.Field) -> pa.Field:
    kind = field.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
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
        raise _unfit(name, kind) from None


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


def engine_of(database: Any) -> SqlOrigin:
    """The origin of a URL or an engine that no store is for.

    Raises
    ------
    MissingDependency : its dialect or driver is not installed.
    """
    from sqlalchemy import Engine, NullPool, create_engine
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError

    if isinstance(database, Engine):
        return SqlOrigin(database)
    try:
        return SqlOrigin(create_engine(database, poolclass=NullPool))
    except (NoSuchModuleError, ImportError):
        raise MissingDependency(
            f"SQLAlchemy has no dialect for {database.drivername}, or no driver.",
            hint="Install the package that brings it, such as snowflake-sqlalchemy or pyodbc.",
        ) from None
    except ArgumentError:
        raise InvalidParameter(f"The URL of {database.drivername} cannot be read.") from None
