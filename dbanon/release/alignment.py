"""The alignment of released rows with the original rows of a data frame.

The report keeps the alignment in memory only. The alignment would undo shuffling, so no JSON, text
or pickle contains it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dbanon.data.frozen import dataclass
from dbanon.job.verdict import Caution

if TYPE_CHECKING:
    from dbanon.hierarchy.spec import HierarchySource
    from dbanon.measures.attributes import Floats
    from dbanon.measures.pairs import Pairs

# Maximum number of pairs to test.
MAX_TESTED_PAIRS = 1000
# Rows count as unrelated to their originals if the gain (see ``compare_with_chance``) is below both
# of these: in standard deviations, and as a share of the largest possible gain.
MAX_CHANCE_DEVIATIONS = 3.0
MAX_CHANCE_SHARE = 0.4
# A smaller standard deviation, as a share of the expected distance, is a rounding error.
_ROUNDING_ERROR = 1e-9


def is_unrelated(pairs: Pairs, seed: int = 0) -> bool:
    """Return True if released rows are hardly nearer to their originals than to random records.

    False if all pairings are equally near, as in a single class.
    """
    comparison = compare_with_chance(pairs, seed)
    if comparison is None:
        return False
    deviations, share = comparison
    return deviations < MAX_CHANCE_DEVIATIONS and share < MAX_CHANCE_SHARE


def compare_with_chance(pairs: Pairs, seed: int = 0) -> tuple[float, float] | None:
    """Measure the gain: by how much pairs are nearer than random pairings of the same rows.

    A pairing assigns each row to a record. None if all pairings are equally near.

    Parameters
    ----------
    seed : random seed of the sample, for more than ``MAX_TESTED_PAIRS`` pairs.

    Returns
    -------
    The gain in standard deviations of the sum of distances over random pairings, and its share of
    the largest gain that any pairing could have.
    """
    records = np.arange(pairs.n)
    if pairs.n > MAX_TESTED_PAIRS:
        records = np.random.default_rng(seed).choice(pairs.n, MAX_TESTED_PAIRS, replace=False)
    # A released row is addressed by its class: all rows of a class have equal released values.
    row_classes, n = pairs.labels[records], len(records)
    if n < 2:
        return None
    distances: Floats = np.zeros((n, n))
    for column in pairs.columns:
        distances += column.distances_ignoring_nulls(records[:, None], row_classes[None, :])
    record_means, row_means = distances.mean(axis=1), distances.mean(axis=0)
    # The sum of distances of a random pairing, on average, and that of the actual pairs.
    expected_sum, paired_sum = n * float(row_means.mean()), float(np.trace(distances))
    # A lower bound for any pairing: pair each record with its nearest row, or each row with its
    # nearest record.
    least_sum = max(float(distances.min(axis=1).sum()), float(distances.min(axis=0).sum()))
    # Subtract the effects of single records and rows, which every pairing contains alike.
    distances -= record_means[:, None]
    distances -= row_means[None, :] - row_means.mean()
    # The standard deviation, over random pairings, of the sum of their distances.
    sum_deviation = sqrt(float(np.square(distances, out=distances).sum()) / (n - 1))
    if sum_deviation <= _ROUNDING_ERROR * expected_sum or expected_sum <= least_sum:
        return None
    gain = expected_sum - paired_sum
    return gain / sum_deviation, gain / (expected_sum - least_sum)


# The order of a released frame's rows, as stored in ``DataFrame.attrs`` and in the arguments of the
# report: random, or that of the input.
SHUFFLED, INPUT = "shuffled", "input"
INPUT_ORDER_CAUTION = Caution(
    warning="the rows are in the order of their originals",
    title="ROWS LINK TO THEIR ORIGINALS",
    reason="order and index are those of the input. Anyone who has the input can pair every row"
    " with its original. Use the result yourself, and do not pass it on",
)


@dataclass(frozen=True, eq=False, repr=False)
class Alignment:
    """Which released row came from which original; becomes None when pickled or deep-copied.

    Parameters
    ----------
    n_originals : number of original rows.
    original_of_row : int64 (r,), the index of each released row's original.
    original_digests, released_digests : by quasi-identifier, digests of the values in row order.
        They reveal whether these columns of either frame were modified after the run.
    released : the frame that was returned to the caller.
    hierarchies : the hierarchies of the run, by column.
    """

    n_originals: int
    original_of_row: NDArray[np.int64]
    original_digests: Mapping[str, bytes]
    released_digests: Mapping[str, bytes]
    released: ArrayLike
    hierarchies: Mapping[str, HierarchySource]

    def __reduce__(self) -> tuple[object, ...]:
        return _return_none, ()

    def row_of_original(self) -> NDArray[np.int64]:
        """Return the index of each original's released row, int64 (n,); -1 if it is withheld."""
        released_rows = np.full(self.n_originals, -1, np.int64)
        released_rows[self.original_of_row] = np.arange(len(self.original_of_row))
        return released_rows


def _return_none() -> None:
    return None
