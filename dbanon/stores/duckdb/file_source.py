"""Files of rows as databases: CSV and Parquet, loaded into a DuckDB in memory to be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO

import duckdb

from dbanon.errors import DatabaseNotFound, FileMalformed, InsufficientRights, InvalidParameter
from dbanon.job.reading import USUAL, Reading
from dbanon.sessions.base import AsWritten, OnSql, Relation
from dbanon.sessions.names import RelationName, parse_relation, quote
from dbanon.sessions.session import Session
from dbanon.stores.duckdb.csv_files import MAX_COLUMNS, as_utf8, broken, head_of, header_again
from dbanon.stores.duckdb.csv_types import (
    Typed,
    answered,
    is_header,
    known_texts,
    look_question,
    looked,
    question,
    read_arguments,
)
from dbanon.stores.duckdb.errors import translated
from dbanon.stores.duckdb.session import DuckdbSession, in_memory
from dbanon.stores.duckdb.store import DuckdbStore
from dbanon.stores.file_session import job_lock

FILE = "file:"
_ENDINGS = {".csv": "csv", ".parquet": "parquet"}
_RAW = quote("dbanon_raw")
# Columns whose types are looked for in one statement.
_ASKED_AT_ONCE = 32


class FileStore(DuckdbStore):
    """The rows of a file as a table; its row number is the row key.

    What is written into it is gone with the run: it is for exports, or another target.

    Parameters
    ----------
    reading : how a CSV file is written.
    table : what the table is called, as people write it; as the file without ending when None.
    """

    def __init__(
        self,
        url: str,
        on_sql: OnSql | None = None,
        *,
        reading: Reading = USUAL,
        table: str | None = None,
    ) -> None:
        self._file = Path(url.removeprefix(FILE)).expanduser()
        if self._file.suffix.lower() not in _ENDINGS:
            raise InvalidParameter(
                "A file of rows must be a .csv or .parquet file.",
                hint="Write file:people.csv or file:/data/people.parquet.",
            )
        if str(self._file).startswith("//"):
            raise InvalidParameter("Write file:/data/people.csv, without more slashes.")
        self._connection = in_memory()
        super().__init__(self._connection, on_sql)
        self._reading = reading
        self._types: dict[str, Typed] = {}
        self._name = parse_relation(table) if table else RelationName(None, self._file.stem)
        if not self._is_csv:
            reading.require_none()
        self._loaded = False

    @property
    def url(self) -> str:
        """Where it is."""
        return f"{FILE}{self._file}"

    @contextmanager
    def session(self, *, write: bool, create: bool = False) -> Iterator[Session]:
        """One transaction on the loaded rows.

        Raises
        ------
        DatabaseNotFound, InsufficientRights : there is no such file, or it may not be read.
        """
        self._load()
        with super().session(write=write, create=create) as session:
            yield session

    @contextmanager
    def planning(self, *, staging: bool, create: bool = False) -> Iterator[Session]:
        """The same: nothing that lasts can be changed."""
        self._load()
        with super().planning(staging=staging, create=create) as session:
            yield session

    def job_lock(self, job: str) -> AbstractContextManager[None]:
        """A lock file beside the file."""
        return job_lock(self._file, job)

    def _load(self) -> None:
        if self._loaded:
            return
        for setting in self._settings:
            self._connection.execute(setting)
        if not self._file.is_file():
            raise DatabaseNotFound(f"There is no file {self._file}.")
        try:
            opened = self._file.open("rb")
        except OSError:
            raise InsufficientRights(f"The file {self._file} may not be read.") from None
        # By number: what stands in a name might be taken for a pattern.
        refused = f"The file {self._file} cannot be read as what its name says."
        with opened, translated(refused):
            try:
                if self._is_csv:
                    self._load_csv(opened)
                else:
                    self._load_parquet(opened.fileno())
            except duckdb.InvalidInputException:
                # Not a failure of a database, which would be tried again.
                raise FileMalformed(refused) from None
        self._loaded = True

    @property
    def _is_csv(self) -> bool:
        return _ENDINGS[self._file.suffix.lower()] == "csv"

    def _load_parquet(self, number: int) -> None:
        source = f"read_parquet('/dev/fd/{number}')"
        columns = self._connection.execute(
            f"SELECT coalesce(max(num_children), 0) FROM parquet_schema('/dev/fd/{number}')"
        ).fetchall()[0][0]
        if columns > MAX_COLUMNS:
            raise FileMalformed(
                f"The file {self._file} has {columns} columns, more than {MAX_COLUMNS}.",
                hint="Leave out what is not needed.",
            )
        self._make(f"FROM {source}")

    def _make(self, query: str) -> None:
        """The table, as it is called."""
        if self._name.schema is not None:
            self._connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quote(self._name.schema)}")
        self._connection.execute(f"CREATE TABLE {self._name.quoted} AS {query}")

    def _opened(self, connection: duckdb.DuckDBPyConnection) -> DuckdbSession:
        return _FileSession(connection, self._on_sql, self._types, self._reading)

    def _load_csv(self, file: BinaryIO) -> None:
        """Texts first, then types that all values of a column have.

        A number with a leading zero is a code, and stays text.
        """
        head = head_of(file, self._file, self._reading)
        with as_utf8(file, self._file, self._reading, head) as number:
            try:
                self._connection.execute(
                    f"CREATE OR REPLACE TEMP TABLE {_RAW} AS"
                    f" SELECT {known_texts(head, self._reading)}"
                    f" FROM read_csv('/dev/fd/{number}', {read_arguments(head)})"
                )
            except duckdb.InvalidInputException:
                raise broken(file, self._file, self._reading, head) from None
        # One column may hold its own name.
        again = f"SELECT 1 FROM {_RAW} WHERE {is_header(head)} LIMIT 1"
        if len(head.names) > 1 and self._connection.execute(again).fetchall():
            raise header_again(file, self._file, self._reading, head)
        columns = [quote(name) for name in head.names]
        self._types = dict(zip(head.names, self._types_of(columns), strict=True))
        cast = ", ".join(
            f"{typed.value} AS {column}"
            for column, typed in zip(columns, self._types.values(), strict=True)
        )
        self._make(f"SELECT {cast} FROM {_RAW}")
        self._connection.execute(f"DROP TABLE {_RAW}")

    def _types_of(self, columns: Sequence[str]) -> list[Typed]:
        found: list[Typed] = []
        for first in range(0, len(columns), _ASKED_AT_ONCE):
            part = columns[first : first + _ASKED_AT_ONCE]
            query = ", ".join(question(column, self._reading) for column in part)
            [row] = self._connection.execute(f"SELECT {query} FROM {_RAW}").fetchall()
            wide = len(row) // len(part)
            found += [
                answered(column, self._reading, row[place * wide : (place + 1) * wide])
                for place, column in enumerate(part)
            ]
        return found


class _FileSession(DuckdbSession):
    """A session that knows what columns were read as."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        on_sql: OnSql | None,
        types: Mapping[str, Typed],
        reading: Reading,
    ) -> None:
        super().__init__(connection, on_sql)
        self._types, self._reading = types, reading

    def as_written(self, relation: Relation) -> tuple[AsWritten, ...]:
        found = []
        for name, typed in self._types.items():
            one = AsWritten(name, typed.sql_type, by=typed.by)
            if typed.sql_type == "VARCHAR":
                asked = look_question(quote(name), self._reading)
                [row] = self.rows(f"SELECT {asked} FROM {relation.name.quoted}")
                one = looked(name, self._reading, row)
            found.append(one)
        return tuple(found)
