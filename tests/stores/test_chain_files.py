"""Chains that write files: state, release and file go on together, whenever a run is killed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import dbanon
from dbanon.errors import ReleaseNotPublished
from dbanon.extensions.chains import run as chain_run
from dbanon.job.export import Export
from dbanon.job.job import Job
from dbanon.job.policy import Policy
from dbanon.run.export import Exporter
from dbanon.run.open import open_store
from dbanon.stores.exports.formats import metadata_of
from tests.stores.chain_cases import OPTIONS, Chained, Months, load, released
from tests.stores.databases import Database, SqliteDatabase
from tests.stores.test_kill import count_moments, kill_at, settle

KILLS = 9


def sequences(database: Database) -> tuple[int, int]:
    """The last release of the state, and of the ledger."""
    [(state,)] = database.rows(f"SELECT sequence FROM {database.ledger('chain')}")
    [(ledger,)] = database.rows(f"SELECT max(chain_sequence) FROM {database.ledger()}")
    return state, ledger


@pytest.mark.own_backends
@pytest.mark.in_turn(of="file")
@pytest.mark.parametrize("form", ["people.parquet", "people.csv"])
def test_a_kill_at_any_moment_leaves_state_release_and_file_together(
    database: Database, tmp_path: Path, form: str
) -> None:
    months = Months(n=30)
    load(database, months.now)
    chained, path = Chained.create(database, tmp_path), tmp_path / "out" / form
    options = OPTIONS | {
        "database": database.url,
        "table": "people",
        "output": "release.people",
        "chain": chained.chain(accept_turnover=True),
        "exports": [str(path)],
    }
    dbanon.anonymize(**options)
    job = Job(
        table="people",
        output="release.people",
        quasi_identifiers=("age", "income"),
        policy=Policy(k=3),
        exports=(Export(str(path)),),
        if_exists="replace",
    )
    total = count_moments(options)
    published = 0
    for kill in range(KILLS):
        before, rows = sequences(database), released(database)
        # Most of them in the second half: during writing and committing.
        kill_at(int((total - 1) * (1 - ((KILLS - 1 - kill) / KILLS) ** 2)), options)
        settle(database)
        state, ledger = sequences(database)
        assert state == ledger
        assert (released(database) == rows) == ((state, ledger) == before)
        Exporter(job, open_store(database.url)).finish_earlier_runs()
        assert [file.name for file in path.parent.iterdir()] == [form]
        if form.endswith("parquet"):
            assert int(metadata_of(path)["chain_sequence"]) == ledger
        assert all(release["confirmed"] for release in chained.show().releases)
        published += (state, ledger) != before
    assert published < KILLS
    report = dbanon.anonymize(**options)
    assert report.arguments["chain"]["sequence"] == sequences(database)[1] == state + 1


def test_files_are_private_before_the_state_is_committed(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files written earlier have no name that readers know, and only their owner can read them."""
    load(database, Months(n=30).now)
    chained, path = Chained.create(database, tmp_path), tmp_path / "out" / "people.csv"
    publish = chain_run.publish_tables
    seen: list[Any] = []

    def fail(*args: Any) -> Any:
        publish(*args)
        seen.extend((file.name, file.stat().st_mode & 0o777) for file in path.parent.iterdir())
        raise KeyboardInterrupt

    monkeypatch.setattr(chain_run, "publish_tables", fail)
    with pytest.raises(KeyboardInterrupt):
        chained.release(exports=[str(path)])
    [(name, mode)] = seen
    assert name.startswith(".dbanon-")
    assert mode == 0o600
    assert not any(path.parent.iterdir())
    assert sequences(database)[0] == 0


@pytest.mark.in_turn(of="file")
def test_a_release_that_arrived_is_confirmed_by_the_next_one(
    database: Database, tmp_path: Path
) -> None:
    load(database, Months(n=30).now)
    chained, other = Chained.create(database, tmp_path), SqliteDatabase(tmp_path / "other.db")
    chained.release(target=other.url)
    # The state after a run that was killed before it confirmed.
    database.execute(f"UPDATE {database.ledger('chain_release')} SET confirmed_at = NULL")
    chained.release(target=other.url)
    assert [release["confirmed"] for release in chained.show().releases] == [True, True]


@pytest.mark.in_turn(of="file")
def test_a_release_that_never_arrived_is_named_by_the_next_one(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(database, Months(n=30).now)
    chained, other = Chained.create(database, tmp_path), SqliteDatabase(tmp_path / "other.db")

    def fail(*args: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(chain_run, "publish_tables", fail)
        with pytest.raises(KeyboardInterrupt):
            chained.release(target=other.url)
    with pytest.warns(ReleaseNotPublished, match="Release 1 of chain patients was not published"):
        report = chained.release(target=other.url)
    assert report.arguments["chain"]["sequence"] == 2
    assert [release["confirmed"] for release in chained.show().releases] == [False, True]
    chained.release(target=other.url)
    assert json.dumps(report.to_dict(), default=str)
