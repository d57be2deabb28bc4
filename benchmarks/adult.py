"""UCI Adult for benchmarks: the reference table with its hierarchies, and larger tables like it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.markdown import NotMeasuredError
from dbanon.hierarchy.tree import Hierarchy
from tests.iloss_evaluator import iloss, read_paths
from tests.reference.data import data_directory

# Share of values that are redrawn in a larger table; 8 % of 1,000,000 rows are then distinct.
_PERTURBED = 0.09


@dataclass(frozen=True)
class Adult:
    """A table of Adult's eight quasi-identifiers, with age as a number.

    Parameters
    ----------
    frame : the table.
    files, trees : the hierarchy of each column except age, and the file it was read from.
    paths : the same for the evaluator: each leaf's labels up to the root, None for age.
    """

    frame: pd.DataFrame
    files: dict[str, str]
    trees: dict[str, Hierarchy]
    paths: tuple[dict[str, list[str]] | None, ...]

    def first(self, columns: int) -> Adult:
        """The table with its first columns only."""
        return self._of(self.frame.iloc[:, :columns])

    def rows(self, n: int) -> Adult:
        """A sample of n rows without replacement, always the same."""
        sampled = np.random.default_rng(1).permutation(len(self.frame))[:n]
        return self._of(self.frame.iloc[np.sort(sampled)].reset_index(drop=True))

    def resampled(self, n: int) -> Adult:
        """n rows drawn with replacement, with some values redrawn to create rare combinations."""
        rng = np.random.default_rng(1)
        rows = rng.integers(0, len(self.frame), n)
        columns = {}
        for name in self.frame.columns:
            other_rows = rng.integers(0, len(self.frame), n)
            source_rows = np.where(rng.random(n) < _PERTURBED, other_rows, rows)
            columns[name] = self.frame[name].to_numpy()[source_rows]
        return self._of(pd.DataFrame(columns))

    def iloss(self, labels: NDArray[np.int32]) -> float:
        """The loss by the tests' evaluator; a withheld row (label -1) has the maximum loss."""
        withheld = np.flatnonzero(labels < 0)
        # A row in its own class loses nothing, but counts for the table's ranges.
        labels_with_singletons = labels.copy()
        labels_with_singletons[withheld] = len(labels) + np.arange(len(withheld))
        rows = self.frame.to_numpy().tolist()
        return iloss(rows, labels_with_singletons, self.paths) + len(withheld) * len(self.paths)

    def _of(self, frame: pd.DataFrame) -> Adult:
        files = {name: file for name, file in self.files.items() if name in frame.columns}
        trees = {name: self.trees[name] for name in files}
        return Adult(frame, files, trees, self.paths[: frame.shape[1]])


def load() -> Adult:
    """Load the reference table.

    Raises
    ------
    NotMeasuredError : the data is missing.
    """
    folder = data_directory()
    if folder is None:
        raise NotMeasuredError
    frame = pd.read_csv(folder / "adult" / "adult.csv", sep=";").iloc[:, :8]
    files = {
        name: str(folder / "adult" / "hierarchies" / f"{name}.csv")
        for name in frame.columns
        if name != "age"
    }
    paths = tuple(read_paths(files[name]) if name in files else None for name in frame.columns)
    return Adult(frame, files, {name: Hierarchy.load(file) for name, file in files.items()}, paths)
