"""Names and arrays as text in statements for SPI."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.errors import InvalidName
from dbanon.stores.postgresql.given import given_sql

# A float, one of many: sign, 1 or 0, thirteen digits, power of two.
_FLOAT = b"+0x1.0123456789abcp+0000,"

# A quoted identifier may hold a question mark of its own.
_MARK = re.compile(r'"(?:[^"]|"")*"|\?(?:::(\w+))?')


def bound(sql: str, parameters: Sequence[Any]) -> tuple[str, list[str]]:
    """A statement with its parameters, and the texts that are handed over beside it.

    A text with a cast behind its mark, ``?::jsonb``, is handed over, so that no log has it. Others
    are literals, as PostgreSQL gives a literal the type of its place: names and numbers of ours.
    """
    if not parameters:
        return sql, []
    values = iter(parameters)
    handed: list[str] = []

    def fill(found: re.Match[str]) -> str:
        if not found[0].startswith("?"):
            return found[0]
        value, cast = next(values), found[1]
        if cast is None:
            return literal(value)
        if not isinstance(value, str):
            return f"{literal(value)}{found[0][1:]}"
        handed.append(plain_text(value))
        return given_sql(len(handed) - 1, cast)

    filled = _MARK.sub(fill, sql)
    assert next(values, fill) is fill
    return filled, handed


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
    if values.dtype == np.float64 and (text := _hexadecimal(values)):
        return text
    if values.dtype == np.bool_:
        return "{" + ",".join("t" if value else "f" for value in values.tolist()) + "}"
    if values.dtype == object:
        return "{" + ",".join(map(_element, values.tolist())) + "}"
    return "{" + str(values.tolist())[1:-1] + "}"


def _hexadecimal(values: NDArray[np.float64]) -> str:
    """The text of an array of normal numbers and zeros; empty where it has others.

    Hexadecimal, as C writes floats and reads them: no digit is computed, here or there.
    """
    bits = values.view(np.uint64)
    exponent, fraction = (bits >> 52).astype(np.int64) & 0x7FF, bits & (2**52 - 1)
    zero = exponent == 0
    if not len(values) or (zero & (fraction != 0)).any() or (exponent == 0x7FF).any():
        return ""
    exponent = np.where(zero, 0, exponent - 1023)
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    text = np.empty((len(values), len(_FLOAT)), np.uint8)
    text[:] = np.frombuffer(_FLOAT, np.uint8)
    text[:, 0] = np.where(bits >> 63, ord("-"), ord("+"))
    text[zero, 3] = ord("0")
    for place in range(13):
        text[:, 5 + place] = digits[(fraction >> (48 - 4 * place)) & 15]
    text[exponent < 0, 19] = ord("-")
    for place, unit in enumerate((1000, 100, 10, 1)):
        text[:, 20 + place] = digits[np.abs(exponent) // unit % 10]
    return "{" + text.tobytes()[:-1].decode("ascii") + "}"


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'
