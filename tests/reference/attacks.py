"""Attacks by their definitions, record by record, on tables of plain values."""

from __future__ import annotations

import math
from collections.abc import Sequence

Row = Sequence[float | str]
# A number's tolerance; labels are of tolerance 0.
Widths = Sequence[float]


def wilson(right: int, guesses: int, z: float) -> tuple[float, float]:
    """The shares p for which |right/guesses - p| is z deviations of p, by bisection."""
    share = right / guesses

    def beyond(p: float) -> bool:
        return abs(share - p) > z * math.sqrt(p * (1 - p) / guesses)

    ends = []
    for outside in (0.0, 1.0):
        inside = share
        if not beyond(outside):
            ends.append(outside)
            continue
        for _ in range(200):
            middle = (outside + inside) / 2
            outside, inside = (middle, inside) if beyond(middle) else (outside, middle)
        ends.append(inside)
    return ends[0], ends[1]


def apart(row: Row, released: Row, spans: Widths, columns: Sequence[int]) -> float:
    """The sum of distances of columns: numbers by their span, others 0 or 1."""
    total = 0.0
    for at in columns:
        a, b = row[at], released[at]
        if isinstance(a, str) or isinstance(b, str):
            total += a != b
        else:
            total += abs(a - b) / spans[at]
    return total


def nearest(target: Row, rows: Sequence[Row], spans: Widths, columns: Sequence[int]) -> list[int]:
    """All rows at the smallest distance."""
    distances = [apart(target, row, spans, columns) for row in rows]
    return [at for at, distance in enumerate(distances) if distance <= min(distances) + 1e-9]


def linkable(
    target: Row, rows: Sequence[Row], spans: Widths, first: Sequence[int], second: Sequence[int]
) -> float:
    """The chance that one of the nearest by either part are one row."""
    row, released = (nearest(target, rows, spans, columns) for columns in (first, second))
    return len({*row} & {*released}) / (len(row) * len(released))


def inferable(
    target: Row, rows: Sequence[Row], spans: Widths, secret: int, tolerance: float
) -> float:
    """The chance that one of the nearest by all else tells the secret."""
    columns = [at for at in range(len(target)) if at != secret]
    near = nearest(target, rows, spans, columns)
    right = 0
    for at in near:
        a, b = target[secret], rows[at][secret]
        right += a == b if isinstance(a, str) or isinstance(b, str) else abs(a - b) <= tolerance
    return right / len(near)
