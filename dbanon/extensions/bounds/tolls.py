"""Tolls: dual values of subset-row cuts, paid by classes with two or three records of a triple.

Every record has a price, and the prices of a class's records add up to at most its cost, its SSE
(see ``certificate.py``). Tolls relax this: a class may cost less than its prices, by the tolls that
it pays. A partition has at most one class with two or more records of a triple, so each toll is
paid at most once, and the total cost of the classes is at least the sum of all prices minus that of
all tolls. Thus prices may be higher, and the bound, their sum minus the tolls, is often better.
These are the subset-row cuts of M. Jepsen, B. Petersen, S. Spoorendonk and D. Pisinger, "Subset-row
inequalities applied to the vehicle-routing problem with time windows", Operations Research 56
(2008).

In general, the search for cheaper classes covers only those of exactly k records. Without tolls,
``certificate.py`` extends the inequality to larger classes by induction: it adds up the
inequalities of the subclasses that lack one record. With tolls, this needs care. Let m be the size
of a class S, and y(S) the sum of its prices. If two records of a triple are in S, they are both in
m - 2 of the m subclasses, so

    (m - 1) (y(S) - f(S)) <= m (m - 2)/(m - 1) SSE(S) - f(S) <= (m - 1) SSE(S)

where f(S) is the toll of such triples alone. If S holds a complete triple with a toll, all m
subclasses pay it. These classes are checked individually, up to 2k - 1 records, because splitting a
class of 2k never increases the loss. They are few for k = 3, so tolls are limited to k = 3.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Triples = NDArray[np.int32]  # (c, 3), rows in ascending order

# The only k with tolls.
K_WITH_TOLLS = 3
# A triple gets a cut if the solution violates it by more than this.
_TOLERANCE = 0.03
# The most new cuts in a round, and those of them that share a record.
_TRIPLES_PER_ROUND, _TRIPLES_PER_RECORD = 300, 5
# The most distances between triples and records that are cached. At this number, ``classes.py``
# stops adding triples, so the cache of ``TripleSearch`` needs no limit of its own.
MAX_CACHED_DISTANCES = 2**24
# Smaller shares of a class in the solution are ignored.
_MIN_USE = 1e-9


@dataclass(frozen=True)
class SubsetRowDuals:
    """Triples of records with their tolls, which are duals of the triples' subset-row cuts.

    A class with two or three records of a triple pays the toll of the triple.

    Parameters
    ----------
    triples : int32 (c, 3), distinct rows in ascending order.
    duals : float64 (c,), the tolls, 0 or more.
    """

    triples: Triples
    duals: Floats

    def select_positive(self) -> SubsetRowDuals:
        """Return the triples with positive tolls."""
        is_positive = self.duals > 0
        return SubsetRowDuals(self.triples[is_positive], self.duals[is_positive])

    def pairs(self) -> tuple[Triples, Floats]:
        """Return the pairs of the triples, int32 (3 c, 2), and the toll of each, float64 (3 c,)."""
        pairs = np.concatenate(
            [self.triples[:, positions] for positions in ([0, 1], [0, 2], [1, 2])]
        )
        return np.ascontiguousarray(pairs), np.tile(self.duals, 3)

    def compute_payments(self, classes: NDArray[np.integer], n: int) -> Floats:
        """Compute the tolls that classes pay, float64 (m,).

        Each pair of a triple is charged. A complete triple holds three pairs but pays once, so two
        are refunded.

        Parameters
        ----------
        classes : records of each class, int (m, s).
        n : number of records in the table.
        """
        payments = np.zeros(len(classes))
        if not len(self.duals) or not len(classes):
            return payments
        sorted_classes = np.sort(classes, axis=1).astype(np.int64)
        pairs, tolls = self.pairs()
        for groups, amounts, width in ((pairs, tolls, 2), (self.triples, -2 * self.duals, 3)):
            codes, code_index = np.unique(
                _encode_groups(groups.astype(np.int64), n), return_inverse=True
            )
            sums = np.bincount(code_index, amounts)
            for positions in combinations(range(classes.shape[1]), width):
                class_codes = _encode_groups(sorted_classes[:, positions], n)
                indices = np.minimum(np.searchsorted(codes, class_codes), len(codes) - 1)
                payments += np.where(codes[indices] == class_codes, sums[indices], 0.0)
        return payments


def empty_duals() -> SubsetRowDuals:
    """Return an empty set of tolls."""
    return SubsetRowDuals(np.zeros((0, K_WITH_TOLLS), np.int32), np.zeros(0))


def _encode_groups(groups: Ints, n: int) -> Ints:
    """Return one integer for each pair or triple of records, int64 (m,).

    Parameters
    ----------
    groups : int64 (m, 2) or (m, 3), records in ascending order.
    n : number of records in the table.
    """
    codes = groups[:, 0]
    for column in groups.T[1:]:
        codes = codes * n + column
    return codes


def find_violated_triples(
    classes: list[tuple[int, ...]], uses: Floats, existing_triples: set[tuple[int, ...]]
) -> list[tuple[int, ...]]:
    """Find the triples whose subset-row cut the solution violates, the most violated first.

    The solution is that of the linear program in ``classes.py``, which covers each record once with
    fractions of classes.

    Parameters
    ----------
    classes : the records of each class in the linear program, in ascending order.
    uses : float64, the fraction of each class in the solution.
    existing_triples : triples that already have a cut.
    """
    # How often the solution uses classes that contain a pair. For a triple, the correction of the
    # sum over its pairs: a class with all three records has three pairs, but counts once.
    shared_use: defaultdict[tuple[int, ...], float] = defaultdict(float)
    later_partners: dict[int, set[int]] = defaultdict(set)
    for class_index in np.flatnonzero(uses > _MIN_USE):
        share = float(uses[class_index])
        for pair in combinations(classes[class_index], 2):
            shared_use[pair] += share
            later_partners[pair[0]].add(pair[1])
        for triple in combinations(classes[class_index], 3):
            shared_use[triple] -= 2 * share
    violated_triples: list[tuple[float, tuple[int, ...]]] = []
    for first, partners in later_partners.items():
        for second in partners:
            for third in partners & later_partners.get(second, set()):
                triple = (first, second, third)
                use = (
                    shared_use[first, second]
                    + shared_use[first, third]
                    + shared_use[second, third]
                    + shared_use[triple]
                )
                if use > 1 + _TOLERANCE and triple not in existing_triples:
                    violated_triples.append((-use, triple))
    violated_triples.sort()
    selected_triples: list[tuple[int, ...]] = []
    triples_of_record: Counter[int] = Counter()
    for _, candidate in violated_triples:
        if len(selected_triples) == _TRIPLES_PER_ROUND:
            break
        if all(triples_of_record[record] < _TRIPLES_PER_RECORD for record in candidate):
            triples_of_record.update(candidate)
            selected_triples.append(candidate)
    return selected_triples


class TripleSearch:
    """A search for classes that contain a complete triple with a toll and violate the certificate.

    Such a class costs less than the prices of its records minus the tolls that it pays. The reduced
    cost is the difference.
    """

    def __init__(self, points: Floats) -> None:
        self._points = points
        self._distance_cache: dict[tuple[int, ...], Floats] = {}

    def find_violations(
        self, prices: Floats, tolls: SubsetRowDuals, error: float
    ) -> tuple[Floats, list[tuple[int, ...]]]:
        """Find classes with a reduced cost below 0, and the least reduced cost by seed.

        The seed of a class is its record with the highest price.

        Parameters
        ----------
        prices : the price of each record, float64 (n,).
        tolls : triples with their tolls.
        error : bound of the rounding error of a reduced cost; it is subtracted.

        Returns
        -------
        For each record, the least reduced cost of the classes whose seed it is, at most 0, float64
        (n,), and the classes.
        """
        n = len(prices)
        positive_tolls = tolls.select_positive()
        least_costs, violations = np.zeros(n), []
        for classes in self._candidates(prices, positive_tolls, error):
            members = self._points[classes]
            costs = np.square(members - members.mean(axis=1, keepdims=True)).sum(axis=(1, 2))
            costs += (
                positive_tolls.compute_payments(classes, n) - prices[classes].sum(axis=1) - error
            )
            is_violated = costs < 0
            indices = np.arange(int(is_violated.sum()))
            seeds = classes[is_violated][indices, np.argmax(prices[classes[is_violated]], axis=1)]
            np.minimum.at(least_costs, seeds, costs[is_violated])
            violations += [tuple(sorted(map(int, row))) for row in classes[is_violated]]
        return least_costs, violations

    def _candidates(self, prices: Floats, tolls: SubsetRowDuals, error: float) -> list[Ints]:
        """List classes of 3, 4 and 5 records that may violate their prices, int64 (m, size)."""
        n = len(prices)
        classes_of_four, classes_of_five = (
            [np.zeros((0, 4), np.int64)],
            [np.zeros((0, 5), np.int64)],
        )
        triples = tolls.triples.astype(np.int64)
        # A class around a triple pays at least the toll of the triple.
        base_costs = tolls.compute_payments(tolls.triples, n) - prices[triples].sum(axis=1) - error
        for triple, base_cost in zip(triples, base_costs, strict=True):
            inner_distances, distances = self._distances(tuple(map(int, triple)))
            # The SSE of a class is the sum of its pairs' squared distances over its size.
            cost_with_fourth = base_cost + inner_distances / 4 + distances / 4 - prices
            cost_with_fourth[triple] = np.inf
            classes_of_four.append(
                _extend_triple(triple, np.flatnonzero(cost_with_fourth < 0)[:, None])
            )
            # With two more records: what each adds, without the distance between the two.
            added_cost = distances / 5 - prices
            added_cost[triple] = np.inf
            base_cost += inner_distances / 5
            near_records = np.flatnonzero(base_cost + added_cost + added_cost.min() < 0)
            first, second = np.triu_indices(len(near_records), 1)
            pairs = np.stack([near_records[first], near_records[second]], axis=1)
            pairs = pairs[base_cost + added_cost[pairs].sum(axis=1) < 0]
            pair_distances = np.square(self._points[pairs[:, 0]] - self._points[pairs[:, 1]]).sum(
                axis=1
            )
            pairs = pairs[base_cost + added_cost[pairs].sum(axis=1) + pair_distances / 5 < 0]
            classes_of_five.append(_extend_triple(triple, pairs))
        return [triples, np.concatenate(classes_of_four), np.concatenate(classes_of_five)]

    def _distances(self, triple: tuple[int, ...]) -> tuple[float, Floats]:
        """Return the sums of squared distances within a triple, and from each record to it."""
        distances = self._distance_cache.get(triple)
        if distances is None:
            distances = np.zeros(len(self._points))
            for record in triple:
                for j in range(self._points.shape[1]):
                    distances += np.square(self._points[:, j] - self._points[record, j])
            self._distance_cache[triple] = distances
        return float(distances[list(triple)].sum()) / 2, distances


def _extend_triple(triple: Ints, others: Ints) -> Ints:
    """Combine a triple with each row of ``others`` to a class."""
    return np.concatenate([np.broadcast_to(triple, (len(others), len(triple))), others], axis=1)
