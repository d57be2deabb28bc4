"""A stalled network: a process that receives a stop signal ends, and reports the true outcome."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

import dbanon
from dbanon.errors import DbanonError
from dbanon.run.open import open_store
from tests.postgres_server import Server
from tests.stores.databases import PostgresqlDatabase
from tests.stores.forked import Command
from tests.stores.people import COLUMNS, load_people
from tests.stores.tcp_proxy import COMMIT, SESSION, Cut, TcpProxy

pytestmark = [pytest.mark.postgresql, pytest.mark.own_backends]

# From the signal or the end of the time limit: 5, and a margin for a busy machine.
SECONDS = 15.0
# A process still running by then hangs.
HANGS = 60.0

# The source's last statement is its COMMIT, too: that of a transaction which only read.
PLACES = {
    "lock": Cut("stall", b"dbanon job"),
    "session": Cut("stall", SESSION),
    "read": Cut("stall", b"COPY (", since=SESSION, answers=20_000),
    "load": Cut("stall", b"FROM STDIN", since=SESSION),
    "statement": Cut("stall after", b"INSERT INTO", since=SESSION),
    "commit": Cut("stall", COMMIT, since=SESSION),
    "committed": Cut("stall after", COMMIT, since=SESSION),
}


# Their rows are more than what a socket holds back.
OF_MANY_ROWS = ("read", "load")


@pytest.fixture
def people(request: pytest.FixtureRequest, postgresql: PostgresqlDatabase) -> PostgresqlDatabase:
    """A table of few rows, but where they are what stalls."""
    case = getattr(request.node, "callspec", None)
    rows = 20_000 if case and case.params.get("stage") in OF_MANY_ROWS else 400
    load_people(postgresql, [])
    postgresql.execute(
        "INSERT INTO people SELECT i, 'name ' || i, 18 + i * 7 % 72, 1000 + i,"
        " 150 + i * 13 % 9973 / 199.0, date '1930-01-01' + i, timestamp '2020-01-01', 'site ' || i"
        f" FROM generate_series(1, {rows}) AS i"
    )
    return postgresql


@contextmanager
def stalling(server: Server, stage: str, down: bool = False) -> Iterator[TcpProxy]:
    cut = PLACES[stage]
    cut = Cut(cut.how, cut.at, cut.since, cut.answers, down)
    with TcpProxy(server.host, server.port, cut) as proxy:
        yield proxy


def job_file(tmp_path: Path, limit: float | None = None, *names: str) -> Path:
    file = tmp_path / "job.yaml"
    limited = "" if limit is None else f", time_limit: {limit}"
    dropped = [name for name in COLUMNS if name not in ("age", "height")]
    file.write_text(
        'version: 1\nsource: {url: "${SOURCE}"}\n'
        + f"defaults: {{k: 7, method: mondrian{limited}}}\njobs:\n"
        + "".join(
            f"  - name: {name}\n    table: people\n    columns:\n"
            "      age: {role: quasi_identifier}\n      height: {role: quasi_identifier}\n"
            + "".join(f"      {column}: {{role: drop}}\n" for column in dropped)
            + f"    output: {{table: release.{name}}}\n"
            for name in names or ("people",)
        )
    )
    return file


@contextmanager
def running(file: Path, source: str, target: str | None = None) -> Iterator[Command]:
    if target is not None:
        file.write_text(
            file.read_text().replace("defaults", 'target: {url: "${TARGET}"}\ndefaults', 1)
        )
    with Command(
        "from dbanon.doors.cli.main import main; main()",
        "run",
        str(file),
        "--format",
        "json",
        "--no-progress",
        env=os.environ | {"SOURCE": source, "TARGET": target or ""},
    ) as process:
        yield process


def ended(process: Command, since: float, label: str) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=HANGS)
    spent = time.monotonic() - since
    print(f"stalled: {label}: {spent:.1f} s, exit {process.returncode}")
    assert spent < SECONDS, err
    assert process.returncode is not None
    return process.returncode, out, err


def told_and_ended(proxy: TcpProxy, process: Command, label: str) -> Any:
    assert proxy.was_cut.wait(60), "the place was not reached"
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    return ended(process, time.monotonic(), label)


def published(database: PostgresqlDatabase) -> bool:
    return ("release", "people") in database.relations()


def lock_is_free(database: PostgresqlDatabase) -> bool:
    """Immediately: the process has waited for the server or ended its session there."""
    deadline = time.monotonic() + 2
    while True:
        try:
            with open_store(database.url).job_lock("people"):
                return True
        except dbanon.DbanonError as error:
            if error.code != "job_running" or time.monotonic() > deadline:
                return False
            time.sleep(0.05)


def judge(people: PostgresqlDatabase, code: int, out: str, err: str, stage: str) -> None:
    """The reported outcome matches the database."""
    assert "Traceback" not in err
    if code == 10:
        [job] = json.loads(out)["jobs"]
        assert job["error"]["code"] == "outcome_unknown"
        assert stage in ("commit", "committed")
        return
    if code == 0:
        assert published(people)
        assert stage == "committed"
        return
    assert code in (143, 9), err
    assert "rolled back" in err or "nothing was published" in err
    assert not published(people)


@pytest.mark.parametrize("down", [False, True], ids=["", "down"])
@pytest.mark.parametrize("stage", PLACES)
def test_the_first_signal_ends_it(
    pg_server: Server, people: PostgresqlDatabase, tmp_path: Path, stage: str, down: bool
) -> None:
    with stalling(pg_server, stage, down) as proxy:
        with running(job_file(tmp_path), proxy.url(people.url)) as process:
            done = told_and_ended(proxy, process, f"SIGTERM, {stage}, {down}")
        judge(people, *done, stage)
        if not down:
            assert done[0] != 10
            assert lock_is_free(people)


@pytest.mark.parametrize("stage", ["read", "load", "commit", "committed"])
def test_a_deadline_ends_it(
    pg_server: Server, people: PostgresqlDatabase, tmp_path: Path, stage: str
) -> None:
    with stalling(pg_server, stage, down=True) as proxy:
        with running(job_file(tmp_path, limit=3), proxy.url(people.url)) as process:
            assert proxy.was_cut.wait(60), "the place was not reached"
            done = ended(process, time.monotonic() + 2.5, f"time_limit, {stage}")
        judge(people, *done, stage)


@pytest.mark.parametrize("stage", ["read", "commit"])
def test_the_source_of_two_databases(
    pg_server: Server, people: PostgresqlDatabase, tmp_path: Path, stage: str
) -> None:
    with pg_server.database() as other, stalling(pg_server, stage) as proxy:
        with running(job_file(tmp_path), proxy.url(people.url), other) as process:
            code, _, err = told_and_ended(proxy, process, f"SIGTERM, source, {stage}")
        assert code == 143, err
        assert not published(PostgresqlDatabase(other))
        assert lock_is_free(PostgresqlDatabase(other))


@pytest.mark.parametrize("stage", ["lock", "load", "commit", "committed"])
def test_the_target_of_two_databases(
    pg_server: Server, people: PostgresqlDatabase, tmp_path: Path, stage: str
) -> None:
    with pg_server.database() as other, stalling(pg_server, stage) as proxy:
        with running(job_file(tmp_path), people.url, proxy.url(other)) as process:
            done = told_and_ended(proxy, process, f"SIGTERM, target, {stage}")
        judge(PostgresqlDatabase(other), *done, stage)
        assert lock_is_free(PostgresqlDatabase(other))


@pytest.mark.parametrize("stage", ["commit", "committed"])
def test_no_other_job_is_begun(
    pg_server: Server, people: PostgresqlDatabase, tmp_path: Path, stage: str
) -> None:
    file = job_file(tmp_path, None, "people", "other")
    with stalling(pg_server, stage, down=True) as proxy:
        with running(file, proxy.url(people.url)) as process:
            code, out, err = told_and_ended(proxy, process, f"SIGTERM, two jobs, {stage}")
        assert code == 10, err
        assert [job["job"] for job in json.loads(out)["jobs"]] == ["people"]
        assert "rolled back" not in err
        assert "nothing was published" not in err


def test_one_that_was_committed_ends_the_command(
    pg_server: Server, people: PostgresqlDatabase, tmp_path: Path
) -> None:
    """The signal came during COMMIT, which succeeded: the first job is reported and no other
    starts.
    """
    file = job_file(tmp_path, None, "people", "other")
    with stalling(pg_server, "committed") as proxy:
        with running(file, proxy.url(people.url)) as process:
            code, out, err = told_and_ended(proxy, process, "SIGTERM, two jobs, confirmed")
        assert code == 143, err
        [job] = json.loads(out)["jobs"]
        assert job["report"]["k_achieved"] >= 7
        assert published(people)
        assert ("release", "other") not in people.relations()


def failed_in_another_thread(
    server: Server, people: PostgresqlDatabase, stage: str, limit: float
) -> tuple[BaseException, bool]:
    """The error of a run that stalls at a stage, and whether it reached that stage."""
    raised: list[BaseException] = []

    def work(url: str) -> None:
        try:
            dbanon.anonymize(
                url,
                table="people",
                quasi_identifiers=["age", "height"],
                k=7,
                method="mondrian",
                output="release.people",
                time_limit=limit,
            )
        except BaseException as error:
            raised.append(error)

    with stalling(server, stage, down=True) as proxy:
        thread = threading.Thread(target=work, args=(proxy.url(people.url),), daemon=True)
        thread.start()
        thread.join(limit + SECONDS)
        assert not thread.is_alive()
        return raised[0], proxy.was_cut.is_set()


@pytest.mark.parametrize("stage", ["read", "load", "commit", "committed"])
def test_a_deadline_in_another_thread(
    pg_server: Server, people: PostgresqlDatabase, stage: str
) -> None:
    """No alarm rings there."""
    # On a busy machine the run may reach the stage only with the longer limit.
    for limit in (2.0, 20.0):
        error, was_there = failed_in_another_thread(pg_server, people, stage, limit)
        assert isinstance(error, DbanonError)
        if was_there:
            break
        assert error.code == "time_limit"
    assert was_there, "the place was not reached"
    assert error.code == ("time_limit" if stage in ("read", "load") else "outcome_unknown")
    assert published(people) == (stage == "committed")


@pytest.mark.usefixtures("interrupts")
@pytest.mark.parametrize("stage", ["read", "load", "commit"])
def test_ctrl_c_in_python(pg_server: Server, people: PostgresqlDatabase, stage: str) -> None:
    """Python's own handler knows nothing of connections."""
    with stalling(pg_server, stage) as proxy:

        def interrupt() -> None:
            proxy.was_cut.wait(60)
            time.sleep(0.3)
            signalled_at.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        signalled_at: list[float] = []
        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            people.anonymize(database=proxy.url(people.url), quasi_identifiers=["age"])
        thread.join()
        assert time.monotonic() - signalled_at[0] < SECONDS
    assert not published(people)


def test_socket_options(pg_server: Server, people: PostgresqlDatabase) -> None:
    """Only if no setting exists yet; inside a transaction, on the server side as well."""
    local = make_url(people.url)
    customized = local.update_query_dict({"keepalives_idle": "77"})
    name = local.database
    pg_server.execute(f'ALTER DATABASE "{name}" SET tcp_keepalives_interval = 8')
    try:
        for url, idle in ((local, 30), (customized, 77)):
            with open_store(url).session(write=False) as session:
                driver = session.connection._driver  # type: ignore[attr-defined]
                with socket.socket(fileno=os.dup(driver.fileno())) as end:
                    assert end.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == idle
                    assert end.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 60_000
                query = "SELECT setting FROM pg_settings WHERE name = ?"
                for setting, value in (
                    ("tcp_keepalives_idle", "30"),
                    ("tcp_keepalives_interval", "8"),
                    ("tcp_user_timeout", "120000"),
                ):
                    assert session.rows(query, (setting,)) == [(value,)], setting
    finally:
        pg_server.execute(f'ALTER DATABASE "{name}" RESET tcp_keepalives_interval')
