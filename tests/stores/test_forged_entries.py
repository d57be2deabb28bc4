"""Roles that may write the ledger can write anything: forged entries are reported and break no
listing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import DbanonError
from tests.stores.databases import Database
from tests.stores.people import load_people

# A column of the ledger table and the forged value.
FORGED: list[tuple[str, str]] = [
    ("arguments", "[]"),
    ("arguments", "7"),
    ("arguments", '{"by": 7}'),
    ("arguments", '{"by": [7]}'),
    ("arguments", '{"models": 7}'),
    ("arguments", '{"models": [7]}'),
    ("arguments", '{"models": [{"model": 7}]}'),
    ("arguments", '{"models": [{"model": "t", "kind": "no", "counted": 1}]}'),
    ("arguments", '{"also_k": 7}'),
    ("arguments", '{"also_k": [{"columns": 7, "k": 7, "counted": 7}]}'),
    ("arguments", '{"hierarchies": [1]}'),
    ("arguments", '{"hierarchies": {"age": 7}}'),
    ("arguments", '{"between": 7}'),
    ("arguments", '{"between": {"age": 7}}'),
    ("arguments", '{"listed": {"age": {"a": 1}}}'),
    ("arguments", '{"guarantee": "none"}'),
    ("arguments", '{"guarantee": ["none"]}'),
    ("arguments", '{"entity": {"a": 1}}'),
    ("arguments", '{"tables": true}'),
    ("histogram", "[1]"),
    ("histogram", '{"a": 1}'),
    ("histogram", '{"0": 1}'),
    ("histogram", '{"3": "a"}'),
]
# It takes any text in any column.
OF_SQLITE = [
    ("arguments", "[" * 100_000),
    ("arguments", "{"),
    ("arguments", '{"k_rows": ' + "[" * 100_000),
    ("histogram", "[" * 100_000),
    ("histogram", "NaN"),
    ("k_requested", "'a'"),
    ("rows_out", "'a'"),
    ("epsilon", "'a'"),
]


def load(database: Database) -> str:
    load_people(database)
    return database.anonymize(quasi_identifiers=["age"]).release_id


def forge(database: Database, column: str, value: str) -> None:
    text = value if value.startswith("'") else "'" + value.replace("'", "''") + "'"
    database.execute(f"UPDATE {database.ledger()} SET {column} = {text}")


def require_refused(database: Database, value: str, tmp_path: Path) -> None:
    """Each command that reads the entry of a release says that it is broken, and quotes none."""
    page = ("-o", str(tmp_path / "report.html"))
    for command, *more in (("verify",), ("report", *page), ("evaluate",), ("drop",)):
        done = CliRunner().invoke(main, [command, database.url, "release.people", *more])
        assert "Error [ledger_entry_broken]" in done.output, (command, done.output[-500:])
        assert done.exit_code == 2
        assert value[:50] not in done.output or value == "7"
    # It shows what the ledger has, whatever that is.
    completed = CliRunner().invoke(main, ["show", database.url, "release.people"])
    assert "unexpected" not in completed.output


@pytest.mark.in_turn
@pytest.mark.parametrize(("column", "value"), FORGED)
def test_a_forged_entry_has_an_error_of_its_own(
    database: Database, column: str, value: str, tmp_path: Path
) -> None:
    load(database)
    forge(database, column, value)
    require_refused(database, value, tmp_path)


@pytest.mark.parametrize(("column", "value"), OF_SQLITE)
def test_a_value_of_another_type(
    make_database: Callable[[str], Database], column: str, value: str, tmp_path: Path
) -> None:
    database = make_database("sqlite")
    load(database)
    forge(database, column, value)
    require_refused(database, value, tmp_path)


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "request_", ["[]", "7", '{"source": 7}', '{"source": {"oid": 1, "writes": "a"}}', "{}"]
)
def test_a_forged_request_stops_no_list(database: Database, request_: str) -> None:
    load(database)
    forge(database, "request", request_)
    database.execute(f"UPDATE {database.ledger()} SET source = 'a.b.c.d'")
    assert [release.output for release in dbanon.releases(database.url)]
    dbanon.verify(database.url, "release.people")
    with pytest.raises(DbanonError) as refused:
        dbanon.refresh(database.url, "release.people")
    assert refused.value.code == "ledger_entry_broken"
