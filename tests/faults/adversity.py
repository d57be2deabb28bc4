"""Failures around a run: broken networks, poolers, full disks, little memory, concurrent DDL.

Each run must leave the complete old release or the complete new one, and report which.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Literal

from tests.faults import doors
from tests.faults.backends import Backend, PostgresqlBackend
from tests.faults.doors import Outcome
from tests.faults.kills import (
    SIGNALS,
    Client,
    FaultTrial,
    client,
    go,
    order_of,
    slow_case,
    wait_for_end,
)
from tests.faults.scenario import Result
from tests.faults.tables import literal, quote
from tests.faults.workspace import Workspace
from tests.postgres.pooler import pgbouncer, through
from tests.postgres.tools import server_account
from tests.stores.tcp_proxy import COMMIT, SESSION, Cut, TcpProxy

KINDS = ("cut", "stall", "pooler", "disk", "memory", "ddl", "race")
# Time to exit after the signal when the server is unreachable: 5 s plus slack for a busy machine.
SECONDS_AFTER_SIGNAL = 15.0


def run_adversity(kind: str, seed: int, number: int, workspace: Workspace) -> Result:
    """Run one case with a fault of this kind."""
    rng = Random(f"{kind} {seed} {number}")
    ways = {
        "cut": _cut,
        "stall": _stall,
        "pooler": _pooler,
        "disk": _disk,
        "memory": _memory,
        "ddl": _ddl,
        "race": _race,
    }
    return ways[kind](seed, number, workspace, rng)


def _nothing(running: Client, backend: Backend, after: float) -> None:
    """Inject nothing; only the run's own limits apply."""


def _cut(seed: int, number: int, workspace: Workspace, rng: Random) -> Result:
    """Cut the network between client and server around COMMIT or after a number of bytes."""
    case = slow_case(seed, number, rng, "postgresql", "command")
    with FaultTrial(case, workspace, rng) as trial:
        trial.prepare()
        position = rng.choice((COMMIT, COMMIT, rng.randint(1000, 400_000)))
        how = rng.choice(("before", "after"))
        proxy = TcpProxy(
            workspace.server.host, workspace.server.port, Cut(how, at=position, since=SESSION)
        )
        with proxy, _detour(trial.backend, proxy.url):
            outcome = trial.inject(_nothing, 0)
        fault = f"cut {how} {'COMMIT' if position == COMMIT else 'some bytes'}"
        trial.judge(outcome, fault)
        trial.result.outcome = f"{fault}: {trial.state}, {outcome.code}"
        return trial.result


def _stall(seed: int, number: int, workspace: Workspace, rng: Random) -> Result:
    """Stall the network at some point, then signal the client."""
    case = slow_case(seed, number, rng, "postgresql", "command")
    with FaultTrial(case, workspace, rng) as trial:
        trial.prepare()
        position = rng.choice((COMMIT, COMMIT, b"COPY", b"INSERT INTO", rng.randint(1000, 400_000)))
        how: Literal["stall", "stall after"] = rng.choice(("stall", "stall after"))
        answers = rng.choice((None, 10_000)) if position == b"COPY" else None
        number_of = rng.choice((signal.SIGTERM, signal.SIGINT))
        down = rng.random() < 0.5
        cut = Cut(how, at=position, since=SESSION, answers=answers, down=down)
        signalled_at: list[float] = []
        with TcpProxy(workspace.server.host, workspace.server.port, cut) as proxy:

            def signal_when_stalled(running: Client, backend: Backend, after: float) -> None:
                while not proxy.was_cut.wait(0.1) and running.process.poll() is None:
                    pass
                time.sleep(0.2)
                signalled_at.append(time.monotonic())
                running.signal(number_of)

            with _detour(trial.backend, proxy.url):
                outcome = trial.inject(signal_when_stalled, 0)
            spent = time.monotonic() - signalled_at[0]
        name = position.decode().strip("\0") if isinstance(position, bytes) else "some bytes"
        fault = f"{how} {name}{', all down' if down else ''}"
        if spent > SECONDS_AFTER_SIGNAL:
            trial.result.add(fault, [f"it ended {spent:.1f} s after the signal"])
        trial.judge(outcome, fault)
        trial.result.outcome = f"{fault}: {trial.state}, {outcome.code or outcome.exit_code}"
        return trial.result


