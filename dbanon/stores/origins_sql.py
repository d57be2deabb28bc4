"""Databases that dbanon can only read, through SQLAlchemy, as origins of rows."""

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
    value_type_error,
)

if TYPE_CHECKING:
    from sqlalchemy import Column, Connection, Engine, Executable, Table

# Isolation levels in order of preference; SNAPSHOT comes first because it blocks no writers.
_PREFERRED_LEVELS = ("SNAPSHOT", "REPEATABLE READ", "SERIALIZABLE")


class SqlOrigin:
    """A table or view of a database with an SQLAlchemy dialect."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def url(self) -> str:
        """The URL of the database without password and arguments."""
        return redact(self._engine.url.set(query={}).render_as_string(hide_password=True))

    @contextmanager
    def open_stream(self, table: str, names: Sequence[str], chunk_rows: int) -> Iterator[RowStream]:
        """Read the columns with one SELECT in a new transaction.

        Raises the same errors as ``Origin.open_stream``.
        """
        from sqlalchemy import func, select

        with translate_failures("The source cannot be reached."):
            connection = self._engine.connect()
        try:
            with translate_failures("The source cannot be read."):
                source_table = self._reflect(connection, table)
                require_columns(names, list(source_table.columns.keys()))
                column_types = {name: _arrow_type_of(source_table.columns[name]) for name in names}
                count_query = select(func.count()).select_from(source_table)
                n_rows, consistency = self._count_in_snapshot(connection, count_query)
            selection = select(*(source_table.columns[name] for name in names))

            def recount() -> int | None:
                with translate_failures():
                    return int(connection.execute(count_query).scalar_one())

            yield RowStream(
                tuple(source_table.columns.keys()),
                self._batches(connection, selection, column_types, chunk_rows),
                consistency,
                n_rows=n_rows,
                recount=recount,
                numeric_texts=frozenset(
                    name for name, (_, is_numeric_text) in column_types.items() if is_numeric_text
                ),
            )
        finally:
            with translate_failures("The connection to the source could not be closed."):
                connection.close()

    def _reflect(self, connection: Connection, table: str) -> Table:
        """Look up a table or view with its columns; raises TableNotFound."""
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

    def _count_in_snapshot(
        self, connection: Connection, count_query: Executable
    ) -> tuple[int, str]:
        """Count the rows in a transaction, with a snapshot if the dialect supports one.

        Returns the number of rows, and the text for ``RowStream.consistency``.
        """
        try:
            supported_levels = connection.dialect.get_isolation_level_values(
                connection.connection.dbapi_connection  # type: ignore[arg-type]
            )
        except NotImplementedError:
            supported_levels = ()
        # End the transaction of the catalog queries, because the isolation level can change only
        # between transactions.
        connection.rollback()
        best_levels = [level for level in _PREFERRED_LEVELS if level in supported_levels][:1]
        # None stands for the database's default level, which is tried last.
        for level in [*best_levels, None]:
            try:
                if level is not None:
                    connection.execution_options(isolation_level=level)
                n_rows = int(connection.execute(count_query).scalar_one())
            except Exception:
                # Some databases accept SNAPSHOT only if an administrator has allowed it.
                if level is None:
                    raise
                connection.rollback()
                connection.execution_options(isolation_level=connection.default_isolation_level)
                continue
            level_text = (
                "the database's default isolation level"
                if level is None
                else f"isolation level {level}"
            )
            return n_rows, f"{SINGLE_STATEMENT} in a transaction at {level_text}"
        raise AssertionError

    def _batches(
        self,
        connection: Connection,
        selection: Executable,
        column_types: Mapping[str, tuple[pa.DataType, bool]],
        chunk_rows: int,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the result of a query in batches; the first is empty.

        Parameters
        ----------
        selection : the SELECT of the columns to read.
        column_types : the results of ``_arrow_type_of``, by column name.
        """
        yield empty_batch(
            pa.schema([(name, arrow_type) for name, (arrow_type, _) in column_types.items()])
        )
        with translate_failures():
            result = connection.execution_options(
                stream_results=True, max_row_buffer=chunk_rows
            ).execute(selection)
            for rows in result.partitions(chunk_rows):
                columns = zip(*rows, strict=True)
                arrays = [
                    _to_arrow_array(name, arrow_type, list(values))
                    for (name, (arrow_type, _)), values in zip(
                        column_types.items(), columns, strict=True
                    )
                ]
                yield pa.record_batch(arrays, names=list(column_types))


def _arrow_type_of(column: Column[object]) -> tuple[pa.DataType, bool]:
    """The Arrow type of a column, and whether it is text that holds numbers.

    Numbers are read as text if their digits may not fit a decimal.
    """
    from sqlalchemy import types as sql_types

    sql_type = column.type
    if isinstance(sql_type, sql_types.Boolean):
        return pa.bool_(), False
    if isinstance(sql_type, sql_types.Integer):
        return pa.int64(), False
    if isinstance(sql_type, sql_types.Float):
        return pa.float64(), False
    # DuckDB reads the stream, and its decimals have 38 digits at most.
    if isinstance(sql_type, sql_types.Numeric):
        if sql_type.scale is None or not 0 <= sql_type.scale <= (sql_type.precision or 38) <= 38:
            return pa.string(), True
        return pa.decimal128(sql_type.precision or 38, sql_type.scale), False
    if isinstance(sql_type, sql_types.DateTime):
        return pa.timestamp("us", "UTC" if sql_type.timezone else None), False
    if isinstance(sql_type, sql_types.Date):
        return pa.date32(), False
    if isinstance(sql_type, (sql_types.String, sql_types.Uuid)):
        return pa.string(), False
    raise UnsupportedType(
        f'Column "{column.name}" has a type that cannot be read: {type(sql_type).__name__}.',
        hint="Cast it to a number, text, date, timestamp or boolean in a view, or leave it out.",
    )


def _to_arrow_array(name: str, arrow_type: pa.DataType, values: list[object]) -> pa.Array:
    """Convert values to an Arrow array; raises UnsupportedType."""
    try:
        if pa.types.is_string(arrow_type):
            values = [_to_text(value) for value in values]
        return pa.array(values, arrow_type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError, ArithmeticError):
        raise value_type_error(name, arrow_type) from None


def _to_text(value: object) -> str | None:
    """Convert a value to text; decimals are written without an exponent."""
    if value is None or isinstance(value, str):
        return value
    # Infinity and NaN become words, which are not read as numbers.
    return f"{value:f}" if isinstance(value, Decimal) and value.is_finite() else str(value)


def to_sql_origin(database: Any) -> SqlOrigin:
    """Return the origin for the URL or engine of a database that dbanon can only read.

    Raises
    ------
    MissingDependency : the dialect or driver is not installed.
    InvalidParameter : the URL cannot be parsed.
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
