"""Sets of columns that make rows unique.

Sets are searched by increasing size, as in the method SUDA (Elliot, Manning & Ford 2002). SUDA
searches sets for each record; here each set is rated for the whole table, for which counts of equal
rows suffice. Distinction and separation are defined as in ARX (Motwani & Xu 2007).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dbanon.advice.profile import Count
from dbanon.data.microdata import Microdata
from dbanon.data.types import JsonObject
from dbanon.data.words import also_under_former_key

# Largest number of columns per set.
MAX_COLUMNS = 3
# Largest number of sets to rate.
MAX_SETS = 1_000
# A set with a larger share of unique rows is not extended by further columns.
MAX_EXTENDED_SHARE = 0.95

# Codes are counted in an array if the largest code is below this multiple of the number of rows;
# otherwise they are sorted.
_MAX_ARRAY_FACTOR = 8

# A function that takes names of columns, groups rows that are equal in them, and returns the number
# of groups by group size.
GroupSizeCounter = Callable[[Sequence[str]], Mapping[int, int]]


@dataclass(frozen=True)
class SetUniqueness:
    """How many rows are unique in a set of columns.

    Parameters
    ----------
    columns : the set of columns.
    unique : number of rows whose combination of values no other row has.
    few : number of rows whose combination of values is shared by fewer than ``Count.small`` rows.
    distinction : number of groups of equal rows divided by the number of rows, 0 to 1.
    separation : the share of pairs of rows that differ in the columns.
    """

    columns: tuple[str, ...]
    unique: Count
    few: Count
    distinction: float
    separation: float

    def to_dict(self) -> JsonObject:
        """As plain values."""
        return {
            "columns": list(self.columns),
            # Earlier versions wrote this key under another name, which readers may still use.
            **also_under_former_key("unique", self.unique.to_dict()),
            "few": self.few.to_dict(),
            # If few rows are unique, or all but a few, the distinction would reveal their number.
            "distinction": None if self.unique.share is None else self.distinction,
            "separation": self.separation,
        }


@dataclass(frozen=True)
class UniqueColumnSets:
    """Sets of columns, rated by how many rows they make unique.

    Parameters
    ----------
    chosen : the set of all examined columns.
    without : by examined column, the set of all other ones.
    sets : sets of up to ``MAX_COLUMNS`` columns, those with most unique rows first.
    cut : True if the list of sets was cut off, because there are too many.
    small : the smallest count of rows that may be disclosed exactly.
    """

    chosen: SetUniqueness
    without: Mapping[str, SetUniqueness]
    sets: tuple[SetUniqueness, ...]
    cut: bool
    small: int

    def unique_share_drops(self) -> dict[str, float | None]:
        """Return by how much the share of unique rows drops if a column is left out, by column.

        None for a column where the drop would disclose a small count.
        """
        drops: dict[str, float | None] = {}
        for name, remaining_set in self.without.items():
            shares = self.chosen.unique.share, remaining_set.unique.share
            drop = Count(
                max(self.chosen.unique.count - remaining_set.unique.count, 0),
                self.chosen.unique.total,
                self.chosen.unique.small,
            )
            drops[name] = None if None in shares else drop.share
        return drops

    def to_dict(self) -> JsonObject:
        """As plain values."""
        return {
            "small": self.small,
            "chosen": self.chosen.to_dict(),
            **also_under_former_key("unique_share_drops", self.unique_share_drops()),
            "sets": [column_set.to_dict() for column_set in self.sets],
            "cut": self.cut,
        }


def rate_set(
    columns: Sequence[str], groups_by_size: Mapping[int, int], small: int
) -> SetUniqueness:
    """Rate a set of columns by how many rows it makes unique.

    Parameters
    ----------
    groups_by_size : the number of groups of rows that are equal in the columns, by group size.
    small : the smallest count of rows that may be disclosed exactly.
    """
    n_rows = sum(size * n_groups for size, n_groups in groups_by_size.items())
    # Pairs are ordered, so each counts twice, here and in ``n_pairs``.
    n_equal_pairs = sum(
        (size * size - size) * n_groups for size, n_groups in groups_by_size.items()
    )
    n_pairs = n_rows * n_rows - n_rows
    n_few = sum(size * n_groups for size, n_groups in groups_by_size.items() if size < small)
    return SetUniqueness(
        columns=tuple(columns),
        unique=Count(groups_by_size.get(1, 0), n_rows, small),
        few=Count(n_few, n_rows, small),
        distinction=float(f"{sum(groups_by_size.values()) / n_rows:.4g}") if n_rows else 0.0,
        separation=float(f"{1 - n_equal_pairs / n_pairs:.4g}") if n_pairs else 0.0,
    )


def find_unique_sets(
    columns: Sequence[str], count_sizes: GroupSizeCounter, small: int, max_sets: int = MAX_SETS
) -> UniqueColumnSets:
    """Rate sets of these columns by how many rows they make unique.

    Parameters
    ----------
    count_sizes : a function that counts groups of equal rows, as from ``group_size_counter``.
    small : the smallest count of rows that may be disclosed exactly.
    max_sets : the maximum number of sets to rate; sets with fewer columns come first.
    """
    chosen = rate_set(columns, count_sizes(columns), small)
    without = {}
    if len(columns) > 1:
        for name in columns:
            other_columns = [other for other in columns if other != name]
            without[name] = rate_set(other_columns, count_sizes(other_columns), small)
    rated_sets: dict[tuple[str, ...], SetUniqueness] = {}
    # The sets of the previous size that further columns may extend.
    extensible_sets: set[tuple[str, ...]] = {()}
    is_cut = False
    for n_columns in range(1, min(MAX_COLUMNS, len(columns)) + 1):
        sets_of_size = []
        for names in combinations(columns, n_columns):
            if not _has_all_subsets(extensible_sets, names):
                continue
            if len(rated_sets) == max_sets:
                is_cut = True
                break
            column_set = rated_sets[names] = rate_set(names, count_sizes(names), small)
            sets_of_size.append(column_set)
        extensible_sets = {
            column_set.columns
            for column_set in sets_of_size
            if column_set.unique.count <= MAX_EXTENDED_SHARE * column_set.unique.total
        }
    ordered_sets = sorted(
        rated_sets.values(),
        key=lambda column_set: (
            -column_set.unique.count,
            len(column_set.columns),
            column_set.columns,
        ),
    )
    return UniqueColumnSets(chosen, without, tuple(ordered_sets), cut=is_cut, small=small)


def group_size_counter(microdata: Microdata) -> GroupSizeCounter:
    """Return a function that counts groups of equal records; NULL counts as a value."""
    columns = {a.name: _encode(microdata, a.name) for a in microdata.attributes}
    # Most sets begin with the same columns as the previous one, so cache the codes of these.
    cached_codes: dict[tuple[str, ...], NDArray[np.int64]] = {}

    def combine(names: tuple[str, ...]) -> NDArray[np.int64]:
        """Return a code for each combination of values in these columns."""
        if len(names) == 1:
            return columns[names[0]]
        if names not in cached_codes:
            codes = _renumber(_combine_pair(combine(names[:-1]), columns[names[-1]]))
            # Keep one array per number of columns.
            for previous_names in [other for other in cached_codes if len(other) == len(names)]:
                del cached_codes[previous_names]
            cached_codes[names] = codes
        return cached_codes[names]

    def count_group_sizes(names: Sequence[str]) -> Mapping[int, int]:
        *first_names, last_name = names
        codes = columns[last_name]
        if first_names:
            codes = _combine_pair(combine(tuple(first_names)), codes)
        # The number of groups of each size; the codes may have gaps, which count as size 0.
        groups_by_size = np.bincount(_frequencies(codes))
        return {
            size: int(n_groups) for size, n_groups in enumerate(groups_by_size) if size and n_groups
        }

    return count_group_sizes


def number_groups(microdata: Microdata, names: Sequence[str]) -> NDArray[np.int64]:
    """Number the groups of records that are equal in these columns, int64 (n,), from 0."""
    codes = np.zeros(microdata.n_records, np.int64)
    for name in names:
        codes = _renumber(_combine_pair(codes, _encode(microdata, name)))
    return codes


def _combine_pair(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """Combine two arrays of codes, int64 (n,), into one array with a code for each pair."""
    return first * (int(second.max(initial=0)) + 1) + second


def _renumber(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Renumber codes from 0 without gaps, in the same order."""
    if int(codes.max(initial=0)) < _MAX_ARRAY_FACTOR * max(len(codes), 1):
        renumbered: NDArray[np.int64] = (np.cumsum(np.bincount(codes) > 0) - 1)[codes]
        return renumbered
    return np.unique(codes, return_inverse=True)[1].reshape(-1)


