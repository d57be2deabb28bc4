"""Find other publications with the persons of a chain, which the chain's guarantee ignores.

These are releases of the same source outside of any chain, and other chains with the same persons.
Only publications that the same database records can be found.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbanon.errors import DbanonError, pluralize
from dbanon.extensions.chains import state as chain_state
from dbanon.ledger.entries import has_trusted_ledger
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName, parse_relation
from dbanon.sessions.session import Session

# A message lists at most this many names.
_MAX_NAMES = 5


def find_releases_outside(sessions: Sequence[Session], source: str) -> dict[str, str]:
    """Find the releases of a source outside of any chain: output names by release id, oldest first.

    Parameters
    ----------
    sessions : sessions on the databases whose ledgers are searched.
    """
    releases: dict[str, str] = {}
    for session in sessions:
        release_table = session.ledger.table("release")
        if not has_trusted_ledger(session):
            continue
        # Ledgers of versions before chains have no such column.
        if "chain_id" not in {name for name, _ in session.catalog.list_columns(release_table)}:
            continue
        releases |= {
            str(release_id): str(RelationName(schema, name))
            for release_id, schema, name in session.rows(
                "SELECT CAST(release_id AS VARCHAR(36)), output_schema, output_name"
                f" FROM {release_table.quoted} WHERE source = ? AND chain_id IS NULL"
                " ORDER BY created_at",
                (source,),
            )
        }
    return releases


def describe_releases_outside(releases: dict[str, str], source: str) -> str:
    """Describe releases outside of any chain; empty if there are none.

    Parameters
    ----------
    releases : output names by release id.
    """
    if not releases:
        return ""
    names = list(dict.fromkeys(releases.values()))
    remainder = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return (
        f"{pluralize(len(releases), 'release')} of {source} outside of any chain, which this chain"
        f" does not take into account: {', '.join(names[:_MAX_NAMES])}{remainder}"
    )


def describe_shared_persons(
    session: Session, name: str, relation: Relation, entity: str
) -> tuple[str, ...]:
    """Describe how many persons of a new chain are also in the source of each other chain.

    Returns a message for each other chain with persons in common. Persons are compared by their
    identifiers as text. If the source of a chain cannot be read, its message says so.

    Parameters
    ----------
    name : the name of the new chain.
    relation, entity : the source of the new chain, and its column that identifies persons.
    """
    messages = []
    predecessor_name = chain_state.find_chain(session, name).rules.new_chain_from
    identifier = session.dialect.text_of(relation.attribute(entity))
    for chain in chain_state.list_chains(session):
        if chain.name in (name, predecessor_name):
            continue
        # A chain that was closed before its first release has published nothing.
        if not chain.n_releases and chain.closed_at is not None:
            continue
        label = f"chain {chain.name} ({chain.source})"
        try:
            other_relation = session.catalog.find_source(parse_relation(chain.source))
            other_identifier = session.dialect.text_of(other_relation.attribute(chain.entity))
            session.catalog.require_readable(other_relation, [chain.entity])
        except DbanonError:
            messages.append(
                f"whether {label} has the same persons is unknown: its source cannot be read"
            )
            continue
        # Use a join: PostgreSQL scans a large IN list once for each row.
        [(n_persons, n_shared)] = session.rows(
            "SELECT count(*), count(o.person)"
            f" FROM (SELECT DISTINCT {identifier} AS person FROM {relation.name.quoted} AS s) AS t"
            f" LEFT JOIN (SELECT DISTINCT {other_identifier} AS person"
            f" FROM {other_relation.name.quoted}"
            " AS s) AS o ON o.person = t.person"
        )
        if n_shared:
            messages.append(
                f"{n_shared} of {n_persons} persons here have an identifier that also occurs in the"
                f" source of {label}: anyone who sees the releases of both chains knows a person's"
                " class in each, and few persons share both classes. Follow that chain"
                " (new_chain_from), unless its persons are different ones"
            )
    return tuple(messages)
