"""How columns of numbers lie on their lines, and the maps that make them comparable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dbanon.data.sums import Sums
from dbanon.errors import InvalidParameter
from dbanon.kernels import standardized

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
