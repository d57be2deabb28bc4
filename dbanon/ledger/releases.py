"""Releases in the ledger of a database: what became of each, all of one, and taking one away.

Where a release may go is asked before anything is read.

The ledger's entries stay whatever happens to a relation. What became of a release is not written
down: it is looked at, so that it is true also where somebody else dropped or renamed a relation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dbanon.data.frozen import dataclass
from dbanon.errors import (
    InsufficientRights,
    InvalidName,
    OutputExists,
    OutputNotOurs,
    ReleaseNotFound,
)
from dbanon.ledger import entries
from dbanon.ledger import postgresql_releases as by_number
from dbanon.ledger.entry_checks import MISSHAPEN, reading_entry
from dbanon.ledger.entry_of import published_by_us
from dbanon.ledger.postgresql import INTERNAL_VIEW
from dbanon.ledger.recorded import rows_of_release
from dbanon.ledger.release_tables import RELEASE_ID, table_of
from dbanon.ledger.tables import INTERNAL_TABLE, LONG_TEXT, as_text
from dbanon.sessions.base import MARK, ExistingRelation, Output
from dbanon.sessions.names import RelationName, check_length, parse_relation
from dbanon.sessions.session import Session

COUNTERS, DIGEST = "counters", "digest"
CURRENT, SUPERSEDED, DROPPED, UNTIED = "current", "superseded", "dropped", "untied"

_LISTED = "dbanon releases lists them."
# What an older ledger has and never used, the database's own numbers, and the arguments once more.
_NOT_SHOWN = ("class_signature", "entity_hash", "relation_oid", "output_oid", "owner_oid",
              "publisher_oid", "ledger_oid", "request")  # fmt: skip
_OF_RUN = ("run_id", "door", "job", "started_at", "finished_at", "run_by", "application",
           "server_version")  # fmt: skip


@dataclass(frozen=True)
class Listed:
    """A release, as a list of them has it.

    Parameters
    ----------
    created_at : when it was published, as text.
    superseded : whether another release has its name since.
    output : under the name that it has now, where it is there.
    state : ``current``: its relation is there, and the one recorded; ``superseded``; ``dropped``:
        there is no such relation; ``untied``: one has its name, owner and columns, but is not the
        one recorded, as after a dump was restored: ``dbanon repair`` attaches it.
    k_requested, k_achieved, information_loss : None of a release that has no classes.
    epsilon, budget : what it spent of which; None of one that has classes.
    stale : of a current release, whether rows of its source were written since it was read; None
        where that is not known.
    stale_by : how it is known: ``counters``, which the server keeps, and which come some seconds
        late; ``digest``, where the rows were looked at.
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
    """The releases of a ledger, newest first."""
    if not entries.trusted(session):
        return []
    more = ("method", "k_requested", "k_achieved", "rows_out", "information_loss", "published_by")
    names = ("release_id", "created_at", "output_schema", "output_name", "output_kind", *more)
    found = session.rows(
        f"SELECT {as_text('release', names)}, superseded_at IS NOT NULL,"
        f" {entries.newer(session, 'epsilon')}, {entries.newer(session, 'budget')}, source,"
        f" CAST({entries.newer(session, 'request')} AS {LONG_TEXT})"
        f" FROM {session.ledger_name('release').quoted} ORDER BY created_at DESC, release_id"
    )
    existing: dict[RelationName, ExistingRelation | None] = {}
    states = by_number.states_of(session) if by_number.has_numbers(session) else {}
    releases = []
    for release_id, created_at, schema, output, kind, *told in found:
        *counts, by, old, epsilon, budget, source, request = told
        name = RelationName(schema, output)
        if release_id in states:
            state, name = states[release_id]
        else:
            if name not in existing:
                existing[name] = session.find_existing(name)
            state = _state(session, name, existing[name], release_id, kind, by, bool(old))
        with reading_entry(name):
            spent = None if epsilon is None else float(epsilon)
        stale = None
        if state == CURRENT and request is not None:
            stale = _counters_differ(session, request, source)
        how = None if stale is None else COUNTERS
        known = (by, bool(old), state, spent, budget, stale, how)
        releases.append(Listed(*(release_id, created_at, str(name), *counts, *known)))
    return releases


