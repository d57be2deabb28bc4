"""Memory estimates for spreadsheets, made before the library (calamine) reads them.

A workbook is a ZIP archive. Its directory declares the unpacked size of each member, and the
library never unpacks more. But the library allocates memory for all cells from the first used cell
of a sheet to the last one, even if most of them are empty. It also copies a shared text for each
cell that refers to it. So a small file can need a lot of memory.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

WORKBOOK = "xl/workbook.xml"

# The number of bytes to read at a time.
_PIECE_BYTES = 2**20
# The library's memory per cell of the grid, and additionally per cell with a value.
_BYTES_PER_GRID_CELL, _BYTES_PER_VALUE = 32, 64
# The attributes of a tag up to its end; a quoted value may contain ">".
_ATTRIBUTES_PATTERN = rb"""([^>"']*(?:"[^"]*"[^>"']*|'[^']*'[^>"']*)*)>"""
# The tags of rows, cells and values, with the digits after the tag. In the value of a cell with a
# shared text, the digits are the index of the text.
_SHEET_TAGS = re.compile(rb"<(?:\w+:)?(row|c|v)\b" + _ATTRIBUTES_PATTERN + rb"\s*([0-9]*)")
# The tags at which a shared text begins and ends.
_TEXT_TAGS = re.compile(rb"<(?:\w+:)?(si|/si)\b" + _ATTRIBUTES_PATTERN)
# The attributes of a cell, as most programs write them.
_USUAL_CELL = re.compile(rb' r="([A-Z]{1,3})([0-9]{1,7})"')
_ATTRIBUTE = re.compile(rb"""([^\s=]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_REFERENCE = re.compile(rb"([A-Za-z]{1,4})([0-9]{1,9})")
# A longer tag is an error.
_MAX_TAG_BYTES = 2**16


@dataclass
class _Grid:
    """The extent of a sheet, updated cell by cell; rows and columns count from 0.

    Parameters
    ----------
    n_cells : the number of cells that were added.
    text_bytes : the size in bytes of the shared texts in these cells, counted once per cell.
    row, column : the position of the last cell that was added.
    """

    first_row: int | None = None
    last_row: int = 0
    first_column: int | None = None
    last_column: int = 0
    n_cells: int = 0
    text_bytes: int = 0
    row: int = -1
    column: int = -1

    def begin_row(self, attributes: bytes) -> None:
        """Move to the row of a tag with these attributes."""
        # Row numbers of Excel have seven digits at most; int() is slow for very long ones.
        digits = _attribute_value(attributes, b"r").strip()[:9]
        self.row = int(digits) - 1 if digits.isdigit() else self.row + 1
        self.column = -1

    def add_cell(self, attributes: bytes) -> None:
        """Add the cell of a tag with these attributes."""
        reference = _USUAL_CELL.match(attributes)
        if reference is None and attributes:
            reference = _REFERENCE.match(_attribute_value(attributes, b"r").strip())
        if reference:
            self.column, self.row = _column_index(reference[1]), int(reference[2]) - 1
        else:
            self.column += 1
            self.row = max(self.row, 0)
        self.n_cells += 1
        self.first_row = self.row if self.first_row is None else min(self.first_row, self.row)
        self.last_row = max(self.last_row, self.row)
        first_column = self.first_column
        self.first_column = self.column if first_column is None else min(first_column, self.column)
        self.last_column = max(self.last_column, self.column)

    @property
    def needed_bytes(self) -> int:
        """The memory for the grid with its texts, in bytes."""
        if self.first_row is None or self.first_column is None:
            return 0
        height = self.last_row - self.first_row + 1
        width = self.last_column - self.first_column + 1
        return (
            height * width * _BYTES_PER_GRID_CELL
            + self.n_cells * _BYTES_PER_VALUE
            + self.text_bytes
        )


@dataclass
class _SharedTexts:
    """The shared texts of a workbook, measured tag by tag.

    Parameters
    ----------
    text_lengths : the lengths of the texts that have ended, in bytes.
    current_start : the offset at which the current text begins; None between texts.
    """

    text_lengths: list[int] = field(default_factory=list)
    current_start: int | None = None


def estimate_workbook_bytes(file: BinaryIO, limit_bytes: int) -> int:
    """Estimate the memory for a workbook: its unpacked size, or more for its largest sheet.

    Parameters
    ----------
    limit_bytes : the limit; reading stops as soon as it is exceeded.

    Raises
    ------
    zipfile.BadZipFile, NotImplementedError, RuntimeError : the file is not a workbook, or a member
        is larger than declared, damaged, or encrypted.
    """
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if WORKBOOK not in {member.filename.lower() for member in members}:
            raise zipfile.BadZipFile("no workbook")
        unpacked_bytes = sum(member.file_size for member in members)
        if unpacked_bytes > limit_bytes:
            return unpacked_bytes
        texts = _SharedTexts()
        for member in members:
            for offset, tag in _find_tags(archive, member, _TEXT_TAGS):
                if tag[1] == b"si":
                    texts.current_start = offset
                elif texts.current_start is not None:
                    texts.text_lengths.append(offset - texts.current_start)
                    texts.current_start = None
        estimate = unpacked_bytes
        for member in members:
            estimate = max(
                estimate, _estimate_sheet_bytes(archive, member, texts.text_lengths, limit_bytes)
            )
            if estimate > limit_bytes:
                break
        return estimate


def _estimate_sheet_bytes(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, text_lengths: list[int], limit_bytes: int
) -> int:
    """Estimate the memory for a member of the archive, in bytes; 0 if it is not a sheet.

    Parameters
    ----------
    text_lengths : the lengths of the shared texts, in bytes.
    """
    grid, is_shared_text = _Grid(), False
    for _, tag in _find_tags(archive, member, _SHEET_TAGS):
        name, attributes, digits = tag.groups()
        if name == b"c":
            grid.add_cell(attributes)
            # The attribute t="s" marks a shared text. Search for an s first, which is faster.
            is_shared_text = b"s" in attributes and _attribute_value(attributes, b"t") == b"s"
        elif name == b"v":
            if is_shared_text and digits and int(digits[:9]) < len(text_lengths):
                grid.text_bytes += text_lengths[int(digits[:9])]
        else:
            grid.begin_row(attributes)
            if grid.needed_bytes > limit_bytes:
                break
    return grid.needed_bytes


def _find_tags(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, tags: re.Pattern[bytes]
) -> Iterator[tuple[int, re.Match[bytes]]]:
    """Yield the offset and the match of each of these tags in a member of the archive."""
    with archive.open(member) as file:
        remainder, offset = b"", 0
        while piece := file.read(_PIECE_BYTES):
            content = remainder + piece
            # The last tag, or the text after it, may continue in the next piece.
            complete_end = max(content.rfind(b"<"), 0)
            for tag in tags.finditer(content, 0, complete_end):
                yield offset + tag.start(), tag
            remainder, offset = content[complete_end:], offset + complete_end
            if len(remainder) > _MAX_TAG_BYTES and b">" not in remainder[:_MAX_TAG_BYTES]:
                raise zipfile.BadZipFile("a tag without an end")
            if len(remainder) > _MAX_TAG_BYTES:
                # A long text follows the tag: yield the tag, and drop the text.
                for tag in tags.finditer(remainder):
                    yield offset + tag.start(), tag
                remainder, offset = b"", offset + len(remainder)
        for tag in tags.finditer(remainder):
            yield offset + tag.start(), tag


def _attribute_value(attributes: bytes, name: bytes) -> bytes:
    """The value of an attribute; empty if it is missing."""
    for match in _ATTRIBUTE.finditer(attributes):
        if match[1] == name:
            return bytes(match[2] if match[2] is not None else match[3])
    return b""


def _column_index(letters: bytes) -> int:
    """Convert the letters of a column to its index from 0."""
    index = 0
    for letter in letters.upper():
        index = index * 26 + letter - 64
    return index - 1
