"""Generalization levels for numbers without a hierarchy, for full-domain generalization.

Each level divides the number line into cells, which are unions of the cells of the level below. All
borders lie on the column's grid (``data.grid``), so an interval reveals its cell and nothing else.
The levels are, from the finest:

- the finest cells of the grid;
- unions of 2, 4, 8 … of these that span at least a sixteenth of the range (for a grid of months,
  longer calendar units);
- one interval for all values.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.grid import GridCells, grid_for, released_ends, value_spacing, width_share
from dbanon.data.scales import Scale
from dbanon.data.schema import Attribute

# The range has at most this many unions, so that a column has at most six levels: methods search
# all combinations of the columns' levels.
_MAX_UNIONS = 16


@dataclass(frozen=True)
class Level:
    """One level, whose cells are unions of neighboring cells of a grid.

    Parameters
    ----------
    cells : the cells of the grid.
    cells_per_union : number of cells per union. A union starts at a cell whose number is a multiple
        of this.
    """

    cells: GridCells
    cells_per_union: int = 1

    def union_numbers(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The number of the union that contains each value, integral float64."""
        return np.floor(self.cells.cell_numbers(values) / self.cells_per_union)

    def borders(self, unions: NDArray[np.float64]) -> NDArray[np.float64]:
        """The lower border of each union, float64; ``unions`` holds the numbers of the unions."""
        return self.cells.borders(unions * self.cells_per_union)


@dataclass(frozen=True)
class NumberLevels:
    """The levels of one column.

    Parameters
    ----------
    attribute : the column.
    scale : the scale of the column's values.
    finest : the cells that all levels consist of.
    levels : all levels except the last, the finest first. The last level is not listed: it is one
        interval for all values.
    """

    attribute: Attribute
    scale: Scale
    finest: GridCells
    levels: tuple[Level, ...]

    @classmethod
    def of(cls, attribute: Attribute, scale: Scale, cell_width: float | None) -> NumberLevels:
        """Build the levels of a column whose values have this scale.

        Parameters
        ----------
        cell_width : width of the finest cells in the column's unit; None to choose it by the scale.

        Raises
        ------
        RangeUnsuitable : float64 cannot represent the borders.
        """
        grid = grid_for(attribute, scale, cell_width)
        finest = grid.finest
        levels = [Level(finest)]
        if finest.months:
            # Compare with the range in the column's unit; a month has about 30.5 days.
            wider_cells = [grid_step.cells for grid_step in reversed(grid.coarser)]
            levels += [
                Level(cells)
                for cells in wider_cells
                if cells.months * cells.day_length * 30.5 < scale.spread
            ]
        elif finest.width < scale.spread:
            # The smallest power of two whose unions span a sixteenth of the range.
            power = max(
                int(np.ceil(np.log2(scale.spread / _MAX_UNIONS) - np.log2(finest.width))), 1
            )
            while np.ldexp(finest.width, power) < scale.spread:
                levels.append(Level(finest, 2**power))
                power += 1
        # Leave out levels that have all values of the table in one union, as the last level has.
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
        """Return the number of the cell of each value, integral float64; 0 on the last level."""
        return (
            self.levels[level].union_numbers(values)
            if level < self.top_level
            else np.zeros(len(values))
        )

    def cell_borders(
        self, values: NDArray[np.float64], level: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the lower and upper end of the cell of each value, as released, float64 (n,)."""
        if level < self.top_level:
            cells = self.levels[level].union_numbers(values)
            low, high = (self.levels[level].borders(cells + i) for i in (0, 1))
            return released_ends(self.attribute, low, high)
        # The only cell of the last level spans all cells of the level below, from the smallest to
        # the largest of ``values`` and of the measured table's values. In a chain, the table of its
        # first release is measured, and values of later releases may lie outside the range.
        ends = np.append(values, (self.scale.least, self.scale.most))
        level_below = self.levels[-1] if self.levels else Level(self.finest)
        first, last = level_below.union_numbers(np.array([ends.min(), ends.max()]))
        low, high = level_below.borders(np.array([first, last + 1]))[:, np.newaxis]
        low, high = released_ends(self.attribute, low, high)
        return np.repeat(low, len(values)), np.repeat(high, len(values))

    def loss(self, values: NDArray[np.float64], level: int) -> NDArray[np.float64]:
        """Return the information loss of releasing each value as its cell, float64 (n,), 0 to 1."""
        low, high = self.cell_borders(values, level)
        return width_share(low, high, self.scale, value_spacing(self.attribute, self.scale))

    def lowest_common_level(
        self, low: NDArray[np.float64], high: NDArray[np.float64], level: int
    ) -> NDArray[np.int64]:
        """Return the lowest level on which two values are in the same cell, int64 (c,).

        Parameters
        ----------
        low, high : float64 (c,), the two values of each pair.
        level : the lowest level to consider.
        """
        common_level = np.full(len(low), self.top_level)
        for lower_level in range(self.top_level - 1, level - 1, -1):
            is_same_cell = self.cells_of(low, lower_level) == self.cells_of(high, lower_level)
            common_level[is_same_cell] = lower_level
        return common_level

    def level_covering(self, other: NumberLevels, level: int, values: NDArray[np.float64]) -> int:
        """Return the lowest level that is at least as coarse as a level of other ``NumberLevels``.

        Of ``values``, those that share a cell on that level of ``other`` also share a cell on the
        returned level.

        Parameters
        ----------
        other : the levels of the same column, measured on other records.
        level : a level of ``other``; it is also the lowest level to consider here.
        values : the values to compare, float64 (m,).
        """
        if self.levels == other.levels or not len(values):
            return min(level, self.top_level)
        sorted_values = np.sort(values, kind="stable")
        cells = other.cells_of(sorted_values, level)
        # The positions of the first and the last value in each cell.
        firsts = np.flatnonzero(np.append(True, cells[1:] != cells[:-1]))
        lasts = np.append(firsts[1:], len(cells)) - 1
        common_level = self.lowest_common_level(
            sorted_values[firsts], sorted_values[lasts], min(level, self.top_level)
        )
        return int(common_level.max())
