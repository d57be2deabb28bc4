"""dp_ranks: columns of a few whole numbers, and pairs of columns of which one is on a line."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbanon
from dbanon.extensions.synthesis.dependence import (
    count_two_way,
    fit_common_shares,
    score_by_own_margins,
)
from dbanon.extensions.synthesis.domains import NumericDomain
from dbanon.extensions.synthesis.margins import (
    group_adjacent_values,
    measure_grid_margin,
    round_to_values,
)
from dbanon.extensions.synthesis.ranks import dp_ranks
from dbanon.extensions.synthesis.shares import GRID, divide_epsilon
from dbanon.hierarchy.tree import flat_hierarchy
from tests.reference.synthesis import Recording, Seeded

COLOURS = flat_hierarchy([f"colour {i}" for i in range(6)])


def test_one_row_moves_a_score_by_own_shares_by_six_rows_at_most():
    """All tables of four rows over three times two bins, and all changes of a row; 6 n is kept."""
    n, worst = 4, 0
    cells = list(product(range(3), range(2)))
    for rows in product(cells, repeat=n):
        table = np.array(rows).T
        before = score_by_own_margins(count_two_way(table[0], table[1], (3, 2)))
        for cell in cells:
            other = table.copy()
            other[:, 0] = cell
            worst = max(
                worst, abs(score_by_own_margins(count_two_way(other[0], other[1], (3, 2))) - before)
            )
    assert 2 * n < worst <= 6 * n


@given(st.integers(0, 2**32), st.integers(1, 200), st.integers(1, 9), st.integers(1, 9))
@settings(max_examples=200, deadline=None)
def test_scores_by_own_shares_of_neighbours(seed, n, a, b):
    rng = np.random.default_rng(seed)
    table = np.array([rng.integers(0, a, n), rng.integers(0, b, n)])
    other = table.copy()
    other[:, rng.integers(n)] = rng.integers(0, a), rng.integers(0, b)
    of = [count_two_way(*neighbour, (a, b)) for neighbour in (table, other)]
    assert abs(score_by_own_margins(of[0]) - score_by_own_margins(of[1])) <= 6 * n
    plain = sum(
        abs(n * int(of[0][i, j]) - int(of[0][i].sum()) * int(of[0][:, j].sum()))
        for i, j in product(range(a), range(b))
    )
    assert score_by_own_margins(of[0]) == plain


@given(st.integers(0, 2**32), st.integers(1, 60), st.data())
@settings(max_examples=200, deadline=None)
def test_bins_beside_each_other(seed, m, data):
    bins = data.draw(st.integers(1, m))
    weights = np.random.default_rng(seed).dirichlet(np.full(m, 0.2))
    bin_of_value = group_adjacent_values(weights, bins)
    assert bin_of_value[0] == 0
    assert bin_of_value[-1] == bins - 1
    assert set(np.diff(bin_of_value).tolist()) <= {0, 1}


def test_bins_have_about_as_much_weight_each():
    assert (
        group_adjacent_values(np.full(12, 1 / 12), 4).tolist()
        == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3
    )
    assert group_adjacent_values(np.array([0.5, 0.1, 0.1, 0.1, 0.1, 0.1]), 2).tolist() == [
        0,
        1,
        1,
        1,
        1,
        1,
    ]
    # None is empty, wherever the weight is.
    assert group_adjacent_values(np.array([0.0, 0.0, 0.0, 1.0]), 4).tolist() == [0, 1, 2, 3]
    assert group_adjacent_values(np.array([1.0, 0.0, 0.0, 0.0]), 4).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(("low", "high"), [(17, 90), (-3, 0), (0, 1), (10**6, 10**6 + 999)])
def test_whole_numbers_go_to_the_grid_and_back(low, high):
    line = NumericDomain("age", np.dtype(np.int64), float(low), float(high))
    values = np.arange(low, high + 1)
    assert line.n_values == len(values)
    grid = line.to_grid(line.encode(values, None))
    assert round_to_values(grid, line.n_values).tolist() == list(range(line.n_values))
    divided = divide_epsilon(len(values) * 10_000, 1, 10.0, n_values=[line.n_values])
    margin = measure_grid_margin(np.repeat(grid, 10_000), line.n_values, divided, Recording())
    codes, inside = margin.locate(grid, np.random.default_rng(0))
    assert line.from_grid(margin.to_values(codes, inside)).tolist() == values.tolist()


@pytest.mark.parametrize(
    ("dtype", "low", "high", "log"),
    [
        (np.float64, 0, 9, False),
        (np.int64, 0, 9, True),
        (np.int64, 0.5, 9.5, False),
        (np.int64, 0, 2.0**40, False),
    ],
)
def test_other_lines_have_no_values_to_count(dtype, low, high, log):
    assert (
        NumericDomain("x", np.dtype(dtype), float(low), float(high), is_logarithmic=log).n_values
        == 0
    )


def test_values_are_counted_where_there_are_rows_enough():
    assert divide_epsilon(10_000, 2, 1.0, n_values=[500, 501]).n_values == (500, 0)
    assert divide_epsilon(10_000, 2, 1.0).n_values == (0, 0)
    # A list is a list.
    assert divide_epsilon(10_000, 2, 1.0, (COLOURS, None), n_values=[0, 9]).n_values == (0, 9)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 7.3])
@pytest.mark.parametrize("trees", [(None, COLOURS, None), (None, None, None)])
def test_the_price_is_epsilon_and_draws_do_not_depend_on_data(trees, epsilon):
    n, rng = 4000, np.random.default_rng(0)
    divided = divide_epsilon(n, 3, epsilon, trees, n_values=[20, 0, 0])
    assert divided.n_values == (20, 0, 0)
    assert divided.uses_own_margins
    assert epsilon * (1 - 1e-9) <= divided.price(Recording()) <= epsilon
    seen = []
    for ages in (rng.integers(0, GRID + 1, n), np.zeros(n, np.int64), np.full(n, GRID)):
        noise = Recording()
        second = ages % 6 if trees[1] is not None else ages
        dp_ranks(np.array([ages, second, ages]), divided, noise, rng)
        tables = divided.count_scale
        seen.append([(kind, scale != tables and m, scale) for kind, m, scale in noise.drawn])
        assert noise.spent(divided) <= epsilon
    assert seen[0] == seen[1] == seen[2]


def test_tables_are_fitted_to_margins_that_are_counts():
    rng = np.random.default_rng(0)
    tables = [rng.random((3, 4)), rng.random((3, 5))]
    known_shares = {0: np.array([0.2, 0.3, 0.5]), 2: np.array([0.1, 0.2, 0.3, 0.3, 0.1])}
    first, second = fit_common_shares([(0, 1), (0, 2)], tables, 3, known_shares)
    for table in (first, second):
        np.testing.assert_allclose(table.sum(axis=1), known_shares[0], atol=1e-6)
    np.testing.assert_allclose(second.sum(axis=0), known_shares[2], atol=1e-6)


def test_a_column_on_a_line_is_not_preferred_for_its_bins():
    """Two listed columns that are one are a pair of the tree, beside a number that is neither."""
    n, rng = 20_000, np.random.default_rng(0)
    colour = rng.integers(0, 6, n)
    number = np.rint(GRID * rng.beta(0.3, 3.0, n)).astype(np.int64)
    noise, seen_scales = Seeded(1), []
    divided = divide_epsilon(n, 3, 1.0, (None, COLOURS, COLOURS))
    assert divided.uses_own_margins
    for _ in range(3):
        released = dp_ranks(np.array([number, colour, colour]), divided, noise, rng)
        seen_scales.append(float((released[1] == released[2]).mean()))
    assert min(seen_scales) > 0.9


def test_ages_are_released_near_their_counts():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(17, 91, 20_000)})
    frame.loc[rng.random(len(frame)) < 0.3, "age"] = 40
    released = dbanon.synthesize(
        frame,
        method="dp_ranks",
        types="integer",
        epsilon=1.0,
        bounds={"age": (17, 90)},
        budget=dbanon.Budget(1.0),
    )
    released_shares = pd.Series(released.columns["age"]).value_counts(normalize=True)
    assert "Margins of 1 columns: counts of their whole numbers." in released.method_notes
    assert abs(released_shares[40] - (frame["age"] == 40).mean()) < 0.01
    assert set(released_shares.index) <= set(range(17, 91))
