"""Plain numpy versions of the compiled kernels: slow, obvious, and equal to them label by label.

Shared conventions: a squared distance sums the attributes left to right; the smaller index wins
every tie; classes are numbered in the order in which they are made.
"""

import numpy as np


def distances(points, position):
    """Squared distances from each record to a position, attributes summed left to right."""
    total = np.zeros(len(points))
    for j in range(points.shape[1]):
        gap = position[j] - points[:, j]
        total = total + gap * gap
    return total


def farthest(points, ids, position):
    """The id whose record is farthest from the position; `ids` ascend, argmax takes the first."""
    return ids[np.argmax(distances(points[ids], position))]


def nearest(points, ids, position, count):
    """The `count` ids nearest to the position, by (distance, id); `ids` ascend."""
    order = np.argsort(distances(points[ids], position), kind="stable")
    return ids[order[:count]]


def around(points, ids, seed, k):
    """The seed and its k - 1 nearest, in the order in which they are taken."""
    others = ids[ids != seed]
    return np.concatenate(([seed], nearest(points, others, points[seed], k - 1)))


class RunningCentroid:
    """The centroid of the remaining records, kept as dbanon/kernels/centroid.hpp states."""

    def __init__(self, points):
        self.points = points
        self.sum = None
        self.size_at_refresh = 0

    def mean(self, round_number, ids):
        power = round_number & (round_number - 1) == 0
        if power or 8 * len(ids) <= 7 * self.size_at_refresh:
            self.size_at_refresh = len(ids)
            # cumsum adds one by one, in index order; sum would add pairwise.
            start = np.zeros((1, self.points.shape[1]))
            self.sum = np.cumsum(np.vstack((start, self.points[ids])), axis=0)[-1]
        return self.sum / len(ids)

    def subtract(self, members):
        for i in members:
            self.sum = self.sum - self.points[i]


class _Partition:
    """The records that remain, and the labels given so far."""

    def __init__(self, n):
        self.ids = np.arange(n)
        self.labels = np.full(n, -1, dtype=np.int32)
        self.classes = 0

    def take(self, members):
        self.labels[members] = self.classes
        self.classes += 1
        self.ids = self.ids[self.labels[self.ids] < 0]


@np.errstate(over="ignore", under="ignore", invalid="ignore")
def mdav(points, k):
    """MDAV (Domingo-Ferrer & Torra 2005)."""
    part = _Partition(len(points))
    centroid = RunningCentroid(points)
    round_number = 0
    while len(part.ids) >= 3 * k:
        r = farthest(points, part.ids, centroid.mean(round_number, part.ids))
        s = farthest(points, part.ids, points[r])
        members = around(points, part.ids, r, k)
        part.take(members)
        centroid.subtract(members)
        if part.labels[s] < 0:
            members = around(points, part.ids, s, k)
        else:
            members = nearest(points, part.ids, points[s], k)
        part.take(members)
        centroid.subtract(members)
        round_number += 1
    if len(part.ids) >= 2 * k:
        r = farthest(points, part.ids, centroid.mean(round_number, part.ids))
        part.take(around(points, part.ids, r, k))
    if len(part.ids) > 0:
        part.take(part.ids)
    return part.labels
