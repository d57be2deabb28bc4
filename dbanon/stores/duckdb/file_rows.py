"""Loading of one or more row files into one table of DuckDB."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import BinaryIO

import duckdb

from dbanon.errors import FileMalformed, InvalidParameter, nearest_names
from dbanon.job.reading import UTF_8, Reading
from dbanon.sessions.names import RelationName, quote
from dbanon.stores.duckdb.csv_files import (
    MAX_COLUMNS,
    CsvHeader,
    malformed_file_error,
    open_as_utf8,
    read_csv_header,
    repeated_header_error,
)
from dbanon.stores.duckdb.csv_problems import LoadedFile, UntypedColumn, refusals_of
from dbanon.stores.duckdb.csv_reading import (
    has_blanks,
    has_quotes,
    is_header,
    read_arguments,
    require_header,
    text_columns,
    with_skip_hint,
    without_blanks,
)
from dbanon.stores.duckdb.csv_types import (
    ColumnTypes,
    InferredType,
)
from dbanon.stores.duckdb.dialect import literal
from dbanon.stores.duckdb.errors import translated
from dbanon.stores.duckdb.file_formats import TooLarge, plain_csv
from dbanon.stores.folders import PARQUET, XLSX, FileLocation, SourceFile, require_room

_RAW = quote("dbanon_raw")
_PARTS = quote("dbanon_parts")


class FileRows:
    """Loads row files into a table; afterwards ``refusals`` has the errors of untyped columns.

    Parameters
    ----------
    name : the name of the table.
    reading : the options for CSV files.
    memory : the limit in bytes for files that must be read in memory.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        name: RelationName,
        reading: Reading,
        memory: int,
    ) -> None:
        self._connection, self._name, self._reading = connection, name, reading
        self._memory = memory
        self.refusals: Mapping[str, UntypedColumn] = {}

    def load(self, source_files: Sequence[SourceFile], kind: str) -> dict[str, InferredType]:
        """Load all rows; returns the inferred types of columns from untyped files.

        Raises
        ------
        FileMalformed : a file cannot be read, or its columns differ from those of the first.
        """
        if self._name.schema is not None:
            self._connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quote(self._name.schema)}")
        if kind == PARQUET:
            return self._load_parquet(source_files)
        if kind == XLSX:
            # Sheets are converted to CSV in UTF-8.
            self._reading = replace(self._reading, encoding=UTF_8)
        return self._load_csv(source_files)

    # -- Parquet ----------------------------------------------------------------------------------

    def _load_parquet(self, source_files: Sequence[SourceFile]) -> dict[str, InferredType]:
        folder_columns = self._parts_of(source_files)
        columns: dict[str, str] = {}
        for source_file in source_files:
            with source_file.opened(self._memory) as file, _read(source_file.path):
                # By descriptor: a file name could be taken for a pattern.
                rows = f"read_parquet('/dev/fd/{file.fileno()}', hive_partitioning = false)"
                self._require_few(source_file.path, file.fileno())
                describe_query = f"SELECT * FROM (DESCRIBE SELECT * FROM {rows})"
                described = self._connection.execute(describe_query).fetchall()
                column_types = {name: kind for name, kind, *_ in described}
                _require_same(source_file, column_types, source_files[0], columns or column_types)
                first, columns = not columns, columns or column_types
                names = ", ".join(f"f.{quote(name)}" for name in columns)
                query = f"SELECT {names} FROM {rows} AS f"
                if source_file.parts:
                    texts = ", ".join(_as_column(*part) for part in source_file.parts)
                    values = ", ".join(
                        f"{t.value} AS {quote(n)}" for n, t in folder_columns.items()
                    )
                    query = (
                        f"SELECT {names}, p.* FROM {rows} AS f,"
                        f" (SELECT {values} FROM (SELECT {texts})) AS p"
                    )
                self._add(self._name.quoted, query, first)
        return {}

    def _require_few(self, path: FileLocation, number: int) -> None:
        [(columns,)] = self._connection.execute(
            f"SELECT coalesce(max(num_children), 0) FROM parquet_schema('/dev/fd/{number}')"
        ).fetchall()
        if columns > MAX_COLUMNS:
            raise FileMalformed(
                f"The file {path} has {columns} columns, more than {MAX_COLUMNS}.",
                hint="Write a file without the columns that are not needed.",
            )

    def _parts_of(self, source_files: Sequence[SourceFile]) -> Mapping[str, InferredType]:
        """Infer the types of the columns in folder names, from all folders."""
        names = [name for name, _ in source_files[0].parts]
        if not names:
            return {}
        columns = ", ".join(f"{quote(name)} VARCHAR" for name in names)
        self._connection.execute(f"CREATE OR REPLACE TEMP TABLE {_PARTS} ({columns})")
        marks = ", ".join("?" for _ in names)
        texts = {
            tuple(dict(source_file.parts)[name] for name in names) for source_file in source_files
        }
        self._connection.executemany(
            f"INSERT INTO {_PARTS} VALUES ({marks})", [list(row) for row in texts]
        )
        inferred_types = ColumnTypes(self._connection, _PARTS, is_plain=True).of(names)
        self._connection.execute(f"DROP TABLE {_PARTS}")
        return dict(zip(names, inferred_types, strict=True))

    def _add(self, table: str, query: str, first: bool, temporary: str = "") -> None:
        begin = f"CREATE {temporary}TABLE {table} AS" if first else f"INSERT INTO {table} BY NAME"
        self._connection.execute(f"{begin} {query}")

    # -- CSV --------------------------------------------------------------------------------------

    @contextmanager
    def _opened(self, source_file: SourceFile) -> Iterator[BinaryIO]:
        """Open a file as plain CSV; raises as ``SourceFile.opened`` and ``plain_csv``."""
        try:
            with (
                source_file.opened(self._memory) as file,
                plain_csv(file, str(source_file.path), self._reading.sheet, self._memory) as plain,
            ):
                yield plain
        except TooLarge as error:
            require_room(error.needed, self._memory, source_file.path)
            raise

    def _load_csv(self, source_files: Sequence[SourceFile]) -> dict[str, InferredType]:
        """Load all columns as text, then convert them to the types that all their values have.

        A number with a leading zero is a code and stays text.
        """
        csv_headers: list[CsvHeader] = []
        files: list[LoadedFile] = []
        for source_file in source_files:
            with self._opened(source_file) as file, _read(source_file.path):
                csv_header = read_csv_header(file, source_file.path, self._reading)
                csv_headers.append(csv_header)
                _require_same(
                    source_file,
                    dict.fromkeys(csv_header.names, ""),
                    source_files[0],
                    dict.fromkeys(csv_headers[0].names, ""),
                )
                more = "".join(f", {_as_column(*part)}" for part in source_file.parts)
                with open_as_utf8(
                    file, source_file.path, self._reading, csv_header, self._memory
                ) as number:
                    if self._reading.header is None:
                        require_header(self._connection, number, source_file.path, csv_header)
                    try:
                        self._add_texts(
                            number, source_file, csv_header, more, is_first=len(csv_headers) == 1
                        )
                    except duckdb.InvalidInputException:
                        error = malformed_file_error(
                            file, source_file.path, self._reading, csv_header
                        )
                        raise with_skip_hint(self._connection, number, csv_header, error) from None
                [(count,)] = self._connection.execute(f"SELECT count(*) FROM {_RAW}").fetchall()
                files.append(
                    LoadedFile(
                        source_file.path, csv_header, count, partial(self._opened, source_file)
                    )
                )
        self._require_one_header(source_files, csv_headers)
        names = [*csv_headers[0].names, *(name for name, _ in source_files[0].parts)]
        self._require_stated(names, source_files[0].path)
        with _read(source_files[0].path):
            inferred_types = ColumnTypes(self._connection, _RAW, self._reading).of(names)
            self.refusals = refusals_of(
                self._connection,
                _RAW,
                dict(zip(names, inferred_types, strict=True)),
                files,
                self._reading,
            )
            cast = ", ".join(
                f"{typed.value} AS {quote(name)}"
                for name, typed in zip(names, inferred_types, strict=True)
            )
            self._add(self._name.quoted, f"SELECT {cast} FROM {_RAW}", True)
        self._connection.execute(f"DROP TABLE {_RAW}")
        return dict(zip(names, inferred_types, strict=True))

    def _require_stated(self, names: Sequence[str], path: FileLocation) -> None:
        """Check that each column with a declared type exists; raises InvalidParameter."""
        for name in self._reading.types:
            if name not in names:
                raise InvalidParameter(
                    f'The file {path} has no column "{name}", whose type is stated.',
                    hint=nearest_names(name, names) or "Take it out of `types`.",
                )

    def _add_texts(
        self,
        number: int,
        source_file: SourceFile,
        csv_header: CsvHeader,
        more: str,
        *,
        is_first: bool,
    ) -> None:
        """Add the rows of a UTF-8 file to the table of texts, without blanks around fields.

        A file with blanks and quotes is stripped field by field, to keep blanks within quotes.
        """
        add = partial(self._add_fields, csv_header=csv_header, more=more, is_first=is_first)
        if not self._reading.trim:
            add(number)
            return
        table = f"read_csv('/dev/fd/{number}', {read_arguments(csv_header)})"
        try:
            if is_first:
                # Most files have no blanks, and are read once.
                add(number)
                table = _RAW
            [(blanks,)] = self._connection.execute(
                f"SELECT {has_blanks(csv_header)} FROM {table}"
            ).fetchall()
        except duckdb.InvalidInputException:
            # A blank before a quote makes the quote invalid.
            blanks = True
        if blanks and has_quotes(number):
            with without_blanks(number, source_file.path, csv_header, self._memory) as trimmed:
                add(trimmed)
        elif blanks or not is_first:
            add(number, trim=bool(blanks))

    def _add_fields(
        self, number: int, *, csv_header: CsvHeader, more: str, is_first: bool, trim: bool = False
    ) -> None:
        query = (
            f"SELECT {text_columns(csv_header, self._reading, trim=trim)}{more}"
            f" FROM read_csv('/dev/fd/{number}', {read_arguments(csv_header)})"
        )
        self._add(_RAW, query, is_first, "OR REPLACE TEMP ")

    def _require_one_header(
        self, source_files: Sequence[SourceFile], csv_headers: Sequence[CsvHeader]
    ) -> None:
        if not csv_headers[0].has_header:
            return
        # A single column may contain its own name as a value.
        again = f"SELECT 1 FROM {_RAW} WHERE {is_header(csv_headers[0])} LIMIT 1"
        if len(csv_headers[0].names) == 1 or not self._connection.execute(again).fetchall():
            return
        last = len(source_files) - 1
        for index, (source_file, csv_header) in enumerate(
            zip(source_files, csv_headers, strict=True)
        ):
            with self._opened(source_file) as file:
                error, is_line_known = repeated_header_error(
                    file, source_file.path, self._reading, csv_header
                )
            if is_line_known or index == last:
                try:
                    raise error
                finally:
                    del error


