"""Scales of numeric columns, and the maps that make columns comparable.

Columns are summed without rounding, in pieces of any size and order: the compiled core adds
mantissas and their squares as integers, by exponent, and Python adds these as unbounded integers.
The sums of the pieces therefore add up to exactly the sum of the column, and no result depends on
how a table is split.
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

# Every float64 is an integer multiple of 2**-1074.
_UNIT_EXPONENT = 1074

# Bits with which a variance is computed. Its square root then has 64 bits, which are rounded to the
# 53 bits of a float64.
_VARIANCE_BITS = 2 * 64


@dataclass(frozen=True)
class Sums:
    """The exact sums of a column.

    Parameters
    ----------
    count : the number of values.
    least, most : the smallest and the largest value; 0 without values.
    all_integers : True if all values are whole numbers.
    total : the sum of the values, in units of 2**-1074.
    squares : the sum of their squares, in units of 2**-2148.
    """

    count: int = 0
    least: float = 0.0
    most: float = 0.0
    all_integers: bool = True
    total: int = 0
    squares: int = 0

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Sums:
        """Sum these values, float64 (m,), which must be finite; their order does not matter."""
        if not values.size:
            return cls()
        # The kernel returns a tuple for each exponent that occurs: the exponent, counted from
        # -1074, by which sums are shifted; the sum of mantissas as two 64-bit words, the high one
        # first; and the sum of their squares as three.
        least, most, all_integers, sums_by_exponent = exact_sums(values)
        total = squares = 0
        for shift, high, low, top_square, high_square, low_square in sums_by_exponent:
            total += ((high << 64) | low) << shift
            squares += ((top_square << 128) | (high_square << 64) | low_square) << (2 * shift)
        # Adding 0.0 turns -0.0 into 0.0: which of the two is the minimum depends on the order.
        return cls(len(values), least + 0.0, most + 0.0, all_integers, total, squares)

    def __add__(self, other: Sums) -> Sums:
        """Add the sums of two pieces of a column."""
        if not (self.count and other.count):
            return self if self.count else other
        return Sums(
            self.count + other.count,
            min(self.least, other.least),
            max(self.most, other.most),
            self.all_integers and other.all_integers,
            self.total + other.total,
            self.squares + other.squares,
        )

    def mean(self, exponent: int) -> float:
        """The mean times 2**-exponent, correctly rounded; requires at least one value."""
        # Python divides long integers without rounding them first.
        shift = _UNIT_EXPONENT + exponent
        return (self.total << max(-shift, 0)) / (self.count << max(shift, 0))

    def deviation(self, exponent: int) -> float:
        """The sample standard deviation times 2**-exponent; requires at least two values.

        Correctly rounded unless the result is subnormal.
        """
        numerator = self.count * self.squares - self.total**2
        denominator = self.count * (self.count - 1)
        if not numerator:
            return 0.0
        shift = _VARIANCE_BITS - (numerator.bit_length() - denominator.bit_length())
        # The shift must be even, because the root halves it.
        shift += shift % 2
        # An additional last bit says whether the root is inexact, for correct rounding.
        variance, remainder = divmod(numerator << max(shift, 0), denominator << max(-shift, 0))
        root = isqrt(variance)
        is_inexact = bool(remainder) or root * root != variance
        return float(
            np.ldexp(float(2 * root + is_inexact), -shift // 2 - 1 - _UNIT_EXPONENT - exponent)
        )


MAHALANOBIS = "mahalanobis"
# The names of standardizations; ``Standardization.of`` describes them.
STANDARDIZATIONS = ("zscore", "range", "none", MAHALANOBIS)

# A column whose residual after regression on earlier columns has a smaller share of its standard
# deviation than this counts as a linear combination of them: the residual is rounding error.
_MIN_RESIDUAL_SHARE = 1e-6


@dataclass(frozen=True)
class Scale:
    """The scale of a numeric column; NULLs are ignored.

    Parameters
    ----------
    count : the number of values.
    least, most : the smallest and the largest value; 0 without values.
    mean, deviation : mean and sample standard deviation of the values times 2**-``exponent``,
        correctly rounded. The deviation is 0 if all values are equal.
    is_integral : True if all values are whole numbers.
    """

    count: int = 0
    least: float = 0.0
    most: float = 0.0
    mean: float = 0.0
    deviation: float = 0.0
    is_integral: bool = True

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Scale:
        """Compute the scale of these values, float64 (m,), which must be finite."""
        return cls.of_sums(Sums.of(values))

    @classmethod
    def of_sums(cls, sums: Sums) -> Scale:
        """Compute the scale of values from their sums."""
        if not sums.count:
            return cls()
        scale = cls(sums.count, sums.least, sums.most, is_integral=sums.all_integers)
        deviation = 0.0 if scale.is_constant else sums.deviation(scale.exponent)
        return replace(scale, mean=sums.mean(scale.exponent), deviation=deviation)

    @property
    def is_constant(self) -> bool:
        """True if all values are equal."""
        return self.least == self.most

    @property
    def spread(self) -> float:
        """The width of the range of values."""
        return self.most - self.least

    @property
    def exponent(self) -> int:
        """The power of two that brings the largest absolute value below 1."""
        return int(np.frexp(max(abs(self.least), abs(self.most)))[1])


@dataclass(frozen=True)
class Standardization:
    """An affine map per column: (x * 2**-exponent - shift) / scale.

    The power of two is applied first, so that huge numbers do not overflow, tiny ones do not become
    0, and multiplying a column by a power of two does not change the result.

    Parameters
    ----------
    exponent : int64 (p,), the exponent of the power of two, by column.
    shift : float64 (p,), the number to subtract, by column.
    scale : float64 (p,), the divisor, by column; 0 marks a constant column, which maps to 0.
    """

    exponent: NDArray[np.int64]
    shift: NDArray[np.float64]
    scale: NDArray[np.float64]

    @classmethod
    def of(cls, scales: Sequence[Scale], standardize: str = "zscore") -> Standardization:
        """The map that standardizes p columns.

        Parameters
        ----------
        scales : the scales of the p columns.
        standardize : ``zscore`` (mean 0, sample standard deviation 1), ``range`` (minimum 0,
            maximum 1) or ``none`` (only constant columns are set to 0, which changes no distance).
            ``mahalanobis`` is the same as ``zscore`` here: z-scores are later decorrelated by the
            map of ``compute_whitening``.

        Raises
        ------
        InvalidParameter : there is no such standardization.
        """
        if standardize not in STANDARDIZATIONS:
            raise InvalidParameter(
                f"There is no standardization {standardize!r}."
                f" Known: {', '.join(STANDARDIZATIONS)}."
            )
        p = len(scales)
        exponent, shift, scale = np.zeros(p, np.int64), np.zeros(p), np.zeros(p)
        for column, column_scale in enumerate(scales):
            if column_scale.is_constant:
                continue
            if standardize == "none":
                scale[column] = 1.0
                continue
            exponent[column] = column_scale.exponent
            if standardize in ("zscore", MAHALANOBIS):
                shift[column], scale[column] = column_scale.mean, column_scale.deviation
            else:
                low, high = np.ldexp(
                    [column_scale.least, column_scale.most], -column_scale.exponent
                )
                shift[column], scale[column] = low, high - low
            if scale[column] == 0.0:  # The spread is smaller than any float64 above 0.
                shift[column] = 0.0
        return cls(exponent, shift, scale)

    def apply_to_records(
        self,
        numbers: NDArray[np.float64],
        records: NDArray[np.int64],
        factors: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Apply the map to some rows, and multiply columns by factors, in one compiled pass.

        Parameters
        ----------
        numbers : float64 (n, p), the columns.
        records : int64 (m,), the indices of the rows.
        factors : float64 (p,), the factor of each column, 0 or more.
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
        is_varying = self.scale != 0
        points /= np.where(is_varying, self.scale, 1.0)
        points[:, ~is_varying] = 0.0
        return points


@dataclass(frozen=True)
class Whitening:
    """A linear map after which columns are uncorrelated and have variance 1.

    From each column, its regression on the earlier columns is subtracted, and the residual is
    divided by its standard deviation. This is forward substitution with the Cholesky factor of the
    covariance. Euclidean distances of the result are Mahalanobis distances of the original points,
    for any order of the columns.

    Parameters
    ----------
    factor : float64 (p, p), lower triangular. A 0 in the diagonal marks a column that is constant
        or depends on earlier ones: it maps to 0, so that directions without variance are ignored.
    """

    factor: NDArray[np.float64]

    def apply(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """The whitened copy of ``points``, float64 (m, p)."""
        # Do not use BLAS or LAPACK: their rounding depends on library and processor, and classes
        # must not.
        whitened = np.zeros(points.shape, np.float64, order="F")
        for j, row in enumerate(self.factor):
            if row[j] == 0.0:
                continue
            column = points[:, j].copy()
            for i in np.flatnonzero(row[:j]):
                column -= row[i] * whitened[:, i]
            whitened[:, j] = column / row[j]
        return whitened


def compute_whitening(points: NDArray[np.float64]) -> Whitening:
    """Compute the map that whitens ``points``, float64 (n, p), which are z-scores.

    The factor comes from the modified Gram-Schmidt process on the points, which loses fewer digits
    than the decomposition of a computed covariance.
    """
    n, p = points.shape
    factor = np.zeros((p, p))
    residual = np.array(points, np.float64, order="F")
    degrees = max(n - 1, 1)
    for j in range(p):
        column = residual[:, j]
        # A constant column has no spread, but its rounded mean may differ from its values.
        if not n or column.max() == column.min():
            continue
        column -= column.mean()
        spread = np.sqrt(np.square(column).sum() / degrees)
        for i in range(j):
            if factor[i, i]:
                factor[j, i] = (column * residual[:, i]).sum() / degrees
                column -= factor[j, i] * residual[:, i]
        residual_spread = np.sqrt(np.square(column).sum() / degrees)
        if residual_spread > _MIN_RESIDUAL_SHARE * spread:
            factor[j, j] = residual_spread
            column /= residual_spread
    return Whitening(factor)
