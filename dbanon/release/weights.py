"""Design weights in a release: the weight of each class, and losses that count by weight."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import Microdata
from dbanon.data.schema import Attribute, Kind
from dbanon.data.types import JsonObject
from dbanon.errors import InvalidParameter
from dbanon.recoding import ReleasedColumn
from dbanon.recoding.weighted_mean import find_dominated_classes
from dbanon.release.recode import Release, number_combinations

# Numbers of float64 from here on have no fractions.
_MAX_ROUNDED = 2**53


def average_weights(microdata: Microdata, release: Release, name: str) -> ReleasedColumn:
    """Return the released column of design weights: their mean in each class.

    Classes that are released alike share the mean of all their records, so that weights tell no
    more classes apart. The weights of a stratum are then multiplied by one number, so that their
    sum is that of all records of the stratum that were read, also of withheld ones.

    Parameters
    ----------
    microdata : all records, including withheld ones, with their weights.
    name : the column with the weights.
    """
    weights = microdata.weights
    assert weights is not None
    labels = release.partition.labels
    is_released = labels >= 0
    if not release.partition.n_classes:
        return ReleasedColumn(Attribute(name, Kind.FLOAT), np.zeros(0))
    group_of_class = number_combinations(microdata, release).astype(np.int64)
    groups = group_of_class[labels[is_released]]
    means = np.bincount(groups, weights[is_released]) / np.bincount(groups)
    strata = _list_strata(microdata)
    # All records of a class are in one stratum.
    stratum_of_class = strata[release.partition.members[release.partition.starts]]
    factors = compute_weight_factors(microdata, release)[stratum_of_class]
    return ReleasedColumn(Attribute(name, Kind.FLOAT), means[group_of_class] * factors)


def round_weights(
    microdata: Microdata, release: Release, mean_weights: ReleasedColumn
) -> ReleasedColumn:
    """Return the mean weights of classes, rounded up or down to whole numbers, int64.

    Classes that are released alike keep one weight. In each stratum those with the largest
    fractions are rounded up, each of them only if it brings the sum nearer to that of the means.
    Whole means stay as they are.

    So the sum differs from the rounded sum of the means by at most half of the rows of the
    largest group of such classes. It follows from the means, and tells no more than they do.

    Parameters
    ----------
    mean_weights : the result of ``average_weights``.

    Raises
    ------
    InvalidParameter : a mean is below 1, or too large to have fractions.
    """
    means = mean_weights.values
    if len(means) and not 1 <= means.min() <= means.max() < _MAX_ROUNDED:
        raise InvalidParameter(
            f'The mean weights in column "{mean_weights.attribute.name}" cannot be rounded: a class'
            " has one below 1 or beyond 2^53.",
            hint="Release the means: leave out `weight_as`.",
        )
    attribute = Attribute(mean_weights.attribute.name, Kind.INTEGER)
    if not len(means):
        return ReleasedColumn(attribute, np.zeros(0, np.int64))
    group_of_class = number_combinations(microdata, release)
    partition = release.partition
    _, first_classes = np.unique(group_of_class, return_index=True)
    sizes = np.bincount(group_of_class, partition.sizes).astype(np.int64)
    group_means = means[first_classes]
    rounded = np.floor(group_means).astype(np.int64)
    fractions = group_means - rounded
    strata = _list_strata(microdata)[partition.members[partition.starts[first_classes]]]
    for stratum in np.unique(strata).tolist():
        groups = np.flatnonzero((strata == stratum) & (fractions > 0))
        n_missing = round(float(fractions[groups] @ sizes[groups]))
        # Equal fractions are in the order of released values.
        for group in groups[np.argsort(-fractions[groups], kind="stable")].tolist():
            if sizes[group] < 2 * n_missing:
                rounded[group] += 1
                n_missing -= int(sizes[group])
    return ReleasedColumn(attribute, rounded[group_of_class])


def compute_weight_excess(microdata: Microdata, release: Release) -> float:
    """Return by what the weight of a class is larger than the mean of its originals, at most.

    It is 1 or more: released rows also have the weight of withheld ones, and may be rounded up.
    """
    assert release.weight is not None
    if not release.partition.n_classes:
        return 1.0
    factors = compute_weight_factors(microdata, release)
    strata = _list_strata(microdata)[release.partition.members[release.partition.starts]]
    means = average_weights(microdata, release, release.weight.attribute.name).values
    return float(np.max(factors[strata] * release.weight.values / means, initial=1.0))


def compute_weight_factors(microdata: Microdata, release: Release) -> NDArray[np.float64]:
    """Return by what the mean weights of each stratum are multiplied, float64 (n_strata,).

    It is the weight of all records of the stratum that were read, divided by that of the released
    ones, so at least 1; it is 1 if none is released.
    """
    assert microdata.weights is not None
    strata, is_released = _list_strata(microdata), release.partition.labels >= 0
    n_strata = int(strata.max()) + 1
    totals = np.bincount(strata, microdata.weights, n_strata)
    released_totals = np.bincount(strata[is_released], microdata.weights[is_released], n_strata)
    factors = np.ones(n_strata)
    return np.divide(totals, released_totals, out=factors, where=released_totals > 0)


def _list_strata(microdata: Microdata) -> NDArray[np.int32]:
    """Return the stratum of each record, int32 (n,); 0 if there are no strata."""
    if microdata.strata is None:
        return np.zeros(microdata.n_records, np.int32)
    return microdata.strata


def describe_weighting(microdata: Microdata, release: Release) -> JsonObject:
    """Return figures about weighted records, for whoever runs the release only.

    ``information_loss`` is the loss of the released values in which each record counts by its
    weight; None for Gower's distance. ``dominated_classes`` is the number of classes in which one
    person has more than half of the weight, so that means are not weighted; None if each attribute
    has its own classes.
    """
    n_dominated = None
    if not release.has_classes_per_column:
        n_dominated = int(find_dominated_classes(microdata, release.partition).sum())
    return {
        "information_loss": compute_weighted_loss(microdata, release),
        "dominated_classes": n_dominated,
    }


def compute_weighted_loss(microdata: Microdata, release: Release) -> float | None:
    """Compute the loss in which each record counts by its design weight.

    It is the mean over columns. ``sse`` divides squared deviations from released values by those
    from the weighted mean of the column. ``iloss`` gives each record the mean loss of its class.
    Cells that were released as NULL are lost completely. None for other measures.
    """
    assert microdata.weights is not None
    if release.measure == "gower":
        return None
    is_released = release.partition.labels >= 0
    labels, weights = release.partition.labels[is_released], microdata.weights[is_released]
    losses = []
    for column in release.columns:
        name = column.quasi_identifier
        position = [attribute.name for attribute in microdata.attributes].index(name)
        valid = microdata.valid_column(name)
        is_present = np.ones(len(labels), np.bool_) if valid is None else valid[is_released]
        suppressed_weight = 0.0
        if microdata.suppressed is not None:
            suppressed_weight = float(weights[microdata.suppressed[is_released, position]].sum())
        if release.measure == "iloss":
            if column.losses is None:
                continue
            mean_losses = column.losses / np.maximum(release.partition.sizes, 1)
            losses.append(float(mean_losses[labels] @ weights + suppressed_weight) / weights.sum())
            continue
        present_weight = float(weights[is_present].sum())
        originals = _read_numbers(microdata, name)[is_released][is_present]
        released = _read_released_numbers(microdata, column)[labels[is_present]]
        share = _compute_weighted_share(originals, released, weights[is_present])
        if share is None and not suppressed_weight:
            continue
        lost_weight = (share or 0.0) * present_weight + suppressed_weight
        losses.append(lost_weight / (present_weight + suppressed_weight))
    return float(np.mean(losses)) if losses else 0.0


def _compute_weighted_share(
    originals: NDArray[np.float64], released: NDArray[np.float64], weights: NDArray[np.float64]
) -> float | None:
    """Compute the weighted SSE/SST of a column; None if it does not vary."""
    if not len(originals):
        return None
    shares = weights / weights.sum()
    # The largest deviation as unit keeps the squares of large numbers finite.
    deviations = originals - shares @ originals
    unit = float(np.abs(deviations).max())
    if unit == 0.0:
        return None
    total = shares @ np.square(deviations / unit)
    return float(shares @ np.square((originals - released) / unit) / total)


def _read_numbers(microdata: Microdata, name: str) -> NDArray[np.float64]:
    """Return the numbers of an attribute, or its ranks, float64 (n,)."""
    return microdata.numbers[:, [attribute.name for attribute in microdata.numeric].index(name)]


def _read_released_numbers(microdata: Microdata, column: ReleasedColumn) -> NDArray[np.float64]:
    """Return the released numbers of a column, or their ranks, float64 (n_classes,)."""
    [attribute] = [a for a in microdata.numeric if a.name == column.quasi_identifier]
    if attribute.kind is not Kind.ORDINAL:
        return column.as_float()
    ranks = {value: rank for rank, value in enumerate(attribute.order)}
    return np.array([ranks.get(value, 0) for value in column.values.tolist()], np.float64)
