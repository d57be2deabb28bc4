"""What goes wrong around a run: cut or stalling networks, poolers, full disks, little memory, DDL.

Each kind ends as a kill does: the old or the new release stands, whole, and the client said so.
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
from tests.faults.doors import Outcome
from tests.faults.kills import SIGNALS, Client, Struck, client, ended, go, order_of, slow_case
from tests.faults.places import Place, PostgresqlPlace
from tests.faults.scenario import Result
from tests.faults.tables import literal, quote
from tests.faults.yard import Yard
from tests.postgres.pooler import pgbouncer, through
from tests.postgres.tools import server_account
from tests.stores.tcp_proxy import COMMIT, SESSION, Cut, TcpProxy

KINDS = ("cut", "stall", "pooler", "disk", "memory", "ddl", "race")
# From the signal, behind a network that answers nothing: 5, and what a busy machine takes more.
SECONDS_TOLD = 15.0


def run_adversity(kind: str, seed: int, number: int, yard: Yard) -> Result:
    """One run that something of this kind happens to."""
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
    return ways[kind](seed, number, yard, rng)


def _nothing(running: Client, place: Place, after: float) -> None:
    """The run goes on undisturbed, but for its limits."""


def _cut(seed: int, number: int, yard: Yard, rng: Random) -> Result:
    """The network between client and server, cut around COMMIT or after some bytes."""
    case = slow_case(seed, number, rng, "postgresql", "command")
    with Struck(case, yard, rng) as struck:
        struck.prepare()
        place = rng.choice((COMMIT, COMMIT, rng.randint(1000, 400_000)))
        how = rng.choice(("before", "after"))
        proxy = TcpProxy(yard.server.host, yard.server.port, Cut(how, at=place, since=SESSION))
        with proxy, _detour(struck.place, proxy.url):
            outcome = struck.strike(_nothing, 0)
        way = f"cut {how} {'COMMIT' if place == COMMIT else 'some bytes'}"
        struck.judge(outcome, way)
        struck.result.outcome = f"{way}: {struck.state}, {outcome.code}"
        return struck.result


def _stall(seed: int, number: int, yard: Yard, rng: Random) -> Result:
    """A network that answers nothing any more, from some place on, and a client told to end."""
    case = slow_case(seed, number, rng, "postgresql", "command")
    with Struck(case, yard, rng) as struck:
        struck.prepare()
        place = rng.choice((COMMIT, COMMIT, b"COPY", b"INSERT INTO", rng.randint(1000, 400_000)))
        how: Literal["stall", "stall after"] = rng.choice(("stall", "stall after"))
        answers = rng.choice((None, 10_000)) if place == b"COPY" else None
        number_of = rng.choice((signal.SIGTERM, signal.SIGINT))
        down = rng.random() < 0.5
        cut = Cut(how, at=place, since=SESSION, answers=answers, down=down)
        told: list[float] = []
        with TcpProxy(yard.server.host, yard.server.port, cut) as proxy:

            def tell(running: Client, place: Place, after: float) -> None:
                while not proxy.was_cut.wait(0.1) and running.process.poll() is None:
                    pass
                time.sleep(0.2)
                told.append(time.monotonic())
                running.signal(number_of)

            with _detour(struck.place, proxy.url):
                outcome = struck.strike(tell, 0)
            spent = time.monotonic() - told[0]
        name = place.decode().strip("\0") if isinstance(place, bytes) else "some bytes"
        way = f"{how} {name}{', all down' if down else ''}"
        if spent > SECONDS_TOLD:
            struck.result.add(way, [f"it ended {spent:.1f} s after the signal"])
        struck.judge(outcome, way)
        struck.result.outcome = f"{way}: {struck.state}, {outcome.code or outcome.exit_code}"
        return struck.result


def _pooler(seed: int, number: int, yard: Yard, rng: Random) -> Result:
    """Runs through pgbouncer in transaction mode, the last of which may be ended."""
    case = slow_case(seed, number, rng, "postgresql", rng.choice(("command", "command", "sql")))
    with Struck(case, yard, rng) as struck:
        seconds = struck.prepare(old=True)
        way = rng.choice((None, None, *SIGNALS))
        if case.door == "sql" and way is not None:
            way = "kill"
        with pgbouncer(yard.server) as port:

            def pooled(url: str) -> str:
                return through(url, port)

            for _ in range(3):
                with _detour(struck.place, pooled):
                    outcome = struck.strike(_nothing, 0, k=4)
                if not outcome.ok:
                    struck.result.add("pooler", [f"a run failed: {outcome.said.strip()[:300]}"])
                    return struck.result
            doors.collect_garbage(struck.place)
            struck.before = struck.snapshots()

            def end(running: Client, place: Place, after: float) -> None:
                if way is not None:
                    time.sleep(after)
                    running.signal(SIGNALS[way])

            with _detour(struck.place, pooled):
                outcome = struck.strike(end, seconds * rng.uniform(0.02, 0.7))
        struck.judge(outcome, f"pooler, {way}")
        struck.result.outcome = f"pooler, {way or 'undisturbed'}: {struck.state}"
        return struck.result


@contextlib.contextmanager
def _detour(place: Place, through: Callable[[str], str]) -> Iterator[None]:
    """Clients reach the place through something; those who judge later do not."""
    direct, place.url = place.url, through(place.url)
    try:
        yield
    finally:
        place.url = direct


def _disk(seed: int, number: int, yard: Yard, rng: Random) -> Result:
    """A disk that is full before the run has ended: a small file system, or a limit on files."""
    database = rng.choice(("duckdb", "sqlite", "postgresql"))
    case = slow_case(seed, number, rng, database, "command")
    with Struck(case, yard, rng) as struck, contextlib.ExitStack() as stack:
        struck.prepare()
        limits: dict[str, Any] = {}
        filled: Callable[[], None] = lambda: None  # noqa: E731
        if database == "postgresql":
            filled = stack.enter_context(_small_tablespace(struck.place, rng))
        else:
            path = Path(struck.place.path)  # type: ignore[attr-defined]
            limits["file_size"] = path.stat().st_size + rng.choice((0, 4096, 100_000, 400_000))
        outcome = struck.strike(_nothing, 0, **limits)
        struck.place.settle()
        filled()
        struck.judge(outcome, f"full disk, {database}")
        struck.result.outcome = f"full disk {database}: {struck.state}, {outcome.code}"
        return struck.result


@contextlib.contextmanager
def _small_tablespace(place: Place, rng: Random) -> Iterator[Callable[[], None]]:
    """New relations go to a file system of little room; calling what is given ends that.

    Only root may mount one. Elsewhere files of the server's sessions may not grow beyond a size.
    """
    name = place.url.rpartition("/")[2]
    if os.geteuid() != 0:
        place.execute(f"ALTER DATABASE {name} SET temp_file_limit = {rng.choice((0, 64))}")
        yield lambda: place.execute(f"ALTER DATABASE {name} RESET temp_file_limit")
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
        place.execute(f"CREATE TABLESPACE {name} LOCATION {literal(str(inner))}")
        place.execute(
            f"ALTER DATABASE {name} SET default_tablespace = {name}",
            f"ALTER DATABASE {name} SET temp_tablespaces = {name}",
        )

        def emptied() -> None:
            place.execute(
                f"ALTER DATABASE {name} RESET default_tablespace",
                f"ALTER DATABASE {name} RESET temp_tablespaces",
            )

        yield emptied
        # The release that stands there moves off, so that the file system can be taken away.
        for schema, relation in place.rows(
            "SELECT schemaname, tablename FROM pg_tables WHERE tablespace IS NOT NULL"
            " AND schemaname NOT LIKE 'pg\\_%'"
        ):
            place.execute(
                f"ALTER TABLE {place.relation(schema, relation)} SET TABLESPACE pg_default"
            )
        for schema, index in place.rows(
            "SELECT schemaname, indexname FROM pg_indexes WHERE tablespace IS NOT NULL"
            " AND schemaname NOT LIKE 'pg\\_%'"
        ):
            place.execute(f"ALTER INDEX {place.relation(schema, index)} SET TABLESPACE pg_default")
        place.execute(f"DROP TABLESPACE {name}")
    finally:
        subprocess.run(["umount", "-l", folder], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def _memory(seed: int, number: int, yard: Yard, rng: Random) -> Result:
    """Less memory than the run wants: of the process, or by its own limit."""
    database = rng.choice(("duckdb", "sqlite", "postgresql"))
    case = slow_case(seed, number, rng, database, "command")
    with Struck(case, yard, rng) as struck:
        struck.prepare()
        if rng.random() < 0.5:
            way, more = "address space", {"memory": rng.choice((1, 8, 32, 128)) << 20}
        else:
            way, more = "memory_limit", {"memory_limit": rng.choice((1, 100_000, 2_000_000))}
        outcome = struck.strike(_nothing, 0, **more)
        struck.judge(outcome, f"{way}, {database}")
        struck.result.outcome = f"{way} {database}: {struck.state}, {outcome.code}"
        return struck.result


def _ddl(seed: int, number: int, yard: Yard, rng: Random) -> Result:
    """Another session drops, renames or alters source, output or ledger while a run goes on."""
    case = slow_case(seed, number, rng, "postgresql", rng.choice(("command", "sql")))
    with Struck(case, yard, rng) as struck:
        seconds = struck.prepare()
        what, statements, undo = _change(struck, rng)
        with client(order_of(case, struck.place, None, if_exists="replace")) as running:
            go(running)
            time.sleep(seconds * rng.uniform(0.02, 0.9))
            changed = _try(struck.place, statements)
            outcome = ended(running)
        struck.place.settle()
        told = _findings_after_change(struck, outcome, what, changed)
        struck.result.add(what, told)
        if changed and undo:
            struck.place.execute(*undo)
        struck.result.outcome = f"ddl, {what}: {outcome.code or outcome.sqlstate or 'released'}"
        return struck.result


def _change(struck: Struck, rng: Random) -> tuple[str, Sequence[str], Sequence[str]]:
    case, place = struck.case, struck.place
    source = place.relation(case.table.schema, case.table.name)
    output = place.relation("release", "people")
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
    what = rng.choice(sorted(changes))
    return what, *changes[what]


def _try(place: Place, statements: Sequence[str]) -> bool:
    """Run the statements, which may have to wait for the run, or come too late."""
    import psycopg

    assert isinstance(place, PostgresqlPlace)
    try:
        with place.connect() as connection:
            connection.execute("SET lock_timeout = '20s'")
            for statement in statements:
                connection.execute(statement.encode())
    except psycopg.Error:
        return False
    return True


def _findings_after_change(struck: Struck, outcome: Outcome, what: str, changed: bool) -> list[str]:
    """Documented codes, nothing of staging, and k in whatever output stands."""
    known = struck.exit_findings(replace(outcome, exit_code=outcome.exit_code), what)
    # Whether the release stands is not asked: the other session may have taken it away.
    found = [text for text in known if "documented" in text or "ended" in text]
    if struck.case.door == "sql" and (outcome.sqlstate or "").startswith("XX"):
        found.append(f"SQLSTATE {outcome.sqlstate} from a SQL call")
    snapshot = struck.place.snapshot()
    found += [f"held: {held}" for held in snapshot.held]
    found += ["a temporary table is left" for s, _ in snapshot.relations if s == "pg_temp"]
    unseen = [name for schema, name in snapshot.relations if schema in ("release", "away")]
    for name in unseen:
        schema = "away" if ("away", name) in snapshot.relations else "release"
        columns = [column for column, _ in struck.place.columns(schema, name)]
        names = struck.case.arguments["quasi_identifiers"]
        if not set(names) <= set(columns):
            continue
        listed = ", ".join(map(quote, names))
        [(smallest,)] = struck.place.rows(
            f"SELECT min(n) FROM (SELECT count(*) AS n FROM {struck.place.relation(schema, name)}"
            f" GROUP BY {listed}) AS x"
        )
        if smallest is not None and smallest < 2:
            found.append(f"a class of {smallest} row in what stands")
    return found


def _race(seed: int, number: int, yard: Yard, rng: Random) -> Result:
    """Two runs replace one output at the same time: one release stands, the other is told why."""
    case = slow_case(seed, number, rng, "postgresql", "command")
    with Struck(case, yard, rng) as struck:
        seconds = struck.prepare()
        outcomes: list[Outcome] = []

        def other() -> None:
            order = order_of(case, struck.place, None, if_exists="replace")
            with client(order) as running:
                go(running)
                outcomes.append(ended(running))

        thread = threading.Thread(target=other)
        with client(order_of(case, struck.place, None, if_exists="replace")) as running:
            thread.start()
            time.sleep(seconds * rng.uniform(0, 1))
            go(running)
            first = ended(running)
            thread.join()
        struck.place.settle()
        won = [outcome for outcome in (first, *outcomes) if outcome.ok]
        for outcome in (first, *outcomes):
            if not outcome.ok and outcome.exit_code != 4:
                struck.result.add("race", [f"the loser's exit code is {outcome.exit_code}, not 4"])
        if won:
            struck.judge(won[0], "race")
        struck.result.outcome = f"race: {len(won)} of 2 released"
        return struck.result
