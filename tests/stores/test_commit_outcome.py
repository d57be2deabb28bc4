"""The connection is lost at COMMIT: the client says what happened, or that it cannot know."""

from __future__ import annotations

import threading
import time
from typing import Any, Literal

import pytest
import sqlalchemy
from click.testing import CliRunner

from dbanon.doors import releases as stored_hierarchies
from dbanon.doors.cli.main import main
from dbanon.errors import CommitConfirmed, ConnectionLost, OutcomeUnknown
from dbanon.stores.postgresql import store as postgresql_store
from tests.postgres_server import Server
from tests.stores.databases import Database, DuckdbDatabase, PostgresqlDatabase
from tests.stores.people import load_people
from tests.stores.tcp_proxy import SESSION, Cut, TcpProxy

pytestmark = pytest.mark.own_backends

How = Literal["before", "after", "hold"]
OPTIONS: dict[str, Any] = {"quasi_identifiers": ["age", "height"], "keep": ["site"]}


def cut(how: How, down: bool = False) -> Cut:
    """A cut at the COMMIT of a session of dbanon's."""
    return Cut(how, since=SESSION, down=down)


def through(proxy: TcpProxy, url: str) -> PostgresqlDatabase:
    return PostgresqlDatabase(proxy.url(url))


@pytest.fixture
def people(postgresql: PostgresqlDatabase) -> PostgresqlDatabase:
    """A database with a release that is replaced."""
    load_people(postgresql)
    postgresql.anonymize(**OPTIONS)
    return postgresql


def current(database: Database) -> list[tuple[Any, ...]]:
    return database.rows(
        "SELECT release_id::text, k_requested FROM dbanon.release WHERE superseded_at IS NULL"
    )


def is_shown(database: Database, k: int) -> bool:
    sizes = database.rows("SELECT count(*) FROM release.people GROUP BY age, height")
    return min(size for (size,) in sizes) == k


def no_session_of_ours(database: Database) -> bool:
    others = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
    )
    return database.rows(others) == [(0,)]


def replace(database: PostgresqlDatabase, k: int = 7) -> Any:
    return database.anonymize(**OPTIONS, k=k, if_exists="replace")


def test_the_server_did_not_get_it(pg_server: Server, people: PostgresqlDatabase) -> None:
    before = people.state()
    with (
        TcpProxy(pg_server.host, pg_server.port, cut("before")) as proxy,
        pytest.raises(ConnectionLost, match="nothing was published") as caught,
    ):
        replace(through(proxy, people.url))
    assert caught.value.exit_code == 4
    assert people.state() == before
    assert is_shown(people, 3)


@pytest.mark.parametrize("kind", ["table", "view"])
def test_its_answer_did_not_arrive(
    pg_server: Server, people: PostgresqlDatabase, kind: str
) -> None:
    with (
        TcpProxy(pg_server.host, pg_server.port, cut("after")) as proxy,
        pytest.warns(CommitConfirmed),
    ):
        report = through(proxy, people.url).anonymize(
            **OPTIONS, k=7, output="release.second", output_kind=kind
        )
    assert proxy.was_cut.is_set()
    assert (report.release_id, 7) in current(people)
    assert people.rows("SELECT count(*) FROM release.second") == [(report.rows_out,)]


