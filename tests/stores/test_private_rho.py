"""dp_marginals of a database, and budgets that count rho."""

from __future__ import annotations

from typing import Any

import pytest

import dbanon
from dbanon.errors import BudgetExhausted, BudgetNotFound, InvalidParameter
from dbanon.job.concentrated import epsilon_of, rho_of
from tests.prerequisites import import_or_skip
from tests.stores.databases import Database

import_or_skip("opendp")

ROWS = [("red" if g % 3 else "blue", "no" if g % 3 and g % 30 else "yes") for g in range(900)]
ZCDP = {"accounting": "zcdp", "delta": 1e-9}


@pytest.fixture
def filled(database: Database) -> Database:
    columns = dict.fromkeys(("colour", "ill"), f"{database.types['text']} NOT NULL")
    database.load("people", columns, ROWS)
    return database


def release(database: Database, **overrides: Any) -> Any:
    options: dict[str, Any] = {
        "table": "people",
        "quasi_identifiers": ["colour", "ill"],
        "method": "dp_marginals",
        "epsilon": 2.0,
        "bounds": {},
        "orders": {"colour": ["red", "blue"], "ill": ["yes", "no"]},
        "budget": "people",
        "output": "release.people",
    }
    return dbanon.anonymize(database.url, **(options | overrides))


@pytest.mark.in_turn(of="file")
def test_rho_is_spent_and_both_are_recorded(filled: Database) -> None:
    url = filled.url
    budget = dbanon.create_budget(url, "people", source="people", epsilon=3, delta=1e-9)
    assert budget.total == rho_of(3, 1e-9)
    report = release(filled, **ZCDP)
    rho = rho_of(2, 1e-9)
    assert (report.epsilon, report.delta) == (2.0, 1e-9)
    assert report.rho == report.spent == rho
    assert "(ε, δ)-differential privacy with ε = 2 and δ = 1e-09" in report.guarantee
    # Epsilon without a delta costs rho, too.
    again = release(filled, method="dp_ranks", epsilon=0.3, output="release.ranks")
    assert again.rho == pytest.approx(0.045, abs=1e-8)
    assert again.delta is None
    shown_budget = dbanon.show_budget(url, "people")
    assert [float(spending.epsilon) for spending in shown_budget.spendings] == [
        again.rho,
        report.rho,
    ]
    budget_json = shown_budget.to_dict()
    assert (budget_json["counts"], budget_json["delta"]) == ("rho", 1e-9)
    assert budget_json["epsilon_spent"] == pytest.approx(epsilon_of(shown_budget.spent, 1e-9))
    assert "rho: total / spent / left" in dict(shown_budget.pairs())
    relation = filled.relation("release.people")
    [(rows, blue)] = filled.rows(
        f"SELECT count(*), sum(CASE WHEN colour = 'blue' THEN 1 ELSE 0 END) FROM {relation}"
    )
    assert rows == 900
    assert 150 < blue < 450
    shown_release = dbanon.show(url, "release.people")
    assert (shown_release["epsilon"], shown_release["delta"], shown_release["rho"]) == (
        2.0,
        1e-9,
        report.rho,
    )
    assert dbanon.verify(url, "release.people").unchanged
    with pytest.raises(BudgetExhausted, match="less than rho"):
        release(filled, **{**ZCDP, "epsilon": 3.0}, if_exists="replace")
    assert dbanon.show_budget(url, "people").spent == shown_budget.spent


@pytest.mark.in_turn(of="file")
def test_one_release_may_spend_all_of_its_budget(filled: Database) -> None:
    url = filled.url
    dbanon.create_budget(url, "people", source="people", epsilon=1, delta=1e-9)
    report = release(filled, **ZCDP, epsilon=1.0)
    assert report.rho == report.spent == report.total == rho_of(1, 1e-9)
    assert dbanon.show_budget(url, "people").left == 0.0


@pytest.mark.in_turn(of="file")
def test_a_budget_of_epsilon_takes_no_delta_and_nothing_is_spent(filled: Database) -> None:
    url = filled.url
    dbanon.create_budget(url, "people", source="people", epsilon=3)
    with pytest.raises(InvalidParameter, match="has an epsilon but no delta"):
        release(filled, **ZCDP)
    assert dbanon.show_budget(url, "people").spent == 0.0
    report = release(filled)
    assert (report.spent, report.rho, report.delta) == (2.0, None, None)
    # A total of rho does not take the place of one of epsilon.
    with pytest.raises(BudgetNotFound, match="same person identifier and delta"):
        dbanon.create_budget(url, "more", source="people", epsilon=9, delta=1e-9, raises="people")
    for wrong in (0.0, -1e-9, 1e-4, float("nan")):
        with pytest.raises(InvalidParameter, match="delta must be"):
            dbanon.create_budget(url, "more", source="people", epsilon=9, delta=wrong)
