"""Linear programs, solved by HiGHS (the extra ``dbanon[bound]``), column by column.

Q. Huangfu and J. A. J. Hall, "Parallelizing the dual revised simplex method", Mathematical
Programming Computation 10 (2018). Its prices are only a proposal: whoever uses them repairs them.
"""

from __future__ import annotations

import math
import time
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray


def solver_installed() -> bool:
    """Whether HiGHS can be imported."""
    return find_spec("highspy") is not None


class Program:
    """The least sum of costs of columns that take every row as often as they shall.

    Parameters
    ----------
    rows : how many.
    least, most : how often each is taken.
    """

    def __init__(self, rows: int, least: float, most: float = math.inf) -> None:
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

    def add(self, rows: NDArray[np.int32], costs: NDArray[np.float64], most: float) -> None:
        """Add columns.

        Parameters
        ----------
        rows : int32 (m, s), those that each takes once.
        costs : float64 (m,).
        most : how often a column may be taken.
        """
        count, size = rows.shape
        starts = np.arange(0, count * size, size, dtype=np.int32)
        upper, ones = np.full(count, most), np.ones(count * size)
        flat = np.ascontiguousarray(rows, np.int32).ravel()
        self._solver.addCols(count, costs, np.zeros(count), upper, count * size, starts, flat, ones)

    def solve(self, ends: float) -> tuple[NDArray[np.float64], float] | None:
        """The rows' prices, float64 (rows,), and the least sum; None where there was no time.

        Parameters
        ----------
        ends : when to end, of the monotonic clock.
        """
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
