"""Moments and entropies of columns by SQL that all databases read. Nothing of a single row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dbanon.measures.alone import Side
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.session import Session

_NUMBER = "CAST({} AS DOUBLE PRECISION)"


def side_of(session: Session, relation: RelationName, names: Sequence[str]) -> Side:
    """Means and covariances of columns that hold numbers."""
    p = len(names)
    numbers = [_NUMBER.format(quote(name)) for name in names]
    asked = ", ".join(f"avg({x}), min({x}), max({x})" for x in numbers)
    [row] = session.rows(f"SELECT {asked} FROM {relation.quoted}")
    found = np.array([np.nan if value is None else float(value) for value in row]).reshape(p, 3)
    means = found[:, 0]
    covariances = np.full((p, p), np.nan)
    # Around the means: the sums of squares of large numbers would not tell how they spread.
    centred = ", ".join(f"{x} - {_NUMBER.format('?')} AS c{i}" for i, x in enumerate(numbers))
    for i in range(p):
        pairs = ", ".join(
            f"count(c{i} + c{j}), sum(c{i} + 0 * c{j}), sum(c{j} + 0 * c{i}), sum(c{i} * c{j})"
            for j in range(i, p)
        )
        [row] = session.rows(
            f"SELECT {pairs} FROM (SELECT {centred} FROM {relation.quoted}) AS t",
            tuple(float(mean) for mean in np.nan_to_num(means)),
        )
        for at, j in enumerate(range(i, p)):
            count, one, other, product = row[4 * at : 4 * at + 4]
            if count and int(count) > 1:
                n = int(count)
                covariances[i, j] = covariances[j, i] = (
                    float(product) - float(one) * float(other) / n
                ) / (n - 1)
    with np.errstate(invalid="ignore"):
        return Side(means, covariances, found[:, 1] < found[:, 2])


def rows_of(session: Session, relation: RelationName) -> int:
    """The number of rows."""
    return int(session.rows(f"SELECT count(*) FROM {relation.quoted}")[0][0])


def class_sizes(session: Session, relation: RelationName, names: Sequence[str]) -> dict[int, int]:
    """How many classes of rows there are of each size."""
    columns = ", ".join(map(quote, names))
    found = session.rows(
        "SELECT size, count(*) FROM (SELECT count(*) AS size"
        f" FROM {relation.quoted} GROUP BY {columns}) AS classes GROUP BY size ORDER BY size"
    )
    return {int(size): int(classes) for size, classes in found}


def entropy_of(session: Session, relation: RelationName, name: str) -> float:
    """The entropy of a column of text, in bits; NULLs are left out."""
    column = quote(name)
    found = session.rows(
        "SELECT n, count(*) FROM (SELECT count(*) AS n"
        f" FROM {relation.quoted} WHERE {column} IS NOT NULL GROUP BY {column}) AS held GROUP BY n"
    )
    sizes = np.array([float(n) for n, _ in found])
    often = np.array([float(count) for _, count in found])
    total = float((sizes * often).sum())
    shares = sizes / total if total else sizes
    return float(-(often * shares * np.log2(shares)).sum()) + 0.0
