"""Rules for histograms: bins on a round grid, none with few rows, counts as multiples."""

from __future__ import annotations

from datetime import date, timedelta
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbanon.release.distribution import (
    MOST_BINS,
    MOST_LABELS,
    Distribution,
    bin_dates,
    bin_numbers,
    build_label_distribution,
    least_displayed_rows,
    merge_bins,
    require_displayable,
)


def checked(distribution: Distribution, values: int) -> None:
    if not distribution.axis_kind:
        assert values < distribution.bound
        return
    require_displayable(distribution)
    ends = [(bar.low, bar.low + bar.width) for bar in distribution.bars]
    assert ends[0][0] == 0
    assert all(ends_of_bar[1] == other[0] for ends_of_bar, other in pairwise(ends))
    assert len(distribution.edges) == ends[-1][1] + 1 <= MOST_BINS + 2
    assert distribution.edges[0] == distribution.edges[-1] == ""
    assert (
        abs(sum(bar.rows for bar in distribution.bars) - values)
        <= len(distribution.bars) * distribution.bound / 2
    )


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=40).filter(lambda rows: sum(rows) >= 20),
    st.integers(5, 20),
)
def test_bins_hold_none_or_many(rows: list[int], bound: int) -> None:
    bins = merge_bins(rows, bound)
    assert all(count == 0 or count >= bound for _, _, count in bins)
    assert [begin for begin, _, _ in bins[1:]] == [end for _, end, _ in bins[:-1]]
    assert all(count == sum(rows[begin:end]) for begin, end, count in bins)
    assert (bins[0][0], bins[-1][1]) == (0, len(rows))


@given(
    st.lists(
        st.tuples(
            st.floats(-1e12, 1e12, allow_nan=False).map(lambda value: round(value, 3)),
            st.integers(1, 40),
        ),
        min_size=1,
        max_size=60,
    ),
    st.integers(2, 12),
)
def test_numbers(counted: list[tuple[float, int]], k: int) -> None:
    values, counts = (np.array(part) for part in zip(*counted, strict=True))
    distribution = bin_numbers("x", "quasi_identifier", k, values.astype(float), counts)
    assert distribution.bound == max(k, 5)
    checked(distribution, int(counts.sum()))


@given(
    st.lists(
        st.tuples(st.dates(date(1, 1, 1), date(9999, 12, 31)), st.integers(1, 40)),
        min_size=1,
        max_size=60,
    )
)
def test_dates(counted: list[tuple[date, int]]) -> None:
    days = np.array([day for day, _ in counted], "datetime64[D]")
    counts = np.array([count for _, count in counted])
    checked(bin_dates("x", "quasi_identifier", 5, days, counts), int(counts.sum()))


def test_edges_are_round_and_never_a_value() -> None:
    values = np.array([148.3137, 162.701, 171.2, 189.909])
    distribution = bin_numbers("x", "quasi_identifier", 3, values, np.full(4, 6))
    assert distribution.edges[1:-1] == tuple(str(edge) for edge in range(150, 190, 5))
    assert [bar.label for bar in distribution.bars if bar.rows] == [
        "under 150",
        "160 to under 165",
        "170 to under 175",
        "185 or more",
    ]
    assert [bar.rows for bar in distribution.bars if bar.rows] == [5, 5, 5, 5]


@pytest.mark.parametrize(
    ("days", "first"),
    [(12, "2020-01-02"), (80, "2020-01-04"), (400, "2020-02"), (4000, "2021"), (30000, "2025")],
)
def test_dates_have_grids_of_days_months_and_years(days: int, first: str) -> None:
    start = date(2020, 1, 1)
    spread = np.array([start, start + timedelta(days=days)], "datetime64[D]")
    distribution = bin_dates("x", "quasi_identifier", 5, spread, np.array([9, 9]))
    assert distribution.edges[1] == first
    assert distribution.bars[0].label == f"before {first}"


def test_an_outlier_is_in_a_bin_of_many() -> None:
    values = np.array([*range(20), 10**6], float)
    counts = np.array([10] * 20 + [3])
    distribution = bin_numbers("x", "quasi_identifier", 3, values, counts)
    assert [bar.label for bar in distribution.bars] == ["all rows"]
    assert not any(edge.startswith("1,000") for edge in distribution.edges[1:2])


def test_labels_of_few_rows_are_reported_together() -> None:
    shared = [("flu", 12), ("none", 31)]
    distribution = build_label_distribution("illness", "sensitive", 5, shared, 3, 4)
    assert [(bar.label, bar.rows) for bar in distribution.bars] == [("none", 30), ("flu", 10)]
    assert distribution.others == "other (3 values): under 5 rows"
    many = [(f"label {i:02}", 5 + i) for i in range(20)]
    distribution = build_label_distribution("illness", "sensitive", 5, many)
    assert len(distribution.bars) == MOST_LABELS
    assert distribution.others == "other (8 values): about 70 rows"
    nothing = build_label_distribution("illness", "sensitive", 7, [], 40, 40)
    assert (nothing.axis_kind, nothing.bars) == ("", ())
    assert "7 rows or more" in nothing.note


def test_labels_of_fewer_rows_than_they_may_have_are_refused() -> None:
    with pytest.raises(AssertionError, match="fewer rows"):
        build_label_distribution("illness", "sensitive", 5, [("flu", 12), ("rare", 4)])


def test_the_bound_is_never_below_five() -> None:
    assert [least_displayed_rows(k) for k in (2, 5, 6)] == [5, 5, 6]


@pytest.mark.parametrize("values", [[1e300, -1e300], [1.7e308, -1.7e308]])
def test_values_far_apart(values: list[float]) -> None:
    distribution = bin_numbers("x", "quasi_identifier", 5, np.array(values), np.array([9, 9]))
    assert all(len(edge) < 30 for edge in distribution.edges)
