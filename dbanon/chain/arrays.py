"""Persons by their tags, as arrays: in order, found among members, added up by their cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import find_records
from dbanon.data.schema import Attribute

# Bits of a code that are added up at once: floats hold such sums of 2**31 rows.
_BITS = 22


@dataclass(frozen=True, eq=False)
class Matched:
    """The persons in the source, who were brought.

    Parameters
    ----------
    keys : int64 (n, m), of their rows, ascending.
    tags : uint64 (n, 2), the halves of their tags.
    order : int64 (n,), the persons by their tags.
    kept : the columns that are staged beside them.
    """

    keys: NDArray[np.int64]
    tags: NDArray[np.uint64]
    order: NDArray[np.int64]
    kept: tuple[Attribute, ...]

    @property
    def n_keys(self) -> int:
        """How many columns a row key has."""
        return int(self.keys.shape[1])

    def in_order(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """The order of rows with these keys, int64 (c, m), by the tags of their persons."""
        # Nearly always those of everybody.
        if np.array_equal(keys, self.keys):
            return self.order
        return order_of(self.tags[find_records(self.keys, keys)])

    def tags_of(self, keys: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The tags, uint64 (c, 2), of rows with these keys, int64 (c, m), best by their tags.

        Raises
        ------
        SourceChanged : a row was not brought.
        """
        if len(keys) == len(self.keys) and np.array_equal(keys, self.keys[self.order]):
            return self.tags[self.order]
        return self.tags[find_records(self.keys, keys)]


def order_of(tags: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The order of tags, int64 (n,), by their bytes."""
    order = np.argsort(tags[:, 0])
    leading = tags[order, 0]
    if (leading[1:] == leading[:-1]).any():
        order = np.lexsort((tags[:, 1], tags[:, 0]))
    return order


def find_tags(
    members: NDArray[np.uint64], tags: NDArray[np.uint64], order: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Where each tag is among those of members, int64 (n,); -1 where it is not.

    Parameters
    ----------
    members : uint64 (m, 2), each once.
    tags : uint64 (n, 2).
    order : theirs, as ``order_of`` gives it.
    """
    found = np.full(len(tags), -1, np.int64)
    if not len(members):
        return found
    ordered = order_of(members)
    leading, wanted = members[ordered, 0], tags[order]
    if (leading[1:] == leading[:-1]).any():
        known = {pair: at for at, pair in enumerate(map(tuple, members.tolist()))}
        return np.array([known.get(pair, -1) for pair in map(tuple, tags.tolist())], np.int64)
    # In order, what is looked up is near.
    at = ordered[np.minimum(np.searchsorted(leading, wanted[:, 0]), len(leading) - 1)]
    found[order] = np.where((members[at] == wanted).all(axis=1), at, -1)
    return found


def sums(cells: NDArray[np.int64], codes: NDArray[np.int64], n: int) -> NDArray[np.uint64]:
    """The sum of the codes in each of n cells, modulo 2**64, uint64 (n,)."""
    found, rest = np.zeros(n, np.uint64), codes.view(np.uint64)
    for shift in range(0, 64, _BITS):
        part = (rest >> np.uint64(shift)) & np.uint64((1 << _BITS) - 1)
        added = np.bincount(cells, weights=part.astype(np.float64), minlength=n)
        found += added.astype(np.uint64) << np.uint64(shift)
    return found
