"""Files of rows as databases: CSV and Parquet, loaded into a DuckDB in memory to be read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import duckdb

from dbanon.errors import DatabaseNotFound, InsufficientRights, InvalidParameter
from dbanon.stores.base import OnSql
from dbanon.stores.duckdb.errors import translated
from dbanon.stores.duckdb.session import DuckdbSession
from dbanon.stores.duckdb.store import DuckdbStore
from dbanon.stores.job_locks import job_lock
from dbanon.stores.names import quote

FILE = "file:"
_ENDINGS = {".csv": "csv", ".parquet": "parquet"}
_RAW = quote("dbanon_raw")
_AS_WRITTEN = (
    "CSV is UTF-8 with a header, quoted by RFC 4180, with as many values in each row as in the"
    " header."
)


class FileStore(DuckdbStore):
    """The rows of a file as a table of its name without ending; its row number is the row key.

    What is written into it is gone with the run: it is for exports, or another target.
    """

    def __init__(self, url: str, on_sql: OnSql | None = None) -> None:
        self._file = Path(url.removeprefix(FILE)).expanduser()
        if self._file.suffix.lower() not in _ENDINGS:
            raise InvalidParameter(
                "A file of rows must be a .csv or .parquet file.",
                hint="Write file:people.csv or file:/data/people.parquet.",
            )
        if str(self._file).startswith("//"):
            raise InvalidParameter("Write file:/data/people.csv, without more slashes.")
        connection = duckdb.connect()
        connection.execute("SET enable_progress_bar = false")
        # What does not fit the memory shall not stand on a disk.
        connection.execute("SET temp_directory = ''")
        super().__init__(connection, on_sql)
        self._connection = connection
        self._loaded = False

    @property
    def url(self) -> str:
        """Where it is."""
        return f"{FILE}{self._file}"

    @contextmanager
    def session(self, *, write: bool, create: bool = False) -> Iterator[DuckdbSession]:
        """One transaction on the loaded rows.

        Raises
        ------
        DatabaseNotFound, InsufficientRights : there is no such file, or it may not be read.
        """
        self._load()
        with super().session(write=write, create=create) as session:
            yield session

    @contextmanager
    def planning(self, *, staging: bool, create: bool = False) -> Iterator[DuckdbSession]:
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
            name = f"'/dev/fd/{opened.fileno()}'"
            table = quote(self._file.stem)
            try:
                if _ENDINGS[self._file.suffix.lower()] == "parquet":
                    self._connection.execute(f"CREATE TABLE {table} AS FROM read_parquet({name})")
                else:
                    self._load_csv(name, table)
            except duckdb.InvalidInputException:
                # Not a failure of a database, which would be tried again.
                raise InvalidParameter(refused, hint=_AS_WRITTEN) from None
        self._loaded = True

    def _load_csv(self, name: str, table: str) -> None:
        """Texts first, then types that all values of a column have.

        A number with a leading zero is a code, and stays text. Quotes are not guessed: DuckDB looks
        for them in the first rows only.
        """
        self._connection.execute(
            f"CREATE OR REPLACE TEMP TABLE {_RAW} AS FROM read_csv({name}, all_varchar = true,"
            " header = true, quote = '\"', escape = '\"', comment = '', skip = 0,"
            " nullstr = '', allow_quoted_nulls = false)"
        )
        columns = [column for column, *_ in self._connection.execute(f"DESCRIBE {_RAW}").fetchall()]
        types = [self._type_of(quote(column)) for column in columns]
        cast = ", ".join(
            f"CAST({quote(column)} AS {kind}) AS {quote(column)}"
            for column, kind in zip(columns, types, strict=True)
        )
        self._connection.execute(f"CREATE TABLE {table} AS SELECT {cast} FROM {_RAW}")
        self._connection.execute(f"DROP TABLE {_RAW}")

    def _type_of(self, column: str) -> str:
        """The narrowest type that holds all values of a column of texts, as they are written."""
        whole, number = "-?(0|[1-9][0-9]*)", r"-?(0|[1-9][0-9]*)(\.([0-9]+))?"
        fits = {
            "BIGINT": f"regexp_full_match({column}, '{whole}') AND length({column}) <= 18",
            "DECIMAL": f"regexp_full_match({column}, '{number}') AND length({column}) <= 30",
            "DOUBLE": rf"regexp_full_match({column}, '{number}([eE][-+]?[0-9]+)?')",
            "DATE": rf"regexp_full_match({column}, '[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}')"
            f" AND try_cast({column} AS DATE) IS NOT NULL",
            "TIMESTAMP": f"regexp_full_match({column}, '[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[ T]"
            rf"[0-9]{{2}}:[0-9]{{2}}(:[0-9]{{2}}(\.[0-9]{{1,6}})?)?')"
            f" AND try_cast({column} AS TIMESTAMP) IS NOT NULL",
            "BOOLEAN": f"lower({column}) IN ('true', 'false')",
        }
        before, behind = (
            f"max(length(regexp_extract({column}, '{number}', {group})))" for group in (1, 3)
        )
        known = f"FILTER (WHERE {column} IS NOT NULL)"
        query = ", ".join(f"bool_and({condition}) {known}" for condition in fits.values())
        *found, digits, scale = self._connection.execute(
            f"SELECT {query}, {before}, {behind} FROM {_RAW}"
        ).fetchall()[0]
        for kind, all_fit in zip(fits, found, strict=True):
            if all_fit and kind != "DECIMAL":
                return kind
            # Room for the longest on each side of the point, which need not be of one value.
            if all_fit and digits + scale <= 38:
                return f"DECIMAL({digits + scale}, {scale})"
        return "VARCHAR"
