"""Format results as text: lines of labels and values, without control characters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from dbanon.data.notebook import NotebookCard
from dbanon.data.types import JsonMapping, JsonObject

# Characters that change the direction of text; escaped like control characters.
_DIRECTION_MARKS = {0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
_ESCAPES = {
    number: f"\\u{number:04x}" for number in (*range(32), *range(0x7F, 0xA0), *_DIRECTION_MARKS)
}
# For texts of several lines, which keep their line breaks and tabs.
_ESCAPES_IN_LINES = {k: v for k, v in _ESCAPES.items() if chr(k) not in "\n\t"}
# For HTML pages, which isolate the direction of each text.
_ESCAPES_ON_PAGES = {k: v for k, v in _ESCAPES_IN_LINES.items() if k not in _DIRECTION_MARKS}


def escape_control_characters(text: str, *, lines: bool = False) -> str:
    """Escape control characters and direction marks.

    A terminal would interpret them, and texts in a ledger may come from an attacker.

    Parameters
    ----------
    lines : True to keep tabs and line breaks.
    """
    return text.translate(_ESCAPES_IN_LINES if lines else _ESCAPES)


def escape_for_page(text: str) -> str:
    """Escape control characters, for an HTML page, which isolates the direction of each text."""
    return text.translate(_ESCAPES_ON_PAGES)


def json_text(
    value: object,
    *,
    sort_keys: bool = False,
    allow_nan: bool = True,
    separators: tuple[str, str] | None = None,
) -> str:
    """Serialize to JSON without escaping letters.

    A PostgreSQL database with the encoding ``SQL_ASCII`` cannot read an escape such as ``\\u00f6``.

    Parameters
    ----------
    sort_keys, allow_nan, separators : as for ``json.dumps``.
    """
    return json.dumps(
        value,
        ensure_ascii=False,
        sort_keys=sort_keys,
        allow_nan=allow_nan,
        separators=separators,
    )


class LabelledText:
    """A result displayed as pairs of label and text: as lines, or in a notebook as a table."""

    def pairs(self) -> list[tuple[str, str]]:
        """The pairs in order."""
        raise NotImplementedError

    @property
    def warning_texts(self) -> tuple[str, ...]:
        """Warnings to print on stderr, each prefixed with ``Warning:``; empty by default."""
        return ()

    def __str__(self) -> str:
        return format_pairs(self.pairs())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from html import escape

        rows = (
            f"<tr><th style='text-align: left'>{escape(escape_control_characters(label))}</th>"
            f"<td style='text-align: left'>{escape(escape_control_characters(text))}</td></tr>"
            for label, text in self.pairs()
        )
        return f"<table>{''.join(rows)}</table>"


class LabelledTextWithHtml(NotebookCard, LabelledText):
    """A labelled text that notebooks display as a card (see ``data.notebook``), or as a table."""

    def _repr_html_(self) -> str:
        return NotebookCard._repr_html_(self) or LabelledText._repr_html_(self)


# Keys in JSON that were renamed in version 0.3.0: the former name by the new one. Until 1.0, JSON
# output has both.
FORMER_KEYS = {
    "disclosive_columns": "telling",
    "loss_shares": "lost",
    "lost_columns": "lost",
    "method": "way",
    "method_counts": "told",
    "method_notes": "told",
    "results": "found",
    "text_format": "told",
    "unique": "alone",
    "unique_share_drops": "falls",
}


def also_under_former_key(key: str, value: object) -> JsonObject:
    """Return a dict with a value under its key and under the former name of the key."""
    return {key: value, FORMER_KEYS[key]: value}


def read_key_or_former_key(values: JsonMapping, key: str, default: object = None) -> Any:
    """Read the value of a key that was renamed: earlier versions wrote it under another name."""
    return values.get(key, values.get(FORMER_KEYS[key], default))


def format_pairs(pairs: Sequence[tuple[str, str]]) -> str:
    """Format pairs as aligned lines without trailing spaces."""
    pairs = [
        (escape_control_characters(label), escape_control_characters(text)) for label, text in pairs
    ]
    width = max((len(label) for label, _ in pairs), default=0)
    return "\n".join(f"{label:<{width}}  {text}".rstrip() for label, text in pairs)
