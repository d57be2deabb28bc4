"""Linear programs solved by HiGHS, the extra ``dbanon[bound]``, column by column.

Q. Huangfu and J. A. J. Hall, "Parallelizing the dual revised simplex method", Mathematical
Programming Computation 10 (2018). Its prices are only a proposal: whoever uses them repairs them.
"""

from __future__ import annotations

import time
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.bounds.program import Programs


def programs() -> Programs | None:
    """What makes linear programs; None where HiGHS is not installed."""
    return HighsProgram if find_spec("highspy") is not None else None


class HighsProgram:
    """A linear program of ``dbanon.bounds.program``."""

    def __init__(self, rows: int, least: float, most: float) -> None:
        import highspy

        solver: Any = highspy.Highs
        self._solver = solver()
        for name, value in (
            ("output_flag", False),
            ("threads", 1),
            ("presolve", "off"),  # Each solution starts from the last.
            ("solver", "simplex"),
            ("simplex_strategy", 4),  # Primal: what is added are columns.
        ):
            self._solver.setOptionValue(name, value)
        empty = np.zeros(rows, np.int32)
        low, high = np.full(rows, least), np.full(rows, most)
        self._solver.addRows(rows, low, high, 0, empty, empty[:0], np.zeros(0))

    def add(
        self,
        rows: NDArray[np.int32],
        starts: NDArray[np.int32],
        costs: NDArray[np.float64],
        most: float,
    ) -> None:
        """Add columns."""
        count, upper, ones = len(starts), np.full(len(starts), most), np.ones(len(rows))
        self._solver.addCols(
            count, costs, np.zeros(count), upper, len(rows), starts, rows.astype(np.int32), ones
        )

    def limit(self, columns: NDArray[np.int32], starts: NDArray[np.int32]) -> None:
        """Add rows that are taken once at most."""
        count, ones = len(starts), np.ones(len(columns))
        low, high = np.full(count, -np.inf), np.ones(count)
        self._solver.addRows(count, low, high, len(columns), starts, columns, ones)

    def solve(self, ends: float) -> tuple[NDArray[np.float64], float] | None:
        """The rows' prices and the least sum; None where there was no time for them."""
        left = ends - time.monotonic()
        if left <= 0:
            return None
        self._solver.setOptionValue("time_limit", self._solver.getRunTime() + left)
        self._solver.run()
        if self._solver.modelStatusToString(self._solver.getModelStatus()) != "Optimal":
            return None
        prices = np.array(self._solver.getSolution().row_dual)
        if not np.isfinite(prices).all():
            return None
        return prices, float(self._solver.getInfo().objective_function_value)

    def taken(self) -> NDArray[np.float64]:
        """How often each column was taken."""
        return np.array(self._solver.getSolution().col_value)
