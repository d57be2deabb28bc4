"""Count joint histories over a chain and its predecessor, the closed chain that it follows.

A *joint history* is the sequence of a person's classes and absences in all releases of both chains.
A person's *tag* is the keyed hash of the identifier, under which a chain stores the person. Both
chains have the same key, but the tags of a person differ, because a chain's identity is hashed,
too. Only the identifier shows which two tags belong to the same person, so only persons in the
source can be matched.
"""

from __future__ import annotations

import shlex

from dbanon.errors import ChainSamePersons
from dbanon.extensions.chains import state as chain_state
from dbanon.extensions.chains.membership import ChainState
from dbanon.extensions.chains.state import ChainRecord
from dbanon.job.chain import ChainRules
from dbanon.sessions.base import Relation
from dbanon.sessions.chain_staging import PREDECESSOR_MEMBERS, PRESENT_PERSONS
from dbanon.sessions.names import quote
from dbanon.sessions.session import Session


def require_no_other_chain(
    session: Session, name: str, relation: Relation, rules: ChainRules, key: bytes
) -> None:
    """Check that no other chain reads the tables of a new chain, except those that it follows.

    Chains over the same table have the same persons. Chains over other tables may have some of
    them. These are not checked here; the module ``other_publications`` describes them.

    Raises
    ------
    ChainSamePersons : a chain that the new one does not follow reads one of its tables, or the
        chain that it follows is still open.
    ChainNotFound, ChainKeyWrong : the chain to follow does not exist, or has another key.
    """
    predecessors = _list_predecessors(session, rules)
    if predecessors:
        chain = chain_state.find_chain(session, predecessors[0])
        chain_state.require_key(chain, key)
        if chain.closed_at is None:
            raise ChainSamePersons(
                f"Chain {chain.name} cannot be followed: it is still open.",
                detail=f'Its persons are identified by "{chain.entity}" of {chain.source}.',
                hint=f"Close it first: dbanon chain close URL {shlex.quote(chain.name)}",
            )
    source, tables = str(relation.name), {str(relation.name), *rules.tables}
    other_chains = [
        chain.name
        for chain in chain_state.list_chains(session)
        if tables & {chain.source, *chain.rules.tables}
        and chain.name not in (name, *predecessors)
        # A chain that was closed before its first release has published nothing.
        and (chain.n_releases or chain.closed_at is None)
    ]
    if other_chains:
        raise ChainSamePersons(
            f"A chain already exists over the persons of {source}: {', '.join(other_chains)}.",
            detail="Anyone who sees the releases of both chains knows a person's class in each, and"
            " few persons share both classes.",
            hint="Use that chain. Or close it, and name it as the chain that the new one follows"
            " (new_chain_from): then dbanon counts the persons whom both chains expose together.",
        )


def _list_predecessors(session: Session, rules: ChainRules) -> list[str]:
    """List the names of the chain that these rules follow, of the chain it follows, and so on."""
    names: list[str] = []
    while rules.new_chain_from is not None:
        names.append(rules.new_chain_from)
        rules = chain_state.find_chain(session, names[-1]).rules
    return names


def count_joint_histories(state: ChainState, relation: Relation, key: bytes) -> dict[int, int]:
    """Return how many joint histories over both chains exactly n persons share, by n.

    The counts are exact at the first release, when all persons of the chain are in the source.

    Parameters
    ----------
    relation : the source of the chain, whose persons are staged.
    key : the key of both chains.
    """
    session, predecessor = state.session, _find_predecessor(state)
    # From here on, ``tags.of_text`` computes tags as the predecessor stores them.
    session.tags.replace_key(*predecessor.hash_prefixes(key))
    entity = relation.attribute(state.chain.entity)
    tag, member = (
        session.tags.of_text(session.dialect.text_of(entity)),
        state.ledger_table("chain_member"),
    )
    predecessor_members = quote(PREDECESSOR_MEMBERS)
    in_predecessor = f"chain_id = {int(predecessor.chain_id)}"
    # The SQL of ``tag`` reads the entity column by its name, over the alias s. The staged column is
    # named ``person``, so a subquery gives it the name of the entity column.
    compute_once = session.chain_dialect.compute_once_clause
    with session.chain_dialect.tune_for_tagging():
        state.stage(
            PREDECESSOR_MEMBERS,
            f"SELECT t.person, m.tag, m.cell, m.left_at_release AS left_at FROM {member} AS m JOIN"
            f" (SELECT s.{quote(entity.name)} AS person, {tag} AS tag FROM"
            f" (SELECT p.person AS {quote(entity.name)} FROM {quote(PRESENT_PERSONS)} AS p) AS s"
            f"{compute_once}) AS t ON t.tag = m.tag WHERE m.{in_predecessor}",
        )
    # A joint history is a cell and the release of departure in each chain. Group the members of
    # this chain by joint history, and those members of the predecessor who are not in this chain.
    # Aliases: n members of this chain, b members of the predecessor, p persons in the source.
    size_counts = session.rows(
        "SELECT size, count(*) FROM (SELECT count(*) AS size FROM ("
        "SELECT b.cell AS c1, b.left_at AS l1, n.cell AS c2, n.left_at_release AS l2"
        f" FROM {member} AS n LEFT JOIN {quote(PRESENT_PERSONS)} AS p ON p.tag = n.tag"
        f" LEFT JOIN {predecessor_members} AS b ON b.person = p.person"
        f" WHERE n.{state.chain_condition}"
        " UNION ALL SELECT m.cell, m.left_at_release, NULL, NULL"
        f" FROM {member} AS m WHERE m.{in_predecessor} AND NOT EXISTS"
        f" (SELECT 1 FROM {predecessor_members} AS b JOIN {quote(PRESENT_PERSONS)} AS p"
        " ON p.person = b.person"
        f" JOIN {member} AS n ON n.{state.chain_condition} AND n.tag = p.tag WHERE b.tag = m.tag)"
        ") AS persons GROUP BY c1, l1, c2, l2) AS joint GROUP BY size"
    )
    return {int(n_persons): int(n_histories) for n_persons, n_histories in size_counts}


def _find_predecessor(state: ChainState) -> ChainRecord:
    """Find the closed chain that this chain follows."""
    assert state.chain.rules.new_chain_from is not None
    return chain_state.find_chain(state.session, state.chain.rules.new_chain_from)
