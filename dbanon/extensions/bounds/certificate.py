"""Certificates: record prices such that every class of k or more costs at least its prices.

They bound ``information_loss``: SSE, the within-class sum of squares, as a share of SST, the total
sum of squares.

A certificate is a vector y of prices, one for each record. In every class S of exactly k records,
their sum y(S) is at most SSE(S). Then the sum of all prices is a lower bound of the loss of every
partition into classes of k or more:

1. The inequality extends to larger classes. SSE(S) is the sum of squared distances of the pairs of
   S, divided by m = |S|. Removing one record of S gives m subclasses of m - 1 records. Every pair
   is in m - 2 of them, so their SSE add up to m (m - 2)/(m - 1) SSE(S). If each costs at least its
   prices, which add up to (m - 1) y(S), then SSE(S) >= (m - 1)²/(m (m - 2)) y(S). That factor is
   above 1, so SSE(S) >= y(S), also for y(S) < 0. By induction it holds for all sizes from k.
2. A partition's classes hold every record once, so its SSE is at least the sum of all prices.

A certificate can therefore be checked without knowing how it was computed: search for a class of k
records that costs less than its prices. There are four methods of computing prices:

- ``neighbours``: half the squared distances of a record to its k - 1 nearest neighbours, divided by
  k. Each record contributes half of k - 1 squared distances over k to SSE(S), none of them smaller.
- ``pairs``: the linear program of ``compute_pair_prices``, where both records of a pair share its
  distance.
- ``classes``: the linear program of ``classes.py`` over all classes of k records: the best prices
  possible.
- ``fitting``: nearly the same without a solver, for any number of records (``fitting.py``).

Results are safe against rounding: distances are sums of squares with a known relative error, and
each step subtracts it. The certificate holds for the points exactly as given in double precision.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.data.partition import Partition
from dbanon.data.types import JsonObject
from dbanon.data.words import LabelledText, also_under_former_key
from dbanon.extensions.bounds import classes
from dbanon.extensions.bounds.classes import SLACK, relative_error, round_down, round_up
from dbanon.extensions.bounds.fitting import fit_prices
from dbanon.extensions.bounds.program import OPTIMALITY_GAP, Program, has_solver
from dbanon.extensions.bounds.tolls import SubsetRowDuals, empty_duals
from dbanon.kernels import Neighbours
from dbanon.methods.registry import Tick

# Neighbours per record in the first program: this many times k - 1, and at least the minimum.
_NEIGHBOURS_PER_MEMBER, _MIN_NEIGHBOURS = 4, 40
# The most times that pairs are added to the program and it is solved again.
_MAX_ROUNDS = 4
# The most distances in memory at the same time.
_MAX_DISTANCES_IN_MEMORY = 2**22


def compute_pair_prices(points: Floats, k: int, deadline: float, tick: Tick) -> tuple[Floats, bool]:
    """Compute prices, float64 (n,), and whether they are optimal to within 1e-5.

    Parameters
    ----------
    points : float64 (n, p).
    deadline : the time limit, in seconds of the monotonic clock.
    """
    n = len(points)
    # ``keep``: ``ids`` needs the neighbours themselves, not only sums of their distances.
    kernel = Neighbours(
        points, min(n - 1, max(_NEIGHBOURS_PER_MEMBER * (k - 1), _MIN_NEIGHBOURS)), keep=True
    )
    while not kernel.step():
        tick(kernel.progress)
    neighbours = kernel.ids().reshape(n, -1)
    candidate_pairs = np.stack(
        [np.repeat(np.arange(n), neighbours.shape[1]), neighbours.ravel()], axis=1
    )
    # Choose the cheapest pairs such that each record is in at least k - 1 of them, as in a class of
    # k, and no pair counts more than once. A pair costs its squared distance over k.
    program = Program(n, min_cover=k - 1, max_cover=math.inf)
    program_pairs = np.zeros(0, np.int64)
    prices = np.zeros(n)
    for _ in range(_MAX_ROUNDS):
        candidate_pairs.sort(axis=1)
        new_pairs = np.setdiff1d(candidate_pairs[:, 0] * n + candidate_pairs[:, 1], program_pairs)
        if not len(new_pairs):
            return prices, True
        program_pairs = np.union1d(program_pairs, new_pairs)
        pairs = np.stack([new_pairs // n, new_pairs % n], axis=1).astype(np.int32)
        costs = np.square(points[pairs[:, 0]] - points[pairs[:, 1]]).sum(axis=1) / k
        starts = np.arange(0, 2 * len(new_pairs), 2, dtype=np.int32)
        program.add(pairs.ravel(), starts, costs, upper_bound=1.0)
        solution = program.solve(deadline)
        if solution is None:
            return prices, False
        duals, optimum = solution
        # The next round adds the pairs whose price exceeds their cost.
        certified_prices, candidate_pairs = _repair_prices(points, k, duals, tick)
        if certified_prices.sum() > prices.sum():
            prices = certified_prices
        if optimum - prices.sum() <= OPTIMALITY_GAP * abs(optimum):
            return prices, True
        if time.monotonic() > deadline:
            return prices, False
    return prices, False


def _repair_prices(
    points: Floats, k: int, duals: Floats, tick: Tick
) -> tuple[Floats, NDArray[np.int64]]:
    """Turn dual values of the program of pairs into certified prices, float64 (n,), rounded down.

    If the duals of two records add up to more than the cost of their pair, both records give up
    half of the excess. Also returns these pairs, int64 (m, 2), to add them to the program.

    Parameters
    ----------
    duals : the approximate duals of the records, float64 (n,).
    """
    n, p = points.shape
    error = SLACK + relative_error(p)
    total_excess, violated_pairs = np.zeros(n), []
    for rows, distances in _distance_rows(points):
        pair_prices = duals[rows, None] + duals[None, :]
        # An upper bound of the exact excess: the term added last exceeds the rounding error.
        excess = pair_prices - distances * ((1 - error) / k)
        excess += error * (np.abs(duals[rows, None]) + np.abs(duals[None, :]))
        excess[np.arange(len(rows)), rows] = 0.0
        np.maximum(excess, 0.0, out=excess)
        total_excess[rows] = excess.sum(axis=1)
        # A smaller excess may be only the rounding error that was added above.
        row_index, other = np.nonzero(excess > 1e-9 * np.abs(pair_prices))
        violated_pairs.append(np.stack([rows[row_index], other], axis=1))
        tick(float(rows[-1] + 1) / n)
    reductions = round_down(-total_excess / 2, n)
    # In a class, each record is in k - 1 pairs, so it pays its dual k - 1 times.
    prices = round_down((k - 1) * duals, k) + reductions - SLACK * np.abs(duals)
    return prices, np.concatenate(violated_pairs)


def _distance_rows(points: Floats) -> Iterator[tuple[NDArray[np.int64], Floats]]:
    """Yield batches of the matrix of squared distances: row indices and rows, float64 (rows, n)."""
    n = len(points)
    n_rows = max(1, _MAX_DISTANCES_IN_MEMORY // n)
    for start in range(0, n, n_rows):
        rows = np.arange(start, min(start + n_rows, n))
        distances = np.zeros((len(rows), n))
        for column in points.T:
            difference = column[rows, None] - column[None, :]
            distances += difference * difference
        yield rows, distances


Floats = NDArray[np.float64]

# The programs compute all distances, repeatedly.
MAX_RECORDS = 10_000
# The largest k for which the method ``classes`` is used. With a larger k, its branch and bound
# visits too many classes before it can prune.
MAX_K_FOR_CLASSES = 6


@dataclass(frozen=True, eq=False, repr=False)
class Certificate(LabelledText):
    """A lower bound of the information loss, and its proof.

    Parameters
    ----------
    k : the smallest class.
    share : the bound, as a share of SST: every partition into classes of k or more loses at
        least this.
    method : the method of the bound: ``neighbours``, ``pairs``, ``classes`` or ``fitting``.
    complete : False if time ran out before the method finished.
    prices : float64 (n,), one per record, as shares of SST: every class of k or more loses at least
        the sum of its prices minus its tolls. ``share`` is the sum of prices minus that of tolls.
    tolls : what a class with two or three records of a triple pays, for some triples of records, as
        shares of SST (see the module ``tolls``); empty unless k is 3.
    simple : the bound by the method ``neighbours`` alone, as a share of SST.
    seconds : CPU seconds.
    """

    k: int
    share: float
    method: str
    complete: bool
    prices: Floats
    tolls: SubsetRowDuals
    simple: float
    seconds: float

    @property
    def way(self) -> str:
        """The former name of ``method``."""
        return self.method

    def gap(self, loss: float) -> float:
        """Return by what share a loss exceeds the bound; infinite if the bound is 0."""
        if self.share > 0:
            return loss / self.share - 1
        return 0.0 if loss <= 0 else math.inf

    def _repr_html_(self) -> str:
        """Return the card for notebooks."""
        # Import only when displayed, to keep database backends small.
        from dbanon.doors.html import card, svg

        share = f"{100 * self.share:.2f} %"
        bound_row = ("information loss at least", share, "of any classes of k or more")
        return card.wrap_card(
            "certificate",
            card.render_figures([bound_row, ("k", f"{self.k:,}", f"{len(self.prices):,} records")]),
            f"<figure>{svg.draw_share_bar(self.share)}<figcaption>From 0 to the maximum loss."
            "</figcaption></figure>",
            card.render_pairs(self.pairs()),
        )

    def to_dict(self) -> JsonObject:
        """Return the bound as JSON values, without prices, which describe single records."""
        return {
            "k": self.k,
            "records": len(self.prices),
            "lower_bound": self.share,
            # Earlier versions wrote this key under another name.
            **also_under_former_key("method", self.method),
            "complete": self.complete,
            "simple_bound": self.simple,
            "seconds": self.seconds,
        }

    def pairs(self) -> list[tuple[str, str]]:
        """Return the bound as pairs of label and text, for display."""
        status = "" if self.complete else ", stopped early: valid, but perhaps not the best"
        return [
            ("records", str(len(self.prices))),
            ("k", str(self.k)),
            ("information loss, SSE/SST, at least", f"{self.share:.6f}"),
            ("by", self.method + status),
            ("by nearest neighbours only", f"{self.simple:.6f}"),
            ("CPU seconds", f"{self.seconds:.2f}"),
        ]


def compute_certificate(
    points: Floats,
    k: int,
    start_partitions: Sequence[Partition] = (),
    *,
    seconds: float,
    tick: Tick = lambda share: None,
) -> Certificate:
    """Compute the best certificate within the time limit.

    Parameters
    ----------
    points : float64 (n, p), C order, finite: z-scores of k records or more.
    start_partitions : partitions of the points into classes of k or more. The better they are, the
        faster is the method ``classes``; without any it is skipped.
    seconds : limit of wall time for all methods but ``neighbours``, which always finishes.
    tick : called regularly with the share done; an exception from it cancels the computation.
    """
    cpu_seconds_before, deadline = time.process_time(), time.monotonic() + seconds
    prices = compute_neighbour_prices(points, k, tick)
    neighbour_prices, method, is_complete = prices, "neighbours", True
    tolls = empty_duals()
    if has_solver() and len(points) <= MAX_RECORDS and neighbour_prices.any():
        new_prices, is_complete = compute_pair_prices(points, k, deadline, tick)
        if math.fsum(new_prices) > math.fsum(prices):
            prices, method = new_prices, "pairs"
        if start_partitions and k <= MAX_K_FOR_CLASSES:
            # ``subset_duals`` has the tolls of this method.
            new_prices, subset_duals, is_complete = classes.compute_class_prices(
                points, k, start_partitions, prices, deadline, tick
            )
            if math.fsum(new_prices) - math.fsum(subset_duals.duals) > math.fsum(prices):
                prices, tolls, method = new_prices, subset_duals.select_positive(), "classes"
    elif neighbour_prices.any() and len(points) > k:
        new_prices, is_complete = fit_prices(points, k, prices, deadline, tick)
        if math.fsum(new_prices) > math.fsum(prices):
            prices, method = new_prices, "fitting"
    sst = _compute_sst(points)
    shares, neighbour_shares = (
        _to_shares_of_sst(record_prices, sst) for record_prices in (prices, neighbour_prices)
    )
    toll_shares = round_up(tolls.duals / sst, 1) if len(tolls.duals) else tolls.duals
    return Certificate(
        k=k,
        share=_sum_rounded_down(np.concatenate([shares, -toll_shares])),
        method=method,
        complete=is_complete,
        prices=shares,
        tolls=SubsetRowDuals(tolls.triples, toll_shares),
        simple=_sum_rounded_down(neighbour_shares),
        seconds=time.process_time() - cpu_seconds_before,
    )


def compute_neighbour_prices(points: Floats, k: int, tick: Tick = lambda share: None) -> Floats:
    """Compute the prices of the method ``neighbours``, rounded down, float64 (n,)."""
    kernel = Neighbours(points, k - 1)
    while not kernel.step():
        tick(kernel.progress)
    # ``sums`` adds up each record's squared distances to its neighbours.
    return round_down(kernel.sums() / (2 * k), points.shape[1] + k)


def _compute_sst(points: Floats) -> float:
    """Compute SST, the total sum of squares, rounded up."""
    sst = math.fsum(
        math.fsum(np.square(column - column.mean()))
        for column in points.T
        if column.max() != column.min()
    )
    return sst * (1 + SLACK)


def _to_shares_of_sst(prices: Floats, sst: float) -> Floats:
    """Convert prices to shares of SST, rounded down."""
    if not sst:
        return np.zeros(len(prices))
    return round_down(prices / sst, 1)


def _sum_rounded_down(prices: Floats) -> float:
    """Sum the prices, rounded down; at least 0, since no loss is negative."""
    return max(math.nextafter(math.fsum(prices), -math.inf), 0.0)
