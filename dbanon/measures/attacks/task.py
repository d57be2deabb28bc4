"""AttackData: originals, control records and released rows, as attackers compare them.

Attackers do not know which record became which row, and synthetic rows have no original. Distances
are those of eq. (11), 0 to 1 per column, and 0 from a label to values it covers. NULL is a separate
value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.measures.attributes import ColumnPair, Flags, Floats
from dbanon.measures.figure import Tick, ignore_progress

Ints = NDArray[np.int64]

GUESSES = 1000
# Column distances computed per attack, and held in memory at once.
_MOST_DISTANCES, _DISTANCES_PER_BATCH = 2_000_000_000, 1 << 22
TIE = 1e-9


@dataclass(frozen=True, eq=False)
class AttackData:
    """The input of attacks.

    Parameters
    ----------
    columns : originals followed by control records, and distinct released rows.
    members : number of originals.
    controls : number of control records, which are not in the release.
    weights : int64 (m,), number of copies of each released row.
    linked : positions of the columns in the two sources of ``linkability``.
    guesses : maximum per attack and column; fewer if they would take too long.
    tolerance : how close a guess of a number must be, as a share of the range between the 5 % and
        95 % quantiles of the originals.
    """

    columns: tuple[ColumnPair, ...]
    members: int
    controls: int
    weights: Ints
    linked: tuple[tuple[int, ...], tuple[int, ...]]
    guesses: int = GUESSES
    tolerance: float = 0.05
    seed: int = 0
    tick: Tick = ignore_progress

    def affordable_guesses(self, rows: int) -> int:
        """The number of guesses that is affordable with ``rows`` released rows."""
        return max(min(self.guesses, _MOST_DISTANCES // max(rows * len(self.columns), 1)), 1)

    def rng(self, attack: str) -> np.random.Generator:
        """A separate generator for each attack, so that results do not depend on other attacks."""
        return np.random.default_rng([self.seed, *attack.encode()])

    def targets(self, rng: np.random.Generator) -> list[Ints]:
        """Target records, sampled without replacement: originals, and control records."""
        n_guesses = self.affordable_guesses(len(self.weights))
        targets = [rng.choice(self.members, min(n_guesses, self.members), replace=False)]
        if self.controls:
            controls = rng.choice(self.controls, min(n_guesses, self.controls), replace=False)
            targets.append(self.members + controls)
        return [np.asarray(records, np.int64) for records in targets]

    def any_rows(self, rng: np.random.Generator, n_rows: int) -> Ints:
        """Random released rows, as indices of distinct rows."""
        return np.asarray(
            rng.choice(len(self.weights), n_rows, p=self.weights / self.weights.sum()), np.int64
        )

    def nearest(
        self, records: Ints, known_columns: Sequence[int], rng: np.random.Generator
    ) -> tuple[Ints, Ints]:
        """For each record a nearest row by the known columns, int64 (r,), ties broken at random.

        The second array is the index of the copy of that row.
        """
        chosen = np.empty(len(records), np.int64)
        rows = np.arange(len(self.weights))
        for batch in _batches(len(records), len(rows)):
            distances = np.zeros((len(records[batch]), len(rows)))
            for column in known_columns:
                distances += distance(self.columns[column], records[batch][:, None], rows[None, :])
            ties = distances <= distances.min(axis=1, keepdims=True) + TIE
            # Break ties in proportion to weights: the maximum of w uniform draws is u^(1/w).
            draws = rng.random(distances.shape) ** (1 / self.weights)
            chosen[batch] = np.where(ties, draws, -1.0).argmax(axis=1)
        return chosen, np.asarray(rng.integers(self.weights[chosen]), np.int64)


def _batches(n: int, width: int) -> Iterator[slice]:
    step = max(1, _DISTANCES_PER_BATCH // max(width, 1))
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def _flags(flags: Flags | None, index: Ints) -> NDArray[np.bool_]:
    return np.zeros(index.shape, bool) if flags is None else flags[index]


def distance(column: ColumnPair, records: Ints, rows: Ints) -> Floats:
    """``ColumnPair.distances``, with distance 0 between NULLs and 1 from NULL to other values."""
    gaps = column.distances(records, rows)
    if column.original_nulls is None and column.released_nulls is None:
        return gaps
    original_null, released_null = (
        _flags(column.original_nulls, records),
        _flags(column.released_nulls, rows),
    )
    return np.where(
        original_null | released_null, (original_null != released_null).astype(np.float64), gaps
    )
