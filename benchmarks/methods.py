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
# Refined as well: a method of fixed classes, of cut paths, of trees and of hierarchies.
REFINED = ("mdav", "cbfs_mhm", "mst_diameter", "kward")
TITLE = """# All methods, measured

100 SSE/SST on z-scores, before rounding to column types, and CPU seconds in brackets; all options
at their defaults, seed 0. Tarragona has 834 records of 13 attributes, Census 1080 of 13, EIA 4092
of 11. Made by `python -m benchmarks methods`, part of `make bench`.

"""


def run(quick: bool = False) -> str:
    """Markdown of loss and CPU seconds; one row for each method and data set."""
    return TITLE + measured(_methods, quick)


def reference(quick: bool) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """The data sets by name; the first alone where it shall be quick."""
    directory = data_directory()
    if directory is None:
        raise NotMeasuredError
    for name in SETS[:1] if quick else SETS:
        yield name, load_casc(name, directory).values


def timed(data: NDArray[np.float64], k: int, **arguments: Any) -> tuple[float, float]:
    """100 SSE/SST of a partition, and its CPU seconds."""
    started = time.process_time()
    found = dbanon.partition(data, k, **arguments)
    seconds = time.process_time() - started
    return 100 * dbanon.information_loss(data, found), seconds


def measured(methods: Any, quick: bool) -> str:
    """A table of what ``methods`` yields for a number of attributes: names and arguments."""
    rows = []
    for name, data in reference(quick):
        for label, arguments in methods(data.shape[1]):
            cells = []
            for k in SIZES:
                loss, seconds = timed(data, k, **arguments)
                cells.append(f"{loss:.4f} ({seconds:.2g})")
            rows.append([label, name, *cells])
    # The rows of a method together; the sort is stable.
    order = [row[0] for row in rows]
    rows.sort(key=lambda row: order.index(row[0]))
    return table(["method", "data", *(f"k = {k}" for k in SIZES)], rows)


def _methods(attributes: int) -> Iterator[tuple[str, dict[str, Any]]]:
    for method in dbanon.METHODS.values():
        takes = method.max_attributes is None or method.max_attributes >= attributes
        if takes and method.gives is Partition and not method.takes_categories:
            yield method.name, {"method": method.name}
    for name in REFINED:
        yield f"{name}, refine=fast", {"method": name, "refine": "fast"}
