"""Write and read ledger entries: one row per release and one per released column.

A released relation has a *mark*: the comment on it, which names its release.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from dbanon.data.counts import Recount
from dbanon.data.frozen import dataclass
from dbanon.data.schema import Role
from dbanon.data.types import JsonMapping, JsonObject
from dbanon.data.words import json_text
from dbanon.errors import InsufficientRights, ReleaseNotFound, TableNotFound
from dbanon.ledger.entry_checks import parse_json as parse_json
from dbanon.ledger.entry_checks import read_entry, reading_entry
from dbanon.ledger.relation_entries import find_summary as find_summary
from dbanon.ledger.relation_entries import has_trusted_ledger as has_trusted_ledger
from dbanon.ledger.relation_entries import is_summary_of as is_summary_of
from dbanon.ledger.relation_entries import mark_names_entry
from dbanon.ledger.relation_entries import optional_column as optional_column
from dbanon.ledger.relation_entries import optional_columns as optional_columns
from dbanon.ledger.relation_entries import release_id_of as release_id_of
from dbanon.ledger.relation_entries import summary_name as summary_name
from dbanon.ledger.tables import (
    INTERNAL_COLUMNS,
    INTERNAL_TABLE,
    RELEASE_COLUMNS,
    LedgerEntry,
    LedgerRow,
)
from dbanon.release.outcome import OperatorFigures
from dbanon.release.report import Report
from dbanon.release.words import time_text
from dbanon.sessions.base import Output
from dbanon.sessions.names import RelationName
from dbanon.sessions.session import Session

if TYPE_CHECKING:
    from dbanon.sessions.store import Store

# Role of the source's columns that the release does not have.
NOT_COPIED = "not_copied"
# The role in the ledger of a design weight that is released as the mean of each class.
WEIGHT = "weight"
# Key in recorded requests for the oid of the publishing role, if roles have oids.
PUBLISHER_OID_KEY = "publisher"
# Maximum seconds to record a failed run.
_FAILURE_TIMEOUT_SECONDS = 15.0
REPAIR_HINT = (
    "Another relation took its place, or its mark was copied. After a dump was restored, or its"
    " owner changed, an administrator attaches releases to their relations again: dbanon repair."
    " After a dump dbanon upgrade does it, too."
)
_RECOUNT_HINT = "Name the quasi-identifiers and k to recount a relation that is not in it."

# Fields of ``Run`` that only runs of jobs have.
_JOB_FIELDS = ("job", "source_types", "fingerprint", "source_counts")


@dataclass(frozen=True)
class Run:
    """A run, as the ledger records it.

    Parameters
    ----------
    door : the interface that started it: ``python``, ``cli``, ``job`` or ``sql``.
    method : the name of the method that made the release.
    source, output : the names of the source and of the output.
    elapsed : its duration in seconds.
    run_id : its UUID.
    release_id : the release that it published; None if it failed.
    error_code : the code of the error that ended it; None if it succeeded.
    job : the name of the job in its file; None for a run outside of a job.
    source_types : the type of each column of the job's source; None if nothing was read.
    source_counts : counts of the job's source, such as ``persons``; None if nothing was counted.
    fingerprint : a digest of the job's input and options; None if none was computed.
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
    def job_fields(self) -> JsonObject:
        """The fields that only runs of jobs have, without those that are None."""
        fields = {name: getattr(self, name) for name in _JOB_FIELDS}
        return {name: value for name, value in fields.items() if value is not None}


def build_release_row(
    report: Report, output: RelationName, relation: RelationName, histogram: Mapping[int, int]
) -> LedgerRow:
    """Build the ledger row of a report: values by column name, with JSON as text.

    Parameters
    ----------
    output : the name of the release, under which readers find it.
    relation : the table that holds the rows. It differs from ``output`` if that is a view.
    histogram : number of classes by class size in rows.
    """
    report_values = report.to_dict()
    row: LedgerRow = {name: report_values.get(name) for name, _, _ in RELEASE_COLUMNS}
    row |= {
        "output_schema": output.schema,
        "output_name": output.name,
        "relation_name": relation.name,
        "arguments": json_text(report_values["arguments"], sort_keys=True),
        "histogram": json.dumps({str(size): count for size, count in sorted(histogram.items())}),
        "seconds": json.dumps({name: round(value, 6) for name, value in report.seconds.items()}),
        # None unless the release belongs to a chain.
        "chain_id": report.arguments.get("chain", {}).get("chain_id"),
        "chain_sequence": report.arguments.get("chain", {}).get("sequence"),
        "evaluation": None if report.evaluation is None else json_text(report_values["evaluation"]),
    }
    return row


