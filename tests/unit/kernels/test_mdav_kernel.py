"""The MDAV kernel against the plain reference, record by record."""

import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[2]))

from reference import methods as reference

from dbanon import kernels

LEVELS = kernels.simd_levels()


@pytest.fixture(autouse=True)
def _restore_level():
    level = kernels.simd_level()
    yield
    kernels.set_simd_level(level)


def run(points, k, search="auto", budget=kernels.DEFAULT_BUDGET):
    points = np.ascontiguousarray(points, dtype=np.float64)
    points.flags.writeable = False
    kernel = kernels.Mdav(points, k, search)
    while not kernel.step(budget):
        pass
    return kernel.labels()


def check(points, k):
    expected = reference.mdav(points, k)
    for search in ("index", "brute", "auto"):
        np.testing.assert_array_equal(run(points, k, search), expected)


@st.composite
def tables(draw):
    p = draw(st.one_of(st.integers(1, 20), st.sampled_from([32, 64])))
    k = draw(st.integers(1, 9))
    n = draw(st.one_of(st.integers(k, 300), st.sampled_from([k, 2 * k, 3 * k, 3 * k - 1])))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from(["normal", "clustered", "grid", "binary", "repeated", "constant"]))
    points = rng.normal(size=(n, p))
    if kind == "clustered":
        points += 8.0 * rng.integers(0, 3, size=(n, 1))
    elif kind == "grid":
        points = np.round(2 * points)
    elif kind == "binary":
        points = rng.integers(0, 2, size=(n, p)).astype(float)
    elif kind == "repeated":
        points = points[rng.integers(0, max(1, n // 4), size=n)]
    elif kind == "constant":
        points[:, rng.integers(0, p)] = 0.1
    scale = draw(st.sampled_from([1.0, 1e-3, 3e7, 1e150, 1e160, 1e-158, 1e-162, 5e-324]))
    return np.ascontiguousarray(points * scale), k


@given(tables())
@settings(max_examples=150, deadline=None)
def test_equals_reference(table):
    check(*table)


@pytest.mark.parametrize("k", [1, 2, 3, 5, 10])
def test_small_counts(k):
    rng = np.random.default_rng(k)
    for n in {k, 2 * k - 1, 2 * k, 3 * k - 1, 3 * k, 4 * k - 1, 4 * k, 5 * k}:
        check(rng.normal(size=(n, 3)), k)
        check(rng.integers(0, 2, size=(n, 2)).astype(float), k)
        check(np.full((n, 2), 7.5), k)


@pytest.mark.parametrize("p", [1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 64])
def test_attributes(p):
    rng = np.random.default_rng(p)
    check(rng.normal(size=(700, p)), 4)
    check(rng.integers(0, 3, size=(700, p)).astype(float), 4)


@cache
def of_widths():
    """Points of several widths, and the classes of the plain version."""
    tables = [np.random.default_rng(p).normal(size=(2000, p)).round(1) for p in (1, 4, 10, 20)]
    return [(points, reference.mdav(points, 5)) for points in tables]


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("search", ["index", "brute"])
def test_levels_agree(level, search):
    for points, expected in of_widths():
        kernels.set_simd_level(level)
        assert kernels.simd_level() == level
        np.testing.assert_array_equal(run(points, 5, search), expected)


@pytest.mark.slow
@pytest.mark.parametrize("p", [2, 4, 10])
def test_index_equals_brute_on_larger_tables(p):
    """Long ranges are cut piece by piece, and the index is rebuilt on the way."""
    rng = np.random.default_rng(p)
    for points in (
        rng.normal(size=(40_000, p)),
        rng.integers(0, 4, size=(40_000, p)).astype(float),
    ):
        np.testing.assert_array_equal(run(points, 20, "index"), run(points, 20, "brute"))


def test_magnitudes_mixed():
    rng = np.random.default_rng(3)
    points = rng.normal(size=(400, 3)) * 10.0 ** rng.integers(-170, 150, size=(400, 1))
    check(points, 3)


@pytest.mark.parametrize("search", ["index", "brute"])
@pytest.mark.parametrize("budget", [1, 7, 1000])
def test_slices_change_nothing(search, budget):
    points = np.random.default_rng(0).normal(size=(1500, 3)).round(1)
    np.testing.assert_array_equal(run(points, 3, search, budget), reference.mdav(points, 3))


def test_progress_and_early_labels():
    kernel = kernels.Mdav(np.random.default_rng(0).normal(size=(2000, 2)), 5, "index")
    seen = [kernel.progress]
    with pytest.raises(RuntimeError):
        kernel.labels()
    while not kernel.step(5000):
        seen.append(kernel.progress)
    seen.append(kernel.progress)
    assert seen == sorted(seen)
    assert seen[0] == 0.0
    assert seen[-1] == 1.0
    assert len(seen) > 10
    assert kernel.step()


def test_array_outlives_its_name():
    points = np.random.default_rng(0).normal(size=(5000, 2))
    expected = run(points, 5)
    kernel = kernels.Mdav(points, 5)
    del points
    while not kernel.step(1000):
        pass
    labels = kernel.labels()
    del kernel
    np.testing.assert_array_equal(labels, expected)


def test_brute_function():
    points = np.random.default_rng(0).normal(size=(300, 2))
    np.testing.assert_array_equal(kernels.mdav_brute(points, 3), reference.mdav(points, 3))


@pytest.mark.parametrize(
    ("points", "k"),
    [
        (np.zeros((4, 2)), 0),
        (np.zeros((4, 2)), 5),
        (np.zeros((4, 0)), 2),
        (np.array([[0.0], [np.nan], [1.0]]), 1),
        (np.array([[0.0], [np.inf], [1.0]]), 1),
    ],
)
def test_wrong_values(points, k):
    with pytest.raises(ValueError):
        kernels.Mdav(points, k)


def test_wrong_search_and_level():
    with pytest.raises(ValueError):
        kernels.Mdav(np.zeros((4, 2)), 2, "other")
    with pytest.raises(ValueError):
        kernels.set_simd_level("other")
    with pytest.raises(ValueError):
        kernels.Mdav(np.zeros((4, 2)), 2).step(0)
    with pytest.raises(ValueError, match="threads"):
        kernels.Mdav(np.zeros((4, 2)), 2).step(threads=0)


@pytest.mark.parametrize(
    "points", [np.zeros(4), np.zeros((4, 2), order="F"), np.zeros((4, 2), dtype=np.float32)]
)
def test_wrong_arrays(points):
    with pytest.raises(TypeError):
        kernels.Mdav(points, 2)
