"""Decide which cells may display new rows after members left the source and returned.

While a person is absent from the source, the person's row cannot change. So a reader who knows that
a person was absent can tell that rows of the cell (the person's class) that changed in the meantime
are not the person's. Each member of a cell therefore has a count of excluded rows: the largest
number of rows that a reader can rule out in this way. After a return, a cell displays new rows only
if these counts leave k possible rows for each person and k possible persons for each row
(docs/chains.md has the proof). Otherwise the cell is frozen: it keeps its displayed rows, and its
state is ``held``. (The rule ``FREEZE`` for changes freezes all cells for good instead.) A cell is
*sealed* if a member has excluded rows, or has returned to a frozen cell: groups of members may not
leave it. Decisions depend only on which members are present, and on the rows (as multisets) of
cells whose members are all present.

The ledger stores, for each member, ``missed``, the last release at which the member was absent, and
``excluded_rows``. For each cell it stores ``since_release``, the release at which the cell's state
last changed. ``left_at_release`` is NULL for members who have not left their cell. Constants such
as ``ABSENT_MEMBERS`` name staging tables, which are temporary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dbanon.job.chain import FREEZE, HOLD
from dbanon.sessions import statements
from dbanon.sessions.chain_staging import (
    ABSENT_MEMBERS,
    CELLS_WITH_RETURNED,
    CHANGED_CELLS,
    NEXT_CELL_STATES,
    PRESENT_PERSONS,
)
from dbanon.sessions.names import quote

if TYPE_CHECKING:
    from dbanon.extensions.chains.membership import ChainState


def _was_absent_since_freezing(member: str, cell: str) -> str:
    """Build the SQL condition for members who were absent at any time since their cell was frozen.

    The state of a frozen cell, ``held``, last changed when the cell was frozen.

    Ledgers of earlier versions record only the first absence of a member. A member with such a
    record always satisfies the condition.

    Parameters
    ----------
    member, cell : aliases of ``chain_member`` and ``chain_cell``.
    """
    return (
        f"({member}.missed >= {cell}.since_release"
        f" OR {member}.missed IS NOT NULL AND {member}.excluded_rows IS NULL)"
    )


def _excluded_rows_sql(member: str, cell: str) -> str:
    """Build the SQL of the number of a cell's rows that are excluded for a member.

    Ledgers of earlier versions have a single count per cell, ``loose``, which then applies to all
    members.

    Parameters
    ----------
    member, cell : aliases of ``chain_member`` and ``chain_cell``.
    """
    # Earlier versions reset the count to 0 although rows were still excluded, so 0 counts as 1.
    earlier_count = (
        f"CASE WHEN {cell}.loose IS NULL THEN 0 WHEN {cell}.loose < 1 THEN 1 ELSE {cell}.loose END"
    )
    return f"coalesce({member}.excluded_rows, {earlier_count})"


def build_sealed_cells_query(state: ChainState) -> str:
    """Build a query of the sealed cells: a member has excluded rows, or returned to a frozen cell.

    A preview may read a ledger of an earlier version, which has no counts of excluded rows. Then
    the query returns no cells.
    """
    member_table = state.session.ledger.table("chain_member")
    if "excluded_rows" not in {
        name for name, _ in state.session.catalog.list_columns(member_table)
    }:
        return "SELECT 0 AS cell WHERE 1 = 0"
    return (
        f"SELECT DISTINCT m.cell FROM {member_table.quoted} AS m"
        f" JOIN {state.ledger_table('chain_cell')} AS c"
        f" ON c.{state.chain_condition} AND c.cell = m.cell"
        f" WHERE m.{state.chain_condition} AND m.left_at_release IS NULL"
        # This condition is implied by the next one, and lets the database skip most members.
        f" AND (m.excluded_rows > 0 OR m.missed IS NOT NULL OR c.loose IS NOT NULL)"
        f" AND ({_excluded_rows_sql('m', 'c')} > 0"
        f" OR c.state = 'held' AND {_was_absent_since_freezing('m', 'c')}"
        f" AND m.tag NOT IN (SELECT p.tag FROM {quote(ABSENT_MEMBERS)} AS p))"
    )


def freeze_returned_cells(state: ChainState, n_staged_columns: int) -> int:
    """Freeze the cells whose new rows would reveal rows of returned persons; return their number.

    Cells with changed rows must be staged already.

    Parameters
    ----------
    n_staged_columns : the number of columns staged with the persons; 1 if persons may have several
        rows, since the only column is then a digest.
    """
    session, k = state.session, int(state.k)
    names = [statements.retained_column_name(i) for i in range(n_staged_columns)]
    # Compare hashes of rows if the database can compute them: they cover the bytes readers see.
    row_hash = None
    if not state.has_several_rows_per_person:
        row_hash = session.chain_dialect.row_hash(state.chain.table_name(session, "row"), names)
    row_expressions = (
        {"row_hash": row_hash} if row_hash is not None else {n: f"s.{n}" for n in names}
    )
    select_list = ", ".join(
        ["s.cell", *(f"{sql} AS {name}" for name, sql in row_expressions.items())]
    )
    columns = ", ".join(["cell", *row_expressions])
    # This includes cells that are frozen only because of a model; HAVING drops them below.
    changed_frozen_cells = (
        f"SELECT v.cell, v.members FROM {quote(NEXT_CELL_STATES)} AS v"
        f" JOIN {quote(CHANGED_CELLS)} AS d ON d.cell = v.cell"
        f" JOIN {state.ledger_table('chain_cell')} AS c ON c.{state.chain_condition}"
        " AND c.cell = v.cell WHERE c.state = 'held'"
    )
    # Rows are compared as multisets: equal rows in the source and on display count as unchanged.
    source_and_displayed_rows = (
        f"SELECT {select_list}, 1 AS n_in_source, 0 AS n_displayed"
        f" FROM {quote(PRESENT_PERSONS)} AS s WHERE s.left_at IS NULL"
        f" UNION ALL SELECT {select_list}, 0, 1 FROM {state.displayed_table} AS s"
    )
    unchanged_counts = (
        "SELECT e.cell, sum(CASE WHEN e.n_in_source < e.n_displayed"
        " THEN e.n_in_source ELSE e.n_displayed END) AS n"
        f" FROM (SELECT {columns}, sum(n_in_source) AS n_in_source, sum(n_displayed) AS n_displayed"
        f" FROM ({source_and_displayed_rows}) AS r"
        f" WHERE r.cell IN (SELECT o.cell FROM ({changed_frozen_cells}) AS o)"
        f" GROUP BY {columns}) AS e GROUP BY e.cell"
    )
    changed_counts = (
        "SELECT o.cell, o.members, o.members - coalesce(u.n, 0) AS changed"
        f" FROM ({changed_frozen_cells}) AS o"
        f" LEFT JOIN ({unchanged_counts}) AS u ON u.cell = o.cell"
    )
    was_absent = _was_absent_since_freezing("m", "c")
    excluded_by_member = (
        f"SELECT o.cell, o.members, o.changed, CASE WHEN {was_absent} THEN 1 ELSE 0 END"
        " AS was_absent,"
        f" {_excluded_rows_sql('m', 'c')} + CASE WHEN {was_absent} THEN o.changed ELSE 0 END"
        f" AS excluded FROM ({changed_counts}) AS o"
        f" JOIN {state.ledger_table('chain_cell')} AS c ON c.{state.chain_condition}"
        " AND c.cell = o.cell"
        f" JOIN {state.ledger_table('chain_member')} AS m ON m.{state.chain_condition}"
        " AND m.cell = o.cell AND m.left_at_release IS NULL"
    )
    state.stage(
        CELLS_WITH_RETURNED,
        "SELECT p.cell, p.members, p.changed, max(p.excluded) AS most_excluded,"
        " sum(CASE WHEN p.excluded = 0 THEN 1 ELSE 0 END) AS n_without_excluded"
        f" FROM ({excluded_by_member}) AS p"
        " GROUP BY p.cell, p.members, p.changed HAVING max(p.was_absent) = 1",
    )
    # In docs/chains.md: new rows are shown only if n - m >= k, f >= k and f > m. The columns are n:
    # members, m: most_excluded, and f: n_without_excluded.
    frozen_condition = (
        f"r.most_excluded > 0 AND (r.members - r.most_excluded < {k}"
        f" OR r.n_without_excluded < {k} OR r.n_without_excluded <= r.most_excluded)"
    )
    if state.chain.rules.changes == HOLD:
        drifted_cells = f"SELECT d.cell FROM {quote(CHANGED_CELLS)} AS d WHERE d.n_changed < {k}"
        frozen_condition += f" OR r.cell IN ({drifted_cells})"
    frozen_cells = f"SELECT r.cell FROM {quote(CELLS_WITH_RETURNED)} AS r WHERE {frozen_condition}"
    [(n_frozen,)] = session.rows(f"SELECT count(*) FROM ({frozen_cells}) AS frozen")
    if n_frozen:
        session.run(
            f"UPDATE {quote(NEXT_CELL_STATES)} SET state = 'held' WHERE cell IN ({frozen_cells})"
        )
    return int(n_frozen)


def record_absences(state: ChainState) -> None:
    """Record which members are absent, and how many rows are excluded for returned members.

    A row is excluded for a member if it changed during the member's absence, so none is if no
    displayed row changed. Call this before ``ChainState.write_decided_states``.
    """
    if state.chain.rules.changes == FREEZE:
        return
    session = state.session
    cell_table, member_table = state.ledger_table("chain_cell"), state.ledger_table("chain_member")
    updated_cells = (
        f"SELECT r.cell, r.changed FROM {quote(CELLS_WITH_RETURNED)} AS r"
        f" JOIN {quote(NEXT_CELL_STATES)} AS v"
        " ON v.cell = r.cell WHERE v.state = 'live' AND r.changed > 0"
    )
    displayed_condition = f"m.{state.chain_condition} AND m.left_at_release IS NULL"
    if session.rows(f"SELECT 1 FROM ({updated_cells}) AS r LIMIT 1"):
        session.run(
            f"UPDATE {member_table}"
            f" AS m SET excluded_rows = {_excluded_rows_sql('m', 'c')} + r.changed"
            f" FROM {cell_table} AS c, ({updated_cells}) AS r WHERE {displayed_condition}"
            f" AND c.{state.chain_condition} AND c.cell = m.cell AND r.cell = m.cell"
            f" AND {_was_absent_since_freezing('m', 'c')}"
        )
    if not session.rows(f"SELECT 1 FROM {quote(ABSENT_MEMBERS)} AS p LIMIT 1"):
        return
    with session.chain_dialect.tune_for_lookup():
        session.run(
            f"UPDATE {member_table} AS m SET missed = {int(state.release_number)},"
            f" excluded_rows = {_excluded_rows_sql('m', 'c')}"
            f" FROM {cell_table} AS c WHERE {displayed_condition} AND c.{state.chain_condition}"
            f" AND c.cell = m.cell AND m.tag IN (SELECT p.tag FROM {quote(ABSENT_MEMBERS)} AS p)"
        )
    # Without statistics, planners expect no absences and would scan all cells for each one.
    session.analyze(session.ledger.table("chain_member"))
