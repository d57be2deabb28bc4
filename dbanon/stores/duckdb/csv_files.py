"""CSV files before DuckDB reads them: header, encoding, and the location of errors.

DuckDB guesses unspecified options, renames duplicate columns, and quotes lines in its errors. So
the header is read here, all options are passed to DuckDB, and a rejected file is parsed again to
find the line and the column. Errors never quote a value.
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
from dataclasses import dataclass
from typing import BinaryIO

from dbanon.errors import ColumnsRenamed, FileMalformed, InvalidParameter, warn_caller
from dbanon.job.reading import RENAME, UTF_8, Reading
from dbanon.stores.folders import FileLocation, require_room

# No table of records has more columns, and detecting each column's type takes time.
MAX_COLUMNS = 4096
_DELIMITERS = ",;\t|"
# The sample that determines the delimiter; a header must fit into it.
_SAMPLE_BYTES, _SAMPLE_ROWS = 2**20, 50
_PIECE = 2**20
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
_SINGLE_BYTE = ("latin-1", "windows-1252")
_UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# Lone surrogates, which stand for undecodable bytes, and the replacement character of UTF-16.
_UNDECODABLE = re.compile("[\udc80-\udcff\ufffd]")
_FORM = (
    "CSV has a header, quotes as RFC 4180 has them, and as many values in each row as in the"
    " header."
)


@dataclass(frozen=True)
class CsvHeader:
    """The header of a CSV file.

    Parameters
    ----------
    cells : the header as written.
    names : the column names; an empty one becomes ``column`` and its position.
    skipped : the number of lines before the header that are empty or skipped by option.
    has_header : whether the first line names the columns.
    """

    delimiter: str
    cells: tuple[str, ...]
    names: tuple[str, ...]
    skipped: int
    has_header: bool = True


def read_csv_header(file: BinaryIO, path: FileLocation, reading: Reading) -> CsvHeader:
    """Read the header of an open file, and rewind it.

    Raises
    ------
    FileMalformed : the file has no header, duplicate columns, or too many.
    """
    sample = file.read(_SAMPLE_BYTES)
    file.seek(0)
    _require_mark(sample, path, reading)
    is_complete = len(sample) < _SAMPLE_BYTES
    text = codecs.getincrementaldecoder(_codec(reading))("replace").decode(sample, is_complete)
    if reading.skip_lines:
        lines = _LINE.findall(text)
        if any('"' in line for line in lines[: reading.skip_lines]):
            # DuckDB skips rows, not lines; a quoted row may span several lines.
            raise FileMalformed(
                f"A line before the header of the file {path} has quotes.",
                hint="Remove these lines from the file, and leave out `skip_lines`.",
            )
        text = "".join(lines[reading.skip_lines :])
    read = {mark: _rows(text, mark, is_complete, reading) for mark in _DELIMITERS}
    # Prefer a delimiter that splits the header into columns, and the first rows into as many.
    delimiter = max(_DELIMITERS, key=lambda mark: _column_fit(read[mark][0]))
    rows, skipped = read[delimiter]
    skipped += reading.skip_lines
    if not rows:
        long = "" if is_complete else f", or one of more than {_SAMPLE_BYTES // 2**20} MiB"
        raise FileMalformed(f"The file {path} has no header{long}.", hint=_FORM)
    cells = tuple(cell.strip(" \t") for cell in rows[0]) if reading.trim else tuple(rows[0])
    width = len(str(len(cells) - 1))
    has_header = reading.header is not False
    names = tuple(
        (cell if has_header else "") or f"column{position:0{width}}"
        for position, cell in enumerate(cells)
    )
    if reading.duplicate_columns == RENAME:
        original_names, names = names, _number_duplicates(names)
        renamed = [
            f'"{name}"'
            for name, before in zip(names, original_names, strict=True)
            if name != before
        ]
        if renamed:
            warn_caller(
                ColumnsRenamed(f"Duplicate columns in {path} were renamed: {', '.join(renamed)}.")
            )
    _require_names(names, path, skipped + 1)
    header = CsvHeader(delimiter, cells, names, skipped, has_header)
    if any(map(_UNDECODABLE.search, names)):
        raise malformed_file_error(file, path, reading, header)
    return header


def _codec(reading: Reading) -> str:
    return "utf-8-sig" if reading.encoding == UTF_8 else reading.encoding


def _rows(
    text: str, delimiter: str, is_complete: bool, reading: Reading
) -> tuple[list[list[str]], int]:
    """Return the first rows, and the number of empty lines before them."""
    rows: list[list[str]] = []
    skipped = 0
    # Drop an incomplete last line.
    end = len(text) if is_complete else max(text.rfind("\n"), text.rfind("\r")) + 1
    lines = io.StringIO(text[:end], newline="")
    with suppress(csv.Error):
        for row in csv.reader(lines, delimiter=delimiter, skipinitialspace=reading.trim):
            if row:
                rows.append(row)
            elif not rows:
                skipped += 1
            if len(rows) > _SAMPLE_ROWS or (rows and len(rows[0]) > MAX_COLUMNS):
                break
    return rows, skipped


def _number_duplicates(names: Sequence[str]) -> tuple[str, ...]:
    """Append numbers to repeated names."""
    numbered: list[str] = []
    existing = {name.lower() for name in names}
    seen: set[str] = set()
    for name in names:
        candidate, number = name, 2
        while candidate.lower() in seen or (candidate != name and candidate.lower() in existing):
            candidate, number = f"{name}_{number}", number + 1
        seen.add(candidate.lower())
        numbered.append(candidate)
    return tuple(numbered)


def _column_fit(rows: Sequence[Sequence[str]]) -> tuple[bool, int]:
    wide = len(rows[0]) if rows else 0
    return wide > 1 and all(len(row) == wide for row in rows), wide


def _require_mark(sample: bytes, path: FileLocation, reading: Reading) -> None:
    """Check that a byte order mark matches the declared encoding."""
    mark = UTF_8 if sample.startswith(codecs.BOM_UTF8) else ""
    mark = "utf-16" if sample.startswith(_UTF_16_MARKS) else mark
    if mark and mark != reading.encoding:
        raise FileMalformed(
            f"Line 1 of the file {path} begins with the mark of {mark.upper()}.",
            hint=f'Say `encoding="{mark}"`.',
        )


def _require_names(names: Sequence[str], path: FileLocation, line: int) -> None:
    if len(names) > MAX_COLUMNS:
        raise FileMalformed(
            f"The file {path} has {len(names)} columns, more than {MAX_COLUMNS}.",
            hint="Write a file without the columns that are not needed.",
        )
    seen: dict[str, int] = {}
    for position, name in enumerate(names):
        first = seen.setdefault(name.lower(), position)
        if first != position:
            # The line may be a row of a file without a header, so do not quote it.
            raise FileMalformed(
                f"Line {line} of the file {path} names two columns the same: columns"
                f" {first + 1} and {position + 1}.",
                hint="Rename one of them; capitals make no difference. To number the later ones:"
                ' `duplicate_columns="rename"`. If the first line is a row: `header=false`.',
            )


@contextmanager
def open_as_utf8(
    file: BinaryIO, path: FileLocation, reading: Reading, csv_header: CsvHeader, memory: int
) -> Iterator[int]:
    """Yield the descriptor of a UTF-8 file; other encodings are converted in memory.

    Raises
    ------
    MemoryLimit : the converted file would be larger than ``memory`` bytes.
    FileMalformed : the file is not in the declared encoding.
    """
    # Any bytes are valid in these encodings: UTF-8 would become wrong letters without an error.
    misread = _MaybeUtf8() if reading.encoding in _SINGLE_BYTE else None
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
            while piece := file.read(_PIECE):
                if misread is not None:
                    misread.feed(piece)
                memory_file.write(decoder.decode(piece).encode())
                require_room(memory_file.tell(), memory, path)
            memory_file.write(decoder.decode(b"", True).encode())
        except UnicodeError:
            raise malformed_file_error(file, path, reading, csv_header) from None
        if misread is not None and misread.is_utf8():
            raise FileMalformed(
                f"The file {path} is written in UTF-8, not in {reading.encoding}.",
                hint=f'Say `encoding="{UTF_8}"`.',
            )
        memory_file.flush()
        yield memory_file.fileno()


class _MaybeUtf8:
    """Distinguishes UTF-8 from single-byte encodings.

    Text in the latter is hardly ever valid UTF-8 unless it is ASCII, which is the same in both.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder(UTF_8)()
        self._is_ascii = self._is_valid = True

    def feed(self, piece: bytes, final: bool = False) -> None:
        """Examine the next bytes."""
        self._is_ascii &= piece.isascii()
        if self._is_valid:
            try:
                self._decoder.decode(piece, final)
            except UnicodeDecodeError:
                self._is_valid = False

    def is_utf8(self) -> bool:
        """Whether the bytes are valid UTF-8 and not just ASCII; call it at the end."""
        self.feed(b"", final=True)
        return self._is_valid and not self._is_ascii


