"""Mixed data released by representatives: distances and CPU seconds on UCI Adult, as a page.

Needs the reference data (``DBANON_DATA``), which is not part of the project. Takes minutes;
``--quick`` skips the whole table.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dbanon
from benchmarks import adult
from benchmarks.markdown import table

SIZES = (5, 10)
# Every 45th row, starting with the first.
EVERY, SAMPLE = 45, 1000
CASES: dict[str, dict[str, Any]] = {
    "mdav": {},
    "mdav, fast": {"refine": "fast"},
    "gaa_cp, fast": {"method": "gaa_cp", "refine": "fast"},
    "gaa_cp, fast, with hierarchies": {"method": "gaa_cp", "refine": "fast"},
}
WITH_TREES = "gaa_cp, fast, with hierarchies"
COMPARED = ("gaa_cp, fast", WITH_TREES)

INTRODUCTION = """
UCI Adult (45,222 rows, 8 quasi-identifiers) and every 45th of its rows from the first (1,000),
released with [representatives](methods.md#recodings): the mean of age, the plurality of the other
columns. *Gower* is the mean over rows and columns of |x − x'| over the range for age and of 0 or 1
for the others; *ZIL* is their sum. *SSE/SST* is that of class means in the space that `mdav` and
its refinement work on: age by its range, one-hot the others. `gaa_cp` searches on iloss, once for
values that are different or not, as Gower counts them, and once with ARX's hierarchies; the columns
with their names say how far a method's Gower distance is from theirs.

Seconds are CPU seconds of one process from the data frame to the labels, measured once. All figures
come from an evaluator on the labels that shares no code with the package. This page is written by
`python -I -m benchmarks mixed`, which needs the reference data (`DBANON_DATA`).
"""


def run(quick: bool) -> str:
    """Measure and return the page."""
    adult_table = adult.load()
    is_sampled = np.arange(len(adult_table.frame)) % EVERY == 0
    frame = adult_table.frame[is_sampled].reset_index(drop=True).iloc[:SAMPLE]
    frames = [frame] if quick else [frame, adult_table.frame]
    rows = []
    for data in frames:
        for k in SIZES:
            results = {name: _measure(data, k, name, adult_table.trees) for name in CASES}
            for name, (gower, sse, seconds) in results.items():
                gaps = [
                    f"{100 * (gower / results[compared][0] - 1):+.1f} %" for compared in COMPARED
                ]
                zil = f"{gower * data.size:.1f}"
                cells = (f"{gower:.5f}", zil, f"{sse:.4f}", *gaps, f"{seconds:.2f}")
                rows.append((f"{len(data):,}", k, name, *cells))
    header = ("rows", "k", "method", "Gower", "ZIL", "SSE/SST", *COMPARED, "CPU s")
    return f"# Mixed data by representatives, measured\n{INTRODUCTION}\n{table(header, rows)}"


def _measure(frame: Any, k: int, name: str, trees: dict[str, Any]) -> tuple[float, float, float]:
    """Return Gower's distance per cell, SSE/SST and CPU seconds."""
    options = dict(CASES[name])
    if name == WITH_TREES:
        options["hierarchies"] = trees
    started = time.process_time()
    classes = dbanon.partition(frame, k, recoding="representative", **options)
    seconds = time.process_time() - started
    labels = np.asarray(classes.labels)
    assert np.bincount(labels).min() >= k
    return *_distances(frame, labels), seconds


def _distances(frame: Any, labels: NDArray[np.int32]) -> tuple[float, float]:
    """Compute Gower's distance per cell and SSE/SST of the classes from their definitions."""
    sizes = np.bincount(labels)
    distance = squares = all_squares = 0.0
    for name in frame.columns:
        if name == "age":
            values = frame[name].to_numpy(float)
            width = np.ptp(values)
            means = np.bincount(labels, values) / sizes
            distance += float(np.abs(values - np.rint(means)[labels]).sum() / width)
            squares += float(np.square((values - means[labels]) / width).sum())
            all_squares += float(np.square((values - values.mean()) / width).sum())
            continue
        _, codes = np.unique(frame[name].to_numpy(str), return_inverse=True)
        counts = np.zeros((len(sizes), codes.max() + 1))
        np.add.at(counts, (labels, codes), 1)
        distance += float((sizes - counts.max(axis=1)).sum())
        squares += float((sizes - np.square(counts).sum(axis=1) / sizes).sum() / 2)
        shares = counts.sum(axis=0) / len(labels)
        all_squares += float(len(labels) * (1 - np.square(shares).sum()) / 2)
    return distance / frame.size, squares / all_squares
