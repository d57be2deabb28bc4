"""Requests for a differentially private release, and the options they refuse."""

from __future__ import annotations

from datetime import date
from decimal import ROUND_FLOOR, Decimal
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dbanon.data.schema import Attribute, Kind
from dbanon.doors.cli.options import parse_bounds
from dbanon.errors import InvalidParameter, UnknownOption, UnsupportedType
from dbanon.extensions.synthesis.synthetic_rows import (
    numpy_dtype,
    require_kind,
    to_synthetic_column,
)
from dbanon.job.concentrated import Cost, epsilon_of
from dbanon.job.private import NewBudget, build_job, build_private_job, private_method_options
from dbanon.ledger.budgets import compute_charge

OPTIONS: dict[str, Any] = {
    "table": "people",
    "output": "release.people",
    "quasi_identifiers": ["age"],
    "epsilon": 1.0,
    "bounds": {"age": (0, 120)},
    "budget": "people",
}


def test_what_says_nothing_is_as_if_it_was_not_given() -> None:
    """Doors hand on the options of all methods, at their defaults."""
    plain = build_private_job(OPTIONS)
    more = {"k": None, "sensitive": (), "nulls": "error", "seed": 0, "where": None, "exports": ()}
    assert build_private_job(OPTIONS | more | {"method": "dp_ranks", "entity": None}) == plain
    assert plain.arguments()["bounds"] == {"age": [0, 120]}
    born = build_private_job(OPTIONS | {"bounds": {"age": (date(1900, 1, 1), "2020-01-01")}})
    assert born.arguments()["bounds"] == {"age": ["1900-01-01", "2020-01-01"]}


def test_other_methods_take_no_options_of_synthetic_rows() -> None:
    """Doors hand on all options; those of other methods may only have their defaults."""
    options = {"table": "people", "output": "released", "quasi_identifiers": ["age"], "k": 5}
    plain = build_job(options)
    defaults = dict.fromkeys(("epsilon", "budget", "bounds"))
    job = build_job(options | defaults | {"run_id": plain.run_id})
    assert job == plain
    with pytest.raises(InvalidParameter, match="epsilon is an option of dp_ranks"):
        build_job(options | {"epsilon": 1.0})
    with pytest.raises(InvalidParameter, match="guarantees nothing"):
        build_job(options | {"method": "dcmdp"})


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"k": 5}, "takes no k"),
        ({"keep": ["name"]}, "takes no keep"),
        ({"skip_unchanged": True}, "takes no skip_unchanged"),
        ({"epsilon": 0}, "epsilon must be a number above 0"),
        ({"epsilon": float("nan")}, "epsilon must be a number above 0"),
        ({"epsilon": None}, "needs epsilon"),
        ({"budget": None}, "needs budget"),
        ({"quasi_identifiers": []}, "No quasi-identifier"),
        ({"quasi_identifiers": ["age", "age"]}, "more than once"),
        ({"entity": "age"}, "cannot be released"),
        ({"door": "window"}, "door must be"),
    ],
)
def test_refusals(more: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidParameter, match=why):
        build_private_job(OPTIONS | more)


def test_an_option_that_is_none() -> None:
    with pytest.raises(UnknownOption, match="epsilonn"):
        build_private_job(OPTIONS | {"epsilonn": 1})
    assert {"epsilon", "bounds", "null_as", "budget"} <= {
        option.name for option in private_method_options()
    }


def test_two_sides_of_bounds() -> None:
    assert parse_bounds("0:350") == (0, 350)
    assert parse_bounds("-1.5:2e3") == (-1.5, 2000.0)
    assert parse_bounds("2020-01-01:2020-12-31") == ("2020-01-01", "2020-12-31")
    assert parse_bounds("2020-01-01 10:00:2020-01-02 11:30") == (
        "2020-01-01 10:00",
        "2020-01-02 11:30",
    )
    for wrong in ("5", ":5", "5:", "1:2:3"):
        with pytest.raises(InvalidParameter, match="LOW:HIGH"):
            parse_bounds(wrong)


