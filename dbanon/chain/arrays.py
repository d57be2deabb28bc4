"""Arrays of person tags: sort them, look them up among members, and sum codes by cell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import find_records
from dbanon.data.schema import Attribute

# Bits of a code to sum at once: a float holds such sums exactly for 2**31 rows.
_BITS = 22


@dataclass(frozen=True, eq=False)
class MatchedPersons:
    """The persons in the source, fetched into this process.

    Parameters
    ----------
    keys : int64 (n, m), row keys, ascending.
    tags : uint64 (n, 2), the two halves of each tag.
    order : int64 (n,), indices that sort the persons by tag.
    retained : the retained columns that are staged with the persons.
    """

    keys: NDArray[np.int64]
    tags: NDArray[np.uint64]
    order: NDArray[np.int64]
    retained: tuple[Attribute, ...]

    @property
    def n_keys(self) -> int:
        """The number of columns in a row key."""
        return int(self.keys.shape[1])

    def in_order(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """The order of rows with these keys, int64 (c, m), sorted by person tag."""
        # The keys are nearly always those of all persons.
        if np.array_equal(keys, self.keys):
            return self.order
        return order_of(self.tags[find_records(self.keys, keys)])

    def tags_of(self, keys: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The tags, uint64 (c, 2), of rows with these keys, int64 (c, m); fastest in tag order.

        Raises
        ------
        SourceChanged : a row was not fetched.
        """
        if len(keys) == len(self.keys) and np.array_equal(keys, self.keys[self.order]):
            return self.tags[self.order]
        return self.tags[find_records(self.keys, keys)]


def order_of(tags: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The indices, int64 (n,), that sort tags by their bytes."""
    order = np.argsort(tags[:, 0])
    leading = tags[order, 0]
    if (leading[1:] == leading[:-1]).any():
        order = np.lexsort((tags[:, 1], tags[:, 0]))
    return order


def find_tags(
    members: NDArray[np.uint64], tags: NDArray[np.uint64], order: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The index of each tag among the members' tags, int64 (n,); -1 if absent.

    Parameters
    ----------
    members : uint64 (m, 2), without duplicates.
    tags : uint64 (n, 2).
    order : the order of ``tags``, from ``order_of``.
    """
    positions = np.full(len(tags), -1, np.int64)
    if not len(members):
        return positions
    ordered = order_of(members)
    leading, ordered_tags = members[ordered, 0], tags[order]
    if (leading[1:] == leading[:-1]).any():
        member_indices = {pair: at for at, pair in enumerate(map(tuple, members.tolist()))}
        return np.array(
            [member_indices.get(pair, -1) for pair in map(tuple, tags.tolist())], np.int64
        )
    # Sorted lookups stay close together in memory.
    at = ordered[np.minimum(np.searchsorted(leading, ordered_tags[:, 0]), len(leading) - 1)]
    positions[order] = np.where((members[at] == ordered_tags).all(axis=1), at, -1)
    return positions


def sums(cells: NDArray[np.int64], codes: NDArray[np.int64], n: int) -> NDArray[np.uint64]:
    """Sum the codes in each of n cells, modulo 2**64, uint64 (n,)."""
    totals, bits = np.zeros(n, np.uint64), codes.view(np.uint64)
    for shift in range(0, 64, _BITS):
        part = (bits >> np.uint64(shift)) & np.uint64((1 << _BITS) - 1)
        added = np.bincount(cells, weights=part.astype(np.float64), minlength=n)
        totals += added.astype(np.uint64) << np.uint64(shift)
    return totals
