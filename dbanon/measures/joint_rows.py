"""The joint risk if someone knows several rows of a person, and these are in different classes.

Each known row leads to its class. The rows may belong to any person who has a row in each of these
classes: those persons share them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass

# Larger releases are measured on a random sample of this many persons.
MOST_PERSONS = 10_000


@dataclass(frozen=True)
class JointRows:
    """How many persons share the classes of a person's rows; the person is one of them.

    Parameters
    ----------
    k : the number of persons to compare with.
    persons : the number of persons measured.
    below : those of them for whom fewer than k persons share the classes of all their rows.
    of_pairs : the persons measured who have two rows or more.
    pairs_below : those of them for whom fewer than k persons share the classes of two random rows.
    in_all : all released persons; more than ``persons`` if these are a sample.
    """

    k: int
    persons: int
    below: int
    of_pairs: int
    pairs_below: int
    in_all: int

    def to_plain(self) -> dict[str, int]:
        """The counts as plain values."""
        return asdict(self)


def joint_rows(
    persons: NDArray[np.integer], classes: NDArray[np.integer], k: int, seed: int = 0
) -> JointRows:
    """Count the persons whose rows, all together or a random pair, fewer than k persons share.

    Parameters
    ----------
    persons : (n,), the person of each released row.
    classes : (n,), its class; classes that are released alike have one number.
    seed : of the sample of persons, and of the pairs.
    """
    _, first_rows, codes = np.unique(persons, return_index=True, return_inverse=True)
    # Number persons by their first rows, so that the sample does not depend on their codes.
    numbers = np.empty(len(first_rows), np.int64)
    numbers[np.argsort(first_rows)] = np.arange(len(first_rows))
    person_ids = numbers[codes.reshape(-1)]
    n_persons = len(first_rows)
    class_ids = np.asarray(classes, np.int64)
    pairs = sample_pairs(person_ids, n_persons, seed)
    sharing = _Sharing(person_ids, class_ids, k)
    rows, starts = _rows_by_person(person_ids, n_persons)
    below = of_pairs = pairs_below = 0
    for person, pair in pairs.items():
        rows_of_person = rows[starts[person] : starts[person + 1]]
        below += sharing.is_below(frozenset(class_ids[rows_of_person].tolist()))
        if pair is not None:
            of_pairs += 1
            pairs_below += sharing.is_below(frozenset(class_ids[list(pair)].tolist()))
    return JointRows(k, len(pairs), below, of_pairs, pairs_below, n_persons)


def sample_pairs(
    person_ids: NDArray[np.int64], n_persons: int, seed: int = 0
) -> Mapping[int, tuple[int, int] | None]:
    """Draw the persons to measure, and a pair of rows of each; None for a person of one row.

    Parameters
    ----------
    person_ids : int64 (n,), the person of each row, from 0 in the order of their first rows.
    """
    rng = np.random.default_rng([seed, n_persons])
    sample = np.arange(n_persons)
    if n_persons > MOST_PERSONS:
        sample = np.sort(rng.permutation(n_persons)[:MOST_PERSONS])
    rows, starts = _rows_by_person(person_ids, n_persons)
    pairs: dict[int, tuple[int, int] | None] = {}
    for person in sample.tolist():
        rows_of_person = rows[starts[person] : starts[person + 1]]
        if len(rows_of_person) < 2:
            pairs[person] = None
            continue
        i = int(rng.integers(len(rows_of_person)))
        j = int(rng.integers(len(rows_of_person) - 1))
        # Skip i, so that the two rows differ.
        j += j >= i
        pairs[person] = int(rows_of_person[i]), int(rows_of_person[j])
    return pairs


def _rows_by_person(
    person_ids: NDArray[np.int64], n_persons: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows sorted by person, int64 (n,), and each person's first index, int64 (n_persons + 1,)."""
    rows = np.argsort(person_ids, kind="stable")
    return rows, np.append(0, np.cumsum(np.bincount(person_ids, minlength=n_persons)))


class _Sharing:
    """Tells whether fewer than k persons have a row in each of some classes; caches its answers."""

    def __init__(self, person_ids: NDArray[np.int64], class_ids: NDArray[np.int64], k: int) -> None:
        pairs = np.unique(np.column_stack((class_ids, person_ids)), axis=0)
        numbers, starts = np.unique(pairs[:, 0], return_index=True)
        parts: list[Any] = np.split(pairs[:, 1], starts[1:])
        self._members = dict(zip(numbers.tolist(), parts, strict=True))
        self._k = k
        self._answers: dict[frozenset[int], bool] = {}

    def is_below(self, classes: frozenset[int]) -> bool:
        answer = self._answers.get(classes)
        if answer is None:
            answer = self._answers[classes] = self._compute(classes)
        return answer

    def _compute(self, classes: frozenset[int]) -> bool:
        members = sorted((self._members[class_id] for class_id in classes), key=len)
        candidates = members[0]
        for others in members[1:]:
            # An intersection never grows, so stop early.
            if len(candidates) < self._k:
                return True
            positions = np.minimum(np.searchsorted(others, candidates), len(others) - 1)
            candidates = candidates[others[positions] == candidates]
        return len(candidates) < self._k
