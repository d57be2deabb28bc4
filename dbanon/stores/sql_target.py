"""A database as the target of a run: staging, writing, counting and publishing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from dbanon.data.counts import CountRequests, Counts, JointHistories, Recount
from dbanon.data.frozen import dataclass
from dbanon.data.schema import Attribute
from dbanon.errors import InvalidParameter, OutputExists, SourceChanged
from dbanon.job.job import Job, SourceRequest
from dbanon.job.private import PrivateJob
from dbanon.job.pseudonym import pseudonymous
from dbanon.ledger import entries, job_history, person_record
from dbanon.ledger.releases import plan_output
from dbanon.ledger.source_history import EarlierRelease, SourceHistory, earlier_releases
from dbanon.recoding import ReleasedColumn
from dbanon.release.attribute_disclosure import DisclosiveColumn, all_different, sample_size
from dbanon.release.homogeneity import ClassHomogeneity
from dbanon.release.linkage import MOST_MEMBERS
from dbanon.release.outcome import OperatorFigures
from dbanon.release.report import Report
from dbanon.sessions import recount_statements, statements
from dbanon.sessions.base import Output, Relation, passthrough_refused
from dbanon.sessions.names import RelationName, check_length, parse_relation, quote
from dbanon.sessions.session import Session
from dbanon.stores import digest
from dbanon.stores.copied_rows import copied_columns, copied_rows, person_column
from dbanon.stores.ports import (
    LastCounts,
    PreparedRelease,
    Progress,
    Source,
    SourceCounts,
    request_of,
)
from dbanon.stores.sql_counts import cells_of, count_classes, count_sets
from dbanon.stores.sql_persons import StagedSqlRelease, persons_of, stage_release_persons
from dbanon.stores.sql_source import SqlSource


@dataclass(frozen=True)
class SqlTarget:
    """A target that writes in one transaction on a database."""

    session: Session

    def plan(self, job: Job, release_id: str) -> Output:
        """Plan the output; raises as ``plan_output``."""
        name = parse_relation(job.output)
        if job.output_kind == "view":
            self.session.require_columns_of_views(job.named)
        strict, kind = job.policy.strict, job.output_kind
        return plan_output(self.session, name, kind, job.if_exists, release_id, strict=strict)

    def earlier(
        self, source: Source, relation: Relation, state: Mapping[str, Any]
    ) -> SourceHistory:
        """The releases of a relation that the ledger records."""
        copied = self.copies_from(source)
        releases = earlier_releases(self.session, str(relation.name), {} if copied else state)
        reads = source.session if isinstance(source, SqlSource) else self.session
        chain_session = reads if reads.file_url is None else self.session
        supports_chains, is_persistent = (
            "chains" not in chain_session.unsupported_features,
            self.session.is_persistent,
        )
        return SourceHistory(releases, supports_chains, reads.file_url, is_persistent)

    def last_types(self, job: SourceRequest, source: RelationName) -> Mapping[str, str]:
        """The source's column types at the job's last release; empty without one."""
        if job.name is None:
            return {}
        last_release = job_history.last_release(self.session, job.name)
        return (
            {}
            if last_release is None or last_release.source != str(source)
            else last_release.source_types
        )

    def last_counts(
        self, job: Job, source: RelationName, output: RelationName
    ) -> LastCounts | None:
        """The counts of the job's last release of this source and output; None without one."""
        if job.name is None:
            return None
        last = job_history.last_release_counts(self.session, job.name, str(source), output)
        return None if last is None else LastCounts(last[0], SourceCounts(last[1]))

    def require_ranges(self, attribute: Attribute) -> None:
        """Check that this database has a range type for the column's values."""
        self.session.range_type(attribute)

    def copies_from(self, source: Source) -> bool:
        """Whether the source is another transaction."""
        return not (isinstance(source, SqlSource) and source.session is self.session)

    def require_passthrough(
        self, source: Source, relation: Relation, columns: Sequence[Attribute]
    ) -> None:
        """Check that the source is this database, and supports passthrough; raises as ``ports``."""
        if self.copies_from(source):
            raise passthrough_refused()
        self.session.require_passthrough(relation, columns)

    def require_type(self, attribute: Attribute) -> None:
        """Check that this database has a type for a copied column."""
        self.session.type_of(attribute)

    # -- writing ----------------------------------------------------------------------------------

    def write(self, draft: PreparedRelease, source: Source, progress: Progress) -> StagedSqlRelease:
        """Write a release with one join of staged values to the source, or to staged rows."""
        session, copied = self.session, self.copies_from(source)
        session.make_schema(draft.output.name)
        partition = draft.release.partition
        columns = [self.with_sql_type(column, copied) for column in draft.release.columns]
        if copied:
            attributes = copied_columns(draft)
            rows = copied_rows(
                session, draft, source, attributes, lambda share: progress(0.3 * share)
            )
            session.load_rows([*attributes, *person_column(draft)], rows)
            session.stage_classes(partition, columns)
        elif draft.roles.passthrough is None:
            if draft.pseudonym_key is not None:
                session.stage_key(*draft.pseudonym_key.blocks())
            session.stage(draft.relation, draft.microdata, partition, columns)
        progress(0.3)
        salt = None if copied else self._person_salt(draft)
        written = StagedSqlRelease(draft, tuple(self.columns(draft, columns, copied)), copied, salt)
        reads_from = None if copied else draft.relation
        column_types = [(name, sql_type) for name, sql_type, _ in written.columns]
        session.create_released(draft.output, column_types, draft.output.release_id)
        if draft.roles.passthrough is not None:
            passthrough = written.retained
            of_classes = [column for column in written.columns if column[0] not in passthrough]
            session.insert_passthrough(
                written.relation, of_classes, columns, passthrough, draft.microdata, partition
            )
        else:
            values = {name: expression for name, _, expression in written.columns}
            session.insert(written.relation, values, reads_from, written.retained)
        session.analyze(written.relation)
        return written

    def _person_salt(self, draft: PreparedRelease) -> str | None:
        """The salt of the persons' record; None if k counts rows, or a chain records persons."""
        job = draft.job
        if not draft.roles.persons or job.chain is not None:
            return None
        earlier = earlier_releases(self.session, str(draft.relation.name), draft.state)
        history = SourceHistory(earlier).releases_of_entity(str(job.entity))
        return person_record.choose_salt(
            [release for release in history if release.normalize == job.entity_normalize]
        )

    def with_sql_type(self, column: ReleasedColumn, copied: bool) -> ReleasedColumn:
        """Set the column's SQL type in the release."""
        attribute = column.attribute
        if column.upper is not None:
            range_type = self.session.range_type(attribute, (column.values, column.upper))
            attribute = replace(attribute, sql_type=range_type)
        elif copied or not attribute.sql_type:
            attribute = replace(attribute, sql_type=self.session.type_of(attribute))
        return replace(column, attribute=attribute)

    def columns(
        self, draft: PreparedRelease, columns: Sequence[ReleasedColumn], copied: bool
    ) -> list[tuple[str, str, str]]:
        """The name, SQL type and SQL expression of each column, in source order.

        Raises
        ------
        InvalidParameter : two columns would have the same name.
        NameTooLong : the name of a column, such as that of a bound, is too long.
        """
        written: list[tuple[str, str, str]] = []
        recoded = {column.source for column in columns}
        # The position of each column's first part in staging.
        positions = [0, *accumulate(len(column.parts) for column in columns)][:-1]
        named = [a for a in draft.relation.schema.attributes if a.name in draft.job.named]
        retained = [attribute.name for attribute in named if attribute.name not in recoded]
        for attribute in named:
            name = attribute.name
            released_here = [
                (position, column)
                for position, column in zip(positions, columns, strict=True)
                if column.source == name
            ]
            for position, released in released_here:
                value = self.session.released_expression(position, released)
                written.append((released.attribute.name, released.attribute.sql_type, value))
            if released_here:
                continue
            if name in draft.job.pseudonyms:
                attribute = pseudonymous(attribute)
            if copied:
                column = statements.kept_column(retained.index(name))
                written.append((name, self.session.type_of(attribute), f"r.{column}"))
            elif name in draft.job.pseudonyms:
                text = self.session.text_of(draft.relation.attribute(name))
                pseudonym = self.session.pseudonym_of(text)
                written.append((name, self.session.type_of(attribute), pseudonym))
            else:
                written.append((name, attribute.sql_type, self.session.kept_value(attribute)))
        self._require_names([name for name, _, _ in written])
        return written

    def _require_names(self, names: Sequence[str]) -> None:
        for name in names:
            check_length(name, self.session.name_limit, f'column "{name}" of the release')
            if names.count(name) > 1:
                raise InvalidParameter(
                    f'The release would have two columns named "{name}".',
                    hint="Bounds of a range are released as NAME_low and NAME_high. Leave the"
                    " column of"
                    ' that name out, or choose `intervals="text"` or `intervals="midpoint"`.',
                )

    # -- counting ---------------------------------------------------------------------------------

    def count(
        self, written: StagedSqlRelease, questions: CountRequests, rows: Recount | None = None
    ) -> Counts:
        """Answer the questions with GROUP BY; pass ``rows`` if classes were counted already."""
        session, relation = self.session, written.relation
        persons = {name: persons_of(session, written, questions) for name in questions.persons}
        if written.salt is not None:
            stage_release_persons(session, written, questions)
        return Counts(
            rows or count_classes(session, relation, questions),
            persons,
            cells_of(session, written.draft.relation, relation, questions),
            also=count_sets(session, relation, questions),
        )

    def require_pseudonyms(self, source: Source) -> None:
        """Check that this database can compute keyed hashes; copied rows arrive hashed."""
        if not self.copies_from(source):
            self.session.require("pseudonyms")

    def different(self, written: StagedSqlRelease, name: str) -> tuple[int, int]:
        """Count the written rows with a value in a column, and its distinct values."""
        column = quote(name)
        [(having, values)] = self.session.rows(
            f"SELECT count({column}), count(DISTINCT {column}) FROM {written.relation.quoted}"
        )
        return int(having), int(values)

    def sampled(
        self, written: StagedSqlRelease, names: Sequence[str]
    ) -> dict[str, DisclosiveColumn]:
        """Columns of large releases that a sample of rows suffices to report."""
        draft, session = written.draft, self.session
        rows = int(draft.release.partition.sizes.sum())
        n_sampled = sample_size(rows)
        if not n_sampled or not names:
            return {}
        values = [session.compared(draft.relation.attribute(name)) for name in names]
        sample = session.sample(written.relation, n_sampled / rows)
        n_rows, *counts = session.rows(statements.different_values(sample, values))[0]
        proved = (
            all_different(name, rows, int(n_rows), int(n), int(different))
            for name, n, different in zip(names, counts[::2], counts[1::2], strict=True)
        )
        return {column.name: column for column in proved if column is not None}

    def profiles(
        self, written: StagedSqlRelease, columns: Sequence[str], name: str
    ) -> tuple[int, int]:
        """Count values that several rows share, and those with unique profiles."""
        relation = written.relation
        profile, group = (self.session.display_keys(relation, names) for names in (columns, [name]))
        query = recount_statements.unique_profiles(relation, profile, group[0], MOST_MEMBERS)
        [(several, unique)] = self.session.rows(query)
        return int(several), int(unique)

    def homogeneity(
        self, written: StagedSqlRelease, columns: Sequence[str], name: str
    ) -> ClassHomogeneity:
        """Count the classes in which all rows share one value of a column."""
        relation = written.relation
        classes, value = (self.session.display_keys(relation, names) for names in (columns, [name]))
        query = recount_statements.homogeneity(relation, classes, value[0])
        [(of_classes, of_rows, single, rows)] = self.session.rows(query)
        return ClassHomogeneity(name, int(single), int(rows), int(of_classes), int(of_rows))

    def joint_histories(
        self, written: StagedSqlRelease, earlier: Sequence[EarlierRelease], k: int
    ) -> JointHistories | None:
        """Count joint histories over this release and earlier ones, from the ledger's record.

        None if the persons of this release are not recorded.
        """
        draft = written.draft
        if written.salt is None:
            return None
        recorded = [release for release in earlier if release.salt == written.salt]
        missing = tuple(release.output for release in earlier if release not in recorded)
        if not recorded:
            return JointHistories(0, k, 0, 0, 0, missing)
        in_progress = (draft.output.release_id, written.relation, draft.relation.name)
        ids = [release.release_id for release in recorded[-person_record.MAX_COUNTED_RELEASES :]]
        counts = person_record.count_joint_histories(self.session, ids, k, in_progress)
        return replace(counts, missing=missing, older=len(recorded) - len(ids))

    def digest(self, written: StagedSqlRelease) -> str | None:
        """Compute the digest of the written rows under a new salt."""
        return digest.of_relation(self.session, written.relation)

    def released(
        self, written: StagedSqlRelease, chunk_rows: int
    ) -> tuple[tuple[Attribute, ...], Iterator[Any]]:
        """Return the written columns, and the rows in batches, in their random order.

        A batch is a list of rows, or an Arrow batch.
        """
        relation = self.session.find_source(written.relation)
        relation = self.session.locate(relation, ())
        attributes = self.session.inspect(relation, relation.schema.attributes)
        relation = relation.with_attributes(attributes)
        names = [attribute.name for attribute in attributes]
        return attributes, self.session.read_pieces(relation, names, chunk_rows)

    # -- publishing -------------------------------------------------------------------------------

    def publish(
        self, written: StagedSqlRelease, report: Report, counts: Counts, elapsed: float
    ) -> str:
        """Publish the table and record it in the ledger; raises as ``ports.Target``."""
        draft = written.draft
        self.session.swap_seconds = draft.job.swap_timeout
        released_columns = [
            (column.attribute.name, column.source) for column in draft.release.columns
        ]
        read = draft.relation.schema.attributes
        run = run_of(draft.job, elapsed, read=read, fingerprint=draft.fingerprint)
        if run.job is not None and draft.source_counts:
            run = replace(run, source_counts=dict(draft.source_counts))
        # If the rows came from elsewhere, this database has no source for a refresh to read.
        from_elsewhere = written.copied or draft.relation.name.staged is not None
        request = None if from_elsewhere else request_of(draft)
        identity: dict[str, Any] = {"person_salt": written.salt}
        if not from_elsewhere and (table := self.session.find_existing(draft.relation.name)):
            identity |= {"source_oid": table.oid, "source_owner_oid": table.owner_oid}
        # Exact figures are safe next to the originals: readers of all of it learn nothing new.
        internal = None if from_elsewhere else report.internal
        entry_parts = (
            report,
            counts.rows,
            read,
            released_columns,
            run,
            request,
            identity,
            internal,
        )
        published = publish_table(self.session, draft.job, draft.output, *entry_parts)
        if written.salt is not None:
            person_record.record_persons(self.session, report.release_id)
        return published


