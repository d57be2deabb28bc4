"""Enforcement of privacy models, the plain way: what the kernel has to equal class by class."""

import numpy as np

from dbanon.data.partition import Partition
from dbanon.measures import sensitive_counts
from tests.reference.generalization import Records


def kept(models, counts, wholes):
    """Which classes keep to all models; counts and wholes by sensitive attribute.

    The counts under None, where there are any, are the persons of each class.
    """
    persons = counts.get(None)
    return np.logical_and.reduce(
        [m.satisfied(counts[m.attribute], wholes[m.attribute], persons) for m in models]
    )


def enforce(space, labels, codes, models, budget=0, who=None):
    """Labels after merging and withholding; ``codes`` by sensitive attribute.

    With ``who``, the person of each record, persons are counted, and not records.
    """
    records = Records(space)
    widths = {name: int(values.max()) + 1 for name, values in codes.items()}
    for model in models:
        if not isinstance(model.distance, str):
            widths[model.attribute] = model.distance.n_leaves

    def counts(classes):
        if who is not None:
            return of_persons(classes)
        numbered = np.full(len(labels), -1)
        for number, members in enumerate(classes):
            numbered[members] = number
        part = Partition(numbered)
        return {name: sensitive_counts(part, codes[name], widths[name]) for name in codes}

    def of_persons(classes):
        found = {name: np.zeros((len(classes), widths[name]), np.int64) for name in codes}
        for number, members in enumerate(classes):
            for name, values in codes.items():
                for value in {(who[i], values[i]) for i in members}:
                    found[name][number, value[1]] += 1
        return found | {None: np.array([len({who[i] for i in members}) for members in classes])}

    together = counts([np.flatnonzero(labels >= 0)])
    wholes = {
        name: together[name][0]
        / (together[None][0] if None in together else together[name][0].sum())
        for name in codes
    }
    classes = {c: np.flatnonzero(labels == c).tolist() for c in range(labels.max() + 1)}
    loss = {c: records.loss(members) for c, members in classes.items()}
    all_of_it = int(space.units.sum())
    while True:
        names = list(classes)
        fails = ~kept(models, counts(list(classes.values())), wholes) if names else []
        failing = [c for c, bad in zip(names, fails, strict=True) if bad]
        if not failing:
            break
        chosen = min(failing, key=lambda c: (-len(classes[c]), c))
        others = [c for c in names if c != chosen]
        together = [classes[c] + classes[chosen] for c in others]
        increases = [
            records.loss(members) - loss[c] for c, members in zip(others, together, strict=True)
        ]
        target = None
        if others:
            good = kept(models, counts_of_each(counts, together), wholes)
            pool = np.flatnonzero(good) if good.any() else np.arange(len(others))
            target = int(pool[np.argmin(np.array(increases)[pool])])
        size = len(classes[chosen])
        if target is None:
            break
        if size <= budget and increases[target] - loss[chosen] > size * all_of_it:
            budget -= size
            del classes[chosen]
            continue
        into = others[target]
        classes[into] = together[target]
        loss[into] = records.loss(classes[into])
        del classes[chosen]
    found = np.full(len(labels), -1, np.int32)
    for number, c in enumerate(sorted(classes)):
        found[classes[c]] = number
    return found


def counts_of_each(counts, together):
    """Counts of classes that overlap."""
    each = [counts([members]) for members in together]
    return {name: np.concatenate([found[name] for found in each]) for name in each[0]}
