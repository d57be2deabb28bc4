"""Methods of generalization on UCI Adult: iloss on own ranges and CPU seconds.

Needs the reference data (``DBANON_DATA``), which is not part of the project. The whole run takes
minutes; ``--quick`` leaves the thorough search out.
"""

from __future__ import annotations

import time
from typing import Any

import pandas as pd

import dbanon
from benchmarks.markdown import table
from dbanon.hierarchy import load_hierarchies
from tests.reference_data import data_directory

SIZES = (2, 3, 5, 10, 25, 50)
COLUMNS = (2, 3, 4, 5, 6, 7, 8)
CASES: dict[str, dict[str, Any]] = {
    "gaa_cp": {},
    "gaa_cp, fast": {"refine": "fast"},
    "gaa_cp, thorough": {"refine": "thorough"},
    "kmember": {},
    "kaca": {},
    "ebkc": {},
    "ebkc, threshold 0.1": {"threshold": 0.1},
    "mondrian": {},
    "mondrian, tree": {"cut": "tree"},
    "mondrian, relaxed": {"cut": "relaxed"},
    "full_domain": {},
    "full_domain, 5 % withheld": {"suppression": 0.05},
}
THOROUGH_SIZES = (5, 10)


def run(quick: bool = False) -> str:
    """Markdown: the cases by k, and GAA-CP by number of columns. A withheld row loses all."""
    title = (
        "# Generalization on Adult, 45,222 rows, 8 columns: iloss on own ranges, CPU seconds\n\n"
    )
    folder = data_directory()
    if folder is None:
        return title + "Not measured: the reference data is not here.\n"
    frame = pd.read_csv(folder / "adult" / "adult.csv", sep=";").iloc[:, :8]
    trees = load_hierarchies(
        {
            name: folder / "adult" / "hierarchies" / f"{name}.csv"
            for name in frame.columns
            if name != "age"
        }
    )
    sizes = THOROUGH_SIZES if quick else SIZES
    rows = []
    for case, options in CASES.items():
        thorough = options.get("refine") == "thorough"
        if quick and thorough:
            continue
        cells = [
            measure(frame, trees, k, case, options) if not thorough or k in THOROUGH_SIZES else "–"
            for k in sizes
        ]
        rows.append([case, *cells])
    text = title + table(["method", *(f"k = {k}" for k in sizes)], rows)
    rows = []
    for columns in COLUMNS:
        part = frame.iloc[:, :columns]
        used = {name: tree for name, tree in trees.items() if name in part.columns}
        cells = [measure(part, used, k, "gaa_cp", {}) for k in THOROUGH_SIZES]
        rows.append([columns, *cells])
    text += "\n## gaa_cp, the first columns\n\n"
    return text + table(["columns", *(f"k = {k}" for k in THOROUGH_SIZES)], rows)


def measure(
    frame: pd.DataFrame, trees: dict[str, dbanon.Hierarchy], k: int, case: str, options: Any
) -> str:
    """iloss and CPU seconds of one case, as text."""
    started = time.process_time()
    method = case.partition(",")[0]
    partition = dbanon.partition(frame, k, method=method, hierarchies=trees, **options)
    seconds = time.process_time() - started
    loss = dbanon.generalization_loss(frame, partition, hierarchies=trees)
    loss += partition.n_suppressed * frame.shape[1]
    return f"{loss:,.0f} ({seconds:.2f} s)"
