"""What singles rows out: columns that are few together and leave a row alone in its values.

Level by level, as SUDA does for records (Elliot, Manning & Ford 2002): here for columns, by counts
of groups alone. Distinction and separation are those of ARX (Motwani & Xu 2007).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.advice.profile import Count
from dbanon.data.microdata import Microdata

# Columns of a set, sets that are counted, and the share alone above which a set grows no more.
MOST_COLUMNS, MOST_SETS, ENOUGH = 3, 1_000, 0.95

# Numbers up to so many times those that there are, are counted without sorting them.
_DENSE = 8

# From names of columns to how many groups of equal rows there are of each size.
Sizes = Callable[[Sequence[str]], Mapping[int, int]]


@dataclass(frozen=True)
class SetOfColumns:
    """What some columns tell together.

    Parameters
    ----------
    alone : rows whose values no other row has.
    few : rows whose values fewer than ``small`` rows share.
    distinction : groups of equal rows in rows, 0 to 1.
    separation : the share of pairs of rows that the columns tell apart.
    """

    columns: tuple[str, ...]
    alone: Count
    few: Count
    distinction: float
    separation: float

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "columns": list(self.columns),
            "alone": self.alone.to_dict(),
            "few": self.few.to_dict(),
            # Of hardly any rows alone, or hardly any not, they would tell how many.
            "distinction": None if self.alone.share is None else self.distinction,
            "separation": self.separation,
        }


@dataclass(frozen=True)
class Singling:
    """What singles rows out.

    Parameters
    ----------
    chosen : all columns together.
    without : all columns but one, by that one.
    sets : up to three columns, those that leave most rows alone first.
    cut : True where there were more sets than are counted.
    """

    chosen: SetOfColumns
    without: Mapping[str, SetOfColumns]
    sets: tuple[SetOfColumns, ...]
    cut: bool
    small: int

    def falls(self) -> dict[str, float | None]:
        """By how much the share alone falls without a column; None where that tells a few rows."""
        found: dict[str, float | None] = {}
        for name, rest in self.without.items():
            shares = self.chosen.alone.share, rest.alone.share
            fall = Count(
                max(self.chosen.alone.count - rest.alone.count, 0),
                self.chosen.alone.of,
                self.chosen.alone.small,
            )
            found[name] = None if None in shares else fall.share
        return found

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "small": self.small,
            "chosen": self.chosen.to_dict(),
            "falls": self.falls(),
            "sets": [found.to_dict() for found in self.sets],
            "cut": self.cut,
        }


def describe_set(columns: Sequence[str], sizes: Mapping[int, int], small: int) -> SetOfColumns:
    """What columns tell whose groups of equal rows have these sizes."""
    rows = sum(size * groups for size, groups in sizes.items())
    same = sum((size * size - size) * groups for size, groups in sizes.items())
    pairs = rows * rows - rows
    few = sum(size * groups for size, groups in sizes.items() if size < small)
    return SetOfColumns(
        columns=tuple(columns),
        alone=Count(sizes.get(1, 0), rows, small),
        few=Count(few, rows, small),
        distinction=float(f"{sum(sizes.values()) / rows:.4g}") if rows else 0.0,
        separation=float(f"{1 - same / pairs:.4g}") if pairs else 0.0,
    )


def singling(
    columns: Sequence[str], sizes: Sizes, small: int, most_sets: int = MOST_SETS
) -> Singling:
    """What singles rows out among these columns.

    Parameters
    ----------
    sizes : counts the groups of equal rows of some columns.
    small : the smallest number of rows that are no few.
    most_sets : how many sets are counted; those of fewer columns first.
    """
    chosen = describe_set(columns, sizes(columns), small)
    without = {}
    if len(columns) > 1:
        for name in columns:
            rest = [other for other in columns if other != name]
            without[name] = describe_set(rest, sizes(rest), small)
    known: dict[tuple[str, ...], SetOfColumns] = {}
    grows: set[tuple[str, ...]] = {()}
    cut = False
    for width in range(1, min(MOST_COLUMNS, len(columns)) + 1):
        level = []
        for names in combinations(columns, width):
            if not _all_in(grows, names):
                continue
            if len(known) == most_sets:
                cut = True
                break
            found = known[names] = describe_set(names, sizes(names), small)
            level.append(found)
        grows = {f.columns for f in level if f.alone.count <= ENOUGH * f.alone.of}
    ordered = sorted(known.values(), key=lambda f: (-f.alone.count, len(f.columns), f.columns))
    return Singling(chosen, without, tuple(ordered), cut, small)


def sizes_of(microdata: Microdata) -> Sizes:
    """What counts the groups of equal records; NULL is a value."""
    columns = {a.name: _codes(microdata, a.name) for a in microdata.attributes}
    # Sets come in order: most begin as the one before did.
    known: dict[tuple[str, ...], NDArray[np.int64]] = {}

    def groups(names: tuple[str, ...]) -> NDArray[np.int64]:
        if len(names) == 1:
            return columns[names[0]]
        if names not in known:
            found = _renumbered(_joined(groups(names[:-1]), columns[names[-1]]))
            for other in [other for other in known if len(other) == len(names)]:
                del known[other]
            known[names] = found
        return known[names]

    def sizes(names: Sequence[str]) -> Mapping[int, int]:
        *first, last = names
        joined = columns[last]
        if first:
            joined = _joined(groups(tuple(first)), joined)
        counts = np.bincount(_counts(joined))
        return {size: int(number) for size, number in enumerate(counts) if size and number}

    return sizes


def _joined(one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.int64]:
    """Numbers from 0 that are equal where both are."""
    return one * (int(other.max(initial=0)) + 1) + other


def _renumbered(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers without gaps, in their order."""
    if int(codes.max(initial=0)) < _DENSE * max(len(codes), 1):
        found: NDArray[np.int64] = (np.cumsum(np.bincount(codes) > 0) - 1)[codes]
        return found
    return np.unique(codes, return_inverse=True)[1].reshape(-1)


def _counts(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many there are of each number, int64; 0 of some."""
    if int(codes.max(initial=0)) < _DENSE * max(len(codes), 1):
        return np.bincount(codes)
    ordered = np.sort(codes)
    return np.diff(np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1], [True]))))


def _codes(microdata: Microdata, name: str) -> NDArray[np.int64]:
    """A column as numbers from 0, equal where its values are."""
    valid = microdata.valid_column(name)
    numbers = [attribute.name for attribute in microdata.numeric]
    if name in numbers:
        values: NDArray[np.generic] = microdata.numbers[:, numbers.index(name)]
    else:
        place = [attribute.name for attribute in microdata.categorical].index(name)
        values = microdata.codes[:, place]
    _, codes = np.unique(values, return_inverse=True)
    codes = codes.reshape(-1).astype(np.int64) + 1
    return codes if valid is None else np.where(valid, codes, 0)


def _all_in(known: AbstractSet[tuple[str, ...]], names: tuple[str, ...]) -> bool:
    """True when every part of a set, one column left out, may grow."""
    return all(names[:at] + names[at + 1 :] in known for at in range(len(names)))
