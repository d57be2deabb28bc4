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

# Writes an option as an interface spells it, given its name and its value (None to write no value).
# A name that ends in () is not an option, but an action that each interface writes in its own way:
# `problems()` says how to list the problems of a hierarchy, and `declare_again()` how a table's
# owner takes over rules that others declared.
Notation = Callable[[str, Any], str]

# Matches an option in a hint: `key`, `nulls="suppress"` with a value as JSON, `problems()`, or
# `declare_again()="app.person"`, with a table's name.
_OPTION = re.compile(r"`([a-z_]+(?:\(\))?)(?:=([^`]+))?`")


# Stands for SQL's backticks in a hint, because backticks there mark options.
_SQL_BACKTICK = "\0"
# Words in hints that help only if the source can have views.
_IN_A_VIEW = re.compile(r"\bin a view\b(, and anonymize the view)?")


def write_python_option(name: str, value: Any) -> str:
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
        # Messages may contain paths and texts of libraries, with URLs that contain a password.
        self.message = redact(message or (type(self).__doc__ or "error").partition("\n")[0])
        self.detail = detail and redact(detail)
        self._hint = hint and redact(hint)
        # Writes the options in the hint, whichever interface prints the error: hints about a job
        # file name the keys of the file. None if the interface that prints the error writes the
        # options.
        self.fixed_notation: Notation | None = None
        # Replaces "in a view" in the hint if the source has no views.
        self.view_replacement: str | None = None
        super().__init__(self.message)

    @property
    def hint(self) -> str | None:
        """The hint in the notation of Python calls."""
        return self.format_hint(write_python_option)

    @hint.setter
    def hint(self, text: str | None) -> None:
        self._hint = text and redact(text)

    def format_hint(self, write_option: Notation) -> str | None:
        """Format the hint, with its options in ``fixed_notation``, or else by ``write_option``."""
        writer = self.fixed_notation or write_option

        def write_match(match: re.Match[str]) -> str:
            try:
                return writer(match[1], None if match[2] is None else json.loads(match[2]))
            except ValueError:
                # Not an option, but a user's name that looks like one.
                return match[0]

        text = self._hint and _OPTION.sub(write_match, self._hint).replace(_SQL_BACKTICK, "`")
        if text and self.view_replacement:
            return _IN_A_VIEW.sub(self.view_replacement, text)
        return text

    def __str__(self) -> str:
        lines = [self.message]
        if self.detail:
            lines.append(f"Detail: {self.detail}")
        if self.hint:
            lines.append(f"Hint: {self.hint}")
        return "\n".join(lines)

    def to_dict(self, write_option: Notation = write_python_option) -> dict[str, str | int | None]:
        """Return the error as JSON values."""
        return {
            "code": self.code,
            "sqlstate": self.sqlstate,
            "exit_code": self.exit_code,
            "message": self.message,
            "detail": self.detail,
            "hint": self.format_hint(write_option),
        }


def sql_for_hint(statement: str) -> str:
    """Prepare SQL for a hint, so that its backticks are not taken for marks of options."""
    return statement.replace("`", _SQL_BACKTICK)


@contextmanager
def hints_without_views(replacement: str | None) -> Iterator[None]:
    """Replace the words "in a view" in the hints of errors that the block raises.

    Parameters
    ----------
    replacement : the new words, such as "in a copy of the file"; None to keep "in a view", for a
        source that can have views.
    """
    try:
        yield
    except DbanonError as error:
        error.view_replacement = error.view_replacement or replacement
        raise


def nearest_names(target: str, names: Iterable[str], limit: int = 3) -> str | None:
    """Return a hint with the names most similar to ``target``; None if no name is similar."""
    import difflib

    # Of names that differ only in case, the first in order is suggested.
    name_of_folded = {name.casefold(): name for name in sorted(names, reverse=True)}
    nearest = difflib.get_close_matches(
        target.casefold(), list(name_of_folded), n=limit, cutoff=0.6
    )
    if not nearest:
        return None
    return "Did you mean " + " or ".join(f'"{name_of_folded[name]}"' for name in nearest) + "?"


def error_code(error: BaseException) -> str:
    """Return an error's code; ``interrupted`` or ``unexpected`` if it is not one of dbanon's."""
    if isinstance(error, DbanonError):
        return error.code
    return "interrupted" if isinstance(error, KeyboardInterrupt) else "unexpected"


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory ran out, for an object or while a library was loaded."""
    import_message = str(error).lower() if isinstance(error, ImportError) else ""
    return (
        isinstance(error, MemoryError)
        or "failed to map" in import_message
        or "cannot allocate" in import_message
    )


def pluralize(count: int, singular: str, plural: str = "") -> str:
    """Write a count with its noun: ``1 row``, ``2 rows``."""
    return f"{count} {singular if count == 1 else plural or singular + 's'}"


def warn_caller(warning: Warning) -> None:
    """Issue a warning that points to the line that called dbanon."""
    stack_level, frame = 1, sys._getframe()
    while frame.f_back is not None and _is_module_to_skip(frame.f_globals.get("__name__", "")):
        stack_level, frame = stack_level + 1, frame.f_back
    warnings.warn(warning, stacklevel=stack_level)


def _is_module_to_skip(module: str) -> bool:
    """Whether a stack frame of this module is not the caller's."""
    # Frames of contextlib lie between those of dbanon, so both are skipped.
    return module.partition(".")[0] == "dbanon" or module == "contextlib"
