"""Plain versions of the methods of generalization: slow, obvious, equal to the kernels record by
record. Costs are whole numbers, counted as dbanon/spaces/mixed.py states; ties go to the smaller
index, then to the class made first.
"""

import numpy as np


class Tree:
    """A hierarchy as leaf depths and gaps, asked for one pair at a time."""

    def __init__(self, hierarchy, unit):
        self.depths = [int(x) for x in hierarchy.leaf_depths]
        self.gaps = [int(x) for x in hierarchy.neighbor_ancestor_depths]
        self.unit = int(unit)

    def common(self, low, high):
        return self.depths[low] if low == high else min(self.gaps[low:high])

    def climb(self, start, end):
        return 0 if start == end else self.unit - end * (self.unit // start)


class Records:
    def __init__(self, space):
        self.codes = [[int(x) for x in row] for row in space.codes]
        self.units = [int(x) for x in space.root_costs]
        self.trees = [
            None if tree is None else Tree(tree, unit)
            for tree, unit in zip(space.trees, self.units, strict=True)
        ]

    def distance(self, record, members):
        """Twice the sum over the attributes of definition 5, to the class's generalized record."""
        total = 0
        for a, tree in enumerate(self.trees):
            inside = [self.codes[i][a] for i in members]
            code = self.codes[record][a]
            low, high = min(inside), max(inside)
            if tree is None:
                total += 2 * (max(high, code) - min(low, code))
                continue
            node = tree.common(low, high)
            ancestor = tree.common(min(low, code), max(high, code))
            total += tree.climb(tree.depths[code], ancestor) + tree.climb(node, ancestor)
        return total

    def loss(self, members):
        total = 0
        for a, tree in enumerate(self.trees):
            inside = [self.codes[i][a] for i in members]
            low, high = min(inside), max(inside)
            if tree is None:
                total += len(members) * (high - low)
            elif low != high:
                node = tree.common(low, high)
                for code in inside:
                    total += self.units[a] - node * (self.units[a] // tree.depths[code])
        return total


def numbered(classes, n):
    labels = np.full(n, -1, np.int32)
    for label, members in enumerate(classes):
        labels[members] = label
    return labels


def join_rest(records, classes, remaining):
    """Each remaining record, in order, joins the class whose loss it raises least."""
    for record in remaining:
        raised = [records.loss([*c, record]) - records.loss(c) for c in classes]
        classes[int(np.argmin(raised))].append(record)


def gaa_cp(space, k):
    """GAA-CP (Jiang, Zeng & Ma 2017)."""
    records = Records(space)
    remaining = list(range(len(records.codes)))
    classes = []
    seed = 0
    while len(remaining) >= k:
        members = [seed]
        remaining.remove(seed)
        while len(members) < k:
            nearest = min(remaining, key=lambda i: (records.distance(i, members), i))
            members.append(nearest)
            remaining.remove(nearest)
        classes.append(members)
        if remaining:
            seed = min(remaining, key=lambda i: (-records.distance(i, members), i))
    join_rest(records, classes, remaining)
    return numbered(classes, len(records.codes))


def kmember(space, k):
    """k-member (Byun, Kamra, Bertino & Li 2007), from record 0, with iloss."""
    records = Records(space)
    remaining = list(range(len(records.codes)))
    classes = []
    seed = 0
    while len(remaining) >= k:
        members = [seed]
        remaining.remove(seed)
        while len(members) < k:
            nearest = min(remaining, key=lambda i: (records.loss([*members, i]), i))
            members.append(nearest)
            remaining.remove(nearest)
        classes.append(members)
        if remaining:
            seed = min(remaining, key=lambda i: (-records.distance(i, [seed]), i))
    join_rest(records, classes, remaining)
    return numbered(classes, len(records.codes))


class Chance:
    """The kernels' source of chance, xorshift64*."""

    def __init__(self, seed):
        self.state = (seed * 0x9E3779B97F4A7C15 + 0x2545F4914F6CDD1D) % 2**64 or 1

    def next(self):
        x = self.state
        x ^= x >> 12
        x = (x ^ (x << 25)) % 2**64
        x ^= x >> 27
        self.state = x
        return (x * 0x2545F4914F6CDD1D) % 2**64

    def below(self, n):
        return ((self.next() >> 32) * n) >> 32

    def share(self):
        return (self.next() >> 11) * 2.0**-53


def merging(space, k, seed, threshold):
    """KACA (threshold < 0) and EBKC."""
    records = Records(space)
    n, d = len(records.codes), len(records.units)
    copies = {}
    for i in range(n):
        copies.setdefault(tuple(records.codes[i]), []).append(i)
    tuples = list(copies.values())
    if threshold < 0:
        classes = {c: list(members) for c, members in enumerate(tuples)}
    else:
        limit = int(np.floor(2 * threshold * float(sum(records.units))))
        groups = []
        for members in tuples:
            apart = [records.distance(members[0], group) for group in groups]
            if apart and min(apart) <= limit:
                groups[int(np.argmin(apart))] += members
            else:
                groups.append(list(members))
        classes = dict(enumerate(groups))
    chance = Chance(seed)
    while small := [c for c in classes if len(classes[c]) < k]:
        chosen = small[chance.below(len(small))]
        best = min(
            (c for c in classes if c != chosen),
            key=lambda c: (
                records.loss(classes[c] + classes[chosen]) - records.loss(classes[c]),
                c,
            ),
        )
        classes[best] += classes.pop(chosen)

    def entropy_sum(members, a):
        counts = np.unique([records.codes[i][a] for i in members], return_counts=True)[1]
        total = 0.0
        for count in counts:
            total += float(count) * np.log(float(count))
        return total if len(counts) > 1 else np.inf

    def split(members):
        sums = [entropy_sum(members, a) for a in range(d)]
        if len(members) < 2 * k or min(sums) == np.inf:
            return [members]
        a = int(np.argmin(sums))
        ordered = sorted(members, key=lambda i: (records.codes[i][a], i))
        half = len(ordered) // 2
        return split(sorted(ordered[:half])) + split(sorted(ordered[half:]))

    member_lists = [sorted(classes[c]) for c in sorted(classes)]
    if threshold >= 0:
        member_lists = [part for members in member_lists for part in split(members)]
    return numbered(member_lists, n)
