"""Columns between public bounds: numbers, dates and times as whole numbers, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.synthesis.shares import GRID


@dataclass(frozen=True)
class Line:
    """What is public of a column of numbers or moments.

    Parameters
    ----------
    name : the column's.
    dtype : of whole numbers, floating-point numbers or moments (``datetime64``).
    low, high : bounds; of moments in units of the type since 1970.
    null_as : what stands for NULL; None where the type holds none. NaN is NULL.
    log : True where differences are of logarithms: for columns with a few large values.
    """

    name: str
    dtype: np.dtype[Any]
    low: float
    high: float
    null_as: float | None = None
    log: bool = False

    @property
    def tree(self) -> None:
        """None: the values are no list."""
        return

    @property
    def whole(self) -> bool:
        """True where values are counted in whole units."""
        return self.dtype.kind != "f"

    def on_line(self, values: NDArray[Any], nulls: NDArray[np.bool_] | None) -> NDArray[np.float64]:
        """The values between the bounds, float64 (n,); ``nulls``, bool (n,), are none."""
        if self.dtype.kind == "M":
            values = values.astype(self.dtype).astype(np.int64)
        numbers = np.array(values, np.float64)
        missing = np.isnan(numbers) if nulls is None else np.isnan(numbers) | nulls
        numbers[missing] = self.low if self.null_as is None else self.null_as
        return numbers.clip(self.low, self.high)

    def of_persons(self, values: NDArray[Any], person: NDArray[np.int64]) -> NDArray[np.float64]:
        """The mean of each person's values; ``person``, int64 (n,), from 0."""
        means: NDArray[np.float64] = np.bincount(person, values) / np.bincount(person)
        return means

    def to_grid(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Values between the bounds as whole numbers from 0 to ``GRID``, int64 (n,)."""
        low, high = self._bent(np.array([self.low, self.high]))
        share = (self._bent(values) - low) / (high - low)
        return np.array(np.rint(share * GRID).clip(0, GRID), np.int64)

    def of_grid(self, grid: NDArray[np.float64]) -> NDArray[Any]:
        """Values of the column's type, (n,), from places between 0 and ``GRID``."""
        low, high = self._bent(np.array([self.low, self.high]))
        numbers = low + grid / GRID * (high - low)
        if self.log:
            numbers = np.expm1(numbers) if self.low == 0 else np.exp(numbers)
        if self.whole:
            numbers = np.rint(numbers).clip(np.ceil(self.low), np.floor(self.high))
            return np.array(numbers, np.int64).astype(self.dtype)
        return np.array(numbers.clip(self.low, self.high), self.dtype)

    def holds(self, values: NDArray[Any]) -> bool:
        """Whether all values are between the bounds, and none is NULL."""
        if self.dtype.kind == "M":
            values = values.astype(np.int64)
        numbers = np.asarray(values, np.float64)
        # The type may round a bound, as float32 does.
        low, high = (np.float64(self._typed(bound)) for bound in (self.low, self.high))
        return bool(((numbers >= low) & (numbers <= high)).all())

    def _bent(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Numbers, or their logarithms; of whole numbers from 0 those of the next ones."""
        if not self.log:
            return numbers
        found: NDArray[np.float64] = np.log1p(numbers) if self.low == 0 else np.log(numbers)
        return found

    def _typed(self, bound: float) -> Any:
        return np.array(bound).astype(self.dtype) if self.dtype.kind == "f" else bound
