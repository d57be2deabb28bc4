"""Rows of a source without a store, drawn once into DuckDB in memory and read from there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

import duckdb
import pyarrow as pa

from dbanon.errors import Cancelled, SourceChanged, UnsupportedType
from dbanon.sessions.base import OnSql
from dbanon.sessions.names import RelationName, parse_relation, quote
from dbanon.sessions.session import Session
from dbanon.sessions.thread_connections import thread_connections
from dbanon.stores.duckdb.csv_types import ColumnTypes
from dbanon.stores.duckdb.errors import translated
from dbanon.stores.duckdb.session import DuckdbSession
from dbanon.stores.duckdb.store import DuckdbStore, in_memory
from dbanon.stores.origins import Origin, RowStream

_RAW = quote("dbanon_raw")
_BATCH = "dbanon_batch"

# Called with a phase and its completed share.
ProgressReport = Callable[[str, float], None]


class FetchedStore(DuckdbStore):
    """The rows of a source as a table; their order of arrival is the row key.

    Releases written here vanish with the run; they are exported or copied to another target.

    Parameters
    ----------
    table : the relation to read, as in the job.
    columns : the columns to draw; the others are known by name only.
    chunk_rows : the number of rows per request.
    memory : the memory limit in bytes; None for the default.
    """

    is_persistent = False

    def __init__(
        self,
        origin: Origin,
        on_sql: OnSql | None = None,
        *,
        table: str,
        columns: Sequence[str],
        chunk_rows: int,
        memory: int | None = None,
        progress: ProgressReport | None = None,
    ) -> None:
        self._connection = in_memory(memory)
        super().__init__(self._connection, on_sql)
        self._origin, self._table = origin, table
        self._drawn_columns = tuple(dict.fromkeys(columns))
        self._chunk_rows, self._progress = chunk_rows, progress
        self._drawn: dict[str, Any] = {}

    @property
    def url(self) -> str:
        """The URL of the source."""
        return self._origin.url

    @contextmanager
    def session(self, *, write: bool, create: bool = False) -> Iterator[Session]:
        """One transaction on the drawn rows.

        Raises
        ------
        SourceChanged : the rows drawn are not as many as were counted.
        DbanonError : the rows could not be drawn.
        """
        self._draw()
        with super().session(write=write, create=create) as session:
            yield session

    @contextmanager
    def planning(self, *, staging: bool, create: bool = False) -> Iterator[Session]:
        """The same: nothing permanent can be changed."""
        self._draw()
        with super().planning(staging=staging, create=create) as session:
            yield session

    def job_lock(self, job: str) -> AbstractContextManager[None]:
        """No lock: the target has one."""
        return nullcontext()

    def _opened(self, connection: duckdb.DuckDBPyConnection) -> DuckdbSession:
        return _FetchedSession(connection, self._on_sql, self._drawn)

    def _draw(self) -> None:
        if self._drawn:
            return
        for setting in self._settings:
            self._connection.execute(setting)
        with self._origin.flow(self._table, self._drawn_columns, self._chunk_rows) as flow:
            rows = self._fill(flow)
            after = flow.count()
        if flow.rows is not None and not flow.rows == rows == after:
            raise SourceChanged(
                f"The source counted {flow.rows} rows before, gave {rows}, and counted {after}"
                " afterwards; nothing was published.",
                hint="Run it again while nothing writes to the table, or anonymize a copy of it.",
            )
        how = flow.how
        how += "" if flow.rows is None else ", rows counted before and after"
        self._create_table(flow)
        self._drawn = {"rows": rows, "how": how}

    def _fill(self, flow: RowStream) -> int:
        """Load all rows as they arrive; returns their number."""
        rows, is_created = 0, False
        self._report_progress(0, flow)
        for batch in flow.batches:
            with translated("The rows that were drawn could not be kept."):
                self._add(pa.Table.from_batches([batch]), not is_created)
            is_created = True
            rows += batch.num_rows
            self._report_progress(rows, flow)
        return rows

    def _add(self, batch: pa.Table, first: bool) -> None:
        begin = f"CREATE OR REPLACE TEMP TABLE {_RAW} AS" if first else f"INSERT INTO {_RAW}"
        try:
            self._connection.register(_BATCH, batch)
            self._connection.execute(f"{begin} SELECT * FROM {_BATCH}")
        except duckdb.NotImplementedException:
            raise self._unsupported(batch.schema) from None
        finally:
            with suppress(duckdb.Error):
                self._connection.unregister(_BATCH)

    def _unsupported(self, schema: pa.Schema) -> UnsupportedType:
        """The error for the first column whose type DuckDB does not support."""
        for field in schema:
            with duckdb.connect() as connection:
                try:
                    connection.register(_BATCH, pa.table({"x": pa.nulls(0, field.type)}))
                    connection.execute(f"SELECT * FROM {_BATCH}")
                except duckdb.Error:
                    return UnsupportedType(
                        f'Column "{field.name}" is of type {field.type}, which cannot be read.',
                        hint="Cast it to a number, text, date, timestamp or boolean in a view or"
                        " in the stream, or leave it out.",
                    )
        return UnsupportedType("A column is of a type that cannot be read.")

    def _report_progress(self, rows: int, flow: RowStream) -> None:
        if thread_connections().is_ending:
            # Statements on DuckDB are interrupted elsewhere; reading the source ends only here.
            raise Cancelled
        if self._progress is not None:
            self._progress("draw", min(1.0, rows / flow.rows) if flow.rows else 0.0)

    def _create_table(self, flow: RowStream) -> None:
        """Create the table, with NULL columns for those not drawn: each column has a role."""
        with translated("The rows that were drawn could not be kept."):
            narrow = [name for name in self._drawn_columns if name in flow.narrow]
            inferred_types = ColumnTypes(self._connection, _RAW, is_plain=True).of(narrow)
            casts = {n: (t.sql_type, t.value) for n, t in zip(narrow, inferred_types, strict=True)}
            described = self._connection.execute(f"DESCRIBE {_RAW}").fetchall()
            kinds = {name: kind for name, kind, *_ in described}
            columns = [
                f"{quote(name)} {casts[name][0] if name in casts else kinds[name]}"
                if name in kinds
                else f"{quote(name)} VARCHAR GENERATED ALWAYS AS (CAST(NULL AS VARCHAR)) VIRTUAL"
                for name in flow.columns
            ]
            values = [casts[name][1] if name in casts else quote(name) for name in kinds]
            name = self._ensure_schema()
            names = ", ".join(map(quote, kinds))
            self._connection.execute(f"CREATE OR REPLACE TABLE {name} ({', '.join(columns)})")
            self._connection.execute(
                f"INSERT INTO {name} ({names}) SELECT {', '.join(values)} FROM {_RAW}"
            )
            self._connection.execute(f"DROP TABLE {_RAW}")

    def _ensure_schema(self) -> str:
        name = parse_relation(self._table)
        if name.schema is not None:
            self._connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quote(name.schema)}")
        return RelationName(None, name.name).quoted if name.schema is None else name.quoted


class _FetchedSession(DuckdbSession):
    """A session that reports how its rows were drawn."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        on_sql: OnSql | None,
        provenance: Mapping[str, Any],
    ) -> None:
        super().__init__(connection, on_sql)
        self._how = provenance

    @property
    def drawn(self) -> Mapping[str, Any]:
        return self._how
