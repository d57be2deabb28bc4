"""DCM, the density-based clustering mechanism: DBSCAN's classes, repaired.

A record is core if k records, including itself, lie within ``radius``. The first core record
without a class starts the next class, which takes all records within the radius of its core records
that are in no earlier class. Records in no class are noise. (The labels are scikit-learn's, whose
DBSCAN the source uses.)

As published that is not k-anonymous: k is about neighbourhoods, so that a class which lost its
border to an earlier one may hold fewer than k records, and fewer than k noise records share the
overall mean by themselves. The repair is ours: classes below k become noise; noise of k or more is
a class, less joins, record by record, the class with the nearest centroid, as the centroids were
before. The source releases noise with the overall mean of the table; here it is a class like any
other, and its own centroid loses less.

The source gives no radius and does not say how attributes are scaled: ``radius`` is of the space
after standardization, which is by range where nothing else is asked for.

Source: X. Liu and Q. Li, "Differentially private data release based on clustering anonymization"
(in Chinese), 2016; DBSCAN: M. Ester, H.-P. Kriegel, J. Sander and X. Xu, KDD 1996.
Classes: k or more without a bound; in many dimensions often one of most records.
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
    summary = {"classes of DBSCAN": dbscan_classes.n_classes, "noise": dbscan_classes.n_suppressed}
    return Partition(repair(space.points, dbscan_classes, k).labels, summary)


def repair(points: NDArray[np.float64], dbscan_classes: Partition, k: int) -> Partition:
    """Classes of at least k of the points, float64 (n, p), from the classes of DBSCAN.

    Parameters
    ----------
    dbscan_classes : of any size; noise, and no other record, is suppressed.
    """
    large = np.flatnonzero(dbscan_classes.sizes >= k)
    number = np.full(dbscan_classes.n_classes + 1, -1, np.int32)
    number[large] = np.arange(len(large))
    # The last one stands for noise, -1.
    labels = number[dbscan_classes.labels]
    noise = np.flatnonzero(labels < 0)
    if len(noise) >= k:
        labels[noise] = len(large)
    elif len(noise):
        labels[noise] = _nearest(points, labels, noise)
    return Partition(labels)


def _nearest(
    points: NDArray[np.float64], labels: NDArray[np.int32], noise: NDArray[np.int64]
) -> NDArray[np.int64]:
    """For each of these records the class with the nearest centroid, the first of several."""
    is_labelled = labels >= 0
    sizes = np.bincount(labels[is_labelled])
    squared = np.zeros((len(noise), len(sizes)))
    for column in points.T:
        centroid = np.bincount(labels[is_labelled], column[is_labelled]) / sizes
        squared += np.square(column[noise, None] - centroid)
    nearest: NDArray[np.int64] = squared.argmin(axis=1)
    return nearest


METHOD = Method(
    name="dcm",
    run=dcm,
    summary="DBSCAN's classes, those below k repaired; loses much",
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
