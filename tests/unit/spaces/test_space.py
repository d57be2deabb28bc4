from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbanon import kernels
from dbanon.errors import InvalidParameter
from dbanon.spaces.numeric import Space, compute_column_factors
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
    points = standardization(numbers, valid=valid).apply(numbers[:3])
    np.testing.assert_array_equal(points, standardization(numbers[:3]).apply(numbers[:3]))
    empty = standardization(numbers, valid=np.zeros((4, 1), bool))
    assert (empty.apply(numbers) == 0).all()


def test_weights_are_square_roots_of_distances() -> None:
    factors = compute_column_factors(("a", "b"), {"b": 4.0})
    np.testing.assert_array_equal(factors, [1.0, 2.0])
    for weights in ({"c": 1.0}, {"a": -1.0}, {"a": float("nan")}):
        with pytest.raises(InvalidParameter):
            compute_column_factors(("a", "b"), weights)


def test_an_unknown_standardization_and_read_only_points() -> None:
    with pytest.raises(InvalidParameter, match="no standardization"):
        standardization(NUMBERS, "z")
    space = Space(NUMBERS.copy(), ("a", "b", "c"))
    assert space.n_records == 40
    with pytest.raises(ValueError, match="read-only"):
        space.points[0, 0] = 1


NUMBER = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False, width=64),
    st.sampled_from([0.0, -0.0, 5e-324, -5e-324, 2.0**-1022, 1.7e308, -1.7e308, 1.0, 3.0]),
)


@given(
    st.integers(1, 4).flatmap(
        lambda p: st.tuples(
            st.lists(st.lists(NUMBER, min_size=p, max_size=p), min_size=1, max_size=9),
            st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0**0.5]), min_size=p, max_size=p),
        )
    ),
    st.sampled_from(["zscore", "range", "none"]),
    st.randoms(use_true_random=False),
)
@settings(max_examples=300, deadline=None)
def test_the_compiled_pass_gives_the_bits_of_numpy(given_rows, how, random) -> None:
    rows, factors = given_rows
    numbers, factors = np.array(rows), np.array(factors)
    transform = standardization(numbers, how)
    records = np.array([random.randrange(len(rows)) for _ in range(random.randrange(12))], np.int64)
    # The distance of the ends of a range may be beyond doubles.
    with np.errstate(over="ignore", invalid="ignore"):
        expected = transform.apply(numbers[records]) * factors
    points = transform.apply_to_records(numbers, records, factors)
    np.testing.assert_array_equal(points.view(np.int64), expected.view(np.int64))
    assert points.flags.c_contiguous


@pytest.mark.parametrize("exponent", [-5000, -1074, -1001, -1000, 999, 1000, 1074, 5000, 2**62])
def test_the_compiled_pass_scales_by_any_power_of_two(exponent: int) -> None:
    numbers = np.array([[1.5], [-5e-324], [1.7e308], [2.0**-1022 * 1.5], [0.0]])
    ones = np.ones(1)
    points = kernels.standardized(
        numbers, np.arange(5), np.array([exponent]), np.zeros(1), ones, ones
    )
    bounded = np.array([min(max(exponent, -6000), 6000)], np.int64)
    with np.errstate(over="ignore", under="ignore"):
        np.testing.assert_array_equal(points, np.ldexp(numbers, -bounded))


@pytest.mark.parametrize(
    "wrong",
    [
        {"records": np.array([3])},
        {"records": np.array([-1])},
        {"records": np.array([2**62])},
        {"exponents": np.zeros(1, np.int64)},
        {"shifts": np.zeros(3)},
        {"scales": np.zeros(0)},
        {"factors": np.zeros(1)},
    ],
)
def test_invalid_row_indices_and_shapes_are_refused(wrong) -> None:
    right = {
        "numbers": np.ones((3, 2)),
        "records": np.array([0, 2, 2]),
        "exponents": np.zeros(2, np.int64),
        "shifts": np.zeros(2),
        "scales": np.ones(2),
        "factors": np.ones(2),
    }
    np.testing.assert_array_equal(kernels.standardized(**right), np.ones((3, 2)))
    with pytest.raises(ValueError, match=r"records must be|for each column"):
        kernels.standardized(**{**right, **wrong})
