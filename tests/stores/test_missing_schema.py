"""An output in a schema that is missing: created, and said so, or refused."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import SchemaCreated, SchemaNotFound
from tests.prerequisites import skip_case
from tests.stores.databases import Database
from tests.stores.people import load_people

OPTIONS = {"table": "people", "quasi_identifiers": ["age"], "k": 5, "if_exists": "replace"}


@pytest.fixture
def people(database: Database) -> Database:
    """A database with its own schemas, and a table of persons in it."""
    if database.name == "sqlite":
        skip_case("SQLite has no schemas")
    load_people(database)
    return database


def test_a_missing_schema_is_named_by_plan_warning_and_report(people: Database) -> None:
    people.make_schema("release")
    planned = dbanon.plan(people.url, output="relaese.people", **OPTIONS)
    assert "schema relaese, which is missing" in planned.creates
    with pytest.warns(SchemaCreated, match='no schema "relaese"'):
        report = dbanon.anonymize(people.url, output="relaese.people", **OPTIONS)
    assert report.arguments["schema_created"] == "relaese"
    assert "in a schema that was missing" in str(report)
    # The ledger's schema is dbanon's own, so it cannot be misspelled.
    again = dbanon.anonymize(people.url, output="relaese.people", **OPTIONS)
    assert "schema_created" not in again.arguments
    assert not [
        statement
        for statement in dbanon.plan(people.url, output="release.people", **OPTIONS).creates
        if "schema" in statement
    ]


def test_a_strict_release_creates_no_schema(people: Database) -> None:
    before = people.relations()
    for call in (dbanon.plan, dbanon.anonymize):
        with pytest.raises(SchemaNotFound, match='no schema "relaese"') as refused:
            call(people.url, output="relaese.people", strict=True, **OPTIONS)
        assert "create it first: CREATE " in str(refused.value.hint)
    assert people.relations() == before
    people.make_schema("release")
    dbanon.anonymize(people.url, output="release.people", strict=True, **OPTIONS)
    assert not [relation for relation in people.relations() if "relaese" in relation]


def test_the_command_says_it_on_stderr(people: Database) -> None:
    words = ["--table", "people", "-q", "age", "--k", "5", "--output", "relaese.people"]
    done = CliRunner().invoke(main, ["anonymize", people.url, *words])
    assert done.exit_code == 0
    assert 'no schema "relaese"' in done.stderr


def test_the_help_of_strict_names_it() -> None:
    done = CliRunner().invoke(main, ["anonymize", "--help-all"])
    assert "a missing output schema" in " ".join(done.stdout.split())
