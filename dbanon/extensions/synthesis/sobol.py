"""Points that fill a cube more evenly than random ones: a Sobol sequence with a random shift.

Rows that are drawn by such points have counts over one to three columns that are nearer to the
model's shares than those of independent draws.

Sources: I. M. Sobol, "On the distribution of points in a cube and the approximate evaluation of
integrals", 1967; the numbers below are of S. Joe and F. Y. Kuo, "Constructing Sobol sequences with
better two-dimensional projections", SIAM J. Sci. Comput. 30 (2008).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

# For each dimension, a primitive polynomial over the integers modulo 2, whose coefficients are the
# bits of the number, and as many initial direction numbers as its degree.
_DIRECTIONS: tuple[tuple[int, tuple[int, ...]], ...] = (
    (1, ()),
    (3, (1,)),
    (7, (1, 3)),
    (11, (1, 3, 1)),
    (13, (1, 1, 1)),
    (19, (1, 1, 3, 3)),
    (25, (1, 3, 5, 13)),
    (37, (1, 1, 5, 5, 17)),
    (41, (1, 1, 5, 5, 5)),
    (47, (1, 1, 7, 11, 19)),
    (55, (1, 1, 5, 1, 1)),
    (59, (1, 1, 1, 3, 11)),
    (61, (1, 3, 5, 5, 31)),
    (67, (1, 3, 3, 9, 7, 49)),
    (91, (1, 1, 1, 15, 21, 21)),
    (97, (1, 3, 1, 13, 27, 49)),
    (103, (1, 1, 1, 15, 7, 5)),
    (109, (1, 3, 1, 15, 13, 25)),
    (115, (1, 1, 5, 5, 19, 61)),
    (131, (1, 3, 7, 11, 23, 15, 103)),
    (137, (1, 3, 7, 13, 13, 15, 69)),
    (143, (1, 1, 3, 13, 7, 35, 63)),
    (145, (1, 3, 5, 9, 1, 25, 53)),
    (157, (1, 3, 1, 13, 9, 35, 107)),
    (167, (1, 3, 1, 5, 27, 61, 31)),
    (171, (1, 1, 5, 11, 19, 41, 61)),
    (185, (1, 3, 5, 3, 3, 13, 69)),
    (191, (1, 1, 7, 13, 1, 19, 1)),
    (193, (1, 3, 7, 5, 13, 19, 59)),
    (203, (1, 1, 3, 9, 25, 29, 41)),
    (211, (1, 3, 5, 13, 23, 1, 55)),
    (213, (1, 3, 7, 3, 13, 59, 17)),
)
MAX_DIMENSIONS = len(_DIRECTIONS)
# Coordinates are multiples of 2 ** -_BITS before the shift.
_BITS = 40


def draw_even_points(p: int, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw n points of the unit cube in random order, float64 (p, n), each coordinate below 1.

    Each point is distributed uniformly.

    Parameters
    ----------
    p : number of dimensions, at most ``MAX_DIMENSIONS``.
    """
    indices = rng.permutation(n)
    points = np.empty((p, n))
    for dimension, shift in enumerate(rng.integers(0, 2**_BITS, p).tolist()):
        coordinates = np.full(n, shift, np.int64)
        for bit, direction in enumerate(_expand_directions(dimension, n.bit_length())):
            coordinates ^= np.where((indices >> bit) & 1, direction, 0)
        points[dimension] = coordinates / 2.0**_BITS
    return points


def _expand_directions(dimension: int, n_bits: int) -> list[int]:
    """Compute the numbers that each bit of a point's index contributes by exclusive or."""
    polynomial, initial = _DIRECTIONS[dimension]
    degree = len(initial)
    numbers = list(initial[:n_bits]) if degree else [1] * n_bits
    while len(numbers) < n_bits:
        number = numbers[-degree] ^ (numbers[-degree] << degree)
        for i in range(1, degree):
            if (polynomial >> (degree - i)) & 1:
                number ^= numbers[-i] << i
        numbers.append(number)
    return [number << (_BITS - 1 - bit) for bit, number in enumerate(numbers)]
