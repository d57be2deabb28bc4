"""Measures of a release in plain loops, from the formulas: slow and obvious."""

import math
import statistics
from itertools import combinations, combinations_with_replacement

import numpy as np

from tests.reference.evaluation_case import apart, deviation, varies, z

TIE = 1 + 1e-9


# --- losses of numbers ---------------------------------------------------------------------------


def sse_loss(case):
    columns = [c for c in case.columns if c["kind"] in ("number", "ordinal")]
    if not any(varies(c) for c in columns):
        return None
    error = total = 0.0
    for column in columns:
        cells = case.cells(column)
        before = [z(column, column["x"][i]) for i in cells]
        if len(set(before)) < 2:
            continue
        middle = statistics.fmean(before)
        total += math.fsum((value - middle) ** 2 for value in before)
        error += math.fsum(
            (z(column, column["x"][i]) - z(column, case.y(column, i))) ** 2 for i in cells
        )
    return error / total if total else 0.0


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


def _covariances(case, first, other):
    """Covariance and correlation before and after, over records that hold both; None if too few."""
    cells = sorted(set(case.cells(first)) & set(case.cells(other)))
    if len(cells) < 2:
        return None
    covariances = []
    for value in (lambda c, i: c["x"][i], case.y):
        a = [z(first, value(first, i)) for i in cells]
        b = [z(other, value(other, i)) for i in cells]
        covariance = float(np.cov(a, b)[0, 1])
        width = math.sqrt(np.var(a, ddof=1) * np.var(b, ddof=1))
        flat = len(set(a)) < 2 or len(set(b)) < 2
        covariances.append((covariance, 0.0 if flat or not width else covariance / width))
    return covariances


def structure(case):
    """A, B, mean change of covariances."""
    relative, absolute, together = [], [], []
    for first, other in combinations_with_replacement(case.numbers(), 2):
        covariances = _covariances(case, first, other)
        both = varies(first) and varies(other)
        flat = any(len({c["x"][i] for i in case.cells(c)}) < 2 for c in (first, other))
        if covariances and both and not flat:
            (v, r), (v_after, _) = covariances
            absolute.append(abs(v - v_after))
            if abs(r) > 1e-13:
                relative.append(abs(v - v_after) / abs(v))
    for first, other in combinations(case.numbers(), 2):
        covariances = _covariances(case, first, other)
        # A constant column has nothing to lose.
        flat = any(len({c["x"][i] for i in case.cells(c)}) < 2 for c in (first, other))
        if covariances and not flat and varies(first) and varies(other):
            (_, r), (_, r_after) = covariances
            together.append(abs(r - r_after))
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


# --- losses by the distance of eq. (11), and entropy ----------------------------------------------


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
    """The released values of a record, with anything else that distinguishes it."""
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
        own_distance, least = _distance(case, i, i), min(distances)
        beyond = [distance for distance in distances if distance > least * TIE]
        first.append(own_distance <= least * TIE)
        linked.append(own_distance <= min(beyond, default=least) * TIE)
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
