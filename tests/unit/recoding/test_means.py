from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dbanon.data.counts import Recount
from dbanon.data.partition import Partition
from dbanon.recoding.mean import compute_class_means, compute_integer_means, round_half_even
from dbanon.sessions.base import random_order

INT64 = st.integers(-(2**63), 2**63 - 1)


@st.composite
def partitions(draw: st.DrawFn, n: int) -> Partition:
    labels = draw(st.lists(st.integers(-1, 3), min_size=n, max_size=n))
    classes = sorted({label for label in labels if label >= 0})
    return Partition([classes.index(label) if label >= 0 else -1 for label in labels])


@st.composite
def values_in_classes(draw: st.DrawFn) -> tuple[list[int], Partition]:
    values = draw(st.lists(INT64 | st.integers(-10, 10), min_size=1, max_size=30))
    return values, draw(partitions(len(values)))


@given(values_in_classes())
def test_integer_means_are_exact_and_half_goes_to_even(case: tuple[list[int], Partition]) -> None:
    values, partition = case
    means = compute_integer_means(np.array(values, np.int64), partition)
    assert len(means) == partition.n_classes
    for label, mean in enumerate(means.tolist()):
        members = [
            value
            for value, value_label in zip(values, partition.labels, strict=True)
            if value_label == label
        ]
        assert mean == round(Fraction(sum(members), len(members)))


# Halves are rare among random fractions: both ways up and down, and next to them.
@example(1, 2)
@example(3, 2)
@example(-1, 2)
@example(-3, 2)
@example(10**30 + 3, 6)
@example(10**30 + 4, 6)
@given(st.integers(-(10**40), 10**40), st.integers(1, 10**6))
def test_rounding_of_a_fraction(total: int, size: int) -> None:
    assert round_half_even(total, size) == round(Fraction(total, size))


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=20),
    st.data(),
)
def test_means_of_floats_stay_in_the_range_of_their_class(
    values: list[float], data: st.DataObject
) -> None:
    partition = data.draw(partitions(len(values)))
    means = compute_class_means(np.array(values), partition)
    for label, mean in enumerate(means.tolist()):
        members = [
            value
            for value, value_label in zip(values, partition.labels, strict=True)
            if value_label == label
        ]
        assert min(members) <= mean <= max(members)
        exact = sum(map(Fraction, members)) / len(members)
        largest = max(map(abs, members))
        # Below the normal numbers a quotient is off by half of the smallest number.
        slack = Fraction(largest) * len(members) / 2**50 + Fraction(5e-324) / 2
        assert abs(Fraction(mean) - exact) <= slack


def test_means_of_a_sum_beyond_the_largest_number() -> None:
    values = np.array([1e308, 1.75e308, 8.0, 1.0, -1.5e308, -1.5e308, 1.5e308, 3.0])
    means = compute_class_means(values, Partition([0, 0, 1, 1, 2, 2, 2, -1]))
    assert means.tolist() == pytest.approx([1.375e308, 4.5, -5e307], rel=1e-15)


@given(st.lists(st.integers(1, 12), min_size=1, max_size=40))
def test_the_median_class_of_a_histogram(sizes: list[int]) -> None:
    recount = Recount(sum(sizes), {size: sizes.count(size) for size in sizes})
    assert recount.median == np.median(sizes)
    assert (recount.smallest, recount.largest) == (min(sizes), max(sizes))
    assert recount.classes == len(sizes)


def test_a_recount_of_nothing() -> None:
    recount = Recount(0, {})
    assert (recount.classes, recount.smallest, recount.largest, recount.median) == (0, 0, 0, 0)


def test_random_orders_are_permutations_and_differ() -> None:
    first, second = random_order(1000), random_order(1000)
    assert sorted(first) == sorted(second) == list(range(1000))
    assert (first != second).any()
    assert len(random_order(0)) == 0
