"""Runs that are ended at a random moment: the old release or the new one stands, and is whole."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from tests.faults import doors, oracle
from tests.faults.cases import Case
from tests.faults.doors import ROOT, Outcome, split
from tests.faults.places import Place, PostgresqlPlace, Snapshot
from tests.faults.scenario import Result, changes
from tests.faults.tables import Names, Table, quote, random_column, unique_column
from tests.faults.yard import Yard, documented_errors
from tests.postgres_server import conninfo

SIGNALS = {"kill": signal.SIGKILL, "terminate": signal.SIGTERM, "interrupt": signal.SIGINT}
ANYWHERE = tuple(SIGNALS)
# What can be done to a session of the server.
OF_A_SESSION = ("backend", "pg_terminate_backend", "pg_cancel_backend", "statement_timeout")
LIMITS = ("memory", "file_size", "statement_timeout")
SECONDS = 90

Strike = Callable[["Client", Place, float], None]


@dataclass
class Client:
    """A run in a process of its own."""

    process: subprocess.Popen[str]

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)


@contextlib.contextmanager
def client(order: dict[str, Any]) -> Iterator[Client]:
    """A client that is ready, and waits for a line."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.faults.child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONIOENCODING": "utf-8"},
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()
        assert process.stdout.readline() == "ready\n"
        yield Client(process)
    finally:
        process.kill()
        process.communicate()


def go(running: Client) -> None:
    assert running.process.stdin is not None
    running.process.stdin.write("\n")
    running.process.stdin.flush()


def ended(running: Client, seconds: float = SECONDS) -> Outcome:
    """What the client came to."""
    try:
        stdout, stderr = running.process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return Outcome(False, "hangs", None, None, "")
    return doors.outcome_of_command(running.process.returncode, stdout, stderr)


def kill_case(seed: int, number: int) -> tuple[Case, str]:
    """A run that takes a while, and how it shall be ended."""
    rng = Random(f"kill {seed} {number}")
    database = rng.choice(("postgresql", "postgresql", "postgresql", "duckdb", "sqlite"))
    door = rng.choice(("command", "sql")) if database == "postgresql" else "command"
    way = rng.choice(ANYWHERE if database != "postgresql" else ANYWHERE + OF_A_SESSION)
    if door == "sql" and way in ("terminate", "interrupt"):
        way = "kill"
    case = slow_case(seed, number, rng, database, door)
    if door == "command" and rng.random() < 0.15:
        others = [kind for kind in ("duckdb", "sqlite", "postgresql") if kind != database]
        case = replace(case, target=rng.choice(others))
    return case, way


def slow_case(seed: int, number: int, rng: Random, database: str, door: str) -> Case:
    """A table of some thousand rows, and a release of it that has nothing odd."""
    n = rng.randint(3000, 8000)
    names = Names(rng, database)
    few = [("integer", "age"), ("float", "height"), ("text", "site")]
    columns = [
        random_column(rng, database, names.take(plain, 0), family, n) for family, plain in few
    ]
    columns.append(unique_column(rng, database, names.take("uid", 0), n))
    quasi = [replace(column, extreme=False) for column in columns[:2]]
    age = tuple(str(rng.randint(0, 99)) for _ in range(n))
    height = tuple(repr(round(rng.gauss(170, 12), 2)) for _ in range(n))
    columns[:2] = [replace(quasi[0], values=age), replace(quasi[1], values=height)]
    shape = rng.choice(("plain", "key"))
    table = Table("app", "people", tuple(columns), shape, columns[3].name)
    arguments = {
        "k": 5,
        "method": rng.choice(("mdav", "mdav", "gaa_cp", "mondrian")),
        "quasi_identifiers": [column.name for column in columns[:2]],
        "nulls": "error",
        "sensitive": [columns[2].name],
        "keep": [columns[3].name],
        "output": "release.people",
        "output_kind": rng.choice(("table", "view")),
    }
    return Case(seed, number, database, door, None, table, arguments)


