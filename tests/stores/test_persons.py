"""Classes of a single person, detected in every store without naming the person column."""

from __future__ import annotations

import json
import re
import warnings
from collections import defaultdict
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import pytest

import dbanon
from dbanon.doors.jobfile.file import read_job_file
from dbanon.doors.jobfile.init import render_job_file
from dbanon.errors import PersonsBelowK, TooFewPersons
from dbanon.release.attribute_disclosure import FewPersons
from tests.conftest import CAMPAIGN
from tests.stays import COLUMNS
from tests.stays import stays as hospital_stays
from tests.stores.databases import Database, DuckdbDatabase, SqliteDatabase
from tests.stores.refusal import refuse

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")

K = 5
TYPES = {
    "row_no": "integer",
    "patient_id": "integer",
    "account": "text",
    "born": "date",
    "sex": "text",
    "zip": "integer",
    "cost": "integer",
}
# The values in every row of a patient: neither varies within a patient.
OPTIONS: dict[str, Any] = {"quasi_identifiers": ["born", "zip"], "k": K}


def stays(seed: int = 0, persons: int = 80, each: int = 5) -> list[tuple[Any, ...]]:
    """Rows of patients, each with some stays, in random order; the last column is anybody's."""
    rng = Random(seed)
    rows: list[tuple[Any, ...]] = []
    for person in range(persons):
        born = str(date(1930, 1, 1) + timedelta(days=rng.randrange(31_000)))
        person_values = (
            7_000_000 + 13 * person,
            f"K{person:05}",
            born,
            rng.choice("mf"),
            rng.randrange(10_000, 10_400),
        )
        rows += [
            (*person_values, rng.randrange(200, 900)) for _ in range(rng.randrange(1, 2 * each))
        ]
    rng.shuffle(rows)
    return [(index, *row) for index, row in enumerate(rows)]


def load(database: Database, rows: list[tuple[Any, ...]], table: str = "people") -> None:
    database.load(table, {n: database.types[kind] for n, kind in TYPES.items()}, rows)


def brute(database: Database, output: str = "release.people", kept_column: str = "row_no") -> float:
    """The share of classes with fewer than k patients, by the rows that were released."""
    rows = {row[0]: row for row in stays()}
    classes = defaultdict(set)
    released = database.rows(f"SELECT born, zip, {kept_column} FROM {database.relation(output)}")
    for born, zip_code, row in released:
        classes[born, zip_code].add(rows[row][1])
    return sum(len(persons) < K for persons in classes.values()) / len(classes)


def persons_below_k_messages(caught: list[warnings.WarningMessage]) -> list[str]:
    return [str(warning.message) for warning in caught if warning.category is PersonsBelowK]


@pytest.mark.filterwarnings("ignore::dbanon.errors.KeptColumnTells")
def test_classes_of_few_persons_are_warned_of(database: Database) -> None:
    load(database, stays())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report = database.anonymize(**OPTIONS, keep=["row_no"])
    share = brute(database)
    assert share > 0.5
    assert [column.name for column in report.few_persons] == ["patient_id", "account"]
    for column in report.few_persons:
        assert abs(column.share - share) <= 0.005
    assert persons_below_k_messages(caught) == [
        f"Column {column.describe(K)}." for column in report.few_persons
    ]
    assert all(
        "7000" not in text and "K000" not in text for text in persons_below_k_messages(caught)
    )
    # The ledger keeps it, and a report of the release tells it.
    recorded = database.rows(f"SELECT arguments FROM {database.ledger()}")[0][0]
    arguments = recorded if isinstance(recorded, dict) else json.loads(recorded)
    assert [FewPersons(**column) for column in arguments["few_persons"]] == list(report.few_persons)
    assert [text for label, text in report.rows() if label == "PERSON IDENTIFIER"] == [
        column.describe(K) for column in report.few_persons
    ]


def test_strict_refuses_it_and_publishes_nothing(database: Database) -> None:
    load(database, stays())
    database.make_schema("release")
    error = refuse(database, TooFewPersons, '"patient_id"', **OPTIONS, strict=True)
    assert (error.exit_code, error.code, error.sqlstate) == (6, "too_few_persons", "ZK005")
    assert "entity" in str(error.hint)
    # Where k counts persons, there is nothing to look for.
    report = database.anonymize(**OPTIONS, entity="patient_id", strict=True)
    assert (report.few_persons, report.persons) == ((), 80)


def test_a_number_that_is_a_quasi_identifier(database: Database) -> None:
    """The job that `init` wrote: each class one person."""
    load(database, stays())
    options = {"quasi_identifiers": ["patient_id", "zip"], "k": K}
    with pytest.warns(PersonsBelowK):
        report = database.anonymize(**options)
    assert vars(report.few_persons[0]) == {"name": "patient_id", "share": 1.0}


