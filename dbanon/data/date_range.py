"""The range of the dates in a column, as a source measures it."""

from __future__ import annotations

import numpy as np

from dbanon.data.frozen import dataclass
from dbanon.data.schema import Attribute, Kind

# The first and the last day that all databases and Python can store, for dates and for timestamps,
# whose microseconds float64 must represent exactly.
_DATE_LIMITS = ("0001-01-01", "9999-12-31")
_TIMESTAMP_LIMITS = ("1700-01-01", "2250-01-01")
_MICROSECONDS_PER_DAY = 86_400_000_000


@dataclass(frozen=True)
class DateRange:
    """The range of the dates in a column.

    Parameters
    ----------
    n_values : the number of values without NULL.
    n_dates : how many of them are dates.
    first_day, last_day : the earliest and the latest date in days since 1970-01-01, clipped to the
        limits; 0 if there is none.
    limits : the first and the last day that a shifted date may have, as text.
    """

    n_values: int
    n_dates: int
    first_day: float
    last_day: float
    limits: tuple[str, str]

    def has_room(self, days: int) -> bool:
        """Whether all values are dates that remain within the limits if shifted by ``days``."""
        first_limit, last_limit = (
            float(np.datetime64(limit, "D").astype(np.int64)) for limit in self.limits
        )
        return self.n_values == self.n_dates and (
            not self.n_dates
            or (self.first_day - days >= first_limit and self.last_day + days < last_limit)
        )


def date_limits(attribute: Attribute) -> tuple[str, str]:
    """The first and the last day of a column of dates or timestamps, as text."""
    return _DATE_LIMITS if attribute.kind is Kind.DATE else _TIMESTAMP_LIMITS


def units_per_day(attribute: Attribute) -> int:
    """The number of a column's units in a day: 1 for dates, microseconds for timestamps."""
    return 1 if attribute.kind is Kind.DATE else _MICROSECONDS_PER_DAY
