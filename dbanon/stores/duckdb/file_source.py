"""A store for files with rows: the rows are loaded into DuckDB in memory, and read there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import duckdb

from dbanon.data.memory import MIN_DATABASE_BYTES, half_of_memory
from dbanon.errors import ChainsNotHere, DbanonError, InvalidParameter, MemoryLimit
from dbanon.job.reading import DEFAULT_READING, Reading
from dbanon.sessions.base import ColumnReading, OnSql, Relation
from dbanon.sessions.names import RelationName, parse_relation, quote
from dbanon.sessions.session import Session
from dbanon.stores.duckdb.catalog import DuckdbCatalog
from dbanon.stores.duckdb.connection import DuckdbConnection
from dbanon.stores.duckdb.csv_problems import UntypedColumn, require_types
from dbanon.stores.duckdb.csv_summary import describe_texts, description_query
from dbanon.stores.duckdb.csv_types import InferredType
from dbanon.stores.duckdb.errors import OutOfMemory, translate_errors
from dbanon.stores.duckdb.file_rows import FileRows
from dbanon.stores.duckdb.session import DuckdbSession
from dbanon.stores.duckdb.store import DuckdbStore, connect_in_memory
from dbanon.stores.file_session import job_lock
from dbanon.stores.folders import (
    COMPRESSED_ENDINGS,
    changed_files_error,
    find_file_kind,
    find_root,
    is_pattern,
    list_source_files,
    parse_location,
    url_of_location,
)


class FileStore(DuckdbStore):
    """A database in memory with the rows of files; a row's key is its position in the files.

    Releases that are written to this database are lost at the end of the run unless exported.

    Parameters
    ----------
    url : a file, folder or pattern, on this machine (``file:``) or in an object store.
    reading : the options for CSV files.
    table : the name of the table; None for the file name without its ending.
    memory_bytes : the memory limit; None for half of the process's limit.
    """

    is_persistent = False
    shares_memory = True
    # Ends hints such as "Cast it to text in a copy of the file", since files have no views.
    where_to_cast = "in a copy of the file"

    def __init__(
        self,
        url: str,
        on_sql: OnSql | None = None,
        *,
        reading: Reading = DEFAULT_READING,
        table: str | None = None,
        memory_bytes: int | None = None,
    ) -> None:
        self._location = parse_location(url)
        # A folder or a pattern has no kind; ``_load`` finds the kind of its files.
        path, kind = self._location, find_file_kind(self._location)
        names_several_files = is_pattern(path) or url.endswith("/")
        if isinstance(path, Path) and not kind and not names_several_files and not path.is_dir():
            raise InvalidParameter(
                "A file of rows must be a .csv, .tsv, .txt, .xlsx or .parquet file, or one of SPSS"
                " (.sav), Stata (.dta) or SAS (.sas7bdat, .xpt); .csv.gz and .csv.zst work, too.",
                hint=(
                    "Write file:people.csv or file:/data/people.parquet. A folder or a pattern of"
                    " such files also works: file:data/, file:data/*.parquet."
                ),
            )
        self._connection = connect_in_memory(memory_bytes)
        super().__init__(self._connection, on_sql, memory_bytes)
        self._reading = reading
        self._types: dict[str, InferredType] = {}
        self._untyped_columns: Mapping[str, UntypedColumn] = {}
        self._label_codes: Mapping[str, Mapping[str, int]] = {}
        file_name = Path(find_root(path).name)
        stem = (
            file_name.with_suffix("").stem
            if file_name.suffix in COMPRESSED_ENDINGS
            else file_name.stem
        )
        self._name = parse_relation(table) if table else RelationName(None, stem)
        if kind:
            reading.require_options_of(kind)
        if not isinstance(path, Path):
            # The option is about accounts and links of this machine's file system.
            reading.require_no_foreign_files()
        self._is_loaded = False

    @property
    def url(self) -> str:
        """The URL of the files."""
        return url_of_location(self._location)

    @contextmanager
    def session(self, *, write: bool, create: bool = False) -> Iterator[Session]:
        """Run one transaction on the loaded rows.

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
        """Run a transaction as ``session`` does, since this database has nothing permanent."""
        self._load()
        with super().planning(staging=staging, create=create) as session:
            yield session

    def job_lock(self, job: str) -> AbstractContextManager[None]:
        """Lock a job by a lock file next to the rows; in an object store, lock nothing."""
        path = find_root(self._location)
        return job_lock(path, job) if isinstance(path, Path) else nullcontext()

    def _load(self) -> None:
        """Load the rows of the files when it is called for the first time."""
        if self._is_loaded:
            return
        with translate_errors():
            # ``spill`` has chosen these settings.
            for setting in self._spill_statements:
                self._connection.execute(setting)
        foreign_files = self._reading.foreign_files
        source_files = list_source_files(self._location, foreign_files)
        kind = find_file_kind(source_files[0].path)
        self._reading.require_options_of(kind)
        memory_bytes = self._spill_bytes or self._memory_bytes or half_of_memory()
        file_rows = FileRows(self._connection, self._name, self._reading, memory_bytes)
        try:
            self._types = file_rows.load(source_files, kind)
            self._untyped_columns = file_rows.untyped_columns
            self._label_codes = file_rows.label_codes
        except OutOfMemory:
            raise MemoryLimit.exceeded(
                f"The rows of {self._location} need",
                # DuckDB's limit is never set lower.
                max(memory_bytes, MIN_DATABASE_BYTES),
                hint="Raise the limit (`memory_limit`), or load the files into a DuckDB database,"
                " whose rows stay on its disk: CREATE TABLE people AS FROM 'data/*.parquet'.",
            ) from None
        if list_source_files(self._location, foreign_files) != source_files:
            raise changed_files_error(self._location)
        self._is_loaded = True

    def _new_session(self, connection: duckdb.DuckDBPyConnection) -> DuckdbSession:
        session = _FileSession(
            connection, self._on_sql, self._types, self._reading, self._untyped_columns
        )
        session.file_url = self.url
        session.label_codes = self._label_codes
        return session


