"""Differential privacy: redraw figure 1 of Liu and Li (2016), and compare mechanisms.

Needs the reference data (``DBANON_DATA``), which is not part of the project.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.markdown import NotMeasuredError, table
from benchmarks.synthesis_summary import RESULTS, summarize
from dbanon.errors import PrivacyRefusal
from dbanon.extensions.synthesis.dcmdp import cluster_with_dbscan, compute_centroids, dcmdp
from dbanon.extensions.synthesis.noise import OpenDpNoise
from dbanon.job.synthesis import ALGORITHM, QUANTILES
from tests.reference.data import data_directory, load_casc, load_magic
from tests.reference.synthesis import (
    EPSILONS,
    MAGIC_BOUNDS,
    census_bounds,
    insensitive_microaggregation,
    measures,
    released,
    score,
)

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
CROSSOVER_NOTE = """
The crossover at k = sqrt(n), some 32, is there with the noise of section 4.2.1 alone, and by
arithmetic: n / k^2 is 1 there. The noise of algorithm 2 is below plain Laplace from k = 2 on. At
epsilon = 10 neither goes below it: clustering into the overall mean alone, as from k = 64 on, loses
{clustering:.3g}. There what the curve gains is the loss of all information.
"""
MECHANISMS = """
## Mechanisms side by side

Sliced W2^2 over variance / mean difference of correlations / mean error of 300 range counts on two
columns that hold 40 % each, as a share of the rows; means of 9 draws. 0 0 0 is the table itself.
All have the one epsilon for the row: noise is split over columns and results are clipped to bounds.
MAGIC has ten columns with the bounds of what the telescope can see, Census thirteen with 0 to the
maximum rounded up to one digit (of the data: good for measuring only). Insensitive
microaggregation (Soria-Comas et al. 2014) has the k of 8, 32, 128, 512 and 2048 that loses least by
the first figure, chosen with the data, which is itself not private. DCMDP has k near sqrt(n).

"""
SPEED = """
## Seconds

Normal data, CPU seconds, and MiB by which the peak of memory rose above that of making the data,
each in a process of its own: DBSCAN's labels of 1,000,000 records of 4 columns from 0 to 1 (k = 10,
two radii), all of `dcm` with its repair, and `dp_ranks` of 1,000,000 rows of 10 columns.

