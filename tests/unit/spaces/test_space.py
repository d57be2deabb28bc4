from __future__ import annotations

import numpy as np
import pytest

from dbanon.errors import InvalidParameter
from dbanon.spaces.numeric import Space, weight_vector
from tests.scales import standardization

NUMBERS = np.random.default_rng(5).normal(size=(40, 3)) * [1.0, 50.0, 0.001] + [0.0, 1000.0, -5.0]


@pytest.mark.parametrize("how", ["zscore", "range"])
@pytest.mark.parametrize("power", [-1000, -60, -1, 1, 60, 900])
def test_a_power_of_two_changes_no_bit(how: str, power: int) -> None:
    plain = standardization(NUMBERS, how).apply(NUMBERS)
    scaled = np.ldexp(NUMBERS, power)
    np.testing.assert_array_equal(standardization(scaled, how).apply(scaled), plain)


def test_scores_and_ranges() -> None:
    scores = standardization(NUMBERS).apply(NUMBERS)
    np.testing.assert_allclose(scores.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(scores.std(axis=0, ddof=1), 1, rtol=1e-12)
    ranged = standardization(NUMBERS, "range").apply(NUMBERS)
    assert (ranged.min(axis=0) == 0).all()
    assert (ranged.max(axis=0) == 1).all()
    np.testing.assert_array_equal(standardization(NUMBERS, "none").apply(NUMBERS), NUMBERS)


@pytest.mark.parametrize("how", ["zscore", "range", "none"])
@pytest.mark.parametrize("value", [0.0, 0.1, 1e300, 5e-324, -7.0])
def test_a_constant_column_is_zero(how: str, value: float) -> None:
    numbers = np.column_stack([NUMBERS[:, 0], np.full(40, value)])
    points = standardization(numbers, how).apply(numbers)
    assert (points[:, 1] == 0).all()
    assert points[:, 0].any()


@pytest.mark.parametrize("how", ["zscore", "range"])
@pytest.mark.parametrize("scale", [1e308, 1e-308, 5e-324])
def test_huge_and_tiny_numbers_stay_finite(how: str, scale: float) -> None:
    numbers = np.array([[0.0], [1.0], [-1.0], [1.0]]) * scale
    points = standardization(numbers, how).apply(numbers)
    plain = np.array([[0.0], [1.0], [-1.0], [1.0]])
    np.testing.assert_allclose(points, standardization(plain, how).apply(plain), rtol=1e-12)


def test_invalid_values_do_not_count() -> None:
    numbers = np.array([[1.0], [2.0], [3.0], [1e9]])
    valid = np.array([[True], [True], [True], [False]])
    found = standardization(numbers, valid=valid).apply(numbers[:3])
    np.testing.assert_array_equal(found, standardization(numbers[:3]).apply(numbers[:3]))
    empty = standardization(numbers, valid=np.zeros((4, 1), bool))
    assert (empty.apply(numbers) == 0).all()


def test_weights_are_square_roots_of_distances() -> None:
    found = weight_vector(("a", "b"), {"b": 4.0})
    np.testing.assert_array_equal(found, [1.0, 2.0])
    for weights in ({"c": 1.0}, {"a": -1.0}, {"a": float("nan")}):
        with pytest.raises(InvalidParameter):
            weight_vector(("a", "b"), weights)


def test_an_unknown_standardization_and_read_only_points() -> None:
    with pytest.raises(InvalidParameter, match="no standardization"):
        standardization(NUMBERS, "z")
    space = Space(NUMBERS.copy(), ("a", "b", "c"))
    assert space.n_records == 40
    with pytest.raises(ValueError, match="read-only"):
        space.points[0, 0] = 1
