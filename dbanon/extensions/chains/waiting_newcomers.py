"""Record the release since which each newcomer of a chain has been waiting.

Newcomers are persons in the source who are not members of a cell yet. They wait until they are
admitted or excluded. Each is recorded under a *tag*, the pseudonym of the person (see ``key``).
"""

from __future__ import annotations

from dbanon.extensions.chains.membership import ChainState
from dbanon.sessions.chain_staging import WAITING_NEWCOMERS
from dbanon.sessions.names import quote


def record_waiting(state: ChainState, n_waiting: int, last_cell: int) -> int:
    """Update the records of waiting newcomers; return the longest wait, as a number of releases.

    Records of newcomers who were admitted or excluded, or have left the source, are deleted.

    Parameters
    ----------
    n_waiting : the number of waiting newcomers.
    last_cell : the number of the last cell before this release; members of later cells do not wait.
    """
    session, release_number = state.session, int(state.release_number)
    table = state.ledger_table("chain_waiting")
    # With max_wait = 0, newcomers do not wait for good classes, so waiting times are not used.
    if not state.chain.rules.max_wait:
        return 0
    if n_waiting:
        # ``m`` has the members of cells that this release has added. Newcomers who are not among
        # them wait.
        state.stage(
            WAITING_NEWCOMERS,
            f"SELECT p.tag, coalesce(w.since_release, {release_number}) AS since_release"
            f" FROM {state.newcomers_table} AS p LEFT JOIN {state.ledger_table('chain_member')}"
            f" AS m ON m.{state.chain_condition} AND m.cell > {int(last_cell)} AND m.tag = p.tag"
            f" LEFT JOIN {table} AS w"
            f" ON w.{state.chain_condition} AND w.tag = p.tag WHERE m.tag IS NULL",
        )
    session.run(f"DELETE FROM {table} WHERE {state.chain_condition}")
    if not n_waiting:
        return 0
    session.run(
        f"INSERT INTO {table} (chain_id, tag, since_release)"
        f" SELECT {int(state.chain.chain_id)}, tag, since_release FROM {quote(WAITING_NEWCOMERS)}"
    )
    return find_longest_wait(state)


def find_longest_wait(state: ChainState) -> int:
    """Return for how many releases the longest-waiting newcomer has waited."""
    # A preview may read a ledger of an earlier version, which has no such table.
    if not state.session.ledger.has_table("chain_waiting"):
        return 0
    [(earliest_release,)] = state.session.rows(
        f"SELECT min(since_release) FROM {state.ledger_table('chain_waiting')}"
        f" WHERE {state.chain_condition}"
    )
    return 0 if earliest_release is None else state.release_number - int(earliest_release)
