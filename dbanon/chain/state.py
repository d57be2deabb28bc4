"""Chains as their database keeps them: who made each, by which rules, under which key.

Persons stand under tags, by a key that no database has. A tag without the key names nobody.
"""

from __future__ import annotations

import json
import secrets
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dbanon.chain.key import blocks, check_of, fits, last_published, tags
from dbanon.data.schema import Attribute, Kind
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
from dbanon.job.chain import MEASURE, Chain, Rules
from dbanon.ledger.entries import parse_json, trusted
from dbanon.release.words import now
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName
from dbanon.sessions.session import Session

_TEXTS = ("text", "varchar", "character varying", "uuid", "char", "clob", "nvarchar", "string")


@dataclass(frozen=True)
class ChainKept:
    """A chain, as it is kept.

    Parameters
    ----------
    chain_id : what its rows in the tables of all chains are found by.
    identity : what releases name, in whatever database they are: a UUID.
    source, entity : the relation that it reads, and the column that says whose a row is.
    sequence : the number of its last release; 0 before the first.
    k, definition : of its first release; None before it.
    """

    name: str
    chain_id: int
    identity: str
    created_at: str
    created_by: str | None
    source: str
    entity: str
    rules: Rules
    key_check: bytes
    sequence: int
    closed_at: str | None
    k: int | None
    definition: Mapping[str, Any] | None

    def blocks(self, key: bytes) -> tuple[bytes, bytes]:
        """What the hashes of its tags begin with, as ``pseudonym.blocks`` has it."""
        return blocks(key, self.identity, self.key_check)

    def tags(self, key: bytes, entities: Sequence[str]) -> list[bytes]:
        """The tags of persons, whom texts name as the database writes them."""
        return tags(key, self.identity, self.key_check, entities)

    def table(self, session: Session, what: str) -> RelationName:
        """The table of its own that has its rows, or the values of its cells."""
        return session.ledger_name(f"chain_{what}_{self.identity.replace('-', '')[:12]}")


def create(session: Session, name: str, source: Relation, entity: str, rules: Rules, key: bytes,
           ) -> ChainKept:  # fmt: skip
    """Keep a new chain.

    Raises
    ------
    ChainExists : there is one of this name.
    ChainEntityRows, UnsupportedType : as ``require_entity``.
    """
    require_entity(session, source, source.attribute(entity))
    session.ensure_ledger()
    session.require_trusted_ledger()
    known = session.ledger_name("chain").quoted
    if session.rows(f"SELECT 1 FROM {known} WHERE name = ?", (name,)):
        raise ChainExists(f"There is a chain {name} already.", hint="Choose another name.")
    row = {
        "name": name,
        "chain_id": secrets.randbelow(2**31 - 1) + 1,
        "identity": str(uuid.uuid4()),
        "created_at": session.timestamp(now()),
        "created_by": session.current_user(),
        "source": str(source.name),
        "entity": entity,
        "rules": json.dumps(rules.to_plain()),
        "key_check": check_of(key),
        "sequence": 0,
    }
    session.insert_rows(session.ledger_name("chain"), list(row), [tuple(row.values())])
    return find(session, name)


def require_entity(session: Session, relation: Relation, attribute: Attribute) -> None:
    """Check that a column's values have one text everywhere, and are told apart by it.

    Raises
    ------
    UnsupportedType : they are no integers, UUIDs or texts.
    ChainEntityRows : texts of other bytes are equal in the column.
    """
    name, kind = attribute.name, attribute.sql_type.lower()
    is_text = attribute.kind is Kind.CATEGORY and kind.startswith(_TEXTS) and not attribute.order
    if attribute.kind is not Kind.INTEGER and (not is_text or attribute.by_output):
        raise UnsupportedType(
            f'The entity column "{name}" is of type {attribute.sql_type or "none"}: a chain takes'
            " integers, UUIDs and texts, which are written alike everywhere.",
            hint="Cast it to text or to an integer in a view, always in one way.",
        )
    if is_text and kind != "uuid" and not session.tells_all_apart(relation, attribute):
        raise ChainEntityRows(
            f'Values of the entity column "{name}" that differ are equal to one another, by its'
            " type or collation.",
            hint="Cast it to text of a deterministic, binary collation in a view.",
        )


