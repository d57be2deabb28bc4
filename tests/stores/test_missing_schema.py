"""An output in a schema that is missing: created, and said so, or refused."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import SchemaCreated, SchemaNotFound
from tests.stores.databases import PostgresqlDatabase
from tests.stores.people import load_people

pytestmark = pytest.mark.postgresql

GIVEN = {"table": "people", "quasi_identifiers": ["age"], "k": 5, "if_exists": "replace"}


def test_a_missing_schema_is_named_by_plan_warning_and_report(
    postgresql: PostgresqlDatabase,
) -> None:
    load_people(postgresql)
    postgresql.execute("CREATE SCHEMA release")
    planned = dbanon.plan(postgresql.url, output="relaese.people", **GIVEN)
    assert "schema relaese, which is missing" in planned.creates
    with pytest.warns(SchemaCreated, match='no schema "relaese"'):
        report = dbanon.anonymize(postgresql.url, output="relaese.people", **GIVEN)
    assert report.arguments["schema_created"] == "relaese"
    assert "in a schema that was missing" in str(report)
    # The schema of the ledger is dbanon's own: nobody misspelled it.
    again = dbanon.anonymize(postgresql.url, output="relaese.people", **GIVEN)
    assert "schema_created" not in again.arguments
    assert not [
        one
        for one in dbanon.plan(postgresql.url, output="release.people", **GIVEN).creates
        if "schema" in one
    ]


def test_a_strict_release_creates_no_schema(postgresql: PostgresqlDatabase) -> None:
    load_people(postgresql)
    for call in (dbanon.plan, dbanon.anonymize):
        with pytest.raises(SchemaNotFound, match='no schema "relaese"'):
            call(postgresql.url, output="relaese.people", strict=True, **GIVEN)
    postgresql.execute("CREATE SCHEMA release")
    dbanon.anonymize(postgresql.url, output="release.people", strict=True, **GIVEN)
    assert postgresql.rows("SELECT 1 FROM pg_namespace WHERE nspname = 'relaese'") == []


def test_the_command_says_it_on_stderr(postgresql: PostgresqlDatabase) -> None:
    load_people(postgresql)
    given = ["--table", "people", "-q", "age", "--k", "5", "--output", "relaese.people"]
    done = CliRunner().invoke(main, ["anonymize", postgresql.url, *given])
    assert done.exit_code == 0
    assert 'There was no schema "relaese": it was created.' in done.stderr
