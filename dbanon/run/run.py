"""Run a job, for any source and target."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Generic

from dbanon.data.counts import Counts
from dbanon.data.frozen import dataclass
from dbanon.data.microdata import Microdata
from dbanon.data.partition import ClusteringResult
from dbanon.data.types import JsonObject
from dbanon.data.weights import require_finite_sum
from dbanon.data.words import also_under_former_key
from dbanon.errors import CodesAveraged, warn_caller
from dbanon.job.guarantee import SPLIT_PERSONS
from dbanon.job.job import Job
from dbanon.job.nulls import MERGE
from dbanon.job.policy import Policy
from dbanon.job.requirements import CLIENT
from dbanon.job.verdict import Caution, ExpectedRelease
from dbanon.job.weight import ROUNDED
from dbanon.methods import find_method
from dbanon.methods.registry import MISSING_OPTION
from dbanon.partitioning.coding import code_columns
from dbanon.partitioning.partition_for import join_equal_classes, partition_for
from dbanon.release.attribute_disclosure import FewPersons, RetainedIdentifier
from dbanon.release.joint_rows import JOINT_ROWS, PERSON_ROWS
from dbanon.release.outcome import OperatorFigures, build_losses
from dbanon.release.recode import Release, find_lost_columns, number_combinations, recode
from dbanon.release.report import EvaluationOutcome, Provenance, RecountResult, Report
from dbanon.release.words import now
from dbanon.run.codes import count_averaged_codes
from dbanon.run.coding import require_coded_copies, require_coded_labels, require_zip_labels
from dbanon.run.date_shift import (
    describe_shift,
    draw_offsets,
    require_shifted_dates,
    warn_of_unshifted_copies,
)
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
from dbanon.run.fingerprint import compute_fingerprint, digest_source
from dbanon.run.history import caution_about_history, measure_joint_histories, warn_of_history
from dbanon.run.linkage import RetainedColumns, WrittenReleaseCounts, find_linking_columns
from dbanon.run.plan import Plan, plan
from dbanon.run.weights import build_weight_record, require_class_weights
from dbanon.stores.ports import PreparedRelease, Source, Target, W
from dbanon.version import version

if TYPE_CHECKING:
    from dbanon.release.risk_figures import RiskFigures

# The phases of every run. Options of a job add others, such as ``evaluate`` and ``attacks``.
PHASES = ("read", "cluster", "write", "verify", "digest")

# Called with the name of a phase and the share of it that is done, 0 to 1. An exception that it
# raises ends the run.
PhaseProgress = Callable[[str, float], None]
# Writes files of a release. Called with the target, staged release, count requests, counts,
# guarantee and report. Returns the ledger's entries for the files.
ExportFiles = Callable[..., "list[JsonObject]"]
# Measures the disclosure risk before and after. Called with the prepared release, the staged
# release, and a function that takes the share of the work that is done.
MeasureRisk = Callable[..., "RiskFigures"]


def run(
    job: Job,
    source: Source,
    target: Target[W],
    progress: PhaseProgress | None = None,
    export: ExportFiles | None = None,
    measure_risk: MeasureRisk | None = None,
) -> Report:
    """Run a job: plan, read, cluster, recode; then stage, recount and publish (``ReleaseRun``).

    The caller opens and commits the sessions; the release becomes visible with the commit.

    Parameters
    ----------
    target : where the release is written. ``W`` is its type of a release that is written, but not
        visible yet.
    export : writes files of the verified release before it becomes visible. The report and the
        ledger store the entries that it returns.
    measure_risk : measures the disclosure risk before the release becomes visible, for the operator
        only; raises RiskTooHigh if a limit of the job is exceeded.

    Raises
    ------
    DbanonError : its class says what went wrong; nothing was published.
    """
    clock = Clock(progress)
    with clock.phase("read") as tick:
        planned = plan(job, source, target, pulse=lambda: tick(0.0))
        job_fingerprint = compute_fingerprint(planned, source)
        if job.source_digest:
            planned = _with_source_digest(planned, source)
    reasons = source.find_direct_identifiers(planned.relation, job.retained_columns)
    planned = replace(planned, identifiers=reasons)
    identifiers = warn_of_identifiers(planned)
    spellings = warn_of_spellings(planned, source, job.entity) if job.entity else ()
    caution = caution_about_history(job, str(planned.relation.name), planned.history)
    if caution is not None:
        warn_of_history(caution)
    warn_of_unshifted_copies(job, planned.history)
    microdata, policy, clustering = read_and_cluster(planned, source, clock)
    with clock.phase("write") as tick:
        tick(0.0)
        # Released values are computed only for writing, so the time counts for this phase.
        release = recode_release(planned, policy, source, microdata, clustering)
        offsets = draw_offsets(planned, source, microdata)
        draft = planned.prepare_release(microdata, release, job_fingerprint, offsets)
        if job.spill is not None:
            # Databases may need their share of the memory now.
            microdata.release_pages()
            release.partition.free_members()
    release_run = IndependentRun(
        replace(planned, policy=policy),
        clustering,
        draft,
        source,
        target,
        clock,
        export,
        identifiers=identifiers,
        spellings=spellings,
        caution=caution,
        measure_risk=measure_risk,
    )
    return release_run.publish()


def _with_source_digest(planned: Plan, source: Source) -> Plan:
    """Add a digest of the source's rows to the state that the ledger records."""
    columns = list(dict.fromkeys(planned.job.columns_to_read))
    rows_digest = digest_source(source, planned.relation, columns)
    return replace(planned, source_state={**planned.source_state, "read": rows_digest})


