"""The functions that a workbench's tasks run; they call those that dbanon's commands call.

A tree is the hierarchy of a column. Each change is recorded with the part of the state that changed
(its section, such as ``columns``), and with the id of the page whose form caused it. So a form of
another page can tell that it is outdated. A decision is a change that affects the job file.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from dbanon.advice.request import AdviceRequest
from dbanon.data.extension import load_runner
from dbanon.data.types import JsonMapping
from dbanon.doors.html.page import render_page, write_private_file
from dbanon.doors.html.view import describe_report, mask_small_count
from dbanon.doors.jobfile.file import open_jobs, read_job_file
from dbanon.doors.jobfile.init import (
    VIEW,
    UserDecisions,
    find_free_output_name,
    render_job_file,
)
from dbanon.doors.jobfile.run import CompletedJob, SkippedJob, plan_file_job, run_job_from_file
from dbanon.doors.releases import list_hierarchies, releases
from dbanon.errors import InvalidParameter, OutputExists
from dbanon.extensions.workbench.job import (
    build_further_keys,
    build_job_options,
    find_target_url,
    list_proposed_roles,
    name_tree_files,
)
from dbanon.extensions.workbench.state import (
    ColumnTree,
    JobChoice,
    JobDecisions,
    PublishedRelease,
    SavedJobFile,
    SweepChoice,
    SweepResult,
    TreeChoice,
    Workbench,
    WorkbenchArguments,
)
from dbanon.extensions.workbench.tasks import BackgroundTask
from dbanon.extensions.workbench.view import describe_sweep_map
from dbanon.hierarchy.builders import suggestion
from dbanon.hierarchy.spec import DATABASE_KINDS, HierarchySpec, build, parse
from dbanon.hierarchy.tree import Hierarchy
from dbanon.release.report import Report
from dbanon.run.advise import advise, propose_roles
from dbanon.run.inspect_release import inspect_release
from dbanon.run.job_runner import RiskRunner
from dbanon.run.open import open_store
from dbanon.run.tree_counts import count_tree
from dbanon.run.verify import Verification, verify
from dbanon.sessions.base import Relation
from dbanon.sessions.names import parse_relation
from dbanon.stores.schemes import is_row_file_url
from dbanon.stores.sql_source import SqlSource


@contextmanager
def open_source(arguments: WorkbenchArguments) -> Iterator[SqlSource]:
    """Open the table's database for reading."""
    store = open_store(
        arguments.url,
        reading=arguments.reading,
        table=arguments.table,
        memory=arguments.memory_bytes,
    )
    # ``staging`` allows the temporary tables that reading needs.
    with store.planning(staging=True) as session:
        yield SqlSource(session)


def require_table(arguments: WorkbenchArguments) -> None:
    """Check, before a page is opened, that the table can be read.

    Raises
    ------
    DbanonError : the database or the table does not exist, or cannot be reached.
    """
    with open_source(arguments) as source:
        # Raises TableNotFound.
        source.session.catalog.find_source(parse_relation(arguments.table))


def profile_columns(bench: Workbench, task: BackgroundTask) -> None:
    """Profile the columns, and apply the proposed roles until the user decides otherwise.

    Raises
    ------
    DbanonError : an error of ``dbanon init``.
    """
    arguments = bench.arguments
    task.report_progress("columns", 0.0)
    with open_source(arguments) as source:
        table_proposal = propose_roles(
            AdviceRequest(table=arguments.table, key=arguments.key), source
        )
        # A view needs another name than the table, if the schema for releases has such a table.
        free_name = None
        if arguments.output_kinds[0] == VIEW and arguments.target is None:
            free_name = find_free_output_name(source.session, parse_relation(arguments.table))
    stored_names: tuple[str, ...] = ()
    if not is_row_file_url(arguments.url):
        stored_names = tuple(hierarchy.name for hierarchy in list_hierarchies(arguments.url))
    is_first_profile = bench.role_proposals is None
    with bench.lock:
        bench.role_proposals, bench.stored_hierarchies = table_proposal, stored_names
        bench.free_output_name = free_name
        bench.roles = list_proposed_roles(table_proposal)
        bench.record_change("columns", task.request.page_id)
    if is_first_profile and arguments.opened_decisions is not None:
        _apply_decisions(bench, arguments.opened_decisions, task)


