"""Linear programs as bounds ask for them; who solves them is for the rooms above."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

# Where a program's value and a certificate are so near, relatively, nothing is left to find.
NEAR_ENOUGH = 1e-5


class Program(Protocol):
    """The least sum of costs of columns that take every row as often as they shall."""

    def add(
        self,
        rows: NDArray[np.int32],
        starts: NDArray[np.int32],
        costs: NDArray[np.float64],
        most: float,
    ) -> None:
        """Add columns.

        Parameters
        ----------
        rows : int32, those that each takes once, one column after the other.
        starts : int32 (m,), where each column begins in them.
        costs : float64 (m,).
        most : how often a column may be taken.
        """

    def limit(self, columns: NDArray[np.int32], starts: NDArray[np.int32]) -> None:
        """Add rows that are taken once at most.

        Parameters
        ----------
        columns : int32, those that take each once, one row after the other.
        starts : int32 (m,), where each row begins in them.
        """

    def solve(self, ends: float) -> tuple[NDArray[np.float64], float] | None:
        """The rows' prices, float64 (rows,), and the least sum; None where there was no time.

        The prices need not be right: they are repaired.

        Parameters
        ----------
        ends : when to end, of the monotonic clock.
        """

    def taken(self) -> NDArray[np.float64]:
        """How often each column was taken by the last solution, float64 (columns,)."""


class Programs(Protocol):
    """Makes a program of so many rows, each of which is taken ``least`` to ``most`` times."""

    def __call__(self, rows: int, least: float, most: float) -> Program: ...
