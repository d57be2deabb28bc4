"""Certificates never lie: checked by brute force in fractions, and by a search of another kind."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import dbanon
from dbanon.bounds import certificate as bounds
from dbanon.data.partition import Partition
from dbanon.kernels import Neighbours, Pricing
from dbanon.run.highs import programs
from tests.reference.bounds import dearest, dearest_exactly, exact_sse, least_loss
from tests.reference.data import data_directory, load_casc

Floats = NDArray[np.float64]
certificate = partial(bounds.certificate, programs=programs())


def standardized(data: Floats) -> Floats:
    """z-scores; a constant column is 0."""
    spread = data.std(axis=0, ddof=1)
    points = (data - data.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return np.ascontiguousarray(np.where(spread > 0, points, 0.0))


def exact_total(points: Floats) -> Fraction:
    return exact_sse(points, tuple(range(len(points))))


def some(seed: int, n: int, p: int, kind: str) -> Floats:
    """Clouds, few values, and one record far from all."""
    rng = np.random.default_rng(seed)
    if kind == "ties":
        data = rng.integers(0, 3, size=(n, p)).astype(float)
    elif kind == "clusters":
        data = rng.normal(size=(n, p)) / 10 + rng.integers(0, 3, size=(n, 1))
    else:
        data = rng.normal(size=(n, p))
    if kind == "outlier":
        data[0] += 1e6
    return standardized(data)


KINDS = ("normal", "ties", "clusters", "outlier")


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10**6), st.integers(2, 3), st.integers(1, 4), st.sampled_from(KINDS),
    st.integers(0, 6),
)  # fmt: skip
def test_no_class_costs_less_than_its_prices_and_no_partition_less_than_the_bound(
    seed: int, k: int, p: int, kind: str, more: int
) -> None:
    points = some(seed, k + more + 1, p, kind)
    found = certificate(points, k, [Partition(np.zeros(len(points), np.int32))], seconds=20)
    total = exact_total(points)
    prices = [Fraction(float(x)) * total for x in found.prices]
    least = dearest_exactly(points, k, found.prices * float(total))
    # The product of floats rounds once more than what is certified.
    assert least >= -Fraction(1, 10**13) * (1 + total)
    for members in _classes(len(points), k):
        assert sum(prices[i] for i in members) <= exact_sse(points, members)
    assert Fraction(found.share) * total <= least_loss(points, k)
    assert 0 <= found.simple <= found.share


def _classes(n: int, k: int) -> list[tuple[int, ...]]:
    from itertools import combinations

    return [s for size in range(k, min(2 * k, n + 1)) for s in combinations(range(n), size)]


@pytest.mark.parametrize("k", [2, 3, 4, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_pricing_finds_the_least_of_all_classes(k: int, kind: str) -> None:
    points = some(k, 13, 3, kind)
    rng = np.random.default_rng(k)
    prices = rng.normal(0.3, 0.3, 13)
    apart = np.square(points[:, None] - points[None]).sum(axis=2)
    bars = np.sort(apart, axis=1)[:, 1 : k - 1].sum(axis=1)
    kernel = Pricing(points, k, prices, bars, 0.0, 1, 10**9)
    while not kernel.step(10):
        assert 0 <= kernel.progress < 1
    from itertools import combinations

    best: dict[int, float] = {}
    for members in combinations(range(13), k):
        seed = max(members, key=lambda i: (prices[i], -i))
        cost = float(exact_sse(points, members)) - prices[list(members)].sum()
        best[seed] = min(best.get(seed, 0.0), cost)
    expected = np.array([best.get(i, 0.0) for i in range(13)])
    told = kernel.least()
    assert (told <= expected).all()
    np.testing.assert_allclose(told, expected, atol=1e-10)
    for members in kernel.classes().reshape(-1, k):
        assert len(set(members)) == k
        cost = float(exact_sse(points, tuple(members))) - prices[members].sum()
        assert cost == pytest.approx(expected[members[0]], abs=1e-9)


def test_pricing_that_has_no_time_tells_less_and_never_more() -> None:
    points = some(3, 60, 2, "normal")
    prices = np.full(60, 0.3)
    bars = np.zeros(60)
    told = []
    for effort in (1, 1000, 10**9):
        kernel = Pricing(points, 5, prices, bars, -1e-9, 2, effort)
        while not kernel.step():
            pass
        told.append(kernel.least())
    assert (told[0] <= told[1]).all()
    assert (told[1] <= told[2]).all()
    assert told[0].sum() < told[2].sum() < 0


def test_wrong_arguments_of_the_kernels_are_refused() -> None:
    points, ones = np.zeros((5, 2)), np.ones(5)
    nan = np.full(5, np.nan)
    for wrong in (
        lambda: Neighbours(points, 5),
        lambda: Neighbours(points, -1),
        lambda: Pricing(points, 1, ones, ones, 0.0, 1, 1),
        lambda: Pricing(points, 6, ones, ones, 0.0, 1, 1),
        lambda: Pricing(points, 2, ones[:4], ones, 0.0, 1, 1),
        lambda: Pricing(points, 2, nan, ones, 0.0, 1, 1),
        lambda: Pricing(points, 2, ones, -ones, 0.0, 1, 1),
        lambda: Pricing(points, 2, ones, ones, 1.0, 1, 1),
        lambda: Pricing(points, 2, ones, ones, 0.0, 0, 1),
        lambda: Pricing(points, 2, ones, ones, 0.0, 1, 0),
    ):
        with pytest.raises(ValueError):
            wrong()


@pytest.mark.parametrize("search", ["index", "brute"])
def test_neighbours_are_those_of_all_distances(search: Any) -> None:
    points = some(5, 300, 3, "clusters")
    kernel = Neighbours(points, 4, True, search)
    with pytest.raises(RuntimeError):
        kernel.sums()
    while not kernel.step(100):
        pass
    apart = np.square(points[:, None] - points[None]).sum(axis=2)
    np.fill_diagonal(apart, np.inf)
    np.testing.assert_allclose(kernel.sums(), np.sort(apart, axis=1)[:, :4].sum(axis=1))
    ids = kernel.ids().reshape(300, 4)
    near = np.take_along_axis(apart, ids, axis=1)
    np.testing.assert_allclose(near, np.sort(apart, axis=1)[:, :4])


@pytest.mark.parametrize("k", [3, 4, 5, 7])
def test_repricing_by_another_search_finds_no_class_below_its_prices(k: int) -> None:
    points = some(7, 120, 3, "clusters")
    found = certificate(points, k, [_thirds(120, k)], seconds=60)
    assert found.way == ("pairs" if k == 7 else "classes")
    assert found.complete
    total = float(exact_total(points))
    assert dearest(points, k, found.prices * total, 0.0) >= -1e-12 * total
    # It would be seen: a little more, and a class costs less.
    more = found.prices * total * 1.01
    assert k == 7 or dearest(points, k, more, 0.0) < 0


def _thirds(n: int, k: int) -> Partition:
    return Partition(np.minimum(np.arange(n) // k, n // k - 1).astype(np.int32))


def test_ways_get_better_and_time_ends_them() -> None:
    points = some(11, 400, 4, "normal")
    classes = _thirds(400, 4)
    short = certificate(points, 4, [classes], seconds=1e-9)
    assert (short.way, short.complete) == ("neighbours", False)
    assert short.share == short.simple > 0
    pairs = certificate(points, 4, seconds=60)
    best = certificate(points, 4, [classes], seconds=60)
    assert (pairs.way, best.way) == ("pairs", "classes")
    assert short.share < pairs.share < best.share
    loss = dbanon.information_loss(points, dbanon.partition(points, 4, refine="fast"))
    assert best.share <= loss
    assert 0 <= best.gap(loss) < pairs.gap(loss) < short.gap(loss)


def test_without_the_solver_the_bound_is_that_of_neighbours(monkeypatch: Any) -> None:
    monkeypatch.setattr("dbanon.run.highs.find_spec", lambda name: None)
    found = dbanon.certificate(some(1, 50, 2, "normal"), 3)
    assert (found.way, found.complete) == ("neighbours", True)
    assert found.share == found.simple > 0


def test_a_cancel_ends_it() -> None:
    class StopError(Exception):
        pass

    def tick(share: float) -> None:
        raise StopError

    with pytest.raises(StopError):
        certificate(some(1, 3000, 3, "normal"), 3, [_thirds(3000, 3)], seconds=60, tick=tick)


@pytest.mark.parametrize(("k", "name", "gap"), [(4, "tarragona", 0.012), (3, "census", 0.04)])
def test_the_gap_of_reference_data(k: int, name: str, gap: float) -> None:
    directory = data_directory()
    if directory is None:
        pytest.skip("the reference data are not here")
    data = load_casc(name, directory).values
    found = dbanon.certificate(data, k)
    assert found.complete
    loss = dbanon.information_loss(data, dbanon.partition(data, k, refine="fast"))
    assert 0 <= found.gap(loss) < gap
    points = standardized(data)
    total = float(np.square(points).sum())
    slack = 1e-9 * total / len(points)
    assert dearest(points, k, found.prices * total, -slack) >= -slack
