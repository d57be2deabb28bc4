"""What a chain's state and release hold, counted again by statements of its own.

Nothing that was staged to make them is believed, but who is in the source and under which tag.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.chain.cell_rows import row_columns
from dbanon.chain.membership import CellState
from dbanon.chain.several import PART, WHOSE
from dbanon.data.counts import Counts, Histories, Questions, Recount
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute, Schema
from dbanon.measures import Model
from dbanon.sessions import statements
from dbanon.sessions.base import FilteredRelation, Locator, Relation, random_order
from dbanon.sessions.names import RelationName, quote, quote_list
from dbanon.sessions.pseudonym_session import ABSENT, HISTORIES, MISSING, SHOWN
from dbanon.sessions.session import Session
from dbanon.stores.ports import Draft, Progress, Source
from dbanon.stores.sql_persons import SqlWritten
from dbanon.stores.sql_target import SqlTarget

_SLACK = 1e-9


def sizes(state: CellState, staged: bool = False) -> dict[int, int]:
    """How many histories are shared by each number of persons.

    A history is a cell, and the release that it was left with.

    Parameters
    ----------
    staged : True where ``stage_histories`` has counted them.
    """
    found = state.session.rows(
        f"SELECT size, count(*) FROM {_counted(state, staged)} AS histories GROUP BY size"
    )
    return {int(size): int(many) for size, many in found}


def stage_histories(state: CellState) -> None:
    """Stage how many persons share each history."""
    with state.session.sorting():
        state.make(HISTORIES, _histories(state))


def _counted(state: CellState, staged: bool) -> str:
    return quote(HISTORIES) if staged else f"({_histories(state)})"


def _histories(state: CellState) -> str:
    return state.session.sizes_of_pairs(
        "cell", "left_at_release", "left_at", f"{state.name('chain_member')} WHERE {state.of_chain}"
    )


def exposed(found: dict[int, int], k: int) -> int:
    """The persons whose history fewer than k share; ``found`` as ``sizes`` gives them."""
    return sum(size * many for size, many in found.items() if size < k)


def on_display(state: CellState) -> tuple[int, int]:
    """The persons whom the release shows, and how many of them are not in the source.

    Asked once ``stage_histories`` and ``remember`` have staged both.
    """
    [(shown,)] = state.session.rows(
        f"SELECT coalesce(sum(size), 0) FROM {quote(HISTORIES)} WHERE left_at IS NULL"
    )
    [(absent,)] = state.session.rows(f"SELECT coalesce(sum(size), 0) FROM {quote(ABSENT)}")
    return int(shown), int(absent)


def stale(state: CellState) -> int:
    """The persons on display whose class is shown as it was: it is held.

    Asked once ``stage_histories`` has staged the persons.
    """
    [(found,)] = state.session.rows(
        f"SELECT coalesce(sum(h.size), 0) FROM {quote(HISTORIES)} AS h"
        f" JOIN {state.name('chain_cell')} AS c ON c.{state.of_chain} AND c.cell = h.cell"
        " AND c.state = 'held' WHERE h.left_at IS NULL"
    )
    return int(found)


def misplaced(state: CellState) -> int:
    """Cells that have other rows than persons who are shown, or no values, or are not to be shown.

    Where persons have several rows, those whose rows are counted, and persons with too many, too.
    Counted on the rows that were written, once ``stage_histories`` has staged the persons.
    """
    members = (
        "SELECT h.cell, h.size AS persons, 0 AS written, 0 AS valued"
        f" FROM {quote(HISTORIES)} AS h JOIN {state.name('chain_cell')} AS c"
        f" ON c.{state.of_chain} AND c.cell = h.cell AND c.state IN ('live', 'held')"
        " WHERE h.left_at IS NULL"
    )
    persons = f"count(DISTINCT {WHOSE})" if state.several else "count(*)"
    rows = (
        "SELECT r.cell, 0, r.size, CASE WHEN v.cell IS NULL THEN 0 ELSE r.size END FROM"
        f" (SELECT cell, CAST({persons} AS integer) AS size FROM {state.rows} GROUP BY cell) AS r"
        f" LEFT JOIN {state.values} AS v ON v.cell = r.cell"
    )
    with state.session.sorting():
        [(apart,)] = state.session.rows(
            f"SELECT count(*) FROM (SELECT cell FROM ({members} UNION ALL {rows}) AS both_ways"
            " GROUP BY cell HAVING sum(persons) <> sum(written) OR sum(valued) <> sum(written))"
            " AS apart"
        )
    if not state.several:
        return int(apart)
    most = int(state.chain.rules.max_rows_per_person or 0)
    [(above,)] = state.session.rows(
        f"SELECT count(*) FROM (SELECT cell FROM {state.rows} GROUP BY cell, {WHOSE}, {PART}"
        f" HAVING count(*) > {most}) AS above"
    )
    return int(apart) + int(above)


def remember(state: CellState, kept: int) -> None:
    """Stage the cells of which some are shown and not in the source, with the rows that they have.

    Asked before the rows that were shown are replaced.

    Parameters
    ----------
    kept : how many columns they have.
    """
    with state.session.seeking():
        state.make(
            ABSENT,
            f"SELECT m.cell, count(*) AS size FROM {state.name('chain_member')} AS m"
            f" WHERE m.{state.of_chain} AND m.left_at_release IS NULL"
            f" AND m.tag IN (SELECT p.tag FROM {quote(MISSING)} AS p) GROUP BY m.cell",
        )
    state.make(SHOWN, _of_absent(state, kept))


def rewritten(state: CellState, kept: int) -> int:
    """Rows of held cells that differ from those that ``remember`` staged: as multisets.

    A cell is held when some of those it shows are not in the source.
    """
    columns = _columns(state, kept)
    [(apart,)] = state.session.rows(
        f"SELECT count(*) FROM (SELECT {columns} FROM"
        f" (SELECT {columns}, 1 AS weight FROM {quote(SHOWN)}"
        f" UNION ALL SELECT {columns}, -1 FROM ({_of_absent(state, kept)}) AS now) AS both_ways"
        f" GROUP BY {columns} HAVING sum(weight) <> 0) AS apart"
    )
    return int(apart)


def _of_absent(state: CellState, kept: int) -> str:
    absent = f"SELECT a.cell FROM {quote(ABSENT)} AS a"
    return f"SELECT {_columns(state, kept)} FROM {state.rows} WHERE cell IN ({absent})"


def _columns(state: CellState, kept: int) -> str:
    return ", ".join(row_columns(state, kept))


def combinations(
    state: CellState,
    release: RelationName,
    combination: Sequence[tuple[str, str]],
    staged: bool = False,
    part: int = 0,
) -> tuple[Recount, int]:
    """The rows that share each combination of released values, and how many are uneven.

    Those have other rows than the cells that share them.

    Parameters
    ----------
    release : the relation that was written, in the same database.
    combination : its columns that classes share, with the place of each in the cells' values.
    staged : as of ``sizes``.
    part : the table that its rows are of, where persons have rows in several.
    """
    values = ", ".join(f"v.{place} AS {place}" for _, place in combination)
    places = ", ".join(place for _, place in combination)
    names = quote_list(name for name, _ in combination)
    of_cells = (
        f"SELECT {values}, 0 AS written, h.size AS n FROM {_counted(state, staged)} AS h"
        f" JOIN {state.values} AS v ON v.cell = h.cell WHERE h.left_at IS NULL"
    )
    if state.several:
        of_cells = (
            f"SELECT {values}, 0 AS written, 1 AS n FROM {state.rows} AS r"
            f" JOIN {state.values} AS v ON v.cell = r.cell WHERE r.{PART} = {int(part)}"
        )
    null = statements.any_null(place for _, place in combination)
    found = state.session.rows(
        "SELECT size, null_in_class, count(*), sum(apart) FROM (SELECT sum(written) AS size,"
        f" ({null}) AS null_in_class, CASE WHEN sum(n) <> 0 THEN 1 ELSE 0 END AS apart FROM"
        f" ({of_cells} UNION ALL SELECT {names}, 1, -1 FROM {release.quoted}) AS both_ways"
        f" GROUP BY {places}) AS classes GROUP BY size, null_in_class"
    )
    counted = Recount.of_sizes(row[:3] for row in found if row[0])
    return counted, sum(int(apart) for *_, apart in found)


def fewest(state: CellState, places: Sequence[str]) -> int | None:
    """The persons who share the rarest combination on display; None where nobody is.

    Asked once ``stage_histories`` has staged the persons.

    Parameters
    ----------
    places : the columns of the cells' values.
    """
    shared = ", ".join(f"v.{place}" for place in places)
    [(least,)] = state.session.rows(
        f"SELECT min(c.persons) FROM (SELECT sum(h.size) AS persons FROM"
        f" {quote(HISTORIES)} AS h LEFT JOIN {state.values} AS v ON v.cell = h.cell"
        f" WHERE h.left_at IS NULL GROUP BY {shared}) AS c"
    )
    return None if least is None else int(least)


def failing(state: CellState, kept: Sequence[Attribute], models: Sequence[Model]) -> int:
    """Cells on display whose rows, as they were written, do not keep to a privacy model.

    A cell counts once for each model it breaks; ``reference.recounted`` has those beside a table.

    Parameters
    ----------
    kept : the columns that they have.
    """
    names, found = [attribute.name for attribute in kept], 0
    for model in (model for model in models if not model.compares_with_table):
        place = names.index(model.attribute)
        value = state.session.told_apart(kept[place], statements.kept_column(place))
        counts = (
            "SELECT c.cell, c.size, row_number() OVER (PARTITION BY c.cell ORDER BY c.size DESC)"
            " AS place FROM (SELECT t.cell, CAST(count(*) AS double precision) AS size FROM"
            f" (SELECT s.cell, {value} AS value FROM {state.rows} AS s) AS t"
            " GROUP BY t.cell, t.value) AS c"
        )
        [(broken,)] = state.session.rows(
            f"SELECT count(*) FROM (SELECT v.cell FROM ({counts}) AS v GROUP BY v.cell"
            f" HAVING NOT ({_keeps(state.session, model)})) AS broken"
        )
        found += int(broken)
    return found


def _keeps(session: Session, model: Model) -> str:
    """SQL of whether a cell keeps to a model, of its values by how many rows have each.

    ``size`` is that number, and ``place`` 1 of the most frequent. Rounding fails no level that is
    reached exactly.
    """
    if model.kind == "distinct_l":
        return f"count(*) >= {model.level - _SLACK!r}"
    if model.kind == "alpha_k":
        return f"max(v.size) / sum(v.size) <= {model.level + _SLACK!r}"
    if model.kind == "recursive_cl":
        rest = f"sum(CASE WHEN v.place >= {int(model.l)} THEN v.size END)"
        return f"coalesce(max(v.size) / {rest} < {float(model.level)!r}, 1 = 0)"
    assert model.kind == "entropy_l"
    ln, least = session.logarithm, max(model.level - _SLACK, _SLACK)
    entropy = f"{ln('sum(v.size)')} - sum(v.size * {ln('v.size')}) / sum(v.size)"
    return f"{entropy} >= {math.log(least)!r}"


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
    part : the table that its rows are of, where persons have rows in several.
    """

    state: CellState
    released_columns: tuple[tuple[str, str, str], ...]
    histories: Histories
    counted: bool
    part: int = 0

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
                f" {self.state.in_random_order(self.part)}"
            )
        else:
            session.load_rows(attributes, self._pieces(attributes))
            nobody = Partition(np.zeros(1, np.int32))
            session.stage_classes(nobody, [])
            kept = {a.name: f"r.{statements.kept_column(i)}" for i, a in enumerate(attributes)}
            session.insert(output.written, kept, None)
            if self.part:
                # The first table's are staged in their place.
                for staged in (statements.ROWS, statements.CLASSES):
                    session.run(f"DROP TABLE {quote(staged)}")
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
            rows, uneven = combinations(
                self.state, written.relation, shared, self.counted, self.part
            )
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
        query = f"SELECT {places} {self.state.in_random_order(self.part)}"
        rows = SubqueryRelation(name.schema, name.name, query)
        relation = Relation(name, Schema(tuple(attributes)), "query", filtered=rows)
        relation = replace(relation, locator=Locator(("1",), ("bigint",)))
        names = [attribute.name for attribute in attributes]
        of = f" WHERE {PART} = {self.part}" if self.state.several else ""
        [(count,)] = session.rows(f"SELECT count(*) FROM {self.state.rows}{of}")
        order, done = random_order(int(count)).astype(np.int32), 0
        for _, piece in session.read_rows(relation, names, _CHUNK_ROWS):
            part = order[done : done + len(piece)]
            done += len(piece)
            yield np.zeros(len(piece), np.int32), part, piece


@dataclass(frozen=True)
class SubqueryRelation(FilteredRelation):
    """A query that is read like a relation."""

    @property
    def quoted(self) -> str:
        """The query in parentheses."""
        return f"({self.condition})"

    def __init__(self, schema: str | None, name: str, query: str) -> None:
        super().__init__(schema, name, query, ())
