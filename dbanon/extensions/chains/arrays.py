"""Operations on arrays of person tags: sort them, find members, and sum row codes by cell.

A *tag* is the pseudonym under which a chain stores a person (see ``key``). A *cell* is a class of a
chain, and its *members* are the persons in it (see ``membership``). A *row key* identifies a row of
the source. A *code* is a hash of the columns of a row that are released unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import find_records
from dbanon.data.schema import Attribute

# ``np.bincount`` sums in floats, which represent integers up to 2**53 exactly. So codes are summed
# in slices of this many bits, which is exact for up to 2**31 rows.
_SLICE_BITS = 22


@dataclass(frozen=True, eq=False)
class FetchedPersons:
    """The persons in the source, fetched into this process.

    Parameters
    ----------
    keys : int64 (n, n_key_columns), the key of each person's row in the source, ascending.
    tags : uint64 (n, 2), the two halves of each tag.
    order : int64 (n,), indices that sort the persons by tag.
    retained : the columns released unchanged, which are staged with the persons.
    """

    keys: NDArray[np.int64]
    tags: NDArray[np.uint64]
    order: NDArray[np.int64]
    retained: tuple[Attribute, ...]

    @property
    def n_key_columns(self) -> int:
        """The number of columns in a row key."""
        return int(self.keys.shape[1])

    def order_by_tag(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the indices, int64 (m,), that sort rows by tag.

        Parameters
        ----------
        keys : int64 (m, n_key_columns), the keys of the rows.
        """
        # The keys are nearly always those of all persons.
        if np.array_equal(keys, self.keys):
            return self.order
        return argsort_tags(self.tags[find_records(self.keys, keys)])

    def tags_by_key(self, keys: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return the tags of rows with these keys, uint64 (m, 2).

        This is fastest if the keys are those of all rows, in the order of their tags.

        Parameters
        ----------
        keys : int64 (m, n_key_columns), the keys of the rows.

        Raises
        ------
        SourceChanged : a row was not fetched.
        """
        if len(keys) == len(self.keys) and np.array_equal(keys, self.keys[self.order]):
            return self.tags[self.order]
        return self.tags[find_records(self.keys, keys)]


def argsort_tags(tags: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the indices, int64 (n,), that sort tags, uint64 (n, 2), by their bytes."""
    order = np.argsort(tags[:, 0])
    first_halves = tags[order, 0]
    # The second halves only matter if two tags have the same first half, which is very rare.
    if (first_halves[1:] == first_halves[:-1]).any():
        order = np.lexsort((tags[:, 1], tags[:, 0]))
    return order


def find_members(
    members: NDArray[np.uint64], tags: NDArray[np.uint64], order: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the index of each tag among the tags of members, int64 (n,); -1 if not among them.

    Parameters
    ----------
    members : uint64 (m, 2), the tags of the chain's members, without duplicates.
    tags : uint64 (n, 2), the tags to look up.
    order : int64 (n,), the result of ``argsort_tags`` for ``tags``.
    """
    member_of_tag = np.full(len(tags), -1, np.int64)
    if not len(members):
        return member_of_tag
    member_order = argsort_tags(members)
    first_halves, ordered_tags = members[member_order, 0], tags[order]
    # The search below compares first halves, so they must be distinct; they nearly always are.
    if (first_halves[1:] == first_halves[:-1]).any():
        index_of_member = {tag: index for index, tag in enumerate(map(tuple, members.tolist()))}
        return np.array(
            [index_of_member.get(tag, -1) for tag in map(tuple, tags.tolist())], np.int64
        )
    # Look up sorted tags, so that neighboring lookups are close together in memory.
    ranks = np.searchsorted(first_halves, ordered_tags[:, 0])
    nearest_members = member_order[np.minimum(ranks, len(members) - 1)]
    is_match = (members[nearest_members] == ordered_tags).all(axis=1)
    member_of_tag[order] = np.where(is_match, nearest_members, -1)
    return member_of_tag


def sum_codes(
    cells: NDArray[np.int64], codes: NDArray[np.int64], n_cells: int
) -> NDArray[np.uint64]:
    """Sum the codes in each cell modulo 2**64, uint64 (n_cells,).

    If the rows of a cell in the source have the same sum as its displayed rows, they are the same
    rows, except by chance.

    Parameters
    ----------
    cells : int64 (n,), the cell of each row, from 0.
    codes : int64 (n,), the code of each row.
    """
    totals, bits = np.zeros(n_cells, np.uint64), codes.view(np.uint64)
    for shift in range(0, 64, _SLICE_BITS):
        bit_slice = (bits >> np.uint64(shift)) & np.uint64((1 << _SLICE_BITS) - 1)
        slice_sums = np.bincount(cells, weights=bit_slice.astype(np.float64), minlength=n_cells)
        totals += slice_sums.astype(np.uint64) << np.uint64(shift)
    return totals
