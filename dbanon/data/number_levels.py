"""Levels of a number without a hierarchy, for methods that use one level for the whole table.

Each level partitions the number line into cells that are unions of cells of the level below. All
borders lie on the column's public grid (``data.grid``), so that a label reveals its cell and
nothing else. The levels are the grid's finest cells; unions of two, four, eight … of them that span
at least a sixteenth of the range (for months, longer calendar units); and one cell for all values.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.grid import GridCells, grid_for, released_ends, unit_of, width_share
from dbanon.data.scales import Scale
from dbanon.data.schema import Attribute

# Unions span at least one part of this many of the range, so a column has at most six levels. More
# would multiply the combinations to search.
_PARTS = 16


@dataclass(frozen=True)
class Level:
    """One level, whose cells are unions of neighbouring cells of a grid.

    Parameters
    ----------
    cells : the cells of the grid.
    count : number of cells per union; unions start at its multiples.
    """

    cells: GridCells
    count: int = 1

    def of(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The number of the union that contains each value, integral float64."""
        return np.floor(self.cells.of(values) / self.count)

    def borders(self, unions: NDArray[np.float64]) -> NDArray[np.float64]:
        """The lower border of each union."""
        return self.cells.borders(unions * self.count)


@dataclass(frozen=True)
class NumberLevels:
    """The levels of one column.

    Parameters
    ----------
    attribute, scale : the column and its scale.
    finest : the cells that all levels consist of.
    levels : all levels except the last, the finest first; the last is one interval for all values.
    """

    attribute: Attribute
    scale: Scale
    finest: GridCells
    levels: tuple[Level, ...]

    @classmethod
    def of(cls, attribute: Attribute, scale: Scale, step: float | None) -> NumberLevels:
        """The levels of a column with values of this scale.

        Parameters
        ----------
        step : width of the finest cells in the column's unit; None for the grid's own.

        Raises
        ------
        RangeUnsuitable : as ``grid_for``.
        """
        grid = grid_for(attribute, scale, step)
        finest = grid.finest
        levels = [Level(finest)]
        if finest.months:
            wider = [step.cells for step in reversed(grid.coarser)]
            levels += [Level(c) for c in wider if c.months * c.unit * 30.5 < scale.spread]
        elif finest.step < scale.spread:
            # The smallest power of two whose unions span a sixteenth of the range.
            power = max(int(np.ceil(np.log2(scale.spread / _PARTS) - np.log2(finest.step))), 1)
            while np.ldexp(finest.step, power) < scale.spread:
                levels.append(Level(finest, 2**power))
                power += 1
        ends = np.array([scale.least, scale.most])
        return cls(
            attribute,
            scale,
            finest,
            tuple(level for level in levels if np.ptp(level.of(ends)) > 0),
        )

    @property
    def top(self) -> int:
        """The number of the last level."""
        return len(self.levels)

    def cells_of(self, values: NDArray[np.float64], level: int) -> NDArray[np.float64]:
        """The number of each value's cell, integral float64; 0 on the last level."""
        return self.levels[level].of(values) if level < self.top else np.zeros(len(values))

    def around(
        self, values: NDArray[np.float64], level: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The released borders of each value's cell, float64 each."""
        if level < self.top:
            cells = self.levels[level].of(values)
            low, high = (self.levels[level].borders(cells + i) for i in (0, 1))
            return released_ends(self.attribute, low, high)
        # The last level spans all cells of the level below that have values. Later values may lie
        # outside the range of the measured table.
        ends = np.append(values, (self.scale.least, self.scale.most))
        below = self.levels[-1] if self.levels else Level(self.finest)
        first, last = below.of(np.array([ends.min(), ends.max()]))
        low, high = below.borders(np.array([first, last + 1]))[:, np.newaxis]
        low, high = released_ends(self.attribute, low, high)
        return np.repeat(low, len(values)), np.repeat(high, len(values))

    def loss(self, values: NDArray[np.float64], level: int) -> NDArray[np.float64]:
        """The loss of each value's label, 0 to 1."""
        low, high = self.around(values, level)
        return width_share(low, high, self.scale, unit_of(self.attribute, self.scale))

    def climb(
        self, low: NDArray[np.float64], high: NDArray[np.float64], level: int
    ) -> NDArray[np.int64]:
        """The first level, from this one, on which two values share a cell, int64 (c,)."""
        climbed = np.full(len(low), self.top)
        for higher in range(self.top - 1, level - 1, -1):
            climbed[self.cells_of(low, higher) == self.cells_of(high, higher)] = higher
        return climbed

    def level_covering(self, other: NumberLevels, level: int, values: NDArray[np.float64]) -> int:
        """The first level that does not separate values that a level of other cells keeps together.

        Parameters
        ----------
        other, level : levels of the same column measured on other records, and one of these levels.
        values : the values to keep together, float64 (m,).
        """
        if self.levels == other.levels or not len(values):
            return min(level, self.top)
        order = np.argsort(values, kind="stable")
        ascending = values[order]
        cells = other.cells_of(ascending, level)
        first = np.flatnonzero(np.append(True, cells[1:] != cells[:-1]))
        last = np.append(first[1:], len(cells)) - 1
        climbed = self.climb(ascending[first], ascending[last], min(level, self.top))
        return int(climbed.max())
