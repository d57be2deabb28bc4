"""Grids for intervals: borders that depend on the column, never on a class.

A class's values are released as an interval (its *label*) between two borders of a grid. A grid has
one or more steps. Each step divides the number line into *cells* of a different width: half-open
intervals between neighboring borders. Which step is used depends only on the coarse cells that
contain the smallest and the largest value of the class. Coarse cells are unions of finer ones, so a
label reveals nothing but the cells of these two values: for any other pair of values in the same
cells, the label is the same. Choosing the step by the exact width of the class would reveal more.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.microdata import EXACT_INTEGER
from dbanon.data.scales import Scale
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import RangeUnsuitable

# The finest cells divide the column's range into at most this many.
_MAX_CELLS = 50
# The spacing of a column is the distance between neighboring values of its type: 1 for integers, a
# day for dates. If the range has at most this many spacings, the finest cells are one spacing wide;
# otherwise two or more.
_MAX_SPACING_CELLS = 20
_DAY_MICROSECONDS = 86_400_000_000
# Cell widths in grids of dates, in months.
_WIDTHS_IN_MONTHS = (1, 3, 12, 60, 120, 600, 1200)
# A coarser step of a grid of months is used for classes that overlap at least this many of its
# cells.
_MIN_MONTH_CELLS = 5
# Pairs of a cell width, in tenths of a coarse cell, and the smallest number of coarse cells that a
# class must overlap to use cells of this width.
_STEP_CHOICES = ((10, 7), (5, 4), (2, 3))
# Largest absolute value and smallest range for which float64 can represent all steps and borders.
_MAX_VALUE, _MIN_SPREAD = 1e307, 1e-300
# Significant digits of a border; steps are wide enough for neighboring borders to differ.
_DIGITS = 15


@dataclass(frozen=True)
class GridCells:
    """Half-open cells of equal width, or of a number of months, with borders at multiples of it.

    Parameters
    ----------
    width : the width of each cell, in the column's unit; unused with months.
    months : number of months between neighboring borders; 0 for borders at multiples of ``width``.
    day_length : length of a day in the column's unit; only used with months.
    """

    width: float = 1.0
    months: int = 0
    day_length: int = 1

    def cell_numbers(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The cell number of each value, integral float64."""
        if self.months:
            days = np.floor(values / self.day_length).astype(np.int64).astype("datetime64[D]")
            # Month 0 is January 1970; count from year 0 so that decades start at multiples.
            month_numbers = days.astype("datetime64[M]").astype(np.int64) + 1970 * 12
            return np.asarray((month_numbers // self.months).astype(np.float64))
        cells = np.floor(values / self.width)
        # Rounding of the quotient may be off by one cell in either direction.
        cells = np.where(self.borders(cells) > values, cells - 1, cells)
        return np.where(self.borders(cells + 1) <= values, cells + 1, cells)

    def borders(self, cells: NDArray[np.float64]) -> NDArray[np.float64]:
        """The lower border of each cell, as released: the smallest value that the cell may contain.

        Parameters
        ----------
        cells : the numbers of the cells, integral float64.
        """
        if self.months:
            month_numbers = cells.astype(np.int64) * self.months - 1970 * 12
            days = month_numbers.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
            return np.asarray(days.astype(np.float64) * self.day_length)
        borders = cells * self.width
        if not (borders % 1).any() and (np.abs(borders) < EXACT_INTEGER).all():
            return borders
        return np.array([float(f"{x:.{_DIGITS}g}") for x in borders.tolist()], np.float64)


@dataclass(frozen=True)
class GridStep:
    """One step of a grid, and the condition under which a class uses it.

    Parameters
    ----------
    cells : the cells whose borders are the ends of intervals.
    coarse_cells : coarser cells, each a union of ``cells``.
    min_cells : the smallest number of coarse cells that a class must overlap to use this step.
    """

    cells: GridCells
    coarse_cells: GridCells
    min_cells: int


@dataclass(frozen=True)
class Grid:
    """The borders of a column's intervals.

    Parameters
    ----------
    finest : the cells of the finest step, for classes that use no coarser one.
    coarser : further steps, the coarsest first. The coarse cells of a step are unions of the coarse
        cells of all finer steps, and of the cells of ``finest``.
    """

    finest: GridCells
    coarser: tuple[GridStep, ...] = ()

    def borders_around(
        self, low: NDArray[np.float64], high: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the borders around each class, two arrays float64 (c,).

        They are the largest border that is at most ``low``, and the smallest that is above
        ``high``, on the step of the grid that the class uses.

        Parameters
        ----------
        low, high : float64 (c,), the smallest and the largest value of each class.
        """
        lower, upper = np.empty(len(low)), np.empty(len(low))
        unassigned = np.ones(len(low), bool)
        for step in (*self.coarser, GridStep(self.finest, self.finest, min_cells=0)):
            n_cells = (
                step.coarse_cells.cell_numbers(high[unassigned])
                - step.coarse_cells.cell_numbers(low[unassigned])
                + 1
            )
            classes = np.flatnonzero(unassigned)[n_cells >= step.min_cells]
            lower[classes] = step.cells.borders(step.cells.cell_numbers(low[classes]))
            upper[classes] = step.cells.borders(step.cells.cell_numbers(high[classes]) + 1)
            unassigned[classes] = False
        return lower, upper

    def borders_between(self, least: float, most: float, limit: int) -> NDArray[np.float64] | None:
        """Return the borders of all steps in a range, ascending; None if there are too many.

        Parameters
        ----------
        least, most : the range: borders are above ``least``, and at most ``most``.
        limit : the largest number of borders to return.
        """
        ends, borders_by_step = np.array([least, most]), [np.empty(0)]
        for cells in (self.finest, *(step.cells for step in self.coarser)):
            first, last = cells.cell_numbers(ends)
            if last - first > limit:
                return None
            borders_by_step.append(cells.borders(np.arange(first + 1, last + 1)))
        # np.unique would import numpy.ma.
        borders = np.array(
            sorted({x for step_borders in borders_by_step for x in step_borders.tolist()})
        )
        return borders if len(borders) <= limit else None


def grid_for(attribute: Attribute, scale: Scale, cell_width: float | None) -> Grid:
    """Build the grid of a column.

    By default the widths of its cells are 1, 2 and 5 times powers of ten. For dates they are days,
    weeks and months, and multiples of months up to a century.

    Parameters
    ----------
    scale : the scale of the column's values.
    cell_width : the width of all cells, in the column's unit; None for the default widths.

    Raises
    ------
    RangeUnsuitable : float64 cannot represent the borders.
    """
    extreme = max(scale.spread, abs(scale.least), abs(scale.most))
    if extreme > _MAX_VALUE or 0 < scale.spread < _MIN_SPREAD:
        raise RangeUnsuitable(
            f'The values of column "{attribute.name}" are too large, too far apart or too close'
            " for intervals.",
            hint=f"Intervals take values up to {_MAX_VALUE:.0e} that are at least"
            f" {_MIN_SPREAD:.0e} apart. Exclude other rows in a view, or set such values to"
            " NULL.",
        )
    if cell_width is not None:
        return Grid(GridCells(float(cell_width)))
    if attribute.kind in (Kind.DATE, Kind.TIMESTAMP):
        return _date_grid(scale.spread, 1 if attribute.kind is Kind.DATE else _DAY_MICROSECONDS)
    # Neighboring ranks differ by 1. ``value_spacing`` is 0 for ranks, since it is meant for the
    # width of half-open intervals, and intervals of ranks are closed.
    spacing = 1.0 if attribute.kind is Kind.ORDINAL else value_spacing(attribute, scale)
    if scale.spread <= _MAX_SPACING_CELLS * spacing:
        # The spacing is 0 here only if the column is constant; then any width will do.
        return Grid(GridCells(spacing or 1.0))
    # Borders that differ only after the last significant digit would coincide.
    min_digit_width = max(abs(scale.least), abs(scale.most)) * 10.0 ** (1 - _DIGITS)
    min_width = max(scale.spread / _MAX_CELLS, 2 * spacing, min_digit_width)
    power = int(np.floor(np.log10(min_width)))
    # Decimal literals are converted to float without the rounding errors of a product.
    widths = (float(f"{factor}e{power}") for factor in (1, 2, 5, 10))
    # Accept a width that is too small only by a rounding error.
    finest_width = next(width for width in widths if width >= min_width * (1 - 1e-12))
    top_power = int(np.ceil(np.log10(scale.spread)))
    steps = [
        GridStep(
            cells=GridCells(float(f"{tenths}e{coarse_power - 1}")),
            coarse_cells=GridCells(float(f"1e{coarse_power}")),
            min_cells=min_cells,
        )
        for coarse_power in range(top_power, power - 1, -1)
        for tenths, min_cells in _STEP_CHOICES
    ]
    return Grid(
        GridCells(finest_width), tuple(step for step in steps if step.cells.width > finest_width)
    )


def _date_grid(spread: float, day_length: int) -> Grid:
    """The grid of dates or timestamps.

    Parameters
    ----------
    spread : the width of the range of values, in the column's unit.
    day_length : the length of a day, in the column's unit.
    """
    # Up to 20 fortnights: cells are days, or weeks if there would be too many days.
    if spread < 14 * day_length * _MAX_SPACING_CELLS:
        return Grid(
            GridCells(
                float(7 * day_length if spread > _MAX_SPACING_CELLS * day_length else day_length)
            )
        )
    # A month has about 30.5 days.
    months = [
        months for months in _WIDTHS_IN_MONTHS if months * 30.5 * day_length >= spread / _MAX_CELLS
    ]
    finest, *coarser = (
        GridCells(months=m, day_length=day_length) for m in months or _WIDTHS_IN_MONTHS[-1:]
    )
    steps = (
        GridStep(cells, coarse_cells=cells, min_cells=_MIN_MONTH_CELLS)
        for cells in reversed(coarser)
    )
    return Grid(finest, tuple(steps))


def value_spacing(attribute: Attribute, scale: Scale) -> float:
    """Return the distance between neighboring values of the column's type.

    It is 0 for ranks, and for floats with fractions. Floats that are all whole numbers count as
    integers: a data frame stores integers as floats if one of them is NULL, and that must change
    neither the grid nor the loss.
    """
    spacings = {Kind.INTEGER: 1.0, Kind.DATE: 1.0, Kind.TIMESTAMP: 1.0}
    if attribute.kind is Kind.DECIMAL:
        return 10.0**-attribute.scale
    if attribute.kind is Kind.FLOAT:
        return 1.0 if scale.is_integral else 0.0
    return spacings.get(attribute.kind, 0.0)


def ends_around(
    attribute: Attribute, grid: Grid, low: NDArray[np.float64], high: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the released ends of the intervals of classes: the borders around their values.

    For ranks, both ends are inclusive.

    Parameters
    ----------
    low, high : float64 (c,), the smallest and the largest value of each class.
    """
    lower, upper = grid.borders_around(low, high)
    return released_ends(attribute, lower, upper)


def released_ends(
    attribute: Attribute, low: NDArray[np.float64], high: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Convert the ends of half-open intervals, float64 (c,) each, to those that are released.

    For ranks, both released ends are inclusive; other intervals remain half-open.
    """
    if attribute.kind is Kind.ORDINAL:
        high = np.minimum(high, len(attribute.order)) - 1
    return low, high


def width_share(
    low: NDArray[np.float64], high: NDArray[np.float64], scale: Scale, spacing: float
) -> NDArray[np.float64]:
    """Return the width of intervals as a share of the column's range, float64 (c,), 0 to 1.

    Parameters
    ----------
    low, high : the ends of the intervals, float64 (c,).
    spacing : the distance between neighboring values, which is subtracted from the width because
        ``high`` is exclusive; 0 if it is inclusive.
    """
    if scale.is_constant:
        return np.zeros(len(low))
    return np.clip((high - low - spacing) / scale.spread, 0.0, 1.0)
