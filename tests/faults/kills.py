"""Runs killed at a random moment: either the old or the new release must be there, complete."""

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
from tests.faults.backends import Backend, PostgresqlBackend, Snapshot
from tests.faults.cases import Case
from tests.faults.doors import ROOT, Outcome, split
from tests.faults.scenario import Result, changes
from tests.faults.tables import Names, Table, quote, random_column, unique_column
from tests.faults.workspace import Workspace, documented_errors
from tests.postgres_server import conninfo

SIGNALS = {"kill": signal.SIGKILL, "terminate": signal.SIGTERM, "interrupt": signal.SIGINT}
ANYWHERE = tuple(SIGNALS)
# Faults that target a session of the server.
OF_A_SESSION = ("backend", "pg_terminate_backend", "pg_cancel_backend", "statement_timeout")
LIMITS = ("memory", "file_size", "statement_timeout")
SECONDS = 90

Injector = Callable[["Client", Backend, float], None]


@dataclass
class Client:
    """A run in a separate process."""

    process: subprocess.Popen[str]

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)


@contextlib.contextmanager
def client(order: dict[str, Any]) -> Iterator[Client]:
    """Start a client and wait until it is ready to run."""
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


def wait_for_end(running: Client, seconds: float = SECONDS) -> Outcome:
    """Wait for the client and return its outcome."""
    try:
        stdout, stderr = running.process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return Outcome(False, "hangs", None, None, "")
    return doors.outcome_of_command(running.process.returncode, stdout, stderr)


def kill_case(seed: int, number: int) -> tuple[Case, str]:
    """A run that takes a while, and the fault that ends it."""
    rng = Random(f"kill {seed} {number}")
    database = rng.choice(("postgresql", "postgresql", "postgresql", "duckdb", "sqlite"))
    door = rng.choice(("command", "sql")) if database == "postgresql" else "command"
    fault = rng.choice(ANYWHERE if database != "postgresql" else ANYWHERE + OF_A_SESSION)
    if door == "sql" and fault in ("terminate", "interrupt"):
        fault = "kill"
    case = slow_case(seed, number, rng, database, door)
    if door == "command" and rng.random() < 0.15:
        others = [kind for kind in ("duckdb", "sqlite", "postgresql") if kind != database]
        case = replace(case, target=rng.choice(others))
    return case, fault


def slow_case(seed: int, number: int, rng: Random, database: str, door: str) -> Case:
    """A table of some thousand rows, and an ordinary release of it."""
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


def order_of(case: Case, backend: Backend, target: Backend | None, **more: Any) -> dict[str, Any]:
    """The order for a child process."""
    arguments = {**case.arguments, **more}
    if case.door == "sql":
        text, parameters = doors.sql_call((case.table.schema, case.table.name), arguments)
        plain = [p.obj if isinstance(p, Jsonb) else p for p in parameters]
        return {"url": conninfo(backend.url), "text": text, "parameters": plain}
    if target is not None:
        arguments["target"] = target.url
    source = ".".join(quote(part) for part in (case.table.schema, case.table.name))
    return {"words": doors.command_line(backend.url, source, arguments)}


def run_kill(seed: int, number: int, workspace: Workspace) -> Result:
    """Kill one run and check the state afterwards."""
    case, fault = kill_case(seed, number)
    rng = Random(f"moment {seed} {number}")
    with FaultTrial(case, workspace, rng) as trial:
        seconds = trial.prepare()
        # The process continues for a while after COMMIT; a SQL call does not.
        share = rng.uniform(0.02, 1.0) if case.door == "sql" else rng.uniform(0.02, 0.7)
        limit = {}
        if fault == "statement_timeout":
            # A client's statements take milliseconds each; a SQL call is one statement.
            limit_seconds = seconds * share if case.door == "sql" else rng.uniform(0.001, 0.06)
            limit = {"statement_timeout": max(1, int(limit_seconds * 1000))}
        outcome = trial.inject(
            lambda running, backend, after: _end(running, backend, after, fault),
            seconds * share,
            **limit,
        )
        trial.judge(outcome, fault)
        trial.result.outcome = f"{fault}: {trial.state}"
        return trial.result


