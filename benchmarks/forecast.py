"""Forecasts of CPU seconds and memory beside measured ones, k = 5; and constants that fit.

Numbers: normal points of 4 and 10 columns. Mixed: the tables of `mixed_speed`, with their trees, of
which ``X`` is for `full_domain` alone; Adult (``A``: one number, seven trees) as it is and as
300,000 rows drawn from it, where the reference data (``DBANON_DATA``) are. *Different* is the share
of rows whose values no row before has: forecasts know it of mixed tables, as `dbanon plan` counts
it.
Each measurement is a process of its own, from the data frame to the labels; MiB are those by which
its peak of memory lay above what it had before. What would take more than four minutes, if time
grew with n^1.4 from the size before, is not run.

*Constants* are what fits these measurements best (least squares of logarithms): they go into the
`forecast` of the method's record in `dbanon/methods`, those of refinements into
`dbanon/partitioning/forecast.py`, whenever a kernel has become faster. Trees and categories without
one count by a constant each where there are enough tables, else by one, of both or of categories
alone, whichever fits better. *Off by* is the worst factor between constants and measurements.
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

from benchmarks import adult
from benchmarks.beside import Version
from benchmarks.markdown import NotMeasuredError, table
from benchmarks.mixed_speed import READ_TABLE, draw, resolve_hierarchies
from dbanon.data.partition import Partition
from dbanon.job.policy import Policy
from dbanon.methods import METHODS
from dbanon.methods.forecast import REFERENCE_ATTRIBUTES, REFERENCE_RECORDS, PowerLaw, Shape
from dbanon.partitioning.forecast import forecast
from dbanon.partitioning.record_memory import bytes_per_record

K, LIMIT, GROWTH = 5, 240.0, 1.4
SIZES = (10_000, 100_000, 1_000_000)
POINTS = {"normal, p = 4": 4, "normal, p = 10": 10}
SHAPES = {"U": Shape(2, 0, 4), "R": Shape(2, 2, 2), "C": Shape(0, 0, 6), "W": Shape(4, 2, 7)}
# Twenty columns, for the method that chooses levels.
SHAPES["X"] = Shape(10, 0, 10)
LEVELS = "full_domain"
ADULT, ADULT_SIZES = "A", (45_222, 300_000)
# The kinds that one constant covers; and the factor by which `interaction` must fit better.
OTHERS, CATEGORIES, MIN_GAIN = ("trees", "categories"), ("categories",), 1.25
# The number of tables with and without trees that a constant for each requires.
TABLES = 5
Measurement = tuple[float, float, float]
# For the other methods the two smaller sizes suffice.
ALL_SIZES = ("mdav", "mdav+pass", "mdav+fast", "kward", "gaa_cp", "kmember", "gaa_cp+pass")
MIXED = (
    *("gaa_cp", "kmember", "gaa_cp+pass", "gaa_cp+fast", "mdav", "mdav+pass", "mdav+fast"),
    *("cbfs", "vmdav", "md", "ldf", "hdf", "tfrp1", "tfrp2", LEVELS),
)

CALL = (
    READ_TABLE
    + """
method, refine, k = sys.argv[2], sys.argv[3] or None, int(sys.argv[4])
more = {"recoding": "representative"} if len(frame.select_dtypes("object").columns) else {}
if dbanon.METHODS[method].takes_categories:
    more = {}
def call(frame):
    dbanon.partition(frame, k, method=method, refine=refine, hierarchies=trees, **more)
call(frame[:100])  # Loads what is loaded once.
forget_peak()
before, started = peak_memory(), time.process_time()
try:
    call(frame)
except dbanon.MemoryLimit:
    print("null")
else:
    print(json.dumps([time.process_time() - started, peak_memory() - before]))
