"""Preparation of CSV files for DuckDB: header, encoding, and the location of errors.

DuckDB guesses options that are not specified, renames duplicate columns, and quotes lines in its
errors. So this module reads the header, and DuckDB gets all options. If DuckDB rejects a file, the
file is parsed again here to find the line and the column. Errors never quote a value.
"""

from __future__ import annotations

import codecs
import csv
import io
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import BinaryIO

from dbanon.errors import ColumnsRenamed, FileMalformed, InvalidParameter, warn_caller
from dbanon.job.reading import RENAME, UTF_8, Reading
from dbanon.stores.folders import FileLocation, require_memory

# Inferring types takes time per column, and no table of persons has more columns.
MAX_COLUMNS = 4096
_DELIMITERS = ",;\t|"
# How many bytes and rows at the start of a file are examined to find the delimiter. The header must
# fit into these bytes.
_SAMPLE_BYTES, _SAMPLE_ROWS = 2**20, 50
# The number of bytes to convert at a time.
_PIECE_BYTES = 2**20
# A line with its line break, or the last line without one.
_LINE_PATTERN = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
_SINGLE_BYTE_ENCODINGS = ("latin-1", "windows-1252")
_UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# What undecodable bytes are decoded to: lone surrogates, or the replacement character in UTF-16.
# In other encodings the replacement character is text.
_UNDECODABLE = re.compile("[\udc80-\udcff\ufffd]")
_CSV_RULES = (
    "A CSV file needs a header, quotes as in RFC 4180, and as many values in each row as in the"
    " header."
)


@dataclass(frozen=True)
class CsvHeader:
    """The header of a CSV file.

    Parameters
    ----------
    cells : the values of the header line, as written.
    names : the column names; an empty name becomes ``column`` and its position.
    n_skipped_lines : the number of lines before the header that are empty or skipped by option.
    has_header : whether the first line names the columns.
    """

    delimiter: str
    cells: tuple[str, ...]
    names: tuple[str, ...]
    n_skipped_lines: int
    has_header: bool = True


def read_csv_header(file: BinaryIO, path: FileLocation, reading: Reading) -> CsvHeader:
    """Read the header of an open file, and rewind the file.

    Raises
    ------
    FileMalformed : the file has no header, duplicate columns, or too many.
    """
    sample = file.read(_SAMPLE_BYTES)
    file.seek(0)
    _require_byte_order_mark(sample, path, reading)
    is_complete = len(sample) < _SAMPLE_BYTES
    decoder = codecs.getincrementaldecoder(_codec(reading))(_decoding_errors(reading))
    text = decoder.decode(sample, is_complete)
    if reading.skip_lines:
        lines = _LINE_PATTERN.findall(text)
        if any('"' in line for line in lines[: reading.skip_lines]):
            # DuckDB skips rows and not lines, and a quoted row may span several lines.
            raise FileMalformed(
                f"A line before the header of the file {path} has quotes.",
                hint="Remove these lines from the file, and leave out `skip_lines`.",
            )
        text = "".join(lines[reading.skip_lines :])
    rows_by_delimiter = {
        candidate: _sample_rows(text, candidate, is_complete, reading) for candidate in _DELIMITERS
    }
    # Prefer the delimiter with which all rows have equally many columns, and as many as possible.
    delimiter = max(_DELIMITERS, key=lambda candidate: _column_fit(rows_by_delimiter[candidate][0]))
    rows, n_skipped_lines = rows_by_delimiter[delimiter]
    n_skipped_lines += reading.skip_lines
    if not rows:
        length_note = "" if is_complete else f", or one of more than {_SAMPLE_BYTES // 2**20} MiB"
        raise FileMalformed(f"The file {path} has no header{length_note}.", hint=_CSV_RULES)
    cells = tuple(cell.strip(" \t") for cell in rows[0]) if reading.trim else tuple(rows[0])
    n_digits = len(str(len(cells) - 1))
    # If the option is None, ``require_header`` checks later whether the first line is a header.
    has_header = reading.header is not False
    names = tuple(
        (cell if has_header else "") or f"column{position:0{n_digits}}"
        for position, cell in enumerate(cells)
    )
    header = CsvHeader(delimiter, cells, names, n_skipped_lines, has_header)
    if any(_is_undecodable(name, reading) for name in names):
        raise malformed_file_error(file, path, reading, header)
    if reading.duplicate_columns == RENAME:
        original_names, names = names, _number_duplicates(names)
        renamed_columns = [
            f'"{name}"'
            for name, original_name in zip(names, original_names, strict=True)
            if name != original_name
        ]
        if renamed_columns:
            warn_caller(
                ColumnsRenamed(
                    f"Duplicate columns in {path} were renamed: {', '.join(renamed_columns)}."
                )
            )
    _require_names(names, path, header_line=n_skipped_lines + 1)
    return replace(header, names=names)


def _decoding_errors(reading: Reading) -> str:
    """Return how Python decodes bytes that are no characters; see ``_UNDECODABLE``."""
    return "replace" if reading.encoding == "utf-16" else "surrogateescape"


