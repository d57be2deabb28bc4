"""Store, find and check the records of chains: source, rules, key check and releases.

Persons are stored under tags: pseudonyms, computed with a key that is not stored in any database
(see ``key``).
"""

from __future__ import annotations

import json
import secrets
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dbanon.data.schema import Attribute, Kind
from dbanon.data.types import JsonMapping, JsonObject
from dbanon.errors import (
    ChainBehind,
    ChainChanged,
    ChainClosed,
    ChainEntityRows,
    ChainExists,
    ChainKeyWrong,
    ChainNotFound,
    InsufficientRights,
    InvalidParameter,
    UnsupportedType,
)
from dbanon.extensions.chains.key import (
    compute_check,
    compute_tags,
    hash_prefixes,
    matches_check,
    read_last_published,
)
from dbanon.job.chain import MEASURE, Chain, ChainRules
from dbanon.ledger.entries import has_trusted_ledger, parse_json
from dbanon.release.words import now
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName
from dbanon.sessions.session import Session

# Prefixes of SQL types, in lower case, whose values are texts.
_TEXT_TYPES = ("text", "varchar", "character varying", "uuid", "char", "clob", "nvarchar", "string")


class ChainColumn(NamedTuple):
    """A column of a chain's releases; stored as a list in the chain's definition.

    Parameters
    ----------
    name : the name of the column in the release.
    state_column : the column that stores it in the chain's tables: ``v0``, ``v1``, … in the value
        table, whose values all rows of a cell share, or ``k0``, ``k1``, … in the row table.
    source : the name of the column in the source.
    """

    name: str
    state_column: str
    source: str

    @property
    def is_shared(self) -> bool:
        """True if all rows of a cell share one value; False if each row has its own value."""
        return self.state_column.startswith("v")


@dataclass(frozen=True)
class ChainRecord:
    """A chain as it is stored. A *cell* is a class of the chain (see ``membership``).

    Parameters
    ----------
    chain_id : the number that identifies the chain's rows in the ledger tables for all chains.
    identity : a UUID by which releases refer to the chain in any database.
    created_at : when the chain was created, as the database's text of a timestamp.
    created_by : the user who created the chain; None if the database has no users.
    source, entity : the relation that the chain reads, and its column that identifies persons.
    rules : the rules that the chain was created with.
    key_check : the value that verifies the key, from ``key.compute_check``.
    n_releases : the number of releases so far, which is also the number of the last release.
    closed_at : when the chain was closed; None if it is open.
    k : the k of the first release; None before it.
    definition : what later releases reuse of the first one, from ``build_definition``; None before
        the first release.
    """

    name: str
    chain_id: int
    identity: str
    created_at: str
    created_by: str | None
    source: str
    entity: str
    rules: ChainRules
    key_check: bytes
    n_releases: int
    closed_at: str | None
    k: int | None
    definition: JsonMapping | None

    def hash_prefixes(self, key: bytes) -> tuple[bytes, bytes]:
        """Return the bytes that precede identifiers in the hashes of tags; see ``key``."""
        return hash_prefixes(key, self.identity, self.key_check)

    def tags(self, key: bytes, entities: Sequence[str]) -> list[bytes]:
        """Compute the tags of persons from their identifiers, as the database writes them."""
        return compute_tags(key, self.identity, self.key_check, entities)

    def table_name(self, session: Session, kind: str) -> RelationName:
        """Return the name of a table of this chain.

        Parameters
        ----------
        kind : ``row`` for the *row table*, which has the rows of the last release; ``value`` for
            the *value table*, which has the released values that the rows of a cell share.
        """
        return session.ledger.table(f"chain_{kind}_{self.identity.replace('-', '')[:12]}")