def test_what_an_epsilon_costs_is_never_less() -> None:
    assert compute_charge(Cost(0.1), None) == Decimal("0.1")
    assert compute_charge(Cost(1e-30), None) == Decimal("1e-9")
    assert compute_charge(Cost(1.0000000001), None) == Decimal("1.000000001")
    assert sum((compute_charge(Cost(0.1), None) for _ in range(3)), Decimal(0)) == Decimal("0.3")


@pytest.mark.parametrize("epsilon", [0.5, 1, 3, 6])
def test_one_release_may_spend_all_of_a_budget(epsilon: float) -> None:
    """The charge in rho equals the cost of the noise, to the last part."""
    cost = Cost(epsilon, 1e-9)
    budget = NewBudget(name="m", source="people", epsilon=epsilon, delta=1e-9)
    total = Decimal(repr(budget.amount)).quantize(Decimal("1e-9"), ROUND_FLOOR)
    assert total == compute_charge(cost, 1e-9) == Decimal(repr(cost.rho))
    assert epsilon_of(float(total), 1e-9) <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [1e-300, 1e-9, 1e-5])
def test_a_rho_of_less_than_a_part_is_none(epsilon: float) -> None:
    with pytest.raises(InvalidParameter, match="must be 1e-9 or more"):
        compute_charge(Cost(epsilon, 1e-9), 1e-9)
    with pytest.raises(InvalidParameter, match="must be 1e-9 or more"):
        NewBudget(name="m", source="people", epsilon=epsilon, delta=1e-9)


@pytest.mark.parametrize(
    "more",
    [
        {"epsilon": 0},
        {"epsilon": float("inf")},
        {"epsilon": 1e-12},
        {"unit": "person"},
        {"entity": "id"},
        {"unit": "house"},
        {"name": "-x"},
        {"name": "a b"},
    ],
)
def test_budgets_that_are_none(more: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        NewBudget(**({"name": "m", "source": "people", "epsilon": 1.0} | more))


def _column(low: float, high: float, **attribute: Any) -> Any:
    dialect = SimpleNamespace(type_of=lambda column: "its type")
    session: Any = SimpleNamespace(dialect=dialect)
    return to_synthetic_column(session, Attribute("c", **attribute), (low, high))


def test_released_values_are_within_the_bounds_in_their_type() -> None:
    price = _column(0.125, 9.999, kind=Kind.DECIMAL, precision=5, scale=2)
    assert (price.low, price.high) == ("0.13", "9.99")
    assert price.to_released(np.array([0.0, 0.125, 5.005, 9.999])).values.tolist() == [
        13,
        13,
        500,
        999,
    ]
    seconds = _column(500_000.0, 2_900_000.0, kind=Kind.TIMESTAMP, scale=0)
    moments = np.array([500_000, 1_400_000, 2_900_000]).astype("datetime64[us]")
    assert seconds.to_released(moments).values.tolist() == [1_000_000, 1_000_000, 2_000_000]
    assert (seconds.low, seconds.high) == ("1970-01-01 00:00:01", "1970-01-01 00:00:02")
    wide = _column(0, 1e30, kind=Kind.DECIMAL, precision=38, scale=2)
    assert wide.to_released(np.array([1e30, 2e30])).values.tolist() == [10**32, 10**32]
    zoned = _column(0.0, 86_400e6, kind=Kind.TIMESTAMP, scale=6, has_time_zone=True)
    assert zoned.high == "1970-01-02 00:00:00.000000+00"
    for wrong in (
        {"low": 0.001, "high": 0.009, "kind": Kind.DECIMAL, "precision": 5, "scale": 2},
        {"low": 0, "high": 1e9, "kind": Kind.DECIMAL, "precision": 5, "scale": 2},
        {"low": -1e9, "high": 1e9, "kind": Kind.DATE},
    ):
        with pytest.raises(InvalidParameter, match="at least two of its values"):
            _column(**wrong)


def test_columns_without_a_public_range_are_refused() -> None:
    with pytest.raises(UnsupportedType, match="is not a number"):
        require_kind(Attribute("c", Kind.OTHER, sql_type="jsonb"))
    require_kind(Attribute("c", Kind.CATEGORY, sql_type="text"))
    assert numpy_dtype(Attribute("c", Kind.INTEGER, bits=16)) == np.int16
    assert numpy_dtype(Attribute("c", Kind.DATE)) == np.dtype("datetime64[D]")