@dataclass(frozen=True, eq=False)
class ReleaseRun(ABC, Generic[W]):
    """A release that is computed, and the stages that remain: stage, recount, report, publish.

    The stages are methods, which ``publish`` calls in this order. Kinds of releases differ in two
    of them: what the recount must show (``check``), and what the report adds (``complete``).

    Parameters
    ----------
    planned : the plan; its policy has the hierarchies that the records were recoded with.
    draft : the records, and the values to release for each class.
    source, target : where the records come from, and where the release is written.
    clock : measures the seconds of each phase.
    export : writes files of the verified release, as for ``run``.
    """

    planned: Plan
    clustering: ClusteringResult
    draft: PreparedRelease
    source: Source
    target: Target[W]
    clock: Clock
    export: ExportFiles | None

    @abstractmethod
    def check(self, staged_release: W, counts: Counts) -> RecountResult:
        """Check the guarantee, and find disclosure that it does not rule out.

        Raises
        ------
        DbanonError : the release must not be published.
        """

    @abstractmethod
    def complete(self, report: Report) -> Report:
        """Add to the report what this kind of release says beyond others, and warn."""

    def publish(self) -> Report:
        """Stage the release and count it; publish it if ``check`` accepts the counts.

        The caller opens and commits the session of the target.

        Raises
        ------
        DbanonError : its class says what went wrong; nothing was published.
        """
        clock, target = self.clock, self.target
        with clock.phase("write") as tick:
            staged_release = target.write(self.draft, self.source, tick)
            tick(1.0)
        with clock.phase("verify") as tick:
            tick(0.0)
            requests = self.planned.count_requests(self.draft.release.names)
            counts = target.count(staged_release, requests)
            recount_result = self.check(staged_release, counts)
        outcome, exact_figures, public_figures = self.evaluate(staged_release)
        # This phase builds the report, which contains the digest of the written rows.
        with clock.phase("digest"):
            report = build_report(self.planned, self.draft, self.clustering, recount_result)
            for text in report.describe_averaged_columns():
                warn_caller(CodesAveraged(f"Column {text}."))
            report = self.complete(
                replace(report, evaluation_outcome=outcome).with_arguments(**public_figures)
            )
            # ``internal`` has what only the operator may see: the exact losses, and these figures.
            if report.internal is not None:
                report = replace(
                    report,
                    internal=OperatorFigures(
                        report.internal.loss,
                        weighting=report.internal.weighting,
                        **exact_figures,
                    ),
                )
            report = report.with_provenance(
                digest=target.digest(staged_release), seconds=dict(clock.seconds)
            )
        if self.export is not None:
            with clock.phase("export") as tick:
                tick(0.0)
                guarantee = self.planned.guarantee
                files = self.export(target, staged_release, requests, counts, guarantee, report)
                report = report.with_exports(files, dict(clock.seconds))
        # The seconds of publication are added to those of writing.
        with clock.phase("write"):
            recorded_at = target.publish(staged_release, report, counts, clock.elapsed)
        # The phase ``verify`` counts as complete only once the release is published.
        clock.report_progress("verify", 1.0)
        return report.with_provenance(
            created_at=recorded_at, seconds=clock.seconds | {"total": clock.elapsed}
        )

    def evaluate(self, staged_release: W) -> tuple[EvaluationOutcome, JsonObject, JsonObject]:
        """Evaluate the release, attack it and certify it, as far as the policy requests that.

        Returns the evaluation, figures for the operator only, because they would reveal too much
        to readers, and figures for everyone.
        """
        planned, microdata, release = self.planned, self.draft.microdata, self.draft.release
        outcome = EvaluationOutcome()
        exact_figures: JsonObject = {}
        public_figures: JsonObject = {}
        if planned.policy.evaluate:
            with self.clock.phase("evaluate") as tick:
                from dbanon.run.evaluate import evaluate

                outcome, exact_figures["evaluation"] = evaluate(microdata, release, tick)
        if planned.policy.attacks and outcome.figures is not None:
            with self.clock.phase("attacks") as tick:
                from dbanon.run.evaluate import attack

                attack_figures = attack(microdata, planned, release, tick)
                outcome = replace(outcome, figures={**outcome.figures, "attacks": attack_figures})
        if self.clustering.owner_counts:
            exact_figures["suppression"] = dict(self.clustering.owner_counts)
        levels = self.clustering.levels
        if levels is not None and levels.owner_figures:
            exact_figures["levels"] = dict(levels.owner_figures)
        if planned.policy.certificate is not None:
            with self.clock.phase("certificate") as tick:
                from dbanon.run.evaluate import certify, publish_certificate

                certificate = certify(microdata, planned, release, tick)
                exact_figures["certificate"] = certificate
                public_figures["certificate"] = publish_certificate(certificate)
        return outcome, exact_figures, public_figures


