"""Centroid recoding: every class is released with the mean of each attribute.

The mean is rounded to the column's own type and scale, half to even: a mean of integers with
decimals would tell the size of its class, and a column keeps its type. A mean of ranks is no value:
ordinal attributes get the value at the class's median rank, the lower of two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon import kernels
from dbanon.data.measures import Measures
from dbanon.data.microdata import EXACT_INTEGER, Microdata
from dbanon.data.partition import Partition
from dbanon.data.pieces import by_column
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import UnsupportedType
from dbanon.recoding.columns import (
    ExactTotals,
    Recoding,
    ReleasedColumn,
    Settings,
    class_medians,
    occurring,
)


def class_means(values: NDArray[np.float64], partition: Partition) -> NDArray[np.float64]:
    """The mean of each class, float64 (n_classes,), of ``values``, float64 (n,).

    A mean never leaves the range of its class, so that equal values have exactly that mean.
    """
    means = kernels.class_means(values, partition.members, partition.starts)
    if means is not None:
        return means
    # A sum is beyond the largest number.
    grouped, starts = values[partition.members], partition.starts
    shares = grouped / np.repeat(partition.sizes, partition.sizes)
    means = np.add.reduceat(shares, starts)
    low, high = np.minimum.reduceat(grouped, starts), np.maximum.reduceat(grouped, starts)
    return np.asarray(np.clip(means, low, high))


def integer_means(values: NDArray[np.int64], partition: Partition) -> NDArray[np.int64]:
    """The mean of each class rounded half to even, int64 (n_classes,), in exact arithmetic.

    Quotients and remainders by the class size are summed apart, so that no sum overflows. The
    stores compute wide means with the same formula in SQL.
    """
    return kernels.integer_class_means(values, partition.members, partition.starts)


def round_half_even(total: int, size: int) -> int:
    """total / size rounded to a whole number, half to even, for any integers."""
    whole, rest = divmod(total, size)
    return whole + (2 * rest > size or (2 * rest == size and whole % 2 != 0))


def _exact_means(totals: NDArray[np.object_], partition: Partition) -> NDArray[np.object_]:
    sums = zip(totals, partition.sizes, strict=True)
    return np.array([round_half_even(int(total), int(size)) for total, size in sums], object)


def _instants(attribute: Attribute, micros: NDArray[np.object_]) -> NDArray[np.int64]:
    """Microseconds since 1970 as int64 (n_classes,)."""
    limits = np.iinfo(np.int64)
    if any(not limits.min <= value <= limits.max for value in micros):
        raise UnsupportedType(
            f'Column "{attribute.name}": the mean of a class is an instant after the year 294246,'
            " which cannot be released.",
            hint="Withhold such instants in a view, or set them to NULL.",
        )
    return micros.astype(np.int64)


def mean(
    microdata: Microdata,
    measures: Measures,
    partition: Partition,
    exact_totals: ExactTotals,
    settings: Settings,
) -> tuple[ReleasedColumn, ...]:
    """The class means of every attribute, in the type of its column.

    Raises
    ------
    UnsupportedType : a mean of instants is beyond 64 bits.
    """
    del measures, settings
    wide = [attribute for attribute in microdata.numeric if attribute.name in microdata.wide]
    totals = exact_totals(partition, wide) if wide else {}
    exact = {name: _exact_means(sums, partition) for name, sums in totals.items()}

    def released(column: tuple[int, Attribute]) -> ReleasedColumn:
        return _released(microdata, partition, *column, exact)

    # Before several columns ask for them.
    _ = partition.members
    return tuple(by_column(microdata.numbers)(released, enumerate(microdata.numeric)))


def _released(
    microdata: Microdata,
    partition: Partition,
    position: int,
    attribute: Attribute,
    exact: Mapping[str, NDArray[np.object_]],
) -> ReleasedColumn:
    """The class means of one attribute; ``exact`` has those of wide ones."""
    values = microdata.numbers[:, position]
    valid = microdata.valid_column(attribute.name)
    if attribute.kind is Kind.ORDINAL:
        ranks = class_medians(values, partition)
        return occurring(microdata, partition, position, ranks)
    missing = None
    if valid is not None:
        # A class holds records of one NULL pattern, so its first member speaks for all.
        missing = ~valid[partition.members[partition.starts]]
        values = np.where(valid, values, 0.0)
    unrounded = class_means(values, partition)
    released: NDArray[Any]
    if attribute.name not in exact:
        released = rounded(attribute, values, unrounded, partition)
    elif attribute.kind is Kind.TIMESTAMP:
        released = _instants(attribute, exact[attribute.name] * step(attribute))
    elif attribute.kind is not Kind.DECIMAL and attribute.bits <= 64:
        released = exact[attribute.name].astype(np.int64)
    else:
        released = exact[attribute.name]
    return ReleasedColumn(attribute, released, missing, unrounded)


def rounded(
    attribute: Attribute,
    values: NDArray[np.float64],
    unrounded: NDArray[np.float64],
    partition: Partition,
) -> NDArray[np.int64] | NDArray[np.float64]:
    """Class means in the column's type; shapes as in ``ReleasedColumn``."""
    if attribute.kind is Kind.FLOAT:
        if attribute.bits == 32:
            return unrounded.astype(np.float32).astype(np.float64)
        return unrounded
    if attribute.kind is Kind.DECIMAL:
        values = values * 10.0**attribute.scale
    values = values / step(attribute)
    integers = np.rint(values)
    assert not integers.size or np.abs(integers).max() <= EXACT_INTEGER
    return integer_means(integers.astype(np.int64), partition) * step(attribute)


def step(attribute: Attribute) -> int:
    """Microseconds in the last digit that a timestamp has; 1 for other kinds."""
    return 10 ** (6 - attribute.scale) if attribute.kind is Kind.TIMESTAMP else 1


RECODING = Recoding(
    name="mean",
    run=mean,
    summary="Class mean, rounded to the column's type and scale",
)
