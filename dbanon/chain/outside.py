"""What else was published of a chain's persons, as far as its database knows: nothing is promised.

Releases of the same source outside of any chain, and other chains whose source has the same
persons.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbanon.chain import state as chain_state
from dbanon.errors import DbanonError, counted
from dbanon.ledger.entries import trusted
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName, parse_relation
from dbanon.sessions.session import Session

# How many are told by name.
_NAMED = 5


def releases_outside(sessions: Sequence[Session], source: str) -> dict[str, str]:
    """The releases of a source that are of no chain, by id the name of each, the oldest first.

    Parameters
    ----------
    sessions : on the databases whose ledgers are asked.
    """
    found: dict[str, str] = {}
    for session in sessions:
        release = session.ledger_name("release")
        if not trusted(session):
            continue
        if "chain_id" not in {name for name, _ in session.columns_of(release)}:
            continue
        found |= {
            str(release_id): str(RelationName(schema, name))
            for release_id, schema, name in session.rows(
                "SELECT CAST(release_id AS VARCHAR(36)), output_schema, output_name"
                f" FROM {release.quoted} WHERE source = ? AND chain_id IS NULL ORDER BY created_at",
                (source,),
            )
        }
    return found


def told_outside(found: dict[str, str], source: str) -> str:
    """Such releases in words; empty where there are none."""
    if not found:
        return ""
    names = list(dict.fromkeys(found.values()))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return (
        f"{counted(len(found), 'release')} of {source} outside of any chain, which nothing here"
        f" takes into account: {', '.join(names[:_NAMED])}{more}"
    )


def same_persons(session: Session, name: str, relation: Relation, entity: str) -> tuple[str, ...]:
    """In words, of each other chain how many persons of this source its source has, too.

    Persons are the same where their identifiers are, as text; a chain whose source cannot be read
    any more is told as such.

    Parameters
    ----------
    name : of the chain that is made.
    relation, entity : what it reads, and the column that says whose a row is.
    """
    told = []
    followed = chain_state.find(session, name).rules.new_chain_from
    mine = session.text_of(relation.attribute(entity))
    for chain in chain_state.list_chains(session):
        if chain.name in (name, followed):
            continue
        if not chain.sequence and chain.closed_at is not None:
            continue
        of = f"chain {chain.name} ({chain.source})"
        try:
            other = session.find_source(parse_relation(chain.source))
            theirs = session.text_of(other.attribute(chain.entity))
            session.require_rights(other, [chain.entity])
        except DbanonError:
            told.append(
                f"whether {of} has the same persons cannot be seen: its source cannot be read"
            )
            continue
        # Joined: PostgreSQL looks through what IN has, for each row, where it is large.
        [(rows, both)] = session.rows(
            "SELECT count(*), count(o.person)"
            f" FROM (SELECT DISTINCT {mine} AS person FROM {relation.name.quoted} AS s) AS t"
            f" LEFT JOIN (SELECT DISTINCT {theirs} AS person FROM {other.name.quoted} AS s) AS o"
            " ON o.person = t.person"
        )
        if both:
            told.append(
                f"{both} of {rows} persons here have an identifier that the source of {of} has,"
                " too: whoever sees the releases of both knows a person's class in each, and few"
                " share both. Follow it (new_chain_from), unless they are other persons"
            )
    return tuple(told)