class FaultTrial(ExitStack):
    """A database with a table, perhaps an old release, and a run with a fault."""

    def __init__(self, case: Case, workspace: Workspace, rng: Random) -> None:
        super().__init__()
        self.case, self.workspace, self.rng = case, workspace, rng
        self.result = Result()
        self.state = "nothing"

    def prepare(self, old: bool = False, **more: Any) -> float:
        """Load the table and time an undisturbed run, which may leave an old release.

        Parameters
        ----------
        old : keep an old release.
        """
        case = self.case
        self.backend = self.enter_context(self.workspace.backend(case.database))
        self.sink = self.backend
        if case.target is not None:
            self.sink = self.enter_context(self.workspace.backend(case.target))
        self.backend.load(case.table)
        self.sink.make_schema("release")
        self.original = oracle.read_rows(self.backend, (case.table.schema, case.table.name))
        self.old = self.rng.random() < 0.6 or old
        # If there is to be no old release, use another name, so that the ledger exists anyway.
        output = {} if self.old else {"output": "release.another"}
        # The first run also creates the ledger, so time the second one.
        for k in (2, 3):
            changes = {"k": k, "if_exists": "replace", **output, **more}
            with client(order_of(case, self.backend, self.target, **changes)) as undisturbed:
                started = time.monotonic()
                go(undisturbed)
                outcome = wait_for_end(undisturbed)
                seconds = time.monotonic() - started
            if not outcome.ok:
                raise RuntimeError(f"the undisturbed run failed: {outcome.messages[:500]}")
        doors.collect_garbage(self.sink)
        self.backend.settle()
        self.sink.settle()
        self.before = self.snapshots()
        return seconds

    @property
    def target(self) -> Backend | None:
        return None if self.sink is self.backend else self.sink

    def snapshots(self) -> list[Snapshot]:
        backends = [self.backend] if self.target is None else [self.backend, self.sink]
        return [backend.snapshot() for backend in backends]

    def inject(self, injector: Injector, after: float, **more: Any) -> Outcome:
        """Start the run, inject the fault, and wait for the client to end."""
        limits = {key: more.pop(key) for key in LIMITS if key in more}
        arguments = {"if_exists": "replace", **more}
        order = order_of(self.case, self.backend, self.target, **arguments)
        with client({**order, **limits}) as running:
            go(running)
            injector(running, self.backend, after)
            return wait_for_end(running)

    def judge(self, outcome: Outcome, fault: str) -> None:
        """Require the old or the new release, and a client that reported it correctly."""
        result = self.result
        self.backend.settle()
        self.sink.settle()
        result.add(fault, oracle.leaked_values(outcome.messages))
        after = self.snapshots()
        left = changes(self.before, after)
        self.state = "old" if not left else "new" if self.is_new() else "neither"
        if self.state == "neither":
            result.add(fault, left)
        if self.state == "new":
            result.add(fault, self.release_findings(outcome))
            result.add(fault, self.left_over(after))
        result.add(fault, self.exit_findings(outcome, fault))
        self.next_run(fault)

    def is_new(self) -> bool:
        """Whether the ledger's current entry belongs to the run with the fault."""
        rows = self.sink.rows(
            f"SELECT k_requested FROM {self.sink.relation('dbanon', 'release')}"
            " WHERE superseded_at IS NULL AND output_name LIKE '%people'"
        )
        return rows == [(self.case.arguments["k"],)]

    def release_findings(self, outcome: Outcome) -> list[str]:
        rows = oracle.read_rows(self.sink, split(self.case.arguments["output"]))
        # A killed client reports nothing; the counts are checked elsewhere.
        counts = {"rows_in": len(self.original), "rows_out": len(rows), "suppressed": 0}
        complete = replace(outcome, report=counts)
        return oracle.check(
            oracle.PublishedRelease(
                self.case, self.backend, self.sink, rows, self.original, complete
            )
        )

    def left_over(self, after: list[Snapshot]) -> list[str]:
        findings = oracle.left_over(
            self.case, self.case.door, self.sink, self.before[-1], after[-1], self.old
        )
        return findings + (changes(self.before[:1], after[:1]) if self.target is not None else [])

    def exit_findings(self, outcome: Outcome, fault: str) -> list[str]:
        """Require the new release after exit code 0, and the old one after any other but
        'unknown'.
        """
        code, error_code = outcome.exit_code, outcome.code or outcome.sqlstate
        exit_codes = {exit_code for exit_code, _ in documented_errors().values()} | {0, 130, 143}
        findings = []
        if outcome.code == "hangs":
            return [f"the client had not ended {SECONDS} s later"]
        killed = code in (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT)
        # Database libraries abort the process when memory runs out. The dynamic loader exits with
        # 127 if it cannot map a library.
        ends = (-signal.SIGABRT, -signal.SIGSEGV, 127)
        killed |= code in ends and fault.startswith("address space")
        if code not in exit_codes and not killed:
            findings.append(
                f"exit code {code} is not documented ({outcome.messages.strip()[-150:]})"
            )
        if outcome.code is not None and outcome.code not in documented_errors():
            findings.append(
                f"error {outcome.code} is not documented ({outcome.messages.strip()[-150:]})"
            )
        if code == 0 and self.state != "new":
            findings.append("exit code 0, and the new release does not stand")
        unknown = "unknown" in (outcome.code or "") or "unknown" in outcome.messages.lower()
        # A signal outside the run may come before or after it; the client reports both.
        unknown |= "or after all was done" in outcome.messages
        # A terminated session may have committed before; a cancelled one got an error.
        client_knows = self.case.door != "sql" or fault == "pg_cancel_backend"
        if self.state == "new" and code != 0 and not killed and not unknown and client_knows:
            findings.append(f"exit code {code} ({error_code}), and the new release stands")
        return findings

    def next_run(self, fault: str) -> None:
        """The next run succeeds, and leaves exactly one release."""
        case, result = replace(self.case, arguments={**self.case.arguments, "k": 7}), self.result
        order = order_of(case, self.backend, self.target, if_exists="replace")
        with client(order) as running:
            go(running)
            outcome = wait_for_end(running)
        if not outcome.ok:
            result.add(fault, [f"the next run failed: {outcome.messages.strip()[:300]}"])
            return
        doors.collect_garbage(self.sink)
        verdict = doors.verify(self.sink, case.door, case.arguments["output"])
        if not verdict.ok:
            result.add(
                fault, [f"the next release is not verified: {verdict.code or verdict.sqlstate}"]
            )
        relations = self.sink.snapshot().relations
        home = "" if self.sink.kind == "sqlite" else "release"
        ours = [n for s, n in relations if s == home and (home or n.startswith("release_"))]
        per = (case.arguments["output_kind"] == "view") + (case.door == "sql") + 1
        if len(ours) != per * (1 if self.old else 2) and self.sink.kind != "sqlite":
            result.add(fault, [f"{len(ours)} relations stand after gc"])


def _end(running: Client, backend: Backend, after: float, fault: str) -> None:
    """Kill the run after this many seconds."""
    if fault == "statement_timeout":
        return
    time.sleep(after)
    if fault in SIGNALS:
        running.signal(SIGNALS[fault])
        return
    assert isinstance(backend, PostgresqlBackend)
    with contextlib.suppress(psycopg.OperationalError):
        for (pid,) in backend.rows(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        ):
            if fault == "backend":
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                # The server closes every session and recovers.
                time.sleep(0.3)
            else:
                backend.rows(f"SELECT {fault}({pid})")
