"""Rows withheld for a NULL have no influence on anything released through a database."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from dbanon.errors import SuppressionOverBudget
from dbanon.measures import Model
from tests.stores.databases import Database

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")

COLUMNS = {
    "id": "integer",
    "age": "bigint",
    "pay": "open",
    "height": "double",
    "born": "date",
    "seen": "timestamp",
    "place": "text",
    "site": "text",
    "ill": "text",
    "cost": "integer",
    "who": "text",
}
N = 36


def rows(withheld: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """N rows that are released, with those to be withheld among them."""
    generated: list[tuple[Any, ...]] = [
        (
            3 * i,
            20 + i * 7 % 31,
            Decimal(1000 + i * 37 % 500),
            1.5 + i * 11 % 17 / 16,
            date(1960 + i % 20, 1, 1),
            datetime(2020, 1, 1 + i % 28, 12),
            "ab"[i % 2] * 3,
            "x",
            ("flu", "gout", "none")[i % 3],
            i * 5 % 4,
            f"p{i // 2}",
        )
        for i in range(N)
    ]
    for i, more in enumerate(withheld):
        row = {
            "id": 30 * i + 1,
            "age": 30,
            "pay": Decimal(1200),
            "height": 1.75,
            "born": date(1965, 1, 1),
            "seen": datetime(2020, 1, 2),
            "place": "aaa",
            "site": "x",
            "ill": "flu",
            "cost": 1,
            "who": "p1",
        }
        row |= more
        generated.append(tuple(row[name] for name in COLUMNS))
    return generated


# Every one has a NULL where none may be.
PLAIN: list[dict[str, Any]] = [{"age": None}, {"age": None}, {"age": None}]
OTHERS: dict[str, list[dict[str, Any]]] = {
    "extreme": [
        {"age": None, "pay": Decimal(10) ** 12, "height": -1e200, "born": date(1, 1, 1)},
        {"age": None, "height": 1e200, "born": date(9999, 1, 1), "seen": datetime(9990, 1, 1)},
        {"age": 2**62, "pay": None, "height": None, "born": None, "seen": None, "place": None},
    ],
    "digits": [
        {"age": None, "pay": Decimal("0.00001"), "seen": datetime(2020, 1, 1, 1, 1, 1, 654321)},
        {"age": None, "place": "a name that is longer than any other", "ill": "plague"},
        {"age": None, "place": "Z", "cost": -99, "who": "nobody"},
    ],
}
QUASI_IDENTIFIERS = ["age", "pay", "height", "born", "seen"]
MODELS = (
    Model("t_closeness", "ill", 0.6),
    Model("t_closeness", "cost", 0.6, distance="ordered"),
)
CASES: dict[str, dict[str, Any]] = {
    "points": {"method": "mdav", "quasi_identifiers": QUASI_IDENTIFIERS},
    "median": {"method": "mondrian", "quasi_identifiers": QUASI_IDENTIFIERS, "recoding": "median"},
    "mahalanobis": {
        "method": "mdav",
        "quasi_identifiers": QUASI_IDENTIFIERS,
        "standardize": "mahalanobis",
    },
    "generalized": {"method": "gaa_cp", "quasi_identifiers": [*QUASI_IDENTIFIERS, "place"]},
    "refined": {
        "method": "gaa_cp",
        "quasi_identifiers": [*QUASI_IDENTIFIERS, "place"],
        "refine": "fast",
    },
    "levels": {
        "method": "full_domain",
        "quasi_identifiers": ["age", "place"],
        "hierarchies": {"place": {"mask": True}},
    },
    "own order": {
        "method": "gaa_cp",
        "quasi_identifiers": ["age", "place"],
        "local_range": True,
        "hierarchies": {"place": {"ordered": True}, "age": {"intervals": [5, 10]}},
    },
    "models": {
        "method": "gaa_cp",
        "quasi_identifiers": ["age", "place"],
        "sensitive": ["ill", "cost"],
        "models": MODELS,
    },
    "persons": {
        "method": "gaa_cp",
        "quasi_identifiers": ["age", "pay", "place"],
        "entity": "who",
        "by": ["site"],
    },
}


def load(database: Database, withheld: list[dict[str, Any]], table: str = "people") -> None:
    # A number without a declared scale, whose digits are looked up.
    types = dict(database.types) | {"open": "numeric" if database.name == "postgresql" else "REAL"}
    columns = {name: types[kind] for name, kind in COLUMNS.items()}
    columns["id"] += " PRIMARY KEY"
    database.load(table, columns, rows(withheld))


def released(database: Database, table: str, case: str, **more: Any) -> tuple[Any, ...]:
    options = {"sensitive": ["ill"], **CASES[case], **more}
    report = database.anonymize(
        table=table, output=f"release.{table}", nulls="suppress", max_suppression=0.1, **options
    )
    assert (report.rows_in, report.rows_out, report.suppressed) == (N + 3, N, 3)
    report_json = report.to_dict()
    for name in ("release_id", "created_at", "seconds", "source", "output", "relation", "digest"):
        report_json.pop(name)
    released_rows = database.rows(f"SELECT * FROM {database.relation(f'release.{table}')}")
    return sorted(map(repr, released_rows)), report_json


@pytest.mark.parametrize("case", CASES)
def test_a_withheld_row_changes_nothing(database: Database, case: str) -> None:
    load(database, PLAIN, "plain")
    database.make_schema("release")
    first = released(database, "plain", case)
    for name, withheld in OTHERS.items():
        if case == "levels":
            withheld = [row | {"age": None} for row in withheld]
        load(database, withheld, name)
        result = released(database, name, case)
        assert result[0] == first[0]
        assert {k for k in first[1] if result[1][k] != first[1][k]} == set()


def test_a_withheld_row_changes_nothing_in_another_database(
    database: Database, make_database: Any
) -> None:
    target = make_database("sqlite" if database.name == "duckdb" else "duckdb")
    results = []
    for name, withheld in {"plain": PLAIN, **OTHERS}.items():
        load(database, withheld, name)
        report = database.anonymize(
            table=name,
            output=f"release.{name}",
            nulls="suppress",
            max_suppression=0.1,
            quasi_identifiers=QUASI_IDENTIFIERS,
            keep=["place", "ill"],
            target=target.url,
        )
        assert report.suppressed == 3
        query = f"SELECT * FROM {target.relation(f'release.{name}')}"
        results.append(sorted(map(repr, target.rows(query))))
    assert results[0] == results[1] == results[2]


def test_a_withheld_row_counts_against_the_budget(database: Database) -> None:
    load(database, PLAIN)
    for budget in ({}, {"max_suppression": 2 / (N + 3)}):
        with pytest.raises(SuppressionOverBudget, match=f"3 of {N + 3} records") as caught:
            database.anonymize(quasi_identifiers=["age"], nulls="suppress", **budget)
        assert "0.076924" in str(caught.value.hint)
