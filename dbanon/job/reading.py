"""Reading: how a CSV file is written, where its rows alone do not say it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated

from dbanon.data.option import Option, check
from dbanon.errors import InvalidParameter

DMY, MDY = "dmy", "mdy"
POINT, COMMA = ".", ","
UTF_8 = "utf-8"
ENCODINGS = (UTF_8, "latin-1", "windows-1252", "utf-16")
_SEE = "jobs.md#how-csv-is-read"


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How a CSV file is written.

    Parameters
    ----------
    dates : ``dmy`` or ``mdy``, beside dates as 2025-12-31; None for these alone.
    decimal : what stands before the decimals of a number.
    encoding : of its characters.
    null_words : texts that stand for NULL, beside nothing at all.

    Raises
    ------
    InvalidParameter : one is none of these.
    """

    dates: Annotated[
        str | None,
        Option(
            "Dates of a CSV file: dmy for 31.12.2025, mdy for 12/31/2025; 2025-12-31 is always"
            " one.",
            choices=(DMY, MDY),
            sql=False,
            see=_SEE,
        ),
    ] = None
    decimal: Annotated[
        str,
        Option(
            "What stands before the decimals of numbers in a CSV file.",
            choices=(POINT, COMMA),
            sql=False,
            see=_SEE,
        ),
    ] = POINT
    encoding: Annotated[
        str,
        Option("How characters of a CSV file are written.", choices=ENCODINGS, sql=False, see=_SEE),
    ] = UTF_8
    null_words: Annotated[
        tuple[str, ...],
        Option(
            "Texts of a CSV file that stand for NULL, as in k.A.; nothing at all always does.",
            item="texts",
            sql=False,
            see=_SEE,
        ),
    ] = ()

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
        """Check that nothing is said of a CSV file, where none is read.

        Raises
        ------
        InvalidParameter : something is.
        """
        for name in self.asked:
            raise InvalidParameter(
                f"{name} is of CSV files, and none is read.",
                hint="Leave it out, or read a file: file:people.csv.",
            )


USUAL = Reading()
