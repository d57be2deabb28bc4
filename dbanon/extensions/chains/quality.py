"""Measure the information loss of each class of a chain, from its quasi-identifiers only.

The measure depends on the released values:

- if numbers such as means or medians are released: the mean squared deviation from the class mean,
  after scaling by the means and standard deviations of the chain's first release (z-scores);
- if labels or ranges are released: the information loss per value, as in reports;
- if a representative record is released for columns of mixed types: the mean distance of the values
  from the released ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dbanon.data.measures import ColumnStatistics
from dbanon.data.microdata import Microdata
from dbanon.data.partition import ClusteringResult, Partition
from dbanon.data.scales import Standardization
from dbanon.data.schema import Attribute, Kind
from dbanon.job.policy import Policy
from dbanon.partitioning.partition_for import partition_of
from dbanon.recoding import ReleasedColumn, find_recoding
from dbanon.release.evaluation import pairs_of

# A class of newcomers is admitted without further waiting if its loss is at most this many times
# the typical loss (``compute_typical_loss``) of the first release's classes.
GOOD_LOSS_FACTOR = 4.0


def compute_typical_loss(losses: NDArray[np.float64]) -> float:
    """Return the typical loss of the first release's classes, to compare later classes with.

    This is the median of the losses, or their mean divided by ``GOOD_LOSS_FACTOR`` if that is
    larger: if a few classes cause most of the loss, the median is so small that newcomers would
    wait in vain for similarly good classes.

    Parameters
    ----------
    losses : float64 (n_classes,), from ``compute_class_losses``; one class or more.
    """
    return max(float(np.median(losses)), float(losses.mean()) / GOOD_LOSS_FACTOR)


def compute_class_losses(
    microdata: Microdata,
    column_statistics: ColumnStatistics,
    clustering: ClusteringResult,
    policy: Policy,
) -> NDArray[np.float64]:
    """Compute the loss per value of each class, float64 (n_classes,); NULLs are not counted.

    Parameters
    ----------
    column_statistics : those of the table that contains the records.
    policy : the policy, with the hierarchies of the records.
    """
    recoding, partition = find_recoding(str(policy.recoding)), partition_of(clustering)
    if not partition.n_classes:
        return np.empty(0)
    # "sse" measures squared deviations of numbers, "iloss" the loss of labels and ranges.
    if recoding.measure == "sse":
        return _mean_squared_deviations(microdata, column_statistics, partition)
    settings = policy.settings
    # With the option ``contract``, classes are released with what their members have in common, so
    # the levels that the method chose do not apply.
    if not policy.options.get("contract"):
        settings = replace(settings, chosen_levels=clustering.levels)
    columns = recoding.run(
        microdata,
        column_statistics,
        partition,
        lambda classes, wide_attributes: _float_totals(microdata, classes, wide_attributes),
        settings,
    )
    if recoding.measure == "iloss":
        losses = sum(column.losses for column in columns if column.losses is not None)
        return np.asarray(losses / _count_values(microdata, partition), np.float64)
    return _mean_distances(microdata, column_statistics, partition, policy, columns)


def _mean_squared_deviations(
    microdata: Microdata, column_statistics: ColumnStatistics, partition: Partition
) -> NDArray[np.float64]:
    """The mean squared deviation of z-scores from their class mean, float64 (n_classes,)."""
    transform = Standardization.of([column_statistics.scales[a.name] for a in microdata.numeric])
    members, starts = partition.members, partition.starts
    points = transform.apply(microdata.numbers)[members]
    valid = microdata.numeric_valid()
    if valid is not None:
        points = np.where(valid[members], points, 0.0)
    # A class has a single NULL pattern, so each column has all of its values or none.
    means = np.add.reduceat(points, starts, axis=0) / partition.sizes[:, None]
    points -= means[np.repeat(np.arange(partition.n_classes), partition.sizes)]
    squared_sums = np.add.reduceat((points**2).sum(axis=1), starts)
    return np.asarray(squared_sums / _count_values(microdata, partition), np.float64)


def _mean_distances(
    microdata: Microdata,
    column_statistics: ColumnStatistics,
    partition: Partition,
    policy: Policy,
    columns: Sequence[ReleasedColumn],
) -> NDArray[np.float64]:
    """The mean distance of values from the released ones, 0 to 1, float64 (n_classes,)."""
    # Distances are between values. For ordered categories, recodings may have stored ranks instead.
    columns_with_values = [column.replace_ranks_with_values() for column in columns]
    pairs = pairs_of(
        microdata, partition, columns_with_values, policy.hierarchies, column_statistics
    )
    distances = np.zeros(partition.n_classes)
    for column in pairs.columns:
        for chunk in pairs.chunks():
            labels = partition.labels[chunk]
            records = np.arange(chunk.start, chunk.stop)
            np.add.at(distances, labels, column.distances_ignoring_nulls(records, labels))
    return np.asarray(distances / _count_values(microdata, partition), np.float64)


def _count_values(microdata: Microdata, partition: Partition) -> NDArray[np.int64]:
    """The number of values of each class, int64 (n_classes,); at least 1."""
    if microdata.valid is None:
        return np.maximum(partition.sizes * len(microdata.attributes), 1)
    n_values = microdata.valid.sum(axis=1)[partition.members]
    return np.maximum(np.add.reduceat(n_values, partition.starts), 1)


def _float_totals(
    microdata: Microdata, partition: Partition, wide_attributes: Sequence[Attribute]
) -> Mapping[str, NDArray[np.object_]]:
    """The sums of values in each class, by attribute, computed in floating point.

    Decimal numbers are summed as integers of their smallest unit, which the recoding expects.

    Parameters
    ----------
    wide_attributes : number columns whose sums may not fit into 64 bits.
    """
    totals = {}
    for attribute in wide_attributes:
        units_per_one = 10**attribute.scale if attribute.kind is Kind.DECIMAL else 1
        values = microdata.numbers[:, microdata.numeric.index(attribute)][partition.members]
        sums = np.add.reduceat(values, partition.starts)
        totals[attribute.name] = np.array([int(x * units_per_one) for x in sums.tolist()], object)
    return totals
