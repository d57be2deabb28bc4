"""Run a job, for any source and target."""

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
from dbanon.data.words import also_under_former_key
from dbanon.errors import CodesAveraged, warn_caller
from dbanon.job.guarantee import SPLIT_PERSONS
from dbanon.job.job import Job
from dbanon.job.policy import Policy
from dbanon.job.requirements import CLIENT
from dbanon.job.verdict import ExpectedRelease
from dbanon.partitioning.nulls import merge_nulls
from dbanon.partitioning.partition_for import join_equal_classes, partition_for
from dbanon.partitioning.person_rows import with_layers
from dbanon.partitioning.sets import coarsen_for_column_sets
from dbanon.release.joint_rows import JOINT_ROWS, PERSON_ROWS
from dbanon.release.outcome import OperatorFigures, build_losses
from dbanon.release.recode import Release, find_lost_columns, number_combinations, recode
from dbanon.release.report import EvaluationOutcome, Provenance, RecountResult, Report
from dbanon.release.words import now
from dbanon.run.codes import count_averaged_codes
from dbanon.run.disclosure import (
    collect_findings,
    describe_joint_rows,
    find_disclosive_columns,
    find_few_persons,
    measure_homogeneity,
    merge_equal_classes,
    require_pseudonyms,
    warn_of_days,
    warn_of_homogeneity,
    warn_of_identifiers,
    warn_of_lost_columns,
    warn_of_spellings,
)
from dbanon.run.evaluate import attack, certify, evaluate, publish_certificate
from dbanon.run.fingerprint import compute_fingerprint, digest_source
from dbanon.run.history import caution_about_history, measure_joint_histories, warn_of_history
from dbanon.run.linkage import RetainedColumns, WrittenReleaseCounts, find_linking_columns
from dbanon.run.plan import Plan, plan
from dbanon.stores.ports import PreparedRelease, Source, Target, W
from dbanon.version import version

# The phases of every run. Options of a job add others, such as ``evaluate`` and ``attacks``.
PHASES = ("read", "cluster", "write", "verify", "digest")

# Called with the name of a phase and the share of it that is done, 0 to 1. An exception that it
# raises ends the run.
PhaseProgress = Callable[[str, float], None]
# Writes files of a release. Called with the target, staged release, count requests, counts,
# guarantee and report. Returns the ledger's entries for the files.
ExportFiles = Callable[..., "list[dict[str, Any]]"]


