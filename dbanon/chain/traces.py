"""Histories of a chain that only measures: the combinations that each person had, in their order.

A history is a number, and the next one follows from it and from the combination of released values
that the person has now, or that there is none: a value like any other, so that coming and going is
seen, too.
"""

from __future__ import annotations

from dbanon.chain.membership import CellState
from dbanon.data.microdata import Microdata
from dbanon.release.recode import Release, combinations
from dbanon.sessions import statements
from dbanon.sessions.base import Relation
from dbanon.sessions.names import quote
from dbanon.sessions.pseudonym_session import PRESENT, TRACES


def refine(state: CellState, relation: Relation, microdata: Microdata, release: Release) -> None:
    """Refine everybody's history by the combination that they have in this release."""
    session, member, partition = state.session, state.name("chain_member"), release.partition
    session.stage_labels(microdata, partition, relation.located.types)
    combined = combinations(microdata, release)
    numbers = session.class_numbers(partition)
    session.load_rows([], [(numbers, combined, [()] * len(numbers))])
    rows = statements.released_rows(relation.from_clause, relation.located.expressions)
    now = (
        f"SELECT p.tag, p.cell, c.position AS combination FROM {rows}"
        f" JOIN {quote(statements.ROWS)} AS c ON c.class = l.class"
        f" JOIN {quote(PRESENT)} AS p ON p.person = s.{quote(state.chain.entity)}"
    )
    state.make(
        TRACES,
        "SELECT tag, known, dense_rank() OVER (ORDER BY cell, combination) AS cell FROM"
        " (SELECT m.tag, 1 AS known, m.cell, coalesce(n.combination, -1) AS combination"
        f" FROM {member} AS m LEFT JOIN ({now}) AS n ON n.tag = m.tag WHERE m.{state.of_chain}"
        f" UNION ALL SELECT n.tag, 0, 0, n.combination FROM ({now}) AS n WHERE n.cell IS NULL"
        ") AS histories",
    )
    session.run(
        f"UPDATE {member} AS m SET cell = t.cell FROM {quote(TRACES)} AS t"
        f" WHERE m.{state.of_chain} AND m.tag = t.tag AND t.known = 1"
    )
    session.run(
        f"INSERT INTO {member} (chain_id, tag, cell) SELECT {int(state.chain.chain_id)}, t.tag,"
        f" t.cell FROM {quote(TRACES)} AS t WHERE t.known = 0"
    )
