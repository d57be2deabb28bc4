"""The level of a privacy model in one class, computed from its definition alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf, log
from typing import Any

Counts = Mapping[Any, int]

AT_LEAST = ("distinct_l", "entropy_l")


def in_order(values: Sequence[Any], numbers: bool) -> list[Any]:
    """Numbers by value, other values by their text, NULL last."""
    ordered = sorted({v for v in values if v is not None}, key=float if numbers else None)
    return ordered + [None] * (None in values)


@dataclass(frozen=True)
class Persons:
    """The number of persons and, per value, the number of persons who have it."""

    n: int
    having: Counts

    @classmethod
    def of(cls, pairs: Sequence[tuple[Any, Any]]) -> Persons:
        """Count pairs of person and value."""
        return cls(len({person for person, _ in pairs}), Counter(value for _, value in set(pairs)))

    @classmethod
    def all_of(cls, classes: Sequence[Persons]) -> Persons:
        """Combine classes; no person is in two of them."""
        having: dict[Any, int] = {}
        for persons in classes:
            for value, count in persons.having.items():
                having[value] = having.get(value, 0) + count
        return cls(sum(persons.n for persons in classes), having)

    def falling(self) -> list[int]:
        """Give each person one of their values, so that few values have as many persons as
        possible.
        """
        counts, left = [], self.n
        for count in sorted(self.having.values(), reverse=True):
            counts.append(min(count, left))
            left -= counts[-1]
        return [count for count in counts if count]


def level(
    model: Mapping[str, Any], persons: Persons, everyone: Persons, numbers: bool = False
) -> float:
    """The level that a class reaches; see "Models of persons" in docs/guarantees.md.

    If rows are counted, each row is a person with one value.
    """
    q = {value: count / persons.n for value, count in persons.having.items()}
    p = {value: count / everyone.n for value, count in everyone.having.items()}
    kind = model["kind"]
    if kind == "distinct_l":
        return len(persons.falling())
    if kind == "entropy_l":
        shares = [count / persons.n for count in persons.falling()]
        return exp(-sum(share * log(share) for share in shares))
    if kind == "recursive_cl":
        falling = sorted(persons.having.values(), reverse=True)
        remainder = persons.n - sum(falling[: model.get("l", 2) - 1])
        return falling[0] / remainder if remainder > 0 else inf
    if kind == "alpha_k":
        return max(q.values())
    if kind == "beta_likeness":
        return max(share / p[value] - 1 for value, share in q.items())
    if kind == "delta_disclosure":
        return max(abs(log(share / p[value])) for value, share in q.items())
    apart = [q.get(value, 0) - p[value] for value in in_order(list(p), numbers)]
    if model.get("distance", "equal") == "equal":
        return max(sum(d for d in apart if d > 0), -sum(d for d in apart if d < 0))
    return _moved_mass(apart)


def _moved_mass(apart: Sequence[float]) -> float:
    """The minimum mass to move between ordered values, or to having no value.

    Computed from the dual: a height for each value that differs by at most a step between
    neighbours, and by at most 1 from 0, the height of having no value.
    """
    steps = max(len(apart) - 1, 1)
    heights = range(-steps, steps + 1)
    best = dict.fromkeys(heights, 0.0)
    for index, share in enumerate(apart):
        before = best
        reach = 1 if index else 0
        best = {
            height: share * height / steps
            + max(before[h] for h in range(height - reach, height + reach + 1) if h in before)
            for height in heights
        }
    return max(best.values())


def keeps(model: Mapping[str, Any], reached: float, slack: float) -> bool:
    """Whether a level meets the requested one."""
    if model["kind"] in AT_LEAST:
        return reached >= model["level"] - slack
    return reached <= model["level"] + slack


def levels_of(
    model: Mapping[str, Any], classes: Sequence[Sequence[Any]], numbers: bool, *, persons: bool
) -> list[float]:
    """The level of each class, given its values, or its pairs of person and value."""
    each = [Persons.of(pairs if persons else [*enumerate(pairs)]) for pairs in classes]
    together = Persons.all_of(each)
    return [level(model, persons, together, numbers) for persons in each]
