"""The campaign: distributes cases to workers and prints findings as lines that can be repeated."""

from __future__ import annotations

import multiprocessing
import os
import queue
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SECONDS_A_CASE = 240
WORKERS = 2


@dataclass(frozen=True)
class BackgroundTask:
    """A case by its kind and number."""

    kind: str
    number: int

    def __str__(self) -> str:
        return f"{self.kind}:{self.number}"


@dataclass
class Tally:
    """The totals of a campaign."""

    done: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    answers: int = 0
    """Queries by readers that ran concurrently."""

    def line(self) -> str:
        parts = ", ".join(f"{count} {kind}s" for kind, count in sorted(self.done.items()))
        read = f", {self.answers} answers to readers" if self.answers else ""
        return f"faults: {parts}{read} … {len(self.findings)} findings"


def perform(task: BackgroundTask, seed: int, workspace: Any) -> Any:
    """Run one case and return its ``Result``."""
    from tests.faults.adversity import KINDS, run_adversity
    from tests.faults.cases import random_case
    from tests.faults.exports import run_export
    from tests.faults.kills import run_kill
    from tests.faults.mariadb import run_mariadb
    from tests.faults.scenario import run_case

    run = {"kill": run_kill, "mariadb": run_mariadb, "export": run_export}
    if task.kind == "table":
        result = run_case(random_case(seed, task.number), workspace)
    elif task.kind in KINDS:
        result = run_adversity(task.kind, seed, task.number, workspace)
    else:
        result = run[task.kind](seed, task.number, workspace)
    return result


def _work(seed: int, package: Path, tasks: Any, results: Any) -> None:
    from tests.faults.workspace import open_workspace

    with open_workspace(package) as workspace:
        results.put((os.getpid(), "ready", None, "", [], 0))
        while (task := tasks.get()) is not None:
            results.put((os.getpid(), "begins", task, "", [], 0))
            try:
                result = perform(task, seed, workspace)
                outcome, findings, answers = result.outcome, result.findings, result.answers
            except Exception as error:
                where = "".join(traceback.format_exception(error)[-3:])
                outcome, findings = "broke", [f"the campaign itself broke: {where}"]
                answers = 0
            results.put((os.getpid(), "ended", task, outcome, findings, answers))


class Campaign:
    """Workers with a server each. One that dies or hangs is reported and replaced."""

    def __init__(self, seed: int, tasks: list[BackgroundTask], workers: int = WORKERS) -> None:
        self.seed, self.tasks, self.tally = seed, tasks, Tally()
        self.workers = min(workers, len(tasks))
        self._context = multiprocessing.get_context("spawn")
        self._running: dict[int, tuple[Any, BackgroundTask | None, float]] = {}

    def run(self) -> Tally:
        from tests.faults.workspace import package_copy

        with package_copy() as package:
            waiting, results = self._context.Queue(), self._context.Queue()
            for task in self.tasks:
                waiting.put(task)
            try:
                for _ in range(self.workers):
                    self._start(package, waiting, results)
                left = len(self.tasks)
                while left:
                    left -= self._step(package, waiting, results)
            finally:
                for _ in self._running:
                    waiting.put(None)
                for process, _, _ in self._running.values():
                    process.join(60)
                    process.kill()
        return self.tally

    def _start(self, package: Path, waiting: Any, results: Any) -> None:
        process = self._context.Process(target=_work, args=(self.seed, package, waiting, results))
        process.start()
        assert process.pid is not None
        self._running[process.pid] = (process, None, time.monotonic())

    def _step(self, package: Path, waiting: Any, results: Any) -> int:
        """Handle one message, or check the workers; return the number of finished cases."""
        try:
            pid, event, task, outcome, findings, answers = results.get(timeout=1)
        except queue.Empty:
            return self._look_after(package, waiting, results)
        process, _, _ = self._running[pid]
        self._running[pid] = (process, task if event == "begins" else None, time.monotonic())
        if event != "ended":
            return 0
        self._count(task, outcome, findings)
        self.tally.answers += answers
        return 1

    def _count(self, task: BackgroundTask, outcome: str, findings: list[str]) -> None:
        self.tally.done[task.kind] += 1
        self.tally.outcomes[f"{task.kind} {outcome}"] += 1
        for text in findings:
            line = f"FAULTS_SEED={self.seed} FAULTS_CASE={task} {text}"
            self.tally.findings.append(line)
            print("finding:", line, flush=True)

    def _look_after(self, package: Path, waiting: Any, results: Any) -> int:
        ended = 0
        for pid, (process, task, since) in list(self._running.items()):
            late = time.monotonic() - since > SECONDS_A_CASE
            if process.is_alive() and not (late and task is not None):
                continue
            text = f"no end after {SECONDS_A_CASE} s" if process.is_alive() else "the process died"
            process.kill()
            process.join()
            del self._running[pid]
            if task is not None:
                self._count(task, "died", [text])
                ended += 1
            elif not self._running:
                raise RuntimeError("no worker could start")
            self._start(package, waiting, results)
        return ended