def test_a_server_that_still_waits_is_cancelled(
    pg_server: Server, people: PostgresqlDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may wait hours for a disconnected client, and the outcome would stay unknown for hours."""
    monkeypatch.setattr(postgresql_store, "TERMINATE_AFTER_SECONDS", 0.2)
    before = people.state()
    with TcpProxy(pg_server.host, pg_server.port, cut("hold")) as proxy:
        with pytest.raises(ConnectionLost, match="nothing was published"):
            replace(through(proxy, people.url))
        # Too late: nothing comes of it any more.
        proxy.forward()
        # It has received the signal to stop, which takes a moment.
        deadline = time.monotonic() + 30
        while not no_session_of_ours(people):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert people.state() == before


def test_one_that_is_late_is_waited_for(pg_server: Server, people: PostgresqlDatabase) -> None:
    with TcpProxy(pg_server.host, pg_server.port, cut("hold")) as proxy:

        def forward() -> None:
            proxy.was_cut.wait()
            threading.Event().wait(0.5)
            proxy.forward()

        thread = threading.Thread(target=forward)
        thread.start()
        with pytest.warns(CommitConfirmed):
            report = replace(through(proxy, people.url))
        thread.join()
    assert current(people) == [(report.release_id, 7)]
    assert is_shown(people, 7)


@pytest.mark.parametrize(("how", "published"), [("before", False), ("after", True)])
def test_a_network_that_stays_down_leaves_it_open(
    pg_server: Server,
    people: PostgresqlDatabase,
    monkeypatch: pytest.MonkeyPatch,
    how: How,
    published: bool,
) -> None:
    monkeypatch.setattr(postgresql_store, "OUTCOME_SECONDS", 0.5)
    [(old, _)] = current(people)
    with TcpProxy(pg_server.host, pg_server.port, cut(how, down=True)) as proxy:
        with pytest.raises(OutcomeUnknown) as caught:
            replace(through(proxy, people.url))
        error = caught.value
        assert (error.code, error.exit_code, error.sqlstate) == ("outcome_unknown", 10, "08007")
        # The query that tells, and what it tells.
        query = str(error.hint).partition("check: ")[2].partition(";")[0]
        assert query.startswith("SELECT ")
        assert bool(people.rows(query)) == published
    assert (current(people) == [(old, 3)]) != published


@pytest.mark.parametrize(
    ("how", "down", "code"), [("before", False, 4), ("after", False, 0), ("after", True, 10)]
)
def test_the_command_says_the_same(
    pg_server: Server,
    people: PostgresqlDatabase,
    monkeypatch: pytest.MonkeyPatch,
    how: How,
    down: bool,
    code: int,
) -> None:
    monkeypatch.setattr(postgresql_store, "OUTCOME_SECONDS", 1.0)
    with TcpProxy(pg_server.host, pg_server.port, cut(how, down=down)) as proxy:
        done = CliRunner().invoke(
            main,
            [
                "anonymize",
                proxy.url(people.url),
                "--table",
                "people",
                "--quasi-identifiers",
                "age,height",
                "--k",
                "7",
                "--output",
                "release.people",
                "--if-exists",
                "replace",
                "--no-progress",
            ],
        )
    assert done.exit_code == code, done.output
    message = {0: "Warning: ", 4: "[connection_lost]", 10: "[outcome_unknown]"}[code]
    assert message in done.stderr
    assert ("Report" in done.stdout) == (code == 0)
    assert is_shown(people, 7) == (how == "after")


def test_the_target_of_another_database(
    pg_server: Server, postgresql: PostgresqlDatabase, duckdb_file: DuckdbDatabase
) -> None:
    load_people(duckdb_file)
    for how, output in (("before", "release.one"), ("after", "release.two")):
        with TcpProxy(pg_server.host, pg_server.port, cut(how)) as proxy:  # type: ignore[arg-type]
            target = {"target": proxy.url(postgresql.url), "output": output}
            if how == "before":
                with pytest.raises(ConnectionLost):
                    duckdb_file.anonymize(**OPTIONS, **target)
            else:
                with pytest.warns(CommitConfirmed):
                    duckdb_file.anonymize(**OPTIONS, **target)
    assert [name for schema, name in postgresql.relations() if schema == "release" and name] == [
        "two"
    ]


@pytest.mark.parametrize("how", ["before", "after", "hold"])
def test_a_source_lost_at_its_end_publishes_nothing(
    pg_server: Server, people: PostgresqlDatabase, duckdb_file: DuckdbDatabase, how: How
) -> None:
    """It is left before the target commits; the target is rolled back then."""
    before = duckdb_file.state()
    with (
        TcpProxy(pg_server.host, pg_server.port, cut(how)) as proxy,
        pytest.raises(ConnectionLost, match="nothing was published"),
    ):
        through(proxy, people.url).anonymize(**OPTIONS, target=duckdb_file.url)
    assert duckdb_file.state() == before


def test_other_writes_are_settled_too(pg_server: Server, people: PostgresqlDatabase) -> None:
    tree = {"tree": {"all": ["a", "b"]}}
    with (
        TcpProxy(pg_server.host, pg_server.port, cut("before")) as proxy,
        pytest.raises(ConnectionLost),
    ):
        stored_hierarchies.store_hierarchy(proxy.url(people.url), "t", tree)
    with (
        TcpProxy(pg_server.host, pg_server.port, cut("after")) as proxy,
        pytest.warns(CommitConfirmed),
    ):
        stored_hierarchies.store_hierarchy(proxy.url(people.url), "t", tree)
    assert [hierarchy.name for hierarchy in stored_hierarchies.list_hierarchies(people.url)] == [
        "t"
    ]


def test_an_interrupt_while_it_is_committed(
    people: PostgresqlDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C during COMMIT: the release exists, and the message says so."""
    commit = sqlalchemy.Connection.commit

    def interrupted(self: sqlalchemy.Connection) -> None:
        commit(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(sqlalchemy.Connection, "commit", interrupted)
    with pytest.warns(CommitConfirmed):
        report = replace(people)
    monkeypatch.undo()
    assert current(people) == [(report.release_id, 7)]
