"""List, describe and drop the releases of a database.

Ledger entries outlive their relations. The state of a release is looked up rather than stored, so
it is right even if a relation was dropped or renamed without dbanon.
"""

from __future__ import annotations

import json

from dbanon.data.frozen import dataclass
from dbanon.data.types import JsonMapping, JsonObject
from dbanon.errors import (
    InsufficientRights,
    InvalidName,
    ReleaseNotFound,
)
from dbanon.ledger import entries
from dbanon.ledger.entry_checks import MALFORMED_ERRORS, reading_entry
from dbanon.ledger.relation_entries import own_entries_condition
from dbanon.ledger.tables import INTERNAL_TABLE, LONG_TEXT, as_text
from dbanon.sessions.base import MARK, ExistingRelation
from dbanon.sessions.names import RelationName, parse_relation
from dbanon.sessions.session import Session

# Values of ``stale_by`` and ``state`` of a release in a list, which ``Listed`` describes.
COUNTERS, DIGEST = "counters", "digest"
CURRENT, SUPERSEDED, DROPPED, UNTIED = "current", "superseded", "dropped", "untied"

_LIST_HINT = "dbanon releases lists them."
# Columns left out of descriptions: unused ones of older ledgers, oids, and the request.
_HIDDEN_COLUMNS = (
    "class_signature",
    "entity_hash",
    "relation_oid",
    "output_oid",
    "owner_oid",
    "publisher_oid",
    "ledger_oid",
    "request",
)
# Columns of a run that are part of a description.
_RUN_COLUMNS = (
    "run_id",
    "door",
    "job",
    "started_at",
    "finished_at",
    "run_by",
    "application",
    "server_version",
)


@dataclass(frozen=True)
class Listed:
    """A release in a list of releases.

    Parameters
    ----------
    created_at : when it was published, as text.
    superseded : whether a later release took over its name.
    output : the present name of its relation or, if there is no relation, the recorded one.
    state : ``current``: the recorded relation exists; ``superseded``; ``dropped``: no such relation
        exists; ``untied``: a relation has its name, owner and columns but is not the recorded one,
        as after a restored dump; ``dbanon repair`` attaches it.
    k_requested, k_achieved, information_loss : None if the release has no classes.
    epsilon, budget : the amount spent, and the budget it was spent from; None if the release has
        classes.
    stale : for a current release, whether its source has changed since; None if unknown.
    stale_by : the evidence for ``stale``: ``counters`` of the server, which lag by some seconds, or
        a ``digest`` of the rows.
    """

    release_id: str
    created_at: str
    output: str
    method: str
    k_requested: int | None
    k_achieved: int | None
    rows_out: int
    information_loss: float | None
    published_by: str | None
    superseded: bool
    state: str
    epsilon: float | None = None
    budget: str | None = None
    stale: bool | None = None
    stale_by: str | None = None


def list_releases(session: Session) -> list[Listed]:
    """List the releases of a ledger, newest first."""
    if not entries.has_trusted_ledger(session):
        return []
    columns = (
        "release_id",
        "created_at",
        "output_schema",
        "output_name",
        "output_kind",
        "method",
        "k_requested",
        "k_achieved",
        "rows_out",
        "information_loss",
        "published_by",
    )
    rows = session.rows(
        f"SELECT {as_text('release', columns)}, superseded_at IS NOT NULL,"
        f" {entries.optional_column(session, 'epsilon')},"
        f" {entries.optional_column(session, 'budget')}, source,"
        f" CAST({entries.optional_column(session, 'request')} AS {LONG_TEXT})"
        f" FROM {session.ledger.table('release').quoted} ORDER BY created_at DESC, release_id"
    )
    existing_relations: dict[RelationName, ExistingRelation | None] = {}
    from dbanon.ledger import postgresql_releases

    # By release id; empty for ledgers that do not record the oids of relations.
    states = (
        postgresql_releases.find_states(session)
        if postgresql_releases.records_oids(session)
        else {}
    )
    releases = []
    for row in rows:
        # The row has five more values, which the next line takes.
        values = dict(zip(columns, row, strict=False))
        superseded, epsilon, budget, source, request = row[len(columns) :]
        release_id, publisher = values["release_id"], values["published_by"]
        name = RelationName(values["output_schema"], values["output_name"])
        if release_id in states:
            state, name = states[release_id]
        else:
            if name not in existing_relations:
                existing_relations[name] = session.catalog.find_existing(name)
            state = _find_state(
                session,
                name,
                existing_relations[name],
                release_id=release_id,
                kind=values["output_kind"],
                publisher=publisher,
                superseded=bool(superseded),
            )
        with reading_entry(name):
            epsilon_spent = None if epsilon is None else float(epsilon)
        stale = None
        if state == CURRENT and request is not None:
            stale = _counters_differ(session, request, source)
        releases.append(
            Listed(
                release_id=release_id,
                created_at=values["created_at"],
                output=str(name),
                method=values["method"],
                k_requested=values["k_requested"],
                k_achieved=values["k_achieved"],
                rows_out=values["rows_out"],
                information_loss=values["information_loss"],
                published_by=publisher,
                superseded=bool(superseded),
                state=state,
                epsilon=epsilon_spent,
                budget=budget,
                stale=stale,
                stale_by=None if stale is None else COUNTERS,
            )
        )
    return releases


