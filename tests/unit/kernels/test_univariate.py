"""Methods along one axis: worked examples, and the optimum against exhaustive search."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[2]))

from reference import variable as reference

import dbanon
from dbanon import kernels
from dbanon.data.partition import AttributePartition
from dbanon.errors import InvalidParameter, RowsNotAnonymous
from tests.prerequisites import import_or_skip


def column(*values):
    return np.array(values, dtype=float).reshape(-1, 1)


def cut(points, k, order):
    kernel = kernels.PathCut(np.ascontiguousarray(points), k, np.asarray(order, np.int32))
    while not kernel.step(500):
        pass
    return kernel.labels()


def test_single_axis_worked_example():
    """Seven values, k = 2: 1 2 | 3 5 8 | 9 20, the class with the median 5 is the larger one."""
    actual = dbanon.partition(column(9, 1, 5, 2, 20, 3, 8), 2, method="single_axis")
    assert actual.labels.tolist() == [2, 0, 1, 0, 2, 1, 1]


def test_single_axis_even_number_of_classes():
    """Five values, k = 2: two classes, the lower one takes the median."""
    actual = dbanon.partition(column(1, 2, 3, 4, 5), 2, method="single_axis")
    assert actual.labels.tolist() == [0, 0, 0, 1, 1]


@pytest.mark.parametrize("n", range(4, 30))
@pytest.mark.parametrize("k", [2, 3])
def test_the_larger_class_holds_the_median(n, k):
    actual = dbanon.partition(np.arange(float(n)).reshape(-1, 1), k, method="single_axis")
    large = np.flatnonzero(actual.sizes > k)
    if len(large):
        assert large.tolist() == [actual.labels[(n - 1) // 2]]


def test_axes():
    """Order by an attribute, by the sum and by the first component, which is the diagonal here."""
    points = np.array([[0, 3], [1, 2], [2, 1.5], [3, 0], [10, 10], [12, 11.0]])
    by = {
        axis: dbanon.partition(points, 2, method="single_axis", axis=axis, standardize="none")
        for axis in ("sum", "first_component", "column 1")
    }
    assert by["column 1"].labels.tolist() == [1, 1, 0, 0, 2, 2]
    assert by["sum"].labels.tolist() == [0, 0, 1, 1, 2, 2] or by["sum"].sizes.tolist() == [2] * 3
    assert by["first_component"].labels[[4, 5]].tolist() == [2, 2]
    with pytest.raises(InvalidParameter, match="no axis"):
        dbanon.partition(points, 2, method="single_axis", axis="column 2")


def test_individual_ranking_worked_example():
    """Each column by itself; the rows would all differ."""
    points = np.array([[1.0, 4.0], [2.0, 1.0], [3.0, 3.0], [4.0, 2.0]])
    with pytest.warns(RowsNotAnonymous):
        actual = dbanon.partition(points, 2, method="individual_ranking")
    assert isinstance(actual, AttributePartition)
    assert [part.labels.tolist() for part in actual.partitions] == [[0, 0, 1, 1], [1, 0, 1, 0]]
    rows = {tuple(part.labels[i] for part in actual.partitions) for i in range(4)}
    assert len(rows) == 4


def test_individual_ranking_is_refused_for_releases():
    pd = import_or_skip("pandas")
    frame = pd.DataFrame({"a": [1, 2, 3, 4], "b": [4, 1, 3, 2]})
    with pytest.raises(InvalidParameter, match="per attribute"):
        dbanon.anonymize_frame(
            frame, quasi_identifiers=["a", "b"], k=2, method="individual_ranking"
        )
    with pytest.raises(InvalidParameter, match="refined"):
        dbanon.Policy(k=2, method="individual_ranking", refine="fast")


def test_optimal_univariate_worked_example():
    """1 2 3 | 10 11 for k = 2: SSE 2 + 0.5; 1 2 | 3 10 11 would give 0.5 + 38."""
    actual = dbanon.partition(column(10, 1, 3, 11, 2), 2, method="optimal_univariate")
    assert actual.labels.tolist() == [1, 0, 0, 1, 0]
    with pytest.raises(InvalidParameter, match="takes 1"):
        dbanon.partition(np.zeros((5, 2)), 2, method="optimal_univariate")


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("n", [4, 7, 8, 9, 10])
def test_optimum_of_all_partitions(n, k):
    """No partition of the values into any classes of k or more loses less."""
    values = np.random.default_rng(n * k).normal(size=(max(n, k), 1))
    labels = cut(values, k, np.argsort(values[:, 0]))
    actual = sum(reference.sse(values, labels == c) for c in range(labels.max() + 1))
    assert actual == pytest.approx(_least(values, tuple(range(len(values))), k))


def _least(values, ids, k):
    from itertools import combinations

    if not ids:
        return 0.0
    best = np.inf
    for size in range(k, len(ids) + 1):
        if 0 < len(ids) - size < k:
            continue
        for others in combinations(ids[1:], size - 1):
            members = [ids[0], *others]
            remaining = tuple(i for i in ids if i not in members)
            best = min(best, reference.sse(values, members) + _least(values, remaining, k))
    return best


@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 80), st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_cut_equals_reference(seed, k, more, p):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(k + more, p))
    order = rng.permutation(k + more)
    np.testing.assert_array_equal(cut(points, k, order), reference.optimal_cut(points, order, k))


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 5, 17])
def test_optimal_univariate_equals_microagg1d(k, monkeypatch):
    """Its method "simple", the one it takes for small k, is not always optimal; "wilber" is."""
    # Its import compiles for a minute what these few values do not need compiled.
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    microagg1d = import_or_skip("microagg1d")
    values = np.random.default_rng(0).normal(size=8_000)
    actual = dbanon.partition(values.reshape(-1, 1), k, method="optimal_univariate")
    theirs = microagg1d.univariate_microaggregation(values, k, method="wilber")
    losses = []
    for labels in (actual.labels, theirs):
        means = np.bincount(labels, values) / np.bincount(labels)
        losses.append(np.square(values - means[labels]).sum())
    assert losses[0] == pytest.approx(losses[1], rel=1e-12)


@pytest.mark.parametrize("order", [[0, 1, 1, 2], [0, 1, 2, 4], [0, 1, 2], [-1, 0, 1, 2]])
def test_wrong_orders(order):
    with pytest.raises(ValueError):
        kernels.PathCut(np.zeros((4, 1)), 2, np.array(order, np.int32))
