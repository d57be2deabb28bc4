"""Losses from the moments of source and release, without pairs of rows.

``sse_loss`` becomes 1 - v'/v, which is exact for unrounded class means of all rows, and negative if
released values vary more than the originals. The other measures are the same as with pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dbanon.measures import correlation_loss, covariance_loss, structure_loss
from dbanon.measures.attributes import Flags, Floats
from dbanon.measures.covariances import Moments
from dbanon.measures.figure import NO_VARIATION, Figure

# A smaller mean, relative to the deviation, is rounding error.
_ROUNDING = 1e-15


@dataclass(frozen=True, eq=False)
class ColumnMoments:
    """Moments of p numeric columns, before or after release.

    Parameters
    ----------
    means : float64 (p,).
    covariances : float64 (p, p), over rows with both values; NaN for fewer than two.
    varies : bool (p,).
    """

    means: Floats
    covariances: Floats
    varies: Flags

    @property
    def deviations(self) -> Floats:
        """float64 (p,), 0 for constant columns."""
        deviations = np.sqrt(np.maximum(np.nan_to_num(np.diagonal(self.covariances)), 0.0))
        return np.asarray(np.where(self.varies, deviations, 0.0))

    @property
    def correlations(self) -> Floats:
        """float64 (p, p), 0 for constant columns."""
        width = np.outer(self.deviations, self.deviations)
        is_defined = (width > 0) & np.isfinite(self.covariances)
        return np.divide(self.covariances, width, out=np.zeros_like(width), where=is_defined)


def unpaired_figures(
    before: ColumnMoments, after: ColumnMoments, names: list[str]
) -> dict[str, Figure]:
    """The figures of one or more numeric columns, by measure."""
    spread = before.deviations
    varied = spread > 0
    width = np.outer(spread, spread)
    is_defined = (width > 0) & np.isfinite(before.covariances) & np.isfinite(after.covariances)

    def scaled(covariances: Floats) -> Floats:
        return np.divide(covariances, width, out=np.zeros_like(width), where=is_defined)

    remaining = scaled(np.where(np.outer(after.varies, after.varies), after.covariances, 0.0))
    moments = Moments(
        scaled(before.covariances), remaining, before.correlations, after.correlations, is_defined
    )
    losses = 1 - np.diagonal(remaining)
    change = correlation_loss.change_of_correlations(moments)
    return {
        "sse_loss": Figure(
            float(losses[varied].mean()) if varied.any() else None,
            {name: float(losses[i]) for i, name in enumerate(names) if varied[i]},
            note="" if varied.any() else NO_VARIATION,
        ),
        "moment_loss": _moment_loss(before, after, np.abs(losses[varied])),
        "structure_loss": structure_loss.figure_from_moments(moments),
        "covariance_loss": covariance_loss.figure_from_moments(moments),
        "correlation_loss": Figure(
            change, note="" if change is not None else "there is one column of numbers"
        ),
    }


def _moment_loss(before: ColumnMoments, after: ColumnMoments, variances: Floats) -> Figure:
    has_mean = np.abs(before.means) > _ROUNDING * before.deviations
    if not len(variances):
        return Figure(None, note=NO_VARIATION)
    if not has_mean.any():
        return Figure(None, note="all means are 0")
    means = np.abs(before.means - after.means)[has_mean] / np.abs(before.means)[has_mean]
    return Figure((float(means.mean()) + float(variances.mean())) / 2)
