"""Levels of privacy models from counts that SQL gives, by no code of the package."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from math import exp, log
from typing import Any

Counts = dict[Any, int]


def counted(
    rows: Callable[[str], list[tuple[Any, ...]]], relation: str, columns: list[str], value: str
) -> list[Counts]:
    names = ", ".join(columns)
    classes: dict[Any, Counts] = defaultdict(dict)
    for *key, sensitive_value, size in rows(
        f"SELECT {names}, {value}, count(*) FROM {relation} GROUP BY {names}, {value}"
    ):
        classes[tuple(key)][sensitive_value] = size
    return list(classes.values())


def reached(kind: str, classes: list[Counts], order: list[Any] | None = None, l: int = 2) -> float:  # noqa: E741
    table: Counts = Counter()
    for counts in classes:
        table.update(counts)
    every = order or list(table)
    return {
        "distinct_l": lambda: min(len(counts) for counts in classes),
        "entropy_l": lambda: min(
            exp(-sum(share * log(share) for share in shares(counts).values())) for counts in classes
        ),
        "recursive_cl": lambda: max(
            (falling := sorted(counts.values(), reverse=True))[0] / (sum(falling[l - 1 :]) or 1e-99)
            for counts in classes
        ),
        "alpha_k": lambda: max(max(shares(counts).values()) for counts in classes),
        "equal": lambda: max(
            sum(abs(shares(counts).get(v, 0) - shares(table)[v]) for v in table) / 2
            for counts in classes
        ),
        "ordered": lambda: max(
            sum(
                abs(sum(shares(counts).get(v, 0) - shares(table).get(v, 0) for v in every[: i + 1]))
                for i in range(len(every))
            )
            / max(len(every) - 1, 1)
            for counts in classes
        ),
        "beta_likeness": lambda: max(
            share / shares(table)[v] - 1
            for counts in classes
            for v, share in shares(counts).items()
        ),
        "delta_disclosure": lambda: max(
            abs(log(share / shares(table)[v]))
            for counts in classes
            for v, share in shares(counts).items()
        ),
    }[kind]()


def moved_by_paths(classes: list[Counts], paths: dict[Any, list[str]]) -> float:
    """Hierarchical t-closeness; ``paths`` are the labels from each leaf to the root, all of equal
    length.

    Within a group of one level, surpluses of some values fill the deficits of others; only the
    remainder moves up a level.
    """
    table: Counts = Counter()
    for counts in classes:
        table.update(counts)
    height = len(next(iter(paths.values()))) - 1
    worst = 0.0
    for counts in classes:
        class_shares = shares(counts)
        group = {paths[v][0]: class_shares.get(v, 0) - share for v, share in shares(table).items()}
        cost = 0.0
        for level in range(1, height + 1):
            parents = {path[level - 1]: path[level] for path in paths.values()}
            above: dict[str, list[float]] = defaultdict(list)
            for label, over in group.items():
                above[parents[label]].append(over)
            cost += level * sum(
                min(sum(v for v in values if v > 0), -sum(v for v in values if v < 0))
                for values in above.values()
            )
            group = {label: sum(values) for label, values in above.items()}
        worst = max(worst, cost / height)
    return worst


def shares(counts: Counts) -> dict[Any, float]:
    total = sum(counts.values())
    return {value: count / total for value, count in counts.items()}


def in_order(values: set[Any]) -> list[Any]:
    """Numbers by size, texts by code point, NULL last."""
    non_null = sorted(value for value in values if value is not None)
    return non_null + [None] * (None in values)


def values_of(classes: list[Counts]) -> set[Any]:
    return {value for counts in classes for value in counts}
