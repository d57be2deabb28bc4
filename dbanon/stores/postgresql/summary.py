"""The summary beside a release: one row for its readers, with aggregates only.

Counts of rows below k would single out few people: they are given as a range.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dbanon.data.counts import Counts
from dbanon.data.frozen import dataclass
from dbanon.data.words import json_text
from dbanon.errors import OutputExists, OutputNotOurs, SourceChanged
from dbanon.job.job import Job
from dbanon.ledger import entries
from dbanon.release.joint import arguments_for_readers
from dbanon.release.report import Report
from dbanon.sessions.base import MARK
from dbanon.sessions.names import RelationName, check_length, parse_relation, quote
from dbanon.sessions.session import Session
from dbanon.stores.postgresql import rights
from dbanon.stores.postgresql.session import PostgresqlSession
from dbanon.stores.sql_persons import SqlWritten
from dbanon.stores.sql_target import SqlTarget

# Column and PostgreSQL type.
COLUMNS = (
    ("release_id", "uuid"),
    ("created_at", "timestamp with time zone"),
    ("dbanon_version", "text"),
    ("method", "text"),
    ("arguments", "jsonb"),
    ("quasi_identifiers", "text[]"),
    ("sensitive", "text[]"),
    ("kept", "text[]"),
    ("snapshot", "text"),
    ("rows", "bigint"),
    ("suppressed", "text"),
    ("rows_with_null", "text"),
    ("classes", "bigint"),
    ("k_requested", "integer"),
    ("k_achieved", "bigint"),
    ("median_class", "double precision"),
    ("largest_class", "bigint"),
    ("histogram", "jsonb"),
    ("information_loss", "double precision"),
    ("information_loss_before_rounding", "double precision"),
    ("column_losses", "jsonb"),
    ("highest_risk", "double precision"),
    ("guarantee", "text"),
    ("earlier_releases", "text"),
    ("evaluation", "jsonb"),
)


# Whether the rows of a table can be replaced in its place: it has these columns, its owner runs the
# release, nothing on it would run code, and no publication needs the key that it lacks.
_REPLACEABLE = """
SELECT c.relowner = (SELECT r.oid FROM pg_roles AS r WHERE r.rolname = current_user)
   AND c.relkind = 'r' AND c.relpersistence = 'p' AND c.reloftype = 0 AND NOT c.relrowsecurity
   AND NOT EXISTS (SELECT FROM pg_inherits AS i WHERE c.oid IN (i.inhrelid, i.inhparent))
   AND NOT EXISTS (SELECT FROM pg_rewrite AS w WHERE w.ev_class = c.oid)
   AND NOT EXISTS (SELECT FROM pg_trigger AS t WHERE t.tgrelid = c.oid)
   AND NOT EXISTS (SELECT FROM pg_constraint AS k WHERE k.conrelid = c.oid)
   AND NOT EXISTS (SELECT FROM pg_index AS i WHERE i.indrelid = c.oid)
   AND NOT EXISTS (SELECT FROM pg_attrdef AS d WHERE d.adrelid = c.oid)
   AND NOT EXISTS (SELECT FROM pg_publication_tables AS p
                   WHERE p.schemaname = n.nspname AND p.tablename = c.relname)
   AND (SELECT array_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
                         ORDER BY a.attnum)
        FROM pg_attribute AS a
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
          AND a.attidentity = '') = ?::text[]
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = ?::name AND c.relname = ?::name"""


@dataclass(frozen=True)
class PlannedSummary:
    """Where the summary of a release goes.

    Parameters
    ----------
    name : of its table.
    replaces_rows : True where the table stays, and its row is replaced.
    grants : statements that give others the rights that they had on a table that is dropped; None
        if there was no table.
    """

    name: RelationName
    replaces_rows: bool = False
    grants: tuple[str, ...] | None = None


@dataclass(frozen=True)
class SummarizedTarget(SqlTarget):
    """A database whose releases have a summary beside them.

    Parameters
    ----------
    summary : its table, as ``plan`` checked it.
    """

    session: PostgresqlSession
    summary: PlannedSummary

    def publish(self, written: SqlWritten, report: Report, counts: Counts, elapsed: float) -> str:
        """Put the table in its place, with its summary; raises as ``ports.Target``."""
        noted = super().publish(written, report, counts, elapsed)
        histogram = counts.rows.histogram
        write(self.session, self.summary, report.made(created_at=noted), histogram)
        return noted


def plan(session: PostgresqlSession, output: RelationName, if_exists: str) -> PlannedSummary:
    """The summary's place, checked before anything is read.

    Raises
    ------
    OutputExists, OutputNotOurs : a relation of this name stands in the way.
    """
    output = session.resolve_output(output)
    if if_exists == "error" and session.find_existing(output) is not None:
        raise OutputExists(
            f"The output {output} exists already.",
            hint='Choose another name, or replace it: `if_exists="replace"`.',
        )
    name = entries.summary_name(output)
    check_length(name.name, session.name_limit, "name of the summary")
    existing = session.find_existing(name)
    if existing is None:
        return PlannedSummary(name)
    if if_exists == "error":
        raise OutputExists(
            f"The summary {name} exists already.",
            hint='Choose another output, or replace it: `if_exists="replace"`.',
        )
    if not entries.is_summary_of(session, output, existing, session.find_existing(output)):
        raise OutputNotOurs(
            f"The summary's name {name} is taken by a relation that dbanon did not make.",
            hint="Choose another output, or drop it yourself.",
        )
    columns = [f"{column} {sql_type}" for column, sql_type in COLUMNS]
    if session.rows(_REPLACEABLE, (columns, name.schema, name.name)) == [(True,)]:
        # There is no trigger. A role with that right could make one until the table is locked, and
        # a snapshot may not show it: it is disabled, whoever sees it.
        session.run_with_output(f"ALTER TABLE {name.quoted} DISABLE TRIGGER USER")
        return PlannedSummary(name, replaces_rows=True)
    session.run_with_output(f"DROP TABLE {name.quoted}")
    return PlannedSummary(
        name, grants=rights.grants_of(session, name, {column for column, _ in COLUMNS})
    )


def target_beside(session: Session, job: Job) -> SqlTarget:
    """Where a client writes a job's release: with a summary, where it replaces one that has one.

    Releases that SQL functions made have one, and its figures must be those of the new rows.
    """
    if isinstance(session, PostgresqlSession) and job.if_exists == "replace":
        output = session.resolve_output(parse_relation(job.output))
        existing = session.find_existing(output)
        if (
            existing is not None
            and entries.summary_of(session, output, existing) is not None
            and entries.entry_of(session, output, existing) is not None
        ):
            return SummarizedTarget(session, plan(session, output, job.if_exists))
    return SqlTarget(session)


def _create(session: PostgresqlSession, summary: PlannedSummary) -> None:
    """Create the table of a summary; the one before was dropped with the output.

    Raises
    ------
    SourceChanged : another session made a relation of this name meanwhile.
    """
    name = summary.name
    body = ", ".join(f"{quote(column)} {sql_type}" for column, sql_type in COLUMNS)
    try:
        session.run(f"CREATE TABLE {name.quoted} ({body})")
    except OutputExists:
        # When it was looked for there was none.
        raise SourceChanged(
            f"Another session made {name} meanwhile; nothing was published.", hint="Try again."
        ) from None
    if summary.grants is not None:
        rights.restore_grants(session, name, summary.grants)


def write(
    session: PostgresqlSession,
    summary: PlannedSummary,
    report: Report,
    histogram: Mapping[int, int],
) -> None:
    """Write the summary of a release in place of the one before; raises as ``_create``."""
    name = summary.name
    if summary.replaces_rows:
        session.run(f"DELETE FROM ONLY {name.quoted}")
    else:
        _create(session, summary)
    session.run(f"COMMENT ON TABLE {name.quoted} IS '{MARK}{report.release_id}'")
    k = report.k_requested
    rarest = report.counts.verdict.rarest
    row = {
        "release_id": report.release_id,
        "created_at": report.created_at,
        "dbanon_version": report.dbanon_version,
        "method": report.method,
        "arguments": json_text(arguments_for_readers(report.arguments), sort_keys=True),
        "quasi_identifiers": list(report.quasi_identifiers),
        "sensitive": list(report.sensitive),
        "kept": list(report.kept),
        "snapshot": str(session.rows("SELECT pg_current_snapshot()::text")[0][0]),
        "rows": report.rows_out,
        "suppressed": binned(report.suppressed, k),
        "rows_with_null": binned(report.null_rows, k),
        "classes": report.classes,
        "k_requested": k,
        "k_achieved": report.k_achieved,
        "median_class": report.median_class,
        "largest_class": report.largest_class,
        "histogram": json.dumps({str(size): histogram[size] for size in sorted(histogram)}),
        "information_loss": report.information_loss,
        "information_loss_before_rounding": report.information_loss_before_rounding,
        "column_losses": json_text(
            {name: loss.released for name, loss in report.column_losses.items()}
        ),
        "highest_risk": 1 / rarest if rarest else None,
        "guarantee": report.guarantee,
        "earlier_releases": report.earlier_releases,
        "evaluation": _for_readers(report.evaluation, k),
    }
    session.insert_rows(name, list(row), [tuple(row.values())])


def _for_readers(evaluation: Mapping[str, Any] | None, k: int) -> str | None:
    """An evaluation as JSON, without a count of few, and without attacks on those it is of."""
    if evaluation is None:
        return None
    shown = {name: part for name, part in evaluation.items() if name != "attacks"}
    readable = {**shown, "suppressed": binned(evaluation["suppressed"], k)}
    return json_text(readable)


def binned(count: int, k: int) -> str:
    """A count of rows as text; one below k as a range."""
    return str(count) if count == 0 or count >= k else f"1-{k - 1}"
