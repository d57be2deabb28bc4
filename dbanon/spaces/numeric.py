"""Where methods measure distance: standardized points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import Microdata
from dbanon.errors import InvalidParameter

MAHALANOBIS = "mahalanobis"
STANDARDIZATIONS = ("zscore", "range", "none", MAHALANOBIS)

# Of an attribute's standard deviation: with less of its own it follows from the others, but for
# rounding.
_OWN_PART = 1e-6


@dataclass(frozen=True)
class Standardization:
    """An affine map per column: (x * 2**-exponent - shift) / scale.

    The power of two comes first, so that columns of huge or tiny numbers neither overflow nor
    vanish, and rescaling a column by a power of two changes no bit of the result.

    Parameters
    ----------
    exponent : int64 (p,).
    shift, scale : float64 (p,). A scale of 0 marks a constant column: it maps to 0.
    """

    exponent: NDArray[np.int64]
    shift: NDArray[np.float64]
    scale: NDArray[np.float64]

    def apply(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """The standardized copy of ``numbers``, float64 (m, p)."""
        points = np.ldexp(numbers, -self.exponent)
        points -= self.shift
        varying = self.scale != 0
        points /= np.where(varying, self.scale, 1.0)
        points[:, ~varying] = 0.0
        return points


def standardization(
    numbers: NDArray[np.float64],
    how: str = "zscore",
    valid: NDArray[np.bool_] | None = None,
) -> Standardization:
    """The map that standardizes the columns of ``numbers``.

    Parameters
    ----------
    numbers : float64 (n, p).
    how : ``zscore`` (mean 0, sample standard deviation 1), ``range`` (minimum 0, maximum 1) or
        ``none`` (only constant columns are set to 0, which changes no distance).
        ``mahalanobis`` starts from z-scores, which ``whitening`` then makes uncorrelated.
    valid : bool (n, p), which values count; None for all.

    Raises
    ------
    InvalidParameter : no such standardization.
    """
    if how not in STANDARDIZATIONS:
        raise InvalidParameter(
            f"There is no standardization named {how!r}.",
            hint="Use one of " + ", ".join(STANDARDIZATIONS) + ".",
        )
    p = numbers.shape[1]
    exponent, shift, scale = np.zeros(p, np.int64), np.zeros(p), np.zeros(p)
    for column in range(p):
        values = numbers[:, column] if valid is None else numbers[valid[:, column], column]
        # Not std == 0: the rounding of a mean gives equal values a tiny deviation.
        if not values.size or values.max() == values.min():
            continue
        if how == "none":
            scale[column] = 1.0
            continue
        exponent[column] = np.frexp(np.abs(values).max())[1]
        values = np.ldexp(values, -exponent[column])
        if how in ("zscore", MAHALANOBIS):
            shift[column], scale[column] = values.mean(), values.std(ddof=1)
        else:
            shift[column], scale[column] = values.min(), values.max() - values.min()
        if scale[column] == 0.0:  # a spread below the smallest number: no distance to measure
            shift[column] = 0.0
    return Standardization(exponent, shift, scale)


@dataclass(frozen=True)
class Whitening:
    """A linear map after which columns are uncorrelated and have variance 1.

    Each column loses what the columns before it tell, and is divided by the standard deviation of
    the rest: forward substitution with the Cholesky factor of the covariance. Euclidean distance
    is then Mahalanobis distance, whatever the order of the columns.

    Parameters
    ----------
    factor : float64 (p, p), lower triangular. A 0 in the diagonal marks a column that follows from
        those before it, or is constant: it maps to 0, so that directions without variance do not
        count.
    """

    factor: NDArray[np.float64]

    def apply(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """The whitened copy of ``points``, float64 (m, p)."""
        # Column by column in plain sums and products, not by BLAS or LAPACK, whose rounding
        # depends on the library and the processor: classes must not.
        white = np.zeros(points.shape, np.float64, order="F")
        for j, row in enumerate(self.factor):
            if row[j] == 0.0:
                continue
            column = points[:, j].copy()
            for i in np.flatnonzero(row[:j]):
                column -= row[i] * white[:, i]
            white[:, j] = column / row[j]
        return white


def whitening(points: NDArray[np.float64]) -> Whitening:
    """The map that whitens ``points``, float64 (n, p), z-scores.

    The factor comes from the modified Gram-Schmidt process on the points, which loses fewer digits
    than the decomposition of a computed covariance.
    """
    n, p = points.shape
    factor = np.zeros((p, p))
    rest = np.array(points, np.float64, order="F")
    degrees = max(n - 1, 1)
    for j in range(p):
        column = rest[:, j]
        if not n or column.max() == column.min():  # its mean's rounding would pass for a spread
            continue
        column -= column.mean()
        spread = np.sqrt(np.square(column).sum() / degrees)
        for i in range(j):
            if factor[i, i]:
                factor[j, i] = (column * rest[:, i]).sum() / degrees
                column -= factor[j, i] * rest[:, i]
        own = np.sqrt(np.square(column).sum() / degrees)
        if own > _OWN_PART * spread:
            factor[j, j] = own
            column /= own
    return Whitening(factor)


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
    *,
    standardize: str,
    weights: Mapping[str, float],
    hierarchies: Mapping[str, object],
) -> Callable[[NDArray[np.int64]], Space]:
    """A function from sets of records, int64 (m,), to their points; one scale for the whole table.

    NULLs are 0: a method sees one pattern of NULLs at a time. Whitening follows the covariance of
    all records that hold a value wherever the pattern does.

    Raises
    ------
    InvalidParameter : a hierarchy is given, or weights with ``mahalanobis``; neither has any use.
    """
    if hierarchies:
        raise InvalidParameter(
            "This method measures numbers and takes no hierarchies.",
            hint="Leave them out, or choose a method of generalization.",
        )
    check_weights(standardize, weights)
    names = tuple(attribute.name for attribute in microdata.numeric)
    valid = microdata.numeric_valid()
    transform = standardization(microdata.numbers, standardize, valid)
    factors = weight_vector(names, weights)
    whitenings: dict[bytes, Whitening] = {}

    def pattern_whitening(present: NDArray[np.bool_] | None) -> Whitening:
        key = b"" if present is None else present.tobytes()
        if key not in whitenings:
            if present is None or valid is None:
                whitenings[key] = whitening(transform.apply(microdata.numbers))
            else:
                holding = valid[:, present].all(axis=1)
                points = transform.apply(microdata.numbers[holding])
                points[:, ~present] = 0.0
                whitenings[key] = whitening(points)
        return whitenings[key]

    def space(records: NDArray[np.int64]) -> Space:
        points = transform.apply(microdata.numbers[records])
        points *= factors
        if valid is not None:
            points[~valid[records]] = 0.0
        if standardize == MAHALANOBIS and len(records):
            points = pattern_whitening(None if valid is None else valid[records[0]]).apply(points)
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
            hint="Leave them out, or choose standardize=zscore or range.",
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
