"""Profiles: counts that describe the columns of a table, without values."""

from __future__ import annotations

from typing import Any

from dbanon.data.frozen import dataclass
from dbanon.data.schema import Attribute

# Counts from 1 to below this, or to below k if k is larger, are disclosed as a range only.
SMALL = 5


@dataclass(frozen=True)
class ColumnProfile:
    """The counts of a column.

    Parameters
    ----------
    present : number of rows with a value.
    distinct : number of distinct values, without NULL.
    key : True if the database declares values unique.
    mean_length : mean length of texts in characters; 0 for other types.
    worded : share of texts with a space.
    form : the form of its values, a name of ``advice.forms``; empty if none.
    """

    attribute: Attribute
    present: int
    distinct: int
    key: bool = False
    mean_length: float = 0.0
    worded: float = 0.0
    form: str = ""

    @property
    def name(self) -> str:
        """The column's name."""
        return self.attribute.name

    @property
    def all_different(self) -> bool:
        """True if values are unique, and there are at least two."""
        return self.distinct == self.present > 1


@dataclass(frozen=True)
class Profile:
    """The counts of a table."""

    rows: int
    columns: tuple[ColumnProfile, ...]

    def column(self, name: str) -> ColumnProfile:
        """The column with this name, which must exist."""
        return next(column for column in self.columns if column.name == name)


@dataclass(frozen=True)
class Count:
    """A count of rows that discloses small counts, and small remainders, as a range only.

    Parameters
    ----------
    count, of : the count, and the total.
    small : the smallest count that is disclosed exactly.
    """

    count: int
    of: int
    small: int = SMALL

    @property
    def share(self) -> float | None:
        """The share to 4 digits; None if it would disclose a small count."""
        if 0 < self.count < self.small or 0 < self.of - self.count < self.small:
            return None
        return float(f"{self.count / self.of:.4g}") if self.of else 0.0

    def __str__(self) -> str:
        """The count as text."""
        some = f"1..{self.small - 1}"
        if 0 < self.count < self.small:
            return some
        if 0 < self.of - self.count < self.small:
            return f"all but {some}"
        return str(self.count)

    def percent(self) -> str:
        """The share as text."""
        return f"{self!s} rows" if self.share is None else f"{100 * self.share:.3g} %"

    def to_dict(self) -> dict[str, Any]:
        """The count as plain values."""
        return {"rows": str(self), "share": self.share}
