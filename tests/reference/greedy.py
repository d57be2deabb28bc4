"""GAA-CP and k-member over arrays, for tables of thousands of records.

One search for the nearest or farthest looks at all records at once. Ties go to the smaller index,
which is what the first minimum of an array is.
"""

import numpy as np

from tests.reference.generalization import Records, join_rest, numbered


class _Attribute:
    """Costs of one attribute against a class, for each code: of a tree by leaf, else by record."""

    def __init__(self, codes, unit, tree):
        self.codes, self.unit, self.tree = codes, int(unit), tree
        if tree is not None:
            self.depths = tree.leaf_depths.astype(np.int64)
            self.gaps = tree.neighbor_ancestor_depths.astype(np.int64)
            self.shares = self.unit // np.maximum(self.depths, 1) * (self.depths > 0)

    def common(self, low, high):
        """Depth of the node above the leaves low to high, and above each leaf and these."""
        node = self.depths[low] if low == high else self.gaps[low:high].min()
        above = np.full(len(self.depths), node)
        left = np.minimum.accumulate(self.gaps[:low][::-1])[::-1]
        above[:low] = np.minimum(above[:low], left)
        above[high + 1 :] = np.minimum(above[high + 1 :], np.minimum.accumulate(self.gaps[high:]))
        return node, above

    def width(self, low, high):
        return np.maximum(self.codes, high) - np.minimum(self.codes, low)

    def climb(self, start, end):
        share = self.unit // np.maximum(start, 1)
        return np.where(start == end, 0, self.unit - end * share)

    def distance(self, members):
        """Twice definition 5, of each record, int64 (n,)."""
        low, high = self.codes[members].min(), self.codes[members].max()
        if self.tree is None:
            return 2 * self.width(low, high)
        node, above = self.common(low, high)
        return (self.climb(self.depths, above) + self.climb(node, above))[self.codes]

    def loss(self, members):
        """The loss of a class with one record more, of each record, int64 (n,)."""
        low, high = self.codes[members].min(), self.codes[members].max()
        size = len(members) + 1
        if self.tree is None:
            return size * self.width(low, high)
        _, above = self.common(low, high)
        share = self.shares[self.codes[members]].sum() + self.shares
        uneven = size * self.unit - above * share
        if low == high:
            uneven[low] = 0
        return uneven[self.codes]


def _grow(space, k, near, far):
    """Classes of k: `near` and `far` give what decides, of attributes and a class's records."""
    columns = space.codes.astype(np.int64).T
    attributes = [
        _Attribute(np.ascontiguousarray(codes), unit, tree)
        for codes, unit, tree in zip(columns, space.root_costs, space.trees, strict=True)
    ]
    n = len(space.codes)
    is_free = np.ones(n, bool)
    worst = np.iinfo(np.int64).max
    classes, seed = [], 0
    while is_free.sum() >= k:
        members = [seed]
        is_free[seed] = False
        while len(members) < k:
            costs = np.where(is_free, near(attributes, members), worst)
            members.append(int(costs.argmin()))
            is_free[members[-1]] = False
        classes.append(members)
        if is_free.any():
            seed = int(np.where(is_free, far(attributes, members), -1).argmax())
    join_rest(Records(space), classes, np.flatnonzero(is_free).tolist())
    return numbered(classes, n)


def _distance(attributes, members):
    return sum(attribute.distance(members) for attribute in attributes)


def _loss(attributes, members):
    return sum(attribute.loss(members) for attribute in attributes)


def gaa_cp(space, k):
    """The labels, int32 (n,)."""
    return _grow(space, k, _distance, _distance)


def kmember(space, k):
    """The labels, int32 (n,)."""
    return _grow(space, k, _loss, lambda attributes, members: _distance(attributes, members[:1]))
