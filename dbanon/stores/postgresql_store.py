"""PostgreSQL through a client: SQLAlchemy for the connection, psycopg for what is large.

A session is one REPEATABLE READ transaction: the reads, the join and the recount see one snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import URL, Engine, NullPool, create_engine, event

from dbanon.errors import ConnectionLost, DatabaseUnreachable, MissingDependency
from dbanon.microdata import Chunk
from dbanon.recoding import ReleasedColumn
from dbanon.schema import Attribute
from dbanon.stores import packed, statements
from dbanon.stores import postgresql_catalog as catalog
from dbanon.stores import postgresql_types as types
from dbanon.stores.base import OnSql, Source
from dbanon.stores.names import quote
from dbanon.stores.postgresql_errors import translated
from dbanon.stores.postgresql_session import ADDRESSED, CALLER_PATH, PostgresqlSession

if TYPE_CHECKING:
    from sqlalchemy import Connection


# Where a connection of ours keeps the search path that it was opened with.
_CALLER_PATH = "dbanon_caller_path"


class PsycopgSession(PostgresqlSession):
    """One transaction through psycopg."""

    def __init__(self, connection: Connection, on_sql: OnSql | None = None) -> None:
        super().__init__(on_sql)
        self._connection = connection
        self._driver: Any = connection.connection.driver_connection
        self.enter()

    def caller_path(self) -> list[str]:
        found: list[str] | None = self._connection.info.get(_CALLER_PATH)
        return super().caller_path() if found is None else found

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        with self._cursor(sql, parameters):
            pass

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._cursor(sql, parameters) as cursor:
            found: list[tuple[Any, ...]] = cursor.fetchall()
            return found

    @contextmanager
    def _cursor(self, sql: str, parameters: Sequence[Any] = (), **how: Any) -> Iterator[Any]:
        self.note(sql)
        with translated(), self._driver.cursor(**how) as cursor:
            if parameters:
                cursor.execute(sql.replace("%", "%%").replace("?", "%s"), parameters)
            else:
                cursor.execute(sql)
            yield cursor

    def read_chunks(
        self, source: Source, attributes: Sequence[Attribute], chunk_rows: int
    ) -> Iterator[Chunk]:
        locator = source.located
        record = packed.packed_record(locator.expressions, locator.types, attributes)
        joins = self.value_joins(attributes)
        for buffer in self._buffers(source, record, joins, chunk_rows):
            yield packed.unpack(buffer, locator.types, attributes)

    def _buffers(self, source: Source, record: str, joins: str, chunk_rows: int) -> Iterator[bytes]:
        # Rights to some columns are none to the address of a row.
        relation = self._relations[source.name]
        oid = relation.oid
        no_address = bool(self.rows(catalog.UNREADABLE, (["ctid"], oid, oid)))
        joined = relation.has_children or bool(source.located.mapped)
        if relation.kind not in ADDRESSED or joined or no_address:
            query = packed.in_one_pass(f"{source.from_clause}{joins}", record, chunk_rows)
            with self._cursor(query, name="dbanon_read", binary=True) as cursor:
                cursor.itersize = 1
                yield from (buffer for (buffer,) in cursor)
            return
        pages, rows = self.rows(
            "SELECT pg_relation_size(?::oid) / current_setting('block_size')::integer,"
            " (SELECT reltuples::bigint FROM pg_class WHERE oid = ?::oid)",
            (oid, oid),
        )[0]
        density = max(rows / pages, 1.0) if pages and rows > 0 else 64.0
        step = max(int(chunk_rows / density), 1)
        for first in range(0, int(pages), step):
            # Not as parameters: a name may hold what the driver takes for one.
            ends = (f"'({first},0)'", f"'({first + step},0)'")
            query = packed.by_address(source.name, record, ends, joins)
            if first == 0:
                self.note(query)
            with translated(), self._driver.cursor(binary=True) as cursor:
                cursor.execute(query)
                (buffer,) = cursor.fetchone()
            if buffer:
                yield buffer

    def read_rows(
        self, source: Source, columns: Sequence[str], chunk_rows: int
    ) -> Iterator[tuple[NDArray[np.int64], list[tuple[Any, ...]]]]:
        locator = source.located
        kept = ", ".join(types.portable(source.attribute(name)) for name in columns)
        keys = ", ".join(
            {
                "tid": f"(({e}::text::point)[0]::bigint << 16) | ({e}::text::point)[1]::bigint",
                "oid": f"{e}::bigint",
            }.get(kind, f"({e})::bigint")
            for e, kind in zip(locator.expressions, locator.types, strict=True)
        )
        query = f"SELECT {keys}, {kept} FROM {source.from_clause}"
        width = len(locator.types)
        with self._cursor(query, name="dbanon_rows") as cursor:
            cursor.itersize = chunk_rows
            while rows := cursor.fetchmany(chunk_rows):
                yield (
                    np.array([row[:width] for row in rows], np.int64),
                    [row[width:] for row in rows],
                )

    # -- staging ----------------------------------------------------------------------------------

    def load_labels(
        self,
        keys: NDArray[np.int64],
        classes: NDArray[np.int32],
        positions: NDArray[np.int32],
        types: Sequence[str],
    ) -> None:
        columns: list[tuple[str, str, NDArray[Any]]] = [
            (f"key{i}", kind, keys[:, i]) for i, kind in enumerate(types)
        ]
        columns += [("class", "integer", classes), ("position", "integer", positions)]
        self._load_binary(statements.LABELS, columns)
        self.analyze_staging(statements.LABELS)

    def load_classes(self, columns: Sequence[ReleasedColumn], n_classes: int) -> None:
        staged: list[tuple[str, str, NDArray[Any]]] = [
            ("class", "integer", np.arange(n_classes, dtype=np.int32))
        ]
        texts = []
        for position, column in enumerate(columns):
            name = statements.value_column(position)
            if column.values.dtype == object:
                texts.append((name, "text", column.values))
            elif column.values.dtype == np.float64:
                staged.append((name, "double precision", column.values))
            else:
                staged.append((name, "bigint", column.values))
            if column.missing is not None:
                staged.append((f"{name}_null", "boolean", column.missing))
        if texts:
            self._load_text(statements.CLASSES, [*staged, *texts])
        else:
            self._load_binary(statements.CLASSES, staged)
        self.analyze_staging(statements.CLASSES)

    def load_rows(self, attributes: Sequence[Attribute], pieces: Iterable[tuple[Any, ...]]) -> None:
        columns = [("class", "integer"), ("position", "integer")]
        columns += [(statements.kept_column(i), types.type_of(a)) for i, a in enumerate(attributes)]
        self.run(statements.create_staging(statements.ROWS, columns, self.staging_suffix))
        copy = f"COPY {quote(statements.ROWS)} FROM STDIN"
        self.note(copy)
        with translated(), self._driver.cursor() as cursor, cursor.copy(copy) as stream:
            for classes, positions, rows in pieces:
                for label, position, row in zip(
                    classes.tolist(), positions.tolist(), rows, strict=True
                ):
                    stream.write_row((label, position, *row))
        self.analyze_staging(statements.ROWS)

    def analyze_staging(self, table: str) -> None:
        """Tell the planner how large a staging table is; it is never analyzed by itself."""
        self.run(f"ANALYZE {quote(table)}")

    def _load_binary(self, table: str, columns: Sequence[tuple[str, str, NDArray[Any]]]) -> None:
        self.run(
            statements.create_staging(
                table, [(name, kind) for name, kind, _ in columns], self.staging_suffix
            )
        )
        copy = f"COPY {quote(table)} FROM STDIN (FORMAT binary)"
        self.note(copy)
        with translated(), self._driver.cursor() as cursor, cursor.copy(copy) as stream:
            for piece in packed.copy_binary(columns):
                stream.write(piece)

    def _load_text(self, table: str, columns: Sequence[tuple[str, str, NDArray[Any]]]) -> None:
        self.run(
            statements.create_staging(
                table, [(name, kind) for name, kind, _ in columns], self.staging_suffix
            )
        )
        copy = f"COPY {quote(table)} FROM STDIN"
        self.note(copy)
        with translated(), self._driver.cursor() as cursor, cursor.copy(copy) as stream:
            for row in zip(*(values.tolist() for _, _, values in columns), strict=True):
                stream.write_row(row)

    def ensure_ledger(self) -> None:
        from dbanon.stores.history import migrate

        # Two first releases at once: the second waits here and finds the ledger made.
        self.run("SELECT pg_advisory_xact_lock(hashtextextended('dbanon ledger', 0))")
        with translated():
            migrate(self._connection)


class PostgresqlStore:
    """A PostgreSQL database."""

    def __init__(self, engine: Engine | URL, on_sql: OnSql | None = None) -> None:
        url = engine.url if isinstance(engine, Engine) else engine
        if not isinstance(engine, Engine) or engine.driver != "psycopg":
            try:
                engine = create_engine(url.set(drivername="postgresql+psycopg"), poolclass=NullPool)
                # Before SQLAlchemy, which asks a new connection things by unqualified names.
                event.listen(engine, "connect", _pin_search_path, insert=True)
            except ModuleNotFoundError:
                raise MissingDependency(
                    "PostgreSQL needs the package psycopg.",
                    hint='Install it with: pip install "dbanon[postgres]"',
                ) from None
        self._engine, self._url, self._on_sql = engine, url, on_sql

    @property
    def url(self) -> str:
        """Where it is, without secrets."""
        return self._url.render_as_string(hide_password=True)

    @contextmanager
    def session(self, *, write: bool, create: bool = False) -> Iterator[PsycopgSession]:
        """One REPEATABLE READ transaction; one that only reads when ``write`` is False."""
        try:
            with translated():
                connection = self._engine.connect()
        except ConnectionLost as error:
            raise DatabaseUnreachable(
                f"The database {self.url} cannot be reached.", detail=error.detail
            ) from None
        connection = connection.execution_options(isolation_level="REPEATABLE READ")
        try:
            with translated():
                connection.begin()
                yield PsycopgSession(connection, self._on_sql)
                connection.commit()
        except BaseException:
            # Staging goes with the transaction; a connection in doubt is not used again.
            connection.invalidate()
            raise
        finally:
            connection.close()

    def same_database(self, other: object) -> bool:
        """True when both have the same host, port and database, and the same role."""
        if not isinstance(other, PostgresqlStore):
            return False
        mine, theirs = self._url, other._url
        return all(
            getattr(mine, part) == getattr(theirs, part)
            for part in ("host", "port", "database", "username", "query")
        )


def _pin_search_path(connection: Any, record: Any) -> None:
    """Make a new connection independent of its search path, which may name anybody's functions."""
    with connection.cursor() as cursor:
        record.info[_CALLER_PATH] = cursor.execute(CALLER_PATH).fetchone()[0]
        cursor.execute("SET search_path = pg_catalog, pg_temp")
    connection.commit()
