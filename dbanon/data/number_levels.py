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

# A union spans at least the range divided by this, so a column has at most six levels. More levels
# would multiply the combinations to search.
_MOST_PARTS = 16


@dataclass(frozen=True)
class Level:
    """One level, whose cells are unions of neighbouring cells of a grid.

    Parameters
    ----------
    cells : the cells of the grid.
    cells_per_union : number of cells per union; unions start at its multiples.
    """

    cells: GridCells
    cells_per_union: int = 1

    def union_numbers(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The number of the union that contains each value, integral float64."""
        return np.floor(self.cells.cell_numbers(values) / self.cells_per_union)

    def borders(self, unions: NDArray[np.float64]) -> NDArray[np.float64]:
        """The lower border of each union."""
        return self.cells.borders(unions * self.cells_per_union)


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
            wider_cells = [step.cells for step in reversed(grid.coarser)]
            levels += [
                Level(cells)
                for cells in wider_cells
                if cells.months * cells.day_length * 30.5 < scale.spread
            ]
        elif finest.step < scale.spread:
            # The smallest power of two whose unions span a sixteenth of the range.
            power = max(int(np.ceil(np.log2(scale.spread / _MOST_PARTS) - np.log2(finest.step))), 1)
            while np.ldexp(finest.step, power) < scale.spread:
                levels.append(Level(finest, 2**power))
                power += 1
        ends = np.array([scale.least, scale.most])
        return cls(
            attribute,
            scale,
            finest,
            tuple(level for level in levels if np.ptp(level.union_numbers(ends)) > 0),
        )

    @property
    def top_level(self) -> int:
        """The number of the last level."""
        return len(self.levels)

    def cells_of(self, values: NDArray[np.float64], level: int) -> NDArray[np.float64]:
        """The number of each value's cell, integral float64; 0 on the last level."""
        return (
            self.levels[level].union_numbers(values)
            if level < self.top_level
            else np.zeros(len(values))
        )

    def cell_borders(
        self, values: NDArray[np.float64], level: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The released borders of each value's cell, float64 each."""
        if level < self.top_level:
            cells = self.levels[level].union_numbers(values)
            low, high = (self.levels[level].borders(cells + i) for i in (0, 1))
            return released_ends(self.attribute, low, high)
        # The last level spans all cells of the level below that contain values. Values of later
        # records may lie outside the range of the measured table.
        ends = np.append(values, (self.scale.least, self.scale.most))
        below = self.levels[-1] if self.levels else Level(self.finest)
        first, last = below.union_numbers(np.array([ends.min(), ends.max()]))
        low, high = below.borders(np.array([first, last + 1]))[:, np.newaxis]
        low, high = released_ends(self.attribute, low, high)
        return np.repeat(low, len(values)), np.repeat(high, len(values))

    def loss(self, values: NDArray[np.float64], level: int) -> NDArray[np.float64]:
        """The information loss of each value's label, float64 (n,), 0 to 1."""
        low, high = self.cell_borders(values, level)
        return width_share(low, high, self.scale, unit_of(self.attribute, self.scale))

    def lowest_common_level(
        self, low: NDArray[np.float64], high: NDArray[np.float64], level: int
    ) -> NDArray[np.int64]:
        """The lowest level, from this one up, on which two values share a cell, int64 (c,).

        Parameters
        ----------
        low, high : float64 (c,), the two values of each pair.
        """
        common_level = np.full(len(low), self.top_level)
        for higher in range(self.top_level - 1, level - 1, -1):
            common_level[self.cells_of(low, higher) == self.cells_of(high, higher)] = higher
        return common_level

    def level_covering(self, other: NumberLevels, level: int, values: NDArray[np.float64]) -> int:
        """The lowest level that keeps together all values which a level of ``other`` does.

        Parameters
        ----------
        other, level : the levels of the same column measured on other records, and one of them.
        values : the values to keep together, float64 (m,).
        """
        if self.levels == other.levels or not len(values):
            return min(level, self.top_level)
        order = np.argsort(values, kind="stable")
        ascending = values[order]
        cells = other.cells_of(ascending, level)
        firsts = np.flatnonzero(np.append(True, cells[1:] != cells[:-1]))
        lasts = np.append(firsts[1:], len(cells)) - 1
        common_level = self.lowest_common_level(
            ascending[firsts], ascending[lasts], min(level, self.top_level)
        )
        return int(common_level.max())