def test_a_frame_gets_the_same_warnings(duckdb_file: DuckdbDatabase) -> None:
    frame = pd.DataFrame(stays(), columns=list(TYPES))
    frame["born"] = pd.to_datetime(frame["born"])
    with pytest.warns(PersonsBelowK):
        _, report = dbanon.anonymize_frame(frame, **OPTIONS)
    load(duckdb_file, stays())
    with pytest.warns(PersonsBelowK):
        of_file = duckdb_file.anonymize(**OPTIONS)
    assert [column.name for column in report.few_persons] == ["patient_id", "account"]
    assert report.few_persons == of_file.few_persons
    with pytest.raises(TooFewPersons):
        dbanon.anonymize_frame(frame, **OPTIONS, strict=True)
    # A row without a person identifier still belongs to someone: NULLs are not one person.
    frame["patient_id"] = frame["patient_id"].where(frame["patient_id"] < 0)
    frame["account"] = None
    _, report = dbanon.anonymize_frame(frame, **OPTIONS, strict=True)
    assert report.few_persons == ()


def test_in_another_database(
    make_database: Callable[[str], Database], duckdb_file: DuckdbDatabase
) -> None:
    source = make_database("sqlite")
    load(source, stays())
    with pytest.warns(PersonsBelowK):
        report = source.anonymize(**OPTIONS, target=duckdb_file.url, output="release.people")
    assert [column.name for column in report.few_persons] == ["patient_id", "account"]
    with pytest.raises(TooFewPersons):
        source.anonymize(**OPTIONS, target=duckdb_file.url, output="release.two", strict=True)


def test_rows_that_a_condition_chooses(database: Database) -> None:
    """Only the rows that are released count: of one stay each there is nothing to tell."""
    rows = stays()
    first = {row[1]: row for row in reversed(rows)}
    chosen = [(*row[:-1], 1 if first[row[1]] is row else 2) for row in rows]
    load(database, chosen)
    report = database.anonymize(**OPTIONS, where="cost = 1", strict=True)
    assert (report.rows_in, report.few_persons) == (80, ())
    with pytest.warns(PersonsBelowK):
        database.anonymize(**OPTIONS, where="cost > 1 - 1", if_exists="replace")


