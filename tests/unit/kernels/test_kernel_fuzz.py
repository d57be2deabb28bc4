"""Fuzzing kernels with unusual shapes and values: an error or classes, never a crash.

`make sanitize` runs this with kernels that stop at the first wrong access or overflow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dbanon import kernels
from tests.prerequisites import skip_case
from tests.reference.variable import dbscan

Points = NDArray[np.float64]
Make = Callable[[Points, int], kernels.Kernel]


def one_class(points: Points) -> NDArray[np.int32]:
    return np.zeros(len(points), np.int32)


def backwards(points: Points) -> NDArray[np.int32]:
    return np.arange(len(points), dtype=np.int32)[::-1].copy()


def in_order(points: Points, k: int) -> NDArray[np.int32]:
    """Classes of k records, the last one of up to 2k - 1."""
    return np.minimum(np.arange(len(points)) // k, max(len(points) // k - 1, 0)).astype(np.int32)


def mixed(points: Points, extra: NDArray[np.int32] | None = None) -> kernels.MixedTable:
    """A table of GaaCp and its like: every second attribute has a hierarchy of 5 leaves."""
    codes = (np.abs(points).clip(0, 1) * 1000).astype(np.int32)
    codes[:, ::2] %= 5
    d = codes.shape[1]
    leaves = np.array([5 * (j % 2 == 0) for j in range(d)], np.int32)
    trees = int((leaves > 0).sum())
    depths = np.tile(np.array([2] * 5, np.int32), trees)
    gaps = np.tile(np.array([1, 0, 1, 0, 0], np.int32), trees)
    units = np.full(d, 1000, np.int64)
    return kernels.MixedTable(np.ascontiguousarray(codes), units, leaves, depths, gaps, extra)


def guard(points: Points) -> tuple[Any, ...]:
    """Values of two sensitive attributes, which are few, and models of all of them."""
    values = np.ascontiguousarray((np.abs(points[:, [0, -1]]).clip(0, 1) * 3).astype(np.int32))
    models = kernels.Models(np.array([4, 4], np.int32))
    parents = np.array([-1, 0, 0, 1, 1, 2, 2], np.int32)
    ranges = np.array([[0, 3], [0, 1], [2, 3], *([i, i] for i in range(4))], np.int32)
    for wish, level in (
        ("distinct_l", 1.0),
        ("entropy_l", 1.0),
        ("recursive_cl", 1e9),
        ("alpha_k", 1.0),
        ("beta_likeness", 3.0),
        ("equal_t", 0.9),
        ("ordered_t", 0.9),
        ("hierarchical_t", 0.9),
    ):
        models.add(wish, 1, level, 1, np.full(4, 0.25), parents, ranges)
    return values, models


KERNELS: dict[str, Make] = {
    "mdav": lambda x, k: kernels.Mdav(x, k),
    "mdav index": lambda x, k: kernels.Mdav(x, k, "index"),
    "mdav brute": lambda x, k: kernels.Mdav(x, k, "brute"),
    "cbfs": lambda x, k: kernels.Cbfs(x, k, "index"),
    "md": lambda x, k: kernels.Md(x, k, "index"),
    "vmdav": lambda x, k: kernels.Vmdav(x, k, 1.1, "index"),
    "tfrp": lambda x, k: kernels.Tfrp(x, k, True, "index"),
    "ldf": lambda x, k: kernels.DensityFirst(x, k, True, "index"),
    "hdf": lambda x, k: kernels.DensityFirst(x, k, False, "index"),
    "path": lambda x, k: kernels.NearestPath(x),
    "path of groups": lambda x, k: kernels.NearestPath(x, one_class(x)),
    "path cut": lambda x, k: kernels.PathCut(x, k, backwards(x)),
    "ward": lambda x, k: kernels.Ward(x, k),
    "ward index": lambda x, k: kernels.Ward(x, k, "index"),
    "mst": lambda x, k: kernels.Mst(x, k, False),
    "mst index": lambda x, k: kernels.Mst(x, k, False, "index"),
    "mst diameter": lambda x, k: kernels.Mst(x, k, True),
    # A finite radius leaves noise: tests/unit/methods/test_dcm.py.
    "dbscan": lambda x, k: kernels.Dbscan(x, k, np.inf),
    "genetic": lambda x, k: kernels.Genetic(x, k, 4, 5, 0.5, 0.1, 1),
    "pass": lambda x, k: kernels.Pass(x, k, one_class(x)),
    "refine": lambda x, k: kernels.Refine(x, k, one_class(x), 60, 2**40, 0.0, 0.3, 7, 1),
}
MIXED_KERNELS: dict[str, Make] = {
    "gaa_cp": lambda x, k: kernels.GaaCp(mixed(x), k),
    "kmember": lambda x, k: kernels.KMember(mixed(x), k),
    "kaca": lambda x, k: kernels.Merging(mixed(x), k, 1, -1.0),
    "ebkc": lambda x, k: kernels.Merging(mixed(x), k, 1, 0.2),
    "refine loss": lambda x, k: kernels.RefineLoss(
        mixed(x), one_class(x), k, 30, 1, kernels.Models(np.empty(0, np.int32))
    ),
    "refine guarded": lambda x, k: kernels.RefineLoss(
        mixed(x, guard(x)[0]), one_class(x), k, 30, 1, guard(x)[1]
    ),
    "enforce": lambda x, k: kernels.Enforce(mixed(x), in_order(x, k), *guard(x), 0),
}


def run(make: Make, points: Points, k: int) -> NDArray[np.int32]:
    kernel = make(points, k)
    while not kernel.step(500):
        pass
    return kernel.labels()


def tables() -> dict[str, tuple[Points, int]]:
    rng = np.random.default_rng(3)
    results = {
        "one row": (rng.normal(size=(1, 3)), 1),
        "one column": (rng.normal(size=(40, 1)), 3),
        "many columns": (rng.normal(size=(12, 200)), 3),
        "k = n": (rng.normal(size=(20, 2)), 20),
        "k = 1": (rng.normal(size=(25, 2)), 1),
        "2k - 1": (rng.normal(size=(9, 2)), 5),
        "2k": (rng.normal(size=(10, 2)), 5),
        "3k - 1": (rng.normal(size=(14, 2)), 5),
        "3k": (rng.normal(size=(15, 2)), 5),
        "equal": (np.full((30, 2), 0.1), 4),
        "two values": (rng.integers(0, 2, (50, 2)).astype(float), 4),
        "denormal": (rng.integers(-9, 9, (50, 3)) * 5e-324, 3),
        "huge": (rng.normal(size=(50, 3)) * 1e153, 3),
        "squares overflow": (rng.normal(size=(50, 3)) * 1e300, 3),
        "largest": (rng.choice([-1.0, 1.0], (50, 3)) * np.finfo(float).max, 3),
        "huge and tiny": (np.exp(rng.normal(size=(60, 3)) * 200).clip(1e-300, 1e300), 4),
        "negative zero": (rng.choice([0.0, -0.0], (20, 2)), 3),
    }
    for i in range(8):
        n, p = int(rng.integers(2, 150)), int(rng.integers(1, 18))
        results[f"random {i}"] = (rng.normal(size=(n, p)), int(rng.integers(1, max(n // 2, 2))))
    return results


TABLES = tables()


@pytest.mark.parametrize("name", [*KERNELS, *MIXED_KERNELS])
def test_all_records_get_a_class(name: str) -> None:
    for points, k in TABLES.values():
        _each_gets_a_class(name, points, k)


def _each_gets_a_class(name: str, points: Points, k: int) -> None:
    labels = run({**KERNELS, **MIXED_KERNELS}[name], points, k)
    assert labels.shape == (len(points),)
    assert labels.min() == 0
    if not name.startswith("path") or name == "path cut":
        assert np.bincount(labels).min() >= k
    else:
        assert sorted(labels) == list(range(len(points)))


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(
    "wrong",
    [
        np.zeros((0, 3)),
        np.zeros((0, 0)),
        np.zeros((5, 0)),
        np.array([[1.0], [np.nan], [2.0]]),
        np.array([[1.0, 2.0], [np.inf, 0.0]]),
        np.array([[-np.inf]]),
    ],
    ids=["no rows", "nothing", "no columns", "nan", "inf", "one -inf"],
)
def test_wrong_points_are_refused(name: str, wrong: Points) -> None:
    with pytest.raises(ValueError):
        run(KERNELS[name], wrong, 1)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("k", [0, -1, 21, 2**31 - 1])
def test_wrong_k_is_refused(name: str, k: int) -> None:
    if name.startswith("path") and name != "path cut":
        skip_case("takes no k")
    with pytest.raises(ValueError):
        run(KERNELS[name], np.random.default_rng(1).normal(size=(20, 2)), k)


@pytest.mark.parametrize("level", kernels.simd_levels())
@pytest.mark.parametrize("p", [1, 3, 4, 5, 8, 13, 17])
def test_every_instruction_set_at_every_width(level: str, p: int) -> None:
    points = np.random.default_rng(p).normal(size=(203, p))
    before = kernels.simd_level()
    expected = run(KERNELS["mdav brute"], points, 3)
    try:
        kernels.set_simd_level(level)
        for name in ("mdav index", "mdav brute"):
            np.testing.assert_array_equal(run(KERNELS[name], points, 3), expected)
        radius = 0.4 * p**0.5
        dense = run(lambda x, k: kernels.Dbscan(x, k, radius), points, 3)
        np.testing.assert_array_equal(dense, dbscan(points, 3, radius))
    finally:
        kernels.set_simd_level(before)


def test_a_kernel_can_be_dropped_halfway() -> None:
    points = np.random.default_rng(1).normal(size=(2000, 3))
    for name, make in KERNELS.items():
        kernel = make(points, 3)
        if not kernel.step(100):
            with pytest.raises(RuntimeError):
                kernel.labels()
        assert 0.0 <= kernel.progress <= 1.0, name
