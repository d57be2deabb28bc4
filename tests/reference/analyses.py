"""Analyses of weighted rows, computed plainly: a loop over rows, shares as dicts."""

import math
from fractions import Fraction
from itertools import product

import numpy as np

# Rows are dicts by column: a number, or a dict from category to share. Each has a weight, "w".


def mean(rows, column, group=None):
    """A mean and its standard error; ``group`` is a pair of column and category."""
    shares = [row["w"] * (1.0 if group is None else row[group[0]].get(group[1], 0)) for row in rows]
    total = math.fsum(shares)
    value = math.fsum(s * row[column] for s, row in zip(shares, rows, strict=True)) / total
    n = len(rows)
    variance = sum(
        (s / total * (row[column] - value)) ** 2 for s, row in zip(shares, rows, strict=True)
    )
    return value, math.sqrt(n / (n - 1) * variance)


def total(rows, column):
    """A total and its standard error: n times the variance of the rows' terms."""
    terms = [row["w"] * row[column] for row in rows]
    return math.fsum(terms), math.sqrt(len(rows) * float(np.var(terms, ddof=1)))


def quantile(rows, column, probability):
    """The quantile of a table where each row stands ``w`` times, a whole number."""
    values = sorted(value for row in rows for value in [row[column]] * int(row["w"]))
    position = Fraction(probability).limit_denominator(1000) * len(values)
    if position.denominator == 1 and position < len(values):
        return (values[int(position) - 1] + values[int(position)]) / 2
    return values[math.ceil(position) - 1]


def gini(rows, column):
    """Half of the mean absolute difference of all pairs of rows, over the mean."""
    weight = sum(row["w"] for row in rows)
    average = sum(row["w"] * row[column] for row in rows) / weight
    differences = sum(
        a["w"] * b["w"] * abs(a[column] - b[column]) for a, b in product(rows, repeat=2)
    )
    return differences / weight**2 / (2 * average)


def correlation(rows, first, second):
    """Pearson's correlation, and its error by the gradient of r in the five moments."""
    weight = math.fsum(row["w"] for row in rows)
    terms = [
        np.array([x, y, x * x, y * y, x * y])
        for x, y in ((row[first], row[second]) for row in rows)
    ]
    moments = sum(row["w"] * term for row, term in zip(rows, terms, strict=True)) / weight

    def r(m):
        return (m[4] - m[0] * m[1]) / math.sqrt((m[2] - m[0] ** 2) * (m[3] - m[1] ** 2))

    steps = np.diag(np.maximum(np.abs(moments), 1) * 1e-6)
    gradient = [(r(moments + h) - r(moments - h)) / (2 * h.sum()) for h in steps]
    changes = [
        row["w"] * float(np.dot(gradient, term - moments)) / weight
        for row, term in zip(rows, terms, strict=True)
    ]
    return r(moments), math.sqrt(len(rows) * float(np.var(changes, ddof=1)))


def rare_categories(original, released, below):
    """The rare categories of a dict of weights, those left in another one, and their error."""
    sums = sum(original.values()), sum(released.values())
    rare = [name for name, weight in original.items() if 0 < weight / sums[0] < below]
    errors = [abs(released.get(name, 0) / sums[1] * sums[0] / original[name] - 1) for name in rare]
    left = [name for name in rare if released.get(name, 0)]
    return len(rare), len(left), sum(errors) / len(errors) if errors else None


def cross_table(rows, first, second):
    """The weight of each pair of categories."""
    cells = {}
    for row in rows:
        for (a, share), (b, other) in product(row[first].items(), row[second].items()):
            cells[a, b] = cells.get((a, b), 0) + row["w"] * share * other
    return cells


def total_variation(first, second):
    """The largest difference of the shares of any set of cells."""
    sums = sum(first.values()), sum(second.values())
    return sum(
        max(first.get(cell, 0) / sums[0] - second.get(cell, 0) / sums[1], 0)
        for cell in {*first, *second}
    )


