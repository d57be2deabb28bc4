"""Cuts a table into blocks: fits cuts on all records or a sample, and assigns any record.

The sample consists of the records whose keys have the smallest hashes, so it does not depend on
the order or batches in which the table is read. Cuts form a tree. Each cut has a direction, the
principal one of the points it was fitted on, and a border across it. A record is below a cut if its
coordinate along the direction is; on the border itself its key decides. Keys are unique, so ties
are split as well, and blocks keep their sizes even with many equal records.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.pieces import on_all_cores, split_records
from dbanon.kernels import block_of
from dbanon.partitioning.mixed_cuts import MixedCuts, along
from dbanon.spaces.mixed import Axis

# The direction of a sample is as good as the direction of all records.
SAMPLE = 10_000

# Points per block on which borders are fitted; lower and upper limit of their total.
_SAMPLED_PER_BLOCK = 500
_LEAST_SAMPLED = 100_000
_MOST_SAMPLED = 2_000_000

# Hashes examined beyond the sample size, in standard deviations of their number.
_SPARE_DEVIATIONS = 8.0
_MOST_HASH = 2**64 - 1

# With the smallest possible key, records on the border itself are not below.
_BEFORE_ALL = np.iinfo(np.int64).min

# With fewer points than this, one thread processes both sides of a cut.
_LEAST_APART = 20_000


def hash_keys(keys: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A pseudorandom hash for each key, uint64 (n,); injective.

    The finalizer of splitmix64: G. Steele, D. Lea & C. Flood, OOPSLA 2014.
    """
    mixed: NDArray[np.uint64] = keys.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def sample_positions(keys: NDArray[np.int64], parts: int) -> NDArray[np.int64]:
    """The sample for fitting borders of so many blocks: positions, int64, ascending.

    Parameters
    ----------
    keys : int64 (n,), all different.
    """
    n_sampled = sample_size(parts)
    if n_sampled >= len(keys):
        return np.arange(len(keys))
    # Hashes are uniform, so the smallest ones are almost surely below this bound.
    share = (n_sampled + _SPARE_DEVIATIONS * n_sampled**0.5) / len(keys)
    for bound in (min(int(share * _MOST_HASH), _MOST_HASH), _MOST_HASH):
        below = on_all_cores(
            partial(_hashed_below, keys, np.uint64(bound)), split_records(len(keys))
        )
        places, hashes = (np.concatenate(parts) for parts in zip(*below, strict=True))
        if len(places) >= n_sampled:
            break
    last = np.partition(hashes, n_sampled - 1)[n_sampled - 1]
    sample: NDArray[np.int64] = places[hashes <= last]
    return sample


def _hashed_below(
    keys: NDArray[np.int64], bound: np.uint64, piece: slice
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Positions and hashes of the keys of a slice whose hashes do not exceed a bound."""
    hashes = hash_keys(keys[piece])
    below = np.flatnonzero(hashes <= bound)
    return below + piece.start, hashes[below]


def sample_size(parts: int) -> int:
    """The sample size for fitting borders of so many blocks, if there are enough records."""
    n_sampled = max(_SAMPLED_PER_BLOCK * parts, _LEAST_SAMPLED)
    return max(min(n_sampled, _MOST_SAMPLED), parts)


@dataclass(frozen=True, eq=False)
class Cuts:
    """A tree of m cuts, which makes m + 1 blocks; the first cut is the root.

    Parameters
    ----------
    directions : float64 (m, p).
    borders : float64 (m,), the place of the first record that is not below.
    keys : int64 (m,), that record's key.
    next : int64 (m, 2), where records go that are below the border, and the others: to a cut, or
        to block b, encoded as -1 - b.
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
        axes: tuple[Axis, ...] = (),
    ) -> Cuts:
        """Fit cuts that split points into blocks of nearly equal size, or roughly so with trees.

        Parameters
        ----------
        points : float64 (n, p), of all records or of a sample.
        parts : how many blocks, n at most.
        direction : across which principal direction, the first being 0; the last when p is less.
        keys : int64 (n,), all different; None for positions.
        axes : what the p columns stand for; where some have hierarchies, cuts are between values
            (``mixed_cuts``), while there are any that leave blocks of a good size. None for points.

        Raises
        ------
        ValueError : there are fewer points than blocks.
        """
        if parts > max(len(points), 1):
            raise ValueError("there must be a point for each block")
        keys = np.arange(len(points)) if keys is None else keys
        m = parts - 1
        cuts = cls(
            np.zeros((m, points.shape[1])),
            np.zeros(m),
            np.zeros(m, np.int64),
            np.zeros((m, 2), np.int64),
        )
        mixed = MixedCuts.of(axes, len(points) / parts, _first_principal)
        fitting = _Fitting(cuts, points, keys, direction, mixed)
        fitting.run()
        return cuts

    def join_small(
        self,
        counts: NDArray[np.int64],
        least: int,
        fails: Callable[[list[int]], bool] | None = None,
    ) -> NDArray[np.int64]:
        """The final block of each block, int64 (n_blocks,), after small ones have joined others.

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
        # Cuts are numbered from the root, so descendants have larger numbers.
        for cut in reversed(range(len(self.borders))):
            sides = [
                [[-1 - following]] if following < 0 else below.pop(following)
                for following in self.next[cut].tolist()
            ]
            for side, other in (sides, sides[::-1]):
                # All others are large enough: they would have been joined further down.
                while len(side) == 1 and other and lacks(side[0]):
                    smallest = min(other, key=lambda block: (int(counts[block].sum()), block))
                    smallest += side.pop()
                    smallest.sort()
                    if len(other) > 1 and fails is not None and fails(smallest):
                        # The joined block fails although the other did not, so try the next.
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
        """The block of each record, int64 (n,), independent of other records.

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


