"""Synthetic rows of Adult, MAGIC and Census: how far their tables, correlations and classifiers
are from those of real rows, beside MST, AIM and PrivBayes.

Needs the reference data (``DBANON_DATA``), which is not part of the project.
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
from benchmarks.synthesis_peers import DELTA, MOST, PEERS, made
from benchmarks.synthesis_tables import Table, tables
from dbanon.errors import DbanonError
from tests.reference.data import data_directory

EPSILONS = (0.5, 1.0, 3.0)
DRAWS = 3
PARTS = 10
# By name the method and its options.
WAYS: dict[str, dict[str, Any]] = {
    "dp_ranks": {"method": "dp_ranks"},
    "dp_ranks, quantiles": {"method": "dp_ranks", "margins": "quantiles"},
    "dp_marginals": {"method": "dp_marginals"},
    "dp_marginals, zcdp": {"method": "dp_marginals", "accounting": "zcdp", "delta": DELTA},
}
TITLE = f"""# Synthetic rows, measured

Nine tenths of the rows of Adult (9 columns), MAGIC (11) and Census (13) are made into as many
synthetic ones; delta = 1e-9 where there is one. Of dbanon the means of {DRAWS} draws and the
largest distance from them; of peers one draw at epsilon = 1, as AIM takes minutes: dpmm 0.1.9's
pipelines as they come, with the same public bounds and values, one process, ended after {MOST} CPU
seconds. PrivBayes and `dp_*` without zcdp have delta = 0.

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


def run(quick: bool = False, beside: str | None = None) -> str:
    """Markdown of a table for each data set."""
    directory = data_directory()
    if directory is None:
        raise NotMeasuredError
    text = TITLE
    header = ["rows", "epsilon", "1-way", "2-way", "3-way", "correlations", "classifier", "CPU s"]
    for one in tables(directory)[: 1 if quick else 3]:
        n, p = one.rows.shape
        rows = list(_rows(one, beside, quick))
        text += f"\n## {one.name}, {n:,} × {p}\n\n" + table(header, rows)
    return text


def _rows(one: Table, beside: str | None, quick: bool) -> Iterator[list[object]]:
    rng = np.random.default_rng(0)
    yield ["real rows", "", *_told([_compared(one, one.rows)]), ""]
    apart = one.rows.apply(lambda column: column.to_numpy()[rng.permutation(len(column))])
    yield ["shuffled apart", "", *_told([_compared(one, apart)]), ""]
    for epsilon in EPSILONS[1:2] if quick else EPSILONS:
        for name, options in WAYS.items():
            yield _ours(one, name, options, epsilon, 1 if quick else DRAWS)
            print(one.name, name, epsilon, flush=True)
        if epsilon == 1 and not quick:
            for peer in PEERS:
                yield _of_peer(one, peer, epsilon, beside)


def _ours(
    one: Table, name: str, options: dict[str, Any], epsilon: float, draws: int
) -> list[object]:
    found, seconds = [], []
    for _ in range(draws):
        started = time.process_time()
        try:
            rows = _made(one, options, epsilon)
        except DbanonError as error:
            return [name, epsilon, *["-"] * 5, f"refused: {error.code}"]
        seconds.append(time.process_time() - started)
        found.append(_compared(one, rows))
    return [name, epsilon, *_told(found), f"{np.mean(seconds):.1f}"]


def _made(one: Table, options: dict[str, Any], epsilon: float) -> pd.DataFrame:
    found = dbanon.synthesize(
        one.rows,
        epsilon=epsilon,
        types=one.types,
        bounds=one.bounds,
        orders=one.listed,
        null_as=dict.fromkeys(one.listed, "other") | {c: low for c, (low, _) in one.bounds.items()},
        budget=dbanon.Budget(epsilon, delta=options.get("delta")),
        **options,
    )
    return pd.DataFrame(dict(found.columns))


def _of_peer(one: Table, peer: str, epsilon: float, beside: str | None) -> list[object]:
    try:
        rows, seconds = made(peer, one, epsilon, beside)
    except TimeoutError as error:
        return [peer, epsilon, *["-"] * 5, str(error)]
    return [peer, epsilon, *_told([_compared(one, rows)]), f"{seconds:.1f}"]


