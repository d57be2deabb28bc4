"""Hierarchies for tests, a table that has their leaves, and a count that shares no code."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from tests.stores.databases import Database

OPTIONS: dict[str, Any] = {"quasi_identifiers": ["age", "place"], "method": "gaa_cp", "k": 4}
PLACES = {
    "Oslo": ("Norway", "North"),
    "Bergen": ("Norway", "North"),
    "Turku": ("Finland", "North"),
    "Rome": ("Italy", "South"),
    "Bari": ("Italy", "South"),
    "Athens": ("South", "South"),
}
PAIRS: list[tuple[str, str | None]] = [
    *((city, above[0]) for city, above in PLACES.items()),
    ("Norway", "North"),
    ("Finland", "North"),
    ("Italy", "South"),
    ("North", "*"),
    ("South", "*"),
    ("*", None),
]
LEVELS = [(city, *above, "*") for city, above in PLACES.items()]


def load(database: Database, n: int = 80) -> None:
    rng = random.Random(4)
    rows = [
        (i, rng.randrange(20, 70), rng.choice(list(PLACES)), rng.choice("abc")) for i in range(n)
    ]
    text, integer = database.types["text"], database.types["integer"]
    columns = {"id": integer + " PRIMARY KEY", "age": integer, "place": text, "ill": text}
    database.load("people", columns, rows)


def load_pairs(
    database: Database, rows: Sequence[tuple[Any, ...]] = PAIRS, name: str = "ref.tree"
) -> None:
    database.load(name, {"child": database.types["text"], "parent": database.types["text"]}, rows)


def table(name: str = "ref.tree") -> dict[str, str]:
    return {"table": name}


def recounted(database: Database, output: str, names: Sequence[str]) -> list[int]:
    """Class sizes, counted without anything of dbanon."""
    listed = ", ".join(f'"{name}"' for name in names)
    query = f"SELECT count(*) FROM {database.relation(output)} GROUP BY {listed}"
    return sorted(size for (size,) in database.rows(query))


def ancestors(pairs: Sequence[tuple[str, str | None]]) -> dict[str, list[str]]:
    """The way from each label up to the root."""
    above = dict(pairs)
    ways = {}
    for label in above:
        path, at = [], above[label]
        while at is not None:
            path.append(at)
            at = above.get(at)
        ways[label] = path
    return ways


def check_release(
    database: Database, output: str, pairs: Sequence[tuple[str, str | None]], k: int
) -> None:
    """Count the release, and find each released label above as many leaves as the source has."""
    sizes = recounted(database, output, ["age", "place"])
    assert min(sizes) >= k
    source = Counter(dict(database.rows("SELECT place, count(*) FROM people GROUP BY place")))
    assert sum(sizes) == sum(source.values())
    relation = database.relation(output)
    released = dict(database.rows(f"SELECT place, count(*) FROM {relation} GROUP BY place"))
    ways = ancestors(pairs)
    below: dict[str, int] = defaultdict(int)
    for leaf, count in source.items():
        for label in (leaf, *ways[leaf]):
            below[label] += count
    assert set(released) <= set(below)
    for label, count in released.items():
        assert count <= below[label]


def shaped(shape: str) -> tuple[list[tuple[str, str | None]], list[str]]:
    """Edges and leaves."""
    if shape == "one leaf":
        return [("only", None)], ["only"]
    if shape == "12 levels":
        pairs: list[tuple[str, str | None]] = [("n1", None)]
        for node in range(2, 2**12):
            pairs.append((f"n{node}", f"n{node // 2}"))
        return pairs, [f"n{node}" for node in range(2**11, 2**12)]
    if shape == "unbalanced":
        pairs = [("r0", None)]
        for depth in range(1, 30):
            pairs += [(f"r{depth}", f"r{depth - 1}"), (f"leaf{depth}", f"r{depth - 1}")]
        return pairs, [f"leaf{depth}" for depth in range(1, 30)] + ["r29"]
    pairs = [("*", None)]
    for group in range(100):
        pairs.append((f"g{group}", "*"))
        pairs += [(f"{group:02}-{leaf:02}", f"g{group}") for leaf in range(100)]
    return pairs, [f"{group:02}-{leaf:02}" for group in range(100) for leaf in range(100)]
