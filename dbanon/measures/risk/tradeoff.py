"""Loss against risk: which of several releases of a table are worth a look.

Points are pairs of a risk and a loss, both better when lower.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def bend(risks: Sequence[float], losses: Sequence[float]) -> int:
    """Where a curve of releases, in the order of their k, bends most: its place from 0.

    Both axes are scaled to 0 to 1; of all points the one farthest below the chord from the first to
    the last is taken, the first among equals. It moves with the range of k that is looked at: only
    bends over the same range compare.
    """
    return int(np.argmax(depths(risks, losses)))


def depths(risks: Sequence[float], losses: Sequence[float]) -> NDArray[np.float64]:
    """How far below the chord from the first to the last each point of a curve is, float64 (n,).

    Times the length of the chord, both axes being scaled to 0 to 1; above the chord it is negative.
    """
    axes = []
    for values in (risks, losses):
        axis = np.asarray(values, np.float64)
        width = axis.max() - axis.min()
        axes.append((axis - axis.min()) / width if width else np.zeros(len(axis)))
    x, y = axes
    chord = np.array([x[-1] - x[0], y[-1] - y[0]])
    # Below: on the side of the origin, whichever way the curve runs.
    below = (y - y[0]) * chord[0] - (x - x[0]) * chord[1]
    found: NDArray[np.float64] = np.round(below if chord[0] < 0 else -below, 12)
    return found


def frontier(risks: Sequence[float], losses: Sequence[float]) -> list[int]:
    """The places, by rising risk, of those that no other beats in one without losing in the other.

    Of several with the same risk and loss the first.
    """
    order = sorted(range(len(risks)), key=lambda at: (risks[at], losses[at], at))
    found: list[int] = []
    for at in order:
        if not found or losses[at] < losses[found[-1]]:
            found.append(at)
    return found
