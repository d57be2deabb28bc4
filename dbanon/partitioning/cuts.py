"""Where a table is cut into blocks: found on all records or a sample, and kept for any record.

A sample is the records whose keys have the smallest hashes: the same ones in whatever order and
pieces the table is read. Cuts are a tree. Each cut has a direction, the principal one of the points
it was found on, and a border across it. A record is below when its place along the direction is;
where it is on the border itself its key decides. No two records have the same key, so that ties are
shared out, too, and blocks keep their sizes however many records are alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.kernels import block_of

# The direction of a sample cuts as well as the direction of all records.
SAMPLE = 10_000

# Borders are found on so many points a block, but in all on no fewer, and no more, than these.
_SAMPLED_PER_BLOCK = 500
_LEAST_SAMPLED = 100_000
_MOST_SAMPLED = 2_000_000


def hashed(keys: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A number for each key, uint64 (n,), that looks drawn: different where keys are.

    The finalizer of splitmix64: G. Steele, D. Lea & C. Flood, OOPSLA 2014.
    """
    mixed: NDArray[np.uint64] = keys.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def sampled(keys: NDArray[np.int64], parts: int) -> NDArray[np.int64]:
    """The records on which borders of so many blocks are found: positions, int64, ascending.

    Parameters
    ----------
    keys : int64 (n,), all different.
    """
    wanted = sample_size(parts)
    if wanted >= len(keys):
        return np.arange(len(keys))
    hashes = hashed(keys)
    last = np.partition(hashes, wanted - 1)[wanted - 1]
    return np.flatnonzero(hashes <= last)


def sample_size(parts: int) -> int:
    """On how many records borders of so many blocks are found, where there are as many."""
    wanted = max(_SAMPLED_PER_BLOCK * parts, _LEAST_SAMPLED)
    return max(min(wanted, _MOST_SAMPLED), parts)


@dataclass(frozen=True, eq=False)
class Cuts:
    """A tree of m cuts, which makes m + 1 blocks; the first cut is the root.

    Parameters
    ----------
    directions : float64 (m, p).
    borders : float64 (m,), the place of the first record that is not below.
    keys : int64 (m,), that record's key.
    next : int64 (m, 2), where records go that are below the border, and the others: to a cut, or
        to block b, which is told as -1 - b.
    """

    directions: NDArray[np.float64]
    borders: NDArray[np.float64]
    keys: NDArray[np.int64]
    next: NDArray[np.int64]

    @property
    def n_blocks(self) -> int:
        """The number of blocks."""
        return len(self.borders) + 1

    @classmethod
    def fit(
        cls,
        points: NDArray[np.float64],
        parts: int,
        direction: int = 0,
        keys: NDArray[np.int64] | None = None,
    ) -> Cuts:
        """Cuts that make blocks of nearly equal size of these points.

        Parameters
        ----------
        points : float64 (n, p), of all records or of a sample.
        parts : how many blocks, n at most.
        direction : across which principal direction, the first being 0; the last when p is less.
        keys : int64 (n,), all different; None for positions.

        Raises
        ------
        ValueError : there are fewer points than blocks.
        """
        if parts > max(len(points), 1):
            raise ValueError("there must be a point for each block")
        keys = np.arange(len(points)) if keys is None else keys
        directions = np.zeros((parts - 1, points.shape[1]))
        borders, border_keys = np.zeros(parts - 1), np.zeros(parts - 1, np.int64)
        following = np.zeros((parts - 1, 2), np.int64)
        blocks = made = 0
        # Records, blocks to make of them, and what leads there. The last is taken first, so that
        # blocks are numbered from below.
        pending = [(np.arange(len(points)), parts, (-1, 0))]
        while pending:
            records, wanted, (parent, side) = pending.pop()
            if wanted == 1:
                if parent >= 0:
                    following[parent, side] = -1 - blocks
                blocks += 1
                continue
            if parent >= 0:
                following[parent, side] = made
            place = len(records) * (wanted // 2) // wanted
            directions[made] = _principal(points, records, direction)
            along = _along(points[records], directions[made])
            order = np.argpartition(along, place)
            borders[made] = along[order[place]]
            tied = np.flatnonzero(along[order] == borders[made])
            order[tied] = order[tied][np.argsort(keys[records[order[tied]]])]
            border_keys[made] = keys[records[order[place]]]
            pending += [
                (records[order[place:]], wanted - wanted // 2, (made, 1)),
                (records[order[:place]], wanted // 2, (made, 0)),
            ]
            made += 1
        return cls(directions, borders, border_keys, following)

    def joined(
        self,
        counts: NDArray[np.int64],
        least: int,
        fails: Callable[[list[int]], bool] | None = None,
    ) -> NDArray[np.int64]:
        """The block of each of these, int64 (n_blocks,), once small ones are joined to others.

        A block of too few records joins the smallest one on the other side of its last cut, and so
        does one that cannot keep to privacy models; blocks are numbered anew, from below.

        Parameters
        ----------
        counts : int64 (n_blocks,), the records in each.
        least : how many there have to be, unless there are fewer in all.
        fails : whether the records of these blocks as one class do not keep to privacy models; None
            where there are none.
        """

        def lacks(block: list[int]) -> bool:
            return bool(counts[block].sum() < least) or (fails is not None and fails(block))

        below: dict[int, list[list[int]]] = {}
        # Cuts are numbered from the root: what is below one has a larger number.
        for cut in reversed(range(len(self.borders))):
            sides = [
                [[-1 - following]] if following < 0 else below.pop(following)
                for following in self.next[cut].tolist()
            ]
            for side, other in (sides, sides[::-1]):
                # No other lacks anything: it would have been joined below.
                while len(side) == 1 and other and lacks(side[0]):
                    smallest = min(other, key=lambda block: (int(counts[block].sum()), block))
                    smallest += side.pop()
                    smallest.sort()
                    if len(other) > 1 and fails is not None and fails(smallest):
                        # Together they fail, where the other did not: on to the next.
                        other.remove(smallest)
                        side.append(smallest)
            below[cut] = sides[0] + sides[1]
        number = np.zeros(self.n_blocks, np.int64)
        for joined, block in enumerate(sorted(below.get(0, [[0]]))):
            number[block] = joined
        return number

    def assign(
        self, points: NDArray[np.float64], keys: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        """The block of each record, int64 (n,), whatever other records are there.

        Parameters
        ----------
        points : float64 (n, p).
        keys : int64 (n,), of the same kind as those of ``fit``; None for positions.
        """
        keys = np.arange(len(points)) if keys is None else keys
        return block_of(
            np.ascontiguousarray(points, np.float64),
            np.ascontiguousarray(keys, np.int64),
            self.directions,
            self.borders,
            self.keys,
            self.next,
        )


def _along(points: NDArray[np.float64], direction: NDArray[np.float64]) -> NDArray[np.float64]:
    """The place of each point along a direction, float64 (n,).

    Sums in the order of columns: those of a linear algebra library depend on how many points there
    are, and a record would not go where it went.
    """
    places = np.zeros(len(points))
    for column, share in zip(points.T, direction, strict=True):
        places += column * share
    return places


def _principal(
    points: NDArray[np.float64], records: NDArray[np.int64], direction: int
) -> NDArray[np.float64]:
    """A principal direction of these records, float64 (p,), by a sample of them."""
    step = max(len(records) // SAMPLE, 1)
    sample = points[records[::step]]
    centred = sample - sample.mean(axis=0)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    return np.asarray(vectors[:, max(-1 - direction, -vectors.shape[1])])
