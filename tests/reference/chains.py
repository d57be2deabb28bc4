"""A chain of releases, the plain way: cells, holds and admissions, on Python's own lists and dicts.

Nothing here is shared with the product.
"""

from __future__ import annotations

import math
import statistics
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.reference.chain_rules import (
    Cell,
    Cluster,
    Combination,
    Combine,
    Merge,
    Person,
    RefinementStep,
    Released,
    Row,
    Rules,
    Source,
    State,
    Value,
    by_order,
    by_value,
    combination,
)


def _deviation(column: Sequence[int | None]) -> float:
    """The sample standard deviation of the values that are known."""
    # By the formula: the exact fractions of `statistics` take twenty times as long.
    present = [value for value in column if value is not None]
    mean = sum(present) / max(len(present), 1)
    return math.sqrt(sum((value - mean) ** 2 for value in present) / max(len(present) - 1, 1))


class Chain:
    """A chain: each call of ``release`` takes the source's rows and returns released rows."""

    def __init__(
        self,
        rules: Rules,
        cluster: Cluster = by_order,
        combine: Combine = combination,
        turn: RefinementStep = by_value,
    ) -> None:
        self.rules, self.turn = rules, turn
        self.cluster, self.combine = cluster, combine
        self.merge: Merge = lambda classes: classes
        self.cells: list[Cell] = []
        # Persons who left, and the release at which this was published: they stay out for good.
        self.left: dict[Person, int] = {}
        self.sequence = 0
        # Waiting persons, and since which release; the loss of the first release's classes, by the
        # median and the mean, and the deviations of its columns.
        self.waiting: dict[Person, int] = {}
        self.typical: float | None = None
        self.deviations: list[float] = []
        self.returned: set[Person] = set()
        # The reference distribution of classes: the kept values of the first release.
        self.table: Counter[Value] = Counter()

    def release(self, source: Source, erase: Sequence[Person] = ()) -> Released:
        """The rows of the next release, as a multiset; without the cells of whom to ``erase``."""
        for person in erase:
            self.withdraw(person)
        self.sequence += 1
        source = self._limited(source)
        if "fixed reference" in self.rules.without:
            self.table = Counter(row.kept for row in source.values())
        present = {person for cell in self.cells for person in cell.members}
        if "left for good" not in self.rules.without:
            present |= set(self.left)
        self.returned = set(self.left) & set(source)
        for cell in self.cells:
            self._keep_up(cell, source)
        newcomers = {
            person: row
            for person, row in self._first_table(source).items()
            if person not in present
        }
        self.waiting = {p: self.waiting.get(p, self.sequence) for p in newcomers}
        if (self.sequence - 1) % self.rules.admit_every == 0:
            self._admit(newcomers)
        shown_rows = [
            (cell, value)
            for cell in self.cells
            if cell.state in ("live", "held")
            for value in cell.released_values
        ]
        if not self.rules.several:
            return Counter((cell.combination, value) for cell, value in shown_rows)
        rows = [(cell.combination, row) for cell, retained in shown_rows for row in retained]
        if "tables together" in self.rules.without:
            # Rows of the first are those released, rows of the others are the current ones.
            rows = [(combination, row) for combination, row in rows if row[0] == 0]
            rows += [
                (cell.combination, row)
                for cell in self.cells
                for person in cell.released_persons & set(source)
                for row in source[person].kept
                if row[0] != 0
            ]
        return Counter(rows)

    def _first_table(self, source: Source) -> Source:
        """Persons with a row in the first table, which has all quasi-identifiers."""
        if not self.rules.several:
            return source
        tables = {person: {of for of, _ in row.kept} for person, row in source.items()}
        if "quasi-identifiers of the first table" not in self.rules.without:
            return {person: row for person, row in source.items() if 0 in tables[person]}
        return {
            person: replace(
                row, qi=tuple(v if i in tables[person] else None for i, v in enumerate(row.qi))
            )
            for person, row in source.items()
        }

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
            for entry in row.kept:
                seen[entry] += 1
                turn = self.turn(entry, seen[entry])
                if "limit by rows alone" in rules.without:
                    turn = hash((person, entry)) % 1009
                turns.append((entry[0], turn, entry))
            retained: list[Any] = []
            for table in {entry[0] for entry in row.kept}:
                of_table = sorted(turn for turn in turns if turn[0] == table)
                retained += [entry for _, _, entry in of_table[:most]]
            limited[person] = replace(row, kept=tuple(sorted(retained)))
        return limited

    def keeps(self, values: Sequence[Value]) -> bool:
        """Whether a class with these values keeps to the models, beside the first release."""
        return self.rules.kept_by(values, self.table)

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
            # Hashes bytes, because Python's own hash of strings differs between processes.
            return sum(zlib.crc32(repr(row.kept).encode()) for row in rows) % 2 == 0
        loss = self._deviation(rows)
        return loss <= 4 * self.typical * (1 + 1e-9) + 1e-12

    def _deviation(self, rows: Sequence[Row]) -> float:
        """The mean squared deviation of a value from the class's mean, in units of its column."""
        squares: list[float] = []
        for column, deviation in zip(
            zip(*(r.qi for r in rows), strict=True), self.deviations, strict=True
        ):
            present = [value for value in column if value is not None]
            mean = sum(present) / max(len(present), 1)
            squares += [((v - mean) / deviation) ** 2 if deviation else 0.0 for v in present]
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
        """For every admitted person, the combination under which a row of theirs appears now."""
        return {
            person: cell.combination if person in cell.released_persons else None
            for cell in self.cells
            for core in cell.cores
            for person in core
        }

    def _keep_up(self, cell: Cell, source: Source) -> None:
        """Update a cell after a change of the source."""
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
            self._show(cell, stay, source, frozen=False)
        elif (
            batches
            and ("held after returns" in rules.without or not (back or +cell.loose))
            and len(leave) >= rules.k
            and len(stay) >= rules.k
            and not self._few_differ(cell, [source[person].kept for person in stay])
        ):
            self._leave(cell, leave)
            self._show(cell, stay, source, frozen=False, parted=True)
        elif leave and len(leave) > self._most_out() * len(cell.members):
            self._end(cell, "withdrawn")
        else:
            self._show(cell, stay, source, frozen=bool(leave))

    def _most_out(self) -> float:
        """The share of a cell that may be out before it is withdrawn."""
        if self.rules.departures == "withdraw":
            return 0
        return 1 if self.rules.withdraw_above is None else self.rules.withdraw_above

    def _show(
        self, cell: Cell, stay: set[Person], source: Source, *, frozen: bool, parted: bool = False
    ) -> None:
        """Release the current rows of a cell, or repeat the released ones exactly."""
        rules = self.rules
        if "frozen values" in rules.without:
            cell.combination = self.combine([source[person] for person in sorted(stay)])
        now = [source[person].kept for person in sorted(stay)]
        if rules.changes != "freeze" and "held by models" not in rules.without:
            frozen = frozen or not self.keeps(now)
        loose = cell.loose
        if not frozen and not parted and self._after_return(cell, now):
            differ = len(now) - sum((Counter(now) & Counter(cell.released_values)).values())
            loose = loose + Counter(dict.fromkeys(cell.missed, differ))
            frozen = not self._is_hidden(len(now), loose) or self._few_differ(cell, now)
        cell.state = "held" if frozen else "live"
        if frozen:
            return
        cell.missed = set()
        if rules.changes != "freeze" and not self._few_differ(cell, now):
            if "no return forgotten" in rules.without and loose is cell.loose:
                loose = Counter()
            cell.released_values, cell.released_persons, cell.loose = now, stay, loose

    def _after_return(self, cell: Cell, now: list[Value]) -> bool:
        """Whether rows would be shown anew that some of the persons could not have changed."""
        return (
            "held after returns" not in self.rules.without
            and self.rules.changes != "freeze"
            # Cells with absent members are held; without holds, returns need no check.
            and cell.state == "held"
            and bool(cell.missed)
            and Counter(now) != Counter(cell.released_values)
        )

    def _is_hidden(self, members: int, loose: Counter[Person]) -> bool:
        """Whether k rows can be each person's, and k persons can have each row."""
        # For a part of a cell, which no defended chain splits, no row needs to be ruled out.
        most, free = max(loose.values(), default=0), members - len(+loose)
        enough = free > most or "more free than loose" in self.rules.without
        return members - most >= self.rules.k and free >= self.rules.k and enough

    def _few_differ(self, cell: Cell, now: list[Value]) -> bool:
        """Where changes are held: some rows differ from those shown, and fewer than k."""
        if self.rules.changes != "hold":
            return False
        differ = sum((Counter(now) - Counter(cell.released_values)).values())
        return 0 < differ < self.rules.k

    def _leave(self, cell: Cell, persons: set[Person], at: int | None = None) -> None:
        for person in persons:
            self.left[person] = at or self.sequence
        cell.members -= persons

    def _end(self, cell: Cell, state: State, at: int | None = None) -> None:
        self._leave(cell, set(cell.members), at)
        cell.state, cell.released_values, cell.released_persons = state, [], set()

    def _admit(self, newcomers: Source) -> None:
        """Cluster newcomers among themselves, by stratum and by which values are NULL."""
        if len(newcomers) < self.rules.size:
            return
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
            if "fixed reference" not in self.rules.without:
                self.table = Counter(row.kept for row in rows)
        loss = []
        for persons in enough:
            clusters = self.cluster([(p, newcomers[p].qi) for p in persons], self.rules.size)
            classes = [sorted(members) for members in clusters]
            if first:
                loss += [self._deviation([newcomers[p] for p in members]) for members in classes]
            chosen = [members for members in classes if self._is_let_in(members, newcomers)]
            self._let_in(self.merge(chosen), newcomers)
        if loss:
            self.typical = max(statistics.median(loss), sum(loss) / len(loss) / 4)

    def _let_in(self, classes: list[list[Person]], source: Source) -> None:
        """Make each class a cell; one that breaks the model joins the next, or stays out."""
        waiting: list[list[Person]] = []
        for number, members in enumerate(classes):
            waiting.append(members)
            together = sorted(person for core in waiting for person in core)
            keeps = self.keeps([source[person].kept for person in together])
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