def build_column_rows(
    report: Report, sql_types: Mapping[str, str], released_columns: Sequence[tuple[str, str]]
) -> list[LedgerRow]:
    """Build the ledger rows for a report's columns, including those that were not copied.

    Parameters
    ----------
    sql_types : the SQL type of each column; the released columns come first, in order.
    released_columns : the released quasi-identifiers, as pairs: the name in the release, and the
        name of the source column.
    """
    source_columns = dict(released_columns)
    # Pairs of column and role, in any order. They are sorted below.
    roles = (
        *((name, Role.QUASI_IDENTIFIER.value) for name, _ in released_columns),
        *((name, Role.SENSITIVE.value) for name in report.sensitive),
        *((name, Role.INSENSITIVE.value) for name in report.kept),
        *((name, WEIGHT) for name in report.averaged_weights),
        *((name, NOT_COPIED) for name in report.not_copied),
    )
    positions = {name: index for index, name in enumerate(sql_types)}

    def sort_key(name_and_role: tuple[str, str]) -> tuple[bool, int]:
        name, role = name_and_role
        return role == NOT_COPIED, positions[name]

    rows = []
    for position, (name, role) in enumerate(sorted(roles, key=sort_key)):
        loss = report.column_losses.get(source_columns.get(name, name))
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
    released_columns: Sequence[tuple[str, str]],
    run: Run,
    request: JsonMapping | None = None,
    identity: JsonMapping | None = None,
    internal: OperatorFigures | None = None,
) -> str:
    """Write a release and its run into the ledger, and return the recorded time.

    This supersedes the previous release of the same output.

    Parameters
    ----------
    output : the names of the release and of the table that holds its rows.
    recount : the class sizes that were counted in the written release.
    sql_types : the SQL type of each column; the released columns come first, in order.
    released_columns : the released quasi-identifiers, as pairs: the name in the release, and the
        name of the source column.
    request : the options from which the release can be repeated; None if it cannot be repeated.
    identity : values of the ledger columns that identify the source relation, and the salt of the
        hashes under which the ledger records the persons of the release.
    internal : exact figures, which are meant for the publisher; None if the originals are not in
        the ledger's database.
    """
    row = build_release_row(report, output.name, output.relation, recount.histogram)
    request_text = json_text(request, sort_keys=True)
    row["request"] = None if request is None else request_text
    row |= identity or {}
    if internal is not None:
        row["internal"] = json_text(internal.to_ledger(), sort_keys=True)
    return record_row(
        session, row, build_column_rows(report, sql_types, released_columns), output, run
    )


def record_row(
    session: Session,
    row: LedgerRow,
    columns: Sequence[LedgerRow],
    output: Output,
    run: Run,
) -> str:
    """Write a release and its run into the ledger, and return the recorded time.

    Parameters
    ----------
    row : the row of the release, from ``build_release_row``.
    columns : the rows of its columns, from ``build_column_rows``.
    output : the names of the release and of the table that holds its rows.
    """
    # The table that holds the rows, and the view or the same table; both have the same owner.
    for column, name in (("relation_oid", output.relation), ("output_oid", output.name)):
        existing = session.catalog.find_existing(name) if session.catalog.has_oids else None
        row[column] = existing.oid if existing else None
        row["owner_oid"] = existing.owner_oid if existing else None
    # None if the database has no function that writes with the ledger owner's rights.
    recorded_at = session.ledger.record_release_as_owner(
        row,
        columns,
        {"door": run.door, "elapsed": run.elapsed, "run_id": run.run_id, **run.job_fields},
    )
    return insert_release(session, row, columns, run) if recorded_at is None else recorded_at


