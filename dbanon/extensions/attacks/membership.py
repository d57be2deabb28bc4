"""membership: whether a person's record was in the input of a release.

The attacker can run the release method. They release tables of other persons, half of the tables
with the target's record, and compute features of each release: the distances of its rows from the
target, and overall means. On one half of the releases they choose the feature and threshold that
classify best. The risk is Stadler's advantage on the other half: 2 (share of right guesses) - 1.
With epsilon-differential privacy the advantage is at most (e^epsilon - 1)/(e^epsilon + 1), whatever
the features are.

Source: T. Stadler, B. Oprisanu and C. Troncoso, "Synthetic data – anonymisation groundhog day",
USENIX Security 2022, with a threshold in place of their classifiers.
"""

from __future__ import annotations

import numpy as np

from dbanon.extensions.attacks.rates import NO_GUESSES, AttackResult, Rate
from dbanon.extensions.attacks.task import AttackData, distances_with_nulls
from dbanon.measures.attributes import Floats, Numbers

NAME = "membership"
SUMMARY = "Releases reveal whether a person's record was in the input"
# Features use the mean distance of this many nearest rows.
_N_NEAREST = 10


def release_features(data: AttackData, target: int) -> Floats:
    """Compute features of a release that may depend on the target, float64 (f,).

    Parameters
    ----------
    target : index of the target record.
    """
    rows, weights = np.arange(len(data.weights)), data.weights
    distances = np.zeros(len(rows))
    features = []
    for column in data.columns:
        distances += distances_with_nulls(column, np.array(target), rows)
        if isinstance(column, Numbers):
            features.append(float(np.average(column.released_coordinates, weights=weights)))
    nearest_rows = np.argsort(distances, kind="stable")[:_N_NEAREST]
    nearest_distances = distances[nearest_rows]
    # The distance of the nearest row, the mean of the nearest ones, the copies of all rows as near
    # as the nearest, the mean distance of all rows, and the copies of the nearest row.
    features += [
        float(nearest_distances[0]),
        float(nearest_distances.mean()),
        float(weights[distances <= nearest_distances[0]].sum()),
        float(np.average(distances, weights=weights)),
        float(weights[nearest_rows[0]]),
    ]
    return np.array(features)


def membership_rate(with_target: Floats, without_target: Floats) -> Rate:
    """Return the rate of right guesses about the second half of the releases.

    Guesses use the feature and threshold that classify the first half best.

    Parameters
    ----------
    with_target, without_target : float64 (r, f), features of r releases each, whose input had the
        target's record or did not have it; r is even.
    """
    half = len(with_target) // 2
    # The feature, the threshold, and whether larger values suggest the target's presence.
    max_right, classifier = -1, (0, 0.0, True)
    for feature in range(with_target.shape[1]):
        values_with = with_target[:half, feature]
        values_without = without_target[:half, feature]
        values = np.unique(np.concatenate((values_with, values_without)))
        thresholds = (values[:-1] + values[1:]) / 2 if len(values) > 1 else values
        n_right_above = (values_with[:, None] > thresholds).sum(axis=0)
        n_right_above += (values_without[:, None] <= thresholds).sum(axis=0)
        for n_right, is_above in ((n_right_above, True), (2 * half - n_right_above, False)):
            best = int(n_right.argmax())
            if n_right[best] > max_right:
                max_right = int(n_right[best])
                classifier = (feature, float(thresholds[best]), is_above)
    feature, threshold, is_above = classifier
    guesses_with, guesses_without = (
        (features[half:, feature] > threshold) == is_above
        for features in (with_target, without_target)
    )
    n_right = int(guesses_with.sum()) + int((~guesses_without).sum())
    return Rate(n_right, len(guesses_with) + len(guesses_without))


def attack(rates: list[Rate]) -> AttackResult:
    """Combine the rates of all targets, each of which was attacked with separate releases."""
    total = Rate(sum(rate.right for rate in rates), sum(rate.guesses for rate in rates))
    return AttackResult(attack=total, random=NO_GUESSES, chance=0.5)