def list_chains(session: Session) -> list[ChainKept]:
    """All chains, by name."""
    if not _has_chains(session):
        return []
    names = session.rows(f"SELECT name FROM {session.ledger_name('chain').quoted} ORDER BY name")
    return [find(session, name) for (name,) in names]


def _no_chain(name: str) -> ChainNotFound:
    return ChainNotFound(
        f"There is no chain {name} in this database.", hint="dbanon chain list shows them."
    )


def find(session: Session, name: str) -> ChainKept:
    """The chain of this name.

    Raises
    ------
    ChainNotFound : there is none.
    InsufficientRights : this role may not see chains.
    """
    session.require("chains")
    if not _has_chains(session):
        raise _no_chain(name)
    chain = session.ledger_name("chain").quoted
    defined = session.ledger_name("chain_definition").quoted
    try:
        found = session.rows(
            "SELECT c.name, c.chain_id, CAST(c.identity AS VARCHAR(36)),"
            " CAST(c.created_at AS VARCHAR(40)), c.created_by, c.source, c.entity, c.rules,"
            " c.key_check, c.sequence, CAST(c.closed_at AS VARCHAR(40)), d.k, d.definition"
            f" FROM {chain} AS c LEFT JOIN {defined} AS d ON d.chain_id = c.chain_id"
            " WHERE c.name = ?",
            (name,),
        )
    except InsufficientRights as error:
        raise InsufficientRights(
            "This role may not see chains.",
            detail=error.detail,
            hint="The owner of the ledger runs them. docs/rights.md says how to let others in.",
        ) from None
    if not found:
        raise _no_chain(name)
    name, number, identity, made, by, source, entity, rules, check, last, closed, k, told = found[0]
    return ChainKept(
        name,
        int(number),
        identity,
        made,
        by,
        source,
        entity,
        rules=Rules.of_plain(parse_json(rules)),
        key_check=bytes(check),
        sequence=int(last),
        closed_at=closed,
        k=None if k is None else int(k),
        definition=None if told is None else parse_json(told),
    )


def _has_chains(session: Session) -> bool:
    if not session.has_ledger() or session.find_existing(session.ledger_name("chain")) is None:
        return False
    session.require_trusted_ledger()
    return True


def opened(session: Session, asked: Chain, key: bytes) -> ChainKept:
    """The chain that a job names, locked until the transaction ends, with its next sequence.

    Raises
    ------
    ChainNotFound, ChainClosed, ChainKeyWrong, ChainBehind : it cannot go on.
    ChainChanged : the job expects other rules.
    SourceChanged : another run of it is being published.
    """
    chain = find(session, asked.name)
    require_asked(session, chain, asked, key)
    # Whoever runs it at the same time waits here, and is refused.
    session.run(
        f"UPDATE {session.ledger_name('chain').quoted} SET sequence = sequence + 1 WHERE name = ?",
        (chain.name,),
    )
    return chain


def require_asked(session: Session, chain: ChainKept, asked: Chain, key: bytes) -> None:
    """Check that a chain can go on as a job asks: its key, its rules, and its state.

    Raises
    ------
    ChainClosed, ChainKeyWrong, ChainBehind, ChainChanged, InvalidParameter : it cannot.
    """
    require_key(chain, key)
    require_open(chain)
    differing = chain.rules.expected_by(asked)
    if differing:
        raise ChainChanged(
            f"The chain {chain.name} was made with other rules than the job says.",
            detail=f"Otherwise: {', '.join(differing)}.",
            hint="Rules stay: take them out of the job, or begin another chain.",
        )
    follows = chain.rules.new_chain_from is not None
    if asked.max_exposed is not None and chain.rules.mode != MEASURE and not follows:
        raise InvalidParameter(
            f"The chain {chain.name} exposes nobody: only chains that measure, or follow another"
            " one, take a limit.",
            hint="Leave max_exposed out of the chain.",
        )
    require_not_behind(session, chain)
    require_not_before(chain, last_published(asked.key, chain.identity), "noted beside its key")


