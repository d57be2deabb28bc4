"""Two chains over the same persons: what their histories tell together.

The earlier one was closed, and both have one key: a person's tags differ by the chains' identities,
and only who is in the source can be found in both.
"""

from __future__ import annotations

from dbanon.chain import state as chain_state
from dbanon.chain.membership import CellState
from dbanon.chain.state import ChainKept
from dbanon.errors import ChainSamePersons
from dbanon.job.chain import Rules
from dbanon.sessions.base import Relation
from dbanon.sessions.names import quote
from dbanon.sessions.pseudonym_session import BEFORE, PRESENT
from dbanon.sessions.session import Session


def require_alone(
    session: Session, name: str, relation: Relation, rules: Rules, key: bytes
) -> None:
    """Check that a new chain is the first over its persons, or follows the ones that were closed.

    Chains over the same relation are over the same persons; of others ``outside`` tells.

    Raises
    ------
    ChainSamePersons : there is one that it does not follow, or what it follows is still open.
    ChainNotFound, ChainKeyWrong : the one that is named cannot be followed.
    """
    followed = _followed(session, rules)
    if followed:
        chain = chain_state.find(session, followed[0])
        chain_state.require_key(chain, key)
        if chain.closed_at is None:
            raise ChainSamePersons(
                f"Chain {chain.name} cannot be followed: it is still open.",
                detail=f'It follows "{chain.entity}" of {chain.source}.',
                hint="dbanon chain close ends it.",
            )
    source, sources = str(relation.name), {str(relation.name), *rules.tables}
    known = [
        chain.name
        for chain in chain_state.list_chains(session)
        if sources & {chain.source, *chain.rules.tables}
        and chain.name not in (name, *followed)
        and (chain.sequence or chain.closed_at is None)
    ]
    if known:
        raise ChainSamePersons(
            f"There is a chain over the persons of {source} already: {', '.join(known)}.",
            detail="Whoever sees the releases of both knows a person's class in each, and few"
            " share both.",
            hint="Go on with it. Or close it, and name it when a new chain is made, as the one"
            " that it follows: how many persons both expose is counted then.",
        )


def _followed(session: Session, rules: Rules) -> list[str]:
    """The chain that rules name, the one that it followed, and so on."""
    found: list[str] = []
    while rules.new_chain_from is not None:
        found.append(rules.new_chain_from)
        rules = chain_state.find(session, found[-1]).rules
    return found


def pair_sizes(state: CellState, relation: Relation, key: bytes) -> dict[int, int]:
    """How many joint histories of both chains are shared by each number of persons.

    Exact with the first release, when everybody in the chain is in the source.

    Parameters
    ----------
    relation : what they are read of; they are staged.
    """
    session, earlier = state.session, _earlier(state)
    session.stage_other_key(*earlier.blocks(key))
    entity = relation.attribute(state.chain.entity)
    tag, member = session.keyed_tag(session.text_of(entity)), state.name("chain_member")
    before, of_earlier = quote(BEFORE), f"chain_id = {int(earlier.chain_id)}"
    with session.tagging():
        state.make(
            BEFORE,
            f"SELECT t.person, m.tag, m.cell, m.left_at_release AS left_at FROM {member} AS m JOIN"
            f" (SELECT s.{quote(entity.name)} AS person, {tag} AS tag FROM"
            f" (SELECT p.person AS {quote(entity.name)} FROM {quote(PRESENT)} AS p) AS s"
            f"{session.computed_once}) AS t ON t.tag = m.tag"
            f" WHERE m.{of_earlier}",
        )
    # Of everybody who is in the later chain, and of those who are in the earlier one alone.
    found = session.rows(
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
    return {int(size): int(many) for size, many in found}


def _earlier(state: CellState) -> ChainKept:
    assert state.chain.rules.new_chain_from is not None
    return chain_state.find(state.session, state.chain.rules.new_chain_from)
