"""Lower bounds on the three reference data sets, beside what ``refine=thorough`` after MDAV loses.

Needs the CASC reference data (``DBANON_DATA``), which is not part of the project.
"""

from __future__ import annotations

import time

import dbanon
from benchmarks.markdown import table
from benchmarks.methods import SIZES, reference, timed

SECONDS = 240.0
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
    return TITLE + table(header, rows)