def insert_release(session: Session, row: LedgerRow, columns: Sequence[LedgerRow], run: Run) -> str:
    """Write a release with this session's rights, and return the recorded time.

    Parameters
    ----------
    row : the row of the release, from ``build_release_row``, with the oids of its relations.
    columns : the rows of its columns, from ``build_column_rows``.
    """
    release_table = session.ledger.table("release")
    column_table = session.ledger.table("release_column")
    created_at = row["created_at"]
    condition, values = _output_condition(RelationName(row["output_schema"], row["output_name"]))
    # Object IDs are recorded with that of the ledger's table, which shows after a dump was restored
    # that the recorded ones are those of another database.
    role_oid = session.catalog.find_role_id()
    ledger_relation = (
        session.catalog.find_existing(release_table) if session.catalog.has_oids else None
    )
    if role_oid is not None and ledger_relation is not None:
        row |= {"publisher_oid": role_oid, "ledger_oid": ledger_relation.oid}
        # The view may have been renamed since its last release.
        condition = f"({condition} OR output_oid = ? AND ledger_oid = ?)"
        values = (*values, row["output_oid"], ledger_relation.oid)
    session.run(
        f"UPDATE {release_table.quoted} SET superseded_at = ?"
        f" WHERE superseded_at IS NULL AND {condition}",
        (session.ledger.to_timestamp(created_at), *values),
    )
    row |= {
        "published_by": session.catalog.find_current_user(),
        "created_at": session.ledger.to_timestamp(created_at),
    }
    if row.get("request") is not None and role_oid is not None:
        request = {**json.loads(row["request"]), PUBLISHER_OID_KEY: role_oid}
        row["request"] = json_text(request)
    # The exact figures have their own table: not everyone who may read the ledger may read them.
    internal = row.pop("internal", None)
    session.connection.insert_rows(release_table, list(row), [tuple(row.values())])
    if internal is not None:
        internal_rows = [(row["release_id"], internal)]
        session.connection.insert_rows(
            session.ledger.table(INTERNAL_TABLE), INTERNAL_COLUMNS, internal_rows
        )
    session.connection.insert_rows(
        column_table, list(columns[0]), [tuple(column.values()) for column in columns]
    )
    insert_run(session, replace(run, release_id=row["release_id"]))
    return str(created_at)


def insert_run(session: Session, run: Run, *, is_current: bool = True) -> None:
    """Write a run with this session's rights.

    Parameters
    ----------
    is_current : False if the ledger may be of an older version. Then leave out the values for which
        it has no column.
    """
    ended = datetime.now(timezone.utc)
    row = {
        "run_id": run.run_id,
        "release_id": run.release_id,
        "door": run.door,
        "method": run.method,
        "source": run.source,
        "output_schema": run.output.schema,
        "output_name": run.output.name,
        "started_at": session.ledger.to_timestamp(
            time_text(ended - timedelta(seconds=run.elapsed))
        ),
        "finished_at": session.ledger.to_timestamp(time_text(ended)),
        "state": "failed" if run.error_code else "done",
        "error_code": run.error_code,
        "run_by": session.catalog.find_current_user(),
    } | run.job_fields
    for name in ("source_types", "source_counts"):
        if row.get(name) is not None:
            row[name] = json_text(row[name])
    relation = session.ledger.table("run")
    if not is_current:
        ledger_columns = dict(session.catalog.list_columns(relation))
        row = {name: value for name, value in row.items() if name in ledger_columns}
    session.connection.insert_rows(relation, list(row), [tuple(row.values())])


def record_failure(store: Store, run: Run) -> None:
    """Record a failed run in a separate transaction, if there is a ledger.

    Errors of this function are suppressed, since they would hide why the run failed.
    """
    from dbanon.sessions.thread_connections import thread_connections

    if thread_connections().is_server_silent:
        # The server no longer answers: waiting for it would only delay the error of the run.
        return
    with (
        suppress(Exception),
        thread_connections().cut_new_connections_after(_FAILURE_TIMEOUT_SECONDS),
        store.session(write=True) as session,
    ):
        # False if the database has no function that writes with the ledger owner's rights.
        if has_trusted_ledger(session) and not session.ledger.record_run_as_owner(_run_fields(run)):
            # A failed run does not migrate the ledger.
            insert_run(session, run, is_current=False)


