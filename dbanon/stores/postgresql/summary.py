"""Write the summary of a release: a table with one row of aggregates for readers of the release.

Counts below k of rows that were suppressed or have a NULL would single out a few people, so they
are shown as ranges.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from dbanon.data.counts import Counts
from dbanon.data.frozen import dataclass
from dbanon.data.types import JsonMapping
from dbanon.data.words import json_text
from dbanon.errors import OutputExists, OutputNotOurs, SourceChanged
from dbanon.job.job import Job
from dbanon.ledger import entries
from dbanon.release.joint import arguments_for_readers
from dbanon.release.report import Report
from dbanon.sessions.base import MARK
from dbanon.sessions.names import RelationName, parse_relation, quote, require_length
from dbanon.sessions.session import Session
from dbanon.stores.postgresql import rights
from dbanon.stores.postgresql.session import PostgresqlSession
from dbanon.stores.sql_persons import StagedSqlRelease
from dbanon.stores.sql_target import SqlTarget

# Names and PostgreSQL types of the summary's columns.
COLUMNS = (
    ("release_id", "uuid"),
    ("created_at", "timestamp with time zone"),
    ("dbanon_version", "text"),
    ("method", "text"),
    ("arguments", "jsonb"),
    ("quasi_identifiers", "text[]"),
    ("sensitive", "text[]"),
    # The retained columns.
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


# Parameters: columns with their types, schema and name of a table. True if its row can be replaced
# without recreating the table: it has these columns, the current role owns it, nothing on it runs
# code, and it is not replicated, since replication would require a key.
_HAS_REPLACEABLE_ROW = """
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
    """How the table for the summary of a release will be written.

    Parameters
    ----------
    name : name of the table.
    replaces_rows : whether the table exists and is kept, and only its row is replaced.
    grants : if an existing table is dropped, the statements that restore its grants; else None.
    """

    name: RelationName
    replaces_rows: bool = False
    grants: tuple[str, ...] | None = None


@dataclass(frozen=True)
class SummarizedTarget(SqlTarget):
    """A database target that writes a summary with each release.

    Parameters
    ----------
    summary : the table for the summary, from ``plan``.
    """

    session: PostgresqlSession
    summary: PlannedSummary

    def publish(
        self, staged_release: StagedSqlRelease, report: Report, counts: Counts, elapsed: float
    ) -> str:
        """Publish the release and write its summary.

        Raises the errors of ``ports.Target.publish``.
        """
        created_at = super().publish(staged_release, report, counts, elapsed)
        # Number of classes by their size in rows; ``counts`` may also have sizes in persons.
        histogram = counts.rows.histogram
        write(self.session, self.summary, report.with_provenance(created_at=created_at), histogram)
        return created_at


def plan(session: PostgresqlSession, output: RelationName, if_exists: str) -> PlannedSummary:
    """Plan how to write the summary, before any row is read.

    Parameters
    ----------
    output : the name of the release.
    if_exists : ``error`` or ``replace``, what to do if the output or its summary exists.

    Raises
    ------
    OutputExists, OutputNotOurs : a relation with this name exists and cannot be replaced.
    """
    output = session.catalog.resolve_output(output)
    if if_exists == "error" and session.catalog.find_existing(output) is not None:
        raise OutputExists(
            f"The output {output} already exists.",
            hint='Choose another name, or replace it: `if_exists="replace"`.',
        )
    name = entries.summary_name(output)
    require_length(name.name, session.dialect.name_limit, "name of the summary")
    existing = session.catalog.find_existing(name)
    if existing is None:
        return PlannedSummary(name)
    if if_exists == "error":
        raise OutputExists(
            f"The summary {name} already exists.",
            hint='Choose another output, or replace it: `if_exists="replace"`.',
        )
    if not entries.is_summary_of(session, output, existing, session.catalog.find_existing(output)):
        raise OutputNotOurs(
            f"The summary's name {name} is taken by a table or view that dbanon did not make.",
            hint=f"Choose another output, or drop or rename {name} yourself.",
        )
    columns = [f"{column} {sql_type}" for column, sql_type in COLUMNS]
    if session.rows(_HAS_REPLACEABLE_ROW, (columns, name.schema, name.name)) == [(True,)]:
        # The table has no trigger now. But another role could create one before the table is
        # locked, and this snapshot would not show it. So disable all triggers.
        session.publication.defer(f"ALTER TABLE {name.quoted} DISABLE TRIGGER USER")
        return PlannedSummary(name, replaces_rows=True)
    session.publication.defer(f"DROP TABLE {name.quoted}")
    return PlannedSummary(
        name, grants=rights.read_grants(session.connection, name, {column for column, _ in COLUMNS})
    )


