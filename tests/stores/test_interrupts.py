"""A signal during a commit comes too late, and the message says so."""

from __future__ import annotations

import importlib
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

from dbanon.errors import CommitConfirmed
from dbanon.sessions.thread_connections import thread_connections
from dbanon.stores.interrupts import interruptible_until_commit
from tests.prerequisites import skip_case
from tests.stores.databases import NAMES, Database, DuckdbDatabase, SqliteDatabase
from tests.stores.people import load_people
from tests.stores.signals import handler

pytestmark = [pytest.mark.usefixtures("interrupts"), pytest.mark.own_backends]


def committed_at(moment: str, number: int = signal.SIGINT) -> None:
    """A transaction with a signal before or after it is committed, or one that fails there."""
    with interruptible_until_commit() as hold:
        if moment == "early":
            os.kill(os.getpid(), number)
        hold()
        os.kill(os.getpid(), number)
        if moment == "failed":
            raise ValueError("the commit failed")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_late_signal_is_a_warning(number: int) -> None:
    with handler(number, signal.default_int_handler):
        with pytest.warns(CommitConfirmed):
            committed_at("late", number)
        assert signal.getsignal(number) is signal.default_int_handler


@pytest.mark.parametrize("moment", ["early", "failed"])
def test_another_ends_the_block(moment: str) -> None:
    """When it came before, or when nothing was committed after all."""
    with handler(signal.SIGINT, signal.default_int_handler), pytest.raises(KeyboardInterrupt):
        committed_at(moment)


def test_a_run_ends_after_a_commit_that_publishes_nothing() -> None:
    with (
        handler(signal.SIGINT, signal.default_int_handler),
        pytest.raises(KeyboardInterrupt),
        thread_connections().preliminary_commits(),
    ):
        committed_at("late")


def test_a_signal_without_a_handler_stays_so() -> None:
    with handler(signal.SIGTERM, signal.SIG_IGN), interruptible_until_commit() as hold:
        hold()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN


def test_another_thread_has_no_signals() -> None:
    handlers = []

    def work() -> None:
        with interruptible_until_commit() as hold:
            hold()
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert handlers == [signal.getsignal(signal.SIGINT)]


def strike_once_held(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Sends SIGINT at each COMMIT of a file's database, as soon as the file is open; yields a flag
    that says it came.
    """
    struck: list[str] = []

    @contextmanager
    def strike() -> Iterator[Callable[[], None]]:
        with interruptible_until_commit() as hold:

            def at_commit() -> None:
                hold()
                struck.append("commit")
                os.kill(os.getpid(), signal.SIGINT)

            yield at_commit

    monkeypatch.setattr("dbanon.stores.file_session.interruptible_until_commit", strike)
    return struck


def test_an_interrupt_while_it_is_committed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while the embedded database commits: the release is published, and no run has
    failed.
    """
    if database.name == "postgresql":
        skip_case("the server is asked: test_commit_outcome.py")
    load_people(database)
    struck = strike_once_held(monkeypatch)
    with pytest.warns(CommitConfirmed):
        report = database.anonymize(
            quasi_identifiers=["age", "income"], k=3, output="release.people"
        )
    monkeypatch.undo()
    assert struck == ["commit"]
    ids = f"SELECT release_id FROM {database.ledger()} WHERE superseded_at IS NULL"
    assert [str(release_id) for [release_id] in database.rows(ids)] == [report.release_id]
    failed = f"SELECT error_code FROM {database.ledger('run')} WHERE error_code IS NOT NULL"
    assert database.rows(failed) == []


def strike_at_commit(monkeypatch: pytest.MonkeyPatch, name: str, struck: list[str]) -> None:
    """SIGINT when a database of that kind is to end its transaction."""

    def strike() -> None:
        struck.append(name)
        os.kill(os.getpid(), signal.SIGINT)

    if name == "postgresql":
        commit = sqlalchemy.Connection.commit

        def struck_commit(connection: sqlalchemy.Connection) -> None:
            strike()
            commit(connection)

        monkeypatch.setattr(sqlalchemy.Connection, "commit", struck_commit)
        return
    module = importlib.import_module(f"dbanon.stores.{name}.store")
    session = {"duckdb": "DuckdbSession", "sqlite": "SqliteSession"}[name]
    drop_staging, translated = getattr(module, session).drop_staging, module.translate_errors
    at_its_end: list[bool] = []

    def dropped(self: Any) -> None:
        drop_staging(self)
        at_its_end.append(True)

    @contextmanager
    def struck_translated(*arguments: Any) -> Iterator[None]:
        with translated(*arguments):
            if at_its_end:
                at_its_end.clear()
                strike()
            yield

    monkeypatch.setattr(getattr(module, session), "drop_staging", dropped)
    monkeypatch.setattr(module, "translate_errors", struck_translated)


@pytest.mark.parametrize("source", NAMES)
def test_an_interrupt_when_the_source_was_read(
    make_database: Callable[[str], Database], source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With two databases the one that is only read commits nothing, so Ctrl-C there ends the
    run.
    """
    source_database = make_database(source)
    target_database = make_database("sqlite" if source == "duckdb" else "duckdb")
    load_people(source_database)
    before = target_database.state()
    struck: list[str] = []
    strike_at_commit(monkeypatch, source, struck)
    with pytest.raises(KeyboardInterrupt):
        source_database.anonymize(
            quasi_identifiers=["age", "income"], k=3, target=target_database.url
        )
    monkeypatch.undo()
    assert struck == [source]
    assert target_database.state() == before


@pytest.mark.parametrize("kind", [DuckdbDatabase, SqliteDatabase])
def test_a_file_that_was_made_stays_once_it_is_committed(
    make_database: Callable[[str], Database],
    kind: type[DuckdbDatabase] | type[SqliteDatabase],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Also where warnings are errors: that of a late Ctrl-C says that the release is there."""
    source_database = make_database("sqlite" if kind.name == "duckdb" else "duckdb")
    load_people(source_database)
    target_path = tmp_path / f"made.{kind.name}"
    struck = strike_once_held(monkeypatch)
    warnings.simplefilter("error", CommitConfirmed)
    with pytest.raises(CommitConfirmed):
        source_database.anonymize(
            quasi_identifiers=["age"], k=3, target=f"{kind.name}:///{target_path}"
        )
    monkeypatch.undo()
    assert struck
    assert target_path.exists()
    target_database = kind(target_path)
    relation = target_database.relation("release.people")
    assert target_database.rows(f"SELECT count(*) FROM {relation}") == [(40,)]
