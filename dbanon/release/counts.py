"""What was counted on the written relation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Recount:
    """What was counted on the written relation, by GROUP BY over the quasi-identifiers.

    Parameters
    ----------
    rows : rows in all.
    histogram : how many classes there are of each size.
    null_rows : rows with NULL in a quasi-identifier.
    k_rows : the rows that share the rarest combination of values, where ``histogram`` is of the
        classes of each attribute by itself; None where it is of combinations.
    """

    rows: int
    histogram: Mapping[int, int]
    null_rows: int = 0
    k_rows: int | None = None

    @classmethod
    def of_attributes(cls, attributes: Sequence[Recount], rows: Recount) -> Recount:
        """The recounts of each attribute by itself in one, beside that of their combinations."""
        histogram: dict[int, int] = {}
        for part in attributes:
            for size, count in part.histogram.items():
                histogram[size] = histogram.get(size, 0) + count
        return cls(rows.rows, histogram, rows.null_rows, rows.smallest)

    @property
    def classes(self) -> int:
        """The number of classes."""
        return sum(self.histogram.values())

    @property
    def smallest(self) -> int:
        """Records in the smallest class: the k that was achieved; 0 when there are no rows."""
        return min(self.histogram, default=0)

    @property
    def largest(self) -> int:
        """Records in the largest class."""
        return max(self.histogram, default=0)

    @property
    def median(self) -> float:
        """The median class size."""
        if not self.histogram:
            return 0.0
        sizes = sorted(self.histogram)
        ends = np.cumsum([self.histogram[size] for size in sizes])
        low = sizes[int(np.searchsorted(ends, (ends[-1] + 1) // 2))]
        high = sizes[int(np.searchsorted(ends, ends[-1] // 2 + 1))]
        return (low + high) / 2


def rarest_row(k_rows: int) -> str:
    """What ``k_rows`` tells, in words."""
    return f"the rarest combination of released values is shared by {k_rows} row(s)"


@dataclass(frozen=True)
class EntityCount:
    """Persons counted in the classes of released values, in staging beside their rows.

    Parameters
    ----------
    persons : in all.
    smallest : in the class of fewest; 0 when there is none.
    histogram : how many classes there are of each size in rows.
    """

    persons: int
    smallest: int
    histogram: Mapping[int, int]
