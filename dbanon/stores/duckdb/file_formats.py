"""Conversion of compressed CSV files and spreadsheets to uncompressed CSV in memory."""

from __future__ import annotations

import csv
import gzip
import io
import os
import sys
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, time
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO

from dbanon.data.files import XLSX
from dbanon.errors import FileMalformed, InvalidParameter, MissingDependency
from dbanon.stores.duckdb.file_memory import estimate_workbook_bytes
from dbanon.stores.folders import COMPRESSED_ENDINGS, GZIP

if TYPE_CHECKING:
    from python_calamine import CalamineWorkbook

# The number of bytes to decompress at a time.
_PIECE_BYTES = 2**20
# The number of rows after which the size of a converted sheet is checked.
_ROWS_PER_CHECK = 4096
# The first bytes of .xls files, and of .xlsx files with a password.
_OLE_SIGNATURE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
# The exceptions that libraries raise for files that are truncated, have a password, or have the
# ending of another format.
_UNREADABLE_ERRORS = (
    EOFError,
    gzip.BadGzipFile,
    zlib.error,
    OSError,
    zipfile.BadZipFile,
    NotImplementedError,
    RuntimeError,
)


class TooLarge(Exception):
    """A file needs more memory than allowed.

    Parameters
    ----------
    needed_bytes : the least memory that the file needs.
    """

    def __init__(self, needed_bytes: int) -> None:
        super().__init__(needed_bytes)
        self.needed_bytes = needed_bytes


@contextmanager
def open_as_csv(
    file: BinaryIO, name: str, sheet: str | None, memory_bytes: int
) -> Iterator[BinaryIO]:
    """Yield the rows as an uncompressed CSV file: the file itself, or one in memory.

    Parameters
    ----------
    name : the file name, which determines the format; used in messages, too.
    sheet : the sheet of a spreadsheet; None for the only one with rows.
    memory_bytes : the memory limit.

    Raises
    ------
    TooLarge : the file needs more memory.
    FileMalformed : the contents do not match the name.
    InvalidParameter : the sheet does not exist, or several have rows.
    MissingDependency : the package that reads the format is not installed.
    """
    path = PurePosixPath(name.lower())
    if path.suffix not in (*COMPRESSED_ENDINGS, f".{XLSX}"):
        yield file
        return
    if sys.platform != "linux":
        raise InvalidParameter(
            "Compressed files and spreadsheets cannot be read on this system.",
            hint="Write the file as .csv, not compressed.",
        )
    with os.fdopen(os.memfd_create("dbanon"), "w+b") as memory_file:
        try:
            if path.suffix == f".{XLSX}":
                _require_memory(os.fstat(file.fileno()).st_size, memory_bytes)
                if file.read(len(_OLE_SIGNATURE)) == _OLE_SIGNATURE:
                    raise _not_a_workbook_error(name, "OLE")
                _require_memory(estimate_workbook_bytes(file, memory_bytes), memory_bytes)
                file.seek(0)
                _write_sheet(file, name, sheet, memory_file, memory_bytes)
            else:
                _decompress(file, path.suffix, memory_file, memory_bytes)
        except _UNREADABLE_ERRORS as error:
            raise FileMalformed(
                f"The file {name} is not of the kind that its name says.",
                detail=type(error).__name__,
                hint="It may be truncated: write it again.",
            ) from None
        memory_file.seek(0)
        yield memory_file


def _not_a_workbook_error(name: str, detail: str) -> FileMalformed:
    """The error for a file that is not an .xlsx file, or has a password."""
    return FileMalformed(
        f"The file {name} is not of the kind that its name says.",
        detail=detail,
        hint="Save the workbook as .xlsx, without a password, or as .csv.",
    )


def _require_memory(needed_bytes: int, memory_bytes: int) -> None:
    """Check that this much memory is allowed; raises TooLarge."""
    if needed_bytes > memory_bytes:
        raise TooLarge(needed_bytes)


def _decompress(file: BinaryIO, ending: str, memory_file: BinaryIO, memory_bytes: int) -> None:
    """Decompress a .gz or .zst file into ``memory_file``; raises TooLarge."""
    if ending == GZIP:
        decompressed: Any = gzip.GzipFile(fileobj=file)
    else:
        import pyarrow as pa

        decompressed = pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd")
    while piece := decompressed.read(_PIECE_BYTES):
        memory_file.write(piece)
        _require_memory(memory_file.tell(), memory_bytes)


def _write_sheet(
    file: BinaryIO, name: str, sheet: str | None, memory_file: BinaryIO, memory_bytes: int
) -> None:
    """Write a sheet of a workbook as CSV into ``memory_file``.

    Raises the same errors as ``open_as_csv``.
    """
    try:
        import python_calamine as calamine
    except ModuleNotFoundError:
        raise MissingDependency.of_extra(".xlsx", "python-calamine", "xlsx") from None
    try:
        book = calamine.load_workbook(io.BytesIO(file.read()))
        if sheet is None:
            rows = _rows_of_only_sheet(book, name)
        elif sheet in book.sheet_names:
            rows = book.get_sheet_by_name(sheet).to_python()
        else:
            hint = _sheet_hint(book.sheet_names)
            raise InvalidParameter(f'The file {name} has no sheet "{sheet}".', hint=hint)
    except calamine.CalamineError as error:
        raise _not_a_workbook_error(name, type(error).__name__) from None
    text = io.TextIOWrapper(memory_file, "utf-8", newline="", write_through=True)
    try:
        writer = csv.writer(text, lineterminator="\n")
        for row_index, row in enumerate(rows):
            cells = [*map(_cell_to_text, row)]
            if any(cells):
                writer.writerow(cells)
            else:
                # Keep the line numbers of the sheet; the writer would write only commas.
                text.write("\n")
            if row_index % _ROWS_PER_CHECK == 0:
                _require_memory(memory_file.tell(), memory_bytes)
    finally:
        # Without this, closing ``text`` would close the file.
        text.detach()
    _require_memory(memory_file.tell(), memory_bytes)


def _rows_of_only_sheet(book: CalamineWorkbook, name: str) -> Sequence[Sequence[object]]:
    """Read the only sheet that has rows; only one sheet at a time is in memory.

    Raises
    ------
    InvalidParameter : several sheets have rows.
    """
    names_with_rows = [
        sheet_name for sheet_name in book.sheet_names if book.get_sheet_by_name(sheet_name).height
    ]
    if len(names_with_rows) > 1:
        raise InvalidParameter(
            f"The file {name} has several sheets.", hint=_sheet_hint(names_with_rows)
        )
    return (
        [] if not names_with_rows else list(book.get_sheet_by_name(names_with_rows[0]).to_python())
    )


def _sheet_hint(names: Sequence[str]) -> str:
    """A hint that lists the options for choosing one of these sheets."""
    return "Name one: " + ", or ".join(f'`sheet="{name}"`' for name in names) + "."


def _cell_to_text(value: object) -> str:
    """Convert a value to text that can be read in only one way."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        # Spreadsheets display 15 significant digits.
        text = f"{value:.15g}"
        # With three decimals, the point could be read as a thousands separator.
        return text + "0" if len(text.partition(".")[2]) == 3 and "e" not in text else text
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, (date, time)):
        return value.isoformat()
    return str(value)
