"""linkability: released rows connect two parts of a person's record.

The attacker has two sources with different columns of a person. They find the nearest row by the
columns of each source, and link the two parts if both find the same row. Among k identical rows
they choose one at random.

Source: Giomi et al. 2023, section 4.2, with one neighbour.
"""

from __future__ import annotations

import numpy as np

from dbanon.extensions.attacks.rates import NO_GUESSES, AttackResult, Rate
from dbanon.extensions.attacks.task import AttackData, Ints

NAME = "linkability"
SUMMARY = "Two parts of a person's record are found in the same released row"
ONE_COLUMN_NOTE = "there is only one column, so records have no two parts"


def attack(data: AttackData) -> AttackResult:
    """Link the parts of sampled records."""
    if not all(data.linked_columns):
        return AttackResult(NO_GUESSES, NO_GUESSES, note=ONE_COLUMN_NOTE)
    rng = data.rng(NAME)
    # One array of originals and, if there are control records, one of these.
    targets = data.sample_targets(rng)
    rates = [_linkage_rate(data, records, rng) for records in targets]
    # Random guesses: each source finds a random copy of a random row.
    random_rows = [data.draw_rows(rng, len(targets[0])) for _ in range(2)]
    copies = [rng.integers(data.weights[rows]) for rows in random_rows]
    is_linked = (random_rows[0] == random_rows[1]) & (copies[0] == copies[1])
    return AttackResult(
        attack=rates[0],
        random=Rate(int(is_linked.sum()), len(is_linked)),
        control=rates[1] if len(rates) > 1 else None,
    )


def _linkage_rate(data: AttackData, records: Ints, rng: np.random.Generator) -> Rate:
    """Return the rate of records for which both sources find the same copy of the same row."""
    (first_rows, first_copies), (second_rows, second_copies) = (
        data.find_nearest_rows(records, columns, rng) for columns in data.linked_columns
    )
    is_linked = (first_rows == second_rows) & (first_copies == second_copies)
    data.tick(1.0)
    return Rate(int(is_linked.sum()), len(records))