class _FileCatalog(DuckdbCatalog):
    """A catalog that refuses to read columns whose type is unknown.

    Parameters
    ----------
    untyped_columns : the columns whose types could not be inferred, by name.
    """

    def __init__(
        self, connection: DuckdbConnection, untyped_columns: Mapping[str, UntypedColumn]
    ) -> None:
        super().__init__(connection)
        self._untyped_columns = untyped_columns

    def require_readable(self, source: Relation, columns: Sequence[str]) -> None:
        # Raises AmbiguousValues or FileMalformed.
        require_types(self._untyped_columns, columns)


class _FileSession(DuckdbSession):
    """A session that refuses to read columns whose inferred type is in doubt."""

    is_persistent: ClassVar[bool] = False
    unsupported_features: ClassVar[Mapping[str, type[DbanonError]]] = {"chains": ChainsNotHere}

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        on_sql: OnSql | None,
        types: Mapping[str, InferredType],
        reading: Reading,
        untyped_columns: Mapping[str, UntypedColumn],
    ) -> None:
        super().__init__(connection, on_sql)
        self._types, self._reading, self._untyped_columns = types, reading, untyped_columns
        self.catalog = _FileCatalog(self.connection, untyped_columns)

    def require_typed(self, columns: Iterable[str]) -> None:
        require_types(self._untyped_columns, columns)

    def describe_file_columns(self, relation: Relation) -> tuple[ColumnReading, ...]:
        column_readings = []
        # ``type_option`` tells users why a column has its type. ``deciding_option`` is for job
        # files.
        for name, inferred_type in self._types.items():
            column_reading = ColumnReading(
                name,
                inferred_type.sql_type,
                type_option=inferred_type.selected_by,
                kind=inferred_type.kind,
                deciding_option=inferred_type.deciding_option,
            )
            if inferred_type.sql_type == "VARCHAR":
                query = description_query(quote(name), self._reading)
                [row] = self.rows(f"SELECT {query} FROM {relation.name.quoted}")
                column_reading = replace(
                    describe_texts(name, self._reading, row),
                    type_option=inferred_type.selected_by,
                    kind=inferred_type.kind,
                )
            column_readings.append(column_reading)
        return tuple(column_readings)
