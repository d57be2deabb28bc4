"""A chain of releases, the plain way: cells, holds and admissions, on Python's own lists and dicts.

Nothing here is shared with the product. What is left out by ``without`` are its defences: a test
that passes without one of them does not test it.
"""

from __future__ import annotations

import math
import statistics
import zlib
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

Person = int
Value = Hashable
# What a reader sees of a class: stratum and released values; None where nothing was known.
Combination = tuple[Any, ...]
State = Literal["live", "held", "gone", "withdrawn", "refused"]
ModelKind = Literal["distinct_l", "entropy_l", "recursive_cl", "alpha_k"]

# Without them persons can be told apart: `hold` of cells that somebody left; the released values of
# the day of admission; keeping out for good whom a model refused, and who left and came back; no
# batches where changes are held, or where a model is kept; the rows shown last where a model would
# be broken by those of now; the rows shown last where somebody was out and is back, and too few of
# those of now stood there before; the quality of newcomers' classes by quasi-identifiers alone.
# Where persons have several rows: which of many are shown, without a look at whose they are; one
# number for all times of how many; one table with the others.
DEFENCES = frozenset(
    {
        "holds",
        "frozen values",
        "refused for good",
        "left for good",
        "no batches under hold",
        "no batches under models",
        "held by models",
        "held after returns",
        "quality by quasi-identifiers",
        "limit by rows alone",
        "fixed limit",
        "tables together",
    }
)


@dataclass(frozen=True)
class Row:
    """What the source says of a person at one release.

    Parameters
    ----------
    stratum : the values of the `by` columns.
    qi : the quasi-identifiers, None for NULL.
    kept : what is released as it is, such as the diagnosis. Where persons have several rows, all
        that is kept of them: a sorted tuple of rows, each a table's number and a value.
    """

    stratum: Value
    qi: tuple[int | None, ...]
    kept: Any


@dataclass(frozen=True)
class Rules:
    """What a chain was created with.

    Parameters
    ----------
    k : the smallest cell.
    changes : whether changed kept values are shown, held below k of them, or frozen.
    class_size : the size newcomers are clustered with; None for k.
    admit_every : newcomers are let in at the first release and at each so many-th after it.
    max_wait : newcomers wait for a good class, for so many releases at most; 0: none waits.
    min_newcomers : fewer newcomers wait, as long.
    departures : whether a cell that somebody left is held or withdrawn.
    withdraw_above : a held cell is withdrawn when more than this share of it has left.
    several : whether a person has several rows.
    max_rows : no more rows of a table and person are shown; None for all.
    models : privacy models, a kind and a level each, that the kept values of a class must keep to.
    without : the defences that are left out.
    """

    k: int
    changes: Literal["show", "hold", "freeze"] = "show"
    class_size: int | None = None
    admit_every: int = 1
    min_newcomers: int = 0
    max_wait: int = 0
    departures: Literal["hold", "withdraw"] = "hold"
    withdraw_above: float | None = None
    several: bool = False
    max_rows: int | None = None
    models: tuple[tuple[ModelKind, float], ...] = ()
    without: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        assert self.without <= DEFENCES

    @property
    def size(self) -> int:
        """How many newcomers make a class."""
        return self.class_size or self.k

    def kept_by(self, values: Sequence[Value]) -> bool:
        """Whether a class with these values keeps to the models."""
        counts = sorted(Counter(values).values(), reverse=True)
        return all(_MODELS[kind](counts, level) for kind, level in self.models)


def _entropy(counts: list[int]) -> float:
    shares = [count / sum(counts) for count in counts]
    return math.exp(-sum(share * math.log(share) for share in shares))


# Of a class by how often its values occur, the most frequent first.
_MODELS: dict[str, Callable[[list[int], float], bool]] = {
    "distinct_l": lambda counts, l: len(counts) >= l,  # noqa: E741
    "entropy_l": lambda counts, l: _entropy(counts) > l - 1e-6,  # noqa: E741
    # Of l = 2.
    "recursive_cl": lambda counts, c: len(counts) > 1 and counts[0] < c * sum(counts[1:]),
    "alpha_k": lambda counts, alpha: counts[0] < alpha * sum(counts) + 1e-6,
}


