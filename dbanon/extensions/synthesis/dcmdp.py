"""DCMDP: DCM's centroids with Laplace noise on every record, as published; no guarantee.

Each record is released with the centroid of its DBSCAN class, noise records with the overall mean
(as in ``dcm`` before repair), and every value gets independent Laplace noise. The source calls this
differentially private. It is not, for any epsilon that the source states:

- Theorem 1 bounds the effect of one record by the attribute's range over k. But changing a record
  may split a class, which moves other records by half the range.
- All records of a class depend on each of its records, so their noise does not compose in
  parallel: even if no record changes its class, the loss is about k epsilon.
- The ranges are taken from the data, and epsilon is not split over the attributes.

The rows are not k-anonymous either: classes come from DBSCAN, and noise makes rows distinct.

The paper defines the scale of the noise in two ways: ``algorithm``, range / (k epsilon), from
algorithm 2 and theorem 1; ``section_4``, n range / (k^2 epsilon), from section 4.2.1. Only the
second one equals plain Laplace noise where the paper says so, at k = sqrt(n).

Source: X. Liu and Q. Li, "Differentially private data release based on clustering anonymization"
(in Chinese), 2016.

Cost: that of dcm, and O(n p).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dbanon.data.partition import Partition
from dbanon.data.scales import Scale, Standardization
from dbanon.job.synthesis import SECTION_4
from dbanon.kernels import Dbscan
from dbanon.methods.registry import drive

NO_GUARANTEE = (
    "none: noise as published by Liu and Li. It is not differentially private for any stated"
    " epsilon, and the rows are not k-anonymous."
)


def dcmdp(
    numbers: NDArray[np.float64],
    k: int,
    epsilon: float,
    *,
    radius: float,
    reading: str,
    rng: np.random.Generator,
    classes: Partition | None = None,
) -> NDArray[np.float64]:
    """Compute the noisy rows, float64 (n, p), in the order of ``numbers``.

    Parameters
    ----------
    numbers : the original rows, float64 (n, p).
    epsilon : the paper's parameter of the noise; it guarantees nothing.
    radius : DBSCAN's radius, in ranges of a column.
    reading : the place in the paper that defines the scale of the noise: ``algorithm`` or
        ``section_4``; see the module's docstring.
    classes : the result of ``cluster_with_dbscan``; None to compute it.
    """
    noise = rng.laplace(size=numbers.shape) * compute_noise_scale(numbers, k, epsilon, reading)
    partition = cluster_with_dbscan(numbers, k, radius) if classes is None else classes
    return compute_centroids(numbers, partition) + noise


def compute_noise_scale(
    numbers: NDArray[np.float64], k: int, epsilon: float, reading: str
) -> NDArray[np.float64]:
    """Compute the scale of the noise on each column's values, float64 (p,)."""
    ranges: NDArray[np.float64] = numbers.max(axis=0) - numbers.min(axis=0)
    return ranges * compute_noise_factor(len(numbers), k, reading) / epsilon


def cluster_with_dbscan(numbers: NDArray[np.float64], k: int, radius: float) -> Partition:
    """Cluster with DBSCAN on range-standardized columns; only noise records are suppressed."""
    points = Standardization.of([Scale.of(column) for column in numbers.T], "range").apply(numbers)
    return drive(Dbscan(np.ascontiguousarray(points), k, radius), lambda share: None)


def compute_centroids(numbers: NDArray[np.float64], classes: Partition) -> NDArray[np.float64]:
    """Compute the centroid that DCM releases for each record, float64 (n, p).

    Noise records get the overall mean.
    """
    sums = np.zeros((classes.n_classes + 1, numbers.shape[1]))
    np.add.at(sums, classes.labels, numbers)
    # Noise records have the label -1, which indexes the last row, here and below.
    sums[-1] = numbers.sum(axis=0)
    means = sums / np.append(classes.sizes, len(numbers))[:, None]
    released: NDArray[np.float64] = means[classes.labels]
    return released


def describe_variance_loss(
    numbers: NDArray[np.float64], classes: Partition, k: int
) -> tuple[str, str]:
    """Describe the paper's rule for k, and the variance lost before any noise is added."""
    n = len(numbers)
    smallest_k = math.isqrt(n - 1) + 1
    centered = numbers - numbers.mean(axis=0)
    total_squares = np.square(centered).sum(axis=0)
    squared_errors = np.square(numbers - compute_centroids(numbers, classes)).sum(axis=0)
    lost_share = (
        float((squared_errors[total_squares > 0] / total_squares[total_squares > 0]).mean())
        if total_squares.any()
        else 0.0
    )
    return (
        f"The rule of Liu and Li is k >= sqrt(n), here {smallest_k}, and k = {k} is"
        f" {'within' if k >= smallest_k else 'below'} it. From that k on, n / k^2, the factor of"
        " their section 4.2.1, is at most 1; they show no more than that. No k makes this"
        " private.",
        f"Classes of DBSCAN: {classes.n_classes}, noise: {classes.n_suppressed};"
        f" {lost_share:.0%} of the variance is lost before any noise is added.",
    )


def compute_noise_factor(n: int, k: int, reading: str) -> float:
    """Compute the factor by which the noise scale exceeds range / epsilon, for n records."""
    return n / k**2 if reading == SECTION_4 else 1 / k
