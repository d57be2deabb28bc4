"""Microaggregation as a clusterer: classes of at least k records, by any method for numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import validate_data

from dbanon.data.option import make
from dbanon.doors.arrays import partition
from dbanon.errors import InvalidParameter
from dbanon.job.policy import Policy
from dbanon.methods import find_method

if TYPE_CHECKING:
    from typing import Self

    from numpy.typing import ArrayLike, NDArray

    from dbanon.job.options import RowMethod

# Of ``check_estimator``: what classes of k records cannot be, and why.
EXPECTED_FAILED_CHECKS = {
    "check_clustering": "asks that 50 points of three blobs become about three clusters; classes"
    " are as small as k lets them be, here ten of five",
}


class Microaggregation(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Put records into classes of at least k, as ``dbanon.partition`` does.

    There is no ``predict`` and no ``transform``: k holds of the records that were fitted, and of
    no record that comes later. What is fitted is labels and centroids, and no release: nothing is
    counted again, and columns left out of ``X`` are not looked at. For releases there is
    ``dbanon.anonymize_frame``.

    Parameters
    ----------
    k : smallest number of records in a class, 2 or more.
    method : a method for numbers whose classes are of rows; see ``dbanon methods``.
    refine : ``pass``, ``fast`` or ``thorough``: search for classes of less loss after the method.

    Attributes
    ----------
    labels_ : int32 (n,), the class of each record, from 0.
    centroids_ : float64 (classes, p), the mean of each class, in the units of ``X``.
    n_features_in_, feature_names_in_ : p, and the columns' names where ``X`` has them.

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
        """Find the classes of the records ``X``, (n, p) finite numbers; ``y`` is not looked at.

        Columns are compared by z-scores.

        Raises
        ------
        ValueError : there are fewer than k records, or a value that is no finite number, as
            scikit-learn has it.
        InvalidParameter, UnknownMethod : a parameter is not as it must be.
        """
        policy = make(Policy, {"k": self.k, "method": self._method(), "refine": self.refine})
        points = validate_data(self, X, dtype=np.float64, ensure_min_samples=policy.k)
        found = partition(points, policy.k, method=self.method, refine=self.refine)
        self.labels_: NDArray[np.int32] = np.array(found.labels)
        sums = np.add.reduceat(points[found.members], found.starts, axis=0)
        self.centroids_: NDArray[np.float64] = sums / found.sizes[:, None]
        return self

    def _method(self) -> str:
        """The method; raises InvalidParameter where its classes are those of each column."""
        if not find_method(self.method).gives.of_rows:
            raise InvalidParameter(
                f"Method {self.method} groups each attribute by itself: a row has no class then.",
                hint='Choose a method that makes classes of rows: `method="mdav"`.',
            )
        return self.method
