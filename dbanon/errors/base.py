"""The base class of errors, and helpers for their texts."""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from dbanon.errors.redaction import redact

# Writes an option of a hint in the notation of an interface, from its name and its value if any. A
# name with () is not an option but a feature that each interface expresses differently.
Notation = Callable[[str, Any], str]

# An option in a hint: `key`, `nulls="suppress"` with a value as JSON, `problems()`, or
# `declare_again()="app.person"`, with a table's name.
_MARKED = re.compile(r"`([a-z_]+(?:\(\))?)(?:=([^`]+))?`")


# Stands in a hint for a backtick of SQL, since backticks mark options there.
_SQL_BACKTICK = "\0"
# The words in hints that hold only for sources with views.
_IN_A_VIEW = re.compile(r"\bin a view\b(, and anonymize the view)?")


def in_python(name: str, value: Any) -> str:
    """Write an option in the notation of a Python call."""
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
        # Messages may contain paths and texts of libraries; a URL in them may have a password.
        self.message = redact(message or (type(self).__doc__ or "error").partition("\n")[0])
        self.detail = detail and redact(detail)
        self._hint = hint and redact(hint)
        # The notation of options if it does not depend on the printing interface, else None.
        self.way: Notation | None = None
        # The replacement for "in a view" in hints if the source has no views.
        self.instead_of_view: str | None = None
        super().__init__(self.message)

    @property
    def hint(self) -> str | None:
        """The hint in the notation of Python calls."""
        return self.hint_by(in_python)

    @hint.setter
    def hint(self, text: str | None) -> None:
        self._hint = text and redact(text)

    def hint_by(self, write_option: Notation) -> str | None:
        """The hint with options in the notation of an interface, or of the error's own ``way``."""
        writer = self.way or write_option

        def write_match(match: re.Match[str]) -> str:
            try:
                return writer(match[1], None if match[2] is None else json.loads(match[2]))
            except ValueError:
                # A user's name that looks like an option.
                return match[0]

        text = self._hint and _MARKED.sub(write_match, self._hint).replace(_SQL_BACKTICK, "`")
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

    def to_dict(self, write_option: Notation = in_python) -> dict[str, str | int | None]:
        """The error as plain values."""
        return {
            "code": self.code,
            "sqlstate": self.sqlstate,
            "exit_code": self.exit_code,
            "message": self.message,
            "detail": self.detail,
            "hint": self.hint_by(write_option),
        }


def sql_for_hint(statement: str) -> str:
    """SQL to be put into a hint: its backticks quote names, and mark no options."""
    return statement.replace("`", _SQL_BACKTICK)


@contextmanager
def hints_without_views(words: str | None) -> Iterator[None]:
    """Write ``words`` in place of "in a view" in the hints of the block's errors.

    Parameters
    ----------
    words : where to change rows and types, as "in a copy of the file"; None for a source with
        views.
    """
    try:
        yield
    except DbanonError as error:
        error.instead_of_view = error.instead_of_view or words
        raise


def nearest_names(target: str, names: Iterable[str], limit: int = 3) -> str | None:
    """A hint with the names nearest to ``target``; None if none is near."""
    import difflib

    folded = {name.casefold(): name for name in sorted(names, reverse=True)}
    near = difflib.get_close_matches(target.casefold(), list(folded), n=limit, cutoff=0.6)
    if not near:
        return None
    return "Did you mean " + " or ".join(f'"{folded[name]}"' for name in near) + "?"


def error_code(error: BaseException) -> str:
    """The code of an error; ``interrupted`` or ``unexpected`` for errors that are not dbanon's."""
    if isinstance(error, DbanonError):
        return error.code
    return "interrupted" if isinstance(error, KeyboardInterrupt) else "unexpected"


def lacks_memory(error: BaseException) -> bool:
    """Whether memory ran out for an object, or for a library to load."""
    import_message = str(error).lower() if isinstance(error, ImportError) else ""
    return (
        isinstance(error, MemoryError)
        or "failed to map" in import_message
        or "cannot allocate" in import_message
    )


def counted(count: int, singular: str, plural: str = "") -> str:
    """A count with its noun: ``1 row``, ``2 rows``."""
    return f"{count} {singular if count == 1 else plural or singular + 's'}"


def warn_caller(warning: Warning) -> None:
    """Issue a warning that names the line of the caller's code, not of dbanon's."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _is_own_module(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(warning, stacklevel=level)


def _is_own_module(module: str) -> bool:
    # contextlib closes context managers of dbanon.
    return module.partition(".")[0] == "dbanon" or module == "contextlib"
