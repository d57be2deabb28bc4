"""The risk of a table as it is: what advice shows of it, and what it leaves out."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from dbanon.advice.singling import rate_set
from dbanon.advice.source_risk import SourceRisk

USE = "For the controller of the data, not for publication"


def risk_of(
    sizes: Mapping[int, int],
    expected: float | None = None,
    design_weight: str | None = None,
    population: float | None = None,
) -> SourceRisk:
    """The risk of a table with these numbers of classes by size."""
    column_set = rate_set(("age", "sex"), sizes, 5)
    n_classes = sum(sizes.values())
    return SourceRisk(
        column_set, n_classes if expected is None else expected, design_weight, population
    )


def test_it_says_what_is_expected_and_by_what() -> None:
    risk = risk_of({1: 100, 10: 90})
    text = risk.describe()
    assert text.startswith("about 190 of 1000 rows would be re-identified (19 %) if the table were")
    assert "without a design weight" in text
    assert text.endswith(USE)
    weighted = risk_of({1: 100, 10: 90}, 12.3456, "w", 50_000.0)
    assert weighted.describe().startswith("about 12.3 of 1000 rows")
    assert 'by the design weight "w". For the controller' in weighted.describe()
    assert weighted.to_dict() == {
        "columns": ["age", "sex"],
        "design_weight": "w",
        "expected_reidentifications": 12.3,
        "text": weighted.describe(),
    }


def test_scaled_weights_are_noticed() -> None:
    assert "hide nobody" in risk_of({1: 100, 10: 90}, 190, "w", 1000.0).describe()
    assert "hide nobody" not in risk_of({1: 100, 10: 90}, 190, "w", 1001.0).describe()


@pytest.mark.parametrize(
    "tables",
    [
        # 1 to 4 of 1,000 rows are unique.
        [{1: n, 10: 95, 50 - n: 1} for n in range(1, 5)],
        # All but 2 to 4 of 1,000 rows are unique.
        [{1: 1000 - n, n: 1} for n in range(2, 5)],
        # 2 to 4 rows are in one group, and all others in groups of 10 or more.
        [{n: 1, 10: 95, 50 - n: 1} for n in range(2, 5)],
    ],
)
@pytest.mark.parametrize("expected", [3.0, 4.9, 60.0])
def test_the_number_of_few_rows_does_not_follow(
    tables: list[dict[int, int]], expected: float
) -> None:
    """An attack: whoever sees the text learns no more than from the counts, which are ranges."""
    risks = [risk_of(sizes, expected + 0.1 * n, "w", 9e4) for n, sizes in enumerate(tables)]
    risks_of_census = [risk_of(sizes) for sizes in tables]
    for of_tables in (risks, risks_of_census):
        assert len({risk.describe() for risk in of_tables}) == 1
        assert {risk.rounded_figure for risk in of_tables} == {None}
        assert of_tables[0].describe().endswith(USE)


def test_small_numbers_are_a_range() -> None:
    tables = [{10: 100}, {20: 50}]
    risks = [risk_of(sizes, expected, "w", 9e4) for sizes in tables for expected in (0.1, 4.99)]
    assert {risk.describe().partition(";")[0] for risk in risks} == {
        "fewer than 5 of 1000 rows would be re-identified if the table were released as it is"
    }
    assert risk_of({250: 4}).rounded_figure is None
    assert risk_of({200: 5}).rounded_figure == 5
