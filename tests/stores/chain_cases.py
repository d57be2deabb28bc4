"""A table of persons who come, leave, change and come back, released as a chain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import dbanon
from dbanon.run.open import open_store
from tests.stores.databases import Database

COLUMNS = {
    "id": "integer",
    "age": "integer",
    "income": "integer",
    "site": "text",
    "ill": "text",
    "cost": "decimal",
}
OPTIONS: dict[str, Any] = {
    "quasi_identifiers": ["age", "income"],
    "sensitive": ["ill"],
    "k": 3,
    "entity": "id",
    "if_exists": "replace",
}
ILLNESSES = ("flu", "gout", "mumps", "none")

Person = tuple[Any, ...]


def load(database: Database, persons: Mapping[Any, Person], who: str = "integer") -> None:
    """Put these persons into the table, in a physical order that says nothing."""
    columns = {name: database.types[kind] for name, kind in COLUMNS.items()}
    columns["id"] = database.types.get(who, who)
    rows = [(person, *values) for person, values in persons.items()]
    order = np.random.default_rng(len(rows)).permutation(len(rows))
    if any(name == "people" for _, name in database.relations()):
        database.execute("DROP TABLE people")
    database.load("people", columns, [rows[i] for i in order])


def person(rng: np.random.Generator) -> Person:
    """Age, income, site, illness and cost."""
    return (
        int(rng.integers(18, 90)),
        int(rng.integers(1000, 9000)),
        str(rng.choice(["a", "b"])),
        str(rng.choice(ILLNESSES)),
        int(rng.integers(0, 500)) / 4,
    )


@dataclass
class Months:
    """A world: persons by id, month after month."""

    seed: int = 1
    n: int = 40
    leave: float = 0.08
    join: int = 5
    change: float = 0.05
    come_back: float = 0.0
    now: dict[Any, Person] = field(default_factory=dict)
    out: dict[Any, Person] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.next = 1
        self._come(self.n)

    def _come(self, n: int) -> None:
        for _ in range(n):
            self.now[self.next] = person(self.rng)
            self.next += 1

    def pass_on(self) -> None:
        """A month: some leave, some come back, some change, some come."""
        for person in list(self.out):
            if self.rng.random() < self.come_back:
                self.now[person] = self.out.pop(person)
        for person in list(self.now):
            if self.rng.random() < self.leave:
                self.out[person] = self.now.pop(person)
        for person, values in self.now.items():
            if self.rng.random() < self.change:
                self.now[person] = (*values[:3], str(self.rng.choice(ILLNESSES)), values[4])
        self._come(self.join)


def released(database: Database, columns: str = "age, income, ill") -> Counter[tuple[Any, ...]]:
    """The rows of the release, as often as each is there."""
    return Counter(database.rows(f"SELECT {columns} FROM {database.relation('release.people')}"))


@dataclass
class Chained:
    """A chain on a database."""

    database: Database
    key: Path
    name: str = "patients"

    @classmethod
    def create(cls, database: Database, directory: Path, **rules: Any) -> Chained:
        """A new chain with ``changes: show`` that admits everyone unless the rules say
        otherwise.
        """
        key = directory / "chain.key"
        options: dict[str, Any] = {"table": "people", "entity": "id", "changes": "show"}
        options |= {"min_newcomers": 0, "max_wait": 0}
        dbanon.create_chain(database.url, "patients", key_out=key, **(options | rules))
        return cls(database, key)

    def chain(self, **more: Any) -> dbanon.Chain:
        return dbanon.Chain(self.name, key=f"file:{self.key}", **more)

    def release(self, **more: Any) -> dbanon.Report:
        options = OPTIONS | {"chain": self.chain()} | more
        return self.database.anonymize(**options)

    def show(self) -> Any:
        return dbanon.show_chain(self.database.url, self.name)

    def cells(self) -> dict[Any, tuple[int, int | None]]:
        """The history of each tag: cell, and the release that it left with."""
        rows = self.database.rows(
            f"SELECT tag, cell, left_at_release FROM {self.database.ledger('chain_member')}"
        )
        return {bytes(tag): (cell, left) for tag, cell, left in rows}

    def smallest(self) -> int:
        return min(Counter(self.cells().values()).values())

    def history(self, persons: Sequence[Any]) -> dict[Any, tuple[int, int | None]]:
        """The history of each of these persons who has one."""
        cells = self.cells()
        return {person: cells[tag] for person, tag in self.tags(persons).items() if tag in cells}

    def tags(self, persons: Sequence[Any]) -> dict[Any, bytes]:
        """The tag of each of these persons."""
        from dbanon.extensions.chains import state as chain_state
        from dbanon.extensions.chains.key import read_key

        secret = read_key(f"file:{self.key}")
        with open_store(self.database.url).session(write=False) as session:
            chain = chain_state.find_chain(session, self.name)
        tags = chain.tags(secret, [str(person) for person in persons])
        return dict(zip(persons, tags, strict=True))
