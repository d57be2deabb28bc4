"""How good the classes of a chain are: by their quasi-identifiers alone, each class as a set.

Means, medians and other values of a column: the mean squared deviation from the class's mean, on
the z-scores of the chain's first release. Labels and ranges: the loss of a cell, as reports have
it. Representatives of mixed columns: the distance of a cell from what is released of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dbanon.data.measures import Measures
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Found, Partition
from dbanon.data.scales import Standardization
from dbanon.data.schema import Attribute, Kind
from dbanon.job.policy import Policy
from dbanon.partitioning.partition_for import partition_of
from dbanon.recoding import ReleasedColumn, find_recoding
from dbanon.release.evaluation import pairs_of

# A class of newcomers is good when it loses at most so many times what the median of the first
# release's classes lost, or no more than their mean.
GOOD = 4.0


def typical_loss(losses: NDArray[np.float64]) -> float:
    """What the first release's classes lost, of which ``GOOD`` times is good for a later class.

    The median; where few classes lose most, as many as make ``GOOD`` times it the mean: the first
    release has such classes, too, and newcomers would wait in vain for better ones.

    Parameters
    ----------
    losses : float64 (n_classes,), as ``class_losses`` gives them, of one class or more.
    """
    return max(float(np.median(losses)), float(losses.mean()) / GOOD)


def class_losses(
    microdata: Microdata, measures: Measures, found: Found, policy: Policy
) -> NDArray[np.float64]:
    """What each class loses a cell, float64 (n_classes,); NULLs lose nothing and count for nothing.

    Parameters
    ----------
    measures : of the table that the records are a part of.
    policy : with the hierarchies of the records.
    """
    recoding, partition = find_recoding(str(policy.recoding)), partition_of(found)
    if not partition.n_classes:
        return np.empty(0)
    if recoding.measure == "sse":
        return _deviations(microdata, measures, partition)
    settings = policy.settings
    if not policy.options.get("contract"):
        settings = replace(settings, levels=found.levels)
    columns = recoding.run(
        microdata, measures, partition, lambda own, wide: _totals(microdata, own, wide), settings
    )
    if recoding.measure == "iloss":
        lost = sum(column.losses for column in columns if column.losses is not None)
        return np.asarray(lost / _cells(microdata, partition), np.float64)
    return _distances(microdata, measures, partition, policy, columns)


def _deviations(
    microdata: Microdata, measures: Measures, partition: Partition
) -> NDArray[np.float64]:
    """The mean squared deviation of a cell from its class's mean, on z-scores of the table."""
    transform = Standardization.of([measures.numbers[a.name] for a in microdata.numeric])
    members, starts = partition.members, partition.starts
    points = transform.apply(microdata.numbers)[members]
    valid = microdata.numeric_valid()
    if valid is not None:
        points = np.where(valid[members], points, 0.0)
    # A class has one pattern of NULLs, so that each column has all of its values or none.
    means = np.add.reduceat(points, starts, axis=0) / partition.sizes[:, None]
    points -= means[np.repeat(np.arange(partition.n_classes), partition.sizes)]
    squares = np.add.reduceat((points**2).sum(axis=1), starts)
    return np.asarray(squares / _cells(microdata, partition), np.float64)


def _distances(
    microdata: Microdata,
    measures: Measures,
    partition: Partition,
    policy: Policy,
    columns: Sequence[ReleasedColumn],
) -> NDArray[np.float64]:
    """The mean distance of a cell from what is released of it, from 0 to 1."""
    spelled = [column.spelled() for column in columns]
    pairs = pairs_of(microdata, partition, spelled, policy.hierarchies, measures)
    lost = np.zeros(partition.n_classes)
    for column in pairs.columns:
        for part in pairs.chunks():
            labels = partition.labels[part]
            records = np.arange(part.start, part.stop)
            np.add.at(lost, labels, column.apart(records, labels))
    return np.asarray(lost / _cells(microdata, partition), np.float64)


def _cells(microdata: Microdata, partition: Partition) -> NDArray[np.int64]:
    """How many values each class has, int64 (n_classes,); at least one."""
    if microdata.valid is None:
        return np.maximum(partition.sizes * len(microdata.attributes), 1)
    held = microdata.valid.sum(axis=1)[partition.members]
    return np.maximum(np.add.reduceat(held, partition.starts), 1)


def _totals(
    microdata: Microdata, partition: Partition, wide: Sequence[Attribute]
) -> Mapping[str, NDArray[np.object_]]:
    """The sums of classes, in place of exact ones: to the digits that floats have."""
    found = {}
    for attribute in wide:
        unit = 10**attribute.scale if attribute.kind is Kind.DECIMAL else 1
        values = microdata.numbers[:, microdata.numeric.index(attribute)][partition.members]
        sums = np.add.reduceat(values, partition.starts)
        found[attribute.name] = np.array([int(x * unit) for x in sums.tolist()], object)
    return found
