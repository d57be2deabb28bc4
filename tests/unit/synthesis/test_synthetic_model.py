"""The model of synthetic rows: agreeing tables, their weights, and rows that are spread evenly."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbanon.extensions.synthesis.estimation import (
    NoisyTable,
    estimate_weights,
    fit_model,
    reconcile_tables,
)
from dbanon.extensions.synthesis.junction import JunctionTree, _draw_bins
from dbanon.extensions.synthesis.marginals import MAX_COLUMNS
from dbanon.extensions.synthesis.sobol import MAX_DIMENSIONS, _expand_directions, draw_even_points
from tests.reference.synthetic_models import bins_one_by_one, reconciled_by_least_squares


def noisy_tables(rng, n_bins, n, deviation, pairs):
    """A table of each column, with n rows in all, and tables of pairs, with noise on each count."""
    tables = []
    for j, size in enumerate(n_bins):
        counts = n / size + rng.normal(0, deviation, size)
        counts += (n - counts.sum()) / size
        tables.append(NoisyTable((j,), counts, float(rng.uniform(0.5, 2)) * deviation**2))
    for a, b in pairs:
        shape = (n_bins[a], n_bins[b])
        counts = n / (shape[0] * shape[1]) + rng.normal(0, deviation, shape)
        tables.append(NoisyTable((a, b), counts, float(rng.uniform(0.5, 2)) * deviation**2))
    return tables


# Agreeing tables


@given(seed=st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_reconciled_tables_are_least_squares(seed):
    rng = np.random.default_rng(seed)
    n_bins = rng.integers(1, 5, 4).tolist()
    pairs = [pair for pair in combinations(range(4), 2) if rng.random() < 0.6]
    tables = noisy_tables(rng, n_bins, 10_000, 20.0, pairs)
    expected = reconciled_by_least_squares(
        n_bins, [(table.columns, table.counts, table.variance) for table in tables], 10_000
    )
    for table, counts in zip(reconcile_tables(tables, 10_000), expected, strict=True):
        np.testing.assert_allclose(table.counts, counts, rtol=1e-6)


def test_tables_of_two_columns_make_counts_of_one_more_precise():
    rng, n = np.random.default_rng(0), 6000
    errors, claimed = [], 0.0
    for _ in range(400):
        tables = [
            NoisyTable((0,), n / 4 + rng.normal(0, 30, 4), 900.0),
            NoisyTable((1,), n / 3 + rng.normal(0, 30, 3), 900.0),
            NoisyTable((0, 1), n / 12 + rng.normal(0, 20, (4, 3)), 400.0),
        ]
        tables[:2] = [
            NoisyTable(t.columns, t.counts + (n - t.counts.sum()) / t.counts.size, t.variance)
            for t in tables[:2]
        ]
        reconciled = reconcile_tables(tables, n)
        errors.append(np.square(reconciled[0].counts - n / 4).mean())
        claimed = reconciled[0].variance
    assert claimed == pytest.approx(1 / (1 / 900 + 1 / 1200))
    # The number of all rows is known, which a quarter of the noise is about.
    assert np.mean(errors) == pytest.approx(0.75 * claimed, rel=0.1)


def test_no_column_has_fewer_than_no_rows():
    tables = [
        NoisyTable((0,), np.array([100.0, 0.0]), 25.0),
        NoisyTable((1,), np.array([50.0, 50.0]), 25.0),
        NoisyTable((0, 1), np.array([[60.0, 60.0], [-20.0, -20.0]]), 25.0),
    ]
    first, second, both = reconcile_tables(tables, 100)
    np.testing.assert_allclose(first.counts, [100, 0])
    np.testing.assert_allclose(both.counts.sum(axis=1), first.counts)
    np.testing.assert_allclose(both.counts.sum(axis=0), second.counts)


# Weights


def test_noise_is_hardly_followed_and_dependence_is():
    """Two tables with the same noise: of independent columns, and of two that are nearly equal."""
    rng, n, deviation = np.random.default_rng(1), 4000, 40.0
    column = np.full(4, n / 4)
    equal = np.diag(column) * 0.9 + n / 16 * 0.1
    tables = [NoisyTable((j,), column, deviation**2) for j in range(4)]
    for pair, counts in (((0, 1), np.full((4, 4), n / 16)), ((2, 3), equal)):
        noisy = counts + rng.normal(0, deviation, (4, 4))
        tables.append(NoisyTable(pair, noisy, deviation**2))
    tables = reconcile_tables(tables, n)
    weights = estimate_weights(tables, n)
    assert weights[4] > 20 * weights[5]
    tree = JunctionTree([(0, 1), (2, 3)], [4] * 4)
    logarithms = [np.log(table.counts / n) for table in tables[:4]]
    (independent, dependent), _ = fit_model(tree, tables, logarithms, n, max_steps=200)
    assert np.abs(independent * n - n / 16).sum() < 0.6 * np.abs(tables[4].counts - n / 16).sum()
    assert np.abs(dependent * n - equal).sum() < 1.1 * np.abs(tables[5].counts - equal).sum()


def test_the_weight_by_hand():
    column = np.array([60.0, 40.0])
    counts = np.array([[46.0, 14.0], [14.0, 26.0]])
    tables = [
        NoisyTable((0,), column, 1.0),
        NoisyTable((1,), column, 1.0),
        NoisyTable((0, 1), counts, 4.0),
    ]
    # Independent columns would have 36, 24, 24 and 16: each is 10 off, of which noise explains 4.
    assert estimate_weights(tables, 100) == pytest.approx([0.001, 0.001, 0.5 * 100 / 396])


# Single columns


def test_the_model_has_the_counts_of_single_columns():
    """However few steps a fit may take, and also if noisy tables have cells below 0."""
    rng, n, sizes = np.random.default_rng(6), 2000, (4, 5, 3)
    tables = [
        NoisyTable((j,), n * rng.dirichlet(np.ones(size)), 30.0) for j, size in enumerate(sizes)
    ]
    for pair in ((0, 1), (1, 2)):
        shape = [sizes[j] for j in pair]
        noisy = n * rng.dirichlet(np.full(np.prod(shape), 0.3)).reshape(shape)
        tables.append(NoisyTable(pair, noisy + rng.normal(0, 30, shape), 900.0))
    tables = reconcile_tables(tables, n)
    tree = JunctionTree([(0, 1), (1, 2)], sizes)
    logarithms = [np.log(np.maximum(table.counts / n, 1e-6)) for table in tables[:3]]

    def distance(n_sweeps):
        beliefs, _ = fit_model(tree, tables, logarithms, n, max_steps=5, n_sweeps=n_sweeps)
        columns = [beliefs[0].sum(axis=1), beliefs[0].sum(axis=0), beliefs[1].sum(axis=0)]
        return sum(
            np.abs(column - table.counts / n).sum()
            for column, table in zip(columns, tables, strict=False)
        )

    assert distance(0) > 0.01
    assert distance(2) < 0.1 * distance(0)
    assert distance(20) < 1e-4


# Points that fill a cube evenly


def test_there_are_dimensions_for_all_columns():
    assert MAX_DIMENSIONS >= MAX_COLUMNS
    points = draw_even_points(MAX_COLUMNS, 3, np.random.default_rng(0))
    assert points.shape == (MAX_COLUMNS, 3)
    assert ((points >= 0) & (points < 1)).all()


@pytest.mark.parametrize("dimension", range(MAX_DIMENSIONS))
def test_each_interval_has_one_of_the_points(dimension):
    """The matrix of direction numbers is triangular, so all of its corners can be inverted."""
    for bit, direction in enumerate(_expand_directions(dimension, 20)):
        assert (direction >> (39 - bit)) & 1
        assert direction % 2 ** (39 - bit) == 0


def test_each_box_of_the_first_two_dimensions_has_one_point():
    points = draw_even_points(2, 1024, np.random.default_rng(2))
    for bits in range(11):
        boxes = np.floor(points[0] * 2**bits) * 2 ** (10 - bits)
        boxes += np.floor(points[1] * 2 ** (10 - bits))
        assert len(np.unique(boxes)) == 1024


def test_points_are_in_random_order():
    points = draw_even_points(3, 4000, np.random.default_rng(3))
    assert abs(np.corrcoef(points[0, :-1], points[0, 1:])[0, 1]) < 0.06


# Rows


@given(seed=st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_bins_are_drawn_as_one_by_one(seed):
    rng = np.random.default_rng(seed)
    n_groups, n_bins, n = rng.integers(1, 5), rng.integers(1, 6), rng.integers(1, 60)
    weights = rng.random((n_groups, n_bins)) * (rng.random((n_groups, n_bins)) < 0.7)
    groups, coordinates = rng.integers(0, n_groups, n), rng.random(n)
    bins, offsets = _draw_bins(weights, groups, coordinates)
    assert ((offsets >= 0) & (offsets <= 1)).all()
    expected_bins, expected_offsets = bins_one_by_one(weights, groups, coordinates)
    expected_rows = n * weights.sum(axis=0) / max(weights.sum(), 1e-9)

    def balance(some_bins):
        excess = np.bincount(some_bins, minlength=n_bins) - expected_rows
        return min(excess.max(), -excess.min())

    if balance(expected_bins) < 1:
        assert bins.tolist() == expected_bins.tolist()
        np.testing.assert_allclose(offsets, expected_offsets, atol=1e-6)
    assert balance(bins) <= max(balance(expected_bins), 1)
    shares = np.where(weights.sum(axis=1, keepdims=True) > 0, weights, 1.0)
    shares /= shares.sum(axis=1, keepdims=True)
    for group in range(n_groups):
        counts = np.bincount(bins[groups == group], minlength=n_bins)
        assert (np.abs(counts - counts.sum() * shares[group]) < 1 + 1e-9).all()


def test_rounding_of_many_groups_does_not_add_up():
    """As many groups as rows: each row's bin is drawn by the weights of a group of its own."""
    rng, n = np.random.default_rng(5), 4000
    weights = rng.dirichlet(np.ones(8), n)
    bins, _ = _draw_bins(weights, rng.permutation(n), rng.random(n))
    excess = np.bincount(bins, minlength=8) - weights.sum(axis=0)
    # The standard deviation of random rounding is about 20 rows.
    assert np.abs(excess).max() < 3


