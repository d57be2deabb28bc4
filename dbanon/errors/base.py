"""What all errors have, and words for them."""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from dbanon.errors.redaction import redact

# How a door writes an option of a hint: its name, and its value where the hint has one. A name with
# () is no option but something that each door has in its own way.
Way = Callable[[str, Any], str]

# An option in a hint: `key`, `nulls="suppress"` with a value as JSON, `problems()`, or
# `declare_again()="app.person"`, with a table's name.
_MARKED = re.compile(r"`([a-z_]+(?:\(\))?)(?:=([^`]+))?`")


# What hints say of a source that has views.
_IN_A_VIEW = re.compile(r"\bin a view\b(, and anonymize the view)?")


def in_python(name: str, value: Any) -> str:
    """An option as a call in Python has it."""
    if name == "problems()":
        return "the error's problems"
    if name == "declare_again()":
        table = json.dumps(value, ensure_ascii=False)
        return f"dbanon.declare(database, {table}, dbanon.rules(database, {table}))"
    if value is None:
        return name
    return f"{name}={value if isinstance(value, bool) else json.dumps(value, ensure_ascii=False)}"


class DbanonError(Exception):
    """Something went wrong."""

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1
    sqlstate: ClassVar[str] = "XX000"

    def __init__(
        self, message: str | None = None, *, detail: str | None = None, hint: str | None = None
    ) -> None:
        # Names, paths and texts of libraries come in here; a URL among them may hold a password.
        self.message = redact(message or (type(self).__doc__ or "error").partition("\n")[0])
        self.detail = detail and redact(detail)
        self._hint = hint and redact(hint)
        # Where options have names of their own, whoever prints the error; None for the printer's.
        self.way: Way | None = None
        # Where the source has no views: what a hint says in place of "in a view".
        self.instead_of_view: str | None = None
        super().__init__(self.message)

    @property
    def hint(self) -> str | None:
        """What may help, as a call in Python has it."""
        return self.hint_by(in_python)

    @hint.setter
    def hint(self, told: str | None) -> None:
        self._hint = told and redact(told)

    def hint_by(self, way: Way) -> str | None:
        """What may help, with options as a door writes them, or as the error's own ``way`` does."""
        own = self.way or way

        def written(found: re.Match[str]) -> str:
            try:
                return own(found[1], None if found[2] is None else json.loads(found[2]))
            except ValueError:
                # A name of somebody's that looks like an option.
                return found[0]

        text = self._hint and _MARKED.sub(written, self._hint)
        if text and self.instead_of_view:
            return _IN_A_VIEW.sub(self.instead_of_view, text)
        return text

    def __str__(self) -> str:
        parts = [self.message]
        if self.detail:
            parts.append(f"Detail: {self.detail}")
        if self.hint:
            parts.append(f"Hint: {self.hint}")
        return "\n".join(parts)

    def to_dict(self, way: Way = in_python) -> dict[str, str | int | None]:
        """The error as plain values, for machines."""
        return {
            "code": self.code,
            "sqlstate": self.sqlstate,
            "exit_code": self.exit_code,
            "message": self.message,
            "detail": self.detail,
            "hint": self.hint_by(way),
        }


@contextmanager
def hints_without_views(words: str | None) -> Iterator[None]:
    """Write ``words`` in place of "in a view" in the hints of the block's errors.

    Parameters
    ----------
    words : where rows and types can be changed, as "in a copy of the file"; None for a source with
        views.
    """
    try:
        yield
    except DbanonError as error:
        error.instead_of_view = error.instead_of_view or words
        raise


def nearest_names(wanted: str, known: Iterable[str], limit: int = 3) -> str | None:
    """A hint that lists the known names nearest to ``wanted``, or None when none is near."""
    import difflib

    folded = {name.casefold(): name for name in sorted(known, reverse=True)}
    near = difflib.get_close_matches(wanted.casefold(), list(folded), n=limit, cutoff=0.6)
    if not near:
        return None
    return "Did you mean " + " or ".join(f'"{folded[name]}"' for name in near) + "?"


def error_code(error: BaseException) -> str:
    """The code of an error, for machines; of one that is not ours, what it was."""
    if isinstance(error, DbanonError):
        return error.code
    return "interrupted" if isinstance(error, KeyboardInterrupt) else "unexpected"


def lacks_memory(error: BaseException) -> bool:
    """Whether the process has no room for an object, or for the code of a library it loads."""
    told = str(error).lower() if isinstance(error, ImportError) else ""
    return isinstance(error, MemoryError) or "failed to map" in told or "cannot allocate" in told


def counted(count: int, one: str, many: str = "") -> str:
    """So many of something, in words: ``1 row``, ``2 rows``."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def warn_caller(warning: Warning) -> None:
    """Warn whoever called dbanon: the line that Python names with it is theirs, none of ours."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _within(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(warning, stacklevel=level)


def _within(module: str) -> bool:
    # Blocks of ours are ended by Python's own module.
    return module.partition(".")[0] == "dbanon" or module == "contextlib"
