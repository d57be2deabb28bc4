"""Rows of one person in different classes: k persons in each, and a report of joinable rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import InvalidParameter, TooFewRecords
from dbanon.extensions.spark.refusals import check_job
from dbanon.job.job import Job
from dbanon.job.policy import Policy
from dbanon.sessions.names import quote
from tests.stores.databases import ALL_NAMES, Database
from tests.stores.refusal import refuse

DATABASES = ALL_NAMES

TYPES = {"id": "integer", "who": "text", "age": "integer", "day": "integer", "ill": "text"}
K = 4
OPTIONS: dict[str, Any] = {
    "quasi_identifiers": ["age", "day"],
    "keep": ["id"],
    "k": K,
    "entity": "who",
    "persons": "rows",
}
TITLE = "ROWS OF A PERSON"


def visits(seed: int = 1, persons: int = 40, most: int = 9) -> list[tuple[Any, ...]]:
    """Visits in random order; the age is the person's, the day is the visit's."""
    rng = np.random.default_rng(seed)
    rows = [
        (f"person {person}", age, int(rng.integers(700)), str(rng.choice(["flu", "cold", "gout"])))
        for person, age in enumerate(rng.integers(20, 90, persons).tolist())
        for _ in range(int(rng.integers(1, most + 1)))
    ]
    order = rng.permutation(len(rows))
    return [(number, *rows[at]) for number, at in enumerate(order.tolist())]


def load(database: Database, rows: list[tuple[Any, ...]] | None = None) -> None:
    columns = {name: database.types[kind] for name, kind in TYPES.items()}
    columns["id"] += " PRIMARY KEY"
    database.load("people", columns, visits() if rows is None else rows)


def classes_of(database: Database, columns: str = "age, day") -> list[tuple[Any, str]]:
    """The class and the person of each released row, joined by the kept key."""
    released = database.relation("release.people")
    named = ", ".join(f"r.{quote(name)}" for name in columns.split(", "))
    rows = database.rows(
        f"SELECT p.who, {named} FROM {released} AS r JOIN people AS p ON p.id = r.id"
    )
    return [(tuple(values), str(who)) for who, *values in rows]


def persons_by_class(rows: list[tuple[Any, str]]) -> dict[Any, set[str]]:
    persons: dict[Any, set[str]] = {}
    for released, who in rows:
        persons.setdefault(released, set()).add(who)
    return persons


def below_together(rows: list[tuple[Any, str]], k: int) -> int:
    """Persons whose rows together fewer than k persons share: the rule, in plain Python."""
    members = persons_by_class(rows)
    n_below = 0
    for person in {who for _, who in rows}:
        person_classes = [members[released] for released, who in rows if who == person]
        n_below += len(set.intersection(*person_classes)) < k
    return n_below


@pytest.mark.in_turn(of="file")
@pytest.mark.parametrize("method", ["mdav", "gaa_cp", "full_domain"])
def test_each_class_holds_k_persons_and_less_is_lost(database: Database, method: str) -> None:
    load(database)
    unsplit = database.anonymize(**OPTIONS | {"persons": "whole"}, method=method)
    report = database.anonymize(
        **OPTIONS, method=method, if_exists="replace", releases="independent"
    )
    rows = classes_of(database)
    fewest = min(map(len, persons_by_class(rows).values()))
    assert fewest == report.k_achieved >= K
    assert report.persons == 40
    assert report.classes == len(persons_by_class(rows))
    if method != "full_domain":
        assert report.classes > unsplit.classes
        assert report.information_loss < unsplit.information_loss
    assert "joint_rows" not in unsplit.arguments
    assert "DIFFERENT CLASSES" not in unsplit.guarantee
    counted = report.arguments["joint_rows"]
    assert (counted["k"], counted["persons"], counted["in_all"]) == (K, 40, 40)
    assert counted["below"] == below_together(rows, K)


@pytest.mark.in_turn(of="file")
def test_the_report_says_so_first_and_the_ledger_keeps_it(
    database: Database, tmp_path: Path
) -> None:
    load(database)
    report = database.anonymize(**OPTIONS)
    counted = report.arguments["joint_rows"]
    label, text = report.rows()[0]
    assert label == TITLE
    assert f"The rows of {counted['below']} of 40 persons" in text
    assert f"fewer than k = {K} persons." in text
    assert list(report.to_dict())[:2] == ["person_rows", "joint_rows"]
    assert "ROWS OF ONE PERSON MAY LIE IN DIFFERENT CLASSES" in report.guarantee
    arguments = dbanon.show(database.url, "release.people")["arguments"]
    assert (arguments["person_rows"], arguments["joint_rows"]) == ("rows", counted)
    for ending in ("txt", "html", "json"):
        file = tmp_path / f"report.{ending}"
        done = CliRunner().invoke(main, ["report", database.url, "release.people", "-o", str(file)])
        assert done.exit_code == 0, done.output
        written = file.read_text("utf-8")
        assert (TITLE in written) == (ending != "json")
        assert (f"{counted['below']} of 40" in written) == (ending != "json")
        if ending == "json":
            assert list(json.loads(written))[:2] == ["person_rows", "joint_rows"]
    verification = dbanon.verify(database.url, "release.people")
    assert (verification.k_achieved or 0) >= K
    assert "different classes" in verification.counted
    if database.name != "mariadb":
        again = dbanon.refresh(database.url, "release.people", accept=["independent"])
        assert again.arguments["joint_rows"] == counted


def test_models_count_each_person_once_in_a_class(database: Database) -> None:
    """The attack: a person of a hundred rows with as many values as a model asks for."""
    rows = visits()
    full = [(1000 + i, "person 0", 50, 300 + i % 3, "abc"[i % 3]) for i in range(100)]
    load(database, rows + full)
    models = [dbanon.Model("distinct_l", "ill", 2)]
    report = database.anonymize(**OPTIONS | {"sensitive": ["ill"], "models": models})
    persons = persons_by_class(classes_of(database))
    assert min(map(len, persons.values())) == report.k_achieved >= K
    [model] = report.models
    assert model.achieved >= 2
    assert "counted in persons" in model.model


@pytest.mark.in_turn(of="file")
def test_strata_and_patterns_of_nulls_hold_k_persons(database: Database) -> None:
    rows = [(*r[:3], None if r[0] % 4 == 0 else r[3], r[4]) for r in visits(3, 60)]
    load(database, rows)
    report = database.anonymize(**OPTIONS, by=["ill"], nulls="category", max_suppression=0.5)
    persons = persons_by_class(classes_of(database, "age, day, ill"))
    assert min(map(len, persons.values())) == report.k_achieved >= K
    merged = database.anonymize(
        **OPTIONS, nulls="merge", if_exists="replace", releases="independent"
    )
    persons = persons_by_class(classes_of(database))
    assert min(map(len, persons.values())) == merged.k_achieved >= K


@pytest.mark.in_turn(of="file")
def test_too_few_persons_are_refused(database: Database) -> None:
    load(database, visits(persons=K - 1))
    refuse(database, TooFewRecords, "persons", **OPTIONS)


REFUSED: dict[str, dict[str, Any]] = {
    "no column identifies persons": {"entity": None},
    "sets of columns": {"also_k": [["age"]]},
    "no column may link": {
        "keep": [],
        "pseudonyms": ["id"],
        "pseudonym_key": "env:DBANON_TEST_KEY",
    },
    "entropy_l": {"sensitive": ["ill"], "models": [dbanon.Model("entropy_l", "ill", 2)]},
    "so it cannot be released": {"keep": ["who"]},
    "whole, rows": {"persons": "parts"},
}


@pytest.mark.in_turn(of="file")
@pytest.mark.parametrize("message", REFUSED)
def test_what_needs_whole_persons_is_refused(database: Database, message: str) -> None:
    load(database)
    error = refuse(database, InvalidParameter, "", **OPTIONS | REFUSED[message])
    assert message.lower() in str(error).lower()
    assert "person 1" not in f"{error} {error.hint}"


def test_a_chain_is_refused(sqlite_file: Database) -> None:
    load(sqlite_file)
    chain = dbanon.Chain("months", "env:DBANON_TEST_KEY")
    with pytest.raises(InvalidParameter, match="cannot use persons=rows"):
        sqlite_file.anonymize(**OPTIONS, chain=chain)


def test_clusters_and_private_methods_refuse_it(sqlite_file: Database) -> None:
    load(sqlite_file)
    policy = Policy(k=K, block_size=100)
    job = Job(
        table="people",
        output="o",
        quasi_identifiers=("age",),
        entity="who",
        persons="rows",
        policy=policy,
    )
    with pytest.raises(InvalidParameter, match="Spark does not have persons=rows"):
        check_job(job)
    with pytest.raises(InvalidParameter, match="dp_ranks takes no persons"):
        dbanon.anonymize(
            sqlite_file.url,
            table="people",
            quasi_identifiers=["age"],
            output="o",
            method="dp_ranks",
            epsilon=1.0,
            bounds={"age": [0, 99]},
            persons="rows",
        )


def test_a_person_of_many_rows_does_not_fill_a_class(sqlite_file: Database) -> None:
    """The attack: 100 of 102 rows in one place are one person's."""
    rows = visits()
    frequent_person = [
        (2000 + i, "person 0" if i < 100 else f"other {i}", 50, 300, "flu") for i in range(102)
    ]
    load(sqlite_file, rows + frequent_person)
    report = sqlite_file.anonymize(**OPTIONS)
    persons = persons_by_class(classes_of(sqlite_file))
    assert min(map(len, persons.values())) == report.k_achieved >= K


