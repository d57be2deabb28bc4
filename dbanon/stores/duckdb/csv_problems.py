"""Columns of CSV files that have no type yet, and the errors of runs that use them."""

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
from dbanon.stores.duckdb.csv_files import CsvHeader, records
from dbanon.stores.duckdb.csv_types import TEXT, InferredType, TypeProblem, type_option
from dbanon.stores.folders import FileLocation


@dataclass(frozen=True)
class LoadedFile:
    """A file whose rows are in a table of texts.

    Parameters
    ----------
    rows : the number of rows in that table up to the end of the file.
    opened : opens the file again, as plain CSV.
    """

    path: FileLocation
    csv_header: CsvHeader
    rows: int
    opened: Callable[[], AbstractContextManager[BinaryIO]]


@dataclass(frozen=True)
class UntypedColumn:
    """The error for a column without a type."""

    name: str
    message: str
    hint: str
    is_ambiguous: bool

    def error(self, others: Sequence[str]) -> FileMalformed | AmbiguousValues:
        """Build the error; ``others`` are further columns with the same problem."""
        kind = AmbiguousValues if self.is_ambiguous else FileMalformed
        named = ", ".join(f'"{name}"' for name in others)
        detail = f"There is a question about these columns, too: {named}." if others else None
        return kind(self.message, detail=detail, hint=self.hint)


def require_types(refusals: Mapping[str, UntypedColumn], names: Iterable[str]) -> None:
    """Check that these columns have a type.

    Raises
    ------
    AmbiguousValues : a column can be read in several ways.
    FileMalformed : a value differs from the others in format, or from the declared type.
    """
    affected = [refusals[name] for name in dict.fromkeys(names) if name in refusals]
    if affected:
        raise affected[0].error([refusal.name for refusal in affected[1:]])


def refusals_of(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    types: Mapping[str, InferredType],
    files: Sequence[LoadedFile],
    reading: Reading,
) -> dict[str, UntypedColumn]:
    """Build the errors of the columns without a type, by name.

    Parameters
    ----------
    table : the table of texts, in row order.
    """
    refusals = {}
    for name, typed in types.items():
        problem = typed.problem
        if problem is not None and problem.readings:
            refusals[name] = _ambiguous(name, problem)
        elif problem is not None:
            query = (
                f"SELECT min(rowid) FROM {table} WHERE {quote(name)} IS NOT NULL"
                f" AND NOT ({problem.condition})"
            )
            [(row,)] = connection.execute(query).fetchall()
            refusals[name] = _malformed(name, problem, _line_and_column(row, name, files, reading))
    return refusals


def _ambiguous(name: str, problem: TypeProblem) -> UntypedColumn:
    ways = [words for words, _ in problem.readings]
    options = [option for _, option in problem.readings]
    if len(ways) == 1:
        message = f'Column "{name}" can be read as {ways[0]}, or as text.'
    else:
        message = f'Column "{name}" can be read in {_COUNT[len(ways)]} ways: {"; or ".join(ways)}.'
    hint = f"Say how it is read: {', or '.join(options)}. As text: {type_option(name, TEXT)}."
    return UntypedColumn(name, message, hint, True)


_COUNT = {2: "two", 3: "three", 4: "four"}


def _malformed(name: str, problem: TypeProblem, location: str) -> UntypedColumn:
    hint = (
        'Correct it. If it means that nothing is known, name it: `null_words=["…"]`. To read the'
        f" column as {problem.other_type}: {type_option(name, problem.other_type)}."
    )
    return UntypedColumn(name, f"{location} is not {problem.expected}.", hint, False)


def _line_and_column(row: int, name: str, files: Sequence[LoadedFile], reading: Reading) -> str:
    """Describe the line and the column of a row of the table."""
    loaded_file = next(file for file in files if row < file.rows)
    before = max((file.rows for file in files if file.rows <= row), default=0)
    column = f", column {loaded_file.csv_header.names.index(name) + 1} ({name}),"
    several = len(loaded_file.csv_header.names) > 1
    # DuckDB may accept files that this reader rejects.
    with suppress(csv.Error), loaded_file.opened() as file:
        rows_left = row - before
        for line, cells in records(file, reading, loaded_file.csv_header):
            if several and not cells:
                continue
            if not rows_left:
                return f"Line {line} of the file {loaded_file.path}{column}"
            rows_left -= 1
    return f"A line of the file {loaded_file.path}{column}"
