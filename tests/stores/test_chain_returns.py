"""Persons who were out and are back, on every database, as releases tell."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import dbanon
from tests.stores.chain_cases import OPTIONS, Chained, Months, load, released
from tests.stores.databases import Database

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")

COLUMNS = "age, income, cost"


class Clinic:
    """A chain over 24 persons, in classes of six or more, whose costs are all different."""

    def __init__(self, database: Database, folder: Path, class_size: int = 6, **rules: Any) -> None:
        self.database = database
        self.months = Months(n=24, leave=0, join=0, change=0)
        self.months.now = {person: (*v[:4], person) for person, v in self.months.now.items()}
        self.fresh = 1000
        load(database, self.months.now)
        self.chained = Chained.create(database, folder, class_size=class_size, **rules)
        self.first = self.release()
        history = self.chained.history(list(self.months.now))
        self.cell = [person for person, cell in history.items() if cell == history[1]]
        self.others = [person for person in history if person not in self.cell]

    def release(self) -> Counter[Any]:
        load(self.database, self.months.now)
        self.chained.release(sensitive=[], keep=["cost"])
        return released(self.database, COLUMNS)

    def out(self, *persons: int) -> None:
        for person in persons:
            self.months.out[person] = self.months.now.pop(person)

    def back(self) -> None:
        self.months.now |= self.months.out
        self.months.out.clear()

    def misses(self, *persons: int) -> None:
        """A release without them; then they are back."""
        self.out(*persons)
        self.release()
        self.back()

    def change(self, *persons: int) -> None:
        for person in persons:
            self.fresh += 1
            self.months.now[person] = (*self.months.now[person][:4], self.fresh)

    def are_current(self, *persons: int) -> list[bool]:
        """Whether the current rows of these persons are the released ones."""
        costs = {int(row[2]) for row in released(self.database, COLUMNS)}
        return [self.months.now[person][4] in costs for person in persons]


@pytest.mark.parametrize("changes", ["show", "hold"])
def test_a_row_that_alone_stands_as_before_is_not_shown(
    database: Database, tmp_path: Path, changes: str
) -> None:
    clinic = Clinic(database, tmp_path, changes=changes)
    who, *others = clinic.cell
    clinic.misses(who)
    clinic.change(*others)
    # She is the only one whose row cannot have changed.
    assert clinic.release() == clinic.first
    counted = clinic.chained.show().releases[-1]
    assert (counted["held"], counted["back"]) == (1, 1)
    # Nor a month later: her row was released, and few rows can have changed since.
    assert clinic.release() == clinic.first
    assert clinic.chained.smallest() >= 6


def test_a_class_is_shown_anew_where_enough_rows_stood(database: Database, tmp_path: Path) -> None:
    clinic = Clinic(database, tmp_path)
    who, *others = clinic.cell
    clinic.misses(who)
    clinic.change(*others[:2])
    released = clinic.release()
    assert len(clinic.cell) - 2 == sum((released & clinic.first).values()) - len(clinic.others) >= 3
    # Out once more, as others change: of all that stood while she was out too few would be left.
    clinic.misses(who)
    clinic.change(*others[2 : len(others)])
    assert clinic.release() == released


def test_a_change_does_not_reveal_who_was_never_out(database: Database, tmp_path: Path) -> None:
    """All others were out once, so the changed row can only be this person's."""
    clinic = Clinic(database, tmp_path)
    *some, last = clinic.cell
    for person in some:
        clinic.misses(person)
    clinic.change(last)
    assert clinic.release() == clinic.first
    assert clinic.are_current(last) == [False]


def test_what_was_held_for_a_return_is_free_when_rows_are_as_shown(
    database: Database, tmp_path: Path
) -> None:
    clinic = Clinic(database, tmp_path)
    who, *others = clinic.cell
    clinic.misses(who)
    for _ in range(2):
        assert clinic.release() == clinic.first
    clinic.change(who, *others)
    clinic.release()
    assert all(clinic.are_current(who, *others))


def test_no_one_leaves_a_class_separately_after_a_return(
    database: Database, tmp_path: Path
) -> None:
    clinic = Clinic(database, tmp_path)
    who, *others = clinic.cell
    clinic.misses(who)
    clinic.out(*others[:3])
    clinic.change(who, *others[3:])
    assert clinic.release() == clinic.first
    assert clinic.chained.show().releases[-1]["held"] == 1


