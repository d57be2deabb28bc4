"""Persons who leave and return, on the plain reference: no person's rows are then fewer than k.

The reader of the releases knows who is in the source at each release, and that a row never changes
while its person is out, nor with the release at which the person is back. Every value is unique: a
row that occurs in two releases belongs to the same person. A reader wins who finds fewer than k
possible rows of a person, or fewer than k possible persons of a row. ``CHAINS=full`` tries more
worlds and larger ones.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement, islice, pairwise, permutations, product
from typing import Any

import pytest

from tests.reference.chain_rules import Person, Row, Rules
from tests.reference.chains import Chain

FULL = os.environ.get("CHAINS") == "full"
Labels = tuple[int, ...]
# Each distinct display of a class: the first release with it, the last one at which it matches the
# source, its rows, and its persons.
Displays = list[tuple[int, int, frozenset[int], frozenset[Person]]]


@dataclass(frozen=True)
class Life:
    """A class of persons: by release, who is in the source and each person's row."""

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
    """The distinct displays of the class, in order."""
    chain, intervals = Chain(life.rules), []
    for now, (present, rows) in enumerate(zip(life.present, life.rows, strict=True)):
        chain.release({person: Row(0, (0,), rows[person]) for person in present})
        [cell] = chain.cells
        released_rows = frozenset(cell.released_values)
        assert len(released_rows) == len(cell.released_values)
        if not intervals or intervals[-1][2] != released_rows:
            intervals.append((now, now, released_rows, frozenset(cell.members)))
        elif cell.state == "live" and released_rows == {rows[person] for person in present}:
            intervals[-1] = (intervals[-1][0], now, *intervals[-1][2:])
    return intervals


def fewest(life: Life, intervals: Displays) -> int:
    """The fewest rows that can be one person's, in any release; or persons whose one row can be."""
    persons = sorted(intervals[0][3])
    # Assignments of rows to persons that are possible so far, and how each came to be.
    layers = [set(permutations(sorted(intervals[0][2])))]
    steps: list[dict[Labels, set[Labels]]] = []
    for (_, since, before, members), (until, _, after, staying) in pairwise(intervals):
        new, removed = sorted(after - before), before - after
        came: dict[Labels, set[Labels]] = {}
        can = {person for person in persons if life.free(person, since, until)}
        for assignment in layers[-1]:
            moved = [
                p
                for p in persons
                if p in members and assignment[p] in removed and (p in staying or not after)
            ]
            left = members - staying
            if after and (
                any(assignment[p] in after for p in left)
                or len(moved) != len(new)
                or not can.issuperset(moved)
            ):
                continue
            for order in permutations(new) if after else [()]:
                next_one = list(assignment)
                for person, label in zip(moved, order, strict=False):
                    next_one[person] = label
                for person in left:
                    next_one[person] = -1
                came.setdefault(tuple(next_one), set()).add(assignment)
        steps.append(came)
        layers.append(set(came))
    possible = layers[-1]
    least = len(persons)
    for number in range(len(intervals) - 1, -1, -1):
        assert possible
        pairs = {(p, assignment[p]) for assignment in possible for p in intervals[number][3]}
        for side in (0, 1):
            least = min([least, *Counter(pair[side] for pair in pairs).values()])
        if number:
            possible = set().union(*(steps[number - 1][assignment] for assignment in possible))
    return least


def life(rules: Rules, *releases: tuple[str, str]) -> Life:
    """A class by release: the persons who are out, and those whose rows would change, a letter
    each.

    All are in, with distinct rows, at a release before these.
    """
    people = range(rules.size)
    of = [
        tuple(frozenset(map("abcdefghij".index, some)) for some in letters) for letters in releases
    ]
    present = (frozenset(people), *(frozenset(people) - out for out, _ in of))
    return Life(rules, present, rows_of(present, [changing for _, changing in of]))


PAUSE = ("", "")
SEVERAL_ABSENCES = {
    "a person is out twice": life(
        Rules(2, class_size=3), ("a", ""), ("", "b"), PAUSE, ("a", ""), ("", "c")
    ),
    "two rows change each time": life(
        Rules(2, "hold", class_size=5), ("a", ""), ("", "bc"), PAUSE, ("a", ""), ("", "de")
    ),
    "five times, a class of six": life(
        Rules(5, class_size=6),
        *(released_row for other in "bcdef" for released_row in (("a", ""), ("", other), PAUSE)),
    ),
    "others are out each time": life(
        Rules(2, "hold", class_size=5), ("ab", ""), ("", "cde"), PAUSE, ("c", ""), ("", "de")
    ),
    "others are out each time, in a larger class": life(
        Rules(2, "hold", class_size=7), ("abfg", ""), ("", "cde"), ("c", ""), ("", "de")
    ),
}


