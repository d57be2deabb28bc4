"""``python -m tests.faults``: random tables and kills, checked by an oracle independent of dbanon.

FAULTS_SEED repeats a campaign, FAULTS_CASE=kind:number repeats one of its cases, and FAULTS=full
runs the long campaign. FAULTS_ONLY=table,kill selects kinds, and FAULTS_COUNT=20 limits the cases
of each kind.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import time
from collections.abc import Sequence

from tests.faults.campaign import BackgroundTask, Campaign
from tests.faults.cases import random_case
from tests.faults.kills import kill_case

QUICK = {
    "table": 310,
    "kill": 42,
    "cut": 4,
    "stall": 6,
    "pooler": 4,
    "disk": 3,
    "memory": 3,
    "ddl": 4,
    "race": 2,
    "mariadb": 24,
    "export": 30,
}
FULL = {
    "table": 2100,
    "kill": 210,
    "cut": 40,
    "stall": 40,
    "pooler": 20,
    "disk": 40,
    "memory": 40,
    "ddl": 60,
    "race": 20,
    "mariadb": 200,
    "export": 200,
}


def chosen_tasks(environment: dict[str, str]) -> list[BackgroundTask]:
    """The cases that the environment selects."""
    if case := environment.get("FAULTS_CASE"):
        kind, _, number = case.partition(":")
        return [BackgroundTask(kind, int(number))]
    counts = FULL if environment.get("FAULTS") == "full" else QUICK
    only = environment.get("FAULTS_ONLY", ",".join(counts)).split(",")
    most = int(environment.get("FAULTS_COUNT", "1000000"))
    tasks = [
        (number / counts[kind], BackgroundTask(kind, number))
        for kind in only
        for number in range(min(counts[kind], most))
    ]
    # Interleave the kinds, so that a campaign that stops early has run some cases of each.
    return [task for _, task in sorted(tasks, key=lambda pair: pair[0])]


def describe(seed: int, task: BackgroundTask) -> str:
    """Describe a case, whose table and arguments do not depend on the fault."""
    if task.kind == "table":
        return random_case(seed, task.number).describe()
    if task.kind == "kill":
        case, fault = kill_case(seed, task.number)
        return f"{case.describe()}\nended by: {fault}"
    return str(task)


def main(words: Sequence[str] = ()) -> int:
    form = argparse.RawDescriptionHelpFormatter
    argparse.ArgumentParser(
        "python -m tests.faults", description=__doc__, formatter_class=form
    ).parse_args(words)
    seed = int(os.environ.get("FAULTS_SEED") or secrets.randbelow(10**9))
    tasks = chosen_tasks(dict(os.environ))
    print(f"faults: FAULTS_SEED={seed}, {len(tasks)} cases", flush=True)
    if os.environ.get("FAULTS_CASE"):
        print(describe(seed, tasks[0]))
    started = time.monotonic()
    campaign = Campaign(seed, tasks, int(os.environ.get("FAULTS_WORKERS", "2")))
    tally = campaign.run()
    for outcome, count in sorted(tally.outcomes.items()):
        print(f"  {count:5} {outcome}")
    print(f"{tally.line()} in {time.monotonic() - started:.0f} s (FAULTS_SEED={seed})", flush=True)
    return 1 if tally.findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
