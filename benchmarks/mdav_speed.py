"""MDAV: seconds by the index beside brute force, by threads, growth with n, and records by blocks.

Brute force is the same algorithm with scans of all records, compiled alike: once with the best
instruction set here, once with the one every processor has. Its labels must be equal. A case whose
time, as foreseen from smaller cases of the same run, is over a limit is not run. Searches run in
one thread, except in the table of threads and by blocks.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.markdown import table
from dbanon import kernels
from dbanon.data.memory import worker_threads

Points = NDArray[np.float64]

KINDS = ("normal", "clustered")
SIZES = (20_000, 100_000, 1_000_000)
WIDTHS = (2, 4, 10, 13)
CLASSES = (3, 5, 10, 100)
# Seconds, for a total of about twelve minutes. k = 5 is the case that is compared over time.
LIMIT, LIMIT_AT_5, LIMIT_OF_BRUTE, LIMIT_OF_ALL = 25.0, 130.0, 4.0, 420.0
INSTALL_SECONDS = 300
PACKAGE = "anonypyx"

BLOCKS = """
import json, sys, time
from pathlib import Path
import numpy as np
import dbanon
n, iterations = map(int, sys.argv[1:])
points = np.random.default_rng(1).normal(size=(n, 4))
options = {"refine": "fast", "refine_iterations": iterations} if iterations else {}
started = time.perf_counter()
classes = dbanon.partition(points, 5, block_size=50_000, **options)
seconds = time.perf_counter() - started
status = Path("/proc/self/status").read_text()
memory = int(status.split("VmHWM:")[1].split()[0]) / 1024
print(json.dumps([seconds, memory, 100 * dbanon.information_loss(points, classes)]))
"""

OTHER = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
import numpy as np
import pandas as pd
from anonypyx.microaggregation import MDAVGeneric
points, k = np.load(sys.argv[2]), int(sys.argv[3])
names = [f"a{j}" for j in range(points.shape[1])]
frame = pd.DataFrame(points, columns=names)
started = time.perf_counter()
classes = MDAVGeneric(frame, names).partition(k)
print(json.dumps(time.perf_counter() - started))
"""


def run(quick: bool = False) -> str:
    """Measure everything; return Markdown."""
    sizes = SIZES[:1] if quick else SIZES
    widths = (2, 10) if quick else WIDTHS
    classes = (5, 100) if quick else CLASSES
    text = f"# MDAV, {kernels.simd_level()}\n\n" + __doc__.partition("\n\n")[2] + "\n"
    rows, seconds_of_case = _against_brute(sizes, widths, classes)
    header = ["data", "n", "p", "k", "s", "brute s", "brute, baseline s", "brute / index"]
    text += table([*header, "100 SSE/SST"], rows)
    text += "\n## Growth from 100,000 to 1,000,000 records, p = 4\n\n"
    growth = [
        [
            kind,
            k,
            math.log10(
                seconds_of_case[kind, SIZES[2], 4, k] / seconds_of_case[kind, SIZES[1], 4, k]
            ),
        ]
        for kind in KINDS
        for k in classes
        if {(kind, SIZES[1], 4, k), (kind, SIZES[2], 4, k)} <= seconds_of_case.keys()
    ]
    text += table(["data", "k", "exponent"], growth) if growth else "Not measured.\n"
    text += "\n## Threads, k = 5\n\n" + _by_threads(quick)
    text += "\n## By blocks of 50,000 records, normal, p = 4, k = 5\n\n" + _by_blocks(quick)
    return text + f"\n## {PACKAGE}'s MDAV, normal, p = 4, k = 5\n\n" + _other_package(quick)


def make(kind: str, n: int, p: int) -> Points:
    """z-scores of one normal distribution, or of a mixture of twenty."""
    rng = np.random.default_rng(1)
    points = rng.normal(size=(n, p))
    if kind == "clustered":
        points += 3.0 * rng.normal(size=(20, p))[rng.integers(0, 20, size=n)]
    points -= points.mean(axis=0)
    points /= points.std(axis=0, ddof=1)
    return points


def timed(
    points: Points, k: int, search: kernels.Search, threads: int = 1
) -> tuple[float, NDArray[np.int32]]:
    """Return seconds and labels."""
    started = time.perf_counter()
    kernel = kernels.Mdav(points, k, search)
    while not kernel.step(threads=threads):
        pass
    return time.perf_counter() - started, kernel.labels()


def loss(points: Points, labels: NDArray[np.int32]) -> float:
    """100 SSE / SST."""
    counts = np.bincount(labels)
    sse = 0.0
    for column in points.T:
        means = np.bincount(labels, weights=column) / counts
        sse += float(np.sum((column - means[labels]) ** 2))
    return 100.0 * sse / float(np.sum((points - points.mean(axis=0)) ** 2))


