"""DCMDP: DCM's centroids with Laplace noise on every record, as published; it guarantees nothing.

Each record is released with the centroid of its DBSCAN class, noise records with the overall mean
(``dcm``, before its repair), and every value gets Laplace noise of its own. The source calls that
differentially private. It is not, for any epsilon that it states:

- Theorem 1 bounds what one record can change by the attribute's range over k. But a class may
  split when a record is changed, and then records that nobody touched move by half the range.
- All records of a class depend on each of its records, so that their noises do not compose in
  parallel: even where no record changes its class, the loss is about k epsilon.
- The ranges are those of the data, and the noise of one attribute is not split over attributes.

Nor are its rows k-anonymous: classes are as DBSCAN finds them, and noise tells rows apart.

Two readings of the noise: ``algorithm``, range / (k epsilon), of algorithm 2 and theorem 1;
``section_4``, n range / (k^2 epsilon), of section 4.2.1, the only one that crosses plain Laplace
noise where the source says, at k = sqrt(n).

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

SENTENCE = (
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
    """The noisy rows, float64 (n, p), in the order of ``numbers``, float64 (n, p).

    ``classes`` are those of ``dense``, where they were found before.
    """
    noise = rng.laplace(size=numbers.shape) * noise_scale(numbers, k, epsilon, reading)
    found = dense(numbers, k, radius) if classes is None else classes
    return centroids(numbers, found) + noise


def noise_scale(
    numbers: NDArray[np.float64], k: int, epsilon: float, reading: str
) -> NDArray[np.float64]:
    """The scale of the noise on each value of a column, float64 (p,)."""
    spread: NDArray[np.float64] = numbers.max(axis=0) - numbers.min(axis=0)
    return spread * noise_factor(len(numbers), k, reading) / epsilon


def dense(numbers: NDArray[np.float64], k: int, radius: float) -> Partition:
    """DBSCAN's classes in the space of ranges; noise, and no other record, is suppressed."""
    points = Standardization.of([Scale.of(column) for column in numbers.T], "range").apply(numbers)
    return drive(Dbscan(np.ascontiguousarray(points), k, radius), lambda share: None)


def centroids(numbers: NDArray[np.float64], classes: Partition) -> NDArray[np.float64]:
    """What DCM releases each record with, float64 (n, p): the overall mean for noise."""
    sums = np.zeros((classes.n_classes + 1, numbers.shape[1]))
    np.add.at(sums, classes.labels, numbers)
    # The label -1 of noise is the last row, here and below.
    sums[-1] = numbers.sum(axis=0)
    means = sums / np.append(classes.sizes, len(numbers))[:, None]
    released: NDArray[np.float64] = means[classes.labels]
    return released


def worth(numbers: NDArray[np.float64], classes: Partition, k: int) -> tuple[str, str]:
    """The source's own rule for k, and what is left of these rows by it, in words."""
    n = len(numbers)
    least = math.isqrt(n - 1) + 1
    centred = numbers - numbers.mean(axis=0)
    spread = np.square(centred).sum(axis=0)
    apart = np.square(numbers - centroids(numbers, classes)).sum(axis=0)
    lost = float((apart[spread > 0] / spread[spread > 0]).mean()) if spread.any() else 0.0
    return (
        f"The source's rule is k >= sqrt(n), here {least}, and k = {k} is"
        f" {'within' if k >= least else 'below'} it: from there n / k^2, the factor of its section"
        " 4.2.1, is 1 at most, which is all that it says. No k makes this private.",
        f"Classes of DBSCAN: {classes.n_classes}, noise: {classes.n_suppressed}; {lost:.0%} of the"
        " variance is lost before any noise is added.",
    )


def noise_factor(n: int, k: int, reading: str) -> float:
    """What the noise's scale is of range / epsilon, for n records."""
    return n / k**2 if reading == SECTION_4 else 1 / k
