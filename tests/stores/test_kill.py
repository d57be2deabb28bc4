"""A client or a server that dies: no new release can be read, no staging, the old is untouched.

The client is killed at moments spread over the whole run: before each SQL statement and at each
report of progress it tells that it came so far, and waits.
"""

from __future__ import annotations

import os
import signal
import time
from multiprocessing.connection import Connection
from typing import Any

import psycopg
import pytest

import dbanon
from dbanon.errors import ConnectionLost
from dbanon.run.gc import collect_garbage
from dbanon.run.open import open_store
from dbanon.run.verify import verify
from dbanon.sessions.names import parse_relation
from tests.conftest import CAMPAIGN
from tests.postgres_server import Server
from tests.stores import forked
from tests.stores.databases import Database, DuckdbDatabase, PostgresqlDatabase
from tests.stores.people import load_people

pytestmark = pytest.mark.own_backends

MOMENTS = 10
# Other tests kill chains and exports at other steps on the same databases.
KILLS = MOMENTS if CAMPAIGN else 6
COPY_KILLS = MOMENTS // 2 if CAMPAIGN else 4


def _anonymize(channel: Connection, options: dict[str, Any]) -> None:
    """A client that tells each moment, and waits for leave to go on."""

    def moment(*event: Any) -> None:
        channel.send("moment")
        channel.recv()

    dbanon.anonymize(**options, progress=moment, on_sql=moment)
    channel.send("done")


def count_moments(options: dict[str, Any]) -> int:
    return forked.count_moments(_anonymize, options)


def kill_at(moment: int, options: dict[str, Any]) -> None:
    forked.kill_at(_anonymize, moment, options)


def settle(database: Database) -> None:
    """Wait until the server has noticed that its client is gone."""
    if not isinstance(database, PostgresqlDatabase):
        return
    others = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
    )
    deadline = time.monotonic() + 30
    while database.rows(others) != [(0,)]:
        assert time.monotonic() < deadline, "the server keeps the killed client's transaction"
        time.sleep(0.01)


def contents(database: Database) -> list[Any]:
    return sorted(database.rows(f"SELECT * FROM {database.relation('release.people')}"))


@pytest.mark.parametrize(
    ("name", "kind"),
    [("duckdb", "table"), ("sqlite", "view"), ("postgresql", "table"), ("postgresql", "view")],
)
def test_a_killed_client_leaves_nothing(make_database: Any, name: str, kind: str) -> None:
    database: Database = make_database(name)
    load_people(database)
    options: dict[str, Any] = {
        "database": database.url,
        "table": "people",
        "quasi_identifiers": ["age", "height"],
        "keep": ["site"],
        "output": "release.people",
        "output_kind": kind,
        "k": 3,
    }
    # The first run makes the ledger: the runs that are killed are such as the second.
    count_moments(options)
    total = count_moments(options | {"if_exists": "replace"})
    assert total > 2 * MOMENTS
    old, state = contents(database), database.state()
    options |= {"k": 5, "if_exists": "replace"}
    for moment in range(KILLS):
        kill_at(moment * (total - 1) // (KILLS - 1), options)
        settle(database)
        assert database.state() == state
        assert contents(database) == old
    report = dbanon.anonymize(**options)
    verification = verify(open_store(database.url), parse_relation("release.people"))
    assert (verification.release_id, verification.k_requested) == (report.release_id, 5)


@pytest.mark.parametrize("target", ["duckdb", "sqlite", "postgresql"])
def test_a_killed_copy_leaves_nothing(make_database: Any, tmp_path: Any, target: str) -> None:
    source = DuckdbDatabase(tmp_path / "source.duckdb")
    load_people(source)
    target_database = make_database(target)
    options: dict[str, Any] = {
        "database": source.url,
        "table": "people",
        "quasi_identifiers": ["age", "height"],
        "keep": ["site"],
        "output": "release.people",
        "output_kind": "view",
        "k": 3,
        "if_exists": "replace",
        "target": target_database.url,
        "chunk_rows": 5,
    }
    count_moments(options)
    total = count_moments(options)
    old, state, before = contents(target_database), target_database.state(), source.state()
    for moment in range(COPY_KILLS):
        kill_at(moment * (total - 1) // (COPY_KILLS - 1), options)
        settle(target_database)
        assert (target_database.state(), source.state()) == (state, before)
        assert contents(target_database) == old
    # Nothing for gc to do but what the two runs that were not killed superseded.
    store = open_store(target_database.url)
    assert collect_garbage(store) == []
    report = dbanon.anonymize(**options)
    dropped = collect_garbage(store, keep_last=0)
    assert len(dropped) == 2
    assert report.relation not in dropped
    assert len(contents(target_database)) == 40


def test_a_killed_backend_takes_the_run_with_it(
    postgresql: PostgresqlDatabase, local_pg_server: Server
) -> None:
    load_people(postgresql)
    options: dict[str, Any] = {"quasi_identifiers": ["age", "height"], "output_kind": "view"}
    postgresql.anonymize(**options)
    old, state = contents(postgresql), postgresql.state()

    for phase in ("read", "write", "verify"):

        def kill(now: str, share: float, phase: str = phase) -> None:
            if now == phase:
                [(pid,)] = postgresql.rows(
                    "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
                    " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
                )
                os.kill(pid, signal.SIGKILL)
                # The server ends every session, recovers, and takes connections again.
                _wait_until_up(postgresql)

        with pytest.raises(ConnectionLost) as caught:
            postgresql.anonymize(if_exists="replace", k=5, progress=kill, **options)
        assert caught.value.exit_code == 4
        assert postgresql.state() == state
        assert contents(postgresql) == old
    postgresql.anonymize(if_exists="replace", k=5, **options)


def _wait_until_up(database: PostgresqlDatabase) -> None:
    deadline = time.monotonic() + 60
    # It may still answer for a moment before it has noticed.
    time.sleep(0.2)
    while True:
        try:
            database.rows("SELECT 1")
            return
        except psycopg.OperationalError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
