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
    name : of its class in ``dbanon.errors``; None for failures without a class.
    summary : its default message.
    text : Markdown on its meaning, its causes and what to do.
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
    """Build the explanations of all errors that have a section, by sorted code."""
    classes = {
        error_class.code: error_class
        for error_class in vars(errors).values()
        if inspect.isclass(error_class) and issubclass(error_class, DbanonError)
    }
    explanation_of_code = {}
    for code, text in sorted(load_sections().items()):
        error_class = classes.get(code)
        summary = (
            (error_class.__doc__ or "").partition("\n")[0]
            if error_class
            else "Something unexpected failed."
        )
        explanation_of_code[code] = ErrorExplanation(
            code,
            error_class.__name__ if error_class else None,
            error_class.exit_code if error_class else 1,
            error_class.sqlstate if error_class else "XX000",
            summary,
            text,
        )
    return explanation_of_code


def explain(word: str) -> tuple[ErrorExplanation, ...]:
    """Find errors by code, class name or SQLSTATE.

    Raises
    ------
    InvalidParameter : there is no such error; the hint lists the most similar codes.
    """
    explanation_of_code = load_explanations()
    folded_word = word.strip().casefold().replace("-", "_")
    if folded_word in explanation_of_code:
        return (explanation_of_code[folded_word],)
    matches = tuple(
        explanation
        for explanation in explanation_of_code.values()
        if folded_word
        in (explanation.sqlstate.casefold(), (explanation.name or explanation.code).casefold())
    )
    if matches:
        return matches
    raise InvalidParameter(
        f'There is no error "{word}".',
        hint=nearest_names(folded_word, explanation_of_code) or "dbanon explain lists all codes.",
    )
