"""Levels of privacy models of one class against its table, from their definitions alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf, log
from typing import Any

Counts = Mapping[Any, int]

AT_LEAST = ("distinct_l", "entropy_l")


def in_order(values: Sequence[Any], numbers: bool) -> list[Any]:
    """Numbers by size, other values as their texts go, NULL last."""
    known = sorted({v for v in values if v is not None}, key=float if numbers else None)
    return known + [None] * (None in values)


@dataclass(frozen=True)
class Persons:
    """How many persons there are, and how many of these have each value, some of them several."""

    n: int
    having: Counts

    @classmethod
    def of(cls, held: Sequence[tuple[Any, Any]]) -> Persons:
        """Of pairs of person and value."""
        return cls(len({person for person, _ in held}), Counter(value for _, value in set(held)))

    @classmethod
    def all_of(cls, classes: Sequence[Persons]) -> Persons:
        """A person is one in each class."""
        having: dict[Any, int] = {}
        for one in classes:
            for value, count in one.having.items():
                having[value] = having.get(value, 0) + count
        return cls(sum(one.n for one in classes), having)

    def falling(self) -> list[int]:
        """Each person with one of their values, so that few values have as many as they can."""
        found, left = [], self.n
        for count in sorted(self.having.values(), reverse=True):
            found.append(min(count, left))
            left -= found[-1]
        return [count for count in found if count]


def level(model: Mapping[str, Any], one: Persons, whole: Persons, numbers: bool = False) -> float:
    """The level that a class keeps to; see "Models of persons" in docs/guarantees.md.

    Where rows are counted, each is a person with one value.
    """
    q = {value: count / one.n for value, count in one.having.items()}
    p = {value: count / whole.n for value, count in whole.having.items()}
    kind = model["kind"]
    if kind == "distinct_l":
        return len(one.falling())
    if kind == "entropy_l":
        shares = [count / one.n for count in one.falling()]
        return exp(-sum(share * log(share) for share in shares))
    if kind == "recursive_cl":
        falling = sorted(one.having.values(), reverse=True)
        rest = one.n - sum(falling[: model.get("l", 2) - 1])
        return falling[0] / rest if rest > 0 else inf
    if kind == "alpha_k":
        return max(q.values())
    if kind == "beta_likeness":
        return max(share / p[value] - 1 for value, share in q.items())
    if kind == "delta_disclosure":
        return max(abs(log(share / p[value])) for value, share in q.items())
    apart = [q.get(value, 0) - p[value] for value in in_order(list(p), numbers)]
    if model.get("distance", "equal") == "equal":
        return max(sum(d for d in apart if d > 0), -sum(d for d in apart if d < 0))
    return _moved(apart)


def _moved(apart: Sequence[float]) -> float:
    """The least that is moved between values in their order, and to having none.

    By the dual: a height for each value, in steps of what neighbours are apart, at most a step
    between neighbours and at most 1 from 0, which having none has.
    """
    steps = max(len(apart) - 1, 1)
    heights = range(-steps, steps + 1)
    best = dict.fromkeys(heights, 0.0)
    for place, share in enumerate(apart):
        before = best
        reach = 1 if place else 0
        best = {
            height: share * height / steps
            + max(before[h] for h in range(height - reach, height + reach + 1) if h in before)
            for height in heights
        }
    return max(best.values())


def keeps(model: Mapping[str, Any], reached: float, slack: float) -> bool:
    """Whether a level is the one wanted, or a stronger one."""
    if model["kind"] in AT_LEAST:
        return reached >= model["level"] - slack
    return reached <= model["level"] + slack


def levels_of(
    model: Mapping[str, Any], classes: Sequence[Sequence[Any]], numbers: bool, *, persons: bool
) -> list[float]:
    """What each class reaches, of its values, or of its pairs of person and value."""
    each = [Persons.of(held if persons else [*enumerate(held)]) for held in classes]
    together = Persons.all_of(each)
    return [level(model, one, together, numbers) for one in each]
