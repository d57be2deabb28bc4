"""A reader who tries to recover the most extreme original from a release and its figures.

The reader has the released rows and all printed figures, and knows how figures are computed. They
consider possible originals: in the class with the largest released value, one record has value
``t``, the other members share the remainder, and all other records have their released value. From
each figure they solve for ``t``. For intervals he solves
n loss = sum of min(1, width / R) for the range R.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.partition import Partition
from dbanon.data.scales import Scale
from dbanon.measures.attributes import Numbers
from dbanon.measures.pairs import Pairs
from dbanon.release.evaluation import evaluation_of
from dbanon.release.publication import PublicSums, compute_public_sums

Floats = NDArray[np.float64]


def flat(figures: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """All numbers of nested figures, by their path."""
    numbers: dict[str, float] = {}
    for name, value in figures.items():
        path = f"{prefix}.{name}" if prefix else name
        if isinstance(value, Mapping):
            numbers |= flat(value, path)
        elif isinstance(value, float | int) and not isinstance(value, bool):
            numbers[path] = float(value)
    return numbers


def world(released: Floats, top: float) -> Pairs:
    """The pairs in which one record of the highest class has ``top``."""
    values, labels = np.unique(released, return_inverse=True)
    labels = labels.reshape(-1).astype(np.int32)
    original = released.astype(np.float64).copy()
    members = np.flatnonzero(labels == len(values) - 1)
    others = (len(members) * values[-1] - top) / max(len(members) - 1, 1)
    original[members] = others
    original[members[0]] = top
    column = Numbers(
        name="income", original=original, scale=Scale.of(original), released=values.astype(float)
    )
    return Pairs((column,), Partition(labels))


def range_of_rows(released: Floats) -> tuple[float, float]:
    """Between what the rows alone allow the largest original to be: companions are no lower than
    the class below."""
    values, counts = np.unique(released, return_counts=True)
    m, below = int(counts[-1]), values[-2] if len(values) > 1 else values[-1]
    return float(values[-1]), float(m * values[-1] - (m - 1) * below)


def figures_of(pairs: Pairs) -> dict[str, float]:
    """The exact figures of a world."""
    return flat(evaluation_of(pairs).to_dict())


def solve(
    published: Mapping[str, float],
    released: Floats,
    figures: Callable[[Pairs], Mapping[str, float]] = figures_of,
    points: int = 60,
) -> dict[str, tuple[float, float]]:
    """By figure, the smallest and largest ``t`` that is consistent with it.

    Parameters

    ----------

    published : the printed figures, by path.

    figures : the figures that a world would print.
    """
    low, high = range_of_rows(released)
    grid = np.linspace(low, high, points)
    curves: dict[str, list[float]] = {}
    for top in grid:
        for name, value in figures(world(released, float(top))).items():
            curves.setdefault(name, []).append(value)
    answers: dict[str, tuple[float, float]] = {}
    for name, values in curves.items():
        if name not in published or len(values) != points:
            continue
        curve = np.array(values) - published[name]
        if np.ptp(curve) == 0:
            # It says nothing of t, whatever it is.
            continue
        fits = np.abs(curve) <= 1e-9 * max(abs(published[name]), 1e-3)
        roots = list(grid[fits])
        for i in np.flatnonzero(np.sign(curve[:-1]) * np.sign(curve[1:]) < 0):
            share = curve[i] / (curve[i] - curve[i + 1])
            roots.append(grid[i] + share * (grid[i + 1] - grid[i]))
        if roots:
            answers[name] = (float(min(roots)), float(max(roots)))
    return answers


def top_by_deviations(
    released: Floats, sse: float, deviation: float, direct: float
) -> float | None:
    """The largest original by three figures of a column: deviation and direct give the range."""
    n, mean = len(released), released.mean()
    between = float(np.square(released - mean).sum())
    if not (0 < sse < 1 and deviation > 0 and direct > 0):
        return None
    spread = np.sqrt(between / (1 - sse) / (n - 1))
    moved = deviation * np.sqrt(2) * spread * n
    width = moved / (n * direct)
    return float(released.min() + width)


def top_by_squares(released: Floats, sse: float) -> float | None:
    """The largest original where its class loses nearly all that is lost."""
    if not 0 < sse < 1:
        return None
    values, counts = np.unique(released, return_counts=True)
    between = float(np.square(released - released.mean()).sum())
    m = int(counts[-1])
    return float(values[-1] + np.sqrt((m - 1) / m * between * sse / (1 - sse)))


def width_by_labels(low: Floats, high: Floats, loss: float, unit: float = 1.0) -> float | None:
    """The range R of the originals: mean of min(1, (high - low - unit) / R) is the loss."""
    widths = np.maximum(high - low - unit, 0.0)
    if not (widths > 0).any() or not 0 < loss < 1:
        return None
    least, most = 1e-9, float(widths.max()) * 1e9
    for _ in range(400):
        middle = np.sqrt(least * most)
        if np.minimum(widths / middle, 1.0).mean() > loss:
            least = middle
        else:
            most = middle
    return float(np.sqrt(least * most))


def squares_of(pairs: Pairs) -> PublicSums:
    """The parts of the published loss of a world's column."""
    [column] = pairs.columns
    assert isinstance(column, Numbers)
    return compute_public_sums(
        column.original,
        column.released,
        0,
        pairs.partition,
        None,
        squared=True,
        has_classes_per_column=False,
    )
