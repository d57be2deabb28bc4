"""The local search of ``refine=pass`` in plain Python: slow, obvious, equal on whole numbers.

There sums of squared distances are exact, so that the order in which they are added is nothing.
"""

import numpy as np

from tests.reference.methods import distances, nearest
from tests.reference.variable import numbered

NEAR, TARGETS, SWEEPS, POOLED = 7, 8, 8, 96


class Pool:
    """Classes side by side, of records that are numbered class by class, improved pair by pair."""

    def __init__(self, apart, sizes, k):
        self.k = k
        self.apart = apart.tolist()
        self.gain = 1e-11 * max(self.apart[0])
        ends = np.cumsum(sizes).tolist()
        self.parts = [list(range(end - size, end)) for size, end in zip(sizes, ends, strict=True)]

    def to(self, x, part):
        """The sum of squared distances from a record to those of a part."""
        return sum(self.apart[x][y] for y in self.parts[part])

    def moves(self, a, b):
        """The gain of moving each record from one part to another."""
        if len(self.parts[a]) <= self.k or len(self.parts[b]) >= 2 * self.k - 1:
            return
        sums = [sum(self.to(x, part) for x in self.parts[part]) / 2 for part in (a, b)]
        for x in self.parts[a]:
            less = (sums[0] - self.to(x, a)) / (len(self.parts[a]) - 1)
            yield less + (sums[1] + self.to(x, b)) / (len(self.parts[b]) + 1), [(x, a, b)]

    def swaps(self, a, b):
        """The gain of swapping two records."""
        over_a, over_b = 1 / len(self.parts[a]), 1 / len(self.parts[b])
        for x in self.parts[a]:
            gain = self.to(x, b) * over_b - self.to(x, a) * over_a
            for y in self.parts[b]:
                back = self.to(y, a) * over_a - self.to(y, b) * over_b
                yield gain + back - self.apart[x][y] * (over_a + over_b), [(x, a, b), (y, b, a)]

    def improve(self, a, b):
        """The best move or swap between two parts; whether there was one that pays."""
        loss_a, loss_b = (
            sum(self.to(x, part) for x in self.parts[part]) / 2 / len(self.parts[part])
            for part in (a, b)
        )
        best, chosen = -self.gain, []
        for change, moves in (*self.moves(a, b), *self.moves(b, a)):
            if change - loss_a - loss_b < best:
                best, chosen = change - loss_a - loss_b, moves
        for change, moves in self.swaps(a, b):
            if change < best:
                best, chosen = change, moves
        for x, source, target in chosen:
            # The last one takes the place of the one that goes.
            index = self.parts[source].index(x)
            self.parts[source][index] = self.parts[source][-1]
            self.parts[source].pop()
            self.parts[target].append(x)
        return bool(chosen)

    def descend(self):
        """All changes that pay, until there is none."""
        changed = True
        while changed:
            changed = False
            for a in range(len(self.parts)):
                for b in range(a + 1, len(self.parts)):
                    while self.improve(a, b):
                        changed = True


def passed(points, labels, k):
    """The labels after the pass, of classes of k to 2k-1 records."""
    classes = [np.flatnonzero(labels == label).tolist() for label in np.unique(labels)]
    centres = np.array([sum(points[i] * (1.0 / len(part)) for i in part) for part in classes])
    every = np.arange(len(classes))
    near = [nearest(centres, every[every != c], centres[c], NEAR).tolist() for c in every]
    return _passed(np.array([distances(points, point) for point in points]), classes, near, k)


def passed_apart(squares, labels, k):
    """The same of records of which squared distances are known, int64 (n, n), and nothing else.

    Classes near one are those that hold most of the records nearest to its own.
    """
    squares = squares.astype(float)
    classes = [np.flatnonzero(labels == label).tolist() for label in np.unique(labels)]
    every, near = np.arange(len(squares)), []
    for at, part in enumerate(classes):
        n_held = np.zeros(len(classes), int)
        for record in part:
            order = np.lexsort((every, squares[record]))
            for other in [i for i in order if i != record][:TARGETS]:
                n_held[labels[other]] += 1
        n_held[at] = 0
        near.append([c for c in np.lexsort((np.arange(len(n_held)), -n_held)) if n_held[c]][:NEAR])
    return _passed(squares, classes, near, k)


def _passed(apart, classes, near, k):
    # The number of the pool that changed a class last, and of the last one around it.
    changed, seen, pools = [0] * len(classes), [-1] * len(classes), 0
    for _ in range(SWEEPS if len(classes) > 1 else 0):
        for at in range(len(classes)):
            if max(changed[c] for c in (at, *near[at])) <= seen[at]:
                continue
            chosen, records = [at], len(classes[at])
            for c in near[at]:
                records += len(classes[c])
                if records > max(POOLED, 2 * (2 * k - 1)):
                    break
                chosen.append(c)
            pooled = [record for c in chosen for record in classes[c]]
            pool = Pool(apart[np.ix_(pooled, pooled)], [len(classes[c]) for c in chosen], k)
            pool.descend()
            pools += 1
            for c, part in zip(chosen, pool.parts, strict=True):
                members = [pooled[x] for x in sorted(part)]
                if set(members) != set(classes[c]):
                    changed[c] = pools
                classes[c] = members
            seen[at] = pools
    out = np.empty(len(apart), np.int64)
    for label, part in enumerate(classes):
        out[part] = label
    return numbered(out)
