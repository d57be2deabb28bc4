"""Where a release may go: asked before anything is read."""

from __future__ import annotations

from dbanon.errors import InvalidName, OutputExists, OutputNotOurs
from dbanon.ledger.entries import entry_of
from dbanon.sessions.base import Output
from dbanon.sessions.names import RelationName, check_length
from dbanon.sessions.session import Session


def plan_output(
    session: Session, name: RelationName, kind: str, if_exists: str, release_id: str
) -> Output:
    """Check that the output may be made, before anything is read. Nothing is changed.

    Raises
    ------
    InvalidName : the name is the ledger's.
    OutputExists : it exists already, and is not to be replaced or is of another kind.
    OutputNotOurs : it exists and is no release of the ledger, or belongs to another role.
    """
    name = session.resolve_output(name)
    reserved = session.ledger_name("")
    if name.schema == reserved.schema and name.name.startswith(reserved.name):
        raise InvalidName(
            f"The output {name} has a name that is the ledger's.", hint="Choose another name."
        )
    check_length(name.name, session.name_limit, "name of the output")
    if name.schema is not None:
        check_length(name.schema, session.name_limit, "schema of the output")
    session.require_schema(name)
    session.require_ledger_rights()
    existing = session.find_existing(name)
    written = _released_name(name, release_id, session.name_limit)
    relation = written if kind == "view" else name
    replaces = existing.kind if existing else None
    output = Output(name, relation, written, kind, release_id, replaces)
    if existing is None:
        return output
    if if_exists == "error":
        raise OutputExists(
            f"The output {name} exists already.",
            hint='Choose another name, or replace it: `if_exists="replace"`.',
        )
    if entry_of(session, name, existing) is None:
        raise OutputNotOurs(
            f"The output {name} exists and was not made by dbanon, so it is not replaced.",
            detail="The ledger has no release that is this relation, by name and mark"
            + ("." if existing.oid is None else ", and by its oid."),
            hint="Choose another name, or drop it yourself. After a dump was restored: dbanon"
            " upgrade.",
        )
    if existing.kind != kind:
        raise OutputExists(
            f"The output {name} is a {existing.kind}, and a {kind} was asked for.",
            hint=f"Drop the {existing.kind} yourself, or choose another name.",
        )
    if kind == "view" and existing.owner not in (None, session.current_user()):
        raise OutputNotOurs(
            f"The view {name} belongs to role {existing.owner}, who could point it elsewhere.",
            hint="Publish as that role, or take the view over: ALTER VIEW … OWNER TO.",
        )
    return output


def _released_name(name: RelationName, release_id: str, limit: int | None) -> RelationName:
    """The name of a release's own table: the output's, cut where it must be, with a suffix."""
    suffix = "_r" + release_id.replace("-", "")[:12]
    start = name.name
    if limit is not None:
        start = start.encode()[: limit - len(suffix)].decode(errors="ignore")
    return name.sibling(start + suffix)
