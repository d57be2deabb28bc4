"""Bounds for many records hold: checked on few records, in fractions over all classes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import dbanon
from dbanon.extensions.bounds import certificate as bounds
from dbanon.extensions.bounds import fitting
from dbanon.kernels import Fitting, Gathering, Kernel, Pricing
from tests.reference.bounds import (
    exact_sse,
    fitted,
    gathered,
    least_loss,
    least_reduced_cost,
    require_prices,
)
from tests.unit.bounds.test_certificate import FREE, exact_total, make_points, no_inner_bounds

Floats = NDArray[np.float64]
KINDS = ("normal", "ties", "clusters", "outlier", "copies", "constant")


@pytest.fixture(autouse=True)
def treat_as_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the method for many records on small tables, with small proximity groups."""
    monkeypatch.setattr(bounds, "MAX_RECORDS", 0)
    monkeypatch.setattr(fitting, "_GROUP_SIZE", 2)


def records(seed: int, n: int, p: int, kind: str) -> Floats:
    if kind == "copies":
        return np.ascontiguousarray(np.repeat(make_points(seed, n, p, "normal"), 3, axis=0)[:n])
    if kind == "constant":
        return np.ascontiguousarray(
            np.column_stack([make_points(seed, n, p, "normal"), np.zeros(n)])
        )
    return make_points(seed, n, p, kind)


def run(kernel: Kernel) -> None:
    while not kernel.step(50):
        assert 0 <= kernel.progress < 1


def require_certificate(points: Floats, k: int, prices: Floats, total: Fraction) -> None:
    """Check in fractions that no class of k to 2k-1 records costs less than its prices."""
    require_prices(points, k, [Fraction(float(x)) * total for x in prices])


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.integers(0, 10**6),
    st.integers(2, 4),
    st.integers(1, 4),
    st.sampled_from(KINDS),
    st.integers(0, 6),
)
def test_no_class_costs_less_than_its_prices_and_no_partition_less_than_the_bound(
    seed: int, k: int, p: int, kind: str, more: int
) -> None:
    points = records(seed, k + more + 1, p, kind)
    result = bounds.compute_certificate(points, k, seconds=60)
    assert result.complete
    total = exact_total(points)
    require_certificate(points, k, result.prices, total)
    assert Fraction(result.share) * total <= sum(Fraction(float(x)) * total for x in result.prices)
    assert Fraction(result.share) * total <= least_loss(points, k)
    assert 0 <= result.simple <= result.share


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [5, 7])
def test_certificates_hold_for_larger_k(k: int, kind: str) -> None:
    points = records(k, 11, 2, kind)
    result = bounds.compute_certificate(points, k, seconds=60)
    require_certificate(points, k, result.prices, exact_total(points))
    assert Fraction(result.share) * exact_total(points) <= least_loss(points, k)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("size", "k"), [(2, 3), (2, 5), (3, 4), (3, 6), (4, 5)])
def test_prices_of_smaller_classes_are_prices_of_larger_ones(size: int, k: int, kind: str) -> None:
    points = records(size + k, 10, 2, kind)
    total = exact_total(points)
    prices = bounds.compute_certificate(points, size, seconds=60).prices
    require_certificate(points, k, fitting.scale_prices(prices, size, k), total)
    # The factor is optimal: on the corners of a simplex every class costs exactly its prices.
    corners = np.eye(8)
    even = np.full(8, (size - 1) / size)
    more = [Fraction(float(x)) for x in fitting.scale_prices(even, size, k) * (1 + 1e-9)]
    assert sum(more[:k]) > exact_sse(corners, tuple(range(k)))


@pytest.mark.parametrize(("k", "kind"), [(3, "normal"), (3, "clusters"), (5, "normal")])
def test_the_bound_is_near_the_loss_and_a_raised_price_is_caught(k: int, kind: str) -> None:
    points = records(5, 90, 2, kind)
    result = bounds.compute_certificate(points, k, seconds=60)
    assert (result.method, result.complete) == ("fitting", True)
    loss = dbanon.information_loss(points, dbanon.partition(points, k, refine="fast"))
    assert 1.2 * result.simple < 0.85 * loss < result.share <= loss
    total = float(exact_total(points))
    prices, slack = result.prices * total, 1e-9 * total
    assert least_reduced_cost(points, k, prices, -slack) >= -slack
    for record in range(0, 90, 40):
        more = prices.copy()
        more[record] += 0.2 * prices.mean()
        assert least_reduced_cost(points, k, more, -slack) < -slack, record


def test_results_are_reproducible() -> None:
    points = records(2, 500, 3, "clusters")
    once, again = (bounds.compute_certificate(points, 4, seconds=60) for _ in range(2))
    np.testing.assert_array_equal(once.prices, again.prices)
    assert once.share == again.share