def _pooler(seed: int, number: int, workspace: Workspace, rng: Random) -> Result:
    """Run through pgbouncer in transaction mode; the last run may be killed."""
    case = slow_case(seed, number, rng, "postgresql", rng.choice(("command", "command", "sql")))
    with FaultTrial(case, workspace, rng) as trial:
        seconds = trial.prepare(old=True)
        fault = rng.choice((None, None, *SIGNALS))
        if case.door == "sql" and fault is not None:
            fault = "kill"
        with pgbouncer(workspace.server) as port:

            def pooled(url: str) -> str:
                return through(url, port)

            for _ in range(3):
                with _detour(trial.backend, pooled):
                    outcome = trial.inject(_nothing, 0, k=4)
                if not outcome.ok:
                    trial.result.add("pooler", [f"a run failed: {outcome.messages.strip()[:300]}"])
                    return trial.result
            doors.collect_garbage(trial.backend)
            trial.before = trial.snapshots()

            def end(running: Client, backend: Backend, after: float) -> None:
                if fault is not None:
                    time.sleep(after)
                    running.signal(SIGNALS[fault])

            with _detour(trial.backend, pooled):
                outcome = trial.inject(end, seconds * rng.uniform(0.02, 0.7))
        trial.judge(outcome, f"pooler, {fault}")
        trial.result.outcome = f"pooler, {fault or 'undisturbed'}: {trial.state}"
        return trial.result


@contextlib.contextmanager
def _detour(backend: Backend, through: Callable[[str], str]) -> Iterator[None]:
    """Route clients through a proxy or pooler; the checks afterwards connect directly."""
    direct, backend.url = backend.url, through(backend.url)
    try:
        yield
    finally:
        backend.url = direct


def _disk(seed: int, number: int, workspace: Workspace, rng: Random) -> Result:
    """Fill the disk before the run ends, with a small file system or a file size limit."""
    database = rng.choice(("duckdb", "sqlite", "postgresql"))
    case = slow_case(seed, number, rng, database, "command")
    with FaultTrial(case, workspace, rng) as trial, contextlib.ExitStack() as stack:
        trial.prepare()
        limits: dict[str, Any] = {}
        reset_tablespaces: Callable[[], None] = lambda: None  # noqa: E731
        if database == "postgresql":
            reset_tablespaces = stack.enter_context(_small_tablespace(trial.backend, rng))
        else:
            path = Path(trial.backend.path)  # type: ignore[attr-defined]
            limits["file_size"] = path.stat().st_size + rng.choice((0, 4096, 100_000, 400_000))
        outcome = trial.inject(_nothing, 0, **limits)
        trial.backend.settle()
        reset_tablespaces()
        trial.judge(outcome, f"full disk, {database}")
        trial.result.outcome = f"full disk {database}: {trial.state}, {outcome.code}"
        return trial.result


