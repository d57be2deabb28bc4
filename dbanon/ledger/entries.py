"""The ledger: one row a release, one row a column of it, kept beside the releases."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import datetime, timedelta, timezone
from typing import Any

from dbanon.data.counts import Recount
from dbanon.data.frozen import dataclass
from dbanon.data.schema import Role
from dbanon.data.words import json_text
from dbanon.errors import InsufficientRights, ReleaseNotFound, TableNotFound
from dbanon.ledger.entry_checks import parsed as parsed
from dbanon.ledger.entry_checks import read_entry, reading_entry
from dbanon.ledger.entry_of import entry_of as entry_of
from dbanon.ledger.entry_of import is_summary_of as is_summary_of
from dbanon.ledger.entry_of import names_entry
from dbanon.ledger.entry_of import newer as newer
from dbanon.ledger.entry_of import summary_name as summary_name
from dbanon.ledger.entry_of import summary_of as summary_of
from dbanon.ledger.entry_of import trusted as trusted
from dbanon.ledger.tables import (
    INTERNAL_COLUMNS,
    INTERNAL_TABLE,
    RELEASE_COLUMNS,
    LedgerEntry,
)
from dbanon.release.outcome import Internal
from dbanon.release.report import Report
from dbanon.release.words import time_text
from dbanon.sessions.base import Output
from dbanon.sessions.ending import ending
from dbanon.sessions.names import RelationName
from dbanon.sessions.session import Session
from dbanon.sessions.store import Store

NOT_COPIED = "not_copied"
# In what was asked for, the number of the role that published it, where roles have numbers.
PUBLISHER = "publisher"
# Seconds that a row on a run that failed may take.
_NOTED = 15.0
TO_REPAIR = (
    "Another relation took its place, or its mark was copied. After a dump was restored, or its"
    " owner changed, an administrator attaches releases to their relations again: dbanon repair."
    " After a dump dbanon upgrade does it, too."
)
_TO_RECOUNT = "Name the quasi-identifiers and k to recount a relation that is not in it."


# What only runs of jobs have.
_OF_JOB = ("job", "source_types", "fingerprint", "source_counts")


@dataclass(frozen=True)
class Run:
    """A run of a job, as the ledger keeps it.

    Parameters
    ----------
    door : ``python``, ``cli``, ``job`` or ``sql``.
    elapsed : seconds from its beginning until now.
    run_id : a UUID of its own.
    release_id : the release that it made; None for one that failed.
    error_code : of the error that ended it; None for one that succeeded.
    job : its name in its file; None where it is of none.
    source_types : of a job's source: the type of each column; None where nothing was read.
    source_counts : of a job's source: its ``persons``, where they were counted; None for no counts.
    fingerprint : of what a job read, and how; None where none was taken.
    """

    door: str
    method: str
    source: str
    output: RelationName
    elapsed: float
    run_id: str
    release_id: str | None = None
    error_code: str | None = None
    job: str | None = None
    source_types: Mapping[str, str] | None = None
    fingerprint: str | None = None
    source_counts: Mapping[str, int] | None = None

    @property
    def of_job(self) -> dict[str, Any]:
        """What only runs of jobs have, where they have it."""
        found = {name: getattr(self, name) for name in _OF_JOB}
        return {name: value for name, value in found.items() if value is not None}


def release_row(
    report: Report, output: RelationName, relation: RelationName, histogram: Mapping[int, int]
) -> dict[str, Any]:
    """The ledger row of a report, column by column; JSON as text."""
    plain = report.to_dict()
    row: dict[str, Any] = {name: plain.get(name) for name, _, _ in RELEASE_COLUMNS}
    row |= {
        "output_schema": output.schema,
        "output_name": output.name,
        "relation_name": relation.name,
        "arguments": json_text(plain["arguments"], sort_keys=True),
        "histogram": json.dumps({str(size): count for size, count in sorted(histogram.items())}),
        "seconds": json.dumps({name: round(value, 6) for name, value in report.seconds.items()}),
        # Of a release that belongs to a chain.
        "chain_id": report.arguments.get("chain", {}).get("chain_id"),
        "chain_sequence": report.arguments.get("chain", {}).get("sequence"),
        "evaluation": None if report.evaluation is None else json_text(plain["evaluation"]),
    }
    return row


def column_rows(
    report: Report, sql_types: Mapping[str, str], made: Sequence[tuple[str, str]]
) -> list[dict[str, Any]]:
    """The ledger rows of a report's columns, with those that were not copied.

    ``sql_types`` begins with the released columns, in their order; ``made`` are pairs of a released
    quasi-identifier and the column that it stands for.
    """
    stands_for = dict(made)
    named = (
        *((name, Role.QUASI_IDENTIFIER.value) for name, _ in made),
        *((name, Role.SENSITIVE.value) for name in report.sensitive),
        *((name, Role.INSENSITIVE.value) for name in report.kept),
        *((name, NOT_COPIED) for name in report.not_copied),
    )
    places = {name: place for place, name in enumerate(sql_types)}
    ordered = sorted(named, key=lambda column: (column[1] == NOT_COPIED, places[column[0]]))
    rows = []
    for position, (name, role) in enumerate(ordered):
        loss = report.column_losses.get(stands_for.get(name, name))
        rows.append(
            {
                "release_id": report.release_id,
                "position": position,
                "name": name,
                "role": role,
                "sql_type": sql_types[name],
                "information_loss": loss.released if loss else None,
                "information_loss_before_rounding": loss.before_rounding if loss else None,
            }
        )
    return rows


def record(
    session: Session,
    report: Report,
    output: Output,
    recount: Recount,
    sql_types: Mapping[str, str],
    made: Sequence[tuple[str, str]],
    run: Run,
    request: Mapping[str, Any] | None = None,
    identity: Mapping[str, Any] | None = None,
    internal: Internal | None = None,
) -> str:
    """Write a release and its run into the ledger; the time that it was recorded with.

    The entry of the release that had the output's name before is closed.

    Parameters
    ----------
    request : what was asked for, by which it can be made again; None where it cannot.
    identity : columns that say which relation the source is, and the salt of its persons.
    internal : exact figures; None where the originals are not in the database of the ledger.
    """
    row = release_row(report, output.name, output.relation, recount.histogram)
    asked = json_text(request, sort_keys=True)
    row["request"] = None if request is None else asked
    row |= identity or {}
    if internal is not None:
        row["internal"] = json_text(internal.to_ledger(), sort_keys=True)
    return record_row(session, row, column_rows(report, sql_types, made), output, run)


def record_row(
    session: Session,
    row: dict[str, Any],
    columns: Sequence[Mapping[str, Any]],
    output: Output,
    run: Run,
) -> str:
    """The same of the rows of the ledger that a release has, as ``release_row`` gives them."""
    for column, name in (("relation_oid", output.relation), ("output_oid", output.name)):
        found = session.find_existing(name)
        row[column] = found.oid if found else None
        row["owner_oid"] = found.owner_oid if found else None
    recorded = session.have_release_recorded(
        row, columns, {"door": run.door, "elapsed": run.elapsed, "run_id": run.run_id, **run.of_job}
    )
    return insert_release(session, row, columns, run) if recorded is None else recorded


def insert_release(
    session: Session, row: dict[str, Any], columns: Sequence[Mapping[str, Any]], run: Run
) -> str:
    """Write a release by this session's own rights; the time that it was recorded with."""
    release, column = session.ledger_name("release"), session.ledger_name("release_column")
    created_at = row["created_at"]
    where, values = _output_condition(RelationName(row["output_schema"], row["output_name"]))
    number, ledger = session.role_number(), session.find_existing(release)
    if number is not None and ledger is not None:
        row |= {"publisher_oid": number, "ledger_oid": ledger.oid}
        # A view may have had another name.
        where = f"({where} OR output_oid = ? AND ledger_oid = ?)"
        values = (*values, row["output_oid"], ledger.oid)
    session.run(
        f"UPDATE {release.quoted} SET superseded_at = ? WHERE superseded_at IS NULL AND {where}",
        (session.timestamp(created_at), *values),
    )
    row |= {
        "published_by": session.current_user(),
        "created_at": session.timestamp(created_at),
    }
    if row.get("request") is not None and number is not None:
        request = {**json.loads(row["request"]), PUBLISHER: number}
        row["request"] = json_text(request)
    internal = row.pop("internal", None)
    session.insert_rows(release, list(row), [tuple(row.values())])
    if internal is not None:
        figures = [(row["release_id"], internal)]
        session.insert_rows(session.ledger_name(INTERNAL_TABLE), INTERNAL_COLUMNS, figures)
    session.insert_rows(column, list(columns[0]), [tuple(entry.values()) for entry in columns])
    insert_run(session, replace(run, release_id=row["release_id"]))
    return str(created_at)


