"""Centroid methods on a matrix of squared distances in whole numbers, and nothing else.

The sum of squared distances to some records is, but for a number that all have, their number times
the squared distance to their mean. So no mean is needed: the record farthest from it has the
largest sum. Ties go to the smaller index, which is what the first maximum of an array is.
"""

from fractions import Fraction

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
        self.sums = self.sums - self._sums(records)


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


def _pairs(squares, members):
    """The sum of the squared distances of all pairs."""
    return sum(map(int, squares[np.ix_(members, members)].reshape(-1))) // 2


def _nearest_mean(squares, record, classes):
    """The first class whose mean is nearest to a record, by exact fractions."""
    away = []
    for own in classes:
        sums = sum(map(int, squares[record, own]))
        away.append(Fraction(len(own) * sums - _pairs(squares, own), len(own) ** 2))
    return away.index(min(away))


def _settle(rest, label):
    """What is left joins the class with the nearest mean, as the means were before."""
    members = [np.flatnonzero(rest.labels == c) for c in range(label)]
    for record in rest.left:
        rest.labels[record] = _nearest_mean(rest.squares, record, members)
    return rest.labels


def cbfs(squares, k):
    """CBFS: the class of each record, int32 (n,)."""
    rest, label = _Rest(squares), 0
    while len(rest.left) >= k:
        rest.take(rest.farthest_from_mean(), k, label)
        label += 1
    return _settle(rest, label)


def vmdav(squares, k, lambda_):
    """V-MDAV: the class of each record, int32 (n,)."""
    rest, label = _Rest(squares), 0
    fixed = rest.sums.copy()
    while len(rest.left) >= k:
        rest.sums = fixed  # distances from the mean of the whole table
        rest.take(rest.farthest_from_mean(), k, label)
        members = np.flatnonzero(rest.labels == label).tolist()
        while len(members) < 2 * k - 1 and len(left := rest.left):
            inside = squares[np.ix_(members, left)].min(axis=0)
            joins = left[np.argmin(inside)]
            others = squares[joins, left[left != joins]]
            outside = np.sqrt(float(others.min())) if len(others) else np.inf
            if not np.sqrt(float(inside.min())) < lambda_ * outside:
                break
            rest.labels[joins] = label
            members.append(joins)
        label += 1
    return _settle(rest, label)


def md(squares, k):
    """MD: the class of each record, int32 (n,)."""
    rest, label = _Rest(squares), 0
    while len(left := rest.left) >= 2 * k:
        apart = squares[np.ix_(left, left)]
        r, s = left[list(divmod(np.argmax(apart), len(left)))]
        rest.take(r, k, label)
        rest.take(s, k, label + 1)
        label += 2
    if len(rest.left) >= k:
        rest.labels[rest.labels < 0] = label
        return rest.labels
    return _settle(rest, label)


def density_first(squares, k, lowest):
    """LDF or HDF: the class of each record, int32 (n,)."""
    rest, label = _Rest(squares), 0
    while len(left := rest.left) >= k:
        found = []
        for record in left:
            order = np.lexsort((left, squares[record, left]))
            others = [i for i in left[order] if i != record]
            found.append([record, *others[: k - 1]])
        within = [_pairs(squares, members) for members in found]
        rest.put(found[within.index((max if lowest else min)(within))], label)
        label += 1
    return _settle(rest, label)


def tfrp(squares, k, second_stage, numbers):
    """TFRP: the class of each record, int32 (n,); numbers: int64 (n, q), those of the codes."""
    rest, label, taken = _Rest(squares), 0, []
    corners = (numbers.min(axis=0), numbers.max(axis=0))
    while len(left := rest.left) >= k:
        away = np.square(numbers[left] - corners[label % 2]).sum(axis=1)
        r = left[np.argmax(away)]
        rest.labels[r] = label
        taken.append([r, *rest.nearest(r, k - 1)])
        rest.put(taken[-1][1:], label)
        label += 1
    settled = rest.left
    labels = _settle(rest, label)
    if not second_stage:
        return labels
    for record in settled:
        taken[labels[record]].append(record)
    squared = [_pairs(squares, own) // len(own) for own in taken]
    for at in sorted(range(label), key=lambda c: (-squared[c], c)):
        others = [c for c, own in enumerate(taken) if own and c != at]
        if not others:
            break
        trial, cost = {c: list(taken[c]) for c in others}, 0
        for record in taken[at]:
            own = trial[others[_nearest_mean(squares, record, list(trial.values()))]]
            before = _pairs(squares, own) // len(own)
            own.append(record)
            cost += _pairs(squares, own) // len(own) - before
        if cost < _pairs(squares, taken[at]) // len(taken[at]):
            taken = [trial.get(c, []) for c in range(label)]
    for number, own in enumerate(own for own in taken if own):
        labels[own] = number
    return labels