@pytest.mark.parametrize("k", [3, 4])
def test_a_bound_holds_wherever_time_ends(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    points = records(9, 60, 2, "normal")
    total = float(exact_total(points))
    shares = []
    for n_ticks in (0, 3, 7, 11, 14, 16, 18, 10_000):
        clock = iter(range(10**6))
        monkeypatch.setattr(fitting.time, "monotonic", lambda clock=clock: float(next(clock)))
        result = fitting.fit_prices(
            points, k, bounds.compute_neighbour_prices(points, k), n_ticks - 0.5, lambda share: None
        )
        prices, complete = result
        assert least_reduced_cost(points, k, prices, -1e-9 * total) >= -1e-9 * total
        assert complete or n_ticks < 10_000
        assert not complete or n_ticks > 7
        shares.append(prices.sum())
    assert shares == sorted(shares)
    assert len(set(shares)) >= 3


@pytest.fixture
def slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make kernels yield often, even for little work."""
    step = fitting._SizeSearch._run

    def often(self: Any, kernel: Any) -> None:
        while not kernel.step(100):
            self._tick(kernel.progress)
        step(self, kernel)

    monkeypatch.setattr(fitting._SizeSearch, "_run", often)


@pytest.mark.usefixtures("slices")
@pytest.mark.parametrize("after", [0, 5, 300, 1500])
def test_a_cancel_stops_the_computation(after: int) -> None:
    class StopError(Exception):
        pass

    def ticks() -> Iterator[None]:
        yield from itertools.repeat(None, after)
        raise StopError

    left = ticks()
    points = records(1, 400, 3, "normal")
    with pytest.raises(StopError):
        bounds.compute_certificate(points, 3, seconds=60, tick=lambda share: next(left))


@pytest.mark.parametrize("k", [2, 3, 5])
def test_fitting_is_that_of_plain_arrays(k: int) -> None:
    points = make_points(k, 40, 2, "normal")
    rng = np.random.default_rng(k)
    classes = np.array([rng.choice(39, k, replace=False) for _ in range(120)], np.int32)
    start = rng.uniform(0, 0.2, 40)
    for spread, sweeps in ((0.5, 1), (0.5, 7), (0.02, 30)):
        kernel = Fitting(points, classes, start, spread, sweeps)
        run(kernel)
        prices, excess = fitted(points, classes, start, spread, sweeps)
        np.testing.assert_allclose(kernel.prices(), prices, atol=1e-9)
        np.testing.assert_allclose(kernel.excess(), excess, atol=1e-9)
    # No class holds the last record, so its price does not change.
    assert kernel.prices()[39] == start[39]
    assert kernel.excess().max() < 0.02


def test_classes_gathered_are_those_of_all_distances() -> None:
    points = make_points(4, 200, 3, "clusters")
    rng = np.random.default_rng(4)
    prices = rng.uniform(0, 0.02, 200)
    centres = rng.normal(size=(30, 3))
    expected = {gathered(points, 4, prices, centre, 6) for centre in centres}
    kernel = Gathering(points, 4, prices, centres, 1e9)
    run(kernel)
    assert {tuple(members) for members in kernel.classes().reshape(-1, 4).tolist()} == expected
    costs = {
        members: float(exact_sse(points, members)) - prices[list(members)].sum()
        for members in expected
    }
    bar = float(np.median(list(costs.values())))
    kernel = Gathering(points, 4, prices, centres, bar)
    run(kernel)
    cheap = {tuple(members) for members in kernel.classes().reshape(-1, 4).tolist()}
    assert cheap == {members for members in expected if costs[members] < bar}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [2, 3, 4])
def test_the_index_gives_the_same_results_as_brute_force(k: int, kind: str) -> None:
    points = records(k, 250, 3, kind)
    prices = np.random.default_rng(k).uniform(0, 2, 250) * bounds.compute_neighbour_prices(
        points, k
    )
    smaller_bounds = [r * bounds.compute_neighbour_prices(points, r) for r in range(2, k)]
    inner = np.array(smaller_bounds) if smaller_bounds else no_inner_bounds(250)
    results = []
    for search in ("brute", "index"):
        kernel = Pricing(points, k, prices, np.zeros(250), inner, -1e-9, 2, 10**9, *FREE, search)
        run(kernel)
        results.append((kernel.least(), kernel.classes()))
    np.testing.assert_allclose(results[0][0], results[1][0], atol=1e-12)
    np.testing.assert_array_equal(results[0][1], results[1][1])


def test_wrong_arguments_of_the_kernels_are_refused() -> None:
    points, ones, pair = np.zeros((5, 2)), np.ones(5), np.array([[0, 1]], np.int32)
    nan = np.full(5, np.nan)
    for wrong in (
        lambda: Fitting(points, pair + 4, ones, 1.0, 1),
        lambda: Fitting(points, pair - 1, ones, 1.0, 1),
        lambda: Fitting(points, pair, ones[:4], 1.0, 1),
        lambda: Fitting(points, pair, nan, 1.0, 1),
        lambda: Fitting(points, pair, ones, 0.0, 1),
        lambda: Fitting(points, pair, ones, 1.0, -1),
        lambda: Gathering(points, 6, ones, points, 0.0),
        lambda: Gathering(points, 2, ones[:4], points, 0.0),
        lambda: Gathering(points, 2, nan, points, 0.0),
        lambda: Gathering(points, 2, ones, np.zeros((5, 3)), 0.0),
        lambda: Gathering(points, 2, ones, points, np.nan),
    ):
        with pytest.raises(ValueError):
            wrong()
