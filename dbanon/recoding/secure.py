"""Secure recoding: class means, moved if too many original values are within epsilon.

The security ratio of a released value is the share of the class's original values that differ from
it by epsilon or more. If the ratio of a rounded mean is below gamma0, the mean is replaced by the
nearest value below or above it whose ratio is at least gamma0. The nearest value on each side has
the least loss on that side, since loss grows with the distance from the mean. The side is chosen
class by class, so as to keep the attribute's overall mean: it is the side that makes the absolute
sum of all shifts so far smaller. The published method always moves down; choosing the side is never
worse.

Values are rounded away from the mean before they are checked, so the ratio applies to the released
values.

Source: Y. Li, S. Zhu, L. Wang and S. Jajodia, "A privacy-enhanced microaggregation method", FoIKS
2002, LNCS 2284.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dbanon.data.measures import ColumnStatistics
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute, Kind
from dbanon.recoding.columns import (
    ExactTotals,
    Recoding,
    ReleasedColumn,
    Settings,
    compute_sample_deviation,
    refuse_inexact_numbers,
    require_fit,
)
from dbanon.recoding.mean import release_means


def compute_security_ratio(values: NDArray[np.float64], released: float, epsilon: float) -> float:
    """Compute the share of values that differ from a released value by ``epsilon`` or more.

    Parameters
    ----------
    values : float64 (m,), the original values of a class.
    epsilon : the distance, in the unit of the values.
    """
    return float((np.abs(values - released) >= epsilon).mean())


def find_secure_value(
    values: NDArray[np.float64],
    center: float,
    epsilon: float,
    gamma0: float,
    step: float,
    side: int,
) -> float:
    """Find the nearest value on one side of ``center`` with a security ratio of ``gamma0`` or more.

    Parameters
    ----------
    values : float64 (m,), the original values of a class.
    center : the value to move away from, such as the mean of the class.
    epsilon : the distance in the security ratio, in the unit of the values.
    gamma0 : the smallest security ratio that is allowed, 0 to 1.
    step : released values are multiples of it; 0 for no restriction.
    side : -1 for values up to ``center``, 1 for values from ``center``.
    """
    # Moving outwards, the ratio changes only at distance epsilon from an original value.
    change_points = values + side * epsilon
    for point in side * np.sort(side * change_points[side * change_points >= side * center]):
        value = float(point)
        if step:
            value = float(side * np.ceil(side * value / step)) * step
        elif compute_security_ratio(values, value, epsilon) < gamma0:
            # A rounding error may have put the value just within epsilon of the original.
            value = float(np.nextafter(value, side * np.inf))
        if compute_security_ratio(values, value, epsilon) >= gamma0:
            return value
    # Rounding may invalidate even the farthest point; one step beyond it is always valid. Floats
    # have no step, but four times their spacing outweighs the rounding errors.
    farthest = float(side * (side * change_points).max())
    margin = step or 4 * max(float(np.spacing(abs(farthest))), float(np.spacing(epsilon)))
    return farthest + side * margin


def choose_sides(downwards: Iterable[float], upwards: Iterable[float]) -> list[bool]:
    """Choose for each class whether to move its value up.

    Parameters
    ----------
    downwards, upwards : for each class, how much moving its value down or up would change the
        attribute's sum.
    """
    total_shift, moves_up = 0.0, []
    for down, up in zip(downwards, upwards, strict=True):
        moves_up.append(abs(total_shift + up) < abs(total_shift + down))
        total_shift += up if moves_up[-1] else down
    return moves_up


def release_secure_means(
    microdata: Microdata,
    column_statistics: ColumnStatistics,
    partition: Partition,
    exact_totals: ExactTotals,
    settings: Settings,
    *,
    epsilon: float,
    gamma0: float,
) -> tuple[ReleasedColumn, ...]:
    """Release class means, replaced if they are insecure, in the type of each column.

    Raises
    ------
    UnsupportedType : an attribute holds values that float64 cannot hold exactly.
    """
    refuse_inexact_numbers(microdata, "secure")
    # Values are moved away from the usual means, which are the centers of the classes.
    microdata = replace(microdata, weights=None)
    columns = []
    for position, column in enumerate(
        release_means(microdata, column_statistics, partition, exact_totals, settings)
    ):
        columns.append(
            _secure_column(
                microdata, column_statistics, partition, column, position, epsilon, gamma0
            )
        )
    return tuple(columns)


def _secure_column(
    microdata: Microdata,
    column_statistics: ColumnStatistics,
    partition: Partition,
    column: ReleasedColumn,
    position: int,
    epsilon: float,
    gamma0: float,
) -> ReleasedColumn:
    """Replace the insecure values of a column of class means.

    Parameters
    ----------
    column : the rounded class means.
    position : the index of the attribute in ``microdata.numeric``.
    epsilon : the distance in the security ratio, in standard deviations of the column.
    """
    numbers = microdata.numbers[:, position]
    scale = column_statistics.scales[column.attribute.name]
    if scale.is_constant or epsilon == 0.0:
        return column
    distance = epsilon * compute_sample_deviation(scale)
    step = _find_smallest_difference(column.attribute)
    released_values = column.as_float()
    insecure_labels, values_below, values_above = [], [], []
    for label in range(partition.n_classes):
        if column.missing is not None and column.missing[label]:
            continue
        first = partition.starts[label]
        values = numbers[partition.members[first : first + partition.sizes[label]]]
        if compute_security_ratio(values, float(released_values[label]), distance) < gamma0:
            center = float(values.mean())
            insecure_labels.append(label)
            values_below.append(find_secure_value(values, center, distance, gamma0, step, side=-1))
            values_above.append(find_secure_value(values, center, distance, gamma0, step, side=1))
    if not insecure_labels:
        return column
    assert column.unrounded is not None
    insecure_classes = np.array(insecure_labels)
    sizes, means = partition.sizes[insecure_classes], column.unrounded[insecure_classes]
    down, up = np.array(values_below), np.array(values_above)
    if column.attribute.kind is Kind.FLOAT and column.attribute.bits == 32:
        # Compensate for rounding to the narrower type.
        outwards = np.float32(np.inf)
        down = np.nextafter(down.astype(np.float32), -outwards).astype(np.float64)
        up = np.nextafter(up.astype(np.float32), outwards).astype(np.float64)
    moves_up = choose_sides((down - means) * sizes, (up - means) * sizes)
    released_means = np.where(moves_up, up, down)
    unrounded = column.unrounded.copy()
    unrounded[insecure_classes] = released_means
    values = column.values.copy()
    if column.attribute.kind is Kind.DECIMAL:
        released_means = np.rint(released_means * 10.0**column.attribute.scale)
    hint = "Cast it to a wider type in a view, or take a smaller epsilon or gamma0."
    require_fit(column.attribute, released_means, hint)
    values[insecure_classes] = released_means.astype(values.dtype)
    return ReleasedColumn(column.attribute, values, column.missing, unrounded=unrounded)


def _find_smallest_difference(attribute: Attribute) -> float:
    """Find the smallest difference between values of the column's type; 0 for floats."""
    if attribute.kind is Kind.FLOAT:
        return 0.0
    if attribute.kind is Kind.DECIMAL:
        return float(10.0**-attribute.scale)
    if attribute.kind is Kind.TIMESTAMP:
        return float(10 ** (6 - min(attribute.scale, 6)))
    return 1.0


RECODING = Recoding(
    name="secure",
    run=release_secure_means,
    summary="Class means, moved away from the originals where too many lie near",
    takes_ranks=False,
    method="secure_kward",
    parameters=("epsilon", "gamma0"),
)