@dataclass(frozen=True, eq=False)
class IndependentRun(ReleaseRun[W]):
    """A release outside of chains.

    Parameters
    ----------
    identifiers, spellings : findings on columns of the source, for the report.
    caution : the caution about earlier releases of the source; None if there is none.
    measure_risk : as for ``run``.
    """

    identifiers: tuple[RetainedIdentifier, ...]
    spellings: tuple[FewPersons, ...]
    caution: Caution | None
    measure_risk: MeasureRisk | None = None

    def check(self, staged_release: W, counts: Counts) -> RecountResult:
        """Check the guarantee, then look for disclosure that it does not rule out."""
        planned, draft, job = self.planned, self.draft, self.planned.job
        microdata, partition = draft.microdata, draft.release.partition
        expected = ExpectedRelease.of(microdata, partition.labels, planned.sensitive)
        if job.pseudonyms:
            require_pseudonyms(draft, self.source, self.target, staged_release)
        require_shifted_dates(draft, self.source, self.target, staged_release)
        verdict = planned.guarantee.check(counts, expected)
        require_coded_labels(draft, self.target, staged_release)
        require_coded_copies(draft, self.target, staged_release)
        require_zip_labels(planned.zip_areas, draft, self.target, staged_release)
        require_class_weights(draft, self.target, staged_release)
        originals, names = draft.originals, draft.release.names
        written_counts = WrittenReleaseCounts(draft, self.source, self.target, staged_release)
        # A sample of the written rows can prove a column nearly unique. Such columns need no
        # further count.
        sample_findings = self.target.find_unique_columns_in_sample(
            staged_release, job.retained_columns
        )
        disclosive_columns = find_disclosive_columns(
            job, originals, written_counts.group_by_value, sample_findings
        )
        retained_columns = RetainedColumns(planned, originals, written_counts, names)
        joint_counts: JsonObject = {}
        if job.persons == SPLIT_PERSONS:
            joint_counts[JOINT_ROWS] = describe_joint_rows(draft)
        joint_counts |= measure_joint_histories(job, planned.history, self.target, staged_release)

        def count_classes_below_k(name: str) -> tuple[int, int]:
            """Count the classes, and those with fewer than k values in a column."""
            return self.source.count_classes_below_k(
                draft, merge_equal_classes(draft, counts), name
            )

        count_homogeneous = partial(self.target.count_homogeneous_classes, staged_release)
        return RecountResult(
            rows_in=microdata.n_read,
            suppressed=microdata.n_withheld + partition.n_suppressed,
            rows=counts.rows,
            verdict=verdict,
            disclosive_columns=disclosive_columns,
            linking=find_linking_columns(retained_columns, disclosive_columns),
            # There are spellings only if k counts persons, and few persons only if it counts rows.
            few_persons=self.spellings or find_few_persons(planned, count_classes_below_k),
            identifiers=self.identifiers,
            homogeneity=measure_homogeneity(planned, names, count_homogeneous),
            joint_counts=joint_counts,
        )

    def evaluate(self, staged_release: W) -> tuple[EvaluationOutcome, JsonObject, JsonObject]:
        """Also measure the disclosure risk, if the job requests that."""
        outcome, exact_figures, public_figures = super().evaluate(staged_release)
        if self.measure_risk is not None:
            with self.clock.phase("risk") as tick:
                exact_figures["risk"] = self.measure_risk(self.draft, staged_release, tick)
        return outcome, exact_figures, public_figures

    def complete(self, report: Report) -> Report:
        """Add what the report says about earlier releases and copied rows, and warn."""
        n_earlier, joint_counts = len(self.planned.history.releases), report.counts.joint_counts
        # The joint counts only decide the wording here. The next line records them.
        report = report.with_earlier_releases(n_earlier, self.caution, joint_counts)
        report = report.with_arguments(**joint_counts)
        if self.source.copied_rows_summary:
            report = report.with_arguments(drawn=dict(self.source.copied_rows_summary))
        warn_of_lost_columns(report)
        warn_of_homogeneity(report)
        return report


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
        yield partial(self.report_progress, name)
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
        if microdata.weights is not None:
            require_finite_sum(microdata.weights, str(planned.job.design_weight))
        microdata = code_columns(microdata, planned.policy, planned.zip_areas)
        if planned.policy.nulls == MERGE:
            from dbanon.partitioning.nulls import merge_nulls

            microdata = merge_nulls(microdata, planned.policy)
        if planned.job.persons == SPLIT_PERSONS:
            from dbanon.partitioning.person_rows import with_layers

            # Spread the rows of each person over layers. Each layer has its own classes, and a
            # person counts once in each layer.
            microdata = with_layers(microdata, int(planned.policy.k))
        policy = planned.policy_for(microdata, lambda: tick(1.0))
    warn_of_days(microdata, policy)
    with clock.phase("cluster") as tick:
        tick(0.0)
        clustering = partition_for(
            microdata,
            policy,
            trees=planned.build_trees,
            sensitive=planned.sensitive,
            memory_limit=planned.job.memory_limit,
            tick=tick,
        )
        clustering = _merge_indistinguishable_classes(
            planned, policy, source, microdata, clustering
        )
        if find_method(policy.method).suppresses_cells:
            from dbanon.release.cells import suppress_differing_cells

            # The recount, the evaluation and the report need to know which cells are NULL now.
            suppressed = suppress_differing_cells(
                microdata, clustering, policy.hierarchies, keep_originals=policy.evaluate
            )
            if MISSING_OPTION in policy.options:
                from dbanon.run.suppression_counts import count_for_owner

                owner_counts = count_for_owner(microdata, suppressed, clustering.classes, policy)
                clustering = replace(clustering, owner_counts=owner_counts)
            microdata = suppressed
    return microdata, policy, clustering


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
    if not policy.also_k:
        return clustering
    from dbanon.partitioning.sets import coarsen_for_column_sets

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
    release = recode(
        microdata,
        clustering,
        policy,
        exact_totals=lambda partition, attributes: source.exact_totals(
            relation, microdata, partition, attributes
        ),
        build_trees=planned.build_trees,
    )
    for name in planned.job.averaged_weights:
        from dbanon.release.weights import average_weights, round_weights

        weight = average_weights(microdata, release, name)
        if planned.job.weight_as == ROUNDED:
            weight = round_weights(microdata, release, weight)
        release = replace(release, weight=weight)
    return release


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
    if draft.pseudonym_key is not None and job.pseudonyms:
        further_arguments["pseudonyms"] = {
            "columns": [*job.pseudonyms],
            "key": draft.pseudonym_key.fingerprint,
        }
    if planned.percentiles:
        further_arguments["thresholds_from_data"] = dict(planned.percentiles)
    if draft.copy_codings:
        further_arguments["coded_copies"] = [*draft.copy_codings]
    if job.shift_dates is not None:
        further_arguments["shift_dates"] = describe_shift(job, draft.pseudonym_key)
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
    further_arguments |= build_weight_record(draft)
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
    weighting = None
    if draft.microdata.weights is not None:
        from dbanon.release.weights import describe_weighting

        weighting = describe_weighting(draft.microdata, release)
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
        internal=OperatorFigures(exact_losses, weighting=weighting),
    )
