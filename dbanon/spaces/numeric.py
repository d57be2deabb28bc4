"""Where methods measure distance: standardized points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.data.measures import Measures
from dbanon.data.microdata import Microdata
from dbanon.data.scales import MAHALANOBIS, Standardization
from dbanon.errors import InvalidParameter


@dataclass(frozen=True)
class Space:
    """The records as a method sees them.

    Parameters
    ----------
    points : float64 (n, p), C order, read-only: standardized and weighted numeric attributes.
    names : the p attributes' names.
    """

    points: NDArray[np.float64]
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        self.points.setflags(write=False)

    @property
    def n_records(self) -> int:
        """The number of records, n."""
        return len(self.points)

    @property
    def coordinates(self) -> NDArray[np.float64]:
        """Where the records lie, float64 (n, p), for cutting them into blocks."""
        return self.points

    def take(self, records: NDArray[np.int64]) -> Space:
        """The space of some of the records, int64 (m,)."""
        return Space(np.ascontiguousarray(self.points[records]), self.names)


def numeric_space(
    microdata: Microdata,
    measures: Measures,
    *,
    standardize: str,
    weights: Mapping[str, float],
    hierarchies: Mapping[str, object],
) -> Callable[[NDArray[np.int64]], Space]:
    """A function from sets of records, int64 (m,), to their points, on the scale of ``measures``.

    NULLs are 0: a method sees one pattern of NULLs at a time.

    Raises
    ------
    InvalidParameter : a hierarchy is given, or weights with ``mahalanobis``, neither of which has
        any use; ``mahalanobis``, and the measures hold no covariance.
    """
    if hierarchies:
        raise InvalidParameter(
            "This method measures numbers and takes no hierarchies.",
            hint="Leave them out, or choose a method of generalization.",
        )
    check_weights(standardize, weights)
    names = tuple(attribute.name for attribute in microdata.numeric)
    valid = microdata.numeric_valid()
    transform = Standardization.of([measures.numbers[name] for name in names], standardize)
    factors = weight_vector(names, weights)

    def space(records: NDArray[np.int64]) -> Space:
        points = transform.apply(microdata.numbers[records])
        points *= factors
        present = np.ones(len(names), np.bool_)
        if valid is not None and len(records):
            points[~valid[records]] = 0.0
            present = valid[records[0]]
        if standardize == MAHALANOBIS and len(records):
            points = measures.whitening_of(present).apply(points)
        return Space(np.ascontiguousarray(points), names)

    return space


def check_weights(standardize: str, weights: Mapping[str, float]) -> None:
    """Refuse weights where they would change nothing: whitening undoes any scale of a column.

    Raises
    ------
    InvalidParameter : weights and ``mahalanobis``.
    """
    if weights and standardize == MAHALANOBIS:
        raise InvalidParameter(
            "Weights have no effect on Mahalanobis distances, which no scale of a column changes.",
            hint='Leave them out, or choose `standardize="zscore"` or `standardize="range"`.',
        )


def weight_vector(names: tuple[str, ...], weights: Mapping[str, float]) -> NDArray[np.float64]:
    """What each column is multiplied by, float64 (p,): the square root of its weight.

    Raises
    ------
    InvalidParameter : a weight is negative or not finite, or names no attribute.
    """
    for name, weight in weights.items():
        if name not in names:
            raise InvalidParameter(
                f'The weight of "{name}" names no numeric quasi-identifier.',
                hint="Give weights to quasi-identifiers only.",
            )
        if not np.isfinite(weight) or weight < 0:
            raise InvalidParameter(f'The weight of "{name}" must be 0 or more and finite.')
    return np.sqrt(np.array([weights.get(name, 1.0) for name in names], np.float64))
