"""Persons who were out and are back, on every database, as releases tell."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import dbanon
from tests.stores.chain_cases import GIVEN, Chained, Months, load, released
from tests.stores.databases import Database

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")

COLUMNS = "age, income, cost"


class Clinic:
    """A chain over 24 persons, in classes of six or more, whose costs are all different."""

    def __init__(self, database: Database, folder: Path, class_size: int = 6, **rules: Any) -> None:
        self.database = database
        self.months = Months(n=24, leave=0, join=0, change=0)
        self.months.now = {one: (*v[:4], one) for one, v in self.months.now.items()}
        self.fresh = 1000
        load(database, self.months.now)
        self.chained = Chained.made(database, folder, class_size=class_size, **rules)
        self.first = self.release()
        history = self.chained.history(list(self.months.now))
        self.cell = [one for one, found in history.items() if found == history[1]]
        self.others = [one for one in history if one not in self.cell]

    def release(self) -> Counter[Any]:
        load(self.database, self.months.now)
        self.chained.release(sensitive=[], keep=["cost"])
        return released(self.database, COLUMNS)

    def out(self, *persons: int) -> None:
        for one in persons:
            self.months.out[one] = self.months.now.pop(one)

    def back(self) -> None:
        self.months.now |= self.months.out
        self.months.out.clear()

    def misses(self, *persons: int) -> None:
        """A release without them; then they are back."""
        self.out(*persons)
        self.release()
        self.back()

    def change(self, *persons: int) -> None:
        for one in persons:
            self.fresh += 1
            self.months.now[one] = (*self.months.now[one][:4], self.fresh)

    def shown(self, *persons: int) -> list[bool]:
        """Whether the rows of these persons are released as they are now."""
        costs = {int(row[2]) for row in released(self.database, COLUMNS)}
        return [self.months.now[one][4] in costs for one in persons]


@pytest.mark.parametrize("changes", ["show", "hold"])
def test_a_row_that_alone_stands_as_before_is_not_shown(
    database: Database, tmp_path: Path, changes: str
) -> None:
    clinic = Clinic(database, tmp_path, changes=changes)
    who, *rest = clinic.cell
    clinic.misses(who)
    clinic.change(*rest)
    # She is the only one whose row cannot have changed.
    assert clinic.release() == clinic.first
    counted = clinic.chained.shown().releases[-1]
    assert (counted["held"], counted["back"]) == (1, 1)
    # Nor a month later: it is her row that was shown, and few can have changed since.
    assert clinic.release() == clinic.first
    assert clinic.chained.smallest() >= 6


def test_a_class_is_shown_anew_where_enough_rows_stood(database: Database, tmp_path: Path) -> None:
    clinic = Clinic(database, tmp_path)
    who, *rest = clinic.cell
    clinic.misses(who)
    clinic.change(*rest[:2])
    shown = clinic.release()
    assert len(clinic.cell) - 2 == sum((shown & clinic.first).values()) - len(clinic.others) >= 3
    # Out once more, as others change: of all that stood while she was out too few would be left.
    clinic.misses(who)
    clinic.change(*rest[2 : len(rest)])
    assert clinic.release() == shown


def test_the_one_who_never_was_out_is_not_told_by_a_change(
    database: Database, tmp_path: Path
) -> None:
    """All others were out once: nobody else's row can have changed."""
    clinic = Clinic(database, tmp_path)
    *some, last = clinic.cell
    for one in some:
        clinic.misses(one)
    clinic.change(last)
    assert clinic.release() == clinic.first
    assert clinic.shown(last) == [False]


def test_what_was_held_for_a_return_is_free_when_rows_are_as_shown(
    database: Database, tmp_path: Path
) -> None:
    clinic = Clinic(database, tmp_path)
    who, *rest = clinic.cell
    clinic.misses(who)
    for _ in range(2):
        assert clinic.release() == clinic.first
    clinic.change(who, *rest)
    clinic.release()
    assert all(clinic.shown(who, *rest))


def test_nobody_leaves_a_class_apart_in_which_somebody_was_back(
    database: Database, tmp_path: Path
) -> None:
    clinic = Clinic(database, tmp_path)
    who, *rest = clinic.cell
    clinic.misses(who)
    clinic.out(*rest[:3])
    clinic.change(who, *rest[3:])
    assert clinic.release() == clinic.first
    assert clinic.chained.shown().releases[-1]["held"] == 1


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
    given: dict[str, Any] = GIVEN | {"chain": chained.chain(), "sensitive": [], "keep": ["cost"]}
    planned = dbanon.plan(database.url, table="people", output="release.people", **given)
    assert planned is not None
    who, *rest = clinic.cell
    clinic.misses(who)
    clinic.change(*rest)
    assert clinic.release() == clinic.first


@pytest.mark.parametrize("changes", ["show", "hold"])
def test_who_is_out_several_times_is_not_found_by_what_changed_each_time(
    database: Database, tmp_path: Path, changes: str
) -> None:
    clinic = Clinic(database, tmp_path, class_size=8, changes=changes)
    who, *rest = clinic.cell
    some, others = rest[:3], rest[3:]
    clinic.misses(who)
    clinic.change(*some)
    shown = clinic.release()
    assert all(clinic.shown(*some))
    # Shown as it is, with everybody in: readers do not forget what they saw.
    assert clinic.release() == shown
    clinic.misses(who)
    clinic.change(*others)
    assert clinic.release() == shown


def test_returns_of_others_count_for_themselves(database: Database, tmp_path: Path) -> None:
    """What changed while somebody else was out can be the row of whoever was in."""
    clinic = Clinic(database, tmp_path)
    first, second, *rest = clinic.cell
    clinic.misses(first)
    clinic.change(*rest[:2])
    clinic.release()
    clinic.misses(second)
    clinic.change(*rest[2:4])
    clinic.release()
    assert all(clinic.shown(*rest[:4]))
    members = database.rows(
        f"SELECT excluded_rows FROM {database.ledger('chain_member')} WHERE excluded_rows > 0"
    )
    assert members == [(2,), (2,)]


def test_a_class_that_an_earlier_build_showed_after_a_return_is_shown_after_none(
    database: Database, tmp_path: Path
) -> None:
    """Earlier builds forgot how many rows had changed at earlier returns."""
    clinic = Clinic(database, tmp_path)
    who, *rest = clinic.cell
    clinic.misses(who)
    clinic.change(rest[0])
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
    # With everybody in all the time it goes on.
    clinic.change(*rest[:2])
    shown = clinic.release()
    assert all(clinic.shown(*rest[:2]))
    clinic.misses(who)
    clinic.change(rest[2])
    assert clinic.release() == shown
