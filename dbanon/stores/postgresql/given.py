"""Values on their way into a statement of a backend, by way of this process's memory.

A value that is a literal or a parameter of a statement is shown to whoever has statements or plans
logged: by auto_explain, by ``debug_print_plan``, in the context of another message. So statements
hold calls of ``dbanon._given(number)`` in their place, which no plan looks into, and that function
asks here. Between statements there is nothing to be had.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dbanon.sessions.names import literal, plain_text

# A quoted identifier may hold a question mark of its own.
_MARK = re.compile(r'"(?:[^"]|"")*"|\?(?:::(\w+))?')

_values: Sequence[str | None] = ()


@contextmanager
def handed_over(values: Sequence[str | None]) -> Iterator[None]:
    """Texts that ``dbanon._given`` gives while the block runs, by their numbers from 0."""
    global _values
    before, _values = _values, values
    try:
        yield
    finally:
        _values = before


def given(number: int) -> str | None:
    """The text of this number of the statement that runs; None where there is none."""
    return _values[number] if 0 <= number < len(_values) else None


def given_sql(number: int, sql_type: str) -> str:
    """SQL of a value of the statement that runs: asked for and read once, whatever the plan is."""
    return f"(SELECT dbanon._given({number})::{sql_type})"


def bound(sql: str, parameters: Sequence[Any]) -> tuple[str, list[str]]:
    """A statement with its parameters, and the texts that are handed over beside it.

    A text with a cast behind its mark, ``?::jsonb``, is handed over, so that no log has it. Others
    are literals, as PostgreSQL gives a literal the type of its place: names and numbers of ours.
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
        return given_sql(len(handed) - 1, cast)

    filled = _MARK.sub(fill, sql)
    assert next(values, fill) is fill
    return filled, handed
