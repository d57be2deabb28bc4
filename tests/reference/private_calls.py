"""Calls of dp_ranks that tests share, and rows with text, truths and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import dbanon
from dbanon.data.partition import Synthesis
from dbanon.extensions.synthesis.ranks import dp_ranks
from dbanon.extensions.synthesis.shares import GRID, EpsilonShares
from tests.prerequisites import require_reference
from tests.reference.data import MAGIC_FILE, load_casc, load_magic
from tests.reference.synthesis import (
    MAGIC_BOUNDS,
    Recording,
    Seeded,
    census_bounds,
    measures,
    released,
)

JOB_TREE = dbanon.Hierarchy.from_nested(
    {"*": {"work": ["nurse", "baker", "clerk"], "none": ["child", "retired"], "other": []}}
)
JOBS = ("nurse", "baker", "clerk", "child", "retired")


def synthesize(data: Any, budget: dbanon.Budget | None = None, **options: Any) -> Synthesis:
    """Rows of dp_ranks; by default at an epsilon of 5 from a large budget."""
    return dbanon.synthesize(
        data,
        method="dp_ranks",
        budget=budget or dbanon.Budget(100.0),
        **{"epsilon": 5.0, "types": types_of(data, options.get("entity")), **options},
    )


def types_of(data: Any, entity: str | None = None) -> Any:
    """The types of an array or frame, read directly: only tests may do this without noise."""
    words = {"i": "integer", "u": "integer", "f": "number", "b": "boolean", "M": "timestamp"}
    if isinstance(data, pd.DataFrame):
        kinds = {name: getattr(data[name].dtype, "kind", "O") for name in data}
        return {name: words.get(kind, "text") for name, kind in kinds.items() if name != entity}
    return words.get(data.dtype.kind, "text") if isinstance(data, np.ndarray) else None


def people(n: int = 3000, seed: int = 0) -> pd.DataFrame:
    """Rows with a job, a truth and an age."""
    rng = np.random.default_rng(seed)
    job = rng.choice(JOBS, n, p=[0.4, 0.3, 0.1, 0.1, 0.1])
    return pd.DataFrame({"job": job, "ill": rng.random(n) < 0.2, "age": rng.uniform(0, 100, n)})


def unlike_grids(p: int, n: int) -> list[NDArray[np.int64]]:
    """Tables that have nothing in common but their shape, int64 (p, n) each."""
    rng = np.random.default_rng(0)
    return [
        rng.integers(0, GRID + 1, (p, n)),
        np.zeros((p, n), np.int64),
        np.full((p, n), GRID),
        np.sort(rng.integers(0, 3, (p, n))),
    ]


def require_same_draws(divided: EpsilonShares, grids: Sequence[NDArray[np.int64]]) -> None:
    """Check that number, size and scale of draws are the same, and cost epsilon and no more."""
    rng, seen = np.random.default_rng(0), []
    for grid in grids:
        noise = Recording()
        rows = dp_ranks(grid, divided, noise, rng)
        assert 0 <= rows.min() <= rows.max() <= GRID
        seen.append(noise.drawn)
        assert divided.epsilon * (1 - 1e-9) <= noise.spent(divided) <= divided.epsilon
    assert all(answer == seen[0] for answer in seen)


def bounded_rows(name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Reference rows, (n, p), and public bounds of them, (p, 2); the test is skipped without."""
    if name == "census":
        return census_bounds(load_casc("census", require_reference("casc/census.csv")).values)
    rows = load_magic(require_reference(MAGIC_FILE)).values
    return (rows if name == "magic" else rows[:1012]), MAGIC_BOUNDS


def mean_measures(
    name: str, epsilon: float, margins: str = "ranks", draws: int = 5
) -> NDArray[np.float64]:
    """The three measures of releases of reference rows, over so many seeds."""
    values, bounds = bounded_rows(name)
    means: NDArray[np.float64] = np.mean(
        [
            measures(values, released(values, bounds, epsilon, Seeded(seed), margins), 30)
            for seed in range(draws)
        ],
        axis=0,
    )
    return means
