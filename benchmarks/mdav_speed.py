"""MDAV: seconds by the index and by brute force, loss and memory; the labels must be equal.

Each case runs in a process of its own, so that its peak memory is its own. Figures of one run may
be compared with each other; between runs the machine may differ.
"""

import argparse
import multiprocessing
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from dbanon import kernels

LARGEST_BRUTE = 100_000


def make(kind, n, p):
    """z-scores of one normal cloud, or of twenty."""
    rng = np.random.default_rng(1)
    points = rng.normal(size=(n, p))
    if kind == "clustered":
        points += 3.0 * rng.normal(size=(20, p))[rng.integers(0, 20, size=n)]
    points -= points.mean(axis=0)
    points /= points.std(axis=0, ddof=1)
    return points


def timed(points, k, search):
    """Seconds, the longest slice in seconds, and the labels."""
    longest = 0.0
    start = before = time.perf_counter()
    kernel = kernels.Mdav(points, k, search)
    done = False
    while not done:
        done = kernel.step()
        now = time.perf_counter()
        longest = max(longest, now - before)
        before = now
    return before - start, longest, kernel.labels()


def loss(points, labels):
    """100 SSE / SST."""
    counts = np.bincount(labels)
    within = 0.0
    for column in points.T:
        means = np.bincount(labels, weights=column) / counts
        within += float(np.sum((column - means[labels]) ** 2))
    return 100.0 * within / float(np.sum((points - points.mean(axis=0)) ** 2))


def peak_memory():
    """The most memory this process has held, in MB (Linux); getrusage counts its parent's too."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def measure(path, n, k):
    points = np.load(path)
    before = peak_memory()
    seconds, longest, labels = timed(points, k, "auto")
    memory = peak_memory() - before
    brute = None
    if n <= LARGEST_BRUTE:
        brute, _, expected = timed(points, k, "brute")
        if not np.array_equal(labels, expected):
            raise AssertionError(f"labels differ from brute force: {path.name}, k = {k}")
    return seconds, longest, brute, loss(points, labels), memory


def cases(quick):
    sizes = [20_000, 100_000] if quick else [20_000, 100_000, 1_000_000]
    for kind in ("normal", "clustered"):
        for n in sizes:
            for p in (4, 10) if quick else (2, 4, 10, 13):
                for k in (5,) if quick or n > LARGEST_BRUTE else (3, 5, 10, 100):
                    yield kind, n, p, k


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few cases, up to 100,000 records")
    quick = parser.parse_args().quick
    table = Table(title=f"MDAV, one thread, {kernels.simd_level()}")
    for heading in ("data", "n", "p", "k", "s", "slice ms", "brute s", "ratio", "loss %", "MB"):
        table.add_column(heading, justify="left" if heading == "data" else "right")
    context = multiprocessing.get_context("spawn")
    for case in cases(quick):
        kind, n, p, k = case
        with tempfile.TemporaryDirectory() as folder, context.Pool(1) as pool:
            path = Path(folder) / f"{kind}-{n}-{p}.npy"
            np.save(path, make(kind, n, p))
            seconds, longest, brute, lost, memory = pool.apply(measure, (path, n, k))
        table.add_row(
            kind,
            f"{n:,}",
            str(p),
            str(k),
            f"{seconds:.3f}",
            f"{1000 * longest:.1f}",
            "-" if brute is None else f"{brute:.3f}",
            "-" if brute is None else f"{brute / seconds:.1f}",
            f"{lost:.4f}",
            f"{memory:.0f}",
        )
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
