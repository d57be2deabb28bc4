"""Losses that follow from source and release alone: from their moments, without pairs of rows.

``sse_loss`` is 1 - v'/v then, exact for class means of all rows before rounding, and less than 0
where values spread more than the originals. The others are what they are with pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dbanon.measures import correlation_loss, covariance_loss, structure_loss
from dbanon.measures.attributes import Flags, Floats
from dbanon.measures.covariances import Moments
from dbanon.measures.figure import NO_VARIATION, Figure

# A mean below so much of the deviation is 0 but for rounding.
_ROUNDING = 1e-15


@dataclass(frozen=True, eq=False)
class Side:
    """p columns of numbers, before or after.

    Parameters
    ----------
    means : float64 (p,).
    covariances : float64 (p, p), of the rows that hold both; NaN where fewer than two do.
    varies : bool (p,).
    """

    means: Floats
    covariances: Floats
    varies: Flags

    @property
    def deviations(self) -> Floats:
        """float64 (p,), 0 where a column does not vary."""
        found = np.sqrt(np.maximum(np.nan_to_num(np.diagonal(self.covariances)), 0.0))
        return np.asarray(np.where(self.varies, found, 0.0))

    @property
    def correlations(self) -> Floats:
        """float64 (p, p), 0 with a column that does not vary."""
        width = np.outer(self.deviations, self.deviations)
        known = (width > 0) & np.isfinite(self.covariances)
        return np.divide(self.covariances, width, out=np.zeros_like(width), where=known)


def unpaired_figures(before: Side, after: Side, names: list[str]) -> dict[str, Figure]:
    """The figures of columns of numbers, at least one, by measure."""
    spread = before.deviations
    first = spread > 0
    width = np.outer(spread, spread)
    known = (width > 0) & np.isfinite(before.covariances) & np.isfinite(after.covariances)

    def scaled(covariances: Floats) -> Floats:
        return np.divide(covariances, width, out=np.zeros_like(width), where=known)

    left = scaled(np.where(np.outer(after.varies, after.varies), after.covariances, 0.0))
    moments = Moments(
        scaled(before.covariances), left, before.correlations, after.correlations, known
    )
    lost = 1 - np.diagonal(left)
    change = correlation_loss.change_of_correlations(moments)
    return {
        "sse_loss": Figure(
            float(lost[first].mean()) if first.any() else None,
            {name: float(lost[i]) for i, name in enumerate(names) if first[i]},
            note="" if first.any() else NO_VARIATION,
        ),
        "moment_loss": _moment_loss(before, after, np.abs(lost[first])),
        "structure_loss": structure_loss.of_moments(moments),
        "covariance_loss": covariance_loss.of_moments(moments),
        "correlation_loss": Figure(
            change, note="" if change is not None else "there is one column of numbers"
        ),
    }


def _moment_loss(before: Side, after: Side, variances: Floats) -> Figure:
    there = np.abs(before.means) > _ROUNDING * before.deviations
    if not len(variances):
        return Figure(None, note=NO_VARIATION)
    if not there.any():
        return Figure(None, note="all means are 0")
    means = np.abs(before.means - after.means)[there] / np.abs(before.means)[there]
    return Figure((float(means.mean()) + float(variances.mean())) / 2)