def run(
    job: Job,
    source: Source,
    target: Target[W],
    progress: PhaseProgress | None = None,
    export: ExportFiles | None = None,
) -> Report:
    """Run a job: read, cluster, write, recount; publish only if the recount succeeds.

    The caller opens and commits the sessions; the release becomes visible with the commit.

    Parameters
    ----------
    target : where the release is written. ``W`` is its type of a release that is written, but not
        visible yet.
    export : writes files of the verified release before it becomes visible. The report and the
        ledger store the entries that it returns.

    Raises
    ------
    DbanonError : its class says what went wrong; nothing was published.
    """
    clock = Clock(progress)
    with clock.phase("read") as tick:
        planned = plan(job, source, target, pulse=lambda: tick(0.0))
        job_fingerprint = compute_fingerprint(planned, source)
        planned = _with_source_digest(planned, source)
    planned = replace(
        planned, identifiers=source.find_direct_identifiers(planned.relation, job.retained_columns)
    )
    identifiers, spellings = warn_of_identifiers(planned), warn_of_spellings(planned, source)
    caution = caution_about_history(job, str(planned.relation.name), planned.history)
    warn_of_history(caution)
    microdata, policy, clustering = read_and_cluster(planned, source, clock)
    with clock.phase("write") as tick:
        tick(0.0)
        # Released values are computed only for writing, so the time counts for this phase.
        release = recode_release(planned, policy, source, microdata, clustering)
        draft = planned.prepare_release(microdata, release, job_fingerprint)
    planned = replace(planned, policy=policy)
    # For the report: how many persons share the combined classes of a person's rows, and how many
    # share a person's classes in several releases. ``check`` fills it.
    joint_counts: dict[str, Any] = {}

    def check(staged_release: W, counts: Counts) -> RecountResult:
        """Check the guarantee, then look for disclosure that it does not rule out."""

        def count_classes_below_k(name: str) -> tuple[int, int]:
            """Count the classes, and those with fewer than k values in a column."""
            return source.count_classes_below_k(draft, merge_equal_classes(draft, counts), name)

        expected = ExpectedRelease.of(microdata, release.partition.labels, planned.sensitive)
        require_pseudonyms(draft, source, target, staged_release)
        verdict = planned.guarantee.check(counts, expected)
        written_counts = WrittenReleaseCounts(draft, source, target, staged_release)
        # A sample of the written rows can prove a column nearly unique. Such columns need no
        # further count.
        sample_findings = target.find_unique_columns_in_sample(staged_release, job.retained_columns)
        disclosive_columns = find_disclosive_columns(
            job, draft.originals, written_counts.group_by_value, sample_findings
        )
        retained_columns = RetainedColumns(
            planned, draft.originals, written_counts, draft.release.names
        )
        if job.persons == SPLIT_PERSONS:
            joint_counts[JOINT_ROWS] = describe_joint_rows(draft)
        joint_counts.update(measure_joint_histories(job, planned.history, target, staged_release))
        count_homogeneous = partial(target.count_homogeneous_classes, staged_release)
        return RecountResult(
            rows_in=microdata.n_read,
            suppressed=microdata.n_withheld + release.partition.n_suppressed,
            rows=counts.rows,
            verdict=verdict,
            disclosive_columns=disclosive_columns,
            linking=find_linking_columns(retained_columns, disclosive_columns),
            # There are spellings only if k counts persons, and few persons only if it counts rows.
            few_persons=spellings or find_few_persons(planned, count_classes_below_k),
            identifiers=identifiers,
            homogeneity=measure_homogeneity(planned, draft.release.names, count_homogeneous),
        )

    def complete(report: Report) -> Report:
        """Add what the report says about earlier releases and copied rows, and warn."""
        n_earlier = len(planned.history.releases)
        # The joint counts only decide the wording here. The next line records them.
        report = report.with_earlier_releases(n_earlier, caution, joint_counts)
        report = report.with_arguments(**joint_counts)
        if source.copied_rows_summary:
            report = report.with_arguments(drawn=dict(source.copied_rows_summary))
        warn_of_lost_columns(report)
        warn_of_homogeneity(report)
        return report

    return publish(planned, clustering, draft, source, target, clock, check, complete, export)


