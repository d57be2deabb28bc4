"""Pass values to statements of a backend through the memory of its process.

Literals and parameters can appear in logs of statements or plans: from auto_explain, from
``debug_print_plan``, or in the context of another message. So statements call
``dbanon._given(number)`` instead, which plans never evaluate, and that function reads the value
here. Values are available only while their statement runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dbanon.sessions.names import literal, plain_text

# Quoted identifiers are matched too, since they may contain question marks.
_MARK = re.compile(r'"(?:[^"]|"")*"|\?(?:::(\w+))?')

_values: Sequence[str | None] = ()


@contextmanager
def provide_texts(values: Sequence[str | None]) -> Iterator[None]:
    """Provide texts for ``dbanon._given``, by index from 0, while the block runs."""
    global _values
    before, _values = _values, values
    try:
        yield
    finally:
        _values = before


def given(number: int) -> str | None:
    """Return the text with this index for the running statement, or None."""
    return _values[number] if 0 <= number < len(_values) else None


def provided_text_sql(number: int, sql_type: str) -> str:
    """SQL of a value of the running statement; it is evaluated once, whatever the plan."""
    return f"(SELECT dbanon._given({number})::{sql_type})"


def bind_parameters(sql: str, parameters: Sequence[Any]) -> tuple[str, list[str]]:
    """Bind parameters to a statement; return it and the texts to hand over with it.

    A text whose mark has a cast, ``?::jsonb``, is handed over, so that no log contains it. Others
    (names and numbers of dbanon) become literals, which PostgreSQL types by context.
    """
    if not parameters:
        return sql, []
    values = iter(parameters)
    handed: list[str] = []

    def fill(match: re.Match[str]) -> str:
        if not match[0].startswith("?"):
            return match[0]
        value, cast = next(values), match[1]
        if cast is None:
            return literal(value)
        if not isinstance(value, str):
            return f"{literal(value)}{match[0][1:]}"
        handed.append(plain_text(value))
        return provided_text_sql(len(handed) - 1, cast)

    filled = _MARK.sub(fill, sql)
    assert next(values, fill) is fill
    return filled, handed
