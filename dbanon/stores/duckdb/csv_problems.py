"""Columns of CSV files whose type is in doubt, and the errors for runs that use them.

Runs that use no such column are not affected.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import BinaryIO

import duckdb

from dbanon.errors import AmbiguousValues, FileMalformed
from dbanon.job.reading import Reading
from dbanon.sessions.names import quote
from dbanon.stores.duckdb.csv_files import CsvHeader, read_records
from dbanon.stores.duckdb.csv_types import TEXT, InferredType, TypeProblem, type_option
from dbanon.stores.folders import FileLocation


@dataclass(frozen=True)
class LoadedFile:
    """A file whose rows were loaded, as texts, into a table together with those of other files.

    Parameters
    ----------
    csv_header : the header of the file, by which it is read again.
    end_row : the number of rows in the table up to the end of this file.
    open : opens the file again, decompressed.
    """

    path: FileLocation
    csv_header: CsvHeader
    end_row: int
    open: Callable[[], AbstractContextManager[BinaryIO]]


@dataclass(frozen=True)
class UntypedColumn:
    """A column whose type is in doubt, and the error for using it.

    Parameters
    ----------
    message, hint : the texts of the error.
    is_ambiguous : whether the values can be read in several ways; otherwise some are malformed.
    """

    name: str
    message: str
    hint: str
    is_ambiguous: bool

    def to_error(self, other_names: Sequence[str]) -> FileMalformed | AmbiguousValues:
        """Build the error; ``other_names`` are further columns with the same problem."""
        error_class = AmbiguousValues if self.is_ambiguous else FileMalformed
        quoted_names = ", ".join(f'"{name}"' for name in other_names)
        detail = (
            f"The types of these columns are in doubt, too: {quoted_names}."
            if other_names
            else None
        )
        return error_class(self.message, detail=detail, hint=self.hint)


def require_types(untyped_columns: Mapping[str, UntypedColumn], names: Iterable[str]) -> None:
    """Check that these columns have a type.

    Raises
    ------
    AmbiguousValues : a column can be read in several ways.
    FileMalformed : a value differs from the others in format, or from the declared type.
    """
    affected_columns = [
        untyped_columns[name] for name in dict.fromkeys(names) if name in untyped_columns
    ]
    if affected_columns:
        raise affected_columns[0].to_error([column.name for column in affected_columns[1:]])


def find_untyped_columns(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    types: Mapping[str, InferredType],
    files: Sequence[LoadedFile],
    reading: Reading,
) -> dict[str, UntypedColumn]:
    """Find the columns whose type is in doubt, by name.

    Parameters
    ----------
    table : the table of texts, whose ``rowid`` is the order of rows in the files.
    types : the inferred type of each column.
    files : the loaded files, in the order of their rows in the table.
    reading : the options for reading CSV files.
    """
    untyped_columns = {}
    for name, inferred_type in types.items():
        problem = inferred_type.problem
        # Only ambiguous values have interpretations; malformed values fail a condition.
        if problem is not None and problem.interpretations:
            untyped_columns[name] = _ambiguous_column(name, problem)
        elif problem is not None:
            # The first value that does not meet the condition of well-formed values.
            query = (
                f"SELECT min(rowid) FROM {table} WHERE {quote(name)} IS NOT NULL"
                f" AND NOT ({problem.condition})"
            )
            [(row_id,)] = connection.execute(query).fetchall()
            untyped_columns[name] = _malformed_column(
                name, problem, _describe_location(row_id, name, files, reading)
            )
    return untyped_columns


def _ambiguous_column(name: str, problem: TypeProblem) -> UntypedColumn:
    """Describe a column whose values can be read in several ways."""
    descriptions = [description for description, _ in problem.interpretations]
    options = [option for _, option in problem.interpretations]
    if len(descriptions) == 1:
        message = f'Column "{name}" can be read as {descriptions[0]}, or as text.'
    else:
        count_text = _NUMBER_WORDS.get(len(descriptions), "several")
        message = f'Column "{name}" can be read in {count_text} ways: {"; or ".join(descriptions)}.'
    hint = f"Say how it is read: {', or '.join(options)}. As text: {type_option(name, TEXT)}."
    return UntypedColumn(name, message, hint, is_ambiguous=True)


_NUMBER_WORDS = {2: "two", 3: "three", 4: "four"}


def _malformed_column(name: str, problem: TypeProblem, location: str) -> UntypedColumn:
    """Describe a column with a malformed value; ``location`` says in words where the value is."""
    hint = (
        'Correct it. If it stands for a missing value, list it: `null_words=["…"]`. To read the'
        f" column as {problem.other_type}: {type_option(name, problem.other_type)}."
    )
    return UntypedColumn(name, f"{location} is not {problem.expected}.", hint, is_ambiguous=False)


def _describe_location(
    row_id: int, name: str, files: Sequence[LoadedFile], reading: Reading
) -> str:
    """Describe the line and the column of a value, by the row's ``rowid`` in the table."""
    loaded_file = next(file for file in files if row_id < file.end_row)
    n_rows_before = max((file.end_row for file in files if file.end_row <= row_id), default=0)
    column = f", column {loaded_file.csv_header.names.index(name) + 1} ({name}),"
    has_several_columns = len(loaded_file.csv_header.names) > 1
    # DuckDB may accept files that Python's reader rejects.
    with suppress(csv.Error), loaded_file.open() as file:
        n_rows_to_skip = row_id - n_rows_before
        for line, cells in read_records(file, reading, loaded_file.csv_header):
            # DuckDB skips empty lines, unless there is one column, where they are NULL.
            if has_several_columns and not cells:
                continue
            if not n_rows_to_skip:
                return f"Line {line} of the file {loaded_file.path}{column}"
            n_rows_to_skip -= 1
    return f"A line of the file {loaded_file.path}{column}"
