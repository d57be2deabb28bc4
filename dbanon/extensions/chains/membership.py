"""The cells of a chain: stage newcomers, decide the state of each cell, and admit new cells.

A *cell* is a class of a chain: persons who were admitted by the same release and share released
values, which never change. The persons are its *members*. A cell is *displayed* if the current
release contains it. *Newcomers* are persons in the source who are not members yet. A *tag* is the
keyed hash of a person's identifier, under which the chain stores the person. *Retained columns* are
released unchanged, a value for each row. This module does not use their values, except a hash that
shows whether the rows of a cell have changed.

Constants such as ``PRESENT_PERSONS`` name staging tables, which are temporary:
``sessions.chain_staging`` describes their rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import Microdata, find_records
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute
from dbanon.extensions.chains.arrays import FetchedPersons
from dbanon.extensions.chains.state import ChainRecord
from dbanon.job.chain import SHOW, WITHDRAW
from dbanon.recoding import ReleasedColumn
from dbanon.sessions import statements
from dbanon.sessions.base import Relation
from dbanon.sessions.chain_arrays import ChainArrays
from dbanon.sessions.chain_staging import (
    CELL_COUNTS,
    DISPLAYED_PERSONS,
    NEWCOMERS,
    NEXT_CELL_STATES,
    PERSON_TAGS,
    PRESENT_PERSONS,
)
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.session import Session

# Column of the row table: the number of the source table among those of the chain. Equal to
# ``rows_per_person.TABLE_NUMBER``, whose import would be cyclic.
_TABLE_NUMBER = "part"
# The states of cells that were ever displayed. The rows of a live cell may be updated from the
# source. A held cell is frozen: it keeps its displayed rows. A cell is gone once all members have
# left. A withdrawn cell is never displayed again, although members may remain in the source.
CELL_STATES = ("live", "held", "gone", "withdrawn")
# SQL condition on NEXT_CELL_STATES, with the alias v: live cells that a group of members leaves
# with this release. ``members`` and ``present`` count all members, and those in the source.
PARTLY_LEFT = "v.state = 'live' AND v.present < v.members"


def comparison_value(session: Session, attribute: Attribute, column: str) -> str:
    """SQL for a value as privacy models compare it: numbers by value, all else by its text.

    Parameters
    ----------
    column : the name of a column of the alias s that holds the attribute's values.
    """
    if attribute.kind.is_numeric:
        return f"s.{quote(column)}"
    return session.dialect.text_of(replace(attribute, name=column))


@dataclass(frozen=True)
class ChainState:
    """A chain in one transaction, with the methods that read and write its members and cells.

    Parameters
    ----------
    session : a session on the chain's database, in the transaction.
    chain : the record of the chain.
    release_number : the number of the release that is being made, from 1.
    k : the k of the chain.
    fetched_persons : the persons in the source, if they were fetched into this process. Then only
        newcomers, returned persons and members of cells that may change are staged in the database.
        None if all persons were staged there.
    """

    session: Session
    chain: ChainRecord
    release_number: int
    k: int
    fetched_persons: FetchedPersons | None = None

    def ledger_table(self, table: str) -> str:
        """The quoted name of a ledger table that all chains share."""
        return self.session.ledger.table(table).quoted

    @property
    def chain_condition(self) -> str:
        """The SQL condition for rows of this chain."""
        return f"chain_id = {int(self.chain.chain_id)}"

    @property
    def row_table(self) -> str:
        """The quoted name of the chain's table of displayed rows."""
        return self.chain.table_name(self.session, "row").quoted

    @property
    def has_several_rows_per_person(self) -> bool:
        """True if a person may have several rows, or none in some of the chain's tables."""
        return self.chain.rules.max_rows_per_person is not None

    @property
    def displayed_table(self) -> str:
        """The quoted name of a table with one row for each displayed person.

        Its columns are the cell, and the retained columns or a digest of the person's rows.
        """
        return quote(DISPLAYED_PERSONS) if self.has_several_rows_per_person else self.row_table

    @property
    def value_table(self) -> str:
        """The quoted name of the chain's table of released values, one row per cell."""
        return self.chain.table_name(self.session, "value").quoted

    def stage(self, name: str, query: str, kind: str = "TABLE") -> None:
        """Stage the result of a query as a temporary table, or as a view if ``kind`` is VIEW."""
        suffix = self.session.dialect.staging_suffix if kind == "TABLE" else ""
        self.session.run(f"CREATE TEMPORARY {kind} {quote(name)}{suffix} AS {query}")
        # Of the databases with chains, only PostgreSQL has a suffix. It does not analyze temporary
        # tables by itself.
        if suffix:
            self.session.run(f"ANALYZE {quote(name)}")

    @property
    def arrays(self) -> ChainArrays:
        """The arrays that the chain exchanges with its database, which must support that.

        ``presence_arrays.match_persons`` checks it, before it fetches persons.
        """
        arrays = self.session.chain_arrays
        assert arrays is not None
        return arrays

    # -- persons ----------------------------------------------------------------------------------

    def stage_newcomers(self) -> str:
        """Stage the newcomers; return the SQL condition that selects their rows in the source."""
        # Only fetched persons are staged together with their row keys.
        keys = (
            []
            if self.fetched_persons is None
            else [f"key{i}" for i in range(self.fetched_persons.n_key_columns)]
        )
        columns = ", ".join(["person", "tag", *keys])
        self.stage(NEWCOMERS, f"SELECT {columns} FROM {quote(PRESENT_PERSONS)} WHERE cell IS NULL")
        return f"{quote(self.chain.entity)} IN (SELECT p.person FROM {quote(NEWCOMERS)} AS p)"

    @property
    def newcomers_table(self) -> str:
        """The quoted staging table of newcomers; at the first release, that of all persons."""
        return quote(NEWCOMERS if self.release_number > 1 else PRESENT_PERSONS)

    def order_by_tag(
        self, relation: Relation, microdata: Microdata
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the indices that sort records by tag, and the waiting times of their persons.

        Both are int64 (n,). A waiting time is the number of releases for which the person has
        waited to be admitted. Waiting times are in the order of the tags.
        Records must not be processed in storage order: the way ties are broken, and the last digits
        of means, would reveal which rows were moved by an UPDATE.

        Parameters
        ----------
        relation : the relation that the records were read from.
        """
        if self.fetched_persons is not None and self.release_number == 1:
            order = self.fetched_persons.order_by_tag(microdata.keys)
            return order, np.zeros(len(order), np.int64)
        release_number = int(self.release_number)
        waiting_time = f"{release_number} - coalesce(w.since_release, {release_number})"
        # %s stands for the condition that joins the newcomers with the rows of the source, if any.
        newcomers = (
            f"{self.newcomers_table} AS p%s LEFT JOIN {self.ledger_table('chain_waiting')} AS w"
            f" ON w.{self.chain_condition} AND w.tag = p.tag"
        )
        if self.has_several_rows_per_person:
            # Persons are numbered by tag, from 1, and have one record each.
            rows = self.session.rows(f"SELECT {waiting_time} FROM {newcomers % ''} ORDER BY p.tag")
            waiting_times = np.array(rows, np.int64).reshape(-1)
            return np.arange(microdata.n_records), waiting_times[microdata.keys[:, 0] - 1]
        key_condition = f" ON p.person = s.{quote(self.chain.entity)}"
        if self.fetched_persons is not None:
            key_conditions = [
                f"p.key{i} = {sql}" for i, sql in enumerate(relation.required_locator.expressions)
            ]
            key_condition = f" ON {' AND '.join(key_conditions)}"
        with (
            self.session.chain_dialect.tune_for_sorting()
            if self.release_number == 1
            else nullcontext()
        ):
            ordered_keys = self.session.chain_dialect.read_keys_in_order(
                relation, f"JOIN {newcomers % key_condition}", waiting_time, "p.tag"
            )
        # The last column holds the waiting times.
        return find_records(microdata.keys, ordered_keys[:, :-1]), ordered_keys[:, -1]

    # -- cells ------------------------------------------------------------------------------------

    def decide_cell_states(
        self, sealed_cells: str, groups_may_leave: bool, n_staged_columns: int = 0
    ) -> None:
        """Stage the next state of each displayed cell, and whether its rows are unchanged.

        The state depends on which members are in the source, and on ``sealed_cells``.

        Parameters
        ----------
        sealed_cells : SQL query of the distinct *sealed* cells, which no group may leave because a
            member was absent and has returned; from ``returns.build_sealed_cells_query``.
        groups_may_leave : True if k persons may leave a cell when at least k stay. It is False for
            jobs with privacy models: after persons have left, their values are gone, so the models
            could not be checked.
        n_staged_columns : the number of retained columns that are staged with the persons.
        """
        rules, k = self.chain.rules, int(self.k)
        n_left = "(c.members - c.present)"
        # The first condition that is true decides. If none is, the cell is held.
        cases = ["WHEN c.present = c.members THEN 'live'", "WHEN c.present = 0 THEN 'gone'"]
        join_sealed = ""
        if rules.changes == SHOW and groups_may_leave:
            # Only with ``show`` do the rows of members who leave disappear, while others stay. If
            # fewer than k could leave, comparing the releases would reveal their rows.
            # ``w`` has the sealed cells, so ``w.cell`` is NULL for the others.
            cases.append(
                f"WHEN {n_left} >= {k} AND c.present >= {k} AND w.cell IS NULL THEN 'live'"
            )
            join_sealed = f" LEFT JOIN ({sealed_cells}) AS w ON w.cell = c.cell"
        if rules.departures == WITHDRAW:
            cases.append("WHEN c.present < c.members THEN 'withdrawn'")
        if rules.withdraw_above is not None:
            cases.append(
                f"WHEN {n_left} > {float(rules.withdraw_above)!r} * c.members THEN 'withdrawn'"
            )
        # ``presence_arrays`` has already counted, and staged the counts, if it fetched the persons.
        has_cell_counts = self.fetched_persons is not None and self.release_number > 1
        cell_counts = (
            f"SELECT * FROM {quote(CELL_COUNTS)}"
            if has_cell_counts
            else self._count_cells_query(n_staged_columns)
        )
        next_states = (
            f"SELECT c.cell, c.members, c.present, c.is_unchanged,"
            f" CASE {' '.join(cases)} ELSE 'held' END AS state"
            f" FROM ({cell_counts}) AS c{join_sealed}"
        )
        with nullcontext() if has_cell_counts else self.session.chain_dialect.tune_for_sorting():
            self.stage(NEXT_CELL_STATES, next_states)

    def _count_cells_query(self, n_staged_columns: int) -> str:
        """Build a query of the displayed cells and their counts.

        The query has the columns ``cell``; ``members``, the number of members; ``present``, the
        number of members in the source; and ``is_unchanged``: 1 if the rows in the source are known
        to equal the displayed ones, otherwise 0.

        Parameters
        ----------
        n_staged_columns : the number of retained columns that are staged with the persons.
        """
        # Without staged columns, rows are not compared, and all cells count as unchanged: displayed
        # rows never change (``changes=freeze``), no columns are retained, or this is a preview.
        hash_sum, is_unchanged = "", "1" if not n_staged_columns else "0"
        names = [statements.retained_column_name(i) for i in range(n_staged_columns)]
        # ``row_hash`` is None if the database cannot compute hashes of rows.
        row_hash = (
            self.session.chain_dialect.row_hash(self.chain.table_name(self.session, "row"), names)
            if n_staged_columns and not self.has_several_rows_per_person
            else None
        )
        if row_hash is not None:
            # Compare the sum of the hashes of a cell's rows in the source (p) with that of its
            # displayed rows (m).
            hash_sum = f", sum({row_hash}) AS total"
            is_unchanged = "CASE WHEN p.total = m.total THEN 1 ELSE 0 END"
        return (
            f"SELECT m.cell, m.members, coalesce(p.present, 0) AS present,"
            f" {is_unchanged} AS is_unchanged FROM"
            # A displayed cell has one row for each member.
            f" (SELECT s.cell, count(*) AS members{hash_sum} FROM {self.displayed_table} AS s"
            " GROUP BY s.cell) AS m LEFT JOIN"
            f" (SELECT s.cell, count(*) AS present{hash_sum} FROM {quote(PRESENT_PERSONS)} AS s"
            " WHERE s.cell IS NOT NULL AND s.left_at IS NULL GROUP BY s.cell) AS p"
            " ON p.cell = m.cell"
        )

    def count_decided_states(self, sealed_cells: str, groups_may_leave: bool) -> dict[str, int]:
        """Stage the next states of cells without writing them, and count the cells by state.

        Parameters
        ----------
        sealed_cells, groups_may_leave : see ``decide_cell_states``.
        """
        if self.chain.definition is None:
            return {}
        self.decide_cell_states(sealed_cells, groups_may_leave)
        counts: dict[str, int] = dict(
            self.session.rows(
                f"SELECT state, count(*) FROM {quote(NEXT_CELL_STATES)} GROUP BY state"
            )
        )
        return {state: int(counts[state]) for state in CELL_STATES if state in counts}

    def write_decided_states(self) -> None:
        """Write the staged states of cells, and the departures of members, into the chain."""
        session, next_states = self.session, quote(NEXT_CELL_STATES)
        member, cell = self.ledger_table("chain_member"), self.ledger_table("chain_cell")
        set_left = f"UPDATE {member} AS m SET left_at_release = {int(self.release_number)}"
        in_cells = f"WHERE m.{self.chain_condition} AND m.left_at_release IS NULL AND m.cell IN"
        no_longer_displayed = "v.state IN ('gone', 'withdrawn')"
        # Most releases have no such cells; checking first avoids a scan of all members.
        [(n_no_longer_displayed, n_partly_left)] = session.rows(
            f"SELECT count(CASE WHEN {no_longer_displayed} THEN 1 END),"
            f" count(CASE WHEN {PARTLY_LEFT} THEN 1 END) FROM {next_states} AS v"
        )
        if n_no_longer_displayed:
            session.run(
                f"{set_left} {in_cells} (SELECT v.cell FROM {next_states} AS v"
                f" WHERE {no_longer_displayed})"
            )
            session.run(
                f"DELETE FROM {self.value_table} WHERE cell IN"
                f" (SELECT v.cell FROM {next_states} AS v WHERE {no_longer_displayed})"
            )
        if n_partly_left:
            session.run(
                f"{set_left} {in_cells} (SELECT v.cell FROM {next_states} AS v WHERE {PARTLY_LEFT})"
                f" AND NOT EXISTS (SELECT 1 FROM {quote(PRESENT_PERSONS)} AS p WHERE p.tag = m.tag)"
            )
        session.run(
            f"UPDATE {cell} AS c SET state = v.state, since_release = {int(self.release_number)}"
            f" FROM {next_states} AS v WHERE c.{self.chain_condition} AND c.cell = v.cell"
            " AND c.state <> v.state"
        )

    @property
    def last_cell(self) -> int:
        """The number of the chain's last cell; 0 if it has none."""
        [(last_cell,)] = self.session.rows(
            f"SELECT coalesce(max(cell), 0) FROM {self.ledger_table('chain_cell')}"
            f" WHERE {self.chain_condition}"
        )
        return int(last_cell)

    def admit_classes(
        self,
        relation: Relation,
        microdata: Microdata,
        partition: Partition,
        columns: Sequence[ReleasedColumn],
        by: Sequence[Attribute],
        is_large_batch: bool,
    ) -> int:
        """Add the classes of newcomers as new cells; return the number of the first new cell.

        Parameters
        ----------
        relation : the rows of newcomers.
        microdata, partition : the admitted records and their classes.
        columns : the released columns of the classes, with their types in this database.
        by : the columns that form the strata; each class has a single value of them.
        is_large_batch : True if the state grows so much that it needs new planner statistics.
        """
        session, first_new_cell = self.session, self.last_cell + 1
        # At the first release, all fetched persons are newcomers, so members are written as arrays.
        fetched_persons = self.fetched_persons if self.release_number == 1 else None
        # ``load_cells`` passes the classes as arrays, and returns False if they fit none. Then, and
        # if strata must be read from the source, SQL needs a staging table of labels instead.
        uses_labels = fetched_persons is None or bool(by)
        if uses_labels or not self.arrays.load_cells(relation, microdata, partition):
            session.stage_labels(microdata, partition, relation.required_locator.types)
        session.stage_classes(partition, columns)
        # A released column takes several staging columns if it has parts, such as two bounds.
        n_parts, expressions = 0, []
        for column in columns:
            expressions.append(session.dialect.released_expression(n_parts, column))
            n_parts += len(column.written_columns)
        rows = statements.released_rows(relation.from_clause, relation.required_locator.expressions)
        classes = quote(statements.CLASSES)
        value_columns = [statements.value_column(i) for i in range(len(columns) + len(by))]
        source = f"{classes} AS c"
        distinct = ""
        if by:
            # All rows of a class have the same strata.
            source, distinct = f"{rows} JOIN {classes} AS c ON c.class = l.class", "DISTINCT "
            expressions += [session.dialect.retained_value(attribute) for attribute in by]
        session.run(
            f"INSERT INTO {self.value_table} (cell, {', '.join(value_columns)})"
            f" SELECT {distinct}c.class + {first_new_cell}, {', '.join(expressions)} FROM {source}"
        )
        if fetched_persons is None:
            self._insert_members(rows, first_new_cell, is_large_batch)
        else:
            self._append_members(fetched_persons, microdata, partition, first_new_cell)
        if is_large_batch:
            # Without new statistics, planners assume empty tables, and use nested loops.
            for table in ("chain_member", "chain_cell"):
                session.analyze(session.ledger.table(table))
            session.analyze(self.chain.table_name(session, "value"))
        return first_new_cell

    def _insert_members(self, rows: str, first_new_cell: int, is_large_batch: bool) -> None:
        """Store the staged classes as cells, with their members.

        Parameters
        ----------
        rows : the FROM clause of the admitted rows, with the alias s, and their labels, with the
            alias l.
        """
        session, chain_id = self.session, int(self.chain.chain_id)
        session.run(
            f"INSERT INTO {self.ledger_table('chain_cell')} (chain_id, cell, state, since_release)"
            f" SELECT {chain_id}, c.class + {first_new_cell}, 'live', {int(self.release_number)}"
            f" FROM {quote(statements.CLASSES)} AS c"
        )
        with session.chain_dialect.tune_for_sorting() if is_large_batch else nullcontext():
            session.run(
                f"INSERT INTO {self.ledger_table('chain_member')} (chain_id, tag, cell)"
                f" SELECT {chain_id}, p.tag, l.class + {first_new_cell} FROM {rows}"
                f" JOIN {self.newcomers_table} AS p ON p.person = s.{quote(self.chain.entity)}"
                # Insert in index order, which takes less than half the time.
                " ORDER BY p.tag"
            )

    def _append_members(
        self,
        fetched_persons: FetchedPersons,
        microdata: Microdata,
        partition: Partition,
        first_new_cell: int,
    ) -> None:
        """Store cells and members from arrays."""
        session, chain_id = self.session, int(self.chain.chain_id)
        cells = np.arange(partition.n_classes) + first_new_cell
        states, since_release = (
            np.full(len(cells), b"live"),
            np.full(len(cells), self.release_number),
        )
        self.arrays.append(
            session.ledger.table("chain_cell"),
            [
                ("chain_id", "integer", np.full(len(cells), chain_id)),
                ("cell", "integer", cells),
                ("state", "text", states),
                ("since_release", "integer", since_release),
            ],
        )
        # Records are in the order of their tags, which is that of the index. Cells have the random
        # numbers under which ``stage_classes`` has staged the classes.
        cell_of_member = (
            session.class_numbers(partition)[partition.labels].astype(np.int64) + first_new_cell
        )
        self.arrays.append(
            session.ledger.table("chain_member"),
            [
                ("chain_id", "integer", np.full(len(cell_of_member), chain_id)),
                ("tag", "bytea", fetched_persons.tags_by_key(microdata.keys)),
                ("cell", "integer", cell_of_member),
            ],
        )

    @property
    def n_cells_by_state(self) -> dict[str, int]:
        """The number of cells in each state after this release."""
        counts: dict[str, int] = dict(
            self.session.rows(
                f"SELECT state, count(*) FROM {self.ledger_table('chain_cell')}"
                f" WHERE {self.chain_condition} GROUP BY state"
            )
        )
        return {state: int(counts.get(state, 0)) for state in CELL_STATES}

    def withdraw(self, tags: Sequence[bytes]) -> int:
        """Withdraw the cells of some persons from all later releases; return the number of cells.

        Parameters
        ----------
        tags : the tags of the persons. Persons who are not displayed are ignored.
        """
        session, member = self.session, self.ledger_table("chain_member")
        session.run(
            statements.create_staging(
                PERSON_TAGS, [("tag", session.tags.sql_type)], session.dialect.staging_suffix
            )
        )
        session.connection.insert_rows(
            RelationName(None, PERSON_TAGS), ["tag"], [(tag,) for tag in tags]
        )
        self.stage(
            NEXT_CELL_STATES,
            f"SELECT m.cell, 0 AS members, 0 AS present, 'withdrawn' AS state FROM {member} AS m"
            f" JOIN {quote(PERSON_TAGS)} AS t ON t.tag = m.tag"
            f" WHERE m.{self.chain_condition} AND m.left_at_release IS NULL GROUP BY m.cell",
        )
        # ``write_decided_states`` reads this table if a group leaves a cell; here none does.
        self.stage(PRESENT_PERSONS, f"SELECT tag FROM {quote(PERSON_TAGS)}")
        [(n_cells,)] = session.rows(f"SELECT count(*) FROM {quote(NEXT_CELL_STATES)}")
        if n_cells:
            self.write_decided_states()
            session.run(
                f"DELETE FROM {self.row_table} WHERE cell IN"
                f" (SELECT v.cell FROM {quote(NEXT_CELL_STATES)} AS v)"
            )
        return int(n_cells)

    def shuffled_rows_sql(self, table_number: int = 0) -> str:
        """Build the FROM, WHERE and ORDER BY clauses that read the rows of a release shuffled.

        The row table has the alias r, and the value table the alias v.

        Parameters
        ----------
        table_number : the index of the table among those of the chain.
        """
        from_clause, random_order = self.session.chain_dialect.shuffled_join_sql(
            self.row_table, self.chain.table_name(self.session, "value")
        )
        where_clause = (
            f" WHERE r.{_TABLE_NUMBER} = {int(table_number)}"
            if self.has_several_rows_per_person
            else ""
        )
        return f"FROM {from_clause}{where_clause} ORDER BY {random_order}"