def _is_undecodable(text: str, reading: Reading) -> bool:
    """True if a text has bytes that are not characters of the file's encoding."""
    return any(
        character != "\ufffd" or reading.encoding == "utf-16"
        for character in _UNDECODABLE.findall(text)
    )


def _codec(reading: Reading) -> str:
    """Return the name of Python's codec, which skips a byte order mark."""
    return "utf-8-sig" if reading.encoding == UTF_8 else reading.encoding


def _sample_rows(
    text: str, delimiter: str, is_complete: bool, reading: Reading
) -> tuple[list[list[str]], int]:
    """Return the first rows of a text, and the number of empty lines before them.

    Parameters
    ----------
    is_complete : whether the text is the whole file; otherwise its last line may be cut off.
    """
    rows: list[list[str]] = []
    n_skipped_lines = 0
    # Drop an incomplete last line.
    end = len(text) if is_complete else max(text.rfind("\n"), text.rfind("\r")) + 1
    lines = io.StringIO(text[:end], newline="")
    with suppress(csv.Error):
        for row in csv.reader(lines, delimiter=delimiter, skipinitialspace=reading.trim):
            if row:
                rows.append(row)
            elif not rows:
                n_skipped_lines += 1
            if len(rows) > _SAMPLE_ROWS or (rows and len(rows[0]) > MAX_COLUMNS):
                break
    return rows, n_skipped_lines


def _number_duplicates(names: Sequence[str]) -> tuple[str, ...]:
    """Append numbers to repeated names; names that differ only in case count as repeated."""
    numbered_names: list[str] = []
    lower_names = {name.lower() for name in names}
    seen_names: set[str] = set()
    for name in names:
        candidate, suffix = name, 2
        while candidate.lower() in seen_names or (
            candidate != name and candidate.lower() in lower_names
        ):
            candidate, suffix = f"{name}_{suffix}", suffix + 1
        seen_names.add(candidate.lower())
        numbered_names.append(candidate)
    return tuple(numbered_names)


def _column_fit(rows: Sequence[Sequence[str]]) -> tuple[bool, int]:
    """Rate a delimiter by the rows that it yields.

    Returns whether all rows have the same number of columns, at least two, and the number of
    columns of the first row. The best delimiter has the largest pair.
    """
    n_columns = len(rows[0]) if rows else 0
    return n_columns > 1 and all(len(row) == n_columns for row in rows), n_columns


def _require_byte_order_mark(sample: bytes, path: FileLocation, reading: Reading) -> None:
    """Check that a byte order mark matches the declared encoding."""
    marked_encoding = UTF_8 if sample.startswith(codecs.BOM_UTF8) else ""
    marked_encoding = "utf-16" if sample.startswith(_UTF_16_MARKS) else marked_encoding
    if marked_encoding and marked_encoding != reading.encoding:
        raise FileMalformed(
            f"Line 1 of the file {path} begins with the byte order mark of"
            f" {marked_encoding.upper()}.",
            hint=f'Say `encoding="{marked_encoding}"`.',
        )


def _require_names(names: Sequence[str], path: FileLocation, header_line: int) -> None:
    """Check the number and uniqueness of column names; ``header_line`` counts from 1."""
    if len(names) > MAX_COLUMNS:
        raise FileMalformed(
            f"The file {path} has {len(names)} columns, more than {MAX_COLUMNS}.",
            hint="Write a file without the columns that are not needed.",
        )
    position_by_name: dict[str, int] = {}
    for position, name in enumerate(names):
        first_position = position_by_name.setdefault(name.lower(), position)
        if first_position != position:
            # The line may be a row of a file without a header, so do not quote it.
            raise FileMalformed(
                f"Line {header_line} of the file {path} names two columns the same: columns"
                f" {first_position + 1} and {position + 1}.",
                hint="Rename one of them; capitals make no difference. To number the later ones:"
                ' `duplicate_columns="rename"`. If the first line is a row: `header=false`.',
            )


@contextmanager
def open_as_utf8(
    file: BinaryIO, path: FileLocation, reading: Reading, csv_header: CsvHeader, memory_bytes: int
) -> Iterator[int]:
    """Yield a file descriptor that reads the file as UTF-8; convert other encodings in memory.

    Parameters
    ----------
    csv_header : the header of the file, to locate undecodable bytes for the error.

    Raises
    ------
    MemoryLimit : the converted file would be larger than ``memory_bytes`` bytes.
    FileMalformed : the file is not in the declared encoding.
    """
    # In a single-byte encoding nearly all bytes are valid, so a UTF-8 file would be read as wrong
    # letters without an error. Look for UTF-8, to refuse such a file.
    utf8_detector = _Utf8Detector() if reading.encoding in _SINGLE_BYTE_ENCODINGS else None
    if reading.encoding == UTF_8:
        yield file.fileno()
        return
    if sys.platform != "linux":
        raise InvalidParameter(
            "Only UTF-8 files can be read on this system.", hint="Write the file in UTF-8."
        )
    decoder = codecs.getincrementaldecoder(_codec(reading))()
    with os.fdopen(os.memfd_create("dbanon"), "w+b") as memory_file:
        try:
            while piece := file.read(_PIECE_BYTES):
                if utf8_detector is not None:
                    utf8_detector.feed(piece)
                memory_file.write(decoder.decode(piece).encode())
                require_memory(memory_file.tell(), memory_bytes, path)
            memory_file.write(decoder.decode(b"", True).encode())
        except UnicodeError:
            raise malformed_file_error(file, path, reading, csv_header) from None
        if utf8_detector is not None and utf8_detector.is_utf8():
            raise FileMalformed(
                f"The file {path} is written in UTF-8, not in {reading.encoding}.",
                hint=f'Say `encoding="{UTF_8}"`.',
            )
        memory_file.flush()
        yield memory_file.fileno()


