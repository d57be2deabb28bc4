"""Attacks on releases of Adult, beside anonymeter and SDMetrics, by an interpreter that has both.

Needs the reference data (``DBANON_DATA``), which is not part of the project.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dbanon
from benchmarks.beside import Version
from benchmarks.markdown import NotMeasuredError, table
from tests.reference.data import data_directory

ROWS, SECRET, N_LINKED = 2_000, "salary-class", 5
TITLE = """# Attacks, measured

Adult, 2,000 random records to make releases of, 2,000 as control group, nine columns. Risks with
their 95 % intervals; `-` where a package does not take labels. Linkability: the first five columns
and the other four. Inference: `salary-class` from all others. anonymeter 1.1.0 with 500 attacks
each and three columns for singling out. SDMetrics 0.32.0: overfitting is the share of rows nearer
to originals than to control records beyond one half (DCROverfittingProtection, of 300 rows, as it
compares every row with every other in Python), DisclosureProtection (CAP) of the same secret;
both are given as risk, 1 less the score. CPU seconds are of all attacks of a package. What the
attacks are: docs/evaluation.md. Made by `python -m benchmarks attacks --beside PYTHON`, of an
interpreter that has both packages.

"""
NOTE = """
anonymeter adds the errors of both rates in squares and cuts its figures at 0. dbanon's intervals
are wider, because their ends hold whatever both rates have in common, and go below 0. The figures
of one secret are of 2,000 guesses (dbanon) and 500. The overfitting of the records themselves is
small, too, because of 300 rows most have no copy among so few originals.
"""
THEIRS = """
import json, sys, time, warnings, logging
warnings.simplefilter("ignore"); logging.disable(logging.CRITICAL)
import pandas as pd
from anonymeter.evaluators import InferenceEvaluator, LinkabilityEvaluator, SinglingOutEvaluator
from sdmetrics.single_table import DCROverfittingProtection, DisclosureProtection
folder, secret, known = sys.argv[1], sys.argv[2], int(sys.argv[3])
ori, control, syn = (pd.read_csv(f"{folder}/{one}.csv") for one in ("original", "control", "made"))
columns = list(ori)
found = {}
def told(name, one, **options):
    started = time.process_time()
    try:
        one.evaluate(**options)
        risk = one.risk(confidence_level=0.95)
        found[name] = [risk.value, *risk.ci]
    except Exception as error:
        found[name] = type(error).__name__
    found["seconds"] = found.get("seconds", 0) + time.process_time() - started
told("singling_out", SinglingOutEvaluator(ori, syn, n_attacks=500, control=control,
     max_attempts=200000, seed=0), mode="multivariate")
told("linkability", LinkabilityEvaluator(ori, syn, aux_cols=(columns[:known], columns[known:]),
     n_attacks=500, control=control), n_jobs=1)
told("attribute_inference", InferenceEvaluator(ori, syn, secret=secret, n_attacks=500,
     aux_cols=[c for c in columns if c != secret], control=control), n_jobs=1)
metadata = {"tables": {"t": {"columns": {c: {"sdtype": "numerical" if c == "age" else "categorical"}
            for c in columns}}}}
started = time.process_time()
for name, run in (
    ("overfitting", lambda: DCROverfittingProtection.compute_breakdown(ori, syn, control,
        metadata, "t", num_rows_subsample=300)),
    ("disclosure", lambda: DisclosureProtection.compute_breakdown(ori, syn,
        [c for c in columns if c != secret], [secret], continuous_column_names=["age"])),
):
    try:
        found[name] = run()["score"]
    except Exception as error:
        found[name] = type(error).__name__
