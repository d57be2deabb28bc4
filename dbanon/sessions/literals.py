"""Names and arrays as text in statements for PostgreSQL."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon import kernels
from dbanon.errors import InvalidName


def literal(value: Any) -> str:
    """A value as a literal in SQL; a list as an array of texts."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return f"ARRAY[{', '.join(map(literal, value))}]::text[]"
    # The escape form means the same whatever standard_conforming_strings is.
    return "E'" + plain_text(value).replace("\\", "\\\\").replace("'", "''") + "'"


def plain_text(value: Any) -> str:
    """The text of a value or of a list of values, as the type of its place reads it.

    Raises
    ------
    InvalidName : it holds a NUL character.
    """
    if isinstance(value, (list, tuple)):
        return array_text(np.array([*value, None], object)[:-1])
    text = value.isoformat() if isinstance(value, datetime) else str(value)
    if "\0" in text:
        raise InvalidName("A name is empty or holds a NUL character.")
    return text


def array_text(values: NDArray[Any]) -> str:
    """The text of an array, of which floats are read back as the same floats."""
    if values.dtype == np.float64:
        # Hexadecimal: no digit is computed, here or there.
        found = kernels.floats_text(np.ascontiguousarray(values))
        return "{" + (str(values.tolist())[1:-1] if found is None else found.decode("ascii")) + "}"
    if values.dtype == np.bool_:
        return "{" + ",".join("t" if value else "f" for value in values.tolist()) + "}"
    if values.dtype == object:
        return "{" + ",".join(map(_element, values.tolist())) + "}"
    found = kernels.integers_text(np.ascontiguousarray(values, np.int64))
    return "{" + found.decode("ascii") + "}"


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'
