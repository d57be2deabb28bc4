"""Exact MDAV and blocks of another version beside this one, in turn: ratios first, seconds second.

Needs ``--beside``. Each measurement is a process of its own that makes its data first; seconds are
the least of the turns, of the processor for one kernel on one thread, of the clock for blocks. A
ratio is the other version's seconds over this one's. Labels must be equal: of a kernel in both
versions, of blocks with any number of threads, as version 0.1.0 cut other blocks.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator

from benchmarks.beside import Version, versions
from benchmarks.markdown import NotMeasuredError, table

KINDS = ("normal", "clustered")
WIDTHS = (4, 10, 13)
K, TURNS = 5, 2

# As benchmarks/mdav_speed.py makes them; that module is not there for another version.
DATA = """
import hashlib, json, os, sys, time
import numpy as np
kind, n, p, k = sys.argv[1], *map(int, sys.argv[2:5])
rng = np.random.default_rng(1)
points = rng.normal(size=(n, p))
if kind == "clustered":
    points += 3.0 * rng.normal(size=(20, p))[rng.integers(0, 20, size=n)]
points -= points.mean(axis=0)
points /= points.std(axis=0, ddof=1)
"""

MDAV = """
from dbanon import kernels
started = time.process_time()
kernel = kernels.Mdav(points, k)
while not kernel.step():
    pass
seconds = time.process_time() - started
print(json.dumps([seconds, hashlib.sha256(kernel.labels().tobytes()).hexdigest()]))
"""

# A process that may use fewer processors must not wait for the others: as many threads as it has.
BLOCKS = """
cores = int(sys.argv[5])
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
os.cpu_count = lambda: cores
import dbanon
started = time.perf_counter()
classes = dbanon.partition(points, k, block_size=50_000)
seconds = time.perf_counter() - started
print(json.dumps([seconds, hashlib.sha256(classes.labels.tobytes()).hexdigest()]))
"""


def run(quick: bool = False, beside: str | None = None) -> str:
    """Markdown of both tables."""
    if beside is None:
        raise NotMeasuredError("needs --beside, an interpreter with another version")
    known = versions(beside)
    n = 20_000 if quick else 1_000_000
    kernels = [(kind, n, p, K) for p in WIDTHS for kind in KINDS]
    text = "# Second round of speed\n\n" + (__doc__ or "").partition("\n\n")[2]
    text += f"\n## One thread, k = {K}, CPU seconds\n\n"
    header = ["data", "n", "p", "k"]
    seconds = ["other / this", "this s", f"{known[1].name} s"]
    text += table([*header, *seconds], [row for row, _ in _rows(known, MDAV, kernels)])
    cores = sorted({1, os.cpu_count() or 1})
    blocks = [("normal", 200_000 if quick else 10_000_000, 4, K, count) for count in cores]
    text += "\n## By blocks of 50,000 records, seconds of the clock\n\n"
    rows, found = [], set()
    for row, labels in _rows(known, BLOCKS, blocks, alike=False):
        rows.append(row)
        found.add(labels)
    if len(found) != 1:
        raise AssertionError("labels differ by the number of threads")
    text += table([*header, "threads", *seconds], rows)
    if len(rows) > 1:
        ours, theirs = (float(str(rows[0][i])) / float(str(rows[-1][i])) for i in (-2, -1))
        text += f"\nFrom 1 to {cores[-1]} threads: {ours:.2f} times faster, "
        text += f"{known[1].name} {theirs:.2f} times.\n"
    return text


def _rows(
    known: list[Version], code: str, cases: list[tuple[object, ...]], alike: bool = True
) -> Iterator[tuple[list[object], str]]:
    """A row for each case: what it is, the ratio, and both versions' seconds; and its labels.

    Parameters
    ----------
    alike : whether both versions must give the same labels.
    """
    for case in cases:
        best = [math.inf] * len(known)
        found: list[set[str]] = [set() for _ in known]
        for _ in range(TURNS):
            for i, version in enumerate(known):
                taken, digest = json.loads(version.run(DATA + code, *map(str, case)))
                best[i] = min(best[i], taken)
                found[i].add(digest)
        if any(len(own) != 1 for own in found) or (alike and found[0] != found[-1]):
            raise AssertionError(f"labels differ: {case}")
        yield [*case, best[1] / best[0], *best], found[0].pop()
