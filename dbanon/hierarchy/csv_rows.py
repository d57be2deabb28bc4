"""Rows of a hierarchy in CSV text; detects the delimiter and a header."""

from __future__ import annotations

import csv
import io

# ARX uses the semicolon. The comma is last because labels may contain one.
_SEPARATORS = (";", "\t", "|", ",")


def rows_of(text: str, delimiter: str | None = None) -> tuple[list[list[str]], int]:
    """The rows (leaf, level 1, ..., root), and the line number of the first, from 1.

    The delimiter is detected from the first line: semicolon, tab, bar or comma. All but the
    semicolon require equally many fields in every line. The first line is a header if it has as
    many fields as the others and shares no label with them: a common root would be missing, so it
    cannot be part of the tree.

    Raises
    ------
    csv.Error : the text is not valid CSV.
    """
    rows = _rows(text, delimiter or _separator(text))
    if not _has_header(rows):
        return rows, 1
    return rows[1:], 2


def _rows(text: str, delimiter: str) -> list[list[str]]:
    return list(
        csv.reader(io.StringIO(text), delimiter=delimiter, skipinitialspace=delimiter == ",")
    )


def _separator(text: str) -> str:
    for delimiter in _SEPARATORS:
        rows = [row for row in _rows(text, delimiter) if row]
        if rows and len(rows[0]) > 1 and (delimiter == ";" or len(set(map(len, rows))) == 1):
            return delimiter
    return ";"


def _has_header(rows: list[list[str]]) -> bool:
    first, *others = rows or [[]]
    if len(others) < 2 or len(first) < 2 or any(len(row) != len(first) for row in others if row):
        return False
    roots = {row[-1] for row in others if row}
    return len(roots) == 1 and not any(set(first) & set(row) for row in others)
