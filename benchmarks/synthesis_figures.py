"""Compare synthetic rows with the real ones: tables, numbers, rare categories, classifiers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.synthesis_tables import Table

Figures = dict[str, float]
Codes = NDArray[np.int64]

N_CELLS = 10
PROBABILITIES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
RARE_SHARE = 0.01


def compare(data: Table, rows: pd.DataFrame) -> Figures:
    """Compute all figures of synthetic rows by name, without those that a table does not have."""
    kinds: dict[str, Any] = dict.fromkeys(data.listed, str) | dict.fromkeys(data.bounds, float)
    rows = rows[list(data.rows)].astype(kinds)
    figures = table_errors(data, rows) | _compare_numbers(data, rows) | _compare_rare(data, rows)
    return figures | _classify(data, rows)


def table_errors(data: Table, rows: pd.DataFrame, sizes: Sequence[int] = (1, 2, 3)) -> Figures:
    """Mean total variation of all tables of each number of columns, by that number as text."""
    codes = [_codes(data, pd.concat([data.rows[c], rows[c]], ignore_index=True)) for c in data.rows]
    return {str(k): mean_total_variation(codes, len(data.rows), k) for k in sizes}


def _codes(data: Table, values: pd.Series[Any]) -> Codes:
    """Return categories as codes, and the cells of numbers; the real rows come first."""
    column = str(values.name)
    if column not in data.bounds:
        return pd.factorize(values.astype(str))[0].astype(np.int64)
    edges = data.cells.get(column)
    if edges is None:
        edges = np.quantile(data.rows[column], np.linspace(0, 1, N_CELLS + 1)[1:-1])
    cells = np.searchsorted(np.unique(edges), values.to_numpy(float), side="right")
    return cells.astype(np.int64)


def mean_total_variation(codes: list[Codes], n: int, k: int) -> float:
    """Mean total variation over all tables of k columns; the first n rows are the real ones."""
    sizes = [int(column.max()) + 1 for column in codes]
    distances = []
    for chosen in combinations(range(len(codes)), k):
        joint, n_cells = np.zeros(len(codes[0]), np.int64), 1
        for column in chosen:
            joint = joint * sizes[column] + codes[column]
            n_cells *= sizes[column]
        real, other = (
            np.bincount(part, minlength=n_cells) / len(part) for part in (joint[:n], joint[n:])
        )
        distances.append(np.abs(real - other).sum() / 2)
    return float(np.mean(distances))


def _compare_numbers(data: Table, rows: pd.DataFrame) -> Figures:
    """Mean errors of correlations and of quantiles; logarithms stand for logarithmic columns."""
    real, other = (_numbers(data, frame) for frame in (data.rows, rows))
    ranges = real.max(axis=0) - real.min(axis=0)
    quantiles = [np.quantile(values, PROBABILITIES, axis=0) for values in (real, other)]
    figures = {"quantiles": float((np.abs(quantiles[0] - quantiles[1]) / ranges).mean())}
    if len(data.bounds) > 1:
        with np.errstate(invalid="ignore"):
            correlations = [np.nan_to_num(np.corrcoef(values.T)) for values in (real, other)]
        upper = np.triu_indices(len(data.bounds), 1)
        differences = np.abs(correlations[0] - correlations[1])[upper]
        figures["correlations"] = float(differences.mean())
    return figures


def _numbers(data: Table, rows: pd.DataFrame) -> NDArray[np.float64]:
    logarithms = {c: np.log10(rows[c].astype(float)) for c in data.logarithms}
    return rows.assign(**logarithms)[list(data.bounds)].to_numpy(float)


def _compare_rare(data: Table, rows: pd.DataFrame) -> Figures:
    """Which share of the rare categories is left, and the mean relative error of their rows."""
    is_present, errors = [], []
    for column in data.listed:
        real, other = (frame[column].value_counts(normalize=True) for frame in (data.rows, rows))
        rare = real[(real > 0) & (real < RARE_SHARE)]
        shares = other.reindex(rare.index, fill_value=0.0)
        is_present += list(shares > 0)
        errors += list((shares - rare).abs() / rare)
    if not is_present:
        return {}
    return {"rare kept": float(np.mean(is_present)), "rare error": float(np.mean(errors))}


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
