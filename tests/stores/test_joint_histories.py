"""What a second release says of joint histories, by the ledger's own record of persons."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.run.inspect_release import look
from dbanon.run.open import open_store
from dbanon.sessions.names import parse_relation
from tests.stores.chain_cases import Months
from tests.stores.databases import ALL_NAMES, Database

DATABASES = ALL_NAMES

K = 3
GIVEN: dict[str, Any] = {
    "quasi_identifiers": ["age", "income"], "k": K, "nulls": "category", "entity": "id",
    "keep": ["who"], "releases": "independent",
}  # fmt: skip
RELEASES = ["release.first", "release.second", "release.third"]


def load(database: Database, months: Months) -> None:
    """The rows of a month, with a copy of who it is that readers get."""
    kinds = {"id": "integer", "who": "integer", "age": "integer", "income": "integer"}
    rows = [(one, one, values[0], values[1]) for one, values in months.now.items()]
    if any(name == "people" for _, name in database.relations()):
        database.execute("DROP TABLE people")
    database.load("people", {name: database.types[kind] for name, kind in kinds.items()}, rows)


def publish(database: Database) -> tuple[list[Any], list[dict[int, Any]]]:
    """Releases of three months, with the class of each person as these show it."""
    months, reports, classes = Months(seed=4, n=40), [], []
    for name in RELEASES:
        load(database, months)
        reports.append(database.anonymize(**GIVEN, output=name))
        rows = database.rows(f"SELECT who, age, income FROM {database.relation(name)}")
        classes.append({person: tuple(shown) for person, *shown in rows})
        months.pass_on()
    return reports, classes


def plainly(classes: list[dict[int, Any]], k: int) -> tuple[int, int, int]:
    """Persons, those below k, and those alone, by a dictionary."""
    persons = {person for one in classes for person in one}
    histories = {person: tuple(one.get(person) for one in classes) for person in persons}
    sizes = Counter(histories.values())
    own = [sizes[history] for history in histories.values()]
    return len(own), sum(size < k for size in own), own.count(1)


@pytest.mark.filterwarnings("ignore::dbanon.errors.KeptColumnTells")
@pytest.mark.filterwarnings("ignore::dbanon.errors.KeptColumnLinks")
def test_the_report_says_what_the_releases_expose(database: Database) -> None:
    reports, classes = publish(database)
    assert "joint_histories" not in reports[0].to_dict()
    for count in (2, 3):
        report, expected = reports[count - 1], plainly(classes[:count], K)
        # The first key of JSON, and the first line of text.
        assert next(iter(report.to_dict())) == "joint_histories"
        said = report.to_dict()["joint_histories"]
        assert (said["persons"], said["below"], said["alone"]) == expected
        assert (said["releases"], said["k"]) == (count, K)
        assert said["share"] == expected[1] / expected[0]
        assert "not_measured" not in said
        label, text = report.rows()[0]
        assert label == "JOINT HISTORIES"
        assert f"{expected[1]} of {expected[0]} persons ({said['share']:.1%})" in text
        again = look(open_store(database.url), parse_relation(RELEASES[count - 1]))
        assert again.recorded.report.rows()[0] == (label, text)
    assert expected[1] > expected[0] / 2
    measured = dbanon.measure_releases(database.url, RELEASES)
    known = [(one.persons, one.below, one.alone) for one in measured.known]
    assert known == [plainly(classes[: count + 1], K) for count in range(3)]
    assert (measured.entity, measured.k) == ("id", K)
    # Some of them, in whatever order.
    pair = dbanon.measure_releases(database.url, [RELEASES[2], RELEASES[0]], k=5).known[-1]
    assert (pair.persons, pair.below, pair.alone) == plainly([classes[2], classes[0]], 5)
    words = ["chain", "measure", database.url, *RELEASES, "--format", "json"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == json.loads(json.dumps(measured.to_dict()))