def order_of(case: Case, place: Place, target: Place | None, **more: Any) -> dict[str, Any]:
    """What a child shall run."""
    arguments = {**case.arguments, **more}
    if case.door == "sql":
        text, parameters = doors.sql_call((case.table.schema, case.table.name), arguments)
        plain = [p.obj if isinstance(p, Jsonb) else p for p in parameters]
        return {"url": conninfo(place.url), "text": text, "parameters": plain}
    if target is not None:
        arguments["target"] = target.url
    shown = ".".join(quote(part) for part in (case.table.schema, case.table.name))
    return {"words": doors.command_line(place.url, shown, arguments)}


def run_kill(seed: int, number: int, yard: Yard) -> Result:
    """One run that is ended, and what stands afterwards."""
    case, way = kill_case(seed, number)
    rng = Random(f"moment {seed} {number}")
    with Struck(case, yard, rng) as struck:
        seconds = struck.prepare()
        # A process goes on for a while after its COMMIT; a call does not.
        share = rng.uniform(0.02, 1.0) if case.door == "sql" else rng.uniform(0.02, 0.7)
        limit = {}
        if way == "statement_timeout":
            # The statements of a client take milliseconds, a call is one statement.
            whole = seconds * share if case.door == "sql" else rng.uniform(0.001, 0.06)
            limit = {"statement_timeout": max(1, int(whole * 1000))}
        outcome = struck.strike(
            lambda running, place, after: _end(running, place, after, way), seconds * share, **limit
        )
        struck.judge(outcome, way)
        struck.result.outcome = f"{way}: {struck.state}"
        return struck.result