def _with_source_digest(planned: Plan, source: Source) -> Plan:
    """Add a digest of the source's rows to the state that the ledger records, if requested."""
    if not planned.job.source_digest:
        return planned
    columns = list(dict.fromkeys(planned.job.columns_to_read))
    rows_digest = digest_source(source, planned.relation, columns)
    return replace(planned, source_state={**planned.source_state, "read": rows_digest})


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
    """Write a release and count it; publish it if ``check`` accepts the counts.

    The caller opens and commits the session of the target.

    Parameters
    ----------
    planned : the plan; its policy has the hierarchies that the records were recoded with.
    draft : the records, and the values to release for each class.
    clock : measures the seconds of each phase.
    check : returns counts and findings of the written release; raises if it must not be published.
    complete : adds the details of this kind of run to the report, such as those of a chain.
    export : writes files of the verified release, as for ``run``.

    Raises
    ------
    DbanonError : its class says what went wrong; nothing was published.
    """
    with clock.phase("write") as tick:
        staged_release = target.write(draft, source, tick)
        tick(1.0)
    with clock.phase("verify") as tick:
        tick(0.0)
        requests = planned.count_requests(draft.release.names)
        counts = target.count(staged_release, requests)
        recount_result = check(staged_release, counts)
    evaluation_outcome, public_certificate = EvaluationOutcome(), {}
    # Figures for the operator only, because they would reveal too much to readers.
    exact_figures: dict[str, Any] = {}
    if planned.policy.evaluate:
        with clock.phase("evaluate") as tick:
            evaluation_outcome, exact_figures["evaluation"] = evaluate(
                draft.microdata, draft.release, tick
            )
    if planned.policy.attacks and evaluation_outcome.figures is not None:
        with clock.phase("attacks") as tick:
            attack_figures = attack(draft.microdata, planned, draft.release, tick)
            evaluation_outcome = replace(
                evaluation_outcome,
                figures={**evaluation_outcome.figures, "attacks": attack_figures},
            )
    if planned.policy.certificate is not None:
        with clock.phase("certificate") as tick:
            certificate = certify(draft.microdata, planned, draft.release, tick)
            public_certificate = {"certificate": publish_certificate(certificate)}
            exact_figures["certificate"] = certificate
    # This phase builds the report, which contains the digest of the written rows.
    with clock.phase("digest"):
        report = build_report(planned, draft, clustering, recount_result)
        for text in report.describe_averaged_columns():
            warn_caller(CodesAveraged(f"Column {text}."))
        report = complete(
            replace(report, evaluation_outcome=evaluation_outcome).with_arguments(
                **public_certificate
            )
        )
        # ``internal`` has what only the operator may see: the exact losses, and now these figures.
        if report.internal is not None:
            report = replace(
                report, internal=OperatorFigures(report.internal.loss, **exact_figures)
            )
        report = report.with_provenance(
            digest=target.digest(staged_release), seconds=dict(clock.seconds)
        )
    if export is not None:
        with clock.phase("export") as tick:
            tick(0.0)
            files = export(target, staged_release, requests, counts, planned.guarantee, report)
            report = report.with_exports(files, dict(clock.seconds))
    # The seconds of publication are added to those of writing.
    with clock.phase("write"):
        recorded_at = target.publish(staged_release, report, counts, clock.elapsed)
    # The phase ``verify`` counts as complete only once the release is published.
    clock.report_progress("verify", 1.0)
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

    def report_progress(self, phase: str, share: float) -> None:
        """Report the progress of a phase; an exception of the callback ends the run."""
        if self._progress is not None:
            self._progress(phase, share)

    @contextmanager
    def phase(self, name: str) -> Iterator[Callable[[float], None]]:
        """Add the seconds of the block to a phase; yield a function that reports progress."""
        started = time.perf_counter()
        yield lambda share: self.report_progress(name, share)
        elapsed = time.perf_counter() - started
        self.seconds[name] = self.seconds.get(name, 0.0) + elapsed


def read_and_cluster(
    planned: Plan, source: Source, clock: Clock
) -> tuple[Microdata, Policy, ClusteringResult]:
    """Read and cluster the records.

    Returns the records, the policy with their hierarchies, and the classes.
    """
    with clock.phase("read") as tick:
        tick(0.0)
        microdata = source.read(planned.relation, planned.roles, planned.job, tick)
        microdata = merge_nulls(microdata, planned.policy)
        if planned.job.persons == SPLIT_PERSONS:
            # Spread the rows of each person over layers. Each layer has its own classes, and a
            # person counts once in each layer.
            microdata = with_layers(microdata, int(planned.policy.k))
        policy = planned.policy_for(microdata, lambda: tick(1.0))
    warn_of_days(microdata, policy)
    clustering = cluster_records(planned, policy, microdata, clock, trees=planned.build_trees)
    with clock.phase("cluster"):
        return (
            microdata,
            policy,
            _merge_indistinguishable_classes(planned, policy, source, microdata, clustering),
        )


def cluster_records(
    planned: Plan, policy: Policy, microdata: Microdata, clock: Clock, **options: Any
) -> ClusteringResult:
    """Find the classes of records. Further ``options`` are those of ``partition_for``."""
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


