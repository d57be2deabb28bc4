"""Local suppression on every database: releases, counts, reports and refusals."""

from __future__ import annotations

import json
from collections import Counter
from datetime import date
from typing import Any

import pytest

import dbanon
from dbanon.errors import (
    ColumnLost,
    InvalidParameter,
    NullInQuasiIdentifier,
    TooFewRecords,
)
from tests.stores.databases import ALL_NAMES, Database

DATABASES = ALL_NAMES
NAMES = ["sex", "age", "size", "day"]

pytestmark = pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")


def people(*, nulls: bool = False) -> list[tuple[Any, ...]]:
    """Five equal rows and four others, then a man of another age, and one of another size."""
    rows: list[list[Any]] = [[i, "f", 30, 1.5, date(2020, 1, 2), "x"] for i in range(5)]
    rows += [[i, "m", 40, 2.5, date(2021, 3, 4), "xyz"[i % 3]] for i in range(5, 9)]
    rows += [[9, "m", 41, 2.5, date(2021, 3, 4), "z"], [10, "f", 30, 9.75, date(2020, 1, 2), "x"]]
    if nulls:
        # A pattern of NULLs that one row has. In the row of another size, a second one.
        rows[9][2] = rows[10][1] = None
    return [tuple(row) for row in rows]


def load(database: Database, rows: list[tuple[Any, ...]]) -> None:
    columns = {
        "id": "integer PRIMARY KEY",
        "sex": database.types["text"],
        "age": "integer",
        "size": database.types["decimal"],
        "day": database.types["date"],
        "ill": database.types["text"],
    }
    database.load("people", columns, rows)


def suppress(database: Database, **options: Any) -> dbanon.Report:
    return database.anonymize(
        **{"quasi_identifiers": NAMES, "method": "local_suppression"} | options
    )


def released(database: Database, columns: str = "sex, age, size, day") -> list[tuple[Any, ...]]:
    return database.rows(f"SELECT {columns} FROM {database.relation('release.people')}")


def test_values_keep_their_types_and_few_become_null(database: Database) -> None:
    load(database, people())
    report = suppress(database)
    rows = released(database)
    # Four men of 40 lose their age to the man of 41, as two alone could not stay. Two of the five
    # women lose their size to the sixth.
    assert report.suppressed_cells == {"age": 5, "size": 3}
    assert report.classes == 3
    assert min(Counter(rows).values()) == report.k_achieved == 3
    nulls = sum(value is None for row in rows for value in row)
    assert nulls == sum(report.suppressed_cells.values())
    assert report.null_rows == sum(None in row for row in rows)
    assert {row[1] for row in rows} <= {30, 40, None}
    assert {None if row[2] is None else float(row[2]) for row in rows} <= {1.5, 2.5, None}
    assert {str(row[3]) for row in rows} <= {"2020-01-02", "2021-03-04"}
    assert "NULL counted as a value; values may be released as NULL" in report.guarantee
    assert "cells released as NULL" in str(report)
    assert "8: age 5, size 3" in str(report)
    assert report.loss_measure == "iloss"
    assert report.information_loss == pytest.approx(nulls / (11 * 4))
    [(arguments,)] = database.rows(f"SELECT arguments FROM {database.ledger()}")
    recorded = json.loads(arguments) if isinstance(arguments, str) else arguments
    assert recorded["suppressed_cells"] == report.suppressed_cells
    assert dbanon.verify(database.url, "release.people").k_achieved == 3