@contextlib.contextmanager
def _small_tablespace(backend: Backend, rng: Random) -> Iterator[Callable[[], None]]:
    """Put new relations on a small file system; calling the yielded function restores the default.

    Only root may mount one. Other users limit the size of the sessions' temporary files.
    """
    name = backend.url.rpartition("/")[2]
    if os.geteuid() != 0:
        backend.execute(f"ALTER DATABASE {name} SET temp_file_limit = {rng.choice((0, 64))}")
        yield lambda: backend.execute(f"ALTER DATABASE {name} RESET temp_file_limit")
        return
    folder = Path("/tmp") / f"dbanon-faults-disk-{name}"
    folder.mkdir()
    size = rng.choice((200, 400, 800))
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}k", "none", folder], check=True)
    try:
        account = server_account()
        shutil.chown(folder, account)
        inner = folder / "space"
        inner.mkdir(mode=0o700)
        shutil.chown(inner, account)
        backend.execute(f"CREATE TABLESPACE {name} LOCATION {literal(str(inner))}")
        backend.execute(
            f"ALTER DATABASE {name} SET default_tablespace = {name}",
            f"ALTER DATABASE {name} SET temp_tablespaces = {name}",
        )

        def reset_tablespaces() -> None:
            backend.execute(
                f"ALTER DATABASE {name} RESET default_tablespace",
                f"ALTER DATABASE {name} RESET temp_tablespaces",
            )

        yield reset_tablespaces
        # Move the release to the default tablespace before unmounting the file system.
        for schema, relation in backend.rows(
            "SELECT schemaname, tablename FROM pg_tables WHERE tablespace IS NOT NULL"
            " AND schemaname NOT LIKE 'pg\\_%'"
        ):
            backend.execute(
                f"ALTER TABLE {backend.relation(schema, relation)} SET TABLESPACE pg_default"
            )
        for schema, index in backend.rows(
            "SELECT schemaname, indexname FROM pg_indexes WHERE tablespace IS NOT NULL"
            " AND schemaname NOT LIKE 'pg\\_%'"
        ):
            backend.execute(
                f"ALTER INDEX {backend.relation(schema, index)} SET TABLESPACE pg_default"
            )
        backend.execute(f"DROP TABLESPACE {name}")
    finally:
        subprocess.run(["umount", "-l", folder], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def _memory(seed: int, number: int, workspace: Workspace, rng: Random) -> Result:
    """Give the run too little memory: a limit on the address space, or its own option."""
    database = rng.choice(("duckdb", "sqlite", "postgresql"))
    case = slow_case(seed, number, rng, database, "command")
    with FaultTrial(case, workspace, rng) as trial:
        trial.prepare()
        if rng.random() < 0.5:
            limit, more = "address space", {"memory": rng.choice((1, 8, 32, 128)) << 20}
        else:
            limit, more = "memory_limit", {"memory_limit": rng.choice((1, 100_000, 2_000_000))}
        outcome = trial.inject(_nothing, 0, **more)
        trial.judge(outcome, f"{limit}, {database}")
        trial.result.outcome = f"{limit} {database}: {trial.state}, {outcome.code}"
        return trial.result


def _ddl(seed: int, number: int, workspace: Workspace, rng: Random) -> Result:
    """Drop, rename or alter the source, output or ledger from another session during a run."""
    case = slow_case(seed, number, rng, "postgresql", rng.choice(("command", "sql")))
    with FaultTrial(case, workspace, rng) as trial:
        seconds = trial.prepare()
        change, statements, undo = _change(trial, rng)
        with client(order_of(case, trial.backend, None, if_exists="replace")) as running:
            go(running)
            time.sleep(seconds * rng.uniform(0.02, 0.9))
            changed = _try(trial.backend, statements)
            outcome = wait_for_end(running)
        trial.backend.settle()
        findings = _findings_after_change(trial, outcome, change, changed)
        trial.result.add(change, findings)
        if changed and undo:
            trial.backend.execute(*undo)
        trial.result.outcome = f"ddl, {change}: {outcome.code or outcome.sqlstate or 'released'}"
        return trial.result


def _change(trial: FaultTrial, rng: Random) -> tuple[str, Sequence[str], Sequence[str]]:
    case, backend = trial.case, trial.backend
    source = backend.relation(case.table.schema, case.table.name)
    output = backend.relation("release", "people")
    kind = case.arguments["output_kind"].upper()
    column = quote(case.arguments["sensitive"][0])
    changes: dict[str, tuple[Sequence[str], Sequence[str]]] = {
        "source dropped": ([f"DROP TABLE {source}"], []),
        "source renamed": (
            [f"ALTER TABLE {source} RENAME TO elsewhere"],
            [f"ALTER TABLE app.elsewhere RENAME TO {quote(case.table.name)}"],
        ),
        "column dropped": ([f"ALTER TABLE {source} DROP COLUMN {column}"], []),
        "column added": ([f"ALTER TABLE {source} ADD COLUMN more text DEFAULT 'qzmark'"], []),
        "rows deleted": ([f"DELETE FROM {source}"], []),
        "ledger dropped": (["DROP TABLE dbanon.release CASCADE"], []),
        "ledger renamed": (["ALTER TABLE dbanon.release RENAME TO rel"], []),
        "output dropped": ([f"DROP {kind} IF EXISTS {output} CASCADE"], []),
        "output taken": (
            [f"DROP {kind} IF EXISTS {output} CASCADE", f"CREATE TABLE {output} (a int)"],
            [],
        ),
        "schema renamed": (["ALTER SCHEMA release RENAME TO away"], []),
    }
    change = rng.choice(sorted(changes))
    return change, *changes[change]


def _try(backend: Backend, statements: Sequence[str]) -> bool:
    """Run the statements; return False if they time out on a lock or come too late."""
    import psycopg

    assert isinstance(backend, PostgresqlBackend)
    try:
        with backend.connect() as connection:
            connection.execute("SET lock_timeout = '20s'")
            for statement in statements:
                connection.execute(statement.encode())
    except psycopg.Error:
        return False
    return True


def _findings_after_change(
    trial: FaultTrial, outcome: Outcome, change: str, changed: bool
) -> list[str]:
    """Require documented codes, no staging tables, and at least k rows per class in any output."""
    exit_findings = trial.exit_findings(replace(outcome, exit_code=outcome.exit_code), change)
    # Do not ask whether the release exists: the other session may have dropped it.
    findings = [text for text in exit_findings if "documented" in text or "ended" in text]
    if trial.case.door == "sql" and (outcome.sqlstate or "").startswith("XX"):
        findings.append(f"SQLSTATE {outcome.sqlstate} from a SQL call")
    snapshot = trial.backend.snapshot()
    findings += [f"held: {lock}" for lock in snapshot.locks]
    findings += ["a temporary table is left" for s, _ in snapshot.relations if s == "pg_temp"]
    unseen = [name for schema, name in snapshot.relations if schema in ("release", "away")]
    for name in unseen:
        schema = "away" if ("away", name) in snapshot.relations else "release"
        columns = [column for column, _ in trial.backend.columns(schema, name)]
        names = trial.case.arguments["quasi_identifiers"]
        if not set(names) <= set(columns):
            continue
        listed = ", ".join(map(quote, names))
        [(smallest,)] = trial.backend.rows(
            f"SELECT min(n) FROM (SELECT count(*) AS n FROM {trial.backend.relation(schema, name)}"
            f" GROUP BY {listed}) AS x"
        )
        if smallest is not None and smallest < 2:
            findings.append(f"a class of {smallest} row in what stands")
    return findings


def _race(seed: int, number: int, workspace: Workspace, rng: Random) -> Result:
    """Replace one output from two runs at once: one must win, the other report the conflict."""
    case = slow_case(seed, number, rng, "postgresql", "command")
    with FaultTrial(case, workspace, rng) as trial:
        seconds = trial.prepare()
        outcomes: list[Outcome] = []

        def other() -> None:
            order = order_of(case, trial.backend, None, if_exists="replace")
            with client(order) as running:
                go(running)
                outcomes.append(wait_for_end(running))

        thread = threading.Thread(target=other)
        with client(order_of(case, trial.backend, None, if_exists="replace")) as running:
            thread.start()
            time.sleep(seconds * rng.uniform(0, 1))
            go(running)
            first = wait_for_end(running)
            thread.join()
        trial.backend.settle()
        won = [outcome for outcome in (first, *outcomes) if outcome.ok]
        for outcome in (first, *outcomes):
            if not outcome.ok and outcome.exit_code != 4:
                trial.result.add("race", [f"the loser's exit code is {outcome.exit_code}, not 4"])
        if won:
            trial.judge(won[0], "race")
        trial.result.outcome = f"race: {len(won)} of 2 released"
        return trial.result
