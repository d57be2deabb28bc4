"""The tables that synthetic rows are made of and compared with: Adult, MAGIC and Census.

A tenth of the rows is held out: nothing is made of them, and classifiers are tried on them.
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
    """Rows to make others of, and rows held out.

    Parameters
    ----------
    bounds : by column of numbers, public.
    target : the column of two values that a classifier finds.
    """

    name: str
    rows: pd.DataFrame
    held_out: pd.DataFrame
    bounds: dict[str, tuple[float, float]]
    target: str
    whole: tuple[str, ...] = ()

    @property
    def listed(self) -> dict[str, list[str]]:
        """The columns of categories, and their public values: those of all rows."""
        both = pd.concat([self.rows, self.held_out])
        return {c: sorted(both[c].unique()) for c in both if c not in self.bounds}

    @property
    def types(self) -> dict[str, str]:
        """What each column is declared as."""
        kinds = {c: "integer" if c in self.whole else "number" for c in self.bounds}
        return {c: kinds.get(c, "text") for c in self.rows}

    def domain(self) -> dict[str, dict[str, Any]]:
        """The same for packages that take lower, upper and categories."""
        numbers = {c: {"lower": low, "upper": high} for c, (low, high) in self.bounds.items()}
        return {c: numbers.get(c, {"categories": self.listed.get(c)}) for c in self.rows}


def tables(directory: Path) -> list[Table]:
    """All three, without those of ``quick``."""
    adult = pd.read_csv(directory / "adult" / "adult.csv", sep=";")
    magic = pd.read_csv(directory / "magic" / "magic04.csv")
    numbers = load_casc("census", directory)
    census = pd.DataFrame(numbers.values, columns=list(numbers.names))
    census_high = census_bounds(numbers.values)[1]
    # What a person earns above the median is found from the other columns.
    middle = census["PEARNVAL"].median()
    census["PEARNVAL"] = np.where(census["PEARNVAL"] > middle, "more", "less")
    return [
        _table("Adult", adult, {"age": (17, 90)}, "salary-class", ("age",)),
        _table("MAGIC", magic, dict(zip(magic, map(tuple, MAGIC_BOUNDS), strict=False)), "class"),
        _table("Census", census, dict(zip(numbers.names, map(tuple, census_high), strict=True)),
               "PEARNVAL"),
    ]  # fmt: skip


def _table(
    name: str,
    frame: pd.DataFrame,
    bounds: dict[str, Any],
    target: str,
    whole: tuple[str, ...] = (),
) -> Table:
    order = np.random.default_rng(0).permutation(len(frame))
    cut = len(frame) // HELD_OUT
    plain = {c: (float(low), float(high)) for c, (low, high) in bounds.items() if c != target}
    rows, held_out = frame.iloc[order[cut:]], frame.iloc[order[:cut]]
    return Table(
        name, rows.reset_index(drop=True), held_out.reset_index(drop=True), plain, target, whole
    )