def malformed_file_error(
    file: BinaryIO, path: FileLocation, reading: Reading, csv_header: CsvHeader
) -> FileMalformed:
    """Build the error for an unreadable file; names the first bad line and its column."""
    for line, problem, hint in _problems(file, reading, csv_header):
        return FileMalformed(f"Line {line} of the file {path}{problem}", hint=hint)
    return FileMalformed(f"The file {path} is not of the kind that its name says.", hint=_FORM)


def repeated_header_error(
    file: BinaryIO, path: FileLocation, reading: Reading, csv_header: CsvHeader
) -> tuple[FileMalformed, bool]:
    """Build the error for a header among the rows; also returns whether its line was found."""
    where = "A line"
    # DuckDB may accept files that this reader rejects.
    with suppress(csv.Error):
        for line, row in records(file, reading, csv_header):
            cells = [cell.strip(" \t") for cell in row] if reading.trim else row
            if row and (cells[0].lstrip("\ufeff"), *cells[1:]) == csv_header.cells:
                where = f"Line {line}"
                break
    error = FileMalformed(
        f"{where} of the file {path} repeats its header: columns 1 to {len(csv_header.names)}"
        " contain their own names.",
        hint="Files were put one behind the other: remove the line.",
    )
    return error, where != "A line"


def _problems(
    file: BinaryIO, reading: Reading, csv_header: CsvHeader
) -> Iterator[tuple[int, str, str]]:
    wide, line = len(csv_header.names), 0
    try:
        for line, row in records(file, reading, csv_header, header=True):
            for position, cell in enumerate(row):
                if _UNDECODABLE.search(cell) and (
                    "\ufffd" not in cell or reading.encoding == "utf-16"
                ):
                    named = position < wide and not _UNDECODABLE.search(csv_header.names[position])
                    description = f", column {position + 1}" + (
                        f" ({csv_header.names[position]})" if named else ""
                    )
                    yield (
                        line,
                        f"{description}, is not written in {reading.encoding.upper()}.",
                        (
                            "Older programs write Windows-1252 or Latin-1: say"
                            ' `encoding="windows-1252"`, or write the file in UTF-8.'
                        ),
                    )
            if row and len(row) != wide:
                yield line, f" has {len(row)} values, and the header {wide}.", _FORM
    except csv.Error:
        yield line + 1, " begins a row whose quotes are not closed as they must be.", _FORM


def records(
    file: BinaryIO, reading: Reading, csv_header: CsvHeader, *, header: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a file, each with the number of its first line.

    Parameters
    ----------
    header : whether to yield the header, too.
    """
    file.seek(0)
    errors = "replace" if reading.encoding == "utf-16" else "surrogateescape"
    text = io.TextIOWrapper(file, _codec(reading), errors=errors, newline="")
    try:
        for _ in range(reading.skip_lines):
            text.readline()
        rows = csv.reader(
            text, delimiter=csv_header.delimiter, strict=True, skipinitialspace=reading.trim
        )
        line, first = 1 + reading.skip_lines, not header and csv_header.has_header
        for row in rows:
            if row and first:
                first = False
            else:
                yield line, row
            line = rows.line_num + 1 + reading.skip_lines
    finally:
        # Leave the file open for the caller.
        text.detach()
