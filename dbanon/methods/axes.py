"""Orders of records along one axis: shared by the univariate methods."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dbanon.data.option import Option, Parameter
from dbanon.errors import InvalidParameter, nearest_names
from dbanon.spaces.numeric import Space

SUM = "sum"
FIRST_COMPONENT = "first_component"

AXIS = Parameter(
    "axis",
    str,
    SUM,
    Option(
        f"{SUM} (of the standardized values), {FIRST_COMPONENT} (first principal component), or the"
        " name of an attribute."
    ),
)


def positions(space: Space, axis: str) -> NDArray[np.float64]:
    """Where each record lies on the axis, float64 (n,).

    Raises
    ------
    InvalidParameter : the axis is no attribute and none of the known ones.
    """
    if axis in space.names:
        return space.points[:, space.names.index(axis)]
    if axis == SUM:
        total = np.zeros(space.n_records)
        for column in space.points.T:
            total += column
        return total
    if axis == FIRST_COMPONENT:
        return _first_component(space.points)
    raise InvalidParameter(
        f'There is no axis "{axis}".',
        hint=nearest_names(axis, [SUM, FIRST_COMPONENT, *space.names]) or f"Use {AXIS.help}",
    )


def _first_component(points: NDArray[np.float64]) -> NDArray[np.float64]:
    centered = points - points.mean(axis=0)
    _, vectors = np.linalg.eigh(centered.T @ centered)
    direction = vectors[:, -1]
    # A principal direction has no sign of its own: the largest loading is made positive.
    direction = direction * np.sign(direction[np.argmax(np.abs(direction))])
    along = np.zeros(len(points))
    for j, loading in enumerate(direction):
        along += loading * centered[:, j]
    return along


def order_of(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Records by ascending value, the smaller index first among equals, int64 (n,)."""
    return np.argsort(values, kind="stable").astype(np.int64)


def split_from_both_ends(values: NDArray[np.float64], k: int) -> NDArray[np.int32]:
    """Labels, int32 (n,), of classes of k counted from both ends; a larger one holds the median."""
    n = len(values)
    classes = max(n // k, 1)
    sizes = np.full(classes, k)
    sizes[(classes - 1) // 2] += n - k * classes
    labels = np.empty(n, np.int32)
    labels[order_of(values)] = np.repeat(np.arange(classes, dtype=np.int32), sizes)
    return labels
