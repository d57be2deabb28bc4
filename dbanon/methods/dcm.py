"""DCM, the density-based clustering mechanism: classes of DBSCAN, repaired to hold k records.

A record is a core record if k records, including itself, lie within ``radius``. The first core
record without a class starts the next class. A class takes all records that lie within the radius
of its core records and are not in an earlier class. Records in no class are noise. (The labels
equal those of DBSCAN in scikit-learn, which the source uses.)

The published method is not k-anonymous. It applies k to neighbourhoods, so a class that lost border
records to an earlier class may hold fewer than k records, and fewer than k noise records may share
the overall mean. dbanon repairs this: records of classes below k become noise. If there are k or
more noise records, they form a class; otherwise each is added to the class with the nearest
centroid, without updating centroids. The source releases noise with the overall mean of the table;
here noise is a class like any other, whose centroid loses less.

The source gives no radius and does not say how attributes are scaled. Here ``radius`` refers to
standardized attributes, which are scaled by their ranges by default.

Source: X. Liu and Q. Li, "Differentially private data release based on clustering anonymization"
(in Chinese), 2016; DBSCAN: M. Ester, H.-P. Kriegel, J. Sander and X. Xu, KDD 1996.
Classes: k or more, without a bound; in many dimensions often one class of most records.
Cost: O(n^2) at worst, about O(n log n) for few attributes and a small radius; memory O(n p).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dbanon.data.option import Option, Parameter
from dbanon.data.partition import Partition
from dbanon.kernels import Dbscan
from dbanon.methods.registry import ROW_GUARANTEE, Method, Tick, drive
from dbanon.spaces.numeric import Space


def dcm(space: Space, k: int, *, tick: Tick, rng: np.random.Generator, radius: float) -> Partition:
    """Partition the points of ``space``, float64 (n, p), into classes of at least k records."""
    dbscan_classes = drive(Dbscan(space.points, k, radius), tick)
    counts = {"classes of DBSCAN": dbscan_classes.n_classes, "noise": dbscan_classes.n_suppressed}
    return Partition(repair(space.points, dbscan_classes, k).labels, counts)


def repair(points: NDArray[np.float64], dbscan_classes: Partition, k: int) -> Partition:
    """Turn the classes of DBSCAN into classes of at least k records.

    Parameters
    ----------
    points : float64 (n, p), all records.
    dbscan_classes : classes of any size; noise is labelled as suppressed.
    """
    large_classes = np.flatnonzero(dbscan_classes.sizes >= k)
    # New labels, indexed by old labels. Noise has the old label -1, which selects the last element.
    new_labels = np.full(dbscan_classes.n_classes + 1, -1, np.int32)
    new_labels[large_classes] = np.arange(len(large_classes))
    labels = new_labels[dbscan_classes.labels]
    noise = np.flatnonzero(labels < 0)
    if len(noise) >= k:
        labels[noise] = len(large_classes)
    elif len(noise):
        labels[noise] = _find_nearest_classes(points, labels, noise)
    return Partition(labels)


def _find_nearest_classes(
    points: NDArray[np.float64], labels: NDArray[np.int32], noise: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the class with the nearest centroid for each noise record, int64 (r,).

    Ties go to the smaller label.

    Parameters
    ----------
    points : float64 (n, p), all records.
    labels : int32 (n,), negative for records without a class.
    noise : int64 (r,), record indices.
    """
    is_labelled = labels >= 0
    sizes = np.bincount(labels[is_labelled])
    squared_distances = np.zeros((len(noise), len(sizes)))
    for column in points.T:
        centroid = np.bincount(labels[is_labelled], column[is_labelled]) / sizes
        squared_distances += np.square(column[noise, None] - centroid)
    nearest: NDArray[np.int64] = squared_distances.argmin(axis=1)
    return nearest


METHOD = Method(
    name="dcm",
    run=dcm,
    summary="DBSCAN's classes; those below k are repaired. High loss",
    class_sizes="k or more",
    cost="O(n^2) at worst",
    reference="Liu & Li 2016",
    max_size=None,
    standardize="range",
    sentence=f"{ROW_GUARANTEE} (as published, DCM does not ensure it; classes were repaired)",
    options=(
        Parameter(
            "radius",
            float,
            0.2,
            Option(
                "How far a neighbour may be, after standardization.",
                minimum=0.0,
                excludes_minimum=True,
            ),
        ),
    ),
)