def target_with_summary(session: Session, job: Job) -> SqlTarget:
    """Return the target of a job that replaces a release; it renews the summary if there is one.

    Releases made by SQL functions have summaries, which must match the new rows.
    """
    if isinstance(session, PostgresqlSession):
        output = session.catalog.resolve_output(parse_relation(job.output))
        existing = session.catalog.find_existing(output)
        if (
            existing is not None
            and entries.find_summary(session, output, existing) is not None
            and entries.release_id_of(session, output, existing) is not None
        ):
            return SummarizedTarget(session, plan(session, output, job.if_exists))
    return SqlTarget(session)


def _create(session: PostgresqlSession, summary: PlannedSummary) -> None:
    """Create the table of a summary; a previous one has been dropped at publication.

    Raises
    ------
    SourceChanged : another session created a relation with this name in the meantime.
    """
    name = summary.name
    body = ", ".join(f"{quote(column)} {sql_type}" for column, sql_type in COLUMNS)
    try:
        session.run(f"CREATE TABLE {name.quoted} ({body})")
    except OutputExists:
        # ``plan`` has found no such relation, or has arranged to drop it.
        raise SourceChanged(
            f"Another session created {name} in the meantime; nothing was published.",
            hint="Try again.",
        ) from None
    if summary.grants is not None:
        rights.restore_grants(session.connection, name, summary.grants)


def write(
    session: PostgresqlSession,
    summary: PlannedSummary,
    report: Report,
    histogram: Mapping[int, int],
) -> None:
    """Write the summary of a release, replacing the previous one.

    Parameters
    ----------
    histogram : the number of classes by their size in rows.

    Raises
    ------
    SourceChanged : another session created a relation with the summary's name in the meantime.
    """
    name = summary.name
    if summary.replaces_rows:
        session.run(f"DELETE FROM ONLY {name.quoted}")
    else:
        _create(session, summary)
    session.run(f"COMMENT ON TABLE {name.quoted} IS '{MARK}{report.release_id}'")
    k = report.k_requested
    # The smallest class or, if the classes of each attribute are counted by themselves, the number
    # of rows with the rarest combination of all attributes, which may be below ``k_achieved``.
    rarest_size = report.counts.verdict.rarest_combination_size
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
        "suppressed": binned_count(report.suppressed, k),
        "rows_with_null": binned_count(report.null_rows, k),
        "classes": report.classes,
        "k_requested": k,
        "k_achieved": report.k_achieved,
        "median_class": report.median_class,
        "largest_class": report.largest_class,
        "histogram": json.dumps({str(size): histogram[size] for size in sorted(histogram)}),
        "information_loss": report.information_loss,
        "information_loss_before_rounding": report.information_loss_before_rounding,
        # The losses of the released values, that is, after rounding.
        "column_losses": json_text(
            {name: loss.released for name, loss in report.column_losses.items()}
        ),
        "highest_risk": 1 / rarest_size if rarest_size else None,
        "guarantee": report.guarantee,
        "earlier_releases": report.earlier_releases,
        "evaluation": _readable_evaluation(report.evaluation, k),
    }
    session.connection.insert_rows(name, list(row), [tuple(row.values())])


def _readable_evaluation(evaluation: JsonMapping | None, k: int) -> str | None:
    """Return an evaluation as JSON that readers of the summary may see.

    Results of attacks are left out, and small counts are shown as ranges.
    """
    if evaluation is None:
        return None
    results = {name: result for name, result in evaluation.items() if name != "attacks"}
    results["suppressed"] = binned_count(evaluation["suppressed"], k)
    return json_text(results)


def binned_count(count: int, k: int) -> str:
    """Return a count of rows as text: as a range, such as ``1-4``, if it is below k and not 0."""
    return str(count) if count == 0 or count >= k else f"1-{k - 1}"
