"""How columns of numbers lie on their lines, and the maps that make them comparable.

Columns add up without rounding, in pieces, in whatever order and wherever each was read. The
compiled core adds mantissas and their squares as integers, by exponent; from there on Python's
integers go on, which have no limit. Sums of pieces are added as integers, so that they are the sums
of the whole in every bit, and what follows from them does not tell how a table was cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.errors import InvalidParameter
from dbanon.kernels import exact_sums, standardized

# Every float64 is a whole number of 2**-1074.
_UNIT = 1074

# Bits of a square root before it is rounded to 53, the last of which says that others follow.
_ROOT_BITS = 2 * 64


@dataclass(frozen=True)
class Sums:
    """What a column adds up to, exactly.

    Parameters
    ----------
    count : the number of values.
    least, most : the smallest and the largest; 0 where there is none.
    whole : True where all are whole numbers.
    total : their sum, in units of 2**-1074.
    squares : the sum of their squares, in units of 2**-2148.
    """

    count: int = 0
    least: float = 0.0
    most: float = 0.0
    whole: bool = True
    total: int = 0
    squares: int = 0

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Sums:
        """Of these values, float64 (m,), finite, in any order."""
        if not values.size:
            return cls()
        least, most, whole, parts = exact_sums(values)
        total = sum(((high << 64) | low) << up for up, high, low, *_ in parts)
        squares = sum(
            ((top << 128) | (high << 64) | low) << (2 * up) for up, _, _, top, high, low in parts
        )
        # Not -0.0, of which a minimum may or may not be, by the order of values.
        return cls(len(values), least + 0.0, most + 0.0, whole, total, squares)

    def __add__(self, other: Sums) -> Sums:
        """Of the values of both."""
        if not (self.count and other.count):
            return self if self.count else other
        return Sums(
            self.count + other.count,
            min(self.least, other.least),
            max(self.most, other.most),
            self.whole and other.whole,
            self.total + other.total,
            self.squares + other.squares,
        )

    def mean(self, exponent: int) -> float:
        """The mean times 2**-exponent, correctly rounded; of one value or more."""
        # Python divides integers of any length without rounding them first.
        down = _UNIT + exponent
        up = max(-down, 0)
        return (self.total << up) / (self.count << max(down, 0))

    def deviation(self, exponent: int) -> float:
        """The sample standard deviation times 2**-exponent, of two values or more.

        Correctly rounded, unless it is below the normal numbers.
        """
        above = self.count * self.squares - self.total**2
        below = self.count * (self.count - 1)
        if not above:
            return 0.0
        shift = _ROOT_BITS - (above.bit_length() - below.bit_length())
        shift += shift % 2
        square, rest = divmod(above << max(shift, 0), below << max(-shift, 0))
        root = isqrt(square)
        inexact = bool(rest) or root * root != square
        return float(np.ldexp(float(2 * root + inexact), -shift // 2 - 1 - _UNIT - exponent))


MAHALANOBIS = "mahalanobis"
STANDARDIZATIONS = ("zscore", "range", "none", MAHALANOBIS)

# Of an attribute's standard deviation: with less of its own it follows from the others, but for
# rounding.
_OWN_PART = 1e-6


@dataclass(frozen=True)
class Scale:
    """What a column of numbers is measured by; values that are NULL do not count.

    Parameters
    ----------
    count : the number of values.
    least, most : the smallest and the largest; 0 where there is none.
    mean, deviation : of the values times 2**-exponent, correctly rounded: the sample standard
        deviation, 0 where all are the same.
    whole : True where all are whole numbers.
    """

    count: int = 0
    least: float = 0.0
    most: float = 0.0
    mean: float = 0.0
    deviation: float = 0.0
    whole: bool = True

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Scale:
        """The scale of these values, float64 (m,), finite, in any order."""
        return cls.of_sums(Sums.of(values))

    @classmethod
    def of_sums(cls, sums: Sums) -> Scale:
        """The scale of values that were added up, in pieces or at once: the same in every bit."""
        if not sums.count:
            return cls()
        ends = cls(sums.count, sums.least, sums.most, whole=sums.whole)
        spread = 0.0 if ends.constant else sums.deviation(ends.exponent)
        return replace(ends, mean=sums.mean(ends.exponent), deviation=spread)

    @property
    def constant(self) -> bool:
        """True where no two values differ."""
        return self.least == self.most

    @property
    def spread(self) -> float:
        """The width of the range."""
        return self.most - self.least

    @property
    def exponent(self) -> int:
        """The power of two that brings the largest absolute value below 1."""
        return int(np.frexp(max(abs(self.least), abs(self.most)))[1])


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

    @classmethod
    def of(cls, scales: Sequence[Scale], how: str = "zscore") -> Standardization:
        """The map that standardizes p columns.

        Parameters
        ----------
        scales : of the p columns.
        how : ``zscore`` (mean 0, sample standard deviation 1), ``range`` (minimum 0, maximum 1) or
            ``none`` (only constant columns are set to 0, which changes no distance).
            ``mahalanobis`` starts from z-scores, which ``whitening`` then makes uncorrelated.

        Raises
        ------
        InvalidParameter : no such standardization.
        """
        if how not in STANDARDIZATIONS:
            raise InvalidParameter(
                f"There is no standardization named {how!r}.",
                hint="Use one of " + ", ".join(STANDARDIZATIONS) + ".",
            )
        p = len(scales)
        exponent, shift, scale = np.zeros(p, np.int64), np.zeros(p), np.zeros(p)
        for column, measured in enumerate(scales):
            if measured.constant:
                continue
            if how == "none":
                scale[column] = 1.0
                continue
            exponent[column] = measured.exponent
            if how in ("zscore", MAHALANOBIS):
                shift[column], scale[column] = measured.mean, measured.deviation
            else:
                low, high = np.ldexp([measured.least, measured.most], -measured.exponent)
                shift[column], scale[column] = low, high - low
            if scale[column] == 0.0:  # a spread below the smallest number: no distance to measure
                shift[column] = 0.0
        return cls(exponent, shift, scale)

    def of_records(
        self,
        numbers: NDArray[np.float64],
        records: NDArray[np.int64],
        factors: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """As ``apply`` to some rows, and then times a factor for each column: one compiled pass.

        Parameters
        ----------
        numbers : float64 (n, p).
        records : int64 (m,), positions of rows.
        factors : float64 (p,), 0 or more.
        """
        return standardized(
            np.ascontiguousarray(numbers),
            np.ascontiguousarray(records, np.int64),
            self.exponent,
            self.shift,
            self.scale,
            factors,
        )

    def apply(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """The standardized copy of ``numbers``, float64 (m, p)."""
        points = np.ldexp(numbers, -self.exponent)
        points -= self.shift
        varying = self.scale != 0
        points /= np.where(varying, self.scale, 1.0)
        points[:, ~varying] = 0.0
        return points


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
