"""Prices by pairs: every record is tied to k - 1 others, and a tie counts for both its ends.

In a class of k records each is tied to the k - 1 others, and the squared distances of the ties over
k add up to SSE. So the least sum of ties with k - 1 at every record is a lower bound: the linear
program of a (k - 1)-matching. For any u, one number for each record, the prices

    y(i) = (k - 1) u(i) - 1/2 sum over all j of max(0, u(i) + u(j) - d(i, j)/k)

are a certificate: over a class S of k records the first terms add up to u(i) + u(j) over the pairs
of S, and what is taken off is at least max(0, ...) of these pairs, so that at most d(i, j)/k is
left of each. The program gives the u for which their sum is largest; near pairs are enough for it,
and those it lacks are added.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dbanon.bounds.program import NEAR_ENOUGH, Program
from dbanon.bounds.rounding import SLACK, error_of, lowered
from dbanon.kernels import Neighbours
from dbanon.methods.registry import Tick

Floats = NDArray[np.float64]

# Nearest others that a record may be tied to at first, for each of the k - 1.
_NEAR, _LEAST_NEAR = 4, 40
_ROUNDS = 4
# Distances held at once.
_AT_ONCE = 2**22


def pair_prices(points: Floats, k: int, ends: float, tick: Tick) -> tuple[Floats, bool]:
    """Prices, float64 (n,), and whether they are the best there are, but for a hundred-thousandth.

    Parameters
    ----------
    ends : when to end, of the monotonic clock.
    """
    n = len(points)
    kernel = Neighbours(points, min(n - 1, max(_NEAR * (k - 1), _LEAST_NEAR)), keep=True)
    while not kernel.step():
        tick(kernel.progress)
    others = kernel.ids().reshape(n, -1)
    ties = np.stack([np.repeat(np.arange(n), others.shape[1]), others.ravel()], axis=1)
    program = Program(n, k - 1, math.inf)
    known = np.zeros(0, np.int64)
    prices = np.zeros(n)
    for _ in range(_ROUNDS):
        ties.sort(axis=1)
        new = np.setdiff1d(ties[:, 0] * n + ties[:, 1], known)
        if not len(new):
            return prices, True
        known = np.union1d(known, new)
        ends_of = np.stack([new // n, new % n], axis=1).astype(np.int32)
        costs = np.square(points[ends_of[:, 0]] - points[ends_of[:, 1]]).sum(axis=1) / k
        starts = np.arange(0, 2 * len(new), 2, dtype=np.int32)
        program.add(ends_of.ravel(), starts, costs, 1.0)
        solved = program.solve(ends)
        if solved is None:
            return prices, False
        found, ties = _repaired(points, k, solved[0], tick)
        if found.sum() > prices.sum():
            prices = found
        if solved[1] - prices.sum() <= NEAR_ENOUGH * abs(solved[1]):
            return prices, True
        if time.monotonic() > ends:
            return prices, False
    return prices, False


def _repaired(points: Floats, k: int, u: Floats, tick: Tick) -> tuple[Floats, NDArray[np.int64]]:
    """The prices of u, float64 (n,), rounded down, and the pairs that they were lowered for."""
    n, p = points.shape
    error = SLACK + error_of(p)
    taken, violated = np.zeros(n), []
    for rows, apart in _distances(points):
        both = u[rows, None] + u[None, :]
        # Above the exact excess: the last term is more than the rounding of what stands before it.
        excess = both - apart * ((1 - error) / k)
        excess += error * (np.abs(u[rows, None]) + np.abs(u[None, :]))
        excess[np.arange(len(rows)), rows] = 0.0
        np.maximum(excess, 0.0, out=excess)
        taken[rows] = excess.sum(axis=1)
        at, other = np.nonzero(excess > 1e-9 * np.abs(both))
        violated.append(np.stack([rows[at], other], axis=1))
        tick(float(rows[-1] + 1) / n)
    most = lowered(-taken / 2, n)
    return lowered((k - 1) * u, k) + most - SLACK * np.abs(u), np.concatenate(violated)


def _distances(points: Floats) -> Iterator[tuple[NDArray[np.int64], Floats]]:
    """Rows of the matrix of all squared distances: which, and float64 (rows, n)."""
    n = len(points)
    width = max(1, _AT_ONCE // n)
    for first in range(0, n, width):
        rows = np.arange(first, min(first + width, n))
        found = np.zeros((len(rows), n))
        for column in points.T:
            gap = column[rows, None] - column[None, :]
            found += gap * gap
        yield rows, found
