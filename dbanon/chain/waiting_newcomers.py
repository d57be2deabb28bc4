"""Waiting newcomers of a chain: the release since which each waits, by tag."""

from __future__ import annotations

from dbanon.chain.membership import CellState
from dbanon.sessions.names import quote
from dbanon.sessions.pseudonym_session import WAITING


def keep_waiting(state: CellState, waiting: int, last_cell: int) -> int:
    """Record since when newcomers wait; return the longest wait in releases.

    Nothing is recorded about newcomers who were admitted or excluded, or have left the source.

    Parameters
    ----------
    waiting : the number of waiting newcomers.
    last_cell : the last cell before this release; members of later cells do not wait.
    """
    session, table, sequence = state.session, state.name("chain_waiting"), int(state.sequence)
    if not state.chain.rules.max_wait:
        return 0
    if waiting:
        state.make(
            WAITING,
            f"SELECT p.tag, coalesce(w.since_release, {sequence}) AS since_release"
            f" FROM {state.arrivals} AS p LEFT JOIN {state.name('chain_member')} AS m"
            f" ON m.{state.of_chain} AND m.cell > {int(last_cell)} AND m.tag = p.tag"
            f" LEFT JOIN {table} AS w"
            f" ON w.{state.of_chain} AND w.tag = p.tag WHERE m.tag IS NULL",
        )
    session.run(f"DELETE FROM {table} WHERE {state.of_chain}")
    if not waiting:
        return 0
    session.run(
        f"INSERT INTO {table} (chain_id, tag, since_release)"
        f" SELECT {int(state.chain.chain_id)}, tag, since_release FROM {quote(WAITING)}"
    )
    return longest_wait(state)


def longest_wait(state: CellState) -> int:
    """The number of releases that the longest-waiting newcomer has waited."""
    # A plan does not migrate ledgers of earlier versions, which have no waiting newcomers.
    if state.session.find_existing(state.session.ledger_name("chain_waiting")) is None:
        return 0
    [(since,)] = state.session.rows(
        f"SELECT min(since_release) FROM {state.name('chain_waiting')} WHERE {state.of_chain}"
    )
    return 0 if since is None else state.sequence - int(since)
