"""How much memory a spreadsheet takes, told before the library that reads it takes it.

A workbook is an archive. Its directory says how large its parts are unpacked, and unpacking stops
there. The library then makes a grid from the first used cell of a sheet to the last one, whatever
is between them, and a copy of a shared text for each cell that has it: few bytes can name both.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

WORKBOOK = "xl/workbook.xml"

_PIECE = 2**20
# Of a cell of the grid, and of one that was read.
_GRID_BYTES, _CELL_BYTES = 32, 64
# An attribute may hold what looks like the end of the tag, or like another attribute.
_ATTRIBUTES = rb"""([^>"']*(?:"[^"]*"[^>"']*|'[^']*'[^>"']*)*)>"""
_OF_SHEET = re.compile(rb"<(?:\w+:)?(row|c|v)\b" + _ATTRIBUTES + rb"\s*([0-9]*)")
_OF_TEXTS = re.compile(rb"<(?:\w+:)?(si|/si)\b" + _ATTRIBUTES)
# How most cells begin.
_USUAL_CELL = re.compile(rb' r="([A-Z]{1,3})([0-9]{1,7})"')
_ATTRIBUTE = re.compile(rb"""([^\s=]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_REFERENCE = re.compile(rb"([A-Za-z]{1,4})([0-9]{1,9})")
# No tag of a workbook is longer.
_LONGEST_TAG = 2**16


@dataclass
class _Grid:
    """The cells of a sheet, as they are read."""

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
        """Bytes of the grid with its texts."""
        if self.first_row is None or self.first_column is None:
            return 0
        height = self.last_row - self.first_row + 1
        width = self.last_column - self.first_column + 1
        return height * width * _GRID_BYTES + self.cells * _CELL_BYTES + self.text_bytes


@dataclass
class _Texts:
    """How long the shared texts are, in bytes, and where the one that is read began."""

    lengths: list[int] = field(default_factory=list)
    begin: int | None = None


def memory_of_workbook(file: BinaryIO, most: int) -> int:
    """The bytes that a workbook takes unpacked, or in memory if that is more.

    Parameters
    ----------
    most : reading ends as soon as it is known to take more.

    Raises
    ------
    zipfile.BadZipFile, NotImplementedError, RuntimeError : it is no workbook; or a part is larger
        than the directory says, damaged, or encrypted.
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
    """The bytes that a part takes in memory if it is a sheet."""
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
    """Where each of these tags of a part begins, and the tag."""
    with archive.open(part) as file:
        remainder, offset = b"", 0
        while piece := file.read(_PIECE):
            text = remainder + piece
            # A tag and what follows it may go on in the next piece.
            end = max(text.rfind(b"<"), 0)
            for tag in tags.finditer(text, 0, end):
                yield offset + tag.start(), tag
            remainder, offset = text[end:], offset + end
            if len(remainder) > _LONGEST_TAG and b">" not in remainder[:_LONGEST_TAG]:
                raise zipfile.BadZipFile("a tag without an end")
            if len(remainder) > _LONGEST_TAG:
                # A long text, of which nothing is asked.
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
