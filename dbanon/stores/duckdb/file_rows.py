"""Loading of files with rows into a single table of DuckDB."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import BinaryIO

import duckdb

from dbanon.data.files import PARQUET, STATISTICS, XLSX
from dbanon.errors import FileMalformed, InvalidParameter, nearest_names
from dbanon.job.reading import TEXT_LABELS, UTF_8, Reading
from dbanon.sessions.names import RelationName, quote
from dbanon.stores.duckdb.csv_files import (
    MAX_COLUMNS,
    CsvHeader,
    malformed_file_error,
    open_as_utf8,
    read_csv_header,
    repeated_header_error,
)
from dbanon.stores.duckdb.csv_problems import LoadedFile, UntypedColumn, find_untyped_columns
from dbanon.stores.duckdb.csv_reading import (
    add_skip_hint,
    blanks_aggregate,
    has_quotes,
    header_condition,
    read_csv_arguments,
    require_header,
    select_text_columns,
    strip_blanks,
)
from dbanon.stores.duckdb.csv_types import (
    InferredType,
    TypeInference,
)
from dbanon.stores.duckdb.dialect import literal
from dbanon.stores.duckdb.errors import translate_errors
from dbanon.stores.duckdb.file_formats import TooLarge, open_as_csv
from dbanon.stores.folders import FileLocation, SourceFile, find_file_kind, require_memory

# Temporary tables: all rows of CSV files as texts; and the values that names of folders define as
# texts, such as 2025 in ``year=2025``.
_RAW_TABLE = quote("dbanon_raw")
_FOLDERS_TABLE = quote("dbanon_parts")


class FileRows:
    """Loads all files of a source into one table.

    Parameters
    ----------
    name : the name of the table.
    reading : the options for CSV files.
    memory_bytes : the memory limit for a file that must be converted in memory.

    Attributes
    ----------
    untyped_columns : after ``load``, the columns whose type is in doubt, by name.
    label_codes : after ``load``, the number of each label in files of SPSS and Stata, by column;
        empty for columns whose files differ in it.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        name: RelationName,
        reading: Reading,
        memory_bytes: int,
    ) -> None:
        self._connection, self._name, self._reading = connection, name, reading
        self._memory_bytes = memory_bytes
        self.untyped_columns: Mapping[str, UntypedColumn] = {}
        self.label_codes: dict[str, dict[str, int]] = {}

    def load(self, source_files: Sequence[SourceFile], kind: str) -> dict[str, InferredType]:
        """Load all rows; returns the type of each column by name that was inferred from texts.

        Raises
        ------
        FileMalformed : a file cannot be read, or its columns differ from those of the first.
        """
        if self._name.schema is not None:
            self._connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quote(self._name.schema)}")
        if kind in (PARQUET, STATISTICS):
            return self._load_parquet(source_files)
        if kind == XLSX:
            # Sheets are converted to CSV in UTF-8.
            self._reading = replace(self._reading, encoding=UTF_8)
        return self._load_csv(source_files)

    # -- Parquet ----------------------------------------------------------------------------------

    def _load_parquet(self, source_files: Sequence[SourceFile]) -> dict[str, InferredType]:
        """Load Parquet files, or others as such, whose columns have types.

        Returns an empty mapping.
        """
        folder_columns = self._infer_folder_columns(source_files)
        columns: dict[str, str] = {}
        for source_file in source_files:
            with (
                self._open_as_parquet(source_file) as file,
                _translate_read_errors(source_file.path),
            ):
                # Open by descriptor, as DuckDB could take a file name for a pattern.
                from_item = f"read_parquet('/dev/fd/{file.fileno()}', hive_partitioning = false)"
                self._require_column_limit(source_file.path, file.fileno())
                describe_query = f"SELECT * FROM (DESCRIBE SELECT * FROM {from_item})"
                column_rows = self._connection.execute(describe_query).fetchall()
                column_types = {name: sql_type for name, sql_type, *_ in column_rows}
                _require_same_columns(
                    source_file, column_types, source_files[0], columns or column_types
                )
                is_first = not columns
                # All files have the columns of the first one.
                columns = columns or column_types
                names = ", ".join(f"f.{quote(name)}" for name in columns)
                query = f"SELECT {names} FROM {from_item} AS f"
                if source_file.folder_columns:
                    texts = ", ".join(
                        _as_column(name, text) for name, text in source_file.folder_columns
                    )
                    values = ", ".join(
                        f"{inferred_type.value} AS {quote(name)}"
                        for name, inferred_type in folder_columns.items()
                    )
                    query = (
                        f"SELECT {names}, p.* FROM {from_item} AS f,"
                        f" (SELECT {values} FROM (SELECT {texts})) AS p"
                    )
                self._create_or_insert(self._name.quoted, query, is_first=is_first)
        return {}

    @contextmanager
    def _open_as_parquet(self, source_file: SourceFile) -> Iterator[BinaryIO]:
        """Open a file of Parquet, or one of SPSS, Stata or SAS as Parquet.

        Raises the same errors as ``SourceFile.open`` and ``statistics_files.open_as_parquet``.
        """
        with source_file.open(self._memory_bytes) as file:
            if find_file_kind(source_file.path) == PARQUET:
                yield file
                return
            from dbanon.stores.duckdb.statistics_files import open_as_parquet, read_label_codes

            with (
                _translate_size_error(source_file.path, self._memory_bytes),
                open_as_parquet(
                    file,
                    str(source_file.path),
                    self._memory_bytes,
                    reads_labels=self._reading.value_labels == TEXT_LABELS,
                ) as parquet_file,
            ):
                self._add_label_codes(read_label_codes(parquet_file))
                yield parquet_file

    def _add_label_codes(self, label_codes: Mapping[str, Mapping[str, int]]) -> None:
        """Add the numbers of the labels in a file to those of the files before it."""
        for name, codes in label_codes.items():
            earlier_codes = self.label_codes.get(name, dict(codes))
            all_codes = {**earlier_codes, **codes}
            agrees = all(codes.get(text, code) == code for text, code in earlier_codes.items())
            is_unique = len(set(all_codes.values())) == len(all_codes)
            # A column without numbers of its labels stays one.
            has_codes = bool(earlier_codes) and agrees and is_unique
            self.label_codes[name] = all_codes if has_codes else {}

    def _require_column_limit(self, path: FileLocation, descriptor: int) -> None:
        """Check the number of columns of a Parquet file; raises FileMalformed."""
        [(n_columns,)] = self._connection.execute(
            f"SELECT coalesce(max(num_children), 0) FROM parquet_schema('/dev/fd/{descriptor}')"
        ).fetchall()
        if n_columns > MAX_COLUMNS:
            raise FileMalformed(
                f"The file {path} has {n_columns} columns, more than {MAX_COLUMNS}.",
                hint="Write a file without the columns that are not needed.",
            )

    def _infer_folder_columns(
        self, source_files: Sequence[SourceFile]
    ) -> Mapping[str, InferredType]:
        """Infer the types of columns that folder names define, such as ``year=2024``, by name."""
        names = [name for name, _ in source_files[0].folder_columns]
        if not names:
            return {}
        columns = ", ".join(f"{quote(name)} VARCHAR" for name in names)
        self._connection.execute(f"CREATE OR REPLACE TEMP TABLE {_FOLDERS_TABLE} ({columns})")
        placeholders = ", ".join("?" for _ in names)
        text_rows = {
            tuple(dict(source_file.folder_columns)[name] for name in names)
            for source_file in source_files
        }
        self._connection.executemany(
            f"INSERT INTO {_FOLDERS_TABLE} VALUES ({placeholders})",
            [list(row) for row in text_rows],
        )
        inferred_types = TypeInference(
            self._connection, _FOLDERS_TABLE, is_machine_written=True
        ).infer_types(names)
        self._connection.execute(f"DROP TABLE {_FOLDERS_TABLE}")
        return dict(zip(names, inferred_types, strict=True))

    def _create_or_insert(
        self, table: str, query: str, *, is_first: bool, modifiers: str = ""
    ) -> None:
        """Create a table from a query, or append the query's rows to it.

        Parameters
        ----------
        modifiers : SQL between CREATE and TABLE, with a space at its end.
        """
        statement_start = (
            f"CREATE {modifiers}TABLE {table} AS" if is_first else f"INSERT INTO {table} BY NAME"
        )
        self._connection.execute(f"{statement_start} {query}")

    # -- CSV --------------------------------------------------------------------------------------

    @contextmanager
    def _open_as_csv(self, source_file: SourceFile) -> Iterator[BinaryIO]:
        """Open a file as uncompressed CSV.

        Raises the same errors as ``SourceFile.open`` and ``open_as_csv``.
        """
        with (
            _translate_size_error(source_file.path, self._memory_bytes),
            source_file.open(self._memory_bytes) as file,
            open_as_csv(
                file, str(source_file.path), self._reading.sheet, self._memory_bytes
            ) as csv_file,
        ):
            yield csv_file

    def _load_csv(self, source_files: Sequence[SourceFile]) -> dict[str, InferredType]:
        """Load all columns as text, then convert each to the type that fits all of its values.

        Numbers with leading zeros are codes and remain text.
        """
        csv_headers: list[CsvHeader] = []
        files: list[LoadedFile] = []
        for source_file in source_files:
            with self._open_as_csv(source_file) as file, _translate_read_errors(source_file.path):
                csv_header = read_csv_header(file, source_file.path, self._reading)
                csv_headers.append(csv_header)
                _require_same_columns(
                    source_file,
                    dict.fromkeys(csv_header.names, ""),
                    source_files[0],
                    dict.fromkeys(csv_headers[0].names, ""),
                )
                folder_expressions = "".join(
                    f", {_as_column(name, text)}" for name, text in source_file.folder_columns
                )
                with open_as_utf8(
                    file, source_file.path, self._reading, csv_header, self._memory_bytes
                ) as descriptor:
                    # Without this option, DuckDB guesses whether the first line is a header.
                    if self._reading.header is None:
                        require_header(self._connection, descriptor, source_file.path, csv_header)
                    try:
                        self._add_texts(
                            descriptor,
                            source_file,
                            csv_header,
                            folder_expressions,
                            is_first=len(csv_headers) == 1,
                        )
                    except duckdb.InvalidInputException:
                        error = malformed_file_error(
                            file, source_file.path, self._reading, csv_header
                        )
                        raise add_skip_hint(
                            self._connection, descriptor, csv_header, error
                        ) from None
                [(n_rows,)] = self._connection.execute(
                    f"SELECT count(*) FROM {_RAW_TABLE}"
                ).fetchall()
                files.append(
                    LoadedFile(
                        source_file.path,
                        csv_header,
                        n_rows,
                        partial(self._open_as_csv, source_file),
                    )
                )
        self._require_one_header(source_files, csv_headers)
        names = [*csv_headers[0].names, *(name for name, _ in source_files[0].folder_columns)]
        self._require_declared_columns(names, source_files[0].path)
        with _translate_read_errors(source_files[0].path):
            inferred_types = TypeInference(self._connection, _RAW_TABLE, self._reading).infer_types(
                names
            )
            self.untyped_columns = find_untyped_columns(
                self._connection,
                _RAW_TABLE,
                dict(zip(names, inferred_types, strict=True)),
                files,
                self._reading,
            )
            converted_columns = ", ".join(
                f"{inferred_type.value} AS {quote(name)}"
                for name, inferred_type in zip(names, inferred_types, strict=True)
            )
            self._create_or_insert(
                self._name.quoted, f"SELECT {converted_columns} FROM {_RAW_TABLE}", is_first=True
            )
        self._connection.execute(f"DROP TABLE {_RAW_TABLE}")
        return dict(zip(names, inferred_types, strict=True))

    def _require_declared_columns(self, names: Sequence[str], path: FileLocation) -> None:
        """Check that each column with a declared type exists; raises InvalidParameter."""
        for name in self._reading.types:
            if name not in names:
                raise InvalidParameter(
                    f'The file {path} has no column "{name}", whose type is stated.',
                    hint=nearest_names(name, names) or "Take it out of `types`.",
                )

    def _add_texts(
        self,
        descriptor: int,
        source_file: SourceFile,
        csv_header: CsvHeader,
        folder_expressions: str,
        *,
        is_first: bool,
    ) -> None:
        """Add the rows of a UTF-8 file to the table of texts; strip blanks if the options say so.

        Blanks within quotes must be kept. So a file with quotes is copied into memory without the
        other blanks; from files without quotes, DuckDB strips blanks as it reads them.

        Parameters
        ----------
        folder_expressions : SQL of the columns that folder names define, each after a comma.
        """
        add_fields = partial(
            self._add_fields,
            csv_header=csv_header,
            folder_expressions=folder_expressions,
            is_first=is_first,
        )
        if not self._reading.trim:
            add_fields(descriptor)
            return
        table = f"read_csv('/dev/fd/{descriptor}', {read_csv_arguments(csv_header)})"
        try:
            if is_first:
                # Load before looking for blanks: most files have none, and are then read only once.
                # If there are some, the table is created again from the first file.
                add_fields(descriptor)
                table = _RAW_TABLE
            [(has_blanks,)] = self._connection.execute(
                f"SELECT {blanks_aggregate(csv_header)} FROM {table}"
            ).fetchall()
        except duckdb.InvalidInputException:
            # DuckDB rejects a quote after a blank.
            has_blanks = True
        if has_blanks and has_quotes(descriptor):
            with strip_blanks(
                descriptor, source_file.path, csv_header, self._memory_bytes
            ) as stripped_descriptor:
                add_fields(stripped_descriptor)
        # The rows of a first file without blanks were already added above.
        elif has_blanks or not is_first:
            add_fields(descriptor, trim=bool(has_blanks))

    def _add_fields(
        self,
        descriptor: int,
        *,
        csv_header: CsvHeader,
        folder_expressions: str,
        is_first: bool,
        trim: bool = False,
    ) -> None:
        """Add the fields of a CSV file to the table of texts."""
        query = (
            f"SELECT {select_text_columns(csv_header, self._reading, trim=trim)}"
            f"{folder_expressions}"
            f" FROM read_csv('/dev/fd/{descriptor}', {read_csv_arguments(csv_header)})"
        )
        self._create_or_insert(_RAW_TABLE, query, is_first=is_first, modifiers="OR REPLACE TEMP ")

    def _require_one_header(
        self, source_files: Sequence[SourceFile], csv_headers: Sequence[CsvHeader]
    ) -> None:
        """Check that no row repeats the header; raises FileMalformed."""
        if not csv_headers[0].has_header:
            return
        # If there is only one column, its name may also be one of its values.
        repeated_header_query = (
            f"SELECT 1 FROM {_RAW_TABLE} WHERE {header_condition(csv_headers[0])} LIMIT 1"
        )
        if (
            len(csv_headers[0].names) == 1
            or not self._connection.execute(repeated_header_query).fetchall()
        ):
            return
        last_index = len(source_files) - 1
        for index, (source_file, csv_header) in enumerate(
            zip(source_files, csv_headers, strict=True)
        ):
            with self._open_as_csv(source_file) as file:
                error, is_line_known = repeated_header_error(
                    file, source_file.path, self._reading, csv_header
                )
            # If no line is known in any file, raise the error of the last file.
            if is_line_known or index == last_index:
                # The traceback refers to this frame, which must not refer to the error.
                try:
                    raise error
                finally:
                    del error


