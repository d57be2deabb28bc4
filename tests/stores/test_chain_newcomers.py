"""Few newcomers wait for more: who knows all others of them would find the one left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dbanon.extensions.chains.newcomers import select_classes
from dbanon.extensions.chains.quality import compute_typical_loss
from dbanon.job.chain import ChainRules
from tests.stores.chain_cases import Chained, Months, load, person
from tests.stores.databases import Database

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")


def joined(chained: Chained, months: Months, count: int, *, apart: bool = False) -> dict[str, Any]:
    """The next release after so many came, as it was counted.

    Parameters
    ----------
    apart : whether no k of them are near one another; else all have one age and income.
    """
    for _ in range(count):
        values = person(months.rng)
        at = (18 + 70 * (months.next % 2), 1000 + 7000 * (months.next // 2 % 2))
        months.now[months.next] = (*(at if apart else (300, 30000)), *values[2:])
        months.next += 1
    load(chained.database, months.now)
    chained.release()
    return dict(chained.show().releases[-1])


def test_they_are_let_in_at_once_where_that_is_asked_for(
    database: Database, tmp_path: Path
) -> None:
    months = Months(n=12, leave=0, join=0)
    load(database, months.now)
    chained = Chained.create(database, tmp_path, min_newcomers=None, max_wait=0)
    chained.release()
    assert joined(chained, months, 3)["joined"] == 3


def test_one_newcomer_among_invented_ones_waits(database: Database, tmp_path: Path) -> None:
    months = Months(n=30, leave=0, join=0, change=0)
    load(database, months.now)
    # The default: 5 k = 15, for at most six releases.
    chained = Chained.create(database, tmp_path, min_newcomers=None, max_wait=6)
    chained.release()
    # k - 1 accounts of an attacker's, and one person.
    assert (joined(chained, months, 3)["joined"], joined(chained, months, 0)["waiting"]) == (0, 3)
    enough = joined(chained, months, 12)
    assert (enough["joined"], enough["waiting"]) == (15, 0)
    # They wait again, but not indefinitely.
    for _ in range(6):
        assert joined(chained, months, 1)["joined"] == 0
    # After six releases of waiting a class is admitted, and everyone here belongs to it or another.
    last = joined(chained, months, 0)
    assert (last["joined"] >= 3, last["joined"] + last["waiting"]) == (True, 6)
    assert chained.smallest() >= 3


def test_newcomers_wait_until_they_are_a_good_class_or_have_waited_for_long(
    database: Database, tmp_path: Path
) -> None:
    months = Months(n=30, leave=0, join=0, change=0)
    load(database, months.now)
    chained = Chained.create(database, tmp_path, max_wait=3)
    chained.release()
    # Four of four corners are no class as good as those of thirty, and three of one place are.
    first = joined(chained, months, 4, apart=True)
    assert (first["joined"], first["waiting"], first["longest"]) == (0, 4, 0)
    near = joined(chained, months, 3)
    assert (near["joined"], near["waiting"], near["longest"]) == (3, 4, 1)
    assert joined(chained, months, 0)["longest"] == 2
    # Departed persons who still waited are forgotten.
    departed = months.now.pop(months.next - 4)
    stays = joined(chained, months, 0)
    assert (stays["joined"], stays["waiting"]) == (3, 0)
    months.now[months.next - 4] = departed
    back = joined(chained, months, 0)
    assert (back["joined"], back["waiting"], back["longest"]) == (0, 1, 0)
    assert chained.smallest() >= 3
    report = chained.release()
    assert "1 waiting, the longest for 1 release" in report.earlier_releases


def test_who_waits_in_vain_lets_nobody_in_sooner(database: Database, tmp_path: Path) -> None:
    """One of a stratum that never has enough does not make later newcomers long-waiting."""
    months = Months(n=12, leave=0, join=0, change=0)
    months.now = {person_id: (*v[:2], "a", *v[3:]) for person_id, v in months.now.items()}
    load(database, months.now)
    chained = Chained.create(database, tmp_path, min_newcomers=9, max_wait=1)
    options = {"by": ["site"]}
    chained.release(**options)
    months.now[500] = (*person(months.rng)[:2], "b", "flu", 0)
    seen = []
    for month in range(5):
        if month == 2:
            for person_id in range(600, 603):
                months.now[person_id] = (*person(months.rng)[:2], "a", "flu", 0)
        load(database, months.now)
        chained.release(**options)
        counted = chained.show().releases[-1]
        seen.append((counted["joined"], counted["longest"]))
    # The three come with the third, and wait once.
    assert seen == [(0, 0), (0, 1), (0, 2), (3, 3), (0, 4)]


def test_a_class_is_good_that_is_no_worse_than_the_mean_of_the_first() -> None:
    """Where few classes of the first release lose most, four times the median is less."""
    even, tailed = np.array([1.0, 2.0, 3.0]), np.array([*[1.0] * 9, 91.0])
    assert compute_typical_loss(even) == 2
    assert compute_typical_loss(tailed) == 10 / 4
    losses = np.array([4.1, 8.0, 8.1, 10.0, 10.1])
    for of_first, good in ((even, 2), (tailed, 4)):
        let_in = select_classes(
            ChainRules(changes="show", min_newcomers=0),
            2,
            losses,
            np.zeros(5, np.int64),
            10,
            compute_typical_loss(of_first),
        )
        assert let_in.tolist() == [i < good for i in range(5)]


def test_chains_of_earlier_versions_keep_their_rules() -> None:
    assert ChainRules.from_plain({"changes": "show", "admit_every": 2}).min_group_size(5) == 0
    assert ChainRules(changes="show").min_group_size(5) == 25
