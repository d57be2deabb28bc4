"""Detect and escape texts that spreadsheets run as formulas.

A spreadsheet configured for a separator other than the comma recognizes quotes only at the start of
a cell. It can split a quoted text into several cells, each of which may be a formula. So texts are
split at every separator that spreadsheets use. Patterns are RE2's, for Arrow and DuckDB.
"""

from __future__ import annotations

from typing import Any

_CUT = r",;\t\r\n"
# Spaces and quotes, including full-width ones, that may precede a formula.
_QUOTE = "'"
_SKIPPED = (
    r" \f\x{000B}\x{00A0}\x{2000}-\x{200B}\x{3000}\x{FEFF}\"\x{2018}-\x{201F}\x{FF02}\x{FF07}"
)
_SIGN = r"+\-\x{FF0B}\x{FF0D}\x{2212}"
_OTHER = r"=@\x{FF1D}\x{FF20}"
_CLOSED = r" \])}"
# A signed number, or a range of them in brackets such as [-10, -5], is not a formula.
_RUN = (
    rf"(?:[{_OTHER}]|[{_SIGN}](?:[^0-9.{_CUT}]|[0-9.]+[^0-9.{_CLOSED}{_CUT}]"
    rf"|[0-9.]+[{_CLOSED}]+[^{_CLOSED}{_CUT}]))"
)
_AT_START = rf"{_QUOTE}*[\t\r]|[{_SKIPPED}{_QUOTE}]*[{_OTHER}{_SIGN}]"
_BEHIND_CUT = rf"[{_SKIPPED}{_QUOTE}]*{_RUN}"
_ANY = rf"^(?:{_AT_START})|[{_CUT}]{_BEHIND_CUT}"

# Matches formulas without a leading apostrophe, which would make them text.
UNESCAPED = (
    rf"^(?:[\t\r]|(?:[{_SKIPPED}][{_SKIPPED}{_QUOTE}]*)?[{_OTHER}{_SIGN}])"
    rf"|[{_CUT}](?:[{_SKIPPED}][{_SKIPPED}{_QUOTE}]*)?{_RUN}"
)


def are_formulas(texts: Any) -> Any:
    """Return whether a spreadsheet would run each text of an Arrow array; false where NULL."""
    import pyarrow.compute as pc

    return pc.fill_null(pc.match_substring_regex(texts, _ANY), False)


def escape_formulas(texts: Any) -> Any:
    """Put an apostrophe before each cell that would be run; distinct texts stay distinct."""
    import pyarrow.compute as pc

    after_separators = pc.replace_substring_regex(texts, rf"([{_CUT}])({_BEHIND_CUT})", r"\1'\2")
    return pc.replace_substring_regex(after_separators, rf"^({_AT_START})", r"'\1")
