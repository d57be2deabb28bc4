"""A chain whose client dies at any step: whatever was once readable is never forgotten.

Persons come and go between two runs, each run but the last is killed, and everything readable after
a run is recorded. All that was ever readable then has to form one chain: k persons share every
joint history, and every difference affects none or at least k.
"""

from __future__ import annotations

import os
import random
import shutil
import threading
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dbanon
from dbanon.errors import ChainBehind, DbanonError
from tests.conftest import CAMPAIGN
from tests.stores.databases import NAMES, Database, DuckdbDatabase, SqliteDatabase
from tests.stores.test_kill import count_moments, kill_at, settle

# The test looks for anything a killed client leaves on the server.
pytestmark = [pytest.mark.own_backends, pytest.mark.in_turn(of="file")]

K = 3
PERSONS = 40
FULL = os.environ.get("CHAINS") == "full"
KILLS = 24 if FULL else 4
# A client on SQLite takes a quarter of the time.
Source = DuckdbDatabase if FULL or CAMPAIGN else SqliteDatabase
ReadableRows = dict[int, tuple[Any, ...]]


class Clinic:
    """A table whose persons come and go, its chain, and all of its releases that could be read."""

    def __init__(self, database: Database, folder: Path, **target: Any) -> None:
        self.database, self.key = database, folder / "people.key"
        self.chance = random.Random(3)
        self.inside = set(range(PERSONS))
        self.following = PERSONS
        self.seen: list[ReadableRows] = []
        types = database.types
        database.load(
            "people",
            {
                "person": f"{types['bigint']} PRIMARY KEY",
                "who": types["bigint"],
                "age": types["double"],
                "height": types["double"],
            },
            [],
        )
        self.fill()
        dbanon.create_chain(
            database.url,
            "people",
            table="people",
            entity="person",
            changes="show",
            class_size=2 * K,
            min_newcomers=0,
            max_wait=0,
            key_out=str(self.key),
        )
        self.given: dict[str, Any] = {
            "database": database.url,
            "table": "people",
            "output": "release.people",
            "if_exists": "replace",
            "quasi_identifiers": ["age", "height"],
            "keep": ["who"],
            "k": K,
            "entity": "person",
            **target,
            "chain": dbanon.Chain("people", key=f"file:{self.key}", accept_turnover=True),
        }

    def fill(self) -> None:
        """Put into the table who is in."""
        rows = [
            f"({p}, {p}, {random.Random(p).uniform(18, 90)}, {random.Random(-p).uniform(150, 200)})"
            for p in sorted(self.inside)
        ]
        self.database.execute("DELETE FROM people", f"INSERT INTO people VALUES {', '.join(rows)}")

    def month(self) -> None:
        """Some leave, as many join, and some are back."""
        leaving = self.chance.sample(sorted(self.inside), 5)
        back = self.chance.sample(sorted(set(range(self.following)) - self.inside or {0}), 1)
        joined = range(self.following, self.following + 6)
        self.following += 6
        self.inside = self.inside - set(leaving) | set(back) | set(joined)
        self.fill()

    def look(self, rows: list[tuple[Any, ...]] | None) -> None:
        """Keep what can be read now, unless it is what could be read before."""
        if rows is None:
            return
        readable_rows = {int(who): tuple(values) for who, *values in rows}
        assert len(readable_rows) == len(rows)
        if not self.seen or self.seen[-1] != readable_rows:
            self.seen.append(readable_rows)

    def require_one_chain(self) -> None:
        """ChainCounts and differences of all that could ever be read."""
        ever = {person for readable_rows in self.seen for person in readable_rows}
        joint = Counter(
            tuple(readable_rows.get(person) for readable_rows in self.seen) for person in ever
        )
        assert min(joint.values()) >= K
        for earlier, later in pairwise(self.seen):
            for before, other in ((earlier, later), (later, earlier)):
                came = Counter(
                    values for person, values in before.items() if other.get(person) != values
                )
                assert all(count >= K for count in came.values())

    def sequence(self) -> int:
        [(sequence,)] = self.database.rows(f"SELECT sequence FROM {self.database.ledger('chain')}")
        return int(sequence)


def readable(database: Database) -> list[tuple[Any, ...]] | None:
    """The rows of the release, or None where there is none yet."""
    if not {("release", "people"), ("", "release_people")} & database.relations():
        return None
    return database.rows(f"SELECT who, age, height FROM {database.relation('release.people')}")


