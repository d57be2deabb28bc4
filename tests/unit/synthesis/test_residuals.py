"""Residuals of a tree: the effect of one row, the meaning of correlations, and their benefit."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbanon.extensions.synthesis.dependence import TreeEdge, draw_bins, measure_tree
from dbanon.extensions.synthesis.margins import CategoricalMargin, Quantiles
from dbanon.extensions.synthesis.ranks import (
    compute_conditional_positions,
    count_agreements,
    dp_ranks,
    draw_normals,
    measure_correlations,
)
from dbanon.extensions.synthesis.shares import GRID, divide_epsilon
from tests.reference.private_calls import mean_measures
from tests.reference.synthesis import OF_A_TREE, Recording, Seeded


@pytest.mark.parametrize("p", [2, 3, 4, 5, 6])
def test_agreements_move_by_a_fourth_of_p_squared_at_most_and_reach_it(p):
    """All sides a row can be on in p columns, before and after, next to another row."""
    worst = 0
    for sides in product((0.25, 0.5), repeat=p):
        for other in product((0.25, 0.5), repeat=p):
            both = [np.array([side, [0.75] * p]).T for side in (sides, other)]
            moved = np.abs(count_agreements(both[0]) - count_agreements(both[1]))
            assert moved.max() <= 1
            worst = max(worst, int(moved.sum()))
    assert worst == divide_epsilon(10_000, p, 1.0).agreement_sensitivity == p * p // 4


@given(st.integers(0, 2**32), st.integers(2, 6), st.integers(1, 40))
@settings(max_examples=200, deadline=None)
def test_one_row_moves_one_place_a_column(seed, p, n):
    """From the table to the counts, with the same public draws: numeric and listed columns."""
    rng = np.random.default_rng(seed)
    grid = rng.integers(0, 5, (p, n))
    other = grid.copy()
    other[:, rng.integers(n)] = rng.integers(0, 5, p)
    cut = np.sort(rng.integers(0, 5, 9)).astype(float)
    margins = [
        CategoricalMargin(rng.dirichlet(np.full(5, 0.5)), rng.permutation([0, 0, 1, 2, 2]))
        if j % 2
        else Quantiles((np.arange(9) + 0.5) / 9, cut, 3)
        for j in range(p)
    ]
    tables = [rng.dirichlet(np.full(9, 0.3)).reshape(3, 3) for _ in range(p - 1)]
    tables[0][0] = 0.0
    edges = [TreeEdge(int(rng.integers(j)), j, tables[j - 1]) for j in range(1, p)]
    places = []
    for table in (grid, other):
        public = np.random.default_rng(1)
        spots = [
            margin.locate(column, public) for margin, column in zip(margins, table, strict=True)
        ]
        codes = np.array([code for code, _ in spots])
        assert 0 <= codes.min() <= codes.max() <= 2
        inside = np.array([position for _, position in spots])
        assert 0 <= inside.min() <= inside.max() <= 1
        places.append(compute_conditional_positions(edges, codes, inside))
        assert np.isfinite(places[-1]).all()
    assert ((places[0] != places[1]).sum(axis=1) <= 1).all()
    moved = np.abs(count_agreements(places[0]) - count_agreements(places[1]))
    assert moved.max(initial=0) <= 1
    assert moved.sum() <= divide_epsilon(10_000, p, 1.0).agreement_sensitivity


def test_places_by_hand():
    table = np.array([[1.0, 3.0], [2.0, 2.0]]) / 8
    codes = np.array([[0, 0, 1], [0, 1, 1]])
    inside = np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.5]])
    positions = compute_conditional_positions([TreeEdge(0, 1, table)], codes, inside)
    np.testing.assert_allclose(positions[0], [0.25, 0.25, 0.5])
    # A quarter of the table's first row is in bin 0, and half of the second.
    np.testing.assert_allclose(positions[1], [0.125, 0.625, 0.75])


def test_equal_values_are_spread_over_their_share():
    margin = Quantiles(np.array([0.1, 0.3, 0.5, 0.7, 0.9]), np.array([0, 0, 0, 7, 9.0]), 10)
    codes, inside = margin.locate(np.zeros(20_000, np.int64), np.random.default_rng(0))
    spread = np.sort((codes + inside) / 10)
    np.testing.assert_allclose(spread, np.linspace(0, 0.5, 20_000), atol=0.02)
    codes, inside = margin.locate(np.array([9, 10, 7]), np.random.default_rng(0))
    assert 0.9 <= (codes[0] + inside[0]) / 10 <= 1
    assert (codes[2] + inside[2]) / 10 == pytest.approx(0.7)


def test_agreement_tells_the_correlation_of_normals():
    n, correlations = 100_000, np.array([[1, 0.8, -0.3], [0.8, 1, 0.1], [-0.3, 0.1, 1.0]])
    samples = draw_normals(correlations, n, np.random.default_rng(0))
    np.testing.assert_allclose(np.corrcoef(samples), correlations, atol=0.02)
    ranks = samples.argsort(axis=1).argsort(axis=1) / n
    divided = divide_epsilon(n, 3, 10.0)
    measured = measure_correlations(ranks, divided, Recording())
    np.testing.assert_allclose(measured, correlations, atol=0.02)
    # Anything that may be noise counts as zero.
    apart = np.random.default_rng(1).random((3, n))
    loud = divide_epsilon(n, 3, 0.01)
    assert (measure_correlations(apart, loud, Recording()) == np.eye(3)).all()


def test_impossible_correlations_become_possible_ones():
    divided = divide_epsilon(1000, 3, 5.0)

    class Liar(Recording):
        def laplace(self, values, scale):
            return np.array([1000, 1000, 0])

    measured = measure_correlations(np.zeros((3, 1000)), divided, Liar())
    assert np.linalg.eigvalsh(measured).min() >= 0
    np.testing.assert_allclose(np.diag(measured), 1.0)


def test_columns_that_a_tree_sets_apart_depend_again():
    """Three that are alike: of any two that are not beside each other a tree tells a part."""
    rng = np.random.default_rng(0)
    n, divided = 20_000, divide_epsilon(20_000, 3, 5.0)
    independent, common = rng.normal(size=(3, n)), rng.normal(size=n)
    ranks = (0.63 * independent + 0.77 * common).argsort(axis=1).argsort(axis=1)
    grid = (ranks * (GRID // n)).astype(np.int64)
    expected = np.corrcoef(grid)
    measured = np.corrcoef(dp_ranks(grid, divided, Seeded(0), np.random.default_rng(0)))
    assert np.abs(measured - expected).max() < 0.06
    bins = np.full(divided.n_bins, 1 / divided.n_bins)
    edges = measure_tree(grid * divided.n_bins // (GRID + 1), [bins] * 3, divided, Recording())
    apart = draw_bins(edges, rng.normal(size=(3, n)), rng)
    tree = np.corrcoef([code + inside for code, inside in apart])
    assert np.abs(tree - expected).max() > 0.15


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "epsilon"),
    [
        # The 1,012 rows of MAGIC show the same as all of it.
        pytest.param(*case, marks=[pytest.mark.campaign] if case[0] == "magic" else [])
        for case in OF_A_TREE
    ],
)
def test_rows_and_ranges_are_nearer_than_of_a_tree_alone(name, epsilon):
    rows, _, ranges = mean_measures(name, epsilon, draws=2 if name == "magic" else 8)
    assert (rows, ranges) < OF_A_TREE[name, epsilon]
    assert ranges < OF_A_TREE[name, epsilon][1]