def _counters_differ(session: Session, request: str, source: str) -> bool | None:
    """Return True if a source was written to since its release; None if that is unknown."""
    try:
        before = json.loads(request)["source"]
        return is_stale(before, session.catalog.summarize_table_state(parse_relation(source)))
    except (*MALFORMED_ERRORS, InvalidName):
        # Otherwise a malformed entry would break the list for all roles.
        return None


def is_stale(before: JsonMapping, after: JsonMapping) -> bool | None:
    """Return True if a source was written to between two of its states; None if that is unknown.

    Parameters
    ----------
    before, after : the earlier and the later state, from ``Catalog.summarize_table_state``; empty
        if unknown. Each has the ``oid`` of the table, the number of ``writes`` that the server has
        counted ``since`` a time, and a digest of the names of its data files (``file``).
    """
    if "oid" not in before or "oid" not in after:
        return None
    if before["oid"] != after["oid"]:
        return True
    if "writes" not in before or "writes" not in after or before.get("since") != after.get("since"):
        return None
    if after["writes"] < before["writes"]:
        # The counters were reset.
        return None
    return bool(after["writes"] > before["writes"] or before.get("file") != after.get("file"))


def _find_state(
    session: Session,
    name: RelationName,
    existing: ExistingRelation | None,
    release_id: str,
    kind: str,
    publisher: str | None,
    superseded: bool,
) -> str:
    """Return the state of an entry, by the relation that has its output name now.

    Parameters
    ----------
    name : the output name of the entry.
    existing : the relation that has this name now; None if there is none.
    release_id, kind, publisher, superseded : the columns of the entry.
    """
    # Whether the relation may be that of the entry: it has the entry's mark and kind.
    is_candidate = existing is not None and (existing.mark, existing.kind) == (
        MARK + release_id,
        kind,
    )
    # Ask the ledger before comparing names of owners: the owner may have been renamed.
    if is_candidate and entries.release_id_of(session, name, existing) == release_id:
        return CURRENT
    # The ledger denies it. But after a dump was restored, the relation may still be attached if its
    # owner published the entry.
    is_candidate = is_candidate and existing is not None and existing.owner in (None, publisher)
    if superseded:
        return SUPERSEDED
    return UNTIED if is_candidate else DROPPED


def describe_release(session: Session, release: str, *, internal: bool = False) -> JsonObject:
    """Return everything the ledger records about a release: entry, state, columns and run.

    Parameters
    ----------
    release : its id or the name of its output; the newest of several with that name.
    internal : True to add the exact figures, which only its publisher can read; they are None if
        there are none.

    Raises
    ------
    ReleaseNotFound : the ledger has no such release.
    """
    from dbanon.ledger.recorded_report import rows_of_release
    from dbanon.ledger.release_tables import RELEASE_ID_PATTERN

    is_id = RELEASE_ID_PATTERN.fullmatch(release) is not None
    name = None if is_id else session.catalog.resolve_output(parse_relation(release))
    listed_release = next(
        (
            listed
            for listed in list_releases(session)
            if listed.release_id == release.lower()
            or (
                name is not None
                and session.catalog.is_same_name(parse_relation(listed.output), name)
            )
        ),
        None,
    )
    if listed_release is None:
        raise ReleaseNotFound("The ledger of this database has no such release.", hint=_LIST_HINT)
    release_id = listed_release.release_id
    [entry] = rows_of_release(session, "release", release_id)
    columns = rows_of_release(session, "release_column", release_id)
    runs = rows_of_release(session, "run", release_id)
    for column in columns:
        del column["release_id"]
    return {
        **{name: value for name, value in entry.items() if name not in _HIDDEN_COLUMNS},
        "state": listed_release.state,
        "columns": columns,
        "run": {name: runs[0][name] for name in _RUN_COLUMNS if name in runs[0]} if runs else None,
        **({"internal": _internal_figures(session, release_id)} if internal else {}),
    }