def cramers_v(cells):
    """From chi-squared of the shares."""
    weight = sum(cells.values())
    firsts, seconds = {a for a, _ in cells}, {b for _, b in cells}
    chi = 0
    for a, b in product(firsts, seconds):
        row = sum(w for (x, _), w in cells.items() if x == a) / weight
        column = sum(w for (_, y), w in cells.items() if y == b) / weight
        chi += (cells.get((a, b), 0) / weight - row * column) ** 2 / (row * column)
    return math.sqrt(chi / (min(len(firsts), len(seconds)) - 1))


def linear(design, outcome, weights):
    """Coefficients by the normal equations, and errors by the sandwich, row by row."""
    inverse = np.linalg.inv(sum(w * np.outer(x, x) for x, w in zip(design, weights, strict=True)))
    coefficients = inverse @ sum(
        w * y * x for x, y, w in zip(design, outcome, weights, strict=True)
    )
    meat = sum(
        (w * (y - x @ coefficients)) ** 2 * np.outer(x, x)
        for x, y, w in zip(design, outcome, weights, strict=True)
    )
    n = len(design)
    return coefficients, np.sqrt(np.diag(inverse @ meat @ inverse) * n / (n - 1))


def logistic(design, outcome, weights):
    """Coefficients by many small steps uphill, and errors by the sandwich, row by row."""
    weights = weights / weights.mean()
    coefficients = np.zeros(design.shape[1])
    # The information of a logistic regression is at most this.
    bound = np.linalg.inv(design.T @ (design * weights[:, None]) / 4)
    for _ in range(20_000):
        chances = 1 / (1 + np.exp(-design @ coefficients))
        step = bound @ (design.T @ (weights * (outcome - chances)))
        coefficients = coefficients + step
        if np.abs(step).max() < 1e-14:
            break
    inverse = np.linalg.inv(
        sum(
            w * p * (1 - p) * np.outer(x, x)
            for x, w, p in zip(design, weights, chances, strict=True)
        )
    )
    meat = sum(
        (w * (y - p)) ** 2 * np.outer(x, x)
        for x, y, w, p in zip(design, outcome, weights, chances, strict=True)
    )
    n = len(design)
    return coefficients, np.sqrt(np.diag(inverse @ meat @ inverse) * n / (n - 1))


def overlap(first, second):
    """The overlap of two intervals, each an estimate and its error, by Karr et al. (2006)."""
    (a, b), (c, d) = [
        (value - 1.959963984540054 * e, value + 1.959963984540054 * e)
        for value, e in (first, second)
    ]
    common = min(b, d) - max(a, c)
    return max(0.0, (common / (b - a) + common / (d - c)) / 2)


def naive_bayes(train, test, target, numbers, categories, labels):
    """The class of each row of ``test``, from the rows of ``train``, by products of chances."""
    scale = len(train) / sum(row["w"] for row in train)
    classes = sorted({label for row in train for label in row[target]})
    predicted = []
    for row in test:
        scores = {}
        for c in classes:
            members = [(scale * r["w"] * r[target].get(c, 0), r) for r in train]
            size = sum(w for w, _ in members)
            score = math.log(size / len(train))
            for column in numbers:
                everyone = [scale * r["w"] for r in train]
                middle = np.average([r[column] for r in train], weights=everyone)
                spread = np.average([(r[column] - middle) ** 2 for r in train], weights=everyone)
                m = sum(w * r[column] for w, r in members) / size
                v = sum(w * (r[column] - m) ** 2 for w, r in members) / size + 1e-9 * spread
                score -= math.log(2 * math.pi * v) / 2 + (row[column] - m) ** 2 / (2 * v)
            for column in categories:
                for label, share in row[column].items():
                    count = sum(w * r[column].get(label, 0) for w, r in members)
                    score += share * math.log((count + 1) / (size + len(labels[column])))
            scores[c] = score
        predicted.append(max(classes, key=scores.__getitem__))
    return predicted
