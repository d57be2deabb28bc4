"""MariaDB under adversity, with concurrent readers: its own procedure to publish a release.

Tables and columns have odd names. The faults: a signal to the client, the end of the server or of a
session, a stalled server, a concurrent run, or a reader that keeps the old release open.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from random import Random

import pymysql

from tests.faults.backends import Backend
from tests.faults.cases import Case
from tests.faults.doors import Outcome, split
from tests.faults.kills import SIGNALS, Client, FaultTrial, client, go, order_of, wait_for_end
from tests.faults.mariadb_backend import MariadbBackend
from tests.faults.scenario import Result
from tests.faults.tables import NASTY, Column, Table, quote
from tests.faults.workspace import Workspace
from tests.mariadb_server import Readers

# Time to exit after the signal when the server is stalled, as for stalled networks.
SECONDS_AFTER_SIGNAL = 15.0
FAULTS = (
    *SIGNALS,
    *SIGNALS,
    "crash",
    "crash",
    "KILL CONNECTION",
    "KILL QUERY",
    "stall",
    "race",
    "idle reader",
    "refused",
)
_OUTPUTS = ("people", "people", 'out"people', "o`people", "Out put people", "%speople")
_TEXTS = (
    "varchar(60)",
    "varchar(60) COLLATE utf8mb4_bin",
    "varchar(60) COLLATE utf8mb4_unicode_ci",
)
# Most collations treat some of these as equal.
_LABELS = ("qzmark a", "QZMARK A", "qzmark a ", "qzmark ä", "qzmark ss", "qzmark ß", "")


def mariadb_case(seed: int, number: int, rng: Random) -> Case:
    """A table of some thousand rows with odd names."""
    n = rng.randint(1500, 4000)
    # The server's identifiers have at most three bytes per character.
    odd = [name for name in NASTY if max(map(ord, name)) < 0x10000 and name == name.strip()]
    rng.shuffle(odd)
    used_names: set[str] = set()

    def name(plain: str) -> str:
        chosen = odd.pop() if rng.random() < 0.6 else plain
        while chosen.casefold() in used_names:
            chosen = odd.pop()
        used_names.add(chosen.casefold())
        return chosen

    def column(plain: str, family: str, kind: str, values: Callable[[], str]) -> Column:
        return Column(name(plain), family, kind, tuple(values() for _ in range(n)))

    columns = (
        column(
            "age",
            "integer",
            rng.choice(("int", "smallint", "bigint")),
            lambda: str(rng.randint(0, 99)),
        ),
        column("height", "float", "double", lambda: repr(round(rng.gauss(170, 12), 2))),
        column("site", "text", rng.choice(_TEXTS), lambda: rng.choice(_LABELS)),
        Column("uid", "integer", "int", tuple(str(7317300 + i) for i in range(n))),
    )
    table = Table(
        "app", rng.choice(("people", "select", 'peo"ple', "peo`ple", "p%s")), columns, "key", "uid"
    )
    output = rng.choice(_OUTPUTS)
    arguments = {
        "k": 5,
        "method": rng.choice(("mdav", "mdav", "gaa_cp", "mondrian")),
        "quasi_identifiers": [columns[0].name, columns[1].name],
        "nulls": "error",
        "sensitive": [columns[2].name],
        "keep": ["uid"],
        "output": f"release.{quote(output)}",
        "output_kind": "table",
    }
    return Case(seed, number, "mariadb", "command", None, table, arguments)


def run_mariadb(seed: int, number: int, workspace: Workspace) -> Result:
    """Run one case with a fault while readers poll the output."""
    rng = Random(f"mariadb {seed} {number}")
    fault = rng.choice(FAULTS)
    case = mariadb_case(seed, number, rng)
    with FaultTrial(case, workspace, rng) as trial:
        seconds = trial.prepare(old=fault == "idle reader")
        backend = trial.backend
        assert isinstance(backend, MariadbBackend)
        readers = Readers(
            backend.server, '"release"', backend.relation(*split(case.arguments["output"]))
        )
        old_digest = readers.digest()
        injector = _MariadbInjector(trial, fault, rng)
        more = {"idle reader": {"swap_timeout": 1}, "refused": {"k": len(trial.original) + 1}}
        with readers.reading(), injector.keep_reader_open():
            outcome = trial.inject(
                injector, seconds * rng.uniform(0.02, 0.8), **more.get(fault, {})
            )
            injector.wait()
            backend.settle()
            readers.wait()
        digest_after = readers.digest()
        trial.result.add(fault, readers.findings([old_digest, digest_after]))
        trial.result.add(fault, injector.findings(outcome, digest_after == old_digest))
        if fault == "race":
            outcome = next(
                (candidate for candidate in (outcome, *injector.outcomes) if candidate.ok), outcome
            )
        trial.judge(outcome, fault)
        answers = sum(readers.seen.values())
        if not answers and old_digest is not None:
            trial.result.add(fault, ["no reader had an answer"])
        trial.result.outcome = f"{fault}: {trial.state}"
        trial.result.answers = answers
        return trial.result


class _MariadbInjector:
    """Injects a fault into a run."""

    def __init__(self, trial: FaultTrial, fault: str, rng: Random) -> None:
        assert isinstance(trial.backend, MariadbBackend)
        self.trial, self.backend, self.fault, self.rng = trial, trial.backend, fault, rng
        self.outcomes: list[Outcome] = []
        self.spent = 0.0
        self._other: threading.Thread | None = None

    @contextlib.contextmanager
    def keep_reader_open(self) -> Iterator[None]:
        """For the fault "idle reader", keep a reader of the old release open during the block."""
        if self.fault != "idle reader":
            yield
            return
        with contextlib.closing(self.backend.server.connect(user="reader")) as reader:
            cursor = reader.cursor()
            cursor.execute("SET SESSION sql_mode = 'ANSI_QUOTES'")
            cursor.execute("START TRANSACTION")
            output = self.backend.relation(*split(self.trial.case.arguments["output"]))
            cursor.execute(f"SELECT count(*) FROM {output}")
            yield

    def __call__(self, running: Client, backend: Backend, after: float) -> None:
        fault, server = self.fault, self.backend.server
        if fault == "race":
            self._other = threading.Thread(target=self._race)
            self._other.start()
            return
        if fault in ("idle reader", "refused"):
            return
        time.sleep(after)
        if fault in SIGNALS:
            running.signal(SIGNALS[fault])
        elif fault == "crash":
            server.crash()
            time.sleep(0.05)
            server.start()
        elif fault.startswith("KILL"):
            for number in self.backend.sessions():
                # The session may have ended already.
                with contextlib.suppress(pymysql.err.Error):
                    self.backend.execute(f"{fault} {number}")
        else:
            self._stall(running)

    def _stall(self, running: Client) -> None:
        process = self.backend.server.process_id
        os.kill(process, signal.SIGSTOP)
        try:
            time.sleep(0.2)
            signalled_at = time.monotonic()
            running.signal(self.rng.choice((signal.SIGTERM, signal.SIGINT)))
            with contextlib.suppress(Exception):
                running.process.wait(60)
            self.spent = time.monotonic() - signalled_at
        finally:
            os.kill(process, signal.SIGCONT)

    def _race(self) -> None:
        order = order_of(self.trial.case, self.backend, None, if_exists="replace")
        with client(order) as running:
            go(running)
            self.outcomes.append(wait_for_end(running))

    def wait(self) -> None:
        """Wait for the concurrent run."""
        if self._other is not None:
            self._other.join()

    def findings(self, outcome: Outcome, old: bool) -> list[str]:
        """Check what this fault in particular must lead to."""
        if self.spent > SECONDS_AFTER_SIGNAL:
            return [f"it ended {self.spent:.1f} s after the signal"]
        if self.fault == "idle reader" and (outcome.code != "output_busy" or not old):
            return [f"{outcome.code} where output_busy was due, the old release stands: {old}"]
        if self.fault == "refused" and (outcome.code != "too_few_records" or not old):
            return [f"{outcome.code} where too_few_records was due, nothing is shown: {old}"]
        losers = [
            outcome_of_run for outcome_of_run in (outcome, *self.outcomes) if not outcome_of_run.ok
        ]
        if self.fault == "race" and any(loser.exit_code != 4 for loser in losers):
            return [f"the loser's exit code is {losers[0].exit_code}, not 4"]
        return []
