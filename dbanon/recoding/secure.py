"""Secure recoding: class means, moved where too many originals lie within epsilon of them.

For each class and attribute: when the mean, rounded to the column's type, has a security ratio
below gamma0, the nearest released value below and the nearest above that have it are found; both
minimize the class's loss on their side, for loss grows with the distance from the mean. One of the
two is then chosen class by class so that the attribute's overall mean moves little: whichever
leaves the smaller absolute sum of the shifts so far. The source prints a rule that always goes
down; this one is never worse, since it may choose the same.

Values are rounded away from the mean and judged after that, so that the ratio holds for what is
released. Source: see ``dbanon/methods/secure_kward.py``.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from dbanon.data.measures import Measures
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute, Kind
from dbanon.recoding.columns import (
    ExactTotals,
    Recoding,
    ReleasedColumn,
    Settings,
    refuse_wide,
    require_room,
    table_deviation,
)
from dbanon.recoding.mean import mean


def ratio(values: NDArray[np.float64], released: float, epsilon: float) -> float:
    """The share of ``values``, float64 (m,), at distance ``epsilon`` or more from ``released``."""
    return float((np.abs(values - released) >= epsilon).mean())


def secure_value(
    values: NDArray[np.float64], start: float, epsilon: float, gamma0: float, step: float, side: int
) -> float:
    """The value nearest to ``start`` on one side whose security ratio is ``gamma0`` or more.

    Parameters
    ----------
    values : float64 (m,), the originals of a class.
    step : released values are multiples of it; 0 for any number.
    side : -1 for values up to ``start``, 1 for values from it on.
    """
    # Going outwards, the ratio rises only where an original falls behind by epsilon.
    edges = values + side * epsilon
    for edge in side * np.sort(side * edges[side * edges >= side * start]):
        value = float(edge)
        if step:
            value = float(side * np.ceil(side * value / step)) * step
        elif ratio(values, value, epsilon) < gamma0:
            value = float(np.nextafter(value, side * np.inf))
        if ratio(values, value, epsilon) >= gamma0:
            return value
    # Rounding may spoil the last edge too: farther out every original is behind.
    last = float(side * (side * edges).max())
    margin = step or 4 * max(float(np.spacing(abs(last))), float(np.spacing(epsilon)))
    return last + side * margin


def choose(downwards: Iterable[float], upwards: Iterable[float]) -> list[bool]:
    """For each class whether to go up, given its shift of the attribute's sum either way."""
    total, chosen = 0.0, []
    for down, up in zip(downwards, upwards, strict=True):
        chosen.append(abs(total + up) < abs(total + down))
        total += up if chosen[-1] else down
    return chosen


def secure(
    microdata: Microdata,
    measures: Measures,
    partition: Partition,
    exact_totals: ExactTotals,
    settings: Settings,
    *,
    epsilon: float,
    gamma0: float,
) -> tuple[ReleasedColumn, ...]:
    """Class means, replaced where they are not secure, in the type of each column.

    Raises
    ------
    UnsupportedType : an attribute holds values that float64 cannot hold exactly.
    """
    refuse_wide(microdata, "secure")
    columns = []
    for position, column in enumerate(mean(microdata, measures, partition, exact_totals, settings)):
        columns.append(_secured(microdata, measures, partition, column, position, epsilon, gamma0))
    return tuple(columns)


def _secured(
    microdata: Microdata,
    measures: Measures,
    partition: Partition,
    column: ReleasedColumn,
    position: int,
    epsilon: float,
    gamma0: float,
) -> ReleasedColumn:
    numbers = microdata.numbers[:, position]
    scale = measures.numbers[column.attribute.name]
    if scale.constant or epsilon == 0.0:
        return column
    distance = epsilon * table_deviation(scale)
    step = _step(column.attribute)
    released = column.as_float()
    unsafe, below, above = [], [], []
    for at in range(partition.n_classes):
        if column.missing is not None and column.missing[at]:
            continue
        first = partition.starts[at]
        values = numbers[partition.members[first : first + partition.sizes[at]]]
        if ratio(values, float(released[at]), distance) < gamma0:
            center = float(values.mean())
            unsafe.append(at)
            below.append(secure_value(values, center, distance, gamma0, step, -1))
            above.append(secure_value(values, center, distance, gamma0, step, 1))
    if not unsafe:
        return column
    assert column.unrounded is not None
    index = np.array(unsafe)
    sizes, means = partition.sizes[index], column.unrounded[index]
    down, up = np.array(below), np.array(above)
    if column.attribute.kind is Kind.FLOAT and column.attribute.bits == 32:
        # One step outwards makes good for rounding to the narrower type.
        outwards = np.float32(np.inf)
        down = np.nextafter(down.astype(np.float32), -outwards).astype(np.float64)
        up = np.nextafter(up.astype(np.float32), outwards).astype(np.float64)
    chosen = np.where(choose((down - means) * sizes, (up - means) * sizes), up, down)
    unrounded = column.unrounded.copy()
    unrounded[index] = chosen
    values = column.values.copy()
    if column.attribute.kind is Kind.DECIMAL:
        chosen = np.rint(chosen * 10.0**column.attribute.scale)
    hint = "Cast it to a wider type in a view, or take a smaller epsilon or gamma0."
    require_room(column.attribute, chosen, hint)
    values[index] = chosen.astype(values.dtype)
    return ReleasedColumn(column.attribute, values, column.missing, unrounded)


def _step(attribute: Attribute) -> float:
    """The distance of neighbouring values of the column's type; 0 for floats."""
    if attribute.kind is Kind.FLOAT:
        return 0.0
    if attribute.kind is Kind.DECIMAL:
        return float(10.0**-attribute.scale)
    if attribute.kind is Kind.TIMESTAMP:
        return float(10 ** (6 - min(attribute.scale, 6)))
    return 1.0


RECODING = Recoding(
    name="secure",
    run=secure,
    summary="Class means, moved away from the originals where too many lie near",
    takes_ranks=False,
    method="secure_kward",
    parameters=("epsilon", "gamma0"),
)
