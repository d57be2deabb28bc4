"""Levels of privacy models over persons, from sets of values and by no code of the package.

A class is a mapping of persons to the set of their values there. Persons are one in each class.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product
from math import exp, inf, log
from typing import Any

Class = dict[Any, set[Any]]


def shares_of(classes: Sequence[Class]) -> dict[Any, float]:
    """The share of the persons who have each value."""
    holders = Counter(
        value for members in classes for values in members.values() for value in values
    )
    persons = sum(map(len, classes))
    return {value: count / persons for value, count in holders.items()}


def least_diverse(members: Class) -> list[int]:
    """Persons by value, each with one of theirs, the most frequent values first; as numbers say."""
    left, shares = len(members), []
    holders = Counter(value for values in members.values() for value in values)
    for _, count in holders.most_common():
        shares.append(min(count, left))
        left -= shares[-1]
    return [count for count in shares if count]


def diversity(kind: str, counts: Sequence[int], l: int = 2) -> float:  # noqa: E741
    """The level of a class whose persons have one value each."""
    falling, n = sorted(counts, reverse=True), sum(counts)
    if kind == "distinct_l":
        return len(falling)
    if kind == "entropy_l":
        return exp(-sum(count / n * log(count / n) for count in falling))
    if kind == "alpha_k":
        return falling[0] / n
    tail = sum(falling[l - 1 :])
    return falling[0] / tail if tail else inf


def choices(members: Class) -> list[list[int]]:
    """Every choice of one value a person, counted."""
    return [list(Counter(chosen).values()) for chosen in product(*members.values())]


def flow(over: dict[Any, float], far: dict[tuple[Any, Any], float]) -> float:
    """The minimum cost of moving each surplus to a deficit, by shortest paths until no surplus
    remains.
    """
    nodes = list(over)
    arcs = {(a, b): far[a, b] for a in nodes for b in nodes if a != b}
    flowing: dict[tuple[Any, Any], float] = dict.fromkeys(arcs, 0.0)
    over, total = dict(over), 0.0
    while (most := max(over.values())) > 1e-12:
        start = max(over, key=lambda node: over[node])
        cost, before = dict.fromkeys(nodes, inf) | {start: 0.0}, {}
        for _ in nodes:
            for (a, b), length in arcs.items():
                if cost[a] + length < cost[b] - 1e-12:
                    cost[b], before[b] = cost[a] + length, (a, b, 1)
                if flowing[a, b] > 1e-12 and cost[b] - length < cost[a] - 1e-12:
                    cost[a], before[a] = cost[b] - length, (a, b, -1)
        end = min((node for node in nodes if over[node] < -1e-13), key=lambda node: cost[node])
        path, node = [], end
        while node != start:
            a, b, direction = before[node]
            path.append((a, b, direction))
            node = a if direction == 1 else b
        much = min(
            [most, -over[end], *(flowing[a, b] for a, b, direction in path if direction == -1)]
        )
        for a, b, direction in path:
            flowing[a, b] += direction * much
        total += much * cost[end]
        over[start] -= much
        over[end] += much
    return total


def moved(members: Class, table: dict[Any, float], far: dict[tuple[Any, Any], float]) -> float:
    """t of a class: what it costs to make its shares the table's; "none" is 1 from each value."""
    class_shares = shares_of([members])
    over: dict[Any, float] = {
        value: class_shares.get(value, 0) - share for value, share in table.items()
    }
    over["none"] = -sum(over.values())
    far = far | {pair: 1.0 for value in table for pair in ((value, "none"), ("none", value))}
    return flow(over, far)


def reached(
    kind: str,
    classes: Sequence[Class],
    far: dict[tuple[Any, Any], float],
    l: int = 2,  # noqa: E741
) -> float:
    """The level that all classes keep to; ``far`` is the distance of t-closeness."""
    table = shares_of(classes)
    if kind == "t_closeness":
        return max(moved(members, table, far) for members in classes)
    shares_by_class = [shares_of([members]) for members in classes]
    if kind == "beta_likeness":
        return max(
            share / table[v] - 1 for shares in shares_by_class for v, share in shares.items()
        )
    if kind == "delta_disclosure":
        return max(
            abs(log(share / table[v])) for shares in shares_by_class for v, share in shares.items()
        )
    levels = [diversity(kind, least_diverse(members), l) for members in classes]
    return min(levels) if kind in ("distinct_l", "entropy_l") else max(levels)


def equal_distance(values: Sequence[Any]) -> dict[tuple[Any, Any], float]:
    return {(a, b): float(a != b) for a in values for b in values}


def ordered_distance(values: Sequence[Any]) -> dict[tuple[Any, Any], float]:
    places, steps = list(enumerate(values)), max(len(values) - 1, 1)
    return {(a, b): abs(i - j) / steps for i, a in places for j, b in places}


def tree_distance(paths: dict[Any, list[str]]) -> dict[tuple[Any, Any], float]:
    """``paths`` are the labels from each leaf to the root, as many each."""
    height = len(next(iter(paths.values()))) - 1
    return {
        (a, b): next(i for i in range(height + 1) if paths[a][i] == paths[b][i]) / height
        for a in paths
        for b in paths
    }
