"""Forecasts: what a policy implies before a record is read, and the method chosen from it."""

from __future__ import annotations

import math

import pytest

from dbanon.advice.request import CATEGORY_METHODS, NUMBER_METHODS
from dbanon.data.schema import Attribute, Kind
from dbanon.job.policy import REFINEMENTS as EFFORTS
from dbanon.job.policy import Policy
from dbanon.methods import METHODS
from dbanon.methods.forecast import (
    REFERENCE_ATTRIBUTES,
    REFERENCE_RECORDS,
    PowerLaw,
    Shape,
    describe_seconds,
)
from dbanon.partitioning.forecast import REFINEMENT_FORECASTS, fastest_method, forecast

SIX, MIXED = Shape(REFERENCE_ATTRIBUTES), Shape(2, categories=4)


def test_a_power_by_hand() -> None:
    power = PowerLaw(2.0, 1.5, 2.0, interaction=0.0)
    assert power.seconds_of(REFERENCE_RECORDS, SIX) == 2.0
    assert power.seconds_of(4 * REFERENCE_RECORDS, SIX) == pytest.approx(16.0)
    assert power.seconds_of(REFERENCE_RECORDS, Shape(3 * REFERENCE_ATTRIBUTES)) == pytest.approx(
        18.0
    )


def test_a_power_of_kinds_by_hand() -> None:
    power = PowerLaw(2.0, 1.0, 1.0, trees=math.log(4.0), categories=math.log(9.0))
    assert power.seconds_of(REFERENCE_RECORDS, SIX) == 2.0
    assert power.seconds_of(REFERENCE_RECORDS, Shape(0, 6, 0)) == pytest.approx(8.0)
    assert power.seconds_of(REFERENCE_RECORDS, Shape(3, 0, 3)) == pytest.approx(6.0)
    assert power.seconds_of(REFERENCE_RECORDS, Shape(0, 3, 3)) == pytest.approx(12.0)


def test_equal_records_are_one_where_the_power_says_so() -> None:
    power = PowerLaw(2.0, 1.5, 2.0)
    assert power.seconds_of(4 * REFERENCE_RECORDS, MIXED, 0.25) == pytest.approx(2.0)
    assert (
        PowerLaw(2.0, 1.5, 2.0, distinct_exponent=0.0).seconds_of(REFERENCE_RECORDS, MIXED, 0.25)
        == 2.0
    )


def test_equal_records_of_mixed_data_take_less_and_those_of_numbers_do_not() -> None:
    for policy, shape in ((Policy(k=5), SIX), (Policy(k=5, method="gaa_cp", refine="pass"), MIXED)):
        all_differ, few = (forecast(policy, 10**6, shape, share) for share in (1.0, 0.1))
        assert all_differ is not None
        assert few is not None
        assert (few.method < all_differ.method / 5) == shape.is_mixed
        assert (few.refinement < all_differ.refinement) == shape.is_mixed


def test_a_number_with_a_tree_counts_as_one() -> None:
    attributes = [Attribute(name, Kind.INTEGER) for name in "ab"]
    attributes += [Attribute(name, Kind.CATEGORY) for name in "cde"]
    shape = Shape.of(attributes, {"b", "c"})
    assert shape == Shape(numbers=1, trees=2, categories=2)
    assert shape.attributes == 5
    assert shape.is_mixed
    assert not Shape.of(attributes[:2]).is_mixed


def test_both_makes_more_records_cost_more_where_there_are_more_attributes() -> None:
    power = PowerLaw(1.0, 1.0, 0.0, interaction=0.5)
    few, many = (
        power.seconds_of(10 * REFERENCE_RECORDS, shape) / power.seconds_of(REFERENCE_RECORDS, shape)
        for shape in (SIX, Shape(3 * REFERENCE_ATTRIBUTES))
    )
    assert few == pytest.approx(10.0)
    assert many == pytest.approx(10 ** (1 + 0.5 * 1.0986122886681098))


