"""Measures of a release in plain loops, from the formulas: slow and obvious.

A case holds columns, each a dictionary: `name`, `kind`, `x` (the originals, None for NULL) and `y`
(the released value of each class, None for NULL). Kinds: `number`, `ordinal` (ranks), `nominal`,
`interval` and `ordinal interval` (y are pairs), `node` (x are leaves, y labels of the `tree`).
"""

import math
import statistics
from dataclasses import dataclass, field
from itertools import combinations, combinations_with_replacement

import numpy as np

TIE = 1 + 1e-9


@dataclass
class Case:
    columns: list
    labels: list
    strata: list | None = None
    entities: list | None = None
    groups: dict = field(default_factory=dict)

    @property
    def n(self):
        return len(self.labels)

    def y(self, column, record):
        return column["y"][self.labels[record]]

    def numbers(self):
        return [column for column in self.columns if column["kind"] == "number"]

    def all_numbers(self):
        return len(self.numbers()) == len(self.columns)

    def cells(self, column):
        """Records whose value is NULL neither before nor after."""
        return [
            i for i in range(self.n) if column["x"][i] is not None and self.y(column, i) is not None
        ]


def once(compute):
    """What is found of a column is kept in the column."""

    def kept(column):
        if compute.__name__ not in column:
            column[compute.__name__] = compute(column)
        return column[compute.__name__]

    return kept


@once
def held(column):
    return [value for value in column["x"] if value is not None]


@once
def varies(column):
    return len(set(held(column))) > 1


@once
def mean(column):
    return statistics.fmean(held(column))


@once
def deviation(column):
    return statistics.stdev(held(column))


def z(column, value):
    return (value - mean(column)) / deviation(column) if varies(column) else 0.0


# --- losses of numbers ---------------------------------------------------------------------------


def sse_loss(case):
    columns = [c for c in case.columns if c["kind"] in ("number", "ordinal")]
    if not any(varies(c) for c in columns):
        return None
    lost = whole = 0.0
    for column in columns:
        cells = case.cells(column)
        before = [z(column, column["x"][i]) for i in cells]
        if len(set(before)) < 2:
            continue
        middle = statistics.fmean(before)
        whole += math.fsum((value - middle) ** 2 for value in before)
        lost += math.fsum(
            (z(column, column["x"][i]) - z(column, case.y(column, i))) ** 2 for i in cells
        )
    return lost / whole if whole else 0.0


def distance_loss(case):
    moved = spread = 0.0
    for i in range(case.n):
        near = far = 0.0
        for column in case.numbers():
            x, y = column["x"][i], case.y(column, i)
            if x is not None and y is not None:
                near += (z(column, x) - z(column, y)) ** 2
                far += z(column, x) ** 2
        moved += math.sqrt(near)
        spread += math.sqrt(far)
    return moved / spread if spread else None


def deviation_loss(case):
    terms = []
    for column in case.numbers():
        for i in case.cells(column):
            gap = abs(column["x"][i] - case.y(column, i))
            terms.append(gap / (math.sqrt(2) * deviation(column)) if varies(column) else 0.0)
    return statistics.fmean(terms) if terms else None


def moment_loss(case):
    means, variances = [], []
    for column in case.numbers():
        cells = case.cells(column)
        if len(cells) < 2:
            continue
        before = [column["x"][i] for i in cells]
        after = [case.y(column, i) for i in cells]
        middle = statistics.fmean(before)
        if abs(middle) > 1e-15 * max(map(abs, before)):
            means.append(abs(middle - statistics.fmean(after)) / abs(middle))
        if len(set(before)) > 1:
            variance = statistics.variance(before)
            variances.append(abs(variance - statistics.variance(after)) / variance)
    if not means or not variances:
        return None
    return (statistics.fmean(means) + statistics.fmean(variances)) / 2


def _covariances(case, one, other):
    """Covariance and correlation before and after, over records that hold both; None if too few."""
    cells = sorted(set(case.cells(one)) & set(case.cells(other)))
    if len(cells) < 2:
        return None
    found = []
    for value in (lambda c, i: c["x"][i], case.y):
        a = [z(one, value(one, i)) for i in cells]
        b = [z(other, value(other, i)) for i in cells]
        covariance = float(np.cov(a, b)[0, 1])
        width = math.sqrt(np.var(a, ddof=1) * np.var(b, ddof=1))
        flat = len(set(a)) < 2 or len(set(b)) < 2
        found.append((covariance, 0.0 if flat or not width else covariance / width))
    return found


