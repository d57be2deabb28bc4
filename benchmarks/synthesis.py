"""Differentially private rows of UCI Adult: total variation of tables of one to three columns.

Needs the reference data (``DBANON_DATA``), which is not part of the project.
"""

from __future__ import annotations

import time
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

import dbanon
from benchmarks.markdown import NotMeasuredError, table
from tests.reference.data import data_directory

EPSILONS = (0.5, 1.0, 3.0)
DELTA = 1e-9
# By name the method and its options.
WAYS: dict[str, dict[str, Any]] = {
    "dp_ranks": {"method": "dp_ranks"},
    "dp_marginals": {"method": "dp_marginals"},
    "dp_marginals, zcdp": {"method": "dp_marginals", "accounting": "zcdp", "delta": DELTA},
}
TITLE = """# Synthetic rows of Adult

Mean total variation of all tables of one / two / three of Adult's columns, 45,222 × 9, and CPU
seconds; one draw each, delta = 1e-9 for zcdp.

"""


def run(quick: bool = False) -> str:
    """Markdown of the table."""
    directory = data_directory()
    if directory is None:
        raise NotMeasuredError
    frame = pd.read_csv(directory / "adult" / "adult.csv", sep=";")
    rows = [
        [name, *(_measured(frame, options, epsilon) for epsilon in EPSILONS[: 1 if quick else 3])]
        for name, options in WAYS.items()
    ]
    return TITLE + table(["", *(f"epsilon = {e:g}" for e in EPSILONS[: 1 if quick else 3])], rows)


def _measured(frame: pd.DataFrame, options: dict[str, Any], epsilon: float) -> str:
    listed = [name for name in frame if name != "age"]
    started = time.process_time()
    found = dbanon.synthesize(
        frame,
        epsilon=epsilon,
        types={name: "integer" if name == "age" else "text" for name in frame},
        bounds={"age": (17, 90)},
        orders={name: sorted(frame[name].unique()) for name in listed},
        null_as=dict.fromkeys(listed, "other"),
        budget=dbanon.Budget(epsilon, delta=options.get("delta")),
        **options,
    )
    seconds = time.process_time() - started
    made = pd.DataFrame(dict(found.columns))
    figures = [_apart(frame, made, k) for k in (1, 2, 3)]
    return " / ".join(f"{figure:.3f}" for figure in figures) + f"; {seconds:.1f} s"


def _apart(one: pd.DataFrame, other: pd.DataFrame, k: int) -> float:
    """The mean total variation of all tables of k columns."""
    both = pd.concat([one, other], ignore_index=True)
    codes = [pd.factorize(both[name])[0].astype(np.int64) for name in one]
    found = []
    for chosen in combinations(codes, k):
        joint = np.zeros(len(both), np.int64)
        for column in chosen:
            joint = joint * (int(column.max()) + 1) + column
        cells = np.unique(joint, return_inverse=True)[1]
        parts = [np.bincount(part, minlength=int(cells.max()) + 1) / len(one)
                 for part in (cells[: len(one)], cells[len(one) :])]  # fmt: skip
        found.append(np.abs(parts[0] - parts[1]).sum() / 2)
    return float(np.mean(found))


if __name__ == "__main__":
    print(run())
