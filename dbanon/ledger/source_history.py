"""The releases of a source that the ledger has. Readers may have kept those that were replaced."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from dbanon.data.frozen import dataclass
from dbanon.ledger import entries
from dbanon.ledger.entry_checks import MISSHAPEN
from dbanon.ledger.postgresql_persons import EARLIER
from dbanon.ledger.tables import LONG_TEXT
from dbanon.sessions.names import RelationName, parse_relation
from dbanon.sessions.session import Session


@dataclass(frozen=True)
class EarlierRelease:
    """A release of a source, as the ledger has it.

    Parameters
    ----------
    output : the name that it was published under.
    entity : the column whose values k counted; None for rows.
    is_private : whether it is differentially private; a budget limits what such releases reveal.
    is_chained : whether it belongs to a chain, which keeps its persons under a key of its own.
    normalize : how values of the entity were spelled before they were compared; None as they are.
    salt : of the record of its persons; None where it has none that counts.
    """

    release_id: str
    output: str
    entity: str | None
    is_private: bool
    is_chained: bool = False
    normalize: str | None = None
    salt: str | None = None


@dataclass(frozen=True)
class SourceHistory:
    """The earlier releases of a source.

    Parameters
    ----------
    releases : oldest first.
    takes_chains : whether the database of the source can keep a chain; of a source of files, the
        database that its releases go to.
    file_url : of a source of files.
    is_lasting : False where the ledger goes with the run, so that earlier releases are not known.
    """

    releases: tuple[EarlierRelease, ...] = ()
    takes_chains: bool = True
    file_url: str | None = None
    is_lasting: bool = True

    def with_classes(self) -> tuple[EarlierRelease, ...]:
        """The releases that have classes, which can be intersected with those of another."""
        return tuple(one for one in self.releases if not one.is_private)

    def of_entity(self, entity: str) -> tuple[EarlierRelease, ...]:
        """The releases with classes whose k counted the values of this column."""
        return tuple(one for one in self.with_classes() if one.entity == entity)


NO_HISTORY = SourceHistory()


def earlier_releases(
    session: Session, source: str, state: Mapping[str, Any]
) -> tuple[EarlierRelease, ...]:
    """The releases of a source in a ledger, oldest first.

    On PostgreSQL a table is recognized by its oid, or by its name and owner: a table of another
    owner that had the name is another source.

    Parameters
    ----------
    source : its name, as reports have it.
    state : as of ``Source.state``; empty for a source in another database, which has a name alone.
    """
    if not entries.trusted(session):
        return ()
    oid, is_counted = state.get("oid"), "true"
    condition, values = "source = ?", [source]
    request = f"CAST({entries.newer(session, 'request')} AS {LONG_TEXT})"
    by_source = oid is not None and entries.newer(session, "source_oid") != "NULL"
    if by_source:
        name = parse_relation(source)
        earlier = f"SELECT e.release_id FROM ({EARLIER}) AS e"
        is_counted = f"release_id IN ({earlier} WHERE e.is_counted)"
        condition = f"release_id IN ({earlier})"
        values = [source, str(name.schema), name.name] * 2
    elif oid is not None:
        condition += f" OR {request} LIKE ?"
        values.append(f'%"oid": {int(oid)}%')
    rows = session.rows(
        "SELECT CAST(release_id AS VARCHAR(36)), output_schema, output_name, source,"
        f" CAST(arguments AS {LONG_TEXT}), {request}, {entries.newer(session, 'epsilon')},"
        f" CAST({entries.newer(session, 'chain_id')} AS VARCHAR(36)),"
        f" CASE WHEN {is_counted} THEN {entries.newer(session, 'person_salt')} END"
        f" FROM {session.ledger_name('release').quoted}"
        f" WHERE {condition} ORDER BY created_at, release_id",
        values,
    )
    return tuple(
        EarlierRelease(
            str(release_id),
            str(RelationName(schema, name)),
            argument(arguments, "entity"),
            spent is not None,
            chain is not None,
            argument(arguments, "entity_normalize"),
            salt,
        )
        for release_id, schema, name, named, arguments, request, spent, chain, salt in rows
        if by_source or named == source or (oid is not None and _oid(request) == oid)
    )


# A runner writes entries: a broken one says nothing, and stops nobody's release.


def argument(arguments: Any, name: str) -> str | None:
    """A text among the arguments of an entry; None where it has none of this name."""
    with suppress(*MISSHAPEN):
        value = entries.parsed(arguments).get(name)
        return value if isinstance(value, str) else None
    return None


def _oid(request: Any) -> Any:
    with suppress(*MISSHAPEN):
        return json.loads(request)["source"]["oid"]
    return None
