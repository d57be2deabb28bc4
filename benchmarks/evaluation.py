"""Evaluation: CPU seconds of all measures beside those of MDAV on the same data, k = 5, and memory.

Each case in a process of its own; peak memory is of the run with the measures and of one without.
"""

from __future__ import annotations

import json
import subprocess
import sys

from benchmarks.markdown import table

CASES = (
    ("clustered", 100_000, 5),
    ("normal", 100_000, 5),
    ("normal", 100_000, 10),
    ("normal", 100_000, 13),
    ("clustered", 1_000_000, 5),
    ("normal", 1_000_000, 5),
)
LONGEST = ("linkage_risk", "nearest_linkage_risk", "interval_risk")

ONE = """
import json, sys, time
from pathlib import Path
import numpy as np
from dbanon import kernels
from dbanon.data.partition import Partition
from dbanon.data.scales import Scale
from dbanon.measures.attributes import Numbers
from dbanon.measures.catalogue import MEASURES
from dbanon.measures.figure import Task
from dbanon.measures.pairs import Pairs

kind, n, p, evaluate = sys.argv[1], *map(int, sys.argv[2:])
rng = np.random.default_rng(1)
numbers = rng.normal(size=(n, p))
if kind == "clustered":
    numbers += 3.0 * rng.normal(size=(20, p))[rng.integers(0, 20, size=n)]
points = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0, ddof=1)
clock = time.process_time
started = clock()
kernel = kernels.Mdav(points, 5)
while not kernel.step():
    pass
seconds = {"mdav": clock() - started}
classes = Partition(kernel.labels())
means = np.add.reduceat(numbers[classes.members], classes.starts) / classes.sizes[:, None]
del kernel, points
if evaluate:
    scales = [Scale.of(x) for x in numbers.T]  # a run has them
    started = clock()
    pairs = Pairs(
        tuple(
            Numbers(name=str(j), original=x, scale=scales[j], released=means[:, j])
            for j, x in enumerate(numbers.T)
        ),
        classes,
    )
    pairs.points, pairs.alike
    seconds["shared"] = clock() - started
    found = {}
    for name, measure in MEASURES.items():
        started = clock()
        found[name] = measure.run(Task(pairs, figures=found))
        seconds[name] = clock() - started
status = Path("/proc/self/status").read_text()
memory = int(status.split("VmHWM:")[1].split()[0]) / 1024
print(json.dumps([seconds, memory]))
"""


def run(quick: bool = False) -> str:
    """Markdown of all measurements."""
    rows: list[list[object]] = []
    for kind, n, p in CASES[:2] if quick else CASES:
        size = n // 10 if quick else n
        seconds, memory = _one(kind, size, p, True)
        _, without = _one(kind, size, p, False)
        mdav = seconds.pop("mdav")
        everything = sum(seconds.values())
        longest = [seconds[name] for name in LONGEST]
        rest = everything - sum(longest)
        ratio = everything / mdav
        rows.append([kind, size, p, mdav, *longest, rest, everything, ratio, memory, without])
    header = ["data", "n", "p", "MDAV s", *LONGEST, "others", "all", "all / MDAV"]
    text = "# Evaluation, one thread\n\n" + __doc__.partition("\n\n")[0] + "\n\n"
    return text + table([*header, "peak MiB", "without"], rows)


def _one(kind: str, n: int, p: int, evaluate: bool) -> tuple[dict[str, float], float]:
    # -I: the installed package, as in `make bench`.
    command = [sys.executable, "-I", "-c", ONE, kind, *map(str, (n, p, int(evaluate)))]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, memory = json.loads(done.stdout)
    return seconds, memory
