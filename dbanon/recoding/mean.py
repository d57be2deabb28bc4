"""Centroid recoding: every class is released with the mean of each attribute.

Means are rounded to the column's type and scale, half to even, so that columns keep their type.
Moreover, the decimals of a mean of integers would reveal the size of the class. Ordinal attributes
get the value at the lower median rank, since a mean of ranks is not a value. If records have design
weights, means are weighted by them; medians of ranks are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dbanon import kernels
from dbanon.data.array_types import AnyArray
from dbanon.data.measures import ColumnStatistics
from dbanon.data.microdata import EXACT_INTEGER, Microdata
from dbanon.data.partition import Partition
from dbanon.data.pieces import choose_column_map, read_column, split_records
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import UnsupportedType
from dbanon.recoding.columns import (
    ExactTotals,
    Recoding,
    ReleasedColumn,
    Settings,
    compute_class_medians,
    release_member_values,
)


def compute_class_means(values: NDArray[np.float64], partition: Partition) -> NDArray[np.float64]:
    """Compute the mean of each class, float64 (n_classes,), of ``values``, float64 (n,).

    Means are clipped to the range of the class, so the mean of equal values is exact.
    """
    means = kernels.class_means(values, partition.members, partition.starts)
    if means is not None:
        return means
    # A sum overflowed: add shares instead.
    grouped, starts = values[partition.members], partition.starts
    shares = grouped / np.repeat(partition.sizes, partition.sizes)
    means = np.add.reduceat(shares, starts)
    low, high = np.minimum.reduceat(grouped, starts), np.maximum.reduceat(grouped, starts)
    return np.asarray(np.clip(means, low, high))


def compute_integer_means(values: NDArray[np.int64], partition: Partition) -> NDArray[np.int64]:
    """Compute the exact mean of each class, rounded half to even, int64 (n_classes,).

    Summing quotients and remainders separately avoids overflow. For wide columns, whose values
    float64 cannot represent, the databases compute the same formula in SQL.

    Parameters
    ----------
    values : int64 (n,), the value of each record.
    """
    return kernels.integer_class_means(values, partition.members, partition.starts)


def round_half_even(total: int, size: int) -> int:
    """Round total / size to an integer, half to even, for integers of any length.

    Parameters
    ----------
    size : the divisor, 1 or more.
    """
    quotient, remainder = divmod(total, size)
    return quotient + (2 * remainder > size or (2 * remainder == size and quotient % 2 != 0))


def _compute_exact_means(totals: NDArray[np.object_], partition: Partition) -> NDArray[np.object_]:
    """Divide class totals by class sizes, rounding half to even: Python integers (n_classes,)."""
    totals_and_sizes = zip(totals, partition.sizes, strict=True)
    return np.array(
        [round_half_even(int(total), int(size)) for total, size in totals_and_sizes], object
    )


def _to_timestamps(attribute: Attribute, microseconds: NDArray[np.object_]) -> NDArray[np.int64]:
    """Convert microseconds since 1970 to int64 (n_classes,)."""
    limits = np.iinfo(np.int64)
    if any(not limits.min <= value <= limits.max for value in microseconds):
        raise UnsupportedType(
            f'Column "{attribute.name}": the mean of a class is an instant after the year 294246,'
            " which cannot be released.",
            hint="Withhold such instants in a view, or set them to NULL.",
        )
    return microseconds.astype(np.int64)


def release_means(
    microdata: Microdata,
    column_statistics: ColumnStatistics,
    partition: Partition,
    exact_totals: ExactTotals,
    settings: Settings,
) -> tuple[ReleasedColumn, ...]:
    """Release the class means of every attribute, in the type of its column.

    Raises
    ------
    UnsupportedType : the mean of timestamps exceeds 64 bits, or weighted means would not be exact.
    """
    del column_statistics, settings  # parameters of all recodings, which others need
    mean_weights = None
    if microdata.weights is not None:
        from dbanon.recoding.weighted_mean import compute_mean_weights

        _refuse_wide_weighted_means(microdata)
        mean_weights = compute_mean_weights(microdata, partition)
    exact_means = {}
    wide_attributes = [a for a in microdata.numeric if a.name in microdata.wide]
    if wide_attributes:
        for name, totals in exact_totals(partition, wide_attributes).items():
            exact_means[name] = _compute_exact_means(totals, partition)

    # The property is cached on first use: compute it before threads share the partition.
    _ = partition.members
    map_columns = choose_column_map(microdata.numbers)
    release_column = partial(_release_column, microdata, partition, exact_means, mean_weights)
    return tuple(map_columns(release_column, range(len(microdata.numeric))))


def _release_column(
    microdata: Microdata,
    partition: Partition,
    exact_means: Mapping[str, NDArray[np.object_]],
    mean_weights: NDArray[np.float64] | None,
    position: int,
) -> ReleasedColumn:
    """Release the class means of one attribute.

    Parameters
    ----------
    exact_means : by name of a wide attribute, its exact class means.
    mean_weights : float64 (n,), the weights of the records in means; None if all weigh alike.
    position : the index of the attribute in ``microdata.numeric``.
    """
    attribute = microdata.numeric[position]
    values = read_column(microdata.numbers, position)
    valid = microdata.valid_column(attribute.name)
    if attribute.kind is Kind.ORDINAL:
        ranks = compute_class_medians(values, partition)
        return release_member_values(microdata, partition, position, ranks)
    missing = None
    if valid is not None:
        # All records of a class have the same NULL pattern.
        missing = ~valid[partition.members[partition.starts]]
        values = np.where(valid, values, 0.0)
    released: AnyArray
    if mean_weights is not None:
        from dbanon.recoding.weighted_mean import compute_weighted_means

        unrounded = compute_weighted_means(values, mean_weights, partition)
        return ReleasedColumn(
            attribute, round_weighted_means(attribute, unrounded), missing, unrounded=unrounded
        )
    unrounded = compute_class_means(values, partition)
    if attribute.name not in exact_means:
        released = round_means(attribute, values, unrounded, partition)
    elif attribute.kind is Kind.TIMESTAMP:
        # Exact means are in units of the column's last digit, such as milliseconds.
        released = _to_timestamps(
            attribute, exact_means[attribute.name] * microseconds_per_digit(attribute)
        )
    elif attribute.kind is not Kind.DECIMAL and attribute.bits <= 64:
        released = exact_means[attribute.name].astype(np.int64)
    else:
        # Python integers: means of decimals and of wider integers may not fit into int64.
        released = exact_means[attribute.name]
    return ReleasedColumn(attribute, released, missing, unrounded=unrounded)


def round_means(
    attribute: Attribute,
    values: NDArray[np.float64],
    unrounded: NDArray[np.float64],
    partition: Partition,
) -> NDArray[np.int64] | NDArray[np.float64]:
    """Round class means to the column's type, (n_classes,), in the units of ``ReleasedColumn``.

    Decimals are integers in units of the last digit, and timestamps integers in microseconds.

    Parameters
    ----------
    values : float64 (n,), the value of each record.
    unrounded : float64 (n_classes,), the class means of these values.
    """
    if attribute.kind is Kind.FLOAT:
        if attribute.bits == 32:
            return unrounded.astype(np.float32).astype(np.float64)
        return unrounded
    # Work piece by piece to save memory.
    integers = np.empty(len(values), np.int64)
    for piece in split_records(len(values)):
        numbers = values[piece]
        if attribute.kind is Kind.DECIMAL:
            numbers = numbers * 10.0**attribute.scale
        numbers = np.rint(numbers / microseconds_per_digit(attribute))
        # Larger values make a column wide, and wide columns have exact means instead.
        assert np.abs(numbers).max() <= EXACT_INTEGER
        integers[piece] = numbers
    return compute_integer_means(integers, partition) * microseconds_per_digit(attribute)


def round_weighted_means(
    attribute: Attribute, means: NDArray[np.float64]
) -> NDArray[np.int64] | NDArray[np.float64]:
    """Round weighted means, float64 (n_classes,), to the column's type, as ``round_means`` does."""
    if attribute.kind is Kind.FLOAT:
        return means if attribute.bits != 32 else means.astype(np.float32).astype(np.float64)
    if attribute.kind is Kind.DECIMAL:
        means = means * 10.0**attribute.scale
    digit = microseconds_per_digit(attribute)
    return np.rint(means / digit).astype(np.int64) * digit


def _refuse_wide_weighted_means(microdata: Microdata) -> None:
    """Refuse weighted means of numbers that float64 cannot represent; raises UnsupportedType."""
    for name in sorted(microdata.wide & {attribute.name for attribute in microdata.numeric}):
        raise UnsupportedType(
            f'Column "{name}" has numbers beyond 2**53, whose weighted means would not be exact.',
            hint="Leave out `design_weight`, or give the column as a smaller type.",
        )


def microseconds_per_digit(attribute: Attribute) -> int:
    """Return the microseconds that a timestamp's last digit stands for; 1 for other kinds."""
    return 10 ** (6 - attribute.scale) if attribute.kind is Kind.TIMESTAMP else 1


RECODING = Recoding(
    name="mean",
    run=release_means,
    summary="Class mean, rounded to the column's type and scale",
)
