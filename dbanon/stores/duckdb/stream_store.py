"""A store for origins: sources without a store of their own, such as Arrow streams.

The rows of an origin are copied once into a DuckDB database in memory, and read there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress

import duckdb
import pyarrow as pa

from dbanon.errors import Cancelled, SourceChanged, UnsupportedType
from dbanon.sessions.base import OnSql
from dbanon.sessions.names import RelationName, parse_relation, quote
from dbanon.sessions.session import Session
from dbanon.sessions.thread_connections import thread_connections
from dbanon.stores.duckdb.csv_types import TypeInference
from dbanon.stores.duckdb.errors import translate_errors
from dbanon.stores.duckdb.session import DuckdbSession
from dbanon.stores.duckdb.store import DuckdbStore, connect_in_memory
from dbanon.stores.origins import Origin, RowStream

# The table of the rows as they arrive, and the name under which a batch is registered for INSERT.
_RAW_TABLE = quote("dbanon_raw")
_BATCH_VIEW = "dbanon_batch"

# Called with the name of a phase of the run, and the completed share of this phase, 0 to 1.
ProgressReport = Callable[[str, float], None]


class StreamStore(DuckdbStore):
    """A database in memory with a copy of a source's rows, numbered in their order of arrival.

    Releases that are written to this database are lost at the end of the run unless exported.

    Parameters
    ----------
    table : the name of the relation to read, as the job has it.
    columns : the columns to copy; the copy has the other columns, too, but only NULL in them.
    chunk_rows : the number of rows per request.
    memory_bytes : the memory limit; None for half of the process's limit.
    progress : called with "draw", the phase of copying rows, and the share of copied rows; None if
        no one displays progress.
    """

    is_persistent = False
    shares_memory = True

    def __init__(
        self,
        origin: Origin,
        on_sql: OnSql | None = None,
        *,
        table: str,
        columns: Sequence[str],
        chunk_rows: int,
        memory_bytes: int | None = None,
        progress: ProgressReport | None = None,
    ) -> None:
        self._connection = connect_in_memory(memory_bytes)
        super().__init__(self._connection, on_sql, memory_bytes)
        self._origin, self._table = origin, table
        self._copied_columns = tuple(dict.fromkeys(columns))
        self._chunk_rows, self._progress = chunk_rows, progress
        # The result of ``copied_rows_summary``; empty until the rows are copied.
        self._copied_rows_summary: dict[str, object] = {}

    @property
    def url(self) -> str:
        """The URL of the source."""
        return self._origin.url

    @contextmanager
    def session(self, *, write: bool, create: bool = False) -> Iterator[Session]:
        """Run one transaction on the copied rows.

        Raises
        ------
        SourceChanged : the number of copied rows differs from the counts.
        DbanonError : the rows could not be copied.
        """
        self._copy_rows()
        with super().session(write=write, create=create) as session:
            yield session

    @contextmanager
    def planning(self, *, staging: bool, create: bool = False) -> Iterator[Session]:
        """Run a transaction as ``session`` does, since this database has nothing permanent."""
        self._copy_rows()
        with super().planning(staging=staging, create=create) as session:
            yield session

    def job_lock(self, job: str) -> AbstractContextManager[None]:
        """Lock nothing: the target locks the job."""
        return nullcontext()

    def _new_session(self, connection: duckdb.DuckDBPyConnection) -> DuckdbSession:
        return _StreamSession(connection, self._on_sql, self._copied_rows_summary)

    def _copy_rows(self) -> None:
        """Copy the rows of the source when it is called for the first time."""
        if self._copied_rows_summary:
            return
        # ``spill`` has chosen these settings.
        for setting in self._spill_statements:
            self._connection.execute(setting)
        with self._origin.open_stream(
            self._table, self._copied_columns, self._chunk_rows
        ) as stream:
            n_rows = self._load_rows(stream)
            n_rows_after = stream.recount()
        # A source that counted its rows before can count them again.
        is_counted = stream.n_rows is not None
        if is_counted and not stream.n_rows == n_rows == n_rows_after:
            raise SourceChanged(
                f"The source counted {stream.n_rows} rows before, gave {n_rows}, and counted"
                f" {n_rows_after} afterwards; nothing was published.",
                hint="Run it again while nothing writes to the table, or anonymize a copy of it.",
            )
        consistency = stream.consistency
        consistency += ", rows counted before and after" if is_counted else ""
        self._create_table(stream)
        self._copied_rows_summary = {"rows": n_rows, "how": consistency}

    def _load_rows(self, stream: RowStream) -> int:
        """Load all rows in the order of their arrival; returns the number of rows."""
        n_rows, is_created = 0, False
        self._report_progress(0, stream)
        for batch in stream.batches:
            with translate_errors("The rows of the source could not be copied."):
                self._load_batch(pa.Table.from_batches([batch]), is_first=not is_created)
            is_created = True
            n_rows += batch.num_rows
            self._report_progress(n_rows, stream)
        return n_rows

    def _load_batch(self, batch: pa.Table, *, is_first: bool) -> None:
        """Append a batch to the table of raw rows; the first one creates it."""
        statement_start = (
            f"CREATE OR REPLACE TEMP TABLE {_RAW_TABLE} AS"
            if is_first
            else f"INSERT INTO {_RAW_TABLE}"
        )
        try:
            self._connection.register(_BATCH_VIEW, batch)
            self._connection.execute(f"{statement_start} SELECT * FROM {_BATCH_VIEW}")
        except duckdb.NotImplementedException:
            raise self._unsupported(batch.schema) from None
        finally:
            with suppress(duckdb.Error):
                self._connection.unregister(_BATCH_VIEW)

    def _unsupported(self, schema: pa.Schema) -> UnsupportedType:
        """The error for the first column whose type DuckDB does not support."""
        for field in schema:
            with duckdb.connect() as connection:
                try:
                    connection.register(_BATCH_VIEW, pa.table({"x": pa.nulls(0, field.type)}))
                    connection.execute(f"SELECT * FROM {_BATCH_VIEW}")
                except duckdb.Error:
                    return UnsupportedType(
                        f'Column "{field.name}" is of type {field.type}, which cannot be read.',
                        hint="Cast it to a number, text, date, timestamp or boolean in a view or"
                        " in the stream, or leave it out.",
                    )
        return UnsupportedType("A column is of a type that cannot be read.")

    def _report_progress(self, n_rows: int, stream: RowStream) -> None:
        """Report the share of copied rows; raises Cancelled if the run has been asked to end."""
        if thread_connections().is_ending:
            # A signal interrupts DuckDB's statements, but not the reading of a source.
            raise Cancelled
        if self._progress is not None:
            self._progress("draw", min(1.0, n_rows / stream.n_rows) if stream.n_rows else 0.0)

    def _create_table(self, stream: RowStream) -> None:
        """Create the table; columns that were not copied are NULL, because a job may name them."""
        with translate_errors("The rows of the source could not be copied."):
            # Text columns that hold numbers get the type of the numbers. A program wrote the texts,
            # so only the usual formats are tried.
            numeric_texts = [name for name in self._copied_columns if name in stream.numeric_texts]
            inferred_types = TypeInference(
                self._connection, _RAW_TABLE, is_machine_written=True
            ).infer_types(numeric_texts)
            types_of_numeric_texts = dict(zip(numeric_texts, inferred_types, strict=True))
            column_rows = self._connection.execute(f"DESCRIBE {_RAW_TABLE}").fetchall()
            sql_types = {name: sql_type for name, sql_type, *_ in column_rows}
            sql_types |= {
                name: inferred_type.sql_type
                for name, inferred_type in types_of_numeric_texts.items()
            }
            columns = [
                f"{quote(name)} {sql_types[name]}"
                if name in sql_types
                else f"{quote(name)} VARCHAR GENERATED ALWAYS AS (CAST(NULL AS VARCHAR)) VIRTUAL"
                for name in stream.columns
            ]
            # The SQL of each value; ``InferredType.value`` is the expression that converts a text.
            values = [
                types_of_numeric_texts[name].value
                if name in types_of_numeric_texts
                else quote(name)
                for name in sql_types
            ]
            table = self._ensure_schema()
            names = ", ".join(map(quote, sql_types))
            self._connection.execute(f"CREATE OR REPLACE TABLE {table} ({', '.join(columns)})")
            self._connection.execute(
                f"INSERT INTO {table} ({names}) SELECT {', '.join(values)} FROM {_RAW_TABLE}"
            )
            self._connection.execute(f"DROP TABLE {_RAW_TABLE}")

    def _ensure_schema(self) -> str:
        """Create the table's schema; returns the quoted name of the table."""
        name = parse_relation(self._table)
        if name.schema is not None:
            self._connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quote(name.schema)}")
        return RelationName(None, name.name).quoted if name.schema is None else name.quoted


class _StreamSession(DuckdbSession):
    """A session that reports how its rows were copied."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        on_sql: OnSql | None,
        copied_rows_summary: Mapping[str, object],
    ) -> None:
        super().__init__(connection, on_sql)
        self._copied_rows_summary = copied_rows_summary

    @property
    def copied_rows_summary(self) -> Mapping[str, object]:
        return self._copied_rows_summary
