"""A database as the target of a run: staging, the table that is written, its counts, its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.counts import Cells, Counts, EntityCount, Questions, Recount
from dbanon.data.frozen import dataclass
from dbanon.data.microdata import find_records
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import InvalidParameter, OutputExists, SourceChanged
from dbanon.job.job import Asked, Job
from dbanon.job.private import PrivateJob
from dbanon.ledger import entries, job_history
from dbanon.ledger.releases import plan_output
from dbanon.recoding import ReleasedColumn
from dbanon.release.attribute_disclosure import TellingColumn, all_different, sample_size
from dbanon.release.report import Report
from dbanon.sessions import statements
from dbanon.sessions.base import Output, Relation, passthrough_refused, random_order
from dbanon.sessions.names import RelationName, check_length, parse_relation, quote
from dbanon.sessions.session import Session
from dbanon.stores import digest
from dbanon.stores.ports import Draft, Progress, Source, Written, request_of
from dbanon.stores.sql_counts import cells_of, cells_of_rows, count_classes, count_sets
from dbanon.stores.sql_source import SqlSource


@dataclass(frozen=True, eq=False)
class SqlWritten(Written):
    """A release in a table that nobody else sees.

    Parameters
    ----------
    columns : name, SQL type and SQL expression of each column.
    copied : True where kept columns came from elsewhere, and were staged row by row.
    """

    columns: tuple[tuple[str, str, str], ...]
    copied: bool

    @property
    def relation(self) -> RelationName:
        """The table."""
        return self.draft.output.written

    @property
    def kept(self) -> list[str]:
        """The columns that are released as they are."""
        recoded = {column.attribute.name for column in self.draft.release.columns}
        return [name for name, _, _ in self.columns if name not in recoded]


@dataclass(frozen=True)
class SqlTarget:
    """What one transaction on a database writes."""

    session: Session

    def plan(self, job: Job, release_id: str) -> Output:
        """The output's place; raises as ``plan_output``."""
        name = parse_relation(job.output)
        if job.output_kind == "view":
            self.session.require_columns_of_views(job.named)
        return plan_output(self.session, name, job.output_kind, job.if_exists, release_id)

    def earlier(self, source: str) -> int:
        """How many releases of a relation of this name the ledger has."""
        return entries.count_of(self.session, source)

    def last_types(self, job: Asked, source: RelationName) -> Mapping[str, str]:
        """The types of the source's columns at the job's last release, where there is one."""
        if job.name is None:
            return {}
        found = job_history.last_release(self.session, job.name)
        return {} if found is None or found.source != str(source) else found.source_types

    def require_ranges(self, attribute: Attribute) -> None:
        """Check that this database has ranges of the column's values."""
        self.session.range_type(attribute)

    def copies_from(self, source: Source) -> bool:
        """True where the source is another transaction."""
        return not (isinstance(source, SqlSource) and source.session is self.session)

    def require_passthrough(
        self, source: Source, relation: Relation, columns: Sequence[Attribute]
    ) -> None:
        """Check that the source is this database, and its sessions can; raises as ``ports``."""
        if self.copies_from(source):
            raise passthrough_refused()
        self.session.require_passthrough(relation, columns)

    def require_type(self, attribute: Attribute) -> None:
        """Check that this database has a type for a column from elsewhere."""
        self.session.type_of(attribute)

    # -- writing ----------------------------------------------------------------------------------

    def write(self, draft: Draft, source: Source, progress: Progress) -> SqlWritten:
        """Write a release by one join of staged values with the source, or with staged rows."""
        session, copied = self.session, self.copies_from(source)
        session.make_schema(draft.output.name)
        partition = draft.release.partition
        columns = [self.typed(column, copied) for column in draft.release.columns]
        if copied:
            kept = [a for a in draft.relation.schema.attributes if a.name in draft.job.kept]
            rows = self._copied_rows(draft, source, kept, lambda share: progress(0.3 * share))
            session.load_rows([*kept, *_person(draft)], rows)
            session.stage_classes(partition, columns)
        elif draft.wanted.passthrough is None:
            session.stage(draft.relation, draft.microdata, partition, columns)
        progress(0.3)
        written = SqlWritten(draft, tuple(self.columns(draft, columns, copied)), copied)
        reads_from = None if copied else draft.relation
        typed = [(name, sql_type) for name, sql_type, _ in written.columns]
        session.create_released(draft.output, typed, draft.output.release_id)
        if draft.wanted.passthrough is not None:
            passthrough = written.kept
            of_classes = [column for column in written.columns if column[0] not in passthrough]
            session.insert_passthrough(
                written.relation, of_classes, columns, passthrough, draft.microdata, partition
            )
        else:
            values = {name: expression for name, _, expression in written.columns}
            session.insert(written.relation, values, reads_from, written.kept)
        session.analyze(written.relation)
        return written

    def typed(self, column: ReleasedColumn, copied: bool) -> ReleasedColumn:
        """The column with the SQL type it has in the release."""
        attribute = column.attribute
        if column.upper is not None:
            range_type = self.session.range_type(attribute, (column.values, column.upper))
            attribute = replace(attribute, sql_type=range_type)
        elif copied or not attribute.sql_type:
            attribute = replace(attribute, sql_type=self.session.type_of(attribute))
        return replace(column, attribute=attribute)

    def columns(
        self, draft: Draft, columns: Sequence[ReleasedColumn], copied: bool
    ) -> list[tuple[str, str, str]]:
        """Name, SQL type and SQL expression of each column, in the order of the source.

        Raises
        ------
        InvalidParameter : two columns would have one name.
        NameTooLong : there is no room for the name of a column, such as that of a bound.
        """
        written: list[tuple[str, str, str]] = []
        recoded = {column.source for column in columns}
        # Where each column's first part is staged.
        places = [0, *accumulate(len(column.parts) for column in columns)][:-1]
        named = [a for a in draft.relation.schema.attributes if a.name in draft.job.named]
        kept = [attribute.name for attribute in named if attribute.name not in recoded]
        for attribute in named:
            name = attribute.name
            made = [
                (place, column)
                for place, column in zip(places, columns, strict=True)
                if column.source == name
            ]
            for place, released in made:
                value = self.session.released_expression(place, released)
                written.append((released.attribute.name, released.attribute.sql_type, value))
            if made:
                continue
            if copied:
                column = statements.kept_column(kept.index(name))
                written.append((name, self.session.type_of(attribute), f"r.{column}"))
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
                    hint="Bounds of a range are written as NAME_low and NAME_high: use another"
                    " form of `intervals`, or do not copy the column of that name.",
                )

    def _copied_rows(
        self, draft: Draft, source: Source, kept: Sequence[Attribute], progress: Progress
    ) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32], Sequence[tuple[Any, ...]]]]:
        """Kept values with the class and the random place of their record, in pieces.

        Identifiers never travel: a person has a random number beside the rows.
        """
        microdata, partition = draft.microdata, draft.release.partition
        released = np.flatnonzero(partition.labels >= 0)
        positions = np.full(microdata.n_records, -1, np.int32)
        positions[released] = random_order(len(released))
        classes = self.session.class_numbers(partition)[partition.labels]
        numbers = None
        if microdata.entities is not None:
            order = random_order(int(microdata.entities.max(initial=-1)) + 1)
            numbers = order[microdata.entities].astype(np.int32)

        def with_persons(
            records: NDArray[np.int64], rows: Sequence[tuple[Any, ...]]
        ) -> Sequence[tuple[Any, ...]]:
            if numbers is None:
                return rows
            own = numbers[records].tolist()
            return [(*row, number) for row, number in zip(rows, own, strict=True)]

        if not kept:
            rows = with_persons(released, [()] * len(released))
            yield classes[released], positions[released], rows
            return
        names, done = [attribute.name for attribute in kept], 0
        for keys, read in source.kept_rows(draft.relation, names, draft.job.chunk_rows):
            records = find_records(microdata.keys, keys)
            chosen = np.flatnonzero(partition.labels[records] >= 0)
            records = records[chosen]
            done += len(read)
            progress(min(done / max(microdata.n_records, 1), 1.0))
            yield (
                classes[records],
                positions[records],
                with_persons(records, [read[i] for i in chosen]),
            )

    # -- counting ---------------------------------------------------------------------------------

    def count(
        self, written: SqlWritten, questions: Questions, rows: Recount | None = None
    ) -> Counts:
        """The answers, by GROUP BY; ``rows`` where classes were counted already."""
        session, relation = self.session, written.relation
        return Counts(
            rows or count_classes(session, relation, questions),
            {name: self._persons(written, questions) for name in questions.persons},
            cells_of(session, written.draft.relation, relation, questions),
            also=count_sets(session, relation, questions),
        )

    def _persons(self, written: SqlWritten, questions: Questions) -> EntityCount:
        """The persons in each class of what was written, counted in staging."""
        draft = written.draft
        shared = [(kind, value) for n, kind, value in written.columns if n in questions.columns]
        columns = {name: (kind, value) for name, kind, value in written.columns}
        shared_names = [n for n, _, _ in written.columns if n in questions.columns]
        of_sets = {name for columns in questions.also for name in columns}
        others = [n for n in columns if n in of_sets - {*shared_names, *questions.sensitive}]
        places = [*shared_names, *questions.sensitive, *others]
        more = [columns[name] for name in (*questions.sensitive, *others)]
        source: Relation | None = None
        if written.copied:
            person, joins = f"r.{statements.kept_column(len(draft.job.kept))}", ""
            reads = []
        else:
            source = draft.relation
            [column] = draft.wanted.persons
            # Where its dictionary was staged, when it was read.
            place = draft.wanted.columns.index(column)
            joins = statements.join_values(place, self.session.value_of(column))
            person = statements.code_column(place)
            asked = {*places}
            reads = [name for name in written.kept if name in asked and name != column.name]
            reads.append(column.name)
        found = self.session.recount_entities(shared, source, person, joins, more, reads)
        also = tuple(
            self.session.recount_staged_entities([places.index(name) for name in own])
            for own in questions.also
        )
        cells = self._cells_of_persons(written, questions, len(shared))
        return replace(found, cells=cells, also=also)

    def _cells_of_persons(
        self, written: SqlWritten, questions: Questions, n_shared: int
    ) -> dict[str, Cells]:
        """Classes and values with their persons, of each sensitive column, counted in staging."""
        session, staging = self.session, RelationName(None, statements.ENTITIES)
        found = {}
        for position, name in enumerate(questions.sensitive, n_shared):
            attribute = written.draft.relation.attribute(name)
            staged = replace(attribute, name=statements.value_column(position))
            text = session.text_of(staged)
            # A number is one value however it is written, so that nobody counts for it twice.
            same = f"s.{quote(staged.name)}" if attribute.kind.is_numeric else text
            cells = session.rows(statements.persons_with_values(n_shared, text, same))
            ranked = None if name in questions.leaves else staged
            found[name] = cells_of_rows(session, staging, ranked, cells)
        return found

    def sampled(self, written: SqlWritten, names: Sequence[str]) -> dict[str, TellingColumn]:
        """Columns of many rows of which a sample proves enough."""
        draft, session = written.draft, self.session
        rows = int(draft.release.partition.sizes.sum())
        wanted = sample_size(rows)
        if not wanted or not names:
            return {}
        values = [session.compared(draft.relation.attribute(name)) for name in names]
        sample = session.sample(written.relation, wanted / rows)
        drawn, *counts = session.rows(statements.different_values(sample, values))[0]
        proved = (
            all_different(name, rows, int(drawn), int(n), int(different))
            for name, n, different in zip(names, counts[::2], counts[1::2], strict=True)
        )
        return {found.name: found for found in proved if found is not None}

    def digest(self, written: SqlWritten) -> str | None:
        """The digest of the rows, under a salt of its own."""
        return digest.take(self.session, written.relation)

    def released(
        self, written: SqlWritten, chunk_rows: int
    ) -> tuple[tuple[Attribute, ...], Iterator[list[tuple[Any, ...]]]]:
        """The columns of what was written, and its rows in pieces, in their random order."""
        relation = self.session.find_source(written.relation)
        relation = self.session.locate(relation, ())
        attributes = self.session.inspect(relation, relation.schema.attributes)
        relation = relation.with_attributes(attributes)
        names = [attribute.name for attribute in attributes]
        rows = self.session.read_rows(relation, names, chunk_rows)
        return attributes, (piece for _, piece in rows)

    # -- publishing -------------------------------------------------------------------------------

    def publish(self, written: SqlWritten, report: Report, counts: Counts, elapsed: float) -> str:
        """Put the table in its place, and note it in the ledger; raises as ``ports.Target``."""
        draft = written.draft
        self.session.swap_seconds = draft.job.swap_timeout
        made = [(column.attribute.name, column.source) for column in draft.release.columns]
        read = draft.relation.schema.attributes
        run = run_of(draft.job, elapsed, read=read, fingerprint=draft.fingerprint)
        asked = None if written.copied else request_of(draft)
        told = (report, counts.rows, read, made, run, asked)
        return publish_table(self.session, draft.job, draft.output, *told)


