"""Refinements of synthetic tables reach exact optima, and beat a plain local search."""

import numpy as np
import pytest

import dbanon
from tests.reference import methods as reference
from tests.reference.variable import optimal_cut
from tests.synthetic_data import census_like, planted_clusters, sse_share, standardized

THOROUGH = {"refine": "thorough", "refine_iterations": 10_000}


def loss_of(values, k, **options):
    return dbanon.information_loss(values, dbanon.partition(values, k, **options))


def best_move(points, labels, k):
    """How much the best move of one record saves, and the record and its new class."""
    sizes = np.bincount(labels)
    means = np.array([points[labels == label].mean(axis=0) for label in range(len(sizes))])
    apart = np.square(points[:, None] - means).sum(axis=2)
    own_distance, size = apart[np.arange(len(points)), labels], sizes[labels]
    freed = np.where(size > k, size / np.maximum(size - 1, 1) * own_distance, -np.inf)
    saved = freed[:, None] - sizes / (sizes + 1) * apart
    saved[np.arange(len(points)), labels] = -np.inf
    saved[:, sizes >= 2 * k - 1] = -np.inf
    return saved.max(), np.unravel_index(saved.argmax(), saved.shape)


def best_swap(points, labels):
    """How much the best swap of two records saves, and the two."""
    sizes = np.bincount(labels)
    sums = np.array([points[labels == label].sum(axis=0) for label in range(len(sizes))])[labels]
    squares = np.square(points).sum(axis=1)
    change = points[None] - points[:, None]
    # The SSE of a record's class, with the other record in its place.
    grown = 2 * np.einsum("ip,ijp->ij", sums, change) + np.square(change).sum(axis=2)
    added = squares[None] - squares[:, None] - grown / sizes[labels][:, None]
    saved = -(added + added.T)
    saved[labels[:, None] == labels] = -np.inf
    return saved.max(), np.unravel_index(saved.argmax(), saved.shape)


def local_search(points, labels, k):
    """The best move or swap, again and again, until none saves anything."""
    labels = labels.copy()
    while True:
        (moved, (record, label)), (swapped, (record_to_swap, other)) = (
            best_move(points, labels, k),
            best_swap(points, labels),
        )
        if max(moved, swapped) < 1e-9:
            return labels
        if moved >= swapped:
            labels[record] = label
        else:
            labels[[record_to_swap, other]] = labels[[other, record_to_swap]]


@pytest.mark.parametrize("k", [3, 5, 10])
@pytest.mark.parametrize("seed", [0, 1])
def test_no_refinement_loses_more_than_a_plain_local_search(k, seed):
    """Partner of the limits on Tarragona, Census and EIA."""
    values = census_like(160, 5, seed)
    points = standardized(values)
    start = reference.mdav(points, k)
    searched = sse_share(points, local_search(points, start, k))
    fast = loss_of(values, k, refine="fast")
    assert fast <= searched < sse_share(points, start)
    # Classes put together anew: below what moves and swaps alone reach.
    assert loss_of(values, k, **THOROUGH) <= fast < 0.995 * searched


@pytest.mark.parametrize("options", [{"refine": "fast"}, THOROUGH], ids=["fast", "thorough"])
@pytest.mark.parametrize("k", [3, 4, 5])
def test_refined_classes_of_one_column_are_the_optimum(k, options):
    """Dynamic programming over the sorted values; MDAV alone loses more."""
    values = np.random.default_rng(k).normal(size=(150, 1))
    points = standardized(values)
    least = sse_share(points, optimal_cut(points, np.argsort(points[:, 0]), k))
    assert loss_of(values, k, **options) == pytest.approx(least, rel=1e-9)
    assert loss_of(values, k) > 1.03 * least


@pytest.mark.parametrize("options", [{"refine": "fast"}, THOROUGH], ids=["fast", "thorough"])
@pytest.mark.parametrize("k", [3, 4, 6])
def test_refined_classes_of_clusters_far_apart_are_the_clusters(k, options):
    """Clusters of k to 2k-1 records: any other partition loses thousands of times as much."""
    sizes = np.random.default_rng(k).integers(k, 2 * k, 30)
    points, centres = planted_clusters(sizes, 2, seed=k)
    clusters = np.unique(centres, axis=0, return_inverse=True)[1].reshape(-1)
    least = sse_share(standardized(points), clusters)
    assert loss_of(points, k, **options) == pytest.approx(least, rel=1e-6)
    assert loss_of(points, k) > 100 * least
