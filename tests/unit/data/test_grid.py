"""An interval label reveals the cells in which a class begins and ends, and nothing else."""

from collections import defaultdict
from functools import cache
from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbanon.data.grid import Grid, GridCells, ends_around, grid_for, value_spacing, width_share
from dbanon.data.scales import Scale
from dbanon.data.schema import Attribute, Kind

AGE = Attribute("age", Kind.INTEGER)
DAY = Attribute("born", Kind.DATE)
MOMENT = Attribute("at", Kind.TIMESTAMP)
PRICE = Attribute("price", Kind.DECIMAL, scale=2)
RANK = Attribute("rank", Kind.ORDINAL, order=tuple(f"r{i:03}" for i in range(131)))
SIZE = Attribute("size", Kind.FLOAT)
HOURS = 3_600_000_000

# Columns of every kind: the values that they may hold, from the smallest to the largest.
COLUMNS = {
    "age": (AGE, np.arange(17, 91)),
    "few": (AGE, np.arange(3, 24)),
    "one more": (AGE, np.arange(3, 25)),
    "below 0": (AGE, np.arange(-160, 161)),
    "income": (AGE, np.arange(0, 30_000, 100)),
    "price": (PRICE, np.arange(90, 1291, 7) / 100),
    "size": (SIZE, np.arange(900, 9000, 61) / 1e4),
    "whole": (SIZE, np.arange(17, 91)),
    "far off": (SIZE, 1e6 + np.arange(0, 64) / 256),
    "ranks": (RANK, np.arange(131)),
    "days": (DAY, np.arange(18_000, 18_021)),
    "weeks": (DAY, np.arange(18_000, 18_270)),
    "months": (DAY, np.arange(18_000, 20_100, 11)),
    "quarters": (DAY, np.arange(14_000, 20_000, 37)),
    "years": (DAY, np.arange(-36_000, 20_000, 300)),
    "moments": (MOMENT, np.arange(0, 8_000, 91) * 6 * HOURS),
}


@cache
def labels_of(name):
    """All pairs of a class's ends, and the labels that they get."""
    attribute, values = COLUMNS[name]
    values = values.astype(float)
    pairs = np.array(list(combinations_with_replacement(values.tolist(), 2)))
    grid = grid_for(attribute, Scale.of(values), None)
    return attribute, values, grid, pairs, ends_around(attribute, grid, *pairs.T)


@pytest.mark.slow
@pytest.mark.parametrize("name", COLUMNS)
def test_every_pair_from_the_end_cells_has_the_same_label(name):
    """Else a label would tell more than these cells, and may be one value exactly."""
    _, values, grid, pairs, (low, high) = labels_of(name)
    of_label = defaultdict(set)
    for first, last, ends in zip(*pairs.T, zip(low, high, strict=True), strict=True):
        of_label[ends].add((first, last))
    for cell_pairs in of_label.values():
        firsts, lasts = ({pair[at] for pair in cell_pairs} for at in (0, 1))
        assert cell_pairs == {(a, b) for a in firsts for b in lasts if a <= b}
        # Where a class may have one value only, it may have the others of the cell as well.
        finest = grid.finest.cell_numbers(values)
        if len(firsts) == 1:
            at = finest[values == next(iter(firsts))]
            assert (finest == at).sum() == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", COLUMNS)
def test_labels_hold_their_classes_and_borders_are_on_the_grid(name):
    attribute, _, grid, pairs, (low, high) = labels_of(name)
    assert (low <= pairs[:, 0]).all()
    closed = attribute.kind is Kind.ORDINAL
    assert (pairs[:, 1] <= high if closed else pairs[:, 1] < high).all()
    for ends in (low, high + closed):
        on_grid = np.isin(ends, grid.finest.borders(grid.finest.cell_numbers(ends)))
        for step in grid.coarser:
            on_grid |= np.isin(ends, step.cells.borders(step.cells.cell_numbers(ends)))
        assert (on_grid | (ends == 131)).all()


@pytest.mark.parametrize(
    "name", ["age", "one more", "below 0", "income", "price", "whole", "ranks"]
)
def test_no_label_tells_one_number_where_a_column_has_more_than_twenty(name):
    attribute, values, grid, _, (low, high) = labels_of(name)
    unit = value_spacing(attribute, Scale.of(values)) or 1.0
    assert grid.finest.width >= 2 * unit
    assert (high - low + (attribute.kind is Kind.ORDINAL) >= 2 * unit - 1e-9)[high < 130].all()


def test_the_steps_of_ages():
    """73 years: a fiftieth is 1.46, so steps are 2, and 5 and 10 for four decades and more."""
    grid = grid_for(AGE, Scale.of(np.array([17.0, 90.0])), None)
    assert [step.cells.width for step in grid.coarser] == [100, 50, 20, 10, 5]
    assert grid.finest.width == 2
    expected_ends = {
        (30, 30): (30, 32),
        (39, 41): (38, 42),
        (25, 44): (24, 46),
        (19, 39): (18, 40),
        (19, 40): (15, 45),
        (30, 69): (30, 70),
        (29, 70): (25, 75),
        (18, 90): (10, 100),
    }
    for pair, ends in expected_ends.items():
        low, high = grid.borders_around(np.array(pair[:1], float), np.array(pair[1:], float))
        assert (low[0], high[0]) == ends


def test_a_step_of_one_is_kept_for_few_values():
    for most, step in ((20, 1), (21, 2), (100, 2), (101, 5), (260, 10), (1000, 20)):
        assert grid_for(AGE, Scale.of(np.array([0.0, most])), None).finest.width == step
    cents = Scale.of(np.array([0.5, 0.6]))
    assert grid_for(PRICE, cents, None) == Grid(GridCells(0.01))


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40),
    st.sampled_from([AGE, SIZE, PRICE]),
)
@settings(max_examples=200)
def test_the_step_follows_from_the_cells_of_the_ends(values, attribute):
    """Moving both ends within the finest cells that they are in moves no border inside."""
    numbers = np.sort(np.array(values))
    if attribute is not SIZE:
        numbers = np.rint(numbers * 100) / (100 if attribute is PRICE else 1)
    grid = grid_for(attribute, Scale.of(numbers), None)
    first, last = np.triu_indices(len(numbers))
    low, high = grid.borders_around(numbers[first], numbers[last])
    assert (low <= numbers[first]).all()
    assert (numbers[last] < high).all()
    # The classes from lower border to the last value before the upper one have the same labels.
    before = np.maximum(np.nextafter(high, -np.inf), low)
    again = grid.borders_around(low, before)
    np.testing.assert_array_equal(again, (low, high))


@given(st.floats(0.01, 1e5), st.floats(0, 1e5), st.floats(0, 1))
def test_the_loss_is_that_of_the_values_held(least, spread, unit):
    scale = Scale.of(np.array([least, least + spread]))
    low, high = np.array([least, least]), np.array([least + unit, least + 2 * spread + unit])
    widths = width_share(low, high, scale, unit)
    # The sums are rounded to the digits of their place, which a small spread feels.
    last = np.spacing(least + 2 * spread + unit)
    rounded = 8 * last / max(spread, last)
    assert widths[0] == pytest.approx(0, abs=1e-9 if spread == 0 else max(1e-4, rounded))
    assert widths[1] == (0 if scale.is_constant else 1)
