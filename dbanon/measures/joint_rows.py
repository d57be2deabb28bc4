"""The joint risk if someone knows several rows of a person, and these are in different classes.

Each known row reveals its class. Only persons who have a row in each of these classes can be the
person: they share the classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass

# Releases with more persons are measured on a random sample of this many.
MAX_PERSONS = 10_000


@dataclass(frozen=True)
class JointRows:
    """How many persons share the classes of a person's rows, the person included.

    All fields are numbers of persons; the ledger stores them under their names.

    Parameters
    ----------
    k : the number of persons that should share the classes.
    persons : measured persons: all, or a sample.
    below : measured persons who are below k if all of their rows are known: fewer than k persons
        have a row in each class that these rows are in.
    of_pairs : measured persons who have two rows or more.
    pairs_below : persons counted in ``of_pairs`` who are below k if two of their rows are known,
        chosen at random.
    in_all : all released persons; more than ``persons`` if these are a sample.
    """

    k: int
    persons: int
    below: int
    of_pairs: int
    pairs_below: int
    in_all: int

    def to_plain(self) -> dict[str, int]:
        """Return the counts as plain values."""
        return asdict(self)


def joint_rows(
    persons: NDArray[np.integer], classes: NDArray[np.integer], k: int, seed: int = 0
) -> JointRows:
    """Count persons such that fewer than k share the classes of all rows, or of a random pair.

    Parameters
    ----------
    persons : int (n,), the person of each released row.
    classes : int (n,), the class of each row; classes with the same released values have the same
        id.
    k : the number of persons that should share the classes.
    seed : the seed for sampling persons and pairs.
    """
    _, first_rows, codes = np.unique(persons, return_index=True, return_inverse=True)
    # Number persons by their first rows, so that the sample does not depend on their codes.
    ids = np.empty(len(first_rows), np.int64)
    ids[np.argsort(first_rows)] = np.arange(len(first_rows))
    person_ids = ids[codes.reshape(-1)]
    n_persons = len(first_rows)
    class_ids = np.asarray(classes, np.int64)
    pairs = sample_pairs(person_ids, n_persons, seed)
    intersections = _ClassIntersections(person_ids, class_ids, k)
    rows, starts = _rows_by_person(person_ids, n_persons)
    below = of_pairs = pairs_below = 0
    for person, pair in pairs.items():
        rows_of_person = rows[starts[person] : starts[person + 1]]
        below += intersections.is_below_k(frozenset(class_ids[rows_of_person].tolist()))
        if pair is not None:
            of_pairs += 1
            pairs_below += intersections.is_below_k(frozenset(class_ids[list(pair)].tolist()))
    return JointRows(
        k=k,
        persons=len(pairs),
        below=below,
        of_pairs=of_pairs,
        pairs_below=pairs_below,
        in_all=n_persons,
    )


def sample_pairs(
    person_ids: NDArray[np.int64], n_persons: int, seed: int = 0
) -> Mapping[int, tuple[int, int] | None]:
    """Sample the persons to measure, each with a random pair of rows.

    Returns the indices of the two rows by person; None for a person with one row.

    Parameters
    ----------
    person_ids : int64 (n,), the person of each row, from 0 in the order of their first rows.
    n_persons : the number of persons.
    seed : the seed for sampling.
    """
    rng = np.random.default_rng([seed, n_persons])
    sample = np.arange(n_persons)
    if n_persons > MAX_PERSONS:
        sample = np.sort(rng.permutation(n_persons)[:MAX_PERSONS])
    rows, starts = _rows_by_person(person_ids, n_persons)
    pairs: dict[int, tuple[int, int] | None] = {}
    for person in sample.tolist():
        rows_of_person = rows[starts[person] : starts[person + 1]]
        if len(rows_of_person) < 2:
            pairs[person] = None
            continue
        i = int(rng.integers(len(rows_of_person)))
        j = int(rng.integers(len(rows_of_person) - 1))
        # Skip index i, so that the two rows differ.
        j += j >= i
        pairs[person] = int(rows_of_person[i]), int(rows_of_person[j])
    return pairs


def _rows_by_person(
    person_ids: NDArray[np.int64], n_persons: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows sorted by person, int64 (n,), and where the rows of each person start.

    The starts, int64 (n_persons + 1,), end with n.
    """
    rows = np.argsort(person_ids, kind="stable")
    return rows, np.append(0, np.cumsum(np.bincount(person_ids, minlength=n_persons)))


class _ClassIntersections:
    """Tells whether fewer than k persons have a row in each of given classes; caches the answers.

    Parameters
    ----------
    person_ids, class_ids : int64 (n,), the person and the class of each row.
    k : the number of persons.
    """

    def __init__(self, person_ids: NDArray[np.int64], class_ids: NDArray[np.int64], k: int) -> None:
        pairs = np.unique(np.column_stack((class_ids, person_ids)), axis=0)
        distinct_classes, starts = np.unique(pairs[:, 0], return_index=True)
        members: list[NDArray[np.int64]] = np.split(pairs[:, 1], starts[1:])
        self._members_by_class = dict(zip(distinct_classes.tolist(), members, strict=True))
        self._k = k
        self._cache: dict[frozenset[int], bool] = {}

    def is_below_k(self, classes: frozenset[int]) -> bool:
        """Return True if fewer than k persons have a row in each of these classes."""
        is_below = self._cache.get(classes)
        if is_below is None:
            is_below = self._cache[classes] = self._compute(classes)
        return is_below

    def _compute(self, classes: frozenset[int]) -> bool:
        # The persons of each class, ascending; the smallest class first.
        members = sorted((self._members_by_class[class_id] for class_id in classes), key=len)
        common = members[0]
        for class_members in members[1:]:
            # An intersection never grows, so stop early.
            if len(common) < self._k:
                return True
            positions = np.searchsorted(class_members, common)
            positions = np.minimum(positions, len(class_members) - 1)
            common = common[class_members[positions] == common]
        return len(common) < self._k
