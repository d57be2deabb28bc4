"""Histograms of numeric columns: what a row can change, prices, least squares, and margins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbanon.extensions.synthesis.accounting import ACCOUNTINGS
from dbanon.extensions.synthesis.histogram import (
    HistogramLevel,
    HistogramMargin,
    HistogramShares,
    combine_upwards,
    divide_histogram,
    divide_ranges,
    divide_smoothly,
    measure_histogram,
    share_downwards,
    share_rows,
    shrink_to_even,
)
from dbanon.extensions.synthesis.noise import OpenDpNoise
from dbanon.extensions.synthesis.shares import GRID
from tests.prerequisites import import_or_skip
from tests.reference.histograms import (
    equal_bins,
    james_stein,
    least_squares,
    monotone_cubic,
    nearest_shares,
)
from tests.reference.transcripts import Transcript, privacy_loss

import_or_skip("opendp")

AMOUNTS = {"pure": 1.0, "zcdp": 0.015}
PURE = ACCOUNTINGS["pure"]


@st.composite
def neighbours(draw):
    """Two columns that differ in one row, mostly with ties, and how many positions there are."""
    n, n_positions = draw(st.integers(1, 400)), draw(st.sampled_from([2, 7, 5000, GRID + 1]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    column = rng.integers(0, draw(st.integers(1, n_positions)), n)
    other = column.copy()
    other[rng.integers(n)] = rng.integers(0, n_positions)
    return column, other, n_positions


# What one row can change


@pytest.mark.parametrize("accounting", AMOUNTS)
@given(columns=neighbours(), seed=st.integers(0, 99), times=st.sampled_from([1, 20, 1000]))
@settings(max_examples=40, deadline=None)
def test_each_level_moves_by_one_row_out_and_one_in(accounting, columns, seed, times):
    first, second, n_positions = columns
    account, amount = ACCOUNTINGS[accounting], AMOUNTS[accounting] * times
    shares = divide_histogram(len(first), account, amount)
    transcripts = [Transcript(seed)]
    measure_histogram(first, n_positions, shares, account, transcripts[0])
    transcripts.append(Transcript(recorded_answers=transcripts[0].answers))
    measure_histogram(second, n_positions, shares, account, transcripts[1])
    assert len(transcripts[0].queries) in (shares.min_depth, shares.depth)
    for (_, counts, _), (_, other_counts, _) in zip(
        transcripts[0].queries, transcripts[1].queries, strict=True
    ):
        moved = counts - other_counts
        assert np.abs(moved).sum() in (0, 2)
        assert np.abs(moved).max() <= 1
        assert counts.sum() == other_counts.sum() == len(first)
    assert privacy_loss(*transcripts) <= shares.price(account, transcripts[0]) <= amount


@pytest.mark.parametrize("accounting", AMOUNTS)
@pytest.mark.parametrize("spread", [True, False])
def test_a_row_that_moves_uses_all_of_the_price(accounting, spread):
    """With Laplace noise, rows that are spread have two levels; all of the price in both cases."""
    account, amount = ACCOUNTINGS[accounting], AMOUNTS[accounting]
    column = np.arange(2000) * (GRID // 2000) // (1 if spread else 9)
    other = column.copy()
    other[0] = GRID
    shares = divide_histogram(2000, account, amount)
    first = Transcript(1)
    measure_histogram(column, GRID + 1, shares, account, first)
    is_short = spread and accounting == "pure"
    assert shares.min_depth < shares.depth or accounting == "zcdp"
    assert len(first.queries) == (shares.min_depth if is_short else shares.depth)
    second = Transcript(recorded_answers=first.answers)
    measure_histogram(other, GRID + 1, shares, account, second)
    assert 0.99 * amount < privacy_loss(first, second) <= amount
    assert privacy_loss(first, second, share=0.5) > amount


@pytest.mark.parametrize("accounting", AMOUNTS)
@pytest.mark.parametrize("n", [1, 50, 1012, 10**6])
def test_the_price_is_the_amount_and_never_more(accounting, n):
    account, noise = ACCOUNTINGS[accounting], OpenDpNoise()
    for times in (0.01, 1 / 3, 1.0, 90.0):
        amount = AMOUNTS[accounting] * times
        shares = divide_histogram(n, account, amount)
        assert amount * (1 - 1e-9) <= shares.price(account, noise) <= amount


@pytest.mark.parametrize("n", [600, 12_000, 10**6])
def test_two_levels_cost_as_much_as_all(n):
    """Each way costs the amount by itself, and neither more."""
    noise, amount = OpenDpNoise(), 1 / 3
    shares = divide_histogram(n, PURE, amount)
    assert shares.two_levels is not None
    assert (shares.two_levels.depth, shares.two_levels.scales[0]) == (2, shares.scales[0])
    for levels in (shares, shares.two_levels):
        price = sum(PURE.count_price(noise, scale) for scale in levels.scales)
        assert amount * (1 - 1e-9) <= price <= shares.price(PURE, noise) <= amount


@pytest.mark.parametrize("accounting", AMOUNTS)
def test_few_rows_have_fewer_levels_and_ranges(accounting):
    account, amount = ACCOUNTINGS[accounting], AMOUNTS[accounting] / 10
    many, few = (divide_histogram(n, account, amount) for n in (10**6, 300))
    assert (many.depth, many.n_cells) == (4, 32)
    assert few.depth < 4
    assert 4 <= few.n_cells < 32


# Ranges and least squares


def test_ranges_are_divided_into_equal_parts():
    edges = divide_ranges(np.array([0, 10, 13, 20]), np.array([3, 1, 2]))
    assert edges.tolist() == [0, 3, 6, 10, 13, 16, 20]
    assert divide_ranges(np.array([0, 3]), np.array([3])).tolist() == [0, 1, 2, 3]


def test_parts_are_as_many_as_noisy_rows_allow_and_no_narrower_than_a_value():
    column = np.repeat([0, 1, 700], [40, 60, 100])
    shares = HistogramShares(n_cells=2, scales=(1e-9,) * 3, rows_per_part=(30, 30))
    histogram = measure_histogram(column, 1000, shares, PURE, Transcript())
    # 0 to 499 has 100 rows and gets three parts, and the first of these gets three again.
    assert histogram.edges.tolist() == [0, 55, 110, 166, 333, 500, 666, 721, 777, 833, 1000]
    assert histogram.rows.tolist() == [100, 0, 0, 0, 0, 0, 100, 0, 0, 0]
    few = measure_histogram(column.clip(0, 2), 3, shares, PURE, Transcript())
    assert few.edges.tolist() == [0, 1, 2, 3]
    assert few.rows.tolist() == [40, 60, 100]


@given(seed=st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_two_passes_are_least_squares(seed):
    rng = np.random.default_rng(seed)
    levels, level_edges, edges = [], [], np.array([0, 10**6])
    for size in (rng.integers(1, 6), rng.integers(1, 5), rng.integers(1, 4)):
        n_parts = rng.integers(1, size + 1, len(edges) - 1)
        edges = divide_ranges(edges, n_parts)
        widths = np.diff(edges)
        counts = widths + rng.normal(0, 100, len(widths))
        levels.append(HistogramLevel(n_parts, counts, float(rng.uniform(1, 9))))
        level_edges.append(edges)
    rows = share_downwards(levels, *combine_upwards(levels), 1e6)
    reference = least_squares(
        level_edges, [level.counts for level in levels], [level.variance for level in levels], 1e6
    )
    np.testing.assert_allclose(rows, reference, rtol=1e-9)


@given(seed=st.integers(0, 2**32), m=st.integers(1, 30))
@settings(max_examples=60, deadline=None)
def test_rows_are_shared_by_least_squares_without_negative_numbers(seed, m):
    rng = np.random.default_rng(seed)
    estimates, variances = rng.normal(3, 10, m), rng.uniform(0.2, 3, m)
    total = float(rng.uniform(0.1, 50))
    shared = share_rows(estimates, variances, total)
    np.testing.assert_allclose(shared, nearest_shares(estimates, variances, total), atol=1e-6)
    assert shared.sum() == pytest.approx(total)
    assert share_rows(estimates, variances, 0.0).tolist() == [0.0] * m


@given(seed=st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_parts_move_towards_an_even_density_as_james_and_stein_say(seed):
    rng = np.random.default_rng(seed)
    n_parts = rng.integers(1, 9, 6)
    m = int(n_parts.sum())
    estimates, variances = rng.normal(0, rng.uniform(1, 9), m), rng.uniform(2, 30, m)
    widths, first_parts = rng.uniform(1, 5, m), np.cumsum(n_parts) - n_parts
    shrunk = shrink_to_even(estimates, variances, first_parts, widths)
    for first, k in zip(first_parts, n_parts, strict=True):
        parts = slice(first, first + k)
        expected = james_stein(estimates[parts], variances[parts], widths[parts])
        np.testing.assert_allclose(shrunk[parts], expected, atol=1e-9)
        assert shrunk[parts].sum() == pytest.approx(estimates[parts].sum())


def test_noise_on_an_even_density_goes_and_on_another_stays():
    rng = np.random.default_rng(6)
    noise, variances, first = rng.normal(0, 10, 400), np.full(400, 100.0), np.array([0])
    for counts, most in ((np.full(400, 50.0), 0.3), (np.arange(400) * 10.0, 1.01)):
        shrunk = shrink_to_even(counts + noise, variances, first, np.ones(400))
        assert np.abs(shrunk - counts).mean() < most * np.abs(noise).mean()


def test_a_total_that_is_lost_in_rounding_is_shared():
    shared = share_rows(np.array([1e5, 0.0]), np.array([1.0, 1.0]), 1e-13)
    np.testing.assert_allclose(shared, [0.0, 0.0], atol=1e-9)


def test_the_variance_of_bins_is_that_of_many_draws():
    column = np.random.default_rng(0).integers(0, GRID + 1, 200_000)
    shares = HistogramShares(n_cells=8, scales=(20.0, 20.0), rows_per_part=(4000,))
    # The first count of ranges: 25,000 rows each, 6 parts.
    bins = np.repeat(np.arange(6), 8)
    sums, variances = [], []
    for seed in range(150):
        histogram = measure_histogram(column, GRID + 1, shares, PURE, Transcript(seed))
        assert len(histogram.rows) == 48
        sums.append(np.bincount(bins, histogram.rows))
        variances.append(histogram.estimate_bin_variance(bins))
    measured = np.var(sums, axis=0).mean()
    assert measured == pytest.approx(np.mean(variances), rel=0.35)


@pytest.mark.parametrize("accounting", AMOUNTS)
def test_each_level_has_more_of_the_price_than_the_one_before(accounting):
    account, noise = ACCOUNTINGS[accounting], OpenDpNoise()
    shares = divide_histogram(10**6, account, AMOUNTS[accounting])
    prices = [account.count_price(noise, scale) for scale in shares.scales]
    growth = 2 if accounting == "pure" else 2**0.5
    np.testing.assert_allclose(np.divide(prices[1:], prices[:-1]), growth)
    # The finer the noise, the fewer rows a part needs.
    assert list(shares.rows_per_part) == sorted(shares.rows_per_part, reverse=True)


# Smooth densities


@given(seed=st.integers(0, 2**32), m=st.integers(1, 12))
@settings(max_examples=40, deadline=None)
def test_a_smooth_density_is_a_monotone_cubic_and_keeps_the_shares(seed, m):
    rng = np.random.default_rng(seed)
    edges = np.cumsum(np.append(0.0, rng.uniform(0.1, 9, m)))
    shares = rng.dirichlet(np.ones(m)) * (rng.random(m) < 0.8)
    part_edges, part_shares = divide_smoothly(edges, shares, 5)
    assert (part_shares >= 0).all()
    np.testing.assert_allclose(part_shares.reshape(m, 5).sum(axis=1), shares, atol=1e-12)
    np.testing.assert_allclose(part_edges[::5], edges)
    below = np.append(0.0, np.cumsum(shares))
    expected = [monotone_cubic(edges, below, position) for position in part_edges]
    np.testing.assert_allclose(np.append(0.0, np.cumsum(part_shares)), expected, atol=1e-12)


def test_ranges_of_equal_density_stay_even():
    edges, shares = divide_smoothly(np.array([0.0, 1.0, 3.0]), np.array([0.1, 0.2]), 4)
    np.testing.assert_allclose(shares, [0.025] * 4 + [0.05] * 4)
    np.testing.assert_allclose(edges, [0, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3])


# Margins


def test_a_margin_by_hand():
    """Four ranges in two bins: a value is in the bin of its range, and stays between its edges."""
    edges, shares = np.array([0.0, 10.0, 20.0, 40.0, GRID]), np.array([0.1, 0.3, 0.4, 0.2])
    margin = HistogramMargin(10, edges, shares, np.array([0, 0, 1, 1]), 1.0)
    np.testing.assert_allclose(margin.bin_shares, [0.4, 0.6])
    codes, inside = margin.locate(
        np.array([0, 9, 10, 19, 20, 39, 40, GRID]), np.random.default_rng()
    )
    assert codes.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert inside[:4].tolist() == [0.0, 0.45, 0.5, 0.95]
    assert (inside[4], inside[-1]) == (0.0, 1.0)
    values = margin.to_values(np.array([0, 0, 0, 1, 1]), np.array([0.0, 0.25, 1.0, 0.0, 1.0]))
    np.testing.assert_allclose(values, [0.0, 10.0, 20.0, 20.0, GRID])


def test_a_bin_without_rows_gives_values_of_its_own():
    margin = HistogramMargin(
        8, np.array([0.0, 10.0, 20.0, GRID]), np.array([0.5, 0.0, 0.5]), np.arange(3), 1.0
    )
    values = margin.to_values(np.array([1, 1, 1]), np.array([0.0, 0.5, 1.0]))
    assert values.tolist() == [10.0, 15.0, 20.0]


# Utility


def cell_error(column, released):
    """Total variation of the shares of ten cells with as many rows each."""
    edges = np.unique(np.quantile(column, np.arange(1, 10) / 10))
    counts = [
        np.bincount(np.searchsorted(edges, values, side="right"), minlength=len(edges) + 1)
        for values in (column, released)
    ]
    return np.abs(counts[0] - counts[1]).sum() / 2 / len(column)


def margin_of(column, accounting, amount, noise):
    account, n = ACCOUNTINGS[accounting], len(column)
    shares = divide_histogram(n, account, amount)
    histogram = measure_histogram(column, GRID + 1, shares, account, noise)
    bins = np.zeros(len(histogram.rows), np.int64)
    margin = HistogramMargin(n, histogram.edges.astype(float), histogram.rows / n, bins, 0.0)
    return margin.to_values(np.zeros(n, np.int64), (np.arange(n) + 0.5) / n)


SHAPES = {
    "normal": lambda rng, n: rng.normal(GRID / 2, GRID / 20, n),
    "exponential": lambda rng, n: rng.exponential(GRID / 300, n),
    "log-normal": lambda rng, n: np.exp(rng.normal(0, 0.8, n)) * GRID / 15,
    "even": lambda rng, n: rng.uniform(0, GRID, n),
}


@pytest.mark.parametrize("accounting", AMOUNTS)
@pytest.mark.parametrize("times", [1.0, 10.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_column_is_no_farther_off_than_a_plain_histogram(shape, times, accounting):
    n, rng, amount = 12_000, np.random.default_rng(5), AMOUNTS[accounting] * times
    column = SHAPES[shape](rng, n).clip(0, GRID).astype(np.int64)
    errors, plain_errors = [], []
    for seed in range(8):
        errors.append(cell_error(column, margin_of(column, accounting, amount, Transcript(seed))))
        scale = ACCOUNTINGS[accounting].count_scale(amount)
        noise = rng.laplace(0, scale, 120) if accounting == "pure" else rng.normal(0, scale, 120)
        plain_errors.append(cell_error(column, equal_bins(column, GRID, 120, noise, rng)))
    assert np.mean(errors) <= 1.1 * np.mean(plain_errors)


@pytest.mark.parametrize("spread", [1, 3])
def test_a_spread_column_is_no_farther_off_than_equal_bins_whose_rows_are_spread(spread):
    """Narrow ranges gain nothing here. With all levels, even values would be farther off."""
    n, rng, amount = 12_000, np.random.default_rng(5), AMOUNTS["pure"]
    column = (rng.random((spread, n)).mean(axis=0) * GRID).astype(np.int64)
    errors, plain_errors = [], []
    for seed in range(12):
        errors.append(cell_error(column, margin_of(column, "pure", amount, Transcript(seed))))
        counts, edges = np.histogram(column, 120, (0, GRID))
        noisy = (counts + rng.laplace(0, 2 / amount, 120)).clip(0)
        below = np.append(0.0, np.cumsum(noisy))
        positions = (np.arange(n) + 0.5) / n * below[-1]
        plain_errors.append(cell_error(column, np.interp(positions, below, edges)))
    assert np.mean(errors) <= 1.1 * np.mean(plain_errors)
