"""How often aligned rows are classified as unrelated, and shuffled rows as aligned."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

import dbanon
from benchmarks.markdown import table
from dbanon.data.partition import Partition
from dbanon.data.scales import Scale
from dbanon.measures.attributes import Numbers
from dbanon.measures.pairs import Pairs
from dbanon.release.alignment import is_unrelated

Floats = NDArray[np.float64]
ROWS = (6, 10, 20, 40, 100, 500, 2000)
KINDS = ("normal", "heavy", "alike", "few values")
MEANS = "means of classes"
NOISE = (0.5, 1.0, 2.0, 4.0, 8.0)

INTRODUCTION = """
`dbanon.evaluate` takes rows that are paired by their places for unrelated where
`dbanon.release.alignment.is_unrelated` does. It is tried here on releases by class means of normal,
heavy-tailed, correlated and few-valued columns, 1 to 13 of them, by `mdav`, by `mondrian` (up to
100 rows) and by each column alone, k from 2 to a quarter of the rows (3 of 6 to 10), and on one and
four normal columns with normal noise of several standard deviations on top: as they are, and with
their released rows in random order.
"""


def columns(kind: str, n: int, p: int, rng: np.random.Generator) -> Floats:
    """float64 (n, p): normal, heavy-tailed, correlated, or with five values."""
    normal = rng.normal(size=(n, p))
    if kind == "alike":
        return normal * 0.3 + rng.normal(size=(n, 1))
    if kind == "few values":
        return rng.integers(0, 5, (n, p)).astype(float)
    return np.exp(2 * normal) if kind == "heavy" else normal


def means(points: Floats, k: int, method: str) -> Floats:
    """The class means by ``method``, float64 (n, p)."""
    if method == "each column":
        return np.hstack([means(points[:, [j]], k, "mdav") for j in range(points.shape[1])])
    classes = dbanon.partition(points, k, method=method)
    sums = np.add.reduceat(points[classes.members], classes.starts)
    return np.asarray((sums / classes.sizes[:, None])[classes.labels])


def classified_as_unrelated(before: Floats, after: Floats) -> bool:
    """Return whether the test classifies paired rows as unrelated."""
    numbers = [
        Numbers(name=str(j), original=x, scale=Scale.of(x), released=y)
        for j, (x, y) in enumerate(zip(before.T, after.T, strict=True))
    ]
    return is_unrelated(Pairs(tuple(numbers), Partition(np.arange(len(before), dtype=np.int32))))


def releases(rng: np.random.Generator, times: int) -> Iterator[tuple[str, Floats, Floats]]:
    """Yield the kind of release, the originals and the released values."""
    for n in ROWS:
        for kind in KINDS:
            for p in (1, 2, 4, 8, 13):
                for k in (2, 3, 5, 10, 25, 100):
                    if k > max(n // 4, 3) and 2 * k > n:
                        continue
                    for method in ("mdav", "mondrian", "each column"):
                        if method == "mondrian" and n > 100:
                            continue
                        for _ in range(times):
                            points = columns(kind, n, p, rng)
                            yield MEANS, points, means(points, k, method)
        for width in NOISE:
            for p in (1, 4):
                for _ in range(10 * times):
                    points = columns("normal", n, p, rng)
                    noise = rng.normal(size=(n, p)) * width
                    yield f"noise of {width:g} deviations", points, points + noise


def run(quick: bool) -> str:
    """Measure and return the table."""
    rng = np.random.default_rng(7)
    verdicts: defaultdict[tuple[str, int], list[tuple[bool, bool]]] = defaultdict(list)
    for name, before, after in releases(rng, 1 if quick else 5):
        shuffled = after[rng.permutation(len(after))]
        verdicts[name, len(after)].append(
            (classified_as_unrelated(before, after), not classified_as_unrelated(before, shuffled))
        )
    rows = []
    for (name, n), pairs in sorted(
        verdicts.items(), key=lambda item: (item[0][0] != MEANS, item[0])
    ):
        refused, accepted = np.mean(pairs, axis=0)
        rows.append((name, f"{n:,}", len(pairs), f"{100 * refused:.1f}", f"{100 * accepted:.1f}"))
    header = ("release", "rows", "tried", "refused, aligned, %", "accepted, shuffled, %")
    return INTRODUCTION + "\n" + table(header, rows)
