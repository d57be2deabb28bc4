"""Random tables as people bring them: NULLs, codes, dates, decimals, identifiers, few rows."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

# Shares of NULL in a column: none, a few rows, item non-response, half, and nearly all.
_SHARES = (0.0, 0.0, 0.003, 0.02, 0.05, 0.5, 0.97)
_ROWS = (1, 3, 6, 17, 40, 80, 150)
_DAY = datetime.date(1950, 1, 1)


@dataclass(frozen=True)
class RandomTable:
    """A table with the kinds of its columns, as ``Database.types`` names them."""

    columns: dict[str, str]
    rows: list[tuple[Any, ...]]


def random_table(seed: int) -> RandomTable:
    """The same table for the same seed."""
    rng = np.random.default_rng([20_260, seed])
    n = int(rng.choice(_ROWS, p=[0.04, 0.04, 0.07, 0.15, 0.3, 0.25, 0.15]))
    makers = [_AGE, *(_MAKERS[i] for i in rng.choice(len(_MAKERS), rng.integers(2, 7), False))]
    columns, values = {}, []
    for name, kind, make in makers:
        columns[name] = kind
        values.append(_with_nulls(make(rng, n), name, rng))
    if rng.random() < 0.2:
        _null_together(values, rng)
    return RandomTable(columns, list(zip(*values, strict=True)))


def _with_nulls(values: Sequence[Any], name: str, rng: np.random.Generator) -> list[Any]:
    if name in ("record_id", "email"):
        return list(values)
    missing = rng.random(len(values)) < rng.choice(_SHARES)
    return [
        None if is_missing else value for value, is_missing in zip(values, missing, strict=True)
    ]


def _null_together(values: list[list[Any]], rng: np.random.Generator) -> None:
    """Half of the columns are NULL in the same rows, like those of people who left a survey."""
    for at in rng.random(len(values[0])).argsort()[: len(values[0]) // 10]:
        for column in values[len(values) // 2 :]:
            column[at] = None


def _dates(rng: np.random.Generator, n: int) -> list[datetime.date]:
    return [_DAY + datetime.timedelta(days=int(day)) for day in rng.integers(0, 20_000, n)]


def _amounts(rng: np.random.Generator, n: int) -> list[Decimal]:
    return [Decimal(int(cents)).scaleb(-2) for cents in rng.lognormal(10, 1, n)]


def _texts(*texts: str) -> Any:
    return lambda rng, n: [texts[i] for i in rng.integers(0, len(texts), n)]


def _codes(low: int, high: int) -> Any:
    return lambda rng, n: rng.integers(low, high, n).tolist()


_AGE = ("age", "integer", _codes(18, 95))
_MAKERS: list[tuple[str, str, Any]] = [
    ("walls", "integer", _codes(1, 5)),
    ("marital", "integer", lambda rng, n: [(1, 3, 4)[i] for i in rng.integers(0, 3, n)]),
    ("household_no", "integer", lambda rng, n: (np.arange(n) // 3 + 100).tolist()),
    ("weight", "double", lambda rng, n: rng.gamma(2, 300, n).tolist()),
    ("sex", "text", _texts("f", "m")),
    ("region", "text", _texts("North", "South", "East", "West", "Isles")),
    ("born", "date", _dates),
    ("income", "decimal", _amounts),
    ("height", "double", lambda rng, n: rng.normal(170, 9, n).round(1).tolist()),
    ("country", "text", _texts("FR")),
    ("wave", "integer", _codes(3, 4)),
    ("record_id", "integer", lambda rng, n: rng.permutation(n).tolist()),
    ("email", "text", lambda rng, n: [f"p{i}@example.org" for i in range(n)]),
    ("diagnosis", "text", _texts("E11.9", "I10", "J45", "C50", "F32")),
    ("visits", "integer", lambda rng, n: rng.poisson(2, n).tolist()),
    ("remark", "text", lambda rng, n: [f"was seen on day {i} by nurse" for i in range(n)]),
]
