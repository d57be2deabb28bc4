"""What releases of dp_ranks are worth on synthetic tables, beside releases that are made plainly.

Partner of the figures on MAGIC and Census in test_dp_ranks.py, test_edges.py and test_residuals.py.
"""

from __future__ import annotations

import numpy as np
import pytest

from dbanon.errors import NoiseTooLarge
from dbanon.extensions.synthesis.dependence import draw_bins, measure_tree
from dbanon.extensions.synthesis.shares import divide_epsilon
from tests.reference.synthesis import Seeded, census_bounds, measures, released
from tests.synthetic_data import census_like, magic_like

EPSILONS = (1, 5, 20)


def tables():
    """By name, values, (n, p), and their public bounds, (p, 2)."""
    magic, census = magic_like(3000, 6), census_like(1080, 5)
    spread = np.column_stack((np.floor(magic.min(axis=0)) - 1, np.ceil(magic.max(axis=0)) + 1))
    return {"magic": (magic, spread), "census": census_bounds(census)}


TABLES = tables()


def histograms(values, bounds, epsilon, rng):
    """Each column by itself: 64 counts with noise of Laplace, and values drawn from them."""
    n, p = values.shape
    rows = np.empty_like(values)
    for j, (low, high) in enumerate(bounds):
        edges = np.linspace(low, high, 65)
        counts = np.histogram(values[:, j].clip(low, high), edges)[0].astype(float)
        counts = np.maximum(counts + rng.laplace(0, 2 * p / epsilon, 64), 0)
        chosen = rng.choice(64, n, p=counts / counts.sum())
        rows[:, j] = edges[chosen] + rng.random(n) * (high - low) / 64
    return rows


@pytest.fixture(scope="module")
def measured():
    """By table, epsilon and method, the three measures, means over two seeds."""
    measures_by_case = {}
    for name, (values, bounds) in TABLES.items():
        for epsilon in EPSILONS:
            for margins_kind in ("ranks", "quantiles", "histograms"):
                each = [
                    histograms(values, bounds, epsilon, np.random.default_rng(seed))
                    if margins_kind == "histograms"
                    else released(values, bounds, epsilon, Seeded(seed), margins_kind)
                    for seed in range(2)
                ]
                figures = np.mean([measures(values, rows, 30) for rows in each], axis=0)
                measures_by_case[name, epsilon, margins_kind] = figures
    return measures_by_case


@pytest.mark.parametrize("margins", ["ranks", "quantiles"])
@pytest.mark.parametrize("name", TABLES)
def test_rows_are_nearer_than_those_of_histograms(measured, name, margins):
    """Sliced W2^2 is at most half as large, and correlations are kept."""
    for epsilon in EPSILONS:
        rows, correlations, _ = measured[name, epsilon, margins]
        plain_rows, plain_correlations, _ = measured[name, epsilon, "histograms"]
        assert rows < plain_rows / 2
        if epsilon > 1:
            assert correlations < plain_correlations / 3


@pytest.mark.parametrize("margins", ["ranks", "quantiles"])
@pytest.mark.parametrize("name", TABLES)
def test_all_measures_get_better_with_epsilon(measured, name, margins):
    measured_values = np.array([measured[name, epsilon, margins] for epsilon in EPSILONS])
    assert (np.diff(measured_values, axis=0) < 0).all()


@pytest.mark.parametrize("epsilon", [5, 20])
@pytest.mark.parametrize("name", TABLES)
def test_ranges_are_answered_better_by_quantiles(measured, name, epsilon):
    """Than by ranks, and than by histograms."""
    ranges = {
        margins_kind: measured[name, epsilon, margins_kind][2]
        for margins_kind in ("ranks", "quantiles", "histograms")
    }
    assert ranges["quantiles"] < 0.99 * min(ranges["ranks"], ranges["histograms"])
    assert measured[name, epsilon, "quantiles"][0] < measured[name, epsilon, "ranks"][0]


def of_a_tree(values, epsilon, seed):
    """Rows of a tree of pairs alone, with the margins of the values."""
    n, p = values.shape
    divided, rng = divide_epsilon(n, p, epsilon), np.random.default_rng(seed)
    codes = (values.argsort(axis=0, kind="stable").argsort(axis=0) * divided.n_bins // n).T
    margins = [np.full(divided.n_bins, 1 / divided.n_bins)] * p
    edges = measure_tree(codes, margins, divided, Seeded(seed))
    columns = [code + inside for code, inside in draw_bins(edges, rng.normal(size=(p, n)), rng)]
    return with_margins(values, np.array(columns).T)


def with_margins(values, rows):
    """The values, sorted, in the order of the rows, column by column."""
    ranks = rows.argsort(axis=0, kind="stable").argsort(axis=0)
    return np.take_along_axis(np.sort(values, axis=0), ranks, axis=0)


@pytest.mark.parametrize(("name", "epsilon"), [("magic", 5), ("magic", 20), ("census", 20)])
def test_residuals_bring_rows_nearer_than_a_tree_alone(name, epsilon):
    """With the same margins, so that only the dependence is measured."""
    values, bounds = TABLES[name]
    mean_values = np.mean(
        [
            [
                measures(values, with_margins(values, rows), 30)
                for rows in (
                    released(values, bounds, epsilon, Seeded(seed)),
                    of_a_tree(values, epsilon, seed),
                )
            ]
            for seed in range(2)
        ],
        axis=0,
    )
    assert (mean_values[0] < mean_values[1]).all()
    assert mean_values[0][1] < mean_values[1][1] / 2


@pytest.mark.parametrize("shape", [(1012, 10), (1080, 13)])
def test_noise_is_too_large_for_few_rows_and_many_columns(shape):
    """Whatever the rows are: those of MAGIC's first 1,012 and of Census have these shapes."""
    with pytest.raises(NoiseTooLarge):
        divide_epsilon(*shape, 0.1)
    assert divide_epsilon(*shape, 1.0).epsilon == 1.0
