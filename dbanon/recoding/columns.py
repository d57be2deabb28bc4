"""Released columns: one value per class and quasi-identifier, in the column's own type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dbanon.partitions import Partition
from dbanon.schema import Attribute, Kind

# Exact class means of wide attributes: Python integers, in units of 10**-scale, None where NULL.
ExactMeans: TypeAlias = Callable[
    [Partition, Sequence[Attribute]], Mapping[str, NDArray[np.object_]]
]


@dataclass(frozen=True)
class ReleasedColumn:
    """What a release says of one quasi-identifier.

    Parameters
    ----------
    attribute : the column as it is written.
    values : one value per class. int64 for integers, decimals (in units of 10**-scale), dates
        (days since 1970-01-01) and timestamps (microseconds since then, UTC); float64 for floats;
        object (Python integers, units as above) where int64 is too narrow; object (str) for text.
    missing : bool (n_classes,), True where NULL is released; None when nowhere.
    unrounded : float64 (n_classes,), the value before rounding to the column's type; None for text.
    """

    attribute: Attribute
    values: NDArray[Any]
    missing: NDArray[np.bool_] | None = None
    unrounded: NDArray[np.float64] | None = None

    def as_float(self) -> NDArray[np.float64]:
        """The released values as the numbers that ``Microdata`` holds, float64 (n_classes,)."""
        values = np.array([0 if value is None else value for value in self.values]) if (
            self.values.dtype == object
        ) else self.values
        numbers = values.astype(np.float64)
        if self.attribute.kind is Kind.DECIMAL:
            numbers /= 10.0**self.attribute.scale
        return numbers


@dataclass(frozen=True)
class Recoding:
    """A registered recoding.

    Parameters
    ----------
    name : as in calls and commands.
    run : ``(microdata, partition, exact_means) -> released columns``.
    summary : one line for people.
    method : the only method it belongs to; None when it goes with any that groups rows.
    parameters : the options of that method that ``run`` takes by name as well.
    """

    name: str
    run: Callable[..., tuple[ReleasedColumn, ...]]
    summary: str
    method: str | None = None
    parameters: tuple[str, ...] = ()
