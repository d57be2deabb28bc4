"""Rows of a chain's cells that are not as they were shown: whatever changed, it is seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.stores.chain_cases import Chained, Months, load, released
from tests.stores.databases import Database

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")

RELEASED_COLUMNS = "age, income, ill, cost"


def swapped(now: dict[Any, Any], first: int, other: int) -> None:
    """Two values that change places: each column holds what it held."""
    now[first], now[other] = (*now[first][:4], now[other][4]), (*now[other][:4], now[first][4])


def doubled(now: dict[Any, Any], first: int, other: int) -> None:
    """Two that were alike are alike in another way."""
    for who in (first, other):
        now[who] = (*now[who][:3], "mumps", 0)


def emptied(now: dict[Any, Any], first: int, other: int) -> None:
    """An empty text is no NULL."""
    now[first] = (*now[first][:3], None, now[first][4])


@pytest.mark.parametrize("change", [swapped, doubled, emptied])
def test_what_changed_in_a_cell_is_shown(database: Database, tmp_path: Path, change: Any) -> None:
    months = Months(n=12, leave=0, join=0, change=0)
    load(database, months.now)
    chained = Chained.create(database, tmp_path)
    options = {"keep": ["cost"]}
    chained.release(**options)
    cells = chained.history(list(months.now))
    first, other, *_ = (who for who, (cell, _) in cells.items() if cell == cells[1][0])
    same_values = change is doubled
    months.now[first] = (*months.now[first][:3], "" if change is emptied else "flu", 0.25)
    months.now[other] = (
        *months.now[other][:3],
        "flu" if same_values else "gout",
        0.25 if same_values else 7.5,
    )
    load(database, months.now)
    chained.release(**options)
    assert chained.show().releases[-1]["changed"] > 0
    before = released(database, RELEASED_COLUMNS)
    load(database, months.now)
    chained.release(**options)
    # The same persons in another order: nothing is put anew.
    assert chained.show().releases[-1]["changed"] == 0
    change(months.now, first, other)
    load(database, months.now)
    chained.release(**options)
    last_release = chained.show().releases[-1]
    assert last_release["changed"] == (2 if change is not emptied else 1)
    after = released(database, RELEASED_COLUMNS)
    assert sum((after - before).values()) == last_release["changed"]
    assert {row[2] for row in after} == {values[3] for values in months.now.values()}