@pytest.mark.parametrize("curve", [*NUMBER_METHODS, *CATEGORY_METHODS])
def test_what_advice_tries_has_a_forecast(curve: str) -> None:
    method, _, refine = curve.partition("+")
    shape = Shape(3) if curve in NUMBER_METHODS else MIXED
    policy = Policy(k=5, method=method, refine=refine or None)
    few, many = (forecast(policy, n, shape) for n in (50_000, 500_000))
    assert few is not None
    assert many is not None
    assert 0 < few.method < many.method
    assert (few.refinement > 0) == bool(refine)
    assert few.refinement <= many.refinement


def test_every_refinement_of_every_kind_is_foreseen() -> None:
    kinds = {method.refine for method in METHODS.values() if method.refine is not None}
    assert set(REFINEMENT_FORECASTS) == kinds
    for kind in kinds:
        assert set(REFINEMENT_FORECASTS[kind]) == set(EFFORTS)


def test_refinement_of_points_is_foreseen_of_mixed_data_too() -> None:
    of_numbers = forecast(Policy(k=5, refine="pass"), 100_000, SIX)
    mixed = forecast(Policy(k=5, refine="pass", recoding="representative"), 100_000, MIXED)
    assert of_numbers is not None
    assert mixed is not None
    assert of_numbers.refinement < mixed.refinement


def test_nothing_is_said_of_what_was_not_measured() -> None:
    # Only numbers, with categories, and with options that change the work.
    assert forecast(Policy(k=5, method="mdav"), 1000, Shape(4)) is not None
    assert forecast(Policy(k=5, method="genetic"), 1000, Shape(4)) is None
    vmdav = Policy(k=5, method="vmdav", options={"lambda_": 0.7})
    assert forecast(vmdav, 1000, Shape(4)) is None
    refined = {"k": 5, "refine": "fast", "refine_iterations": 9}
    assert forecast(Policy(**refined), 1000, Shape(4)) is None
    assert forecast(Policy(**refined, method="gaa_cp"), 1000, MIXED) is None


def test_a_refinement_takes_no_more_than_its_seconds() -> None:
    limited = forecast(Policy(k=5, refine="fast", refine_seconds=0.125), 10**6, Shape(4))
    assert limited is not None
    assert limited.refinement == 0.125


def test_blocks_take_less_than_all_records_at_once() -> None:
    unblocked, cut = (
        forecast(Policy(k=5, block_size=size), 10**6, Shape(4)) for size in (None, 50_000)
    )
    part = forecast(Policy(k=5), 50_000, Shape(4))
    assert unblocked is not None
    assert cut is not None
    assert part is not None
    assert cut.method == pytest.approx(20 * part.method)
    assert cut.method < unblocked.method


def test_a_method_that_takes_longer_is_not_the_first() -> None:
    assert fastest_method(NUMBER_METHODS[:1], 10_000, Shape(4), 600.0) == "mdav"
    assert fastest_method(CATEGORY_METHODS[:1], 10_000, MIXED, 600.0) == "gaa_cp"
    other = fastest_method(NUMBER_METHODS[:1], 10**8, Shape(10), 600.0)
    assert other != "mdav"
    seconds = [forecast(Policy(k=5, method=name), 10**8, Shape(10)) for name in (other, "mdav")]
    assert seconds[0] is not None
    assert seconds[1] is not None
    assert seconds[0].seconds < seconds[1].seconds
    # Methods that treat text as points are never proposed, however fast they are.
    assert fastest_method((), 10**8, MIXED, 600.0) in ("gaa_cp", "kmember")


def test_describe_seconds() -> None:
    assert describe_seconds(0.99, 0.9) == "less than 1 CPU second"
    assert describe_seconds(1234.0, 1000.0) == "1,200 CPU seconds, 1,000 of them the refinement"
