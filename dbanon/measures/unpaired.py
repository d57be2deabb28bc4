"""Losses computed from the means and covariances of source and release, without pairs of rows.

Without pairs, ``sse_loss`` is 1 - v'/v for variances v before and v' after release. This is exact
if all rows are released as unrounded class means, and negative if released values vary more than
the originals. The other measures have the same values as with pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dbanon.measures import correlation_loss, covariance_loss, structure_loss
from dbanon.measures.attributes import Flags, Floats
from dbanon.measures.covariances import Moments
from dbanon.measures.figure import NO_VARIATION, Figure

# A mean below this fraction of the standard deviation is a rounding error.
_ROUNDING_TOLERANCE = 1e-15


@dataclass(frozen=True, eq=False)
class ColumnMoments:
    """Moments of p numeric columns, before or after release.

    Parameters
    ----------
    means : float64 (p,), the mean of each column.
    covariances : float64 (p, p), over rows with both values; NaN if there are fewer than two.
    varies : bool (p,), True for columns that are not constant.
    """

    means: Floats
    covariances: Floats
    varies: Flags

    @property
    def deviations(self) -> Floats:
        """Standard deviations, float64 (p,), 0 for constant columns."""
        deviations = np.sqrt(np.maximum(np.nan_to_num(np.diagonal(self.covariances)), 0.0))
        return np.asarray(np.where(self.varies, deviations, 0.0))

    @property
    def correlations(self) -> Floats:
        """Correlations, float64 (p, p), 0 for constant columns."""
        products = np.outer(self.deviations, self.deviations)
        is_defined = (products > 0) & np.isfinite(self.covariances)
        return np.divide(self.covariances, products, out=np.zeros_like(products), where=is_defined)


def unpaired_figures(
    before: ColumnMoments, after: ColumnMoments, names: list[str]
) -> dict[str, Figure]:
    """Compute the figures of one or more numeric columns; returns them by measure.

    Parameters
    ----------
    before, after : the moments of the columns in the source and in the release.
    names : the names of the p columns.
    """
    varies = before.deviations > 0
    products = np.outer(before.deviations, before.deviations)
    is_defined = (products > 0) & np.isfinite(before.covariances) & np.isfinite(after.covariances)

    def standardize(covariances: Floats) -> Floats:
        return np.divide(covariances, products, out=np.zeros_like(products), where=is_defined)

    covariances_after = standardize(
        np.where(np.outer(after.varies, after.varies), after.covariances, 0.0)
    )
    moments = Moments(
        covariances_before=standardize(before.covariances),
        covariances_after=covariances_after,
        correlations_before=before.correlations,
        correlations_after=after.correlations,
        is_defined=is_defined,
    )
    # Covariances are standardized by the source, so a diagonal entry is v'/v.
    losses = 1 - np.diagonal(covariances_after)
    change = correlation_loss.change_of_correlations(moments)
    return {
        "sse_loss": Figure(
            float(losses[varies].mean()) if varies.any() else None,
            {name: float(losses[i]) for i, name in enumerate(names) if varies[i]},
            note="" if varies.any() else NO_VARIATION,
        ),
        "moment_loss": _moment_loss(before, after, np.abs(losses[varies])),
        "structure_loss": structure_loss.figure_from_moments(moments),
        "covariance_loss": covariance_loss.figure_from_moments(moments),
        "correlation_loss": Figure(
            change, note="" if change is not None else "there is one column of numbers"
        ),
    }


def _moment_loss(before: ColumnMoments, after: ColumnMoments, variance_changes: Floats) -> Figure:
    """Compute the figure of ``moment_loss``.

    Parameters
    ----------
    variance_changes : float64 (v,), the relative changes of the variances that are not 0.
    """
    has_mean = np.abs(before.means) > _ROUNDING_TOLERANCE * before.deviations
    if not len(variance_changes):
        return Figure(None, note=NO_VARIATION)
    if not has_mean.any():
        return Figure(None, note="all means are 0")
    mean_changes = np.abs(before.means - after.means)[has_mean] / np.abs(before.means)[has_mean]
    return Figure((float(mean_changes.mean()) + float(variance_changes.mean())) / 2)
