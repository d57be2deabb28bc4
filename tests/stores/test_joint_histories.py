"""Joint histories reported by a second release, from the ledger's own record of persons."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.doors.html.page import render_page
from dbanon.errors import InvalidParameter
from dbanon.ledger import person_record
from dbanon.ledger.person_record import PERSON_DTYPE, count_joint_histories_of_records
from dbanon.run.inspect_release import inspect_release
from dbanon.run.open import open_store
from dbanon.sessions.names import parse_relation
from tests.stores.chain_cases import Months
from tests.stores.databases import (
    ALL_NAMES,
    Database,
    DuckdbDatabase,
    PostgresqlDatabase,
    make_ledger_older,
)
from tests.stores.people import load_people

DATABASES = ALL_NAMES

K = 3
OPTIONS: dict[str, Any] = {
    "quasi_identifiers": ["age", "income"],
    "k": K,
    "nulls": "category",
    "entity": "id",
    "keep": ["who"],
    "releases": "independent",
}
RELEASES = ["release.first", "release.second", "release.third"]


def load(database: Database, months: Months) -> None:
    """The rows of a month, with a copy of who it is that readers get."""
    kinds = {"id": "integer", "who": "integer", "age": "integer", "income": "integer"}
    rows = [(person, person, values[0], values[1]) for person, values in months.now.items()]
    if any(name == "people" for _, name in database.relations()):
        database.execute("DROP TABLE people")
    database.load("people", {name: database.types[kind] for name, kind in kinds.items()}, rows)


def publish(database: Database) -> tuple[list[Any], list[dict[int, Any]]]:
    """Releases of three months, with the class of each person as these show it."""
    months, reports, classes = Months(seed=4, n=40), [], []
    for name in RELEASES:
        load(database, months)
        reports.append(database.anonymize(**OPTIONS, output=name))
        rows = database.rows(f"SELECT who, age, income FROM {database.relation(name)}")
        classes.append({person: tuple(class_values) for person, *class_values in rows})
        months.pass_on()
    return reports, classes


def plainly(classes: list[dict[int, Any]], k: int) -> tuple[int, int, int]:
    """Persons, those below k, and those alone, by a dictionary."""
    persons = {person for release in classes for person in release}
    histories = {person: tuple(release.get(person) for release in classes) for person in persons}
    sizes = Counter(histories.values())
    history_sizes = [sizes[history] for history in histories.values()]
    return len(history_sizes), sum(size < k for size in history_sizes), history_sizes.count(1)


@pytest.mark.in_turn(of="file")
@pytest.mark.filterwarnings("ignore::dbanon.errors.KeptColumnTells")
@pytest.mark.filterwarnings("ignore::dbanon.errors.KeptColumnLinks")
def test_the_report_says_what_the_releases_expose(database: Database) -> None:
    reports, classes = publish(database)
    assert "joint_histories" not in reports[0].to_dict()
    for count in (2, 3):
        report, expected = reports[count - 1], plainly(classes[:count], K)
        # The first key of JSON, and the first line of text.
        assert next(iter(report.to_dict())) == "joint_histories"
        exposure = report.to_dict()["joint_histories"]
        assert (exposure["persons"], exposure["below"], exposure["alone"]) == expected
        assert (exposure["releases"], exposure["k"]) == (count, K)
        assert exposure["share"] == expected[1] / expected[0]
        assert "not_measured" not in exposure
        label, text = report.rows()[0]
        assert label == "JOINT HISTORIES"
        assert f"{expected[1]} of {expected[0]} persons ({exposure['share']:.1%})" in text
        again = inspect_release(open_store(database.url), parse_relation(RELEASES[count - 1]))
        assert again.record.report.rows()[0] == (label, text)
        first = render_page(report).partition('class="guarantee"')[2][:1000]
        assert f"<strong>JOINT HISTORIES</strong> {expected[1]} of {expected[0]} persons" in first
    assert expected[1] > expected[0] / 2
    measured = dbanon.measure_releases(database.url, RELEASES)
    earlier = [(history.persons, history.below, history.alone) for history in measured.known]
    assert earlier == [plainly(classes[: count + 1], K) for count in range(3)]
    assert (measured.entity, measured.k) == ("id", K)
    # Some of them, in whatever order.
    pair = dbanon.measure_releases(database.url, [RELEASES[2], RELEASES[0]], k=5).known[-1]
    assert (pair.persons, pair.below, pair.alone) == plainly([classes[2], classes[0]], 5)
    words = ["chain", "measure", database.url, *RELEASES, "--format", "json"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == json.loads(json.dumps(measured.to_dict()))
    # One alone with all before it, replaced or not.
    assert dbanon.measure_releases(database.url, [RELEASES[1]]).known == measured.known[:2]
    ids = [report.release_id for report in reports]
    assert dbanon.measure_releases(database.url, ids).known == measured.known


def said_by(report: Any) -> dict[str, Any]:
    exposure: dict[str, Any] = report.to_dict()["joint_histories"]
    return exposure


def test_persons_of_several_rows_have_all_of_their_classes() -> None:
    """Counted by sums of random numbers, and by sets."""
    rng = np.random.default_rng(7)
    records, classes = [], []
    for _ in range(4):
        pairs = {(int(p), int(c)) for p, c in rng.integers(0, (60, 6), (70, 2))}
        records.append(np.array(sorted(pairs), PERSON_DTYPE))
        classes_by_person: dict[int, Any] = {}
        for person, number in pairs:
            classes_by_person[person] = classes_by_person.get(person, frozenset()) | {number}
        classes.append(classes_by_person)
    expected = [plainly(classes[: count + 1], K) for count in range(4)]
    assert count_joint_histories_of_records(records, K) == expected
    assert count_joint_histories_of_records(records, K, after_each_release=False) == expected[-1:]


def test_what_has_no_record_is_named(database: Database) -> None:
    """Releases of earlier versions are not measured, and later ones are."""
    load_people(database)
    options = OPTIONS | {"keep": []}
    database.anonymize(**options, output="release.old")
    if database.name == "mariadb":
        # Version 0.1.0 knew no such server.
        release = database.ledger()
        database.execute(
            f"DROP TABLE {database.ledger('release_person')}",
            f"ALTER TABLE {release} DROP source_oid, DROP source_owner_oid, DROP person_salt",
        )
    else:
        make_ledger_older(database)
    report = database.anonymize(**options, output="release.new")
    exposure = said_by(report)
    assert "share" not in exposure
    assert re.match(r"release[._]old, made before dbanon kept", exposure["not_measured"])
    label, text = report.rows()[0]
    assert label == "JOINT HISTORIES"
    assert text.startswith("not measured: ")
    assert "docs/chains.md" in text
    exposure = said_by(database.anonymize(**options, output="release.newer"))
    assert (exposure["earlier"], exposure["releases"], exposure["persons"]) == (2, 2, 40)
    assert "made before" in exposure["not_measured"]
    with pytest.raises(
        InvalidParameter, match=r"no record of the persons of release\.old"
    ) as refused:
        dbanon.measure_releases(database.url, ["release.old", "release.new"])
    assert "column of the person" in str(refused.value.hint)
    dbanon.measure_releases(database.url, ["release.new", "release.newer"])
    with pytest.raises(InvalidParameter, match="no sensitive values"):
        dbanon.measure_releases(
            database.url, ["release.new", "release.newer"], sensitive=["diagnosis"]
        )


def test_a_source_elsewhere_is_not_measured(
    make_database: Any, duckdb_file: DuckdbDatabase
) -> None:
    source = make_database("sqlite")
    load_people(source)
    options = OPTIONS | {"keep": [], "target": duckdb_file.url}
    source.anonymize(**options, output="release.first")
    report = source.anonymize(**options, output="release.second")
    assert "are in different databases" in said_by(report)["not_measured"]
    assert "Load the rows into the database of the release" in report.rows()[0][1]
    # The command cannot count them either.
    assert report.earlier_releases.endswith("the ledger has 1 of the same source")
    assert duckdb_file.rows("SELECT count(*) FROM dbanon.release_person") == [(0,)]


@pytest.mark.in_turn(of="file")
def test_a_report_counts_so_many_and_the_command_all(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(person_record, "MAX_COUNTED_RELEASES", 2)
    load_people(database)
    options = OPTIONS | {"keep": [], "if_exists": "replace", "output": "release.people"}
    for number in range(5):
        exposure = database.anonymize(**options).to_dict().get("joint_histories", {})
        assert exposure.get("releases", 1) == min(number + 1, 3)
        assert (
            exposure.get("not_measured", "").partition(" older")[0]
            == ["", "", "", "1", "2"][number]
        )
    assert len(dbanon.measure_releases(database.url, ["release.people"]).known) == 5


@pytest.mark.in_turn(of="file")
def test_rows_without_an_entity_have_no_record(database: Database) -> None:
    load_people(database)
    database.anonymize(quasi_identifiers=["age", "income"], k=5)
    assert database.rows(f"SELECT count(*) FROM {database.ledger('release_person')}") == [(0,)]


@pytest.mark.in_turn(of="file")
def test_spellings_that_are_one_person_have_a_salt_of_their_own(database: Database) -> None:
    types = {"id": database.types["text"], "age": database.types["integer"]}
    database.load("people", types, [(f"p{n}", n * 7 % 50) for n in range(40)])
    options = OPTIONS | {"quasi_identifiers": ["age"], "keep": []}
    for number in range(2):
        database.anonymize(**options, output=f"release.exact{number}")
    database.execute("UPDATE people SET id = 'P7' WHERE id = 'p7'")
    options["entity_normalize"] = "casefold"
    assert "share" not in said_by(database.anonymize(**options, output="release.folded"))
    database.execute("UPDATE people SET id = 'p7' WHERE id = 'P7'")
    exposure = said_by(database.anonymize(**options, output="release.again"))
    assert (exposure["earlier"], exposure["releases"], exposure["persons"]) == (3, 2, 40)


@pytest.mark.postgresql
def test_default_privileges_give_nobody_the_record(postgresql: PostgresqlDatabase) -> None:
    postgresql.execute(
        "DO $$ BEGIN CREATE ROLE joint_reader; EXCEPTION WHEN duplicate_object THEN NULL; END $$",
        "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO joint_reader",
    )
    load_people(postgresql)
    options = OPTIONS | {"keep": []}
    postgresql.anonymize(**options, output="release.old")
    query = "SELECT has_table_privilege('joint_reader', 'dbanon.release_person', 'SELECT')"
    assert postgresql.rows(query) == [(False,)]
    make_ledger_older(postgresql)
    postgresql.anonymize(**options, output="release.new")
    assert postgresql.rows(query) == [(False,)]
    postgresql.execute("DROP OWNED BY joint_reader", "DROP ROLE joint_reader")
