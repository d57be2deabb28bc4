"""A condition of SQL that a job's owner wrote: one expression, whatever stands around it."""

from __future__ import annotations

import re

from dbanon.errors import InvalidParameter

# What is passed over as it is: texts, texts with backslashes, names in quotes.
_QUOTED = re.compile(r"""(?<!\w)[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*\"""", re.S)
_REFUSED = re.compile(r"--|/\*|[;$\0'\"]")
_HINT = "Write what stands behind WHERE, as in where=\"status = 'active'\"."


def require_condition(text: str) -> None:
    """Check that a text can be no more than one expression in parentheses.

    What it means, the database says. Its owner reads the table with rights of their own: this keeps
    mistakes out, such as a comment that swallows what follows.

    Raises
    ------
    InvalidParameter : it is empty, holds a second statement, a comment or a dollar sign, a quote or
        a bracket that is not closed, or closes one that is not its own.
    """
    bare = _QUOTED.sub(" ", text)
    if not text.strip():
        raise InvalidParameter("where is an empty condition.", hint=_HINT)
    if _REFUSED.search(bare):
        raise InvalidParameter(
            "where holds a semicolon, a comment, a dollar sign or a quote that is not closed.",
            hint=_HINT,
        )
    open_brackets: list[str] = []
    for found in re.findall(r"[()\[\]]", bare):
        if found in "([":
            open_brackets.append(found)
        elif not open_brackets or open_brackets.pop() + found not in ("()", "[]"):
            raise InvalidParameter("where closes a bracket that it did not open.", hint=_HINT)
    if open_brackets:
        raise InvalidParameter("where opens a bracket that it does not close.", hint=_HINT)
