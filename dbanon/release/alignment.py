"""Which row of a data frame became which released one: known to the run's own report, in memory.

It undoes what shuffling is for. So no serialization holds it: neither JSON, nor text, nor a pickle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.job.verdict import Caution

# How rows of a released frame stand, as its attrs and the arguments of its report say.
SHUFFLED, INPUT = "shuffled", "input"
ROWS_LINK = Caution(
    "the rows stand as their originals do",
    "ROWS LINK TO THEIR ORIGINALS",
    "order and index are those of the input, so that whoever has it pairs every row with its"
    " original: for your own use, and not for handing on",
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
    """

    n: int
    places: NDArray[np.int64]
    before: Mapping[str, bytes]
    after: Mapping[str, bytes]

    def __reduce__(self) -> tuple[Any, ...]:
        return _nothing, ()

    def rows(self) -> NDArray[np.int64]:
        """int64 (n,), the released row of each original; -1 where it was withheld."""
        found = np.full(self.n, -1, np.int64)
        found[self.places] = np.arange(len(self.places))
        return found


def _nothing() -> None:
    return None