"""
)


@dataclass(frozen=True)
class Case:
    """One measurement; ``curve`` is the method, or method+refinement."""

    table: str
    n: int
    curve: str

    @property
    def shape(self) -> Shape:
        """The number of columns of each kind."""
        if self.table in POINTS:
            return Shape(POINTS[self.table])
        return Shape(1, 7) if self.table == ADULT else SHAPES[self.table]


def measure(case: Case) -> Measurement | None:
    """CPU seconds, MiB and the share of distinct rows; None if the size is refused."""
    with tempfile.TemporaryDirectory() as folder:
        frame, trees = _table_of(case)
        frame.to_parquet(f"{folder}/table.parquet")
        (Path(folder) / "trees.json").write_text(json.dumps(trees))
        method, _, refine = case.curve.partition("+")
        this = Version("this", sys.executable)
        result = json.loads(this.run(CALL, folder, method, refine, str(K)))
    different = (~frame.duplicated()).mean() if case.shape.is_mixed else 1.0
    return None if result is None else (result[0], result[1], float(different))


def _table_of(case: Case) -> tuple[pd.DataFrame, dict[str, list[list[str]]]]:
    """The table, and the levels of its trees, leaf by leaf."""
    if case.table in POINTS:
        return _points(case.n, case.shape.numbers), {}
    if case.table != ADULT:
        return draw(case.table, case.n), resolve_hierarchies(case.table)
    adult_table = adult.load()
    frame = (
        adult_table.frame
        if case.n == len(adult_table.frame)
        else adult_table.resampled(case.n).frame
    )
    trees = {
        name: [labels if labels[0] == leaf else [leaf, *labels] for leaf, labels in levels.items()]
        for name, levels in zip(frame.columns, adult_table.paths, strict=True)
        if levels is not None
    }
    return frame, trees


def _points(n: int, p: int) -> pd.DataFrame:
    points = np.random.default_rng(1).normal(size=(n, p))
    return pd.DataFrame(points, columns=[f"x{i}" for i in range(p)])


def run(quick: bool = False) -> str:
    """Measure, and compare with forecasts and constants; return Markdown."""
    measurements = dict(_measure_all(_cases(SIZES[:1] if quick else SIZES)))
    return report(measurements)


def report(measurements: Mapping[Case, Measurement | None]) -> str:
    """Format the tables of measurements."""
    text = "# Forecasts\n\n" + (__doc__ or "").partition("\n\n")[2]
    header = ["table", "n", "different", "method", "forecast s", "s", "forecast / s"]
    header += ["forecast MiB", "MiB", "forecast / MiB"]
    text += "\n" + table(header, _rows(measurements))
    return (
        text
        + "\n## Constants\n\n"
        + table(["of", "data", "constants that fit", "off by"], _fits(measurements))
    )


def _cases(sizes: Sequence[int]) -> Iterator[Case]:
    """All cases, by ascending n for each table and method."""
    numeric = [
        method.name
        for method in METHODS.values()
        if not method.takes_categories
        and method.result_type is Partition
        and method.max_attributes is None
    ]
    of_points = dict.fromkeys(["mdav", "mdav+pass", "mdav+fast", "mdav+thorough", *numeric, LEVELS])
    cases = ((tuple(POINTS), of_points), (tuple("URCW"), MIXED), (("X",), (LEVELS,)))
    for tables, curves in cases:
        for name, curve, n in product(tables, curves, sizes):
            if n < SIZES[-1] or curve in ALL_SIZES:
                yield Case(name, n, curve)
    for curve, n in product(MIXED, ADULT_SIZES[: len(sizes)]):
        yield Case(ADULT, n, curve)


def _measure_all(
    cases: Iterator[Case],
) -> Iterator[tuple[Case, Measurement | None]]:
    """Measure the cases, except those that would take too long or were already refused."""
    seconds: dict[tuple[str, str], float] = {}
    for case in cases:
        previous = seconds.get((case.table, case.curve), 0.0)
        if previous * 10**GROWTH > LIMIT:
            seconds[case.table, case.curve] = np.inf
            continue
        try:
            measurement = measure(case)
        except NotMeasuredError:
            continue
        seconds[case.table, case.curve] = np.inf if measurement is None else measurement[0]
        yield case, measurement


def _rows(measurements: Mapping[Case, Measurement | None]) -> Iterator[list[object]]:
    for case, measurement in measurements.items():
        method, _, refine = case.curve.partition("+")
        policy = Policy(k=K, method=method, refine=refine or None, recoding=_recoding(case, method))
        different = 1.0 if measurement is None else measurement[2]
        predicted = forecast(policy, case.n, case.shape, different)
        cells: list[object] = [case.table, f"{case.n:,}", f"{different:.2f}", case.curve]
        cells.append("–" if predicted is None else predicted.seconds)
        if measurement is None:
            yield [*cells, "refused", *[""] * 4]
            continue
        seconds, memory, _ = measurement
        cells += [seconds, "–" if predicted is None else predicted.seconds / seconds]
        coded = case.shape.attributes - case.shape.numbers
        record_bytes = bytes_per_record(case.shape.attributes, coded, different)
        predicted_memory = case.n * record_bytes / 2**20
        yield [*cells, f"{predicted_memory:.1f}", f"{memory:.1f}", predicted_memory / memory]


def _recoding(case: Case, method: str) -> str | None:
    """The method's default, or representatives if the method would treat categories as points."""
    return (
        "representative" if case.shape.is_mixed and not METHODS[method].takes_categories else None
    )