def _as_column(name: str, text: str | None) -> str:
    """Build a text column from a folder name."""
    return f"CAST({'NULL' if text is None else literal(text)} AS VARCHAR) AS {quote(name)}"


@contextmanager
def _read(path: FileLocation) -> Iterator[None]:
    """Translate DuckDB's errors into errors about a file."""
    refused = f"The file {path} is not of the kind that its name says."
    with translated(refused):
        try:
            yield
        except duckdb.InvalidInputException:
            # Not a database failure, which would be retried.
            raise FileMalformed(refused) from None


def _require_same(
    source_file: SourceFile,
    columns: Mapping[str, str],
    first: SourceFile,
    expected: Mapping[str, str],
) -> None:
    """Check that a file has the columns of the first one, and none of its folders' columns.

    Raises
    ------
    FileMalformed : a column differs; the error names the first one.
    """
    lower = {name.lower() for name in columns}
    for name, _ in source_file.parts:
        if name.lower() in lower:
            raise FileMalformed(
                f'Column "{name}" is in the file {source_file.path} and in the names of its'
                " folders.",
                hint="Rename one of them, or read the folders one by one.",
            )
    hint = "All files of a table have the same columns: write them anew, or read a pattern."
    for name in (*expected, *columns):
        if name not in columns:
            raise FileMalformed(
                f'The file {source_file.path} has no column "{name}", which {first.path} has.',
                hint=hint,
            )
        if name not in expected:
            raise FileMalformed(
                f'The file {source_file.path} has a column "{name}", which {first.path} has not.',
                hint=hint,
            )
        if columns[name] != expected[name]:
            raise FileMalformed(
                f'Column "{name}" is {columns[name]} in the file {source_file.path}, and'
                f" {expected[name]} in {first.path}.",
                hint=hint,
            )
