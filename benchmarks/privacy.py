"""Differential privacy: figure 1 of Liu and Li (2016) drawn anew, and mechanisms side by side.

Needs the reference data (``DBANON_DATA``), which is not part of the project.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.markdown import NotMeasuredError, table
from dbanon.synthesis.dcmdp import centroids, dense
from tests.reference.data import data_directory, load_magic
from tests.reference.synthesis import EPSILONS, score

FIGURES = Path(__file__).resolve().parents[1] / "docs" / "figures"
SIZES = (2, 4, 8, 16, 24, 32, 40, 64, 100)
READINGS = {"algorithm": "noise of algorithm 2", "section_4": "noise of section 4.2.1"}
DRAWS = 5
TITLE = """# Differential privacy, measured

Made by `python -m benchmarks privacy`, part of `make bench`. What it means:
[differential privacy](differential-privacy.md).

## Figure 1 of Liu and Li

SCORE: SSE over that of Laplace noise at epsilon = .01, mean of 5 draws; the first 1,012 records of
MAGIC, r = 0.2, no clipping. Plain Laplace noise scores 1, 1e-2, 1e-4 and 1e-6 at these epsilons. Of
two readings: the noise of algorithm 2 / of section 4.2.1.

"""
NOT = """
The crossover at k = sqrt(n), some 32, is there with the noise of section 4.2.1 alone, and by
arithmetic: n / k^2 is 1 there. The noise of algorithm 2 is below plain Laplace from k = 2 on. At
epsilon = 10 neither goes below it: clustering into the overall mean alone, as from k = 64 on, loses
{clustering:.3g}. There what the curve gains is the loss of all information.
"""


def run(quick: bool = False) -> str:
    """Markdown of all tables; a whole run draws figure 1, too."""
    directory = data_directory()
    if directory is None:
        raise NotMeasuredError
    magic = load_magic(directory).values
    return TITLE + _figure_1(magic[:1012], quick)


def _figure_1(values: NDArray[np.float64], quick: bool) -> str:
    found = {
        (k, epsilon, reading): score(values, k, epsilon, reading, DRAWS)
        for k in (SIZES[:2] if quick else SIZES)
        for epsilon in EPSILONS
        for reading in READINGS
    }
    rows = [
        [k, *(" / ".join(f"{found[k, epsilon, r]:.2e}" for r in READINGS) for epsilon in EPSILONS)]
        for k in dict.fromkeys(k for k, _, _ in found)
    ]
    text = table(["k", *(f"epsilon = {epsilon:g}" for epsilon in EPSILONS)], rows)
    spread = values.max(axis=0) - values.min(axis=0)
    lost = np.square((centroids(values, dense(values, 64, 0.2)) - values) / spread).sum()
    text += NOT.format(clustering=lost / (values.size * 2 / 0.01**2))
    if not quick:
        _draw(lambda k, epsilon, reading: found[k, epsilon, reading])
        text += "\n![SCORE by k](figures/dcmdp-score.svg)\n"
    return text


def _draw(found: Callable[[int, float, str], float]) -> None:
    from benchmarks import figures

    panels = {}
    for reading, title in READINGS.items():
        curves = {}
        for epsilon in EPSILONS:
            at = partial(found, epsilon=epsilon, reading=reading)
            curves[f"DCMDP, {epsilon:g}"] = (SIZES, [at(k) for k in SIZES])
        for epsilon in EPSILONS:
            curves[f"Laplace, {epsilon:g}"] = (SIZES, [(0.01 / epsilon) ** 2] * len(SIZES))
        panels[title] = curves
    figures.draw(FIGURES / "dcmdp-score.svg", panels, "k", "SCORE")
