"""Cut a table into blocks: fit cuts to all records or a sample, and assign any record to a block.

The sample consists of the records whose keys have the smallest hashes, so it does not depend on the
order or batches in which the table is read. Cuts form a tree. Each cut has a direction, a principal
direction of the points that it was fitted to, and a border across it. A record is below a cut if
its coordinate along the direction is below the border; for records on the border the key decides.
Keys are unique, so ties are split as well, and blocks keep their sizes even with many equal
records.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.pieces import on_all_cores, split_records
from dbanon.kernels import block_of
from dbanon.partitioning.mixed_cuts import MixedCuts, coordinates_along
from dbanon.spaces.mixed import Axis

# Number of records from which a direction is computed; more records hardly improve it.
_DIRECTION_SAMPLE = 10_000

# Size of the sample to which borders are fitted: records per block, and the lower and upper limit
# of their total.
_SAMPLED_PER_BLOCK = 500
_MIN_SAMPLED = 100_000
_MAX_SAMPLED = 2_000_000

# Only hashes up to a bound are sorted. The number expected below the bound exceeds the sample size
# by this many standard deviations, so that there are almost surely enough.
_MARGIN_DEVIATIONS = 8.0
_MAX_HASH = 2**64 - 1

# With this as the key of a cut, no record on the border is below the cut.
_MIN_KEY = np.iinfo(np.int64).min

# Up to this number of points, one thread makes all further cuts.
_MIN_PARALLEL_POINTS = 20_000


def hash_keys(keys: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return a pseudorandom hash of each key, uint64 (n,); different keys have different hashes.

    Uses the finalizer of splitmix64 (G. Steele, D. Lea & C. Flood, OOPSLA 2014).
    """
    mixed: NDArray[np.uint64] = keys.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def sample_positions(keys: NDArray[np.int64], n_blocks: int) -> NDArray[np.int64]:
    """Return the positions of the sample for fitting the borders of blocks, int64, ascending.

    Parameters
    ----------
    keys : int64 (n,), the key of each record, all different.
    n_blocks : the number of blocks to cut the records into.
    """
    n_sampled = sample_size(n_blocks)
    if n_sampled >= len(keys):
        return np.arange(len(keys))
    # Hashes are uniform, so the smallest ones are almost surely below this bound.
    share = (n_sampled + _MARGIN_DEVIATIONS * n_sampled**0.5) / len(keys)
    # If too few hashes are below it, the second bound takes all keys.
    for bound in (min(int(share * _MAX_HASH), _MAX_HASH), _MAX_HASH):
        hashes_below_bound = on_all_cores(
            partial(_hashes_up_to, keys, np.uint64(bound)), split_records(len(keys))
        )
        positions, hashes = (
            np.concatenate(arrays) for arrays in zip(*hashes_below_bound, strict=True)
        )
        if len(positions) >= n_sampled:
            break
    largest_sampled_hash = np.partition(hashes, n_sampled - 1)[n_sampled - 1]
    sample: NDArray[np.int64] = positions[hashes <= largest_sampled_hash]
    return sample


