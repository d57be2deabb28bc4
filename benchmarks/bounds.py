"""Lower bounds on the three reference data sets, beside what ``refine=thorough`` after MDAV loses.

Needs the CASC reference data (``DBANON_DATA``), which is not part of the project. And of more
records than linear programs are for, drawn with a seed, beside ``refine=fast``.
"""

from __future__ import annotations

import resource
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
from numpy.typing import NDArray

import dbanon
from benchmarks.markdown import table
from benchmarks.methods import SIZES, reference, timed

SECONDS = 240.0
# Of many records.
COUNTS, ATTRIBUTES, MANY_SIZES, MANY_SECONDS = (20_000, 100_000), 4, (3, 5, 10), 600.0
TITLE = """# Lower bounds, measured

100 SSE/SST on z-scores: `mdav, refine=thorough, seed 0`, the simple bound of nearest neighbours,
and the best bound, by pairs or by classes of k (docs/bounds.md). The gap is how much more thorough
loses, as a share of the best bound; what an optimal partition saves lies between 0 and that. CPU
seconds are of all bounds together, with the partition they start from; each has four minutes at
most. Made by `python -m benchmarks bounds`, which `make bench` leaves out because it takes some ten
minutes.

"""


def run(quick: bool = False) -> str:
    """Markdown of losses, bounds, gaps and CPU seconds."""
    rows: list[list[object]] = []
    for name, data in reference(quick):
        for k in SIZES:
            loss, _ = timed(data, k, method="mdav", refine="fast" if quick else "thorough")
            started = time.process_time()
            found = dbanon.certificate(data, k, seconds=SECONDS)
            seconds = time.process_time() - started
            rows.append(
                [name, k, f"{loss:.4f}", f"{100 * found.simple:.4f}",
                 f"{100 * found.share:.4f}", found.way + ("" if found.complete else ", ended"),
                 f"{100 * found.gap(loss / 100):.2f} %", f"{seconds:.1f}"]
            )  # fmt: skip
            print(*rows[-1], flush=True)
    header = ["data", "k", "thorough", "simple bound", "best bound", "by", "gap", "CPU s"]
    return TITLE + table(header, rows) + "\n" + many(quick)


MANY = """## Many records

Random records of four attributes, seed 1: `normal`, and `clusters` of a tenth of its spread about
1,000 centres. 100 SSE/SST of `mdav, refine=fast, seed 0`; the bounds of nearest neighbours and of
fitting as shares of that loss, which is more than an optimal partition's. CPU seconds and the most
memory are of the bound alone, and of its process; it had ten minutes of wall time at most.

"""


def many(quick: bool = False) -> str:
    """Markdown of bounds as shares of losses, CPU seconds and MiB."""
    rows = []
    for count in (2000,) if quick else COUNTS:
        for name in ("normal", "clusters"):
            for k in MANY_SIZES:
                with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
                    rows.append(fresh.submit(_one_of_many, name, count, k).result())
                print(*rows[-1], flush=True)
    header = ["data", "records", "k", "fast", "neighbours / fast", "bound / fast", "CPU s", "MiB"]
    return MANY + table(header, rows)


def _one_of_many(name: str, count: int, k: int) -> list[object]:
    data = drawn(name, count)
    loss, _ = timed(data, k, method="mdav", refine="fast")
    started = time.process_time()
    found = dbanon.certificate(data, k, seconds=MANY_SECONDS)
    seconds = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    bound = f"{100 * found.share / loss:.3f}" + ("" if found.complete else ", ended")
    return [
        name, count, k, f"{loss:.4f}", f"{100 * found.simple / loss:.3f}", bound,
        f"{seconds:.0f}", f"{peak:.0f}",
    ]  # fmt: skip


def drawn(name: str, count: int) -> NDArray[np.float64]:
    """Random records, float64 (count, 4)."""
    rng = np.random.default_rng(1)
    data = rng.normal(size=(count, ATTRIBUTES))
    if name == "clusters":
        centres = rng.normal(size=(1000, ATTRIBUTES))
        data = data / 10 + centres[rng.integers(0, 1000, count)]
    return data
