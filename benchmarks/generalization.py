"""Generalization methods on UCI Adult: loss and CPU seconds, as a page with figures.

Needs the reference data (``DBANON_DATA``), which is not part of the project. A full run takes about
fifteen minutes; ``--quick`` skips the figures and the thorough search.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dbanon
from benchmarks import adult
from benchmarks.markdown import table

FIGURES = Path(__file__).resolve().parents[1] / "docs" / "figures"

SIZES = (2, 3, 5, 10, 25, 50)
WIDTHS = (2, 3, 4, 5, 6, 7, 8)
CASES: dict[str, dict[str, Any]] = {
    "gaa_cp": {},
    "gaa_cp, fast": {"refine": "fast"},
    "gaa_cp, thorough": {"refine": "thorough"},
    "kmember": {},
    "kaca": {},
    "kaca, fast": {"refine": "fast"},
    "ebkc": {},
    "ebkc, threshold 0.1": {"threshold": 0.1},
    "mondrian": {},
    "mondrian, tree": {"cut": "tree"},
    "mondrian, relaxed": {"cut": "relaxed"},
    "full_domain": {},
    "full_domain, 5 % withheld": {"suppression": 0.05, "max_suppression": 0.05},
}
THOROUGH = "gaa_cp, thorough"
COMPARED_SIZES = (5, 10)
# The curves that the paper compares; dbanon adds the last one.
PLOTTED = ("kaca", "ebkc", "ebkc, threshold 0.1", "gaa_cp", "gaa_cp, fast")
K_OF_ROWS, WIDTHS_OF_ROWS, SHARES = 8, (3, 6), (8, 4, 2, 1)

INTRODUCTION = """
UCI Adult: 45,222 rows, 8 quasi-identifiers (age, sex, education, marital-status, race, workclass,
native-country, salary-class), 16,581 distinct rows. Age is a number, the other columns have the
hierarchies that ARX ships. Cells are *iloss* (see [generalization](generalization.md#loss)), from 0
to rows × columns, on the classes' own ranges and lowest common ancestors; a row that is withheld
loses all. `full_domain` is shown by the classes it finds (`contract`); released at its levels, they
lose more. In brackets: CPU seconds of one process from the data frame to the labels, reading of
files left out, each measured once.

Every loss was counted by an evaluator that shares no code with the package
(`tests/iloss_evaluator.py`), on the labels, and equals `dbanon.generalization_loss`; every class
holds k rows or more. This page and its figures are written by `python -I -m benchmarks
generalization`, which needs the reference data (`DBANON_DATA`).
"""

OTHERS = """
## Beside other programs

Not measured by this run: figures of other programs on the same table, measured with them, or with
scratch programs after the papers, when dbanon was designed; losses on own ranges and lowest common
ancestors by one evaluator, CPU seconds unless stated.

| program | k = 5 | k = 10 | seconds |
| --- | --- | --- | --- |
| ARX 3.9.2, local recoding at its best setting, classes tightened | 10,121 | 15,702 | 9 / 10 |
| ARX 3.9.2, the same as published | 11,096 | 16,651 | 9 / 10 |
| ARX 3.9.2, full-domain, 5 % suppression | 86,045 | 118,835 | 2.8 |
| anonypy, Mondrian | 36,855 | | some 300 |
| qiyuangong's Mondrian, strict | 92,280 | 105,877 | 0.8 |
| KACA, scratch program | 11,053 | 18,484 | 10–15 |
"""


@dataclass(frozen=True)
class CaseResult:
    """Total loss, and CPU seconds."""

    loss: float
    seconds: float

    def __str__(self) -> str:
        return f"{self.loss:,.0f} ({self.seconds:.2f} s)"


class Bench:
    """Runs each case once."""

    def __init__(self, data: adult.Adult) -> None:
        self.data = data
        self._results: dict[tuple[str, int, int, int], CaseResult] = {}
        # Warm up, so that one-time loading is not counted.
        measure(data.rows(1000), 5, "gaa_cp, fast")

    def get(self, case: str, k: int, width: int, share: int = 1) -> CaseResult:
        """The case on the first ``width`` columns of one in ``share`` rows."""
        key = case, k, width, share
        if key not in self._results:
            data = self.data.first(width)
            if share > 1:
                data = data.rows(len(data.frame) // share)
            self._results[key] = measure(data, k, case)
        return self._results[key]


def measure(data: adult.Adult, k: int, case: str) -> CaseResult:
    """Measure one case on one table.

    Raises
    ------
    ArithmeticError : a class is too small, or the package's loss differs from the evaluator's.
    """
    method = case.partition(",")[0]
    started = time.process_time()
    classes = dbanon.partition(data.frame, k, method=method, hierarchies=data.trees, **CASES[case])
    seconds = time.process_time() - started
    loss = data.iloss(classes.labels)
    own_loss = dbanon.generalization_loss(data.frame, classes, hierarchies=data.trees)
    own_loss += classes.n_suppressed * data.frame.shape[1]
    if classes.sizes.min() < k or not math.isclose(loss, own_loss, rel_tol=1e-9):
        raise ArithmeticError(f"{case}, k = {k}: not {k}-anonymous, or {loss} is not {own_loss}")
    return CaseResult(loss, seconds)


def run(quick: bool = False) -> str:
    """Measure and return the page; a full run also draws its figures."""
    text = "# Generalization, measured\n"
    bench = Bench(adult.load())
    sizes = COMPARED_SIZES if quick else SIZES
    cases = [case for case in CASES if case != THOROUGH or not quick]
    rows = [
        [
            case,
            *(
                bench.get(case, k, 8) if case != THOROUGH or k in COMPARED_SIZES else "–"
                for k in sizes
            ),
        ]
        for case in cases
    ]
    text += INTRODUCTION + "\n## By k, 8 columns\n\n"
    text += table(["method", *(f"k = {k}" for k in sizes)], rows)
    if quick:
        return text + OTHERS
    for k in COMPARED_SIZES:
        rows = [
            [case, *(bench.get(case, k, width) for width in WIDTHS)]
            for case in CASES
            if case != THOROUGH
        ]
        text += f"\n## By number of columns, k = {k}\n\n"
        text += table(["method", *(f"first {width}" for width in WIDTHS)], rows)
    text += "\n## The paper's comparison\n" + _figures(bench)
    return text + OTHERS


def _figures(bench: Bench) -> str:
    """Redraw figures 2 to 6 of Jiang, Zeng and Ma, and return the text that shows them."""
    from benchmarks import figures

    def curves(
        points: Iterable[Any], result_at: Callable[[str, Any], CaseResult], quantity: str
    ) -> Any:
        points = list(points)
        return {
            case: (points, [getattr(result_at(case, point), quantity) for point in points])
            for case in PLOTTED
        }

    text = """
Figures 2 to 6 of Jiang, Zeng & Ma 2017, drawn from the runs above and from runs at other numbers of
columns and rows: GAA-CP beside KACA and EBKC, and what `refine="fast"` adds. EBKC is shown with
threshold 0.5, as the paper has it, and with 0.1. Losses and seconds are on logarithmic scales.
"""
    total = len(bench.data.frame)
    pictures: list[tuple[str, str, dict[str, Any], str, str]] = []
    for number, quantity in ((2, "loss"), (4, "seconds")):
        panels = {
            f"k = {k}": curves(WIDTHS, lambda case, width, k=k: bench.get(case, k, width), quantity)
            for k in COMPARED_SIZES
        }
        pictures.append((f"{quantity}-by-columns", f"figure {number}", panels, "columns", quantity))
    for number, quantity in ((3, "loss"), (5, "seconds")):
        panels = {
            f"{width} columns": curves(
                SIZES, lambda case, k, width=width: bench.get(case, k, width), quantity
            )
            for width in (2, 5, 8)
        }
        pictures.append((f"{quantity}-by-k", f"figure {number}", panels, "k", quantity))
    panels = {}
    for width in WIDTHS_OF_ROWS:
        seconds_by_case = curves(
            SHARES,
            lambda case, share, width=width: bench.get(case, K_OF_ROWS, width, share),
            "seconds",
        )
        panels[f"k = {K_OF_ROWS}, {width} columns"] = {
            case: ([total // share / 1000 for share in shares], y)
            for case, (shares, y) in seconds_by_case.items()
        }
    pictures.append(("seconds-by-rows", "figure 6", panels, "thousand rows", "seconds"))
    for name, original, panels, x_label, quantity in sorted(
        pictures, key=lambda picture: picture[1]
    ):
        y_label = "iloss" if quantity == "loss" else "CPU seconds"
        figures.draw(FIGURES / f"{name}.svg", panels, x_label, y_label)
        text += f"\n![{y_label} by {x_label}, as {original}](figures/{name}.svg)\n"
    return text
