"""Rules beside a table on every database: declared, used, forgotten."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import (
    ColumnNotFound,
    ColumnWithoutRule,
    InvalidParameter,
    RulesNotFound,
    RuleWithoutColumn,
    SourceChanged,
)
from dbanon.job.columns import RULES_NOT_READ
from dbanon.job.job import Job
from dbanon.job.rules import TableRules, validate_rules
from dbanon.run.open import open_store
from dbanon.run.rules import apply_table_rules
from dbanon.run.run_with_ledger import run_in_transactions
from tests.stores.databases import ALL_NAMES, Database

DATABASES = ALL_NAMES

RULES: dict[str, Any] = {
    "age": {"role": "quasi_identifier", "weight": 2},
    "ill": {"role": "sensitive", "model": {"distinct_l": 2}},
    "person": "entity",
    "name": "identifier",
}


@pytest.fixture
def people(database: Database) -> Database:
    columns = {"person": "integer", "name": "text", "age": "integer", "ill": "text"}
    typed = {name: database.types[kind] for name, kind in columns.items()}
    rows = [(i, f"n{i}", 20 + i % 30, ("flu", "cold")[i % 2]) for i in range(60)]
    database.load("app.people" if database.name != "sqlite" else "people", typed, rows)
    return database


def table(database: Database) -> str:
    return "people" if database.name == "sqlite" else "app.people"


@pytest.mark.parametrize("change", [dbanon.declare, dbanon.undeclare])
def test_a_file_keeps_no_rules(change: Any, tmp_path: Path) -> None:
    """Its rows are in a database for one run only, so the rules would be lost."""
    file = tmp_path / "people.csv"
    file.write_text("age\n1\n2\n")
    with pytest.raises(InvalidParameter, match="a file has no database"):
        change(
            f"file:{file}",
            "people",
            {"age": "quasi_identifier"} if change is dbanon.declare else None,
        )


def released(database: Database, **more: Any) -> dbanon.Report:
    arguments = {
        "table": table(database),
        "output": "release.people",
        "k": 5,
        "declared": True,
        "releases": "independent",
    }
    return dbanon.anonymize(database.url, **(arguments | more))


@pytest.mark.in_turn(of="file")
def test_each_column_has_a_rule_and_each_rule_a_column(people: Database) -> None:
    url, name = people.url, table(people)
    with pytest.raises(RulesNotFound):
        released(people)
    with pytest.raises(ColumnNotFound):
        dbanon.declare(url, name, {"aeg": "drop"})
    dbanon.declare(url, name, RULES)
    people.execute(f"ALTER TABLE {people.relation(name)} ADD COLUMN note {people.types['text']}")
    with pytest.raises(ColumnWithoutRule) as without:
        released(people)
    assert (without.value.exit_code, without.value.sqlstate) == (6, "ZK005")
    assert [rule.column for rule in dbanon.rules(url, name) if rule.state == "no rule"] == ["note"]
    dbanon.declare(url, name, {"note": {"role": "keep", "reason": "asked for by the registry"}})
    assert released(people).kept == ("note",)
    people.execute(f"ALTER TABLE {people.relation(name)} DROP COLUMN note")
    with pytest.raises(RuleWithoutColumn):
        released(people, if_exists="replace")
    assert [rule.column for rule in dbanon.rules(url) if rule.state == "no column"] == ["note"]
    dbanon.undeclare(url, name, ["note"])
    released(people, if_exists="replace")
    with pytest.raises(InvalidParameter, match="keep cannot be combined with rules"):
        released(people, keep=["name"])
    assert [rule.state for rule in dbanon.undeclare(url, name)] == ["no rule"] * 4
    with pytest.raises(RulesNotFound):
        dbanon.undeclare(url, name)


@pytest.mark.in_turn(of="file")
def test_a_release_by_rules_is_the_one_with_the_list(people: Database) -> None:
    declared_rules = dbanon.declare(people.url, table(people), RULES)
    assert [(rule.column, rule.role, rule.state) for rule in declared_rules] == [
        ("person", "entity", "current"),
        ("name", "identifier", "current"),
        ("age", "quasi_identifier", "current"),
        ("ill", "sensitive", "current"),
    ]
    assert people.ledger_rows("rule")[0][1] == "age"
    # A report says so where its schema was created.
    people.make_schema("release")
    report_by_rules = released(people)
    models = [{"attribute": "ill", "kind": "distinct_l", "level": 2}]
    listed = released(
        people,
        declared=False,
        output="release.listed",
        quasi_identifiers=["age"],
        weights={"age": 2},
        sensitive=["ill"],
        entity="person",
        models=models,
    )
    arguments = dict(report_by_rules.arguments)
    assert arguments.pop("declared") == validate_rules(RULES).digest
    # It was the second release of these persons.
    others = dict(listed.arguments)
    assert others.pop("joint_histories")["releases"] == 2
    assert arguments == others
    assert report_by_rules.column_losses == listed.column_losses


@pytest.mark.in_turn(of="file")
def test_the_commands(people: Database, tmp_path: Path) -> None:
    file = tmp_path / "rules.json"
    file.write_text(json.dumps(RULES))
    job = tmp_path / "job.yaml"
    job.write_text(
        f"version: 1\nsource: {{url: '{people.url}'}}\njobs:\n"
        f"  - {{name: people, table: {table(people)}, k: 5, columns: declared,"
        " releases: independent, output: {table: release.of_job}}\n"
    )
    run = CliRunner().invoke
    allowed = ["--allow-inline-password"] if people.name in ("postgresql", "mariadb") else []
    halted = run(main, ["run", str(job), *allowed])
    assert (halted.exit_code, "rules_not_found" in halted.output) == (2, True)
    table_words = ["--table", table(people)]
    done = run(main, ["declare", people.url, str(file), *table_words, "--format", "json"])
    assert (done.exit_code, len(json.loads(done.stdout))) == (0, 4), done.output
    plan_words = [*table_words, "--k", "5", "--declared"]
    planned = run(
        main, ["plan", people.url, *plan_words, "--output", "release.p", "--format", "json"]
    )
    assert planned.exit_code == 0, planned.output
    completed = run(
        main, ["anonymize", people.url, *plan_words, "--output", "release.p", "--format", "json"]
    )
    assert json.loads(completed.stdout)["arguments"]["declared"] == validate_rules(RULES).digest
    of_job = run(main, ["run", str(job), *allowed])
    assert of_job.exit_code == 0, of_job.output
    listed = run(main, ["rules", people.url, "--format", "json"])
    assert {rule["state"] for rule in json.loads(listed.stdout)} == {"current"}
    undeclared = run(
        main, ["undeclare", people.url, *table_words, "--column", "age", "--format", "json"]
    )
    assert [rule["state"] for rule in json.loads(undeclared.stdout)].count("no rule") == 1


def test_comments_on_columns(people: Database) -> None:
    if people.name == "sqlite":
        with pytest.raises(InvalidParameter, match="No comment on a column"):
            dbanon.declare(people.url, "people", from_comments=True)
        return
    for column, text in (
        ("age", "years\n  dbanon: quasi_identifier"),
        ("ill", 'dbanon: {"role": "sensitive"}'),
    ):
        kind = people.types["integer" if column == "age" else "text"]
        people.execute(
            f"ALTER TABLE app.people MODIFY {column} {kind} COMMENT '{text}'"
            if people.name == "mariadb"
            else f"COMMENT ON COLUMN app.people.{column} IS '{text}'"
        )
    declared_rules = dbanon.declare(people.url, "app.people", {"ill": "drop"}, from_comments=True)
    assert {rule.column: rule.role for rule in declared_rules if rule.rule} == {
        "age": "quasi_identifier",
        "ill": "drop",
    }


@pytest.mark.in_turn(of="file")
def test_the_order_of_declaring_changes_nothing(people: Database) -> None:
    for name in sorted(RULES, reverse=True):
        dbanon.declare(people.url, table(people), {name: RULES[name]})
    report = released(people)
    assert report.arguments["declared"] == validate_rules(RULES).digest
    assert (
        TableRules(dict(reversed(validate_rules(RULES).by_column.items()))).digest
        == validate_rules(RULES).digest
    )
    with pytest.raises(InvalidParameter, match="More than one column has the role entity"):
        dbanon.declare(people.url, table(people), {"name": "entity"})


@pytest.mark.in_turn(of="file")
def test_rules_that_change_before_the_run_reads_stop_it(people: Database) -> None:
    """A client reads rules and rows in two transactions: a table may come in between."""
    dbanon.declare(people.url, table(people), RULES)
    job = Job(
        table=table(people),
        output="release.people",
        quasi_identifiers=(),
        declared=RULES_NOT_READ,
        policy=dbanon.Policy(k=5),
    )
    store = open_store(people.url)
    judged = apply_table_rules(job, store)
    dbanon.declare(people.url, table(people), {"name": {"role": "keep", "reason": "asked for"}})
    before = people.relations()
    with pytest.raises(SourceChanged, match="rules changed in the meantime"):
        run_in_transactions(judged, store)
    assert people.relations() == before
    assert run_in_transactions(apply_table_rules(job, store), store).kept == ("name",)
