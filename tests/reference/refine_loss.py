"""The plain version of generalization's local search: slow, obvious, equal to the kernel record by
record. Without privacy models.
"""

from bisect import bisect_right
from functools import cache
from operator import mul

import numpy as np

from tests.reference.generalization import Chance, Records
from tests.reference.swaps import swaps

NEIGHBOURS = 12
NOISE = (0.0, 0.8, 1.6, 3.2, 6.4)
NEVER = float("inf")


class Shape:
    """The ends of some records in each attribute, and what their loss needs."""

    def __init__(self, search, row, copies):
        self.search, self.low, self.high, self.size = search, row, row, copies
        self.shares = [copies * share for share in search.shares(row)]

    @classmethod
    def of(cls, search, low, high, size, shares):
        shape = object.__new__(cls)
        shape.search, shape.low, shape.high = search, low, high
        shape.size, shape.shares = size, shares
        return shape

    def with_(self, other):
        return Shape.of(
            self.search,
            tuple(map(min, self.low, other.low)),
            tuple(map(max, self.high, other.high)),
            self.size + other.size,
            [a + b for a, b in zip(self.shares, other.shares, strict=True)],
        )

    def less(self, row, copies):
        """The same width with fewer records."""
        shares = [a - copies * b for a, b in zip(self.shares, self.search.shares(row), strict=True)]
        return Shape.of(self.search, self.low, self.high, self.size - copies, shares)

    def loss(self):
        total = 0
        for a, tree in enumerate(self.search.trees):
            low, high = self.low[a], self.high[a]
            if low == high:
                continue
            if tree is None:
                total += self.size * self.search.width(a, low, high)
            else:
                total += self.size * self.search.units[a] - tree.common(low, high) * self.shares[a]
        return total