def create(
    session: Session, name: str, source: Relation, entity: str, rules: ChainRules, key: bytes
) -> ChainRecord:
    """Store a new chain.

    Raises
    ------
    ChainExists : there is a chain of this name.
    ChainEntityRows, UnsupportedType : the entity column cannot identify persons; see
        ``require_entity``.
    """
    require_entity(session, source, source.attribute(entity))
    session.ledger.ensure_current()
    session.ledger.require_trusted()
    chain_table = session.ledger.table("chain").quoted
    if session.rows(f"SELECT 1 FROM {chain_table} WHERE name = ?", (name,)):
        raise ChainExists(f"There is a chain {name} already.", hint="Choose another name.")
    row = {
        "name": name,
        # Positive, and small enough for a column of 32-bit integers.
        "chain_id": secrets.randbelow(2**31 - 1) + 1,
        "identity": str(uuid.uuid4()),
        "created_at": session.ledger.to_timestamp(now()),
        "created_by": session.catalog.find_current_user(),
        "source": str(source.name),
        "entity": entity,
        "rules": json.dumps(rules.to_plain()),
        "key_check": compute_check(key),
        "sequence": 0,
    }
    session.connection.insert_rows(session.ledger.table("chain"), list(row), [tuple(row.values())])
    return find_chain(session, name)


def require_entity(session: Session, relation: Relation, attribute: Attribute) -> None:
    """Check that a column can identify persons by its values as text, in any database.

    Raises
    ------
    UnsupportedType : the values are not integers, UUIDs or texts.
    ChainEntityRows : different texts are equal by the column's type or collation, so the database
        would take the rows of several persons for those of one.
    """
    name, sql_type = attribute.name, attribute.sql_type.lower()
    # Enumerated types (which have an ``order``), and types that database users have defined (which
    # are converted by their output function), may have other texts in other databases.
    is_text = (
        attribute.kind is Kind.CATEGORY and sql_type.startswith(_TEXT_TYPES) and not attribute.order
    )
    if attribute.kind is not Kind.INTEGER and (not is_text or attribute.uses_output_function):
        raise UnsupportedType(
            f'The entity column "{name}" is of type {attribute.sql_type or "none"}:'
            " a chain accepts integers, UUIDs and texts, which every database writes in the same"
            " way.",
            hint="Cast it to text or to an integer in a view, and anonymize the view.",
        )
    if (
        is_text
        and sql_type != "uuid"
        and not session.chain_dialect.distinguishes_all_texts(relation, attribute)
    ):
        raise ChainEntityRows(
            f'Values of the entity column "{name}"'
            " that differ compare as equal, because of its type or collation.",
            hint="Give it a binary, deterministic collation in a view, and anonymize the view.",
        )


def list_chains(session: Session) -> list[ChainRecord]:
    """All chains, by name."""
    if not _has_chain_table(session):
        return []
    names = session.rows(f"SELECT name FROM {session.ledger.table('chain').quoted} ORDER BY name")
    return [find_chain(session, name) for (name,) in names]


def _chain_not_found_error(name: str) -> ChainNotFound:
    return ChainNotFound(
        f"There is no chain {name} in this database.", hint="dbanon chain list shows them."
    )


def find_chain(session: Session, name: str) -> ChainRecord:
    """Find the chain of this name.

    Raises
    ------
    ChainNotFound : there is no such chain.
    InsufficientRights : this role may not see chains.
    """
    session.require_capability("chains")
    if not _has_chain_table(session):
        raise _chain_not_found_error(name)
    chain_table = session.ledger.table("chain").quoted
    definition_table = session.ledger.table("chain_definition").quoted
    try:
        rows = session.rows(
            "SELECT c.name, c.chain_id, CAST(c.identity AS VARCHAR(36)),"
            " CAST(c.created_at AS VARCHAR(40)), c.created_by, c.source, c.entity, c.rules,"
            " c.key_check, c.sequence, CAST(c.closed_at AS VARCHAR(40)), d.k, d.definition"
            f" FROM {chain_table} AS c LEFT JOIN {definition_table} AS d ON d.chain_id = c.chain_id"
            " WHERE c.name = ?",
            (name,),
        )
    except InsufficientRights as error:
        raise InsufficientRights(
            "This role may not see chains.",
            detail=error.detail,
            hint="Ask the owner of the ledger to run it, or to grant the rights that docs/rights.md"
            " lists for chains.",
        ) from None
    if not rows:
        raise _chain_not_found_error(name)
    (
        name,
        chain_id,
        identity,
        created_at,
        created_by,
        source,
        entity,
        rules,
        key_check,
        n_releases,
        closed_at,
        k,
        definition,
    ) = rows[0]
    return ChainRecord(
        name=name,
        chain_id=int(chain_id),
        identity=identity,
        created_at=created_at,
        created_by=created_by,
        source=source,
        entity=entity,
        rules=ChainRules.from_plain(parse_json(rules)),
        key_check=bytes(key_check),
        n_releases=int(n_releases),
        closed_at=closed_at,
        k=None if k is None else int(k),
        definition=None if definition is None else parse_json(definition),
    )


