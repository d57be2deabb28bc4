"""The option ``shift_dates``: dates are released with a secret offset for each person or row."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import ClassVar

from dbanon.data.frozen import dataclass
from dbanon.data.option import Option
from dbanon.data.types import JsonMapping, JsonObject
from dbanon.errors import InvalidParameter

_DOCS_PAGE = "guarantees.md#shifted-dates"
_FORM_HINT = 'Write {"days": 365, "columns": ["admitted", "discharged"]}: `shift_dates`.'
# More days would shift dates beyond the years that all databases can store.
MAX_DAYS = 36_500
SHIFT_DATES = Option(
    "Shift dates that are copied by a secret number of days, at most this many earlier or later:"
    " the same for all rows of a person, or for all columns of a row without `entity`.",
    expected="an object: days, and a list of columns",
    form="A,B=DAYS",
    concerns_release=True,
    docs_page=_DOCS_PAGE,
)


@dataclass(frozen=True)
class DateShift:
    """Columns of dates that are shifted, and by how many days at most.

    Parameters
    ----------
    days : the largest offset; an offset is one of -days, …, days.
    columns : copied columns of dates or timestamps, without duplicates.

    Raises
    ------
    InvalidParameter : there is no column, one is named twice, or the days are out of range.
    """

    days: int
    columns: tuple[str, ...]

    # The types of plain values that ``from_plain`` accepts, for the checks of options.
    plain_types: ClassVar[tuple[type, ...]] = (Mapping,)

    def __post_init__(self) -> None:
        names: Collection[object] = self.columns
        if isinstance(names, str) or not all(isinstance(name, str) for name in names):
            raise InvalidParameter(
                "The columns of `shift_dates` must be a list of names.", hint=_FORM_HINT
            )
        object.__setattr__(self, "columns", tuple(names))
        if not names or len(set(names)) < len(names):
            raise InvalidParameter(
                "`shift_dates` must name at least one column, and each once.", hint=_FORM_HINT
            )
        days: object = self.days
        if not isinstance(days, int) or isinstance(days, bool) or not 1 <= days <= MAX_DAYS:
            raise InvalidParameter(
                f"The days of `shift_dates` must be a whole number from 1 to {MAX_DAYS}.",
                hint=_FORM_HINT,
            )

    @classmethod
    def from_plain(cls, plain: JsonMapping) -> DateShift:
        """Build the option from a mapping with the keys days and columns.

        Raises
        ------
        InvalidParameter : a key is missing or unknown, or a value has another type.
        """
        if set(plain) != {"days", "columns"}:
            raise InvalidParameter("`shift_dates` has the keys days and columns.", hint=_FORM_HINT)
        columns = plain["columns"]
        if not isinstance(columns, (list, tuple)):
            raise InvalidParameter(
                "The columns of `shift_dates` must be a list of names.", hint=_FORM_HINT
            )
        return cls(plain["days"], tuple(columns))

    def to_plain(self) -> JsonObject:
        """The option as plain values, for the ledger."""
        return {"days": self.days, "columns": list(self.columns)}

    @property
    def n_offsets(self) -> int:
        """The number of possible offsets."""
        return 2 * self.days + 1
