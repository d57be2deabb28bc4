"""The report of a release again, from what its database has of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import dbanon
from dbanon.doors.cli.main import main
from dbanon.run.inspect_release import ReleaseInspection, inspect_release
from dbanon.run.open import open_store
from dbanon.sessions.names import parse_relation
from tests.stores.databases import Database
from tests.stores.people import QUASI_IDENTIFIERS, load_people, rows_of_people

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")

# Measured and reported after the release was recorded.
LATER = {"seconds"}


def counted_columns(database: Database, output: str = "release.people") -> ReleaseInspection:
    return inspect_release(open_store(database.url), parse_relation(output))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments), env={"COLUMNS": "200"})


def people(n: int = 120) -> list[tuple[Any, ...]]:
    """Four sites; one person has values far from all others."""
    rows = [(*row[:7], f"site {i % 4}") for i, row in enumerate(rows_of_people(n))]
    rows[7] = (*rows[7][:2], 987, *rows[7][3:7], "zyxomma petiolatum")
    return rows


def test_the_report_of_the_run_can_be_repeated(database: Database) -> None:
    load_people(database, people())
    report = database.anonymize(
        quasi_identifiers=list(QUASI_IDENTIFIERS),
        k=4,
        sensitive=["site"],
        models=[dbanon.Model("distinct_l", "site", 2)],
        evaluate=True,
    )
    again = counted_columns(database).record
    repeated, was = again.report.to_dict(), report.to_dict()
    assert was["evaluation"] is not None
    assert {name: repeated[name] for name in repeated if name not in LATER} == {
        name: was[name] for name in was if name not in LATER
    }
    assert repeated["seconds"].keys() == was["seconds"].keys() - {"total"}
    assert again.superseded_at is None
    assert [(c.name, c.role) for c in again.columns if c.role != "quasi_identifier"] == [
        ("site", "sensitive"),
        ("id", "not_copied"),
        ("name", "not_copied"),
    ]


def test_a_report_in_persons_can_be_repeated(database: Database) -> None:
    """Persons of two rows, classes of whole persons, and a model that counts them."""
    rows = [(*row[:1], f"person {i // 2}", *row[2:]) for i, row in enumerate(people())]
    load_people(database, rows)
    report = database.anonymize(
        quasi_identifiers=["age", "height"],
        entity="name",
        k=4,
        sensitive=["site"],
        method="gaa_cp",
        models=[dbanon.Model("distinct_l", "site", 2)],
        evaluate=True,
    )
    again = counted_columns(database).record.report
    repeated, was = again.to_dict(), report.to_dict()
    assert was["persons"] == 60
    assert was["k_achieved"] < was["smallest_class"]
    assert [level["model"] for level in was["models"]] == [level.model for level in again.models]
    assert {name: repeated[name] for name in repeated if name not in LATER} == {
        name: was[name] for name in was if name not in LATER
    }
    assert again.counts.verdict == report.counts.verdict


def test_reports_of_other_guarantees_can_be_repeated(database: Database) -> None:
    load_people(database, people())
    persons = database.anonymize(quasi_identifiers=["age"], entity="name", output="persons")
    again = counted_columns(database, "persons").record.report
    assert (again.persons, again.entity, again.k_achieved) == (
        persons.persons,
        "name",
        persons.k_achieved,
    )
    with pytest.warns(dbanon.errors.RowsNotAnonymous):
        in_frame = database.anonymize(
            quasi_identifiers=["age", "height"],
            output="alone",
            method="individual_ranking",
            guarantee="per_attribute",
        )
    again = counted_columns(database, "alone").record.report
    assert (again.k_rows, again.cautions) == (in_frame.k_rows, in_frame.cautions)


def test_a_release_that_was_replaced_is_the_new_one(database: Database) -> None:
    load_people(database, people())
    database.anonymize(quasi_identifiers=["age"], output_kind="view")
    new = database.anonymize(quasi_identifiers=["age"], output_kind="view", if_exists="replace")
    again = counted_columns(database).record
    assert again.report.release_id == new.release_id
    assert again.report.relation == new.relation


def test_bins_are_the_same_everywhere(database: Database) -> None:
    """Columns of all kinds, drawn by their released values; no database has other bins."""
    load_people(database, people())
    database.anonymize(
        quasi_identifiers=["age", "income", "height", "born", "seen"], k=4, sensitive=["site"]
    )
    distributions = {
        distribution.name: distribution for distribution in counted_columns(database).distributions
    }
    assert {name: distribution.axis_kind for name, distribution in distributions.items()} == {
        "age": "number",
        "income": "number",
        "height": "number",
        "born": "date",
        "seen": "date",
        "site": "label",
    }
    bars = {
        name: [(bar.label, bar.rows) for bar in distribution.bars]
        for name, distribution in distributions.items()
    }
    assert bars["site"] == [("site 0", 30), ("site 1", 30), ("site 2", 30), ("site 3", 30)]
    assert distributions["site"].others == "other (1 value): under 5 rows"
    assert bars["seen"][0][0] == "before 2020-01-24"
    for distribution in distributions.values():
        assert all(bar.rows == 0 or bar.rows >= 5 for bar in distribution.bars)
        assert 100 <= sum(bar.rows for bar in distribution.bars) <= 140
    assert not any(
        "987" in label for bars_of_column in bars.values() for label, _ in bars_of_column
    )


def test_released_labels_and_nulls(database: Database) -> None:
    rows = [(*row[:2], None if i < 9 else row[2], *row[3:]) for i, row in enumerate(people())]
    load_people(database, rows)
    database.anonymize(
        quasi_identifiers=["age", "site"],
        k=4,
        method="mondrian",
        recoding="generalization",
        nulls="category",
        if_exists="replace",
    )
    distributions = {
        distribution.name: distribution for distribution in counted_columns(database).distributions
    }
    assert distributions["age"].axis_kind == distributions["site"].axis_kind == "label"
    assert ("NULL", 10) in [(bar.label, bar.rows) for bar in distributions["age"].bars]


def test_the_command_writes_the_file(database: Database, tmp_path: Path) -> None:
    load_people(database, people())
    path, later = tmp_path / "release.html", tmp_path / "later.html"
    done = run(
        "anonymize",
        database.url,
        "--table",
        "people",
        "--quasi-identifiers",
        "age,height",
        "--sensitive",
        "site",
        "--k",
        "4",
        "--output",
        "release.people",
        "--report",
        str(path),
    )
    assert done.exit_code == 0, done.output
    done = run("report", database.url, "release.people", "-o", str(later), "--format", "json")
    assert done.exit_code == 0, done.output
    outcome = json.loads(done.stdout)
    assert outcome["report"] == str(later)
    for file in (path, later):
        assert file.stat().st_mode & 0o777 == 0o600
        text = file.read_text(encoding="utf-8")
        assert outcome["release_id"] in text
        assert "Released values" in text
        assert "zyxomma" not in text
        assert not any(person[1] in text for person in people())
        # A page turns the evaluation on, and the ledger holds it for the one that comes later.
        assert "All measures of risk" in text
    assert counted_columns(database).record.report.evaluation is not None
    assert sorted(page.name for page in tmp_path.glob("*.html")) == ["later.html", "release.html"]
    assert not list(tmp_path.glob(".dbanon-*"))


@pytest.mark.parametrize("ending", ["json", "txt"])
def test_only_a_page_turns_the_evaluation_on(
    database: Database, tmp_path: Path, ending: str
) -> None:
    load_people(database, people())
    done = run(
        "anonymize",
        database.url,
        "--table",
        "people",
        "--quasi-identifiers",
        "age,height",
        "--k",
        "4",
        "--output",
        "release.people",
        "--report",
        str(tmp_path / f"report.{ending}"),
    )
    assert done.exit_code == 0, done.output
    assert counted_columns(database).record.report.evaluation is None


@pytest.mark.parametrize("name", ["report.pdf", "missing/report.html"])
def test_what_cannot_be_written_is_refused_first(
    database: Database, tmp_path: Path, name: str
) -> None:
    done = run("report", database.url, "release.people", "-o", str(tmp_path / name))
    assert done.exit_code == 2
    assert "report cannot be written" in done.stderr


def test_no_release_of_this_name(database: Database, tmp_path: Path) -> None:
    load_people(database, people())
    path = tmp_path / "report.html"
    done = run("report", database.url, "people", "-o", str(path))
    assert done.exit_code == 2
    assert "release_not_found" in done.stderr
    assert not path.exists()


def test_a_later_report_recounts(database: Database, tmp_path: Path) -> None:
    """It says so on top; a release that was changed has no page, and verify's code."""
    load_people(database, people())
    database.anonymize(quasi_identifiers=["age"], k=4, sensitive=["site"])
    path = tmp_path / "report.html"
    arguments = ["report", database.url, "release.people", "-o", str(path)]
    done = run(*arguments, "--for", "Institute <b>", "--purpose", "a study", "--format", "json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["recounted"].startswith("smallest class ")
    text = path.read_text(encoding="utf-8")
    assert "Recounted for this page on " in text
    assert "Columns, types, rows and class sizes are as they were released." in text
    assert "Institute &lt;b&gt;" in text
    assert "signature" in text
    path.unlink()
    relation = database.relation("release.people")
    database.execute(f"DELETE FROM {relation} WHERE site = 'site 0'")
    done = run(*arguments)
    assert done.exit_code in (3, 6), done.output
    assert not path.exists()


def test_a_signature_is_for_a_page(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "report.txt"
    done = run("report", database.url, "release.people", "-o", str(path), "--for", "them")
    assert done.exit_code == 2
    assert "--for and --purpose only apply" in done.stderr
