"""Row files as databases: loaded into DuckDB in memory and read from there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import duckdb

from dbanon.data.memory import MIN_DATABASE_BYTES, half_of_memory
from dbanon.errors import ChainsNotHere, DbanonError, InvalidParameter, MemoryLimit
from dbanon.job.reading import USUAL, Reading
from dbanon.sessions.base import ColumnReading, OnSql, Relation
from dbanon.sessions.names import RelationName, parse_relation, quote
from dbanon.sessions.session import Session
from dbanon.stores.duckdb.csv_problems import UntypedColumn, require_types
from dbanon.stores.duckdb.csv_summary import describe_texts, description_query
from dbanon.stores.duckdb.csv_types import InferredType
from dbanon.stores.duckdb.errors import OutOfMemory, translated
from dbanon.stores.duckdb.file_rows import FileRows
from dbanon.stores.duckdb.session import DuckdbSession
from dbanon.stores.duckdb.store import DuckdbStore, in_memory
from dbanon.stores.file_session import job_lock
from dbanon.stores.folders import (
    PACKED,
    PARQUET,
    ending_of,
    files_changed,
    is_pattern,
    list_source_files,
    location_of,
    root_of,
    url_of,
)


class FileStore(DuckdbStore):
    """The rows of files as a table; a row's number in file order is the row key.

    Releases written here vanish with the run; they are exported or copied to another target.

    Parameters
    ----------
    url : a file, folder or pattern, on this machine (``file:``) or in an object store.
    reading : the options for CSV files.
    table : the name of the table; None for the file name without its ending.
    memory : the memory limit in bytes; None for half of the process's limit.
    """

    is_persistent = False
    view_replacement = "in a copy of the file"

    def __init__(
        self,
        url: str,
        on_sql: OnSql | None = None,
        *,
        reading: Reading = USUAL,
        table: str | None = None,
        memory: int | None = None,
    ) -> None:
        self._location = location_of(url)
        path, kind = self._location, ending_of(self._location)
        several = is_pattern(path) or url.endswith("/")
        if isinstance(path, Path) and not kind and not several and not path.is_dir():
            raise InvalidParameter(
                "A file of rows must be a .csv, .tsv, .txt, .xlsx or .parquet file; .csv.gz and"
                " .csv.zst work, too.",
                hint=(
                    "Write file:people.csv or file:/data/people.parquet. A folder or a pattern of"
                    " such files also works: file:data/, file:data/*.parquet."
                ),
            )
        self._connection, self._memory = in_memory(memory), memory
        super().__init__(self._connection, on_sql)
        self._reading = reading
        self._types: dict[str, InferredType] = {}
        self._refusals: Mapping[str, UntypedColumn] = {}
        file_name = Path(root_of(path).name)
        stem = file_name.with_suffix("").stem if file_name.suffix in PACKED else file_name.stem
        self._name = parse_relation(table) if table else RelationName(None, stem)
        if kind == PARQUET:
            reading.require_no_csv()
        if not isinstance(path, Path):
            reading.require_own_files()
        self._is_loaded = False

    @property
    def url(self) -> str:
        """The URL of the files."""
        return url_of(self._location)

    @contextmanager
    def session(self, *, write: bool, create: bool = False) -> Iterator[Session]:
        """One transaction on the loaded rows.

        Raises
        ------
        DatabaseNotFound, InsufficientRights : a file is missing, or may not be read.
        ForeignFile : a file is reached through a link, or belongs to another account.
        """
        self._load()
        with super().session(write=write, create=create) as session:
            yield session

    @contextmanager
    def planning(self, *, staging: bool, create: bool = False) -> Iterator[Session]:
        """The same: nothing permanent can be changed."""
        self._load()
        with super().planning(staging=staging, create=create) as session:
            yield session

    def job_lock(self, job: str) -> AbstractContextManager[None]:
        """Lock a file next to the file or folder; no lock for an object store."""
        path = root_of(self._location)
        return job_lock(path, job) if isinstance(path, Path) else nullcontext()

    def _load(self) -> None:
        if self._is_loaded:
            return
        with translated():
            for setting in self._settings:
                self._connection.execute(setting)
        policy = self._reading.foreign_files
        source_files = list_source_files(self._location, policy)
        kind = ending_of(source_files[0].path)
        if kind == PARQUET:
            self._reading.require_no_csv()
        memory = self._memory or half_of_memory()
        rows = FileRows(self._connection, self._name, self._reading, memory)
        try:
            self._types = rows.load(source_files, kind)
            self._refusals = rows.refusals
        except OutOfMemory:
            raise MemoryLimit.exceeded(
                f"The rows of {self._location} need",
                max(memory, MIN_DATABASE_BYTES),
                hint="Raise the limit (`memory_limit`), or load the files into a DuckDB database,"
                " whose rows stay on its disk: CREATE TABLE people AS FROM 'data/*.parquet'.",
            ) from None
        if list_source_files(self._location, policy) != source_files:
            raise files_changed(self._location)
        self._is_loaded = True

    def _opened(self, connection: duckdb.DuckDBPyConnection) -> DuckdbSession:
        session = _FileSession(connection, self._on_sql, self._types, self._reading, self._refusals)
        session.file_url = self.url
        return session


class _FileSession(DuckdbSession):
    """A session that knows the inferred types of its columns."""

    is_persistent: ClassVar[bool] = False
    unsupported_features: ClassVar[Mapping[str, type[DbanonError]]] = {"chains": ChainsNotHere}

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        on_sql: OnSql | None,
        types: Mapping[str, InferredType],
        reading: Reading,
        refusals: Mapping[str, UntypedColumn],
    ) -> None:
        super().__init__(connection, on_sql)
        self._types, self._reading, self._refusals = types, reading, refusals

    def require_typed(self, columns: Iterable[str]) -> None:
        require_types(self._refusals, columns)

    def require_rights(self, source: Relation, columns: Sequence[str]) -> None:
        """Check that each column to read has a type; raises as ``require_typed``."""
        self.require_typed(columns)
        super().require_rights(source, columns)

    def as_written(self, relation: Relation) -> tuple[ColumnReading, ...]:
        readings = []
        for name, inferred in self._types.items():
            column_reading = ColumnReading(
                name,
                inferred.sql_type,
                by=inferred.by,
                kind=inferred.kind,
                decided=inferred.decided,
            )
            if inferred.sql_type == "VARCHAR":
                query = description_query(quote(name), self._reading)
                [row] = self.rows(f"SELECT {query} FROM {relation.name.quoted}")
                column_reading = replace(
                    describe_texts(name, self._reading, row), by=inferred.by, kind=inferred.kind
                )
            readings.append(column_reading)
        return tuple(readings)
