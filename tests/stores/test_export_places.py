"""Places of exports under attack: links, pipes, other people's files, full disks, crashes."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dbanon.doors.install import install
from dbanon.errors import (
    CommitConfirmed,
    DatabaseFailure,
    ExportPending,
    InvalidParameter,
    OutputExists,
)
from dbanon.run import export as exporting
from dbanon.run.open import open_store
from dbanon.stores.exports import destinations, formats
from tests.stores.databases import Database, PostgresqlDatabase
from tests.stores.people import load_people

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")

AGES: dict[str, Any] = {"quasi_identifiers": ["age"], "keep": ["site"], "if_exists": "replace"}


def left(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in tmp_path.rglob(".dbanon-*"))


def crashed(monkeypatch: pytest.MonkeyPatch, database: Database, **options: Any) -> Any:
    """A release whose run ended right after COMMIT."""
    with monkeypatch.context() as patch:
        patch.setattr(exporting.Exporter, "finish", exporting.Exporter.leave_pending)
        return database.anonymize(**options)


def test_no_link_is_replaced_and_no_pipe_waited_for(database: Database, tmp_path: Path) -> None:
    load_people(database)
    path = tmp_path / "people.parquet"
    other = tmp_path / "other.parquet"
    database.anonymize(**AGES, exports=[other])
    for target in (other, tmp_path / "nowhere.parquet"):
        path.symlink_to(target)
        with pytest.raises(OutputExists):
            database.anonymize(**AGES, exports=[path])
        assert path.is_symlink()
        path.unlink()
    os.mkfifo(path)
    with pytest.raises(OutputExists):
        database.anonymize(**AGES, exports=[path])
    path.unlink()
    path.mkdir()
    with pytest.raises(OutputExists):
        database.anonymize(**AGES, exports=[path])
    with pytest.raises(InvalidParameter):
        database.anonymize(**AGES, exports=[tmp_path / f"{'x' * 300}.parquet"])
    assert left(tmp_path) == []


@pytest.mark.parametrize("before", [True, False])
def test_a_file_that_appears_meanwhile_stays(
    database: Database, tmp_path: Path, before: bool
) -> None:
    load_people(database)
    path = tmp_path / "people.csv"
    if before:
        database.anonymize(**AGES, exports=[path])

    def progress(phase: str, share: float) -> None:
        if phase == "verify" and share == 1.0:
            path.write_text("somebody's")

    with pytest.warns(ExportPending):
        database.anonymize(**AGES, exports=[path], progress=progress)
    assert path.read_text() == "somebody's"
    # It stays at the next run, too, which can do no more than say so; then its owner takes it away.
    with pytest.warns(ExportPending), pytest.raises(OutputExists):
        database.anonymize(**AGES, exports=[path])
    assert path.read_text() == "somebody's"
    path.unlink()
    database.anonymize(**AGES, exports=[path])
    assert left(tmp_path) == []


def test_a_crash_between_link_and_unlink_leaves_one_name_in_the_end(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_people(database)
    for kind in ("parquet", "csv"):
        pattern = str(tmp_path / ("{release}." + kind))
        options = {**AGES, "exports": [pattern]}
        release = crashed(monkeypatch, database, **options)
        [name] = left(tmp_path)
        os.link(tmp_path / name, tmp_path / f"{release.release_id}.{kind}")
        database.anonymize(**options)
        assert left(tmp_path) == []
        assert (tmp_path / f"{release.release_id}.{kind}").stat().st_nlink == 1


def test_the_ledger_is_asked_once_the_files_are_held(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Else their run might publish them, and end, between the two: a file would be taken for none.
    load_people(database)
    options = {**AGES, "exports": [str(tmp_path / "{release}.parquet")]}
    release = crashed(monkeypatch, database, **options)
    events: list[str] = []
    lock_leftover, list_exports = destinations.lock_leftover, exporting.releases.list_exports
    monkeypatch.setattr(
        destinations, "lock_leftover", lambda path: events.append("held") or lock_leftover(path)
    )
    monkeypatch.setattr(
        exporting.releases,
        "list_exports",
        lambda *all_: events.append("ledger") or list_exports(*all_),
    )
    database.anonymize(**options)
    assert events[:2] == ["held", "ledger"]
    assert (tmp_path / f"{release.release_id}.parquet").is_file()
    assert left(tmp_path) == []


@pytest.mark.usefixtures("interrupts")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGALRM])
def test_a_signal_while_files_get_their_places_ends_no_run_that_is_committed(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    load_people(database)
    path, real = tmp_path / "people.parquet", destinations.move_to_destination

    def interrupted(*args: Any, **more: Any) -> None:
        os.kill(os.getpid(), number)
        real(*args, **more)

    monkeypatch.setattr(destinations, "move_to_destination", interrupted)
    options = {**AGES, "exports": [path, tmp_path / "people.csv"], "time_limit": 600.0}
    if number is signal.SIGINT:
        with pytest.warns(CommitConfirmed):
            report = database.anonymize(**options)
    else:
        report = database.anonymize(**options)
    assert formats.metadata_of(path)["release_id"] == report.release_id
    assert (tmp_path / "people.csv").exists()
    assert left(tmp_path) == []
    assert len(database.ledger_rows("run")) == 1


def test_traps_beside_the_place_are_left_alone(database: Database, tmp_path: Path) -> None:
    load_people(database)
    path = tmp_path / "people.parquet"
    database.anonymize(**AGES, exports=[path])
    tag = destinations.tag_of(open_store(database.url).url, "release.people")
    victim = tmp_path / "victim"
    victim.write_text("somebody's")
    link = tmp_path / f".dbanon-{tag}-{'0' * 36}-0.tmp"
    link.symlink_to(victim)
    pipe = tmp_path / f".dbanon-{tag}-{'1' * 36}-0.tmp"
    os.mkfifo(pipe)
    database.anonymize(**AGES, exports=[path])
    assert link.is_symlink()
    assert pipe.is_fifo()
    assert victim.read_text() == "somebody's"
    assert formats.metadata_of(path)["release_id"]


def test_a_full_disk_is_a_failure_that_can_be_tried_again(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_people(database)
    before = database.state()

    def full(number: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(destinations.os, "fsync", full)
    with pytest.raises(DatabaseFailure) as failed:
        database.anonymize(**AGES, exports=[tmp_path / "people.parquet"])
    assert failed.value.exit_code == 4
    assert "No space" in str(failed.value.detail)
    assert database.state() == before
    assert list(tmp_path.glob("**/*.parquet")) == left(tmp_path) == []


def test_a_disk_without_links_takes_files(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_people(database)

    def none(source: Any, target: Any) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(destinations.os, "link", none)
    path = tmp_path / "people.parquet"
    for _ in range(2):
        report = database.anonymize(**AGES, exports=[path])
        assert formats.metadata_of(path)["release_id"] == report.release_id


def test_names_are_on_the_disk_before_the_release_is_published(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_people(database)
    synced: list[Path] = []
    real = destinations.sync_directory

    def record_sync(directory: Path) -> None:
        synced.append(directory)
        real(directory)

    monkeypatch.setattr(destinations, "sync_directory", record_sync)
    crashed(monkeypatch, database, **AGES, exports=[tmp_path / "new" / "deep" / "people.parquet"])
    assert synced == [tmp_path, tmp_path / "new", tmp_path / "new" / "deep"]


def test_what_another_role_says_of_files_removes_none(
    pg_url: str, pg_role: Callable[..., str], tmp_path: Path
) -> None:
    """An output of this name was another role's once: its entries could name any file."""
    database = PostgresqlDatabase(pg_url)
    load_people(database)
    install(pg_url, sql_only=True)
    eve, anna = (pg_role(name, "IN ROLE dbanon_runner") for name in ("eve", "anna"))
    database.execute(
        "CREATE SCHEMA release",
        "GRANT USAGE, CREATE ON SCHEMA release TO eve, anna",
        "GRANT SELECT ON people TO eve, anna",
    )
    options: dict[str, Any] = {
        "quasi_identifiers": ["age"],
        "exports": [{"path": str(tmp_path / "{release}.parquet"), "keep_last": 1}],
        "if_exists": "replace",
    }
    theirs = database.anonymize(database=eve, **options).release_id
    database.execute("DROP TABLE release.people")
    reports = [database.anonymize(database=anna, **options) for _ in range(2)]
    assert {path.stem for path in tmp_path.glob("*.parquet")} == {theirs, reports[1].release_id}
    # A file that names no release is never taken for a release.
    export_path = tmp_path / "people.csv"
    database.execute("DROP TABLE release.people")
    database.anonymize(database=eve, **options | {"exports": [export_path]})
    database.execute("DROP TABLE release.people")
    with pytest.raises(OutputExists):
        database.anonymize(database=anna, **options | {"exports": [export_path]})
