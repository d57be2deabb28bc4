"""Detect and escape texts that spreadsheets run as formulas.

A spreadsheet that expects another separator than the file has does not recognize the quotes around
a text, and may split the text into several cells, each of which may be a formula. So texts are
examined after every separator that spreadsheets use. Patterns have RE2's syntax, for Arrow and
DuckDB; ``escape_formula`` translates them for Python.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

# The constants from here to _CLOSING_BRACKETS are characters for use in [] of a pattern.
_SEPARATORS = r",;\t\r\n"
_APOSTROPHE = "'"
# Spaces and quotes, including full-width ones, that may precede a formula.
_BLANKS_AND_QUOTES = (
    r" \f\x{000B}\x{00A0}\x{2000}-\x{200B}\x{3000}\x{FEFF}\"\x{2018}-\x{201F}\x{FF02}\x{FF07}"
)
_SIGNS = r"+\-\x{FF0B}\x{FF0D}\x{2212}"
_FORMULA_STARTS = r"=@\x{FF1D}\x{FF20}"
_CLOSING_BRACKETS = r" \])}"
# A sign starts a formula unless only a number follows, as in -5 or in the interval [-10, -5].
_SIGNED_FORMULA = (
    rf"[{_SIGNS}](?:[^0-9.{_SEPARATORS}]|[0-9.]+[^0-9.{_CLOSING_BRACKETS}{_SEPARATORS}]"
    rf"|[0-9.]+[{_CLOSING_BRACKETS}]+[^{_CLOSING_BRACKETS}{_SEPARATORS}])"
)
_FORMULA = rf"(?:[{_FORMULA_STARTS}]|{_SIGNED_FORMULA})"
_PREFIX = rf"[{_BLANKS_AND_QUOTES}{_APOSTROPHE}]*"
# At the start of a text, every sign counts, also before a number.
_LEADING_FORMULA = rf"{_APOSTROPHE}*[\t\r]|{_PREFIX}[{_FORMULA_STARTS}{_SIGNS}]"
_FORMULA_AFTER_SEPARATOR = rf"{_PREFIX}{_FORMULA}"
_ANY_FORMULA = rf"^(?:{_LEADING_FORMULA})|[{_SEPARATORS}]{_FORMULA_AFTER_SEPARATOR}"

# Matches formulas that have no apostrophe before them, which would make them text.
_UNESCAPED_PREFIX = rf"(?:[{_BLANKS_AND_QUOTES}]{_PREFIX})?"
UNESCAPED_FORMULA = (
    rf"^(?:[\t\r]|{_UNESCAPED_PREFIX}[{_FORMULA_STARTS}{_SIGNS}])"
    rf"|[{_SEPARATORS}]{_UNESCAPED_PREFIX}{_FORMULA}"
)


def are_formulas(texts: pa.Array) -> pa.Array:
    """Return, for each text of an Arrow array, whether a spreadsheet would run it.

    NULL gives false.
    """
    import pyarrow.compute as pc

    return pc.fill_null(pc.match_substring_regex(texts, _ANY_FORMULA), False)


def escape_formulas(texts: pa.Array) -> pa.Array:
    """Put an apostrophe before each formula in texts; distinct texts stay distinct."""
    import pyarrow.compute as pc

    after_separators = pc.replace_substring_regex(
        texts, rf"([{_SEPARATORS}])({_FORMULA_AFTER_SEPARATOR})", r"\1'\2"
    )
    return pc.replace_substring_regex(after_separators, rf"^({_LEADING_FORMULA})", r"'\1")


def escape_formula(text: str) -> str:
    """Escape the formulas in one text as ``escape_formulas`` does, without Arrow."""
    after_separators = re.sub(
        _translate(rf"([{_SEPARATORS}])({_FORMULA_AFTER_SEPARATOR})"), r"\1'\2", text
    )
    return re.sub(_translate(rf"^({_LEADING_FORMULA})"), r"'\1", after_separators)


def _translate(pattern: str) -> str:
    """Translate a pattern from RE2's syntax to Python's: characters by their code."""
    return re.sub(r"\\x\{([0-9A-F]{4})\}", r"\\u\1", pattern)
