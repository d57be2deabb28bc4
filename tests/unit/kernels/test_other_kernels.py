"""CBFS, MD, V-MDAV, TFRP, LDF and HDF against the plain reference, record by record."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[2]))

from reference import methods as reference

from dbanon import kernels

METHODS = {
    "cbfs": (kernels.Cbfs, (), reference.cbfs, ()),
    "md": (kernels.Md, (), reference.md, ()),
    "vmdav 0.2": (kernels.Vmdav, (0.2,), reference.vmdav, (0.2,)),
    "vmdav 1.1": (kernels.Vmdav, (1.1,), reference.vmdav, (1.1,)),
    "tfrp-1": (kernels.Tfrp, (False,), reference.tfrp, (False,)),
    "tfrp-2": (kernels.Tfrp, (True,), reference.tfrp, (True,)),
    "ldf": (kernels.DensityFirst, (True,), reference.density_first, (True,)),
    "hdf": (kernels.DensityFirst, (False,), reference.density_first, (False,)),
}


def run(name, points, k, search="auto", budget=kernels.DEFAULT_BUDGET):
    kernel_class, options, _, _ = METHODS[name]
    points = np.ascontiguousarray(points, dtype=np.float64)
    points.flags.writeable = False
    kernel = kernel_class(points, k, *options, search)
    seen = [kernel.progress]
    while not kernel.step(budget):
        seen.append(kernel.progress)
    assert seen == sorted(seen)
    assert kernel.progress == 1.0
    return kernel.labels()


def check(name, points, k, budget=kernels.DEFAULT_BUDGET):
    _, _, plain, options = METHODS[name]
    expected = plain(points, k, *options)
    for search in ("index", "brute", "auto"):
        np.testing.assert_array_equal(run(name, points, k, search, budget), expected)
    assert expected.min() == 0
    assert np.bincount(expected).min() >= k


@st.composite
def tables(draw):
    p = draw(st.integers(1, 8))
    k = draw(st.integers(1, 6))
    n = draw(st.one_of(st.integers(k, 60), st.sampled_from([k, 2 * k - 1, 2 * k, 3 * k])))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from(["normal", "grid", "binary", "repeated"]))
    points = rng.normal(size=(n, p))
    if kind == "grid":
        points = np.round(2 * points)
    elif kind == "binary":
        points = rng.integers(0, 2, size=(n, p)).astype(float)
    elif kind == "repeated":
        points = points[rng.integers(0, max(1, n // 3), size=n)]
    scale = draw(st.sampled_from([1.0, 3e7, 1e-3, 1e150, 1e-158]))
    return np.ascontiguousarray(points * scale), k


@pytest.mark.parametrize("name", METHODS)
@given(table=tables())
@settings(max_examples=30, deadline=None)
def test_equals_reference(name, table):
    check(name, *table)


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_mid_sized(name):
    """Enough records for several levels of the tree, with and without ties."""
    rng = np.random.default_rng(1)
    points = rng.normal(size=(200, 3))
    check(name, points, 4, budget=500)
    check(name, points.round(1), 5)
    check(name, np.round(points), 3)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("p", [2, 20])
def test_index_equals_brute_on_larger_tables(name, p):
    points = np.random.default_rng(p).normal(size=(2500, p)).round(2)
    expected = run(name, points, 5, "brute")
    for search in ("index", "auto"):
        np.testing.assert_array_equal(run(name, points, 5, search), expected)


@pytest.mark.parametrize("name", METHODS)
def test_levels_agree(name):
    points = np.random.default_rng(0).normal(size=(800, 5)).round(1)
    before = kernels.simd_level()
    try:
        results = []
        for level in kernels.simd_levels():
            kernels.set_simd_level(level)
            results.append(run(name, points, 4))
    finally:
        kernels.set_simd_level(before)
    for labels in results[1:]:
        np.testing.assert_array_equal(labels, results[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_equal_rows_and_rows_at_no_distance(name):
    """Squares of differences underflow, so that rows differ at distance zero; -0.0 equals 0.0."""
    rng = np.random.default_rng(5)
    for smallest in (0.0, -0.0, 1e-170, 5e-324):
        points = rng.choice([0.0, smallest, 1.0, 0.3], size=(60, 2))
        check(name, points, 3)
        check(name, np.concatenate((points, points[:20] * 1e-162)), 4)


def test_vmdav_extends_classes():
    """Three groups of 4, 5 and 3: with k = 3 and lambda 1.1 the groups are the classes."""
    groups = [4, 5, 3]
    points = np.concatenate([10.0 * i + np.linspace(0, 1, g) for i, g in enumerate(groups)])
    labels = run("vmdav 1.1", points[:, None], 3)
    assert sorted(np.bincount(labels)) == sorted(groups)
    assert np.array_equal(np.flatnonzero(np.diff(labels)), np.cumsum(groups)[:-1] - 1)
