"""``refine=thorough`` after MDAV on the three reference data sets, over five seeds."""

from __future__ import annotations

import statistics

from benchmarks.markdown import table
from benchmarks.methods import SIZES, reference, timed

TITLE = """# mdav, refine=thorough, measured

100 SSE/SST on z-scores, before rounding to column types, and CPU seconds in brackets, at the
default budget; one row for each seed, then the median, and how much more than it the worst seed
loses. Made by `python -m benchmarks thorough`, which `make bench` leaves out because it takes some
twenty-five minutes.

"""
SEEDS = (0, 1, 2, 3, 4)


def run(quick: bool = False) -> str:
    """Measure loss and CPU seconds; return Markdown."""
    rows: list[list[object]] = []
    for name, data in reference(quick):
        cells: dict[int, list[tuple[float, float]]] = {k: [] for k in SIZES}
        for seed in SEEDS[:1] if quick else SEEDS:
            for k in SIZES:
                cells[k].append(timed(data, k, method="mdav", refine="thorough", seed=seed))
            cells_of_seed = [f"{cells[k][-1][0]:.4f} ({cells[k][-1][1]:.2g})" for k in SIZES]
            rows.append([name, f"seed {seed}", *cells_of_seed])
            print(*rows[-1], flush=True)
        losses = {k: [loss for loss, _ in cells[k]] for k in SIZES}
        medians = {k: statistics.median(losses[k]) for k in SIZES}
        rows.append([name, "median", *(f"{medians[k]:.4f}" for k in SIZES)])
        worst = [f"{100 * (max(losses[k]) / medians[k] - 1):.2f} %" for k in SIZES]
        rows.append([name, "worst", *worst])
    return TITLE + table(["data", "", *(f"k = {k}" for k in SIZES)], rows)
