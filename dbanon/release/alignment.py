"""Alignment of a data frame's rows with released rows, in memory with the run's own report.

It undoes shuffling, so no serialization contains it: no JSON, text or pickle.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.job.verdict import Caution

if TYPE_CHECKING:
    from dbanon.measures.attributes import Floats
    from dbanon.measures.pairs import Pairs

# Number of pairs to test, and the bounds that unrelated rows stay below.
MOST, DEVIATIONS, SHARE = 1000, 3.0, 0.4
# Spreads of sums below this share are rounding errors.
_ROUNDING = 1e-9


def is_unrelated(pairs: Pairs, seed: int = 0) -> bool:
    """Whether released rows are no nearer to their originals than rows paired at random.

    False if all pairings are equivalent, as in a single class.
    """
    comparison = compare_with_chance(pairs, seed)
    return comparison is not None and comparison[0] < DEVIATIONS and comparison[1] < SHARE


def compare_with_chance(pairs: Pairs, seed: int = 0) -> tuple[float, float] | None:
    """How much nearer the pairs are than by chance; None if all pairings have the same sum.

    Returns
    -------
    The gain in standard deviations of the sums of random pairings, and its share of the largest
    gain that any pairing could have.
    """
    records = np.arange(pairs.n)
    if pairs.n > MOST:
        records = np.random.default_rng(seed).choice(pairs.n, MOST, replace=False)
    rows, n = pairs.labels[records], len(records)
    if n < 2:
        return None
    distances: Floats = np.zeros((n, n))
    for column in pairs.columns:
        distances += column.distances_ignoring_nulls(records[:, None], rows[None, :])
    by_record, by_row = distances.mean(axis=1), distances.mean(axis=0)
    chance, paired_sum = n * float(by_row.mean()), float(np.trace(distances))
    # Lower bounds of any pairing: each record with its nearest row, and vice versa.
    least = max(float(distances.min(axis=1).sum()), float(distances.min(axis=0).sum()))
    distances -= by_record[:, None]
    distances -= by_row[None, :] - by_row.mean()
    spread = sqrt(float(np.square(distances, out=distances).sum()) / (n - 1))
    if spread <= _ROUNDING * chance or chance <= least:
        return None
    return (chance - paired_sum) / spread, (chance - paired_sum) / (chance - least)


# Row orders of a released frame, as in its attrs and the arguments of its report.
SHUFFLED, INPUT = "shuffled", "input"
ROWS_LINK = Caution(
    "the rows are in the order of their originals",
    "ROWS LINK TO THEIR ORIGINALS",
    "order and index are those of the input. Anyone who has the input can pair every row with"
    " its original. Use the result yourself, and do not hand it on",
)


@dataclass(frozen=True, eq=False, repr=False)
class Alignment:
    """The pairing of released rows with originals; None when pickled or deep-copied.

    Parameters
    ----------
    n : the number of original rows.
    places : int64 (r,), the index of the original of each released row.
    before, after : digests of all values in order, by quasi-identifier, to check that both frames
        are still those of the run.
    released : the frame that was returned.
    hierarchies : of the run, by column.
    """

    n: int
    places: NDArray[np.int64]
    before: Mapping[str, bytes]
    after: Mapping[str, bytes]
    released: Any
    hierarchies: Mapping[str, Any]

    def __reduce__(self) -> tuple[Any, ...]:
        return _nothing, ()

    def rows(self) -> NDArray[np.int64]:
        """The index of the released row of each original, int64 (n,); -1 if withheld."""
        released_rows = np.full(self.n, -1, np.int64)
        released_rows[self.places] = np.arange(len(self.places))
        return released_rows


def _nothing() -> None:
    return None
