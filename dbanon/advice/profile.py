"""Profile: what counts tell of the columns of a table. It holds no value of any."""

from __future__ import annotations

from typing import Any

from dbanon.data.frozen import dataclass
from dbanon.data.schema import Attribute

# Counts of rows from 1 up to below this are told as a range, or below k where k is larger.
SMALL = 5


@dataclass(frozen=True)
class Column:
    """What was counted of a column.

    Parameters
    ----------
    present : rows with a value.
    distinct : different values; NULL is none.
    key : True where the database declares that no two rows share a value.
    mean_length : of its texts, in characters; 0 for other types.
    worded : share of its texts that hold a space.
    form : that its values have, a name of ``advice.forms``; empty where they have none.
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
        """True when no two rows share a value, and there are two."""
        return self.distinct == self.present > 1


@dataclass(frozen=True)
class Profile:
    """What was counted of a table."""

    rows: int
    columns: tuple[Column, ...]

    def column(self, name: str) -> Column:
        """The column of this name, which is there."""
        return next(column for column in self.columns if column.name == name)


@dataclass(frozen=True)
class Count:
    """A count of rows as it may be told: 1 to ``small`` - 1 is a range, and so is what is left.

    Parameters
    ----------
    count, of : so many of so many.
    small : the first count that is told as it is.
    """

    count: int
    of: int
    small: int = SMALL

    @property
    def share(self) -> float | None:
        """The share, of 4 digits; None where it would tell a small count."""
        if 0 < self.count < self.small or 0 < self.of - self.count < self.small:
            return None
        return float(f"{self.count / self.of:.4g}") if self.of else 0.0

    def __str__(self) -> str:
        """The count in words."""
        some = f"1..{self.small - 1}"
        if 0 < self.count < self.small:
            return some
        if 0 < self.of - self.count < self.small:
            return f"all but {some}"
        return str(self.count)

    def percent(self) -> str:
        """The share in words."""
        return f"{self!s} rows" if self.share is None else f"{100 * self.share:.3g} %"

    def to_dict(self) -> dict[str, Any]:
        """The count as plain values."""
        return {"rows": str(self), "share": self.share}
