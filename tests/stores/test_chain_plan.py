"""Plans of a chain's next release: its expected figures, without writing anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import dbanon
from dbanon.errors import ChainEntityRows, ChainTurnover
from tests.stores.chain_cases import OPTIONS, Chained, Months, load
from tests.stores.databases import Database

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")


def planned(chained: Chained, **more: Any) -> Any:
    options = OPTIONS | {"chain": chained.chain(accept_turnover=True), "table": "people"} | more
    planned_release = dbanon.plan(chained.database.url, output="release.people", **options)
    assert planned_release.chain is not None
    return planned_release.chain.coming


def test_few_are_told_as_exactly_as_rows_are(database: Database, tmp_path: Path) -> None:
    months = Months(n=12, leave=0, join=0, change=0)
    load(database, months.now)
    chained = Chained.create(database, tmp_path)
    chained.release()
    months.now.pop(1)
    months.now |= {50: (30, 2000, "a", "flu", 0), 51: (31, 2100, "a", "gout", 0)}
    load(database, months.now)
    coming = planned(chained)
    assert (coming.came, coming.left, coming.returned) == (2, 1, 0)
    assert coming.cells["held"] == 1
    words = " ".join(text for pair in coming.pairs() for text in pair)
    assert "2 newcomers, 1 displayed person who left, 0 returned" in words
    assert "1 held" in words


@pytest.mark.parametrize(
    "rules",
    [{}, {"class_size": 9, "admit_every": 2}, {"departures": "withdraw"}, {"changes": "freeze"}],
    ids=str,
)
def test_a_plan_says_what_the_run_comes_to(
    database: Database, tmp_path: Path, rules: dict[str, Any]
) -> None:
    months = Months(n=60, join=7, leave=0.1, change=0, come_back=0.3)
    load(database, months.now)
    chained = Chained.create(database, tmp_path, **rules)
    n_gone = 0
    for number in range(1, 5):
        load(database, months.now)
        before = database.state()
        coming = planned(chained)
        assert database.state() == before
        ever = chained.history([*months.now, *months.out]) if number > 1 else {}
        left = sum(
            left_at is None and person in months.out for person, (_, left_at) in ever.items()
        )
        report = chained.release(chain=chained.chain(accept_turnover=True))
        last_release = chained.show().releases[-1]
        assert coming.sequence == number == last_release["sequence"]
        assert coming.due is (number % 2 == 1 or "admit_every" not in rules)
        for mine, count in (
            (coming.came, last_release["joined"] + last_release["waiting"]),
            (coming.left, left),
            (coming.returned, last_release["returned"]),
        ):
            assert mine == count
        assert coming.cells.get("live", 0) <= last_release["live"]
        ended = coming.cells.get("gone", 0) + coming.cells.get("withdrawn", 0)
        n_gone, before_it = last_release["gone"] + last_release["withdrawn"], n_gone
        assert ended == n_gone - before_it
        assert coming.cells.get("held", 0) == last_release["held"]
        assert report.arguments["chain"]["returned"] == coming.returned
        months.pass_on()


def test_a_plan_refuses_whom_the_run_would_refuse(database: Database, tmp_path: Path) -> None:
    months = Months(n=30, leave=0, join=0)
    load(database, months.now)
    chained = Chained.create(database, tmp_path)
    chained.release()
    load(database, {person + 500: values for person, values in months.now.items()})
    with pytest.raises(ChainTurnover):
        planned(chained, chain=chained.chain())
    load(database, months.now)
    database.execute("INSERT INTO people SELECT * FROM people WHERE id = 7")
    with pytest.raises(ChainEntityRows):
        planned(chained)


def test_of_a_chain_that_measures_persons_are_told_and_no_classes(
    database: Database, tmp_path: Path
) -> None:
    months = Months(n=30, join=4)
    load(database, months.now)
    chained = Chained.create(database, tmp_path, mode="measure")
    chained.release()
    months.pass_on()
    load(database, months.now)
    coming = planned(chained)
    assert (coming.came, dict(coming.cells), coming.due) == (4, {}, True)