def publish_table(
    session: Session,
    job: Job,
    output: Output,
    report: Report,
    recount: Recount,
    read: Sequence[Attribute],
    released_columns: Sequence[tuple[str, str]],
    run: entries.Run,
    request: Mapping[str, Any] | None = None,
    identity: Mapping[str, Any] | None = None,
    internal: OperatorFigures | None = None,
) -> str:
    """Publish the written table and record it in the ledger; returns the recorded time.

    Parameters
    ----------
    read : the columns of the source.
    released_columns : pairs of a released quasi-identifier and its source column.
    request : the request, from which a refresh can run again; None if none can.
    identity : further facts about the source and its persons for the entry.
    internal : exact figures; None if the originals are not in this database.

    Raises
    ------
    OutputExists, SourceChanged : the output's name has been taken meanwhile.
    """
    types = dict(session.columns_of(output.written))
    try:
        session.publish(output, list(types))
    except OutputExists:
        if job.if_exists == "error":
            raise
        raise SourceChanged(
            f"Another session made {output.name} meanwhile; nothing was published.",
            hint="Run it again, which replaces that relation if it is a release.",
        ) from None
    session.ensure_ledger()
    # Released columns take precedence, with their current types.
    types |= {a.name: a.sql_type for a in read if a.name not in types}
    stand_for = [*released_columns, *((name, name) for name in job.by)]
    entry_parts = (types, stand_for, run, request, identity, internal)
    return entries.record(session, report, output, recount, *entry_parts)


def run_of(
    job: Job | PrivateJob,
    elapsed: float,
    error_code: str | None = None,
    read: Sequence[Attribute] = (),
    fingerprint: str | None = None,
) -> entries.Run:
    """Build the ledger's record of a run; ``elapsed`` in seconds.

    Parameters
    ----------
    read : the columns of the source, recorded for jobs from a file.

    Raises
    ------
    InvalidName : the name of the job's table or output is invalid.
    """
    table, output = str(parse_relation(job.table)), parse_relation(job.output)
    types = {a.name: a.sql_type for a in read} if job.name is not None and read else None
    return entries.Run(
        job.door,
        job.method,
        table,
        output,
        elapsed,
        job.run_id,
        None,
        error_code,
        job.name,
        types,
        fingerprint,
    )