def _internal_figures(session: Session, release_id: str) -> JsonObject | None:
    """Return the exact figures of a release; None if this role can read none."""
    from dbanon.ledger.postgresql import INTERNAL_VIEW

    view = session.ledger.table(INTERNAL_VIEW)
    table = INTERNAL_TABLE if session.catalog.find_existing(view) is None else INTERNAL_VIEW
    relation = session.ledger.table(table)
    if session.catalog.find_existing(relation) is None:
        return None
    rows = session.rows(
        f"SELECT CAST(internal AS {LONG_TEXT}) FROM {relation.quoted}"
        " WHERE CAST(release_id AS VARCHAR(36)) = ?",
        (release_id,),
    )
    with reading_entry(f"release {release_id}"):
        return dict(entries.parse_json(rows[0][0])) if rows else None


def drop(session: Session, name: RelationName) -> tuple[str, list[str]]:
    """Drop the release that has this name now: its view, its table and its summary.

    The entry stays in the ledger with the state ``dropped``. Tables of superseded releases also
    stay, until ``dbanon gc`` drops them. Returns the release id and the names of the dropped
    relations.

    Raises
    ------
    ReleaseNotFound, TableNotFound : there is no such release, or its relation is missing.
    InsufficientRights : a relation belongs to another role, or another object depends on it.
    """
    from dbanon.ledger.recorded_report import rows_of_release

    name = session.catalog.resolve_output(name)
    entry = entries.find_release(
        session, name, hint=f"dbanon drops only what it made: {_LIST_HINT}"
    )
    output = session.catalog.find_existing(name)
    assert output is not None  # find_release checked it.
    [row] = rows_of_release(session, "release", entry.release_id)
    summary = entries.find_summary(session, name, output)
    dropped_names = [name]
    _require_droppable(session, name, output)
    if output.kind == "view":
        from dbanon.ledger.release_tables import find_release_table

        table_name = find_release_table(session, name, row)
        session.publication.drop_view(name)
        table = None if table_name is None else session.catalog.find_existing(table_name)
        if table_name is not None and table is not None:
            _require_droppable(session, table_name, table)
            session.publication.drop_table(table_name)
            dropped_names.append(table_name)
    else:
        session.publication.drop_table(name)
    if summary is not None:
        summary_name = entries.summary_name(name)
        _require_droppable(session, summary_name, summary)
        session.publication.drop_table(summary_name)
        dropped_names.append(summary_name)
    return entry.release_id, [str(dropped_name) for dropped_name in dropped_names]


def _require_droppable(session: Session, name: RelationName, existing: ExistingRelation) -> None:
    """Check that this role may drop a relation, and that no other object depends on it.

    Raises
    ------
    InsufficientRights : it cannot be dropped.
    """
    if not session.catalog.may_drop(existing):
        raise InsufficientRights(
            f"{name} was not dropped: it belongs to role {existing.owner}, or another object"
            " depends on it.",
            hint=f"Drop it as role {existing.owner}, and first drop the views that show it.",
        )


def clear_runs(session: Session, before: str) -> int:
    """Delete the runs that began before a time and published no release; return their number.

    Parameters
    ----------
    before : the time, as text in the form of reports.
    """
    if not entries.has_trusted_ledger(session):
        return 0
    relation = session.ledger.table("run")
    if session.catalog.find_existing(relation) is None:
        return 0
    condition = "release_id IS NULL AND started_at < ?"
    parameters = [session.ledger.to_timestamp(before)]
    [(n_runs,)] = session.rows(
        f"SELECT count(*) FROM {relation.quoted} WHERE {condition}", parameters
    )
    session.run(f"DELETE FROM {relation.quoted} WHERE {condition}", parameters)
    return int(n_runs)


def list_exports(session: Session, output: str) -> list[tuple[str, int, JsonObject]]:
    """List the exported files of this role's releases of an output, newest releases first.

    Each item has the release id, the index of the file among those of its release, and the recorded
    details of the file. Entries of other roles are ignored: they could name any file.
    """
    if not entries.has_trusted_ledger(session):
        return []
    resolved = session.catalog.resolve_output(parse_relation(output))
    own_entries, parameters = own_entries_condition(session)
    rows = session.rows(
        "SELECT output_schema, output_name, CAST(release_id AS VARCHAR(36)), arguments"
        f" FROM {session.ledger.table('release').quoted} WHERE {own_entries}"
        " ORDER BY created_at DESC",
        parameters,
    )
    with reading_entry(resolved):
        return [
            (str(release_id), index, dict(export))
            for schema, name, release_id, arguments in rows
            if session.catalog.is_same_name(resolved, RelationName(schema, name))
            for index, export in enumerate(entries.parse_json(arguments).get("exports", ()))
        ]
