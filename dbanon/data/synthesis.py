"""What a synthesis gives: rows that stand for no row of the source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Synthesis:
    """Released rows, without classes, without k and in no order of the source.

    Parameters
    ----------
    columns : by name, an array of n values, read-only, of the type of the source's column.
    method : what made them.
    guarantee : what holds of them, in words, and what does not.
    epsilon : of a differential privacy that holds; None where none does.
    told : what else may be said of how they were made. Of a synthesis that is differentially
        private it follows from public figures alone.
    """

    columns: Mapping[str, NDArray[Any]]
    method: str
    guarantee: str
    epsilon: float | None = None
    told: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for values in self.columns.values():
            values.setflags(write=False)
        object.__setattr__(self, "columns", MappingProxyType(dict(self.columns)))

    @property
    def n_rows(self) -> int:
        """The number of rows, n."""
        return len(next(iter(self.columns.values()), ()))

    @property
    def values(self) -> NDArray[np.float64]:
        """All columns of numbers side by side, float64 (n, p)."""
        return np.column_stack([np.asarray(part, np.float64) for part in self.columns.values()])
