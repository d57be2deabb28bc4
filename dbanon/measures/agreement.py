"""Rows that match in all their codes, where a missing code may match every code.

Rows are grouped by the columns that they miss. Rows of two groups match if they agree on the
columns that both groups have, which takes one lookup by sorting per pair of groups. The cost is
O(n log n) per group, so it depends on how many sets of missing columns occur.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbanon.data.array_types import AnyArray

Codes = NDArray[np.int32]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MISSING_CODE = -1
_MAX_INT64 = 2**63 - 1


def add_up_matches(queries: Codes, table: Codes, values: Floats, *, missing_agrees: bool) -> Floats:
    """Add up values of the rows in a table that match each query, float64 (q, v).

    Parameters
    ----------
    queries : int32 (q, m), the codes to look up; -1 if missing.
    table : int32 (t, m), the codes of the table's rows, comparable with those of the queries.
    values : float64 (t, v), the values to add up.
    missing_agrees : whether a missing code matches every code or only another missing one.
    """
    columns = _KeyColumns.of(queries, table)
    query_rows, query_ids = number_distinct_rows(queries)
    table_rows, table_ids = (
        number_distinct_rows(table) if table is not queries else (query_rows, query_ids)
    )
    row_values = _sum_by_id(table_ids, values, len(table_rows))
    if not missing_agrees:
        query_groups = [_RowGroup.of_all(query_rows, columns)]
        table_groups = [_RowGroup.of_all(table_rows, columns)]
    else:
        query_groups = _group_by_missing_keys(query_rows, columns)
        table_groups = _group_by_missing_keys(table_rows, columns)
    table_values = [np.ascontiguousarray(row_values[group.rows].T) for group in table_groups]
    sums = np.zeros((len(query_rows), values.shape[1]))
    for query_group in query_groups:
        group_sums = np.zeros((values.shape[1], len(query_group.rows)))
        for table_group, group_values in zip(table_groups, table_values, strict=True):
            query_numbers, table_numbers = columns.number_rows(query_group, table_group)
            _add_matches(group_sums, query_numbers, table_numbers, group_values)
        sums[query_group.rows] = group_sums.T
    return sums[query_ids]


def count_fewest_matches(rows: Codes, sizes: Ints) -> int:
    """Count the rows that match the row with the fewest; 0 without rows.

    The row itself counts. A missing code matches every code.

    Parameters
    ----------
    rows : int32 (t, m), the distinct rows; -1 if missing.
    sizes : int64 (t,), how many rows are equal to each.
    """
    if not len(rows):
        return 0
    values = sizes[:, None].astype(np.float64)
    is_smallest = sizes == sizes.min()
    fewest = add_up_matches(rows[is_smallest], rows, values, missing_agrees=True).min()
    # Equal rows match, so that the count of a row is at least the number of rows equal to it.
    is_uncounted = ~is_smallest & (sizes < fewest)
    if is_uncounted.any():
        counts = add_up_matches(rows[is_uncounted], rows, values, missing_agrees=True)
        fewest = min(fewest, counts.min())
    return int(fewest)


def combine_codes(codes: Iterable[AnyArray], n: int = 0) -> NDArray[np.int64]:
    """Return the id of each row's combination of codes, from 0, int64 (n,).

    Parameters
    ----------
    codes : one array, (n,), per column.
    n : the number of rows; only needed if there may be no column.
    """
    combined: NDArray[np.int64] | None = None
    for code in codes:
        values, ids = np.unique(code, return_inverse=True)
        ids = ids.reshape(-1).astype(np.int64)
        if combined is None:
            combined = ids
        elif len(combined) == int(combined.max(initial=-1)) + 1:
            break  # all combinations are distinct
        elif len(values) > 1:
            pair_codes = combined * len(values) + ids
            combined = np.unique(pair_codes, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return np.zeros(n, np.int64) if combined is None else combined


class _RowGroup(NamedTuple):
    """Rows that are compared by the same keys.

    Parameters
    ----------
    is_compared : bool (m,), True for keys to compare; the others are missing in all rows.
    rows : int64 (r,), indices of the rows.
    codes : int32 (m, r), their codes.
    numbers : int64 (r,), their numbers by all keys; empty if numbers may exceed 64 bits.
    """

    is_compared: NDArray[np.bool_]
    rows: Ints
    codes: Codes
    numbers: Ints

    @classmethod
    def of_all(cls, rows: Codes, columns: _KeyColumns) -> _RowGroup:
        """Make a group of all rows, int32 (d, m), that compares missing codes like others."""
        codes = np.ascontiguousarray(rows.T)
        is_compared = np.ones(rows.shape[1], np.bool_)
        return cls(is_compared, np.arange(len(rows)), codes, columns.number_codes(codes))


class _KeyColumns(NamedTuple):
    """How to number the rows of two tables, so that rows with equal codes have equal numbers.

    Parameters
    ----------
    strides : int64 (m,), what the code of each key is multiplied with; empty if numbers could
        exceed 64 bits.
    """

    strides: Ints

    @classmethod
    def of(cls, *tables: Codes) -> _KeyColumns:
        """Choose the strides for tables, each int32 (n, m)."""
        # Codes from -1 to the maximum.
        widths = [
            max(int(table[:, j].max(initial=-1)) for table in tables) + 2
            for j in range(tables[0].shape[1])
        ]
        if math.prod(widths) > _MAX_INT64:
            return cls(np.zeros(0, np.int64))
        return cls(np.cumprod([1, *widths[:-1]], dtype=np.int64))

    def number_codes(self, codes: Codes) -> Ints:
        """Number rows by all their codes, int64 (r,); codes are int32 (m, r).

        A missing code adds nothing. Returns an empty array if there are no strides.
        """
        numbers = np.zeros(codes.shape[1] if len(self.strides) else 0, np.int64)
        for key_codes, stride in zip(codes, self.strides, strict=False):
            numbers += (key_codes + 1) * stride
        return numbers

    def number_rows(self, first: _RowGroup, second: _RowGroup) -> tuple[Ints, Ints]:
        """Number the rows of two groups by the keys that both compare, int64 (a,) and (b,)."""
        is_compared = first.is_compared & second.is_compared
        if not len(self.strides):
            n_first, n_rows = len(first.rows), len(first.rows) + len(second.rows)
            columns = np.flatnonzero(is_compared)
            ids = combine_codes(
                (np.concatenate([first.codes[j], second.codes[j]]) for j in columns), n_rows
            )
            return ids[:n_first], ids[n_first:]
        return self._drop_keys(first, is_compared), self._drop_keys(second, is_compared)

    def _drop_keys(self, group: _RowGroup, is_compared: NDArray[np.bool_]) -> Ints:
        """Number the rows of a group by some of its keys, int64 (r,)."""
        numbers = group.numbers
        for j in np.flatnonzero(group.is_compared & ~is_compared):
            numbers = numbers - (group.codes[j] + 1) * self.strides[j]
        return numbers


def number_distinct_rows(codes: Codes) -> tuple[Codes, Ints]:
    """Find the distinct rows of a table, int32 (d, m), and the index of each row among them."""
    columns = np.ascontiguousarray(codes.T)
    numbers = _KeyColumns.of(codes).number_codes(columns)
    if not len(numbers):
        numbers = combine_codes(columns)
    _, first_rows, ids = np.unique(numbers, return_index=True, return_inverse=True)
    return codes[first_rows], ids.reshape(-1).astype(np.int64)


def _group_by_missing_keys(rows: Codes, columns: _KeyColumns) -> list[_RowGroup]:
    """Group rows, int32 (d, m), by the set of their missing keys."""
    has_code = rows != MISSING_CODE
    ids = combine_codes(has_code.T, len(rows))
    order = np.argsort(ids, kind="stable")
    starts = np.flatnonzero(np.diff(ids[order]))
    groups = []
    for group in np.split(order, starts + 1):
        codes = np.ascontiguousarray(rows[group].T)
        groups.append(_RowGroup(has_code[group[0]], group, codes, columns.number_codes(codes)))
    return groups


def _add_matches(sums: Floats, query_numbers: Ints, table_numbers: Ints, values: Floats) -> None:
    """Add to the sum of each query the values of the rows with the same number.

    Parameters
    ----------
    sums : float64 (v, q), changed in place.
    query_numbers, table_numbers : int64 (q,) and int64 (t,), neither empty.
    values : float64 (v, t), the values of the table's rows.
    """
    # Sort the smaller side, and search it for the numbers of the larger one.
    if len(query_numbers) < len(table_numbers):
        distinct, ids = np.unique(query_numbers, return_inverse=True)
        matches, positions = _find_matches(distinct, table_numbers)
        for value_sums, row_values in zip(sums, values, strict=True):
            totals = np.bincount(positions, row_values[matches], minlength=len(distinct))
            value_sums += totals[ids]
    else:
        distinct, ids = np.unique(table_numbers, return_inverse=True)
        matches, positions = _find_matches(distinct, query_numbers)
        for value_sums, row_values in zip(sums, values, strict=True):
            value_sums[matches] += np.bincount(ids, row_values)[positions]


def _find_matches(sorted_numbers: Ints, numbers: Ints) -> tuple[Ints, Ints]:
    """Find which numbers are among the sorted ones, and at which positions, both int64 (f,)."""
    positions = np.searchsorted(sorted_numbers, numbers)
    positions[positions == len(sorted_numbers)] = 0
    matches = np.flatnonzero(sorted_numbers[positions] == numbers)
    return matches, positions[matches]


def _sum_by_id(ids: Ints, values: Floats, n_ids: int) -> Floats:
    """Add up the values with each id, float64 (n_ids, v); ids are int64 (n,), values (n, v)."""
    columns = [np.bincount(ids, weights=column, minlength=n_ids) for column in values.T]
    return np.column_stack(columns)
