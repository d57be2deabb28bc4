"""The releases that a sweep tries: candidates for a recommendation that do not take too long."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import dbanon
from dbanon.errors import TimeLimit
from dbanon.run import sweep

CURVES = ["gaa_cp", "gaa_cp+fast"]
# Enough time even on a busy machine.
USUAL: dict[str, Any] = {"k": [3, 4, 6, 8, 10], "time_limit": 3600.0}


def people(n: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "income": rng.integers(10, 99, n),
            "region": rng.choice(list("abcdefg"), n),
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize("limits", [{}, {"max_risk": 0.2}, {"max_loss": 0.2}])
def test_what_is_passed_over_would_not_be_recommended(
    monkeypatch: pytest.MonkeyPatch, limits: dict[str, float]
) -> None:
    everything = dbanon.advise(people(), methods=CURVES, **USUAL, **limits)
    assert everything.sweep.passed_over == 0
    assert len(everything.sweep.points) == 2 * len(USUAL["k"])
    monkeypatch.setattr(sweep, "OPTIONAL_SECONDS", 0.0)
    advice = dbanon.advise(people(), **USUAL, **limits)
    assert advice.sweep.passed_over > 0
    assert advice.sweep.passed_over + len(advice.sweep.points) == len(everything.sweep.points)
    assert any(f"not tried: {advice.sweep.passed_over};" in note for note in advice.sweep.notes())
    assert advice.to_dict()["sweep"]["passed_over"] == advice.sweep.passed_over
    assert advice.recommendation is not None
    assert everything.recommendation is not None
    best, of_all = advice.recommendation.point, everything.recommendation.point
    assert (best.curve, best.k, best.loss) == (of_all.curve, of_all.k, of_all.loss)


def test_the_others_are_tried_where_there_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "OPTIONAL_SECONDS", np.inf)
    assert dbanon.advise(people(100), k=[3, 4, 5], time_limit=3600.0).sweep.passed_over == 0


def test_what_would_take_too_long_is_not_tried() -> None:
    # For 200 rows the forecast of the refinement exceeds that of the method.
    advice = dbanon.advise(people(), k=[3, 4, 5], max_seconds=0.01, time_limit=3600.0)
    assert {point.curve for point in advice.sweep.points} == {"gaa_cp"}
    assert all(point.forecast is not None for point in advice.sweep.points)
    [(curve, code)] = [
        (curve_left_out.curve, curve_left_out.code) for curve_left_out in advice.sweep.left_out
    ]
    assert (curve, code) == ("gaa_cp+fast", "time_limit")
    assert ("forecast", "less than 1 CPU second to find the classes of all rows") in (
        advice.recommended()
    )
    with pytest.raises(TimeLimit, match="more than 1e-09") as refused:
        dbanon.advise(people(), max_seconds=1e-9)
    assert "max_seconds" in str(refused.value.hint)
