"""Generated tables similar to those in the literature, so that tests run in any clone.

Each name refers to the similar table in the reference data. No figure of these tables is recorded:
tests compare with their own oracle.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tests.iloss_evaluator import read_paths

Floats = NDArray[np.float64]

# Leaf to root, as in ARX files: hierarchies of two to four levels.
_LEVELS: dict[str, tuple[tuple[str, ...], ...]] = {
    "sex": (("Male", "*"), ("Female", "*")),
    "education": (
        ("Preschool", "Primary School", "Primary education", "*"),
        ("5th-6th", "Primary School", "Primary education", "*"),
        ("9th", "High School", "Secondary education", "*"),
        ("12th", "High School", "Secondary education", "*"),
        ("HS-grad", "High School", "Secondary education", "*"),
        ("Bachelors", "Undergraduate", "Higher education", "*"),
        ("Masters", "Graduate", "Higher education", "*"),
        ("Doctorate", "Graduate", "Higher education", "*"),
    ),
    "marital-status": (
        ("Married", "spouse present", "*"),
        ("Never-married", "spouse not present", "*"),
        ("Widowed", "spouse not present", "*"),
    ),
    "race": tuple((name, "*") for name in ("A", "B", "C")),
    "workclass": (
        ("Private", "Non-Government", "*"),
        ("Self-employed", "Non-Government", "*"),
        ("State-gov", "Government", "*"),
        ("Never-worked", "Unemployed", "*"),
    ),
    "native-country": (
        ("England", "Europe", "*"),
        ("Italy", "Europe", "*"),
        ("Japan", "Asia", "*"),
        ("Peru", "South America", "*"),
    ),
    "salary-class": ((">50K", "*"), ("<=50K", "*")),
}
EDUCATION = tuple(path[0] for path in _LEVELS["education"])
ADULT_COLUMNS = ("age", *_LEVELS)


def census_like(n: int, p: int, seed: int = 0) -> Floats:
    """Correlated log-normal amounts, (n, p), whole numbers: few large records, many near 0."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n, 1))
    return np.floor(1000 * np.exp(0.7 * common + 0.6 * rng.normal(size=(n, p))))


def magic_like(n: int, p: int = 10, seed: int = 0) -> Floats:
    """Two populations, (n, p): a dense one, and a wide one whose columns are correlated."""
    rng = np.random.default_rng(seed)
    wide = rng.random(n) < 0.35
    common = rng.normal(size=(n, 1))
    values = 0.7 * common + 0.7 * rng.normal(size=(n, p))
    values[wide] = np.where(np.arange(p) % 2, 1.0, -1.0) + 2.0 * values[wide]
    values[:, 0] = np.exp(0.6 * values[:, 0])
    return values


def planted_clusters(sizes: NDArray[np.int64], p: int, seed: int = 0) -> tuple[Floats, Floats]:
    """Points, (n, p), in clusters of these sizes, far enough apart to be the optimal classes.

    Returns points in random order, and the centre of each point's cluster.
    """
    rng = np.random.default_rng(seed)
    # On a grid: centres are at least 100 apart, and points at most 1 from their centre.
    side = int(np.ceil(len(sizes) ** (1 / p)))
    grid = np.stack(np.unravel_index(np.arange(len(sizes)), (side,) * p), axis=1) * 100.0
    centres = np.repeat(grid, sizes, axis=0)
    points = centres + rng.uniform(-1, 1, centres.shape) / p**0.5
    order = rng.permutation(len(points))
    return points[order], centres[order]


@dataclass(frozen=True)
class AdultTable:
    """A table like Adult.

    Parameters
    ----------
    frame : its eight quasi-identifiers and the sensitive column `occupation`.
    folder : where `adult.csv` and `hierarchies` are, as examples/adult.py reads them.
    """

    frame: pd.DataFrame
    folder: Path

    @property
    def quasi_identifiers(self) -> pd.DataFrame:
        return self.frame[list(ADULT_COLUMNS)]

    @property
    def rows(self) -> list[list[str]]:
        """The quasi-identifiers as texts."""
        return self.quasi_identifiers.astype(str).to_numpy().tolist()  # type: ignore[no-any-return]

    @property
    def files(self) -> dict[str, Path]:
        """The hierarchy file of each column that is not a number."""
        return {name: self.folder / "hierarchies" / f"{name}.csv" for name in _LEVELS}

    @property
    def paths(self) -> list[dict[str, list[str]] | None]:
        """By column, the path of each leaf to the root; None for the number."""
        return [None, *(read_paths(file) for file in self.files.values())]


def adult_like(n: int, folder: Path, seed: int = 0) -> AdultTable:
    """A mixed table whose columns depend on age and education; its files are in `folder`."""
    rng = np.random.default_rng(seed)
    age = rng.integers(17, 91, n)
    columns: dict[str, object] = {"age": age}
    level = (np.clip(rng.normal(0.55 + (age > 30) * 0.1, 0.2, n), 0, 0.999) * 8).astype(int)
    for name, paths in _LEVELS.items():
        leaves = np.array([path[0] for path in paths])
        if name == "education":
            codes = level
        elif name == "salary-class":
            codes = np.where(rng.random(n) < level / 12, 0, 1)
        elif name == "marital-status":
            codes = np.where(age < 30, 1, np.where(age > 70, 2, 0))
            codes = np.where(rng.random(n) < 0.3, rng.integers(0, 3, n), codes)
        else:
            # The first leaf has most of the records.
            codes = np.minimum(rng.geometric(0.6, n) - 1, len(leaves) - 1)
        columns[name] = leaves[codes]
    columns["occupation"] = np.array(["Sales", "Craft", "Tech"])[rng.integers(0, 3, n)]
    frame = pd.DataFrame(columns)
    (folder / "hierarchies").mkdir(parents=True)
    frame.to_csv(folder / "adult.csv", sep=";", index=False)
    for name, paths in _LEVELS.items():
        with (folder / "hierarchies" / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file, delimiter=";").writerows(paths)
    return AdultTable(frame, folder)


def standardized(values: Floats) -> Floats:
    """z-scores with the sample's deviation; no column may be constant."""
    return np.ascontiguousarray((values - values.mean(axis=0)) / values.std(axis=0, ddof=1))


def sse_share(points: Floats, labels: NDArray[np.integer]) -> float:
    """SSE/SST of classes, computed by a plain loop."""
    within_sse = sum(
        np.square(points[labels == label] - points[labels == label].mean(axis=0)).sum()
        for label in np.unique(labels)
    )
    return float(within_sse / np.square(points - points.mean(axis=0)).sum())


def class_means(values: Floats, labels: NDArray[np.integer]) -> Floats:
    """Each record's class mean, computed by a plain loop."""
    released = np.empty_like(values)
    for label in np.unique(labels):
        released[labels == label] = values[labels == label].mean(axis=0)
    return released