def require_open(chain: ChainKept) -> None:
    """Check that a chain was not closed.

    Raises
    ------
    ChainClosed : it was.
    """
    if chain.closed_at is not None:
        raise ChainClosed(f"The chain {chain.name} was closed.", hint="Begin another one.")


def require_key(chain: ChainKept, key: bytes) -> None:
    """Check that a key is that of the chain.

    Raises
    ------
    ChainKeyWrong : it is not.
    """
    if not fits(key, chain.key_check):
        raise ChainKeyWrong(
            f"The key is not that of chain {chain.name}.",
            hint=(
                "With another key everyone would look like a newcomer. Name the file that dbanon"
                " chain create wrote. If the key is lost, the chain has ended."
            ),
        )


def require_not_behind(session: Session, chain: ChainKept) -> None:
    """Check that no ledger knows a later release of a chain than its state does.

    Parameters
    ----------
    session : on a database whose ledger is looked at.

    Raises
    ------
    ChainBehind : it does.
    LedgerNotTrusted : asking it could run somebody else's code.
    """
    release = session.ledger_name("release")
    if not trusted(session):
        return
    if "chain_sequence" not in {name for name, _ in session.columns_of(release)}:
        return
    [(latest,)] = session.rows(
        f"SELECT max(chain_sequence) FROM {release.quoted} WHERE CAST(chain_id AS VARCHAR(36)) = ?",
        (chain.identity,),
    )
    require_not_before(chain, int(latest or 0), "in the ledger")


def require_not_before(chain: ChainKept, latest: int, where: str) -> None:
    """Check that the state of a chain has the latest release that is known of.

    Parameters
    ----------
    where : it is known, in words.

    Raises
    ------
    ChainBehind : it ends before.
    """
    if latest > chain.sequence:
        raise ChainBehind(
            f"Release {latest} of chain {chain.name} is {where}, and its state ends with"
            f" release {chain.sequence}.",
            hint="Its database was restored or copied: releases that it does not know of cannot be"
            " taken into account. Restore a newer state, or close the chain.",
        )


def close(session: Session, chain: ChainKept) -> None:
    """End a chain: no further release; its state stays."""
    session.run(
        f"UPDATE {session.ledger_name('chain').quoted} SET closed_at = ? WHERE name = ?",
        (session.timestamp(now()), chain.name),
    )


def add_release(session: Session, chain: ChainKept, sequence: int, release_id: str,
          counts: Mapping[str, Any]) -> None:  # fmt: skip
    """Keep that a release was made; from its commit on it counts as published."""
    row = {
        "chain_id": chain.chain_id,
        "sequence": sequence,
        "release_id": release_id,
        "created_at": session.timestamp(now()),
        "counts": json.dumps(counts),
    }
    session.insert_rows(session.ledger_name("chain_release"), list(row), [tuple(row.values())])


def confirmed(session: Session, chain: ChainKept, sequence: int) -> None:
    """Keep that a release was published."""
    session.run(
        f"UPDATE {session.ledger_name('chain_release').quoted} SET confirmed_at = ?"
        " WHERE chain_id = ? AND sequence = ?",
        (session.timestamp(now()), chain.chain_id, sequence),
    )


def history(session: Session, chain: ChainKept) -> list[dict[str, Any]]:
    """The releases of a chain, from the first, with what was counted of each."""
    found = session.rows(
        "SELECT sequence, CAST(release_id AS VARCHAR(36)), CAST(created_at AS VARCHAR(40)),"
        " confirmed_at IS NOT NULL, counts"
        f" FROM {session.ledger_name('chain_release').quoted} WHERE chain_id = ? ORDER BY sequence",
        (chain.chain_id,),
    )
    return [
        {
            "sequence": int(sequence),
            "release_id": release_id,
            "created_at": created_at,
            "confirmed": bool(sure),
            **parse_json(counts),
        }
        for sequence, release_id, created_at, sure, counts in found
    ]


def absent_before(session: Session, chain: ChainKept) -> int:
    """The persons whom the last release showed, and who were not in the source then."""
    known = history(session, chain)
    return int(known[-1].get("absent", 0)) if known else 0
