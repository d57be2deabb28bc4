"""Profiles: counts that describe the columns of a table, without values."""

from __future__ import annotations

from dbanon.data.frozen import dataclass
from dbanon.data.schema import Attribute
from dbanon.data.types import JsonObject

# Counts of 1 or more that are below this number, or below k if k is larger, are disclosed only as a
# range.
SMALL_COUNT = 5


@dataclass(frozen=True)
class ColumnProfile:
    """The counts of a column.

    Parameters
    ----------
    attribute : the column.
    n_non_null : number of rows that are not NULL.
    n_distinct : number of distinct values, not counting NULL.
    is_unique_key : True if the database declares that no two rows share a value.
    mean_length : mean length of texts in characters; 0 for other types.
    multiword_share : share of texts that contain a space.
    form : the name of the format of its values in ``advice.forms``, such as "IBAN"; empty if the
        values have none of the formats there.
    can_weight : False if a value is no number of persons: not above 0, or not finite. Only known of
        complete columns with the name of a design weight.
    """

    attribute: Attribute
    n_non_null: int
    n_distinct: int
    is_unique_key: bool = False
    mean_length: float = 0.0
    multiword_share: float = 0.0
    form: str = ""
    can_weight: bool = True

    @property
    def name(self) -> str:
        """The column's name."""
        return self.attribute.name

    @property
    def has_distinct_values(self) -> bool:
        """True if no two rows share a value, and at least two rows have one."""
        return self.n_distinct == self.n_non_null > 1


@dataclass(frozen=True)
class Profile:
    """The counts of a table: its number of rows, and the counts of each column."""

    rows: int
    columns: tuple[ColumnProfile, ...]

    def column(self, name: str) -> ColumnProfile:
        """Return the counts of the column with this name, which must exist."""
        return next(column for column in self.columns if column.name == name)


@dataclass(frozen=True)
class Count:
    """A number of rows out of all rows.

    If it is a small number, or the number of all other rows is small, only a range is disclosed.

    Parameters
    ----------
    count : the number of rows.
    total : the number of all rows.
    small : the smallest count that is disclosed exactly.
    """

    count: int
    total: int
    small: int = SMALL_COUNT

    @property
    def share(self) -> float | None:
        """The count divided by all rows, to 4 digits; None if it would disclose a small count."""
        if 0 < self.count < self.small or 0 < self.total - self.count < self.small:
            return None
        return float(f"{self.count / self.total:.4g}") if self.total else 0.0

    def __str__(self) -> str:
        """The count as text."""
        small_range = f"1..{self.small - 1}"
        if 0 < self.count < self.small:
            return small_range
        if 0 < self.total - self.count < self.small:
            return f"all but {small_range}"
        return str(self.count)

    def percent(self) -> str:
        """Format the share in percent; if it may not be disclosed, format the range of rows."""
        return f"{self!s} rows" if self.share is None else f"{100 * self.share:.3g} %"

    def to_dict(self) -> JsonObject:
        """The count as plain values."""
        return {"rows": str(self), "share": self.share}
