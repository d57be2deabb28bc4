"""Synthetic rows of Adult, MAGIC and Census compared with real rows, and with MST, AIM, PrivBayes.

Compares tables, correlations and trained classifiers. Needs the reference data (``DBANON_DATA``),
which is not part of the project.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

import dbanon
from benchmarks.markdown import NotMeasuredError, table
from benchmarks.synthesis_peers import DELTA, MAX_SECONDS, PEERS, synthesize
from benchmarks.synthesis_tables import Table, tables
from dbanon.errors import DbanonError
from tests.reference.data import data_directory

EPSILONS = (0.5, 1.0, 3.0)
DRAWS = 3
PARTS = 10
# By name, the method and its options.
METHODS: dict[str, dict[str, Any]] = {
    "dp_ranks": {"method": "dp_ranks"},
    "dp_ranks, quantiles": {"method": "dp_ranks", "margins": "quantiles"},
    "dp_marginals": {"method": "dp_marginals"},
    "dp_marginals, zcdp": {"method": "dp_marginals", "accounting": "zcdp", "delta": DELTA},
}
TITLE = f"""# Synthetic rows, measured

Nine tenths of the rows of Adult (9 columns), MAGIC (11) and Census (13) are made into as many
synthetic ones; delta = 1e-9 where there is one. Of dbanon the means of {DRAWS} draws and the
largest distance from them; of peers one draw at epsilon = 1, as AIM takes minutes: dpmm 0.1.9's
pipelines as they come, with the same public bounds and values, one process, ended after
{MAX_SECONDS} CPU seconds. PrivBayes and `dp_*` without zcdp have delta = 0.

- *1-, 2-, 3-way*: mean total variation of all tables of so many columns. Numbers are cut at the
  real rows' deciles, Adult's age is by the year.
- *correlations*: mean difference of correlations of numbers; Adult has one number.
- *classifier*: accuracy (and AUC) on the held-out tenth of gradient boosting (scikit-learn)
  trained on the synthetic rows: of Adult's `salary-class`, MAGIC's `class`, and whether Census'
  `PEARNVAL` is above its median. *real rows* are those that the synthetic ones are made of;
  *shuffled apart* has each real column in an order of its own.

