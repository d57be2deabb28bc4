"""Project records onto one axis, and sort them along it, for univariate methods."""

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


def project(space: Space, axis: str) -> NDArray[np.float64]:
    """Return the position of each record on an axis, float64 (n,).

    Parameters
    ----------
    axis : ``SUM``, ``FIRST_COMPONENT`` or the name of an attribute.

    Raises
    ------
    InvalidParameter : the axis is neither an attribute nor ``SUM`` or ``FIRST_COMPONENT``.
    """
    if axis in space.names:
        return space.points[:, space.names.index(axis)]
    if axis == SUM:
        # Add column by column: the order in which NumPy adds the values of a row may vary, and with
        # it the rounding.
        total = np.zeros(space.n_records)
        for column in space.points.T:
            total += column
        return total
    if axis == FIRST_COMPONENT:
        return _project_on_first_component(space.points)
    raise InvalidParameter(
        f'There is no axis "{axis}".',
        hint=nearest_names(axis, [SUM, FIRST_COMPONENT, *space.names]) or f"Use {AXIS.help}",
    )


def _project_on_first_component(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the score of each point on the first principal component, float64 (n,)."""
    centered = points - points.mean(axis=0)
    # This matrix is the covariance, up to a factor. ``eigh`` sorts by ascending eigenvalue, so the
    # last eigenvector is the first principal direction.
    _, vectors = np.linalg.eigh(centered.T @ centered)
    direction = vectors[:, -1]
    # The sign of a principal direction is arbitrary: make the largest loading positive.
    direction = direction * np.sign(direction[np.argmax(np.abs(direction))])
    scores = np.zeros(len(points))
    for j, loading in enumerate(direction):
        scores += loading * centered[:, j]
    return scores


def sort_records(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the record indices by ascending value, int64 (n,); ties are ordered by index."""
    return np.argsort(values, kind="stable").astype(np.int64)


def split_from_both_ends(values: NDArray[np.float64], k: int) -> NDArray[np.int32]:
    """Form classes of k records from both ends of the order, and return them, int32 (n,).

    The middle class takes the leftover records.

    Parameters
    ----------
    values : float64 (n,), the position of each record.
    """
    n = len(values)
    n_classes = max(n // k, 1)
    sizes = np.full(n_classes, k)
    sizes[(n_classes - 1) // 2] += n - k * n_classes
    labels = np.empty(n, np.int32)
    labels[sort_records(values)] = np.repeat(np.arange(n_classes, dtype=np.int32), sizes)
    return labels