def insert_run(session: Session, run: Run) -> None:
    """Write a run by this session's own rights."""
    ended = datetime.now(timezone.utc)
    row = {
        "run_id": run.run_id,
        "release_id": run.release_id,
        "door": run.door,
        "method": run.method,
        "source": run.source,
        "output_schema": run.output.schema,
        "output_name": run.output.name,
        "started_at": session.timestamp(time_text(ended - timedelta(seconds=run.elapsed))),
        "finished_at": session.timestamp(time_text(ended)),
        "state": "failed" if run.error_code else "done",
        "error_code": run.error_code,
        "run_by": session.current_user(),
    } | run.of_job
    for name in ("source_types", "source_counts"):
        if row.get(name) is not None:
            row[name] = json_text(row[name])
    relation = session.ledger_name("run")
    # A run that failed brings no ledger up to date.
    known = dict(session.columns_of(relation))
    row = {name: value for name, value in row.items() if name in known}
    session.insert_rows(relation, list(row), [tuple(row.values())])


def note_failure(store: Store, run: Run) -> None:
    """Write a run that failed, in a transaction of its own, where there is a ledger to write to.

    Best effort: whatever stops it is kept silent, so that it never hides why the run failed.
    """
    if ending().silent:
        return
    with suppress(Exception), ending().at_most(_NOTED), store.session(write=True) as session:
        if trusted(session) and not session.have_run_recorded(_plain(run)):
            insert_run(session, run)


