"""attribute_inference: a column of a person that the nearest released row tells.

The attacker knows all columns but one, takes a row that is nearest by them, and guesses its value.
He is right where that is a label or an interval that covers the person's value, or a number near
enough. Random guesses are values of any row: a label that covers everything is guessed by
everybody, and is no risk.

Source: Giomi et al. 2023, section 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dbanon.measures.attacks.rates import Attacked, Rate
from dbanon.measures.attacks.task import TIE, Exposed, Ints, distance
from dbanon.measures.attributes import Numbers

NAME = "attribute_inference"
SUMMARY = "The nearest released row tells a column of a person whose others are known"
ONE_COLUMN = "a record of one column has no others to infer it from"

# Records, and whether the guess at each is right.
Guesses: TypeAlias = "tuple[Ints, NDArray[np.bool_]]"


def attack(exposed: Exposed) -> Attacked:
    """Over records and secret columns; ``columns`` has each secret."""
    p = len(exposed.columns)
    if p < 2:
        return Attacked(Rate(0, 0), Rate(0, 0), note=ONE_COLUMN)
    found = {}
    # Of all secrets: at originals, at random, and at control records.
    attack_guesses: list[Guesses] = []
    random_guesses: list[Guesses] = []
    control_guesses: list[Guesses] = []
    for secret, column in enumerate(exposed.columns):
        rng = exposed.rng(f"{NAME} {secret}")
        known = [at for at in range(p) if at != secret]
        targets = exposed.targets(rng)
        near = _near(exposed, secret)
        for records, guesses in zip(targets, (attack_guesses, control_guesses), strict=False):
            rows, _ = exposed.nearest(records, known, rng)
            guesses.append((records, _are_right(exposed, secret, records, rows, near)))
            exposed.tick(secret / p)
        anyone = exposed.any_rows(rng, len(targets[0]))
        right = _are_right(exposed, secret, targets[0], anyone, near)
        random_guesses.append((targets[0], right))
        found[column.name] = Attacked(
            _rate(attack_guesses[-1:]),
            _rate(random_guesses[-1:]),
            _rate(control_guesses[-1:]) if control_guesses else None,
        )
    return Attacked(
        _rate(attack_guesses),
        _rate(random_guesses),
        _rate(control_guesses) if control_guesses else None,
        found,
    )


def _rate(guesses: Sequence[Guesses]) -> Rate:
    records, right = zip(*guesses, strict=True)
    return Rate.of_records(np.concatenate(records), np.concatenate(right))


def _near(exposed: Exposed, secret: int) -> float:
    """Up to what distance a guess is right: 0 of labels and intervals."""
    column = exposed.columns[secret]
    if not isinstance(column, Numbers) or column.ordinal:
        return TIE
    places = column.placed[: exposed.members]
    if column.missing is not None:
        places = places[~column.missing[: exposed.members]]
    low, high = np.quantile(places, [0.05, 0.95]) if len(places) else (0.0, 0.0)
    return float(exposed.tolerance * (high - low)) + TIE


def _are_right(
    exposed: Exposed, secret: int, records: Ints, rows: Ints, near: float
) -> NDArray[np.bool_]:
    return np.asarray(distance(exposed.columns[secret], records, rows) <= near)