def structure(case):
    """A, B, mean change of covariances."""
    relative, absolute, together = [], [], []
    for one, other in combinations_with_replacement(case.numbers(), 2):
        found = _covariances(case, one, other)
        both = varies(one) and varies(other)
        flat = any(len({c["x"][i] for i in case.cells(c)}) < 2 for c in (one, other))
        if found and both and not flat:
            (v, r), (v_after, _) = found
            absolute.append(abs(v - v_after))
            if abs(r) > 1e-13:
                relative.append(abs(v - v_after) / abs(v))
    for one, other in combinations(case.numbers(), 2):
        found = _covariances(case, one, other)
        if found:
            (_, r), (_, r_after) = found
            together.append(abs(r - r_after))
        else:
            together.append(0.0)
    return [statistics.fmean(terms) if terms else None for terms in (relative, together, absolute)]


def structure_loss(case):
    a, b, _ = structure(case)
    if a is None:
        return None
    return a if b is None else (a + b) / 2


def correlation_loss(case):
    return structure(case)[1] if case.numbers() and case.n > 1 else None


def covariance_loss(case):
    return structure(case)[2]


# --- distances of eq. (11) -----------------------------------------------------------------------


@once
def ladder(column):
    return sorted(set(held(column)))


def place(column, value):
    return sum(other < value for other in ladder(column)) / max(len(ladder(column)), 1)


@once
def width(column):
    return max(held(column)) - min(held(column))


@once
def heights(column):
    """The height of each node by label: edges down to its deepest leaf."""
    tree, found = column["tree"], {}
    for leaf in tree.leaves.tolist():
        for height, label in enumerate(tree.path(tree.labels[leaf])):
            found[label] = max(found.get(label, 0), height)
    return found


def apart(column, x, y):
    if x is None or y is None:
        return 0.0
    kind = column["kind"]
    if kind == "nominal":
        return float(x != y)
    if kind == "node":
        tree, height = column["tree"], heights(column)
        above = next(label for label in tree.path(x) if label in tree.path(y))
        return (height[above] - height[y]) / max(max(height.values()), 1)
    if kind.startswith("ordinal"):
        ends = [place(column, value) for value in (y if kind.endswith("interval") else (y, y))]
        at = place(column, x)
        return max(ends[0] - at, at - ends[1], 0.0)
    low, high = y if kind == "interval" else (y, y)
    return max(low - x, x - high, 0.0) / width(column) if width(column) else 0.0


def zil(case):
    return math.fsum(apart(c, c["x"][i], case.y(c, i)) for c in case.columns for i in case.cells(c))


def direct_loss(case):
    cells = sum(len(case.cells(column)) for column in case.columns)
    return zil(case) / cells if cells else None


def bits(values):
    counts = [values.count(value) for value in set(values)]
    return -sum(c / len(values) * math.log2(c / len(values)) for c in counts)


def _categorical(case):
    for column in case.columns:
        if column["kind"] in ("nominal", "ordinal", "node"):
            cells = case.cells(column)
            before = [column["x"][i] for i in cells]
            yield column, before, [case.y(column, i) for i in cells]


def entropy_change(case):
    totals, some = [0.0, 0.0], False
    for column, before, after in _categorical(case):
        some = True
        levels = sorted(set(before)) if column["kind"] == "ordinal" else []
        for side, values in enumerate((before, after)):
            if column["kind"] != "ordinal":
                totals[side] += bits(values) if values else 0.0
                continue
            for level in levels[:-1]:
                share = sum(value <= level for value in values) / len(values)
                for p in (share, 1 - share):
                    totals[side] -= p * math.log2(p) / (len(levels) - 1) if p > 0 else 0.0
    if not some:
        return None
    return 100 * abs(totals[0] - totals[1]) / totals[0] if totals[0] else 0.0


def entropy_loss(case):
    shares = []
    for _, before, after in _categorical(case):
        if len(set(before)) > 1:
            both = list(zip(before, after, strict=True))
            shares.append((bits(both) - bits(after)) / bits(before))
    return statistics.fmean(shares) if shares else None


