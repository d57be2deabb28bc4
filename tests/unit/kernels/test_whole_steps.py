"""Kernels that look at coordinates in whole steps first, against the reference and without them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dbanon import kernels
from tests.reference import linkage, methods

Points = NDArray[np.float64]
Rng = np.random.Generator

# Whole steps are used from 6 attributes on.
WIDTHS = (6, 7, 10, 13, 16, 17, 33)


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    level = kernels.simd_level()
    yield
    kernels.set_simd_level(level)
    kernels.allow_whole_steps(True)


def _tails(rng: Rng, n: int, p: int) -> Points:
    return rng.standard_cauchy((n, p)) ** 3


def _outlier(rng: Rng, n: int, p: int) -> Points:
    points = rng.normal(size=(n, p))
    points[rng.integers(0, n, 3), rng.integers(0, p, 3)] = 1e7, -1e9, 1e12
    return points


def _rare(rng: Rng, n: int, p: int) -> Points:
    """Categories as z-scores: most records have the same."""
    points = (rng.random((n, p)) < 0.02).astype(float)
    deviation = points.std(axis=0)
    return (points - points.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)


def _mixed_scales(rng: Rng, n: int, p: int) -> Points:
    return rng.normal(size=(n, p)) * 10.0 ** rng.integers(-6, 7, p)


def _two_far_clouds(rng: Rng, n: int, p: int) -> Points:
    """Nearer in each than a step."""
    return rng.normal(size=(n, p)) * 1e-7 + rng.integers(0, 2, (n, 1)) * 1e3


def _almost_equal(rng: Rng, n: int, p: int) -> Points:
    return rng.integers(0, 3, (n, p)) + rng.integers(-2, 3, (n, p)) * 2.0**-50


KINDS: dict[str, Callable[[Rng, int, int], Points]] = {
    "normal": lambda rng, n, p: rng.normal(size=(n, p)),
    "clustered": lambda rng, n, p: (
        rng.normal(size=(n, p)) + 4.0 * rng.normal(size=(5, p))[rng.integers(0, 5, n)]
    ),
    "grid": lambda rng, n, p: np.round(rng.normal(size=(n, p))),
    "fine grid": lambda rng, n, p: rng.integers(0, 40, (n, p)) / 8.0,
    "binary": lambda rng, n, p: rng.integers(0, 2, (n, p)).astype(float),
    "repeated": lambda rng, n, p: rng.normal(size=(n // 4 + 1, p))[rng.integers(0, n // 4 + 1, n)],
    "far from 0": lambda rng, n, p: 1e9 + rng.normal(size=(n, p)),
    "farther": lambda rng, n, p: 1e15 + np.round(rng.normal(size=(n, p))),
    "heavy tails": _tails,
    "outliers": _outlier,
    "rare": _rare,
    "mixed scales": _mixed_scales,
    "two far clouds": _two_far_clouds,
    "almost equal": _almost_equal,
    "skewed": lambda rng, n, p: np.exp(2.0 * rng.normal(size=(n, p))),
    "constant": lambda rng, n, p: rng.normal(size=(n, p)) * (np.arange(p) % 3 == 0),
}


def table(kind: str, n: int, p: int, seed: int = 0) -> Points:
    return np.ascontiguousarray(KINDS[kind](np.random.default_rng(seed), n, p))


def run(
    kernel: kernels.Kernel, budget: int = kernels.DEFAULT_BUDGET, threads: int = 1
) -> NDArray[np.int32]:
    while not kernel.step(budget, threads):
        pass
    return kernel.labels()


@given(
    kind=st.sampled_from(sorted(KINDS)),
    n=st.integers(2, 250),
    p=st.one_of(st.integers(6, 20), st.sampled_from([33, 64])),
    k=st.integers(1, 9),
    scale=st.sampled_from([1.0, 1.0, 1e-3, 3e7, 1e130, 1e-130, 1e139, 1e-137, 1e-158, 5e-324]),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=150, deadline=None)
def test_equals_reference(kind: str, n: int, p: int, k: int, scale: float, seed: int) -> None:
    k = min(k, n)
    points = table(kind, n, p, seed)
    points = points / max(1.0, float(np.abs(points).max()) / 1e10) * scale
    expected = methods.mdav(points, k)
    for search in ("index", "brute"):
        np.testing.assert_array_equal(run(kernels.Mdav(points, k, search)), expected)


@pytest.mark.slow
@pytest.mark.parametrize("p", WIDTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_instruction_set(kind: str, p: int) -> None:
    points = table(kind, 500, p, p)
    expected = methods.mdav(points, 5)
    for level in kernels.simd_levels():
        kernels.set_simd_level(level)
        for search in ("index", "brute"):
            np.testing.assert_array_equal(run(kernels.Mdav(points, 5, search)), expected)


def _linked(points: Points, k: int, search: kernels.Search) -> kernels.Kernel:
    """Questions that are mostly not records, some far outside."""
    rng = np.random.default_rng(len(points))
    factor = rng.choice([0.5, 1.0, 1.0 + 1e-12, 30.0], (len(points) // 3, 1))
    questions = np.ascontiguousarray(points[: len(factor)] * factor)
    return kernels.Linkage(questions, points, None, None, True, search)


MAKE: dict[str, Callable[[Points, int, kernels.Search], Any]] = {
    "mdav": lambda x, k, search: kernels.Mdav(x, k, search),
    "cbfs": lambda x, k, search: kernels.Cbfs(x, k, search),
    "md": lambda x, k, search: kernels.Md(x, k, search),
    "vmdav": lambda x, k, search: kernels.Vmdav(x, k, 1.1, search),
    "tfrp": lambda x, k, search: kernels.Tfrp(x, k, True, search),
    "ldf": lambda x, k, search: kernels.DensityFirst(x, k, True, search),
    "hdf": lambda x, k, search: kernels.DensityFirst(x, k, False, search),
    "ward": lambda x, k, search: kernels.Ward(x, k, search),
    "mst": lambda x, k, search: kernels.Mst(x, k, False, search),
    "dbscan": lambda x, k, search: kernels.Dbscan(x, k, np.inf),
    "linkage": _linked,
    "pass": lambda x, k, search: kernels.Pass(x, k, np.zeros(len(x), np.int32)),
    "refine": lambda x, k, search: kernels.Refine(
        x, k, np.zeros(len(x), np.int32), 60, 2**40, 0.0, 0.3, 7, 1
    ),
}


SEARCHES: tuple[kernels.Search, ...] = ("index", "brute", "auto")
# They have one search only.
OF_ONE = {"dbscan", "pass", "refine"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "search"),
    [
        (name, search)
        for name in MAKE
        for search in SEARCHES
        if search == "auto" or name not in OF_ONE
    ],
)
@pytest.mark.parametrize("kind", ["normal", "grid", "heavy tails", "outliers", "rare"])
def test_every_kernel_is_the_same_without(name: str, kind: str, search: kernels.Search) -> None:
    points = table(kind, 900, 9, 1)
    results = []
    for allowed in (True, False):
        kernels.allow_whole_steps(allowed)
        kernel = MAKE[name](points, 4, search)
        labels = run(kernel, 300)
        others = [kernel.distances(), kernel.seconds()] if name == "linkage" else []
        results.append([labels, *others])
    for with_steps, without in zip(*results, strict=True):
        np.testing.assert_array_equal(with_steps, without)


@pytest.mark.slow
@pytest.mark.parametrize(("p", "k"), [(6, 100), (8, 5), (10, 20), (13, 5), (24, 50)])
@pytest.mark.parametrize("kind", KINDS)
def test_larger_tables_are_the_same_without(kind: str, p: int, k: int) -> None:
    """Several levels of nodes, with a change from the index to scanning on the way."""
    points = table(kind, 6_000, p, 2)
    results = []
    for allowed in (True, False):
        kernels.allow_whole_steps(allowed)
        results.append(run(kernels.Mdav(points, k, "auto" if allowed else "brute")))
        if allowed:
            results.append(run(kernels.Mdav(points, k, "index")))
    np.testing.assert_array_equal(results[0], results[2])
    np.testing.assert_array_equal(results[1], results[2])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("p", "k", "budget"),
    [(6, 25, 300), (10, 10, 5000), (13, 20, kernels.DEFAULT_BUDGET), (17, 30, 5000)],
)
@pytest.mark.parametrize("kind", KINDS)
def test_batches_of_searches_change_nothing(kind: str, p: int, k: int, budget: int) -> None:
    """From 16,384 records on, searches that visit many nodes are run together, by some threads."""
    points = table(kind, 40_000, p, 4)
    expected = run(kernels.Mdav(points, k, "brute"))
    for threads in (1, 3):
        np.testing.assert_array_equal(
            run(kernels.Mdav(points, k, "index"), budget, threads), expected
        )


@pytest.mark.parametrize("search", ["index", "brute"])
@pytest.mark.parametrize("kind", ["normal", "grid", "heavy tails", "outliers", "far from 0"])
def test_neighbours_and_links_equal_the_reference(kind: str, search: kernels.Search) -> None:
    points = table(kind, 400, 8, 3)
    linked = _linked(points, 1, search)
    labels = run(linked)
    rng = np.random.default_rng(len(points))
    factor = rng.choice([0.5, 1.0, 1.0 + 1e-12, 30.0], (len(points) // 3, 1))
    expected = linkage.nearest(points[: len(factor)] * factor, points)
    np.testing.assert_array_equal(labels, expected[0])
    np.testing.assert_array_equal(linked.distances(), expected[1])
    np.testing.assert_array_equal(linked.seconds(), expected[2])
    near = kernels.Neighbours(points, 20, False, search)
    run(near)
    for i in range(len(points)):
        squares = np.sort(np.delete(methods.distances(points, points[i]), i))
        total = 0.0
        for square in squares[:20]:
            total += square
        assert near.sums()[i] == total