def _run_fields(run: Run) -> JsonObject:
    """Return the fields of a failed run, for the function that records it in the database."""
    fields = asdict(run) | {"output_schema": run.output.schema, "output_name": run.output.name}
    excluded = {"output", "release_id", *_JOB_FIELDS}
    return {name: fields[name] for name in fields if name not in excluded} | run.job_fields


def _output_condition(name: RelationName) -> tuple[str, tuple[str | int | None, ...]]:
    """Return an SQL condition for entries with this output name, and its parameters."""
    if name.schema is None:
        return "output_schema IS NULL AND output_name = ?", (name.name,)
    return "output_schema = ? AND output_name = ?", (name.schema, name.name)


def find_release(session: Session, name: RelationName, hint: str = _RECOUNT_HINT) -> LedgerEntry:
    """Return the entry of the release that has this name now.

    Parameters
    ----------
    hint : the hint of the error if the ledger has no such release.

    Raises
    ------
    ReleaseNotFound : the ledger has no such entry, or the relation is not the recorded one.
    TableNotFound : the relation no longer exists.
    LedgerNotTrusted : the ledger belongs to another role.
    LedgerEntryBroken : the entry is malformed.
    """
    name = session.catalog.resolve_output(name)
    message = f"The ledger of this database has no release {name}."
    if not has_trusted_ledger(session):
        raise ReleaseNotFound(message, hint=hint)
    existing = session.catalog.find_existing(name)
    try:
        release_id = release_id_of(session, name, existing)
    except InsufficientRights as error:
        raise InsufficientRights(
            "This role may not read the ledger, schema dbanon.",
            detail=error.detail,
            hint="An administrator runs: GRANT dbanon_runner TO …; Or name quasi-identifiers and"
            " k.",
        ) from None
    if release_id is None and existing is None and _has_current_entry(session, name):
        raise TableNotFound(
            f"The ledger has release {name}, but there is no table or view of this name now.",
            hint="It was dropped or renamed. dbanon releases shows the present names of all"
            " releases.",
        )
    if release_id is None and existing is not None and mark_names_entry(session, existing):
        raise ReleaseNotFound(
            f"{name} has the mark of a release, but is not the table or view that the ledger"
            " recorded.",
            hint=REPAIR_HINT,
        )
    # On databases without oids, the missing mark shows that the relation is no release.
    has_oid = existing is not None and existing.oid is not None
    if release_id is None and has_oid and _has_current_entry(session, name):
        raise ReleaseNotFound(
            f"{name} has the name of a release, but is not the table or view that the ledger"
            " recorded.",
            hint=REPAIR_HINT,
        )
    if release_id is None:
        raise ReleaseNotFound(message, hint=hint)
    return read_release(session, release_id, name)


def read_release(session: Session, release_id: str, name: RelationName) -> LedgerEntry:
    """Return the entry of the release with this id.

    Parameters
    ----------
    name : the name of its output.

    Raises
    ------
    LedgerEntryBroken : the entry is malformed.
    """
    # The caller found the id in the ledger, where it is the primary key. So there is a row, and it
    # is the only one.
    row = session.rows(
        "SELECT k_requested, histogram, guarantee, arguments, rows_out,"
        f" {optional_column(session, 'epsilon')}"
        f" FROM {session.ledger.table('release').quoted}"
        " WHERE CAST(release_id AS VARCHAR(36)) = ?",
        (release_id,),
    )[-1]
    columns = session.rows(
        f"SELECT name FROM {session.ledger.table('release_column').quoted}"
        " WHERE CAST(release_id AS VARCHAR(36)) = ? AND role = 'quasi_identifier'"
        " ORDER BY position",
        (release_id,),
    )
    with reading_entry(name):
        return read_entry(release_id, name, row, tuple(column for (column,) in columns))


def _has_current_entry(session: Session, name: RelationName) -> bool:
    """Return True if an entry that is not superseded has an output of this name."""
    condition, values = _output_condition(name)
    release = session.ledger.table("release").quoted
    return bool(
        session.rows(
            f"SELECT count(*) FROM {release} WHERE superseded_at IS NULL AND {condition}", values
        )[0][0]
    )
