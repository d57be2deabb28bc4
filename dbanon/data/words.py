"""Results as people read them: labels and texts in lines, without control characters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from dbanon.data.notebook import Shown

# Beside control characters: what makes text run the other way.
_DIRECTIONS = {0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
_WRITTEN_OUT = {
    number: f"\\u{number:04x}" for number in (*range(32), *range(0x7F, 0xA0), *_DIRECTIONS)
}
_OF_LINES = {k: v for k, v in _WRITTEN_OUT.items() if chr(k) not in "\n\t"}
_OF_PAGES = {k: v for k, v in _OF_LINES.items() if k not in _DIRECTIONS}


def printable(text: str, *, lines: bool = False) -> str:
    """Text whose control characters and marks of direction are written out.

    A terminal does what it is told by them, and whoever wrote a ledger's entry may be anybody.

    Parameters
    ----------
    lines : it may have several; tabs and ends of lines stay.
    """
    return text.translate(_OF_LINES if lines else _WRITTEN_OUT)


def printable_on_page(text: str) -> str:
    """Text whose control characters are written out, for a page that isolates directions."""
    return text.translate(_OF_PAGES)


def json_text(value: Any, **options: Any) -> str:
    """JSON without escapes of letters, as people read it.

    A PostgreSQL database of encoding ``SQL_ASCII`` cannot read an escape such as ``\\u00f6``.

    Parameters
    ----------
    options : others of ``json.dumps``.
    """
    return json.dumps(value, ensure_ascii=False, **options)


class InWords:
    """What shows itself as pairs of label and text: in lines, and as a table in a notebook."""

    def pairs(self) -> list[tuple[str, str]]:
        """The pairs, in their order."""
        raise NotImplementedError

    @property
    def warned(self) -> tuple[str, ...]:
        """What is said of it on stderr, each behind "Warning: ": nothing."""
        return ()

    def __str__(self) -> str:
        return in_lines(self.pairs())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from html import escape

        rows = (
            f"<tr><th style='text-align: left'>{escape(printable(label))}</th>"
            f"<td style='text-align: left'>{escape(printable(text))}</td></tr>"
            for label, text in self.pairs()
        )
        return f"<table>{''.join(rows)}</table>"


class WithCard(Shown, InWords):
    """The same, and as a card in a notebook where a door was opened."""

    def _repr_html_(self) -> str:
        return Shown._repr_html_(self) or InWords._repr_html_(self)


def in_lines(pairs: Sequence[tuple[str, str]]) -> str:
    """Labels and texts below each other, with nothing behind them."""
    pairs = [(printable(label), printable(text)) for label, text in pairs]
    width = max((len(label) for label, _ in pairs), default=0)
    return "\n".join(f"{label:<{width}}  {text}".rstrip() for label, text in pairs)