def _hashes_up_to(
    keys: NDArray[np.int64], bound: np.uint64, piece: slice
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Return the positions and hashes of those keys whose hashes do not exceed a bound.

    Parameters
    ----------
    piece : the slice of keys to examine; one thread processes it.
    """
    hashes = hash_keys(keys[piece])
    positions_in_piece = np.flatnonzero(hashes <= bound)
    return positions_in_piece + piece.start, hashes[positions_in_piece]


def sample_size(n_blocks: int) -> int:
    """Return the sample size for fitting the borders of this many blocks.

    There may be fewer records than that.
    """
    n_sampled = max(_SAMPLED_PER_BLOCK * n_blocks, _MIN_SAMPLED)
    # ``Cuts.fit`` needs at least one point for each block.
    return max(min(n_sampled, _MAX_SAMPLED), n_blocks)


@dataclass(frozen=True, eq=False)
class Cuts:
    """A tree of m cuts, which makes m + 1 blocks; the first cut is the root.

    Parameters
    ----------
    directions : float64 (m, p), the direction of each cut.
    borders : float64 (m,), the coordinate, along the direction, of the first record that is not
        below the cut.
    keys : int64 (m,), the key of that record. Records on the border with smaller keys are below.
    targets : int64 (m, 2), where records below the cut go next (column 0) and where others go
        (column 1): the index of a cut, or -1 - b for block b.
    """

    directions: NDArray[np.float64]
    borders: NDArray[np.float64]
    keys: NDArray[np.int64]
    targets: NDArray[np.int64]

    @property
    def n_blocks(self) -> int:
        """The number of blocks."""
        return len(self.borders) + 1

    @classmethod
    def fit(
        cls,
        points: NDArray[np.float64],
        n_blocks: int,
        direction: int = 0,
        keys: NDArray[np.int64] | None = None,
        axes: tuple[Axis, ...] = (),
    ) -> Cuts:
        """Fit cuts that split points into blocks of about equal size.

        Sizes differ by at most one point, or by more if axes have hierarchies.

        Parameters
        ----------
        points : float64 (n, p), the points of all records or of a sample.
        n_blocks : number of blocks, at most n.
        direction : index of the principal direction to cut across, from 0, the one with the
            largest variance; indices from p are replaced by p - 1.
        keys : int64 (n,), the key of each point, all different; None to use the positions.
        axes : the axes of the p columns; empty for points without hierarchies. If some have a
            hierarchy, cuts are between values (``mixed_cuts``) as long as that gives blocks of
            about the intended size.

        Raises
        ------
        ValueError : there are fewer points than blocks.
        """
        if n_blocks > max(len(points), 1):
            raise ValueError("there must be a point for each block")
        keys = np.arange(len(points)) if keys is None else keys
        n_cuts = n_blocks - 1
        cuts = cls(
            np.zeros((n_cuts, points.shape[1])),
            np.zeros(n_cuts),
            np.zeros(n_cuts, np.int64),
            np.zeros((n_cuts, 2), np.int64),
        )
        mixed_cuts = MixedCuts.of(
            axes,
            mean_size=len(points) / n_blocks,
            principal_direction=_first_principal_direction,
        )
        # Fills the arrays of ``cuts``.
        _CutFitter(cuts, points, keys, direction, mixed_cuts).run()
        return cuts

    def join_small(
        self,
        counts: NDArray[np.int64],
        min_records: int,
        violates_models: Callable[[list[int]], bool] | None = None,
    ) -> NDArray[np.int64]:
        """Join small blocks with others, and return the final block of each, int64 (n_blocks,).

        A block joins the smallest block on the other side of its last cut if it has too few records
        or violates the privacy models. The final blocks are numbered anew, in the same order.

        Parameters
        ----------
        counts : int64 (n_blocks,), the number of records in each block.
        min_records : the minimum number of records per block, unless there are fewer in total.
        violates_models : returns True if the records of some blocks, as one class, violate the
            privacy models; None without models.
        """

        def must_join(block: list[int]) -> bool:
            return bool(counts[block].sum() < min_records) or (
                violates_models is not None and violates_models(block)
            )

        # For each cut, the final blocks on both sides, each as a list of the blocks joined into it.
        blocks_of_subtree: dict[int, list[list[int]]] = {}
        # Cuts are numbered from the root, so descendants have larger numbers.
        for cut in reversed(range(len(self.borders))):
            sides = [
                [[-1 - target]] if target < 0 else blocks_of_subtree.pop(target)
                for target in self.targets[cut].tolist()
            ]
            for side, other_side in (sides, sides[::-1]):
                # If a side has several blocks, all are large enough: earlier iterations have joined
                # small ones.
                while len(side) == 1 and other_side and must_join(side[0]):
                    smallest = min(other_side, key=lambda block: (int(counts[block].sum()), block))
                    smallest += side.pop()
                    smallest.sort()
                    if (
                        len(other_side) > 1
                        and violates_models is not None
                        and violates_models(smallest)
                    ):
                        # The joined block violates the models; join it with the next smallest one.
                        other_side.remove(smallest)
                        side.append(smallest)
            blocks_of_subtree[cut] = sides[0] + sides[1]
        block_numbers = np.zeros(self.n_blocks, np.int64)
        # Cut 0 is the root, so its blocks are all blocks. Without cuts there is only block 0.
        for index, block in enumerate(sorted(blocks_of_subtree.get(0, [[0]]))):
            block_numbers[block] = index
        return block_numbers

    def assign(
        self, points: NDArray[np.float64], keys: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        """Return the block of each record, int64 (n,), which does not depend on other records.

        Parameters
        ----------
        points : float64 (n, p), the point of each record.
        keys : int64 (n,), the key of each record, as in ``fit``; None to use the positions.
        """
        keys = np.arange(len(points)) if keys is None else keys
        return block_of(
            np.ascontiguousarray(points, np.float64),
            np.ascontiguousarray(keys, np.int64),
            self.directions,
            self.borders,
            self.keys,
            self.targets,
        )


@dataclass(frozen=True)
class _UncutRecords:
    """Records that are still to be cut into blocks.

    Parameters
    ----------
    records : int64 (c,), positions of points.
    n_blocks : number of blocks to cut them into.
    first_block : index of the first of these blocks.
    first_cut : index of the first cut of these records. Cuts and blocks are numbered in preorder,
        the lower side first. So the b - 1 cuts that make b blocks have consecutive indices, of
        which ``first_cut`` is the smallest.
    near_pairs : int64 (m, 2), known pairs of near records among these; None before the first cut.
    """

    records: NDArray[np.int64]
    n_blocks: int
    first_block: int
    first_cut: int
    near_pairs: NDArray[np.int64] | None = None

    @property
    def target(self) -> int:
        """The cut or block for these records, encoded as in ``Cuts.targets``."""
        return self.first_cut if self.n_blocks > 1 else -1 - self.first_block


@dataclass(frozen=True)
class _CutFitter:
    """Fits the cuts of a tree; the two sides of a cut are independent.

    Parameters
    ----------
    cuts : the cuts; their arrays are filled in.
    points : float64 (n, p), the points to fit the cuts to.
    keys : int64 (n,), the key of each point, all different.
    direction : index of the principal direction to cut across.
    mixed_cuts : finds borders between values; None for points without hierarchies.
    """

    cuts: Cuts
    points: NDArray[np.float64]
    keys: NDArray[np.int64]
    direction: int
    mixed_cuts: MixedCuts | None

    def run(self) -> None:
        """Find all cuts."""
        all_records = np.arange(len(self.points))
        pending = [_UncutRecords(all_records, self.cuts.n_blocks, first_block=0, first_cut=0)]
        # Cut large sets of records level by level, in parallel; then finish each in one thread.
        while any(self._is_large(uncut) for uncut in pending):
            sides_by_cut = on_all_cores(self._cut, pending)
            pending = [side for sides in sides_by_cut for side in sides]
        on_all_cores(self._cut_completely, pending)

    def _is_large(self, uncut: _UncutRecords) -> bool:
        """Return True if the next cut should be made in parallel with others."""
        return uncut.n_blocks > 1 and len(uncut.records) > _MIN_PARALLEL_POINTS

    def _cut_completely(self, uncut: _UncutRecords) -> None:
        """Make all cuts of these records."""
        pending = [uncut]
        while pending:
            pending += self._cut(pending.pop())

    def _cut(self, uncut: _UncutRecords) -> tuple[_UncutRecords, ...]:
        """Make one cut and return its two sides; empty for records that are a single block."""
        records, n_blocks, first_cut = uncut.records, uncut.n_blocks, uncut.first_cut
        if n_blocks == 1:
            return ()
        cuts, keys = self.cuts, self.keys
        if self.mixed_cuts is not None and (sides := self._cut_between(uncut, self.mixed_cuts)):
            return sides
        # The number of records below the cut, in proportion to the blocks there.
        split = len(records) * (n_blocks // 2) // n_blocks
        cuts.directions[first_cut] = _principal_direction(self.points, records, self.direction)
        coordinates = coordinates_along(self.points, records, cuts.directions[first_cut])
        order = np.argpartition(coordinates, split)
        border = coordinates[order[split]]
        # Order the records on the border by key.
        ties = np.flatnonzero(coordinates[order] == border)
        order[ties] = order[ties][np.argsort(keys[records[order[ties]]])]
        cuts.borders[first_cut], cuts.keys[first_cut] = border, keys[records[order[split]]]
        return self._split(uncut, records[order[:split]], records[order[split:]], n_blocks // 2)

    def _cut_between(
        self, uncut: _UncutRecords, mixed_cuts: MixedCuts
    ) -> tuple[_UncutRecords, ...]:
        """Make one cut between values and return its sides; empty if there is no suitable cut."""
        points, records, cuts = self.points, uncut.records, self.cuts
        pairs = mixed_cuts.find_near_pairs(points, records, uncut.near_pairs)
        border = mixed_cuts.find_best_border(points, records, pairs, uncut.n_blocks)
        if border is None:
            return ()
        cut = uncut.first_cut
        cuts.directions[cut] = border.direction
        cuts.borders[cut] = border.coordinate
        cuts.keys[cut] = _MIN_KEY
        is_below = coordinates_along(points, records, border.direction) < border.coordinate
        pair_is_below = coordinates_along(points, pairs, border.direction) < border.coordinate
        near_pairs = pairs[pair_is_below.all(axis=1)], pairs[~pair_is_below.any(axis=1)]
        return self._split(
            uncut, records[is_below], records[~is_below], border.n_blocks_below, near_pairs
        )

    def _split(
        self,
        uncut: _UncutRecords,
        below: NDArray[np.int64],
        not_below: NDArray[np.int64],
        n_blocks_below: int,
        near_pairs: tuple[NDArray[np.int64] | None, NDArray[np.int64] | None] = (None, None),
    ) -> tuple[_UncutRecords, ...]:
        """Return the two sides of a cut, and store them as the targets of the cut.

        Parameters
        ----------
        below, not_below : the records of either side, int64.
        n_blocks_below : the number of blocks to cut the records below into.
        near_pairs : the known pairs of near records of either side; None if none were searched.
        """
        sides = (
            _UncutRecords(
                below, n_blocks_below, uncut.first_block, uncut.first_cut + 1, near_pairs[0]
            ),
            _UncutRecords(
                not_below,
                uncut.n_blocks - n_blocks_below,
                uncut.first_block + n_blocks_below,
                uncut.first_cut + n_blocks_below,
                near_pairs[1],
            ),
        )
        self.cuts.targets[uncut.first_cut] = [side.target for side in sides]
        return sides


def _first_principal_direction(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the first principal direction of points, float64 (p,)."""
    return _principal_direction(points, np.arange(len(points)), direction=0)


def _principal_direction(
    points: NDArray[np.float64], records: NDArray[np.int64], direction: int
) -> NDArray[np.float64]:
    """Return a principal direction of some records, float64 (p,), estimated from a sample.

    Parameters
    ----------
    direction : index of the direction, from 0, the one with the largest variance; indices from p
        are replaced by p - 1.
    """
    stride = max(len(records) // _DIRECTION_SAMPLE, 1)
    sample = points[records[::stride]]
    centered = sample - sample.mean(axis=0)
    # This matrix is the covariance, up to a factor. ``eigh`` sorts by ascending eigenvalue, so the
    # first principal direction is the last column.
    _, vectors = np.linalg.eigh(centered.T @ centered)
    return np.asarray(vectors[:, max(-1 - direction, -vectors.shape[1])])
