"""AttackData: originals, control records and released rows, as attackers compare them.

Attackers do not know which record became which row, and synthetic rows have no original. Distances
are those of ``ColumnPair``: 0 to 1 per column, and 0 between a label and the values that it covers.
NULL is a separate value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.measures.attributes import ColumnPair, Flags, Floats
from dbanon.measures.figure import Tick, ignore_progress

Ints = NDArray[np.int64]

DEFAULT_MAX_GUESSES = 1000
# The maximum number of column distances to compute per attack, and to hold in memory at once.
_MAX_DISTANCES, _DISTANCES_PER_BATCH = 2_000_000_000, 1 << 22
# Distances that differ by at most this much count as equal.
TIE_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class AttackData:
    """The input of attacks.

    Parameters
    ----------
    columns : by column, the values of the records (originals, then control records) and of the m
        distinct released rows.
    n_members : number of originals: the records that the release was made from.
    n_controls : number of control records, which are not in the release.
    weights : int64 (m,), number of copies of each distinct released row.
    linked_columns : for ``linkability``, the indices of the columns that the attacker knows from
        each of two sources.
    max_guesses : maximum number of guesses per attack and column; fewer are made if they would take
        too long.
    tolerance : largest error of a right guess of a number, as a fraction of the range from the 5 %
        to the 95 % quantile of the originals.
    seed : the seed for random guesses and samples.
    tick : called with the progress, 0 to 1.
    """

    columns: tuple[ColumnPair, ...]
    n_members: int
    n_controls: int
    weights: Ints
    linked_columns: tuple[tuple[int, ...], tuple[int, ...]]
    max_guesses: int = DEFAULT_MAX_GUESSES
    tolerance: float = 0.05
    seed: int = 0
    tick: Tick = ignore_progress

    def affordable_guesses(self, n_rows: int) -> int:
        """Return the number of guesses to make, if each is compared with n_rows rows or records."""
        n_affordable = _MAX_DISTANCES // max(n_rows * len(self.columns), 1)
        return max(min(self.max_guesses, n_affordable), 1)

    def rng(self, attack: str) -> np.random.Generator:
        """Return a generator for an attack; its numbers do not depend on other attacks.

        Parameters
        ----------
        attack : the name of the attack.
        """
        return np.random.default_rng([self.seed, *attack.encode()])

    def sample_targets(self, rng: np.random.Generator) -> list[Ints]:
        """Sample the records to guess about, without replacement.

        Returns the indices of originals, int64 (t,), and, if there are control records, theirs.
        """
        n_guesses = self.affordable_guesses(len(self.weights))
        targets = [rng.choice(self.n_members, min(n_guesses, self.n_members), replace=False)]
        if self.n_controls:
            controls = rng.choice(self.n_controls, min(n_guesses, self.n_controls), replace=False)
            targets.append(self.n_members + controls)
        return [np.asarray(records, np.int64) for records in targets]

    def draw_rows(self, rng: np.random.Generator, n_rows: int) -> Ints:
        """Draw random released rows, int64 (n_rows,), as indices of distinct rows."""
        return np.asarray(
            rng.choice(len(self.weights), n_rows, p=self.weights / self.weights.sum()), np.int64
        )

    def find_nearest_rows(
        self, records: Ints, known_columns: Sequence[int], rng: np.random.Generator
    ) -> tuple[Ints, Ints]:
        """Find the nearest row of each record by the known columns; break ties at random.

        Returns the index of each nearest distinct row, int64 (r,), and the index of a random one of
        its copies, int64 (r,).

        Parameters
        ----------
        records : int64 (r,), indices of records.
        known_columns : indices of the columns that the attacker knows.
        """
        nearest_rows = np.empty(len(records), np.int64)
        rows = np.arange(len(self.weights))
        for batch in _batches(len(records), len(rows)):
            distances = np.zeros((len(records[batch]), len(rows)))
            for index in known_columns:
                distances += distances_with_nulls(
                    self.columns[index], records[batch][:, None], rows[None, :]
                )
            is_nearest = distances <= distances.min(axis=1, keepdims=True) + TIE_TOLERANCE
            # Break ties in proportion to weights: each of the w copies of a row draws a number, and
            # the largest wins. u^(1/w), for a uniform u, is distributed as the maximum of w draws.
            draws = rng.random(distances.shape) ** (1 / self.weights)
            nearest_rows[batch] = np.where(is_nearest, draws, -1.0).argmax(axis=1)
        return nearest_rows, np.asarray(rng.integers(self.weights[nearest_rows]), np.int64)


def _batches(n_records: int, n_rows: int) -> Iterator[slice]:
    """Return slices of records such that the distances from all rows fit into memory."""
    size = max(1, _DISTANCES_PER_BATCH // max(n_rows, 1))
    return (slice(start, min(start + size, n_records)) for start in range(0, n_records, size))


def _lookup_flags(flags: Flags | None, index: Ints) -> NDArray[np.bool_]:
    """Return ``flags[index]``; all False if ``flags`` is None."""
    return np.zeros(index.shape, bool) if flags is None else flags[index]


def distances_with_nulls(column: ColumnPair, records: Ints, rows: Ints) -> Floats:
    """Return distances as ``ColumnPair.distances`` does, with NULL as a separate value.

    Two NULLs are at distance 0, and a NULL and another value at distance 1.
    """
    distances = column.distances(records, rows)
    if column.original_nulls is None and column.released_nulls is None:
        return distances
    record_is_null = _lookup_flags(column.original_nulls, records)
    row_is_null = _lookup_flags(column.released_nulls, rows)
    return np.where(
        record_is_null | row_is_null, (record_is_null != row_is_null).astype(np.float64), distances
    )
