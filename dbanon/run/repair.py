"""Reattaches releases of a PostgreSQL ledger to their relations, e.g. after a restored dump."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from dbanon.data.frozen import dataclass
from dbanon.errors import DbanonError
from dbanon.ledger.postgresql_releases import ATTACH, CANDIDATE_COLUMNS, CANDIDATES, has_oids
from dbanon.ledger.recorded_report import released_columns
from dbanon.sessions.names import RelationName
from dbanon.stores import digest
from dbanon.stores.postgresql.session import PostgresqlSession

ATTACHED, RENAMED, LEFT = "attached", "renamed", "left"
_COLUMNS = "its columns are not those that were released"
_REASONS = {"columns": _COLUMNS, "view": "its view is another role's, or shows something else"}


@dataclass(frozen=True)
class Repair:
    """The action taken on an entry of the ledger.

    Parameters
    ----------
    output : the name of the release's output, as it is now.
    action : ``attached``: the entry names this relation from now on; ``renamed``: it has the
        relation's present name; ``left``: nothing was changed.
    """

    release_id: str
    output: str
    action: str
    reason: str


def repair(session: PostgresqlSession, accept_owners: Collection[str] = ()) -> list[Repair]:
    """Attach releases to relations that have their name, owner, columns and rows.

    Parameters
    ----------
    accept_owners : other roles whose relations may be releases of those who published them.

    Raises
    ------
    InsufficientRights : the ledger belongs to another role.
    """
    if not has_oids(session):
        return []
    repairs = []
    for row in session.rows(CANDIDATES):
        candidate = dict(zip(CANDIDATE_COLUMNS, row, strict=True))
        repairs.append(_repair_entry(session, candidate, accept_owners))
    return repairs


def _repair_entry(
    session: PostgresqlSession, candidate: Mapping[str, Any], accept_owners: Collection[str]
) -> Repair:
    release_id = str(candidate["release_id"])
    table = RelationName(candidate["table_schema"], candidate["table_name"])
    output = RelationName(candidate["shown_schema"], candidate["shown_name"])
    read = table if candidate["read_oid"] == candidate["table_oid"] else output
    verdict, owner = candidate["verdict"], candidate["owner"]
    reason = _REASONS.get(verdict)
    if verdict == "owner" and owner not in accept_owners:
        reason = f"it belongs to role {owner}, which did not publish it: --accept-owner {owner}"
    done = "its owner, columns and rows are those that were released"
    if verdict == "rename":
        before = RelationName(candidate["output_schema"], candidate["output_name"])
        done = f"its entry named it {before}"
    elif reason is None:
        try:
            with session.savepoint():
                compared = _compare(session, release_id, read, candidate["digest"])
        except DbanonError as error:
            # A table that would run code fails alone and must not stop the others.
            compared, reason = None, f"its rows could not be compared: {error.message}"
        if reason is not None:
            pass
        elif compared == digest.CHANGED:
            reason = "its rows are not those that were released"
        elif compared is None:
            reason = _COLUMNS
        elif compared != digest.UNCHANGED:
            done = f"rows not compared: digest {compared}"
    if reason is not None:
        return Repair(release_id, str(output), LEFT, reason)
    session.run(
        ATTACH,
        (
            *(candidate[name] for name in ("table_oid", "shown_oid", "owner_oid")),
            *(output.schema, output.name, table.name, release_id),
        ),
    )
    return Repair(release_id, str(output), RENAMED if verdict == "rename" else ATTACHED, done)


def _compare(
    session: PostgresqlSession, release_id: str, table: RelationName, recorded: str | None
) -> str | None:
    """How the rows of a relation compare with a recorded digest; None where its columns differ."""
    then, now = released_columns(session, release_id), session.columns_of(table)
    if recorded is None:
        return digest.NOT_RECORDED if {n for n, _ in then} == {n for n, _ in now} else None
    if then != now:
        return None
    # Inspect it like a source: its owner may have replaced it.
    session.find_source(table)
    return digest.compare(session, table, recorded)
