"""Enforcement of privacy models, the plain way: what the kernel has to equal class by class."""

import math

import numpy as np

from dbanon.data.partition import Partition
from dbanon.measures import sensitive, sensitive_counts
from tests.reference.generalization import Records


def satisfied(models, counts, tables):
    """Which classes keep to all models; counts and wholes by sensitive attribute.

    The counts under None, where there are any, are the persons of each class.
    """
    persons = counts.get(None)
    return np.logical_and.reduce(
        [m.satisfied(counts[m.attribute], tables[m.attribute], persons) for m in models]
    )


def lack(models, counts, tables):
    """What each class lacks to keep to all models, float64 (m,); arguments as for ``satisfied``."""
    persons = counts.get(None)
    lacks = np.zeros(len(next(iter(counts.values()))))
    for model in models:
        for c, row in enumerate(counts[model.attribute]):
            people = None if persons is None else persons[c : c + 1]
            counts_row = row.reshape(1, -1)
            if not model.satisfied(counts_row, tables[model.attribute], people)[0]:
                lacks[c] += _lack(model, counts_row, tables[model.attribute], people)
    return lacks


def _lack(model, counts, table, persons):
    size = float(counts.sum() if persons is None else persons[0])
    reached = model.worst(counts, table, persons)
    level = model.level
    if model.kind in ("distinct_l", "entropy_l"):
        return level - reached
    if model.kind in ("alpha_k", "t_closeness"):
        return (reached - level) * size
    if model.kind == "recursive_cl":
        if persons is not None:
            counts = sensitive.least_diverse(counts, persons)
        falling = sorted(counts[0].tolist(), reverse=True)
        return 1 + max(falling[0] / level - sum(falling[model.l - 1 :]), 0.0)
    total = 0.0
    for count, share in zip(counts[0].tolist(), table.tolist(), strict=True):
        if share <= 0:
            # Of a value that the table lacks, any is too many.
            total += count
            continue
        if model.kind == "beta_likeness":
            most = (1 + level) * share * size
            if count > most + 1e-9 * share * size:
                total += count - most
        elif count and abs(math.log(count / (share * size))) > level + 1e-9:
            expected = share * size
            total += abs(count - expected * math.exp(level if count > expected else -level))
    return total


def enforce(space, labels, codes, models, budget=0, who=None, exact=None):
    """Labels after merging and withholding; ``codes`` by sensitive attribute.

    With ``who``, the person of each record, persons are counted, and not records. ``exact`` are the
    models as the kernel has them: ``lack`` by other sums breaks ties in another way.
    """
    (fails, loss, first), (still_fails, other_loss, second) = (
        _one_way(space, labels, codes, models, budget, who, by_help, exact)
        for by_help in (False, True)
    )
    return second if not still_fails and (fails or other_loss < loss) else first


def _one_way(space, labels, codes, models, budget, who, by_help, exact):
    """Whether a class violates the models, the loss, and the labels."""

    def lacks(counts):
        if exact is None:
            return lack(models, counts, tables)
        rows = zip(*(np.atleast_2d(labels_out.T).T for labels_out in counts.values()), strict=True)
        return np.array([exact.lack(np.concatenate(row).astype(np.int32)) for row in rows])

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
        labels_out = {name: np.zeros((len(classes), widths[name]), np.int64) for name in codes}
        for number, members in enumerate(classes):
            for name, values in codes.items():
                for value in {(who[i], values[i]) for i in members}:
                    labels_out[name][number, value[1]] += 1
        return labels_out | {
            None: np.array([len({who[i] for i in members}) for members in classes])
        }

    together = counts([np.flatnonzero(labels >= 0)])
    tables = {
        name: together[name][0]
        / (together[None][0] if None in together else together[name][0].sum())
        for name in codes
    }
    classes = {c: np.flatnonzero(labels == c).tolist() for c in range(labels.max() + 1)}
    loss = {c: records.loss(members) for c, members in classes.items()}
    all_of_it = int(space.units.sum())
    withheld = 0
    while True:
        names = list(classes)
        fails = ~satisfied(models, counts(list(classes.values())), tables) if names else []
        failing = [c for c, bad in zip(names, fails, strict=True) if bad]
        if not failing:
            break
        sign = 1 if by_help else -1
        chosen = min(failing, key=lambda c: (sign * len(classes[c]), c))
        others = [c for c in names if c != chosen]
        together = [classes[c] + classes[chosen] for c in others]
        increases = [
            records.loss(members) - loss[c] - loss[chosen]
            for c, members in zip(others, together, strict=True)
        ]
        target = None
        if others and by_help:
            target = _by_help(
                increases,
                lacks(counts([classes[chosen]]))[0]
                + lacks(counts([classes[c] for c in others]))
                - lacks(counts_of_each(counts, together)),
            )
        elif others:
            good = satisfied(models, counts_of_each(counts, together), tables)
            pool = np.flatnonzero(good) if good.any() else np.arange(len(others))
            target = int(pool[np.argmin(np.array(increases)[pool])])
        size = len(classes[chosen])
        if target is None:
            break
        if size <= budget and increases[target] > size * all_of_it:
            budget -= size
            withheld += size
            del classes[chosen]
            continue
        into = others[target]
        classes[into] = together[target]
        loss[into] = records.loss(classes[into])
        del classes[chosen]
    fails = bool(classes) and not satisfied(models, counts(list(classes.values())), tables).all()
    total_loss = sum(loss[c] for c in classes) + withheld * all_of_it
    labels_out = np.full(len(labels), -1, np.int32)
    for number, c in enumerate(sorted(classes)):
        labels_out[classes[c]] = number
    return fails, total_loss, labels_out


def _by_help(increases, helps):
    """The place of the least increase for what it helps; of the least one where nothing helps."""
    best = None
    for at, (increase, helped) in enumerate(zip(increases, helps.tolist(), strict=True)):
        if helped > 1e-9 and (
            best is None or float(increase) * helps[best] < float(increases[best]) * helped
        ):
            best = at
    return int(np.argmin(increases)) if best is None else best


def split(space, labels, k, codes, models, tables):
    """Labels after cuts; ``codes`` and ``tables`` by sensitive attribute."""
    records = Records(space)

    def keep(members):
        counts = {
            name: np.bincount([codes[name][i] for i in members], minlength=len(tables[name]))
            for name in codes
        }
        return satisfied(
            models, {name: row.reshape(1, -1) for name, row in counts.items()}, tables
        )[0]

    def cut(members):
        best, least = None, records.loss(members)
        for a in range(len(records.units)):
            for code in sorted({records.codes[i][a] for i in members})[1:]:
                below = [i for i in members if records.codes[i][a] < code]
                second_half = [i for i in members if records.codes[i][a] >= code]
                loss = records.loss(below) + records.loss(second_half)
                if (
                    min(len(below), len(second_half)) >= k
                    and loss < least
                    and keep(below)
                    and keep(second_half)
                ):
                    best, least = (below, second_half), loss
        return [members] if best is None else cut(best[0]) + cut(best[1])

    lacks = np.full(len(labels), -1, np.int32)
    number = 0
    for c in range(labels.max() + 1):
        for members in cut(np.flatnonzero(labels == c).tolist()):
            lacks[members] = number
            number += 1
    return lacks


def counts_of_each(counts, together):
    """Counts of classes that overlap."""
    each = [counts([members]) for members in together]
    return {name: np.concatenate([lacks[name] for lacks in each]) for name in each[0]}
