"""A release of a cluster in a table or view of PostgreSQL."""

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
from dbanon.run.run_with_ledger import NOT_ASKED
from dbanon.run.source_types import require_types
from dbanon.sessions.base import Output, Relation
from dbanon.sessions.names import RelationName, parse_relation
from dbanon.spark.dataframe import attribute_of
from dbanon.spark.staging import released_of, require_staged
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
    """A table or view of PostgreSQL, staged in pieces that nobody else may read.

    Parameters
    ----------
    url : with all that workers need to connect.
    job, release_id : of the release.
    """

    url: URL
    job: Job
    release_id: str

    def prepare(self, attributes: Sequence[Attribute], relation: Relation | None) -> None:
        """Look at output and types; raises as ``plan_output``."""
        job, self._source = self.job, {a.name: a for a in attributes}
        with PostgresqlStore(self.url).planning(staging=False, create=True) as session:
            if relation is not None:
                then = SqlTarget(session).last_types(job, relation.name)
                require_types(job, relation, then)
            self._planned(session)
            if relation is not None:
                require_first(job, relation.name, self._history(session, str(relation.name)))
            for name in job.named:
                session.type_of(self._source[name])

    def _planned(self, session: PsycopgSession) -> Output:
        job = self.job
        name, strict = parse_relation(job.output), job.policy.strict
        return plan_output(
            session, name, job.output_kind, job.if_exists, self.release_id, strict=strict
        )

    def failed(self, elapsed: float, error: BaseException) -> None:
        """Note the run in the ledger, where there is one."""
        if not isinstance(error, NOT_ASKED):
            run = run_of(self.job, elapsed, error_code(error))
            entries.note_failure(PostgresqlStore(self.url), run)

    def publish(self, rows: DataFrame, report: Report, elapsed: Callable[[], float]) -> Report:
        """Fill pieces, gather them, count, record and show; raises as ``Target``."""
        store = PostgresqlStore(self.url)
        with ExitStack() as stack:
            stack.enter_context(store.job_lock(pieces.lock_name(self.release_id)))
            with store.session(write=True) as session:
                columns = self._columns(session, rows)
                output = self._planned(session)
                with translated("the release was laid out"):
                    count = rows.rdd.getNumPartitions()
                limit = session.name_limit
                made = pieces.names(output.name, self.release_id, max(count, 1), limit)
                session.make_schema(output.name)
                pieces.make(session, made, columns, self.release_id)
            # Whatever happens from here on: what nobody reads is not left.
            stack.callback(self._cleared, store, made)
            self._fill(rows, made)
            with store.session(write=True) as session:
                pieces.lock(session, made)
                return self._published(session, made, columns, rows, report, elapsed)

    def _history(self, session: PsycopgSession, source: str) -> SourceHistory:
        return SourceHistory(earlier_releases(session, source, {}))

    def _columns(self, session: PsycopgSession, rows: DataFrame) -> list[tuple[str, str]]:
        """Names and SQL types: a column keeps the type that it has in the source."""
        found = []
        for attribute in map(attribute_of, rows.schema.fields):
            own = self._source.get(attribute.name)
            if own is not None and own.kind is attribute.kind:
                attribute = own
            found.append((attribute.name, session.type_of(attribute)))
        return found

    def _fill(self, rows: DataFrame, made: Sequence[RelationName]) -> None:
        work = _filler(self.url.render_as_string(hide_password=False), made)
        with translated("the release was staged"):
            # What each wrote is counted where it lies: a task's own word is not asked for.
            rows.mapInArrow(work, "piece int").collect()

    def _published(
        self,
        session: PsycopgSession,
        made: Sequence[RelationName],
        columns: Sequence[tuple[str, str]],
        rows: DataFrame,
        report: Report,
        elapsed: Callable[[], float],
    ) -> Report:
        """Gather the pieces in one table, in random order, count it, and give it its place."""
        job, read = self.job, list(self._source.values())
        output, names = self._planned(session), [name for name, _ in columns]
        session.create_released(output, columns, self.release_id)
        pieces.gather(session, output, made, names)
        session.analyze(output.written)
        recount = require_staged(
            job, rows, report, lambda asked, _: session.recount(output.written, asked)
        )
        report = report.requested(output=str(output.name), output_kind=output.kind)
        history = self._history(session, report.source)
        caution = caution_of(job, report.source, history)
        warn_of_history(caution)
        joint = unmeasured_histories(job, history)
        report = report.after(len(history.releases), caution, joint).found(**joint)
        taken = digest.take(session, output.written)
        pieces.drop(session, made)
        run = run_of(job, elapsed(), read=read)
        report = report.made(
            release_id=self.release_id,
            relation=str(output.relation),
            digest=taken,
            seconds={**report.seconds, "total": run.elapsed},
        )
        of = released_of(job, names)
        noted = publish_table(session, job, output, report, recount, read, of, run)
        return report.made(created_at=noted)

    def _cleared(self, store: PostgresqlStore, made: Sequence[RelationName]) -> None:
        # What stays for whatever reason, ``dbanon gc`` drops after a day.
        with suppress(Exception), store.session(write=True) as session:
            pieces.drop(session, made)


def _filler(
    url: str, made: Sequence[RelationName]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a worker runs: the rows of its partition into the piece of the same number."""

    def fill(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow
        from pyspark import TaskContext

        context = TaskContext.get()
        number = 0 if context is None else context.partitionId()
        with errors_without_values(f"Piece {number} of the release"):
            fill_piece(url, made[number], batches)
        yield pyarrow.RecordBatch.from_pylist(
            [{"piece": number}], pyarrow.schema([("piece", pyarrow.int32())])
        )

    return fill


def fill_piece(url: str, piece: RelationName, batches: Iterator[pa.RecordBatch]) -> None:
    """Make these rows all that a piece has, in one transaction.

    TRUNCATE waits for another attempt at the same piece, and takes away what it committed.

    Raises
    ------
    UnsupportedType : a text holds what PostgreSQL has no place for.
    DatabaseFailure : of the class that says what went wrong.
    """
    from sqlalchemy import make_url

    with PostgresqlStore(make_url(url)).session(write=True) as session:
        session.run(f"TRUNCATE TABLE {piece.quoted}")
        session.copy_in(piece, map(_csv, batches))


def _csv(batch: pa.RecordBatch) -> bytes:
    """Rows as CSV in which NULL is nothing, and every value stands in quotes."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    for field, column in zip(batch.schema, batch.columns, strict=True):
        # The server would refuse it, and quote the row in its log.
        if pa.types.is_string(field.type) and pc.any(pc.match_substring(column, "\0")).as_py():
            raise UnsupportedType(
                f'Column "{field.name}" holds a text with a NUL character, which PostgreSQL has'
                " not.",
                hint="Take the character away in the source.",
            )
    sink = BytesIO()
    csv.write_csv(batch, sink, csv.WriteOptions(include_header=False, quoting_style="all_valid"))
    return sink.getvalue()
