"""The swap theorem of chains where persons have several rows, in one table or in several."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, combinations_with_replacement, islice, product
from typing import Any

import pytest

from tests.reference.chain_rules import Row, Rules
from tests.reference.chain_worlds import (
    World,
    run_chain,
    too_small,
    visible_exchanges,
    with_rows,
)
from tests.unit.test_chain_theorem import FULL, LARGER, RULES, SMALL, WORLDS, symbolic, worlds

SEVERAL = {"several": True, "models": ()}


def worlds_of_rows(count: int, **rules: Any) -> Iterator[tuple[World, random.Random]]:
    for world, chance in worlds(count, **(SEVERAL | rules)):
        most = chance.choice((None, 1, 2))
        limited = replace(world.rules, max_rows=world.rules.max_rows or most)
        yield with_rows(replace(world, rules=limited)), chance


def test_no_exchange_is_visible_where_persons_have_several_rows() -> None:
    tables, numbers = set(), set()
    for world, chance in worlds_of_rows(WORLDS // 6):
        result = run_chain(world)
        assert not visible_exchanges(result, chance), world
        assert not too_small(result), world
        for release in result.releases:
            tables |= {row[0] for _, row in release}
        numbers |= {len(row.kept) for now in world.rows for row in now}
    assert tables == {0, 1}
    assert numbers == {1, 2, 3, 4}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("without", "rules"),
    [
        ("holds", {}),
        ("limit by rows alone", {"max_rows": 1}),
        ("fixed limit", {"max_rows": 1}),
        ("tables together", {}),
        # If a table has no row of a person, the quasi-identifiers are NULL; pools follow these.
        ("quasi-identifiers of the first table", {"max_wait": 0, "class_size": None}),
        ("quality by quasi-identifiers", {"max_wait": 3, "admit_every": 1, "min_newcomers": 0}),
    ],
)
def test_each_defence_is_needed_where_persons_have_several_rows(
    without: str, rules: dict[str, Any]
) -> None:
    random_worlds = worlds_of_rows(300, without=frozenset({without}), **rules)
    visible = (
        world for world, chance in random_worlds if visible_exchanges(run_chain(world), chance)
    )
    assert len(list(islice(visible, 3))) == 3


def of_rows(world: World) -> World:
    """The world with one row or two of each person, in either table or in both, none said twice."""
    rows = tuple(
        tuple(
            replace(row, kept=tuple(((p + i) % 2, (p, now, i)) for i in range(1 + (p + now) % 2)))
            for p, row in enumerate(of_release)
        )
        for now, of_release in enumerate(world.rows)
    )
    return replace(world, rows=rows)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "rules"),
    [
        (size, rules)
        for i, size in enumerate(SMALL + LARGER * FULL)
        for j, rules in enumerate(RULES)
        if FULL or not j or j == 2 + i % 2
    ],
    ids=str,
)
def test_all_small_worlds_where_persons_have_several_rows(
    size: tuple[int, int, int], rules: dict[str, Any]
) -> None:
    """Every way to be in or out, also where newcomers wait for good classes."""
    for world in symbolic(*size, several=True, **rules):
        assert not visible_exchanges(run_chain(of_rows(world)))
    broken = {"several": True, "without": frozenset({"tables together"}), **rules}
    assert any(visible_exchanges(run_chain(of_rows(world))) for world in symbolic(*size, **broken))


A, B = (0, 0), (1, 0)
KEPT_ROWS = ((A,), (B,), (A, A), (A, B))


def rows_and_models(models: Any, without: frozenset[str] = frozenset()) -> Iterator[World]:
    """Four persons of one class and two who come later; one row or two, with models on them.

    A model counts all kept values of a person as one value; the product refuses models there, as
    readers would count rows.
    """
    old = combinations_with_replacement(product((True, False), KEPT_ROWS[::3], KEPT_ROWS[::3]), 2)
    new = list(combinations_with_replacement(product((True,), KEPT_ROWS[:1], KEPT_ROWS[::3]), 2))
    pairs = list(old)
    for first, other, late in product(pairs, pairs, new):
        persons = (*first, *other, *late)
        yield World(
            Rules(2, models=models, several=True, class_size=4, without=without),
            (frozenset(range(4)), frozenset(p for p in range(6) if persons[p][0])),
            tuple(tuple(Row(0, (p,), persons[p][1 + now]) for p in range(6)) for now in range(2)),
        )


@pytest.mark.slow
@pytest.mark.parametrize("models", [(("distinct_l", 2),), (("alpha_k", 0.75),)], ids=str)
def test_all_small_worlds_of_several_rows_and_models(models: Any) -> None:
    states: set[str] = set()
    for world in rows_and_models(models):
        result = run_chain(world)
        assert not visible_exchanges(result)
        assert not too_small(result)
        assert not result.broken
        states |= result.states
    assert {"live", "held", "refused"} <= states
    unheld = rows_and_models(models, frozenset({"held by models"}))
    assert any(run_chain(world).broken for world in unheld)


@pytest.mark.slow
@pytest.mark.parametrize("changes", ["show", *["hold", "freeze"] * FULL])
@pytest.mark.parametrize("without", [frozenset(), frozenset({"tables together"})], ids=["", "not"])
def test_all_worlds_of_two_persons_with_one_row_or_two(
    changes: Any, without: frozenset[str]
) -> None:
    """In either of two tables or in both; all ways to be in or out of three releases.

    An exchange and its inverse are the same, and two persons with equal rows have none, so kept
    rows appear in one order only.
    """
    stays = combinations_with_replacement(product((True, False), repeat=2), 2)
    rows = list(combinations(product(KEPT_ROWS, repeat=3), 2))
    rules, visible, count = Rules(2, changes, several=True, without=without), 0, 0
    for (first, other), kept_rows in product(stays, rows):
        persons = ((first, kept_rows[0]), (other, kept_rows[1]))
        world = World(
            rules,
            tuple(
                frozenset(p for p in range(2) if now == 0 or persons[p][0][now - 1])
                for now in range(3)
            ),
            tuple(tuple(Row(0, (0,), persons[p][1][now]) for p in range(2)) for now in range(3)),
        )
        visible += bool(visible_exchanges(run_chain(world)))
        count += 1
        if visible and without:
            break
    assert bool(visible) is bool(without)
    assert without or count == 20_160
