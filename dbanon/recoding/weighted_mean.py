"""Means of classes whose records have design weights: each counts as the persons it stands for.

The weighted total of a class, its mean times the sum of its weights, is then that of the originals.
If one person has more than half of the weight of a class, the weighted mean would be near that
person's value, so the class gets the usual mean.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition

# The largest share of a class's weight that one person may have in a weighted mean.
MAX_PERSON_SHARE = 0.5


def compute_mean_weights(microdata: Microdata, partition: Partition) -> NDArray[np.float64]:
    """Return the weights that records have in the means of their classes, float64 (n,).

    They are the design weights, or 1 in classes in which one person has too much of the weight.
    """
    assert microdata.weights is not None
    is_dominated = find_dominated_classes(microdata, partition)
    # Withheld records, with the label -1, take part in no mean.
    return np.where(is_dominated[partition.labels], 1.0, microdata.weights)


def find_dominated_classes(microdata: Microdata, partition: Partition) -> NDArray[np.bool_]:
    """Mark the classes in which one person has too much of the weight, bool (n_classes,)."""
    assert microdata.weights is not None
    members = partition.members
    labels = partition.labels[members].astype(np.int64)
    weights = microdata.weights[members]
    totals = np.bincount(labels, weights, partition.n_classes)
    largest_weights = np.zeros(partition.n_classes)
    if microdata.entities is None:
        np.maximum.at(largest_weights, labels, weights)
    else:
        pairs = np.column_stack((labels, microdata.entities[members]))
        distinct_pairs, indexes = np.unique(pairs, axis=0, return_inverse=True)
        person_weights = np.bincount(indexes.reshape(-1), weights)
        np.maximum.at(largest_weights, distinct_pairs[:, 0], person_weights)
    return largest_weights > MAX_PERSON_SHARE * totals


def compute_weighted_means(
    values: NDArray[np.float64], weights: NDArray[np.float64], partition: Partition
) -> NDArray[np.float64]:
    """Compute the weighted mean of each class, float64 (n_classes,).

    Means are clipped to the range of the class, so the mean of equal values is exact.

    Parameters
    ----------
    values, weights : float64 (n,); weights are above 0.
    """
    members, starts = partition.members, partition.starts
    class_values, class_weights = values[members], weights[members]
    totals = np.add.reduceat(class_weights, starts)
    # The shares of a class add up to 1, so that products with large weights do not overflow.
    shares = class_weights / np.repeat(totals, partition.sizes)
    means = np.add.reduceat(shares * class_values, starts)
    low, high = np.minimum.reduceat(class_values, starts), np.maximum.reduceat(class_values, starts)
    return np.asarray(np.clip(means, low, high))
