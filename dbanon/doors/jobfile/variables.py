"""``${VAR}`` in a job file: expanded once, after the file was parsed, inside a few texts only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from urllib.parse import parse_qsl

from dbanon.errors import InvalidParameter

_VARIABLE = re.compile(r"\$(?:\$|\{([A-Za-z_][A-Za-z0-9_]*)(?:(:-|\?)([^{}]*))?\}|)")


def require_form(text: str) -> None:
    """Check that each dollar sign stands before a variable or another, and that files may be so.

    Raises
    ------
    InvalidParameter : one does not.
    """
    if "\0" in text:
        raise InvalidParameter("No URL or path holds a NUL.")
    for found in _VARIABLE.finditer(text):
        if found[0] == "$":
            raise InvalidParameter(
                "Write ${VAR}, ${VAR:-default} or ${VAR?message}, and $$ for a dollar sign."
            )


def of_day(day: date) -> dict[str, str]:
    """What stands for itself where the environment does not say it: year and month of the run."""
    return {"year": f"{day:%Y}", "month": f"{day:%m}"}


def expanded(text: str, environment: Mapping[str, str]) -> str:
    """The text with its variables; what they hold is not looked at again.

    Raises
    ------
    InvalidParameter : a variable has no value. The message is the file's own, or names it.
    """

    def value(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        name, way, more = found.groups()
        held = environment.get(name, "")
        if held or (way is None and name in environment):
            return held
        if way == ":-":
            return str(more)
        raise InvalidParameter(more or f"The environment has no {name}.")

    require_form(text)
    return _VARIABLE.sub(value, text)


def written_password(url: str) -> bool:
    """True for a URL with a password that stands in the text itself, if only as a default."""

    def written(found: re.Match[str]) -> str:
        return "$" if found[0] in ("$", "$$") else str(found[3]) if found[2] == ":-" else ""

    text = _VARIABLE.sub(written, url)
    found = re.match(r"[A-Za-z][\w+.-]*://([^/@]*)@", text) or re.match(r"[^:]+://(.*)@", text)
    if found and found[1].partition(":")[2]:
        return True
    settings = parse_qsl(text.partition("?")[2])
    return any(name.lower() in ("password", "sslpassword") for name, _ in settings)
