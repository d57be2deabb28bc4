"""The releases of a source that the ledger has. Readers may have kept those that were replaced."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from dbanon.data.frozen import dataclass
from dbanon.ledger import entries
from dbanon.ledger.entry_checks import MISSHAPEN
from dbanon.ledger.tables import LONG_TEXT
from dbanon.sessions.names import RelationName
from dbanon.sessions.session import Session


@dataclass(frozen=True)
class EarlierRelease:
    """A release of a source, as the ledger has it.

    Parameters
    ----------
    output : the name that it was published under.
    entity : the column whose values k counted; None for rows.
    is_private : whether it is differentially private; a budget limits what such releases reveal.
    """

    release_id: str
    output: str
    entity: str | None
    is_private: bool


@dataclass(frozen=True)
class SourceHistory:
    """The earlier releases of a source.

    Parameters
    ----------
    releases : oldest first.
    takes_chains : whether the database of the source can keep a chain.
    """

    releases: tuple[EarlierRelease, ...] = ()
    takes_chains: bool = True

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

    Parameters
    ----------
    source : its name, as reports have it.
    state : as of ``Source.state``. A table with an oid is recognized after it was renamed.
    """
    if not entries.trusted(session):
        return ()
    oid = state.get("oid")
    condition, values = "source = ?", [source]
    request = f"CAST({entries.newer(session, 'request')} AS {LONG_TEXT})"
    if oid is not None:
        condition += f" OR {request} LIKE ?"
        values.append(f'%"oid": {int(oid)}%')
    rows = session.rows(
        "SELECT CAST(release_id AS VARCHAR(36)), output_schema, output_name, source,"
        f" CAST(arguments AS {LONG_TEXT}), {request}, {entries.newer(session, 'epsilon')}"
        f" FROM {session.ledger_name('release').quoted} WHERE {condition} ORDER BY created_at",
        values,
    )
    return tuple(
        EarlierRelease(
            str(release_id), str(RelationName(schema, name)), _entity(arguments), spent is not None
        )
        for release_id, schema, name, named, arguments, request, spent in rows
        if named == source or _oid(request) == oid
    )


# A runner writes entries: a broken one says nothing, and stops nobody's release.


def _entity(arguments: Any) -> str | None:
    with suppress(*MISSHAPEN):
        entity = entries.parsed(arguments).get("entity")
        return entity if isinstance(entity, str) else None
    return None


def _oid(request: Any) -> Any:
    with suppress(*MISSHAPEN):
        return json.loads(request)["source"]["oid"]
    return None
