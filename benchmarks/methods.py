"""Every method on the three reference data sets: information loss and CPU seconds.

Needs the CASC reference data (``DBANON_DATA``), which is not part of the project.
"""

from __future__ import annotations

import time

import dbanon
from benchmarks.markdown import table
from dbanon.partitions import Partition
from tests.reference_data import data_directory, load_casc

SETS = ("tarragona", "census", "eia")
SIZES = (3, 4, 5, 10)


def run(quick: bool = False) -> str:
    """Markdown of 100 SSE/SST on z-scores, and CPU seconds for the four values of k together."""
    directory = data_directory()
    title = "# All methods: 100 SSE/SST on z-scores, before rounding to column types\n\n"
    if directory is None:
        return title + "Not measured: the reference data is not here.\n"
    rows = []
    for name in SETS[:1] if quick else SETS:
        data = load_casc(name, directory).values
        for method in dbanon.METHODS.values():
            several = method.max_attributes is None or method.max_attributes >= data.shape[1]
            if method.takes_categories or method.gives is not Partition or not several:
                continue
            started = time.process_time()
            classes = [dbanon.partition(data, k, method=method.name) for k in SIZES]
            seconds = time.process_time() - started
            losses = [f"{100 * dbanon.information_loss(data, found):.4f}" for found in classes]
            rows.append([name, method.name, *losses, seconds])
    return title + table(["data", "method", *(f"k = {k}" for k in SIZES), "CPU s"], rows)
