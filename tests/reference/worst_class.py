"""Levels of privacy models, class by class, from their definitions: plain loops over lists.

Nothing here calls the package. A class is its counts by value; ``table`` has the share of each
value in the table. Where k counts persons, who may have several values, ``persons`` is the number
of those in the class; otherwise it is None.
"""

from __future__ import annotations

import math

# Rounding must not fail a class that reaches its level exactly.
SLACK = 1e-9

# Models of which a larger level is the stronger one.
AT_LEAST = ("distinct_l", "entropy_l")
BESIDE_TABLE = ("t_closeness", "beta_likeness", "delta_disclosure")


def level_of_class(kind, counts, table=None, *, l=2, distance="equal", persons=None):  # noqa: E741
    """The level that one class keeps to; of persons, whichever one value of theirs is taken."""
    counts = [int(count) for count in counts]
    if kind in BESIDE_TABLE:
        size = sum(counts) if persons is None else int(persons)
        shares = [count / size for count in counts]
        return _BY_TABLE[kind](shares, [float(share) for share in table], distance, persons)
    if persons is not None:
        counts = least_diverse(counts, int(persons))
    return recursive(counts, l) if kind == "recursive_cl" else _BY_COUNTS[kind](counts)


def keeps(kind, level, counts, table=None, **more):
    """Whether one class keeps to a model at a level."""
    reached = level_of_class(kind, counts, table, **more)
    if kind == "recursive_cl":
        # r_1 < c (r_l + ...), and not at equality.
        return reached < level
    return reached >= level - SLACK if kind in AT_LEAST else reached <= level + SLACK


def levels(kind, classes, **more):
    """The level of each class beside the table that they make up; ``more`` as of the class."""
    rows = [[int(count) for count in counts] for counts in classes]
    size = sum(map(sum, rows))
    table = [sum(column) / size for column in zip(*rows, strict=True)]
    return [level_of_class(kind, row, table, **more) for row in rows]


def worst(kind, classes, **more):
    """The level that all of one class or more keep to."""
    reached = levels(kind, classes, **more)
    return min(reached) if kind in AT_LEAST else max(reached)


def least_diverse(counts, persons):
    """One value a person, chosen so that few values have many persons: the largest first."""
    chosen = []
    for count in sorted(counts, reverse=True):
        chosen.append(min(count, persons))
        persons -= chosen[-1]
    return chosen


# -- classes by themselves ------------------------------------------------------------------------


def distinct(counts):
    return sum(count > 0 for count in counts)


def entropy(counts):
    size = sum(counts)
    return math.exp(-sum(count / size * math.log(count / size) for count in counts if count))


def recursive(counts, l):  # noqa: E741
    falling = sorted(counts, reverse=True)
    others = sum(falling[l - 1 :])
    return falling[0] / others if others else math.inf


def largest_share(counts):
    return max(counts) / sum(counts)


_BY_COUNTS = {"distinct_l": distinct, "entropy_l": entropy, "alpha_k": largest_share}


# -- classes beside the table ---------------------------------------------------------------------


def beta_likeness(shares, table, _distance, _persons):
    gains = [
        (share - expected) / expected if expected else math.inf
        for share, expected in zip(shares, table, strict=True)
        if expected or share
    ]
    return max([0.0, *gains])


def delta_disclosure(shares, table, _distance, _persons):
    return max(
        (
            abs(math.log(share / expected)) if expected else math.inf
            for share, expected in zip(shares, table, strict=True)
            if share
        ),
        default=0.0,
    )


def t_closeness(shares, table, distance, persons):
    """The earth mover's distance; what a class has more or less of all values goes to "none"."""
    extra = [share - expected for share, expected in zip(shares, table, strict=True)]
    to_none = sum(extra) if persons is not None else 0.0
    if isinstance(distance, str):
        return _equal(extra, to_none) if distance == "equal" else _ordered(extra, to_none)
    return _by_tree(extra, to_none, distance)


_BY_TABLE = {
    "beta_likeness": beta_likeness,
    "delta_disclosure": delta_disclosure,
    "t_closeness": t_closeness,
}


def _equal(extra, to_none):
    """Every surplus moves a distance of one; "none" supplies or absorbs the remainder."""
    return (sum(map(abs, extra)) + abs(to_none)) / 2


def _ordered(extra, to_none):
    """Moves between neighbours cost 1 / (s - 1) each, and to none 1.

    Let G(v) be the sum that values up to v give to none. It rises from 0 to the total, and the flow
    across the border above v is the surplus up to v, less G(v). An optimal G only takes the values
    of the sums themselves, 0 and the total, so each of these is tried, border after border.
    """
    steps = max(len(extra) - 1, 1)
    sign = -1 if to_none < 0 else 1
    over = [sign * sum(extra[: v + 1]) for v in range(len(extra))]
    to_or_from_none = abs(to_none)
    choices = sorted(
        {0.0, to_or_from_none, *(min(max(value, 0.0), to_or_from_none) for value in over)}
    )
    # The least cost so far where G is at most each choice.
    cost = [0.0] * len(choices)
    for value in over[:-1]:
        cost = [cost[at] + abs(value - choice) for at, choice in enumerate(choices)]
        cost = [min(cost[: at + 1]) for at in range(len(cost))]
    return to_or_from_none + cost[-1] / steps


def _by_tree(extra, to_none, tree):
    """Siblings settle among themselves, the remainder moves up, and "none" is above the root."""
    parents = [int(parent) for parent in tree.parents]
    leaves = {int(node): at for at, node in enumerate(tree.leaves)}
    children: dict[int, list[int]] = {node: [] for node in range(len(parents))}
    for node, parent in enumerate(parents):
        if parent >= 0 and node != parent:
            children[parent].append(node)

    def settle(node) -> tuple[float, int, float]:
        """The surplus below a node, its height, and the cost of moves below and at it."""
        if not children[node]:
            return (extra[leaves[node]] if node in leaves else 0.0), 0, 0.0
        below = [settle(child) for child in children[node]]
        height = 1 + max(high for _, high, _ in below)
        surplus = sum(over for over, _, _ in below if over > 0)
        shortage = -sum(over for over, _, _ in below if over < 0)
        moved = min(surplus, shortage)
        if node == 0 and abs(to_none) > 1e-12:
            moved = max(surplus, shortage)
        return surplus - shortage, height, moved * height + sum(cost for _, _, cost in below)

    _, height, cost = settle(0)
    return cost / height if height else 0.0
