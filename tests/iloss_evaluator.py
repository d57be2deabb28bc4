"""iloss computed from its definition with sets and dictionaries, without the package's code."""

import csv
from fractions import Fraction


def read_paths(path):
    """Each leaf's labels up to the root, from an ARX file."""
    with open(path, newline="", encoding="utf-8") as file:
        return {row[0]: row for row in csv.reader(file, delimiter=";")}


def iloss(rows, labels, paths):
    """rows: lists of values. labels: a class each. paths: by column, None for a number."""
    classes = {}
    for row, label in zip(rows, labels, strict=True):
        classes.setdefault(int(label), []).append(row)
    total = Fraction(0)
    for column, ways in enumerate(paths):
        if ways is None:
            numbers = [int(row[column]) for row in rows]
            full_range = max(numbers) - min(numbers)
        for members in classes.values():
            values = [row[column] for row in members]
            if ways is None:
                inside = [int(value) for value in values]
                total += Fraction(len(members) * (max(inside) - min(inside)), full_range)
                continue
            common = set.intersection(*(set(ways[value]) for value in set(values)))
            for value in values:
                path = ways[value]
                climbed = min(path.index(label) for label in common)
                total += Fraction(climbed, len(path) - 1)
    return float(total)


def published_iloss(rows, released, paths):
    """The loss of the labels themselves; whole numbers may be released as ``[30, 32)``, ``[30,
    31]`` or ``30``, and the first two cover 30 and 31.

    released: rows of labels, corresponding to the original rows.
    """
    total = Fraction(0)
    for column, ways in enumerate(paths):
        if ways is None:
            numbers = [int(row[column]) for row in rows]
            full_range = max(numbers) - min(numbers)
        for row, labels in zip(rows, released, strict=True):
            label = labels[column]
            if ways is None:
                ends = [int(end) for end in label.strip("[)]").split(", ")]
                first, last = ends[0], ends[-1] - label.endswith(")")
                if not first <= int(row[column]) <= last:
                    raise ValueError("a label does not hold its value")
                total += min(Fraction(last - first, full_range), Fraction(1))
            else:
                path = ways[row[column]]
                total += Fraction(path.index(label), len(path) - 1)
    return float(total)
