"""Exports under adversity: from a folder of Parquet to a disk, S3 or Iceberg, with faults.

Other programs read the export, and the checks count its rows. Files and columns have odd names.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import isclose
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
from pyarrow import parquet
from sqlalchemy import make_url

from tests.faults import oracle
from tests.faults.doors import Outcome, join_names
from tests.faults.export_stores import STORES, ExportStore, StoreReaders, digest_of
from tests.faults.kills import SIGNALS, client, go, wait_for_end
from tests.faults.scenario import Result
from tests.faults.workspace import Workspace, documented_errors
from tests.stores.tcp_proxy import Cut, TcpProxy

FAULTS = (*SIGNALS, *SIGNALS, "other", "refused", "undisturbed")
OF_S3 = ("cut", "cut", "stall", "stall")
SECONDS_AFTER_SIGNAL = 15.0
_NAMES = (
    "age",
    "Age 2",
    "a'b",
    'a"b',
    "größe",
    "x" * 63,
    "%s",
    "count(*)",
    "🙂",
    "new\nline",
    "$1",
    "a,b",
    "_rowid_",
    "select",
    "e\u0301",
)
_FILES = ("p", "a'b", "größe", "100%", "x y", "a{b}", "[c]")


@dataclass
class _Source:
    """A folder of Parquet, and what must hold for a release of it."""

    folder: Path
    rows: pa.Table
    quasi: list[str]
    site: str

    @classmethod
    def generate(cls, folder: Path, rng: Random) -> _Source:
        """Generate some thousand rows in several files, sometimes in Hive-style folders."""
        n = rng.randint(800, 2500)
        age, height, site = rng.sample(_NAMES, 3)
        hive = rng.random() < 0.5
        rows = pa.table(
            {
                age: pa.array([rng.randint(0, 99) for _ in range(n)], pa.int64()),
                height: pa.array([round(rng.gauss(170, 12), 2) for _ in range(n)], pa.float64()),
                site: [f"qzmark {rng.choice('abc')}" for _ in range(n)],
                "uid": pa.array([7317300 + i for i in range(n)], pa.int64()),
                "not asked for": [f"qzmark secret {i}" for i in range(n)],
            }
        )
        parts = rng.randint(1, 5)
        for part in range(parts):
            into = folder / f"year={2020 + part}" if hive else folder
            into.mkdir(parents=True, exist_ok=True)
            start, end = part * n // parts, (part + 1) * n // parts
            name = f"{rng.choice(_FILES)} {part}.parquet"
            parquet.write_table(rows.slice(start, end - start), into / name)
        return cls(folder, rows, [age, height], site)

    def findings(self, table: pa.Table, k: int) -> Iterator[str]:
        """Check a release, using rows that another program read."""
        released = [*self.quasi, self.site, "uid"]
        if set(table.column_names) != set(released):
            yield "columns: the release has others than were named"
            return
        if table.num_rows != self.rows.num_rows:
            yield f"counts: {table.num_rows} rows where the source has {self.rows.num_rows}"
        if (smallest := _smallest(table, self.quasi)) < k:
            yield f"k: a class of {smallest} rows where k is {k}"
        pairs = [
            Counter(zip(*(side[name].to_pylist() for name in (self.site, "uid")), strict=True))
            for side in (table, self.rows)
        ]
        if pairs[0] != pairs[1]:
            yield "kept: rows differ from the source's"
        order = [value - 7317300 for value in table["uid"].to_pylist()]
        if order == sorted(order):
            yield "order: the released order is the source's"
        height = self.quasi[1]
        sums = [sum(side[height].to_pylist()) for side in (table, self.rows)]
        if not isclose(*sums, rel_tol=1e-6):
            yield "truth: the sum of a column changed"


def _smallest(table: pa.Table, names: list[str]) -> int:
    classes = Counter(zip(*(table[name].to_pylist() for name in names), strict=True))
    return min(classes.values(), default=0)


class _Run:
    """A store, a source, a ledger, and a run with a fault."""

    def __init__(self, workspace: Workspace, folder: Path, rng: Random) -> None:
        self.rng, self.result = rng, Result()
        workspace.objects()
        self.store: ExportStore = STORES[rng.choice(("disk", "s3", "s3", "iceberg", "iceberg"))](
            folder, rng
        )
        self.source = _Source.generate(folder / "in", rng)
        self.ledger = folder / "ledger.duckdb"
        ways = FAULTS + (OF_S3 if self.store.kind == "s3" else ())
        self.fault = rng.choice(ways)

    def order(self, k: int) -> dict[str, Any]:
        """The command that a client runs."""
        columns = join_names(self.source.quasi)
        words = ["anonymize", f"file:{self.source.folder}", "--table", "people", "--no-progress"]
        words += ["--format", "json", "-q", columns, "-s", join_names([self.source.site])]
        words += ["--keep", "uid", "--k", str(k), "--method", "mdav", "--output", "release.people"]
        words += ["--target", f"duckdb:///{self.ledger}", "--if-exists", "replace"]
        words += ["--export", self.store.path]
        return {"words": words}

    def run_undisturbed(self, k: int) -> tuple[Outcome, float]:
        with client(self.order(k)) as running:
            started = time.monotonic()
            go(running)
            return wait_for_end(running), time.monotonic() - started

    def all(self) -> None:
        for k in (2, 3):
            outcome, seconds = self.run_undisturbed(k)
            if not outcome.ok:
                raise RuntimeError(f"the undisturbed run failed: {outcome.messages[:500]}")
        if self.rng.random() < 0.3:
            self.store.remove()
        self.before, self.digest = self.store.everything(), self.store.digest()
        readers = StoreReaders(self.store)
        with readers.reading():
            outcome = self.run_with_fault(seconds)
        table = self.store.table()
        digest = None if table is None else digest_of(table)
        self.result.answers = sum(readers.seen.values())
        if self.fault != "other":
            self.result.add(self.fault, readers.findings([self.digest, digest]))
        self.result.add(self.fault, oracle.leaked_values(outcome.messages))
        state = self.judge(outcome, table, digest)
        self.result.outcome = f"{self.store.kind}, {self.fault}: {state}"
        self.next_run(state)

    def theirs(self) -> list[str]:
        """Digests of the tables that another program wrote during the run."""
        return getattr(self, "_theirs", [])

    def run_with_fault(self, seconds: float) -> Outcome:
        """Run with k = 5 and inject the fault."""
        fault, rng = self.fault, self.rng
        moment = seconds * rng.uniform(0.02, 0.95)
        k = self.source.rows.num_rows + 1 if fault == "refused" else 5
        with self.network() as proxy, client(self.order(k)) as running:
            go(running)
            if fault in SIGNALS:
                time.sleep(moment)
                running.signal(SIGNALS[fault])
            elif fault == "other":
                time.sleep(moment)
                self.store.put_other()
                # Readers may have seen the previous release or the other program's rows; both are
                # allowed.
                self._theirs = [d for d in [self.store.digest()] if d is not None]
            elif fault == "stall" and proxy is not None:
                while not proxy.was_cut.wait(0.05) and running.process.poll() is None:
                    pass
                time.sleep(0.2)
                signalled_at = time.monotonic()
                running.signal(rng.choice((signal.SIGTERM, signal.SIGINT)))
                outcome = wait_for_end(running)
                if time.monotonic() - signalled_at > SECONDS_AFTER_SIGNAL:
                    spent = time.monotonic() - signalled_at
                    self.result.add(fault, [f"it ended {spent:.1f} s after the signal"])
                return outcome
            return wait_for_end(running)

    @contextlib.contextmanager
    def network(self) -> Iterator[TcpProxy | None]:
        """A proxy between client and object store that cuts or stalls the connection."""
        if self.fault not in ("cut", "stall"):
            yield None
            return
        at: bytes | int = self.rng.choice(
            (b"PUT /", b"PUT /", b"copy-source", b"DELETE /", self.rng.randint(500, 60_000))
        )
        how: Any = self.rng.choice(
            ("before", "after") if self.fault == "cut" else ("stall", "stall after")
        )
        direct = os.environ["AWS_ENDPOINT_URL"]
        url = make_url(direct)
        assert url.port is not None
        cut = Cut(how, at=at, down=self.fault == "stall" or self.rng.random() < 0.5)
        with TcpProxy(url.host or "", url.port, cut) as proxy:
            os.environ["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{proxy.port}"
            try:
                yield proxy
            finally:
                os.environ["AWS_ENDPOINT_URL"] = direct

    def entry(self) -> int | None:
        """The k of the ledger's current release."""
        with duckdb.connect(str(self.ledger)) as connection:
            rows = connection.execute(
                "SELECT k_requested FROM dbanon.release WHERE superseded_at IS NULL"
            ).fetchall()
        return rows[0][0] if len(rows) == 1 else None

    def judge(self, outcome: Outcome, table: pa.Table | None, digest: str | None) -> str:
        """Require the complete old or new release, and a client and ledger that agree with it."""
        findings: list[str] = []
        new = [*self.source.findings(table, 5)] if table is not None else ["nothing stands"]
        state = "old" if digest == self.digest else "other" if digest in self.theirs() else "new"
        if state == "new" and new:
            findings += new
        entry, messages = self.entry(), outcome.messages
        pending = "could not be moved to" in messages
        if self.fault == "refused":
            if state != "old" or self.store.everything() != self.before:
                findings.append("a refused release left something on the store")
            if outcome.code != "too_few_records":
                findings.append(f"{outcome.code} where too_few_records was due")
        if outcome.code == "hangs":
            findings.append("the client did not end")
        exit_codes = {exit_code for exit_code, _ in documented_errors().values()} | {0, 130, 143}
        killed = outcome.exit_code in (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT)
        if outcome.exit_code not in exit_codes and not killed:
            findings.append(
                f"exit code {outcome.exit_code} is not documented ({messages.strip()[-200:]})"
            )
        if outcome.ok and not (state == "new" or pending or state == "other"):
            findings.append("exit code 0, and the new release does not stand")
        unknown = "unknown" in messages.lower() or "or after all was done" in messages
        if not outcome.ok and not killed and not unknown and entry == 5:
            findings.append(f"exit code {outcome.exit_code}, and the ledger has the release")
        if state == "new" and entry != 5:
            findings.append("a release is shown that the ledger has not")
        findings += self.every_file()
        self.result.add(self.fault, findings)
        return state + (", pending" if entry == 5 and state != "new" else "")

    def every_file(self) -> Iterator[str]:
        """No file in the store, visible or not, may reveal more than a release does."""
        released = {*self.source.quasi, self.source.site, "uid"}
        for name, table in self.store.tables().items():
            if set(table.column_names) == {"theirs"} or table.num_rows < 2:
                continue
            if not set(table.column_names) <= released:
                yield "a file on the store has other columns than the release"
            elif name.startswith((".dbanon", "dbanon")) and _smallest(table, self.source.quasi) < 2:
                yield "a file on the store has a class of one row"
        if any(b"qzmark secret" in content for content in self.store.everything().values()):
            yield "a value that was not asked for is on the store"

    def next_run(self, state: str) -> None:
        """The next run cleans up, leaves exactly one release, and keeps what others wrote."""
        outcome, _ = self.run_undisturbed(7)
        if state.startswith("other"):
            if outcome.code != "output_exists":
                self.result.add(self.fault, [f"{outcome.code} where another's table stands"])
            self.store.remove()
            outcome, _ = self.run_undisturbed(7)
        if not outcome.ok:
            self.result.add(self.fault, [f"the next run failed: {outcome.messages.strip()[:400]}"])
            return
        table = self.store.table()
        assert table is not None
        findings = [*self.source.findings(table, 7)]
        left = [name for name in self.store.everything() if name.startswith(".dbanon")]
        release_ids = self.release_ids()
        # In an object store, an object that is not in the ledger may belong to a run in progress.
        if self.store.kind == "disk" and left:
            findings.append(f"{len(left)} files are left")
        if any(release in name for name in left for release in release_ids):
            findings.append("an object of a release is left beside it")
        self.result.add(f"{self.fault}, next run", findings)

    def release_ids(self) -> list[str]:
        with duckdb.connect(str(self.ledger)) as connection:
            rows = connection.execute("SELECT release_id FROM dbanon.release").fetchall()
        return [str(release_id) for (release_id,) in rows]


def run_export(seed: int, number: int, workspace: Workspace) -> Result:
    """Run one export with a fault while a reader polls it."""
    rng = Random(f"export {seed} {number}")
    folder = workspace.folder / f"export {number}"
    folder.mkdir()
    try:
        run = _Run(workspace, folder, rng)
        run.all()
        return run.result
    finally:
        shutil.rmtree(folder, ignore_errors=True)
