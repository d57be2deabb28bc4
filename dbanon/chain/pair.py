"""Joint histories of a chain and the closed chain that it follows.

Both share one key, but a person's tags differ between chains, so only persons in the source can be
matched.
"""

from __future__ import annotations

import shlex

from dbanon.chain import state as chain_state
from dbanon.chain.membership import CellState
from dbanon.chain.state import ChainRecord
from dbanon.errors import ChainSamePersons
from dbanon.job.chain import ChainRules
from dbanon.sessions.base import Relation
from dbanon.sessions.names import quote
from dbanon.sessions.pseudonym_session import BEFORE, PRESENT
from dbanon.sessions.session import Session


def require_no_other_chain(
    session: Session, name: str, relation: Relation, rules: ChainRules, key: bytes
) -> None:
    """Check that a new chain is the first over its persons, or follows those that were closed.

    Chains over the same relation have the same persons; ``outside`` describes the others.

    Raises
    ------
    ChainSamePersons : there is one that it does not follow, or its predecessor is still open.
    ChainNotFound, ChainKeyWrong : the named predecessor cannot be followed.
    """
    predecessors = _predecessors(session, rules)
    if predecessors:
        chain = chain_state.find(session, predecessors[0])
        chain_state.require_key(chain, key)
        if chain.closed_at is None:
            raise ChainSamePersons(
                f"Chain {chain.name} cannot be followed: it is still open.",
                detail=f'It follows "{chain.entity}" of {chain.source}.',
                hint=f"Close it first: dbanon chain close URL {shlex.quote(chain.name)}",
            )
    source, sources = str(relation.name), {str(relation.name), *rules.tables}
    existing = [
        chain.name
        for chain in chain_state.list_chains(session)
        if sources & {chain.source, *chain.rules.tables}
        and chain.name not in (name, *predecessors)
        and (chain.sequence or chain.closed_at is None)
    ]
    if existing:
        raise ChainSamePersons(
            f"A chain already exists over the persons of {source}: {', '.join(existing)}.",
            detail="Whoever sees the releases of both knows a person's class in each, and few"
            " share both.",
            hint="Go on with it. Or close it, and name it when a new chain is made, as the one"
            " that it follows: how many persons both expose is counted then.",
        )


def _predecessors(session: Session, rules: ChainRules) -> list[str]:
    """The chain that the rules name as predecessor, its predecessor, and so on."""
    names: list[str] = []
    while rules.new_chain_from is not None:
        names.append(rules.new_chain_from)
        rules = chain_state.find(session, names[-1]).rules
    return names


def pair_sizes(state: CellState, relation: Relation, key: bytes) -> dict[int, int]:
    """Count the joint histories over both chains by the number of persons who share them.

    Exact at the first release, when all persons of the chain are in the source.

    Parameters
    ----------
    relation : the source of the persons, who are staged.
    """
    session, predecessor = state.session, _predecessor(state)
    session.stage_other_key(*predecessor.blocks(key))
    entity = relation.attribute(state.chain.entity)
    tag, member = session.keyed_tag(session.text_of(entity)), state.name("chain_member")
    before, of_earlier = quote(BEFORE), f"chain_id = {int(predecessor.chain_id)}"
    with session.prepare_tagging():
        state.make(
            BEFORE,
            f"SELECT t.person, m.tag, m.cell, m.left_at_release AS left_at FROM {member} AS m JOIN"
            f" (SELECT s.{quote(entity.name)} AS person, {tag} AS tag FROM"
            f" (SELECT p.person AS {quote(entity.name)} FROM {quote(PRESENT)} AS p) AS s"
            f"{session.compute_once_clause}) AS t ON t.tag = m.tag"
            f" WHERE m.{of_earlier}",
        )
    # Persons of the later chain, and persons of the earlier chain only.
    size_counts = session.rows(
        "SELECT size, count(*) FROM (SELECT count(*) AS size FROM ("
        "SELECT b.cell AS c1, b.left_at AS l1, n.cell AS c2, n.left_at_release AS l2"
        f" FROM {member} AS n LEFT JOIN {quote(PRESENT)} AS p ON p.tag = n.tag"
        f" LEFT JOIN {before} AS b ON b.person = p.person WHERE n.{state.of_chain}"
        " UNION ALL SELECT m.cell, m.left_at_release, NULL, NULL"
        f" FROM {member} AS m WHERE m.{of_earlier} AND NOT EXISTS"
        f" (SELECT 1 FROM {before} AS b JOIN {quote(PRESENT)} AS p ON p.person = b.person"
        f" JOIN {member} AS n ON n.{state.of_chain} AND n.tag = p.tag WHERE b.tag = m.tag)"
        ") AS persons GROUP BY c1, l1, c2, l2) AS joint GROUP BY size"
    )
    return {int(size): int(many) for size, many in size_counts}


def _predecessor(state: CellState) -> ChainRecord:
    assert state.chain.rules.new_chain_from is not None
    return chain_state.find(state.session, state.chain.rules.new_chain_from)