def _apply_decisions(bench: Workbench, file_decisions: JobDecisions, task: BackgroundTask) -> None:
    """Apply the decisions of a job file, building its trees from the table's current values."""
    path = bench.arguments.directory / file_decisions.choice.file
    with bench.lock:
        roles = {name: role for name, role in file_decisions.roles.items() if name in bench.roles}
        bench.roles = bench.roles | roles
        bench.reasons = {
            name: text for name, text in file_decisions.reasons.items() if name in roles
        }
        bench.job_choice = file_decisions.choice
        bench.file_digests[path] = _compute_digest(file_decisions.text)
        bench.saved_file = SavedJobFile(
            # Until the trees are built, the file does not have the current decisions.
            file_decisions.choice,
            file_decisions.text,
            decision_revision=-1,
        )
    trees = {
        name: tree for name, tree in file_decisions.trees.items() if name in bench.quasi_identifiers
    }
    build_trees(bench, trees, task)
    with bench.lock:
        # Only now, because the decision on the trees drops opened decisions and raises the
        # revision.
        bench.opened_decisions = file_decisions
        bench.saved_file.decision_revision = bench.decision_revision


def build_trees(bench: Workbench, choices: Mapping[str, TreeChoice], task: BackgroundTask) -> None:
    """Build the chosen trees, and count the rows below their nodes.

    Raises
    ------
    DbanonError : a tree cannot be read, or not be built from the column's values.
    """
    trees = {}
    with open_source(bench.arguments) as source:
        relation = source.session.catalog.find_source(parse_relation(bench.arguments.table))
        for index, (column, choice) in enumerate(choices.items()):
            task.report_progress("trees", index / len(choices))
            # If the tree cannot be built, the page shows the error at this field.
            task.field_name = f"tree-{list(bench.roles).index(column)}"
            trial_hierarchy, tree, reason = _build_tree(
                source, relation, column, choice, bench.arguments.directory
            )
            counts = count_tree(source.session, relation, column, tree, bench.k, bench.entity)
            trees[column] = ColumnTree(choice, trial_hierarchy, tree, counts, reason)
    with bench.lock:
        bench.trees, bench.chosen_trial = trees, None
        bench.record_decision("trees", task.request.page_id)


def recount_trees(bench: Workbench, task: BackgroundTask) -> None:
    """Count the rows below the nodes of trees again, after another k was chosen.

    Raises
    ------
    DbanonError : the column cannot be read, or has a value that its tree does not have.
    """
    with open_source(bench.arguments) as source:
        relation = source.session.catalog.find_source(parse_relation(bench.arguments.table))
        names, k = bench.trees_to_recount, bench.k
        for index, name in enumerate(names):
            task.report_progress("trees", index / len(names))
            tree = bench.trees[name].tree
            counts = count_tree(source.session, relation, name, tree, k, bench.entity)
            with bench.lock:
                bench.trees[name] = replace(bench.trees[name], counts=counts)


def _build_tree(
    source: SqlSource, relation: Relation, column: str, choice: TreeChoice, directory: Path
) -> tuple[Hierarchy | HierarchySpec, Hierarchy, str]:
    """Return the builder or tree for trial releases, the tree, and why it was suggested.

    The reason is empty for trees that the workbench did not suggest.
    """
    attribute = relation.attribute(column)
    if choice.kind == "suggest":
        suggested = suggestion(source.list_distinct_values(relation, attribute))
        return suggested.tree, suggested.tree, suggested.reason
    if choice.kind == "file":
        spec = parse(directory / choice.argument, files=True)
    else:
        # This tree was not suggested, so it needs no file for a suggested one.
        spec = parse(choice.to_job_file(suggested_file=""), files=False)
    if isinstance(spec, Hierarchy):
        return spec, spec, ""
    if spec.kind in DATABASE_KINDS:
        # The last argument would be called regularly; a task needs no such call to be cancelled.
        return spec, source.load_hierarchy(column, spec, lambda: None), ""
    return spec, build(spec, source.list_distinct_values(relation, attribute), column), ""


