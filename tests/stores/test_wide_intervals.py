"""Intervals of numbers that float64 may round: each label holds the values of its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import dbanon
from tests.stores.databases import Database, DuckdbDatabase


def _moments() -> list[str]:
    days = [
        f"2020-{month:02d}-{day:02d} 12:30:00.000001" for month in (1, 7) for day in range(1, 21)
    ]
    return days + ["9999-12-31 23:59:59.999999", "9999-12-31 00:00:00", "0001-01-01 00:00:00"] * 4


def _decimals() -> list[str]:
    near = ["420.00000000000000", "419.99999999999999", "420.00000000000001", "421.99999999999999"]
    return [f"420.{n * 2654435761 % 10**14:014d}" for n in range(40)] + near * 3


def _integers() -> list[str]:
    border = 9_100_000_000_000_000_000
    return [str(border + step) for step in (-1, 0, 1, 2)] * 4 + [
        str(border - n * 7_919_000_000_000_001) for n in range(36)
    ]


def _moment(text: str) -> Any:
    # Borders may be in the year 0 or 10000, which no datetime has.
    return np.datetime64(text, "us")


WIDE: dict[str, tuple[str, Callable[[], list[str]], Callable[[str], Any]]] = {
    "moments": ("TIMESTAMP", _moments, _moment),
    "decimals": ("DECIMAL(17, 14)", _decimals, Decimal),
    "integers": ("BIGINT", _integers, Decimal),
}


@pytest.mark.parametrize("method", ["gaa_cp", "mondrian", "full_domain"])
@pytest.mark.parametrize("kind", WIDE)
def test_each_label_holds_the_exact_values(
    duckdb_file: DuckdbDatabase, kind: str, method: str
) -> None:
    sql_type, make, number = WIDE[kind]
    values = make()
    duckdb_file.load("app.wide", {"id": "INTEGER", "x": sql_type}, list(enumerate(values)))
    report = duckdb_file.anonymize(
        table="app.wide",
        quasi_identifiers=["x"],
        k=4,
        method=method,
        keep=["id"],
        output="release.wide",
    )
    released = dict(duckdb_file.rows('SELECT id, x FROM "release".wide'))
    assert len(released) == len(values)
    assert min(Counter(released.values()).values()) >= 4
    assert report.k_achieved >= 4
    for at, text in enumerate(values):
        low, high = released[at].strip("[)").split(", ")
        assert number(low) <= number(text) < number(high)


@pytest.mark.parametrize("options", [{"local_range": True}, {"intervals": "bounds"}])
def test_ends_that_are_values_are_refused_and_the_hint_works(
    duckdb_file: DuckdbDatabase, options: dict[str, Any]
) -> None:
    rows = list(enumerate(_decimals()))
    duckdb_file.load("app.wide", {"id": "INTEGER", "x": "DECIMAL(17, 14)"}, rows)
    arguments: Any = {
        "quasi_identifiers": ["x"],
        "k": 4,
        "method": "gaa_cp",
        "output": "release.wide",
    }
    with pytest.raises(dbanon.DbanonError, match="more than 15 digits") as caught:
        duckdb_file.anonymize(table="app.wide", **arguments, **options)
    assert 'intervals="text"' in str(caught.value.hint)
    duckdb_file.anonymize(table="app.wide", **arguments, intervals="text")


def test_every_store_releases_them(database: Database) -> None:
    types = database.types
    database.load(
        "app.wide", {"id": types["integer"], "x": "DECIMAL(18, 14)"}, list(enumerate(_decimals()))
    )
    report = database.anonymize(
        table="app.wide", quasi_identifiers=["x"], k=4, method="gaa_cp", output="release.wide"
    )
    assert report.k_achieved >= 4
