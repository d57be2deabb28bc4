"""Values on their way into a statement of a backend, by way of this process's memory.

A value that is a literal or a parameter of a statement is shown to whoever has statements or plans
logged: by auto_explain, by ``debug_print_plan``, in the context of another message. So statements
hold calls of ``dbanon._given(number)`` in their place, which no plan looks into, and that function
asks here. Between statements there is nothing to be had.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

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