def _against_brute(
    sizes: tuple[int, ...], widths: tuple[int, ...], classes: tuple[int, ...]
) -> tuple[list[list[object]], dict[tuple[str, int, int, int], float]]:
    rows: list[list[object]] = []
    index: dict[tuple[str, int, int, int], float] = {}
    brute: dict[tuple[str, int, int, int], float] = {}
    started = time.perf_counter()
    for n in sizes:
        for kind in KINDS:
            for p in widths:
                points = make(kind, n, p)
                # Start with k = 5, so that the others are skipped when time runs out.
                for k in sorted(classes, key=lambda k: k != 5):
                    case = (kind, n, p, k)
                    limit = LIMIT_AT_5 if k == 5 else LIMIT
                    if time.perf_counter() - started > LIMIT_OF_ALL:
                        limit = 0.0
                    if _foreseen(index, case) > limit:
                        rows.append([kind, n, p, k, *["not run"] * 3, "", ""])
                        continue
                    index[case], labels = timed(points, k, "auto")
                    row: list[object] = [kind, n, p, k, index[case]]
                    if _foreseen(brute, case) > LIMIT_OF_BRUTE:
                        row += ["not run", "not run", ""]
                    else:
                        brute[case], baseline = _brute(points, k, labels)
                        row += [brute[case], baseline, brute[case] / index[case]]
                    rows.append([*row, loss(points, labels)])
    return rows, index


def _foreseen(
    seconds: dict[tuple[str, int, int, int], float], case: tuple[str, int, int, int]
) -> float:
    """Extrapolate from the two previous sizes, or from one as n^2; 0 for the smallest size."""
    kind, n, p, k = case
    measured_sizes = [size for size in SIZES if size < n and (kind, size, p, k) in seconds]
    if n == SIZES[0]:
        return 0.0
    if not measured_sizes or measured_sizes[-1] != SIZES[SIZES.index(n) - 1]:
        return math.inf
    last = seconds[kind, measured_sizes[-1], p, k]
    growth = 2.0
    if len(measured_sizes) > 1:
        first = seconds[kind, measured_sizes[-2], p, k]
        growth = math.log(last / first) / math.log(measured_sizes[-1] / measured_sizes[-2])
    return last * (n / measured_sizes[-1]) ** growth


def _brute(points: Points, k: int, expected: NDArray[np.int32]) -> tuple[float, float]:
    """Return the seconds with the best instruction set and with the baseline."""
    seconds_by_level = []
    best = kernels.simd_level()
    for level in (best, kernels.simd_levels()[0]):
        kernels.set_simd_level(level)
        try:
            seconds, labels = timed(points, k, "brute")
        finally:
            kernels.set_simd_level(best)
        if not np.array_equal(labels, expected):
            raise AssertionError(f"labels differ from brute force, {level}, k = {k}")
        seconds_by_level.append(seconds)
    return seconds_by_level[0], seconds_by_level[1]


def _by_threads(quick: bool) -> str:
    """Measure the same searches by one thread and by one per core; labels must be equal."""
    rows: list[list[object]] = []
    for n, p in ((20_000, 10),) if quick else ((200_000, 10), (200_000, 13), (1_000_000, 10)):
        for kind in KINDS:
            points = make(kind, n, p)
            expected = None
            for threads in (1, worker_threads()):
                cpu_started = time.process_time()
                seconds, labels = timed(points, 5, "auto", threads)
                cpu_seconds = time.process_time() - cpu_started
                rows.append([kind, n, p, threads, seconds, cpu_seconds])
                if expected is not None and not np.array_equal(labels, expected):
                    raise AssertionError(f"labels of {threads} threads differ, {kind}, {n} x {p}")
                expected = labels
    return table(["data", "n", "p", "threads", "s", "CPU s"], rows)


def _by_blocks(quick: bool) -> str:
    """Measure in separate processes, so that each has its own peak memory."""
    n = 200_000 if quick else 10_000_000
    rows: list[list[object]] = []
    for iterations in (0, 2_000_000):
        seconds, memory, loss_of_blocks = json.loads(_python(BLOCKS, n, iterations))
        rows.append([n, iterations or "none", seconds, memory, loss_of_blocks])
    if n <= SIZES[-1]:
        started = time.perf_counter()
        points = np.random.default_rng(1).normal(size=(n, 4))
        _, labels = timed(points, 5, "auto")
        rows.append([n, "none, one block", time.perf_counter() - started, "", loss(points, labels)])
    header = ["n", "iterations of refinement", "s", "peak MiB with the data", "100 SSE/SST"]
    return table(header, rows)


def _other_package(quick: bool) -> str:
    with tempfile.TemporaryDirectory() as directory:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", directory, PACKAGE]
        try:
            subprocess.run(pip, check=True, capture_output=True, timeout=INSTALL_SECONDS)
        except subprocess.TimeoutExpired:
            return f"Not measured: not installed within {INSTALL_SECONDS} s.\n"
        except subprocess.CalledProcessError:
            return "Not measured: pip could not install it.\n"
        rows: list[list[object]] = []
        path = Path(directory) / "points.npy"
        for n in (500,) if quick else (500, 1000, 2000):
            points = make("normal", n, 4)
            np.save(path, points)
            try:
                peer_seconds: object = json.loads(
                    _python(OTHER, directory, path, 5).splitlines()[-1]
                )
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
                peer_seconds = type(error).__name__
            own_seconds = timed(points, 5, "auto")[0]
            ratio = peer_seconds / own_seconds if isinstance(peer_seconds, float) else ""
            rows.append([n, peer_seconds, own_seconds, ratio])
    return table(["n", f"{PACKAGE} s", "index s", "ratio"], rows)


def _python(code: str, *arguments: object) -> str:
    # -I: the installed package, as in `make bench`.
    command = [sys.executable, "-I", "-c", code, *map(str, arguments)]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=INSTALL_SECONDS
    ).stdout
