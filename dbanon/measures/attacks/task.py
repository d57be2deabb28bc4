"""Exposed: originals, control records and released rows as an attacker compares them.

Nothing says which row became which: rows of a synthesis stand for nobody, and an attacker of
classes knows as little. Distances are those of eq. (11), each column 0 to 1: a label that covers a
value is at distance 0 of it. A NULL is a value of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.measures.attributes import Column, Flags, Floats
from dbanon.measures.figure import Tick, no_tick

Ints = NDArray[np.int64]

GUESSES = 1000
# Distances of one column that are looked at for one attack, and those held at once.
_MOST, _AT_ONCE = 2_000_000_000, 1 << 22
TIE = 1e-9


@dataclass(frozen=True, eq=False)
class Exposed:
    """What is attacked.

    Parameters
    ----------
    columns : of originals, then control records; released rows that differ.
    members : how many originals.
    controls : how many records that the release was not made of.
    weights : int64 (m,), how many rows are released as each.
    linked : columns that an attacker knows from one place, and from another, by position.
    guesses : at most, of each attack and column; fewer where so many would take long.
    tolerance : how near a guess of a number must be: a share of what lies between the originals'
        5 % and 95 % quantiles.
    """

    columns: tuple[Column, ...]
    members: int
    controls: int
    weights: Ints
    linked: tuple[tuple[int, ...], tuple[int, ...]]
    guesses: int = GUESSES
    tolerance: float = 0.05
    seed: int = 0
    tick: Tick = no_tick

    def affordable(self, rows: int) -> int:
        """How many guesses may each look at so many rows."""
        return max(min(self.guesses, _MOST // max(rows * len(self.columns), 1)), 1)

    def rng(self, attack: str) -> np.random.Generator:
        """Its own for each attack, so that none depends on which others there are."""
        return np.random.default_rng([self.seed, *attack.encode()])

    def targets(self, rng: np.random.Generator) -> list[Ints]:
        """Records to guess at, drawn without repetition: originals, and control records."""
        most = self.affordable(len(self.weights))
        found = [rng.choice(self.members, min(most, self.members), replace=False)]
        if self.controls:
            drawn = rng.choice(self.controls, min(most, self.controls), replace=False)
            found.append(self.members + drawn)
        return [np.asarray(one, np.int64) for one in found]

    def any_rows(self, rng: np.random.Generator, many: int) -> Ints:
        """Rows as they were released, at random, by their numbers among those that differ."""
        return np.asarray(
            rng.choice(len(self.weights), many, p=self.weights / self.weights.sum()), np.int64
        )

    def nearest(
        self, records: Ints, known: Sequence[int], rng: np.random.Generator
    ) -> tuple[Ints, Ints]:
        """For each record one of the nearest rows by the known columns, int64 (r,).

        The second tells which of the rows that are released alike it is.
        """
        chosen = np.empty(len(records), np.int64)
        rows = np.arange(len(self.weights))
        for part in _parts(len(records), len(rows)):
            apart = np.zeros((len(records[part]), len(rows)))
            for at in known:
                apart += distance(self.columns[at], records[part][:, None], rows[None, :])
            ties = apart <= apart.min(axis=1, keepdims=True) + TIE
            # Among equal ones by the number of their rows: the largest of w draws is u^(1/w).
            lots = rng.random(apart.shape) ** (1 / self.weights)
            chosen[part] = np.where(ties, lots, -1.0).argmax(axis=1)
        return chosen, np.asarray(rng.integers(self.weights[chosen]), np.int64)


def _parts(many: int, width: int) -> Iterator[slice]:
    step = max(1, _AT_ONCE // max(width, 1))
    return (slice(at, min(at + step, many)) for at in range(0, many, step))


def _flags(flags: Flags | None, at: Ints) -> NDArray[np.bool_]:
    return np.zeros(at.shape, bool) if flags is None else flags[at]


def distance(column: Column, records: Ints, rows: Ints) -> Floats:
    """As ``Column.gap``; NULL is at 0 of NULL, and at 1 of all else."""
    found = column.gap(records, rows)
    if column.missing is None and column.withheld is None:
        return found
    gone, withheld = _flags(column.missing, records), _flags(column.withheld, rows)
    return np.where(gone | withheld, (gone != withheld).astype(np.float64), found)
