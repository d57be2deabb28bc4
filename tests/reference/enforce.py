"""Enforcement of privacy models, the plain way: what the kernel has to equal class by class.

Levels are those of ``worst_class``; nothing here calls the package.
"""

import math

import numpy as np

from tests.reference import worst_class
from tests.reference.generalization import Records


def satisfied(models, counts, table_counts):
    """Which classes keep to all models; counts and wholes by sensitive attribute.

    The counts under None, where there are any, are the persons of each class.
    """
    persons = counts.get(None)
    return np.logical_and.reduce(
        [
            [
                _keeps(
                    model,
                    row,
                    table_counts[model.attribute],
                    None if persons is None else persons[c],
                )
                for c, row in enumerate(counts[model.attribute])
            ]
            for model in models
        ]
    )


def _keeps(model, row, total, persons):
    more = {"l": model.l, "distance": model.distance, "persons": persons}
    return worst_class.keeps(model.kind, model.level, row, total, **more)


def lack(models, counts, table_counts):
    """The deficit of each class against all models, float64 (m,); arguments as for
    ``satisfied``.
    """
    persons = counts.get(None)
    deficits = np.zeros(len(next(iter(counts.values()))))
    for model in models:
        for c, row in enumerate(counts[model.attribute]):
            people = None if persons is None else int(persons[c])
            total = table_counts[model.attribute]
            if not _keeps(model, row, total, people):
                deficits[c] += _lack(model, row.tolist(), total.tolist(), people)
    return deficits


def _lack(model, counts, table_row, persons):
    size = float(sum(counts) if persons is None else persons)
    level = model.level
    reached = worst_class.level_of_class(
        model.kind, counts, table_row, l=model.l, distance=model.distance, persons=persons
    )
    if model.kind in ("distinct_l", "entropy_l"):
        return level - reached
    if model.kind in ("alpha_k", "t_closeness"):
        return (reached - level) * size
    if model.kind == "recursive_cl":
        if persons is not None:
            counts = worst_class.least_diverse(counts, persons)
        falling = sorted(counts, reverse=True)
        return 1 + max(falling[0] / level - sum(falling[model.l - 1 :]), 0.0)
    total = 0.0
    for count, share in zip(counts, table_row, strict=True):
        if share <= 0:
            # Any record with a value that the table lacks is too many.
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
    """Whether a class fails, the loss, and the labels."""

    def lacks(counts):
        if exact is None:
            return lack(models, counts, table_counts)
        rows = zip(
            *(np.atleast_2d(rows_by_name.T).T for rows_by_name in counts.values()), strict=True
        )
        return np.array([exact.lack(np.concatenate(row).astype(np.int32)) for row in rows])

    records = Records(space)
    widths = {name: int(values.max()) + 1 for name, values in codes.items()}
    for model in models:
        if not isinstance(model.distance, str):
            widths[model.attribute] = model.distance.n_leaves

    def counts(classes):
        if who is not None:
            return of_persons(classes)
        counts_by_name = {name: np.zeros((len(classes), widths[name]), np.int64) for name in codes}
        for number, members in enumerate(classes):
            for name, values in codes.items():
                for i in members:
                    counts_by_name[name][number, values[i]] += 1
        return counts_by_name

    def of_persons(classes):
        counts_by_name = {name: np.zeros((len(classes), widths[name]), np.int64) for name in codes}
        for number, members in enumerate(classes):
            for name, values in codes.items():
                for value in {(who[i], values[i]) for i in members}:
                    counts_by_name[name][number, value[1]] += 1
        return counts_by_name | {
            None: np.array([len({who[i] for i in members}) for members in classes])
        }

    together = counts([np.flatnonzero(labels >= 0)])
    table_counts = {
        name: together[name][0]
        / (together[None][0] if None in together else together[name][0].sum())
        for name in codes
    }
    classes = {c: np.flatnonzero(labels == c).tolist() for c in range(labels.max() + 1)}
    loss = {c: records.loss(members) for c, members in classes.items()}
    all_of_it = int(space.root_costs.sum())
    withheld = 0
    while True:
        names = list(classes)
        fails = ~satisfied(models, counts(list(classes.values())), table_counts) if names else []
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
            good = satisfied(models, counts_of_each(counts, together), table_counts)
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
    fails = (
        bool(classes) and not satisfied(models, counts(list(classes.values())), table_counts).all()
    )
    total_loss = sum(loss[c] for c in classes) + withheld * all_of_it
    new_labels = np.full(len(labels), -1, np.int32)
    for number, c in enumerate(sorted(classes)):
        new_labels[classes[c]] = number
    return fails, total_loss, new_labels


def _by_help(increases, helps):
    """The place of the least increase for what it helps; of the least one where nothing helps."""
    best = None
    for at, (increase, helped) in enumerate(zip(increases, helps.tolist(), strict=True)):
        if helped > 1e-9 and (
            best is None or float(increase) * helps[best] < float(increases[best]) * helped
        ):
            best = at
    return int(np.argmin(increases)) if best is None else best


def split(space, labels, k, codes, models, table_counts):
    """Labels after cuts; ``codes`` and ``wholes`` by sensitive attribute."""
    records = Records(space)

    def keep(members):
        counts = {
            name: np.bincount([codes[name][i] for i in members], minlength=len(table_counts[name]))
            for name in codes
        }
        return satisfied(
            models, {name: row.reshape(1, -1) for name, row in counts.items()}, table_counts
        )[0]

    def cut(members):
        best, least = None, records.loss(members)
        for a in range(len(records.units)):
            for code in sorted({records.codes[i][a] for i in members})[1:]:
                below = [i for i in members if records.codes[i][a] < code]
                above = [i for i in members if records.codes[i][a] >= code]
                loss = records.loss(below) + records.loss(above)
                if (
                    min(len(below), len(above)) >= k
                    and loss < least
                    and keep(below)
                    and keep(above)
                ):
                    best, least = (below, above), loss
        return [members] if best is None else cut(best[0]) + cut(best[1])

    new_labels = np.full(len(labels), -1, np.int32)
    number = 0
    for c in range(labels.max() + 1):
        for members in cut(np.flatnonzero(labels == c).tolist()):
            new_labels[members] = number
            number += 1
    return new_labels


def counts_of_each(counts, together):
    """Counts of classes that overlap."""
    each = [counts([members]) for members in together]
    return {name: np.concatenate([part[name] for part in each]) for name in each[0]}
