"""Classes of one person: seen without being told whose a row is, in every store."""

from __future__ import annotations

import json
import warnings
from collections import defaultdict
from collections.abc import Callable
from random import Random
from typing import Any

import pandas as pd
import pytest

import dbanon
from dbanon.errors import PersonsBelowK, TooFewPersons
from dbanon.release.findings import FewPersons
from tests.stores.databases import Database, DuckdbDatabase
from tests.stores.refusal import refuse

K = 5
TYPES = {"row_no": "integer", "patient_id": "integer", "account": "text", "born": "date",
         "sex": "text", "zip": "integer", "cost": "integer"}  # fmt: skip
# What every row of a run reads: both do not vary within a patient.
ASKED: dict[str, Any] = {"quasi_identifiers": ["born", "zip"], "k": K}


def stays(seed: int = 0, persons: int = 80, each: int = 5) -> list[tuple[Any, ...]]:
    """Rows of patients, each with some stays, in random order; the last column is anybody's."""
    drawn = Random(seed)
    rows: list[tuple[Any, ...]] = []
    for person in range(persons):
        born = f"{drawn.randrange(1930, 2015)}-{drawn.randrange(1, 13):02}-{drawn.randrange(1, 28):02}"  # fmt: skip
        known = (7_000_000 + 13 * person, f"K{person:05}", born, drawn.choice("mf"),
                 drawn.randrange(10_000, 10_400))  # fmt: skip
        rows += [(*known, drawn.randrange(200, 900)) for _ in range(drawn.randrange(1, 2 * each))]
    drawn.shuffle(rows)
    return [(place, *row) for place, row in enumerate(rows)]


def load(database: Database, rows: list[tuple[Any, ...]], table: str = "people") -> None:
    database.load(table, {n: database.types[kind] for n, kind in TYPES.items()}, rows)


def brute(database: Database, output: str = "release.people", kept: str = "row_no") -> float:
    """The share of classes with fewer than k patients, by the rows that were released."""
    rows = {row[0]: row for row in stays()}
    classes = defaultdict(set)
    released = database.rows(f"SELECT born, zip, {kept} FROM {database.relation(output)}")
    for born, place, row in released:
        classes[born, place].add(rows[row][1])
    return sum(len(found) < K for found in classes.values()) / len(classes)


def found(said: list[warnings.WarningMessage]) -> list[str]:
    return [str(one.message) for one in said if one.category is PersonsBelowK]


@pytest.mark.filterwarnings("ignore::dbanon.errors.KeptColumnTells")
def test_classes_of_few_persons_are_warned_of(database: Database) -> None:
    load(database, stays())
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        report = database.anonymize(**ASKED, keep=["row_no"])
    share = brute(database)
    assert share > 0.5
    assert [one.name for one in report.few_persons] == ["patient_id", "account"]
    for one in report.few_persons:
        assert share <= one.share < share + 0.01
    assert found(said) == [f"Column {one.describe(K)}." for one in report.few_persons]
    assert all("7000" not in text and "K000" not in text for text in found(said))
    # The ledger keeps it, and a report of the release tells it.
    recorded = database.rows(f"SELECT arguments FROM {database.ledger()}")[0][0]
    arguments = recorded if isinstance(recorded, dict) else json.loads(recorded)
    assert [FewPersons(**one) for one in arguments["few_persons"]] == list(report.few_persons)
    assert [text for label, text in report.rows() if label == "PERSONS"] == [
        one.describe(K) for one in report.few_persons
    ]


def test_strict_refuses_it_and_publishes_nothing(database: Database) -> None:
    load(database, stays())
    error = refuse(database, TooFewPersons, '"patient_id"', **ASKED, strict=True)
    assert (error.exit_code, error.code, error.sqlstate) == (6, "too_few_persons", "ZK005")
    assert "entity" in str(error.hint)
    # Where k counts persons, there is nothing to look for.
    report = database.anonymize(**ASKED, entity="patient_id", strict=True)
    assert (report.few_persons, report.persons) == ((), 80)


def test_a_number_that_is_a_quasi_identifier(database: Database) -> None:
    """The job that `init` wrote: each class one person."""
    load(database, stays())
    wanted = {"quasi_identifiers": ["patient_id", "zip"], "k": K}
    with pytest.warns(PersonsBelowK):
        report = database.anonymize(**wanted)
    assert vars(report.few_persons[0]) == {"name": "patient_id", "share": 1.0}


def test_of_a_frame_it_is_the_same(duckdb_file: DuckdbDatabase) -> None:
    frame = pd.DataFrame(stays(), columns=list(TYPES))
    frame["born"] = pd.to_datetime(frame["born"])
    with pytest.warns(PersonsBelowK):
        _, report = dbanon.anonymize_frame(frame, **ASKED)
    load(duckdb_file, stays())
    with pytest.warns(PersonsBelowK):
        of_file = duckdb_file.anonymize(**ASKED)
    assert [one.name for one in report.few_persons] == ["patient_id", "account"]
    assert report.few_persons == of_file.few_persons
    with pytest.raises(TooFewPersons):
        dbanon.anonymize_frame(frame, **ASKED, strict=True)
    # Who has no number is somebody: NULLs are no one person.
    frame["patient_id"] = frame["patient_id"].where(frame["patient_id"] < 0)
    frame["account"] = None
    _, report = dbanon.anonymize_frame(frame, **ASKED, strict=True)
    assert report.few_persons == ()


