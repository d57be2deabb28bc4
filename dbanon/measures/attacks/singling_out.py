"""singling_out: predicates from a released row that exactly one original satisfies.

A predicate combines conditions on some columns of a row: numbers at least as extreme, on the row's
side of the released median; labels and intervals that cover the value. The attacker uses predicates
that only one distinct released row satisfies, at most one per row since those of the same row are
correlated, and prefers rows with few copies. Random predicates take the value of each column from a
different row, without this selection.

Source: Giomi et al. 2023, section 4.1, multivariate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbanon.measures.attacks.rates import AttackResult, Rate
from dbanon.measures.attacks.task import AttackData, Ints, distance
from dbanon.measures.attributes import ColumnPair, Floats, Numbers

NAME = "singling_out"
SUMMARY = "A predicate made of released rows holds for exactly one person"
# Trials per predicate, and the least size of the control group relative to the originals.
_TRIALS_PER_PREDICATE, _LEAST_CONTROL_SHARE = 8, 0.9
NO_PREDICATE = "no predicate is satisfied by exactly one distinct released row"
SMALL_CONTROL = "no rate for the control group: it has fewer records than the release was made of"


class _Predicate(NamedTuple):
    """Columns, and for each the released row with its value."""

    columns: Ints
    rows: Ints


def attack(exposed: AttackData) -> AttackResult:
    """Attack with predicates from different released rows."""
    rng = exposed.rng(NAME)
    medians = {
        index: _released_median(column, exposed.weights)
        for index, column in enumerate(exposed.columns)
    }
    n_predicates = exposed.affordable_guesses(max(exposed.members, len(exposed.weights)))
    predicates = _unique_predicates(exposed, medians, n_predicates, rng)
    if not predicates:
        return AttackResult(Rate(0, 0), Rate(0, 0), note=NO_PREDICATE)
    random_predicates = [
        _Predicate(predicate.columns, exposed.any_rows(rng, len(predicate.columns)))
        for predicate in predicates
    ]
    members = np.arange(exposed.members)
    control, note = None, ""
    if exposed.controls >= _LEAST_CONTROL_SHARE * exposed.members:
        n_controls = min(exposed.controls, exposed.members)
        controls = exposed.members + rng.choice(exposed.controls, n_controls, replace=False)
        control = _isolation_rate(exposed, medians, predicates, controls)
    elif exposed.controls:
        note = SMALL_CONTROL
    return AttackResult(
        _isolation_rate(exposed, medians, predicates, members),
        _isolation_rate(exposed, medians, random_predicates, members),
        control,
        note=note,
    )


def _released_median(column: ColumnPair, weights: Ints) -> float:
    """The weighted median of released coordinates; 0 for columns that are not numbers."""
    if not isinstance(column, Numbers):
        return 0.0
    present = (
        np.ones(len(weights), bool) if column.released_nulls is None else ~column.released_nulls
    )
    if not present.any():
        return 0.0
    order = np.argsort(column.released_coordinates[present])
    cumulative = np.cumsum(weights[present][order])
    index = np.searchsorted(cumulative, cumulative[-1] / 2)
    return float(column.released_coordinates[present][order][index])


def _satisfying_records(
    column: ColumnPair, row: int, records: Ints, median: float
) -> NDArray[np.bool_]:
    """bool (r,), the records that satisfy the condition of ``row`` on a column."""
    if not isinstance(column, Numbers):
        satisfied: NDArray[np.bool_] = distance(column, records, np.array(row)) == 0
        return satisfied
    is_null = (
        np.zeros(len(records), bool)
        if column.original_nulls is None
        else column.original_nulls[records]
    )
    return _on_side_of_median(column, row, column.coordinates[records], is_null, median)


def _on_side_of_median(
    column: Numbers, row: int, coordinates: Floats, is_null: NDArray[np.bool_], median: float
) -> NDArray[np.bool_]:
    if column.released_nulls is not None and column.released_nulls[row]:
        return is_null
    value = column.released_coordinates[row]
    on_side: NDArray[np.bool_] = coordinates >= value if value >= median else coordinates <= value
    return ~is_null & on_side


def _satisfying_rows(column: ColumnPair, row: int, median: float) -> NDArray[np.bool_]:
    """bool (m,), the released rows that satisfy the condition; for labels only equal ones."""
    if not isinstance(column, Numbers):
        return np.asarray(column.released_value_ids == column.released_value_ids[row])
    coordinates = column.released_coordinates
    is_null = (
        np.zeros(len(coordinates), bool) if column.released_nulls is None else column.released_nulls
    )
    return _on_side_of_median(column, row, coordinates, is_null, median)


def _unique_predicates(
    exposed: AttackData, medians: dict[int, float], n_predicates: int, rng: np.random.Generator
) -> list[_Predicate]:
    """Predicates that only one distinct row satisfies, rows with fewest copies first."""
    m, p = len(exposed.weights), len(exposed.columns)
    columns_of_row: dict[int, Ints] = {}
    rows = np.concatenate([rng.permutation(m) for _ in range(_TRIALS_PER_PREDICATE)])[
        : _TRIALS_PER_PREDICATE * n_predicates
    ]
    n_single = 0
    for row in rows.tolist():
        if row in columns_of_row:
            continue
        columns = np.sort(rng.choice(p, int(rng.integers(1, p + 1)), replace=False))
        satisfying = np.ones(m, bool)
        for column in columns:
            satisfying &= _satisfying_rows(exposed.columns[column], row, medians[int(column)])
        if satisfying.sum() == 1:
            columns_of_row[row] = columns
            n_single += exposed.weights[row] == 1
        if n_single >= n_predicates:
            break
    rarest = sorted(columns_of_row, key=lambda row: int(exposed.weights[row]))[:n_predicates]
    return [
        _Predicate(columns_of_row[row], np.full(len(columns_of_row[row]), row)) for row in rarest
    ]


def _isolation_rate(
    exposed: AttackData, medians: dict[int, float], predicates: list[_Predicate], records: Ints
) -> Rate:
    hits = 0
    for count, predicate in enumerate(predicates):
        matching = records
        for column, row in zip(predicate.columns.tolist(), predicate.rows.tolist(), strict=True):
            matching = matching[
                _satisfying_records(exposed.columns[column], row, matching, medians[column])
            ]
        hits += len(matching) == 1
        if count % 64 == 0:
            exposed.tick(count / len(predicates))
    return Rate(hits, len(predicates))
