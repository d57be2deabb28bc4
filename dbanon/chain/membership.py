"""The cells of a chain: stage newcomers, decide the state of each cell, and admit new cells.

A cell is the set of persons whom one run put into one class and who, if they left, left with the
same release. It is always released with the values that it was admitted with. This module ignores
the contents of retained columns, except to count changed rows for ``changes: hold``.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.chain.arrays import MatchedPersons
from dbanon.chain.state import ChainRecord
from dbanon.data.microdata import Microdata, find_records
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute
from dbanon.job.chain import SHOW, WITHDRAW
from dbanon.recoding import ReleasedColumn
from dbanon.sessions import statements
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.pseudonym_session import (
    COUNTED,
    DISPLAYED,
    NEWCOMERS,
    PRESENT,
    TRACES,
    VERDICT,
)
from dbanon.sessions.session import Session

# The states of cells that were ever displayed.
STATES = ("live", "held", "gone", "withdrawn")
# Condition on VERDICT, as v: cells that some members leave visibly with this release.
PARTED = "v.state = 'live' AND v.present < v.members"


@dataclass(frozen=True)
class CellState:
    """The state of a chain in one transaction.

    Parameters
    ----------
    sequence : the number of the release that is being made.
    k : of the chain.
    matched : the persons in the source if they were fetched; then only members whose cells may
        change are staged.
    """

    session: Session
    chain: ChainRecord
    sequence: int
    k: int
    matched: MatchedPersons | None = None

    def name(self, table: str) -> str:
        """The quoted name of a table shared by all chains."""
        return self.session.ledger_name(table).quoted

    @property
    def of_chain(self) -> str:
        """The SQL condition for rows of this chain."""
        return f"chain_id = {int(self.chain.chain_id)}"

    @property
    def rows(self) -> str:
        """The table of displayed rows, by cell."""
        return self.chain.table(self.session, "row").quoted

    @property
    def several(self) -> bool:
        """Whether persons may have several rows, or none in one of several tables."""
        return self.chain.rules.max_rows_per_person is not None

    @property
    def displayed(self) -> str:
        """A table with one row for each displayed person: the cell, and the displayed columns."""
        return quote(DISPLAYED) if self.several else self.rows

    @property
    def values(self) -> str:
        """The table of released values, by cell."""
        return self.chain.table(self.session, "value").quoted

    def make(self, name: str, query: str, kind: str = "TABLE") -> None:
        """Stage the result of a query as a temporary table or view."""
        suffix = self.session.staging_suffix if kind == "TABLE" else ""
        self.session.run(f"CREATE TEMPORARY {kind} {quote(name)}{suffix} AS {query}")
        if suffix:
            self.session.run(f"ANALYZE {quote(name)}")

    # -- persons ----------------------------------------------------------------------------------

    def stage_newcomers(self) -> str:
        """Stage the newcomers; return the SQL condition that selects their rows in the source."""
        keys = [] if self.matched is None else [f"key{i}" for i in range(self.matched.n_keys)]
        columns = ", ".join(["person", "tag", *keys])
        self.make(NEWCOMERS, f"SELECT {columns} FROM {quote(PRESENT)} WHERE cell IS NULL")
        return f"{quote(self.chain.entity)} IN (SELECT p.person FROM {quote(NEWCOMERS)} AS p)"

    @property
    def arrivals(self) -> str:
        """The staging table of newcomers: at the first release, all persons."""
        return quote(NEWCOMERS if self.sequence > 1 else PRESENT)

    def in_order(
        self, relation: Relation, microdata: Microdata
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The records in the order of their tags, int64 (n,), and how long each has waited.

        In storage order, ties of quasi-identifiers and the last digits of means would reveal whose
        row an UPDATE has moved. Waiting time, int64 (n,), is a number of releases.

        Parameters
        ----------
        relation : the relation that the records were read from.
        """
        if self.matched is not None and self.sequence == 1:
            order = self.matched.in_order(microdata.keys)
            return order, np.zeros(len(order), np.int64)
        sequence = int(self.sequence)
        waited = f"{sequence} - coalesce(w.since_release, {sequence})"
        joined = (
            f"{self.arrivals} AS p%s LEFT JOIN {self.name('chain_waiting')} AS w"
            f" ON w.{self.of_chain} AND w.tag = p.tag"
        )
        if self.several:
            # Persons are numbered by tag and have one record each.
            rows = self.session.rows(f"SELECT {waited} FROM {joined % ''} ORDER BY p.tag")
            of_person = np.array(rows, np.int64).reshape(-1)
            return np.arange(microdata.n_records), of_person[microdata.keys[:, 0] - 1]
        person = f" ON p.person = s.{quote(self.chain.entity)}"
        if self.matched is not None:
            key_conditions = [
                f"p.key{i} = {sql}" for i, sql in enumerate(relation.required_locator.expressions)
            ]
            person = f" ON {' AND '.join(key_conditions)}"
        with self.session.prepare_sorting() if self.sequence == 1 else nullcontext():
            ordered_keys = self.session.keys_in_order(
                relation, f"JOIN {joined % person}", waited, "p.tag"
            )
        return find_records(microdata.keys, ordered_keys[:, :-1]), ordered_keys[:, -1]

    # -- cells ------------------------------------------------------------------------------------

    def decide(self, sealed_cells: str, batches_may_leave: bool, n_staged: int = 0) -> None:
        """Stage the state of each cell, by who is present, and whether its rows are unchanged.

        Parameters
        ----------
        sealed_cells : SQL of distinct cells that k persons may not leave, from ``returns``.
        batches_may_leave : whether k persons may leave a cell in which k stay; False with privacy
            models, which can no longer be checked against the values of those who left.
        n_staged : how many columns are staged with the persons.
        """
        rules, k = self.chain.rules, int(self.k)
        left = "(c.members - c.present)"
        cases = ["WHEN c.present = c.members THEN 'live'", "WHEN c.present = 0 THEN 'gone'"]
        joined = ""
        if rules.changes == SHOW and batches_may_leave:
            # If fewer than k could leave, frozen and new rows together would reveal who left.
            cases.append(f"WHEN {left} >= {k} AND c.present >= {k} AND w.cell IS NULL THEN 'live'")
            joined = f" LEFT JOIN ({sealed_cells}) AS w ON w.cell = c.cell"
        if rules.departures == WITHDRAW:
            cases.append("WHEN c.present < c.members THEN 'withdrawn'")
        if rules.withdraw_above is not None:
            cases.append(
                f"WHEN {left} > {float(rules.withdraw_above)!r} * c.members THEN 'withdrawn'"
            )
        is_matched = self.matched is not None and self.sequence > 1
        counted = (
            f"SELECT * FROM {quote(COUNTED)}" if is_matched else self._count_cells_query(n_staged)
        )
        verdict = (
            f"SELECT c.cell, c.members, c.present, c.same, CASE {' '.join(cases)} ELSE 'held' END"
            f" AS state FROM ({counted}) AS c{joined}"
        )
        with nullcontext() if is_matched else self.session.prepare_sorting():
            self.make(VERDICT, verdict)

    def _count_cells_query(self, n_staged: int) -> str:
        """SQL of displayed cells: members, present members, whether rows are unchanged."""
        total, same = "", "1" if not n_staged else "0"
        names = [statements.kept_column(i) for i in range(n_staged)]
        hashed = (
            self.session.row_hash(self.chain.table(self.session, "row"), names)
            if n_staged and not self.several
            else None
        )
        if hashed is not None:
            total = f", sum({hashed}) AS total"
            same = "CASE WHEN p.total = m.total THEN 1 ELSE 0 END"
        return (
            f"SELECT m.cell, m.members, coalesce(p.present, 0) AS present, {same} AS same FROM"
            # A displayed cell has one row for each member.
            f" (SELECT s.cell, count(*) AS members{total} FROM {self.displayed} AS s"
            " GROUP BY s.cell) AS m LEFT JOIN"
            f" (SELECT s.cell, count(*) AS present{total} FROM {quote(PRESENT)} AS s"
            " WHERE s.cell IS NOT NULL AND s.left_at IS NULL GROUP BY s.cell) AS p"
            " ON p.cell = m.cell"
        )

    def verdicts(self, sealed_cells: str, batches_may_leave: bool) -> dict[str, int]:
        """Count the displayed cells by the state that ``decide`` would give them.

        Stages what ``decide`` stages and writes nothing.
        """
        if self.chain.definition is None:
            return {}
        self.decide(sealed_cells, batches_may_leave)
        counts = dict(
            self.session.rows(f"SELECT state, count(*) FROM {quote(VERDICT)} GROUP BY state")
        )
        return {state: int(counts[state]) for state in STATES if state in counts}

    def apply(self) -> None:
        """Write the decided states of cells into the chain."""
        session, verdict = self.session, quote(VERDICT)
        member, cell = self.name("chain_member"), self.name("chain_cell")
        left = f"UPDATE {member} AS m SET left_at_release = {int(self.sequence)}"
        of = f"WHERE m.{self.of_chain} AND m.left_at_release IS NULL AND m.cell IN"
        ended, parted = "v.state IN ('gone', 'withdrawn')", PARTED
        # Most releases have neither; checking first avoids a scan of all members.
        [(any_ended, any_parted)] = session.rows(
            f"SELECT count(CASE WHEN {ended} THEN 1 END), count(CASE WHEN {parted} THEN 1 END)"
            f" FROM {verdict} AS v"
        )
        if any_ended:
            session.run(f"{left} {of} (SELECT v.cell FROM {verdict} AS v WHERE {ended})")
            session.run(
                f"DELETE FROM {self.values} WHERE cell IN"
                f" (SELECT v.cell FROM {verdict} AS v WHERE {ended})"
            )
        if any_parted:
            session.run(
                f"{left} {of} (SELECT v.cell FROM {verdict} AS v WHERE {parted})"
                f" AND NOT EXISTS (SELECT 1 FROM {quote(PRESENT)} AS p WHERE p.tag = m.tag)"
            )
        session.run(
            f"UPDATE {cell} AS c SET state = v.state, since_release = {int(self.sequence)}"
            f" FROM {verdict} AS v WHERE c.{self.of_chain} AND c.cell = v.cell"
            " AND c.state <> v.state"
        )

    @property
    def last_cell(self) -> int:
        """The number of the last cell; 0 if there is none."""
        [(last,)] = self.session.rows(
            f"SELECT coalesce(max(cell), 0) FROM {self.name('chain_cell')} WHERE {self.of_chain}"
        )
        return int(last)

    def admit(
        self,
        relation: Relation,
        microdata: Microdata,
        partition: Partition,
        columns: Sequence[ReleasedColumn],
        by: Sequence[Attribute],
        large_batch: bool,
    ) -> int:
        """Add the classes of newcomers as new cells; return the number of the first one.

        Parameters
        ----------
        relation : the rows of newcomers.
        columns : the released columns of the classes, with their types in this database.
        large_batch : True if the state grows enough to need new planner statistics.
        """
        session, first = self.session, self.last_cell + 1
        matched = self.matched if self.sequence == 1 else None
        if matched is None or by or not session.load_cells(relation, microdata, partition):
            session.stage_labels(microdata, partition, relation.required_locator.types)
        session.stage_classes(partition, columns)
        places, expressions = 0, []
        for column in columns:
            expressions.append(session.released_expression(places, column))
            places += len(column.parts)
        rows = statements.released_rows(relation.from_clause, relation.required_locator.expressions)
        classes = quote(statements.CLASSES)
        named = [statements.value_column(i) for i in range(len(columns) + len(by))]
        source = f"{classes} AS c"
        distinct = ""
        if by:
            # All rows of a class have the same strata.
            source, distinct = f"{rows} JOIN {classes} AS c ON c.class = l.class", "DISTINCT "
            expressions += [session.kept_value(attribute) for attribute in by]
        session.run(
            f"INSERT INTO {self.values} (cell, {', '.join(named)})"
            f" SELECT {distinct}c.class + {first}, {', '.join(expressions)} FROM {source}"
        )
        if matched is None:
            self._insert_members(rows, first, large_batch)
        else:
            self._append_members(matched, microdata, partition, first)
        if large_batch:
            # Without statistics, planners take the filled tables for empty and use nested loops.
            for table in ("chain_member", "chain_cell"):
                session.analyze(session.ledger_name(table))
            session.analyze(self.chain.table(session, "value"))
        return first

    def _insert_members(self, rows: str, first: int, large_batch: bool) -> None:
        """Store the staged classes as cells, with their members."""
        session, chain = self.session, int(self.chain.chain_id)
        session.run(
            f"INSERT INTO {self.name('chain_cell')} (chain_id, cell, state, since_release)"
            f" SELECT {chain}, c.class + {first}, 'live', {int(self.sequence)}"
            f" FROM {quote(statements.CLASSES)} AS c"
        )
        with session.prepare_sorting() if large_batch else nullcontext():
            session.run(
                f"INSERT INTO {self.name('chain_member')} (chain_id, tag, cell)"
                f" SELECT {chain}, p.tag, l.class + {first} FROM {rows}"
                f" JOIN {self.arrivals} AS p ON p.person = s.{quote(self.chain.entity)}"
                # Insert in index order, which takes less than half the time.
                " ORDER BY p.tag"
            )

    def _append_members(
        self, matched: MatchedPersons, microdata: Microdata, partition: Partition, first: int
    ) -> None:
        """Store cells and members from arrays, in the order of their tags (the index order)."""
        session, chain = self.session, int(self.chain.chain_id)
        cells = np.arange(partition.n_classes) + first
        live, released = np.full(len(cells), b"live"), np.full(len(cells), self.sequence)
        session.append(
            session.ledger_name("chain_cell"),
            [
                ("chain_id", "integer", np.full(len(cells), chain)),
                ("cell", "integer", cells),
                ("state", "text", live),
                ("since_release", "integer", released),
            ],
        )
        numbers = session.class_numbers(partition)[partition.labels].astype(np.int64) + first
        session.append(
            session.ledger_name("chain_member"),
            [
                ("chain_id", "integer", np.full(len(numbers), chain)),
                ("tag", "bytea", matched.tags_of(microdata.keys)),
                ("cell", "integer", numbers),
            ],
        )

    @property
    def cell_counts(self) -> dict[str, int]:
        """The number of cells in each state after this release."""
        counts = dict(
            self.session.rows(
                f"SELECT state, count(*) FROM {self.name('chain_cell')}"
                f" WHERE {self.of_chain} GROUP BY state"
            )
        )
        return {state: int(counts.get(state, 0)) for state in STATES}

    def withdraw(self, tags: Sequence[bytes]) -> int:
        """Withdraw the cells of some persons from all later releases; the number of cells.

        Parameters
        ----------
        tags : of the persons; those not displayed are ignored.
        """
        session, member = self.session, self.name("chain_member")
        session.run(
            statements.create_staging(TRACES, [("tag", session.bytes_type)], session.staging_suffix)
        )
        session.insert_rows(RelationName(None, TRACES), ["tag"], [(tag,) for tag in tags])
        self.make(
            VERDICT,
            f"SELECT m.cell, 0 AS members, 0 AS present, 'withdrawn' AS state FROM {member} AS m"
            f" JOIN {quote(TRACES)} AS t ON t.tag = m.tag"
            f" WHERE m.{self.of_chain} AND m.left_at_release IS NULL GROUP BY m.cell",
        )
        self.make(PRESENT, f"SELECT tag FROM {quote(TRACES)}")
        [(cells,)] = session.rows(f"SELECT count(*) FROM {quote(VERDICT)}")
        if cells:
            self.apply()
            session.run(
                f"DELETE FROM {self.rows} WHERE cell IN (SELECT v.cell FROM {quote(VERDICT)} AS v)"
            )
        return int(cells)

    def in_random_order(self, part: int = 0) -> str:
        """FROM, WHERE and ORDER BY of the rows of a release, with the aliases r and v.

        Parameters
        ----------
        part : the number of the table, if persons have rows in several.
        """
        joined, shuffled = self.session.shuffled_by_cell(
            self.rows, self.chain.table(self.session, "value")
        )
        of = f" WHERE r.part = {int(part)}" if self.several else ""
        return f"FROM {joined}{of} ORDER BY {shuffled}"
