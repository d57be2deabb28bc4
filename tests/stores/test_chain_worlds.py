"""Random worlds through the product: its cells match the reference, and no exchange is visible.

The product forms the classes. The reference decides who joins a class and everything that happens
to a cell. ``CHAINS=full`` tries more worlds.
"""

from __future__ import annotations

import copy
import functools
import os
import random
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import dbanon
import dbanon.extensions.chains.newcomers as newcomers
from dbanon.errors import (
    LinkingColumnRefused,
    ModelInfeasible,
    TellingColumnRefused,
    TooFewRecords,
)
from dbanon.partitioning import protect as protection
from tests.reference.chain_rules import Person, Row, Rules, by_order
from tests.reference.chain_worlds import (
    MODELS,
    NO_MODEL,
    Models,
    World,
    exchangeable,
    random_world,
    with_rows,
)
from tests.reference.chains import Chain
from tests.stores.chain_runs import NAME, ChainRun, combined, published_counts
from tests.stores.databases import Database, DuckdbDatabase, SqliteDatabase

FULL = os.environ.get("CHAINS") == "full"
# With models and without. The campaign runs 1,000 worlds on two databases. Otherwise every fourth
# world runs on DuckDB, which takes five times as long.
KINDS = (DuckdbDatabase, SqliteDatabase)
WORLDS = [
    pytest.param(kind, seed, id=f"{kind.name}-{seed}")
    for seed in range(250 if FULL else 6)
    for kind in (KINDS if FULL else [KINDS[seed % 4 != 0]])
]
RELEASES = 9 if FULL else 5


def world_of(seed: int, models: Models = NO_MODEL) -> World:
    """A world with these models, no longer than there is time for."""
    world = random_world(random.Random(seed), models=models)
    return replace(
        world,
        present=world.present[:RELEASES],
        rows=world.rows[:RELEASES],
        erased=world.erased[:RELEASES],
    )


def followed(
    run: ChainRun, cores: Sequence[Any] = (), pools: Sequence[Any] = ()
) -> tuple[Chain, list[Counter[Any] | None], list[Any]]:
    """Run the product over a world, the reference beside it; its releases, and its reports.

    Parameters
    ----------
    cores : where there are models: what ``watch_classes`` gave.
    pools : where newcomers wait for good classes: what ``watched_pools`` gave.
    """
    world = run.world
    chain = Chain(world.rules, combine=combined, turn=functools.cache(run.turn))
    seen_persons: set[int] = set()
    known_members: Mapping[Person, Any] = {}
    releases: list[Counter[Any] | None] = []
    reports = []
    for source, erased in zip(world.sources(), world.erased, strict=True):
        for person in erased:
            if any(person in cell.members for cell in chain.cells):
                dbanon.withdraw(run.database.url, NAME, [str(person)], key=f"file:{run.key}")
                chain.withdraw(person)
        run.fill(source)
        after = copy.deepcopy(chain)
        numbered = None
        if world.rules.several:
            # Every person with a row in the first table who is in no cell.
            persons = {p for p, row in source.items() if any(part == 0 for part, _ in row.kept)}
            numbered = run.by_tag(persons - set(known_members))
        try:
            reports.append(published_counts(run.release()))
        except (TooFewRecords, ModelInfeasible) as error:
            after.cluster = by_order
            violations = after.release(source)
            # Nothing was kept of a first release that a stratum fails: it never was.
            if isinstance(error, ModelInfeasible):
                assert not releases or releases[-1] is None
                assert "refused" in {cell.state for cell in after.cells}
            else:
                assert not violations
            releases.append(None)
            continue
        members = known_members = run.members()
        classes: dict[int, set[Person]] = {}
        for person, (cell, _) in members.items():
            if cell not in seen_persons:
                classes.setdefault(cell, set()).add(person)
        seen_persons |= set(classes)
        refused = {cell: state == "refused" for cell, state in run.cells().items()}

        def as_pooled(
            records: Sequence[Any],
            size: int,
            pool: Sequence[set[Person]] = pools[-1] if pools else list(classes.values()),
            numbered: Sequence[Person] | None = numbered if pools else None,
        ) -> list[list[Person]]:
            """The classes that the product found of newcomers, before it let some of them in."""
            persons = {person for person, _ in records}
            if numbered is not None:
                # Persons with several rows are numbered by their tags.
                pool = [{numbered[number - 1] for number in members} for members in pool]
            members_of_pools = [members for members in pool if members & persons]
            assert set().union(*members_of_pools) == persons
            assert all(len(members) >= size for members in members_of_pools)
            return [sorted(members) for members in members_of_pools]

        def as_found(
            chosen: list[list[Person]],
            classes: dict[int, set[Person]] = classes,
            source: Mapping[Person, Row] = source,
            refused: Mapping[int, bool] = refused,
        ) -> list[list[Person]]:
            """The cells that the product formed from the admitted persons."""
            persons = set().union(*chosen)
            matching = [members for members in classes.values() if members & persons]
            if any(refused[cell] for cell in classes if classes[cell] & persons):
                # All of a stratum or none of it, according to its values.
                assert not chain.keeps([source[person].kept for person in persons])
                assert persons <= set().union(*matching)
                return [sorted(persons)]
            assert set().union(*matching) == persons
            return [sorted(members) for members in matching]

        chain.cluster, chain.merge = as_pooled, as_found
        assert run.rows() == chain.release(source)
        for cell in chain.cells:
            if world.rules.models and cell.admitted == chain.sequence and cell.state == "live":
                cell.cores = [
                    frozenset(core) for core in cores[-1] if core & set().union(*cell.cores)
                ]
                assert set().union(*cell.cores) == cell.members
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


