"""The release of a chain, written from its state: in its own database, or in another one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.chain import recount
from dbanon.chain.membership import CellState
from dbanon.data.counts import Counts, Histories, Questions, Recount
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute, Schema
from dbanon.sessions import statements
from dbanon.sessions.base import Filtered, Locator, Relation, random_order
from dbanon.sessions.names import quote
from dbanon.stores.ports import Draft, Progress, Source
from dbanon.stores.sql_target import SqlTarget, SqlWritten

_CHUNK_ROWS = 65_536


@dataclass(frozen=True)
class ChainTarget(SqlTarget):
    """What one transaction writes of a chain.

    Parameters
    ----------
    state : as the chain's database has it.
    released_columns : the columns: name, place in the state, and what it stands for.
    histories : as they were counted on the state.
    counted : whether it was in the same transaction.
    """

    state: CellState
    released_columns: tuple[tuple[str, str, str], ...]
    histories: Histories
    counted: bool

    @property
    def _here(self) -> bool:
        return self.state.session is self.session

    def write(self, draft: Draft, source: Source, progress: Progress) -> SqlWritten:
        """Write the rows of the state, without their cells, in random order."""
        session, output = self.session, draft.output
        session.make_schema(output.name)
        attributes = self._attributes()
        columns = [
            (a.name, a.sql_type if self._here else session.type_of(a), "") for a in attributes
        ]
        typed = [(name, sql_type) for name, sql_type, _ in columns]
        session.create_released(output, typed, output.release_id)
        written = SqlWritten(draft, tuple(columns), not self._here)
        if self._here:
            places = ", ".join(
                f"{'v' if place.startswith('v') else 'r'}.{place}"
                for _, place, _ in self.released_columns
            )
            names = ", ".join(quote(name) for name, _, _ in self.released_columns)
            session.run(
                f"INSERT INTO {output.written.quoted} ({names}) SELECT {places}"
                f" {self.state.in_random_order}"
            )
        else:
            session.load_rows(attributes, self._pieces(attributes))
            nobody = Partition(np.zeros(1, np.int32))
            session.stage_classes(nobody, [])
            kept = {a.name: f"r.{statements.kept_column(i)}" for i, a in enumerate(attributes)}
            session.insert(output.written, kept, None)
        progress(0.9)
        session.analyze(output.written)
        return written

    def count(
        self, written: SqlWritten, questions: Questions, rows: Recount | None = None
    ) -> Counts:
        """The answers; where the state is here, whether combinations have the rows that it says."""
        histories = self.histories
        if self._here:
            place_of = {name: place for name, place, _ in self.released_columns}
            shared = [(name, place_of[name]) for name in questions.columns]
            rows, uneven = recount.combinations(self.state, written.relation, shared, self.counted)
            histories = replace(histories, uneven=uneven)
        return replace(super().count(written, questions, rows), histories=histories)

    def _attributes(self) -> list[Attribute]:
        """The columns of the release, with the types that the state has."""
        session, chain = self.state.session, self.state.chain
        found: dict[str, Attribute] = {}
        for what in ("value", "row"):
            relation = session.find_source(chain.table(session, what))
            held = session.inspect(relation, relation.schema.attributes)
            found |= {attribute.name: attribute for attribute in held}
        return [replace(found[place], name=name) for name, place, _ in self.released_columns]

    def _pieces(
        self, attributes: Sequence[Attribute]
    ) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32], Sequence[tuple[Any, ...]]]]:
        """The rows of the state, in a random order that nobody keeps."""
        session = self.state.session
        name = self.state.chain.table(session, "row")
        places = ", ".join(
            f"{'v' if place.startswith('v') else 'r'}.{place} AS {quote(name)}"
            for name, place, _ in self.released_columns
        )
        query = f"SELECT {places} {self.state.in_random_order}"
        rows = _Query(name.schema, name.name, query)
        relation = Relation(name, Schema(tuple(attributes)), "query", filtered=rows)
        relation = replace(relation, locator=Locator(("1",), ("bigint",)))
        names = [attribute.name for attribute in attributes]
        [(count,)] = session.rows(f"SELECT count(*) FROM {self.state.rows}")
        order, done = random_order(int(count)).astype(np.int32), 0
        for _, piece in session.read_rows(relation, names, _CHUNK_ROWS):
            part = order[done : done + len(piece)]
            done += len(piece)
            yield np.zeros(len(piece), np.int32), part, piece


@dataclass(frozen=True)
class _Query(Filtered):
    """A query that is read like a relation."""

    @property
    def quoted(self) -> str:
        """The query in parentheses."""
        return f"({self.condition})"

    def __init__(self, schema: str | None, name: str, query: str) -> None:
        super().__init__(schema, name, query, ())
