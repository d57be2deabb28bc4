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

# As in benchmarks/mdav_speed.py, which other versions cannot import.
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

# With fewer processors, use as many threads as there are processors.
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


def run(quick: bool = False, other_python: str | None = None) -> str:
    """Measure both tables; return Markdown."""
    if other_python is None:
        raise NotMeasuredError("needs --beside, an interpreter with another version")
    known_versions = versions(other_python)
    n = 20_000 if quick else 1_000_000
    kernels = [(kind, n, p, K) for p in WIDTHS for kind in KINDS]
    text = "# Second round of speed\n\n" + (__doc__ or "").partition("\n\n")[2]
    text += f"\n## One thread, k = {K}, CPU seconds\n\n"
    header = ["data", "n", "p", "k"]
    seconds = ["other / this", "this s", f"{known_versions[1].name} s"]
    text += table([*header, *seconds], [row for row, _ in _rows(known_versions, MDAV, kernels)])
    cores = sorted({1, os.cpu_count() or 1})
    blocks = [("normal", 200_000 if quick else 10_000_000, 4, K, count) for count in cores]
    text += "\n## By blocks of 50,000 records, seconds of the clock\n\n"
    rows, labels_by_threads = [], set()
    for row, labels in _rows(known_versions, BLOCKS, blocks, must_agree=False):
        rows.append(row)
        labels_by_threads.add(labels)
    if len(labels_by_threads) != 1:
        raise AssertionError("labels differ by the number of threads")
    text += table([*header, "threads", *seconds], rows)
    if len(rows) > 1:
        own_ratio, other_ratio = (
            float(str(rows[0][i])) / float(str(rows[-1][i])) for i in (-2, -1)
        )
        text += f"\nFrom 1 to {cores[-1]} threads: {own_ratio:.2f} times faster, "
        text += f"{known_versions[1].name} {other_ratio:.2f} times.\n"
    return text


def _rows(
    known_versions: list[Version],
    code: str,
    cases: list[tuple[object, ...]],
    must_agree: bool = True,
) -> Iterator[tuple[list[object], str]]:
    """Yield a row for each case with the ratio and both versions' seconds, and its labels.

    Parameters
    ----------
    must_agree : whether both versions must give the same labels.
    """
    for case in cases:
        best = [math.inf] * len(known_versions)
        digests: list[set[str]] = [set() for _ in known_versions]
        for _ in range(TURNS):
            for i, version in enumerate(known_versions):
                elapsed, digest = json.loads(version.run(DATA + code, *map(str, case)))
                best[i] = min(best[i], elapsed)
                digests[i].add(digest)
        if any(len(version_digests) != 1 for version_digests in digests) or (
            must_agree and digests[0] != digests[-1]
        ):
            raise AssertionError(f"labels differ: {case}")
        yield [*case, best[1] / best[0], *best], digests[0].pop()