def _has_chain_table(session: Session) -> bool:
    """True if the ledger has a table of chains; raises LedgerNotTrusted if it is not trusted."""
    if not session.ledger.exists() or not session.ledger.has_table("chain"):
        return False
    session.ledger.require_trusted()
    return True


def lock_chain(session: Session, request: Chain, key: bytes) -> ChainRecord:
    """Find the chain that a job names, lock it for the transaction, and count one more release.

    The record that is returned still has the number of earlier releases.

    Raises
    ------
    ChainNotFound, ChainClosed, ChainKeyWrong, ChainBehind : the chain cannot be continued.
    ChainChanged : the job expects other rules.
    SourceChanged : another run of the chain is being published.
    """
    chain = find_chain(session, request.name)
    require_can_continue(session, chain, request, key)
    # A concurrent run of the chain waits here, and is refused afterwards.
    session.run(
        f"UPDATE {session.ledger.table('chain').quoted} SET sequence = sequence + 1 WHERE name = ?",
        (chain.name,),
    )
    return chain


def require_can_continue(session: Session, chain: ChainRecord, request: Chain, key: bytes) -> None:
    """Check that a chain can be continued as a job requests: its key, rules and state.

    Raises
    ------
    ChainKeyWrong : the key is not that of the chain.
    ChainClosed : the chain is closed.
    ChainChanged : the job expects other rules.
    InvalidParameter : the job limits the share of exposed persons (whose history fewer than k
        persons share), but the chain exposes no one.
    ChainBehind : a later release than the chain's last one is on record.
    """
    require_key(chain, key)
    require_open(chain)
    differing_rules = chain.rules.find_differing_rules(request)
    if differing_rules:
        raise ChainChanged(
            f"The chain {chain.name} was created with other rules than those in the job.",
            detail=f"These rules differ: {', '.join(differing_rules)}.",
            hint="The rules of a chain are fixed: leave them out of the job. Or close the chain,"
            " and create another one with them.",
        )
    # A chain of mode ``measure`` only counts the persons whom it exposes. Other chains expose no
    # one, except together with a chain that they follow.
    follows_chain = chain.rules.new_chain_from is not None
    if request.max_exposed is not None and chain.rules.mode != MEASURE and not follows_chain:
        raise InvalidParameter(
            f"The chain {chain.name} exposes no one: a limit is only possible for chains that"
            " measure, or that follow another chain.",
            hint="Leave out `max_exposed`.",
        )
    require_not_behind(session, chain)
    require_state_includes(
        chain, read_last_published(request.key, chain.identity), "in the note next to its key file"
    )


def require_open(chain: ChainRecord) -> None:
    """Check that a chain is open.

    Raises
    ------
    ChainClosed : the chain is closed.
    """
    if chain.closed_at is not None:
        raise ChainClosed(f"The chain {chain.name} was closed.", hint="Create another one.")


def require_key(chain: ChainRecord, key: bytes) -> None:
    """Check that a key belongs to the chain.

    Raises
    ------
    ChainKeyWrong : it belongs to another chain, or to none.
    """
    if not matches_check(key, chain.key_check):
        raise ChainKeyWrong(
            f"This is not the key of chain {chain.name}.",
            hint=(
                "With another key everyone would look like a newcomer. Name the file that dbanon"
                " chain create wrote. If the key is lost, the chain has ended."
            ),
        )


