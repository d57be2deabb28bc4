"""What is read: how a CSV file is written, where its rows alone do not say it; which rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Annotated, Any

from dbanon.data.files import FOREIGN_FILES, REFUSE
from dbanon.data.frozen import dataclass
from dbanon.data.option import Option, check, parameters
from dbanon.errors import InvalidParameter

DMY, MDY, YMD = "dmy", "mdy", "ymd"
POINT, COMMA = ".", ","
APOSTROPHE, SPACE = "'", " "
UTF_8 = "utf-8"
ENCODINGS = (UTF_8, "latin-1", "windows-1252", "utf-16")
REFUSE_NAMES, RENAME = "refuse", "rename"
# A day is written with day, month and year; a time of day may follow.
_DAY = r"(?=.*%d)(?=.*%[mbB])(?=.*%[yY])(?:[^%]|%[dmbByYHIMSfpz%])+"
TYPES = ("text", "integer", "decimal", "double", "percent", "date", "timestamp", "timestamptz",
         "boolean")  # fmt: skip
_TYPE = rf"(?:{'|'.join(TYPES)}|decimal\([0-9]{{1,2}},[0-9]{{1,2}}\)|{_DAY})"
_SEE = "jobs.md#how-csv-is-read"


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How a CSV file is written, and which files are read.

    Parameters
    ----------
    dates : ``dmy``, ``mdy`` or ``ymd``, or a pattern of ``strptime``, beside dates as 2025-12-31;
        None where the values decide, which must allow one reading only.
    decimal : what stands before the decimals of a number; None as of dates.
    thousands : what stands between thousands; None as of dates.
    trim : blanks around fields without quotes are no part of them.
    types : by column; of others the values decide.
    header : whether the first line names the columns; None where the values decide.
    skip_lines : lines before the header.
    sheet : of a spreadsheet; the only one that has rows when None.
    duplicate_columns : what becomes of columns of one name.
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
            "How a CSV file writes dates: dmy for 31.12.2025, mdy for 12/31/2025, ymd for"
            " 2025/12/31, or a pattern such as %d.%m.%y. 2025-12-31 is always read as a date.",
            pattern=rf"{DMY}|{MDY}|{YMD}|{_DAY}",
            expected="dmy, mdy, ymd or a pattern such as %d.%m.%y",
            sql=False,
            see=_SEE,
        ),
    ] = None
    decimal: Annotated[
        str | None,
        Option(
            "The decimal mark of numbers in a CSV file.",
            choices=(POINT, COMMA),
            sql=False,
            see=_SEE,
        ),
    ] = None
    thousands: Annotated[
        str | None,
        Option(
            "The mark between thousands of numbers in a CSV file: , . ' or a space.",
            choices=(COMMA, POINT, APOSTROPHE, SPACE),
            sql=False,
            see=_SEE,
        ),
    ] = None
    trim: Annotated[
        bool,
        Option(
            "Remove blanks around fields of a CSV file that have no quotes.", sql=False, see=_SEE
        ),
    ] = True
    types: Annotated[
        Mapping[str, str],
        Option(
            "The type of a column of a CSV file: " + ", ".join(TYPES) + ", decimal(18,2), or a"
            " pattern of dates such as %d/%m/%Y. Types of other columns follow from their values.",
            pattern=_TYPE,
            expected="a type by column: one of " + ", ".join(TYPES) + ", decimal(18,2), or a"
            " pattern of dates such as %d/%m/%Y",
            flag="type",
            form="NAME=TYPE",
            sql=False,
            see=_SEE,
        ),
    ] = field(default_factory=dict)
    header: Annotated[
        bool | None,
        Option(
            "Whether the first line of a CSV file names its columns. Without a header they are"
            " column0, column1, and so on.",
            sql=False,
            see=_SEE,
        ),
    ] = None
    skip_lines: Annotated[
        int,
        Option("Lines before the header of a CSV file.", minimum=0, sql=False, see=_SEE),
    ] = 0
    sheet: Annotated[
        str | None,
        Option(
            "The sheet of an .xlsx file. Without it, the file has one sheet with rows.",
            sql=False,
            see=_SEE,
        ),
    ] = None
    duplicate_columns: Annotated[
        str,
        Option(
            "What to do with columns of one name in a CSV file: refuse them, or rename the later"
            " ones, as in age_2.",
            choices=(REFUSE_NAMES, RENAME),
            sql=False,
            see=_SEE,
        ),
    ] = REFUSE_NAMES
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
        if self.decimal is not None and self.decimal == self.thousands:
            raise InvalidParameter(
                "decimal and thousands are the same mark.",
                hint="Say what stands before the decimals (`decimal`), and what between thousands"
                " (`thousands`).",
            )

    @property
    def asked(self) -> tuple[str, ...]:
        """The options that say something else than usual."""
        known = parameters(type(self))
        return tuple(one.name for one in known if getattr(self, one.name) != one.default)

    def to_dict(self) -> dict[str, Any]:
        """What is asked, as plain values."""
        found = {name: getattr(self, name) for name in self.asked}
        return {
            name: list(value)
            if isinstance(value, tuple)
            else dict(value)
            if isinstance(value, Mapping)
            else value
            for name, value in found.items()
        }

    def stating(self, types: Mapping[str, str], decided: Iterable[tuple[str, str]]) -> Reading:
        """The same reading with a type of each column, which no other file of the kind changes.

        Parameters
        ----------
        types : by column; those that are stated already stay.
        decided : options and arguments that values decided on. Where they differ, none is stated.
        """
        options: dict[str, set[str]] = {}
        for option, argument in decided:
            options.setdefault(option, set()).add(argument)
        found: dict[str, Any] = {
            option: argument
            for option, [argument] in ((o, a) for o, a in options.items() if len(a) == 1)
            if getattr(self, option) is None
        }
        decimal, thousands = (
            found.get(name, getattr(self, name)) for name in ("decimal", "thousands")
        )
        if decimal is not None and decimal == thousands:
            # Columns of two kinds: their types say enough of this file.
            found = {name: found[name] for name in found if name == "dates"}
        return replace(self, **found, types={**types, **self.types})

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
