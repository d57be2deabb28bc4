"""A small table of invented persons, the same in every database and as a data frame."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from tests.stores.databases import Database

COLUMNS = {
    "id": "integer",
    "name": "text",
    "age": "integer",
    "income": "decimal",
    "height": "double",
    "born": "date",
    "seen": "timestamp",
    "site": "text",
}
QUASI_IDENTIFIERS = ("age", "income", "height", "born", "seen")


def rows_of_people(n: int = 40, seed: int = 1) -> list[tuple[Any, ...]]:
    """Rows of ``COLUMNS``; every id, name and site occurs once."""
    rng = np.random.default_rng(seed)
    ages = rng.integers(18, 90, n)
    cents = rng.integers(100_000, 9_999_999, n)
    return [
        (
            i + 1,
            f"name {i}",
            int(ages[i]),
            Decimal(int(cents[i])) / 100,
            round(float(rng.normal(170, 10)), 3),
            date(1930, 1, 1) + timedelta(days=int(rng.integers(0, 25_000))),
            datetime(2020, 1, 1) + timedelta(microseconds=int(rng.integers(0, 10**13))),
            f"site {i}",
        )
        for i in range(n)
    ]


def load_people(
    database: Database,
    rows: list[tuple[Any, ...]] | None = None,
    table: str = "people",
    key: bool = True,
) -> list[tuple[Any, ...]]:
    """Create the table and return its rows."""
    rows = rows_of_people() if rows is None else rows
    columns = {name: database.types[kind] for name, kind in COLUMNS.items()}
    if key:
        columns["id"] += " PRIMARY KEY"
    database.load(table, columns, rows)
    return rows


def frame_of_people(rows: list[tuple[Any, ...]]) -> pd.DataFrame:
    """The same rows as a data frame; it has no type for decimals, so income is left out."""
    frame = pd.DataFrame(rows, columns=list(COLUMNS)).drop(columns="income")
    frame["born"] = pd.to_datetime(frame["born"])
    return frame
