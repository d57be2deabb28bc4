"""Which row of a data frame became which released one: known to the run's own report, in memory.

It undoes what shuffling is for. So no serialization holds it: neither JSON, nor text, nor a pickle.
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

# Pairs that are tried, and what unrelated rows stay below.
MOST, DEVIATIONS, SHARE = 1000, 3.0, 0.4
# A spread of sums that is of rounding.
_ROUNDING = 1e-9


def unrelated(pairs: Pairs, seed: int = 0) -> bool:
    """True where released rows are no nearer to their originals than rows paired at random.

    False, too, where all pairings are alike, as in one class: there is nothing to tell then.
    """
    found = against_chance(pairs, seed)
    return found is not None and found[0] < DEVIATIONS and found[1] < SHARE


def against_chance(pairs: Pairs, seed: int = 0) -> tuple[float, float] | None:
    """``gain`` and ``share`` of the pairing; None where all pairings have one sum."""
    records = np.arange(pairs.n)
    if pairs.n > MOST:
        records = np.random.default_rng(seed).choice(pairs.n, MOST, replace=False)
    rows, n = pairs.rows[records], len(records)
    if n < 2:
        return None
    apart: Floats = np.zeros((n, n))
    for column in pairs.columns:
        apart += column.apart(records[:, None], rows[None, :])
    by_record, by_row = apart.mean(axis=1), apart.mean(axis=0)
    chance, own = n * float(by_row.mean()), float(np.trace(apart))
    # No pairing is below either: each record at its nearest row, each row at its nearest record.
    least = max(float(apart.min(axis=1).sum()), float(apart.min(axis=0).sum()))
    apart -= by_record[:, None]
    apart -= by_row[None, :] - by_row.mean()
    spread = sqrt(float(np.square(apart, out=apart).sum()) / (n - 1))
    if spread <= _ROUNDING * chance or chance <= least:
        return None
    return (chance - own) / spread, (chance - own) / (chance - least)


# How rows of a released frame stand, as its attrs and the arguments of its report say.
SHUFFLED, INPUT = "shuffled", "input"
ROWS_LINK = Caution(
    "the rows are in the order of their originals",
    "ROWS LINK TO THEIR ORIGINALS",
    "order and index are those of the input. Anyone who has the input can pair every row with"
    " its original. Use the result yourself, and do not hand it on",
)


@dataclass(frozen=True, eq=False, repr=False)
class Alignment:
    """What pairs released rows with originals. Pickled and copied deeply it is None.

    Parameters
    ----------
    n : the rows of the original.
    places : int64 (r,), the original of each released row.
    before, after : by quasi-identifier, a digest of all its values in their order, to know that
        both frames are still those of the run.
    released : the frame, as it was handed back.
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
        """int64 (n,), the released row of each original; -1 where it was withheld."""
        found = np.full(self.n, -1, np.int64)
        found[self.places] = np.arange(len(self.places))
        return found


def _nothing() -> None:
    return None
