"""Privacy models on UCI Adult: their cost in loss and CPU seconds.

Needs the reference data (``DBANON_DATA``), which is not part of the project. A full run takes about
four minutes; ``--quick`` skips the refinement.
"""

from __future__ import annotations

import time

import numpy as np
import pandas as pd

import dbanon
from benchmarks import adult
from benchmarks.markdown import table
from dbanon.job.policy import Policy
from dbanon.measures import sensitive_counts
from dbanon.partitioning.classes import find_classes
from dbanon.partitioning.protect import protect
from dbanon.stores.frame.microdata import microdata_from_frame
from tests.reference.data import data_directory

SENSITIVE = "occupation"
K = 5
MODELS = (
    dbanon.Model("distinct_l", SENSITIVE, 3),
    dbanon.Model("distinct_l", SENSITIVE, 5),
    dbanon.Model("entropy_l", SENSITIVE, 3),
    dbanon.Model("recursive_cl", SENSITIVE, 2, l=2),
    dbanon.Model("alpha_k", SENSITIVE, 0.5),
    dbanon.Model("t_closeness", SENSITIVE, 0.5),
    dbanon.Model("t_closeness", SENSITIVE, 0.3),
    dbanon.Model("beta_likeness", SENSITIVE, 4),
    dbanon.Model("delta_disclosure", SENSITIVE, 2),
)

INTRODUCTION = """# Privacy models, measured

UCI Adult: 45,222 rows, the 8 quasi-identifiers of
[generalization, measured](generalization-measured.md), `occupation` (14 values) sensitive;
`gaa_cp`, k = 5. Cells are *iloss* on own ranges, by an evaluator that shares no code with the
package, and the number of classes; in brackets CPU seconds of one process for clustering and
models, each measured once. Without refinement, failing classes merge. With `refine="fast"` the
classes of the method are refined, merged, and refined again with the models kept. Every release
keeps to k and to its model, as counted here on the classes. This page is written by
`python -I -m benchmarks models`, which needs the reference data (`DBANON_DATA`).

"""


def run(quick: bool = False) -> str:
    """Measure and return Markdown, one line per model."""
    table_of = adult.load()
    folder = data_directory()
    assert folder is not None
    values = pd.read_csv(folder / "adult" / "adult.csv", sep=";")[SENSITIVE]
    codes = np.unique(values.to_numpy(str), return_inverse=True)[1].astype(np.int32)
    microdata = microdata_from_frame(table_of.frame, list(table_of.frame.columns))
    levels = (None,) if quick else (None, "fast")
    rows = []
    for model in (None, *MODELS):
        cells = []
        for refine in levels:
            models = () if model is None else (model,)
            policy = Policy(
                K, method="gaa_cp", hierarchies=table_of.trees, refine=refine, models=models
            )
            started = time.process_time()
            classes = find_classes(microdata, policy)
            classes = protect(microdata, classes, policy, {SENSITIVE: codes})
            seconds = time.process_time() - started
            counts = sensitive_counts(classes, codes, int(codes.max()) + 1)
            shares = counts.sum(axis=0) / counts.sum()
            assert counts.sum(axis=1).min() >= K
            assert model is None or model.is_satisfied(counts, shares).all()
            loss = table_of.iloss(classes.labels)
            cells.append(f"{loss:,.0f}, {classes.n_classes:,} ({seconds:.1f} s)")
        rows.append(["none" if model is None else model.describe(), *cells])
    return INTRODUCTION + table(["model", "merged", "refine fast"][: 1 + len(levels)], rows)