def test_tables_of_independent_columns_are_nearer_than_those_of_random_rows():
    """Six columns, two of which depend on each other; the tables of all pairs and triples."""
    rng, n, sizes = np.random.default_rng(4), 3000, [4, 5, 3, 6, 4, 5]
    shares = [rng.dirichlet(np.full(size, 3.0)) for size in sizes]
    joint = np.outer(shares[0], shares[1])
    joint[0, 0] += 0.2
    joint /= joint.sum()
    shares[0], shares[1] = joint.sum(axis=1), joint.sum(axis=0)
    tree = JunctionTree([(0, 1), *((j,) for j in range(2, 6))], sizes)
    codes, offsets = tree.draw_rows([joint, *shares[2:]], draw_even_points(6, n, rng))
    assert ((offsets >= 0) & (offsets <= 1)).all()
    random_codes = np.array(
        [rng.choice(size, n, p=q) for size, q in zip(sizes, shares, strict=True)]
    )
    cells = rng.choice(joint.size, n, p=joint.reshape(-1))
    random_codes[:2] = np.unravel_index(cells, joint.shape)

    def distance(rows, columns):
        expected = joint if columns[:2] == (0, 1) else np.ones(())
        for j in columns[2 if columns[:2] == (0, 1) else 0 :]:
            expected = np.multiply.outer(expected, shares[j])
        counts = np.zeros(expected.shape)
        np.add.at(counts, tuple(rows[list(columns)]), 1)
        return np.abs(counts / n - expected).sum() / 2

    for size, share in ((1, 0.1), (2, 0.5), (3, 0.85)):
        tables = list(combinations(range(6), size))
        even, at_random = (
            np.mean([distance(rows, columns) for columns in tables])
            for rows in (codes, random_codes)
        )
        assert even < share * at_random, size
