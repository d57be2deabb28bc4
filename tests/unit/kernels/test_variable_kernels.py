"""Paths, k-Ward and spanning trees against the plain references, and by hand."""

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
from dbanon.data.partition import Partition


def labels_of(kernel, budget=2000):
    while not kernel.step(budget):
        pass
    return kernel.labels()


def column(*values):
    return np.array(values, dtype=float).reshape(-1, 1)


def classes(points, k, method, **options):
    actual = dbanon.partition(points, k, method=method, standardize="none", **options)
    return reference.numbered(actual.labels).tolist()


def test_path_worked_example():
    """Mean 4.6: farthest is 12, then 9, 1, 0, ... wait for the nearest each time: 12 9 1 1 0."""
    position = labels_of(kernels.NearestPath(column(0, 12, 1, 9, 1)))
    assert position.tolist() == [4, 0, 2, 1, 3]


def test_npn_mhm_worked_example():
    """0 1 2 | 9 10 for k = 2: the path is the order of the values, from 10 downwards."""
    assert classes(column(9, 0, 2, 1, 10), 2, "npn_mhm") == [0, 1, 1, 1, 0]


@pytest.mark.parametrize("base", ["Mdav", "Cbfs", "Md"])
def test_a_cut_never_loses_more_than_its_base(base):
    rng = np.random.default_rng(0)
    for k in (2, 3, 5):
        points = rng.normal(size=(200, 3))
        plain = Partition(labels_of(getattr(kernels, base)(points, k)))
        cut = dbanon.partition(points, k, method=f"{base.lower()}_mhm", standardize="none")
        losses = [dbanon.information_loss(points, actual) for actual in (cut, plain)]
        assert losses == sorted(losses)


@pytest.mark.parametrize("base", ["cbfs", "md"])
def test_cbfs_and_md_mhm_worked_examples(base):
    """k = 2: {12 10} first, then {0 1}; 2 joins {0 1}. Cut on the path 12 10 . 2 1 0."""
    assert classes(column(0, 1, 2, 10, 12), 2, f"{base}_mhm") == [0, 0, 0, 1, 1]


def test_mdav_mhm_worked_example():
    """MDAV, k = 2: {0 1} {9 10} {2}+: as 0 1 2 | 9 10 the cut has classes of 3 and 2."""
    assert classes(column(0, 1, 2, 9, 10), 2, "mdav_mhm") == [0, 0, 0, 1, 1]


def test_kward_worked_example():
    """0 1 | 9 10 are the ends for k = 2; 2 joins {0 1} at 2*1/3*1.5^2 = 1.5, not {9 10}."""
    assert classes(column(2, 10, 0, 9, 1), 2, "kward") == [0, 1, 0, 1, 0]


def test_kward_recursion_worked_example():
    """k = 2 on 0 1 2 3 20 21: {0 1} {20 21}; 2 and 3 cost 1/2 to merge, less than joining {0 1}."""
    assert classes(column(0, 1, 2, 3, 20, 21), 2, "kward") == [0, 0, 1, 1, 2, 2]


def test_recursive_kward_worked_example():
    """0 1 2 3 | 100 101 102 103: the halves' variances are 1.25 each, that of all 2501.25. Their
    ratio is below theta = 0.5, so k-Ward sees the whole; with theta = 0 it sees halves."""
    points = column(0, 1, 2, 3, 100, 101, 102, 103)
    assert classes(points, 2, "recursive_kward", theta=0.5) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert classes(points, 2, "recursive_kward", theta=0.0) == [0, 0, 1, 1, 2, 2, 3, 3]
    # Four parts of two records each are single classes: those of the order.
    assert classes(column(0, 5, 6, 11), 2, "recursive_kward", theta=0.0) == [0, 0, 1, 1]


def test_mst_worked_example():
    """0 1 2 . 9 10 11 12 for k = 3: the edge 2-9 is cut, and none else may be."""
    points = column(9, 0, 1, 10, 2, 11, 12)
    assert classes(points, 3, "mst_forest") == [0, 1, 1, 0, 1, 0, 0]
    assert classes(points, 3, "mst_diameter") == [0, 1, 1, 0, 1, 0, 0]


