"""Forecasts of CPU seconds and memory beside what was measured, k = 5; and constants that fit.

Numbers: normal points of 4 and 10 columns. Mixed: the tables of `mixed_speed`, with their trees.
Each measurement is a process of its own, from the data frame to the labels; MiB are those by which
its peak of memory lay above what it had before. What would take more than four minutes, if time
grew with n^1.4 from the size before, is not run.

*Constants* are what fits these measurements best (least squares of logarithms): they go into the
`forecast` of the method's record in `dbanon/methods`, those of refinements into
`dbanon/partitioning/forecast.py`, whenever a kernel has become faster. Kinds of attributes count by
one constant, of all that are not numbers or of categories without a tree, whichever fits better:
four tables cannot tell more. *Off by* is the worst factor between constants and measurements.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.beside import Version
from benchmarks.markdown import table
from benchmarks.mixed_speed import draw, trees_of
from dbanon.data.chunks import bytes_per_record
from dbanon.data.partition import Partition
from dbanon.job.policy import Policy
from dbanon.methods import METHODS
from dbanon.methods.forecast import ATTRIBUTES, RECORDS, Power, Shape
from dbanon.partitioning.forecast import forecast

K, LIMIT, GROWTH = 5, 240.0, 1.4
SIZES = (10_000, 100_000, 1_000_000)
POINTS = {"normal, p = 4": 4, "normal, p = 10": 10}
SHAPES = {"U": Shape(2, 0, 4), "R": Shape(2, 2, 2), "C": Shape(0, 0, 6), "W": Shape(4, 2, 7)}
# What one constant of kinds stands for; and by what factor `both` must fit better.
OTHERS, CATEGORIES, WORTH = ("trees", "categories"), ("categories",), 1.25
# Of the others the two smaller sizes tell enough.
ALL_SIZES = ("mdav", "mdav+pass", "mdav+fast", "kward", "gaa_cp", "kmember", "gaa_cp+pass")
MIXED = (
    *("gaa_cp", "kmember", "gaa_cp+pass", "gaa_cp+fast", "mdav", "mdav+pass", "mdav+fast"),
    *("cbfs", "vmdav", "md", "ldf", "hdf", "tfrp1", "tfrp2"),
)

CALL = """
import json, sys, time
import pandas as pd
import dbanon
from dbanon.hierarchy.tree import Hierarchy
folder, method, refine, k = sys.argv[1], sys.argv[2], sys.argv[3] or None, int(sys.argv[4])
frame = pd.read_parquet(folder + "/table.parquet")
with open(folder + "/trees.json") as file:
    trees = {name: Hierarchy.from_levels(rows) for name, rows in json.load(file).items()}
more = {"recoding": "representative"} if len(frame.select_dtypes("object").columns) else {}
if dbanon.METHODS[method].takes_categories:
    more = {}
def memory():
    # Not ru_maxrss, which knows the process that started this one.
    with open("/proc/self/status") as status:
        return int(status.read().split("VmHWM:")[1].split()[0]) / 1024
def call(frame):
    dbanon.partition(frame, k, method=method, refine=refine, hierarchies=trees, **more)
call(frame[:100])  # Loads what is loaded once.
with open("/proc/self/clear_refs", "w") as peak:
    peak.write("5")  # the peak so far is forgotten
before, started = memory(), time.process_time()
try:
    call(frame)
except dbanon.MemoryLimit:
    print("null")
else:
    print(json.dumps([time.process_time() - started, memory() - before]))
