"""Lower bounds for the three reference data sets, compared with ``refine=thorough`` after MDAV.

Needs the CASC reference data (``DBANON_DATA``), which is not part of the project. Also bounds for
more records than linear programs can handle, drawn with a seed, compared with ``refine=fast``.
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
# For the tables with many records.
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
    """Measure losses, bounds, gaps and CPU seconds; return Markdown."""
    rows: list[list[object]] = []
    for name, data in reference(quick):
        for k in SIZES:
            loss, _ = timed(data, k, method="mdav", refine="fast" if quick else "thorough")
            started = time.process_time()
            certificate = dbanon.certificate(data, k, seconds=SECONDS)
            seconds = time.process_time() - started
            rows.append(
                [
                    name,
                    k,
                    f"{loss:.4f}",
                    f"{100 * certificate.simple:.4f}",
                    f"{100 * certificate.share:.4f}",
                    certificate.way + ("" if certificate.complete else ", ended"),
                    f"{100 * certificate.gap(loss / 100):.2f} %",
                    f"{seconds:.1f}",
                ]
            )
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
    """Measure bounds relative to losses, CPU seconds and MiB; return Markdown."""
    rows = []
    for count in (2000,) if quick else COUNTS:
        for name in ("normal", "clusters"):
            for k in MANY_SIZES:
                with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                    rows.append(pool.submit(_one_of_many, name, count, k).result())
                print(*rows[-1], flush=True)
    header = ["data", "records", "k", "fast", "neighbours / fast", "bound / fast", "CPU s", "MiB"]
    return MANY + table(header, rows)


def _one_of_many(name: str, count: int, k: int) -> list[object]:
    data = random_records(name, count)
    loss, _ = timed(data, k, method="mdav", refine="fast")
    started = time.process_time()
    certificate = dbanon.certificate(data, k, seconds=MANY_SECONDS)
    seconds = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    bound = f"{100 * certificate.share / loss:.3f}" + ("" if certificate.complete else ", ended")
    return [
        name,
        count,
        k,
        f"{loss:.4f}",
        f"{100 * certificate.simple / loss:.3f}",
        bound,
        f"{seconds:.0f}",
        f"{peak:.0f}",
    ]


def random_records(name: str, count: int) -> NDArray[np.float64]:
    """Draw random records, float64 (count, 4)."""
    rng = np.random.default_rng(1)
    data = rng.normal(size=(count, ATTRIBUTES))
    if name == "clusters":
        centres = rng.normal(size=(1000, ATTRIBUTES))
        data = data / 10 + centres[rng.integers(0, 1000, count)]
    return data
