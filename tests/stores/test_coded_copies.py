"""Coding of copied columns: no number beyond a threshold is released, and each tail has k rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dbanon
from dbanon.errors import InvalidParameter, RecountFailed, TooFewRecords, UnsupportedType
from dbanon.stores.sql_target import SqlTarget
from tests.stores.databases import ALL_NAMES, Database
from tests.stores.refusal import refuse

DATABASES = ALL_NAMES

pytestmark = pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")


def rows(n: int = 120) -> list[tuple[Any, ...]]:
    draw = np.random.default_rng(6)
    ages = draw.integers(20, 90, n).tolist()
    incomes = [
        None if i % 13 == 5 else income for i, income in enumerate(draw.integers(5, 99, n).tolist())
    ]
    prices = np.round(draw.lognormal(2, 1, n), 2).tolist()
    return [
        (i, f"p{i // 3}", *row) for i, row in enumerate(zip(ages, incomes, prices, strict=True))
    ]


def load(database: Database) -> pd.DataFrame:
    types = database.types
    columns = {
        "id": "integer PRIMARY KEY",
        "person": types["text"],
        "age": types["integer"],
        "income": types["integer"],
        "price": types["decimal"],
    }
    database.load("people", columns, rows())
    frame = pd.DataFrame(rows(), columns=list(columns))
    return frame.astype({"income": "Int64"})


def options(**more: Any) -> dict[str, Any]:
    names: dict[str, Any] = {"quasi_identifiers": ["age"], "keep": ["income", "price"], "k": 3}
    return names | more


def label_of(number: float | None, coding: str) -> str | None:
    """The released text, in plain code."""
    if number is None:
        return None
    if coding == "top":
        return "90+" if number >= 90 else "<10" if number < 10 else str(number)
    borders = [("<5", 5), ("[5, 10)", 10), ("[10, 20.5)", 20.5)]
    return next((label for label, border in borders if float(number) < border), "20.5+")


def expected(coding: str) -> Counter[str | None]:
    position = 3 if coding == "top" else 4
    return Counter(label_of(row[position], coding) for row in rows())


CODING: dict[str, Any] = {
    "top": {"income": 90},
    "bottom": {"income": 10},
    "recode": {"price": [5, 10, 20.5]},
}


@pytest.mark.in_turn(of="file")
@pytest.mark.parametrize("entity", [None, "person"])
def test_labels_and_numbers_between(
    database: Database, make_database: Any, entity: str | None
) -> None:
    frame = load(database)
    report = database.anonymize(**options(entity=entity, **CODING))
    relation = database.relation("release.people")
    released = database.rows(f"SELECT income, price FROM {relation}")
    assert Counter(income for income, _ in released) == expected("top")
    assert Counter(price for _, price in released) == expected("recode")
    assert report.arguments["coded_copies"] == ["income", "price"]
    assert "coded when copied" in str(report)
    assert "coded before classes are made" not in str(report)
    assert dbanon.verify(database.url, "release.people").unchanged
    of_frame, _ = dbanon.anonymize_frame(frame, **options(entity=entity, **CODING))
    texts = of_frame.astype(object).where(of_frame.notna(), None)
    assert Counter(texts["income"]) == expected("top")
    assert Counter(texts["price"]) == expected("recode")
    other = make_database("sqlite" if database.name == "duckdb" else "duckdb")
    database.anonymize(target=other.url, **options(entity=entity, **CODING))
    copies = other.rows(f"SELECT income, price FROM {other.relation('release.people')}")
    assert Counter(income for income, _ in copies) == expected("top")
    assert Counter(price for _, price in copies) == expected("recode")


def test_a_quasi_identifier_and_a_copy(database: Database) -> None:
    load(database)
    report = database.anonymize(**options(top={"age": 80, "income": 90}, recoding="median"))
    relation = database.relation("release.people")
    labels = {
        label for row in database.rows(f"SELECT age, income FROM {relation}") for label in row
    }
    assert {"80+", "90+"} <= labels
    assert report.arguments["coded_copies"] == ["income"]
    assert "coded before classes are made" in str(report)


@pytest.mark.parametrize("entity", [None, "person"])
def test_a_tail_has_k_or_nobody(database: Database, entity: str | None) -> None:
    load(database)
    relation = database.relation("people")
    # Three rows of one person have the highest incomes.
    database.execute(f"UPDATE {relation} SET income = 500 + id WHERE id < 3")
    coded = options(top={"income": 400}, entity=entity)
    if entity is None:
        database.anonymize(**coded)
        coded = options(top={"income": 501}, output="release.other", releases="independent")
    error = refuse(database, TooFewRecords, '"income" are at or above its highest', **coded)
    assert ("persons" if entity else "rows") in str(error)
    assert "502" not in str(error)
    # The 99.9th percentile is the highest income.
    few = options(top={"income": "p99.9"}, output="release.few", releases="independent")
    database.execute(f"UPDATE {relation} SET income = NULL, age = 97 WHERE id = 2")
    assert "50" not in str(refuse(database, TooFewRecords, "at or above its highest", **few))
    few |= {"quasi_identifiers": ["age"], "top": {"age": "p99.9"}, "recoding": "median"}
    assert "97" not in str(refuse(database, TooFewRecords, '"age" are at or above', **few))
    few |= {"top": {}, "bottom": {"income": 6}}
    database.execute(f"UPDATE {relation} SET income = 5 WHERE id = 2")
    database.execute(f"UPDATE {relation} SET income = 9 WHERE income < 9 AND id > 2")
    refuse(database, TooFewRecords, '"income" are below its lowest threshold', **few)
    free = options(top={"income": 900}, output="release.free", releases="independent")
    database.anonymize(**free)


@pytest.mark.parametrize("coding", [{"top": {"income": 90}}, {"recode": {"income": [20, 40]}}])
def test_the_recount_refuses_a_number_beyond(
    database: Database, monkeypatch: pytest.MonkeyPatch, coding: dict[str, Any]
) -> None:
    load(database)
    describe_columns = SqlTarget.describe_columns

    def describe_uncoded(self: SqlTarget, *arguments: Any) -> list[tuple[str, str, str]]:
        columns = describe_columns(self, *arguments)
        text = f"CAST(s.income AS {'CHAR' if database.name == 'mariadb' else 'VARCHAR'}(9))"
        return [(n, t, text if n == "income" else expression) for n, t, expression in columns]

    monkeypatch.setattr(SqlTarget, "describe_columns", describe_uncoded)
    error = refuse(database, RecountFailed, '"income" was coded', **options(**coding))
    assert "95" not in str(error)


@pytest.mark.parametrize("coding", [{"top": {"income": 90}}, {"recode": {"income": [20, 40]}}])
def test_the_recount_refuses_a_number_beyond_in_copies(
    database: Database,
    make_database: Any,
    monkeypatch: pytest.MonkeyPatch,
    coding: dict[str, Any],
) -> None:
    frame = load(database)
    other = make_database("sqlite" if database.name == "duckdb" else "duckdb")
    for module in ("copied_rows", "frame.target"):
        monkeypatch.setattr(
            f"dbanon.stores.{module}.code_value",
            lambda value, attribute, coding: None if value is None else str(value),
        )
    refuse(database, RecountFailed, '"income" was coded', target=other.url, **options(**coding))
    assert ("release", "people") not in other.relations()
    with pytest.raises(RecountFailed, match='"income" was coded'):
        dbanon.anonymize_frame(frame, **options(**coding))


@pytest.mark.parametrize("entity", [None, "person"])
def test_thresholds_from_the_data(database: Database, entity: str | None) -> None:
    frame = load(database)
    relation = database.relation("people")
    # Of 120 values the 114th is the 95th percentile, and the 12th the 10th one.
    database.execute(f"UPDATE {relation} SET income = 1000 + 7 * id, price = 100.5 + id")
    frame = frame.assign(income=1000 + 7 * frame["id"], price=100.5 + frame["id"])
    coded = options(
        quasi_identifiers=["age", "income"],
        keep=["price"],
        entity=entity,
        top={"income": "p95", "price": "p95"},
        bottom={"income": "p10", "age": "p9.5"},
        recoding="median",
    )
    report = database.anonymize(**coded)
    # 1000 + 7 * 113 is 1791, and 1000 + 7 * 11 is 1077.
    assert report.arguments["top"] == {"income": 1700, "price": 210}
    assert report.arguments["bottom"]["income"] == 1100
    from_data = {"top": coded["top"], "bottom": coded["bottom"]}
    assert report.arguments["thresholds_from_data"] == from_data
    assert "top of income (p95)" in str(report)
    assert "asked for by name" in str(report)
    released = database.rows(f"SELECT income, price FROM {database.relation('release.people')}")
    assert {"1700+", "<1100"} <= {income for income, _ in released}
    assert "210+" in {price for _, price in released}
    _, of_frame_report = dbanon.anonymize_frame(frame, **coded)
    for option in ("top", "bottom", "thresholds_from_data"):
        assert of_frame_report.arguments[option] == report.arguments[option]
    # A refresh takes the thresholds that were released.
    database.execute(f"UPDATE {relation} SET income = income + 300 WHERE id < 60")
    again = dbanon.refresh(database.url, "release.people", accept=["independent"])
    assert again.arguments["top"] == report.arguments["top"]


def test_numbers_of_single_precision(database: Database, make_database: Any) -> None:
    # As a double, the real 1.3 is below 1.3.
    columns = {"id": "integer PRIMARY KEY", "age": "integer", "size": "real"}
    database.load("people", columns, [(i, 30 + i % 3, i % 30 / 10) for i in range(120)])
    frame = pd.DataFrame({"age": [30 + i % 3 for i in range(120)]})
    frame["size"] = np.array([i % 30 / 10 for i in range(120)], np.float32)
    other = make_database("sqlite" if database.name == "duckdb" else "duckdb")
    # The threshold from the data is the 53rd of 120 numbers, 1.3, too.
    for top in (1.3, "p44"):
        coding: dict[str, Any] = {"quasi_identifiers": ["age"], "keep": ["size"]}
        coding |= {"top": {"size": top}, "bottom": {"size": 0.7}}
        coding |= {"releases": "independent", "if_exists": "replace"}
        report = database.anonymize(**coding)
        assert report.arguments["top"] == {"size": 1.3}
        database.anonymize(**coding, target=other.url)
        frame_coding = {k: v for k, v in coding.items() if k not in ("releases", "if_exists")}
        of_frame, report = dbanon.anonymize_frame(frame, k=3, **frame_coding)
        assert report.arguments["top"] == {"size": 1.3}
        for texts in (sizes(database), sizes(other), list(of_frame["size"])):
            counts = Counter(texts)
            assert counts.pop("1.3+") == 68
            assert counts.pop("<0.7") == 28
            assert {*map(float, counts)} == {0.7, 0.8, 0.9, 1.0, 1.1, 1.2}


def test_single_precision_in_classes(database: Database) -> None:
    numbers = [i % 30 / 10 for i in range(120)]
    columns = {"id": "integer PRIMARY KEY", "size": "real"}
    database.load("people", columns, list(enumerate(numbers)))
    coding: dict[str, Any] = {"quasi_identifiers": ["size"], "method": "full_domain"}
    coding["recode"] = {"size": [0.7, 1.3]}
    database.anonymize(**coding)
    frame = pd.DataFrame({"size": np.array(numbers, np.float32)})
    of_frame, _ = dbanon.anonymize_frame(frame, k=3, **coding)
    for labels in (sizes(database), list(of_frame["size"])):
        assert Counter(labels) == {"1.3+": 68, "[0.7, 1.3)": 24, "<0.7": 28}


def sizes(database: Database) -> list[str]:
    released = database.rows(f"SELECT size FROM {database.relation('release.people')}")
    return [str(size) for (size,) in released]


def test_no_number_is_above_all(make_database: Any) -> None:
    source, target = make_database("duckdb"), make_database("sqlite")
    columns = {"id": "integer PRIMARY KEY", "age": "integer", "size": "double"}
    source.load("people", columns, [(i, 30 + i % 3, i) for i in range(40)])
    source.execute("UPDATE people SET size = 'nan' WHERE id < 10")
    options: dict[str, Any] = {"quasi_identifiers": ["age"], "keep": ["size"]}
    options["recode"] = {"size": [20]}
    source.anonymize(**options)
    source.anonymize(**options, target=target.url)
    for database in (source, target):
        released = database.rows(f"SELECT size FROM {database.relation('release.people')}")
        assert Counter(size for (size,) in released) == {"20+": 30, "<20": 10}


def test_thresholds_of_the_selected_rows(database: Database) -> None:
    frame = load(database)
    database.execute(f"UPDATE {database.relation('people')} SET income = 1000 + 7 * id")
    frame = frame.assign(income=1000 + 7 * frame["id"])
    # Of the incomes 1000, 1007, …, 1413 of 60 rows, the 54th is 1371.
    coded = options(top={"income": "p90"})
    report = database.anonymize(**coded, where="id < 60")
    assert report.arguments["top"] == {"income": 1300}
    # The other rows are withheld: their age is NULL.
    database.execute(f"UPDATE {database.relation('people')} SET age = NULL WHERE id >= 60")
    frame["age"] = frame["age"].where(frame["id"] < 60)
    withheld = coded | {"nulls": "suppress", "max_suppression": 0.5}
    report = database.anonymize(**withheld, output="release.other", releases="independent")
    assert report.arguments["top"] == {"income": 1300}
    _, of_frame_report = dbanon.anonymize_frame(frame, **withheld)
    assert of_frame_report.arguments["top"] == {"income": 1300}


def test_a_percentile_that_is_no_number() -> None:
    frame = pd.DataFrame({"age": [20, 30] * 30, "income": [1.5] * 50 + [np.inf] * 10})
    with pytest.raises(InvalidParameter, match='"income" has no finite number'):
        dbanon.anonymize_frame(
            frame, quasi_identifiers=["age"], keep=["income"], k=3, top={"income": "p99"}
        )


def test_refusals(database: Database) -> None:
    load(database)

    def refused(error: type[Exception], message: str, **more: Any) -> None:
        assert refuse(database, error, message, **options(**more)).hint

    refused(InvalidParameter, "the column is copied", recode={"income": {"A": "*"}})
    refused(InvalidParameter, "a number of `top` has a fraction", top={"income": 9.5})
    refused(UnsupportedType, "does not hold numbers", keep=["person"], top={"person": 9})
    refused(
        InvalidParameter, "is neither a quasi-identifier nor copied", keep=[], top={"income": 9}
    )
    refused(
        InvalidParameter, "is neither a quasi-identifier nor copied", keep=[], top={"income": "p90"}
    )
    refused(UnsupportedType, "does not hold numbers", keep=["person"], top={"person": "p90"})
    refused(
        InvalidParameter,
        "must be below its `top`",
        top={"income": "p20"},
        bottom={"income": "p80"},
    )
    refused(
        InvalidParameter,
        "are counted in classes",
        top={"income": 90},
        also_k=[["age", "income"]],
    )