@dataclass
class Cell:
    """Persons who were admitted as one class and have not left.

    Parameters
    ----------
    combination : what they are released with.
    members : who they are; not those who left in a batch.
    cores : the classes as they were before a model had them merged.
    admitted : at which release, from 1 on.
    state : what became of it.
    shown, whose : the kept values as last released, and the persons whose rows they are.
    missed : who was out since the cell was last shown with everybody in, at two releases running.
    loose : how many rows at most changed while somebody was out; None before any were shown.
    """

    combination: Combination
    members: set[Person]
    cores: list[frozenset[Person]]
    admitted: int
    state: State
    shown: list[Value]
    whose: set[Person]
    missed: set[Person] = field(default_factory=set)
    loose: int | None = None


Source = Mapping[Person, Row]
Released: TypeAlias = "Counter[tuple[Combination, Value]]"
# Classes of the persons given, each of at least so many; from quasi-identifiers alone.
Cluster = Callable[[Sequence[tuple[Person, tuple[int | None, ...]]], int], list[list[Person]]]
# The classes that are let in, once models have merged some of them.
Merge = Callable[[list[list[Person]]], list[list[Person]]]
# The released values of a class, from the rows of its persons.
Combine = Callable[[Sequence[Row]], Combination]
# When a row's turn is, of many of a person: by the row, and by how often it stood before.
Turn = Callable[[Any, int], Any]


def by_value(row: Any, again: int) -> Any:
    """A turn that looks random: that of the products is a hash under the chain's key."""
    return hash((row, again)) % 1009, row, again


