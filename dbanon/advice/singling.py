"""Sets of columns that make rows unique.

Sets are searched level by level, as SUDA does for records (Elliot, Manning & Ford 2002). Here they
consist of columns, and group counts suffice. Distinction and separation are as in ARX (Motwani &
Xu 2007).
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
from dbanon.data.words import with_former_key

# Largest number of columns per set, largest number of sets, and the share of unique rows above
# which a set is not extended.
MOST_COLUMNS, MOST_SETS, ENOUGH_UNIQUE = 3, 1_000, 0.95

# Codes up to this multiple of their count are counted in an array instead of by sorting.
_DENSE = 8

# Maps names of columns to the number of groups of equal rows by size.
Sizes = Callable[[Sequence[str]], Mapping[int, int]]


@dataclass(frozen=True)
class SetOfColumns:
    """What a set of columns discloses.

    Parameters
    ----------
    unique : rows whose values no other row has.
    few : rows whose values fewer than ``small`` rows share.
    distinction : number of groups of equal rows divided by the number of rows, 0 to 1.
    separation : the share of pairs of rows that differ in the columns.
    """

    columns: tuple[str, ...]
    unique: Count
    few: Count
    distinction: float
    separation: float

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "columns": list(self.columns),
            **with_former_key("unique", self.unique.to_dict()),
            "few": self.few.to_dict(),
            # With few unique rows, or few others, distinction would reveal how many.
            "distinction": None if self.unique.share is None else self.distinction,
            "separation": self.separation,
        }


@dataclass(frozen=True)
class UniqueColumnSets:
    """The sets of columns that make rows unique.

    Parameters
    ----------
    chosen : all columns.
    without : all columns except one, by that column.
    sets : sets of up to three columns, those with most unique rows first.
    cut : True if some sets were not counted.
    """

    chosen: SetOfColumns
    without: Mapping[str, SetOfColumns]
    sets: tuple[SetOfColumns, ...]
    cut: bool
    small: int

    def unique_share_drops(self) -> dict[str, float | None]:
        """The drop in the share of unique rows without a column; None if it reveals few rows."""
        drops: dict[str, float | None] = {}
        for name, remaining_set in self.without.items():
            shares = self.chosen.unique.share, remaining_set.unique.share
            fall = Count(
                max(self.chosen.unique.count - remaining_set.unique.count, 0),
                self.chosen.unique.of,
                self.chosen.unique.small,
            )
            drops[name] = None if None in shares else fall.share
        return drops

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "small": self.small,
            "chosen": self.chosen.to_dict(),
            **with_former_key("unique_share_drops", self.unique_share_drops()),
            "sets": [column_set.to_dict() for column_set in self.sets],
            "cut": self.cut,
        }


def describe_set(columns: Sequence[str], sizes: Mapping[int, int], small: int) -> SetOfColumns:
    """Summarize columns from the sizes of their groups of equal rows."""
    rows = sum(size * groups for size, groups in sizes.items())
    equal_pairs = sum((size * size - size) * groups for size, groups in sizes.items())
    pairs = rows * rows - rows
    few = sum(size * groups for size, groups in sizes.items() if size < small)
    return SetOfColumns(
        columns=tuple(columns),
        unique=Count(sizes.get(1, 0), rows, small),
        few=Count(few, rows, small),
        distinction=float(f"{sum(sizes.values()) / rows:.4g}") if rows else 0.0,
        separation=float(f"{1 - equal_pairs / pairs:.4g}") if pairs else 0.0,
    )


def singling(
    columns: Sequence[str], sizes: Sizes, small: int, most_sets: int = MOST_SETS
) -> UniqueColumnSets:
    """Find the sets of these columns that make rows unique.

    Parameters
    ----------
    sizes : counts the groups of equal rows for some columns.
    small : the smallest count of rows that may be disclosed exactly.
    most_sets : largest number of sets to count; smaller sets come first.
    """
    chosen = describe_set(columns, sizes(columns), small)
    without = {}
    if len(columns) > 1:
        for name in columns:
            other_columns = [other for other in columns if other != name]
            without[name] = describe_set(other_columns, sizes(other_columns), small)
    described: dict[tuple[str, ...], SetOfColumns] = {}
    extensible: set[tuple[str, ...]] = {()}
    is_cut = False
    for width in range(1, min(MOST_COLUMNS, len(columns)) + 1):
        level = []
        for names in combinations(columns, width):
            if not _has_all_subsets(extensible, names):
                continue
            if len(described) == most_sets:
                is_cut = True
                break
            column_set = described[names] = describe_set(names, sizes(names), small)
            level.append(column_set)
        extensible = {
            column_set.columns
            for column_set in level
            if column_set.unique.count <= ENOUGH_UNIQUE * column_set.unique.of
        }
    ordered = sorted(
        described.values(),
        key=lambda described_set: (
            -described_set.unique.count,
            len(described_set.columns),
            described_set.columns,
        ),
    )
    return UniqueColumnSets(chosen, without, tuple(ordered), is_cut, small)


def sizes_of(microdata: Microdata) -> Sizes:
    """Return a function that counts groups of equal records; NULL is a value."""
    columns = {a.name: _codes(microdata, a.name) for a in microdata.attributes}
    # Sets come in order, so most share a prefix with the previous one.
    cached_groups: dict[tuple[str, ...], NDArray[np.int64]] = {}

    def groups(names: tuple[str, ...]) -> NDArray[np.int64]:
        if len(names) == 1:
            return columns[names[0]]
        if names not in cached_groups:
            renumbered = _renumbered(_joined(groups(names[:-1]), columns[names[-1]]))
            for other in [other for other in cached_groups if len(other) == len(names)]:
                del cached_groups[other]
            cached_groups[names] = renumbered
        return cached_groups[names]

    def sizes(names: Sequence[str]) -> Mapping[int, int]:
        *first, last = names
        joined = columns[last]
        if first:
            joined = _joined(groups(tuple(first)), joined)
        counts = np.bincount(_counts(joined))
        return {size: int(number) for size, number in enumerate(counts) if size and number}

    return sizes


def _joined(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """Combine two code arrays: the result is equal where both are equal."""
    return first * (int(second.max(initial=0)) + 1) + second


def _renumbered(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Renumber codes without gaps, in the same order."""
    if int(codes.max(initial=0)) < _DENSE * max(len(codes), 1):
        renumbered: NDArray[np.int64] = (np.cumsum(np.bincount(codes) > 0) - 1)[codes]
        return renumbered
    return np.unique(codes, return_inverse=True)[1].reshape(-1)


def _counts(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The frequency of each code, int64, possibly with zeros."""
    if int(codes.max(initial=0)) < _DENSE * max(len(codes), 1):
        return np.bincount(codes)
    ordered = np.sort(codes)
    return np.diff(np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1], [True]))))


def _codes(microdata: Microdata, name: str) -> NDArray[np.int64]:
    """A column as codes from 0; equal values have equal codes."""
    valid = microdata.valid_column(name)
    numbers = [attribute.name for attribute in microdata.numeric]
    if name in numbers:
        values: NDArray[np.generic] = microdata.numbers[:, numbers.index(name)]
    else:
        index = [attribute.name for attribute in microdata.categorical].index(name)
        values = microdata.codes[:, index]
    _, codes = np.unique(values, return_inverse=True)
    codes = codes.reshape(-1).astype(np.int64) + 1
    return codes if valid is None else np.where(valid, codes, 0)


def _has_all_subsets(extensible: AbstractSet[tuple[str, ...]], names: tuple[str, ...]) -> bool:
    """True if every subset with one column less may be extended."""
    return all(names[:at] + names[at + 1 :] in extensible for at in range(len(names)))
