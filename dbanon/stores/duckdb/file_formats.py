"""Conversion of compressed row files and spreadsheets to plain CSV in memory."""

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
from typing import Any, BinaryIO

from dbanon.errors import FileMalformed, InvalidParameter, MissingDependency
from dbanon.stores.duckdb.file_memory import memory_of_workbook
from dbanon.stores.folders import GZIP, PACKED, XLSX

# Bytes that are decompressed at a time.
_PIECE = 2**20
# Rows of a sheet between two checks of its size.
_ROWS = 4096
# The magic number of .xls files, and of .xlsx files with a password.
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
# Exceptions for files with a wrong ending, truncated files, and files with a password.
_NOT_READ = (
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
    needed : the minimum memory in bytes.
    """

    def __init__(self, needed: int) -> None:
        super().__init__(needed)
        self.needed = needed


@contextmanager
def plain_csv(file: BinaryIO, name: str, sheet: str | None, memory: int) -> Iterator[BinaryIO]:
    """Yield plain CSV with a file descriptor: the file itself, or a memory file.

    Parameters
    ----------
    name : the file name, which determines the format; used in messages, too.
    sheet : the sheet of a spreadsheet; None for the only one with rows.
    memory : the memory limit in bytes.

    Raises
    ------
    TooLarge : the file needs more memory.
    FileMalformed : the contents do not match the name.
    InvalidParameter : the sheet does not exist, or several have rows.
    MissingDependency : the package that reads the format is not installed.
    """
    path = PurePosixPath(name.lower())
    if path.suffix not in (*PACKED, f".{XLSX}"):
        yield file
        return
    if sys.platform != "linux":
        raise InvalidParameter(
            "Compressed files and spreadsheets cannot be read on this system.",
            hint="Write the file as .csv, not packed.",
        )
    with os.fdopen(os.memfd_create("dbanon"), "w+b") as memory_file:
        try:
            if path.suffix == f".{XLSX}":
                _require_room(os.fstat(file.fileno()).st_size, memory)
                if file.read(len(_OLE)) == _OLE:
                    raise _not_a_workbook(name, "OLE")
                _require_room(memory_of_workbook(file, memory), memory)
                file.seek(0)
                _write_sheet(file, name, sheet, memory_file, memory)
            else:
                _unpack(file, path.suffix, memory_file, memory)
        except _NOT_READ as error:
            raise FileMalformed(
                f"The file {name} is not of the kind that its name says.",
                detail=type(error).__name__,
                hint="It may be cut off: write it anew.",
            ) from None
        memory_file.seek(0)
        yield memory_file


def _not_a_workbook(name: str, detail: str) -> FileMalformed:
    return FileMalformed(
        f"The file {name} is not of the kind that its name says.",
        detail=detail,
        hint="Save the workbook as .xlsx, without a password, or as .csv.",
    )


def _require_room(needed: int, memory: int) -> None:
    if needed > memory:
        raise TooLarge(needed)


def _unpack(file: BinaryIO, ending: str, memory_file: BinaryIO, memory: int) -> None:
    if ending == GZIP:
        packed: Any = gzip.GzipFile(fileobj=file)
    else:
        import pyarrow as pa

        packed = pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd")
    while piece := packed.read(_PIECE):
        memory_file.write(piece)
        _require_room(memory_file.tell(), memory)


def _write_sheet(
    file: BinaryIO, name: str, sheet: str | None, memory_file: BinaryIO, memory: int
) -> None:
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
        raise _not_a_workbook(name, type(error).__name__) from None
    text = io.TextIOWrapper(memory_file, "utf-8", newline="", write_through=True)
    try:
        writer = csv.writer(text, lineterminator="\n")
        for number, row in enumerate(rows):
            cells = [*map(_cell, row)]
            if any(cells):
                writer.writerow(cells)
            else:
                text.write("\n")
            if number % _ROWS == 0:
                _require_room(memory_file.tell(), memory)
    finally:
        # Leave the file open for the caller.
        text.detach()
    _require_room(memory_file.tell(), memory)


def _rows_of_only_sheet(book: Any, name: str) -> list[list[Any]]:
    """Read the only sheet that has rows; one sheet at a time is in memory.

    Raises
    ------
    InvalidParameter : several sheets have rows.
    """
    filled = [
        sheet_name for sheet_name in book.sheet_names if book.get_sheet_by_name(sheet_name).height
    ]
    if len(filled) > 1:
        raise InvalidParameter(f"The file {name} has several sheets.", hint=_sheet_hint(filled))
    return [] if not filled else list(book.get_sheet_by_name(filled[0]).to_python())


def _sheet_hint(names: Sequence[str]) -> str:
    return "Name one: " + ", or ".join(f'`sheet="{name}"`' for name in names) + "."


def _cell(value: Any) -> str:
    """Write a value for CSV so that it has only one reading."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        text = f"{value:.15g}"
        # With three decimals, the point could be read as a thousands separator.
        return text + "0" if len(text.partition(".")[2]) == 3 and "e" not in text else text
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, (date, time)):
        return value.isoformat()
    return str(value)
