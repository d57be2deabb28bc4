"""The genetic algorithm: a worked example, the optimum of small sets, and two steps."""

import numpy as np
import pytest

import dbanon
from dbanon import kernels


def test_worked_example():
    """0 1 | 9 10 12 for k = 2, SSE 0.5 + 14/3, is the best of the ten ways to choose the pair."""
    points = np.array([[9.0], [0.0], [12.0], [1.0], [10.0]])
    partition = dbanon.partition(points, 2, method="genetic", standardize="none")
    assert partition.labels.tolist() == [0, 1, 0, 1, 0]


@pytest.mark.parametrize("seed", range(3))
def test_finds_what_refinement_finds(seed):
    points = np.random.default_rng(seed).normal(size=(12, 2))
    evolved = dbanon.partition(points, 3, method="genetic", seed=seed, generations=3000)
    best = dbanon.partition(points, 3, refine="thorough", refine_iterations=2000)
    losses = [dbanon.information_loss(points, partition) for partition in (best, evolved)]
    assert losses[1] == pytest.approx(losses[0])


def test_two_steps():
    """Classes never cross the large classes of MDAV."""
    points = np.random.default_rng(0).normal(size=(130, 3))
    partition = dbanon.partition(points, 3, method="two_step", macro=25)
    large = dbanon.partition(points, 25)
    assert all(
        len(set(large.labels[partition.labels == c])) == 1 for c in range(partition.n_classes)
    )
    assert dbanon.information_loss(points, partition) < dbanon.information_loss(points, large)
    other = dbanon.partition(points, 3, method="two_step", macro=25, seed=1)
    assert other.labels.tolist() != partition.labels.tolist()


def test_slices_change_nothing():
    points = np.random.default_rng(0).normal(size=(50, 2))
    labels = []
    for budget in (10, 10**9):
        kernel = kernels.Genetic(points, 4, 10, 30, 0.5, 0.05, 7)
        while not kernel.step(budget):
            assert 0.0 <= kernel.progress < 1.0
        labels.append(kernel.labels())
    np.testing.assert_array_equal(*labels)
