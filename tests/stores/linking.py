"""A table whose release hides ages in fewer than half of the rows, with columns that undo it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.stores.databases import Database

N, K = 600, 5
_RNG = np.random.default_rng(8)
# Six ages that many share, whose classes hold one value each; of the others classes hold several.
AGE = [20 + i % 6 if i % 5 < 3 else 30 + int(_RNG.integers(0, 20)) for i in range(N)]
HEIGHT = [170 if i % 5 < 3 else 150 + int(_RNG.integers(0, 40)) for i in range(N)]
COLUMNS: dict[str, tuple[str, list[Any]]] = {
    "age": ("integer", AGE),
    "height": ("integer", HEIGHT),
    "age_code": ("text", [f"c{age * 7 % 101:03}" for age in AGE]),
    "half_code": ("integer", [age * 2 + i % 2 for i, age in enumerate(AGE)]),
    "some_code": ("integer", [age * 3 if i % 8 else None for i, age in enumerate(AGE)]),
    "decade": ("integer", [age // 5 for age in AGE]),
    "illness": ("text", [f"illness {int(_RNG.integers(0, 20))}" for _ in range(N)]),
    "sex": ("text", [str(_RNG.choice(["f", "m"])) for _ in range(N)]),
    "visits": ("integer", [int(_RNG.integers(1, 9)) for _ in range(N)]),
    "household": ("integer", [int(index) // 6 for index in _RNG.permutation(N)]),
}
CODINGS = ("age_code", "half_code", "some_code", "decade")
ORDINARY = ("illness", "sex", "visits")
OPTIONS: dict[str, Any] = {"quasi_identifiers": ["age", "height"], "k": K, "method": "mdav"}


def load(database: Database) -> None:
    kinds = {name: database.types[kind] for name, (kind, _) in COLUMNS.items()}
    rows = list(zip(*(values for _, values in COLUMNS.values()), strict=True))
    database.load("people", kinds, rows)
