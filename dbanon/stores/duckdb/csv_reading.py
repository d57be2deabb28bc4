"""Reading CSV files with DuckDB: blanks around fields, lines before a header, missing headers.

Blanks are spaces and tabs; a tab that is the delimiter is not a blank.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from dbanon.errors import FileMalformed
from dbanon.job.reading import Reading
from dbanon.sessions.names import quote
from dbanon.stores.duckdb.csv_files import CsvHeader
from dbanon.stores.duckdb.dialect import literal
from dbanon.stores.folders import FileLocation, require_memory

# The number of bytes to read at a time.
_PIECE_BYTES = 2**20
# The number of rows in which DuckDB looks for a header.
_SAMPLE_ROWS = 2048


def _sniff(
    connection: duckdb.DuckDBPyConnection, descriptor: int, delimiter: str = ""
) -> tuple[bool, int]:
    """Detect with DuckDB whether there is a header, and the number of lines before it.

    If DuckDB cannot tell, the first line is taken for the header.

    Parameters
    ----------
    delimiter : the character between fields; empty to let DuckDB detect it.
    """
    delimiter_argument = f", delim = {literal(delimiter)}" if delimiter else ""
    try:
        row = connection.execute(
            f"SELECT HasHeader, SkipRows FROM sniff_csv('/dev/fd/{descriptor}', quote = '\"',"
            f" escape = '\"', comment = '', sample_size = {_SAMPLE_ROWS}{delimiter_argument})"
        ).fetchone()
    except duckdb.Error:
        return True, 0
    if row is None:
        return True, 0
    has_header, n_skipped_lines = row
    return bool(has_header), int(n_skipped_lines)


def require_header(
    connection: duckdb.DuckDBPyConnection,
    descriptor: int,
    path: FileLocation,
    csv_header: CsvHeader,
) -> None:
    """Check that the first line names the columns; raises FileMalformed."""
    has_header, n_skipped_lines = _sniff(connection, descriptor, csv_header.delimiter)
    # If DuckDB skips more lines, it takes the first line for text before the table. Then reading
    # usually fails, and ``add_skip_hint`` explains why.
    if has_header or n_skipped_lines > csv_header.n_skipped_lines:
        return
    raise FileMalformed(
        f"Line {csv_header.n_skipped_lines + 1} of the file {path} looks like a row, not like"
        " column names.",
        hint="If it is one: `header=false`; the columns are column0, column1 and so on. If it names"
        " the columns: `header=true`.",
    )


def add_skip_hint(
    connection: duckdb.DuckDBPyConnection,
    descriptor: int,
    csv_header: CsvHeader,
    error: FileMalformed,
) -> FileMalformed:
    """Add a hint to skip the lines before the header, if there seem to be any."""
    has_header, n_skipped_lines = _sniff(connection, descriptor)
    if has_header and n_skipped_lines > csv_header.n_skipped_lines:
        error.hint = (
            f"The header seems to be in line {n_skipped_lines + 1}: `skip_lines={n_skipped_lines}`."
            f" {error.hint or ''}"
        )
    return error


def has_quotes(descriptor: int) -> bool:
    """Whether a file contains quotes."""
    offset = 0
    while piece := os.pread(descriptor, _PIECE_BYTES, offset):
        if b'"' in piece:
            return True
        offset += len(piece)
    return False


@contextmanager
def strip_blanks(
    descriptor: int, path: FileLocation, csv_header: CsvHeader, memory_bytes: int
) -> Iterator[int]:
    """Copy a file into memory without the blanks around fields; yields the copy's descriptor.

    Blanks within quotes are kept.

    Raises
    ------
    MemoryLimit : this would take more than ``memory_bytes`` bytes.
    FileMalformed : this system has no memory files.
    """
    if sys.platform != "linux":
        raise FileMalformed(
            f"The file {path} has blanks around its quotes, which cannot be removed on this"
            " system.",
            hint="Write the file without blanks around quotes.",
        )
    n_bytes = os.fstat(descriptor).st_size
    # The content is in memory twice: as it was read, and without blanks.
    require_memory(2 * n_bytes, memory_bytes, path)
    content = bytearray()
    while piece := os.pread(descriptor, _PIECE_BYTES, len(content)):
        content += piece
    with os.fdopen(os.memfd_create("dbanon"), "w+b") as memory_file:
        memory_file.write(_field_pattern(csv_header.delimiter).sub(rb"\1\2\3", bytes(content)))
        memory_file.flush()
        yield memory_file.fileno()


def _field_pattern(delimiter: str) -> re.Pattern[bytes]:
    """Match a field with surrounding blanks and its terminator.

    Group 1 is a quoted field, group 2 one without quotes, and group 3 the delimiter or line break
    at the end. The possessive ``*+`` never gives characters back, so that matching takes linear
    time.
    """
    blank, terminator = "[ ]" if delimiter == "\t" else r"[ \t]", re.escape(delimiter)
    return re.compile(
        rf'{blank}*+(?:("(?:[^"]|"")*+")|([^{terminator}\r\n]*?)){blank}*+({terminator}|\r\n|\r|\n|\Z)'.encode()
    )


def read_csv_arguments(csv_header: CsvHeader) -> str:
    """Build arguments of ``read_csv`` that read all columns as text and leave nothing to guess."""
    columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in csv_header.names)
    return (
        f"auto_detect = false, header = {str(csv_header.has_header).lower()},"
        f" skip = {csv_header.n_skipped_lines}, comment = '',"
        f" delim = {literal(csv_header.delimiter)}, quote = '\"', escape = '\"',"
        f" nullstr = '', allow_quoted_nulls = false, columns = {{{columns}}}"
    )


def select_text_columns(csv_header: CsvHeader, reading: Reading, *, trim: bool = False) -> str:
    """Build a SELECT list of the columns as text; the words of ``null_words`` become NULL.

    Parameters
    ----------
    trim : whether to strip blanks; text that consists of blanks becomes NULL.
    """
    if not reading.null_words and not trim:
        return "*"
    words = ", ".join(map(literal, reading.null_words))
    expressions = []
    for name in map(quote, csv_header.names):
        value = f"nullif(trim({name}, ' \t'), '')" if trim else name
        if words:
            value = f"CASE WHEN {value} NOT IN ({words}) THEN {value} END"
        expressions.append(f"{value} AS {name}")
    return ", ".join(expressions)


def blanks_aggregate(csv_header: CsvHeader) -> str:
    """Build an aggregate that is true if any text of the file begins or ends with a blank."""
    conditions = (f"coalesce({_has_blank_end(quote(name))}, false)" for name in csv_header.names)
    return f"coalesce(bool_or({' OR '.join(conditions)}), false)"


def _has_blank_end(name: str) -> str:
    """Build the condition that a text begins or ends with a blank."""
    conditions = (f"{name}[{index}] IN (' ', chr(9))" for index in ("1", "-1"))
    return f"({' OR '.join(conditions)})"


def header_condition(csv_header: CsvHeader) -> str:
    """Build the condition that a row repeats the header, possibly with a byte order mark."""
    (first_name, first_cell), *other_columns = (
        (quote(name), literal(cell) if cell else "NULL")
        for name, cell in zip(csv_header.names, csv_header.cells, strict=True)
    )
    conditions = [f"ltrim({first_name}, chr(65279)) IS NOT DISTINCT FROM {first_cell}"]
    conditions += [f"{name} IS NOT DISTINCT FROM {cell}" for name, cell in other_columns]
    return " AND ".join(conditions)
