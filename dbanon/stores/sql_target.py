"""A database as the target of a run: staging, writing, counting and publishing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from dbanon.data.bands import CopyCoding
from dbanon.data.counts import CodedCounts, CountRequests, Counts, JointHistories, Recount
from dbanon.data.frozen import dataclass
from dbanon.data.schema import Attribute
from dbanon.data.types import JsonMapping
from dbanon.errors import InvalidParameter, OutputExists, SourceChanged
from dbanon.job.coding import coded_copy_attribute
from dbanon.job.job import Job, SourceRequest
from dbanon.job.pseudonym import pseudonym_attribute
from dbanon.ledger import entries
from dbanon.ledger.outputs import plan_output
from dbanon.ledger.source_history import EarlierRelease, SourceHistory, earlier_releases
from dbanon.recoding import ReleasedColumn
from dbanon.release.attribute_disclosure import (
    DisclosiveColumn,
    proof_sample_size,
    prove_nearly_unique,
)
from dbanon.release.homogeneity import ClassHomogeneity
from dbanon.release.linkage import MAX_GROUP_SIZE
from dbanon.release.outcome import OperatorFigures
from dbanon.release.report import Report
from dbanon.sessions import recount_statements, statements
from dbanon.sessions.base import Output, Relation, passthrough_error
from dbanon.sessions.names import RelationName, parse_relation, quote, require_length
from dbanon.sessions.session import Session
from dbanon.stores import digest
from dbanon.stores.ports import (
    LastCounts,
    PreparedRelease,
    Progress,
    Source,
    SourceCounts,
    build_request,
)
from dbanon.stores.sql_counts import (
    count_class_values,
    count_classes,
    count_homogeneous_classes,
    count_sets,
    count_values,
)
from dbanon.stores.sql_persons import (
    StagedSqlRelease,
    count_persons,
    count_tails,
    stage_release_persons,
)
from dbanon.stores.sql_source import SqlSource

if TYPE_CHECKING:
    from dbanon.job.private import PrivateJob

# The share of ``write`` that staging takes, for the progress bar.
_STAGING_SHARE = 0.3


@dataclass(frozen=True)
class SqlTarget:
    """A target that writes in one transaction on a database.

    Parameters
    ----------
    session : the transaction. If the source is in the same database, ``SqlSource`` has it, too.
    """

    session: Session

    def plan(self, job: Job, release_id: str) -> Output:
        """Plan the output after all checks that need no rows.

        Raises the same errors as ``plan_output``.
        """
        name = parse_relation(job.output)
        if job.output_kind == "view":
            self.session.dialect.require_names_allowed_in_views(job.named_columns)
        # A strict policy refuses to create a missing schema.
        strict, kind = job.policy.strict, job.output_kind
        return plan_output(self.session, name, kind, job.if_exists, release_id, strict=strict)

    def find_earlier_releases(
        self, source: Source, relation: Relation, source_state: JsonMapping
    ) -> SourceHistory:
        """Find the earlier releases of a relation in the ledger.

        Parameters
        ----------
        source_state : the result of ``Source.describe_state``, such as the table's oid.
        """
        # The state, such as the table's oid, identifies a relation in the same database only.
        comparable_state = {} if self.copies_from(source) else source_state
        releases = earlier_releases(self.session, str(relation.name), comparable_state)
        read_session = source.session if isinstance(source, SqlSource) else self.session
        # A chain is recorded in the source's database, or in the target if the source is a file.
        # ``file_url`` is None unless the session reads rows of files.
        session_that_keeps_chains = read_session if read_session.file_url is None else self.session
        supports_chains = "chains" not in session_that_keeps_chains.unsupported_features
        is_persistent = self.session.is_persistent
        return SourceHistory(releases, supports_chains, read_session.file_url, is_persistent)

    def last_types(self, job: SourceRequest, source: RelationName) -> Mapping[str, str]:
        """The source's column types at the job's last release; empty if there is none."""
        if job.name is None:
            return {}
        from dbanon.ledger import job_history

        last_release = job_history.last_release(self.session, job.name)
        return (
            {}
            if last_release is None or last_release.source != str(source)
            else last_release.source_types
        )

    def last_counts(
        self, job: Job, source: RelationName, output: RelationName
    ) -> LastCounts | None:
        """The counts of the job's last release of this source and output; None if there is none."""
        if job.name is None:
            return None
        from dbanon.ledger import job_history

        last_counts = job_history.last_release_counts(self.session, job.name, str(source), output)
        if last_counts is None:
            return None
        release_id, totals = last_counts
        return LastCounts(release_id, SourceCounts(totals))

    def require_ranges(self, attribute: Attribute) -> None:
        """Check that this database has a range type for the column's values."""
        # Raises UnsupportedType or InvalidParameter.
        self.session.dialect.range_type(attribute)

    def copies_from(self, source: Source) -> bool:
        """Whether the source is read in another transaction than this target's."""
        return not (isinstance(source, SqlSource) and source.session is self.session)

    def require_passthrough(
        self, source: Source, relation: Relation, columns: Sequence[Attribute]
    ) -> None:
        """Check that source and target are one session, which can copy columns through the client.

        The client does not parse the copied values. Raises the errors that ``ports.Target`` lists.
        """
        if self.copies_from(source):
            raise passthrough_error()
        self.session.passthrough.require(relation, columns)

    def require_type(self, attribute: Attribute) -> None:
        """Check that this database has a type for a copied column."""
        # Raises UnsupportedType.
        self.session.dialect.type_of(attribute)

    # -- writing ----------------------------------------------------------------------------------

    def write(self, draft: PreparedRelease, source: Source, progress: Progress) -> StagedSqlRelease:
        """Write a release: join staged values to the source, or to staged copies of its rows."""
        session, is_copied = self.session, self.copies_from(source)
        session.publication.ensure_schema(draft.output.name)
        partition = draft.release.partition
        columns = [self.with_sql_type(column, is_copied) for column in draft.release.class_values]
        if is_copied:
            from dbanon.stores.copied_rows import (
                find_copied_columns,
                list_person_staging_columns,
                read_copied_rows,
            )

            attributes = find_copied_columns(draft)
            rows = read_copied_rows(
                session, draft, source, attributes, lambda share: progress(_STAGING_SHARE * share)
            )
            # The staged rows contain their classes, so only the released values of the classes are
            # still to be staged.
            session.load_rows([*attributes, *list_person_staging_columns(draft)], rows)
            session.stage_classes(partition, columns)
        elif draft.roles.passthrough is None:
            if draft.pseudonym_key is not None:
                # The SQL of ``pseudonym_of`` reads this key.
                session.tags.stage_key(*draft.pseudonym_key.hmac_blocks())
            if draft.date_offsets is not None:
                assert draft.job.shift_dates is not None
                days = draft.job.shift_dates.days
                session.stage_offsets(
                    draft.relation, draft.microdata, partition, draft.date_offsets, days
                )
            # Stages the class of each row by row key, and the released values of each class.
            session.stage(draft.relation, draft.microdata, partition, columns)
        # Columns that pass through the client need no staging here.
        progress(_STAGING_SHARE)
        salt = None if is_copied else self._person_salt(draft)
        staged_release = StagedSqlRelease(
            draft, tuple(self.describe_columns(draft, columns, is_copied)), is_copied, salt
        )
        column_types = [(name, sql_type) for name, sql_type, _ in staged_release.columns]
        # The ID becomes part of a comment on the table, which marks it as a release.
        session.publication.create_table(draft.output, column_types, draft.output.release_id)
        if draft.roles.passthrough is not None:
            retained_columns = staged_release.retained_columns
            # The SQL of the recoded columns; ``columns`` has their values by class.
            recoded_columns = [
                (name, sql_type, expression)
                for name, sql_type, expression in staged_release.columns
                if name not in retained_columns
            ]
            session.passthrough.insert(
                session,
                staged_release.relation,
                recoded_columns,
                columns,
                retained_columns,
                draft.microdata,
                partition,
            )
        else:
            expressions = {name: expression for name, _, expression in staged_release.columns}
            source_relation = None if is_copied else draft.relation
            session.insert(
                staged_release.relation,
                expressions,
                source_relation,
                staged_release.retained_columns,
            )
        # Some databases plan the queries that count the rows by these statistics.
        session.analyze(staged_release.relation)
        return staged_release

    def _person_salt(self, draft: PreparedRelease) -> str | None:
        """Return the salt for hashes of the persons that the ledger will record.

        None if k counts rows, or if the job's chain already records the persons.
        """
        job = draft.job
        if not draft.roles.entity_columns or job.chain is not None:
            return None
        earlier = earlier_releases(self.session, str(draft.relation.name), draft.source_state)
        releases_of_entity = SourceHistory(earlier).releases_of_entity(str(job.entity))
        from dbanon.ledger import person_record

        # Reuse the salt of an earlier release that normalized identifiers in the same way, so that
        # the hashes of both can be compared.
        return person_record.choose_salt(
            [release for release in releases_of_entity if release.normalize == job.entity_normalize]
        )

    def with_sql_type(self, column: ReleasedColumn, is_copied: bool) -> ReleasedColumn:
        """Return the column with its SQL type in the release."""
        attribute = column.attribute
        if column.upper is not None:
            # The values are ranges: ``values`` has their lower bounds.
            range_type = self.session.dialect.range_type(attribute, (column.values, column.upper))
            attribute = replace(attribute, sql_type=range_type)
        # The attribute of another database has a type of that database.
        elif is_copied or not attribute.sql_type:
            attribute = replace(attribute, sql_type=self.session.dialect.type_of(attribute))
        return replace(column, attribute=attribute)

    def describe_columns(
        self, draft: PreparedRelease, columns: Sequence[ReleasedColumn], is_copied: bool
    ) -> list[tuple[str, str, str]]:
        """Return the name, SQL type and SQL expression of each released column, in source order.

        Parameters
        ----------
        columns : the recoded columns, with their SQL types.
        is_copied : whether retained columns come from another database and are staged row by row.

        Raises
        ------
        InvalidParameter : two columns would have the same name.
        NameTooLong : the name of a column, such as that of a bound, is too long.
        """
        release_columns: list[tuple[str, str, str]] = []
        # A quasi-identifier may be released as two bounds, whose names differ from its own.
        recoded_names = {column.quasi_identifier for column in columns}
        # The position of each column among the staged columns; a range is staged as two of them.
        positions = [0, *accumulate(len(column.written_columns) for column in columns)][:-1]
        named_attributes = [
            a for a in draft.relation.schema.attributes if a.name in draft.job.named_columns
        ]
        retained_names = [
            attribute.name for attribute in named_attributes if attribute.name not in recoded_names
        ]
        for attribute in named_attributes:
            name = attribute.name
            staged_columns = [
                (position, column)
                for position, column in zip(positions, columns, strict=True)
                if column.quasi_identifier == name
            ]
            for position, column in staged_columns:
                expression = self.session.dialect.released_expression(position, column)
                release_columns.append(
                    (column.attribute.name, column.attribute.sql_type, expression)
                )
            if staged_columns:
                continue
            if name in draft.job.pseudonyms:
                attribute = pseudonym_attribute(attribute)
            coding = draft.copy_codings.get(name)
            if coding is not None:
                attribute = coded_copy_attribute(attribute)
            if is_copied:
                staging_name = statements.retained_column_name(retained_names.index(name))
                sql_type = self.session.dialect.type_of(attribute)
                release_columns.append((name, sql_type, f"r.{staging_name}"))
            elif coding is not None:
                original = draft.relation.attribute(name)
                number = self.session.dialect.coded_number(original)
                text = self.session.dialect.text_of(original)
                value = statements.coded_value(number, text, coding)
                release_columns.append((name, self.session.dialect.type_of(attribute), value))
            elif name in draft.job.pseudonyms:
                text = self.session.dialect.text_of(draft.relation.attribute(name))
                pseudonym = self.session.tags.pseudonym_of(text)
                release_columns.append((name, self.session.dialect.type_of(attribute), pseudonym))
            elif draft.job.shift_dates is not None and name in draft.job.shift_dates.columns:
                days = statements.offset_days(draft.job.shift_dates.days)
                shifted_date = self.session.dialect.shifted_date(attribute, days)
                release_columns.append((name, attribute.sql_type, shifted_date))
            else:
                release_columns.append(
                    (name, attribute.sql_type, self.session.dialect.retained_value(attribute))
                )
        self._require_names([name for name, _, _ in release_columns])
        return release_columns

    def _require_names(self, names: Sequence[str]) -> None:
        """Check the length and uniqueness of column names.

        Raises the same errors as ``describe_columns``.
        """
        for name in names:
            require_length(name, self.session.dialect.name_limit, f'column "{name}" of the release')
            if names.count(name) > 1:
                raise InvalidParameter(
                    f'The release would have two columns named "{name}".',
                    hint="Bounds of a range are released as NAME_low and NAME_high. Leave the"
                    " column of that name out, or choose"
                    ' `intervals="text"` or `intervals="midpoint"`.',
                )

    # -- counting ---------------------------------------------------------------------------------

    def count(
        self,
        staged_release: StagedSqlRelease,
        requests: CountRequests,
        rows: Recount | None = None,
    ) -> Counts:
        """Count what ``requests`` ask for, with GROUP BY.

        Parameters
        ----------
        rows : the recount of the classes, if it was made already; None to make it here.
        """
        session, relation = self.session, staged_release.relation
        persons = {
            name: count_persons(session, staged_release, requests)
            for name in requests.entity_columns
        }
        # The persons are staged once, with the recount of the classes; other counts ask for rows.
        if staged_release.salt is not None and requests.entity_columns:
            stage_release_persons(session, staged_release, requests)
        return Counts(
            rows or count_classes(session, relation, requests),
            persons,
            count_class_values(session, staged_release.draft.relation, relation, requests),
            further_sets=count_sets(session, relation, requests),
        )

    def require_pseudonyms(self, source: Source) -> None:
        """Check that this database can compute keyed hashes.

        Copied rows need no check: dbanon replaces their identifiers before it stages them.
        """
        if not self.copies_from(source):
            self.session.require_capability("pseudonyms")

    def count_distinct(self, staged_release: StagedSqlRelease, name: str) -> tuple[int, int]:
        """Count the written rows with a non-NULL value in a column, and the distinct values."""
        column = quote(name)
        [(n_present, n_values)] = self.session.rows(
            f"SELECT count({column}), count(DISTINCT {column})"
            f" FROM {staged_release.relation.quoted}"
        )
        return int(n_present), int(n_values)

    def count_coded(
        self, staged_release: StagedSqlRelease, name: str, coding: CopyCoding
    ) -> CodedCounts:
        """Count the written values of a coded copy, and the persons or rows of its tails."""
        query = statements.count_uncoded(staged_release.relation, quote(name), coding)
        [(n_wrong,)] = self.session.rows(query)
        [value] = [expression for column, _, expression in staged_release.columns if column == name]
        tails = count_tails(self.session, staged_release, value, coding)
        return CodedCounts(int(n_wrong), tails)

    def count_wrong_dates(self, staged_release: StagedSqlRelease, source: Source) -> int:
        """Count the combinations of written dates that occur more or less often than expected."""
        from dbanon.stores.sql_date_counts import count_wrong_dates

        return count_wrong_dates(self.session, staged_release, source)

    def count_values(self, staged_release: StagedSqlRelease, name: str) -> dict[str | None, int]:
        """Count the written rows by their label in a column, with GROUP BY."""
        return count_values(self.session, staged_release.relation, name)

    def find_unique_columns_in_sample(
        self, staged_release: StagedSqlRelease, names: Sequence[str]
    ) -> dict[str, DisclosiveColumn]:
        """Find columns of large releases that a sample of rows proves to be nearly unique."""
        draft, session = staged_release.draft, self.session
        n_rows = int(draft.release.partition.sizes.sum())
        sample_size = proof_sample_size(n_rows)
        if not sample_size or not names:
            return {}
        sample = session.sample(staged_release.relation, sample_size / n_rows)
        findings = {}
        # Each batch draws a sample of its own.
        for batch in session.batch_columns([draft.relation.attribute(name) for name in names]):
            values = [session.dialect.grouping_sql(attribute) for attribute in batch]
            query = statements.count_sample_values(sample, values)
            n_sampled_rows, *counts = map(int, session.rows(query)[0])
            for attribute, n_values, n_distinct in zip(
                batch, counts[::2], counts[1::2], strict=True
            ):
                finding = prove_nearly_unique(
                    attribute.name, n_rows, n_sampled_rows, n_values, n_distinct
                )
                if finding is not None:
                    findings[attribute.name] = finding
        return findings

    def count_profiles(
        self, staged_release: StagedSqlRelease, columns: Sequence[str], name: str
    ) -> tuple[int, int]:
        """Count the values of ``name`` that several rows share, and those with a unique profile.

        The profile of a value is the multiset of combinations that its rows have in ``columns``.
        Readers who know a value's profile can find the value if no other value has this profile.
        """
        relation = staged_release.relation
        profile_expressions = self.session.catalog.columns_as_displayed(relation, columns)
        [value_expressions] = self.session.catalog.columns_as_displayed(relation, [name])
        query = recount_statements.unique_profiles(
            relation, profile_expressions, value_expressions, MAX_GROUP_SIZE
        )
        [(n_shared, n_unique)] = self.session.rows(query)
        return int(n_shared), int(n_unique)

    def count_homogeneous_classes(
        self, staged_release: StagedSqlRelease, columns: Sequence[str], name: str
    ) -> ClassHomogeneity:
        """Count the classes in which all rows share one value of a column."""
        return count_homogeneous_classes(self.session, staged_release.relation, columns, name)

    def joint_histories(
        self, staged_release: StagedSqlRelease, earlier: Sequence[EarlierRelease], k: int
    ) -> JointHistories | None:
        """Count persons by their classes in this release and in earlier ones; see ``ports.Target``.

        Returns None if the ledger does not record the persons of this release.
        """
        draft = staged_release.draft
        if staged_release.salt is None:
            return None
        # Hashes of persons can be compared only under the same salt. Other releases are reported as
        # missing, and those before the latest ``MAX_COUNTED_RELEASES`` are only counted as older.
        comparable_releases = [
            release for release in earlier if release.salt == staged_release.salt
        ]
        incomparable_outputs = tuple(
            release.output for release in earlier if release not in comparable_releases
        )
        if not comparable_releases:
            return JointHistories(
                releases=0,
                k=k,
                persons=0,
                n_below_k=0,
                n_unique=0,
                missing=incomparable_outputs,
            )
        # The release that is not in the ledger yet: its ID, its table and its source.
        in_progress = (draft.output.release_id, staged_release.relation, draft.relation.name)
        from dbanon.ledger import person_record

        ids = [
            release.release_id
            for release in comparable_releases[-person_record.MAX_COUNTED_RELEASES :]
        ]
        counts = person_record.count_joint_histories(self.session, ids, k, in_progress)
        return replace(
            counts, missing=incomparable_outputs, older=len(comparable_releases) - len(ids)
        )

    def digest(self, staged_release: StagedSqlRelease) -> str | None:
        """Compute the digest of the written rows under a new salt."""
        return digest.digest_relation(self.session, staged_release.relation)

    def read_released(
        self, staged_release: StagedSqlRelease, chunk_rows: int
    ) -> tuple[tuple[Attribute, ...], Iterator[Any]]:
        """Return the written columns, and the rows in batches, in their random order.

        A batch is a list of tuples or an Arrow record batch.
        """
        relation = self.session.catalog.find_source(staged_release.relation)
        # No key is passed, so the database chooses how to locate rows.
        relation = self.session.catalog.with_row_locator(relation, ())
        attributes = self.session.complete_attributes_from_values(
            relation, relation.schema.attributes
        )
        relation = relation.with_attributes(attributes)
        names = [attribute.name for attribute in attributes]
        return attributes, self.session.read_batches(relation, names, chunk_rows)

    # -- publishing -------------------------------------------------------------------------------

    def publish(
        self, staged_release: StagedSqlRelease, report: Report, counts: Counts, elapsed: float
    ) -> str:
        """Publish the table and record it in the ledger.

        Raises the same errors as ``ports.Target``.
        """
        draft = staged_release.draft
        # How long a database that publishes by renaming waits for readers of the replaced table.
        self.session.publication.set_swap_timeout(draft.job.swap_timeout)
        released_columns = [
            (column.attribute.name, column.quasi_identifier) for column in draft.release.columns
        ]
        source_attributes = draft.relation.schema.attributes
        run = build_run_record(
            draft.job, elapsed, source_attributes=source_attributes, fingerprint=draft.fingerprint
        )
        # The next run of the job, which is found by the job's name, compares these counts.
        if run.job is not None and draft.source_counts:
            run = replace(run, source_counts=dict(draft.source_counts))
        # A name with a staging table is that of a file.
        is_source_file = draft.relation.name.staging_table is not None
        is_source_elsewhere = staged_release.is_copied or is_source_file
        # A release can only be refreshed if its source is in this database.
        request = None if is_source_elsewhere else build_request(draft)
        identity: dict[str, object] = {"person_salt": staged_release.salt}
        if (
            self.session.catalog.has_oids
            and not is_source_elsewhere
            and (table := self.session.catalog.find_existing(draft.relation.name))
        ):
            identity |= {"source_oid": table.oid, "source_owner_oid": table.owner_oid}
        # Store exact measures only in the database of the originals: anyone who may read the
        # originals learns nothing new from the measures.
        internal = None if is_source_elsewhere else report.internal
        recorded_at = publish_table(
            self.session,
            draft.job,
            draft.output,
            report,
            counts.rows,
            source_attributes=source_attributes,
            released_columns=released_columns,
            run=run,
            request=request,
            identity=identity,
            internal=internal,
        )
        if staged_release.salt is not None:
            from dbanon.ledger import person_record

            person_record.record_persons(self.session, report.release_id)
        return recorded_at


