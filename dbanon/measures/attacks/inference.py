"""attribute_inference: a column of a person that the nearest released row tells.

The attacker knows all columns but one, takes a row that is nearest by them, and guesses its value.
He is right where that is a label or an interval that covers the person's value, or a number near
enough. Random guesses are values of any row: a label that covers everything is guessed by
everybody, and is no risk.

Source: Giomi et al. 2023, section 4.3.
"""

from __future__ import annotations

import numpy as np

from dbanon.measures.attacks.rates import Attacked, Rate
from dbanon.measures.attacks.task import TIE, Exposed, Ints, distance
from dbanon.measures.attributes import Numbers

NAME = "attribute_inference"
SUMMARY = "The nearest released row tells a column of a person whose others are known"
ONE_COLUMN = "a record of one column has no others to infer it from"


def attack(exposed: Exposed) -> Attacked:
    """Over records and secret columns; ``columns`` has each secret."""
    p = len(exposed.columns)
    if p < 2:
        return Attacked(Rate(0, 0), Rate(0, 0), note=ONE_COLUMN)
    found = {}
    for secret, column in enumerate(exposed.columns):
        rng = exposed.rng(f"{NAME} {secret}")
        known = [at for at in range(p) if at != secret]
        targets = exposed.targets(rng)
        near = _near(exposed, secret)
        rates = []
        for records in targets:
            rows, _ = exposed.nearest(records, known, rng)
            rates.append(_right(exposed, secret, records, rows, near))
            exposed.tick(secret / p)
        anyone = exposed.any_rows(rng, len(targets[0]))
        found[column.name] = Attacked(
            rates[0],
            _right(exposed, secret, targets[0], anyone, near),
            rates[1] if len(rates) > 1 else None,
        )
    controls = [one.control for one in found.values() if one.control is not None]
    return Attacked(
        _sum([one.attack for one in found.values()]),
        _sum([one.random for one in found.values()]),
        _sum(controls) if controls else None,
        found,
    )


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


def _right(exposed: Exposed, secret: int, records: Ints, rows: Ints, near: float) -> Rate:
    apart = distance(exposed.columns[secret], records, rows)
    return Rate(int((apart <= near).sum()), len(records))


def _sum(rates: list[Rate]) -> Rate:
    return Rate(sum(one.right for one in rates), sum(one.guesses for one in rates))