def run_sweep(bench: Workbench, choice: SweepChoice, task: BackgroundTask) -> None:
    """Make trial releases. A cancelled sweep keeps those that were made.

    Raises
    ------
    DbanonError : an error of ``dbanon advise``.
    """
    arguments = bench.arguments
    # The fields of ``SweepChoice`` are options of ``AdviceRequest``.
    request = AdviceRequest(
        table=arguments.table,
        key=arguments.key,
        quasi_identifiers=bench.quasi_identifiers,
        sensitive=bench.sensitive,
        hierarchies=bench.hierarchies,
        memory_limit=arguments.memory_bytes,
        **vars(choice),
    )
    with bench.lock:
        # The page shows the trial releases of the result while the sweep adds them.
        result = bench.sweeps[bench.build_sweep_key(choice)] = SweepResult(choice)
        bench.sweep_choice, bench.chosen_trial = choice, None
        bench.record_decision("sweep", task.request.page_id)
    with open_source(arguments) as source:
        result.advice = advise(request, source, task.report_progress, on_trial=result.add)
    with bench.lock:
        if result.advice.recommendation is not None:
            bench.chosen_trial = result.advice.recommendation.point
        bench.record_decision("sweep", task.request.page_id)


def find_releases_url(bench: Workbench) -> str | None:
    """Return the URL of the database for releases; None if it is a file that does not exist yet."""
    arguments = bench.arguments
    if not arguments.needs_database_file:
        return arguments.target or arguments.url
    path = (
        None
        if bench.job_choice is None
        else bench.arguments.directory / bench.job_choice.database_file
    )
    return f"duckdb:///{path}" if path is not None and path.exists() else None


def list_releases(bench: Workbench, task: BackgroundTask) -> None:
    """List the current releases."""
    task.report_progress("releases", 0.0)
    url = find_releases_url(bench)
    all_releases = [] if url is None else releases(url)
    with bench.lock:
        bench.listed_releases = [
            release
            for release in all_releases
            # Synthetic releases have no k.
            if release.state == "current" and release.k_requested
        ]


def inspect_releases(bench: Workbench, outputs: list[str], task: BackgroundTask) -> None:
    """Read the releases to compare.

    Parameters
    ----------
    outputs : the names of the releases' tables or views.

    Raises
    ------
    DbanonError : an error of ``dbanon report``.
    """
    url = find_releases_url(bench)
    for output in outputs:
        task.report_progress("release", 0.0)
        if url is not None:
            inspection = inspect_release(open_store(url), parse_relation(output))
            with bench.lock:
                bench.inspections[output] = inspection


def save_job_file(
    bench: Workbench, choice: JobChoice, task: BackgroundTask, *, replace_file: bool
) -> None:
    """Write the job file and the files of its trees, then check it.

    Parameters
    ----------
    replace_file : replace the job file even if this workbench did not write it.

    Raises
    ------
    OutputExists : another file has the name, and must not be replaced.
    JobFileInvalid : the decisions contradict each other; the file is written, to be corrected.
    DbanonError : an error of ``dbanon init``.
    """
    task.report_progress("job file", 0.0)
    with bench.lock:
        # The form shows these values whether or not the file can be written.
        bench.job_choice, bench.published_release = choice, None
        bench.record_change("job", task.request.page_id)
        decision_revision = bench.decision_revision
        trees = {
            name: tree for name, tree in bench.trees.items() if name in bench.quasi_identifiers
        }
    arguments = bench.arguments
    files = name_tree_files(bench, choice)
    decisions = UserDecisions(
        roles=bench.roles,
        reasons=bench.reasons,
        hierarchies={
            name: tree.choice.to_job_file(files.get(name, "")) for name, tree in trees.items()
        },
        options=build_job_options(bench),
        name=choice.name,
        output=parse_relation(choice.output).name,
        output_kind=choice.kind,
        target=find_target_url(bench, choice),
        further_keys=build_further_keys(choice),
    )
    text = render_job_file(
        arguments.url,
        arguments.table,
        k=bench.k,
        key=arguments.key,
        reading=arguments.reading,
        decisions=decisions,
    )
    path = arguments.directory / choice.file
    tree_texts = {
        arguments.directory / file: trees[name].tree.to_csv() for name, file in files.items()
    }
    # The form's checkbox to replace a file applies to the job file, not to files of trees.
    for tree_path in tree_texts:
        _require_replaceable(tree_path, bench)
    if not replace_file:
        _require_replaceable(path, bench)
    for file, content in (tree_texts | {path: text}).items():
        write_private_file(content, file)
        bench.file_digests[file] = _compute_digest(content)
    with bench.lock:
        bench.saved_file = SavedJobFile(
            choice, text, decision_revision, tree_files=tuple(files.values())
        )
        bench.record_change("saved", task.request.page_id)
    # Raises JobFileInvalid.
    read_job_file(path)


