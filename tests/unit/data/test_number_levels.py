"""Levels of numbers: nested partitions of whole cells of the column's public grid."""

from __future__ import annotations

import numpy as np
import pytest

from dbanon.data.grid import GridCells, grid_for, released_ends
from dbanon.data.number_levels import NumberLevels
from dbanon.data.scales import Scale
from tests.number_columns import ATTRIBUTES, column


@pytest.mark.parametrize("kind", sorted(ATTRIBUTES))
@pytest.mark.parametrize("step", [None, 1, 7])
@pytest.mark.parametrize("seed", range(6))
def test_each_level_unites_cells_of_the_one_below(kind, step, seed):
    attribute = ATTRIBUTES[kind]
    numbers = np.sort(column(np.random.default_rng(seed), kind, 400)[1])
    scale = Scale.of(numbers)
    levels = NumberLevels.of(attribute, scale, step)
    finest = grid_for(attribute, scale, step).finest
    loss_below = np.zeros(len(numbers))
    narrower = numbers, numbers
    for level in range(levels.top_level + 1):
        cells, (low, high) = levels.cells_of(numbers, level), levels.cell_borders(numbers, level)
        loss = levels.loss(numbers, level)
        assert (loss >= loss_below - 1e-12).all()
        loss_below = loss
        if level < levels.top_level:
            # Borders are those of the public grid's finest cells.
            edges = finest.borders(finest.cell_numbers(low))
            assert (low == edges).all()
            released_high = released_ends(
                attribute, low, finest.borders(finest.cell_numbers(numbers) + 1)
            )[1]
            assert (high >= released_high).all()
            assert len(np.unique(cells)) > 1
        same = cells[1:] == cells[:-1]
        assert ((low[1:] == low[:-1]) == same).all()
        if level:
            below = levels.cells_of(numbers, level - 1)
            assert same[below[1:] == below[:-1]].all()
        assert (low <= narrower[0]).all()
        assert (high >= narrower[1]).all()
        narrower = low, high
    assert levels.top_level <= 5 or step == 1
    assert (loss_below == 1).all()
    assert len(np.unique(levels.cells_of(numbers, levels.top_level))) == 1


def levels_of(kind, low, high, step=None):
    return NumberLevels.of(ATTRIBUTES[kind], Scale.of(np.array([low, high], float)), step)


def test_levels_of_ages():
    """73 years: steps of 2; wider cells from 73 / 16 years on, and below 73; then all."""
    levels = levels_of("integer", 17, 90)
    assert [(level.cells.width, level.cells_per_union) for level in levels.levels] == [
        (2, 1),
        (2, 4),
        (2, 8),
        (2, 16),
        (2, 32),
    ]
    ages = np.array([17.0, 31.0, 32.0, 90.0])
    low, high = levels.cell_borders(ages, 2)
    assert (low.tolist(), high.tolist()) == ([16, 16, 32, 80], [32, 32, 48, 96])
    low, high = levels.cell_borders(ages, levels.top_level)
    assert (low.tolist(), high.tolist()) == ([0] * 4, [128] * 4)


def test_levels_of_dates_are_those_of_the_calendar():
    levels = levels_of("date", 10_000, 20_000)
    assert [level.cells for level in levels.levels] == [GridCells(months=m) for m in (12, 60, 120)]


def test_a_column_in_one_cell_has_one_level():
    assert levels_of("integer", 5, 5).top_level == 0
    assert levels_of("integer", 5, 6, step=10).top_level == 0
    assert levels_of("integer", 9, 10, step=10).top_level == 1


def test_values_outside_of_the_range_are_in_the_label_of_all():
    levels = levels_of("integer", 20, 60)
    low, high = levels.cell_borders(np.array([5.0, 30.0, 300.0]), levels.top_level)
    assert low.max() <= 5
    assert high.min() > 300
    assert len(set(low) | set(high)) == 2


def test_values_that_other_cells_keep_together_stay_together():
    levels, other = levels_of("integer", 0, 73), levels_of("integer", 0, 730)
    # Cells of 20 by the other: 15 and 17 in one, 21 and 39 in the next.
    values = np.array([15.0, 17.0, 21.0, 39.0])
    level = levels.level_covering(other, 0, values)
    cells = levels.cells_of(values, level)
    assert cells[0] == cells[1]
    assert cells[2] == cells[3]
    assert levels.level_covering(levels, 1, values) == 1