found["sdmetrics"] = time.process_time() - started
print("\\n" + json.dumps(found, default=float))
"""
ATTACKS = ("singling_out", "linkability", "attribute_inference")


def run(quick: bool = False, other_python: str | None = None) -> str:
    """Measure attacks on all releases; return Markdown of one table."""
    directory = data_directory()
    if directory is None:
        raise NotMeasuredError
    frame = pd.read_csv(directory / "adult" / "adult.csv", sep=";")
    sampled = frame.iloc[np.random.default_rng(1).permutation(len(frame))[: 3 * ROWS]]
    original, control, others = (
        sampled.iloc[at : at + ROWS].reset_index(drop=True) for at in (0, ROWS, 2 * ROWS)
    )
    rows = []
    for name, released in _releases(original, others, frame, quick).items():
        rows += _rows_of_release(name, original, control, released, other_python)
    header = [
        "release",
        "package",
        "singling out",
        "linkability",
        "inference",
        "overfitting",
        "disclosure",
        "CPU s",
    ]
    return TITLE + table(header, rows) + NOTE


def _releases(
    original: pd.DataFrame, others: pd.DataFrame, adult: pd.DataFrame, quick: bool
) -> dict[str, pd.DataFrame]:
    releases = {"the records themselves": original, "records of others": others}
    names = list(original)
    for k in (5,) if quick else (5, 20):
        for method, options in (("mdav", {"recoding": "representative"}), ("gaa_cp", {})):
            released, _ = dbanon.anonymize_frame(
                original, quasi_identifiers=names, k=k, method=method, **options
            )
            labels = "labels" if method == "gaa_cp" else "representatives"
            releases[f"{method}, {labels}, k = {k}"] = released
    for method in ("dp_marginals",) if quick else ("dp_ranks", "dp_marginals"):
        listed = [name for name in names if name != "age"]
        synthetic = dbanon.synthesize(
            original,
            method=method,
            epsilon=1.0,
            types={name: "integer" if name == "age" else "text" for name in names},
            bounds={"age": (17, 90)},
            orders={name: sorted(adult[name].unique()) for name in listed},
            null_as=dict.fromkeys(listed, "other"),
            budget=dbanon.Budget(1.0),
        )
        releases[f"{method}, epsilon = 1"] = pd.DataFrame(dict(synthetic.columns))
    return releases


def _rows_of_release(
    name: str,
    original: pd.DataFrame,
    control: pd.DataFrame,
    released: pd.DataFrame,
    other_python: str | None,
) -> list[list[object]]:
    names = list(original)
    started = time.process_time()
    own_results = dbanon.attack(
        original, released, control=control, linked=[names[:N_LINKED], names[N_LINKED:]]
    ).found
    seconds = time.process_time() - started
    secret = own_results["attribute_inference"].columns[SECRET]
    results = [own_results["singling_out"], own_results["linkability"], secret]
    risks = [_risk([result.risk, *(result.interval or ())]) for result in results]
    rows: list[list[object]] = [[name, "dbanon", *risks, "-", "-", f"{seconds:.1f}"]]
    if other_python is None or "labels" in name:
        return rows
    with tempfile.TemporaryDirectory() as folder:
        for part, frame in (("original", original), ("control", control), ("made", released)):
            frame.to_csv(Path(folder) / f"{part}.csv", index=False)
        output = Version("", other_python).run(THEIRS, folder, SECRET, str(N_LINKED))
    peer_results: dict[str, Any] = json.loads(output.splitlines()[-1])
    rows.append(
        [
            "",
            "anonymeter",
            *(_risk(peer_results[attack]) for attack in ATTACKS),
            "-",
            "-",
            f"{peer_results['seconds']:.1f}",
        ]
    )
    figures = [peer_results[measure] for measure in ("overfitting", "disclosure")]
    scores = [f"{1 - figure:.3f}" if isinstance(figure, float) else figure for figure in figures]
    return [*rows, ["", "SDMetrics", "-", "-", "-", *scores, f"{peer_results['sdmetrics']:.1f}"]]


def _risk(result: Any) -> str:
    if isinstance(result, str) or result[0] is None:
        return result if isinstance(result, str) else "none"
    return f"{result[0]:.3f} ({result[1]:.3f} to {result[2]:.3f})"


if __name__ == "__main__":
    print(run(other_python=sys.argv[1] if len(sys.argv) > 1 else None))
