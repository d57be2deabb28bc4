"""Persons who were out of the source and are back: their rows cannot have changed meanwhile.

Whoever knows that looks for them among the rows of their cell that stand as before; and those who
were never out have all the others. So a cell shows new rows after a return only where k of its rows
stood, through all such times running, and k of its persons were never out; else it is held. A cell
that showed new rows in this way is whole until all have left: of a part of it fewer rows may have
stood. What decides of cells whose persons are all in are their rows as a multiset; what decides
where some are out is who was in the source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dbanon.job.chain import FREEZE, HOLD
from dbanon.sessions import statements
from dbanon.sessions.names import quote
from dbanon.sessions.pseudonym_session import DIFFERING, MISSING, PRESENT, RETURNED, VERDICT

if TYPE_CHECKING:
    from dbanon.chain.membership import CellState


def whole_cells(state: CellState) -> str:
    """SQL of the cells that k persons may not leave: some are back, or were when it was shown.

    A plan reads the ledger as an earlier version left it, which knew of none.
    """
    known = {name for name, _ in state.session.columns_of(state.session.ledger_name("chain_cell"))}
    if "loose" not in known:
        return "SELECT 0 AS cell WHERE 1 = 0"
    return (
        f"SELECT c.cell FROM {state.name('chain_cell')} AS c"
        f" WHERE c.{state.of_chain} AND c.loose IS NOT NULL"
        f" UNION SELECT m.cell FROM {state.name('chain_member')} AS m"
        f" WHERE m.{state.of_chain} AND m.left_at_release IS NULL AND m.missed IS NOT NULL"
        f" AND NOT EXISTS (SELECT 1 FROM {quote(MISSING)} AS p WHERE p.tag = m.tag)"
    )


def hold_returned(state: CellState, kept: int, models: bool) -> int:
    """Hold the cells whose new rows would tell of those who are back; how many cells.

    Asked once it is staged which cells have other rows than were shown.

    Parameters
    ----------
    kept : how many columns they have; 1, a digest, where it is of all rows of a person.
    models : whether a cell may have been held for its values, too.
    """
    session, k = state.session, int(state.k)
    names = [statements.kept_column(i) for i in range(kept)]
    # Where there is a hash, rows that differ in a byte are other rows, as for their readers.
    hashed = None
    if not state.several:
        hashed = session.row_hash(state.chain.table(session, "row"), names)
    told = {"told": hashed} if hashed is not None else {n: f"s.{n}" for n in names}
    row = ", ".join(["s.cell", *(f"{sql} AS {name}" for name, sql in told.items())])
    columns = ", ".join(["cell", *told])
    back = (
        f"SELECT m.cell, count(m.missed) AS back FROM {state.name('chain_member')} AS m"
        f" WHERE m.{state.of_chain} AND m.left_at_release IS NULL AND m.missed IS NOT NULL"
        " GROUP BY m.cell"
    )
    of_those = (
        "SELECT v.cell, v.members, d.differ, coalesce(c.loose, 0) AS loose,"
        f" v.members - coalesce(b.back, 0) AS never FROM {quote(VERDICT)} AS v"
        f" JOIN {quote(DIFFERING)} AS d ON d.cell = v.cell"
        f" JOIN {state.name('chain_cell')} AS c ON c.{state.of_chain} AND c.cell = v.cell"
        f" LEFT JOIN ({back}) AS b ON b.cell = v.cell"
        f" WHERE c.state = 'held'{' AND b.back > 0' if models else ''}"
    )
    rows = (
        f"SELECT {row}, 1 AS now, 0 AS earlier FROM {quote(PRESENT)} AS s WHERE s.left_at IS NULL"
        f" UNION ALL SELECT {row}, 0, 1 FROM {state.displayed} AS s"
    )
    stood = (
        "SELECT e.cell, sum(CASE WHEN e.now < e.earlier THEN e.now ELSE e.earlier END) AS stood"
        f" FROM (SELECT {columns}, sum(now) AS now, sum(earlier) AS earlier FROM ({rows}) AS r"
        f" WHERE r.cell IN (SELECT o.cell FROM ({of_those}) AS o) GROUP BY {columns}) AS e"
        " GROUP BY e.cell"
    )
    state.make(
        RETURNED,
        "SELECT o.cell, o.members, o.differ, o.never, t.stood - o.loose AS stood"
        f" FROM ({of_those}) AS o JOIN ({stood}) AS t ON t.cell = o.cell",
    )
    few = f"r.stood < {k} OR r.never < {k}"
    if state.chain.rules.changes == HOLD:
        few += f" OR r.differ < {k}"
    few = f"SELECT r.cell FROM {quote(RETURNED)} AS r WHERE {few}"
    [(held,)] = session.rows(f"SELECT count(*) FROM ({few}) AS few")
    if held:
        session.run(f"UPDATE {quote(VERDICT)} SET state = 'held' WHERE cell IN ({few})")
    return int(held)


def settle(state: CellState) -> None:
    """Keep who is out, and how many rows of a cell may have changed meanwhile; before ``apply``.

    Forgotten once a cell is shown as it is, with everybody in, at two releases running.
    """
    if state.chain.rules.changes == FREEZE:
        return
    session, cell, member = state.session, state.name("chain_cell"), state.name("chain_member")
    verdict = quote(VERDICT)
    session.run(
        f"UPDATE {cell} AS c SET loose = r.members - r.stood FROM {quote(RETURNED)} AS r"
        f" WHERE c.{state.of_chain} AND c.cell = r.cell"
        f" AND r.cell IN (SELECT v.cell FROM {verdict} AS v WHERE v.state = 'live')"
    )
    with session.seeking():
        session.run(
            f"UPDATE {member} AS m SET missed = {int(state.sequence)} WHERE m.{state.of_chain}"
            " AND m.left_at_release IS NULL AND m.missed IS NULL"
            f" AND m.tag IN (SELECT p.tag FROM {quote(MISSING)} AS p)"
        )
    if session.rows(f"SELECT 1 FROM {quote(MISSING)} AS p LIMIT 1"):
        # Planners take nobody to be out, and would go through all cells for each who is.
        session.analyze(session.ledger_name("chain_member"))
    unshown = ""
    if state.chain.rules.changes == HOLD:
        unshown = (
            f" AND NOT EXISTS (SELECT 1 FROM {quote(DIFFERING)} AS d"
            f" WHERE d.cell = v.cell AND d.differ < {int(state.k)})"
        )
    clean = (
        f"SELECT v.cell FROM {verdict} AS v JOIN {cell} AS b ON b.{state.of_chain}"
        " AND b.cell = v.cell WHERE v.state = 'live'"
        f" AND (b.state = 'live' OR v.present < v.members){unshown}"
    )
    session.run(
        f"UPDATE {member} AS m SET missed = NULL WHERE m.{state.of_chain}"
        f" AND m.missed IS NOT NULL AND m.cell IN ({clean})"
    )
    session.run(
        f"UPDATE {cell} AS c SET loose = 0 WHERE c.{state.of_chain} AND c.loose > 0"
        f" AND c.cell IN ({clean})"
    )