def _fits(measurements: Mapping[Case, Measurement | None]) -> Iterator[list[object]]:
    """Fit ``PowerLaw`` for each method and refinement, on numeric and mixed data."""
    cases_of_curve: dict[tuple[str, str], list[tuple[Case, float, float]]] = {}
    for case, measurement in measurements.items():
        method, _, refine = case.curve.partition("+")
        base = measurements.get(Case(case.table, case.n, method)) if refine else (0.0, 0.0, 1.0)
        if measurement is None or base is None:
            continue
        data = "mixed" if case.shape.is_mixed else "numbers"
        seconds = max(measurement[0] - base[0], 1e-3)
        cases_of_curve.setdefault((case.curve, data), []).append((case, seconds, measurement[2]))
    for (curve, data), cases in cases_of_curve.items():
        has_enough_tables = len({case.table for case, *_ in cases}) >= TABLES
        groupings = (
            [(("trees",), ("categories",))] if has_enough_tables else [(OTHERS,), (CATEGORIES,)]
        )
        fits = [_fit(cases, *variant) for variant in product(groupings, (False, True), (1.0, 0.0))]
        # Among fits of similar quality prefer the one without `interaction`, which is safer for
        # wide tables.
        power, worst_factor = min(
            fits, key=lambda fit: fit[1] * (MIN_GAIN if fit[0].interaction else 1.0)
        )
        yield [curve, data, f"`{power}`", worst_factor]


def _fit(
    cases: Sequence[tuple[Case, float, float]],
    kinds: Sequence[Sequence[str]],
    both: bool,
    different: float,
) -> tuple[PowerLaw, float]:
    """Least squares of logarithms, and the worst factor; exponents of constant features are 1.

    Parameters
    ----------
    kinds : groups of attribute kinds that share a constant.
    both : whether to include an interaction of attributes and records.
    different : the exponent ``PowerLaw.distinct_exponent``.
    """
    shapes = [case.shape for case, *_ in cases]
    logs = np.log([seconds for _, seconds, _ in cases])
    rows = np.log([case.n * share**different / REFERENCE_RECORDS for case, _, share in cases])
    columns = np.log([shape.attributes / REFERENCE_ATTRIBUTES for shape in shapes])
    features = {"records": rows, "attributes": columns, "interaction": rows * columns}
    grid = {(case.n, case.shape.attributes) for case, *_ in cases}
    if len(grid) < 4 or not both:
        del features["interaction"]
    for group in kinds:
        counts = [sum(getattr(shape, kind) for kind in group) for shape in shapes]
        share = np.array(counts) / [shape.attributes for shape in shapes]
        if np.ptp(share):
            features[group[0]] = share
    for name in ("records", "attributes"):
        if not np.ptp(features[name]):
            logs = logs - features.pop(name)
            features.pop("interaction", None)
    design = np.column_stack([np.ones(len(logs)), *features.values()])
    (level, *exponents), *_ = np.linalg.lstsq(design, logs, rcond=None)
    exponents_by_name = {"records": 1.0, "attributes": 1.0} | dict(
        zip(features, exponents, strict=True)
    )
    for group in kinds:
        exponents_by_name |= {
            kind: exponents_by_name[group[0]] for kind in group if group[0] in exponents_by_name
        }
    rounded = {name: round(float(value), 2) for name, value in exponents_by_name.items()}
    power = PowerLaw(float(f"{np.exp(level):.2g}"), **rounded, distinct_exponent=different)
    ratios = [
        power.seconds_of(case.n, case.shape, share) / seconds for case, seconds, share in cases
    ]
    return power, max(max(ratios), 1 / min(ratios))
