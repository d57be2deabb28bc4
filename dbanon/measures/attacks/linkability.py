"""linkability: two parts of one person's record that released rows bring together.

The attacker knows some columns of a person from one place and others from another. He takes a row
that is nearest by the first and one that is nearest by the second, and links the two parts when
these are one row. Of k rows that are released alike each may be meant: he guesses one.

Source: Giomi et al. 2023, section 4.2, with one neighbour.
"""

from __future__ import annotations

import numpy as np

from dbanon.measures.attacks.rates import Attacked, Rate
from dbanon.measures.attacks.task import Exposed, Ints

NAME = "linkability"
SUMMARY = "Two parts of a person's record are found in the same released row"
ONE_COLUMN = "a record of one column has no two parts"


def attack(exposed: Exposed) -> Attacked:
    """Over records."""
    if not all(exposed.linked):
        return Attacked(Rate(0, 0), Rate(0, 0), note=ONE_COLUMN)
    rng = exposed.rng(NAME)
    targets = exposed.targets(rng)
    found = [_linked(exposed, records, rng) for records in targets]
    random = [exposed.any_rows(rng, len(targets[0])) for _ in range(2)]
    which = [rng.integers(exposed.weights[rows]) for rows in random]
    same = (random[0] == random[1]) & (which[0] == which[1])
    return Attacked(
        found[0],
        Rate(int(same.sum()), len(same)),
        found[1] if len(found) > 1 else None,
    )


def _linked(exposed: Exposed, records: Ints, rng: np.random.Generator) -> Rate:
    first, second = (exposed.nearest(records, known, rng) for known in exposed.linked)
    same = np.all([one == other for one, other in zip(first, second, strict=True)], axis=0)
    exposed.tick(1.0)
    return Rate(int(same.sum()), len(records))
