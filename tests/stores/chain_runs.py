"""A chain of the product over a random world, seen from outside: tables, calls, and the state
afterwards.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

import dbanon
from dbanon.ledger.tables import RELEASE_COLUMNS
from tests.reference.chain_rules import Person, Row
from tests.reference.chain_worlds import World
from tests.stores.databases import Database, inserts

NAME = "people"
# Another table of the same persons, and what each is released with.
MORE, KEPT_COLUMNS = "others", ("kept", "noted")
# More rows than any person of a world has.
MANY = 99
# Columns of the ledger that belong to the run.
OF_THE_RUN = {"release_id", "seconds", "started_at", "created_at", "digest", "source", "relation"}

# And the ledger: when releases took one another's place, and the relations that they are.
OF_THE_LEDGER = {"superseded_at", "relation_oid", "output_oid"}


class ChainRun:
    """The chain of a world in a database, whose key lies in ``folder``."""

    def __init__(self, database: Database, world: World, folder: Path) -> None:
        self.database, self.world = database, world
        self.key = folder / f"{NAME}.key"
        parts = (
            {part for now in world.rows for row in now for part, _ in row.kept}
            if world.rules.several
            else {0}
        )
        self.tables = [NAME, MORE] if 1 in parts else [NAME]
        # Of a copy that went on before this one does.
        self.key.with_name(f"{self.key.name}.last").unlink(missing_ok=True)

    def create(self, **more: Any) -> None:
        """Creates an empty table and its chain."""
        types = self.database.types
        person_type = types["bigint"]
        for number, table in enumerate(self.tables):
            self.database.load(
                table,
                {
                    "person": person_type
                    if self.world.rules.several
                    else f"{person_type} PRIMARY KEY",
                    "stratum": types["text"],
                    "q0": types["double"],
                    "q1": types["double"],
                    KEPT_COLUMNS[number]: types["bigint"],
                },
                [],
            )
        rules = self.world.rules
        dbanon.create_chain(
            self.database.url,
            NAME,
            table=NAME,
            entity="person",
            changes=rules.changes,
            class_size=rules.class_size,
            admit_every=rules.admit_every,
            min_newcomers=rules.min_newcomers,
            max_wait=rules.max_wait,
            departures=rules.departures,
            withdraw_above=rules.withdraw_above,
            max_rows_per_person=(rules.max_rows or MANY) if rules.several else None,
            tables=self.tables[1:],
            key_out=str(self.key),
            **more,
        )

    def fill(self, source: dict[Person, Row]) -> None:
        """Put into the table what the source says now."""
        for number, table in enumerate(self.tables):
            rows = [
                (person, f"stratum {row.stratum}", *row.qi, kept_value)
                for person, row in sorted(source.items())
                for part, kept_value in self._rows_of(row)
                if part == number
            ]
            self.database.execute(f"DELETE FROM {table}")
            if rows:
                self.database.execute(*inserts(table, rows))

    def _rows_of(self, row: Row) -> tuple[tuple[int, Any], ...]:
        """The kept values of a person's rows, each with the number of its table."""
        kept_values: tuple[tuple[int, Any], ...] = row.kept if self.world.rules.several else ()
        return kept_values or ((0, row.kept),)

    def turn(self, row: Any, again: int) -> bytes:
        """When a row's turn is, of many of a person: as the product has it."""
        [(identity,)] = self.database.rows(
            f"SELECT CAST(identity AS VARCHAR(36)) FROM {self._table('chain')}"
        )
        part, value = row
        encoded_parts = [
            f"{len(str(value))}:{value}" if part == i else "-" for i in range(len(self.tables))
        ]
        encoded_row = f"{part}{''.join(encoded_parts)}#{again}"
        return tag_of(bytes.fromhex(self.key.read_text()), identity, encoded_row)

    def release(self, **more: Any) -> dbanon.Report:
        """The next release."""
        options: dict[str, Any] = {
            "table": NAME,
            "output": "release.people",
            "if_exists": "replace",
            "quasi_identifiers": ["q0", "q1"],
            "by": ["stratum"],
            **self._role_options(),
            "nulls": "category",
            "k": self.world.rules.k,
            "entity": "person",
            "chain": dbanon.Chain(
                NAME,
                key=f"file:{self.key}",
                accept_turnover=True,
                outputs=dict.fromkeys(self.tables[1:], "release.more"),
                kept={table: [KEPT_COLUMNS[1]] for table in self.tables[1:]},
            ),
        }
        return dbanon.anonymize(self.database.url, **(options | more))

    def _role_options(self) -> dict[str, Any]:
        models = [dbanon.Model(kind, "kept", level) for kind, level in self.world.rules.models]
        return {"sensitive": ["kept"], "models": models} if models else {"keep": ["kept"]}

    def rows(self) -> Counter[Any]:
        """The release as it can be read, as a multiset."""
        several, rows = self.world.rules.several, Counter[Any]()
        for number, name in enumerate(("release.people", "release.more")[: len(self.tables)]):
            column, relation = KEPT_COLUMNS[number], self.database.relation(name)
            rows += Counter(
                ((stratum, *map(_rounded, values)), (number, kept_value) if several else kept_value)
                for stratum, *values, kept_value in self.database.rows(
                    f"SELECT stratum, q0, q1, {column} FROM {relation}"
                )
            )
        return rows

    def recorded_state(self) -> list[Any]:
        """The ledger's record of the releases and of this chain."""
        columns = [name for name, *_ in RELEASE_COLUMNS if name not in OF_THE_RUN | OF_THE_LEDGER]
        of_chain = f"SELECT counts FROM {self._table('chain_release')} ORDER BY sequence"
        return [
            self.database.rows(
                f"SELECT {', '.join(columns)} FROM {self._table('release')}"
                " ORDER BY chain_sequence, output_name"
            ),
            self.database.rows(of_chain),
        ]

    def cells(self) -> dict[int, str]:
        """The state of each cell."""
        return dict(self.database.rows(f"SELECT cell, state FROM {self._table('chain_cell')}"))

    def members(self) -> dict[Person, tuple[int, int | None]]:
        """Cell and leaving of each person, found by the tag that RFC 2104 gives with the key."""
        tagged = {tag: person for person, tag in self._tags().items()}
        members = self.database.rows(
            f"SELECT tag, cell, left_at_release FROM {self._table('chain_member')}"
        )
        return {tagged[bytes(tag)]: (cell, left) for tag, cell, left in members}

    def by_tag(self, persons: Collection[Person]) -> list[Person]:
        """Persons in the order of their tags."""
        return sorted(persons, key=self._tags().__getitem__)

    def _tags(self) -> dict[Person, bytes]:
        [(identity,)] = self.database.rows(
            f"SELECT CAST(identity AS VARCHAR(36)) FROM {self._table('chain')}"
        )
        key = bytes.fromhex(self.key.read_text())
        return {p: tag_of(key, identity, str(p)) for p in range(len(self.world.rows[0]))}

    def _table(self, name: str) -> str:
        return self.database.ledger(name)


def tag_of(key: bytes, identity: str, entity: str) -> bytes:
    """The tag of a person, by Python's own hashes."""
    derived_key = hmac.new(key, f"dbanon tags 1\x1f{identity}".encode(), hashlib.sha256).digest()
    return hashlib.sha256(derived_key + entity.encode()).digest()[:16]


def combined(rows: list[Row]) -> tuple[Any, ...]:
    """The means of a class, as plain as they can be."""
    columns = zip(*(row.qi for row in rows), strict=True)
    means = [None if None in column else _rounded(sum(column) / len(column)) for column in columns]
    return f"stratum {rows[0].stratum}", *means


def published_counts(report: dbanon.Report) -> dict[str, Any]:
    """The figures of a report that depend on the data."""
    return {name: value for name, value in report.to_dict().items() if name not in OF_THE_RUN}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(float(value), 6)