def test_a_ledger_of_the_version_before_is_brought_up_to_date(
    database: Database, tmp_path: Path
) -> None:
    clinic = Clinic(database, tmp_path)
    database.execute(
        f"ALTER TABLE {database.ledger('chain_cell')} DROP COLUMN loose",
        f"ALTER TABLE {database.ledger('chain_member')} DROP COLUMN missed",
        f"ALTER TABLE {database.ledger('chain_member')} DROP COLUMN excluded_rows",
        f"ALTER TABLE {database.ledger()} DROP COLUMN request",
        f"ALTER TABLE {database.ledger('run')} DROP COLUMN source_counts",
        f"DROP TABLE {database.ledger('chain_waiting')}",
        f"DROP TABLE {database.ledger('rule')}",
        f"DROP TABLE {database.ledger('release_internal')}",
        f"DROP TABLE {database.ledger('release_person')}",
        f"ALTER TABLE {database.ledger()} DROP COLUMN delta",
        f"ALTER TABLE {database.ledger()} DROP COLUMN rho",
        f"ALTER TABLE {database.ledger('budget')} DROP COLUMN delta",
        *(
            f"ALTER TABLE {database.ledger()} DROP COLUMN {name}"
            for name in (
                "owner_oid",
                "publisher_oid",
                "ledger_oid",
                "source_oid",
                "source_owner_oid",
                "person_salt",
            )
        ),
    )
    if database.name != "duckdb":
        version = database.ledger("alembic_version")
        database.execute(f"UPDATE {version} SET version_num = '0007'")
    chained = clinic.chained
    options: dict[str, Any] = OPTIONS | {
        "chain": chained.chain(),
        "sensitive": [],
        "keep": ["cost"],
    }
    planned = dbanon.plan(database.url, table="people", output="release.people", **options)
    assert planned is not None
    who, *others = clinic.cell
    clinic.misses(who)
    clinic.change(*others)
    assert clinic.release() == clinic.first


@pytest.mark.parametrize("changes", ["show", "hold"])
def test_who_is_out_several_times_is_not_found_by_what_changed_each_time(
    database: Database, tmp_path: Path, changes: str
) -> None:
    clinic = Clinic(database, tmp_path, class_size=8, changes=changes)
    who, *members = clinic.cell
    some, others = members[:3], members[3:]
    clinic.misses(who)
    clinic.change(*some)
    released = clinic.release()
    assert all(clinic.are_current(*some))
    # Released unchanged, with everybody in: readers remember what they saw.
    assert clinic.release() == released
    clinic.misses(who)
    clinic.change(*others)
    assert clinic.release() == released


def test_returns_of_others_count_for_themselves(database: Database, tmp_path: Path) -> None:
    """A row that changed while one person was out can belong to anyone who was in."""
    clinic = Clinic(database, tmp_path)
    first, second, *others = clinic.cell
    clinic.misses(first)
    clinic.change(*others[:2])
    clinic.release()
    clinic.misses(second)
    clinic.change(*others[2:4])
    clinic.release()
    assert all(clinic.are_current(*others[:4]))
    members = database.rows(
        f"SELECT excluded_rows FROM {database.ledger('chain_member')} WHERE excluded_rows > 0"
    )
    assert members == [(2,), (2,)]


def test_a_class_that_an_earlier_build_showed_after_a_return_is_shown_after_none(
    database: Database, tmp_path: Path
) -> None:
    """Earlier builds forgot how many rows had changed at earlier returns."""
    clinic = Clinic(database, tmp_path)
    who, *others = clinic.cell
    clinic.misses(who)
    clinic.change(others[0])
    clinic.release()
    member = database.ledger("chain_member")
    [(cell,)] = database.rows(f"SELECT cell FROM {member} WHERE excluded_rows > 0")
    database.execute(
        f"ALTER TABLE {member} DROP COLUMN excluded_rows",
        f"ALTER TABLE {database.ledger('run')} DROP COLUMN source_counts",
        f"DROP TABLE {database.ledger('release_internal')}",
        f"DROP TABLE {database.ledger('release_person')}",
        *(
            f"ALTER TABLE {database.ledger()} DROP COLUMN {name}"
            for name in ("source_oid", "source_owner_oid", "person_salt")
        ),
        f"UPDATE {member} SET missed = NULL",
        f"UPDATE {database.ledger('chain_cell')} SET loose = 0 WHERE cell = {cell}",
    )
    if database.name != "duckdb":
        version = database.ledger("alembic_version")
        database.execute(f"UPDATE {version} SET version_num = '0013'")
    # As long as everyone stays in, releases continue as usual.
    clinic.change(*others[:2])
    released = clinic.release()
    assert all(clinic.are_current(*others[:2]))
    clinic.misses(who)
    clinic.change(others[2])
    assert clinic.release() == released
