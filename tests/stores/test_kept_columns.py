"""Columns released unchanged: a warning names those that single out rows or reveal hidden
values.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dbanon
from dbanon.errors import KeptColumnTells, RecountFailed, TellingColumnRefused
from dbanon.release.attribute_disclosure import ValueGroups
from dbanon.release.report import DisclosiveColumn
from dbanon.sessions.session import Session
from dbanon.stores.sql_source import SqlSource
from tests.stores.databases import Database, DuckdbDatabase
from tests.stores.refusal import refuse

N, K = 600, 5
RNG = np.random.default_rng(5)
AGE = RNG.integers(18, 78, N).tolist()
ZIP = (10_000 + RNG.integers(0, 60, N)).tolist()
WORDS = [f"w{i:02}" for i in range(100)]

# Column: type, values, and what must be found: pairs of what it determines and the share.
Values = list[Any]
COLUMNS: dict[str, tuple[str, Values, list[tuple[str | None, float]]]] = {
    "nearly_unique": ("text", [f"text {i - (i % 50 == 1)}" for i in range(N)], [(None, 1.0)]),
    "bijection": ("text", [WORDS[age] if age < 100 else "" for age in AGE], [("age", 1.0)]),
    "copy": ("integer", [age * 2 for age in AGE], [("age", 1.0)]),
    # Several values map to one age, yet each determines its age.
    "many_to_one": ("integer", [age * 2 + i % 2 for i, age in enumerate(AGE)], [("age", 1.0)]),
    # A few rows disagree, so that what tells is most of its values, not all.
    "but_for_some": (
        "integer",
        [7 if i % 40 == 0 else age * 2 for i, age in enumerate(AGE)],
        [("age", 0.97)],
    ),
    # The other way round it is a region of a place: a class may hold several, and they are seen.
    "coarser": ("integer", [age // 30 for age in AGE], []),
    "constant": ("text", ["same"] * N, []),
    "unrelated": ("integer", [i % 7 for i in range(N)], []),
    "empty": ("text", [None] * N, []),
    "copy_of_some": (
        "integer",
        [age if i % 3 else None for i, age in enumerate(AGE)],
        [("age", 1.0)],
    ),
    "household": ("integer", [i // 3 for i in range(N)], [(None, 1.0)]),
}


def load(database: Database, table: str = "people", **more: Values) -> dict[str, str]:
    """The table, with row number, two quasi-identifiers and these columns."""
    types = {"id": "integer", "age": "integer", "zip": "integer"}
    types |= {name: kind for name, (kind, _, _) in COLUMNS.items()}
    values: dict[str, Values] = {"id": list(range(N)), "age": AGE, "zip": ZIP}
    values |= {name: column_values for name, (_, column_values, _) in COLUMNS.items()}
    types |= dict.fromkeys(more, "integer")
    values |= more
    rows = list(zip(*values.values(), strict=True))
    database.load(table, {n: database.types[kind] for n, kind in types.items()}, rows)
    return types


def options_with(**more: Any) -> dict[str, Any]:
    return {"quasi_identifiers": ["age", "zip"], "k": K} | more


def disclosive_columns(report: dbanon.Report) -> dict[str, list[tuple[str | None, float]]]:
    columns: dict[str, list[tuple[str | None, float]]] = {}
    for column in report.disclosive_columns:
        columns.setdefault(column.name, []).append((column.determines, column.share))
    return columns


EXPECTED = {name: tells for name, (_, _, tells) in COLUMNS.items() if tells}


@pytest.mark.in_turn(of="file")
def test_what_each_column_tells(database: Database) -> None:
    load(database)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report = database.anonymize(**options_with(keep=list(COLUMNS)))
    assert disclosive_columns(report) == EXPECTED
    texts = [str(w.message) for w in caught if w.category is KeptColumnTells]
    assert texts == [f"Column {column.describe(K)}." for column in report.disclosive_columns]
    # Names and shares only: no value of a column, no count.
    assert not any(word in text for text in texts for word in (*WORDS[18:78], "text 1", "600"))
    recorded = database.rows(f"SELECT arguments FROM {database.ledger()}")[0][0]
    arguments = recorded if isinstance(recorded, dict) else json.loads(recorded)
    assert [DisclosiveColumn(**entry) for entry in arguments["disclosive_columns"]] == list(
        report.disclosive_columns
    )
    assert [text for label, text in report.rows() if label == "DISCLOSIVE COLUMN"] == [
        column.describe(K) for column in report.disclosive_columns
    ]
    assert report.to_dict()["disclosive_columns"][0] == vars(report.disclosive_columns[0])


def test_of_a_data_frame_it_is_the_same() -> None:
    frame = pd.DataFrame({name: values for name, (_, values, _) in COLUMNS.items()})
    frame["age"], frame["zip"] = AGE, ZIP
    with pytest.warns(KeptColumnTells):
        _, report = dbanon.anonymize_frame(frame, **options_with(keep=list(COLUMNS)))
    assert disclosive_columns(report) == EXPECTED
    with pytest.raises(TellingColumnRefused):
        dbanon.anonymize_frame(frame, **options_with(keep=["copy"]), strict=True)
    _, report = dbanon.anonymize_frame(frame, **options_with(keep=["unrelated"]), strict=True)
    assert report.disclosive_columns == ()


def test_in_another_database(
    make_database: Callable[[str], Database], duckdb_file: DuckdbDatabase
) -> None:
    for name in ("sqlite", "postgresql"):
        source = make_database(name)
        load(source)
        with pytest.warns(KeptColumnTells):
            report = source.anonymize(
                **options_with(keep=list(COLUMNS)), target=duckdb_file.url, output=f"release.{name}"
            )
        assert disclosive_columns(report) == EXPECTED
        with pytest.raises(TellingColumnRefused):
            source.anonymize(
                **options_with(sensitive=["copy"]), target=duckdb_file.url, strict=True
            )


@pytest.mark.in_turn(of="file")
def test_strict_publishes_nothing(database: Database) -> None:
    load(database)
    database.make_schema("release")
    for column in EXPECTED:
        error = refuse(database, TellingColumnRefused, **options_with(keep=[column]), strict=True)
        assert f'"{column}"' in str(error.detail)
        assert (error.exit_code, error.code, error.sqlstate) == (6, "telling_column", "ZK005")
    harmless = [name for name in COLUMNS if name not in EXPECTED]
    report = database.anonymize(**options_with(sensitive=harmless), strict=True)
    assert report.disclosive_columns == ()


@pytest.mark.in_turn(of="file")
def test_a_warning_made_an_error_publishes_nothing(database: Database) -> None:
    load(database)
    database.make_schema("release")
    before = database.state()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(KeptColumnTells):
            database.anonymize(**options_with(keep=["copy"]))
    assert database.state() == before


@pytest.mark.in_turn(of="file")
def test_strata_are_released_too(database: Database) -> None:
    """A stratum that tells a quasi-identifier whose released values hide it."""
    decade = [age // 20 for age in AGE]
    load(database, decade=decade, decade_copy=[3 * d for d in decade])
    steps = {"decade": 1000, "zip": 1000}
    options = {"quasi_identifiers": ["decade", "zip"], "k": K, "method": "gaa_cp"}
    with pytest.warns(KeptColumnTells):
        report = database.anonymize(**options, by=["decade_copy"], steps=steps)
    assert disclosive_columns(report) == {"decade_copy": [("decade", 1.0)]}
    # Where the release shows the value itself, the stratum tells nothing more.
    options |= {"method": "mdav", "output": "release.shown"}
    report = database.anonymize(**options, by=["decade_copy"], strict=True)
    assert report.disclosive_columns == ()


@pytest.mark.in_turn(of="file")
def test_only_released_rows_count(database: Database) -> None:
    """Rows that are withheld change nothing: here they alone break what a column tells."""
    load(database)
    table = database.relation("people")
    # Withheld rows share all values of the column, and have no zip.
    database.execute(
        f"INSERT INTO {table} (id, age, zip, copy, unrelated)"
        f" SELECT id + {N}, age + 1, NULL, copy, unrelated FROM {table}"
    )
    with pytest.warns(KeptColumnTells):
        report = database.anonymize(
            **options_with(keep=["copy", "unrelated"]), nulls="suppress", max_suppression=1.0
        )
    assert (report.rows_out, report.suppressed) == (N, N)
    assert disclosive_columns(report) == {"copy": [("age", 1.0)]}


def test_other_rows_than_the_released_ones(database: Database, monkeypatch: Any) -> None:
    """The warning describes the released rows, or nothing is published."""
    load(database)
    table = database.relation("people")
    database.execute(f"INSERT INTO {table} (id, age, copy) SELECT id + {N}, age, copy FROM {table}")
    monkeypatch.setattr(
        Session, "released_rows", lambda self, source, *_: f"{source.relation_to_read.quoted} AS s"
    )
    how = {"nulls": "suppress", "max_suppression": 1.0}
    refuse(database, RecountFailed, '"copy"', **options_with(keep=["copy"]), **how)


def test_of_persons(database: Database) -> None:
    """An address that ten rows share is still one person's."""
    person = [i // 10 for i in range(N)]
    load(database, person=person, address=[p * 7 for p in person], site=[p % 3 for p in person])
    with pytest.warns(KeptColumnTells, match='"address" is nearly unique'):
        report = database.anonymize(**options_with(keep=["address", "site"]), entity="person")
    assert disclosive_columns(report) == {"address": [(None, 1.0)]}
    frame = pd.DataFrame({"age": AGE, "zip": ZIP, "person": person})
    frame["address"], frame["site"] = frame["person"] * 7, frame["person"] % 3
    _, of_frame = dbanon.anonymize_frame(
        frame, **options_with(keep=["address", "site"]), entity="person"
    )
    assert of_frame.disclosive_columns == report.disclosive_columns


def test_few_rows(database: Database) -> None:
    """As many rows as k: all but common values are shared by fewer rows, and no count is given."""
    rows = [(i, i, i % 2) for i in range(K)]
    columns = dict.fromkeys(("age", "own", "half"), database.types["integer"])
    database.load("people", columns, rows)
    options = {"quasi_identifiers": ["age"], "k": K}
    report = database.anonymize(**options, keep=["own"])
    assert disclosive_columns(report) == {"own": [(None, 1.0)]}
    report = database.anonymize(**options, keep=["half"], if_exists="replace")
    assert disclosive_columns(report) == {"half": [(None, 1.0)]}


@pytest.mark.parametrize("name", ["age", "born", "height", "seen", "site"])
def test_quasi_identifiers_of_every_kind(name: str, database: Database) -> None:
    kind = {
        "age": "integer",
        "born": "date",
        "height": "double",
        "seen": "timestamp",
        "site": "text",
    }[name]
    values = {
        "age": [i % 20 for i in range(N)],
        "born": [f"1970-01-{1 + i % 20:02}" for i in range(N)],
        "height": [150 + i % 20 / 2 for i in range(N)],
        "seen": [f"2020-01-{1 + i % 20:02} 10:00:00" for i in range(N)],
        "site": [WORDS[i % 20] for i in range(N)],
    }[name]
    codes = [values.index(value) * 37 % 101 for value in values]
    columns = {name: database.types[kind], "zip": database.types["integer"]}
    columns["code"] = database.types["integer"]
    database.load("people", columns, list(zip(values, ZIP, codes, strict=True)))
    # Heavy places, so that names are what classes mix.
    how = {"method": "gaa_cp", "weights": {"zip": 50}} if kind == "text" else {}
    with pytest.warns(KeptColumnTells):
        report = database.anonymize(
            **options_with(quasi_identifiers=[name, "zip"], keep=["code"], **how)
        )
    assert disclosive_columns(report) == {"code": [(name, 1.0)]}


def test_of_many_rows_a_sample_is_enough(database: Database, monkeypatch: Any) -> None:
    """A column of different values is not counted; every other one is, whatever the sample says."""
    monkeypatch.setattr("dbanon.release.attribute_disclosure.MAX_FULLY_COUNTED_ROWS", 1000)
    n = 8000
    columns = ("age", "zip", "own", "couples", "double", "part")
    rows = [
        (i * 7 % 61, i * 11 % 83, i, i // 2, i * 7 % 61 * 2, None if i % 2 else i) for i in range(n)
    ]
    database.load("people", dict.fromkeys(columns, database.types["integer"]), rows)
    counted: list[str] = []
    groups = SqlSource.group_by_value

    def note(self: SqlSource, draft: Any, name: str) -> ValueGroups:
        counted.append(name)
        return groups(self, draft, name)

    monkeypatch.setattr(SqlSource, "group_by_value", note)
    report = database.anonymize(**options_with(keep=["own", "couples", "double", "part"]))
    assert disclosive_columns(report) == {
        "own": [(None, 0.9)],
        "couples": [(None, 1.0)],
        "double": [("age", 1.0)],
        "part": [(None, 1.0)],
    }
    assert counted == ["couples", "double", "part"]


def test_columns_that_are_no_values_of_a_line(database: Database) -> None:
    """Names that need quotes, and types that GROUP BY does not accept directly."""
    kind = {"postgresql": "json", "duckdb": "STRUCT(a VARCHAR)", "sqlite": "BLOB"}[database.name]
    table = database.relation("people")
    database.execute(
        f'CREATE TABLE {table} (age INTEGER, zip INTEGER, "se""lect" {kind}, other {kind})'
    )
    text = {"postgresql": '\'{{"a": "{}"}}\'', "duckdb": "{{'a': '{}'}}", "sqlite": "'{}'"}
    value = text[database.name]
    database.execute(
        *(
            f"INSERT INTO {table} VALUES ({age}, {zip_code}, {value.format(age)},"
            f" {value.format(i % 7)})"
            for i, (age, zip_code) in enumerate(zip(AGE[:300], ZIP[:300], strict=True))
        )
    )
    report = database.anonymize(**options_with(k=2, keep=['se"lect', "other"]))
    assert disclosive_columns(report) == {'se"lect': [("age", 1.0)]}
