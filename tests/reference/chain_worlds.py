"""Random worlds for chains: who is in the source at each release, and what it says of everybody."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest
from typing import Any, TypeAlias

from tests.reference.chain_rules import ModelKind, Person, Row, Rules, Source, State, Value
from tests.reference.chains import Chain

Models: TypeAlias = tuple[tuple[ModelKind, float], ...]

NO_MODEL: Models = ()
MODELS: tuple[Models, ...] = (
    (("distinct_l", 2),),
    (("distinct_l", 3),),
    (("entropy_l", 1.8),),
    (("recursive_cl", 2.5),),
    (("alpha_k", 0.6),),
    (("distinct_l", 2), ("alpha_k", 0.75)),
    (("t_closeness", 0.5),),
    (("beta_likeness", 2.0),),
    (("delta_disclosure", 1.2),),
)
BESIDE_TABLE = MODELS[-3:]


@dataclass(frozen=True)
class World:
    """Persons over several releases.

    Parameters
    ----------
    rules : of the chain that is run over it.
    present : by release, who is in the source.
    rows : by release, what the source says of each person, or would say of those who are not in.
    erased : by release, whose cell is withdrawn before it.
    """

    rules: Rules
    present: tuple[frozenset[Person], ...]
    rows: tuple[tuple[Row, ...], ...]
    erased: tuple[tuple[Person, ...], ...] = ()

    def sources(self) -> Iterator[dict[Person, Row]]:
        """The rows of the source at each release."""
        for present, rows in zip(self.present, self.rows, strict=True):
            yield {person: rows[person] for person in present}

    def exchanged(self, a: Person, b: Person, admitted: int) -> World:
        """The world with the complete histories of two persons exchanged.

        Retained columns are exchanged at every release, even if one person is absent from the
        source; quasi-identifiers and strata only after admission. Newcomers' presence in the source
        and in the first table is assumed to be known.
        """
        rows = []
        for number, now in enumerate(self.rows, 1):
            mine, hers = now[a], now[b]
            waiting = number < admitted and self.rules.several
            if waiting and _in_first_table(mine) != _in_first_table(hers):
                rows.append(tuple(now))
                continue
            if number <= admitted:
                mine, hers = (
                    Row(mine.stratum, mine.qi, hers.kept),
                    Row(hers.stratum, hers.qi, mine.kept),
                )
            else:
                mine, hers = hers, mine
            changed = list(now)
            changed[a], changed[b] = mine, hers
            rows.append(tuple(changed))
        return replace(self, rows=tuple(rows))


def _in_first_table(row: Row) -> bool:
    return any(part == 0 for part, _ in row.kept)


@dataclass(frozen=True)
class ChainResult:
    """The results of a chain in a world.

    Parameters
    ----------
    world : the world.
    releases : the released rows, as multisets.
    display : per release and person, the combination under which a row of the person appears.
    interchangeable : persons whose complete histories may be exchanged, and their admission.
    cells : persons by cell and departure.
    states : all states that cells had.
    broken : violations of models by rows that a cell shows or that a batch removed. Rows are not
        linked to persons, but the rows that disappear with a batch belong to its persons.
    """

    world: World
    releases: list[Counter[Any]]
    display: list[dict[Person, Any]]
    interchangeable: list[tuple[frozenset[Person], int]]
    cells: list[frozenset[Person]]
    states: set[State]
    broken: list[Any]


def run_chain(world: World, watch: Callable[[Chain, Source], None] | None = None) -> ChainResult:
    """Run the chain over a world; ``watch`` is shown it after each release, and the source."""
    chain = Chain(world.rules)
    releases, display, broken = [], [], []
    states: set[State] = set()
    for source, erased in zip_longest(world.sources(), world.erased, fillvalue=()):
        before = _values_by_cell(chain) if world.rules.models else []
        releases.append(chain.release(source, erased))
        display.append(chain.display())
        if world.rules.models:
            broken += _broken(chain, before)
        states.update([cell.state for cell in chain.cells])
        if watch is not None:
            watch(chain, source)
    cells: dict[tuple[int, int | None], set[Person]] = {}
    for person, history in chain.histories().items():
        cells.setdefault(history, set()).add(person)
    result = [frozenset(persons) for persons in cells.values()]
    return ChainResult(world, releases, display, exchangeable(chain), result, states, broken)


def _values_by_cell(chain: Chain) -> list[dict[Person, Value]]:
    """By cell, the released value of each person."""
    return [
        dict(zip(sorted(cell.released_persons), cell.released_values, strict=True))
        for cell in chain.cells
    ]


def _broken(chain: Chain, before: list[dict[Person, Value]]) -> list[Any]:
    """The values of a release that break a model, after those shown before it."""
    broken = []
    for cell, values in zip_longest(chain.cells, before, fillvalue={}):
        removed: list[Value] = [
            values[p] for p in values.keys() - cell.members if cell.released_persons
        ]
        broken += [
            current
            for current in (cell.released_values, removed)
            if current and not chain.keeps(current)
        ]
    return broken


def _is_visible(result: ChainResult, pair: tuple[Person, Person], admitted: int) -> bool:
    """Whether releases change with the histories of two persons."""
    world = result.world.exchanged(*pair, admitted)
    # Exchanging persons with identical histories changes neither the world nor releases.
    if world == result.world:
        return False
    chain = Chain(world.rules)
    return any(
        chain.release(source, erased) != release
        for (source, erased), release in zip(
            zip_longest(world.sources(), world.erased, fillvalue=()), result.releases, strict=True
        )
    )


def exchangeable(chain: Chain) -> list[tuple[frozenset[Person], int]]:
    """Persons of one class, as it was before a model had it merged, who left together, if they did.

    Beside them the release that let them in.
    """
    histories, result = chain.histories(), []
    for cell in chain.cells:
        for core in cell.cores:
            by_leaving: dict[int | None, set[Person]] = {}
            for person in core:
                by_leaving.setdefault(histories[person][1], set()).add(person)
            result += [(frozenset(persons), cell.admitted) for persons in by_leaving.values()]
    return result


def visible_exchanges(
    result: ChainResult, chance: random.Random | None = None, most: int = 6
) -> list[tuple[Person, Person]]:
    """Pairs of one cell whose exchange a reader of the releases notices.

    Neighbours are tried, which are enough: what no exchange of neighbours changes no other
    does. With ``chance`` only so many of the pairs are, drawn at random.
    """
    pairs = [
        (pair, admitted)
        for persons, admitted in result.interchangeable
        for pair in pairwise(sorted(persons))
    ]
    if chance is not None and len(pairs) > most:
        pairs = chance.sample(pairs, most)
    return [pair for pair, admitted in pairs if _is_visible(result, pair, admitted)]


def too_small(result: ChainResult) -> list[Any]:
    """Joint histories and differences of displays that fewer than k persons share."""
    k, display = result.world.rules.k, result.display
    ever = display[-1].keys()
    joint = Counter(tuple(classes.get(person) for classes in display) for person in ever)
    small: list[Any] = [history for history, count in joint.items() if count < k]
    for earlier, later in pairwise(display):
        moves = Counter(
            (earlier.get(person), later.get(person))
            for person in ever
            if earlier.get(person) != later.get(person)
        )
        for combination in {*earlier.values(), *later.values()} - {None} if moves else ():
            gained = sum(count for (_, to), count in moves.items() if to == combination)
            n_moved = sum(count for (of, _), count in moves.items() if of == combination)
            small += [(combination, count) for count in (gained, n_moved) if 0 < count < k]
    return small


def random_world(chance: random.Random, **rules: Any) -> World:
    """A world with joining, leaving, returning, changes, strata, NULLs, batches and moves."""
    k = chance.choice((2, 2, 3, 4))
    n, releases = chance.randint(3 * k, 14 * k), chance.randint(3, 9)
    options: dict[str, Any] = {
        "k": k,
        "changes": chance.choice(("show", "hold", "freeze")),
        "class_size": chance.choice((None, None, k + 1, 2 * k, 4 * k)),
        "admit_every": chance.choice((1, 1, 1, 2, 3)),
        "departures": chance.choice(("hold", "hold", "hold", "withdraw")),
        "withdraw_above": chance.choice((None, None, 0.5, 0.3)),
        "models": chance.choice((NO_MODEL, NO_MODEL, NO_MODEL, *MODELS)),
    }
    values = chance.choice((2, 3, 10, 1000))
    # A small range gives classes with equal combinations.
    spread, strata = chance.choice((3, 30)), chance.choice((1, 1, 2))
    leave, come, change = (chance.choice((0.02, 0.1, 0.3)) for _ in range(3))

    def value() -> int:
        return chance.randrange(values)

    def qi() -> tuple[int | None, ...]:
        coordinates = chance.randrange(spread), chance.randrange(spread)
        if strata > 1 and chance.random() < 0.2:
            return coordinates[0], None
        return coordinates

    now = [Row(chance.randrange(strata), qi(), value()) for _ in range(n)]
    inside = {person for person in range(n) if chance.random() < chance.choice((0.5, 0.9))}
    present, rows, erased = [], [], []
    for _ in range(releases):
        present.append(frozenset(inside))
        rows.append(tuple(now))
        erased.append((chance.randrange(n),) if chance.random() < 0.05 else ())
        # Whole neighbourhoods leave or change together: batches, and k changes in a cell.
        away = {p for p in inside if chance.random() < leave}
        moved = {p for p in range(n) if chance.random() < change}
        if chance.random() < 0.3:
            middle = chance.randrange(spread)
            near = [p for p in range(n) if abs((now[p].qi[0] or 0) - middle) < spread / 5]
            (away if chance.random() < 0.5 else moved).update(
                p for p in near if chance.random() < 0.7
            )
        back = {p for p in range(n) if p not in inside and chance.random() < come}
        inside = (inside - away) | back
        for person in moved:
            changed_row = replace(now[person], kept=value())
            now[person] = replace(changed_row, qi=qi()) if chance.random() < 0.3 else changed_row
    waits = ({}, {"max_wait": 1}, {"max_wait": 3}, {"min_newcomers": 8, "max_wait": 2})
    few: dict[str, Any] = chance.choice(waits)
    return World(Rules(**(options | few | rules)), tuple(present), tuple(rows), tuple(erased))


def with_rows(world: World, tables: int = 2) -> World:
    """The world with one to three rows, or four, in place of each kept value."""

    def rows_of(value: int) -> tuple[Any, ...]:
        many = 4 if value % 11 == 10 else 1 + value % 3
        return tuple(sorted(((value + i) % tables, (7 * value + 3 * i) % 5) for i in range(many)))

    rows = tuple(
        tuple(replace(row, kept=rows_of(int(row.kept))) for row in now) for now in world.rows
    )
    return replace(world, rows=rows)
