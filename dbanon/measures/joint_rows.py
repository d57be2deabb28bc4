"""What someone who knows several rows of a person can join, where classes part a person's rows.

Each row that they know leads to its class. The persons who have a row in each of these classes
share them: they are whom the rows may belong to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass

# The most persons that are looked at; of more, so many are drawn.
MOST_PERSONS = 10_000


@dataclass(frozen=True)
class JointRows:
    """How many persons share the classes of a person's rows; the person is one of them.

    Parameters
    ----------
    k : what is counted against.
    persons, below : who was looked at, and those of them whose rows, all together, fewer than k
        persons share.
    of_pairs, pairs_below : those with two rows or more, of each of whom one pair of rows was drawn,
        and those of them whose pair fewer than k persons share.
    in_all : the released persons; more than ``persons`` where these were drawn.
    """

    k: int
    persons: int
    below: int
    of_pairs: int
    pairs_below: int
    in_all: int

    def plain(self) -> dict[str, int]:
        """The counts as plain values."""
        return {
            "k": self.k,
            "persons": self.persons,
            "below": self.below,
            "of_pairs": self.of_pairs,
            "pairs_below": self.pairs_below,
            "in_all": self.in_all,
        }


def joint_rows(
    persons: NDArray[np.integer], classes: NDArray[np.integer], k: int, seed: int = 0
) -> JointRows:
    """Count who shares the classes of each person's rows.

    Parameters
    ----------
    persons : (n,), the person of each released row.
    classes : (n,), its class, as readers see classes: those that are released alike are one.
    seed : of the persons and pairs that are drawn.
    """
    _, first, whose = np.unique(persons, return_index=True, return_inverse=True)
    # Persons in the order of their rows, whatever their codes are.
    number = np.empty(len(first), np.int64)
    number[np.argsort(first)] = np.arange(len(first))
    whose = number[whose.reshape(-1)]
    count = len(first)
    drawn = draw(whose, count, seed)
    sharing = _Sharing(whose, np.asarray(classes, np.int64), k)
    rows, starts = _rows_of(whose, count)
    below = of_pairs = pairs_below = 0
    for person, pair in drawn.items():
        own = np.asarray(classes)[rows[starts[person] : starts[person + 1]]]
        below += sharing.is_below(frozenset(own.tolist()))
        if pair is not None:
            of_pairs += 1
            pairs_below += sharing.is_below(frozenset(np.asarray(classes)[list(pair)].tolist()))
    return JointRows(k, len(drawn), below, of_pairs, pairs_below, count)


def draw(
    whose: NDArray[np.int64], count: int, seed: int = 0
) -> Mapping[int, tuple[int, int] | None]:
    """The persons who are looked at, and a pair of rows of each; None for a person of one row.

    Parameters
    ----------
    whose : int64 (n,), the person of each row, from 0 in the order of their first rows.
    """
    rng = np.random.default_rng([seed, count])
    chosen = np.arange(count)
    if count > MOST_PERSONS:
        chosen = np.sort(rng.permutation(count)[:MOST_PERSONS])
    rows, starts = _rows_of(whose, count)
    found: dict[int, tuple[int, int] | None] = {}
    for person in chosen.tolist():
        own = rows[starts[person] : starts[person + 1]]
        if len(own) < 2:
            found[person] = None
            continue
        one = int(rng.integers(len(own)))
        another = int(rng.integers(len(own) - 1))
        another += another >= one
        found[person] = int(own[one]), int(own[another])
    return found


def _rows_of(whose: NDArray[np.int64], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows by person, and where each person's begin, int64 (count + 1,)."""
    rows = np.argsort(whose, kind="stable")
    return rows, np.append(0, np.cumsum(np.bincount(whose, minlength=count)))


class _Sharing:
    """Whether fewer than k persons have a row in each of some classes; each answer is kept."""

    def __init__(self, whose: NDArray[np.int64], classes: NDArray[np.int64], k: int) -> None:
        pairs = np.unique(np.column_stack((classes, whose)), axis=0)
        numbers, starts = np.unique(pairs[:, 0], return_index=True)
        parts: list[Any] = np.split(pairs[:, 1], starts[1:])
        self._members = dict(zip(numbers.tolist(), parts, strict=True))
        self._k = k
        self._answers: dict[frozenset[int], bool] = {}

    def is_below(self, classes: frozenset[int]) -> bool:
        answer = self._answers.get(classes)
        if answer is None:
            answer = self._answers[classes] = self._count(classes)
        return answer

    def _count(self, classes: frozenset[int]) -> bool:
        members = sorted((self._members[one] for one in classes), key=len)
        left = members[0]
        for others in members[1:]:
            # Persons become fewer only.
            if len(left) < self._k:
                return True
            at = np.minimum(np.searchsorted(others, left), len(others) - 1)
            left = left[others[at] == left]
        return len(left) < self._k
