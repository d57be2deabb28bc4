"""Spellings of one person: a warning in every store, and equal with normalization."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import (
    EntitySpellings,
    EntitySpellingsRefused,
    InvalidParameter,
    TooFewRecords,
)
from dbanon.job.chain import Chain
from dbanon.release.attribute_disclosure import PersonSpellings
from tests.stores.databases import ALL_NAMES, Database
from tests.stores.refusal import refuse

DATABASES = ALL_NAMES
K = 5
TYPES = {"visit": "integer", "patient": "text", "age": "integer"}
OPTIONS: dict[str, Any] = {
    "quasi_identifiers": ["age"],
    "k": K,
    "entity": "patient",
    "releases": "independent",
}
EXPECTED = PersonSpellings("patient", 0.8)


def visits(patients: int = 20) -> list[tuple[Any, ...]]:
    """Five visits of each patient, whose number is written in five ways; all of one age."""
    spelled = ("P{:05}", "P{:05} ", "p{:05}", "P{:05}\t", " \r\np{:05}")
    return [
        (5 * patient + at, text.format(patient), 20 + patient)
        for patient in range(patients)
        for at, text in enumerate(spelled)
    ]


def load(database: Database, rows: list[tuple[Any, ...]]) -> None:
    database.load("people", {n: database.types[kind] for n, kind in TYPES.items()}, rows)


def fewest_patients(database: Database, output: str = "release.people") -> int:
    """The smallest number of patients in a class, by the rows that were released."""
    patients = {visit: patient.strip().lower() for visit, patient, _ in visits()}
    classes: dict[Any, set[str]] = {}
    for age, visit in database.rows(f"SELECT age, visit FROM {database.relation(output)}"):
        classes.setdefault(age, set()).add(patients[visit])
    return min(map(len, classes.values()))


@pytest.mark.in_turn(of="file")
def test_spellings_are_warned_of(database: Database) -> None:
    load(database, visits())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report = database.anonymize(**OPTIONS, keep=["visit"])
    messages = [str(warning.message) for warning in caught if warning.category is EntitySpellings]
    assert messages == [f"Column {EXPECTED.describe(K)}."]
    assert "P000" not in messages[0]
    # The warning is justified: one person was counted as five.
    assert fewest_patients(database) == 1
    assert report.few_persons == (EXPECTED,)
    assert [text for label, text in report.rows() if label == "PERSON IDENTIFIER"] == [
        EXPECTED.describe(K)
    ]
    [(recorded,)] = database.rows(f"SELECT arguments FROM {database.ledger()}")
    arguments = recorded if isinstance(recorded, dict) else json.loads(recorded)
    assert arguments["entity_spellings"] == [vars(EXPECTED)]
    assert "few_persons" not in arguments


@pytest.mark.in_turn(of="file")
def test_strict_refuses_them(database: Database) -> None:
    load(database, visits())
    database.make_schema("release")
    error = refuse(database, EntitySpellingsRefused, '"patient"', **OPTIONS, strict=True)
    assert (error.exit_code, error.code) == (6, "entity_spellings")
    assert "casefold" in str(error.hint)


@pytest.mark.filterwarnings("error::dbanon.errors.EntitySpellings")
def test_casefold_counts_patients(database: Database) -> None:
    load(database, visits())
    report = database.anonymize(**OPTIONS, keep=["visit"], entity_normalize="casefold")
    assert (report.persons, report.few_persons) == (20, ())
    assert report.k_achieved == fewest_patients(database) >= K
    assert report.arguments["entity_normalize"] == "casefold"
    # Made again of its entry, it counts in the same way.
    if database.name != "mariadb":
        assert dbanon.refresh(database.url, "release.people").persons == 20
    # Four patients cannot form a class of five.
    database.execute(f"DELETE FROM {database.relation('people')} WHERE age > 23")
    with pytest.raises(TooFewRecords):
        database.anonymize(**OPTIONS, entity_normalize="casefold", output="release.few")


def test_trim_leaves_capitals(database: Database) -> None:
    load(database, visits())
    with pytest.warns(EntitySpellings, match="about 50% of its values"):
        report = database.anonymize(**OPTIONS, entity_normalize="trim")
    assert report.persons == 40
    assert report.few_persons == (PersonSpellings("patient", 0.5),)


@pytest.mark.in_turn(of="file")
@pytest.mark.filterwarnings("error::dbanon.errors.EntitySpellings")
def test_one_spelling_each_says_nothing(database: Database) -> None:
    load(database, [(visit, f"P{visit:05}", age) for visit, _, age in visits()])
    for normalize in (None, "trim", "casefold"):
        report = database.anonymize(
            **OPTIONS, entity_normalize=normalize, output=f"release.{normalize or 'none'}"
        )
        assert report.persons == 100


@pytest.mark.in_turn(of="file")
@pytest.mark.filterwarnings("error::dbanon.errors.EntitySpellings")
def test_numbers_are_compared_as_they_are(database: Database) -> None:
    types = TYPES | {"patient": "integer"}
    rows = [(visit, visit // 5, age) for visit, _, age in visits()]
    database.load("people", {n: database.types[kind] for n, kind in types.items()}, rows)
    assert database.anonymize(**OPTIONS, entity_normalize="casefold").persons == 20


@pytest.mark.in_turn(of="file")
@pytest.mark.filterwarnings("error::dbanon.errors.EntitySpellings")
def test_with_strata_sensitive_values_and_nulls(database: Database) -> None:
    """All that counts persons counts them by the same spelling."""
    kinds = TYPES | {"ward": "text", "ill": "text"}
    types = {n: database.types[kind] for n, kind in kinds.items()}
    rows = [
        (
            visit,
            patient,
            None if age % 10 == 3 and visit % 5 == 0 else age,
            f"w{age % 2}",
            f"ill {age % 4}",
        )
        for visit, patient, age in visits(60)
    ]
    database.load("people", types, rows)
    report = database.anonymize(
        **OPTIONS,
        by=["ward"],
        sensitive=["ill"],
        method="gaa_cp",
        nulls="suppress",
        max_suppression=0.5,
        models=[dbanon.Model("distinct_l", "ill", 2)],
        entity_normalize="casefold",
    )
    assert report.persons == 60
    assert report.k_achieved >= K


def test_frames_compare_spellings_like_databases() -> None:
    frame = pd.DataFrame(visits(), columns=list(TYPES))
    options = {name: value for name, value in OPTIONS.items() if name != "releases"}
    with pytest.warns(EntitySpellings):
        _, report = dbanon.anonymize_frame(frame, **options)
    assert report.few_persons == (EXPECTED,)
    _, report = dbanon.anonymize_frame(frame, **options, entity_normalize="casefold", strict=True)
    assert report.persons == 20
    with pytest.raises(EntitySpellingsRefused):
        dbanon.anonymize_frame(frame, **options, entity_normalize="trim", strict=True)


@pytest.mark.parametrize("target", ["sqlite", "duckdb"])
def test_in_another_database(
    sqlite_file: Database, duckdb_file: Database, make_database: Any, target: str
) -> None:
    source, other = sqlite_file, duckdb_file
    if target == "sqlite":
        source, other = duckdb_file, sqlite_file
    load(source, visits())
    report = source.anonymize(
        **OPTIONS,
        target=other.url,
        entity_normalize="casefold",
        output="people2" if target == "sqlite" else "release.p",
    )
    assert report.persons == 20


@pytest.mark.in_turn(of="file")
def test_the_command_a_job_and_rules(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DBANON_URL", database.url)
    load(database, visits())
    line = [
        "anonymize",
        database.url,
        "--table",
        "people",
        "--output",
        "release.people",
        "--k",
        str(K),
        "-q",
        "age",
        "--entity",
        "patient",
        "--releases",
        "independent",
    ]
    done = CliRunner().invoke(main, line)
    assert done.exit_code == 0, done.output
    assert f"Warning: column {EXPECTED.describe(K)}." in done.stderr
    done = CliRunner().invoke(
        main, [*line, "--entity-normalize", "casefold", "--strict", "--if-exists", "replace"]
    )
    assert done.exit_code == 0, done.output
    file = tmp_path / "job.yaml"
    text = (
        "version: 1\nsource: {url: '${DBANON_URL}'}\ndefaults:\n"
        "  {k: 5, strict: true, releases: independent}\njobs:\n"
        "  - name: one\n    table: people\n    entity: {column: patient, normalize: NORMALIZE}\n"
        "    columns:\n      age: {role: quasi_identifier}\n      patient: {role: identifier}\n"
        "      visit: {role: drop}\n    output: {table: release.by_job}\n"
    )
    file.write_text(text.replace("NORMALIZE", "casefold"))
    report = dbanon.run_job(file)
    assert report is not None
    assert report.persons == 20
    file.write_text(text.replace("NORMALIZE", "spell"))
    done = CliRunner().invoke(main, ["check", str(file)])
    assert done.exit_code == 2
    assert "normalize" in done.stderr
    if database.name != "mariadb":
        rules = {
            "age": "quasi_identifier",
            "visit": "drop",
            "patient": {"role": "entity", "normalize": "casefold"},
        }
        dbanon.declare(database.url, "people", rules)
        report = dbanon.anonymize(
            database.url,
            table="people",
            output="release.by_rules",
            k=K,
            declared=True,
            strict=True,
            releases="independent",
        )
        assert report.persons == 20


def test_what_has_no_spelling_is_refused(sqlite_file: Database) -> None:
    load(sqlite_file, visits())
    with pytest.raises(InvalidParameter, match="needs an entity"):
        sqlite_file.anonymize(**OPTIONS | {"entity": None}, entity_normalize="trim")
    with pytest.raises(InvalidParameter, match="trim, casefold"):
        sqlite_file.anonymize(**OPTIONS, entity_normalize="upper")
    with pytest.raises(InvalidParameter, match="A chain follows persons"):
        sqlite_file.anonymize(
            **OPTIONS | {"releases": None}, entity_normalize="trim", chain=Chain("c", "env:KEY")
        )


def test_a_chain_says_it(sqlite_file: Database, tmp_path: Path) -> None:
    rows = [(n, f"{'pP'[n % 2]}{n // 2:04}", 20 + n % 7) for n in range(60)]
    types = {n: sqlite_file.types[kind] for n, kind in TYPES.items()}
    sqlite_file.load("people", types | {"patient": f"{types['patient']} PRIMARY KEY"}, rows)
    key = tmp_path / "key"
    dbanon.create_chain(
        sqlite_file.url, "c", table="people", entity="patient", changes="show", key_out=key
    )
    options = OPTIONS | {
        "k": 3,
        "releases": None,
        "chain": Chain("c", f"file:{key}"),
        "key": ["visit"],
    }
    with pytest.warns(EntitySpellings, match="about 50% of its values"):
        report = sqlite_file.anonymize(**options)
    assert report.few_persons == (PersonSpellings("patient", 0.5),)


def in_capitals_or_not(database: Database) -> None:
    """Persons of a column that takes capitals and small letters for equal."""
    types = {n: database.types[kind] for n, kind in TYPES.items()}
    rows = [(n, f"{'pP'[n % 2]}{n // 2:04}", 20 + n // 10) for n in range(60)]
    database.load("people", types | {"patient": f"{types['patient']} COLLATE NOCASE"}, rows)
    assert database.anonymize(**OPTIONS).persons == 30
    report = database.anonymize(**OPTIONS, entity_normalize="casefold", output="release.folded")
    assert report.persons == 30


def test_a_collation_is_not_undone(sqlite_file: Database) -> None:
    """``trim`` would compare bytes there, and count one person as two."""
    in_capitals_or_not(sqlite_file)
    with pytest.raises(InvalidParameter, match="considers values"):
        sqlite_file.anonymize(**OPTIONS, entity_normalize="trim", output="release.trimmed")


def test_a_collation_that_stays(duckdb_file: Database) -> None:
    in_capitals_or_not(duckdb_file)
    report = duckdb_file.anonymize(**OPTIONS, entity_normalize="trim", output="release.trimmed")
    assert report.persons == 30


@pytest.mark.parametrize("kind", ["UUID", "ENUM ('a', ' a', 'A', 'b', 'c', 'd', 'e', 'f')"])
@pytest.mark.parametrize("normalize", [None, "casefold"])
def test_types_of_duckdb_that_are_no_text(
    duckdb_file: Database, kind: str, normalize: str | None
) -> None:
    persons = ["a", " a", "A", "b", "c", "d", "e", "f"]
    if kind == "UUID":
        persons = [f"00000000-0000-4000-8000-00000000000{at}" for at in range(8)]
    rows = [(at, persons[at % 8], 20 + at % 3) for at in range(80)]
    duckdb_file.load("people", {"visit": "integer", "patient": kind, "age": "integer"}, rows)
    more = {} if normalize is None else {"entity_normalize": normalize}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report = duckdb_file.anonymize(**OPTIONS, **more)
    spellings = kind != "UUID"
    assert report.persons == (6 if spellings and normalize else 8)
    warned = any(warning.category is EntitySpellings for warning in caught)
    assert warned == (spellings and normalize is None)