@pytest.mark.parametrize("of", SEVERAL_ABSENCES.values(), ids=SEVERAL_ABSENCES)
def test_who_is_out_several_times_has_no_fewer_rows(of: Life) -> None:
    assert fewest(of, displays(of)) >= of.rules.k


@pytest.mark.parametrize(
    ("name", "without"),
    [
        *((name, "no return forgotten") for name in list(SEVERAL_ABSENCES)[:3]),
        # k rows that can be each person's, and k persons who were never out, are not enough.
        *((name, "more free than loose") for name in list(SEVERAL_ABSENCES)[3:]),
    ],
)
def test_without_one_of_the_conditions_she_has(name: str, without: str) -> None:
    as_it_is = SEVERAL_ABSENCES[name]
    of = replace(as_it_is, rules=replace(as_it_is.rules, without=frozenset({without})))
    assert fewest(of, displays(of)) == 1
    # The first return is shown anew, too, where nothing came before it.
    assert len(displays(as_it_is)) == (2 if without == "no return forgotten" else 1)


def stays(releases: int, absences: int, changes: int) -> list[tuple[tuple[bool, bool], ...]]:
    """Every way to be in or out of each later release, and to have another row, so often at most.

    Two releases running in the source are needed for a change.
    """
    histories: list[tuple[tuple[bool, bool], ...]] = [()]
    for _ in range(releases - 1):
        longer = []
        for before in histories:
            was_in = not before or before[-1][0]
            options = [(True, False), (False, False)] + [(True, True)] * was_in
            longer += [(*before, stay) for stay in options]
        histories = [
            history
            for history in longer
            if sum(changed for _, changed in history) <= changes
            and sum(then and not now for (then, _), (now, _) in pairwise(((True, False), *history)))
            <= absences
        ]
    return histories


def every(
    n: int, releases: int, absences: int = 9, changes: int = 9, never_out: int = 0
) -> Iterator[Any]:
    """Every class of n persons that is admitted whole: who is in, and what rows they have."""
    # The order of the persons is nothing.
    some = combinations_with_replacement(stays(releases, absences, changes), n - never_out)
    others = list(combinations_with_replacement(stays(releases, 0, changes), never_out))
    for persons in product(some, others):
        by_release = list(zip(*persons[0], *persons[1], strict=True))
        present = [
            frozenset(p for p in range(n) if histories_of_persons[p][0])
            for histories_of_persons in by_release
        ]
        changing = [
            frozenset(p for p in range(n) if histories_of_persons[p][1])
            for histories_of_persons in by_release
        ]
        everybody = (frozenset(range(n)), *present)
        yield everybody, rows_of(everybody, changing)


# Persons, releases; absences and changes of each at most; persons who are never out.
SMALL: list[tuple[int, ...]] = [(4, 3), (3, 4, 2, 1), (3, 6, 2, 1, 2)]
LARGER: list[tuple[int, ...]] = [
    (5, 3),
    (3, 4),
    (4, 4),
    (3, 5),
    (5, 4, 2, 2),
    (3, 6, 2, 1),
    (4, 6, 2, 1, 3),
    (5, 6, 2, 1, 4),
    (3, 8, 3, 1, 2),
    (4, 5, 2, 1),
]


@pytest.mark.slow
@pytest.mark.parametrize("changes", ["show", "hold", "freeze"])
@pytest.mark.parametrize("size", SMALL + LARGER * FULL, ids=str)
def test_nobody_who_returns_has_fewer_rows_than_k(changes: Any, size: tuple[int, ...]) -> None:
    anew = 0
    rules = Rules(2, changes, class_size=size[0])
    for present, rows in every(*size):
        life = Life(rules, present, rows)
        intervals = displays(life)
        if len(intervals) > 1:
            assert fewest(life, intervals) >= 2, life
            anew += 1
    assert anew > 10 or changes == "freeze"


def random_life(seed: int, **rules: Any) -> Life:
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
    options: dict[str, Any] = {"changes": chance.choice(("show", "show", "hold"))} | rules
    life_rules = Rules(k, class_size=n, **options)
    return Life(life_rules, tuple(present), rows_of(present, changing))


@pytest.mark.slow
def test_no_longer_life_has_fewer_rows_than_k() -> None:
    anew = parted = 0
    for seed in range(40_000 if FULL else 250):
        life = random_life(seed)
        intervals = displays(life)
        assert fewest(life, intervals) >= life.rules.k, life
        anew += len(intervals) > 3
        parted += any(0 < len(members) < len(intervals[0][3]) for *_, members in intervals)
    assert anew > 20
    assert parted > 20


@pytest.mark.slow
@pytest.mark.parametrize("changes", ["show", "hold"])
def test_without_the_hold_they_have(changes: Any) -> None:
    without = frozenset({"held after returns"})
    lives = (random_life(seed, changes=changes, without=without) for seed in range(400))
    fewer = (life for life in lives if fewest(life, displays(life)) < life.rules.k)
    assert len(list(islice(fewer, 3))) == 3