def _told(found: list[Figures]) -> list[str]:
    """Means, and the largest distance of a draw from them; accuracy and AUC share a cell."""

    def cell(name: str) -> str:
        values = [one[name] for one in found if name in one]
        if not values:
            return "-"
        mean = float(np.mean(values))
        off = max(abs(value - mean) for value in values)
        return f"{mean:.3f}" + (f" ±{off:.3f}" if len(values) > 1 else "")

    ways = [cell(name) for name in ("1", "2", "3", "correlations")]
    return [*ways, f"{cell('accuracy')} ({cell('auc')})"]


def _compared(one: Table, rows: pd.DataFrame) -> Figures:
    """All figures of synthetic rows."""
    kinds: dict[str, Any] = dict.fromkeys(one.listed, str) | dict.fromkeys(one.bounds, float)
    rows = rows[list(one.rows)].astype(kinds)
    cut = [_cut(one, c) for c in one.rows]
    both = pd.concat([one.rows, rows], ignore_index=True)
    codes = [part(both[c]) for part, c in zip(cut, one.rows, strict=True)]
    found = {str(k): _apart(codes, len(one.rows), k) for k in (1, 2, 3)}
    if len(one.bounds) > 1:
        numbers = list(one.bounds)
        with np.errstate(invalid="ignore"):
            real, other = (np.corrcoef(t[numbers].T.to_numpy(float)) for t in (one.rows, rows))
        upper = np.triu_indices(len(numbers), 1)
        found["correlations"] = float(np.abs(real - np.nan_to_num(other))[upper].mean())
    return found | _classified(one, rows)


def _cut(one: Table, column: str) -> Callable[[pd.Series[Any]], np.ndarray[Any, Any]]:
    """The cell of each value: categories and whole numbers as they are, others by deciles."""
    if column not in one.bounds or column in one.whole:
        return lambda values: pd.factorize(values.astype(str).str.removesuffix(".0"))[0]
    edges = np.unique(np.quantile(one.rows[column], np.linspace(0, 1, PARTS + 1)[1:-1]))
    return lambda values: np.searchsorted(edges, values.to_numpy(float), side="right")


def _apart(codes: list[np.ndarray[Any, Any]], n: int, k: int) -> float:
    """The mean total variation of all tables of k columns; the first n rows are the real ones."""
    found = []
    for chosen in combinations(codes, k):
        joint = np.zeros(len(chosen[0]), np.int64)
        for column in chosen:
            joint = joint * (int(column.max()) + 1) + column
        cells = np.unique(joint, return_inverse=True)[1]
        wide = int(cells.max()) + 1
        real, other = (
            np.bincount(part, minlength=wide) / len(part) for part in (cells[:n], cells[n:])
        )
        found.append(np.abs(real - other).sum() / 2)
    return float(np.mean(found))


def _classified(one: Table, rows: pd.DataFrame) -> Figures:
    """Accuracy and area under the curve on the rows held out, of a classifier of synthetic ones."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    known = [c for c in one.rows if c != one.target]
    places = {c: {value: at for at, value in enumerate(one.listed[c])} for c in one.listed}

    def features(frame: pd.DataFrame) -> np.ndarray[Any, Any]:
        return np.column_stack(
            [frame[c].map(places[c]) if c in places else frame[c].astype(float) for c in known]
        ).astype(float)

    high = one.listed[one.target][-1]
    truth = (one.held_out[one.target] == high).to_numpy()
    labels = (rows[one.target] == high).to_numpy()
    if labels.all() or not labels.any():
        return {"accuracy": float((truth == labels[0]).mean()), "auc": 0.5}
    model = HistGradientBoostingClassifier(random_state=0, max_iter=60)
    model.fit(features(rows), labels)
    chance = model.predict_proba(features(one.held_out))[:, 1]
    return {
        "accuracy": float(((chance > 0.5) == truth).mean()),
        "auc": float(roc_auc_score(truth, chance)),
    }


if __name__ == "__main__":
    print(run())