def _merge_indistinguishable_classes(
    planned: Plan,
    policy: Policy,
    source: Source,
    microdata: Microdata,
    clustering: ClusteringResult,
) -> ClusteringResult:
    """Merge classes until the models hold for the classes that readers can distinguish.

    The resulting classes are also coarsened for the sets of columns in ``also_k``.
    """
    has_entities = microdata.entities is not None
    # A model is closed under unions if it always holds for the union of classes for which it holds.
    # Then merged classes need no check.
    while not all(model.is_union_closed(has_entities) for model in policy.models):
        previous_clustering = clustering
        release = recode_release(planned, policy, source, microdata, previous_clustering)
        clustering = join_equal_classes(
            microdata,
            previous_clustering,
            number_combinations(microdata, release),
            policy,
            sensitive=planned.sensitive,
            memory_limit=planned.job.memory_limit,
        )
        # ``join_equal_classes`` returns its argument if no model is violated. Merged classes get
        # new released values, which may coincide again. The loop ends because the number of classes
        # falls each time.
        if clustering is previous_clustering:
            break
    return coarsen_for_column_sets(microdata, clustering, policy, planned.job.memory_limit)


def recode_release(
    planned: Plan,
    policy: Policy,
    source: Source,
    microdata: Microdata,
    clustering: ClusteringResult,
) -> Release:
    """Compute the released values of the classes."""
    relation = planned.relation
    return recode(
        microdata,
        clustering,
        policy,
        exact_totals=lambda partition, attributes: source.exact_totals(
            relation, microdata, partition, attributes
        ),
        build_trees=planned.build_trees,
    )


def build_report(
    planned: Plan,
    draft: PreparedRelease,
    clustering: ClusteringResult,
    recount_result: RecountResult,
) -> Report:
    """Build the report of a release that was written and recounted."""
    job, output = planned.job, draft.output
    further_arguments = collect_findings(recount_result)
    if job.entity_normalize is not None:
        further_arguments["entity_normalize"] = job.entity_normalize
    if job.persons == SPLIT_PERSONS:
        further_arguments[PERSON_ROWS] = job.persons
    if output.creates_schema:
        further_arguments["schema_created"] = output.name.schema
    if job.declared is not None:
        further_arguments["declared"] = job.declared
    if job.where is not None:
        further_arguments["where"] = job.where
    if draft.pseudonym_key is not None:
        further_arguments["pseudonyms"] = {
            "columns": [*job.pseudonyms],
            "key": draft.pseudonym_key.fingerprint,
        }
    if planned.expectation_report:
        further_arguments["expect"] = dict(planned.expectation_report)
    if job.reading.non_default_options:
        further_arguments["reading"] = job.reading.to_dict()
    if job.kept_columns == CLIENT:
        further_arguments["kept_columns"] = CLIENT
    # Only a full-domain search has levels: the chosen level of generalization by attribute.
    levels = None if clustering.levels is None else dict(clustering.levels.levels)
    if levels is not None:
        further_arguments["levels"] = levels
    if draft.release.suppressed_cells:
        further_arguments["suppressed_cells"] = dict(draft.release.suppressed_cells)
    # Rows with a released number that is no code of their column, such as a mean of postcodes.
    if rows_by_column := count_averaged_codes(draft.microdata, draft.release, planned.policy.kinds):
        further_arguments["averaged_codes"] = rows_by_column
    # Counts that only some methods report, such as the number of their steps.
    if clustering.method_counts:
        further_arguments |= also_under_former_key("method_counts", dict(clustering.method_counts))
    release, policy = draft.release, planned.policy
    lost_columns = find_lost_columns(release.columns, policy.hierarchies)
    public_losses, exact_losses = build_losses(release, levels, lost_columns)
    return Report(
        planned.build_request(
            policy,
            recount_result.verdict,
            release.names,
            source=str(planned.relation.name),
            output=str(output.name),
            output_kind=output.kind,
            further_arguments=further_arguments,
        ),
        recount_result,
        public_losses,
        Provenance(
            release_id=output.release_id,
            created_at=now(),
            dbanon_version=version(),
            relation=str(output.relation),
        ),
        internal=OperatorFigures(exact_losses),
    )