def _plain(run: Run) -> dict[str, Any]:
    """A run that made no release as plain values."""
    plain = asdict(run) | {"output_schema": run.output.schema, "output_name": run.output.name}
    left_out = {"output", "release_id", *_OF_JOB}
    return {key: plain[key] for key in plain if key not in left_out} | run.of_job


def _output_condition(name: RelationName) -> tuple[str, tuple[Any, ...]]:
    if name.schema is None:
        return "output_schema IS NULL AND output_name = ?", (name.name,)
    return "output_schema = ? AND output_name = ?", (name.schema, name.name)


def find_release(session: Session, name: RelationName, hint: str = _TO_RECOUNT) -> LedgerEntry:
    """The ledger's entry of the release that has this name now, with its quasi-identifiers.

    Raises
    ------
    ReleaseNotFound : the ledger has none, or the relation is not the one of its entry.
    TableNotFound : there is no relation of this name any more.
    LedgerNotTrusted : the ledger belongs to another role.
    LedgerEntryBroken : the entry has another shape than dbanon writes.
    """
    name = session.resolve_output(name)
    missing = f"The ledger of this database has no release {name}."
    if not trusted(session):
        raise ReleaseNotFound(missing, hint=hint)
    existing = session.find_existing(name)
    try:
        release_id = entry_of(session, name, existing)
    except InsufficientRights as error:
        raise InsufficientRights(
            "This role may not read the ledger, schema dbanon.",
            detail=error.detail,
            hint="GRANT dbanon_runner to it, or name quasi-identifiers and k.",
        ) from None
    if release_id is None and existing is None and _names_output(session, name):
        raise TableNotFound(
            f"The ledger has release {name}, but there is no such relation now.",
            hint="It was dropped or renamed. dbanon releases has the present names of all.",
        )
    if release_id is None and existing is not None and names_entry(session, existing):
        raise ReleaseNotFound(
            f"{name} bears the mark of a release, but is not the relation that the ledger"
            " recorded.",
            hint=TO_REPAIR,
        )
    has_oid = existing is not None and existing.oid is not None
    if release_id is None and has_oid and _names_output(session, name):
        raise ReleaseNotFound(
            f"{name} has the name of a release, but is not the relation that the ledger recorded.",
            hint=TO_REPAIR,
        )
    if release_id is None:
        raise ReleaseNotFound(missing, hint=hint)
    return read_release(session, release_id, name)


def read_release(session: Session, release_id: str, name: RelationName) -> LedgerEntry:
    """The ledger's entry of a release by its id, with its quasi-identifiers.

    Parameters
    ----------
    name : of its output.

    Raises
    ------
    LedgerEntryBroken : the entry has another shape than dbanon writes.
    """
    row = session.rows(
        "SELECT k_requested, histogram, guarantee, arguments, rows_out,"
        f" {newer(session, 'epsilon')}"
        f" FROM {session.ledger_name('release').quoted}"
        " WHERE CAST(release_id AS VARCHAR(36)) = ?",
        (release_id,),
    )[-1]
    columns = session.rows(
        f"SELECT name FROM {session.ledger_name('release_column').quoted}"
        " WHERE CAST(release_id AS VARCHAR(36)) = ? AND role = 'quasi_identifier'"
        " ORDER BY position",
        (release_id,),
    )
    with reading_entry(name):
        return read_entry(release_id, name, row, tuple(column for (column,) in columns))


def _names_output(session: Session, name: RelationName) -> bool:
    where, values = _output_condition(name)
    release = session.ledger_name("release").quoted
    return bool(
        session.rows(
            f"SELECT count(*) FROM {release} WHERE superseded_at IS NULL AND {where}", values
        )[0][0]
    )