def test_classes_with_equal_released_values_count_as_one(database: Database) -> None:
    """Readers see five single-person classes with equal values as one class of five."""
    rows = [(5 * p + i, f"p{p}", p // 5) for p in range(25) for i in range(5)]
    kinds = {"n": "integer", "patient": "text", "zip": "integer"}
    database.load("people", {n: database.types[kind] for n, kind in kinds.items()}, rows)
    report = database.anonymize(quasi_identifiers=["zip"], k=K, method="mdav", strict=True)
    assert (report.classes, report.few_persons) == (5, ())
    database.execute(f"UPDATE {database.relation('people')} SET patient = 'p0' WHERE zip = 0")
    with pytest.warns(PersonsBelowK, match="about 20%"):
        database.anonymize(quasi_identifiers=["zip"], k=K, method="mdav", if_exists="replace")


@pytest.mark.parametrize("seed", range(6 if CAMPAIGN else 3))
def test_ordinary_columns_are_no_numbers_of_persons(seed: int, sqlite_file: SqliteDatabase) -> None:
    """A false alarm costs trust: random tables of what tables have, of any names but a person's."""
    rng = Random(seed)
    n = 1_500
    people = [
        (
            f"{rng.randrange(1930, 2015)}-{rng.randrange(1, 13):02}-01",
            rng.choice(("male", "female")),
            rng.randrange(18, 95),
            rng.randrange(10_000, 10_000 + 10 ** rng.randrange(2, 5)),
            rng.choice("ABCDEFG") + f"{rng.randrange(100):02}.{rng.randrange(10)}",
            int(rng.lognormvariate(10, 0.4)),
            rng.randrange(150, 200),
            f"{rng.choice(('Anna', 'Berta', 'Carl', 'Dora', 'Emil'))}{rng.randrange(300)}",
            f"2024-{rng.randrange(1, 13):02}-{rng.randrange(1, 28):02}",
            rng.randrange(n // 2),
            rng.randrange(400),
        )
        for _ in range(n)
    ]
    names = (
        "birth_date",
        "sex",
        "age",
        "zip",
        "diagnosis",
        "income",
        "height",
        "given_name",
        "admitted",
        "invoice_no",
        "ward_id",
    )
    kinds = (
        "DATE",
        "TEXT",
        "INTEGER",
        "INTEGER",
        "TEXT",
        "INTEGER",
        "INTEGER",
        "TEXT",
        "DATE",
        "INTEGER",
        "INTEGER",
    )
    sqlite_file.load("people", dict(zip(names, kinds, strict=True)), people)
    report = sqlite_file.anonymize(quasi_identifiers=["age", "zip"], k=K, strict=True)
    assert report.few_persons == ()
    frame = pd.DataFrame(people, columns=list(names))
    _, of_frame = dbanon.anonymize_frame(frame, quasi_identifiers=["age", "zip"], k=K, strict=True)
    assert of_frame.few_persons == ()


@pytest.mark.parametrize("name", ["code_x", "record_no"])
def test_values_identify_person_columns_with_other_names(name: str, database: Database) -> None:
    """Birth date and sex do not vary within: it identifies persons, whatever it is called."""
    types = {name if n == "patient_id" else n: t for n, t in TYPES.items() if n != "account"}
    rows = [(row[0], row[1], *row[3:]) for row in stays()]
    database.load("people", {n: database.types[kind] for n, kind in types.items()}, rows)
    with pytest.warns(PersonsBelowK, match=f'"{name}"'):
        report = database.anonymize(**OPTIONS)
    assert [column.name for column in report.few_persons] == [name]


def test_advise_counts_persons_and_proposes_their_number_for_nothing(database: Database) -> None:
    load(database, stays())
    advice = dbanon.advise(database.url, "people", k=[3, 5], sample=100_000)
    roles = {column.column.name: column.role for column in advice.columns}
    assert (roles["patient_id"].role, roles["patient_id"].reason) == ("identifier", "person_name")
    assert roles["account"].role == "identifier"
    assert advice.entity == "patient_id"
    assert advice.to_dict()["entity"] == "patient_id"
    assert not {"patient_id", "account"} & {*advice.quasi_identifiers, *advice.start["sensitive"]}
    entity_text = dict(advice.recommended())["entity"]
    assert "k counts its values" in entity_text
    assert "classes of one person each" in entity_text
    # The suggested start counts persons, like all releases that were tried.
    report = dbanon.anonymize(database.url, **advice.start)
    assert (report.entity, report.few_persons) == ("patient_id", ())
    assert report.k_achieved >= advice.recommendation.point.k
    assert report.internal.information_loss == pytest.approx(
        advice.recommendation.point.loss, rel=1e-9
    )


def test_advise_for_a_frame_and_for_named_columns(duckdb_file: DuckdbDatabase) -> None:
    frame = pd.DataFrame(stays(), columns=list(TYPES))
    advice = dbanon.advise(frame, k=[5], sample=100)
    assert (advice.entity, advice.start["entity"]) == ("patient_id", "patient_id")
    # A named entity is final; otherwise another identifier of the same persons is proposed.
    advice = dbanon.advise(frame, quasi_identifiers=["patient_id", "zip"], k=[5], sample=100)
    assert advice.quasi_identifiers == ("patient_id", "zip")
    assert advice.entity == "account"
    # One that is NULL somewhere is no entity, which a run would refuse, and no quasi-identifier.
    frame["account"] = None
    frame["patient_id"] = frame["patient_id"].where(frame["row_no"] > 3)
    advice = dbanon.advise(frame, quasi_identifiers=["born", "zip"], k=[5], sample=100)
    assert advice.entity is None
    assert {column.column.name: column.role.role for column in advice.columns}[
        "patient_id"
    ] == "identifier"


@pytest.mark.filterwarnings("error::dbanon.errors.PersonsBelowK")
def test_init_proposes_the_entity(database: Database, tmp_path: Path, monkeypatch: Any) -> None:
    """Its job runs unchanged: k counts patients, and no patient number is released."""
    monkeypatch.setenv("DBANON_URL", database.url)
    nulls = [(*row[:5], None, row[6]) if row[0] % 40 == 0 else row for row in stays()]
    load(database, nulls)
    file = tmp_path / "job.yaml"
    file.write_text(render_job_file(database.url, "people"))
    text = file.read_text()
    assert "entity: patient_id" in text
    assert "classes of one person each" in " ".join(text.split())
    [nulls_of_job] = re.findall(r"^    nulls: (\w+)$", text, re.M)
    assert "NULLs in quasi-identifiers" in text
    [job] = read_job_file(file).jobs
    assert job.job.entity == "patient_id"
    assert not {"patient_id", "account"} & {*job.job.named_columns}
    report = dbanon.run_job(file)
    assert report is not None
    assert (report.entity, report.arguments["nulls"]) == ("patient_id", nulls_of_job)
    assert report.suppressed <= len(nulls) * job.job.policy.max_suppression
    assert {"patient_id", "account"} <= {*report.not_copied}


def test_init_of_whole_rows_says_nothing_of_nulls(duckdb_file: DuckdbDatabase) -> None:
    duckdb_file.load("people", {"age": "INTEGER"}, [(20 + i % 9,) for i in range(60)])
    text = render_job_file(duckdb_file.url, "people")
    assert "entity:" not in text
    assert "nulls:" not in text


def test_stays_of_a_hospital(duckdb_file: DuckdbDatabase) -> None:
    """German names, a part of the 31,271 stays of 12,000 patients: the patient is what k counts."""
    stays = hospital_stays(rows=6_000, patients=2_300)
    kinds = dict.fromkeys(COLUMNS, "TEXT")
    duckdb_file.load("stays", kinds, stays)
    text = render_job_file(duckdb_file.url, "stays")
    assert "entity: Patienten-Nr" in text
    assert re.search(r'"?Patienten-Nr"?: +\{role: identifier\}', text)
    assert re.search(r'"?Fallnr"?: +\{role: identifier\}', text)
