"""A release repeated from its ledger entry, on every database."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import (
    ColumnWithoutRule,
    InvalidParameter,
    RefreshRefused,
    ReleaseNotFound,
    TableNotFound,
)
from tests.stores.databases import Database, DuckdbDatabase
from tests.stores.test_rules import RULES, people, released, table

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")

__all__ = ["people"]

INTERVALS = {"intervals": [5, 10]}


def add(database: Database, rows: int = 20) -> None:
    values = ", ".join(f"({1000 + i}, 'x', {20 + i % 30}, 'none')" for i in range(rows))
    database.execute(f"INSERT INTO {database.relation(table(database))} VALUES {values}")


def listed(database: Database, **more: Any) -> dbanon.Report:
    options: dict[str, Any] = {
        "declared": False,
        "quasi_identifiers": ["age"],
        "keep": ["ill"],
        "seed": 7,
        "method": "gaa_cp",
        "hierarchies": {"age": INTERVALS},
        "where": "age < 45",
        "max_suppression": 0.5,
        "output_kind": "view",
    }
    return released(database, **(options | more))


def test_the_release_again_of_the_source_as_it_is_now(people: Database) -> None:
    people.make_schema("release")
    before = listed(people)
    add(people)
    after = dbanon.refresh(people.url, "release.people")
    counted = people.rows(f"SELECT count(*) FROM {people.relation(table(people))} WHERE age < 45")[
        0
    ][0]
    assert after.rows_in == counted > before.rows_in
    assert after.release_id != before.release_id
    # Options derived from the rows may come out differently for other rows.
    counted_again = ("hierarchies", "linking")
    arguments = [
        {k: v for k, v in r.arguments.items() if k not in counted_again} for r in (before, after)
    ]
    assert arguments[0] == arguments[1]
    assert (after.output, after.output_kind) == (before.output, "view")
    # And once more: a repeated release can be repeated, too.
    third = dbanon.refresh(people.url, "release.people")
    assert third.rows_in == after.rows_in
    states = [release.state for release in dbanon.releases(people.url)]
    assert states == ["current", "superseded", "superseded"]


def test_it_is_refused_where_it_would_be_another_thing(people: Database) -> None:
    dbanon.declare(people.url, table(people), RULES)
    released(people)
    add(people)
    assert dbanon.refresh(people.url, "release.people").rows_in == 80
    dbanon.declare(people.url, table(people), {"ill": "sensitive"})
    people.execute(f"UPDATE {people.ledger()} SET dbanon_version = '0.0.1'")
    with pytest.raises(RefreshRefused) as refused:
        dbanon.refresh(people.url, "release.people")
    assert (refused.value.exit_code, refused.value.sqlstate) == (6, "ZK010")
    detail = str(refused.value.detail)
    assert "version 0.0.1 made it" in detail
    assert "the rules of" in detail
    with pytest.raises(RefreshRefused, match="version 0"):
        dbanon.refresh(people.url, "release.people", accept=["rules"])
    with pytest.raises(InvalidParameter, match="accept takes"):
        dbanon.refresh(people.url, "release.people", accept=["all"])
    again = dbanon.refresh(people.url, "release.people", accept=["rules", "version"])
    assert again.arguments["models"] == []
    # A column that came since has no rule.
    text = people.types["text"]
    people.execute(f"ALTER TABLE {people.relation(table(people))} ADD COLUMN note {text}")
    with pytest.raises(ColumnWithoutRule):
        dbanon.refresh(people.url, "release.people")
    assert dbanon.verify(people.url, "release.people").release_id == again.release_id


def test_another_source_is_reported(people: Database) -> None:
    listed(people)
    name = people.relation(table(people))
    kinds = people.types
    people.execute(
        f"DROP TABLE {name}",
        f"CREATE TABLE {name} (person {kinds['integer']}, name {kinds['text']},"
        f" age {kinds['double']}, ill {kinds['text']})",
    )
    add(people)
    with pytest.raises(RefreshRefused, match='column "age" was') as refused:
        dbanon.refresh(people.url, "release.people")
    assert ("another table of this name" in str(refused.value)) is (people.name == "postgresql")
    people.execute(f"DROP TABLE {name}")
    with pytest.raises(TableNotFound):
        dbanon.refresh(people.url, "release.people", accept=["source"])
    with pytest.raises(ReleaseNotFound):
        dbanon.refresh(people.url, "release.nothing")


def test_a_changed_stored_hierarchy_is_reported(people: Database) -> None:
    tree = {
        "tree": {
            "*": {"low": [str(a) for a in range(20, 35)], "high": [str(a) for a in range(35, 50)]}
        }
    }
    dbanon.store_hierarchy(people.url, "ages", tree)
    listed(people, hierarchies={"age": {"name": "ages"}}, where=None)
    dbanon.refresh(people.url, "release.people")
    other = {"tree": {"*": [str(a) for a in range(20, 50)]}}
    dbanon.store_hierarchy(people.url, "ages", other, replace=True)
    with pytest.raises(RefreshRefused, match='the hierarchy of "age" has changed'):
        dbanon.refresh(people.url, "release.people")
    dbanon.refresh(people.url, "release.people", accept=["hierarchies"])


def test_what_the_ledger_does_not_keep_is_told(people: Database) -> None:
    ages = [str(age) for age in range(20, 50)]
    listed(people, hierarchies={"age": {"levels": [[age, "*"] for age in ages]}}, where=None)
    with pytest.raises(RefreshRefused, match="keeps no values of columns: hierarchies"):
        dbanon.refresh(people.url, "release.people")
    released(
        people,
        declared=False,
        quasi_identifiers=["ill"],
        output="release.ordered",
        orders={"ill": ["cold", "flu"]},
        recoding="median",
    )
    requests = people.rows(
        f"SELECT request FROM {people.ledger()} WHERE output_name LIKE '%ordered'"
    )
    assert "flu" not in str(requests)
    with pytest.raises(RefreshRefused, match="orders"):
        dbanon.refresh(people.url, "release.ordered")
    people.execute(f"UPDATE {people.ledger()} SET request = NULL")
    with pytest.raises(RefreshRefused, match="made by an earlier version"):
        dbanon.refresh(people.url, "release.ordered")


def test_exports_are_made_again(people: Database, tmp_path: Path) -> None:
    export_path = str(tmp_path / "out_{release}.csv")
    first = listed(people, exports=[export_path])
    second = dbanon.refresh(people.url, "release.people")
    names = {f"out_{release.release_id}.csv" for release in (first, second)}
    assert {path.name for path in tmp_path.glob("out_*.csv")} == names


def test_the_command(people: Database) -> None:
    listed(people)
    add(people)
    run = CliRunner().invoke
    done = run(main, ["refresh", people.url, "release.people", "--format", "json", "--no-progress"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["rows_in"] > 0
    people.execute(f"UPDATE {people.ledger()} SET dbanon_version = '0.0.1'")
    refused = run(main, ["refresh", people.url, "release.people", "--no-progress"])
    assert (refused.exit_code, "refresh_refused" in refused.output) == (6, True)
    accepted = ["--accept", "version", "--no-progress"]
    assert run(main, ["refresh", people.url, "release.people", *accepted]).exit_code == 0


def test_a_release_of_a_chain_needs_its_key(tmp_path: Path) -> None:
    """On one database: what a chain is, is the same on all."""
    database = DuckdbDatabase(tmp_path / "chain.duckdb")
    database.execute(
        "CREATE SCHEMA app",
        "CREATE TABLE app.people AS SELECT range AS person, (20 + range % 30)::INTEGER AS age"
        " FROM range(60)",
    )
    key = f"file:{tmp_path / 'key'}"
    dbanon.create_chain(
        database.url,
        "year",
        table="app.people",
        entity="person",
        changes="hold",
        key_out=tmp_path / "key",
    )
    database.anonymize(
        table="app.people",
        quasi_identifiers=["age"],
        entity="person",
        chain={"name": "year", "key": key},
    )
    with pytest.raises(InvalidParameter, match="needs its key"):
        dbanon.refresh(database.url, "release.people")
    again = dbanon.refresh(database.url, "release.people", chain_key=key)
    assert again.arguments["chain"]["sequence"] == 2