"""
QUICK = "\nSeconds: not measured by --quick.\n"


def run(quick: bool = False) -> str:
    """Measure all tables; return Markdown. A full run also draws figure 1."""
    directory = data_directory()
    if directory is None:
        raise NotMeasuredError
    magic = load_magic(directory).values
    tables = {
        "MAGIC 1,012": (magic[:1012], MAGIC_BOUNDS),
        "MAGIC 19,020": (magic, MAGIC_BOUNDS),
        "Census 1,080": census_bounds(load_casc("census", directory).values),
    }
    text = TITLE + _figure_1(magic[:1012], quick) + _mechanisms(tables, quick)
    text += summarize(RESULTS.read_text(encoding="utf-8"))
    return text + (QUICK if quick else _speed())


def _figure_1(values: NDArray[np.float64], quick: bool) -> str:
    scores = {
        (k, epsilon, reading): score(values, k, epsilon, reading, DRAWS)
        for k in (SIZES[:2] if quick else SIZES)
        for epsilon in EPSILONS
        for reading in READINGS
    }
    rows = [
        [k, *(" / ".join(f"{scores[k, epsilon, r]:.2e}" for r in READINGS) for epsilon in EPSILONS)]
        for k in dict.fromkeys(k for k, _, _ in scores)
    ]
    text = table(["k", *(f"epsilon = {epsilon:g}" for epsilon in EPSILONS)], rows)
    spread = values.max(axis=0) - values.min(axis=0)
    released_centroids = compute_centroids(values, cluster_with_dbscan(values, 64, 0.2))
    clustering_loss = np.square((released_centroids - values) / spread).sum()
    text += CROSSOVER_NOTE.format(clustering=clustering_loss / (values.size * 2 / 0.01**2))
    if not quick:
        _draw(lambda k, epsilon, reading: scores[k, epsilon, reading])
        text += "\n![SCORE by k](figures/dcmdp-score.svg)\n"
    return text


def _draw(score_of: Callable[[int, float, str], float]) -> None:
    from benchmarks import figures

    panels = {}
    for reading, title in READINGS.items():
        curves = {}
        for epsilon in EPSILONS:
            score_at = partial(score_of, epsilon=epsilon, reading=reading)
            curves[f"DCMDP, {epsilon:g}"] = (SIZES, [score_at(k) for k in SIZES])
        for epsilon in EPSILONS:
            curves[f"Laplace, {epsilon:g}"] = (SIZES, [(0.01 / epsilon) ** 2] * len(SIZES))
        panels[title] = curves
    figures.draw(FIGURES / "dcmdp-score.svg", panels, "k", "SCORE")


Table = tuple[NDArray[np.float64], NDArray[np.float64]]


def _mechanisms(tables: Mapping[str, Table], quick: bool) -> str:
    noise = OpenDpNoise()
    rng = np.random.default_rng(0)
    mechanisms: dict[str, tuple[str, Callable[[Table, float], NDArray[np.float64]]]] = {
        "Laplace on every value": ("yes", lambda t, e: _laplace(t, e, rng)),
        "DCMDP, noise of algorithm 2": ("**no**", lambda t, e: _dcmdp(t, e, rng)),
        "insensitive microaggregation": ("yes", lambda t, e: _insensitive(t, e, rng)),
        "`dp_ranks`": ("yes", lambda t, e: released(*t, e, noise)),
        "`dp_ranks`, margins=quantiles": ("yes", lambda t, e: released(*t, e, noise, QUANTILES)),
    }
    text = MECHANISMS
    for name, data in tables.items():
        rows = [
            [
                mechanism,
                private,
                *(_figures(data, partial(make_rows, data, e)) for e in (0.1, 1, 10)),
            ]
            for mechanism, (private, make_rows) in mechanisms.items()
        ]
        mean = partial(np.tile, data[0].mean(axis=0), (len(data[0]), 1))
        rows.append(["overall mean only", "", *[_figures(data, mean, 1)] * 3])
        permuted = partial(rng.permuted, data[0], axis=0)
        rows.append(["true columns, shuffled apart", "no", *[_figures(data, permuted, 1)] * 3])
        header = [name, "private", *(f"epsilon = {epsilon}" for epsilon in (0.1, 1, 10))]
        text += table(header, rows) + "\n"
        if quick:
            break
    return text


def _figures(original: Table, make_rows: Callable[[], NDArray[np.float64]], draws: int = 9) -> str:
    try:
        figures = np.mean(
            [measures(original[0], make_rows(), directions=50) for _ in range(draws)], axis=0
        )
    except PrivacyRefusal:
        return "refused"
    return " / ".join(f"{figure:.3g}" for figure in figures)


def _laplace(table: Table, epsilon: float, rng: np.random.Generator) -> NDArray[np.float64]:
    values, bounds = table
    low, high = bounds.T
    noise = rng.laplace(size=values.shape) * (high - low) * len(low) / epsilon
    return (values.clip(low, high) + noise).clip(low, high)


def _dcmdp(table: Table, epsilon: float, rng: np.random.Generator) -> NDArray[np.float64]:
    values, bounds = table
    k = round(len(values) ** 0.5)
    share = epsilon / len(bounds)
    rows = dcmdp(values, k, share, radius=0.2, reading=ALGORITHM, rng=rng)
    return rows.clip(*bounds.T)


def _insensitive(table: Table, epsilon: float, rng: np.random.Generator) -> NDArray[np.float64]:
    values, (low, high) = table[0], table[1].T
    unit = (values.clip(low, high) - low) / (high - low)
    candidates = []
    for k in (8, 32, 128, 512, 2048):
        if k > len(values) // 2:
            continue
        share = len(values) // k / k
        centres = insensitive_microaggregation(unit, k, share, 1 / epsilon, rng).clip(0, 1)
        sizes = [len(part) for part in np.array_split(np.arange(len(values)), len(centres))]
        candidates.append(low + np.repeat(centres, sizes, axis=0) * (high - low))
    return min(candidates, key=lambda rows: measures(values, rows, directions=20)[0])


_DP_RANKS = (
    "import dbanon; dbanon.synthesize(data, method='dp_ranks', epsilon=1.0, margins='{margins}',"
    " types='number',"
    " bounds=dict.fromkeys(['column %d' % j for j in range(10)], (0, 1)),"
    " budget=dbanon.Budget(1.0))"
)
_TIMED = {
    "DBSCAN of dcm, r = {r}": (
        "from dbanon.kernels import Dbscan; kernel = Dbscan(data, 10, {r})\n"
        "while not kernel.step(): pass"
    ),
    "all of dcm, r = {r}": "import dbanon; dbanon.partition(data, 10, method='dcm', radius={r})",
    "DBSCAN of scikit-learn, r = {r}": (
        "from sklearn.cluster import DBSCAN; DBSCAN(eps={r}, min_samples=10).fit(data)"
    ),
    "dp_ranks": _DP_RANKS.format(margins="ranks"),
    "dp_ranks, margins=quantiles": _DP_RANKS.format(margins="quantiles"),
}
_MEASURED = """
import resource, time
import numpy as np
data = np.random.default_rng(1).normal(size=(1_000_000, {p}))
data -= data.min(axis=0)
data /= data.max(axis=0)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
started = time.process_time()
{code}
seconds = time.process_time() - started
print(seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


def _speed() -> str:
    rows: list[list[object]] = []
    for name, code in _TIMED.items():
        for r in (0.01, 0.02) if "{r}" in name else (0,):
            script = _MEASURED.format(p=4 if r else 10, code=code.format(r=r))
            process = subprocess.run(
                [sys.executable, "-c", script], capture_output=True, text=True, check=True
            )
            rows.append([name.format(r=r), *(float(figure) for figure in process.stdout.split())])
    return SPEED + table(["", "CPU s", "MiB"], rows)
