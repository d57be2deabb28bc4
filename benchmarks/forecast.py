"""Forecasts of CPU seconds and memory beside what was measured, k = 5; and constants that fit.

Numbers: normal points of 4 and 10 columns. Mixed: the tables of `mixed_speed`, with their trees.
Each measurement is a process of its own, from the data frame to the labels; MiB are those by which
its greatest memory grew meanwhile. What would take more than two minutes, if time grew with n^1.4
from the size before, is not run.

*Constants* are what fits these measurements best (least squares of logarithms): they go into the
`forecast` of the method's record in `dbanon/methods`, those of refinements into
`dbanon/partitioning/forecast.py`, whenever a kernel has become faster.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.beside import Version
from benchmarks.markdown import table
from benchmarks.mixed_speed import draw, trees_of

K, LIMIT, GROWTH = 5, 120.0, 1.4
SIZES = (10_000, 100_000, 1_000_000)
POINTS = {"normal, p = 4": 4, "normal, p = 10": 10}
# Of the others the two smaller sizes tell enough.
ALL_SIZES = ("mdav", "mdav+pass", "mdav+fast", "kward", "gaa_cp", "kmember", "gaa_cp+pass")
MIXED = ("gaa_cp", "kmember", "mdav", "gaa_cp+pass", "gaa_cp+fast")

CALL = """
import json, resource, sys, time
import pandas as pd
import dbanon
from dbanon.hierarchy.tree import Hierarchy
folder, method, refine, k = sys.argv[1], sys.argv[2], sys.argv[3] or None, int(sys.argv[4])
frame = pd.read_parquet(folder + "/table.parquet")
with open(folder + "/trees.json") as file:
    trees = {name: Hierarchy.from_levels(rows) for name, rows in json.load(file).items()}
def most():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
before, started = most(), time.process_time()
try:
    dbanon.partition(frame, k, method=method, refine=refine, hierarchies=trees)
except dbanon.MemoryLimit:
    print("null")
else:
    print(json.dumps([time.process_time() - started, most() - before]))
"""


@dataclass(frozen=True)
class Case:
    """One measurement; ``curve`` is the method, or method+refinement."""

    table: str
    n: int
    curve: str

    @property
    def numbers(self) -> int:
        """How many columns are numbers."""
        return POINTS.get(self.table) or {"U": 2, "R": 2, "C": 0, "W": 4}[self.table]

    @property
    def others(self) -> int:
        """How many are not."""
        return 0 if self.table in POINTS else {"U": 4, "R": 4, "C": 6, "W": 9}[self.table]


def measure(case: Case) -> tuple[float, float] | None:
    """CPU seconds and MiB; None where the method refuses the table for its size."""
    with tempfile.TemporaryDirectory() as folder:
        mixed = case.table not in POINTS
        frame = draw(case.table, case.n) if mixed else _points(case.n, case.numbers)
        frame.to_parquet(f"{folder}/table.parquet")
        trees = trees_of(case.table) if mixed else {}
        (Path(folder) / "trees.json").write_text(json.dumps(trees))
        method, _, refine = case.curve.partition("+")
        this = Version("this", sys.executable)
        found = json.loads(this.run(CALL, folder, method, refine, str(K)))
    return None if found is None else (found[0], found[1])


def _points(n: int, p: int) -> pd.DataFrame:
    points = np.random.default_rng(1).normal(size=(n, p))
    return pd.DataFrame(points, columns=[f"x{i}" for i in range(p)])
