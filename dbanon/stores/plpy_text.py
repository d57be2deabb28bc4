"""Names and arrays as text in statements for SPI."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.errors import InvalidName


def bound(sql: str, parameters: Sequence[Any]) -> str:
    """A statement with its parameters as literals: names and the ledger's entries, never data.

    Literals and not parameters, because PostgreSQL gives a literal the type of its place.
    """
    if not parameters:
        return sql
    values = iter([literal(value) for value in parameters])
    # A quoted identifier may hold a question mark of its own.
    filled = re.sub(
        r'"(?:[^"]|"")*"|\?', lambda found: next(values) if found[0] == "?" else found[0], sql
    )
    assert next(values, None) is None
    return filled


def literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return f"ARRAY[{', '.join(map(literal, value))}]::text[]"
    if isinstance(value, datetime):
        value = value.isoformat()
    text = str(value)
    if "\0" in text:
        raise InvalidName("A name is empty or holds a NUL character.")
    # The escape form means the same whatever standard_conforming_strings is.
    return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def array_text(values: NDArray[Any]) -> str:
    """The text of an array; Python's shortest form of a float is read back as the same float."""
    if values.dtype == np.bool_:
        return "{" + ",".join("t" if value else "f" for value in values.tolist()) + "}"
    if values.dtype == object:
        return "{" + ",".join(map(_element, values.tolist())) + "}"
    return "{" + str(values.tolist())[1:-1] + "}"


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'