def _frequencies(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count how often each code occurs: int64, in the order of the codes.

    The result may include zeros for codes that do not occur.
    """
    if int(codes.max(initial=0)) < _MAX_ARRAY_FACTOR * max(len(codes), 1):
        return np.bincount(codes)
    sorted_codes = np.sort(codes)
    is_change = sorted_codes[1:] != sorted_codes[:-1]
    return np.diff(np.flatnonzero(np.concatenate(([True], is_change, [True]))))


def _encode(microdata: Microdata, name: str) -> NDArray[np.int64]:
    """Return the values of a column as codes, int64 (n,); NULL has code 0."""
    valid = microdata.valid_column(name)
    numeric_columns = [attribute.name for attribute in microdata.numeric]
    if name in numeric_columns:
        values: NDArray[np.generic] = microdata.numbers[:, numeric_columns.index(name)]
    else:
        index = [attribute.name for attribute in microdata.categorical].index(name)
        values = microdata.codes[:, index]
    _, codes = np.unique(values, return_inverse=True)
    codes = codes.reshape(-1).astype(np.int64) + 1
    return codes if valid is None else np.where(valid, codes, 0)


def _has_all_subsets(extensible_sets: AbstractSet[tuple[str, ...]], names: tuple[str, ...]) -> bool:
    """True if each subset of these columns with one column fewer is in ``extensible_sets``."""
    return all(names[:index] + names[index + 1 :] in extensible_sets for index in range(len(names)))
