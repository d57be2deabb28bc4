"""Levels of privacy models of one class against its table, from their definitions alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, inf, log
from typing import Any

Counts = Mapping[Any, int]

AT_LEAST = ("distinct_l", "entropy_l")


def counts_of(values: Sequence[Any]) -> dict[Any, int]:
    counts: dict[Any, int] = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    return counts


def in_order(values: Sequence[Any], numbers: bool) -> list[Any]:
    """Numbers by size, other values as their texts go, NULL last."""
    known = sorted({v for v in values if v is not None}, key=float if numbers else None)
    return known + [None] * (None in values)


def level(model: Mapping[str, Any], counts: Counts, whole: Counts, numbers: bool = False) -> float:
    """The level that a class keeps to."""
    n, total = sum(counts.values()), sum(whole.values())
    q = {value: count / n for value, count in counts.items()}
    p = {value: count / total for value, count in whole.items()}
    kind = model["kind"]
    if kind == "distinct_l":
        return len(counts)
    if kind == "entropy_l":
        return exp(-sum(share * log(share) for share in q.values()))
    if kind == "recursive_cl":
        falling = sorted(counts.values(), reverse=True)
        rest = sum(falling[model.get("l", 2) - 1 :])
        return falling[0] / rest if rest else inf
    if kind == "alpha_k":
        return max(q.values())
    if kind == "beta_likeness":
        return max(share / p[value] - 1 for value, share in q.items())
    if kind == "delta_disclosure":
        return max(abs(log(share / p[value])) for value, share in q.items())
    if model.get("distance", "equal") == "equal":
        return sum(abs(q.get(value, 0) - share) for value, share in p.items()) / 2
    running = moved = 0.0
    for value in in_order(list(p), numbers):
        running += q.get(value, 0) - p[value]
        moved += abs(running)
    return moved / max(len(p) - 1, 1)


def keeps(model: Mapping[str, Any], reached: float, slack: float) -> bool:
    """Whether a level is the one wanted, or a stronger one."""
    if model["kind"] in AT_LEAST:
        return reached >= model["level"] - slack
    return reached <= model["level"] + slack