Made by `python -m benchmarks synthesis --beside PYTHON`, of an interpreter that has dpmm.
"""
Figures = dict[str, float]


def run(quick: bool = False, other_python: str | None = None) -> str:
    """Measure each data set; return Markdown."""
    directory = data_directory()
    if directory is None:
        raise NotMeasuredError
    text = TITLE
    header = ["rows", "epsilon", "1-way", "2-way", "3-way", "correlations", "classifier", "CPU s"]
    for data in tables(directory)[: 1 if quick else 3]:
        n, p = data.rows.shape
        rows = list(_rows(data, other_python, quick))
        text += f"\n## {data.name}, {n:,} × {p}\n\n" + table(header, rows)
    return text


def _rows(data: Table, other_python: str | None, quick: bool) -> Iterator[list[object]]:
    rng = np.random.default_rng(0)
    yield ["real rows", "", *_cells([_compare(data, data.rows)]), ""]
    shuffled = data.rows.apply(lambda column: column.to_numpy()[rng.permutation(len(column))])
    yield ["shuffled apart", "", *_cells([_compare(data, shuffled)]), ""]
    for epsilon in EPSILONS[1:2] if quick else EPSILONS:
        for name, options in METHODS.items():
            yield _ours(data, name, options, epsilon, 1 if quick else DRAWS)
            print(data.name, name, epsilon, flush=True)
        if epsilon == 1 and not quick:
            for peer in PEERS:
                yield _peer_row(data, peer, epsilon, other_python)


def _ours(
    data: Table, name: str, options: dict[str, Any], epsilon: float, draws: int
) -> list[object]:
    figures, seconds = [], []
    for _ in range(draws):
        started = time.process_time()
        try:
            rows = _synthesize(data, options, epsilon)
        except DbanonError as error:
            return [name, epsilon, *["-"] * 5, f"refused: {error.code}"]
        seconds.append(time.process_time() - started)
        figures.append(_compare(data, rows))
    return [name, epsilon, *_cells(figures), f"{np.mean(seconds):.1f}"]


def _synthesize(data: Table, options: dict[str, Any], epsilon: float) -> pd.DataFrame:
    synthetic = dbanon.synthesize(
        data.rows,
        epsilon=epsilon,
        types=data.types,
        bounds=data.bounds,
        orders=data.listed,
        null_as=dict.fromkeys(data.listed, "other")
        | {c: low for c, (low, _) in data.bounds.items()},
        budget=dbanon.Budget(epsilon, delta=options.get("delta")),
        **options,
    )
    return pd.DataFrame(dict(synthetic.columns))


def _peer_row(data: Table, peer: str, epsilon: float, other_python: str | None) -> list[object]:
    try:
        rows, seconds = synthesize(peer, data, epsilon, other_python)
    except TimeoutError as error:
        return [peer, epsilon, *["-"] * 5, str(error)]
    return [peer, epsilon, *_cells([_compare(data, rows)]), f"{seconds:.1f}"]


def _cells(draws: list[Figures]) -> list[str]:
    """Means, and the largest distance of a draw from them; accuracy and AUC share a cell."""

    def cell(name: str) -> str:
        values = [figures[name] for figures in draws if name in figures]
        if not values:
            return "-"
        mean = float(np.mean(values))
        largest_distance = max(abs(value - mean) for value in values)
        return f"{mean:.3f}" + (f" ±{largest_distance:.3f}" if len(values) > 1 else "")

    measures = [cell(name) for name in ("1", "2", "3", "correlations")]
    return [*measures, f"{cell('accuracy')} ({cell('auc')})"]


def _compare(data: Table, rows: pd.DataFrame) -> Figures:
    """Compute all figures of synthetic rows."""
    kinds: dict[str, Any] = dict.fromkeys(data.listed, str) | dict.fromkeys(data.bounds, float)
    rows = rows[list(data.rows)].astype(kinds)
    cell_functions = [_cell_function(data, c) for c in data.rows]
    all_rows = pd.concat([data.rows, rows], ignore_index=True)
    codes = [part(all_rows[c]) for part, c in zip(cell_functions, data.rows, strict=True)]
    figures = {str(k): mean_total_variation(codes, len(data.rows), k) for k in (1, 2, 3)}
    if len(data.bounds) > 1:
        numbers = list(data.bounds)
        with np.errstate(invalid="ignore"):
            real, other = (np.corrcoef(t[numbers].T.to_numpy(float)) for t in (data.rows, rows))
        upper = np.triu_indices(len(numbers), 1)
        figures["correlations"] = float(np.abs(real - np.nan_to_num(other))[upper].mean())
    return figures | _classify(data, rows)


def _cell_function(data: Table, column: str) -> Callable[[pd.Series[Any]], np.ndarray[Any, Any]]:
    """Return a function to cells: categories and integers directly, other numbers by deciles."""
    if column not in data.bounds or column in data.integers:
        return lambda values: pd.factorize(values.astype(str).str.removesuffix(".0"))[0]
    edges = np.unique(np.quantile(data.rows[column], np.linspace(0, 1, PARTS + 1)[1:-1]))
    return lambda values: np.searchsorted(edges, values.to_numpy(float), side="right")


def mean_total_variation(codes: list[np.ndarray[Any, Any]], n: int, k: int) -> float:
    """Mean total variation over all tables of k columns; the first n rows are the real ones."""
    distances = []
    for column_codes in combinations(codes, k):
        joint = np.zeros(len(column_codes[0]), np.int64)
        for column in column_codes:
            joint = joint * (int(column.max()) + 1) + column
        cells = np.unique(joint, return_inverse=True)[1]
        n_cells = int(cells.max()) + 1
        real, other = (
            np.bincount(part, minlength=n_cells) / len(part) for part in (cells[:n], cells[n:])
        )
        distances.append(np.abs(real - other).sum() / 2)
    return float(np.mean(distances))


def _classify(data: Table, rows: pd.DataFrame) -> Figures:
    """Accuracy and AUC on the held-out rows, of a classifier trained on the synthetic ones."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    features_used = [c for c in data.rows if c != data.target]
    value_codes = {c: {value: at for at, value in enumerate(data.listed[c])} for c in data.listed}

    def features(frame: pd.DataFrame) -> np.ndarray[Any, Any]:
        return np.column_stack(
            [
                frame[c].map(value_codes[c]) if c in value_codes else frame[c].astype(float)
                for c in features_used
            ]
        ).astype(float)

    high = data.listed[data.target][-1]
    truth = (data.held_out[data.target] == high).to_numpy()
    labels = (rows[data.target] == high).to_numpy()
    if labels.all() or not labels.any():
        return {"accuracy": float((truth == labels[0]).mean()), "auc": 0.5}
    model = HistGradientBoostingClassifier(random_state=0, max_iter=60)
    model.fit(features(rows), labels)
    probabilities = model.predict_proba(features(data.held_out))[:, 1]
    return {
        "accuracy": float(((probabilities > 0.5) == truth).mean()),
        "auc": float(roc_auc_score(truth, probabilities)),
    }


if __name__ == "__main__":
    print(run())
