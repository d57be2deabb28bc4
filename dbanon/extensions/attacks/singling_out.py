"""singling_out: predicates from a released row that exactly one original satisfies.

A predicate combines conditions on some columns, made from the values of a released row. A number
must be at least as extreme as the row's, on the same side of the released median; other values must
be covered by the row's label or interval. The attacker uses predicates that only one distinct
released row satisfies, and prefers rows with few copies. They use at most one predicate per row,
since predicates from the same row are correlated. Random predicates take the value of each column
from a random row, without this selection.

Source: Giomi et al. 2023, section 4.1, multivariate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbanon.extensions.attacks.rates import NO_GUESSES, AttackResult, Rate
from dbanon.extensions.attacks.task import AttackData, Ints, distances_with_nulls
from dbanon.measures.attributes import ColumnPair, Floats, Numbers

NAME = "singling_out"
SUMMARY = "A predicate made from a released row holds for exactly one person"
# The number of random predicates to try for each predicate needed.
_TRIALS_PER_PREDICATE = 8
# The smallest control group that is used, as a fraction of the number of originals.
_MIN_CONTROL_FRACTION = 0.9
NO_PREDICATE_NOTE = "no predicate is satisfied by exactly one distinct released row"
SMALL_CONTROL_NOTE = (
    "no rate for the control group: it has fewer records than the input of the release"
)


class _Predicate(NamedTuple):
    """A predicate: conditions on columns.

    Parameters
    ----------
    columns : int64 (c,), indices of the columns.
    rows : int64 (c,), the released row whose value each condition uses.
    """

    columns: Ints
    rows: Ints


def attack(data: AttackData) -> AttackResult:
    """Single out records with predicates from different released rows."""
    rng = data.rng(NAME)
    medians = {
        index: _released_median(column, data.weights) for index, column in enumerate(data.columns)
    }
    n_predicates = data.affordable_guesses(max(data.n_members, len(data.weights)))
    predicates = _unique_predicates(data, medians, n_predicates, rng)
    if not predicates:
        return AttackResult(NO_GUESSES, NO_GUESSES, note=NO_PREDICATE_NOTE)
    random_predicates = [
        _Predicate(predicate.columns, data.draw_rows(rng, len(predicate.columns)))
        for predicate in predicates
    ]
    # The originals, which are the first records; control records follow.
    members = np.arange(data.n_members)
    control, note = None, ""
    if data.n_controls >= _MIN_CONTROL_FRACTION * data.n_members:
        n_controls = min(data.n_controls, data.n_members)
        controls = data.n_members + rng.choice(data.n_controls, n_controls, replace=False)
        control = _isolation_rate(data, medians, predicates, controls)
    elif data.n_controls:
        note = SMALL_CONTROL_NOTE
    return AttackResult(
        attack=_isolation_rate(data, medians, predicates, members),
        random=_isolation_rate(data, medians, random_predicates, members),
        control=control,
        note=note,
    )


def _released_median(column: ColumnPair, weights: Ints) -> float:
    """Return the median of the released numbers, as coordinates; 0 for other columns.

    Parameters
    ----------
    weights : int64 (m,), number of copies of each distinct released row.
    """
    if not isinstance(column, Numbers):
        return 0.0
    is_valid = (
        np.ones(len(weights), bool) if column.released_nulls is None else ~column.released_nulls
    )
    if not is_valid.any():
        return 0.0
    order = np.argsort(column.released_coordinates[is_valid])
    cumulative_weights = np.cumsum(weights[is_valid][order])
    index = np.searchsorted(cumulative_weights, cumulative_weights[-1] / 2)
    return float(column.released_coordinates[is_valid][order][index])


def _satisfying_records(
    column: ColumnPair, row: int, records: Ints, median: float
) -> NDArray[np.bool_]:
    """Return bool (r,), True for records that satisfy the condition from ``row`` on a column.

    Parameters
    ----------
    median : the median of the column's released coordinates.
    """
    if not isinstance(column, Numbers):
        distances = distances_with_nulls(column, records, np.array(row))
        is_covered: NDArray[np.bool_] = distances == 0
        return is_covered
    is_null = (
        np.zeros(len(records), bool)
        if column.original_nulls is None
        else column.original_nulls[records]
    )
    return _is_as_extreme(column, row, column.coordinates[records], is_null, median)


def _is_as_extreme(
    column: Numbers, row: int, coordinates: Floats, is_null: NDArray[np.bool_], median: float
) -> NDArray[np.bool_]:
    """Return bool (v,), True for values at least as extreme as that of ``row``.

    They are on the same side of the median, and at least as far from it. NULLs satisfy the
    condition only if the row's value is NULL.

    Parameters
    ----------
    coordinates : float64 (v,), the values to compare.
    is_null : bool (v,), True for values that are NULL.
    """
    if column.released_nulls is not None and column.released_nulls[row]:
        return is_null
    value = column.released_coordinates[row]
    is_extreme: NDArray[np.bool_] = (
        coordinates >= value if value >= median else coordinates <= value
    )
    return ~is_null & is_extreme


def _satisfying_rows(column: ColumnPair, row: int, median: float) -> NDArray[np.bool_]:
    """Return bool (m,), True for released rows that satisfy the condition from ``row`` on a column.

    Labels, intervals and categories satisfy it if they are equal to those of the row.
    """
    if not isinstance(column, Numbers):
        # Equal values (labels, intervals or categories) have equal ids.
        return np.asarray(column.released_value_ids == column.released_value_ids[row])
    coordinates = column.released_coordinates
    is_null = (
        np.zeros(len(coordinates), bool) if column.released_nulls is None else column.released_nulls
    )
    return _is_as_extreme(column, row, coordinates, is_null, median)


def _unique_predicates(
    data: AttackData, medians: dict[int, float], n_predicates: int, rng: np.random.Generator
) -> list[_Predicate]:
    """Try random predicates, and return those that only one distinct row satisfies.

    Rows with fewest copies come first.

    Parameters
    ----------
    medians : the released median by column index.
    n_predicates : the maximum number of predicates.
    """
    m, p = len(data.weights), len(data.columns)
    columns_of_row: dict[int, Ints] = {}
    rows = np.concatenate([rng.permutation(m) for _ in range(_TRIALS_PER_PREDICATE)])[
        : _TRIALS_PER_PREDICATE * n_predicates
    ]
    # Predicates from rows with a single copy are the best; stop once there are enough of them.
    n_single_copies = 0
    for row in rows.tolist():
        if row in columns_of_row:
            continue
        columns = np.sort(rng.choice(p, int(rng.integers(1, p + 1)), replace=False))
        is_satisfying = np.ones(m, bool)
        for column in columns:
            is_satisfying &= _satisfying_rows(data.columns[column], row, medians[int(column)])
        if is_satisfying.sum() == 1:
            columns_of_row[row] = columns
            n_single_copies += data.weights[row] == 1
        if n_single_copies >= n_predicates:
            break
    rarest_rows = sorted(columns_of_row, key=lambda row: int(data.weights[row]))[:n_predicates]
    return [
        _Predicate(columns_of_row[row], np.full(len(columns_of_row[row]), row))
        for row in rarest_rows
    ]


def _isolation_rate(
    data: AttackData, medians: dict[int, float], predicates: list[_Predicate], records: Ints
) -> Rate:
    """Return the rate of predicates that exactly one of the records satisfies."""
    n_isolating = 0
    for index, predicate in enumerate(predicates):
        matching_records = records
        for column, row in zip(predicate.columns.tolist(), predicate.rows.tolist(), strict=True):
            matching_records = matching_records[
                _satisfying_records(data.columns[column], row, matching_records, medians[column])
            ]
        n_isolating += len(matching_records) == 1
        if index % 64 == 0:
            data.tick(index / len(predicates))
    return Rate(n_isolating, len(predicates))