def _counters_differ(session: Session, request: str, source: str) -> bool | None:
    """Whether a source was written to since its release; None where the entry does not say."""
    try:
        before = json.loads(request)["source"]
        return is_stale(before, session.state_of(parse_relation(source)))
    except (*MISSHAPEN, InvalidName):
        # Whoever may write entries could stop everybody's list.
        return None


def is_stale(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool | None:
    """Whether rows of a source were written between two states of it; None: nobody can tell."""
    if "oid" not in before or "oid" not in after:
        return None
    if before["oid"] != after["oid"]:
        return True
    if not {"writes"} <= set(before) & set(after) or before.get("since") != after.get("since"):
        return None
    if after["writes"] < before["writes"]:
        # They were set back.
        return None
    return bool(after["writes"] > before["writes"] or before.get("file") != after.get("file"))


def _state(
    session: Session,
    name: RelationName,
    existing: ExistingRelation | None,
    release_id: str,
    kind: str,
    publisher: str | None,
    superseded: bool,
) -> str:
    alike = existing is not None and (existing.mark, existing.kind) == (MARK + release_id, kind)
    # Its owner may have another name since.
    if alike and entries.entry_of(session, name, existing) == release_id:
        return CURRENT
    alike = alike and existing is not None and existing.owner in (None, publisher)
    if superseded:
        return SUPERSEDED
    return UNTIED if alike else DROPPED


def shown(session: Session, release: str, *, internal: bool = False) -> dict[str, Any]:
    """All that the ledger has of a release: its entry, its state, its columns, and its run.

    Parameters
    ----------
    release : its id, or the name of its output; the newest if several releases have that name.
    internal : True to add its exact figures, for whoever published it; None where there are none.

    Raises
    ------
    ReleaseNotFound : the ledger has none.
    """
    name = (
        None if RELEASE_ID.fullmatch(release) else session.resolve_output(parse_relation(release))
    )
    found = next(
        (
            one
            for one in list_releases(session)
            if one.release_id == release.lower()
            or (name is not None and session.same_name(parse_relation(one.output), name))
        ),
        None,
    )
    if found is None:
        raise ReleaseNotFound("The ledger of this database has no such release.", hint=_LISTED)
    id_ = found.release_id
    [entry] = rows_of_release(session, "release", id_)
    columns = rows_of_release(session, "release_column", id_)
    runs = rows_of_release(session, "run", id_)
    for column in columns:
        del column["release_id"]
    return {
        **{name: value for name, value in entry.items() if name not in _NOT_SHOWN},
        "state": found.state,
        "columns": columns,
        "run": {name: runs[0][name] for name in _OF_RUN if name in runs[0]} if runs else None,
        **({"internal": _internal_figures(session, id_)} if internal else {}),
    }


def _internal_figures(session: Session, release_id: str) -> dict[str, Any] | None:
    """The exact figures of a release; None where none are recorded that this role may read."""
    view = session.ledger_name(INTERNAL_VIEW)
    table = INTERNAL_TABLE if session.find_existing(view) is None else INTERNAL_VIEW
    relation = session.ledger_name(table)
    if session.find_existing(relation) is None:
        return None
    rows = session.rows(
        f"SELECT CAST(internal AS {LONG_TEXT}) FROM {relation.quoted}"
        " WHERE CAST(release_id AS VARCHAR(36)) = ?",
        (release_id,),
    )
    with reading_entry(f"release {release_id}"):
        return dict(entries.parsed(rows[0][0])) if rows else None


def drop(session: Session, name: RelationName) -> tuple[str, list[str]]:
    """Drop the release that has this name now: its view, its table and its summary.

    Its entry stays in the ledger, where its state is ``dropped`` then. Tables of earlier releases
    that a view showed stay, too, until they are collected. Returns its id and what was dropped.

    Raises
    ------
    ReleaseNotFound, TableNotFound : there is no such release, or its relation is not there.
    InsufficientRights : a relation is another role's, or something else depends on it.
    """
    name = session.resolve_output(name)
    entry = entries.find_release(session, name, hint=f"dbanon drops only what it made: {_LISTED}")
    output = session.find_existing(name)
    assert output is not None  # As find_release said.
    [told] = rows_of_release(session, "release", entry.release_id)
    summary = entries.summary_of(session, name, output)
    dropped = [name]
    _require_droppable(session, name, output)
    if output.kind == "view":
        released = table_of(session, name, told)
        session.drop_view(name)
        table = None if released is None else session.find_existing(released)
        if released is not None and table is not None:
            _require_droppable(session, released, table)
            session.drop_table(released)
            dropped.append(released)
    else:
        session.drop_table(name)
    if summary is not None:
        beside = entries.summary_name(name)
        _require_droppable(session, beside, summary)
        session.drop_table(beside)
        dropped.append(beside)
    return entry.release_id, [str(relation) for relation in dropped]


def _require_droppable(session: Session, name: RelationName, existing: ExistingRelation) -> None:
    if not session.may_drop(existing):
        raise InsufficientRights(
            f"{name} is not dropped: it belongs to role {existing.owner}, or something else shows"
            " it.",
            hint="Drop it as that role, and before it what depends on it.",
        )


def clear_runs(session: Session, before: str) -> int:
    """Delete what the ledger has of runs that began before a time and made no release: how many."""
    if not entries.trusted(session):
        return 0
    relation = session.ledger_name("run")
    if session.find_existing(relation) is None:
        return 0
    old = "release_id IS NULL AND started_at < ?"
    moment = [session.timestamp(before)]
    [(found,)] = session.rows(f"SELECT count(*) FROM {relation.quoted} WHERE {old}", moment)
    session.run(f"DELETE FROM {relation.quoted} WHERE {old}", moment)
    return int(found)


def exports_of(session: Session, output: str) -> list[tuple[str, int, dict[str, Any]]]:
    """Files of this role's releases of an output, the newest first: release, number, what it was.

    An output of the name may have been another role's, who could name any file: it is not asked.
    """
    if not entries.trusted(session):
        return []
    wanted = session.resolve_output(parse_relation(output))
    is_ours, parameters = published_by_us(session)
    found = session.rows(
        "SELECT output_schema, output_name, CAST(release_id AS VARCHAR(36)), arguments"
        f" FROM {session.ledger_name('release').quoted} WHERE {is_ours} ORDER BY created_at DESC",
        parameters,
    )
    with reading_entry(wanted):
        return [
            (str(release_id), number, dict(one))
            for schema, name, release_id, arguments in found
            if session.same_name(wanted, RelationName(schema, name))
            for number, one in enumerate(entries.parsed(arguments).get("exports", ()))
        ]


def plan_output(
    session: Session, name: RelationName, kind: str, if_exists: str, release_id: str,
    *, strict: bool = False,
) -> Output:  # fmt: skip
    """Check that the output may be made, before anything is read, and lock it. Nothing is changed.

    Raises
    ------
    InvalidName : the name is the ledger's.
    OutputExists : it exists already, and is not to be replaced or is of another kind.
    OutputNotOurs : it exists and is no release of the ledger, or belongs to another role.
    OutputBusy, ReadOnly : another run writes it now; nobody can write.
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
    creates_schema = session.require_schema(name, strict=strict)
    session.require_ledger_rights()
    session.lock_output(name)
    existing = session.find_existing(name)
    written = session.written_as(name, kind, release_id)
    relation = written if kind == "view" else name
    replaces = existing.kind if existing else None
    output = Output(name, relation, written, kind, release_id, replaces, creates_schema)
    if existing is None:
        return output
    if if_exists == "error":
        raise OutputExists(
            f"The output {name} exists already.",
            hint='Choose another name, or replace it: `if_exists="replace"`.',
        )
    if entries.entry_of(session, name, existing) is None:
        raise OutputNotOurs(
            f"The output {name} exists and was not made by dbanon, so it is not replaced.",
            detail="The ledger has no release that is this relation, by "
            + ("name and mark." if existing.oid is None else "its oid, owner and columns."),
            hint="Choose another name, or drop it yourself. After a dump was restored: dbanon"
            " repair.",
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