def require_not_behind(session: Session, chain: ChainRecord) -> None:
    """Check that a ledger has no later release of a chain than the chain's state.

    Parameters
    ----------
    session : a session on the database of the ledger.

    Raises
    ------
    ChainBehind : the ledger has a later release.
    LedgerNotTrusted : querying the ledger could run another user's code.
    """
    release_table = session.ledger.table("release")
    # False only if there is no ledger; for a ledger that is not trusted, an error is raised.
    if not has_trusted_ledger(session):
        return
    # Ledgers of versions before chains have no such column.
    if "chain_sequence" not in {name for name, _ in session.catalog.list_columns(release_table)}:
        return
    [(latest_release,)] = session.rows(
        f"SELECT max(chain_sequence) FROM {release_table.quoted} WHERE CAST(chain_id"
        " AS VARCHAR(36)) = ?",
        (chain.identity,),
    )
    require_state_includes(chain, int(latest_release or 0), "in the ledger")


def require_state_includes(chain: ChainRecord, latest_release: int, location: str) -> None:
    """Check that the state of a chain includes the latest known release.

    Parameters
    ----------
    latest_release : the number of that release.
    location : where it is recorded, as a phrase for the message ("in the ledger").

    Raises
    ------
    ChainBehind : the state ends with an earlier release.
    """
    if latest_release > chain.n_releases:
        raise ChainBehind(
            f"Release {latest_release} of chain {chain.name} is {location}, but the chain's state"
            f" ends with release {chain.n_releases}.",
            hint=f"The database was restored or copied. Restore a state with release"
            f" {latest_release}, or close the chain and create another one.",
        )


def close(session: Session, chain: ChainRecord) -> None:
    """Close a chain: it can have no further releases, but keeps its state."""
    session.run(
        f"UPDATE {session.ledger.table('chain').quoted} SET closed_at = ? WHERE name = ?",
        (session.ledger.to_timestamp(now()), chain.name),
    )


def add_release(
    session: Session,
    chain: ChainRecord,
    release_number: int,
    release_id: str,
    counts: JsonMapping,
) -> None:
    """Record a release in the chain; once the transaction commits, it counts as published.

    Parameters
    ----------
    release_number : the number of the release in the chain, from 1.
    release_id : the UUID of the release in the ledger.
    counts : counts of persons and cells by name, to store as JSON.
    """
    row = {
        "chain_id": chain.chain_id,
        "sequence": release_number,
        "release_id": release_id,
        "created_at": session.ledger.to_timestamp(now()),
        "counts": json.dumps(counts),
    }
    session.connection.insert_rows(
        session.ledger.table("chain_release"), list(row), [tuple(row.values())]
    )


def confirm_release(session: Session, chain: ChainRecord, release_number: int) -> None:
    """Record that the output of a release was actually published.

    After ``add_release``, a release counts as published once the chain's state is committed. The
    output may be written later, in another database, and may fail.
    """
    session.run(
        f"UPDATE {session.ledger.table('chain_release').quoted} SET confirmed_at = ?"
        " WHERE chain_id = ? AND sequence = ?",
        (session.ledger.to_timestamp(now()), chain.chain_id, release_number),
    )


def list_releases(session: Session, chain: ChainRecord) -> list[JsonObject]:
    """List the releases of a chain from the first on: their numbers, ids, times and counts."""
    rows = session.rows(
        "SELECT sequence, CAST(release_id AS VARCHAR(36)), CAST(created_at AS VARCHAR(40)),"
        " confirmed_at IS NOT NULL, counts"
        f" FROM {session.ledger.table('chain_release').quoted}"
        " WHERE chain_id = ? ORDER BY sequence",
        (chain.chain_id,),
    )
    return [
        {
            "sequence": int(sequence),
            "release_id": release_id,
            "created_at": created_at,
            "confirmed": bool(is_confirmed),
            **parse_json(counts),
        }
        for sequence, release_id, created_at, is_confirmed, counts in rows
    ]


def count_absent_at_last_release(session: Session, chain: ChainRecord) -> int:
    """Return how many persons the last release displayed although they were absent."""
    releases = list_releases(session, chain)
    return int(releases[-1].get("absent", 0)) if releases else 0
