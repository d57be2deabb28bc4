"""One run of a job, for any source and target."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from dbanon.data.counts import Counts
from dbanon.data.microdata import Microdata
from dbanon.data.partition import ClusteringResult
from dbanon.data.words import both_keys
from dbanon.errors import CodesAveraged, warn_caller
from dbanon.job.guarantee import PARTED
from dbanon.job.job import Job
from dbanon.job.policy import Policy
from dbanon.job.requirements import CLIENT
from dbanon.job.verdict import ExpectedRelease
from dbanon.partitioning.nulls import merge_nulls
from dbanon.partitioning.partition_for import join_equal_classes, partition_for
from dbanon.partitioning.person_rows import with_layers
from dbanon.partitioning.sets import coarsen_for_sets
from dbanon.release.joint_rows import JOINT_ROWS, PERSON_ROWS
from dbanon.release.outcome import OperatorFigures, losses_of
from dbanon.release.recode import Release, combinations, find_lost_columns, recode
from dbanon.release.report import Evaluated, Provenance, RecountResult, Report
from dbanon.release.words import now
from dbanon.run.codes import averaged_codes
from dbanon.run.disclosure import (
    describe_joint_rows,
    few_persons,
    find_disclosive_columns,
    findings_of,
    homogeneity_of,
    require_pseudonyms,
    visible_classes,
    warn_of_days,
    warn_of_homogeneity,
    warn_of_identifiers,
    warn_of_lost_columns,
    warn_of_spellings,
)
from dbanon.run.evaluate import attack, certify, evaluate, published_certificate
from dbanon.run.fingerprint import fingerprint, source_digest
from dbanon.run.history import caution_of, joint_histories, warn_of_history
from dbanon.run.linkage import RetainedColumns, WrittenReleaseCounts, linking_columns
from dbanon.run.plan import Plan, plan
from dbanon.stores.ports import PreparedRelease, Source, Target, W
from dbanon.version import version

# Jobs may add ``evaluate``, ``attacks`` and ``certificate``.
PHASES = ("read", "cluster", "write", "verify", "digest")

# Called with the phase and the share of it that is done; its exceptions end the run.
PhaseProgress = Callable[[str, float], None]
# Called with the target, the written release, questions, counts, guarantee and report.
ExportFiles = Callable[..., "list[dict[str, Any]]"]


def run(
    job: Job,
    source: Source,
    target: Target[W],
    progress: PhaseProgress | None = None,
    export: ExportFiles | None = None,
) -> Report:
    """Run a job: read, cluster, write, recount; publish only if the recount succeeds.

    Parameters
    ----------
    export : writes files of the verified release before it becomes visible; the report and the
        ledger store the entries that it returns.

    The caller opened source and target and commits them; until then the release is invisible.

    Raises
    ------
    DbanonError : its class says what went wrong; nothing was published.
    """
    clock = Clock(progress)
    with clock.phase("read") as tick:
        planned = plan(job, source, target, lambda: tick(0.0))
        job_fingerprint = fingerprint(planned, source)
        if job.source_digest:
            read = source_digest(source, planned.relation, list(dict.fromkeys(job.read)))
            planned = replace(planned, state={**planned.state, "read": read})
    planned = replace(
        planned, identifiers=source.identifiers(planned.relation, job.retained_columns)
    )
    identifiers = warn_of_identifiers(planned)
    spellings = warn_of_spellings(planned, source)
    caution = caution_of(job, str(planned.relation.name), planned.history)
    warn_of_history(caution)
    microdata, policy, clustering = read_and_cluster(planned, source, clock)
    with clock.phase("write") as tick:
        tick(0.0)
        release = recode_release(planned, policy, source, microdata, clustering)
        draft = planned.draft(microdata, release, job_fingerprint)
    planned = replace(planned, policy=policy)
    joint: dict[str, Any] = {}

    def check(written: W, counts: Counts) -> RecountResult:
        def classes_below(name: str) -> tuple[int, int]:
            return source.classes_below(draft, visible_classes(draft, counts), name)

        expected = ExpectedRelease.of(microdata, release.partition.labels, planned.sensitive)
        require_pseudonyms(draft, source, target, written)
        verdict = planned.guarantee.check(counts, expected)
        stored = WrittenReleaseCounts(draft, source, target, written)
        proved = target.sampled(written, job.retained_columns)
        telling = find_disclosive_columns(job, draft.originals, stored.groups, proved)
        columns = RetainedColumns(planned, draft.originals, stored, draft.release.names)
        if job.persons == PARTED:
            joint[JOINT_ROWS] = describe_joint_rows(draft)
        joint.update(joint_histories(job, planned.history, target, written))
        return RecountResult(
            rows_in=microdata.n_read,
            suppressed=microdata.withheld + release.partition.n_suppressed,
            rows=counts.rows,
            verdict=verdict,
            disclosive_columns=telling,
            linking=linking_columns(columns, telling),
            few_persons=spellings or few_persons(planned, classes_below),
            identifiers=identifiers,
            homogeneity=homogeneity_of(
                planned, draft.release.names, partial(target.homogeneity, written)
            ),
        )

    def complete(report: Report) -> Report:
        earlier = len(planned.history.releases)
        report = report.with_earlier_releases(earlier, caution, joint).with_arguments(**joint)
        if source.drawn:
            report = report.with_arguments(drawn=dict(source.drawn))
        warn_of_lost_columns(report)
        warn_of_homogeneity(report)
        return report

    return publish(planned, clustering, draft, source, target, clock, check, complete, export)


def publish(
    planned: Plan,
    clustering: ClusteringResult,
    draft: PreparedRelease,
    source: Source,
    target: Target[W],
    clock: Clock,
    check: Callable[[W, Counts], RecountResult],
    complete: Callable[[Report], Report],
    export: ExportFiles | None = None,
) -> Report:
    """Write a release and count it; publish it when ``check`` accepts the counts.

    Parameters
    ----------
    planned : with the policy whose hierarchies the records were recoded by.
    check : returns the verdict on the written release; raises if it must not be published.
    complete : adds facts to the report that only this kind of run has.
    export : as of ``run``.

    The caller has opened the target and commits it.

    Raises
    ------
    DbanonError : its class says what went wrong; nothing was published.
    """
    with clock.phase("write") as tick:
        written = target.write(draft, source, tick)
        tick(1.0)
    with clock.phase("verify") as tick:
        tick(0.0)
        questions = planned.questions(draft.release.names)
        counts = target.count(written, questions)
        counted = check(written, counts)
    evaluated, certified = Evaluated(), {}
    exact: dict[str, Any] = {}
    if planned.policy.evaluate:
        with clock.phase("evaluate") as tick:
            evaluated, exact["evaluation"] = evaluate(draft.microdata, draft.release, tick)
    if planned.policy.attacks and evaluated.figures is not None:
        with clock.phase("attacks") as tick:
            reached = {"attacks": attack(draft.microdata, planned, tick)}
            evaluated = replace(evaluated, figures={**evaluated.figures, **reached})
    if planned.policy.certificate is not None:
        with clock.phase("certificate") as tick:
            certificate = certify(draft.microdata, draft.release, planned.policy, tick)
            certified = {"certificate": published_certificate(certificate)}
            exact["certificate"] = certificate
    with clock.phase("digest"):
        report = report_of(planned, draft, clustering, counted)
        for text in report.describe_averaged_columns():
            warn_caller(CodesAveraged(f"Column {text}."))
        report = complete(replace(report, evaluated=evaluated).with_arguments(**certified))
        if report.internal is not None:
            report = replace(report, internal=OperatorFigures(report.internal.loss, **exact))
        report = report.with_provenance(digest=target.digest(written), seconds=dict(clock.seconds))
    if export is not None:
        with clock.phase("export") as tick:
            tick(0.0)
            files = export(target, written, questions, counts, planned.guarantee, report)
            report = report.exported(files, dict(clock.seconds))
    with clock.phase("write"):
        recorded_at = target.publish(written, report, counts, clock.elapsed)
    clock.tell("verify", 1.0)
    return report.with_provenance(
        created_at=recorded_at, seconds=clock.seconds | {"total": clock.elapsed}
    )


class Clock:
    """Measures seconds per phase and reports progress."""

    def __init__(self, progress: PhaseProgress | None = None) -> None:
        self._progress = progress
        self._started = time.perf_counter()
        self.seconds = dict.fromkeys(PHASES, 0.0)

    @property
    def elapsed(self) -> float:
        """Seconds since the clock was created."""
        return time.perf_counter() - self._started

    def tell(self, phase: str, share: float) -> None:
        """Report the progress of a phase; exceptions of the listener end the run."""
        if self._progress is not None:
            self._progress(phase, share)

    @contextmanager
    def phase(self, name: str) -> Iterator[Callable[[float], None]]:
        """Add the seconds of the block to a phase; yield a function that reports progress."""
        started = time.perf_counter()
        yield lambda share: self.tell(name, share)
        spent = time.perf_counter() - started
        self.seconds[name] = self.seconds.get(name, 0.0) + spent


def read_and_cluster(
    planned: Plan, source: Source, clock: Clock
) -> tuple[Microdata, Policy, ClusteringResult]:
    """The records, the policy with their hierarchies, and their classes."""
    with clock.phase("read") as tick:
        tick(0.0)
        microdata = source.read(planned.relation, planned.roles, planned.job, tick)
        microdata = merge_nulls(microdata, planned.policy)
        if planned.job.persons == PARTED:
            microdata = with_layers(microdata, int(planned.policy.k))
        policy = planned.policy_for(microdata, lambda: tick(1.0))
    warn_of_days(microdata, policy)
    clustering = cluster_records(planned, policy, microdata, clock, trees=planned.trees)
    with clock.phase("cluster"):
        return (
            microdata,
            policy,
            _join_indistinguishable(planned, policy, source, microdata, clustering),
        )


def cluster_records(
    planned: Plan, policy: Policy, microdata: Microdata, clock: Clock, **options: Any
) -> ClusteringResult:
    """The classes of records; ``options`` go to ``partition_for``."""
    with clock.phase("cluster") as tick:
        tick(0.0)
        return partition_for(
            microdata,
            policy,
            sensitive=planned.sensitive,
            memory_limit=planned.job.memory_limit,
            tick=tick,
            **options,
        )


def _join_indistinguishable(
    planned: Plan,
    policy: Policy,
    source: Source,
    microdata: Microdata,
    clustering: ClusteringResult,
) -> ClusteringResult:
    """The classes, joined until the models hold for the classes that readers can distinguish."""
    of_persons = microdata.entities is not None
    while not all(model.is_union_closed(of_persons) for model in policy.models):
        previous = clustering
        release = recode_release(planned, policy, source, microdata, previous)
        clustering = join_equal_classes(
            microdata,
            previous,
            combinations(microdata, release),
            policy,
            sensitive=planned.sensitive,
            memory_limit=planned.job.memory_limit,
        )
        # Joined classes get new labels, which may coincide again. The number of classes falls
        # each time, so this ends.
        if clustering is previous:
            break
    return coarsen_for_sets(microdata, clustering, policy, planned.job.memory_limit)


def recode_release(
    planned: Plan,
    policy: Policy,
    source: Source,
    microdata: Microdata,
    clustering: ClusteringResult,
) -> Release:
    """The classes with their released values."""
    relation = planned.relation
    return recode(
        microdata,
        clustering,
        policy,
        lambda partition, wide: source.exact_totals(relation, microdata, partition, wide),
        planned.trees,
    )


def report_of(
    planned: Plan, draft: PreparedRelease, clustering: ClusteringResult, counted: RecountResult
) -> Report:
    """The report of a release that was counted."""
    job, output = planned.job, draft.output
    more = findings_of(counted)
    if job.entity_normalize is not None:
        more["entity_normalize"] = job.entity_normalize
    if job.persons == PARTED:
        more[PERSON_ROWS] = job.persons
    if output.creates_schema:
        more["schema_created"] = output.name.schema
    if job.declared is not None:
        more["declared"] = job.declared
    if job.where is not None:
        more["where"] = job.where
    if draft.pseudonym_key is not None:
        more["pseudonyms"] = {"columns": [*job.pseudonyms], "key": draft.pseudonym_key.check}
    if planned.compared:
        more["expect"] = dict(planned.compared)
    if job.reading.changed:
        more["reading"] = job.reading.to_dict()
    if job.kept_columns == CLIENT:
        more["kept_columns"] = CLIENT
    levels = None if clustering.levels is None else dict(clustering.levels.levels)
    if levels is not None:
        more["levels"] = levels
    if draft.release.suppressed_cells:
        more["suppressed_cells"] = dict(draft.release.suppressed_cells)
    if averaged := averaged_codes(draft.microdata, draft.release, planned.policy.kinds):
        more["averaged_codes"] = averaged
    if clustering.method_counts:
        more |= both_keys("method_counts", dict(clustering.method_counts))
    release, policy = draft.release, planned.policy
    completely = find_lost_columns(release.columns, policy.hierarchies)
    public, exact = losses_of(release, levels, completely)
    names_and_kind = str(planned.relation.name), str(output.name), output.kind
    return Report(
        planned.request(policy, counted.verdict, release.names, names_and_kind, more),
        counted,
        public,
        Provenance(
            release_id=output.release_id,
            created_at=now(),
            dbanon_version=version(),
            relation=str(output.relation),
        ),
        internal=OperatorFigures(exact),
    )
