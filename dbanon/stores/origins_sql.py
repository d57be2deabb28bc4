"""Databases with an SQLAlchemy dialect but no store of dbanon, as origins of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dbanon.errors import (
    InvalidParameter,
    MissingDependency,
    TableNotFound,
    UnsupportedType,
    redact,
)
from dbanon.sessions.names import parse_relation
from dbanon.stores.origins import (
    SINGLE_STATEMENT,
    RowStream,
    empty_batch,
    require_columns,
    translate_failures,
    unfit_value,
)

if TYPE_CHECKING:
    from sqlalchemy import Column, Connection, Engine

# Isolation levels in order of preference; a snapshot blocks no writers.
_LEVELS = ("SNAPSHOT", "REPEATABLE READ", "SERIALIZABLE")


class SqlOrigin:
    """A table or view of a database with an SQLAlchemy dialect."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def url(self) -> str:
        """Its URL without password and arguments."""
        return redact(self._engine.url.set(query={}).render_as_string(hide_password=True))

    @contextmanager
    def flow(self, table: str, names: Sequence[str], chunk_rows: int) -> Iterator[RowStream]:
        """Read the columns with one SELECT in a new transaction; raises as ``Origin``."""
        from sqlalchemy import func, select

        with translate_failures("The source cannot be reached."):
            connection = self._engine.connect()
        try:
            with translate_failures("The source cannot be read."):
                read = self._reflect(connection, table)
                require_columns(names, list(read.columns.keys()))
                kinds = {name: _kind_of(read.columns[name]) for name in names}
                count = select(func.count()).select_from(read)
                rows, how = self._count_in_snapshot(connection, count)
            chosen = select(*(read.columns[name] for name in names))

            def again() -> int | None:
                with translate_failures():
                    return int(connection.execute(count).scalar_one())

            yield RowStream(
                tuple(read.columns.keys()),
                self._batches(connection, chosen, kinds, chunk_rows),
                how,
                rows,
                again,
                frozenset(name for name, (_, narrow) in kinds.items() if narrow),
            )
        finally:
            with translate_failures("The connection to the source could not be closed."):
                connection.close()

    def _reflect(self, connection: Connection, table: str) -> Any:
        from sqlalchemy import MetaData, Table
        from sqlalchemy.exc import NoSuchTableError

        name = parse_relation(table)
        try:
            return Table(
                name.name,
                MetaData(),
                schema=name.schema,
                autoload_with=connection,
                resolve_fks=False,
            )
        except NoSuchTableError:
            raise TableNotFound(
                f"There is no table {name} at the source.",
                hint=(
                    "Write the name as SQLAlchemy's inspector lists it. Oracle and Snowflake list"
                    " PEOPLE as people."
                ),
            ) from None

    def _count_in_snapshot(self, connection: Connection, count: Any) -> tuple[int, str]:
        """Count the rows, in a transaction with a snapshot if the dialect supports one."""
        try:
            listed = connection.dialect.get_isolation_level_values(
                connection.connection.dbapi_connection  # type: ignore[arg-type]
            )
        except NotImplementedError:
            listed = ()
        # End the transaction of the catalog queries.
        connection.rollback()
        for level in [*[candidate for candidate in _LEVELS if candidate in listed][:1], None]:
            try:
                if level is not None:
                    connection.execution_options(isolation_level=level)
                rows = int(connection.execute(count).scalar_one())
            except Exception:
                # Some databases accept a level only if an administrator allowed it.
                if level is None:
                    raise
                connection.rollback()
                connection.execution_options(isolation_level=connection.default_isolation_level)
                continue
            level_text = "the database's own level" if level is None else f"level {level}"
            return rows, f"{SINGLE_STATEMENT} in a transaction of {level_text}"
        raise AssertionError

    def _batches(
        self, connection: Connection, chosen: Any, kinds: Mapping[str, Any], chunk_rows: int
    ) -> Iterator[pa.RecordBatch]:
        yield empty_batch(pa.schema([(name, kind) for name, (kind, _) in kinds.items()]))
        with translate_failures():
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
    """The Arrow type of a column, and whether it is text that holds numbers of unknown size."""
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
        f'Column "{column.name}" has a type that cannot be read: {type(kind).__name__}.',
        hint="Cast it to a number, text, date, timestamp or boolean in a view, or leave it out.",
    )


def _array(name: str, kind: pa.DataType, values: list[Any]) -> pa.Array:
    try:
        if pa.types.is_string(kind):
            values = [_text(value) for value in values]
        return pa.array(values, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError, ArithmeticError):
        raise unfit_value(name, kind) from None


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    # Infinity and NaN keep their names: they cannot be averaged.
    return f"{value:f}" if isinstance(value, Decimal) and value.is_finite() else str(value)


def engine_of(database: Any) -> SqlOrigin:
    """Return the origin for a URL or an engine that no store supports.

    Raises
    ------
    MissingDependency : the dialect or driver is not installed.
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
            hint="Install the package that has it, such as snowflake-sqlalchemy or pyodbc.",
        ) from None
    except ArgumentError:
        raise InvalidParameter(f"The URL of {database.drivername} cannot be read.") from None