def publish_table(
    session: Session,
    job: Job,
    output: Output,
    report: Report,
    recount: Recount,
    read: Sequence[Attribute],
    made: Sequence[tuple[str, str]],
    run: entries.Run,
    request: Mapping[str, Any] | None = None,
) -> str:
    """Give the written table its place and note it in the ledger; the time that it was noted with.

    Parameters
    ----------
    read : the columns of the source.
    made : pairs of a released quasi-identifier and the column that it stands for.
    request : what was asked for, by which it can be made again; None where it cannot.

    Raises
    ------
    OutputExists, SourceChanged : something else has its place now.
    """
    types = dict(session.columns_of(output.written))
    try:
        session.publish(output, list(types))
    except OutputExists:
        if job.if_exists == "error":
            raise
        raise SourceChanged(
            f"Another session made {output.name} meanwhile; nothing was published.",
            hint="Try again: it is replaced then.",
        ) from None
    session.ensure_ledger()
    # The released columns come first, with the types that they have now.
    types |= {a.name: a.sql_type for a in read if a.name not in types}
    stand_for = [*made, *((name, name) for name in job.by)]
    return entries.record(session, report, output, recount, types, stand_for, run, request)


def run_of(
    job: Job | PrivateJob,
    elapsed: float,
    error_code: str | None = None,
    read: Sequence[Attribute] = (),
    fingerprint: str | None = None,
) -> entries.Run:
    """The run of a job as the ledger keeps it; ``elapsed`` in seconds.

    Parameters
    ----------
    read : the columns of the source, which the ledger keeps for a job of a file.

    Raises
    ------
    InvalidName : the job's table or output has none that is valid.
    """
    table, output = str(parse_relation(job.table)), parse_relation(job.output)
    types = {a.name: a.sql_type for a in read} if job.name is not None and read else None
    return entries.Run(
        job.door, job.method, table, output, elapsed, job.run_id, None, error_code, job.name,
        types, fingerprint,
    )  # fmt: skip


def _person(draft: Draft) -> list[Attribute]:
    """The column that stands for the entity beside rows that are copied."""
    return [Attribute("person", Kind.INTEGER, bits=32) for _ in draft.wanted.persons]
