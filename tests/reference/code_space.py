"""Centroid methods on a matrix of squared distances in whole numbers, and nothing else.

Up to a constant, the sum of squared distances to a set of records is their count times the squared
distance to their mean. So the record farthest from the mean has the largest sum, and no mean is
computed. Ties go to the smaller index, as with ``argmax``.
"""

from fractions import Fraction

import numpy as np

# Sums of two halves stay within 64 bits.
_HALF = 31


def squared(codes, metric):
    """Squared distances of all pairs, int64 (n, n), of codes, int32 (n, d)."""
    total = np.zeros((len(codes), len(codes)), np.int64)
    for column, attribute, square in zip(
        codes.T, metric.attributes, metric.step_squares, strict=True
    ):
        if (tree := attribute.tree) is None:
            total += np.square(column[:, None].astype(np.int64) - column[None])
        else:
            leaves, index = np.unique(column, return_inverse=True)
            ancestors = tree.common_ancestors(
                *np.broadcast_arrays(*np.ix_(tree.leaves[leaves], tree.leaves[leaves]))
            )
            squares_of_pairs = square * np.square(
                np.where(leaves[:, None] == leaves, 0, tree.heights[ancestors])
            )
            total += squares_of_pairs[np.ix_(index, index)]
    return total


class _Remaining:
    def __init__(self, squares):
        self.squares = squares
        self.labels = np.full(len(squares), -1, np.int32)
        self.sums = self._sums(slice(None))

    def _sums(self, records):
        """Sums of squared distances from each record to some, as upper and lower halves."""
        distances = self.squares[:, records]
        return np.array(
            [(distances >> _HALF).sum(axis=1), (distances & ((1 << _HALF) - 1)).sum(axis=1)]
        )

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
        is_unassigned = self.labels[record] < 0
        if is_unassigned:
            self.put([record], label)
        self.put(self.nearest(record, k - is_unassigned), label)

    def put(self, records, label):
        self.labels[records] = label
        self.sums = self.sums - self._sums(records)


def mdav(squares, k):
    """MDAV: the class of each record, int32 (n,)."""
    state, label = _Remaining(squares), 0
    while len(state.left) >= 3 * k:
        r = state.farthest_from_mean()
        s = state.farthest(r)
        state.take(r, k, label)
        state.take(s, k, label + 1)
        label += 2
    if len(state.left) >= 2 * k:
        state.take(state.farthest_from_mean(), k, label)
        label += 1
    state.labels[state.labels < 0] = label
    return state.labels


def _pairs(squares, members):
    """The sum of the squared distances of all pairs."""
    return sum(map(int, squares[np.ix_(members, members)].reshape(-1))) // 2


def _nearest_mean(squares, record, classes):
    """The first class whose mean is nearest to a record, by exact fractions."""
    distances = []
    for members in classes:
        sums = sum(map(int, squares[record, members]))
        distances.append(
            Fraction(len(members) * sums - _pairs(squares, members), len(members) ** 2)
        )
    return distances.index(min(distances))


def _assign_remaining(state, label):
    """Assign remaining records to the class with the nearest mean, without updating the means."""
    members = [np.flatnonzero(state.labels == c) for c in range(label)]
    for record in state.left:
        state.labels[record] = _nearest_mean(state.squares, record, members)
    return state.labels


def cbfs(squares, k):
    """CBFS: the class of each record, int32 (n,)."""
    state, label = _Remaining(squares), 0
    while len(state.left) >= k:
        state.take(state.farthest_from_mean(), k, label)
        label += 1
    return _assign_remaining(state, label)


def vmdav(squares, k, lambda_):
    """V-MDAV: the class of each record, int32 (n,)."""
    state, label = _Remaining(squares), 0
    fixed = state.sums.copy()
    while len(state.left) >= k:
        state.sums = fixed  # distances from the mean of the whole table
        state.take(state.farthest_from_mean(), k, label)
        members = np.flatnonzero(state.labels == label).tolist()
        while len(members) < 2 * k - 1 and len(left := state.left):
            inside = squares[np.ix_(members, left)].min(axis=0)
            joins = left[np.argmin(inside)]
            others = squares[joins, left[left != joins]]
            outside = np.sqrt(float(others.min())) if len(others) else np.inf
            if not np.sqrt(float(inside.min())) < lambda_ * outside:
                break
            state.labels[joins] = label
            members.append(joins)
        label += 1
    return _assign_remaining(state, label)


def md(squares, k):
    """MD: the class of each record, int32 (n,)."""
    state, label = _Remaining(squares), 0
    while len(left := state.left) >= 2 * k:
        apart = squares[np.ix_(left, left)]
        r, s = left[list(divmod(np.argmax(apart), len(left)))]
        state.take(r, k, label)
        state.take(s, k, label + 1)
        label += 2
    if len(state.left) >= k:
        state.labels[state.labels < 0] = label
        return state.labels
    return _assign_remaining(state, label)


def density_first(squares, k, lowest):
    """LDF or HDF: the class of each record, int32 (n,)."""
    state, label = _Remaining(squares), 0
    while len(left := state.left) >= k:
        candidates = []
        for record in left:
            order = np.lexsort((left, squares[record, left]))
            others = [i for i in left[order] if i != record]
            candidates.append([record, *others[: k - 1]])
        costs = [_pairs(squares, members) for members in candidates]
        state.put(candidates[costs.index((max if lowest else min)(costs))], label)
        label += 1
    return _assign_remaining(state, label)


def tfrp(squares, k, second_stage, numbers):
    """TFRP: the class of each record, int32 (n,); numbers: int64 (n, q), those of the codes."""
    state, label, classes = _Remaining(squares), 0, []
    corners = (numbers.min(axis=0), numbers.max(axis=0))
    while len(left := state.left) >= k:
        distances = np.square(numbers[left] - corners[label % 2]).sum(axis=1)
        r = left[np.argmax(distances)]
        state.labels[r] = label
        classes.append([r, *state.nearest(r, k - 1)])
        state.put(classes[-1][1:], label)
        label += 1
    leftover = state.left
    labels = _assign_remaining(state, label)
    if not second_stage:
        return labels
    for record in leftover:
        classes[labels[record]].append(record)
    squared = [_pairs(squares, members) // len(members) for members in classes]
    for dissolved in sorted(range(label), key=lambda c: (-squared[c], c)):
        others = [c for c, members in enumerate(classes) if members and c != dissolved]
        if not others:
            break
        trial, cost = {c: list(classes[c]) for c in others}, 0
        for record in classes[dissolved]:
            members = trial[others[_nearest_mean(squares, record, list(trial.values()))]]
            old_cost = _pairs(squares, members) // len(members)
            members.append(record)
            cost += _pairs(squares, members) // len(members) - old_cost
        if cost < _pairs(squares, classes[dissolved]) // len(classes[dissolved]):
            classes = [trial.get(c, []) for c in range(label)]
    for new_label, members in enumerate(members for members in classes if members):
        labels[members] = new_label
    return labels
