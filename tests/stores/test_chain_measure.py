"""A chain that measures: what independent releases of the same persons tell together."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import dbanon
from dbanon.errors import ChainChanged, ChainExposed, InvalidParameter
from tests.stores.chain_cases import OPTIONS, Chained, Months, load
from tests.stores.databases import Database

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")


def by_hand(database: Database, histories: dict[Any, list[Any]], month: int) -> None:
    """Note the combination of each person, by a key that is released beside it."""
    rows = database.rows(f"SELECT age, income, mark FROM {database.relation('release.people')}")
    now = {mark: (age, income) for age, income, mark in rows}
    for person in {*histories, *now}:
        histories.setdefault(person, [None] * month).append(now.get(person))


@pytest.mark.parametrize("method", ["mdav", "mondrian"])
def test_counts_are_those_of_the_releases(database: Database, tmp_path: Path, method: str) -> None:
    months = Months(n=60, join=4)
    load(database, months.now)
    chained = Chained.create(database, tmp_path, mode="measure")
    histories: dict[Any, list[Any]] = {}
    exposed = 0
    for month in range(4):
        load(database, months.now)
        database.execute(
            "ALTER TABLE people ADD COLUMN mark integer", "UPDATE people SET mark = id"
        )
        report = chained.release(method=method, keep=["mark"])
        by_hand(database, histories, month)
        sizes = Counter(map(tuple, histories.values()))
        before, exposed = exposed, sum(size for size in sizes.values() if size < 3)
        chain_record = report.arguments["chain"]
        assert (chain_record["exposed"], chain_record["known"]) == (exposed, len(histories))
        assert report.rows_out == len(months.now)
        months.pass_on()
    exposure = dbanon.measure_chain(database.url, "patients", key=f"file:{chained.key}")
    assert (exposure.exposed, exposure.persons, exposure.histories) == (
        exposed,
        len(histories),
        len(sizes),
    )
    assert exposure.alone == sum(size == 1 for size in sizes.values())
    assert exposed > 0
    assert report.earlier_releases == (
        f"chain patients, release 4, measured: of {len(histories)} persons {exposed} have a joint"
        " history over releases 1 to 4 that fewer than 3 share,"
        f" {exposed - before} more than before"
    )
    assert "nothing is guaranteed across releases" in report.guarantee


def test_more_exposed_than_allowed_is_refused(database: Database, tmp_path: Path) -> None:
    months = Months(n=60, join=4)
    load(database, months.now)
    chained = Chained.create(database, tmp_path, mode="measure")
    chained.release(chain=chained.chain(max_exposed=0.0))
    months.pass_on()
    load(database, months.now)
    with pytest.raises(ChainExposed, match=r"more than the allowed share 0\.05"):
        chained.release(chain=chained.chain(max_exposed=0.05))
    assert chained.show().sequence == 1
    with pytest.raises(ChainChanged, match="k = 3"):
        chained.release(k=4)
    assert chained.release(chain=chained.chain(max_exposed=1.0)).arguments["chain"]["exposed"] > 3


def test_strata_and_what_is_withheld_are_part_of_a_history(
    database: Database, tmp_path: Path
) -> None:
    months = Months(n=60, leave=0, join=0)
    months.now[7] = (None, *months.now[7][1:])
    load(database, months.now)
    chained = Chained.create(database, tmp_path, mode="measure")
    options = OPTIONS | {"by": ["site"], "nulls": "suppress", "max_suppression": 0.1}
    chained.release(**options)
    [(members,)] = database.rows(f"SELECT count(*) FROM {database.ledger('chain_member')}")
    assert members == 59
    months.now[7] = (40, *months.now[7][1:])
    load(database, months.now)
    chained.release(**options)
    history = chained.history([7])[7]
    assert history is not None
    assert sum(cell == history for cell in chained.cells().values()) == 1


def test_a_chain_that_goes_on_has_no_limit(database: Database, tmp_path: Path) -> None:
    load(database, Months().now)
    chained = Chained.create(database, tmp_path)
    with pytest.raises(InvalidParameter, match="chains that measure"):
        chained.release(chain=chained.chain(max_exposed=0.5))
