"""The loss of a release with default labels on UCI Adult, compared with ARX.

Needs the reference data (``DBANON_DATA``), which is not part of the project.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import dbanon
from benchmarks import adult
from benchmarks.markdown import table
from dbanon.errors import KeptColumnTells
from tests.iloss_evaluator import published_iloss

SIZES = (5, 10, 50)
# The rows of ARX's own adult.csv: those of UCI's first file without gaps, which come first.
OF_ARX = 30_162
CASES: dict[str, dict[str, Any]] = {
    "gaa_cp, fast": {},
    "the same, one step of 5 years": {"steps": {"age": 5}},
    "the same, own ranges": {"local_range": True},
}
# As published, from other runs: ARX 3.9.2, local recoding at its best setting.
ARX = {(OF_ARX, 5): 8_832, (OF_ARX, 50): 27_189, (45_222, 5): 11_096, (45_222, 10): 16_651}

INTRODUCTION = """
iloss in all of `dbanon.anonymize_frame(…, method="gaa_cp", refine="fast")`, as published – by the
labels that are written, as their readers see them – and on the classes' own ranges and lowest
common ancestors. Age is a number without a hierarchy, the other columns have those that ARX ships.
The published figures are counted on the released texts by an evaluator that shares no code with the
package (`tests/iloss_evaluator.py`): a label of whole numbers loses what the numbers that it holds
are apart, `[30, 32)` (31 − 30) / 73. They equal those of the report. Seconds are CPU seconds of one
process from the data frame to the released one, measured once.

ARX's figures (3.9.2, local recoding at its best setting, as published) are of other runs.
"""


def run(quick: bool) -> str:
    """Measure and return the table."""
    data = adult.load()
    rows = []
    for n in (2000,) if quick else (len(data.frame), OF_ARX):
        for k in SIZES:
            for name, options in CASES.items():
                cells = _losses(data.frame.iloc[:n], data, k, options)
                rows.append((f"{n:,}", k, name, *cells))
            if (n, k) in ARX:
                rows.append((f"{n:,}", k, "ARX", f"{ARX[n, k]:,}", "", ""))
    head = ("rows", "k", "", "as published", "own ranges", "seconds")
    return f"# Labels, measured\n{INTRODUCTION}\n" + table(head, rows)


def _losses(frame: Any, data: adult.Adult, k: int, options: dict[str, Any]) -> tuple[str, ...]:
    """Return published loss, own loss and seconds.

    Raises
    ------
    ArithmeticError : the report's loss differs from the evaluator's.
    """
    columns = list(frame.columns)
    numbered = frame.assign(place=range(len(frame)))
    started = time.process_time()
    with warnings.catch_warnings():
        # The index is retained to match each row with its original.
        warnings.simplefilter("ignore", KeptColumnTells)
        released, report = dbanon.anonymize_frame(
            numbered,
            quasi_identifiers=columns,
            keep=["place"],
            k=k,
            method="gaa_cp",
            refine="fast",
            hierarchies=data.trees,
            **options,
        )
    seconds = time.process_time() - started
    released_rows = released.sort_values("place")[columns].to_numpy().tolist()
    compute_published_loss = published_iloss(frame.to_numpy().tolist(), released_rows, data.paths)
    if (
        abs(compute_published_loss - report.internal.information_loss * frame.size) > 1e-6
        or report.k_achieved < k
    ):
        raise ArithmeticError(
            f"k = {k}: not {k}-anonymous, or {compute_published_loss} is not the report's"
        )
    own_loss = report.internal.information_loss_before_rounding * frame.size
    return f"{compute_published_loss:,.0f}", f"{own_loss:,.0f}", f"{seconds:.1f}"
