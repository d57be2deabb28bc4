"""Microaggregation as a scikit-learn clusterer, with any of dbanon's numeric methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import validate_data

from dbanon.data.option import build_options
from dbanon.doors.arrays import partition
from dbanon.errors import InvalidParameter
from dbanon.job.policy import Policy
from dbanon.methods import find_method

if TYPE_CHECKING:
    from typing import Self

    from numpy.typing import ArrayLike, NDArray

    from dbanon.job.options import RowMethod

# Checks of scikit-learn's ``check_estimator`` that microaggregation cannot pass, with the reason.
EXPECTED_FAILED_CHECKS = {
    "check_clustering": "expects about three clusters for 50 points in three blobs; with k = 5"
    " there are ten classes of five",
}


class Microaggregation(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Group records into classes of at least k, as ``dbanon.partition`` does.

    There is no ``predict`` and no ``transform``: k holds for the fitted records only. The estimator
    computes labels and centroids; it does not release data, recount classes or check columns
    outside ``X``. Use ``dbanon.anonymize_frame`` for releases.

    Parameters
    ----------
    k : smallest number of records in a class, 2 or more.
    method : a numeric method that groups rows; ``dbanon methods`` lists them.
    refine : ``pass``, ``fast`` or ``thorough``: search for a lower loss after the method.

    Attributes
    ----------
    labels_ : int32 (n,), the class of each record, from 0.
    centroids_ : float64 (classes, p), the mean of each class, in the units of ``X``.
    n_features_in_, feature_names_in_ : p, and the column names if ``X`` has them.

    Source: J. Domingo-Ferrer and J. M. Mateo-Sanz, "Practical data-oriented microaggregation for
    statistical disclosure control", IEEE TKDE 14 (2002).
    """

    def __init__(
        self,
        k: int = 5,
        *,
        method: RowMethod = "mdav",
        refine: Literal["pass", "fast", "thorough"] | None = None,
    ) -> None:
        self.k = k
        self.method = method
        self.refine = refine

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Compute the classes of the records.

        Columns are compared by z-scores.

        Parameters
        ----------
        X : (n, p), finite numbers.
        y : ignored.

        Raises
        ------
        ValueError : ``X`` has fewer than k records or a non-finite value (raised by scikit-learn).
        InvalidParameter, UnknownMethod : a parameter is invalid.
        """
        policy = build_options(
            Policy, {"k": self.k, "method": self._require_row_method(), "refine": self.refine}
        )
        points = validate_data(self, X, dtype=np.float64, ensure_min_samples=policy.k)
        classes = partition(points, policy.k, method=self.method, refine=self.refine)
        self.labels_: NDArray[np.int32] = np.array(classes.labels)
        # ``members`` lists the records class by class; ``starts`` has each class's first index.
        sums = np.add.reduceat(points[classes.members], classes.starts, axis=0)
        self.centroids_: NDArray[np.float64] = sums / classes.sizes[:, None]
        return self

    def _require_row_method(self) -> str:
        """Return the method's name; raises InvalidParameter if it groups each column separately."""
        if not find_method(self.method).result_type.has_row_classes:
            raise InvalidParameter(
                f"Method {self.method} groups each attribute by itself, so a row has no class.",
                hint='Choose a method that makes classes of rows: `method="mdav"`.',
            )
        return self.method
