"""Linear programs solved by HiGHS, the extra ``bound``, column by column.

Q. Huangfu and J. A. J. Hall, "Parallelizing the dual revised simplex method", Mathematical
Programming Computation 10 (2018). Its prices are only a proposal: whoever uses them repairs them.
"""

from __future__ import annotations

import time
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Where a program's value and a certificate are so near, relatively, nothing is left to find.
NEAR_ENOUGH = 1e-5


@cache
def _silent_solver() -> Any:
    """The class of HiGHS without its banner on stdout.

    The constructor of ``Highs`` enables callbacks, and HiGHS prints its banner with the first call
    that is no option. So the option comes before.
    """
    import highspy

    highs: Any = highspy.Highs

    class SilentHighs(highs):  # type: ignore[misc]
        def enableCallbacks(self) -> None:  # noqa: N802
            self.setOptionValue("output_flag", False)
            super().enableCallbacks()

    return SilentHighs


def solved_here() -> bool:
    """Whether HiGHS is installed; it is imported where the first program is made."""
    return find_spec("highspy") is not None


class Program:
    """The least sum of costs of columns that take every row ``least`` to ``most`` times.

    Parameters
    ----------
    rows : how many.
    """

    def __init__(self, rows: int, least: float, most: float) -> None:
        self._solver = _silent_solver()()
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
        """Add columns.

        Parameters
        ----------
        rows : int32, those that each takes once, one column after the other.
        starts : int32 (m,), where each column begins in them.
        costs : float64 (m,).
        most : how often a column may be taken.
        """
        count, upper, ones = len(starts), np.full(len(starts), most), np.ones(len(rows))
        self._solver.addCols(
            count, costs, np.zeros(count), upper, len(rows), starts, rows.astype(np.int32), ones
        )

    def limit(self, columns: NDArray[np.int32], starts: NDArray[np.int32]) -> None:
        """Add rows that are taken once at most.

        Parameters
        ----------
        columns : int32, those that take each once, one row after the other.
        starts : int32 (m,), where each row begins in them.
        """
        count, ones = len(starts), np.ones(len(columns))
        low, high = np.full(count, -np.inf), np.ones(count)
        self._solver.addRows(count, low, high, len(columns), starts, columns, ones)

    def solve(self, ends: float) -> tuple[NDArray[np.float64], float] | None:
        """The rows' prices, float64 (rows,), and the least sum; None where there was no time.

        The prices need not be right: they are repaired.

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

    def taken(self) -> NDArray[np.float64]:
        """How often each column was taken by the last solution, float64 (columns,)."""
        return np.array(self._solver.getSolution().col_value)
