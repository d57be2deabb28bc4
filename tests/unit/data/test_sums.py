"""Exact sums: the same for a column in any order and any pieces."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbanon.data.scales import Scale, Sums

FINITE = st.floats(allow_nan=False, allow_infinity=False)
COLUMNS = st.lists(FINITE, min_size=1, max_size=30)


def exactly(values):
    return sum(map(Fraction, values)), sum(Fraction(x) ** 2 for x in values)


@given(COLUMNS)
@settings(max_examples=200, deadline=None)
def test_sums_are_exact(values):
    total, squares = exactly(values)
    sums = Sums.of(np.array(values))
    assert Fraction(sums.total, 2**1074) == total
    assert Fraction(sums.squares, 2**2148) == squares


@given(COLUMNS, st.randoms(use_true_random=False), st.integers(0, 30))
@settings(max_examples=200, deadline=None)
def test_pieces_in_any_order_are_the_whole(values, random, cut):
    all_sums = Sums.of(np.array(values))
    random.shuffle(values)
    pieces = Sums.of(np.array(values[:cut])) + Sums.of(np.array(values[cut:]))
    assert pieces == all_sums
    assert repr(Scale.of_sums(pieces)) == repr(Scale.of_sums(all_sums))  # -0.0 is another text


@given(st.lists(FINITE, min_size=2, max_size=30))
@settings(max_examples=200, deadline=None)
def test_mean_and_deviation_are_the_nearest_numbers(values):
    scale = Scale.of(np.array(values))
    total, squares = exactly(values)
    n, unit = len(values), Fraction(2) ** -scale.exponent
    assert scale.mean == float(total * unit / n)
    variance = (squares - total**2 / n) / (n - 1) * unit**2
    if scale.deviation < 1e-300:
        assert variance < Fraction(10) ** -590
        return
    # The square root is between the middles to the two neighbours, exactly.
    below, above = (
        (Fraction(scale.deviation) + Fraction(math.nextafter(scale.deviation, to))) / 2
        for to in (0.0, math.inf)
    )
    assert below**2 <= variance <= above**2


def test_what_follows_the_last_bit_of_a_square_root_decides():
    """Its 64 bits lie halfway between two numbers, and the bits below tip it upwards."""
    deviation = Sums.of(np.array([0.0, 465041.0])).deviation(0)
    middle = (Fraction(math.nextafter(deviation, 0.0)) + Fraction(deviation)) / 2
    assert middle**2 < Fraction(465041**2, 2) < Fraction(deviation) ** 2


@pytest.mark.slow
def test_more_values_than_are_taken_at_once():
    rng = np.random.default_rng(5)
    values = rng.normal(size=150_001) * 10.0 ** rng.integers(-9, 9, 150_001)
    total, squares = exactly(values.tolist())
    sums = Sums.of(values)
    assert Fraction(sums.total, 2**1074) == total
    assert Fraction(sums.squares, 2**2148) == squares
    assert sums == Sums.of(values[:70_000]) + Sums.of(values[70_000:])


def test_no_values():
    assert Sums.of(np.empty(0)) == Sums()
    some = Sums.of(np.array([1.5, -2.0]))
    assert Sums() + some == some + Sums() == some
    assert Scale.of_sums(Sums()) == Scale()


@pytest.mark.parametrize("value", [0.0, -0.0, 5e-324, -1.7976931348623157e308, 0.1])
def test_equal_values_are_their_own_mean(value):
    scale = Scale.of(np.full(7, value))
    assert np.ldexp(scale.mean, scale.exponent) == value
    assert scale.deviation == 0.0
    assert scale.is_constant


def test_values_at_any_step():
    values = np.random.default_rng(2).normal(size=(40, 3))
    assert Sums.of(values[::-2, 1]) == Sums.of(values[::-2, 1].copy())


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_refused(value):
    with pytest.raises(ValueError, match="finite"):
        Sums.of(np.array([1.0, value]))


def test_squares_of_one_exponent_beyond_two_words():
    """4.2 million squares of 106 bits: their sum has more than 128."""
    count = 2**22 + 5
    value = math.nextafter(2.0, 0.0)
    sums = Sums.of(np.full(count, value))
    assert Fraction(sums.squares, 2**2148) == count * Fraction(value) ** 2
