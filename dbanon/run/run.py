"""A job: policy, source and target, and how it is run."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import Microdata, with_strata
from dbanon.data.partition import AttributePartition, Levels, Partition
from dbanon.data.schema import Attribute, Kind, with_orders
from dbanon.errors import OutputExists, SourceChanged
from dbanon.hierarchy.spec import built
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.job import Job
from dbanon.job.policy import require_guarantee, require_kinds
from dbanon.partitioning.classes import find_attribute_classes, find_classes
from dbanon.release.counts import Recount
from dbanon.release.recode import Release, recode
from dbanon.release.report import Report
from dbanon.run.enforcement import Enforcement
from dbanon.run.persons import Persons
from dbanon.run.writing import copied_rows, require_counts, require_ranges, typed, written_columns
from dbanon.stores import digest, ledger
from dbanon.stores.base import Output, Source
from dbanon.stores.hierarchy_sources import Sources
from dbanon.stores.kept import KeptColumns
from dbanon.stores.names import parse_relation
from dbanon.stores.outputs import plan_output
from dbanon.stores.sql import Session
from dbanon.stores.store import Store
from dbanon.version import version

PHASES = ("read", "cluster", "write", "verify", "digest")

# Called with the phase and the share of it that is done; what it raises ends the run.
PhaseProgress = Callable[[str, float], None]


def run(
    job: Job, source: Store, target: Store | None = None, progress: PhaseProgress | None = None
) -> Report:
    """Run a job: read, cluster, write, recount; visible only when the recount holds.

    Parameters
    ----------
    source, target : the databases; the same one when ``target`` is None.

    Raises
    ------
    DbanonError : of the class that says what went wrong; nothing was published then.
    """
    progress = progress or _silent
    with ExitStack() as stack:
        if target is None or target.same_database(source):
            source_session = stack.enter_context(source.session(write=True))
            target_session = source_session
        else:
            # Sessions end the other way round: the target's commit is the last that can fail.
            target_session = stack.enter_context(target.session(write=True, create=True))
            source_session = stack.enter_context(source.session(write=False))
        started = time.perf_counter()
        report = _Run(job, source_session, target_session, progress).report()
        before_commit = time.perf_counter()
        stack.close()
        spent = dict(report.seconds)
        spent["write"] += time.perf_counter() - before_commit
        return replace(report, seconds=spent | {"total": time.perf_counter() - started})


def described(job: Job, elapsed: float, error_code: str | None = None) -> ledger.Run:
    """The run of a job as the ledger keeps it; ``elapsed`` in seconds.

    Raises
    ------
    InvalidName : the job's output has none that is valid.
    """
    table, output = str(parse_relation(job.table)), parse_relation(job.output)
    return ledger.Run(job.door, job.policy.method, table, output, elapsed, None, error_code)


class _Run:
    """One run of a job on open sessions."""

    def __init__(self, job: Job, source: Session, target: Session, progress: PhaseProgress) -> None:
        self.job, self.source_session, self.target_session = job, source, target
        self.progress = progress
        self.release_id = str(uuid.uuid4())
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self._started = time.perf_counter()
        self.written: list[tuple[str, str, str]] = []
        self.levels: Levels | None = None
        self.persons = Persons(job.entity)
        self.kept = KeptColumns(job.kept, job.policy, job.entity)

    def report(self) -> Report:
        job = self.job
        source, attributes, output = self._prepare()

        microdata = self._timed("read", lambda: self._read(source, attributes))
        partition = self._timed("cluster", lambda: self._cluster(source, microdata))
        release = self._timed("write", lambda: self._write(source, output, microdata, partition))
        recount = self._timed("verify", lambda: self._verify(source, output, release, microdata))
        session = self.target_session
        taken = self._timed("digest", lambda: digest.take(session, output.written))
        report = self._say(source, output, release, recount, microdata)
        report = replace(report, digest=taken)
        released = session.columns_of(output.written)

        started = time.perf_counter()
        try:
            session.publish(output, [name for name, _, _ in self.written])
        except OutputExists:
            if job.if_exists == "error":
                raise
            raise SourceChanged(
                f"Another session made {output.name} meanwhile; nothing was published.",
                hint="Try again: it is replaced then.",
            ) from None
        session.ensure_ledger()
        types = dict(released)
        types |= {a.name: a.sql_type for a in source.schema.attributes if a.name not in types}
        made = [(column.attribute.name, column.source) for column in release.columns]
        made += [(name, name) for name in job.by]
        created_at = ledger.record(
            session, report, output, recount, types, made, described(self.job, self._elapsed())
        )
        report = replace(report, created_at=created_at)
        self.progress("verify", 1.0)
        self.seconds["write"] += time.perf_counter() - started
        return replace(report, seconds=dict(self.seconds))

    def _prepare(self) -> tuple[Source, tuple[Attribute, ...], Output]:
        """Everything that can be refused before a row is read."""
        job = self.job
        source = self.source_session.find_source(parse_relation(job.table))
        named = job.named
        for name in named:
            source.attribute(name)
        attributes = self._attributes(source)
        read = [*named, *self.persons.names]
        self.persons.columns(source, 0)
        require_guarantee(job.policy, job.entity)
        require_kinds(job.policy, attributes)
        require_ranges(self.target_session, job.policy, attributes, job.hierarchies)
        source = self.source_session.locate(source, job.key)
        if job.policy.nulls == "suppress":
            source = replace(source, required=job.quasi_identifiers)
        self.source_session.require_rights(source, read)
        self.source_session.require_equality(source, [*job.by, *job.key])
        output = plan_output(
            self.target_session,
            parse_relation(job.output),
            job.output_kind,
            job.if_exists,
            self.release_id,
        )
        source = self._timed("read", lambda: self.source_session.pin(source, read))
        self._read_hierarchies(source)
        modelled = [source.attribute(column.name) for column in self.models.columns(source)]
        if self.target_session is self.source_session:
            inspected = self.source_session.inspect(source, modelled)
            attributes = self.source_session.inspect(source, attributes)
            return source.with_attributes(inspected), attributes, output
        # Kept values leave their database: they are looked at, too.
        source = source.with_attributes(
            self.source_session.inspect(source, [source.attribute(name) for name in named])
        )
        for name in named:
            self.target_session.type_of(source.attribute(name))
        return source, self._attributes(source), output

    def _attributes(self, source: Source) -> tuple[Attribute, ...]:
        """The quasi-identifiers, with their orders."""
        named = [source.attribute(name) for name in self.job.quasi_identifiers]
        return with_orders(named, self.job.policy.orders)

    def _read_hierarchies(self, source: Source) -> None:
        def pulse() -> None:
            self.progress("read", 0.0)

        job, self.sources = self.job, Sources(self.source_session, source, pulse)
        policy = replace(job.policy, models=self.sources.read_models(job.policy.models))
        self.job = replace(job, policy=policy, hierarchies=self.sources.read(job.hierarchies))
        self.models = Enforcement(policy, job.memory_limit)

    def _read(self, source: Source, attributes: Sequence[Attribute]) -> Microdata:
        self.progress("read", 0.0)
        # Whatever their types are, strata are told apart by their values' texts.
        by = [replace(source.attribute(name), kind=Kind.CATEGORY) for name in self.job.by]
        read = [*attributes, *by, *self.models.columns(source)]
        microdata = self.source_session.read(
            source,
            [*read, *self.persons.columns(source, len(read))],
            chunk_rows=self.job.chunk_rows,
            memory_limit=self.job.memory_limit,
            progress=lambda share: self.progress("read", share),
        )
        microdata = with_strata(self.models.split(self.persons.split(microdata)), len(by))
        policy = self.job.policy
        trees = self._trees(microdata)
        self.job = replace(self.job, policy=replace(policy, hierarchies=trees))
        self.models.measure_by(trees)
        return microdata

    def _trees(self, microdata: Microdata) -> dict[str, Hierarchy]:
        """The hierarchies by column, those of builders made from these records' values."""
        made = built(self.job.hierarchies, microdata, lambda: self.progress("read", 1.0))
        return {**self.job.policy.hierarchies, **made}

    def _cluster(self, source: Source, microdata: Microdata) -> Partition | AttributePartition:
        share = 0.5 if self.models.names else 1.0

        def found(done: float) -> None:
            self.progress("cluster", share * done)

        def merged(done: float) -> None:
            self.progress("cluster", share + (1 - share) * done)

        if self.job.policy.per_attribute:
            return find_attribute_classes(microdata, self.job.policy, found)
        partition = find_classes(microdata, self.job.policy, found, self._trees)
        self.levels = partition if isinstance(partition, Levels) else None
        return self.models.protect(self.source_session, source, microdata, partition, merged)

    def _write(
        self,
        source: Source,
        output: Output,
        microdata: Microdata,
        found: Partition | AttributePartition,
    ) -> Release:
        self.progress("write", 0.0)

        def exact_totals(
            partition: Partition, attributes: Sequence[Attribute]
        ) -> Mapping[str, NDArray[np.object_]]:
            return self.source_session.exact_totals(source, microdata, partition, attributes)

        job = self.job
        release = recode(
            microdata,
            found,
            job.policy,
            exact_totals,
            job.by,
            job.entity,
            self.levels,
            self._trees,
        )
        partition = release.partition
        session = self.target_session
        copied = session is not self.source_session
        columns = [typed(column, session, copied) for column in release.columns]
        if copied:
            kept = self._kept(source)
            rows = copied_rows(
                self.source_session,
                source,
                microdata,
                partition,
                kept,
                session.class_numbers(partition),
                self.persons,
                job.chunk_rows,
                lambda share: self.progress("write", 0.3 * share),
            )
            session.load_rows([*kept, *self.persons.copied()], rows)
        else:
            session.stage_labels(microdata, partition, source.located.types)
        self.progress("write", 0.3)
        session.stage_classes(partition, columns)
        self.written = written_columns(session, source, self._named(source), columns, copied)
        session.write(output, self.written, None if copied else source)
        session.analyze(output.written)
        self.progress("write", 1.0)
        return release

    def _named(self, source: Source) -> list[str]:
        """The columns of the source that a release tells something of, in their order."""
        return [a.name for a in source.schema.attributes if a.name in self.job.named]

    def _kept(self, source: Source) -> list[Attribute]:
        """The columns that are released as they are, in the order of the source."""
        return [a for a in source.schema.attributes if a.name in self.job.kept]

    def _verify(
        self, source: Source, output: Output, release: Release, microdata: Microdata
    ) -> Recount:
        """Count what was written, before anyone can see it; raises as ``require_counts``.

        RecountFailed also where a class breaks a model or holds too few persons;
        TellingColumnRefused as ``KeptColumns.count``.
        """
        self.progress("verify", 0.0)
        columns = [column.attribute.name for column in release.columns]
        names = [*columns, *self.job.by]
        if self.job.policy.per_attribute:
            recount = self.target_session.recount_attributes(output.written, columns, self.job.by)
        else:
            recount = self.target_session.recount(output.written, names)
        null_rows = 0
        if microdata.valid is not None and self.job.policy.nulls == "category":
            # Records may be withheld for other reasons, those with a NULL among them.
            holes = ~microdata.valid.all(axis=1)
            null_rows = int((holes & (release.partition.labels >= 0)).sum())
        expected = microdata.n_records - release.partition.n_suppressed
        # Strata keep their NULLs.
        require_counts(
            recount, expected, int(self.job.policy.k), None if self.job.by else null_rows
        )
        self.models.recount(self.target_session, source, output.written, names, recount.rows)
        copied = self.target_session is not self.source_session
        self.persons.recount(
            self.target_session,
            None if copied else source,
            self.written,
            names,
            len(self._kept(source)),
            recount,
            int(self.job.policy.k),
        )
        self.kept.count(
            self.source_session, source, self.target_session, output.written, microdata, release
        )
        return recount

    def _say(
        self,
        source: Source,
        output: Output,
        release: Release,
        recount: Recount,
        microdata: Microdata,
    ) -> Report:
        job = self.job
        released = self._named(source)
        counted = self.persons.count
        trees = {"hierarchies": self.sources.described(job.policy.hierarchies)}
        arguments = job.policy.arguments() | {"by": list(job.by)} | trees
        if recount.k_rows is not None:
            arguments["k_rows"] = recount.k_rows
        if self.levels is not None:
            arguments["levels"] = dict(self.levels.levels)
        return Report(
            release_id=self.release_id,
            created_at=datetime.now(timezone.utc).isoformat(timespec="microseconds"),
            dbanon_version=version(),
            source=str(source.name),
            output=str(output.name),
            output_kind=output.kind,
            relation=str(output.relation),
            method=job.policy.method,
            arguments=arguments
            | self.models.arguments()
            | self.persons.arguments()
            | self.kept.arguments(),
            quasi_identifiers=job.quasi_identifiers,
            sensitive=job.sensitive,
            kept=job.keep,
            not_copied=tuple(a.name for a in source.schema.attributes if a.name not in released),
            rows_in=microdata.n_read,
            rows_out=recount.rows,
            suppressed=microdata.withheld + release.partition.n_suppressed,
            null_rows=recount.null_rows,
            classes=recount.classes,
            smallest_class=recount.smallest,
            median_class=recount.median,
            largest_class=recount.largest,
            k_requested=int(job.policy.k),
            k_achieved=recount.smallest if counted is None else counted.smallest,
            information_loss=release.loss,
            information_loss_before_rounding=release.loss_before_rounding,
            column_losses=release.losses,
            guarantee=release.guarantee,
            loss_measure=release.measure,
            models=self.models.levels,
            seconds=dict(self.seconds),
            entity=job.entity,
            persons=None if counted is None else counted.persons,
            k_rows=recount.k_rows,
            levels=None if self.levels is None else dict(self.levels.levels),
            telling=self.kept.found,
        )

    def _elapsed(self) -> float:
        return time.perf_counter() - self._started

    def _timed(self, phase: str, work: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        result = work()
        self.seconds[phase] += time.perf_counter() - started
        return result


def _silent(phase: str, share: float) -> None:
    """Progress for callers who watch nothing."""
