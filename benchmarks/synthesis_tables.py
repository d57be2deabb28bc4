"""The tables that synthetic rows are generated from and compared with: Adult, MAGIC and Census.

A tenth of the rows is held out to evaluate classifiers.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tests.reference.data import load_casc
from tests.reference.synthesis import MAGIC_BOUNDS, census_bounds

HELD_OUT = 10


@dataclass(frozen=True)
class Table:
    """Rows to imitate, and held-out rows.

    Parameters
    ----------
    bounds : public bounds by numeric column.
    target : the binary column that a classifier predicts.
    """

    name: str
    rows: pd.DataFrame
    held_out: pd.DataFrame
    bounds: dict[str, tuple[float, float]]
    target: str
    integers: tuple[str, ...] = ()

    @property
    def listed(self) -> dict[str, list[str]]:
        """The categorical columns with their public values: those of all rows."""
        all_rows = pd.concat([self.rows, self.held_out])
        return {c: sorted(all_rows[c].unique()) for c in all_rows if c not in self.bounds}

    @property
    def types(self) -> dict[str, str]:
        """The declared type of each column."""
        kinds = {c: "integer" if c in self.integers else "number" for c in self.bounds}
        return {c: kinds.get(c, "text") for c in self.rows}

    def domain(self) -> dict[str, dict[str, Any]]:
        """The same for packages that take lower, upper and categories."""
        numbers = {c: {"lower": low, "upper": high} for c, (low, high) in self.bounds.items()}
        return {c: numbers.get(c, {"categories": self.listed.get(c)}) for c in self.rows}


def tables(directory: Path) -> list[Table]:
    """All three tables."""
    adult = pd.read_csv(directory / "adult" / "adult.csv", sep=";")
    magic = pd.read_csv(directory / "magic" / "magic04.csv")
    numbers = load_casc("census", directory)
    census = pd.DataFrame(numbers.values, columns=list(numbers.names))
    census_high = census_bounds(numbers.values)[1]
    # Whether a person earns more than the median is predicted from the other columns.
    median = census["PEARNVAL"].median()
    census["PEARNVAL"] = np.where(census["PEARNVAL"] > median, "more", "less")
    return [
        _table("Adult", adult, {"age": (17, 90)}, "salary-class", ("age",)),
        _table("MAGIC", magic, dict(zip(magic, map(tuple, MAGIC_BOUNDS), strict=False)), "class"),
        _table(
            "Census",
            census,
            dict(zip(numbers.names, map(tuple, census_high), strict=True)),
            "PEARNVAL",
        ),
    ]


def _table(
    name: str,
    frame: pd.DataFrame,
    bounds: dict[str, Any],
    target: str,
    integers: tuple[str, ...] = (),
) -> Table:
    order = np.random.default_rng(0).permutation(len(frame))
    cut = len(frame) // HELD_OUT
    numeric_bounds = {
        c: (float(low), float(high)) for c, (low, high) in bounds.items() if c != target
    }
    rows, held_out = frame.iloc[order[cut:]], frame.iloc[order[:cut]]
    return Table(
        name,
        rows.reset_index(drop=True),
        held_out.reset_index(drop=True),
        numeric_bounds,
        target,
        integers,
    )
