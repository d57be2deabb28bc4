"""Linear programs that grow by columns, solved by HiGHS (installed by the extra ``bound``).

Q. Huangfu and J. A. J. Hall, "Parallelizing the dual revised simplex method", Mathematical
Programming Computation 10 (2018). The solver's prices are approximate: callers make them feasible.
"""

from __future__ import annotations

import time
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

# A relative gap between program and certificate below which the certificate counts as optimal.
OPTIMALITY_GAP = 1e-5


@cache
def _silent_solver() -> Any:
    """Return the class of HiGHS, changed so that it prints no banner on stdout.

    The constructor of ``Highs`` enables callbacks, and HiGHS prints its banner at the first call
    that does not set an option. So the option must be set before.
    """
    import highspy

    highs: Any = highspy.Highs

    class QuietHighs(highs):  # type: ignore[misc]
        def enableCallbacks(self) -> None:  # noqa: N802
            self.setOptionValue("output_flag", False)
            super().enableCallbacks()

    return QuietHighs


def has_solver() -> bool:
    """Return whether HiGHS is installed; it is imported only when a program is created."""
    return find_spec("highspy") is not None


class Program:
    """A program for the cheapest columns that cover every row ``min_cover`` to ``max_cover`` times.

    Parameters
    ----------
    rows : number of rows, such as records to cover.
    min_cover, max_cover : how often each row is covered; ``math.inf`` for no upper limit.
    """

    def __init__(self, rows: int, min_cover: float, max_cover: float) -> None:
        solver_class = _silent_solver()
        self._solver = solver_class()
        for name, value in (
            ("output_flag", False),
            ("threads", 1),
            ("presolve", "off"),  # Start from the previous solution.
            ("solver", "simplex"),
            ("simplex_strategy", 4),  # Primal simplex: columns are added between solves.
        ):
            self._solver.setOptionValue(name, value)
        # The rows have no coefficients yet; ``add`` brings them with its columns.
        empty = np.zeros(rows, np.int32)
        low, high = np.full(rows, min_cover), np.full(rows, max_cover)
        self._solver.addRows(rows, low, high, 0, empty, empty[:0], np.zeros(0))

    def add(
        self,
        rows: NDArray[np.int32],
        starts: NDArray[np.int32],
        costs: NDArray[np.float64],
        upper_bound: float,
    ) -> None:
        """Add columns.

        Parameters
        ----------
        rows : int32, the rows that each column covers, concatenated.
        starts : int32 (m,), the offset of each column in ``rows``.
        costs : float64 (m,).
        upper_bound : the largest value that each column may have.
        """
        m, ones = len(starts), np.ones(len(rows))
        low, high = np.zeros(m), np.full(m, upper_bound)
        self._solver.addCols(m, costs, low, high, len(rows), starts, rows.astype(np.int32), ones)

    def add_cut_rows(self, columns: NDArray[np.int32], starts: NDArray[np.int32]) -> None:
        """Add rows with an upper bound of 1.

        Parameters
        ----------
        columns : int32, the columns with coefficient 1 in each row, concatenated.
        starts : int32 (m,), the offset of each row in ``columns``.
        """
        m, ones = len(starts), np.ones(len(columns))
        low, high = np.full(m, -np.inf), np.ones(m)
        self._solver.addRows(m, low, high, len(columns), starts, columns, ones)

    def solve(self, deadline: float) -> tuple[NDArray[np.float64], float] | None:
        """Compute row duals, float64, and the optimal value; None if time ran out.

        The duals are approximate. Those of rows added by ``add_cut_rows`` come last.

        Parameters
        ----------
        deadline : the time limit, in seconds of the monotonic clock.
        """
        seconds_left = deadline - time.monotonic()
        if seconds_left <= 0:
            return None
        self._solver.setOptionValue("time_limit", self._solver.getRunTime() + seconds_left)
        self._solver.run()
        if self._solver.modelStatusToString(self._solver.getModelStatus()) != "Optimal":
            return None
        duals = np.array(self._solver.getSolution().row_dual)
        if not np.isfinite(duals).all():
            return None
        return duals, float(self._solver.getInfo().objective_function_value)

    def column_values(self) -> NDArray[np.float64]:
        """Return the value of each column in the last solution, float64 (columns,)."""
        return np.array(self._solver.getSolution().col_value)
