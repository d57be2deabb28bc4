"""Texts that spreadsheets run as formulas, in the cells that these cut out of a line of CSV.

A spreadsheet set to another separator than the comma takes quotes for what they are only where a
cell begins: it ends cells inside a text, and each that follows may be a formula. So a text is cut
at all that spreadsheets cut at. Patterns are RE2's, of Arrow and of DuckDB.
"""

from __future__ import annotations

from typing import Any

_CUT = r",;\t\r\n"
# Spaces and quotes, in full width, too, behind which a formula is one still.
_QUOTE = "'"
_SKIPPED = (
    r" \f\x{000B}\x{00A0}\x{2000}-\x{200B}\x{3000}\x{FEFF}\"\x{2018}-\x{201F}\x{FF02}\x{FF07}"
)
_SIGN = r"+\-\x{FF0B}\x{FF0D}\x{2212}"
_OTHER = r"=@\x{FF1D}\x{FF20}"
_CLOSED = r" \])}"
# A number with its sign, and what closes a range around it, is a number: [-10, -5].
_RUN = (
    rf"(?:[{_OTHER}]|[{_SIGN}](?:[^0-9.{_CUT}]|[0-9.]+[^0-9.{_CLOSED}{_CUT}]"
    rf"|[0-9.]+[{_CLOSED}]+[^{_CLOSED}{_CUT}]))"
)
_AT_START = rf"{_QUOTE}*[\t\r]|[{_SKIPPED}{_QUOTE}]*[{_OTHER}{_SIGN}]"
_BEHIND_CUT = rf"[{_SKIPPED}{_QUOTE}]*{_RUN}"
_ANY = rf"^(?:{_AT_START})|[{_CUT}]{_BEHIND_CUT}"

# What is left where nothing was put before it: an apostrophe makes it a text.
UNESCAPED = (
    rf"^(?:[\t\r]|(?:[{_SKIPPED}][{_SKIPPED}{_QUOTE}]*)?[{_OTHER}{_SIGN}])"
    rf"|[{_CUT}](?:[{_SKIPPED}][{_SKIPPED}{_QUOTE}]*)?{_RUN}"
)


def formulas(texts: Any) -> Any:
    """Which texts of an Arrow array would be run, by element; false where NULL."""
    import pyarrow.compute as pc

    return pc.fill_null(pc.match_substring_regex(texts, _ANY), False)


def escaped(texts: Any) -> Any:
    """The texts with an apostrophe before each cell that would be run; no two become one."""
    import pyarrow.compute as pc

    behind = pc.replace_substring_regex(texts, rf"([{_CUT}])({_BEHIND_CUT})", r"\1'\2")
    return pc.replace_substring_regex(behind, rf"^({_AT_START})", r"'\1")