def _as_column(name: str, text: str | None) -> str:
    """Build SQL of a constant text column, whose name and text are from a folder name."""
    return f"CAST({'NULL' if text is None else literal(text)} AS VARCHAR) AS {quote(name)}"


@contextmanager
def _translate_size_error(path: FileLocation, memory_bytes: int) -> Iterator[None]:
    """Translate ``TooLarge`` into MemoryLimit."""
    try:
        yield
    except TooLarge as error:
        # Raises MemoryLimit.
        require_memory(error.needed_bytes, memory_bytes, path)
        raise


@contextmanager
def _translate_read_errors(path: FileLocation) -> Iterator[None]:
    """Translate DuckDB's errors into errors about a file."""
    message = f"The file {path} is not of the kind that its name says."
    with translate_errors(message):
        try:
            yield
        except duckdb.InvalidInputException:
            # A DatabaseFailure would make schedulers run the job again, which cannot help.
            raise FileMalformed(message) from None


def _require_same_columns(
    source_file: SourceFile,
    columns: Mapping[str, str],
    first_file: SourceFile,
    first_columns: Mapping[str, str],
) -> None:
    """Check that a file has the columns of the first file, and that no folder defines one of them.

    Parameters
    ----------
    columns : the types of the file's columns, by name; empty texts for CSV.
    first_columns : the types of the columns of ``first_file``, by name.

    Raises
    ------
    FileMalformed : a column differs.
    """
    lower_names = {name.lower() for name in columns}
    for name, _ in source_file.folder_columns:
        if name.lower() in lower_names:
            raise FileMalformed(
                f'Column "{name}" is in the file {source_file.path} and in the names of its'
                " folders.",
                hint="Rename one of them, or read the folders one by one.",
            )
    hint = (
        "All files of a table must have the same columns: write them again, or read a pattern that"
        " leaves some out."
    )
    for name in (*first_columns, *columns):
        if name not in columns:
            raise FileMalformed(
                f'The file {source_file.path} has no column "{name}", which {first_file.path} has.',
                hint=hint,
            )
        if name not in first_columns:
            raise FileMalformed(
                f'The file {source_file.path} has a column "{name}", which {first_file.path}'
                " does not have.",
                hint=hint,
            )
        if columns[name] != first_columns[name]:
            raise FileMalformed(
                f'Column "{name}" is {columns[name]} in the file {source_file.path}, and'
                f" {first_columns[name]} in {first_file.path}.",
                hint=hint,
            )
