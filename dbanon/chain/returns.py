"""Persons who left the source and returned: their rows cannot have changed while they were absent.

A reader who knows of an absence can exclude the rows that changed during it. So each member of a
cell has a count of excluded rows: an upper bound of the rows that changed while hers could not. A
cell shows new rows after a return only if these counts leave k rows to each person and k persons to
each row (docs/chains.md has the proof); otherwise it is frozen. Groups may leave a cell only while
no member has excluded rows and none has returned. Decisions depend only on presence, and on the
rows, as multisets, of cells whose members are all present.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dbanon.job.chain import FREEZE, HOLD
from dbanon.sessions import statements
from dbanon.sessions.names import quote
from dbanon.sessions.pseudonym_session import DIFFERING, MISSING, PRESENT, RETURNED, VERDICT

if TYPE_CHECKING:
    from dbanon.chain.membership import CellState


def _absent_since_update(member: str, cell: str) -> str:
    """SQL condition for members who were absent since their frozen cell was last up to date.

    Earlier builds recorded only the first absence, so their records always count.
    """
    return (
        f"({member}.missed >= {cell}.since_release"
        f" OR {member}.missed IS NOT NULL AND {member}.excluded_rows IS NULL)"
    )


def _excluded_rows(member: str, cell: str) -> str:
    """SQL of the maximum number of a cell's rows that are excluded for a member.

    Earlier builds stored only one count per cell, which then counts for every member.
    """
    legacy = f"CASE WHEN {cell}.loose IS NULL THEN 0 WHEN {cell}.loose < 1 THEN 1"
    return f"coalesce({member}.excluded_rows, {legacy} ELSE {cell}.loose END)"


def sealed_cells(state: CellState) -> str:
    """SQL of the cells that groups may not leave: a member has returned, or rows are excluded.

    A plan may read a ledger of an earlier build, which lacks the counts.
    """
    member = state.session.ledger_name("chain_member")
    if "excluded_rows" not in {name for name, _ in state.session.columns_of(member)}:
        return "SELECT 0 AS cell WHERE 1 = 0"
    return (
        f"SELECT DISTINCT m.cell FROM {member.quoted} AS m JOIN {state.name('chain_cell')} AS c"
        f" ON c.{state.of_chain} AND c.cell = m.cell"
        f" WHERE m.{state.of_chain} AND m.left_at_release IS NULL"
        f" AND (m.excluded_rows > 0 OR m.missed IS NOT NULL OR c.loose IS NOT NULL)"
        f" AND ({_excluded_rows('m', 'c')} > 0"
        f" OR c.state = 'held' AND {_absent_since_update('m', 'c')}"
        f" AND m.tag NOT IN (SELECT p.tag FROM {quote(MISSING)} AS p))"
    )


def hold_returned(state: CellState, n_staged: int) -> int:
    """Freeze the cells whose new rows would reveal rows of returned persons; count these cells.

    Requires that cells with changed rows are staged.

    Parameters
    ----------
    n_staged : the number of staged columns; 1 (a digest) if persons have several rows.
    """
    session, k = state.session, int(state.k)
    names = [statements.kept_column(i) for i in range(n_staged)]
    # With a hash, rows are compared byte by byte, as readers see them.
    hashed = None
    if not state.several:
        hashed = session.row_hash(state.chain.table(session, "row"), names)
    row_expressions = {"told": hashed} if hashed is not None else {n: f"s.{n}" for n in names}
    row = ", ".join(["s.cell", *(f"{sql} AS {name}" for name, sql in row_expressions.items())])
    columns = ", ".join(["cell", *row_expressions])
    # Frozen cells without absences were frozen by a model; HAVING drops them below.
    frozen = (
        f"SELECT v.cell, v.members FROM {quote(VERDICT)} AS v"
        f" JOIN {quote(DIFFERING)} AS d ON d.cell = v.cell"
        f" JOIN {state.name('chain_cell')} AS c ON c.{state.of_chain} AND c.cell = v.cell"
        " WHERE c.state = 'held'"
    )
    rows = (
        f"SELECT {row}, 1 AS now, 0 AS earlier FROM {quote(PRESENT)} AS s WHERE s.left_at IS NULL"
        f" UNION ALL SELECT {row}, 0, 1 FROM {state.displayed} AS s"
    )
    unchanged = (
        "SELECT e.cell, sum(CASE WHEN e.now < e.earlier THEN e.now ELSE e.earlier END) AS n"
        f" FROM (SELECT {columns}, sum(now) AS now, sum(earlier) AS earlier FROM ({rows}) AS r"
        f" WHERE r.cell IN (SELECT o.cell FROM ({frozen}) AS o) GROUP BY {columns}) AS e"
        " GROUP BY e.cell"
    )
    changed = (
        f"SELECT o.cell, o.members, o.members - coalesce(u.n, 0) AS changed FROM ({frozen}) AS o"
        f" LEFT JOIN ({unchanged}) AS u ON u.cell = o.cell"
    )
    out = _absent_since_update("m", "c")
    counted = (
        f"SELECT o.cell, o.members, o.changed, CASE WHEN {out} THEN 1 ELSE 0 END AS was_out,"
        f" {_excluded_rows('m', 'c')} + CASE WHEN {out} THEN o.changed ELSE 0 END AS excluded"
        f" FROM ({changed}) AS o"
        f" JOIN {state.name('chain_cell')} AS c ON c.{state.of_chain} AND c.cell = o.cell"
        f" JOIN {state.name('chain_member')} AS m ON m.{state.of_chain} AND m.cell = o.cell"
        " AND m.left_at_release IS NULL"
    )
    state.make(
        RETURNED,
        "SELECT p.cell, p.members, p.changed, max(p.excluded) AS most,"
        f" sum(CASE WHEN p.excluded = 0 THEN 1 ELSE 0 END) AS free FROM ({counted}) AS p"
        " GROUP BY p.cell, p.members, p.changed HAVING max(p.was_out) = 1",
    )
    few = f"r.most > 0 AND (r.members - r.most < {k} OR r.free < {k} OR r.free <= r.most)"
    if state.chain.rules.changes == HOLD:
        differing = f"SELECT d.cell FROM {quote(DIFFERING)} AS d WHERE d.differ < {k}"
        few += f" OR r.cell IN ({differing})"
    few = f"SELECT r.cell FROM {quote(RETURNED)} AS r WHERE {few}"
    [(n_held,)] = session.rows(f"SELECT count(*) FROM ({few}) AS few")
    if n_held:
        session.run(f"UPDATE {quote(VERDICT)} SET state = 'held' WHERE cell IN ({few})")
    return int(n_held)


def record_absences(state: CellState) -> None:
    """Record absences, and the rows that returns exclude; must run before ``apply``.

    An absence during which no displayed row changed excludes nothing.
    """
    if state.chain.rules.changes == FREEZE:
        return
    session, cell, member = state.session, state.name("chain_cell"), state.name("chain_member")
    live = (
        f"SELECT r.cell, r.changed FROM {quote(RETURNED)} AS r JOIN {quote(VERDICT)} AS v"
        " ON v.cell = r.cell WHERE v.state = 'live' AND r.changed > 0"
    )
    of_cell = f"m.{state.of_chain} AND m.left_at_release IS NULL"
    if session.rows(f"SELECT 1 FROM ({live}) AS r LIMIT 1"):
        session.run(
            f"UPDATE {member} AS m SET excluded_rows = {_excluded_rows('m', 'c')} + r.changed"
            f" FROM {cell} AS c, ({live}) AS r WHERE {of_cell}"
            f" AND c.{state.of_chain} AND c.cell = m.cell AND r.cell = m.cell"
            f" AND {_absent_since_update('m', 'c')}"
        )
    if not session.rows(f"SELECT 1 FROM {quote(MISSING)} AS p LIMIT 1"):
        return
    with session.prepare_lookup():
        session.run(
            f"UPDATE {member} AS m SET missed = {int(state.sequence)},"
            f" excluded_rows = {_excluded_rows('m', 'c')}"
            f" FROM {cell} AS c WHERE {of_cell} AND c.{state.of_chain} AND c.cell = m.cell"
            f" AND m.tag IN (SELECT p.tag FROM {quote(MISSING)} AS p)"
        )
    # Without statistics, planners expect no absences and would scan all cells for each one.
    session.analyze(session.ledger_name("chain_member"))
