"""Recount a chain's state and its written release with independent SQL.

The recount does not use the data that were staged to make the release, except the tags (keyed
hashes) of members who are absent from the source. A *cell* is a class of a chain (see
``membership``), and its *members* are the persons who were admitted to it. Rows are *displayed* if
the release contains them. A *history* is a cell together with the release at which a person left
it (``left_at``), if any: this is all that the releases show of a person's membership. Constants
such as ``HISTORY_SIZES`` name staging tables, which are temporary.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dbanon.data.counts import ChainCounts, CountRequests, Counts, Recount
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute, Schema
from dbanon.extensions.chains.cell_rows import list_row_columns
from dbanon.extensions.chains.membership import ChainState, comparison_value
from dbanon.extensions.chains.rows_per_person import PERSON_NUMBER, TABLE_NUMBER
from dbanon.extensions.chains.state import ChainColumn
from dbanon.measures import Model
from dbanon.sessions import statements
from dbanon.sessions.base import FilteredRelation, Locator, Relation, random_order
from dbanon.sessions.chain_staging import (
    ABSENT_MEMBERS,
    CELLS_WITH_ABSENT,
    EARLIER_ROWS,
    HISTORY_SIZES,
)
from dbanon.sessions.names import RelationName, quote, quote_list
from dbanon.sessions.session import Session
from dbanon.stores.ports import PreparedRelease, Progress, Source
from dbanon.stores.sql_persons import StagedSqlRelease
from dbanon.stores.sql_target import SqlTarget

# Tolerance for rounding errors in the level of a privacy model.
_TOLERANCE = 1e-9


def count_histories(state: ChainState, histories_are_staged: bool = False) -> dict[int, int]:
    """Return how many histories exactly n persons share, by n.

    Parameters
    ----------
    histories_are_staged : True if ``stage_histories`` has staged the histories.
    """
    rows = state.session.rows(
        f"SELECT size, count(*) FROM {_history_sizes_sql(state, histories_are_staged)} AS histories"
        " GROUP BY size"
    )
    return {int(n_persons): int(n_histories) for n_persons, n_histories in rows}


def stage_histories(state: ChainState) -> None:
    """Stage the number of persons who share each history."""
    with state.session.chain_dialect.tune_for_sorting():
        state.stage(HISTORY_SIZES, _history_sizes_query(state))


def _history_sizes_sql(state: ChainState, histories_are_staged: bool) -> str:
    """Build SQL for a FROM clause: one row per history, with the number of persons who share it."""
    return quote(HISTORY_SIZES) if histories_are_staged else f"({_history_sizes_query(state)})"


def _history_sizes_query(state: ChainState) -> str:
    """Build a query of ``cell``, ``left_at`` and ``size`` (number of persons) of each history."""
    return state.session.chain_dialect.count_pairs_sql(
        first="cell",
        second="left_at_release",
        second_name="left_at",
        rows=f"{state.ledger_table('chain_member')} WHERE {state.chain_condition}",
    )


def count_persons(history_counts: dict[int, int]) -> int:
    """Count the persons who have a history.

    Parameters
    ----------
    history_counts : how many histories exactly n persons share, by n.
    """
    return sum(n_persons * n_histories for n_persons, n_histories in history_counts.items())


def count_exposed(history_counts: dict[int, int], k: int) -> int:
    """Count the persons whose history is shared by fewer than k persons.

    Parameters
    ----------
    history_counts : how many histories exactly n persons share, by n.
    """
    return sum(
        n_persons * n_histories
        for n_persons, n_histories in history_counts.items()
        if n_persons < k
    )


def count_displayed_persons(state: ChainState) -> tuple[int, int]:
    """Count the displayed persons, and how many of them are not in the source.

    Requires ``stage_histories`` and ``stage_rows_of_absent``.
    """
    [(n_displayed,)] = state.session.rows(
        f"SELECT coalesce(sum(size), 0) FROM {quote(HISTORY_SIZES)} WHERE left_at IS NULL"
    )
    [(n_absent,)] = state.session.rows(
        f"SELECT coalesce(sum(size), 0) FROM {quote(CELLS_WITH_ABSENT)}"
    )
    return int(n_displayed), int(n_absent)


def count_persons_in_frozen_cells(state: ChainState) -> int:
    """Count the displayed persons in frozen cells.

    Requires ``stage_histories``.
    """
    [(n_persons,)] = state.session.rows(
        f"SELECT coalesce(sum(h.size), 0) FROM {quote(HISTORY_SIZES)} AS h"
        f" JOIN {state.ledger_table('chain_cell')} AS c ON c.{state.chain_condition}"
        " AND c.cell = h.cell AND c.state = 'held' WHERE h.left_at IS NULL"
    )
    return int(n_persons)


def count_mismatched_cells(state: ChainState) -> int:
    """Count cells whose written rows do not match their members, or that must not be displayed.

    If persons may have several rows, numbers of persons are compared instead of rows, and persons
    with too many rows are added to the count. Requires ``stage_histories``.
    """
    # By cell: ``persons`` counts its members, ``written`` the persons with written rows. ``valued``
    # equals ``written`` if the value table has the cell's released values; otherwise it is 0.
    members = (
        "SELECT h.cell, h.size AS persons, 0 AS written, 0 AS valued"
        f" FROM {quote(HISTORY_SIZES)} AS h JOIN {state.ledger_table('chain_cell')} AS c"
        f" ON c.{state.chain_condition} AND c.cell = h.cell AND c.state IN ('live', 'held')"
        " WHERE h.left_at IS NULL"
    )
    persons = (
        f"count(DISTINCT {PERSON_NUMBER})" if state.has_several_rows_per_person else "count(*)"
    )
    rows = (
        "SELECT r.cell, 0, r.size, CASE WHEN v.cell IS NULL THEN 0 ELSE r.size END FROM"
        f" (SELECT cell, CAST({persons} AS integer) AS size FROM {state.row_table} GROUP BY cell)"
        f" AS r LEFT JOIN {state.value_table} AS v ON v.cell = r.cell"
    )
    with state.session.chain_dialect.tune_for_sorting():
        [(n_mismatched,)] = state.session.rows(
            f"SELECT count(*) FROM (SELECT cell FROM ({members} UNION ALL {rows}) AS combined_rows"
            " GROUP BY cell HAVING sum(persons) <> sum(written) OR sum(valued) <> sum(written))"
            " AS mismatched"
        )
    if not state.has_several_rows_per_person:
        return int(n_mismatched)
    max_rows = int(state.chain.rules.max_rows_per_person or 0)
    [(n_over_limit,)] = state.session.rows(
        f"SELECT count(*) FROM (SELECT cell FROM {state.row_table}"
        f" GROUP BY cell, {PERSON_NUMBER}, {TABLE_NUMBER}"
        f" HAVING count(*) > {max_rows}) AS above"
    )
    return int(n_mismatched) + int(n_over_limit)


def stage_rows_of_absent(state: ChainState, n_retained: int) -> None:
    """Stage the cells with displayed persons who are absent from the source, and the cells' rows.

    Call this before displayed rows are updated.

    Parameters
    ----------
    n_retained : the number of retained columns: columns released unchanged.
    """
    with state.session.chain_dialect.tune_for_lookup():
        state.stage(
            CELLS_WITH_ABSENT,
            f"SELECT m.cell, count(*) AS size FROM {state.ledger_table('chain_member')} AS m"
            f" WHERE m.{state.chain_condition} AND m.left_at_release IS NULL"
            f" AND m.tag IN (SELECT p.tag FROM {quote(ABSENT_MEMBERS)} AS p) GROUP BY m.cell",
        )
    state.stage(EARLIER_ROWS, _rows_of_cells_with_absent(state, n_retained))


def count_rewritten_rows(state: ChainState, n_retained: int) -> int:
    """Count the rows that have changed since ``stage_rows_of_absent``; there should be none.

    The rows of a cell must not change while some of its displayed persons are absent. Rows are
    compared as multisets.

    Parameters
    ----------
    n_retained : the number of retained columns: columns released unchanged.
    """
    columns = _row_column_list(state, n_retained)
    current_rows = _rows_of_cells_with_absent(state, n_retained)
    [(n_changed,)] = state.session.rows(
        f"SELECT count(*) FROM (SELECT {columns} FROM"
        f" (SELECT {columns}, 1 AS weight FROM {quote(EARLIER_ROWS)}"
        f" UNION ALL SELECT {columns}, -1 FROM ({current_rows}) AS now) AS combined_rows"
        f" GROUP BY {columns} HAVING sum(weight) <> 0) AS differing"
    )
    return int(n_changed)


def _rows_of_cells_with_absent(state: ChainState, n_retained: int) -> str:
    """Build a query of the displayed rows of cells with absent persons."""
    cells_with_absent = f"SELECT a.cell FROM {quote(CELLS_WITH_ABSENT)} AS a"
    return (
        f"SELECT {_row_column_list(state, n_retained)} FROM {state.row_table}"
        f" WHERE cell IN ({cells_with_absent})"
    )


def _row_column_list(state: ChainState, n_retained: int) -> str:
    """The columns of the row table, separated by commas."""
    return ", ".join(list_row_columns(state, n_retained))


def recount_combinations(
    state: ChainState,
    release: RelationName,
    columns: Sequence[tuple[str, str]],
    histories_are_staged: bool = False,
    table_number: int = 0,
) -> tuple[Recount, int]:
    """Count the combinations of released values by their number of rows; count mismatches, too.

    A combination is mismatched if it has more or fewer rows in the release than in the chain's
    state.

    Parameters
    ----------
    release : the written relation, in the same database.
    columns : the columns whose values the rows of a cell share, as pairs: the name in the release,
        and the column of the chain's value table.
    histories_are_staged : True if ``stage_histories`` has staged the histories.
    table_number : the index of the table among those of the chain.
    """
    values = ", ".join(f"v.{column} AS {column}" for _, column in columns)
    state_columns = ", ".join(column for _, column in columns)
    names = quote_list(name for name, _ in columns)
    # Expected rows add their number to ``n``. Each written row subtracts 1 from it, and adds 1 to
    # ``written``. So a combination is mismatched unless the sum of ``n`` is 0.
    expected_rows = (
        f"SELECT {values}, 0 AS written, h.size AS n"
        f" FROM {_history_sizes_sql(state, histories_are_staged)} AS h"
        f" JOIN {state.value_table} AS v ON v.cell = h.cell WHERE h.left_at IS NULL"
    )
    if state.has_several_rows_per_person:
        expected_rows = (
            f"SELECT {values}, 0 AS written, 1 AS n FROM {state.row_table} AS r"
            f" JOIN {state.value_table} AS v ON v.cell = r.cell"
            f" WHERE r.{TABLE_NUMBER} = {int(table_number)}"
        )
    any_null = statements.any_null(column for _, column in columns)
    class_counts = state.session.rows(
        "SELECT size, null_in_class, count(*), sum(is_mismatched) FROM (SELECT sum(written)"
        f" AS size, ({any_null}) AS null_in_class, CASE WHEN sum(n) <> 0 THEN 1 ELSE 0 END"
        " AS is_mismatched FROM"
        f" ({expected_rows} UNION ALL SELECT {names}, 1, -1 FROM {release.quoted}) AS combined_rows"
        f" GROUP BY {state_columns}) AS classes GROUP BY size, null_in_class"
    )
    # Combinations of the state that have no rows in the release (size 0) are only mismatches.
    counts = Recount.of_sizes(
        (size, null_in_class, n_classes)
        for size, null_in_class, n_classes, _ in class_counts
        if size
    )
    return counts, sum(int(n_mismatched) for *_, n_mismatched in class_counts)


def count_sharing_rarest(state: ChainState, state_columns: Sequence[str]) -> int | None:
    """Count the persons who share the rarest displayed combination; None if none is displayed.

    Requires ``stage_histories``.

    Parameters
    ----------
    state_columns : the columns of the chain's value table.
    """
    shared = ", ".join(f"v.{column}" for column in state_columns)
    [(n_persons,)] = state.session.rows(
        f"SELECT min(c.persons) FROM (SELECT sum(h.size) AS persons FROM"
        f" {quote(HISTORY_SIZES)} AS h LEFT JOIN {state.value_table} AS v ON v.cell = h.cell"
        f" WHERE h.left_at IS NULL GROUP BY {shared}) AS c"
    )
    return None if n_persons is None else int(n_persons)


def count_failing_cells(
    state: ChainState, retained: Sequence[Attribute], models: Sequence[Model]
) -> int:
    """Count the displayed cells whose written rows violate a privacy model.

    A cell counts once for each model that it violates. Models that compare classes with a table are
    left out: see ``reference.recount_models``.

    Parameters
    ----------
    retained : the retained columns of the rows.
    """
    names, n_failing = [attribute.name for attribute in retained], 0
    for model in (model for model in models if not model.compares_with_table):
        index = names.index(model.attribute)
        value = comparison_value(
            state.session, retained[index], statements.retained_column_name(index)
        )
        counts = (
            "SELECT c.cell, c.size, row_number() OVER (PARTITION BY c.cell ORDER BY c.size DESC)"
            " AS value_rank FROM (SELECT t.cell, CAST(count(*) AS double precision) AS size FROM"
            f" (SELECT s.cell, {value} AS value FROM {state.row_table} AS s) AS t"
            " GROUP BY t.cell, t.value) AS c"
        )
        [(n_violating,)] = state.session.rows(
            f"SELECT count(*) FROM (SELECT v.cell FROM ({counts}) AS v GROUP BY v.cell"
            f" HAVING NOT ({_model_condition_sql(state.session, model)})) AS broken"
        )
        n_failing += int(n_violating)
    return n_failing


def _model_condition_sql(session: Session, model: Model) -> str:
    """Build the SQL condition that a cell satisfies a model.

    The condition aggregates the distinct values of the cell, which have the alias v: ``v.size`` is
    the number of rows with the value, and ``v.value_rank`` the rank of the value, 1 for the most
    frequent. A small tolerance allows for rounding errors if the level is reached exactly. The
    level of ``entropy_l`` is the smallest allowed exponential of the entropy. The level of
    ``recursive_cl``, recursive (c, l)-diversity, is c.
    """
    if model.kind == "distinct_l":
        return f"count(*) >= {model.level - _TOLERANCE!r}"
    if model.kind == "alpha_k":
        return f"max(v.size) / sum(v.size) <= {model.level + _TOLERANCE!r}"
    if model.kind == "recursive_cl":
        # The number of rows with a value from rank l on. It is NULL if there is none, which
        # violates the model.
        tail = f"sum(CASE WHEN v.value_rank >= {int(model.l)} THEN v.size END)"
        return f"coalesce(max(v.size) / {tail} < {float(model.level)!r}, 1 = 0)"
    assert model.kind == "entropy_l"
    ln, min_exp_entropy = session.chain_dialect.logarithm, max(model.level - _TOLERANCE, _TOLERANCE)
    entropy = f"{ln('sum(v.size)')} - sum(v.size * {ln('v.size')}) / sum(v.size)"
    return f"{entropy} >= {math.log(min_exp_entropy)!r}"


# Number of rows to read at once from the chain's tables.
_CHUNK_ROWS = 65_536


@dataclass(frozen=True)
class ChainTarget(SqlTarget):
    """The target that writes a release of a chain in one transaction.

    Parameters
    ----------
    state : the state of the chain, on a session on its database.
    released_columns : the columns of the release.
    chain_counts : the counts of the chain after this release.
    histories_are_staged : True if the histories are still staged, because the transaction that
        writes the release has also counted ``chain_counts``.
    table_number : the index of the table among those of the chain.
    """

    state: ChainState
    released_columns: tuple[ChainColumn, ...]
    chain_counts: ChainCounts
    histories_are_staged: bool
    table_number: int = 0

    @property
    def _is_same_session(self) -> bool:
        """True if the release is written by the same session that reads the state."""
        return self.state.session is self.session

    def write(self, draft: PreparedRelease, source: Source, progress: Progress) -> StagedSqlRelease:
        """Write the displayed rows of the chain, without their cell numbers, in random order."""
        session, output = self.session, draft.output
        session.publication.ensure_schema(output.name)
        attributes = self._typed_columns()
        # Triples of name, type and SQL expression; the statements below have their own expressions.
        columns = [
            (a.name, a.sql_type if self._is_same_session else session.dialect.type_of(a), "")
            for a in attributes
        ]
        names_and_types = [(name, sql_type) for name, sql_type, _ in columns]
        session.publication.create_table(output, names_and_types, output.release_id)
        staged_release = StagedSqlRelease(
            draft, tuple(columns), is_copied=not self._is_same_session
        )
        if self._is_same_session:
            state_columns = ", ".join(
                f"{'v' if column.is_shared else 'r'}.{column.state_column}"
                for column in self.released_columns
            )
            names = ", ".join(quote(column.name) for column in self.released_columns)
            session.run(
                f"INSERT INTO {output.staging_name.quoted} ({names}) SELECT {state_columns}"
                f" {self.state.shuffled_rows_sql(self.table_number)}"
            )
        else:
            session.load_rows(attributes, self._read_in_random_order(attributes))
            # ``insert`` joins the loaded rows with the staging table of classes. These rows already
            # contain the values that a class shares, so they are all in class 0, without values.
            single_class = Partition(np.zeros(1, np.int32))
            session.stage_classes(single_class, [])
            expressions = {
                a.name: f"r.{statements.retained_column_name(i)}" for i, a in enumerate(attributes)
            }
            session.insert(output.staging_name, expressions, source=None)
            if self.table_number:
                # Free the names of these staging tables for the next table of the chain. The first
                # table, with the number 0, is written last.
                for staging_table in (statements.ROWS, statements.CLASSES):
                    session.run(f"DROP TABLE {quote(staging_table)}")
        # Only statistics remain to be collected.
        progress(0.9)
        session.analyze(output.staging_name)
        return staged_release

    def count(
        self,
        staged_release: StagedSqlRelease,
        requests: CountRequests,
        rows: Recount | None = None,
    ) -> Counts:
        """Recount the release, and add the counts of the chain to the result.

        If one session reads the chain and writes the release, the written rows are also compared
        with the state of the chain.
        """
        chain_counts = self.chain_counts
        if self._is_same_session:
            state_column_of = {column.name: column.state_column for column in self.released_columns}
            shared = [(name, state_column_of[name]) for name in requests.columns]
            rows, n_mismatched = recount_combinations(
                self.state,
                staged_release.relation,
                shared,
                self.histories_are_staged,
                self.table_number,
            )
            chain_counts = replace(chain_counts, mismatched_combinations=n_mismatched)
        return replace(super().count(staged_release, requests, rows), chain_counts=chain_counts)

    def _typed_columns(self) -> list[Attribute]:
        """Return the columns of the release, with their types in the chain's tables."""
        session, chain = self.state.session, self.state.chain
        attributes: dict[str, Attribute] = {}
        for table in ("value", "row"):
            relation = session.catalog.find_source(chain.table_name(session, table))
            # Some databases do not declare all of a type, such as the scale of decimals.
            typed_attributes = session.complete_attributes_from_values(
                relation, relation.schema.attributes
            )
            attributes |= {attribute.name: attribute for attribute in typed_attributes}
        return [
            replace(attributes[column.state_column], name=column.name)
            for column in self.released_columns
        ]

    def _read_in_random_order(
        self, attributes: Sequence[Attribute]
    ) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32], Sequence[tuple[object, ...]]]]:
        """Read the rows of the state in chunks, in a random order that is stored nowhere.

        Yields three items for each chunk of n rows: the class of each row, int32 (n,), which is
        always 0; the position of each row in the release, int32 (n,); and the rows.
        """
        session = self.state.session
        row_table = self.state.chain.table_name(session, "row")
        select_list = ", ".join(
            f"{'v' if column.is_shared else 'r'}.{column.state_column} AS {quote(column.name)}"
            for column in self.released_columns
        )
        query = f"SELECT {select_list} {self.state.shuffled_rows_sql(self.table_number)}"
        rows = SubqueryRelation(row_table.schema, row_table.name, query)
        relation = Relation(row_table, Schema(tuple(attributes)), "query", selected_rows=rows)
        # These rows have no key and are read only once, so a constant stands for the key.
        relation = replace(relation, locator=Locator(("1",), ("bigint",)))
        names = [attribute.name for attribute in attributes]
        where_clause = (
            f" WHERE {TABLE_NUMBER} = {self.table_number}"
            if self.state.has_several_rows_per_person
            else ""
        )
        [(n_rows,)] = session.rows(f"SELECT count(*) FROM {self.state.row_table}{where_clause}")
        random_positions, n_read = random_order(int(n_rows)).astype(np.int32), 0
        for _, chunk in session.read_rows(relation, names, _CHUNK_ROWS):
            positions = random_positions[n_read : n_read + len(chunk)]
            n_read += len(chunk)
            yield np.zeros(len(chunk), np.int32), positions, chunk


@dataclass(frozen=True)
class SubqueryRelation(FilteredRelation):
    """A query that can be read like a relation; ``condition`` holds its SQL."""

    @property
    def quoted(self) -> str:
        """The query in parentheses, for a FROM clause."""
        return f"({self.condition})"

    def __init__(self, schema: str | None, name: str, query: str) -> None:
        super().__init__(schema, name, condition=query, columns=())
