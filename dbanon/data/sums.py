"""Sums without rounding: of a column in pieces, in whatever order and wherever each was read.

The compiled core adds mantissas and their squares as integers, by exponent; from there on Python's
integers go on, which have no limit. Sums of pieces are added as integers, so that they are the sums
of the whole in every bit, and what follows from them does not tell how a table was cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from dbanon.kernels import exact_sums

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
