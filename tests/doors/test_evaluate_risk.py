"""``dbanon.evaluate`` of tables in memory with their disclosure risk before and after."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dbanon
from dbanon.errors import ColumnNotFound, InvalidParameter, RowsLinkable, UnknownOption

DRAW = np.random.default_rng(57)
N = 240
SURVEY = pd.DataFrame(
    {
        "sex": [*DRAW.choice(["f", "m"], N - 1), "qzrare"],
        "age": DRAW.integers(18, 90, N),
        "home": np.arange(N) // 3,
        "w": DRAW.integers(10, 30, N).astype(float),
    }
)
KEYS = ["sex", "age"]
USE = "For the controller of the data, not for publication."


def figures(risk: Any) -> list[tuple[str, str | None, float | None, str | None]]:
    return list(risk.measure_rows())


def release(**options: Any) -> tuple[pd.DataFrame, Any]:
    return dbanon.anonymize_frame(SURVEY, quasi_identifiers=KEYS, k=4, method="gaa_cp", **options)


@pytest.mark.parametrize("options", [{}, {"household": "home", "suda_size": 2}])
def test_a_report_says_which_columns_count(options: dict[str, Any]) -> None:
    released, report = release(design_weight="w")
    expected = dbanon.disclosure_risk(
        SURVEY, quasi_identifiers=KEYS, weight="w", released=released, **options
    )
    for evaluation in (
        report.evaluate(SURVEY, risk=options),
        dbanon.evaluate(SURVEY, released, report=report, risk=options),
    ):
        assert figures(evaluation.risk) == figures(expected)
    assert report.evaluate(SURVEY).risk is None


def test_tables_of_any_tool_name_the_weight() -> None:
    """The weight and the household are no quasi-identifiers, though both tables have them."""
    with pytest.warns(RowsLinkable):
        released, _ = release(keep=["home", "w"], rows="input")
    evaluation = dbanon.evaluate(SURVEY, released, risk={"weight": "w", "household": "home"})
    expected = dbanon.disclosure_risk(
        SURVEY, quasi_identifiers=KEYS, weight="w", household="home", released=released
    )
    assert figures(evaluation.risk) == figures(expected)
    numbers = SURVEY[["age", "home"]].to_numpy(float)
    of_arrays = dbanon.evaluate(numbers, numbers.round(-1), risk={"sampling_fraction": 0.1})
    assert of_arrays.risk is not None
    assert of_arrays.risk.records_after == N


def test_the_text_says_whose_figures_they_are() -> None:
    _, report = release(design_weight="w")
    evaluation = report.evaluate(SURVEY, risk={})
    pairs = evaluation.pairs()
    assert ("  use", USE) in pairs
    assert any(label == "  expected re-identifications" for label, _ in pairs)
    document = json.loads(json.dumps(evaluation.to_dict()))
    assert document["risk"]["before"]["records"] == N
    assert "risk" not in report.evaluate(SURVEY).to_dict()
    assert "qzrare" not in f"{evaluation}{document}{evaluation._repr_html_()}"


@pytest.mark.parametrize(
    ("risk", "error"),
    [
        ({"weights": "w"}, UnknownOption),
        ({"weight": "nothing"}, ColumnNotFound),
        ({"missing": "maybe"}, InvalidParameter),
        ({"quasi_identifiers": []}, InvalidParameter),
        ("w", InvalidParameter),
    ],
)
def test_wrong_options(risk: Any, error: type[Exception]) -> None:
    _, report = release()
    with pytest.raises(error):
        report.evaluate(SURVEY, risk=risk)


def test_persons_with_several_rows_are_refused() -> None:
    _, report = release(entity="home")
    with pytest.raises(InvalidParameter, match="persons have several rows"):
        report.evaluate(SURVEY, risk={})


def test_spellings_of_one_person_are_one_person() -> None:
    survey = SURVEY.assign(pid=["p1", "P1", *(f"p{n}" for n in range(2, N))])
    _, report = dbanon.anonymize_frame(
        survey,
        quasi_identifiers=KEYS,
        k=4,
        method="gaa_cp",
        entity="pid",
        entity_normalize="casefold",
    )
    with pytest.raises(InvalidParameter, match="persons have several rows"):
        report.evaluate(survey, risk={})
