"""linkability: released rows connect two parts of a person's record.

The attacker has two sources with different columns of a person. They pick a nearest row by the
columns of each source and link the parts if both are the same row. Among k identical rows they pick
one at random.

Source: Giomi et al. 2023, section 4.2, with one neighbour.
"""

from __future__ import annotations

import numpy as np

from dbanon.measures.attacks.rates import AttackResult, Rate
from dbanon.measures.attacks.task import AttackData, Ints

NAME = "linkability"
SUMMARY = "Two parts of a person's record are found in the same released row"
ONE_COLUMN = "a record of one column has no two parts"


def attack(exposed: AttackData) -> AttackResult:
    """Attack records."""
    if not all(exposed.linked):
        return AttackResult(Rate(0, 0), Rate(0, 0), note=ONE_COLUMN)
    rng = exposed.rng(NAME)
    targets = exposed.targets(rng)
    rates = [_linked(exposed, records, rng) for records in targets]
    random = [exposed.any_rows(rng, len(targets[0])) for _ in range(2)]
    copies = [rng.integers(exposed.weights[rows]) for rows in random]
    is_linked = (random[0] == random[1]) & (copies[0] == copies[1])
    return AttackResult(
        rates[0],
        Rate(int(is_linked.sum()), len(is_linked)),
        rates[1] if len(rates) > 1 else None,
    )


def _linked(exposed: AttackData, records: Ints, rng: np.random.Generator) -> Rate:
    first, second = (exposed.nearest(records, columns, rng) for columns in exposed.linked)
    is_linked = np.all([left == right for left, right in zip(first, second, strict=True)], axis=0)
    exposed.tick(1.0)
    return Rate(int(is_linked.sum()), len(records))
