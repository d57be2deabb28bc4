"""Rows of a chain's cells that are not as they were shown: whatever changed, it is seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.stores.chain_cases import Chained, Months, load, released
from tests.stores.databases import Database

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")

SHOWN = "age, income, ill, cost"


def swapped(now: dict[Any, Any], one: int, other: int) -> None:
    """Two values that change places: each column holds what it held."""
    now[one], now[other] = (*now[one][:4], now[other][4]), (*now[other][:4], now[one][4])


def doubled(now: dict[Any, Any], one: int, other: int) -> None:
    """Two that were alike are alike in another way."""
    for who in (one, other):
        now[who] = (*now[who][:3], "mumps", 0)


def emptied(now: dict[Any, Any], one: int, other: int) -> None:
    """An empty text is no NULL."""
    now[one] = (*now[one][:3], None, now[one][4])


@pytest.mark.parametrize("change", [swapped, doubled, emptied])
def test_what_changed_in_a_cell_is_shown(database: Database, tmp_path: Path, change: Any) -> None:
    months = Months(n=12, leave=0, join=0, change=0)
    load(database, months.now)
    chained = Chained.made(database, tmp_path)
    given = {"keep": ["cost"]}
    chained.release(**given)
    cells = chained.history(list(months.now))
    one, other, *_ = (who for who, (cell, _) in cells.items() if cell == cells[1][0])
    alike = change is doubled
    months.now[one] = (*months.now[one][:3], "" if change is emptied else "flu", 0.25)
    months.now[other] = (*months.now[other][:3], "flu" if alike else "gout", 0.25 if alike else 7.5)
    load(database, months.now)
    chained.release(**given)
    assert chained.shown().releases[-1]["changed"] > 0
    before = released(database, SHOWN)
    load(database, months.now)
    chained.release(**given)
    # The same persons in another order: nothing is put anew.
    assert chained.shown().releases[-1]["changed"] == 0
    change(months.now, one, other)
    load(database, months.now)
    chained.release(**given)
    told = chained.shown().releases[-1]
    assert told["changed"] == (2 if change is not emptied else 1)
    after = released(database, SHOWN)
    assert sum((after - before).values()) == told["changed"]
    assert {row[2] for row in after} == {values[3] for values in months.now.values()}
