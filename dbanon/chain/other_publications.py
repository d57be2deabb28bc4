"""Other publications about a chain's persons that its database knows of; no guarantee covers them.

These are releases of the same source outside of any chain, and other chains over the same persons.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbanon.chain import state as chain_state
from dbanon.errors import DbanonError, counted
from dbanon.ledger.entries import has_trusted_ledger
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName, parse_relation
from dbanon.sessions.session import Session

# How many names a message lists.
_NAMED = 5


def releases_outside(sessions: Sequence[Session], source: str) -> dict[str, str]:
    """The releases of a source outside of any chain: names by id, the oldest first.

    Parameters
    ----------
    sessions : on the databases whose ledgers are searched.
    """
    releases: dict[str, str] = {}
    for session in sessions:
        release = session.ledger_name("release")
        if not has_trusted_ledger(session):
            continue
        if "chain_id" not in {name for name, _ in session.columns_of(release)}:
            continue
        releases |= {
            str(release_id): str(RelationName(schema, name))
            for release_id, schema, name in session.rows(
                "SELECT CAST(release_id AS VARCHAR(36)), output_schema, output_name"
                f" FROM {release.quoted} WHERE source = ? AND chain_id IS NULL ORDER BY created_at",
                (source,),
            )
        }
    return releases


def describe_releases_outside(releases: dict[str, str], source: str) -> str:
    """Describe releases outside of any chain; empty if there are none."""
    if not releases:
        return ""
    names = list(dict.fromkeys(releases.values()))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return (
        f"{counted(len(releases), 'release')} of {source} outside of any chain, which nothing here"
        f" takes into account: {', '.join(names[:_NAMED])}{more}"
    )


def describe_shared_persons(
    session: Session, name: str, relation: Relation, entity: str
) -> tuple[str, ...]:
    """Describe, for each other chain, how many persons its source shares with this one.

    Persons are compared by their identifiers as text. A chain whose source cannot be read is
    listed as such.

    Parameters
    ----------
    name : of the chain that is being created.
    relation, entity : its source and entity column.
    """
    notes = []
    followed = chain_state.find(session, name).rules.new_chain_from
    mine = session.text_of(relation.attribute(entity))
    for chain in chain_state.list_chains(session):
        if chain.name in (name, followed):
            continue
        if not chain.sequence and chain.closed_at is not None:
            continue
        label = f"chain {chain.name} ({chain.source})"
        try:
            other = session.find_source(parse_relation(chain.source))
            theirs = session.text_of(other.attribute(chain.entity))
            session.require_rights(other, [chain.entity])
        except DbanonError:
            notes.append(
                f"whether {label} has the same persons cannot be seen: its source cannot be read"
            )
            continue
        # Use a join: PostgreSQL scans a large IN list once for each row.
        [(rows, both)] = session.rows(
            "SELECT count(*), count(o.person)"
            f" FROM (SELECT DISTINCT {mine} AS person FROM {relation.name.quoted} AS s) AS t"
            f" LEFT JOIN (SELECT DISTINCT {theirs} AS person FROM {other.name.quoted} AS s) AS o"
            " ON o.person = t.person"
        )
        if both:
            notes.append(
                f"{both} of {rows} persons here have an identifier that the source of {label} has,"
                " too: whoever sees the releases of both knows a person's class in each, and few"
                " share both. Follow it (new_chain_from), unless they are other persons"
            )
    return tuple(notes)
