"""What is read: how a CSV file is written, where its rows alone do not say it; which rows."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Annotated

from dbanon.data.files import FOREIGN_FILES, REFUSE
from dbanon.data.frozen import dataclass
from dbanon.data.option import Option, check
from dbanon.errors import InvalidParameter

DMY, MDY = "dmy", "mdy"
POINT, COMMA = ".", ","
UTF_8 = "utf-8"
ENCODINGS = (UTF_8, "latin-1", "windows-1252", "utf-16")
_SEE = "jobs.md#how-csv-is-read"


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How a CSV file is written, and which files are read.

    Parameters
    ----------
    dates : ``dmy`` or ``mdy``, beside dates as 2025-12-31; None for these alone.
    decimal : what stands before the decimals of a number.
    encoding : of its characters.
    null_words : texts that stand for NULL, beside nothing at all.
    foreign_files : what to do with files of other accounts in a folder, and with links; this one
        is about all files.

    Raises
    ------
    InvalidParameter : one is none of these.
    """

    dates: Annotated[
        str | None,
        Option(
            "How a CSV file writes dates: dmy for 31.12.2025, mdy for 12/31/2025. 2025-12-31"
            " is always read as a date.",
            choices=(DMY, MDY),
            sql=False,
            see=_SEE,
        ),
    ] = None
    decimal: Annotated[
        str,
        Option(
            "The decimal mark of numbers in a CSV file.",
            choices=(POINT, COMMA),
            sql=False,
            see=_SEE,
        ),
    ] = POINT
    encoding: Annotated[
        str,
        Option("The character encoding of a CSV file.", choices=ENCODINGS, sql=False, see=_SEE),
    ] = UTF_8
    null_words: Annotated[
        tuple[str, ...],
        Option(
            "Texts that mean NULL in a CSV file, such as k.A. An empty field always means NULL.",
            item="texts",
            sql=False,
            see=_SEE,
        ),
    ] = ()
    foreign_files: Annotated[
        str,
        Option(
            "What to do with files in a folder that belong to other accounts, and with links:"
            " refuse both, allow files of other accounts, or follow links, too.",
            choices=FOREIGN_FILES,
            sql=False,
            see="jobs.md#files-of-others",
        ),
    ] = REFUSE

    def __post_init__(self) -> None:
        check(self)

    @property
    def asked(self) -> tuple[str, ...]:
        """The options that say something else than usual."""
        return tuple(one.name for one in fields(self) if getattr(self, one.name) != one.default)

    def to_dict(self) -> dict[str, str | list[str]]:
        """What is asked, as plain values."""
        found = {name: getattr(self, name) for name in self.asked}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in found.items()
        }

    def require_none(self) -> None:
        """Check that nothing is said of files, where none is read.

        Raises
        ------
        InvalidParameter : something is.
        """
        self.require_no_csv()
        self.require_own_files()

    def require_no_csv(self) -> None:
        """Check that nothing is said of a CSV file, where none is read; raises InvalidParameter."""
        for name in self.asked:
            if name != "foreign_files":
                raise InvalidParameter(
                    f"{name} applies to CSV files, and the source is not one.",
                    hint="Leave it out, or read a file: file:people.csv.",
                )

    def require_own_files(self) -> None:
        """Check that nothing is said of links, where there are none; raises InvalidParameter."""
        if self.foreign_files != REFUSE:
            raise InvalidParameter(
                "foreign_files applies to files of this machine, and the source is not one.",
                hint="Leave it out, or read a folder: file:data/.",
            )


USUAL = Reading()


# What is passed over as it is: texts, texts with backslashes, names in quotes.
_QUOTED = re.compile(r"""(?<!\w)[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*\"""", re.S)
_REFUSED = re.compile(r"--|/\*|[;$\0'\"]")
_HINT = "Write the condition without WHERE, as in where=\"status = 'active'\"."


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
