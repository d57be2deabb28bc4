"""Plan the outputs of releases, and check their names, before any source is read."""

from __future__ import annotations

from dbanon.errors import InvalidName, OutputExists, OutputNotOurs
from dbanon.ledger import entries
from dbanon.sessions.base import Output
from dbanon.sessions.names import RelationName, require_length
from dbanon.sessions.session import Session


def plan_output(
    session: Session,
    name: RelationName,
    kind: str,
    if_exists: str,
    release_id: str,
    *,
    strict: bool = False,
) -> Output:
    """Check that the output can be created or replaced, and lock it. Nothing is written.

    Parameters
    ----------
    kind : ``view`` or ``table``, the kind of relation that readers use.
    if_exists : ``error`` or ``replace``.
    strict : True to refuse an output whose schema does not exist.

    Raises
    ------
    InvalidName : the name is reserved for the ledger.
    OutputExists : it exists and must not be replaced, or is of another kind.
    OutputNotOurs : it exists and is not a release in the ledger, or belongs to another role.
    OutputBusy : another run is writing it.
    ReadOnly : the database is read-only.
    """
    name = session.catalog.resolve_output(name)
    # This returns the beginning of the names of all ledger tables; it is empty if they have their
    # own schema.
    prefix = session.ledger.table("").name
    if name.schema == session.ledger.schema and name.name.startswith(prefix):
        raise InvalidName(
            f"The output {name} has a name that belongs to the ledger.", hint="Choose another name."
        )
    require_length(name.name, session.dialect.name_limit, "name of the output")
    if name.schema is not None:
        require_length(name.schema, session.dialect.name_limit, "schema of the output")
    creates_schema = session.catalog.must_create_schema(name, strict=strict)
    session.ledger.require_rights()
    session.publication.lock(name)
    existing = session.catalog.find_existing(name)
    # The table behind a view keeps the name under which it is written.
    staging_name = session.publication.staging_name(name, kind, release_id)
    relation = staging_name if kind == "view" else name
    output = Output(
        name=name,
        relation=relation,
        staging_name=staging_name,
        kind=kind,
        release_id=release_id,
        replaced_kind=existing.kind if existing else None,
        creates_schema=creates_schema,
    )
    if existing is None:
        return output
    if if_exists == "error":
        raise OutputExists(
            f"The output {name} already exists.",
            hint='Choose another name, or replace it: `if_exists="replace"`.',
        )
    if entries.release_id_of(session, name, existing) is None:
        raise OutputNotOurs(
            f"The output {name} exists and was not made by dbanon, so it is not replaced.",
            detail="The ledger has no release that is this relation, by "
            + ("name and mark." if existing.oid is None else "its oid, owner and columns."),
            hint="Choose another name, or drop it yourself. After a dump was restored: dbanon"
            " repair.",
        )
    if existing.kind != kind:
        raise OutputExists(
            f"The output {name} is a {existing.kind}, and a {kind} was requested.",
            hint=f"Drop the {existing.kind} yourself, or choose another name.",
        )
    if kind == "view" and existing.owner not in (None, session.catalog.find_current_user()):
        raise OutputNotOurs(
            f"The view {name} belongs to role {existing.owner}, who could point it elsewhere.",
            hint=f"Publish as role {existing.owner}, or choose another name.",
        )
    return output