def publish_table(
    session: Session,
    job: Job,
    output: Output,
    report: Report,
    recount: Recount,
    *,
    source_attributes: Sequence[Attribute],
    released_columns: Sequence[tuple[str, str]],
    run: entries.Run,
    request: JsonMapping | None = None,
    identity: Mapping[str, object] | None = None,
    internal: OperatorFigures | None = None,
) -> str:
    """Publish the written table and record it in the ledger; returns the recorded time.

    Parameters
    ----------
    recount : the counts of classes of the written table.
    source_attributes : the columns of the source.
    released_columns : pairs of a released quasi-identifier and its source column.
    run : the ledger's record of the run.
    request : the request with which a refresh repeats the release; None if it cannot be refreshed.
    identity : ledger columns that identify the source, and the salt of its persons.
    internal : exact measures, which only operators may see; None if the originals are not in this
        database.

    Raises
    ------
    OutputExists, SourceChanged : another session has created a relation with the output's name.
    """
    types = dict(session.catalog.list_columns(output.staging_name))
    try:
        session.publication.publish(output, list(types))
    except OutputExists:
        if job.if_exists == "error":
            raise
        raise SourceChanged(
            f"Another session has created {output.name} in the meantime; nothing was published.",
            hint="Run it again, which replaces that relation if it is a release.",
        ) from None
    session.ledger.ensure_current()
    # Record the types of released columns as in the release, and of all others as in the source.
    types |= {a.name: a.sql_type for a in source_attributes if a.name not in types}
    # Stratum columns are released unchanged.
    names_with_source = [*released_columns, *((name, name) for name in job.by)]
    return entries.record(
        session,
        report,
        output,
        recount,
        types,
        names_with_source,
        run,
        request=request,
        identity=identity,
        internal=internal,
    )


def build_run_record(
    job: Job | PrivateJob,
    elapsed: float,
    error_code: str | None = None,
    source_attributes: Sequence[Attribute] = (),
    fingerprint: str | None = None,
) -> entries.Run:
    """Build the ledger's record of a run.

    Parameters
    ----------
    elapsed : seconds since the run began.
    error_code : the code of the error with which the run failed; None if it succeeded.
    source_attributes : the columns of the source; they are recorded for jobs with a name.
    fingerprint : hash of the source rows and of the options; None if it was not computed.

    Raises
    ------
    InvalidName : the name of the job's table or output is invalid.
    """
    table, output = str(parse_relation(job.table)), parse_relation(job.output)
    types = (
        {a.name: a.sql_type for a in source_attributes}
        if job.name is not None and source_attributes
        else None
    )
    return entries.Run(
        job.door,
        job.method,
        table,
        output,
        elapsed,
        run_id=job.run_id,
        error_code=error_code,
        job=job.name,
        source_types=types,
        fingerprint=fingerprint,
    )