class Struck(ExitStack):
    """A place with a table, perhaps an old release, and a run that something happens to."""

    def __init__(self, case: Case, yard: Yard, rng: Random) -> None:
        super().__init__()
        self.case, self.yard, self.rng = case, yard, rng
        self.result = Result()
        self.state = "nothing"

    def prepare(self, old: bool = False, **more: Any) -> float:
        """Load the table; the seconds that a run takes undisturbed, which may leave a release.

        Parameters
        ----------
        old : it does.
        """
        case = self.case
        self.place = self.enter_context(self.yard.place(case.database))
        self.there = self.place
        if case.target is not None:
            self.there = self.enter_context(self.yard.place(case.target))
        self.place.load(case.table)
        self.there.make_schema("release")
        self.original = oracle.read_rows(self.place, (case.table.schema, case.table.name))
        self.old = self.rng.random() < 0.6 or old
        # Of another name, so that there is a ledger, where there shall be no old release.
        output = {} if self.old else {"output": "release.another"}
        # The first run also makes the ledger: the time of the second is that of later ones.
        for k in (2, 3):
            given = {"k": k, "if_exists": "replace", **output, **more}
            with client(order_of(case, self.place, self.target, **given)) as undisturbed:
                started = time.monotonic()
                go(undisturbed)
                outcome = ended(undisturbed)
                seconds = time.monotonic() - started
            if not outcome.ok:
                raise RuntimeError(f"the undisturbed run failed: {outcome.said[:500]}")
        doors.collect_garbage(self.there)
        self.place.settle()
        self.there.settle()
        self.before = self.snapshots()
        return seconds

    @property
    def target(self) -> Place | None:
        return None if self.there is self.place else self.there

    def snapshots(self) -> list[Snapshot]:
        places = [self.place] if self.target is None else [self.place, self.there]
        return [place.snapshot() for place in places]

    def strike(self, strike: Strike, after: float, **more: Any) -> Outcome:
        """Start the run, let it happen, and wait for the client's end."""
        limits = {key: more.pop(key) for key in LIMITS if key in more}
        arguments = {"if_exists": "replace", **more}
        order = order_of(self.case, self.place, self.target, **arguments)
        with client({**order, **limits}) as running:
            go(running)
            strike(running, self.place, after)
            return ended(running)

    def judge(self, outcome: Outcome, way: str) -> None:
        """What stands now must be the old or the new release, and the client must have said so."""
        result = self.result
        self.place.settle()
        self.there.settle()
        result.add(way, oracle.told_values(outcome.said))
        after = self.snapshots()
        left = changes(self.before, after)
        self.state = "old" if not left else "new" if self.is_new() else "neither"
        if self.state == "neither":
            result.add(way, left)
        if self.state == "new":
            result.add(way, self.whole(outcome))
            result.add(way, self.left_over(after))
        result.add(way, self.exit_findings(outcome, way))
        self.next_run(way)

    def is_new(self) -> bool:
        """Whether the ledger's current entry is of the run that was struck."""
        found = self.there.rows(
            f"SELECT k_requested FROM {self.there.relation('dbanon', 'release')}"
            " WHERE superseded_at IS NULL AND output_name LIKE '%people'"
        )
        return found == [(self.case.arguments["k"],)]

    def whole(self, outcome: Outcome) -> list[str]:
        rows = oracle.read_rows(self.there, split(self.case.arguments["output"]))
        # A client that died reports nothing; what it would have reported is counted elsewhere.
        counts = {"rows_in": len(self.original), "rows_out": len(rows), "suppressed": 0}
        told = replace(outcome, report=counts)
        return oracle.check(
            oracle.Published(self.case, self.place, self.there, rows, self.original, told)
        )

    def left_over(self, after: list[Snapshot]) -> list[str]:
        found = oracle.left_over(
            self.case, self.case.door, self.there, self.before[-1], after[-1], self.old
        )
        return found + (changes(self.before[:1], after[:1]) if self.target is not None else [])

    def exit_findings(self, outcome: Outcome, way: str) -> list[str]:
        """Exit 0 means the new release stands; any other but 'unknown' that it does not."""
        code, told = outcome.exit_code, outcome.code or outcome.sqlstate
        known = {exit_code for exit_code, _ in documented_errors().values()} | {0, 130, 143}
        found = []
        if outcome.code == "hangs":
            return [f"the client had not ended {SECONDS} s later"]
        killed = code in (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT)
        # Libraries of databases end their process where the address space does.
        # The loader, which finds no room for a library's code, leaves with 127.
        ends = (-signal.SIGABRT, -signal.SIGSEGV, 127)
        killed |= code in ends and way.startswith("address space")
        if code not in known and not killed:
            found.append(f"exit code {code} is not documented ({outcome.said.strip()[-150:]})")
        if outcome.code is not None and outcome.code not in documented_errors():
            found.append(f"error {outcome.code} is not documented ({outcome.said.strip()[-150:]})")
        if code == 0 and self.state != "new":
            found.append("exit code 0, and the new release does not stand")
        unknown = "unknown" in (outcome.code or "") or "unknown" in outcome.said.lower()
        # Outside of the run a process cannot say which it was, and says both.
        unknown |= "or after all was done" in outcome.said
        # A session that is ended may have committed before; a cancelled one was told otherwise.
        told_so = self.case.door != "sql" or way == "pg_cancel_backend"
        if self.state == "new" and code != 0 and not killed and not unknown and told_so:
            found.append(f"exit code {code} ({told}), and the new release stands")
        return found

    def next_run(self, way: str) -> None:
        """The next run finds nothing in its way, and leaves what one release is."""
        case, result = replace(self.case, arguments={**self.case.arguments, "k": 7}), self.result
        order = order_of(case, self.place, self.target, if_exists="replace")
        with client(order) as running:
            go(running)
            outcome = ended(running)
        if not outcome.ok:
            result.add(way, [f"the next run failed: {outcome.said.strip()[:300]}"])
            return
        doors.collect_garbage(self.there)
        found = doors.verify(self.there, case.door, case.arguments["output"])
        if not found.ok:
            result.add(way, [f"the next release is not verified: {found.code or found.sqlstate}"])
        relations = self.there.snapshot().relations
        home = "" if self.there.kind == "sqlite" else "release"
        ours = [n for s, n in relations if s == home and (home or n.startswith("release_"))]
        per = (case.arguments["output_kind"] == "view") + (case.door == "sql") + 1
        if len(ours) != per * (1 if self.old else 2) and self.there.kind != "sqlite":
            result.add(way, [f"{len(ours)} relations stand after gc"])


def _end(running: Client, place: Place, after: float, way: str) -> None:
    """End the run in this way, so many seconds after it began."""
    if way == "statement_timeout":
        return
    time.sleep(after)
    if way in SIGNALS:
        running.signal(SIGNALS[way])
        return
    assert isinstance(place, PostgresqlPlace)
    with contextlib.suppress(psycopg.OperationalError):
        for (pid,) in place.rows(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        ):
            if way == "backend":
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                # The server ends every session, and recovers.
                time.sleep(0.3)
            else:
                place.rows(f"SELECT {way}({pid})")
