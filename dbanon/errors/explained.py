"""What each error means, why it comes and what to do: the sections of ``explained.md``, by code."""

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


class Explained(NamedTuple):
    """An error, in full.

    Parameters
    ----------
    code : as in messages and in JSON.
    name : of its class in ``dbanon.errors``; None for what dbanon has no error for.
    summary : its default message.
    text : paragraphs of Markdown: what it means, why it comes, what to do.
    """

    code: str
    name: str | None
    exit_code: int
    sqlstate: str
    summary: str
    text: str


@cache
def sections() -> dict[str, str]:
    """The paragraphs of each code, as they stand in the file."""
    return {code: text.strip() for code, text in _SECTION.findall(FILE.read_text(encoding="utf-8"))}


@cache
def explained() -> dict[str, Explained]:
    """Every error that has a section, by its code, in the order of the alphabet."""
    classes = {
        one.code: one
        for one in vars(errors).values()
        if inspect.isclass(one) and issubclass(one, DbanonError)
    }
    found = {}
    for code, text in sorted(sections().items()):
        one = classes.get(code)
        summary = (one.__doc__ or "").partition("\n")[0] if one else "Something unexpected failed."
        found[code] = Explained(
            code,
            one.__name__ if one else None,
            one.exit_code if one else 1,
            one.sqlstate if one else "XX000",
            summary,
            text,
        )
    return found


def explain(word: str) -> tuple[Explained, ...]:
    """The errors that somebody means: one by its code or its class, or all of a SQLSTATE.

    Raises
    ------
    InvalidParameter : there is none; the hint has the nearest codes.
    """
    known = explained()
    wanted = word.strip().casefold().replace("-", "_")
    if wanted in known:
        return (known[wanted],)
    alike = tuple(
        one
        for one in known.values()
        if wanted in (one.sqlstate.casefold(), (one.name or one.code).casefold())
    )
    if alike:
        return alike
    raise InvalidParameter(
        f'There is no error "{word}".',
        hint=nearest_names(wanted, known) or "dbanon explain lists all codes.",
    )
