"""Random worlds through the product: its cells are the reference's, and no exchange is visible.

Classes are the product's own; who is to be in one is the reference's word, and so is all that
becomes of a cell. ``CHAINS=full`` tries more worlds.
"""

from __future__ import annotations

import copy
import os
import random
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import dbanon
from dbanon.errors import TellingColumnRefused, TooFewRecords
from tests.reference.chain_worlds import World, exchangeable, random_world
from tests.reference.chains import Chain, Person, Row, Rules, by_order
from tests.stores.chain_runs import NAME, ChainRun, combined, told
from tests.stores.databases import Database, DuckdbDatabase, SqliteDatabase

FULL = os.environ.get("CHAINS") == "full"
WORLDS = range(40 if FULL else 5)
RELEASES = 9 if FULL else 5


def world_of(seed: int) -> World:
    """A world without models, no longer than there is time for."""
    world = random_world(random.Random(seed), diverse=1)
    return replace(
        world,
        present=world.present[:RELEASES],
        rows=world.rows[:RELEASES],
        erased=world.erased[:RELEASES],
    )


def followed(run: ChainRun) -> tuple[Chain, list[Counter[Any] | None], list[Any]]:
    """Run the product over a world, the reference beside it; its releases, and its reports."""
    world = run.world
    chain = Chain(world.rules, combine=combined)
    known: set[int] = set()
    releases: list[Counter[Any] | None] = []
    reports = []
    for source, erased in zip(world.sources(), world.erased, strict=True):
        for person in erased:
            if any(person in cell.members for cell in chain.cells):
                dbanon.withdraw(run.database.url, NAME, [str(person)], key=f"file:{run.key}")
                chain.withdraw(person)
        run.fill(source)
        after = copy.deepcopy(chain)
        try:
            reports.append(told(run.release()))
        except TooFewRecords:
            after.cluster = by_order
            assert not after.release(source)
            releases.append(None)
            continue
        members = run.members()
        classes: dict[int, set[Person]] = {}
        for person, (cell, _) in members.items():
            if cell not in known:
                classes.setdefault(cell, set()).add(person)
        known |= set(classes)

        def as_found(
            records: Sequence[Any], size: int, classes: dict[int, set[Person]] = classes
        ) -> list[list[Person]]:
            persons = {person for person, _ in records}
            found = [members for members in classes.values() if members & persons]
            assert set().union(*found) == persons
            assert all(len(members) >= size for members in found)
            return [sorted(members) for members in found]

        chain.cluster = as_found
        assert run.rows() == chain.release(source)
        releases.append(run.rows())
        _agree(run, chain, members)
    return chain, releases, reports


def _agree(run: ChainRun, chain: Chain, members: dict[Person, tuple[int, int | None]]) -> None:
    """The product's state is the reference's: who is in, with whom, what became of each cell."""
    mine = chain.histories()
    assert set(members) == set(mine)
    number = {mine[person][0]: cell for person, (cell, _) in members.items()}
    assert {person: (number[cell], left) for person, (cell, left) in mine.items()} == members
    states = run.cells()
    assert {number[i]: cell.state for i, cell in enumerate(chain.cells)} == states


@pytest.mark.parametrize("seed", WORLDS)
@pytest.mark.parametrize("kind", [DuckdbDatabase, SqliteDatabase])
def test_the_product_is_the_reference_and_no_exchange_is_visible(
    kind: Any, seed: int, tmp_path: Path
) -> None:
    world = world_of(seed)
    database = kind(tmp_path / "first")
    run = ChainRun(database, world, tmp_path)
    run.create()
    # The same chain and key for all: a tie is decided alike.
    copies = [tmp_path / f"copy{i}" for i in range(3 if FULL else 1)]
    for path in copies:
        shutil.copy2(database.path, path)
    chain, releases, reports = followed(run)
    noted = run.noted()
    pairs = [
        (*pair, admitted)
        for persons, admitted in exchangeable(chain)
        for pair in pairwise(sorted(persons))
    ]
    chance = random.Random(seed)
    for path in copies:
        if not pairs:
            continue
        exchanged = world.exchanged(*chance.choice(pairs))
        again = ChainRun(kind(path), exchanged, tmp_path)
        _, same, same_reports = followed(again)
        assert same == releases
        assert same_reports == reports
        assert again.noted() == noted


def test_the_product_is_the_reference_in_every_database(make_database: Any, tmp_path: Path) -> None:
    database: Database = make_database("postgresql")
    run = ChainRun(database, world_of(100), tmp_path)
    run.create()
    followed(run)


@pytest.mark.parametrize("copied", [False, True])
def test_a_report_tells_nothing_that_an_exchange_changes(tmp_path: Path, copied: bool) -> None:
    """Not the first either, not even of kept columns that copy a quasi-identifier."""
    chance = random.Random(0)
    rows = tuple(Row(0, (chance.randrange(9), chance.randrange(9)), i % 3) for i in range(36))
    if copied:
        rows = tuple(replace(row, kept=row.qi[0]) for row in rows)
    some, everybody = frozenset(range(24)), frozenset(range(len(rows)))
    world = World(Rules(4), (some, everybody), (rows, rows), ((), ()))
    run = ChainRun(DuckdbDatabase(tmp_path / "first"), world, tmp_path)
    run.create()
    for copy_of in ("second", "alone", "as they were"):
        shutil.copy2(tmp_path / "first", tmp_path / copy_of)
    chain, releases, reports = followed(run)
    changed = world
    for persons, _ in exchangeable(chain):
        members = sorted(persons)
        for a, b in zip(members[::2], members[1::2], strict=False):
            changed = changed.exchanged(a, b, len(world.rows))
    assert changed != world
    other = ChainRun(DuckdbDatabase(tmp_path / "second"), changed, tmp_path)
    _, same, same_reports = followed(other)
    assert (same, same_reports) == (releases, reports)
    assert run.noted() == other.noted()
    # A release without a chain tells of the copy, so that there is something to be seen.
    tells = []
    for of, name in ((world, "as they were"), (changed, "alone")):
        independent = ChainRun(DuckdbDatabase(tmp_path / name), of, tmp_path)
        independent.fill(next(iter(of.sources())))
        tells.append(independent.release(chain=None).telling)
    copies = [any(one.determines == "q0" for one in found) for found in tells]
    assert copies == [copied, False]


def test_strict_refuses_nothing_that_an_exchange_changes(tmp_path: Path) -> None:
    """It refuses a column whose values few share, in a chain as elsewhere, and no copy."""
    rows = tuple(Row(0, (i // 5, i % 5), i // 5) for i in range(40))
    alone = tuple(replace(row, kept=i) for i, row in enumerate(rows))
    for name, of, refused in (("copies", rows, False), ("alone", alone, True)):
        world = World(Rules(4), (frozenset(range(40)),), (of,), ((),))
        (tmp_path / name).mkdir()
        run = ChainRun(DuckdbDatabase(tmp_path / name / "people.duckdb"), world, tmp_path / name)
        run.create()
        run.fill(next(iter(world.sources())))
        if refused:
            with pytest.raises(TellingColumnRefused):
                run.release(strict=True)
        else:
            assert not run.release(strict=True).telling
            with pytest.raises(TellingColumnRefused):
                run.release(strict=True, chain=None)