def watch_classes(monkeypatch: pytest.MonkeyPatch) -> list[list[set[Person]]]:
    """The classes that a release has before models look at them: a list, one of each release."""
    seen: list[list[set[Person]]] = []
    as_it_is = protection.protect

    def protect(microdata: Any, partition: Any, *args: Any) -> Any:
        together: dict[int, set[Person]] = {}
        # Persons are the keys of rows.
        for (person,), label in zip(
            microdata.keys.tolist(), partition.labels.tolist(), strict=True
        ):
            together.setdefault(label, set()).add(person)
        seen.append(list(together.values()))
        return as_it_is(microdata, partition, *args)

    monkeypatch.setattr(protection, "protect", protect)
    return seen


def watched_pools(monkeypatch: pytest.MonkeyPatch) -> list[list[set[Person]]]:
    """The classes of all newcomers before some are admitted: a list with one entry per release."""
    seen: list[list[set[Person]]] = []
    as_it_is = newcomers.partition_for

    def partition_for(microdata: Any, policy: Any, **context: Any) -> Any:
        result = as_it_is(microdata, policy, **context)
        together: dict[int, set[Person]] = {}
        for (person,), label in zip(
            microdata.keys.tolist(), result.classes.labels.tolist(), strict=True
        ):
            together.setdefault(label, set()).add(person)
        seen.append(list(together.values()))
        return result

    monkeypatch.setattr(newcomers, "partition_for", partition_for)
    return seen


