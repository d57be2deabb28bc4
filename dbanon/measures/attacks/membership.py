"""membership: whether a person's record was among those that a release was made of.

The attacker can run the mechanism himself. Of tables of other persons, with the target's record in
half of them, he looks at what is released: how near its rows come to the target, and where they
lie on the whole. On one half of the releases he picks the one figure and the threshold that tell
best; the risk is what these tell of the other half: 2 (share of right guesses) - 1, Stadler's
advantage. That is at most (e^epsilon - 1)/(e^epsilon + 1) for a mechanism of epsilon-differential
privacy, whatever figures an attacker takes.

Source: T. Stadler, B. Oprisanu and C. Troncoso, "Synthetic data – anonymisation groundhog day",
USENIX Security 2022, with a threshold in place of their classifiers.
"""

from __future__ import annotations

import numpy as np

from dbanon.measures.attacks.rates import Attacked, Rate
from dbanon.measures.attacks.task import Exposed, distance
from dbanon.measures.attributes import Floats, Numbers

NAME = "membership"
SUMMARY = "Releases tell whether a person's record was in the input"
_NEAREST = 10


def told_of(exposed: Exposed, target: int) -> Floats:
    """Figures of one release that may depend on the target, float64 (f,).

    Parameters
    ----------
    target : one of the records.
    """
    rows, weights = np.arange(len(exposed.weights)), exposed.weights
    apart = np.zeros(len(rows))
    figures = []
    for column in exposed.columns:
        apart += distance(column, np.array(target), rows)
        if isinstance(column, Numbers):
            figures.append(float(np.average(column.placed_released, weights=weights)))
    order = np.argsort(apart, kind="stable")[:_NEAREST]
    near = apart[order]
    figures += [
        float(near[0]),
        float(near.mean()),
        float(weights[apart <= near[0]].sum()),
        float(np.average(apart, weights=weights)),
        float(weights[order[0]]),
    ]
    return np.array(figures)


def told_apart(within: Floats, without: Floats) -> Rate:
    """Right guesses at the second half of releases, by what tells best of the first half.

    Parameters
    ----------
    within, without : float64 (r, f), r even: figures of releases with the target, and without.
    """
    half = len(within) // 2
    best, chosen = -1, (0, 0.0, True)
    for at in range(within.shape[1]):
        one, other = within[:half, at], without[:half, at]
        values = np.unique(np.concatenate((one, other)))
        cuts = (values[:-1] + values[1:]) / 2 if len(values) > 1 else values
        above = (one[:, None] > cuts).sum(axis=0) + (other[:, None] <= cuts).sum(axis=0)
        for right, up in ((above, True), (2 * half - above, False)):
            place = int(right.argmax())
            if right[place] > best:
                best, chosen = int(right[place]), (at, float(cuts[place]), up)
    at, cut, up = chosen
    guessed = [(rows[half:, at] > cut) == up for rows in (within, without)]
    right = int(guessed[0].sum()) + int((~guessed[1]).sum())
    return Rate(right, len(guessed[0]) + len(guessed[1]))


def attack(rates: list[Rate]) -> Attacked:
    """Over the targets, each with releases of its own."""
    total = Rate(sum(one.right for one in rates), sum(one.guesses for one in rates))
    return Attacked(total, Rate(0, 0), chance=0.5)
