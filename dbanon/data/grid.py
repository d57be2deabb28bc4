"""Grids for intervals: borders that depend on the column, never on a class.

A grid has one or more steps. Which of them an interval has, follows from the coarser cells that the
class begins and ends in, and these are unions of the finer ones. So a label tells in which cell of
its step the class's smallest value lies and in which one its largest, and nothing else: every pair
of values from these two cells has this label. A step chosen by the class's width would tell more.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.microdata import EXACT_INTEGER
from dbanon.data.scales import Scale
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import RangeUnsuitable

# The finest step is at least this share of the column's range.
_PARTS = 50
# Up to so many units of its type, a column's range has a step of one unit; above, of two or more.
_FEW = 20
_DAY = 86_400_000_000
_MONTHS = (1, 3, 12, 60, 120, 600, 1200)
# A step of months is taken where a class meets as many of its cells.
_MANY_MONTHS = 5
# What of ten units is a step, and how many cells of ten units a class meets that is told by it.
_OF_TEN = ((10, 7), (5, 4), (2, 3))
# Steps and borders above a column's largest value are numbers of float64, too.
_LARGEST, _SMALLEST = 1e307, 1e-300
# A border has so many significant digits; steps are so wide that two borders differ in them.
_DIGITS = 15


@dataclass(frozen=True)
class Cells:
    """Half-open cells, whose borders are whole multiples of a step, or every so many months.

    Parameters
    ----------
    step : width, in the column's unit; unused with months.
    months : months between two borders, or 0.
    unit : what a day is in the column's unit, with months.
    """

    step: float = 1.0
    months: int = 0
    unit: int = 1

    def of(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The number of the cell that each value is in, whole float64."""
        if self.months:
            days = np.floor(values / self.unit).astype(np.int64).astype("datetime64[D]")
            # Month 0 is January 1970: years and decades start at whole multiples from year 0.
            month = days.astype("datetime64[M]").astype(np.int64) + 1970 * 12
            return np.asarray((month // self.months).astype(np.float64))
        count = np.floor(values / self.step)
        # Rounding of the quotient may place a value one border too far, either way.
        count = np.where(self.borders(count) > values, count - 1, count)
        return np.where(self.borders(count + 1) <= values, count + 1, count)

    def borders(self, cells: NDArray[np.float64]) -> NDArray[np.float64]:
        """The lower border of each cell, as it is told: members are compared with these."""
        if self.months:
            month = cells.astype(np.int64) * self.months - 1970 * 12
            days = month.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
            return np.asarray(days.astype(np.float64) * self.unit)
        borders = cells * self.step
        if not (borders % 1).any() and (np.abs(borders) < EXACT_INTEGER).all():
            return borders
        return np.array([float(f"{x:.{_DIGITS}g}") for x in borders.tolist()], np.float64)


@dataclass(frozen=True)
class Step:
    """One step of a grid, and when it is taken.

    Parameters
    ----------
    cells : whose borders a label has.
    counted : cells that each are a union of those.
    least : how many of ``counted`` a class meets that is told by this step.
    """

    cells: Cells
    counted: Cells
    least: int


@dataclass(frozen=True)
class Grid:
    """The borders of a column's intervals.

    Parameters
    ----------
    finest : the cells of classes that no coarser step is taken for.
    coarser : further steps, the coarsest first; ``counted`` of one holds whole cells of all finer
        ones' ``counted``, and of ``finest``.
    """

    finest: Cells
    coarser: tuple[Step, ...] = ()

    def around(
        self, low: NDArray[np.float64], high: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The borders around classes: the largest <= low and the smallest > high, float64 each.

        Parameters
        ----------
        low, high : float64 (c,), the smallest and the largest value of each class.
        """
        lower, upper = np.empty(len(low)), np.empty(len(low))
        left = np.ones(len(low), bool)
        for step in (*self.coarser, Step(self.finest, self.finest, 0)):
            met = step.counted.of(high[left]) - step.counted.of(low[left]) + 1
            taken = np.flatnonzero(left)[met >= step.least]
            lower[taken] = step.cells.borders(step.cells.of(low[taken]))
            upper[taken] = step.cells.borders(step.cells.of(high[taken]) + 1)
            left[taken] = False
        return lower, upper

    def borders_between(self, least: float, most: float, limit: int) -> NDArray[np.float64] | None:
        """All borders of all steps in (least, most], ascending; None where more than the limit."""
        ends, found = np.array([least, most]), [np.empty(0)]
        for cells in (self.finest, *(step.cells for step in self.coarser)):
            first, last = cells.of(ends)
            if last - first > limit:
                return None
            found.append(cells.borders(np.arange(first + 1, last + 1)))
        # Not np.unique, which loads numpy.ma.
        borders = np.array(sorted({border for part in found for border in part.tolist()}))
        return borders if len(borders) <= limit else None


def grid_for(attribute: Attribute, scale: Scale, step: float | None) -> Grid:
    """The grid of a column with the values of this scale, or with the caller's only step.

    Steps are 1, 2 and 5 times powers of ten; of dates they are days, weeks, or whole months to
    centuries.

    Raises
    ------
    RangeUnsuitable : float64 has no borders so far from 0, so far apart or so close.
    """
    extreme = max(scale.spread, abs(scale.least), abs(scale.most))
    if extreme > _LARGEST or 0 < scale.spread < _SMALLEST:
        raise RangeUnsuitable(
            f'The values of column "{attribute.name}" are too large, too far apart or too close'
            " for intervals.",
            hint=f"Intervals are made of values up to {_LARGEST:.0e} that are at least"
            f" {_SMALLEST:.0e} apart. Leave out or mend others in a view.",
        )
    if step is not None:
        return Grid(Cells(float(step)))
    if attribute.kind in (Kind.DATE, Kind.TIMESTAMP):
        return _of_dates(scale.spread, 1 if attribute.kind is Kind.DATE else _DAY)
    unit = 1.0 if attribute.kind is Kind.ORDINAL else unit_of(attribute, scale)
    if scale.spread <= _FEW * unit:
        return Grid(Cells(unit or 1.0))
    # Below the last digit of a border there is no other one.
    tiny = max(abs(scale.least), abs(scale.most)) * 10.0 ** (1 - _DIGITS)
    wanted = max(scale.spread / _PARTS, 2 * unit, tiny)
    power = int(np.floor(np.log10(wanted)))
    steps = (f"{factor}e{power}" for factor in (1, 2, 5, 10))
    finest = float(next(text for text in steps if float(text) >= wanted * (1 - 1e-12)))
    top = int(np.ceil(np.log10(scale.spread)))
    coarser = [
        Step(Cells(float(f"{tenths}e{ten - 1}")), Cells(float(f"1e{ten}")), least)
        for ten in range(top, power - 1, -1)
        for tenths, least in _OF_TEN
    ]
    return Grid(Cells(finest), tuple(one for one in coarser if one.cells.step > finest))


def _of_dates(spread: float, day: int) -> Grid:
    """The grid of dates and timestamps, a day being so many of the column's units."""
    if spread < 14 * day * _FEW:
        return Grid(Cells(float(7 * day if spread > _FEW * day else day)))
    months = [months for months in _MONTHS if months * 30.5 * day >= spread / _PARTS]
    finest, *coarser = (Cells(months=m, unit=day) for m in months or _MONTHS[-1:])
    return Grid(finest, tuple(Step(cells, cells, _MANY_MONTHS) for cells in reversed(coarser)))


def unit_of(attribute: Attribute, scale: Scale) -> float:
    """What two neighbouring values of the column are apart; 0 where it has no such unit.

    Floats that are all whole numbers count as whole numbers. A data frame holds integers as floats
    as soon as one is NULL, which must change neither the column's grid nor its loss.
    """
    units = {Kind.INTEGER: 1.0, Kind.DATE: 1.0, Kind.TIMESTAMP: 1.0}
    if attribute.kind is Kind.DECIMAL:
        return 10.0**-attribute.scale
    if attribute.kind is Kind.FLOAT:
        return 1.0 if scale.whole else 0.0
    return units.get(attribute.kind, 0.0)


def around(
    attribute: Attribute, grid: Grid, low: NDArray[np.float64], high: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The borders that are told around classes; of ranks both ends are held."""
    return held_ends(attribute, *grid.around(low, high))


def held_ends(
    attribute: Attribute, low: NDArray[np.float64], high: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The ends that are released of half-open intervals: of ranks the last one held."""
    if attribute.kind is Kind.ORDINAL:
        high = np.minimum(high, len(attribute.order)) - 1
    return low, high


def held_width(
    low: NDArray[np.float64], high: NDArray[np.float64], scale: Scale, unit: float
) -> NDArray[np.float64]:
    """How far the values that intervals hold are apart, as shares of the column's range, 1 at most.

    Parameters
    ----------
    low, high : borders, float64 (c,).
    unit : by how much the largest value held is below ``high``; 0 where it is held itself.
    """
    if scale.constant:
        return np.zeros(len(low))
    return np.clip((high - low - unit) / scale.spread, 0.0, 1.0)