def test_nulls_of_the_source_are_values(database: Database) -> None:
    load(database, people(nulls=True))
    state = database.state()
    with pytest.raises(NullInQuasiIdentifier):
        suppress(database)
    with pytest.raises(TooFewRecords):
        database.anonymize(quasi_identifiers=["age"], nulls="category")
    assert database.state() == state
    # Neither the row without age nor the one without sex has a pattern of NULLs with k rows.
    planned = dbanon.plan(
        database.url,
        table="people",
        output="release.people",
        k=3,
        quasi_identifiers=NAMES,
        method="local_suppression",
        nulls="category",
    )
    assert planned.rows == 11
    report = suppress(database, nulls="category")
    rows = released(database)
    assert min(Counter(rows).values()) == 3
    n_nulls = sum(value is None for row in rows for value in row)
    assert n_nulls == sum(report.suppressed_cells.values()) + 2
    again = suppress(database, nulls="merge", if_exists="replace", releases="independent")
    assert again.suppressed_cells == report.suppressed_cells
    withheld = suppress(
        database,
        nulls="suppress",
        max_suppression=0.2,
        if_exists="replace",
        releases="independent",
    )
    assert (withheld.suppressed, withheld.suppressed_cells) == (2, {})
    assert "records with a NULL were withheld" in withheld.guarantee


def test_models_hold_in_each_class_and_for_classes_that_look_alike(database: Database) -> None:
    load(database, people(nulls=True))
    for kind, level in (("distinct_l", 2), ("t_closeness", 0.5)):
        report = suppress(
            database,
            nulls="category",
            sensitive=["ill"],
            models=[dbanon.Model(kind, "ill", level)],
            if_exists="replace",
            releases="independent",
        )
        rows = released(database, "sex, age, size, day, ill")
        values = {row[:4]: {other[4] for other in rows if other[:4] == row[:4]} for row in rows}
        assert min(Counter(row[:4] for row in rows).values()) >= 3
        if kind == "distinct_l":
            assert min(map(len, values.values())) >= 2
        [(arguments,)] = database.rows(
            f"SELECT arguments FROM {database.ledger()} WHERE release_id = '{report.release_id}'"
        )
        assert "ill" in str(arguments)


def test_strata_sets_and_importance(database: Database) -> None:
    load(database, people())
    suppress(
        database,
        quasi_identifiers=["age", "size", "day"],
        by=["sex"],
        also_k=[{"columns": ["size"], "k": 4}],
        options={"importance": "size"},
    )
    rows = released(database)
    assert min(Counter(rows).values()) >= 3
    assert min(Counter(row[2] for row in rows).values()) >= 4


def test_k_counts_persons(database: Database) -> None:
    """The rows of a person are released alike: a column in which they differ is NULL."""
    rows = [(i, "f", 30 + i % 2 * (i < 2), 1.5, date(2020, 1, 2), f"p{i // 2}") for i in range(12)]
    load(database, rows)
    report = suppress(database, entity="ill", k=3)
    ages = Counter(row[1] for row in released(database))
    # The first person's two ages need two more persons without age.
    assert ages == {None: 6, 30: 6}
    assert report.k_achieved == 3
    assert report.suppressed_cells == {"age": 6}


def test_a_column_that_loses_most_of_its_values_is_warned_of(database: Database) -> None:
    rows = [(i, "f", i, 1.5, date(2020, 1, 2), "x") for i in range(20)]
    load(database, rows)
    with pytest.warns(ColumnLost, match='"age" is released as NULL in 100% of the rows'):
        report = suppress(database)
    assert report.suppressed_cells == {"age": 20}
    assert "bands of numbers (recode)" in str(report)


@pytest.mark.parametrize(
    "options",
    [
        {"spill": "spilled", "block_size": 10},
        {"recoding": "generalization"},
        {"method": "mdav", "recoding": "common"},
        {"standardize": "mahalanobis"},
        {"certificate": 1.0},
    ],
    ids=str,
)
@pytest.mark.in_turn
def test_options_that_do_not_fit_are_refused(database: Database, options: dict[str, Any]) -> None:
    load(database, people())
    state = database.state()
    with pytest.raises(InvalidParameter, match=r"local_suppression|common|certificate"):
        suppress(database, **options)
    assert database.state() == state


@pytest.mark.in_turn
def test_the_evaluation_counts_suppressed_cells(database: Database) -> None:
    load(database, people())
    report = suppress(database, evaluate=True)
    assert report.evaluation is not None
    cells = sum(report.suppressed_cells.values())
    assert report.evaluation["suppressed_cells"] == cells
    assert report.evaluation["losses"]["label_loss"] == pytest.approx(cells / 44)