class _Utf8Detector:
    """Detects UTF-8 in a file that is declared to have a single-byte encoding.

    Text in such an encoding is hardly ever valid UTF-8, unless it is ASCII.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder(UTF_8)()
        self._is_ascii = self._is_valid = True

    def feed(self, piece: bytes, is_last: bool = False) -> None:
        """Examine the next bytes."""
        self._is_ascii &= piece.isascii()
        if self._is_valid:
            try:
                self._decoder.decode(piece, is_last)
            except UnicodeDecodeError:
                self._is_valid = False

    def is_utf8(self) -> bool:
        """Whether the bytes are valid UTF-8 and not just ASCII; call it at the end."""
        self.feed(b"", is_last=True)
        return self._is_valid and not self._is_ascii


def malformed_file_error(
    file: BinaryIO, path: FileLocation, reading: Reading, csv_header: CsvHeader
) -> FileMalformed:
    """Build the error for an unreadable file; names the first bad line and its column."""
    for line, problem, hint in _find_problems(file, reading, csv_header):
        return FileMalformed(f"Line {line} of the file {path}{problem}", hint=hint)
    return FileMalformed(f"The file {path} is not of the kind that its name says.", hint=_CSV_RULES)


def repeated_header_error(
    file: BinaryIO, path: FileLocation, reading: Reading, csv_header: CsvHeader
) -> tuple[FileMalformed, bool]:
    """Build the error for a row that repeats the header, after the row was found in SQL.

    Also returns whether the row was found again in this file, so that the error has its line.
    """
    is_line_known, location = False, "A line"
    # DuckDB may accept files that Python's reader rejects.
    with suppress(csv.Error):
        for line, row in read_records(file, reading, csv_header):
            cells = [cell.strip(" \t") for cell in row] if reading.trim else row
            # The file that was appended may begin with a byte order mark.
            if row and (cells[0].lstrip("\ufeff"), *cells[1:]) == csv_header.cells:
                is_line_known, location = True, f"Line {line}"
                break
    error = FileMalformed(
        f"{location} of the file {path} repeats its header: columns 1 to {len(csv_header.names)}"
        " contain their own names.",
        hint="Files were concatenated with their headers: remove this line.",
    )
    return error, is_line_known


def _find_problems(
    file: BinaryIO, reading: Reading, csv_header: CsvHeader
) -> Iterator[tuple[int, str, str]]:
    """Yield a line number, a problem and a hint for each invalid value or row.

    The problem continues the sentence "Line 5 of the file people.csv…".
    """
    n_columns, line = len(csv_header.names), 0
    try:
        for line, row in read_records(file, reading, csv_header, includes_header=True):
            for position, cell in enumerate(row):
                if _is_undecodable(cell, reading):
                    has_readable_name = position < n_columns and not _is_undecodable(
                        csv_header.names[position], reading
                    )
                    description = f", column {position + 1}" + (
                        f" ({csv_header.names[position]})" if has_readable_name else ""
                    )
                    yield (
                        line,
                        f"{description}, is not written in {reading.encoding.upper()}.",
                        (
                            "Older programs write Windows-1252 or Latin-1: say"
                            ' `encoding="windows-1252"`, or write the file in UTF-8.'
                        ),
                    )
            if row and len(row) != n_columns:
                yield line, f" has {len(row)} values, and the header {n_columns}.", _CSV_RULES
    except csv.Error:
        yield line + 1, " begins a row with quotes that are not closed properly.", _CSV_RULES


def read_records(
    file: BinaryIO, reading: Reading, csv_header: CsvHeader, *, includes_header: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a file, each with the number of its first line.

    Parameters
    ----------
    includes_header : whether to yield the header, too.
    """
    file.seek(0)
    errors = _decoding_errors(reading)
    text = io.TextIOWrapper(file, _codec(reading), errors=errors, newline="")
    try:
        for _ in range(reading.skip_lines):
            text.readline()
        rows = csv.reader(
            text, delimiter=csv_header.delimiter, strict=True, skipinitialspace=reading.trim
        )
        line, skip_header = 1 + reading.skip_lines, not includes_header and csv_header.has_header
        for row in rows:
            if row and skip_header:
                skip_header = False
            else:
                yield line, row
            line = rows.line_num + 1 + reading.skip_lines
    finally:
        # Without this, closing ``text`` would close the file.
        text.detach()