@dataclass(frozen=True)
class _Piece:
    """Records that are to be cut into blocks.

    Parameters
    ----------
    records : int64 (c,), positions of points.
    n_blocks : how many blocks.
    block : the first one's number.
    cut : the first cut's number. Cuts and blocks are numbered as they are met from the root on,
        the lower side first, so that b blocks have the b - 1 cuts from here on.
    near : int64 (m, 2), pairs of near records of the piece, as far as they are known.
    """

    records: NDArray[np.int64]
    n_blocks: int
    block: int
    cut: int
    near: NDArray[np.int64] | None = None

    @property
    def leads_to(self) -> int:
        """As in ``Cuts.next``."""
        return self.cut if self.n_blocks > 1 else -1 - self.block


@dataclass(frozen=True)
class _Fitting:
    """Fits cuts; the two sides of a cut do not depend on each other.

    Parameters
    ----------
    cuts : the cuts, to be filled.
    points, keys, direction : as for ``Cuts.fit``.
    mixed : finds borders between values; None for points.
    """

    cuts: Cuts
    points: NDArray[np.float64]
    keys: NDArray[np.int64]
    direction: int
    mixed: MixedCuts | None

    def run(self) -> None:
        """Find all cuts."""
        all_of_them = np.arange(len(self.points))
        pending = [_Piece(all_of_them, self.cuts.n_blocks, 0, 0)]
        # Process large pieces level by level, in parallel; then finish each piece in one thread.
        while any(self._is_large(piece) for piece in pending):
            sides = on_all_cores(self._cut, pending)
            pending = [side for both in sides for side in both]
        on_all_cores(self._cut_on, pending)

    def _is_large(self, piece: _Piece) -> bool:
        return piece.n_blocks > 1 and len(piece.records) > _LEAST_APART

    def _cut_on(self, piece: _Piece) -> None:
        pending = [piece]
        while pending:
            pending += self._cut(pending.pop())

    def _cut(self, piece: _Piece) -> tuple[_Piece, ...]:
        """Both sides of one cut; empty for a piece that is a single block."""
        records, n_blocks, cut = piece.records, piece.n_blocks, piece.cut
        if n_blocks == 1:
            return ()
        cuts, keys = self.cuts, self.keys
        if self.mixed is not None and (sides := self._cut_between(piece, self.mixed)):
            return sides
        split = len(records) * (n_blocks // 2) // n_blocks
        cuts.directions[cut] = _principal(self.points, records, self.direction)
        places = along(self.points, records, cuts.directions[cut])
        order = np.argpartition(places, split)
        border = places[order[split]]
        tied = np.flatnonzero(places[order] == border)
        order[tied] = order[tied][np.argsort(keys[records[order[tied]]])]
        cuts.borders[cut], cuts.keys[cut] = border, keys[records[order[split]]]
        return self._sides(piece, records[order[:split]], records[order[split:]], n_blocks // 2)

    def _cut_between(self, piece: _Piece, mixed: MixedCuts) -> tuple[_Piece, ...]:
        """Both sides of a cut between values; empty if there is no good cut."""
        points, records, cuts = self.points, piece.records, self.cuts
        pairs = mixed.near(points, records, piece.near)
        border = mixed.best(points, records, pairs, piece.n_blocks)
        if border is None:
            return ()
        cuts.directions[piece.cut], cuts.borders[piece.cut] = border.direction, border.border
        cuts.keys[piece.cut] = _BEFORE_ALL
        below = along(points, records, border.direction) < border.border
        ends = along(points, pairs, border.direction) < border.border
        near = pairs[ends.all(axis=1)], pairs[~ends.any(axis=1)]
        return self._sides(piece, records[below], records[~below], border.below, near)

    def _sides(
        self,
        piece: _Piece,
        below: NDArray[np.int64],
        others: NDArray[np.int64],
        low: int,
        near: tuple[NDArray[np.int64] | None, NDArray[np.int64] | None] = (None, None),
    ) -> tuple[_Piece, ...]:
        """Both sides of a piece's cut; the lower side gets ``low`` blocks."""
        sides = (
            _Piece(below, low, piece.block, piece.cut + 1, near[0]),
            _Piece(others, piece.n_blocks - low, piece.block + low, piece.cut + low, near[1]),
        )
        self.cuts.next[piece.cut] = [side.leads_to for side in sides]
        return sides


def _first_principal(points: NDArray[np.float64]) -> NDArray[np.float64]:
    return _principal(points, np.arange(len(points)), 0)


def _principal(
    points: NDArray[np.float64], records: NDArray[np.int64], direction: int
) -> NDArray[np.float64]:
    """A principal direction of these records, float64 (p,), estimated from a sample."""
    step = max(len(records) // SAMPLE, 1)
    sample = points[records[::step]]
    centred = sample - sample.mean(axis=0)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    return np.asarray(vectors[:, max(-1 - direction, -vectors.shape[1])])
