"""Grids for intervals: borders that depend on the column, never on a class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import EXACT_INTEGER
from dbanon.data.schema import Attribute, Kind

# A grid step is about this share of the column's range.
_PARTS = 20
_DAY = 86_400_000_000
_MONTHS = (1, 3, 12, 60, 120, 600, 1200)


@dataclass(frozen=True)
class Grid:
    """Borders at whole multiples of a step, or at the starts of every so many months.

    Parameters
    ----------
    step : width, in the column's unit; unused with months.
    months : months between two borders, or 0.
    unit : what a day is in the column's unit, with months.
    """

    step: float = 1.0
    months: int = 0
    unit: int = 1

    def around(
        self, low: NDArray[np.float64], high: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The largest border <= low and the smallest border > high, float64 each."""
        if not self.months:
            return self._multiples(self._below(low)), self._multiples(self._below(high) + 1)
        return self._border(low, 0), self._border(high, 1)

    def _below(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Which multiple of the step is the largest border <= each value."""
        count = np.floor(values / self.step)
        # Rounding of the quotient may place a value one border too far, either way.
        count = np.where(self._multiples(count) > values, count - 1, count)
        return np.where(self._multiples(count + 1) <= values, count + 1, count)

    def _multiples(self, count: NDArray[np.float64]) -> NDArray[np.float64]:
        """Borders as they are told: members are compared with these."""
        borders = count * self.step
        if not (borders % 1).any() and (np.abs(borders) < EXACT_INTEGER).all():
            return borders
        return np.array([self.clean(border) for border in borders.tolist()], np.float64)

    def _border(self, values: NDArray[np.float64], more: int) -> NDArray[np.float64]:
        days = np.floor(values / self.unit).astype(np.int64).astype("datetime64[D]")
        month = days.astype("datetime64[M]").astype(np.int64)
        # Month 0 is January 1970: years and decades start at whole multiples from year 0.
        month = (month + 1970 * 12) // self.months * self.months - 1970 * 12 + more * self.months
        starts = month.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
        return np.asarray(starts.astype(np.float64) * self.unit)

    def clean(self, value: float) -> float:
        """A border without the last digits that rounding left in it."""
        return float(f"{value:.15g}") if not self.months else value


def grid_for(attribute: Attribute, least: float, most: float, step: float | None) -> Grid:
    """The grid of a column with values from ``least`` to ``most``, or the caller's ``step``.

    The step is 1, 2 or 5 times a power of ten, at least the unit of the column's type; of dates it
    is days, weeks or whole months.
    """
    if step is not None:
        return Grid(float(step))
    wanted = (most - least) / _PARTS
    if attribute.kind in (Kind.DATE, Kind.TIMESTAMP):
        unit = 1 if attribute.kind is Kind.DATE else _DAY
        if wanted >= 14 * unit:
            months = [months for months in _MONTHS if months * 30.5 * unit >= wanted]
            return Grid(months=months[0] if months else _MONTHS[-1], unit=unit)
        return Grid(float(7 * unit if wanted > unit else unit))
    smallest = {Kind.INTEGER: 1.0, Kind.ORDINAL: 1.0, Kind.DECIMAL: 10.0**-attribute.scale}.get(
        attribute.kind, 0.0
    )
    if wanted <= smallest:
        return Grid(smallest or 1.0)
    power = 10.0 ** np.floor(np.log10(wanted))
    factor = next(f for f in (1, 2, 5, 10) if f * power >= wanted * (1 - 1e-12))
    return Grid(float(f"{factor * power:.15g}"))
