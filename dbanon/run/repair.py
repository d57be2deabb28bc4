"""Reattach releases of a PostgreSQL ledger to their relations, for example after a restore."""

from __future__ import annotations

from collections.abc import Collection

from dbanon.data.frozen import dataclass
from dbanon.data.types import JsonMapping
from dbanon.errors import DbanonError
from dbanon.ledger.postgresql_releases import (
    ATTACH_RELEASE,
    REPAIR_CANDIDATE_COLUMNS,
    REPAIR_CANDIDATES,
    records_oids,
)
from dbanon.ledger.recorded_report import released_columns
from dbanon.sessions.names import RelationName
from dbanon.stores import digest
from dbanon.stores.postgresql.session import PostgresqlSession

# The values of ``Repair.action``. ``UNCHANGED`` is about the entry; ``digest.UNCHANGED`` below is
# about the rows of the relation.
ATTACHED, RENAMED, UNCHANGED = "attached", "renamed", "left"
_OTHER_COLUMNS_REASON = "its columns are not those that were released"
# By verdict of the query ``REPAIR_CANDIDATES``: why an entry cannot be attached to a relation.
_REASON_BY_VERDICT = {
    "columns": _OTHER_COLUMNS_REASON,
    "view": "its view is another role's, or shows something else",
}


@dataclass(frozen=True)
class Repair:
    """The action taken on an entry of the ledger.

    Parameters
    ----------
    release_id : the id of the release that the entry describes.
    output : the present name of the release's output.
    action : ``attached``: the entry now refers to this relation; ``renamed``: the entry now has the
        relation's present name; ``left``: nothing was changed.
    reason : why the entry was changed, or why it was not.
    """

    release_id: str
    output: str
    action: str
    reason: str


def repair(session: PostgresqlSession, accept_owners: Collection[str] = ()) -> list[Repair]:
    """Attach ledger entries to the relations with the name, owner, columns and rows of the release.

    Parameters
    ----------
    accept_owners : roles that may own a relation although another role published the release.

    Raises
    ------
    InsufficientRights : the ledger belongs to another role.
    """
    # Without recorded OIDs, entries find their relations by name, so none needs to be attached.
    if not records_oids(session):
        return []
    repairs = []
    for row in session.rows(REPAIR_CANDIDATES):
        candidate = dict(zip(REPAIR_CANDIDATE_COLUMNS, row, strict=True))
        repairs.append(_repair_entry(session, candidate, accept_owners))
    return repairs


def _repair_entry(
    session: PostgresqlSession, candidate: JsonMapping, accept_owners: Collection[str]
) -> Repair:
    """Compare a relation with an entry of the ledger, and attach the entry to it if they match."""
    release_id = str(candidate["release_id"])
    table = RelationName(candidate["table_schema"], candidate["table_name"])
    output = RelationName(candidate["shown_schema"], candidate["shown_name"])
    # The relation whose rows readers see: the table, or the view that shows it.
    compared_relation = table if candidate["read_oid"] == candidate["table_oid"] else output
    # ``rename``, ``attach``, or a word for why neither is possible; see ``REPAIR_CANDIDATES``.
    verdict, owner = candidate["verdict"], candidate["owner"]
    refusal_reason = _REASON_BY_VERDICT.get(verdict)
    if verdict == "owner" and owner not in accept_owners:
        refusal_reason = (
            f"it belongs to role {owner}, which did not publish it: --accept-owner {owner}"
        )
    success_reason = "its owner, columns and rows are those that were released"
    # The OID shows that a renamed relation is the released one, so its rows need no comparison.
    if verdict == "rename":
        recorded_name = RelationName(candidate["output_schema"], candidate["output_name"])
        success_reason = f"its entry named it {recorded_name}"
    elif refusal_reason is None:
        try:
            with session.connection.savepoint():
                comparison = _compare_rows(
                    session, release_id, compared_relation, candidate["digest"]
                )
        except DbanonError as error:
            # Reading is refused if it would run another role's code. Continue with other entries.
            comparison, refusal_reason = None, f"its rows could not be compared: {error.message}"
        if refusal_reason is not None:
            pass
        elif comparison == digest.CHANGED:
            refusal_reason = "its rows are not those that were released"
        elif comparison is None:
            refusal_reason = _OTHER_COLUMNS_REASON
        elif comparison != digest.UNCHANGED:
            success_reason = f"rows not compared: digest {comparison}"
    if refusal_reason is not None:
        return Repair(release_id, str(output), UNCHANGED, refusal_reason)
    session.run(
        ATTACH_RELEASE,
        (
            *(candidate[name] for name in ("table_oid", "shown_oid", "owner_oid")),
            *(output.schema, output.name, table.name, release_id),
        ),
    )
    return Repair(
        release_id, str(output), RENAMED if verdict == "rename" else ATTACHED, success_reason
    )


def _compare_rows(
    session: PostgresqlSession, release_id: str, table: RelationName, recorded_digest: str | None
) -> str | None:
    """Compare the rows of a relation with a recorded digest, if there is one.

    Returns a constant of ``stores.digest``, or None if the columns differ from those released.
    """
    recorded_columns = released_columns(session, release_id)
    current_columns = session.catalog.list_columns(table)
    if recorded_digest is None:
        recorded_names = {name for name, _ in recorded_columns}
        current_names = {name for name, _ in current_columns}
        return digest.NOT_RECORDED if recorded_names == current_names else None
    if recorded_columns != current_columns:
        return None
    # Check the relation like a source: its owner may have replaced it by a view.
    session.catalog.find_source(table)
    return digest.compare(session, table, recorded_digest)
