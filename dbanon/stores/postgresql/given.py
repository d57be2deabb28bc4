"""Pass values to statements of SQL functions through the memory of the server process.

Literals and parameters can appear in logs of statements or plans: from auto_explain, from
``debug_print_plan``, or as the context of another message. So statements call
``dbanon._given(index)`` instead, which is never evaluated while planning, and the function reads
the value from this module. Values are available only while their statement runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dbanon.sessions.names import literal, to_sql_text
from dbanon.stores.postgresql.dialect import NO_PARAMETERS

# What contains no parameters, or a parameter with an optional cast.
_NO_PARAMETERS_OR_PARAMETER = re.compile(rf"{NO_PARAMETERS}|\?(?:::(\w+))?", re.S)

# The texts for the running statement.
_values: Sequence[str | None] = ()


@contextmanager
def provide_texts(values: Sequence[str | None]) -> Iterator[None]:
    """Provide texts for ``dbanon._given``, by index from 0, while the block runs."""
    global _values
    outer_values, _values = _values, values
    try:
        yield
    finally:
        _values = outer_values


def given(index: int) -> str | None:
    """Return the text with this index for the running statement, or None.

    The SQL function ``dbanon._given`` calls this.
    """
    return _values[index] if 0 <= index < len(_values) else None


def provided_text_sql(index: int, sql_type: str) -> str:
    """SQL of the text with this index, cast to a type; the subquery is evaluated only once."""
    return f"(SELECT dbanon._given({index})::{sql_type})"


def bind_parameters(sql: str, parameters: Sequence[object]) -> tuple[str, list[str]]:
    """Bind parameters to a statement; return it and the texts for ``provide_texts``.

    A text whose parameter has a cast, ``?::jsonb``, is provided in memory, so that no log contains
    it. Other parameters become literals: they are names and numbers that dbanon chose itself.
    """
    if not parameters:
        return sql, []
    values = iter(parameters)
    texts: list[str] = []

    def replace_parameter(match: re.Match[str]) -> str:
        if not match[0].startswith("?"):
            return match[0]
        value, cast = next(values), match[1]
        if cast is None:
            return literal(value)
        if not isinstance(value, str):
            return f"{literal(value)}{match[0][1:]}"
        texts.append(to_sql_text(value))
        return provided_text_sql(len(texts) - 1, cast)

    bound_sql = _NO_PARAMETERS_OR_PARAMETER.sub(replace_parameter, sql)
    # No value may be left over.
    end = object()
    assert next(values, end) is end
    return bound_sql, texts