def test_doors_of_jobs_and_commands(sqlite_file: Database, tmp_path: Path) -> None:
    load(sqlite_file)
    file = tmp_path / "job.yaml"
    job = f"""
version: 1
source: {{url: "{sqlite_file.url}"}}
jobs:
  - name: visits
    table: people
    entity: who
    persons: rows
    k: {K}
    columns:
      id: {{role: keep, reason: a number of the visit}}
      who: {{role: identifier}}
      age: {{role: quasi_identifier}}
      day: {{role: quasi_identifier}}
      ill: {{role: drop}}
    output: {{table: release.people}}
"""
    file.write_text(job)
    done = CliRunner().invoke(main, ["run", str(file)])
    assert done.exit_code == 0, done.output
    assert "Rows of one person may lie in different classes" in done.stderr
    counted = dbanon.show(sqlite_file.url, "release.people")["arguments"]["joint_rows"]
    command = [
        sqlite_file.url,
        "--table",
        "people",
        "-q",
        "age,day",
        "--keep",
        "id",
        "--k",
        str(K),
        "--entity",
        "who",
        "--persons",
        "rows",
    ]
    other = [*command, "--output", "release.other", "--releases", "independent"]
    plan = CliRunner().invoke(main, ["plan", *other, "--cluster"])
    assert plan.exit_code == 0, plan.output
    assert "ROWS OF ONE PERSON MAY LIE IN DIFFERENT CLASSES" in " ".join(plan.output.split())
    done = CliRunner().invoke(main, ["anonymize", *other, "--format", "json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["joint_rows"] == counted
    file.write_text(job.replace("    entity: who\n", ""))
    refused = CliRunner().invoke(main, ["run", str(file)])
    assert refused.exit_code == 2
    assert "identifies persons" in refused.output


def test_frames_do_the_same(sqlite_file: Database) -> None:
    load(sqlite_file)
    of_table = sqlite_file.anonymize(**OPTIONS)
    frame = [dict(zip(TYPES, row, strict=True)) for row in visits()]
    released, report = dbanon.anonymize_frame(frame, **OPTIONS)
    assert report.arguments["joint_rows"] == of_table.arguments["joint_rows"]
    assert report.information_loss == of_table.information_loss
    assert report.k_achieved == of_table.k_achieved
    rows = [
        ((row["age"], row["day"]), frame[row["id"]]["who"])
        for row in (released if isinstance(released, list) else released.to_dict("records"))
    ]
    assert min(map(len, persons_by_class(rows).values())) == report.k_achieved
    assert report.arguments["joint_rows"]["below"] == below_together(rows, K)


@pytest.mark.in_turn(of="file")
def test_releases_after_it_measure_the_joint_histories(database: Database) -> None:
    """The record of persons takes a person who is in several classes."""
    load(database)
    database.anonymize(**OPTIONS)
    report = database.anonymize(
        **OPTIONS | {"persons": "whole"}, output="release.second", releases="independent"
    )
    histories = report.arguments["joint_histories"]
    assert (histories["releases"], histories["persons"]) == (2, 40)


def test_releases_of_rows_before_it_have_no_joint_histories(sqlite_file: Database) -> None:
    load(sqlite_file)
    sqlite_file.anonymize(quasi_identifiers=["age"], output="release.of_rows")
    report = sqlite_file.anonymize(**OPTIONS, releases="independent")
    assert "joint_histories" not in report.arguments
    assert report.earlier_releases.endswith("dbanon chain measure counts them together")


def test_arguments_are_json(sqlite_file: Database) -> None:
    load(sqlite_file)
    report = sqlite_file.anonymize(**OPTIONS)
    [(arguments,)] = sqlite_file.rows(f"SELECT arguments FROM {sqlite_file.ledger()}")
    recorded = json.loads(arguments)
    assert recorded["person_rows"] == "rows"
    assert recorded["joint_rows"] == report.arguments["joint_rows"]


def test_advice_has_the_loss_of_both_for_tables_of_events(sqlite_file: Database) -> None:
    """An option beside the release that is proposed, which keeps persons whole."""
    rows = [(row[0], int(row[1].split()[1]), *row[2:]) for row in visits(persons=60)]
    columns = {name: sqlite_file.types[kind] for name, kind in TYPES.items()}
    columns["who"] = sqlite_file.types["integer"]
    columns["id"] += " PRIMARY KEY"
    columns = {"patient_id" if name == "who" else name: kind for name, kind in columns.items()}
    sqlite_file.load("people", columns, rows)
    options = {"quasi_identifiers": ["age", "day"], "k": [K], "methods": ["mdav", "mondrian"]}
    advice = dbanon.advise(sqlite_file.url, "people", **options)
    assert advice.entity == "patient_id"
    assert advice.recommendation is not None
    assert advice.parted_loss is not None
    assert advice.parted_loss < advice.recommendation.point.loss
    assert "persons" not in advice.start
    [text] = [text for label, text in advice.recommended() if label == "persons"]
    assert f"{advice.parted_loss:.4g}" in text
    assert f"{advice.recommendation.point.loss:.4g}" in text
    assert advice.to_dict()["parted_loss"] == advice.parted_loss
    # A row a person: there is nothing to part.
    sqlite_file.load("singles", columns, [(row[0], row[0] + 7, *row[2:]) for row in rows])
    single_rows = dbanon.advise(sqlite_file.url, "singles", **options)
    assert single_rows.parted_loss is None
    assert "parted_loss" not in single_rows.to_dict()
