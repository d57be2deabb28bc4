"""Advice that becomes rules: after a look, and a yes, for columns that have none yet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import dbanon
from dbanon.doors.cli.main import main
from tests.stores.databases import Database
from tests.stores.test_identifiers import IDENTIFIERS, load
from tests.stores.test_rules import people, table

__all__ = ["people"]

pytestmark = pytest.mark.in_turn(of="file")


def advised(database: Database, *more: str, **how: Any) -> Result:
    line = ["advise", database.url, "--table", table(database), "--k", "3", *more]
    return CliRunner().invoke(main, line, **how)


def declared(database: Database) -> dict[str, str | None]:
    return {rule.column: rule.role for rule in dbanon.rules(database.url, table(database))}


def test_proposals_become_rules_after_a_yes(people: Database) -> None:
    done = advised(people, "--declare", input="n\n")
    assert "Rules to declare for" in done.stderr
    assert set(declared(people).values()) == {None}
    done = advised(people, "--declare", input="y\n")
    assert done.exit_code == 0, done.output
    proposed_rules = dbanon.advise(people.url, table(people), k=[3]).rules
    plain = {
        name: rule if isinstance(rule, str) else rule["role"]
        for name, rule in proposed_rules.items()
    }
    assert {name: role for name, role in declared(people).items() if role} == plain
    assert "identifier" in plain.values()
    # No confirmation is requested if there is nothing to declare.
    assert ": none" in advised(people, "--declare").stderr


def test_what_is_declared_stays_and_json_asks_nobody(people: Database) -> None:
    dbanon.declare(people.url, table(people), {"age": {"role": "keep", "reason": "as decided"}})
    assert advised(people, "--declare", "--format", "json").exit_code == 2
    done = advised(people, "--declare", "--yes", "--format", "json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["rules"]["name"] == "identifier"
    assert declared(people)["age"] == "keep"
    assert declared(people)["name"] == "identifier"


def test_files_of_rows_have_no_rules(people: Database, tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text("age,ill\n" + "".join(f"{20 + i},flu\n" for i in range(40)))
    done = CliRunner().invoke(main, ["advise", f"file:{file}", "--table", "people", "--declare"])
    assert done.exit_code == 2
    assert "a file has no" in done.output


def test_a_column_to_be_decided_of_halts_a_release(people: Database) -> None:
    """Numbers that no two rows share may be identifiers, or numbers: a person says which."""
    kind = people.types["integer"]
    people.execute(f"ALTER TABLE {people.relation(table(people))} ADD COLUMN amount {kind}")
    people.execute(f"UPDATE {people.relation(table(people))} SET amount = person * 37 + 11")
    done = advised(people, "--declare", "--yes")
    assert "Without a rule, for you to decide:" in done.stderr
    undecided = [name for name, role in declared(people).items() if role is None]
    assert undecided
    with pytest.raises(dbanon.DbanonError) as halted:
        dbanon.anonymize(people.url, table=table(people), output="release.p", k=5, declared=True)
    assert halted.value.code == "column_without_rule"


def test_identifiers_of_a_small_table_are_declared_as_such(database: Database) -> None:
    load(database)
    line = ["advise", database.url, "--table", "visits", "--k", "3", "--declare", "--yes"]
    done = CliRunner().invoke(main, line)
    assert done.exit_code == 0, done.output
    rules = {rule.column: rule.role for rule in dbanon.rules(database.url, "visits")}
    identifying = {name for name, role in rules.items() if role in ("identifier", "entity")}
    assert identifying == set(IDENTIFIERS)
