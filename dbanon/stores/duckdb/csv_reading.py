"""CSV files on their way into DuckDB: blanks around fields, lines before a header, no header."""

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
from dbanon.stores.duckdb.csv_files import Head
from dbanon.stores.duckdb.dialect import literal
from dbanon.stores.folders import Place, require_room

_PIECE = 2**20
# Rows that DuckDB looks at to tell a header.
_SNIFFED_ROWS = 2048


def _sniffed(
    connection: duckdb.DuckDBPyConnection, number: int, delimiter: str = ""
) -> tuple[bool, int]:
    """Whether the first line is a header, and the lines before it, as DuckDB sees them."""
    more = f", delim = {literal(delimiter)}" if delimiter else ""
    try:
        found = connection.execute(
            f"SELECT HasHeader, SkipRows FROM sniff_csv('/dev/fd/{number}', quote = '\"',"
            f" escape = '\"', comment = '', sample_size = {_SNIFFED_ROWS}{more})"
        ).fetchone()
    except duckdb.Error:
        return True, 0
    return (True, 0) if found is None else (bool(found[0]), int(found[1]))


def require_header(
    connection: duckdb.DuckDBPyConnection, number: int, path: Place, head: Head
) -> None:
    """Check that the first line names the columns; raises FileMalformed."""
    has_header, skipped = _sniffed(connection, number, head.delimiter)
    if has_header or skipped > head.skipped:
        return
    raise FileMalformed(
        f"Line {head.skipped + 1} of the file {path} looks like a row, not like names of columns.",
        hint="If it is one: `header=false`; the columns are column0, column1 and so on. If it names"
        " the columns: `header=true`.",
    )


def with_skip_hint(
    connection: duckdb.DuckDBPyConnection, number: int, head: Head, error: FileMalformed
) -> FileMalformed:
    """The error; with the hint to skip the lines before the header, if there seem to be any."""
    has_header, skipped = _sniffed(connection, number)
    if has_header and skipped > head.skipped:
        error.hint = (
            f"The header seems to be in line {skipped + 1}: `skip_lines={skipped}`."
            f" {error.hint or ''}"
        )
    return error


def has_quotes(number: int) -> bool:
    """Whether a file has quotes anywhere."""
    offset = 0
    while piece := os.pread(number, _PIECE, offset):
        if b'"' in piece:
            return True
        offset += len(piece)
    return False


@contextmanager
def without_blanks(number: int, path: Place, head: Head, memory: int) -> Iterator[int]:
    """The number of a file with the same fields, without the blanks around them, in memory.

    Blanks within quotes stay.

    Raises
    ------
    MemoryLimit : it would take more bytes there than ``memory``.
    FileMalformed : this system has no files in memory.
    """
    if sys.platform != "linux":
        raise FileMalformed(
            f"The file {path} has blanks around its quotes, which this system cannot remove.",
            hint="Write it without them.",
        )
    size = os.fstat(number).st_size
    require_room(2 * size, memory, path)
    text = bytearray()
    while piece := os.pread(number, _PIECE, len(text)):
        text += piece
    with os.fdopen(os.memfd_create("dbanon"), "w+b") as held:
        held.write(_fields_of(head.delimiter).sub(rb"\1\2\3", bytes(text)))
        held.flush()
        yield held.fileno()


def _fields_of(delimiter: str) -> re.Pattern[bytes]:
    """A field with the blanks around it: quoted, or not, and what ends it."""
    blank, end = "[ ]" if delimiter == "\t" else r"[ \t]", re.escape(delimiter)
    return re.compile(
        rf'{blank}*+(?:("(?:[^"]|"")*+")|([^{end}\r\n]*?)){blank}*+({end}|\r\n|\r|\n|\Z)'.encode()
    )


def read_arguments(head: Head) -> str:
    """The arguments of DuckDB's ``read_csv``, which has nothing to guess then: all as texts."""
    columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in head.names)
    return (
        f"auto_detect = false, header = {str(head.has_header).lower()}, skip = {head.skipped},"
        " comment = '',"
        f" delim = {literal(head.delimiter)}, quote = '\"', escape = '\"',"
        f" nullstr = '', allow_quoted_nulls = false, columns = {{{columns}}}"
    )


def known_texts(head: Head, reading: Reading, *, trim: bool = False) -> str:
    """The columns as they are read, NULL where a word stands for it.

    Parameters
    ----------
    trim : without blanks around them; what is nothing but blanks is NULL.
    """
    if not reading.null_words and not trim:
        return "*"
    words = ", ".join(map(literal, reading.null_words))
    found = []
    for name in map(quote, head.names):
        value = f"nullif(trim({name}, ' \t'), '')" if trim else name
        if words:
            value = f"CASE WHEN {value} NOT IN ({words}) THEN {value} END"
        found.append(f"{value} AS {name}")
    return ", ".join(found)


def has_blanks(head: Head) -> str:
    """Whether a text has blanks around it, as an expression of an aggregate."""
    conditions = (f"coalesce({_blank(quote(name))}, false)" for name in head.names)
    return f"coalesce(bool_or({' OR '.join(conditions)}), false)"


def _blank(name: str) -> str:
    ends = (f"{name}[{place}] IN (' ', chr(9))" for place in ("1", "-1"))
    return f"({' OR '.join(ends)})"


def is_header(head: Head) -> str:
    """True of a row that is the header again, as a condition; with the mark of its file, too."""
    first, *others = (
        (quote(name), literal(cell) if cell else "NULL")
        for name, cell in zip(head.names, head.cells, strict=True)
    )
    conditions = [f"ltrim({first[0]}, chr(65279)) IS NOT DISTINCT FROM {first[1]}"]
    conditions += [f"{name} IS NOT DISTINCT FROM {cell}" for name, cell in others]
    return " AND ".join(conditions)
