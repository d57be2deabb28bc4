"""attribute_inference: the nearest released row reveals a column of a person.

The attacker knows all columns but one, picks a nearest row by these, and guesses its value. A guess
is right if it is a label or interval that covers the person's value, or a number close enough.
Random guesses are values of any row, so a label that covers everything is not a risk.

Source: Giomi et al. 2023, section 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dbanon.measures.attacks.rates import AttackResult, Rate
from dbanon.measures.attacks.task import TIE, AttackData, Ints, distance
from dbanon.measures.attributes import Numbers

NAME = "attribute_inference"
SUMMARY = "The nearest released row tells a column of a person whose others are known"
ONE_COLUMN = "a record of one column has no others to infer it from"

# Records, and whether the guess about each is right.
Guesses: TypeAlias = "tuple[Ints, NDArray[np.bool_]]"


def attack(exposed: AttackData) -> AttackResult:
    """Attack records and secret columns; ``columns`` holds the result of each secret."""
    p = len(exposed.columns)
    if p < 2:
        return AttackResult(Rate(0, 0), Rate(0, 0), note=ONE_COLUMN)
    by_column = {}
    # For all secrets: guesses about originals, random ones, and about control records.
    attack_guesses: list[Guesses] = []
    random_guesses: list[Guesses] = []
    control_guesses: list[Guesses] = []
    for secret, column in enumerate(exposed.columns):
        rng = exposed.rng(f"{NAME} {secret}")
        known_columns = [index for index in range(p) if index != secret]
        targets = exposed.targets(rng)
        near = _near(exposed, secret)
        for records, guesses in zip(targets, (attack_guesses, control_guesses), strict=False):
            rows, _ = exposed.nearest(records, known_columns, rng)
            guesses.append((records, _correct_guesses(exposed, secret, records, rows, near)))
            exposed.tick(secret / p)
        random_rows = exposed.any_rows(rng, len(targets[0]))
        right = _correct_guesses(exposed, secret, targets[0], random_rows, near)
        random_guesses.append((targets[0], right))
        by_column[column.name] = AttackResult(
            _rate(attack_guesses[-1:]),
            _rate(random_guesses[-1:]),
            _rate(control_guesses[-1:]) if control_guesses else None,
        )
    return AttackResult(
        _rate(attack_guesses),
        _rate(random_guesses),
        _rate(control_guesses) if control_guesses else None,
        by_column,
    )


def _rate(guesses: Sequence[Guesses]) -> Rate:
    records, right = zip(*guesses, strict=True)
    return Rate.of_records(np.concatenate(records), np.concatenate(right))


def _near(exposed: AttackData, secret: int) -> float:
    """The distance up to which a guess is right: 0 for labels and intervals."""
    column = exposed.columns[secret]
    if not isinstance(column, Numbers) or column.ordinal:
        return TIE
    coordinates = column.coordinates[: exposed.members]
    if column.original_nulls is not None:
        coordinates = coordinates[~column.original_nulls[: exposed.members]]
    low, high = np.quantile(coordinates, [0.05, 0.95]) if len(coordinates) else (0.0, 0.0)
    return float(exposed.tolerance * (high - low)) + TIE


def _correct_guesses(
    exposed: AttackData, secret: int, records: Ints, rows: Ints, near: float
) -> NDArray[np.bool_]:
    return np.asarray(distance(exposed.columns[secret], records, rows) <= near)