def by_order(
    records: Sequence[tuple[Person, tuple[int | None, ...]]], size: int
) -> list[list[Person]]:
    """Classes of ``size`` along the order of the quasi-identifiers; the last one takes the rest."""
    known = sorted(
        (tuple(value for value in qi if value is not None), person) for person, qi in records
    )
    order = [person for _, person in known]
    starts = range(0, max(len(order) // size, 1) * size, size)
    return [order[start : start + size if start != starts[-1] else len(order)] for start in starts]


def combination(rows: Sequence[Row]) -> Combination:
    """The released values: the stratum and the mean of each quasi-identifier, in whole numbers."""
    columns = zip(*(row.qi for row in rows), strict=True)
    means = [
        round(sum(known) / len(known)) if (known := [v for v in column if v is not None]) else None
        for column in columns
    ]
    return rows[0].stratum, *means


def _deviation(column: Sequence[int | None]) -> float:
    """The sample standard deviation of the values that are known."""
    known = [value for value in column if value is not None]
    return statistics.stdev(known) if len(known) > 1 else 0.0


class Chain:
    """A chain: each call of ``release`` takes what the source holds, and gives what is released."""

    def __init__(
        self,
        rules: Rules,
        cluster: Cluster = by_order,
        combine: Combine = combination,
        turn: Turn = by_value,
    ) -> None:
        self.rules, self.turn = rules, turn
        self.cluster, self.combine = cluster, combine
        self.merge: Merge = lambda classes: classes
        self.cells: list[Cell] = []
        # Who left, and at which release it was published: they stay out for good.
        self.left: dict[Person, int] = {}
        self.sequence = 0
        # Who waits, and since which release; what the first release's classes lost, by the median,
        # and the deviations of its columns.
        self.waiting: dict[Person, int] = {}
        self.typical: float | None = None
        self.deviations: list[float] = []
        self.returned: set[Person] = set()

    def release(self, source: Source, erase: Sequence[Person] = ()) -> Released:
        """The rows of the next release, as a multiset; without the cells of whom to ``erase``."""
        for person in erase:
            self.withdraw(person)
        self.sequence += 1
        source = self._limited(source)
        known = {person for cell in self.cells for person in cell.members}
        if "left for good" not in self.rules.without:
            known |= set(self.left)
        self.returned = set(self.left) & set(source)
        for cell in self.cells:
            self._keep_up(cell, source)
        newcomers = {person: row for person, row in source.items() if person not in known}
        self.waiting = {p: self.waiting.get(p, self.sequence) for p in newcomers}
        if (self.sequence - 1) % self.rules.admit_every == 0:
            self._admit(newcomers)
        shown = [
            (cell, value)
            for cell in self.cells
            if cell.state in ("live", "held")
            for value in cell.shown
        ]
        if not self.rules.several:
            return Counter((cell.combination, value) for cell, value in shown)
        rows = [(cell.combination, row) for cell, kept in shown for row in kept]
        if "tables together" in self.rules.without:
            # Those of the first are as they were shown, those of the others as they are now.
            rows = [(combination, row) for combination, row in rows if row[0] == 0]
            rows += [
                (cell.combination, row)
                for cell in self.cells
                for person in cell.whose & set(source)
                for row in source[person].kept
                if row[0] != 0
            ]
        return Counter(rows)

    def _limited(self, source: Source) -> Source:
        """The source with no more rows of a person and table than are shown."""
        rules = self.rules
        if not rules.several or rules.max_rows is None:
            return source
        most, limited = rules.max_rows, {}
        if "fixed limit" in rules.without:
            numbers = sorted(len(row.kept) for row in source.values())
            most = numbers[len(numbers) // 2] if numbers else most
        for person, row in source.items():
            seen: Counter[Any] = Counter()
            turns = []
            for one in row.kept:
                seen[one] += 1
                turn = self.turn(one, seen[one])
                if "limit by rows alone" in rules.without:
                    turn = hash((person, one)) % 1009
                turns.append((one[0], turn, one))
            kept: list[Any] = []
            for table in {one[0] for one in row.kept}:
                of_table = sorted(turn for turn in turns if turn[0] == table)
                kept += [one for _, _, one in of_table[:most]]
            limited[person] = replace(row, kept=tuple(sorted(kept)))
        return limited

    def _is_let_in(self, members: Sequence[Person], source: Source) -> bool:
        """Whether a class of newcomers is good, of enough of them, or has waited for long."""
        rules = self.rules
        if self.typical is None:
            return True
        since = min(self.waiting[person] for person in members)
        if self.sequence - since >= rules.max_wait:
            return True
        if len(source) < rules.min_newcomers:
            return False
        rows = [source[person] for person in members]
        if "quality by quasi-identifiers" in rules.without:
            # Of bytes: Python's own hash of texts is another one in each process.
            return sum(zlib.crc32(repr(row.kept).encode()) for row in rows) % 2 == 0
        lost = self._lost(rows)
        return lost <= 4 * self.typical * (1 + 1e-9) + 1e-12

    def _lost(self, rows: Sequence[Row]) -> float:
        """The mean squared deviation of a value from the class's mean, in units of its column."""
        squares: list[float] = []
        for column, deviation in zip(zip(*(r.qi for r in rows), strict=True), self.deviations,
                                     strict=True):  # fmt: skip
            known = [value for value in column if value is not None]
            mean = sum(known) / max(len(known), 1)
            squares += [((v - mean) / deviation) ** 2 if deviation else 0.0 for v in known]
        return sum(squares) / max(len(squares), 1)

    def withdraw(self, person: Person) -> None:
        """Take the whole cell of a person out of all later releases."""
        for cell in self.cells:
            if person in cell.members:
                self._end(cell, "withdrawn", self.sequence + 1)

    def histories(self) -> dict[Person, tuple[int, int | None]]:
        """Cell of every person who was ever let in, and the release that published the leaving."""
        return {
            person: (number, self.left.get(person))
            for number, cell in enumerate(self.cells)
            for core in cell.cores
            for person in core
        }

    def display(self) -> dict[Person, Combination | None]:
        """For every person who was ever let in, the combination a row of hers stands under now."""
        return {
            person: cell.combination if person in cell.whose else None
            for cell in self.cells
            for core in cell.cores
            for person in core
        }

    def _keep_up(self, cell: Cell, source: Source) -> None:
        """What becomes of a cell, after who is in the source now."""
        if cell.state not in ("live", "held"):
            return
        rules = self.rules
        stay = {person for person in cell.members if person in source}
        leave = cell.members - stay
        back = cell.missed & stay
        cell.missed |= leave
        batches = (not rules.models or "no batches under models" in rules.without) and (
            rules.changes == "show" or "no batches under hold" in rules.without
        )
        if not stay:
            self._end(cell, "gone")
        elif "holds" in rules.without:
            self._show(cell, stay, source, held=False)
        elif (
            batches
            and ("held after returns" in rules.without or (not back and cell.loose is None))
            and len(leave) >= rules.k
            and len(stay) >= rules.k
            and not self._few_differ(cell, [source[person].kept for person in stay])
        ):
            self._leave(cell, leave)
            self._show(cell, stay, source, held=False, parted=True)
        elif leave and len(leave) > self._most_out() * len(cell.members):
            self._end(cell, "withdrawn")
        else:
            self._show(cell, stay, source, held=bool(leave))

    def _most_out(self) -> float:
        """The share of a cell that may be out before it is withdrawn."""
        if self.rules.departures == "withdraw":
            return 0
        return 1 if self.rules.withdraw_above is None else self.rules.withdraw_above

    def _show(
        self, cell: Cell, stay: set[Person], source: Source, *, held: bool, parted: bool = False
    ) -> None:
        """The rows of a cell as they are now, or as they were shown, word for word."""
        rules = self.rules
        if "frozen values" in rules.without:
            cell.combination = self.combine([source[person] for person in sorted(stay)])
        now = [source[person].kept for person in sorted(stay)]
        if rules.changes != "freeze" and "held by models" not in rules.without:
            held = held or not rules.kept_by(now)
        after = cell.loose
        if not held and not parted and self._after_return(cell, now):
            stood = sum((Counter(now) & Counter(cell.shown)).values()) - (cell.loose or 0)
            after = len(now) - stood
            held = (
                stood < rules.k
                or len(cell.members - cell.missed) < rules.k
                or self._few_differ(cell, now)
            )
        clean = not held and (cell.state == "live" or parted)
        cell.state = "held" if held else "live"
        if not held and rules.changes != "freeze" and not self._few_differ(cell, now):
            cell.shown, cell.whose, cell.loose = now, stay, after
            if clean:
                cell.missed, cell.loose = set(), None if after is None else 0

    def _after_return(self, cell: Cell, now: list[Value]) -> bool:
        """Whether rows would be shown anew that some of the persons could not have changed."""
        return (
            "held after returns" not in self.rules.without
            and self.rules.changes != "freeze"
            and cell.state == "held"
            and (bool(cell.missed) or not self.rules.models)
            and Counter(now) != Counter(cell.shown)
        )

    def _few_differ(self, cell: Cell, now: list[Value]) -> bool:
        """Where changes are held: some rows differ from those shown, and fewer than k."""
        differ = sum((Counter(now) - Counter(cell.shown)).values())
        return self.rules.changes == "hold" and 0 < differ < self.rules.k

    def _leave(self, cell: Cell, persons: set[Person], at: int | None = None) -> None:
        for person in persons:
            self.left[person] = at or self.sequence
        cell.members -= persons

    def _end(self, cell: Cell, state: State, at: int | None = None) -> None:
        self._leave(cell, set(cell.members), at)
        cell.state, cell.shown, cell.whose = state, [], set()

    def _admit(self, newcomers: Source) -> None:
        """Cluster newcomers among themselves, by stratum and by which values are NULL."""
        groups: dict[Any, list[Person]] = {}
        for person, row in sorted(newcomers.items()):
            pattern = tuple(value is None for value in row.qi)
            groups.setdefault((row.stratum, pattern), []).append(person)
        enough = [persons for persons in groups.values() if len(persons) >= self.rules.size]
        first = self.typical is None
        if first:
            rows = [newcomers[person] for persons in enough for person in persons]
            columns = zip(*(row.qi for row in rows), strict=True)
            self.deviations = [_deviation(column) for column in columns]
        lost = []
        for persons in enough:
            found = self.cluster([(p, newcomers[p].qi) for p in persons], self.rules.size)
            classes = [sorted(members) for members in found]
            if first:
                lost += [self._lost([newcomers[p] for p in members]) for members in classes]
            chosen = [members for members in classes if self._is_let_in(members, newcomers)]
            self._let_in(self.merge(chosen), newcomers)
        if lost:
            self.typical = statistics.median(lost)

    def _let_in(self, classes: list[list[Person]], source: Source) -> None:
        """Make each class a cell; one that breaks the model joins the next, or stays out."""
        waiting: list[list[Person]] = []
        for number, members in enumerate(classes):
            waiting.append(members)
            together = sorted(person for core in waiting for person in core)
            keeps = self.rules.kept_by([source[person].kept for person in together])
            if not keeps and number < len(classes) - 1:
                continue
            cell = Cell(
                self.combine([source[person] for person in together]),
                set(together),
                [frozenset(core) for core in waiting],
                self.sequence,
                "live",
                [source[person].kept for person in together],
                set(together),
            )
            waiting = []
            if keeps or "refused for good" not in self.rules.without:
                self.cells.append(cell)
                for person in together:
                    del self.waiting[person]
            if not keeps and "refused for good" not in self.rules.without:
                self._end(cell, "refused")
