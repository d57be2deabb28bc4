"""The forecast for a chain, compared with measurements of twelve releases."""

from __future__ import annotations

from typing import Any

import pytest

from dbanon.advice.forecast import Rates, describe_forecast, forecast
from dbanon.job.chain import ChainRules


def two_releases(
    leave: float, join: float, change: float, n: int = 30_000, k: int = 5
) -> list[dict[str, Any]]:
    joined = int(n * join)
    first = {"members": 0, "absent": 0, "persons": n, "joined": n, "changed": 0, "live": n // k}
    then = {
        "members": n,
        "absent": int(n * leave),
        "persons": n + joined,
        "joined": joined,
        "changed": int(n * (1 - leave) * change),
        "live": n // k,
    }
    return [first, then]


def test_rates_are_those_of_the_releases() -> None:
    rates = Rates.of(two_releases(0.05, 0.02, 0.03))
    assert rates is not None
    assert (rates.leave, rates.join) == (pytest.approx(0.05), pytest.approx(0.02))
    assert rates.change == pytest.approx(0.03, rel=0.01)
    assert Rates.of(two_releases(0.05, 0.02, 0.03)[:1]) is None
    assert forecast(ChainRules(changes="show"), 5, two_releases(0.05, 0.02, 0.03)[:1]) is None


@pytest.mark.parametrize(
    ("rules", "churn", "held_share", "absent"),
    [
        # Measured on Adult and synthetic persons, k = 5, at the twelfth release.
        ({"changes": "show"}, 0.05, 0.82, 0.35),
        ({"changes": "show"}, 0.01, 0.40, 0.10),
        ({"changes": "show", "class_size": 50}, 0.05, 0.63, 0.046),
        ({"changes": "show", "class_size": 100}, 0.05, 0.46, 0.020),
    ],
)
def test_it_comes_near_to_what_was_measured(
    rules: dict[str, Any], churn: float, held_share: float, absent: float
) -> None:
    result = forecast(ChainRules(**rules), 5, two_releases(churn, churn, churn / 2), horizon=10)
    assert result is not None
    assert result.held == pytest.approx(held_share, abs=0.05)
    assert result.absent == pytest.approx(absent, abs=0.02)
    assert result.missing == 0


def test_withdrawing_and_freezing_have_their_price() -> None:
    withdrawn = forecast(
        ChainRules(changes="show", departures="withdraw"),
        5,
        two_releases(0.01, 0.01, 0),
        horizon=11,
    )
    assert withdrawn is not None
    assert withdrawn.held == withdrawn.absent == 0
    assert 0.3 < withdrawn.missing < 0.45
    frozen = forecast(ChainRules(changes="freeze"), 5, two_releases(0.0, 0.0, 0.03))
    assert frozen is not None
    assert frozen.drifted == pytest.approx(1 - 0.97**13, abs=0.02)


def test_advice_is_given_where_it_helps() -> None:
    much = forecast(ChainRules(changes="show"), 5, two_releases(0.05, 0.05, 0.03))
    assert much is not None
    assert any("class_size 50" in text for text in much.advice)
    assert any("the loss is several times larger" in text for text in much.advice)
    # A second chain over the same persons exposes them.
    assert not any("new chain" in text for text in much.advice)
    little = forecast(ChainRules(changes="show"), 5, two_releases(0.0, 0.05, 0.0))
    assert little is not None
    assert (little.advice, little.held) == ((), 0)
    assert [label for label, _ in describe_forecast(much)].count("advice") == len(much.advice)


def test_with_models_nobody_leaves_in_a_group_and_no_wider_class_is_advised() -> None:
    wide, churn = ChainRules(changes="show", class_size=50), two_releases(0.05, 0.05, 0.03)
    groups, with_models = (forecast(wide, 5, churn, has_models=models) for models in (False, True))
    assert groups is not None
    assert with_models is not None
    assert with_models.held > groups.held + 0.2
    narrow = (
        forecast(ChainRules(changes="show"), 5, churn, has_models=has_models)
        for has_models in (False, True)
    )
    advised = [any("class_size" in text for text in result.advice) for result in narrow if result]
    assert advised == [True, False]
