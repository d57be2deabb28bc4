"""Explanations of errors by code, from the sections of ``explained.md``."""

from __future__ import annotations

import inspect
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from dbanon import errors
from dbanon.errors.base import DbanonError, nearest_names
from dbanon.errors.usage import InvalidParameter

FILE = Path(__file__).with_name("explained.md")
_SECTION = re.compile(r"^## (\w+)\n(.*?)(?=^## |\Z)", re.M | re.S)


class ErrorExplanation(NamedTuple):
    """The explanation of an error.

    Parameters
    ----------
    code : as in messages and in JSON.
    name : its class in ``dbanon.errors``; None for failures without a class.
    summary : its default message.
    text : Markdown: its meaning, its causes and what to do.
    """

    code: str
    name: str | None
    exit_code: int
    sqlstate: str
    summary: str
    text: str


@cache
def sections() -> dict[str, str]:
    """The text of each section, by code."""
    return {code: text.strip() for code, text in _SECTION.findall(FILE.read_text(encoding="utf-8"))}


@cache
def explained() -> dict[str, ErrorExplanation]:
    """All errors with a section, by code in alphabetical order."""
    classes = {
        error_class.code: error_class
        for error_class in vars(errors).values()
        if inspect.isclass(error_class) and issubclass(error_class, DbanonError)
    }
    by_code = {}
    for code, text in sorted(sections().items()):
        error_class = classes.get(code)
        summary = (
            (error_class.__doc__ or "").partition("\n")[0]
            if error_class
            else "Something unexpected failed."
        )
        by_code[code] = ErrorExplanation(
            code,
            error_class.__name__ if error_class else None,
            error_class.exit_code if error_class else 1,
            error_class.sqlstate if error_class else "XX000",
            summary,
            text,
        )
    return by_code


def explain(word: str) -> tuple[ErrorExplanation, ...]:
    """Find errors by code, class name or SQLSTATE.

    Raises
    ------
    InvalidParameter : there is none; the hint has the nearest codes.
    """
    by_code = explained()
    folded = word.strip().casefold().replace("-", "_")
    if folded in by_code:
        return (by_code[folded],)
    matches = tuple(
        explanation
        for explanation in by_code.values()
        if folded
        in (explanation.sqlstate.casefold(), (explanation.name or explanation.code).casefold())
    )
    if matches:
        return matches
    raise InvalidParameter(
        f'There is no error "{word}".',
        hint=nearest_names(folded, by_code) or "dbanon explain lists all codes.",
    )