def _compute_digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def _require_replaceable(path: Path, bench: Workbench) -> None:
    """Check that there is no file, or that this workbench wrote it; raises OutputExists."""
    if os.path.lexists(path):
        digest = bench.file_digests.get(path)
        if (
            path.is_symlink()
            or digest is None
            or _compute_digest(path.read_text("utf-8")) != digest
        ):
            raise OutputExists(
                f"The file {path.name} already exists, and this workbench did not write it, or it"
                " has been changed since.",
                hint="Choose another name for the job file, or remove this file. A checkbox on the"
                " page lets the workbench replace a job file.",
            )


def plan_job(bench: Workbench, task: BackgroundTask) -> None:
    """Plan a run of the job.

    Raises
    ------
    DbanonError : an error of ``dbanon plan``.
    """
    task.report_progress("plan", 0.0)
    saved_file = _require_saved_file(bench)
    file = open_jobs(_job_file_path(bench, saved_file))
    [job] = file.select_jobs([saved_file.choice.name])
    preview = plan_file_job(job)
    # Unlike the command, the page masks small counts, those below k. If the saved file and the
    # page differ in k, use the larger k, which masks more.
    rows = f"{preview.rows:,}"
    if preview.withheld:
        rows += f", {mask_small_count(preview.withheld, max(preview.k, bench.k))} with a NULL"
    pairs = [(name, rows if name == "rows" else text) for name, text in preview.pairs()]
    with bench.lock:
        saved_file.plan = pairs
        bench.record_change("plan", task.request.page_id)


def run_saved_job(bench: Workbench, task: BackgroundTask) -> None:
    """Run the job, and render its report.

    Raises
    ------
    DbanonError : an error of ``dbanon run``.
    """
    saved_file = _require_saved_file(bench)
    file = open_jobs(_job_file_path(bench, saved_file))
    [job] = file.select_jobs([saved_file.choice.name])

    def record_release(completed_job: CompletedJob) -> None:
        # The release is published, whatever fails afterwards.
        report = completed_job.report
        with bench.lock:
            bench.published_release = PublishedRelease(
                report.output,
                report.release_id,
                headline=(),
                report_html="",
                warnings=report.warning_texts,
            )
            bench.record_change("run", task.request.page_id)

    result = run_job_from_file(file, job, progress=task.report_progress, on_commit=record_release)
    assert not isinstance(result, SkippedJob)
    bench.arguments.save_report(job, result.report)
    if isinstance(result.report, Report):
        _render_report(bench, result.report, job.target or job.source)


def _render_report(bench: Workbench, report: Report, url: str) -> None:
    """Recount a release's classes, and store its rendered report in the workbench."""
    store, name = open_store(url), parse_relation(report.output)
    inspection, recount = inspect_release(store, name), verify(store, name)
    assert isinstance(recount, Verification)
    sweep_result, chosen_trial = bench.current_sweep, bench.chosen_trial
    tradeoff = None
    if sweep_result is not None and chosen_trial is not None:
        tradeoff = describe_sweep_map(sweep_result, chosen_trial)
    report_html = render_page(report, inspection=inspection, recount=recount, tradeoff=tradeoff)
    # The headline needs none of the other arguments.
    headline = describe_report(report, distributions=(), tradeoff=None, inspection=None)["headline"]
    with bench.lock:
        bench.published_release = PublishedRelease(
            report.output,
            report.release_id,
            headline=headline,
            report_html=report_html,
            warnings=report.warning_texts,
            disclosure=_describe_disclosure(report),
        )
        bench.listed_releases, bench.inspections = None, {report.output: inspection}


def _describe_disclosure(report: Report) -> JsonMapping | None:
    """Describe the disclosure risk that a job measured; None if it did not."""
    risk = None if report.internal is None else report.internal.risk
    if risk is None:
        return None
    runner: RiskRunner = load_runner("sample_risk")
    return runner.describe_for_page(risk)


def _require_saved_file(bench: Workbench) -> SavedJobFile:
    if bench.saved_file is None:
        raise InvalidParameter("There is no job file yet.", hint='Save it on the page "Job file".')
    return bench.saved_file


def _job_file_path(bench: Workbench, saved_file: SavedJobFile) -> Path:
    return bench.arguments.directory / saved_file.choice.file
