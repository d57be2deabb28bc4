"""Publish a cluster's release as a table or view of PostgreSQL.

Each task copies its partition of the rows into a staging table of its own, which is called a piece.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING

from sqlalchemy import URL

from dbanon.data.schema import Attribute
from dbanon.errors import UnsupportedType, error_code
from dbanon.extensions.spark.dataframe import attribute_of
from dbanon.extensions.spark.staging import pair_released_columns, require_staged_counts
from dbanon.extensions.spark.tasks import hide_values_in_errors, translate_spark_errors
from dbanon.job.job import Job
from dbanon.ledger import entries
from dbanon.ledger.outputs import plan_output
from dbanon.ledger.source_history import SourceHistory, earlier_releases
from dbanon.release.report import Report
from dbanon.run.date_shift import warn_of_unshifted_copies
from dbanon.run.history import (
    caution_about_history,
    describe_unmeasured_histories,
    require_first_release,
    warn_of_history,
)
from dbanon.run.plan import require_types
from dbanon.run.run_with_ledger import UNRECORDED_ERRORS
from dbanon.sessions.base import Output, Relation
from dbanon.sessions.names import RelationName, parse_relation
from dbanon.stores import digest
from dbanon.stores.postgresql import pieces
from dbanon.stores.postgresql.client import PsycopgSession
from dbanon.stores.postgresql.dialect import NAME_LIMIT
from dbanon.stores.postgresql.store import PostgresqlStore
from dbanon.stores.sql_target import SqlTarget, build_run_record, publish_table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


@dataclass
class PostgresqlTarget:
    """A table or view of PostgreSQL, staged in pieces that only this role can read.

    It implements ``staging.ReleaseTarget``.

    Parameters
    ----------
    url : the database's URL, with everything that workers need to connect.
    job, release_id : the release's job and id.
    """

    url: URL
    job: Job
    release_id: str

    def prepare(self, attributes: Sequence[Attribute], relation: Relation | None) -> None:
        """Check the output and the columns' types; raises the same errors as ``plan_output``.

        Parameters
        ----------
        attributes : the columns of the source.
        relation : the source; None if it is not a table of a database, whose releases the ledger
            lists.
        """
        job, self._source_attributes = self.job, {a.name: a for a in attributes}
        # A planning session makes the checks of one that writes, but changes nothing. ``create``
        # concerns databases in files only.
        with PostgresqlStore(self.url).planning(staging=False, create=True) as session:
            if relation is not None:
                # The source's columns must have the types of the job's last release.
                last_types = SqlTarget(session).last_types(job, relation.name)
                require_types(job, relation, last_types)
            self._plan_output(session)
            if relation is not None:
                # Raises SecondRelease if k counts persons who were released before, and the job
                # does not allow independent releases.
                require_first_release(
                    job, relation.name, self._source_history(session, str(relation.name))
                )
            for name in job.named_columns:
                # Raises UnsupportedType.
                session.dialect.type_of(self._source_attributes[name])

    def _plan_output(self, session: PsycopgSession) -> Output:
        job = self.job
        name, strict = parse_relation(job.output), job.policy.strict
        return plan_output(
            session, name, job.output_kind, job.if_exists, self.release_id, strict=strict
        )

    def record_failure(self, elapsed_seconds: float, error: BaseException) -> None:
        """Record the failed run in the ledger, if there is one."""
        # Some errors are never recorded, such as those of a database that cannot be reached.
        if not isinstance(error, UNRECORDED_ERRORS):
            run = build_run_record(self.job, elapsed_seconds, error_code(error))
            entries.record_failure(PostgresqlStore(self.url), run)

    def publish(
        self, rows: DataFrame, report: Report, elapsed_seconds: Callable[[], float]
    ) -> Report:
        """Fill the pieces, gather their rows in a table, recount and publish it.

        Raises the errors of ``ReleaseTarget.publish``.
        """
        store = PostgresqlStore(self.url)
        with ExitStack() as stack:
            # While the lock is held, ``dbanon gc`` does not drop the pieces.
            stack.enter_context(store.job_lock(pieces.lock_name(self.release_id)))
            with store.session(write=True) as session:
                columns = self._column_types(session, rows)
                output = self._plan_output(session)
                with translate_spark_errors("counting the release's partitions"):
                    n_pieces = max(rows.rdd.getNumPartitions(), 1)
                piece_names = pieces.names(output.name, self.release_id, n_pieces, NAME_LIMIT)
                session.publication.ensure_schema(output.name)
                pieces.make(session.connection, piece_names, columns, self.release_id)
            # Drop the pieces whatever happens next.
            stack.callback(self._drop_pieces, store, piece_names)
            self._fill(rows, piece_names)
            with store.session(write=True) as session:
                # Workers that still write must end first, so that their rows are seen.
                pieces.lock(session.connection, piece_names)
                return self._publish_pieces(
                    session, piece_names, columns, rows, report, elapsed_seconds
                )

    def _source_history(self, session: PsycopgSession, source: str) -> SourceHistory:
        """Read the earlier releases of a source from the ledger."""
        # The source may be in another database. Without its state (such as its OID), the ledger
        # finds its releases by its name.
        return SourceHistory(earlier_releases(session, source, source_state={}))

    def _column_types(self, session: PsycopgSession, rows: DataFrame) -> list[tuple[str, str]]:
        """Return names and SQL types of the columns; a column keeps its type from the source."""
        column_types = []
        for attribute in map(attribute_of, rows.schema.fields):
            source_attribute = self._source_attributes.get(attribute.name)
            if source_attribute is not None and source_attribute.kind is attribute.kind:
                attribute = source_attribute
            column_types.append((attribute.name, session.dialect.type_of(attribute)))
        return column_types

    def _fill(self, rows: DataFrame, piece_names: Sequence[RelationName]) -> None:
        work = _make_piece_filler(self.url.render_as_string(hide_password=False), piece_names)
        with translate_spark_errors("staging the release"):
            # Ignore the tasks' results; the database counts the pieces.
            rows.mapInArrow(work, "piece int").collect()

    def _publish_pieces(
        self,
        session: PsycopgSession,
        piece_names: Sequence[RelationName],
        columns: Sequence[tuple[str, str]],
        rows: DataFrame,
        report: Report,
        elapsed_seconds: Callable[[], float],
    ) -> Report:
        """Gather the pieces in one table in random order, recount and publish it."""
        job, source_attributes = self.job, list(self._source_attributes.values())
        output, names = self._plan_output(session), [name for name, _ in columns]
        session.publication.create_table(output, columns, self.release_id)
        pieces.gather(session.connection, output, piece_names, names)
        session.analyze(output.staging_name)
        recount = require_staged_counts(
            job, rows, report, partial(session.recount, output.staging_name)
        )
        report = report.with_request(output=str(output.name), output_kind=output.kind)
        history = self._source_history(session, report.source)
        caution = caution_about_history(job, report.source, history)
        if caution is not None:
            warn_of_history(caution)
        warn_of_unshifted_copies(job, history)
        # Says that histories of persons over these releases are not counted. Empty if k counts
        # rows, or there are no earlier releases.
        history_entry = describe_unmeasured_histories(job, history)
        report = report.with_earlier_releases(len(history.releases), caution, history_entry)
        report = report.with_arguments(**history_entry)
        table_digest = digest.digest_relation(session, output.staging_name)
        pieces.drop(session.connection, piece_names)
        run = build_run_record(job, elapsed_seconds(), source_attributes=source_attributes)
        report = report.with_provenance(
            release_id=self.release_id,
            relation=str(output.relation),
            digest=table_digest,
            seconds={**report.seconds, "total": run.elapsed},
        )
        released_columns = pair_released_columns(job, names)
        created_at = publish_table(
            session,
            job,
            output,
            report,
            recount,
            source_attributes=source_attributes,
            released_columns=released_columns,
            run=run,
        )
        return report.with_provenance(created_at=created_at)

    def _drop_pieces(self, store: PostgresqlStore, piece_names: Sequence[RelationName]) -> None:
        # ``dbanon gc`` drops anything left after a day.
        with suppress(Exception), store.session(write=True) as session:
            pieces.drop(session.connection, piece_names)


def _make_piece_filler(
    url: str, piece_names: Sequence[RelationName]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a worker function that copies partition i of the rows into piece i."""

    def fill(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow
        from pyspark import TaskContext

        context = TaskContext.get()
        piece_index = 0 if context is None else context.partitionId()
        with hide_values_in_errors(f"Piece {piece_index} of the release"):
            fill_piece(url, piece_names[piece_index], batches)
        yield pyarrow.RecordBatch.from_pylist(
            [{"piece": piece_index}], pyarrow.schema([("piece", pyarrow.int32())])
        )

    return fill


def fill_piece(url: str, piece: RelationName, batches: Iterator[pa.RecordBatch]) -> None:
    """Replace the rows of a piece in one transaction.

    If the task is attempted twice, TRUNCATE waits for the other attempt and removes its rows.

    Raises
    ------
    UnsupportedType : PostgreSQL cannot store a text.
    DatabaseFailure : its class says what went wrong.
    """
    from sqlalchemy import make_url

    with PostgresqlStore(make_url(url)).session(write=True) as session:
        session.run(f"TRUNCATE TABLE {piece.quoted}")
        session.connection.copy_in(piece, map(_to_csv, batches))


def _to_csv(batch: pa.RecordBatch) -> bytes:
    """Write rows as CSV in which NULL is empty and every value is quoted."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    for field, column in zip(batch.schema, batch.columns, strict=True):
        # The server would refuse the text and quote its row in the server's log.
        if pa.types.is_string(field.type) and pc.any(pc.match_substring(column, "\0")).as_py():
            raise UnsupportedType(
                f'Column "{field.name}"'
                " has a text with a NUL character, which PostgreSQL cannot store.",
                hint="Remove the character in the source.",
            )
    sink = BytesIO()
    csv.write_csv(batch, sink, csv.WriteOptions(include_header=False, quoting_style="all_valid"))
    return sink.getvalue()