def test_in_another_database(
    make_database: Callable[[str], Database], duckdb_file: DuckdbDatabase
) -> None:
    source = make_database("sqlite")
    load(source, stays())
    with pytest.warns(PersonsBelowK):
        report = source.anonymize(**ASKED, target=duckdb_file.url, output="release.people")
    assert [one.name for one in report.few_persons] == ["patient_id", "account"]
    with pytest.raises(TooFewPersons):
        source.anonymize(**ASKED, target=duckdb_file.url, output="release.two", strict=True)


def test_rows_that_a_condition_chooses(database: Database) -> None:
    """Only the rows that are released count: of one stay each there is nothing to tell."""
    rows = stays()
    first = {row[1]: row for row in reversed(rows)}
    chosen = [(*row[:-1], 1 if first[row[1]] is row else 2) for row in rows]
    load(database, chosen)
    report = database.anonymize(**ASKED, where="cost = 1", strict=True)
    assert (report.rows_in, report.few_persons) == (80, ())
    with pytest.warns(PersonsBelowK):
        database.anonymize(**ASKED, where="cost > 1 - 1", if_exists="replace")


def test_classes_that_are_released_alike_are_one(database: Database) -> None:
    """As readers see them: five classes of one person each with one value are a class of five."""
    rows = [(5 * p + i, f"p{p}", p // 5) for p in range(25) for i in range(5)]
    kinds = {"n": "integer", "patient": "text", "zip": "integer"}
    database.load("people", {n: database.types[kind] for n, kind in kinds.items()}, rows)
    report = database.anonymize(quasi_identifiers=["zip"], k=K, method="mdav", strict=True)
    assert (report.classes, report.few_persons) == (5, ())
    database.execute(f"UPDATE {database.relation('people')} SET patient = 'p0' WHERE zip = 0")
    with pytest.warns(PersonsBelowK, match="up to 20%"):
        database.anonymize(quasi_identifiers=["zip"], k=K, method="mdav", if_exists="replace")


@pytest.mark.parametrize("seed", range(6))
def test_ordinary_columns_are_no_numbers_of_persons(seed: int, duckdb_file: DuckdbDatabase) -> None:
    """A false alarm costs trust: random tables of what tables have, of any names but a person's."""
    drawn = Random(seed)
    n = 1_500
    people = [
        (
            f"{drawn.randrange(1930, 2015)}-{drawn.randrange(1, 13):02}-01",
            drawn.choice(("male", "female")),
            drawn.randrange(18, 95),
            drawn.randrange(10_000, 10_000 + 10 ** drawn.randrange(2, 5)),
            drawn.choice("ABCDEFG") + f"{drawn.randrange(100):02}.{drawn.randrange(10)}",
            int(drawn.lognormvariate(10, 0.4)),
            drawn.randrange(150, 200),
            f"{drawn.choice(('Anna', 'Berta', 'Carl', 'Dora', 'Emil'))}{drawn.randrange(300)}",
            f"2024-{drawn.randrange(1, 13):02}-{drawn.randrange(1, 28):02}",
            drawn.randrange(n // 2),
            drawn.randrange(400),
        )
        for _ in range(n)
    ]
    names = ("birth_date", "sex", "age", "zip", "diagnosis", "income", "height", "given_name",
             "admitted", "invoice_no", "ward_id")  # fmt: skip
    kinds = ("DATE", "TEXT", "INTEGER", "INTEGER", "TEXT", "INTEGER", "INTEGER", "TEXT", "DATE",
             "INTEGER", "INTEGER")  # fmt: skip
    duckdb_file.load("people", dict(zip(names, kinds, strict=True)), people)
    report = duckdb_file.anonymize(quasi_identifiers=["age", "zip"], k=K, strict=True)
    assert report.few_persons == ()
    frame = pd.DataFrame(people, columns=list(names))
    _, of_frame = dbanon.anonymize_frame(
        frame, quasi_identifiers=["age", "zip"], k=K, strict=True
    )
    assert of_frame.few_persons == ()


@pytest.mark.parametrize("name", ["code_x", "record_no"])
def test_values_tell_it_where_no_name_does(name: str, database: Database) -> None:
    """Birth date and sex do not vary within: it numbers persons, whatever it is called."""
    types = {name if n == "patient_id" else n: t for n, t in TYPES.items() if n != "account"}
    rows = [(row[0], row[1], *row[3:]) for row in stays()]
    database.load("people", {n: database.types[kind] for n, kind in types.items()}, rows)
    with pytest.warns(PersonsBelowK, match=f'"{name}"'):
        report = database.anonymize(**ASKED)
    assert [one.name for one in report.few_persons] == [name]
