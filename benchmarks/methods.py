"""Every method on the three reference data sets: information loss and CPU seconds.

Needs the CASC reference data (``DBANON_DATA``), which is not part of the project.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dbanon
from benchmarks.markdown import NotMeasuredError, table
from dbanon.data.partition import Partition
from tests.reference.data import data_directory, load_casc

SETS = ("tarragona", "census", "eia")
SIZES = (3, 4, 5, 10)
# Also refined: a method with fixed classes, with cut paths, with trees and with hierarchies.
REFINED = ("mdav", "cbfs_mhm", "mst_diameter", "kward")
TITLE = """# All methods, measured

100 SSE/SST on z-scores, before rounding to column types, and CPU seconds in brackets; all options
at their defaults, seed 0. Tarragona has 834 records of 13 attributes, Census 1080 of 13, EIA 4092
of 11. Made by `python -m benchmarks methods`, part of `make bench`.

"""


def run(quick: bool = False) -> str:
    """Measure loss and CPU seconds; return Markdown with one row per method and data set."""
    return TITLE + measure_all(_methods, quick)


def reference(quick: bool) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """Yield the data sets with their names; only the first one if ``quick``."""
    directory = data_directory()
    if directory is None:
        raise NotMeasuredError
    for name in SETS[:1] if quick else SETS:
        yield name, load_casc(name, directory).values


def timed(data: NDArray[np.float64], k: int, **arguments: Any) -> tuple[float, float]:
    """Return 100 SSE/SST of a partition, and its CPU seconds."""
    started = time.process_time()
    classes = dbanon.partition(data, k, **arguments)
    seconds = time.process_time() - started
    return 100 * dbanon.information_loss(data, classes), seconds


def measure_all(methods: Any, quick: bool) -> str:
    """Measure the named arguments that ``methods`` yields for a number of attributes."""
    rows = []
    for name, data in reference(quick):
        for label, arguments in methods(data.shape[1]):
            cells = []
            for k in SIZES:
                loss, seconds = timed(data, k, **arguments)
                cells.append(f"{loss:.4f} ({seconds:.2g})")
            rows.append([label, name, *cells])
    # Group the rows by method; the sort is stable.
    order = [row[0] for row in rows]
    rows.sort(key=lambda row: order.index(row[0]))
    return table(["method", "data", *(f"k = {k}" for k in SIZES)], rows)


def _methods(attributes: int) -> Iterator[tuple[str, dict[str, Any]]]:
    for method in dbanon.METHODS.values():
        takes_width = method.max_attributes is None or method.max_attributes >= attributes
        if takes_width and method.result_type is Partition and not method.takes_categories:
            yield method.name, {"method": method.name}
    for name in REFINED:
        yield f"{name}, refine=fast", {"method": name, "refine": "fast"}