"""


@dataclass(frozen=True)
class Case:
    """One measurement; ``curve`` is the method, or method+refinement."""

    table: str
    n: int
    curve: str

    @property
    def shape(self) -> Shape:
        """How many columns of each kind the table has."""
        if self.table in POINTS:
            return Shape(POINTS[self.table])
        return SHAPES[self.table]


def measure(case: Case) -> tuple[float, float] | None:
    """CPU seconds and MiB; None where the method refuses the table for its size."""
    with tempfile.TemporaryDirectory() as folder:
        mixed = case.table not in POINTS
        frame = draw(case.table, case.n) if mixed else _points(case.n, case.shape.numbers)
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


def run(quick: bool = False) -> str:
    """Markdown of forecasts beside measurements, and of constants."""
    found = dict(_measured(_cases(SIZES[:1] if quick else SIZES)))
    return report(found)


def report(found: Mapping[Case, tuple[float, float] | None]) -> str:
    """The tables of what was measured."""
    text = "# Forecasts\n\n" + (__doc__ or "").partition("\n\n")[2]
    header = ["table", "n", "method", "forecast s", "s", "forecast / s", "forecast MiB", "MiB"]
    text += "\n" + table(header, _rows(found))
    return (
        text
        + "\n## Constants\n\n"
        + table(["of", "data", "constants that fit", "off by"], _fits(found))
    )


def _cases(sizes: Sequence[int]) -> Iterator[Case]:
    """All cases, those of a table and method by rising n."""
    numeric = [
        method.name
        for method in METHODS.values()
        if not method.takes_categories
        and method.gives is Partition
        and method.max_attributes is None
    ]
    of_points = dict.fromkeys(["mdav", "mdav+pass", "mdav+fast", "mdav+thorough", *numeric])
    for tables, curves in ((tuple(POINTS), of_points), (tuple("URCW"), MIXED)):
        for name, curve, n in product(tables, curves, sizes):
            if n < SIZES[-1] or curve in ALL_SIZES:
                yield Case(name, n, curve)


def _measured(
    cases: Iterator[Case],
) -> Iterator[tuple[Case, tuple[float, float] | None]]:
    """What each takes; without those that would take too long, or that were refused before."""
    seconds: dict[tuple[str, str], float] = {}
    for case in cases:
        before = seconds.get((case.table, case.curve), 0.0)
        if before * 10**GROWTH > LIMIT:
            seconds[case.table, case.curve] = np.inf
            continue
        found = measure(case)
        seconds[case.table, case.curve] = np.inf if found is None else found[0]
        yield case, found


def _rows(found: Mapping[Case, tuple[float, float] | None]) -> Iterator[list[object]]:
    for case, measured in found.items():
        method, _, refine = case.curve.partition("+")
        policy = Policy(k=K, method=method, refine=refine or None, recoding=_recoding(case, method))
        foreseen = forecast(policy, case.n, case.shape)
        told: list[object] = [case.table, f"{case.n:,}", case.curve]
        told.append("–" if foreseen is None else foreseen.seconds)
        if measured is None:
            yield [*told, "refused", "", "", ""]
            continue
        seconds, memory = measured
        told += [seconds, "–" if foreseen is None else foreseen.seconds / seconds]
        known = case.n * bytes_per_record(case.shape.attributes) / 2**20
        yield [*told, f"{known:.0f}", f"{memory:.0f}"]


def _recoding(case: Case, method: str) -> str | None:
    """That of the method, unless it sees as points what are no numbers."""
    return (
        "representative" if case.shape.is_mixed and not METHODS[method].takes_categories else None
    )


def _fits(found: Mapping[Case, tuple[float, float] | None]) -> Iterator[list[object]]:
    """For each method and refinement, on numbers and on mixed data, constants of ``Power``."""
    known: dict[tuple[str, str], list[tuple[Case, float]]] = {}
    for case, measured in found.items():
        method, _, refine = case.curve.partition("+")
        base = found.get(Case(case.table, case.n, method)) if refine else (0.0, 0.0)
        if measured is None or base is None:
            continue
        data = "mixed" if case.shape.is_mixed else "numbers"
        seconds = max(measured[0] - base[0], 1e-3)
        known.setdefault((case.curve, data), []).append((case, seconds))
    for (curve, data), cases in known.items():
        fits = [
            _fit(cases, kinds, both) for kinds in (OTHERS, CATEGORIES) for both in (False, True)
        ]
        # Of fits that are about as good, the one without `both`: it says less of wide tables.
        power, off = min(fits, key=lambda fit: fit[1] * (WORTH if fit[0].both else 1.0))
        yield [curve, data, f"`{power}`", off]


def _fit(
    cases: Sequence[tuple[Case, float]], kinds: Sequence[str], both: bool
) -> tuple[Power, float]:
    """By least squares of logarithms, and the worst factor; of one size or width an exponent is 1.

    Parameters
    ----------
    kinds : of attributes that one constant stands for.
    both : whether more attributes may make more of more records.
    """
    shapes = [case.shape for case, _ in cases]
    logs = np.log([seconds for _, seconds in cases])
    rows = np.log([case.n / RECORDS for case, _ in cases])
    columns = np.log([shape.attributes / ATTRIBUTES for shape in shapes])
    shares = [sum(getattr(one, kind) for kind in kinds) / one.attributes for one in shapes]
    features = {"records": rows, "attributes": columns, "both": rows * columns}
    features["kinds"] = np.array(shares)
    grid = {(case.n, case.shape.attributes) for case, _ in cases}
    if len(grid) < 4 or not both:
        del features["both"]
    if not np.ptp(features["kinds"]):
        del features["kinds"]
    for name in ("records", "attributes"):
        if not np.ptp(features[name]):
            logs = logs - features.pop(name)
            features.pop("both", None)
    design = np.column_stack([np.ones(len(logs)), *features.values()])
    (level, *exponents), *_ = np.linalg.lstsq(design, logs, rcond=None)
    found = {"records": 1.0, "attributes": 1.0} | dict(zip(features, exponents, strict=True))
    of_kinds = found.pop("kinds", 0.0)
    rounded = {name: round(float(value), 2) for name, value in found.items()}
    rounded |= {kind: round(float(of_kinds), 2) for kind in kinds if of_kinds}
    power = Power(float(f"{np.exp(level):.2g}"), **rounded)
    ratios = [power.seconds_of(case.n, case.shape) / seconds for case, seconds in cases]
    return power, max(max(ratios), 1 / min(ratios))
