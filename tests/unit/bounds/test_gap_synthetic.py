"""Certificates on synthetic tables: below and near exact optima, and confirmed by search."""

import numpy as np
import pytest

import dbanon
from tests.reference.bounds import least_reduced_cost
from tests.reference.variable import optimal_cut
from tests.synthetic_data import census_like, planted_clusters, sse_share, standardized
from tests.unit.bounds.test_certificate import tolls_of


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_bound_of_one_column_is_within_a_hundredth_of_the_optimum(seed):
    """The optimum by dynamic programming over the sorted values."""
    values = np.random.default_rng(seed).normal(size=(60, 1))
    points = standardized(values)
    least = sse_share(points, optimal_cut(points, np.argsort(points[:, 0]), 3))
    result = dbanon.certificate(values, 3, seconds=60)
    assert result.complete
    assert result.share <= least
    assert result.gap(least) < 0.01


@pytest.mark.parametrize("k", [2, 3, 5])
def test_the_bound_of_clusters_far_apart_is_their_loss(k):
    """Clusters of k records each, which are the best classes."""
    points, centres = planted_clusters(np.full(20, k), 2, seed=k)
    clusters = np.unique(centres, axis=0, return_inverse=True)[1].reshape(-1)
    least = sse_share(standardized(points), clusters)
    result = dbanon.certificate(points, k, seconds=60)
    assert result.share <= least
    assert result.gap(least) < 1e-3


@pytest.mark.parametrize(("k", "gap"), [(3, 0.01), (4, 0.02)])
def test_the_gap_of_a_table_like_census(k, gap):
    """Synthetic counterpart of the Tarragona and Census tests: equally narrow, valid prices."""
    values = census_like(90, 4, k)
    points = standardized(values)
    result = dbanon.certificate(values, k, seconds=60)
    assert result.complete
    loss = dbanon.information_loss(values, dbanon.partition(values, k, refine="fast"))
    assert 0 <= result.gap(loss) < gap
    assert result.share <= loss <= result.share / (1 - gap)
    total = float(np.square(points).sum())
    slack = 1e-9 * total / len(points)
    assert (
        least_reduced_cost(points, k, result.prices * total, -slack, tolls_of(result, total))
        >= -slack
    )