class Search(Records):
    def __init__(self, space, labels, k, seed):
        super().__init__(space)
        self.k, self.chance = k, Chance(seed)
        self.most = min(max(4 * min(k, 400), 72), 400)
        self.firsts, self.costs = tables(space.label_costs)
        self.shares = cache(self.shares)
        places = {}
        for i, row in enumerate(self.codes):
            places.setdefault(tuple(row), []).append(i)
        self.rows, self.copies = list(places), list(places.values())
        self.collect(labels)

    def shares(self, row):
        return [
            0 if tree is None or not tree.depths[leaf] else tree.unit // tree.depths[leaf]
            for tree, leaf in zip(self.trees, row, strict=True)
        ]

    def width(self, a, low, high):
        first = self.firsts[a]
        if not first:
            return high - low
        ends = [max(bisect_right(first, code) - 1, 0) for code in (low, high)]
        return (self.costs[a][ends[0]][ends[1]] >> 1) + (high - low >> 1)

    def collect(self, labels):
        self.classes = [[] for _ in range(int(max(labels)) + 1)]
        self.withheld = {i for i, label in enumerate(labels) if label < 0}
        for t, copies in enumerate(self.copies):
            for label in labels[copies]:
                if label < 0:
                    continue
                entries = self.classes[label]
                if entries and entries[-1][0] == t:
                    entries[-1][1] += 1
                else:
                    entries.append([t, 1])
        self.free, pure = [], {}
        for c, entries in enumerate(self.classes):
            if len(entries) != 1:
                continue
            t, count = entries[0]
            if t in pure:
                self.classes[pure[t]][0][1] += count
                self.classes[c] = []
                self.free.append(c)
            else:
                pure[t] = c
        self.classes_of = [[] for _ in self.rows]
        for c, entries in enumerate(self.classes):
            for t, _ in entries:
                self.classes_of[t].append(c)
        self.losses = [self.loss_of(entries) for entries in self.classes]

    def loss_of(self, entries):
        return self.joined(entries).loss() if entries else 0

    def joined(self, entries):
        columns = list(zip(*(self.rows[t] for t, _ in entries), strict=True))
        counts = [count for _, count in entries]
        shares = zip(*(self.shares(self.rows[t]) for t, _ in entries), strict=True)
        return Shape.of(
            self,
            tuple(map(min, columns)),
            tuple(map(max, columns)),
            sum(counts),
            [sum(map(mul, counts, of_column)) for of_column in shares],
        )

    def run(self, rounds):
        near = min(NEIGHBOURS, len(self.rows) - 1)
        first = [copies[0] for copies in self.copies]
        self.neighbours = [
            sorted(
                (t for t in range(len(first)) if t != cluster),
                key=lambda t: (self.distance(first[t], [first[cluster]]), t),
            )[:near]
            for cluster in range(len(first))
        ]
        swaps(self)
        for _ in range(rounds):
            pool = self.choose(near)
            if pool:
                before = sum(self.losses[c] for c in pool)
                self.gather(pool)
                self.agglomerate()
                self.move()
                self.join_same()
                all_large = not any(self.small(i) for i in self.alive)
                if all_large and sum(self.lost[i] for i in self.alive) <= before:
                    self.keep(pool)
        return self.labels()

    def labels(self):
        left = [[i for i in copies if i not in self.withheld] for copies in self.copies]
        owner = {}
        for c, entries in enumerate(self.classes):
            for t, count in entries:
                owner.update(dict.fromkeys(left[t][:count], c))
                del left[t][:count]
        labels = np.full(len(self.codes), -1, np.int32)
        number = {}
        for i in sorted(owner):
            labels[i] = number.setdefault(owner[i], len(number))
        return labels

    def choose(self, near):
        if not self.classes:
            return []
        below = self.chance.below
        c = below(len(self.classes))
        if self.losses[c] == 0 or len(self.classes[c]) > self.most // 2:
            return []
        pool, entries = [c], len(self.classes[c])
        pool_size = 2 + below(7)
        for _ in range(4 * pool_size):
            if len(pool) == pool_size:
                break
            source = self.classes[pool[below(len(pool))]]
            t = source[below(len(source))][0]
            step = below(near + 1)
            if step:
                t = self.neighbours[t][step - 1]
            holding = self.classes_of[t]
            if not holding:
                continue
            other = holding[below(len(holding))]
            more = len(self.classes[other])
            if other in pool or entries + more > self.most:
                continue
            entries += more
            pool.append(other)
        return pool

    def gather(self, pool):
        counts = {}
        for c in pool:
            for t, count in self.classes[c]:
                counts[t] = counts.get(t, 0) + count
        # Entries are tuple, copies and the cluster that they are in.
        self.entries = [[t, count, e] for e, (t, count) in enumerate(counts.items())]
        self.shape = [Shape(self, self.rows[t], count) for t, count, _ in self.entries]
        self.alive = list(range(len(self.entries)))
        self.lost = [0] * len(self.entries)
        self.best = [-1] * len(self.entries)
        self.prices = [NEVER] * len(self.entries)

    def small(self, i):
        return self.shape[i].size < self.k

    def lends(self, j):
        """Copies of one tuple lend what they have above k."""
        _, count, owner = self.entries[j]
        return owner == j and count == self.shape[j].size and count > self.k

    def price(self, i, j):
        if self.lends(j):
            lent = min(self.k - self.shape[i].size, self.shape[j].size - self.k)
            more = Shape(self, self.rows[self.entries[j][0]], lent)
            increase = self.shape[i].with_(more).loss() - self.lost[i]
        else:
            increase = self.shape[i].with_(self.shape[j]).loss() - self.lost[i] - self.lost[j]
        return float(increase) * (1.0 + self.noise * self.chance.share())

    def cheapest(self, i):
        self.best[i], self.prices[i] = -1, NEVER
        for j in self.alive:
            if j != i and (value := self.price(i, j)) < self.prices[i]:
                self.best[i], self.prices[i] = j, value

    def agglomerate(self):
        self.noise = NOISE[self.chance.below(5)]
        for i in self.alive:
            if self.small(i):
                self.cheapest(i)
        while len(self.alive) > 1:
            chosen = min(self.alive, key=lambda i: self.prices[i])
            if self.prices[chosen] == NEVER:
                break
            self.unite(chosen, self.best[chosen])

    def unite(self, i, j):
        if self.lends(j):
            lent = min(self.k - self.shape[i].size, self.shape[j].size - self.k)
            t = self.entries[j][0]
            self.shape[i] = self.shape[i].with_(Shape(self, self.rows[t], lent))
            self.shape[j] = self.shape[j].less(self.rows[t], lent)
            self.entries[j][1] -= lent
            self.entries.append([t, lent, i])
        else:
            self.shape[i] = self.shape[i].with_(self.shape[j])
            for entry in self.entries:
                if entry[2] == j:
                    entry[2] = i
            self.alive.remove(j)
            self.prices[j] = NEVER
        self.lost[i] = self.shape[i].loss()
        self.prices[i] = NEVER
        if self.small(i):
            self.cheapest(i)
        for other in self.alive:
            if other == i or not self.small(other):
                continue
            if self.best[other] in (i, j):
                self.cheapest(other)
            elif (value := self.price(other, i)) < self.prices[other]:
                self.best[other], self.prices[other] = i, value

    def move(self):
        for _ in range(4):
            moved = False
            e = -1
            while (e := e + 1) < len(self.entries):
                t, count, cluster = self.entries[e]
                copies = min(self.shape[cluster].size - self.k, count)
                if copies <= 0 or not self.lost[cluster]:
                    continue
                if copies == count:
                    others = [x[:2] for x in self.entries if x[2] == cluster and x[1]]
                    others.remove([t, count])
                    remainder = self.joined(others)
                else:
                    remainder = self.shape[cluster].less(self.rows[t], copies)
                gain = least = self.lost[cluster] - remainder.loss()
                point, target = Shape(self, self.rows[t], copies), None
                for other in self.alive:
                    increase = self.shape[other].with_(point).loss() - self.lost[other]
                    if gain > 0 and other != cluster and increase < least:
                        least, target = increase, other
                if target is None:
                    continue
                if copies == count:
                    self.entries[e][2] = target
                else:
                    self.entries[e][1] -= copies
                    self.entries.append([t, copies, target])
                self.lost[cluster] -= gain
                self.shape[cluster] = remainder
                self.shape[target] = self.shape[target].with_(point)
                self.lost[target] += least
                moved = True
            if not moved:
                break

    def join_same(self):
        x = -1
        while (x := x + 1) < len(self.alive):
            for j in reversed(self.alive[x + 1 :]):
                i = self.alive[x]
                if (self.shape[i].low, self.shape[i].high) == (
                    self.shape[j].low,
                    self.shape[j].high,
                ):
                    self.shape[i] = self.shape[i].with_(self.shape[j])
                    self.lost[i] += self.lost[j]
                    for entry in self.entries:
                        if entry[2] == j:
                            entry[2] = i
                    self.alive.remove(j)

    def keep(self, pool):
        for c in pool:
            for t, _ in self.classes[c]:
                holding = self.classes_of[t]
                holding[holding.index(c)] = holding[-1]
                holding.pop()
            self.classes[c], self.losses[c] = [], 0
            self.free.append(c)
        for i in self.alive:
            if not self.free:
                self.free.append(len(self.classes))
                self.classes.append([])
                self.losses.append(0)
            c = self.free.pop()
            self.losses[c] = self.lost[i]
            for t, count, cluster in self.entries:
                if cluster != i or not count:
                    continue
                same = [entries for entries in self.classes[c] if entries[0] == t]
                if same:
                    same[0][1] += count
                else:
                    self.classes[c].append([t, count])
                    self.classes_of[t].append(c)


def tables(costs):
    """By attribute, the first codes of its pieces, and the table of its labels' costs."""
    firsts, labels_out = [], []
    first = cost = 0
    for w in costs.n_pieces.tolist():
        firsts.append(costs.first_codes[first : first + w].tolist())
        labels_out.append(costs.costs[cost : cost + w * w].reshape(w, w).tolist())
        first, cost = first + w, cost + w * w
    return firsts, labels_out


def refine(space, labels, k, rounds, seed):
    """The classes after so many rounds."""
    return Search(space, labels, k, seed).run(rounds)
