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

EXPLANATIONS_FILE = Path(__file__).with_name("explained.md")
_SECTION = re.compile(r"^## (\w+)\n(.*?)(?=^## |\Z)", re.M | re.S)


class ErrorExplanation(NamedTuple):
    """The explanation of an error.

    Parameters
    ----------
    code : the code in messages and in JSON.
    name : the name of the error's class in ``dbanon.errors``; None for failures without a class.
    summary : the error's default message.
    text : Markdown that describes the meaning, the causes, and what to do.
    """

    code: str
    name: str | None
    exit_code: int
    sqlstate: str
    summary: str
    text: str


@cache
def load_sections() -> dict[str, str]:
    """Read the text of each section, by code."""
    return {
        code: text.strip()
        for code, text in _SECTION.findall(EXPLANATIONS_FILE.read_text(encoding="utf-8"))
    }


@cache
def load_explanations() -> dict[str, ErrorExplanation]:
    """Build the explanations of all errors that have a section, by code and sorted by it."""
    classes = {
        error_class.code: error_class
        for error_class in vars(errors).values()
        if inspect.isclass(error_class) and issubclass(error_class, DbanonError)
    }
    explanations_by_code = {}
    for code, text in sorted(load_sections().items()):
        error_class = classes.get(code)
        summary = (
            (error_class.__doc__ or "").partition("\n")[0]
            if error_class
            else "Something unexpected failed."
        )
        explanations_by_code[code] = ErrorExplanation(
            code=code,
            name=error_class.__name__ if error_class else None,
            exit_code=error_class.exit_code if error_class else 1,
            sqlstate=error_class.sqlstate if error_class else "XX000",
            summary=summary,
            text=text,
        )
    return explanations_by_code


def explain(word: str) -> tuple[ErrorExplanation, ...]:
    """Return the explanations of errors with a code, class name or SQLSTATE.

    Parameters
    ----------
    word : the code, class name or SQLSTATE; case is ignored.

    Raises
    ------
    InvalidParameter : there is no such error; the hint lists the most similar codes.
    """
    explanations_by_code = load_explanations()
    normalized_word = word.strip().casefold().replace("-", "_")
    if normalized_word in explanations_by_code:
        return (explanations_by_code[normalized_word],)
    matches = tuple(
        explanation
        for explanation in explanations_by_code.values()
        if normalized_word
        in (explanation.sqlstate.casefold(), (explanation.name or explanation.code).casefold())
    )
    if matches:
        return matches
    raise InvalidParameter(
        f'There is no error "{word}".',
        hint=nearest_names(normalized_word, explanations_by_code)
        or "dbanon explain lists all codes.",
    )
