"""Memory estimates for spreadsheets, made before the library reads them.

A workbook is an archive. Its directory declares the unpacked size of each part, and unpacking stops
there. The library then allocates a grid from a sheet's first used cell to its last one, even if all
cells between are empty, and copies a shared text for each cell. So a small file can need a lot.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

WORKBOOK = "xl/workbook.xml"

_PIECE = 2**20
# Bytes of a grid cell, and of a cell that was read.
_GRID_BYTES, _CELL_BYTES = 32, 64
# An attribute's value may look like the end of the tag, or like another attribute.
_ATTRIBUTES = rb"""([^>"']*(?:"[^"]*"[^>"']*|'[^']*'[^>"']*)*)>"""
_OF_SHEET = re.compile(rb"<(?:\w+:)?(row|c|v)\b" + _ATTRIBUTES + rb"\s*([0-9]*)")
_OF_TEXTS = re.compile(rb"<(?:\w+:)?(si|/si)\b" + _ATTRIBUTES)
# The usual start of a cell.
_USUAL_CELL = re.compile(rb' r="([A-Z]{1,3})([0-9]{1,7})"')
_ATTRIBUTE = re.compile(rb"""([^\s=]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_REFERENCE = re.compile(rb"([A-Za-z]{1,4})([0-9]{1,9})")
# The maximum length of a tag in a workbook.
_LONGEST_TAG = 2**16


@dataclass
class _Grid:
    """The extent of a sheet, updated cell by cell."""

    first_row: int | None = None
    last_row: int = 0
    first_column: int | None = None
    last_column: int = 0
    cells: int = 0
    text_bytes: int = 0
    row: int = -1
    column: int = -1

    def begin_row(self, attributes: bytes) -> None:
        number = _attribute(attributes, b"r").strip()[:9]
        self.row = int(number) - 1 if number.isdigit() else self.row + 1
        self.column = -1

    def add_cell(self, attributes: bytes) -> None:
        reference = _USUAL_CELL.match(attributes)
        if reference is None and attributes:
            reference = _REFERENCE.match(_attribute(attributes, b"r").strip())
        if reference:
            self.column, self.row = _column_number(reference[1]), int(reference[2]) - 1
        else:
            self.column += 1
            self.row = max(self.row, 0)
        self.cells += 1
        self.first_row = self.row if self.first_row is None else min(self.first_row, self.row)
        self.last_row = max(self.last_row, self.row)
        first = self.first_column
        self.first_column = self.column if first is None else min(first, self.column)
        self.last_column = max(self.last_column, self.column)

    @property
    def needed(self) -> int:
        """The bytes of the grid with its texts."""
        if self.first_row is None or self.first_column is None:
            return 0
        height = self.last_row - self.first_row + 1
        width = self.last_column - self.first_column + 1
        return height * width * _GRID_BYTES + self.cells * _CELL_BYTES + self.text_bytes


@dataclass
class _Texts:
    """The lengths of the shared texts in bytes, and the start of the current one."""

    lengths: list[int] = field(default_factory=list)
    begin: int | None = None


def memory_of_workbook(file: BinaryIO, most: int) -> int:
    """Estimate the bytes of a workbook: unpacked, or in memory if that is more.

    Parameters
    ----------
    most : the limit; reading stops as soon as it is exceeded.

    Raises
    ------
    zipfile.BadZipFile, NotImplementedError, RuntimeError : the file is not a workbook; or a part is
        larger than declared, damaged, or encrypted.
    """
    with zipfile.ZipFile(file) as archive:
        parts = archive.infolist()
        if WORKBOOK not in {part.filename.lower() for part in parts}:
            raise zipfile.BadZipFile("no workbook")
        unpacked = sum(part.file_size for part in parts)
        if unpacked > most:
            return unpacked
        texts = _Texts()
        for part in parts:
            for at, tag in _tags(archive, part, _OF_TEXTS):
                if tag[1] == b"si":
                    texts.begin = at
                elif texts.begin is not None:
                    texts.lengths.append(at - texts.begin)
                    texts.begin = None
        largest = unpacked
        for part in parts:
            largest = max(largest, _memory_of_sheet(archive, part, texts.lengths, most))
            if largest > most:
                break
        return largest


def _memory_of_sheet(
    archive: zipfile.ZipFile, part: zipfile.ZipInfo, lengths: list[int], most: int
) -> int:
    """Estimate the bytes of a part in memory if it is a sheet."""
    grid, shared = _Grid(), False
    for _, tag in _tags(archive, part, _OF_SHEET):
        name, attributes, number = tag.groups()
        if name == b"c":
            grid.add_cell(attributes)
            shared = b"s" in attributes and _attribute(attributes, b"t") == b"s"
        elif name == b"v":
            if shared and number and int(number[:9]) < len(lengths):
                grid.text_bytes += lengths[int(number[:9])]
        else:
            grid.begin_row(attributes)
            if grid.needed > most:
                break
    return grid.needed


def _tags(
    archive: zipfile.ZipFile, part: zipfile.ZipInfo, tags: re.Pattern[bytes]
) -> Iterator[tuple[int, re.Match[bytes]]]:
    """Yield the offset and the match of each of these tags in a part."""
    with archive.open(part) as file:
        remainder, offset = b"", 0
        while piece := file.read(_PIECE):
            text = remainder + piece
            # The last tag and its text may continue in the next chunk.
            end = max(text.rfind(b"<"), 0)
            for tag in tags.finditer(text, 0, end):
                yield offset + tag.start(), tag
            remainder, offset = text[end:], offset + end
            if len(remainder) > _LONGEST_TAG and b">" not in remainder[:_LONGEST_TAG]:
                raise zipfile.BadZipFile("a tag without an end")
            if len(remainder) > _LONGEST_TAG:
                # A long text behind a tag: yield the tag and drop the text.
                for tag in tags.finditer(remainder):
                    yield offset + tag.start(), tag
                remainder, offset = b"", offset + len(remainder)
        for tag in tags.finditer(remainder):
            yield offset + tag.start(), tag


def _attribute(attributes: bytes, name: bytes) -> bytes:
    """The value of an attribute; empty where there is none."""
    for match in _ATTRIBUTE.finditer(attributes):
        if match[1] == name:
            return bytes(match[2] if match[2] is not None else match[3])
    return b""


def _column_number(letters: bytes) -> int:
    number = 0
    for letter in letters.upper():
        number = number * 26 + letter - 64
    return number - 1
