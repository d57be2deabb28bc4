"""Centroid methods on a matrix of squared distances in whole numbers, and nothing else.

The sum of squared distances to some records is, but for a number that all have, their number times
the squared distance to their mean. So no mean is needed: the record farthest from it has the
largest sum. Ties go to the smaller index, which is what the first maximum of an array is.
"""

import numpy as np

# Sums of two halves stay within 64 bits.
_HALF = 31


def squared(codes, metric):
    """Squared distances of all pairs, int64 (n, n), of codes, int32 (n, d)."""
    total = np.zeros((len(codes), len(codes)), np.int64)
    for column, attribute, square in zip(codes.T, metric.attributes, metric.squares, strict=True):
        if (tree := attribute.tree) is None:
            total += np.square(column[:, None].astype(np.int64) - column[None])
        else:
            used, at = np.unique(column, return_inverse=True)
            above = tree.ancestors(
                *np.broadcast_arrays(*np.ix_(tree.leaves[used], tree.leaves[used]))
            )
            meet = square * np.square(np.where(used[:, None] == used, 0, tree.heights[above]))
            total += meet[np.ix_(at, at)]
    return total


class _Rest:
    def __init__(self, squares):
        self.squares = squares
        self.labels = np.full(len(squares), -1, np.int32)
        self.sums = self._sums(slice(None))

    def _sums(self, records):
        """Of each record the sum of squared distances to some: its upper and its lower half."""
        some = self.squares[:, records]
        return np.array([(some >> _HALF).sum(axis=1), (some & ((1 << _HALF) - 1)).sum(axis=1)])

    @property
    def left(self):
        return np.flatnonzero(self.labels < 0)

    def farthest_from_mean(self):
        """The record with the largest sum of squared distances to those that are left."""
        left = self.left
        high, low = self.sums[:, left]
        high, low = high + (low >> _HALF), low & ((1 << _HALF) - 1)
        return left[np.lexsort((left, -low, -high))[0]]

    def farthest(self, record):
        left = self.left
        return left[np.argmax(self.squares[record, left])]

    def nearest(self, record, count):
        left = self.left
        return left[np.lexsort((left, self.squares[record, left]))[:count]]

    def take(self, record, k, label):
        """A class around a record: itself, if it is left, and the nearest; k in all."""
        own = self.labels[record] < 0
        if own:
            self.put([record], label)
        self.put(self.nearest(record, k - own), label)

    def put(self, records, label):
        self.labels[records] = label
        self.sums -= self._sums(records)


def mdav(squares, k):
    """MDAV: the class of each record, int32 (n,)."""
    rest, label = _Rest(squares), 0
    while len(rest.left) >= 3 * k:
        r = rest.farthest_from_mean()
        s = rest.farthest(r)
        rest.take(r, k, label)
        rest.take(s, k, label + 1)
        label += 2
    if len(rest.left) >= 2 * k:
        rest.take(rest.farthest_from_mean(), k, label)
        label += 1
    rest.labels[rest.labels < 0] = label
    return rest.labels
