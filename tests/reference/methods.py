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
    """The centroid of the remaining records, kept as dbanon/kernels/points/centroid.hpp states."""

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


def _mean(points, members):
    """The mean of the members, added one by one in the order in which they were taken."""
    start = np.zeros((1, points.shape[1]))
    return np.cumsum(np.vstack((start, points[members])), axis=0)[-1] / len(members)


def _settle(points, part, classes):
    """Leftover records join the class with the nearest mean, as the means were before."""
    means = np.array([_mean(points, members) for members in classes])
    for i in part.ids:
        part.labels[i] = np.argmin(distances(means, points[i]))
    return part.labels


@np.errstate(over="ignore", under="ignore", invalid="ignore")
def cbfs(points, k):
    """Centroid-based fixed size: only the record farthest from the centroid each round."""
    part = _Partition(len(points))
    centroid = RunningCentroid(points)
    classes = []
    while len(part.ids) >= k:
        r = farthest(points, part.ids, centroid.mean(len(classes), part.ids))
        members = around(points, part.ids, r, k)
        part.take(members)
        centroid.subtract(members)
        classes.append(members)
    return _settle(points, part, classes)


@np.errstate(over="ignore", under="ignore", invalid="ignore")
def md(points, k):
    """Diameter-based fixed size (MD, DBFS): the two most distant remaining records each round."""
    part = _Partition(len(points))
    classes = []
    while len(part.ids) >= 2 * k:
        best = (-1.0, -1, -1)
        for i in part.ids:
            away = distances(points[part.ids], points[i])
            j = np.argmax(away)
            if away[j] > best[0]:
                best = (away[j], i, part.ids[j])
        _, r, s = best
        classes.append(around(points, part.ids, r, k))
        part.take(classes[-1])
        if part.labels[s] < 0:
            classes.append(around(points, part.ids, s, k))
        else:
            classes.append(nearest(points, part.ids, points[s], k))
        part.take(classes[-1])
    if len(part.ids) >= k:
        part.take(part.ids)
        return part.labels
    return _settle(points, part, classes)


@np.errstate(over="ignore", under="ignore", invalid="ignore")
def vmdav(points, k, lam):
    """V-MDAV (Solanas & Martinez-Balleste 2006)."""
    part = _Partition(len(points))
    middle = _mean(points, np.arange(len(points)))
    classes = []
    while len(part.ids) >= k:
        members = list(around(points, part.ids, farthest(points, part.ids, middle), k))
        outside = part.ids[~np.isin(part.ids, members)]
        while len(members) < 2 * k - 1 and len(outside) > 0:
            to_class = np.min([distances(points[outside], points[m]) for m in members], axis=0)
            x = outside[np.argmin(to_class)]
            others = outside[outside != x]
            d_in = np.sqrt(np.min(to_class))
            d_out = np.sqrt(np.min(distances(points[others], points[x]), initial=np.inf))
            if not d_in < lam * d_out:
                break
            members.append(x)
            outside = others
        part.take(members)
        classes.append(members)
    return _settle(points, part, classes)


def _sum_of_squares(points, members):
    """Sum of squares around the mean, both in the order of the members."""
    gaps = distances(points[members], _mean(points, members))
    return np.cumsum(gaps)[-1]


@np.errstate(over="ignore", under="ignore", invalid="ignore")
def density_first(points, k, lowest):
    """LDF (lowest density first) or HDF: the candidate of largest or smallest sum of squares."""
    part = _Partition(len(points))
    classes = []
    while len(part.ids) >= k:
        candidates = [around(points, part.ids, i, k) for i in part.ids]
        sums_within = np.array([_sum_of_squares(points, members) for members in candidates])
        classes.append(candidates[np.argmax(sums_within) if lowest else np.argmin(sums_within)])
        part.take(classes[-1])
    return _settle(points, part, classes)


@np.errstate(over="ignore", under="ignore", invalid="ignore")
def tfrp(points, k, second_stage):
    """TFRP (Chang, Li, Huang 2007), the corners of the minima and of the maxima used in turn."""
    part = _Partition(len(points))
    corners = (points.min(axis=0), points.max(axis=0))
    classes = []
    while len(part.ids) >= k:
        r = farthest(points, part.ids, corners[len(classes) % 2])
        classes.append(list(around(points, part.ids, r, k)))
        part.take(classes[-1])
    labels = _settle(points, part, classes)
    if not second_stage:
        return labels
    for i in part.ids:
        classes[labels[i]].append(i)
    sums_within = np.array([_sum_of_squares(points, members) for members in classes])
    for c in np.argsort(-sums_within, kind="stable"):
        others = [i for i, members in enumerate(classes) if members and i != c]
        if not others:
            break
        trial = [list(members) for members in classes]
        trial[c] = []
        cost = 0.0
        for x in classes[c]:
            away = distances(np.array([_mean(points, trial[i]) for i in others]), points[x])
            to = others[np.argmin(away)]
            cost += len(trial[to]) / (len(trial[to]) + 1.0) * np.min(away)
            trial[to].append(x)
        if cost < _sum_of_squares(points, classes[c]):
            classes = trial
    for label, members in enumerate([members for members in classes if members]):
        labels[members] = label
    return labels
