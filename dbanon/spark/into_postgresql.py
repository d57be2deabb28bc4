"""Publish a cluster's release as a table or view of PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING

from sqlalchemy import URL

from dbanon.data.schema import Attribute
from dbanon.errors import UnsupportedType, error_code
from dbanon.job.job import Job
from dbanon.ledger import entries
from dbanon.ledger.releases import plan_output
from dbanon.ledger.source_history import SourceHistory, earlier_releases
from dbanon.release.report import Report
from dbanon.run.history import (
    caution_of,
    require_first,
    unmeasured_histories,
    warn_of_history,
)
from dbanon.run.run_with_ledger import UNRECORDED_ERRORS
from dbanon.run.source_types import require_types
from dbanon.sessions.base import Output, Relation
from dbanon.sessions.names import RelationName, parse_relation
from dbanon.spark.dataframe import attribute_of
from dbanon.spark.staging import released_columns_of, require_staged
from dbanon.spark.tasks import errors_without_values, translated
from dbanon.stores import digest
from dbanon.stores.postgresql import pieces
from dbanon.stores.postgresql.client import PsycopgSession
from dbanon.stores.postgresql.store import PostgresqlStore
from dbanon.stores.sql_target import SqlTarget, publish_table, run_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


@dataclass
class PostgresqlTarget:
    """A table or view of PostgreSQL, staged in pieces that only this role can read.

    Parameters
    ----------
    url : with everything that workers need to connect.
    job, release_id : of the release.
    """

    url: URL
    job: Job
    release_id: str

    def prepare(self, attributes: Sequence[Attribute], relation: Relation | None) -> None:
        """Check the output and types; raises as ``plan_output``."""
        job, self._source_attributes = self.job, {a.name: a for a in attributes}
        with PostgresqlStore(self.url).planning(staging=False, create=True) as session:
            if relation is not None:
                last_types = SqlTarget(session).last_types(job, relation.name)
                require_types(job, relation, last_types)
            self._plan_output(session)
            if relation is not None:
                require_first(job, relation.name, self._history(session, str(relation.name)))
            for name in job.named:
                session.type_of(self._source_attributes[name])

    def _plan_output(self, session: PsycopgSession) -> Output:
        job = self.job
        name, strict = parse_relation(job.output), job.policy.strict
        return plan_output(
            session, name, job.output_kind, job.if_exists, self.release_id, strict=strict
        )

    def failed(self, elapsed: float, error: BaseException) -> None:
        """Record the failed run in the ledger, if there is one."""
        if not isinstance(error, UNRECORDED_ERRORS):
            run = run_of(self.job, elapsed, error_code(error))
            entries.record_failure(PostgresqlStore(self.url), run)

    def publish(self, rows: DataFrame, report: Report, elapsed: Callable[[], float]) -> Report:
        """Fill pieces, gather them, recount, record and publish; raises as ``ReleaseTarget``."""
        store = PostgresqlStore(self.url)
        with ExitStack() as stack:
            stack.enter_context(store.job_lock(pieces.lock_name(self.release_id)))
            with store.session(write=True) as session:
                columns = self._columns(session, rows)
                output = self._plan_output(session)
                with translated("the release was laid out"):
                    count = rows.rdd.getNumPartitions()
                limit = session.name_limit
                piece_names = pieces.names(output.name, self.release_id, max(count, 1), limit)
                session.make_schema(output.name)
                pieces.make(session, piece_names, columns, self.release_id)
            # Drop the pieces whatever happens next.
            stack.callback(self._drop_pieces, store, piece_names)
            self._fill(rows, piece_names)
            with store.session(write=True) as session:
                pieces.lock(session, piece_names)
                return self._publish_pieces(session, piece_names, columns, rows, report, elapsed)

    def _history(self, session: PsycopgSession, source: str) -> SourceHistory:
        return SourceHistory(earlier_releases(session, source, {}))

    def _columns(self, session: PsycopgSession, rows: DataFrame) -> list[tuple[str, str]]:
        """Names and SQL types; a column keeps its type from the source."""
        column_types = []
        for attribute in map(attribute_of, rows.schema.fields):
            source_attribute = self._source_attributes.get(attribute.name)
            if source_attribute is not None and source_attribute.kind is attribute.kind:
                attribute = source_attribute
            column_types.append((attribute.name, session.type_of(attribute)))
        return column_types

    def _fill(self, rows: DataFrame, piece_names: Sequence[RelationName]) -> None:
        work = _filler(self.url.render_as_string(hide_password=False), piece_names)
        with translated("the release was staged"):
            # The pieces are counted in the database, so ignore what tasks report.
            rows.mapInArrow(work, "piece int").collect()

    def _publish_pieces(
        self,
        session: PsycopgSession,
        piece_names: Sequence[RelationName],
        columns: Sequence[tuple[str, str]],
        rows: DataFrame,
        report: Report,
        elapsed: Callable[[], float],
    ) -> Report:
        """Gather the pieces in one table in random order, recount and publish it."""
        job, source_attributes = self.job, list(self._source_attributes.values())
        output, names = self._plan_output(session), [name for name, _ in columns]
        session.create_released(output, columns, self.release_id)
        pieces.gather(session, output, piece_names, names)
        session.analyze(output.written)
        recount = require_staged(
            job, rows, report, lambda columns, _: session.recount(output.written, columns)
        )
        report = report.requested(output=str(output.name), output_kind=output.kind)
        history = self._history(session, report.source)
        caution = caution_of(job, report.source, history)
        warn_of_history(caution)
        joint = unmeasured_histories(job, history)
        report = report.with_earlier_releases(len(history.releases), caution, joint).with_arguments(
            **joint
        )
        table_digest = digest.of_relation(session, output.written)
        pieces.drop(session, piece_names)
        run = run_of(job, elapsed(), read=source_attributes)
        report = report.with_provenance(
            release_id=self.release_id,
            relation=str(output.relation),
            digest=table_digest,
            seconds={**report.seconds, "total": run.elapsed},
        )
        released_columns = released_columns_of(job, names)
        created_at = publish_table(
            session, job, output, report, recount, source_attributes, released_columns, run
        )
        return report.with_provenance(created_at=created_at)

    def _drop_pieces(self, store: PostgresqlStore, piece_names: Sequence[RelationName]) -> None:
        # ``dbanon gc`` drops anything left after a day.
        with suppress(Exception), store.session(write=True) as session:
            pieces.drop(session, piece_names)


def _filler(
    url: str, piece_names: Sequence[RelationName]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a worker function that copies its partition's rows into the piece of that number."""

    def fill(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow
        from pyspark import TaskContext

        context = TaskContext.get()
        number = 0 if context is None else context.partitionId()
        with errors_without_values(f"Piece {number} of the release"):
            fill_piece(url, piece_names[number], batches)
        yield pyarrow.RecordBatch.from_pylist(
            [{"piece": number}], pyarrow.schema([("piece", pyarrow.int32())])
        )

    return fill


def fill_piece(url: str, piece: RelationName, batches: Iterator[pa.RecordBatch]) -> None:
    """Replace the rows of a piece in one transaction.

    TRUNCATE waits for another attempt at the same piece and removes what it committed.

    Raises
    ------
    UnsupportedType : PostgreSQL cannot store a text.
    DatabaseFailure : of the class that describes the problem.
    """
    from sqlalchemy import make_url

    with PostgresqlStore(make_url(url)).session(write=True) as session:
        session.run(f"TRUNCATE TABLE {piece.quoted}")
        session.copy_in(piece, map(_csv, batches))


def _csv(batch: pa.RecordBatch) -> bytes:
    """Write rows as CSV in which NULL is empty and every value is quoted."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    for field, column in zip(batch.schema, batch.columns, strict=True):
        # The server would reject it and quote the row in its log.
        if pa.types.is_string(field.type) and pc.any(pc.match_substring(column, "\0")).as_py():
            raise UnsupportedType(
                f'Column "{field.name}"'
                " has a text with a NUL character, which PostgreSQL cannot store.",
                hint="Take the character away in the source.",
            )
    sink = BytesIO()
    csv.write_csv(batch, sink, csv.WriteOptions(include_header=False, quoting_style="all_valid"))
    return sink.getvalue()
