"""Every numeric method at 20,000 and 100,000 records: CPU seconds, on normal data.

Options are at their defaults. What would take more than a minute, if time grew with n^2, is not
run.
"""

from __future__ import annotations

import time

import numpy as np

import dbanon
from benchmarks.markdown import table
from dbanon.data.partition import Partition

SIZES = (20_000, 100_000)
LIMIT = 60.0
P, K = 4, 5


def run(quick: bool = False) -> str:
    """Measure CPU seconds; return Markdown with one row per method."""
    rows = []
    for method in dbanon.METHODS.values():
        takes_width = method.max_attributes is None or method.max_attributes >= P
        if method.takes_categories or method.result_type is not Partition or not takes_width:
            continue
        row: list[object] = [method.name]
        seconds, previous_n = 0.0, 1_000
        for n in (previous_n, *(SIZES[:1] if quick else SIZES)):
            if seconds * (n / previous_n) ** 2 > LIMIT:
                row.append("not run")
                continue
            points = np.random.default_rng(1).normal(size=(n, P))
            started = time.process_time()
            dbanon.partition(points, K, method=method.name)
            seconds, previous_n = time.process_time() - started, n
            if n in SIZES:
                row.append(seconds)
        rows.append(row)
    title = f"# Every method, p = {P}, k = {K}: CPU s\n\n" + __doc__.partition("\n\n")[2] + "\n"
    return title + table(["method", *(f"n = {n:,}" for n in SIZES)], rows)
