"""Search all combinations of levels for that of least loss, without listing them.

Combinations form a lattice. If a combination fails, that is, needs more suppression than allowed,
so do all below it; if it does not fail, neither do those above it. ``Lattice`` keeps the highest
combinations known to fail and the lowest known not to, and a heap of combinations: each one that
is not known to fail is in the heap or above one of the heap. So the least loss of labels in the
heap bounds the loss of all of them from below. If the first of the heap is known to fail, it is
replaced by those that rise, in one attribute, just above the failing one.

Sources: R. Reiter, "A theory of diagnosis from first principles", Artificial Intelligence 32
(1987), for the heap; D. Gunopulos et al., "Discovering all most specific sentences", ACM TODS 28
(2003), for raising failing combinations until none above them fails; F. Kohlmayer, F. Prasser et
al., "Flash: efficient, stable and optimal k-anonymity", PASSAT 2012, for bisection of chains.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbanon.data.partition import SUPPRESSED
from dbanon.methods.registry import Tick
from dbanon.spaces.levels import Combination, LevelSpace

# Keys of records are below this.
_MAX_KEY = 2**62
# In steps of the heap without a look, progress is reported after so many.
_STEPS_PER_TICK = 128


class LevelKeys:
    """The codes of n records on all levels, from which classes are counted.

    Parameters
    ----------
    strata : int64 (n,), the stratum of each record.

    Attributes
    ----------
    losses : by attribute, the loss of all records on each level, which does not fall with the
        level.
    """

    def __init__(self, space: LevelSpace, strata: NDArray[np.int64]) -> None:
        self.n_records = len(strata)
        self._strata, self._n_strata = _number(strata)
        self._codes: list[list[tuple[NDArray[np.unsignedinteger], int]]] = []
        self.losses: list[list[int]] = []
        for attribute in range(len(space.mixed.names)):
            codes_by_level, losses = space.groups(attribute)
            self._codes.append([_number(codes) for codes in codes_by_level])
            self.losses.append(losses.tolist())

    def keys(self, levels: Combination) -> tuple[NDArray[np.int64], int]:
        """Return a number for each record, int64 (n,), equal in a class, and a bound above all.

        The order of the numbers is that of strata, then of the codes of the first attribute, and
        so on.
        """
        keys, n_keys = self._strata.astype(np.int64), self._n_strata
        for codes_by_level, level in zip(self._codes, levels, strict=True):
            codes, n_codes = codes_by_level[level]
            if n_codes == 1:
                continue
            if n_keys > _MAX_KEY // n_codes:
                distinct, inverse = np.unique(keys, return_inverse=True)
                keys, n_keys = inverse.reshape(-1).astype(np.int64), len(distinct)
            keys *= n_codes
            keys += codes
            n_keys *= n_codes
        return keys, n_keys

    def class_sizes(self, levels: Combination) -> NDArray[np.int64]:
        """Count the records of each class, int64 (g,)."""
        keys, n_keys = self.keys(levels)
        if n_keys <= 4 * len(keys):
            counts = np.bincount(keys)
            return counts[counts > 0]
        keys.sort()
        ends = np.flatnonzero(keys[1:] != keys[:-1])
        return np.diff(ends, prepend=-1, append=len(keys) - 1)

    def labels(self, levels: Combination, k: int) -> NDArray[np.int32]:
        """Label the records by class, int32 (n,), with ``SUPPRESSED`` in classes below k."""
        keys, _ = self.keys(levels)
        _, classes, sizes = np.unique(keys, return_inverse=True, return_counts=True)
        is_large = sizes >= k
        numbers = np.where(is_large, np.cumsum(is_large) - 1, SUPPRESSED)
        labels: NDArray[np.int32] = numbers.astype(np.int32)[classes.reshape(-1)]
        return labels


def _number(codes: NDArray[np.int64]) -> tuple[NDArray[np.unsignedinteger], int]:
    """Renumber codes from 0 without gaps, in their order; also returns how many there are."""
    is_used = np.zeros(int(codes.max()) + 1, np.bool_)
    is_used[codes] = True
    numbers = np.cumsum(is_used) - 1
    n_codes = int(numbers[-1]) + 1
    return numbers.astype(np.min_scalar_type(n_codes - 1))[codes], n_codes


class Lattice:
    """The combinations of levels that are known to fail or not to, and those that are open.

    Parameters
    ----------
    losses : by attribute, the loss of each level, which does not fall with the level.

    Attributes
    ----------
    top : the highest combination.
    """

    def __init__(self, losses: Sequence[Sequence[int]]) -> None:
        self._losses = losses
        self.top: Combination = tuple(len(of_levels) - 1 for of_levels in losses)
        self._failing = np.zeros((0, len(losses)), np.int32)
        self._sufficing = np.zeros((0, len(losses)), np.int32)
        self._heap: list[tuple[int, Combination]] = []
        self._listed: set[Combination] = set()
        self._list((0,) * len(losses))

    @property
    def n_listed(self) -> int:
        """The number of combinations that ever were in the heap."""
        return len(self._listed)

    def loss(self, levels: Combination) -> int:
        """The loss of the labels of all records at these levels."""
        return sum(of_levels[level] for of_levels, level in zip(self._losses, levels, strict=True))

    def fails(self, levels: Combination) -> bool:
        """Whether the combination is known to fail."""
        return bool((self._failing >= levels).all(axis=1).any())

    def suffices(self, levels: Combination) -> bool:
        """Whether the combination is known not to fail."""
        return bool((self._sufficing <= levels).all(axis=1).any())

    def mark_failing(self, levels: Combination) -> None:
        """Record that the combination fails, and with it all below it."""
        is_above = (self._failing > levels).any(axis=1)
        self._failing = np.vstack([self._failing[is_above], np.array(levels, np.int32)])

    def mark_sufficing(self, levels: Combination) -> None:
        """Record that the combination does not fail, nor any above it."""
        is_below = (self._sufficing < levels).any(axis=1)
        self._sufficing = np.vstack([self._sufficing[is_below], np.array(levels, np.int32)])

    def first(self) -> tuple[int, Combination] | None:
        """Return the loss and levels of the first combination of the heap; None if it is empty."""
        return self._heap[0] if self._heap else None

    def drop_first(self) -> Combination:
        """Remove the first combination of the heap, which must not be needed any more."""
        return heapq.heappop(self._heap)[1]

    def rise_above_failing(self, max_loss: int) -> None:
        """Replace the first combination, which is known to fail, by those above it that may not.

        Parameters
        ----------
        max_loss : combinations whose labels lose more are left out.
        """
        levels = self.drop_first()
        covering = self._failing[(self._failing >= levels).all(axis=1)]
        # The fewer attributes can rise, the fewer combinations replace this one.
        failing = covering[(covering < self.top).sum(axis=1).argmin()].tolist()
        for attribute, level in enumerate(failing):
            if level < self.top[attribute]:
                self._list(with_level(levels, attribute, level + 1), max_loss)

    def rise(self, max_loss: int) -> None:
        """Replace the first combination by those one level above it."""
        levels = self.drop_first()
        for attribute, level in enumerate(levels):
            if level < self.top[attribute]:
                self._list(with_level(levels, attribute, level + 1), max_loss)

    def cheapest_chain(self, start: Combination) -> list[Combination]:
        """Return the combinations from ``start`` to the top.

        Each step raises the level of the attribute for which the loss grows least.
        """
        steps = [
            (self._growth(attribute, level), attribute)
            for attribute, level in enumerate(start)
            if level < self.top[attribute]
        ]
        heapq.heapify(steps)
        chain = [start]
        while steps:
            _, attribute = heapq.heappop(steps)
            level = chain[-1][attribute] + 1
            chain.append(with_level(chain[-1], attribute, level))
            if level < self.top[attribute]:
                heapq.heappush(steps, (self._growth(attribute, level), attribute))
        return chain

    def below(self, levels: Combination) -> list[Combination]:
        """Return the combinations one level below, those of least loss first."""
        lower = [
            with_level(levels, attribute, level - 1)
            for attribute, level in enumerate(levels)
            if level
        ]
        return sorted(lower, key=self.loss)

    def _growth(self, attribute: int, level: int) -> int:
        """The loss that one more level of an attribute adds."""
        return self._losses[attribute][level + 1] - self._losses[attribute][level]

    def _list(self, levels: Combination, max_loss: int | None = None) -> None:
        """Put a combination into the heap, unless it was there before or loses too much."""
        loss = self.loss(levels)
        if levels not in self._listed and (max_loss is None or loss <= max_loss):
            self._listed.add(levels)
            heapq.heappush(self._heap, (loss, levels))


def with_level(levels: Combination, attribute: int, level: int) -> Combination:
    """Return the combination with another level of one attribute."""
    return (*levels[:attribute], level, *levels[attribute + 1 :])


class Budget(NamedTuple):
    """Where a search ends early.

    Parameters
    ----------
    n_looks : the number of combinations whose classes are counted.
    n_listed : the number of combinations in the lattice's heap.
    """

    n_looks: int
    n_listed: int


class LeastLossSearch:
    """A search for the combination of least loss, ties to the lower level of the first attribute.

    Parameters
    ----------
    max_withheld : the largest number of records in classes below k.
    loss_of_withheld : what a withheld record loses, in units of ``LevelKeys.losses``.
    budget : where the search ends early; None to search to the end.

    Attributes
    ----------
    best : the best combination so far.
    least_loss : its loss, times the number of records, so that it is an integer.
    """

    def __init__(
        self,
        keys: LevelKeys,
        k: int,
        max_withheld: int,
        loss_of_withheld: int,
        budget: Budget | None,
        tick: Tick,
    ) -> None:
        self.lattice = Lattice(keys.losses)
        self.best: Combination = self.lattice.top
        self.n_looks = 0
        self._keys, self._k, self._max_withheld = keys, k, max_withheld
        self._loss_of_withheld = loss_of_withheld
        self._budget, self._tick = budget, tick
        self._n_steps = 0
        # From here no combination one level below loses less.
        self._lowest: Combination | None = None
        # The number of withheld records of each combination looked at; None if it fails.
        self._withheld: dict[Combination, int | None] = {}
        # At the top, each stratum is a class, so there is a result.
        self.least_loss = self.lattice.loss(self.best) * keys.n_records + 1
        self._look(self.best)

    def run(self) -> int:
        """Search, and return a lower bound of the loss of all combinations, as ``least_loss``."""
        lattice, n = self.lattice, self._keys.n_records
        while (first := lattice.first()) and first[0] <= self.least_loss // n:
            loss, levels = first
            fails = lattice.fails(levels)
            if self._is_exhausted(needs_look=not fails):
                return min(loss * n, self.least_loss)
            if fails:
                lattice.rise_above_failing(self.least_loss // n)
                self._n_steps += 1
                if self._n_steps % _STEPS_PER_TICK == 0:
                    self._report_progress()
                continue
            n_withheld = self._look(levels)
            if n_withheld is None:
                lattice.mark_failing(self._highest_failing(levels))
            elif n_withheld:
                # Above it, labels lose more, but fewer records may be withheld.
                lattice.rise(self.least_loss // n)
            else:
                lattice.drop_first()
            self._descend()
        return self.least_loss

    def _is_exhausted(self, needs_look: bool) -> bool:
        """Whether the budget is used up, for a step of the heap or one that needs a look."""
        budget = self._budget
        if budget is None:
            return False
        has_no_look = needs_look and self.n_looks >= budget.n_looks
        return has_no_look or self.lattice.n_listed >= budget.n_listed

    def _look(self, levels: Combination) -> int | None:
        """Return how many records the combination withholds; None if it fails."""
        if levels in self._withheld:
            return self._withheld[levels]
        self._report_progress()
        self.n_looks += 1
        n = self._keys.n_records
        sizes = self._keys.class_sizes(levels)
        n_withheld = int(sizes[sizes < self._k].sum())
        # A release without any record is no result, even if the suppression allows it.
        if n_withheld > self._max_withheld or n_withheld == n:
            self._withheld[levels] = None
            return None
        self._withheld[levels] = n_withheld
        self.lattice.mark_sufficing(levels)
        # Each released record counts with the mean loss of all records at these levels.
        loss = self.lattice.loss(levels) * (n - n_withheld)
        loss += n_withheld * n * self._loss_of_withheld
        if (loss, levels) < (self.least_loss, self.best):
            self.least_loss, self.best = loss, levels
        return n_withheld

    def _fails(self, levels: Combination) -> bool:
        """Whether the combination fails; looks at it if that is not known."""
        if self.lattice.fails(levels):
            return True
        return not self.lattice.suffices(levels) and self._look(levels) is None

    def _highest_failing(self, levels: Combination) -> Combination:
        """Return a failing combination, from this one upwards, above which none fails."""
        chain = self.lattice.cheapest_chain(levels)
        # Of the chain, the first combination fails, and the top does not.
        low, high = 0, len(chain) - 1
        while high - low > 1:
            middle = (low + high) // 2
            if self._fails(chain[middle]):
                low = middle
            else:
                high = middle
        failing = chain[low]
        for attribute, top_level in enumerate(self.lattice.top):
            while failing[attribute] < top_level:
                higher = with_level(failing, attribute, failing[attribute] + 1)
                if not self._fails(higher):
                    break
                failing = higher
        return failing

    def _descend(self) -> None:
        """Go down from the best combination, one level at a time, while that loses less."""
        while self._lowest != self.best:
            self._lowest = self.best
            for levels in self.lattice.below(self._lowest):
                if self.lattice.fails(levels):
                    continue
                if self._look(levels) is None:
                    self.lattice.mark_failing(levels)
                elif self.best == levels:
                    break

    def _report_progress(self) -> None:
        """Report the lower bound as a share of the least loss, or the used share of the budget."""
        first = self.lattice.first()
        share = 1.0
        if first is not None and self.least_loss > 0:
            share = min(first[0] * self._keys.n_records / self.least_loss, 1.0)
        if self._budget is not None:
            share = max(share, min(self.n_looks / self._budget.n_looks, 1.0))
        self._tick(share)
