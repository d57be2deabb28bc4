"""Persons who were out and are back, on the plain reference: nobody's rows are fewer than k then.

The reader of the releases knows who is in the source at each, and that nobody's row changes while
they are out, nor with the release at which they are back. Every value stands once: a row that
stands in two releases is one person's. Whoever finds fewer than k rows that can be a person's wins.
``CHAINS=full`` tries more worlds and larger ones.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from functools import cache
from itertools import islice, pairwise, permutations, product
from typing import Any

import pytest

from tests.reference.chain_rules import Person, Row, Rules
from tests.reference.chains import Chain

FULL = os.environ.get("CHAINS") == "full"
Labels = tuple[int, ...]
# What a class shows, whenever it is another: release, rows, and the persons of it.
Displays = list[tuple[int, frozenset[int], frozenset[Person]]]


@dataclass(frozen=True)
class Life:
    """A class of persons: by release who is in the source, and what row each has."""

    rules: Rules
    present: tuple[frozenset[Person], ...]
    rows: tuple[Labels, ...]

    def free(self, person: Person, since: int, until: int) -> bool:
        """Whether a row can have changed after one release and until another."""
        return any(
            person in self.present[now - 1] and person in self.present[now]
            for now in range(since + 1, until + 1)
        )


def rows_of(present: Any, changing: Any) -> tuple[Labels, ...]:
    """Rows by who would change at each release; those who are out, or were, do not."""
    n = len(present[0])
    rows, fresh = [tuple(range(n))], n
    for now in range(1, len(present)):
        row = list(rows[-1])
        for person in range(n):
            if person in changing[now - 1] and person in present[now - 1] & present[now]:
                row[person], fresh = fresh, fresh + 1
        rows.append(tuple(row))
    return tuple(rows)


def displays(life: Life) -> Displays:
    """What the class shows, whenever it is another: release, rows, and the persons of it."""
    chain, found = Chain(life.rules), []
    for now, (present, rows) in enumerate(zip(life.present, life.rows, strict=True)):
        chain.release({person: Row(0, (0,), rows[person]) for person in present})
        [cell] = chain.cells
        shown = frozenset(cell.shown)
        assert len(shown) == len(cell.shown)
        if not found or found[-1][1] != shown:
            found.append((now, shown, frozenset(cell.members)))
    return found


def fewest(life: Life, shown: Displays) -> int:
    """The fewest rows that can be one person's, in any release that shows her class."""
    persons = sorted(shown[0][2])
    # Assignments of rows to persons that are possible so far, and how each came to be.
    layers = [set(permutations(sorted(shown[0][1])))]
    steps: list[dict[Labels, set[Labels]]] = []
    for (since, before, whose), (until, after, staying) in pairwise(shown):
        new, gone = sorted(after - before), before - after
        came: dict[Labels, set[Labels]] = {}
        can = {person for person in persons if life.free(person, since, until)}
        for held in layers[-1]:
            moved = [
                p for p in persons if p in whose and held[p] in gone and (p in staying or not after)
            ]
            left = whose - staying
            if after and (
                any(held[p] in after for p in left)
                or len(moved) != len(new)
                or not can.issuperset(moved)
            ):
                continue
            for order in permutations(new) if after else [()]:
                next_one = list(held)
                for person, label in zip(moved, order, strict=False):
                    next_one[person] = label
                for person in left:
                    next_one[person] = -1
                came.setdefault(tuple(next_one), set()).add(held)
        steps.append(came)
        layers.append(set(came))
    possible = layers[-1]
    least = len(persons)
    for number in range(len(shown) - 1, -1, -1):
        assert possible
        for person in shown[number][2]:
            least = min(least, len({held[person] for held in possible}))
        if number:
            possible = set().union(*(steps[number - 1][held] for held in possible))
    return least


@cache
def every(n: int, releases: int) -> list[tuple[tuple[frozenset[Person], ...], tuple[Labels, ...]]]:
    """Every way to be in or out, and to change, of a class that is admitted whole."""
    people = range(n)
    sets = [frozenset(p for p in people if chosen >> p & 1) for chosen in range(2**n)]
    seen = {}
    for later in product(sets, repeat=releases - 1):
        present = (sets[-1], *later)
        # The order of the persons is nothing.
        for changing in product(sets, repeat=releases - 1):
            rows = rows_of(present, changing)
            key = tuple(sorted(
                tuple((p in now, before[p] != row[p]) for now, before, row in
                      zip(present[1:], rows, rows[1:], strict=False))
                for p in people
            ))  # fmt: skip
            seen.setdefault(key, (present, rows))
    return [*seen.values()]


SMALL = [(4, 3)]
LARGER = [(5, 3), (4, 4)]


@pytest.mark.slow
@pytest.mark.parametrize("changes", ["show", "hold", "freeze"])
@pytest.mark.parametrize(("n", "releases"), SMALL + LARGER * FULL)
def test_nobody_who_returns_has_fewer_rows_than_k(changes: Any, n: int, releases: int) -> None:
    anew = 0
    rules = Rules(2, changes, class_size=n)
    for present, rows in every(n, releases):
        life = Life(rules, present, rows)
        shown = displays(life)
        assert fewest(life, shown) >= 2, life
        anew += len(shown) > 1
    assert anew > 10 or changes == "freeze"


def drawn(seed: int, **rules: Any) -> Life:
    """A longer life of a larger class; most who leave are back."""
    chance = random.Random(seed)
    n = chance.choice((4, 5, 6))
    k = 2 if n < 6 else chance.choice((2, 3))
    rate, out = chance.choice((0.1, 0.3, 0.6)), chance.choice((0.1, 0.25))
    people = range(n)
    present = [frozenset(people)]
    for _ in range(chance.choice((4, 6))):
        present.append(frozenset(p for p in people if chance.random() >= out))
    changing = [{p for p in people if chance.random() < rate} for _ in present[1:]]
    told: dict[str, Any] = {"changes": chance.choice(("show", "show", "hold"))} | rules
    own = Rules(k, class_size=n, **told)
    return Life(own, tuple(present), rows_of(present, changing))


@pytest.mark.slow
def test_nor_in_longer_lives() -> None:
    anew = parted = 0
    for seed in range(40_000 if FULL else 250):
        life = drawn(seed)
        shown = displays(life)
        assert fewest(life, shown) >= life.rules.k, life
        anew += len(shown) > 3
        parted += any(0 < len(whose) < len(shown[0][2]) for *_, whose in shown)
    assert anew > 20
    assert parted > 20


@pytest.mark.slow
@pytest.mark.parametrize("changes", ["show", "hold"])
def test_without_the_hold_they_have(changes: Any) -> None:
    without = frozenset({"held after returns"})
    lives = (drawn(seed, changes=changes, without=without) for seed in range(400))
    fewer = (life for life in lives if fewest(life, displays(life)) < life.rules.k)
    assert len(list(islice(fewer, 3))) == 3
