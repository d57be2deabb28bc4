"""``refine=thorough`` after MDAV on the three reference data sets, over five seeds."""

from __future__ import annotations

import statistics
import time

import dbanon
from benchmarks.markdown import NotMeasuredError, table
from benchmarks.methods import SETS, SIZES
from tests.reference.data import data_directory, load_casc

TITLE = """# mdav, refine=thorough, measured

100 SSE/SST on z-scores, before rounding to column types, and CPU seconds in brackets, at the
default budget; one row for each seed, then the median, and how much more than it the worst seed
loses. Made by `python -m benchmarks thorough`, which `make bench` leaves out because it takes some
twenty-five minutes.

"""
SEEDS = (0, 1, 2, 3, 4)


def run(quick: bool = False) -> str:
    """Markdown of loss and CPU seconds."""
    directory = data_directory()
    if directory is None:
        raise NotMeasuredError
    rows: list[list[object]] = []
    for name in SETS[:1] if quick else SETS:
        data = load_casc(name, directory).values
        cells: dict[int, list[tuple[float, float]]] = {k: [] for k in SIZES}
        for seed in SEEDS[:1] if quick else SEEDS:
            for k in SIZES:
                started = time.process_time()
                found = dbanon.partition(data, k, method="mdav", refine="thorough", seed=seed)
                seconds = time.process_time() - started
                cells[k].append((100 * dbanon.information_loss(data, found), seconds))
            told = [f"{cells[k][-1][0]:.4f} ({cells[k][-1][1]:.2g})" for k in SIZES]
            rows.append([name, f"seed {seed}", *told])
            print(*rows[-1], flush=True)
        losses = {k: [loss for loss, _ in cells[k]] for k in SIZES}
        medians = {k: statistics.median(losses[k]) for k in SIZES}
        rows.append([name, "median", *(f"{medians[k]:.4f}" for k in SIZES)])
        worst = [f"{100 * (max(losses[k]) / medians[k] - 1):.2f} %" for k in SIZES]
        rows.append([name, "worst", *worst])
    return TITLE + table(["data", "", *(f"k = {k}" for k in SIZES)], rows)
