"""singling_out: predicates made of a released row that hold for exactly one original.

A predicate is about some columns of one row: of a number that it is as high or as low (whichever
is on its side of the released median), of a label or an interval that it covers. The attacker
keeps predicates that one of the released rows that differ satisfies, one of each row, those of the
fewest rows first: predicates of one row would be right or wrong together. Random guesses take the
value of each column from a row of its own, and are kept as they are.

Source: Giomi et al. 2023, section 4.1, multivariate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbanon.measures.attacks.rates import Attacked, Rate
from dbanon.measures.attacks.task import Exposed, Ints, distance
from dbanon.measures.attributes import Column, Floats, Numbers

NAME = "singling_out"
SUMMARY = "A predicate made of released rows holds for exactly one person"
# Predicates tried for each that is wanted, and the rates of control that differ too much in size.
_TRIED, _SMALLER = 8, 0.9
NO_PREDICATE = "no predicate is satisfied by one of the released rows that differ"
FEW = "of the control group no rate: it has fewer records than the release was made of"


class _Rule(NamedTuple):
    """By column, the row that its value is of."""

    columns: Ints
    rows: Ints


def attack(exposed: Exposed) -> Attacked:
    """Over predicates, each of another released row."""
    rng = exposed.rng(NAME)
    middles = {at: _middle(one, exposed.weights) for at, one in enumerate(exposed.columns)}
    wanted = exposed.affordable(max(exposed.members, len(exposed.weights)))
    rules = _kept(exposed, middles, wanted, rng)
    if not rules:
        return Attacked(Rate(0, 0), Rate(0, 0), note=NO_PREDICATE)
    random = [_Rule(one.columns, exposed.any_rows(rng, len(one.columns))) for one in rules]
    members = np.arange(exposed.members)
    control, note = None, ""
    if exposed.controls >= _SMALLER * exposed.members:
        many = min(exposed.controls, exposed.members)
        others = exposed.members + rng.choice(exposed.controls, many, replace=False)
        control = _singled(exposed, middles, rules, others)
    elif exposed.controls:
        note = FEW
    return Attacked(
        _singled(exposed, middles, rules, members),
        _singled(exposed, middles, random, members),
        control,
        note=note,
    )


def _middle(column: Column, weights: Ints) -> float:
    """The median of what is released, in its place; 0 where it is no number."""
    if not isinstance(column, Numbers):
        return 0.0
    some = np.ones(len(weights), bool) if column.withheld is None else ~column.withheld
    if not some.any():
        return 0.0
    order = np.argsort(column.placed_released[some])
    sums = np.cumsum(weights[some][order])
    at = np.searchsorted(sums, sums[-1] / 2)
    return float(column.placed_released[some][order][at])


def _holds(column: Column, row: int, records: Ints, middle: float) -> NDArray[np.bool_]:
    """bool (r,), which records satisfy what ``row`` says of a column."""
    if not isinstance(column, Numbers):
        found: NDArray[np.bool_] = distance(column, records, np.array(row)) == 0
        return found
    gone = np.zeros(len(records), bool) if column.missing is None else column.missing[records]
    return _beyond(column, row, column.placed[records], gone, middle)


def _beyond(
    column: Numbers, row: int, places: Floats, gone: NDArray[np.bool_], middle: float
) -> NDArray[np.bool_]:
    if column.withheld is not None and column.withheld[row]:
        return gone
    value = column.placed_released[row]
    held: NDArray[np.bool_] = places >= value if value >= middle else places <= value
    return ~gone & held


def _also(column: Column, row: int, middle: float) -> NDArray[np.bool_]:
    """bool (m,), which released rows satisfy it; of labels and intervals the same ones."""
    if not isinstance(column, Numbers):
        return np.asarray(column.released_kinds == column.released_kinds[row])
    places = column.placed_released
    gone = np.zeros(len(places), bool) if column.withheld is None else column.withheld
    return _beyond(column, row, places, gone, middle)


def _kept(
    exposed: Exposed, middles: dict[int, float], wanted: int, rng: np.random.Generator
) -> list[_Rule]:
    """Predicates that one of the rows that differ satisfies, those of the fewest rows first."""
    m, p = len(exposed.weights), len(exposed.columns)
    found: dict[int, Ints] = {}
    rows = np.concatenate([rng.permutation(m) for _ in range(_TRIED)])[: _TRIED * wanted]
    alone = 0
    for row in rows.tolist():
        if row in found:
            continue
        columns = np.sort(rng.choice(p, int(rng.integers(1, p + 1)), replace=False))
        held = np.ones(m, bool)
        for at in columns:
            held &= _also(exposed.columns[at], row, middles[int(at)])
        if held.sum() == 1:
            found[row] = columns
            alone += exposed.weights[row] == 1
        if alone >= wanted:
            break
    fewest = sorted(found, key=lambda row: int(exposed.weights[row]))[:wanted]
    return [_Rule(found[row], np.full(len(found[row]), row)) for row in fewest]


def _singled(
    exposed: Exposed, middles: dict[int, float], rules: list[_Rule], records: Ints
) -> Rate:
    right = 0
    for number, rule in enumerate(rules):
        left = records
        for at, row in zip(rule.columns.tolist(), rule.rows.tolist(), strict=True):
            left = left[_holds(exposed.columns[at], row, left, middles[at])]
        right += len(left) == 1
        if number % 64 == 0:
            exposed.tick(number / len(rules))
    return Rate(right, len(rules))