def campaign(clinic: Clinic, target: Database, kills: int = KILLS) -> None:
    """Kill at moments spread over the run; let the last run end."""
    # The first run makes the ledger, the second is what the killed ones are like.
    for _ in range(2):
        total = count_moments(clinic.given)
        clinic.look(readable(target))
        clinic.month()
    for number in range(kills):
        kill_at(number * (total - 1) // (kills - 1), clinic.given)
        settle(clinic.database)
        settle(target)
        clinic.look(readable(target))
        clinic.month()
    dbanon.anonymize(**clinic.given)
    clinic.look(readable(target))
    clinic.require_one_chain()


# test_chain_kill.py compares what a killed run leaves on each database.
@pytest.mark.parametrize("name", NAMES if FULL or CAMPAIGN else ["sqlite"])
def test_a_killed_release_in_the_same_database_is_whole_or_never_was(
    make_database: Any, name: str, tmp_path: Path
) -> None:
    database: Database = make_database(name)
    clinic = Clinic(database, tmp_path)
    campaign(clinic, database)
    # Here state and release become visible together.
    assert clinic.sequence() == len(clinic.seen)


@pytest.mark.slow
# Where the last one that was killed had committed its state.
@pytest.mark.filterwarnings("ignore::dbanon.errors.ReleaseNotPublished")
@pytest.mark.parametrize("target", NAMES if FULL or CAMPAIGN else ["postgresql"])
def test_a_killed_release_in_another_database_is_never_forgotten(
    make_database: Any, target: str, tmp_path: Path
) -> None:
    source = Source(tmp_path / "source.db")
    target_database: Database = make_database(target)
    clinic = Clinic(source, tmp_path, target=target_database.url)
    campaign(clinic, target_database)
    # A state that was committed before its rows became readable counts, whether anyone read it or
    # not.
    assert clinic.sequence() >= len(clinic.seen)


@pytest.mark.slow
def test_a_killed_export_is_never_forgotten(tmp_path: Path) -> None:
    source = Source(tmp_path / "source.db")
    path = tmp_path / "out" / "people.parquet"
    clinic = Clinic(source, tmp_path, exports=[str(path)])

    def exported() -> list[tuple[Any, ...]] | None:
        if not path.exists():
            return None
        return duckdb.sql(f"SELECT who, age, height FROM '{path}'").fetchall()

    total = 0
    for _ in range(2):
        total = count_moments(clinic.given)
        clinic.look(exported())
        clinic.month()
    for number in range(KILLS):
        kill_at(number * (total - 1) // (KILLS - 1), clinic.given)
        clinic.look(readable(source))
        clinic.look(exported())
        clinic.month()
    dbanon.anonymize(**clinic.given)
    clinic.look(readable(source))
    clinic.look(exported())
    clinic.require_one_chain()


@pytest.mark.parametrize("name", ["duckdb", "sqlite", "postgresql"])
def test_two_runs_at_once_are_one_after_the_other_or_one_is_refused(
    make_database: Any, name: str, tmp_path: Path
) -> None:
    database: Database = make_database(name)
    clinic = Clinic(database, tmp_path)
    dbanon.anonymize(**clinic.given)
    clinic.look(readable(database))
    clinic.month()
    ended: list[Any] = []

    def release_once() -> None:
        try:
            ended.append(dbanon.anonymize(**clinic.given))
        except DbanonError as error:
            ended.append(error)

    threads = [threading.Thread(target=release_once) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    published = [outcome for outcome in ended if isinstance(outcome, dbanon.Report)]
    assert published
    assert all(outcome.exit_code in (4, 7) for outcome in ended if outcome not in published)
    assert clinic.sequence() == 1 + len(published)
    clinic.look(readable(database))
    clinic.month()
    dbanon.anonymize(**clinic.given)
    clinic.look(readable(database))
    clinic.require_one_chain()


def test_releases_outside_of_a_chain_are_not_one(tmp_path: Path) -> None:
    """The check on everything that was readable is stricter than what independent releases
    satisfy.
    """
    database = SqliteDatabase(tmp_path / "source.db")
    clinic = Clinic(database, tmp_path)
    for _ in range(2):
        dbanon.anonymize(**(clinic.given | {"chain": None, "entity": None}))
        clinic.look(readable(database))
        clinic.month()
    with pytest.raises(AssertionError):
        clinic.require_one_chain()


def test_a_forgotten_release_is_noticed_here(tmp_path: Path) -> None:
    """The campaign fails where a state is set back, and nothing else remembers the release."""
    source = SqliteDatabase(tmp_path / "source.db")
    target_database = SqliteDatabase(tmp_path / "there.db")
    clinic = Clinic(source, tmp_path, target=target_database.url)
    dbanon.anonymize(**clinic.given)
    clinic.look(readable(target_database))
    clinic.month()
    shutil.copy2(source.path, tmp_path / "old.db")
    dbanon.anonymize(**clinic.given)
    clinic.look(readable(target_database))
    shutil.copy2(tmp_path / "old.db", source.path)
    # Enough newcomers for classes in which those of the forgotten release are apart.
    for _ in range(3):
        clinic.month()
    with pytest.raises(ChainBehind):
        dbanon.anonymize(**clinic.given)
    target_database.execute(f"UPDATE {target_database.ledger()} SET chain_sequence = 1")
    clinic.key.with_name("people.key.last").unlink()
    dbanon.anonymize(**clinic.given)
    clinic.look(readable(target_database))
    with pytest.raises(AssertionError):
        clinic.require_one_chain()
