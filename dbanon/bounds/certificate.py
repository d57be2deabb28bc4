"""Certificates: a price for each record, which no class of k or more records costs less than.

What is bounded is SSE, the sum of squares within classes, as a share of SST: ``information_loss``.

A certificate is a vector y of prices, one for each record, so that for every class S of exactly k
records the sum of y over S is at most SSE(S). Then the sum of all prices is a lower bound of the
loss of every partition into classes of k or more:

1. It holds for larger classes, too. SSE(S) is the sum of the squared distances of the pairs of S,
   divided by m = |S|. Every pair is in m - 2 of the m classes that S is without one record, each of
   which is divided by m - 1, so their SSE add up to m (m - 2)/(m - 1) SSE(S). If all of them cost
   at least their prices, whose sum is (m - 1) y(S), then SSE(S) >= (m - 1)²/(m (m - 2)) y(S), and
   that factor is above 1: SSE(S) >= y(S), also where y(S) < 0. By induction from k on all sizes do.
2. A partition's classes hold every record once: its SSE is at least the sum of all y.

So nobody has to believe how the prices were found; to check them is to look for a class of k
records that costs less than its prices. There are four ways to find them:

- ``neighbours``: half the squared distances of a record to its k - 1 nearest others, divided by k.
  In SSE(S) each record has the half of k - 1 squared distances over k, and none is smaller.
- ``pairs``: the linear program of ``pairs.py``, where a pair's distance counts for both.
- ``classes``: the linear program of ``classes.py``, over all classes of k records, which is the
  best that prices can do.
- ``fitting``: nearly the same without a solver, of any number of records (``fitting.py``).

Nothing here is trusted to rounding: distances are sums of squares, whose relative error is known,
and each step takes it off. The certificate is of the points as they are, in double precision.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.bounds import classes
from dbanon.bounds.classes import SLACK, error_of, lowered, raised
from dbanon.bounds.fitting import fitted_prices
from dbanon.bounds.program import NEAR_ENOUGH, Program, solved_here
from dbanon.bounds.tolls import Tolls, no_tolls
from dbanon.data.partition import Partition
from dbanon.data.words import WithCard
from dbanon.kernels import Neighbours
from dbanon.methods.registry import Tick

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


Floats = NDArray[np.float64]

# All distances are looked at, again and again.
MOST_RECORDS = 10_000
# Of larger classes too many are looked into before one can be left out.
MOST_PRICED = 6


@dataclass(frozen=True, eq=False, repr=False)
class Certificate(WithCard):
    """A lower bound of the information loss, and what proves it.

    Parameters
    ----------
    k : the smallest class.
    share : the bound, a share of SST: every partition into classes of k or more loses that.
    way : what gave it: ``neighbours``, ``pairs``, ``classes`` or ``fitting``.
    complete : True where this way has nothing better to give, False where time ended it.
    prices : float64 (n,), of each record, a share of SST: no class of k or more loses less than its
        prices without the tolls it pays. All prices less all tolls are ``share``.
    tolls : shares of SST, too; none where k is not 3.
    simple : what ``neighbours`` alone gives.
    seconds : CPU seconds.
    """

    k: int
    share: float
    way: str
    complete: bool
    prices: Floats
    tolls: Tolls
    simple: float
    seconds: float

    def gap(self, loss: float) -> float:
        """How much a loss is above the bound at most, as a share of the bound; infinite above 0."""
        if self.share > 0:
            return loss / self.share - 1
        return 0.0 if loss <= 0 else math.inf

    def to_dict(self) -> dict[str, Any]:
        """The bound as plain values, for JSON; not the prices, which tell of single records."""
        return {
            "k": self.k,
            "records": len(self.prices),
            "lower_bound": self.share,
            "way": self.way,
            "complete": self.complete,
            "simple_bound": self.simple,
            "seconds": self.seconds,
        }

    def pairs(self) -> list[tuple[str, str]]:
        """The bound as pairs of label and text, for people."""
        ended = "" if self.complete else ", ended early: it holds, and is perhaps not the best"
        return [
            ("records", str(len(self.prices))),
            ("k", str(self.k)),
            ("information loss, SSE/SST, at least", f"{self.share:.6f}"),
            ("by", self.way + ended),
            ("by nearest neighbours alone", f"{self.simple:.6f}"),
            ("CPU seconds", f"{self.seconds:.2f}"),
        ]


def certificate(
    points: Floats,
    k: int,
    start: Sequence[Partition] = (),
    *,
    seconds: float,
    tick: Tick = lambda share: None,
) -> Certificate:
    """The best certificate that is found in the time given.

    Parameters
    ----------
    points : float64 (n, p), C order, finite: z-scores of k records or more.
    start : partitions of them into classes of k or more, the better the sooner it ends; without any
        of them ``classes`` is not tried. ``fitting`` needs none.
    seconds : of wall time, for all but ``neighbours``, which takes what it takes.
    tick : called with a share now and then; what it raises ends it.
    """
    started, ends = time.process_time(), time.monotonic() + seconds
    prices = neighbour_prices(points, k, tick)
    simple, way, complete = prices, "neighbours", True
    tolls = no_tolls()
    if solved_here() and len(points) <= MOST_RECORDS and simple.any():
        found, complete = pair_prices(points, k, ends, tick)
        if math.fsum(found) > math.fsum(prices):
            prices, way = found, "pairs"
        if start and k <= MOST_PRICED:
            better, paid, complete = classes.class_prices(points, k, start, prices, ends, tick)
            if math.fsum(better) - math.fsum(paid.tolls) > math.fsum(prices):
                prices, tolls, way = better, paid.charged(), "classes"
    elif simple.any() and len(points) > k:
        found, complete = fitted_prices(points, k, prices, ends, tick)
        if math.fsum(found) > math.fsum(prices):
            prices, way = found, "fitting"
    total = _total(points)
    shares = [_shares(one, total) for one in (prices, simple)]
    paid_shares = raised(tolls.tolls / total, 1) if len(tolls.tolls) else tolls.tolls
    return Certificate(
        k=k,
        share=_sum(np.concatenate([shares[0], -paid_shares])),
        way=way,
        complete=complete,
        prices=shares[0],
        tolls=Tolls(tolls.triples, paid_shares),
        simple=_sum(shares[1]),
        seconds=time.process_time() - started,
    )


def neighbour_prices(points: Floats, k: int, tick: Tick = lambda share: None) -> Floats:
    """Half the squared distances to the k - 1 nearest others over k, rounded down, float64 (n,)."""
    kernel = Neighbours(points, k - 1)
    while not kernel.step():
        tick(kernel.progress)
    return lowered(kernel.sums() / (2 * k), points.shape[1] + k)


def _total(points: Floats) -> float:
    """SST, rounded up."""
    total = math.fsum(
        math.fsum(np.square(column - column.mean()))
        for column in points.T
        if column.max() != column.min()
    )
    return total * (1 + SLACK)


def _shares(prices: Floats, total: float) -> Floats:
    """Prices as shares of SST, rounded down."""
    if not total:
        return np.zeros(len(prices))
    return lowered(prices / total, 1)


def _sum(prices: Floats) -> float:
    """The sum of the prices, rounded down; no loss is below 0."""
    return max(math.nextafter(math.fsum(prices), -math.inf), 0.0)