# --- risks ---------------------------------------------------------------------------------------


def _group(case, record, released):
    key = (record, released)
    if key not in case.groups:
        case.groups[key] = _group_of(case, record, released)
    return case.groups[key]


def _group_of(case, record, released):
    stratum = None if case.strata is None else case.strata[record]
    if released:
        first = case.labels.index(case.labels[record])
        stratum = None if case.strata is None else case.strata[first]
        return stratum, tuple(case.y(c, record) is None for c in case.columns)
    return stratum, tuple(c["x"][record] is None for c in case.columns)


def _row(case, record):
    """What a record is released as, with what tells apart beside the values."""
    return (_group(case, record, True), tuple(case.y(c, record) for c in case.columns))


def _distance(case, original, released):
    """Squared and Euclidean for numbers, else the sum of eq. (11)."""
    total = 0.0
    for column in case.columns:
        x, y = column["x"][original], case.y(column, released)
        if case.all_numbers():
            if x is not None and y is not None:
                total += (z(column, x) - z(column, y)) ** 2
        else:
            total += apart(column, x, y)
    return total


def sizes(case):
    """Rows, or persons, of each row that is released."""
    rows = [_row(case, i) for i in range(case.n)]
    if case.entities is None:
        return {row: rows.count(row) for row in rows}
    return {
        row: len({case.entities[i] for i in range(case.n) if rows[i] == row}) for row in set(rows)
    }


def class_risk(case):
    return 1 / min(sizes(case).values())


def linkage_risk(case):
    """Also the share whose own class is among the nearest."""
    counts = sizes(case)
    firsts = {_row(case, i): i for i in range(case.n)}
    shares, rights = [], []
    for i in range(case.n):
        near = {
            row: _distance(case, i, first)
            for row, first in firsts.items()
            if row[0] == _group(case, i, False)
        }
        least = min(near.values(), default=0.0)
        nearest = [row for row, distance in near.items() if distance <= least * TIE]
        right = _row(case, i) in nearest
        rights.append(right)
        shares.append(right / sum(counts[row] for row in nearest) if nearest else 0.0)
    return statistics.fmean(shares), statistics.fmean(rights)


def nearest_linkage_risk(case):
    """Also the share at the smallest distance."""
    linked, first = [], []
    for i in range(case.n):
        group = _group(case, i, True)
        others = [j for j in range(case.n) if _group(case, j, False) == group]
        distances = [_distance(case, j, i) for j in others]
        if i not in others:
            linked.append(False)
            first.append(False)
            continue
        own, least = _distance(case, i, i), min(distances)
        beyond = [distance for distance in distances if distance > least * TIE]
        first.append(own <= least * TIE)
        linked.append(own <= min(beyond, default=least) * TIE)
    return statistics.fmean(linked), statistics.fmean(first)


def interval_risk(case, percents=range(1, 11)):
    if not case.numbers() or not case.all_numbers():
        return None
    counted = [i for i in range(case.n) if any(i in case.cells(c) for c in case.columns)]
    if not counted:
        return None
    curve = []
    for percent in percents:
        h = percent * case.n // 200
        inside = 0
        for i in counted:
            inside += all(
                _inside(case, column, i, h) for column in case.columns if i in case.cells(column)
            )
        curve.append(inside / len(counted))
    return statistics.fmean(curve)


def _inside(case, column, record, h):
    ranked = sorted(case.y(column, i) for i in case.cells(column))
    value = case.y(column, record)
    low = ranked.index(value)
    high = low + ranked.count(value) - 1
    ends = ranked[max(low - h, 0)], ranked[min(high + h, len(ranked) - 1)]
    return ends[0] <= column["x"][record] <= ends[1]


def security_ratio(case, epsilon=0.1):
    lowest = []
    for column in case.numbers():
        if not varies(column):
            continue
        for label in set(case.labels):
            cells = [i for i in case.cells(column) if case.labels[i] == label]
            if cells:
                safe = [
                    abs(column["x"][i] - case.y(column, i)) >= epsilon * deviation(column)
                    for i in cells
                ]
                lowest.append(statistics.fmean(safe))
    return min(lowest, default=None)
