"""membership: whether a person's record was in the input of a release.

The attacker can run the mechanism. They release tables of other persons, half of them with the
target's record, and compute features of each release: the distances of its rows to the target, and
overall means. On one half of the releases they choose the feature and threshold that classify best.
The risk is Stadler's advantage on the other half: 2 (share of right guesses) - 1. With
epsilon-differential privacy it is at most (e^epsilon - 1)/(e^epsilon + 1) for any features.

Source: T. Stadler, B. Oprisanu and C. Troncoso, "Synthetic data – anonymisation groundhog day",
USENIX Security 2022, with a threshold in place of their classifiers.
"""

from __future__ import annotations

import numpy as np

from dbanon.measures.attacks.rates import AttackResult, Rate
from dbanon.measures.attacks.task import AttackData, distance
from dbanon.measures.attributes import Floats, Numbers

NAME = "membership"
SUMMARY = "Releases tell whether a person's record was in the input"
_NEAREST = 10


def release_features(exposed: AttackData, target: int) -> Floats:
    """Features of a release that may depend on the target, float64 (f,).

    Parameters
    ----------
    target : index of the target record.
    """
    rows, weights = np.arange(len(exposed.weights)), exposed.weights
    apart = np.zeros(len(rows))
    figures = []
    for column in exposed.columns:
        apart += distance(column, np.array(target), rows)
        if isinstance(column, Numbers):
            figures.append(float(np.average(column.released_coordinates, weights=weights)))
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


def membership_rate(with_target: Floats, without_target: Floats) -> Rate:
    """The rate of right guesses on the second half, with the best threshold of the first half.

    Parameters
    ----------
    with_target, without_target : float64 (r, f), r even, features of releases.
    """
    half = len(with_target) // 2
    best, chosen = -1, (0, 0.0, True)
    for feature in range(with_target.shape[1]):
        present, absent = with_target[:half, feature], without_target[:half, feature]
        values = np.unique(np.concatenate((present, absent)))
        cuts = (values[:-1] + values[1:]) / 2 if len(values) > 1 else values
        above = (present[:, None] > cuts).sum(axis=0) + (absent[:, None] <= cuts).sum(axis=0)
        for hits, is_above in ((above, True), (2 * half - above, False)):
            best_cut = int(hits.argmax())
            if hits[best_cut] > best:
                best, chosen = int(hits[best_cut]), (feature, float(cuts[best_cut]), is_above)
    feature, cut, is_above = chosen
    guesses = [(rows[half:, feature] > cut) == is_above for rows in (with_target, without_target)]
    hits = int(guesses[0].sum()) + int((~guesses[1]).sum())
    return Rate(hits, len(guesses[0]) + len(guesses[1]))


def attack(rates: list[Rate]) -> AttackResult:
    """Combine the rates of all targets, which have separate releases."""
    total = Rate(sum(rate.right for rate in rates), sum(rate.guesses for rate in rates))
    return AttackResult(total, Rate(0, 0), chance=0.5)
