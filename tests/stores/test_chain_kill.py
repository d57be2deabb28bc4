"""Runs of a chain that are killed, or meet each other: state and release agree always."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import dbanon
from dbanon.errors import JobRunning
from dbanon.run.open import open_store
from tests.conftest import CAMPAIGN
from tests.stores.chain_cases import OPTIONS, Chained, Months, load, released
from tests.stores.databases import Database, SqliteDatabase
from tests.stores.test_kill import count_moments, kill_at, settle

# The test looks for anything a killed client leaves on the server.
pytestmark = [pytest.mark.own_backends, pytest.mark.in_turn(of="file")]

MOMENTS = 10


def moments_on(database: Database) -> int:
    """At how many moments clients are killed: at fewer where one costs several times as much."""
    return MOMENTS if CAMPAIGN or database.name == "sqlite" else MOMENTS // 2


def state(database: Database) -> tuple[Any, ...]:
    """The chain's state, and what its last release was."""
    return (
        database.rows(f"SELECT sequence FROM {database.ledger('chain')}"),
        sorted(
            database.rows(
                f"SELECT tag, cell, left_at_release FROM {database.ledger('chain_member')}"
            ),
            key=str,
        ),
        sorted(database.rows(f"SELECT cell, state FROM {database.ledger('chain_cell')}")),
    )


def given_of(chained: Chained) -> dict[str, Any]:
    return OPTIONS | {
        "database": chained.database.url,
        "table": "people",
        "output": "release.people",
        "chain": chained.chain(accept_turnover=True),
    }


def require_whole(earlier: Counter[Any], later: Counter[Any]) -> None:
    """Between two releases each combination gains and loses either no person or k persons."""
    sizes = [Counter(row[:2] for row in r.elements()) for r in (earlier, later)]
    for combination in {*sizes[0], *sizes[1]}:
        change = abs(sizes[0][combination] - sizes[1][combination])
        assert change == 0 or change >= 3


def test_a_killed_run_leaves_state_and_release_as_they_were(
    database: Database, tmp_path: Path
) -> None:
    months = Months(n=30)
    load(database, months.now)
    chained = Chained.create(database, tmp_path)
    options = given_of(chained)
    dbanon.anonymize(**options)
    months.pass_on()
    load(database, months.now)
    total = count_moments(options)
    months.pass_on()
    load(database, months.now)
    before, rows = state(database), released(database)
    kills = moments_on(database)
    for moment in range(kills):
        kill_at(moment * (total - 1) // (kills - 1), options)
        settle(database)
        assert state(database) == before
        assert released(database) == rows
    report = dbanon.anonymize(**options)
    assert report.arguments["chain"]["sequence"] == 3
    require_whole(rows, released(database))


# Where the last one that was killed had committed its state.
@pytest.mark.filterwarnings("ignore::dbanon.errors.ReleaseNotPublished")
def test_a_killed_copy_is_never_forgotten(database: Database, tmp_path: Path) -> None:
    """State that was committed counts as published, whether its release arrived or not."""
    other = SqliteDatabase(tmp_path / "elsewhere.db")
    months = Months(n=30)
    load(database, months.now)
    chained = Chained.create(database, tmp_path)
    options = given_of(chained) | {"target": other.url}
    dbanon.anonymize(**options)
    # Count the steps of a repeated run: no run after a month has fewer.
    total = count_moments(options)
    releases_read = [released(other)]
    sequences = []
    kills = moments_on(database)
    for moment in range(kills):
        months.pass_on()
        load(database, months.now)
        # The later the closer together: the state is committed in the second half of some runs.
        left = ((kills - 1 - moment) / (kills - 1)) ** 2
        kill_at(int((total - 1) * (1 - left)), options)
        settle(database)
        [(sequence,)] = database.rows(f"SELECT sequence FROM {database.ledger('chain')}")
        [(arrived,)] = other.rows(f"SELECT max(chain_sequence) FROM {other.ledger()}")
        assert arrived <= sequence
        chain_releases = chained.show().releases
        assert [release["sequence"] for release in chain_releases] == list(range(1, sequence + 1))
        sequences.append(sequence)
        releases_read.append(released(other))
        assert chained.smallest() >= 3
    report = dbanon.anonymize(**options)
    assert report.arguments["chain"]["sequence"] == sequences[-1] + 1
    # Some were killed before the state was committed, and some after it.
    assert 2 < len(set(sequences)) < kills
    assert not all(release["confirmed"] for release in chained.show().releases)
    for earlier in releases_read:
        require_whole(earlier, released(other))


def test_two_runs_at_once(database: Database, tmp_path: Path) -> None:
    load(database, Months(n=20).now)
    chained = Chained.create(database, tmp_path)
    chained.release()
    with open_store(database.url).job_lock("chain-patients"):
        for call in (
            chained.release,
            lambda: dbanon.withdraw(database.url, "patients", ["1"], key=f"file:{chained.key}"),
        ):
            with pytest.raises(JobRunning):
                call()
    assert chained.show().sequence == 1
    assert chained.release().arguments["chain"]["sequence"] == 2