def require_no_visible_exchange(
    kind: Any, world: World, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Chain:
    """Follow a world, and again with two persons of a class exchanged; the reference beside it."""
    run = ChainRun(kind(folder / "first"), world, folder)
    run.create()
    # The same chain and key for all: a tie is decided alike.
    copy = folder / "copy"
    shutil.copy2(run.database.path, copy)
    with monkeypatch.context() as patch:
        chain, releases, reports = followed(run, watch_classes(patch), watched_pools(patch))
    notes = run.recorded_state()
    n_refused = sum(release is None for release in releases)
    pairs = [
        (*pair, n_refused + admitted)
        for persons, admitted in exchangeable(chain)
        for pair in pairwise(sorted(persons))
    ]
    if not pairs:
        return chain
    exchanged = world.exchanged(*random.Random(len(pairs)).choice(pairs))
    if world.rules.models:
        # Keep the rows of months whose release was refused: their exchange could allow a release.
        exchanged = replace(exchanged, rows=(*world.rows[:n_refused], *exchanged.rows[n_refused:]))
    again = ChainRun(kind(copy), exchanged, folder)
    with monkeypatch.context() as patch:
        _, same, same_reports = followed(again, watch_classes(patch), watched_pools(patch))
    assert same == releases
    assert same_reports == reports
    assert again.recorded_state() == notes
    return chain


@pytest.mark.parametrize(("kind", "seed"), WORLDS)
def test_the_product_is_the_reference_and_no_exchange_is_visible(
    kind: Any, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_no_visible_exchange(kind, world_of(seed), tmp_path, monkeypatch)


def world_of_rows(seed: int) -> World:
    """A world of persons with several rows, of even numbers in two tables."""
    world = world_of(seed)
    limited = replace(world.rules, several=True, max_rows=(None, 1, 2)[seed % 3])
    return with_rows(replace(world, rules=limited), tables=1 + (seed + 1) % 2)


@pytest.mark.parametrize(("kind", "seed"), WORLDS if FULL else WORLDS[:4])
def test_persons_with_several_rows_are_those_of_the_reference(
    kind: Any, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_no_visible_exchange(kind, world_of_rows(seed), tmp_path, monkeypatch)


@pytest.mark.parametrize(("kind", "seed"), WORLDS)
def test_with_models_no_exchange_is_visible_inside_the_classes_before(
    kind: Any, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The last of them compare with the first release.
    models = MODELS[-1 - seed % len(MODELS)]
    require_no_visible_exchange(kind, world_of(seed, models), tmp_path, monkeypatch)


def withholding(run: ChainRun, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Any], list[Any]]:
    """Run the product alone, failing classes withheld; what it tells, and the classes before.

    Beside each of these the release that found it.
    """
    published: list[Any] = []
    classes: list[Any] = []
    with monkeypatch.context() as patch:
        classes_seen = watch_classes(patch)
        for number, source in enumerate(run.world.sources(), 1):
            run.fill(source)
            try:
                report = run.release(withhold_failing=True, max_suppression=1.0)
            except (TooFewRecords, ModelInfeasible):
                published.append(None)
            else:
                published.append((run.rows(), published_counts(report)))
                classes += [(core, number) for core in (classes_seen[-1] if classes_seen else [])]
            classes_seen.clear()
    return published, classes


@pytest.mark.parametrize(("kind", "seed"), WORLDS)
def test_where_classes_are_withheld_no_exchange_is_visible(
    kind: Any, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = replace(world_of(seed, MODELS[seed % len(MODELS)]), erased=((),) * RELEASES)
    run = ChainRun(kind(tmp_path / "first"), world, tmp_path)
    run.create()
    shutil.copy2(run.database.path, tmp_path / "copy")
    released, classes = withholding(run, monkeypatch)
    pairs = [(*pair, number) for core, number in classes for pair in pairwise(sorted(core))]
    if not pairs:
        return
    n_refused = next(number for number, release in enumerate(released) if release is not None)
    exchanged = world.exchanged(*random.Random(seed).choice(pairs))
    exchanged = replace(exchanged, rows=(*world.rows[:n_refused], *exchanged.rows[n_refused:]))
    again = ChainRun(kind(tmp_path / "copy"), exchanged, tmp_path)
    assert withholding(again, monkeypatch)[0] == released


@pytest.mark.parametrize("world", [world_of(100), world_of_rows(102)], ids=["one", "several"])
def test_the_product_is_the_reference_in_every_database(
    world: World, make_database: Any, tmp_path: Path
) -> None:
    database: Database = make_database("postgresql")
    # Rows have other keys here than persons, so that pools are not watched.
    run = ChainRun(database, replace(world, rules=replace(world.rules, max_wait=0)), tmp_path)
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
    run = ChainRun(SqliteDatabase(tmp_path / "first"), world, tmp_path)
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
    other = ChainRun(SqliteDatabase(tmp_path / "second"), changed, tmp_path)
    _, same, same_reports = followed(other)
    assert (same, same_reports) == (releases, reports)
    assert run.recorded_state() == other.recorded_state()
    # A release without a chain mentions the copy, so the comparison has something to detect.
    tells = []
    for of, name in ((world, "as they were"), (changed, "alone")):
        independent = ChainRun(SqliteDatabase(tmp_path / name), of, tmp_path)
        independent.fill(next(iter(of.sources())))
        tells.append(independent.release(chain=None).disclosive_columns)
    copies = [any(column.determines == "q0" for column in columns) for columns in tells]
    assert copies == [copied, False]


def test_strict_refuses_nothing_that_an_exchange_changes(tmp_path: Path) -> None:
    """It refuses a column whose values few share, and a copy that the released rows show.

    A copy that an exchange of persons of a cell has made of another column is refused alike.
    """
    rows = tuple(Row(0, (i // 5, i % 5), i // 5) for i in range(40))
    unique_rows = tuple(replace(row, kept=i) for i, row in enumerate(rows))
    world = World(Rules(4), (frozenset(range(40)),), (rows,), ((),))

    def strictly(name: str, of: World) -> str:
        (tmp_path / name).mkdir()
        run = ChainRun(SqliteDatabase(tmp_path / name / "people.db"), of, tmp_path / name)
        run.create()
        run.fill(next(iter(of.sources())))
        with pytest.raises((TellingColumnRefused, LinkingColumnRefused)) as refused:
            run.release(strict=True)
        return f"{refused.value.code}: {refused.value.detail}"

    (tmp_path / "cells").mkdir()
    run = ChainRun(SqliteDatabase(tmp_path / "cells" / "people.db"), world, tmp_path / "cells")
    run.create()
    chain, _, _ = followed(run)
    changed = world
    for persons, _ in exchangeable(chain):
        members = sorted(persons)
        for a, b in zip(members[::2], members[1::2], strict=False):
            changed = changed.exchanged(a, b, len(world.rows))
    assert changed != world
    assert strictly("copies", world).startswith("linking_column")
    assert strictly("exchanged", changed) == strictly("again", world)
    assert strictly("alone", replace(world, rows=(unique_rows,))).startswith("telling_column")
