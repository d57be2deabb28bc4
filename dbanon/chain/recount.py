"""Recount a chain's state and release with independent SQL.

Of the staged data, only the tags of persons in the source are trusted.
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
from dbanon.chain.rows_per_person import PART, PERSON
from dbanon.data.counts import CountRequests, Counts, Histories, Recount
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute, Schema
from dbanon.measures import Model
from dbanon.sessions import statements
from dbanon.sessions.base import FilteredRelation, Locator, Relation, random_order
from dbanon.sessions.names import RelationName, quote, quote_list
from dbanon.sessions.pseudonym_session import ABSENT, HISTORIES, MISSING, SHOWN
from dbanon.sessions.session import Session
from dbanon.stores.ports import PreparedRelease, Progress, Source
from dbanon.stores.sql_persons import StagedSqlRelease
from dbanon.stores.sql_target import SqlTarget

_SLACK = 1e-9


def count_histories(state: CellState, staged: bool = False) -> dict[int, int]:
    """Count the histories by the number of persons who share them.

    A history is a cell together with the release at which the person left it.

    Parameters
    ----------
    staged : True if ``stage_histories`` has staged them.
    """
    rows = state.session.rows(
        f"SELECT size, count(*) FROM {_histories_source(state, staged)} AS histories GROUP BY size"
    )
    return {int(size): int(many) for size, many in rows}


def stage_histories(state: CellState) -> None:
    """Stage the number of persons who share each history."""
    with state.session.prepare_sorting():
        state.make(HISTORIES, _histories(state))


def _histories_source(state: CellState, staged: bool) -> str:
    return quote(HISTORIES) if staged else f"({_histories(state)})"


def _histories(state: CellState) -> str:
    return state.session.count_pairs_sql(
        "cell", "left_at_release", "left_at", f"{state.name('chain_member')} WHERE {state.of_chain}"
    )


def count_exposed(sizes: dict[int, int], k: int) -> int:
    """Count the persons whose history fewer than k share; ``sizes`` is from ``count_histories``."""
    return sum(size * many for size, many in sizes.items() if size < k)


def count_displayed(state: CellState) -> tuple[int, int]:
    """Count the displayed persons, and how many of them are not in the source.

    Requires ``stage_histories`` and ``stage_displayed_rows``.
    """
    [(displayed,)] = state.session.rows(
        f"SELECT coalesce(sum(size), 0) FROM {quote(HISTORIES)} WHERE left_at IS NULL"
    )
    [(absent,)] = state.session.rows(f"SELECT coalesce(sum(size), 0) FROM {quote(ABSENT)}")
    return int(displayed), int(absent)


def count_stale(state: CellState) -> int:
    """Count the displayed persons in frozen cells.

    Requires ``stage_histories``.
    """
    [(persons,)] = state.session.rows(
        f"SELECT coalesce(sum(h.size), 0) FROM {quote(HISTORIES)} AS h"
        f" JOIN {state.name('chain_cell')} AS c ON c.{state.of_chain} AND c.cell = h.cell"
        " AND c.state = 'held' WHERE h.left_at IS NULL"
    )
    return int(persons)


def count_misplaced(state: CellState) -> int:
    """Count cells whose rows do not match their displayed persons, or that may not be displayed.

    With several rows per person, compares persons instead of rows, and adds persons with too many
    rows. Counts the written rows; requires ``stage_histories``.
    """
    members = (
        "SELECT h.cell, h.size AS persons, 0 AS written, 0 AS valued"
        f" FROM {quote(HISTORIES)} AS h JOIN {state.name('chain_cell')} AS c"
        f" ON c.{state.of_chain} AND c.cell = h.cell AND c.state IN ('live', 'held')"
        " WHERE h.left_at IS NULL"
    )
    persons = f"count(DISTINCT {PERSON})" if state.several else "count(*)"
    rows = (
        "SELECT r.cell, 0, r.size, CASE WHEN v.cell IS NULL THEN 0 ELSE r.size END FROM"
        f" (SELECT cell, CAST({persons} AS integer) AS size FROM {state.rows} GROUP BY cell) AS r"
        f" LEFT JOIN {state.values} AS v ON v.cell = r.cell"
    )
    with state.session.prepare_sorting():
        [(apart,)] = state.session.rows(
            f"SELECT count(*) FROM (SELECT cell FROM ({members} UNION ALL {rows}) AS both_ways"
            " GROUP BY cell HAVING sum(persons) <> sum(written) OR sum(valued) <> sum(written))"
            " AS apart"
        )
    if not state.several:
        return int(apart)
    most = int(state.chain.rules.max_rows_per_person or 0)
    [(above,)] = state.session.rows(
        f"SELECT count(*) FROM (SELECT cell FROM {state.rows} GROUP BY cell, {PERSON}, {PART}"
        f" HAVING count(*) > {most}) AS above"
    )
    return int(apart) + int(above)


def stage_displayed_rows(state: CellState, n_retained: int) -> None:
    """Stage the cells with displayed persons who are not in the source, and their current rows.

    Must run before displayed rows are replaced.

    Parameters
    ----------
    n_retained : the number of retained columns.
    """
    with state.session.prepare_lookup():
        state.make(
            ABSENT,
            f"SELECT m.cell, count(*) AS size FROM {state.name('chain_member')} AS m"
            f" WHERE m.{state.of_chain} AND m.left_at_release IS NULL"
            f" AND m.tag IN (SELECT p.tag FROM {quote(MISSING)} AS p) GROUP BY m.cell",
        )
    state.make(SHOWN, _absent_rows(state, n_retained))


def count_rewritten(state: CellState, n_retained: int) -> int:
    """Count rows of frozen cells that differ, as multisets, from ``stage_displayed_rows``.

    A cell is frozen while some of its displayed persons are not in the source.
    """
    columns, current_rows = _columns(state, n_retained), _absent_rows(state, n_retained)
    [(apart,)] = state.session.rows(
        f"SELECT count(*) FROM (SELECT {columns} FROM"
        f" (SELECT {columns}, 1 AS weight FROM {quote(SHOWN)}"
        f" UNION ALL SELECT {columns}, -1 FROM ({current_rows}) AS now) AS both_ways"
        f" GROUP BY {columns} HAVING sum(weight) <> 0) AS apart"
    )
    return int(apart)


def _absent_rows(state: CellState, n_retained: int) -> str:
    absent = f"SELECT a.cell FROM {quote(ABSENT)} AS a"
    return f"SELECT {_columns(state, n_retained)} FROM {state.rows} WHERE cell IN ({absent})"


def _columns(state: CellState, n_retained: int) -> str:
    return ", ".join(row_columns(state, n_retained))


def combinations(
    state: CellState,
    release: RelationName,
    combination: Sequence[tuple[str, str]],
    staged: bool = False,
    part: int = 0,
) -> tuple[Recount, int]:
    """Recount the rows by combination of released values, and count mismatched combinations.

    A combination is mismatched if the release has more or fewer rows of it than the state's cells.

    Parameters
    ----------
    release : the written relation, in the same database.
    combination : its columns that classes share, each with its state column.
    staged : as in ``count_histories``.
    part : the number of the table, if persons have rows in several.
    """
    values = ", ".join(f"v.{column} AS {column}" for _, column in combination)
    places = ", ".join(column for _, column in combination)
    names = quote_list(name for name, _ in combination)
    of_cells = (
        f"SELECT {values}, 0 AS written, h.size AS n FROM {_histories_source(state, staged)} AS h"
        f" JOIN {state.values} AS v ON v.cell = h.cell WHERE h.left_at IS NULL"
    )
    if state.several:
        of_cells = (
            f"SELECT {values}, 0 AS written, 1 AS n FROM {state.rows} AS r"
            f" JOIN {state.values} AS v ON v.cell = r.cell WHERE r.{PART} = {int(part)}"
        )
    null = statements.any_null(column for _, column in combination)
    class_counts = state.session.rows(
        "SELECT size, null_in_class, count(*), sum(apart) FROM (SELECT sum(written) AS size,"
        f" ({null}) AS null_in_class, CASE WHEN sum(n) <> 0 THEN 1 ELSE 0 END AS apart FROM"
        f" ({of_cells} UNION ALL SELECT {names}, 1, -1 FROM {release.quoted}) AS both_ways"
        f" GROUP BY {places}) AS classes GROUP BY size, null_in_class"
    )
    counted = Recount.of_sizes(row[:3] for row in class_counts if row[0])
    return counted, sum(int(apart) for *_, apart in class_counts)


def count_rarest(state: CellState, places: Sequence[str]) -> int | None:
    """Count the persons who share the rarest displayed combination; None if none is displayed.

    Requires ``stage_histories``.

    Parameters
    ----------
    places : the state columns of released values.
    """
    shared = ", ".join(f"v.{column}" for column in places)
    [(least,)] = state.session.rows(
        f"SELECT min(c.persons) FROM (SELECT sum(h.size) AS persons FROM"
        f" {quote(HISTORIES)} AS h LEFT JOIN {state.values} AS v ON v.cell = h.cell"
        f" WHERE h.left_at IS NULL GROUP BY {shared}) AS c"
    )
    return None if least is None else int(least)


def count_failing(state: CellState, retained: Sequence[Attribute], models: Sequence[Model]) -> int:
    """Count the displayed cells whose written rows break a privacy model.

    A cell counts once for each model it breaks. ``reference.recount_models`` counts those of models
    that compare with a table.

    Parameters
    ----------
    retained : the retained columns of the rows.
    """
    names, n_failing = [attribute.name for attribute in retained], 0
    for model in (model for model in models if not model.compares_with_table):
        index = names.index(model.attribute)
        value = state.session.comparison_value(retained[index], statements.kept_column(index))
        counts = (
            "SELECT c.cell, c.size, row_number() OVER (PARTITION BY c.cell ORDER BY c.size DESC)"
            " AS place FROM (SELECT t.cell, CAST(count(*) AS double precision) AS size FROM"
            f" (SELECT s.cell, {value} AS value FROM {state.rows} AS s) AS t"
            " GROUP BY t.cell, t.value) AS c"
        )
        [(broken,)] = state.session.rows(
            f"SELECT count(*) FROM (SELECT v.cell FROM ({counts}) AS v GROUP BY v.cell"
            f" HAVING NOT ({_satisfies(state.session, model)})) AS broken"
        )
        n_failing += int(broken)
    return n_failing


def _satisfies(session: Session, model: Model) -> str:
    """SQL condition that a cell satisfies a model, given its distinct values as rows.

    ``size`` is the number of rows with a value, and ``place`` its rank, 1 for the most frequent.
    Tolerates rounding errors at the exact level.
    """
    if model.kind == "distinct_l":
        return f"count(*) >= {model.level - _SLACK!r}"
    if model.kind == "alpha_k":
        return f"max(v.size) / sum(v.size) <= {model.level + _SLACK!r}"
    if model.kind == "recursive_cl":
        tail = f"sum(CASE WHEN v.place >= {int(model.l)} THEN v.size END)"
        return f"coalesce(max(v.size) / {tail} < {float(model.level)!r}, 1 = 0)"
    assert model.kind == "entropy_l"
    ln, least = session.logarithm, max(model.level - _SLACK, _SLACK)
    entropy = f"{ln('sum(v.size)')} - sum(v.size * {ln('v.size')}) / sum(v.size)"
    return f"{entropy} >= {math.log(least)!r}"


_CHUNK_ROWS = 65_536


@dataclass(frozen=True)
class ChainTarget(SqlTarget):
    """The target that writes a release of a chain in one transaction.

    Parameters
    ----------
    state : on the chain's database.
    released_columns : name, state column and source column of each.
    histories : counted on the state.
    same_transaction : whether they were counted in the transaction that writes.
    part : the number of the table, if persons have rows in several.
    """

    state: CellState
    released_columns: tuple[tuple[str, str, str], ...]
    histories: Histories
    same_transaction: bool
    part: int = 0

    @property
    def _is_local(self) -> bool:
        return self.state.session is self.session

    def write(self, draft: PreparedRelease, source: Source, progress: Progress) -> StagedSqlRelease:
        """Write the rows of the state, without their cells, in random order."""
        session, output = self.session, draft.output
        session.make_schema(output.name)
        attributes = self._attributes()
        columns = [
            (a.name, a.sql_type if self._is_local else session.type_of(a), "") for a in attributes
        ]
        typed = [(name, sql_type) for name, sql_type, _ in columns]
        session.create_released(output, typed, output.release_id)
        written = StagedSqlRelease(draft, tuple(columns), not self._is_local)
        if self._is_local:
            places = ", ".join(
                f"{'v' if column.startswith('v') else 'r'}.{column}"
                for _, column, _ in self.released_columns
            )
            names = ", ".join(quote(name) for name, _, _ in self.released_columns)
            session.run(
                f"INSERT INTO {output.staging_name.quoted} ({names}) SELECT {places}"
                f" {self.state.in_random_order(self.part)}"
            )
        else:
            session.load_rows(attributes, self._pieces(attributes))
            unsuppressed = Partition(np.zeros(1, np.int32))
            session.stage_classes(unsuppressed, [])
            expressions = {
                a.name: f"r.{statements.kept_column(i)}" for i, a in enumerate(attributes)
            }
            session.insert(output.staging_name, expressions, None)
            if self.part:
                # Free the names: the first table's rows are staged under them next.
                for staged in (statements.ROWS, statements.CLASSES):
                    session.run(f"DROP TABLE {quote(staged)}")
        progress(0.9)
        session.analyze(output.staging_name)
        return written

    def count(
        self, written: StagedSqlRelease, questions: CountRequests, rows: Recount | None = None
    ) -> Counts:
        """Recount the release; also compare it with the state if that is in the same database."""
        histories = self.histories
        if self._is_local:
            column_of = {name: column for name, column, _ in self.released_columns}
            shared = [(name, column_of[name]) for name in questions.columns]
            rows, uneven = combinations(
                self.state, written.relation, shared, self.same_transaction, self.part
            )
            histories = replace(histories, uneven=uneven)
        return replace(super().count(written, questions, rows), histories=histories)

    def _attributes(self) -> list[Attribute]:
        """The columns of the release, with their types in the state."""
        session, chain = self.state.session, self.state.chain
        attributes: dict[str, Attribute] = {}
        for table in ("value", "row"):
            relation = session.find_source(chain.table(session, table))
            inspected = session.inspect(relation, relation.schema.attributes)
            attributes |= {attribute.name: attribute for attribute in inspected}
        return [replace(attributes[column], name=name) for name, column, _ in self.released_columns]

    def _pieces(
        self, attributes: Sequence[Attribute]
    ) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32], Sequence[tuple[Any, ...]]]]:
        """The rows of the state, in a random order that is not stored."""
        session = self.state.session
        name = self.state.chain.table(session, "row")
        places = ", ".join(
            f"{'v' if column.startswith('v') else 'r'}.{column} AS {quote(name)}"
            for name, column, _ in self.released_columns
        )
        query = f"SELECT {places} {self.state.in_random_order(self.part)}"
        rows = SubqueryRelation(name.schema, name.name, query)
        relation = Relation(name, Schema(tuple(attributes)), "query", selected_rows=rows)
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
    """A query that can be read like a relation."""

    @property
    def quoted(self) -> str:
        """The query in parentheses."""
        return f"({self.condition})"

    def __init__(self, schema: str | None, name: str, query: str) -> None:
        super().__init__(schema, name, query, ())