def test_star_is_split_by_diameter_only():
    """All edges of a star leave one record on a side: one tree, split around its far ends."""
    points = np.array([[0, 0], [3, 0], [-3, 0.5], [0, 2], [0.5, -2.0]])
    assert classes(points, 2, "mst_forest") == [0] * 5
    assert classes(points, 2, "mst_diameter") == [0, 0, 1, 1, 0]


@st.composite
def scattered(draw, ties=False):
    k = draw(st.integers(2, 5))
    n = draw(st.integers(k, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    points = rng.normal(size=(n, draw(st.integers(1, 4))))
    if draw(st.booleans()):
        points += 6.0 * rng.integers(0, 3, size=(n, 1))
    if ties and draw(st.booleans()):
        points = points.round()
    return points, k


SEARCH = st.sampled_from(["auto", "index", "brute"])


@given(scattered(), SEARCH)
@settings(max_examples=60, deadline=None)
def test_kward_equals_reference(table, search):
    points, k = table
    actual = labels_of(kernels.Ward(points, k, search))
    np.testing.assert_array_equal(actual, reference.kward(points, k))


@given(scattered(ties=True), st.booleans(), SEARCH)
@settings(max_examples=100, deadline=None)
def test_mst_equals_reference(table, diametric, search):
    points, k = table
    actual = labels_of(kernels.Mst(points, k, diametric, search))
    np.testing.assert_array_equal(reference.numbered(actual), reference.mst(points, k, diametric))


@pytest.mark.parametrize("p", [1, 2, 4, 9])
@pytest.mark.parametrize("kind", ["normal", "rounded", "coarse", "clustered", "equal", "two"])
def test_the_index_changes_nothing(p, kind):
    """Trees of clusters, rebuilt now and then, on data with many ties."""
    rng = np.random.default_rng(p)
    points = rng.normal(size=(900, p))
    if kind == "rounded":
        points = points.round(1)
    elif kind == "coarse":
        points = points.round()
    elif kind == "clustered":
        points += 5.0 * rng.normal(size=(9, p))[rng.integers(0, 9, 900)]
    elif kind == "equal":
        points[:] = 0.3
    elif kind == "two":
        points[:] = rng.integers(0, 2, size=(900, 1))
    for make in (kernels.Ward, lambda *args: kernels.Mst(*args[:2], True, args[2])):
        for k in (2, 5):
            actual = [labels_of(make(points, k, how)) for how in ("brute", "index", "auto")]
            np.testing.assert_array_equal(actual[0], actual[1])
            np.testing.assert_array_equal(actual[0], actual[2])


def test_kward_on_equal_records():
    """The second k records remain; the first k and all others are one class, cut again."""
    assert classes(np.zeros((7, 1)), 2, "kward") == [0, 0, 1, 1, 2, 2, 0]


@given(scattered(), st.booleans())
@settings(max_examples=50, deadline=None)
def test_path_equals_reference(table, grouped):
    points, k = table
    groups = dbanon.partition(points, k, standardize="none").labels if grouped else None
    position = labels_of(kernels.NearestPath(points, groups))
    assert np.argsort(position).tolist() == reference.nearest_path(points, groups)


@pytest.mark.parametrize("huge", [1e150, 1e200, 1.7e308, 5e-324])
def test_magnitudes(huge):
    """Sums that overflow may make bad classes, never wrong sizes or a crash."""
    points = np.random.default_rng(0).choice([-1.0, 0.0, 0.5, 1.0], size=(40, 3)) * huge
    for kernel in (
        kernels.Ward(points, 3),
        kernels.Mst(points, 3, True),
        kernels.NearestPath(points),
        kernels.PathCut(points, 3, np.arange(40, dtype=np.int32)),
        kernels.Pass(points, 3, np.zeros(40, np.int32)),
        kernels.Refine(points, 3, np.zeros(40, np.int32), 200, 2**40, 0.0, 0.1, 5, 0),
    ):
        actual = np.bincount(labels_of(kernel))
        assert actual.sum() == 40
        assert isinstance(kernel, kernels.NearestPath) or actual.min() >= 3
