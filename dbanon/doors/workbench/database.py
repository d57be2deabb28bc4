"""The work of a workbench's tasks on its databases, by the functions behind the commands."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from dbanon.advice.request import AdviceRequest
from dbanon.doors.html.page import page, write
from dbanon.doors.html.view import few
from dbanon.doors.html.view import view as view_of_page
from dbanon.doors.jobfile.file import read_job_file
from dbanon.doors.jobfile.init import VIEW, RoleDecisions, free_output_name, job_file_for, proposal
from dbanon.doors.jobfile.run import CompletedJob, SkippedJob, plan_file_job, run_in_file
from dbanon.doors.releases import list_hierarchies, releases
from dbanon.doors.workbench.job import job_options, more_keys, target_of, tree_files
from dbanon.doors.workbench.state import (
    ColumnTree,
    JobChoice,
    JobDecisions,
    PublishedRelease,
    SavedJobFile,
    Start,
    SweepChoice,
    SweepResult,
    TreeChoice,
    Workbench,
)
from dbanon.doors.workbench.tasks import BackgroundTask
from dbanon.doors.workbench.view import sweep_map
from dbanon.errors import InvalidParameter, OutputExists
from dbanon.hierarchy.builders import suggestion
from dbanon.hierarchy.spec import IN_DATABASES, HierarchySpec, build, parse
from dbanon.hierarchy.tree import Hierarchy
from dbanon.release.report import Report
from dbanon.run.advise import advise, propose_roles
from dbanon.run.inspect_release import inspect_release
from dbanon.run.open import open_store
from dbanon.run.tree_counts import count_tree
from dbanon.run.verify import Verification, verify
from dbanon.sessions.base import Relation
from dbanon.sessions.names import parse_relation
from dbanon.stores.folders import is_of_files
from dbanon.stores.sql_source import SqlSource


@contextmanager
def source_of(start: Start) -> Iterator[SqlSource]:
    """The table's database, opened for reading."""
    store = open_store(start.url, reading=start.reading, table=start.table, memory=start.memory)
    with store.planning(staging=True) as session:
        yield SqlSource(session)


def require_table(start: Start) -> None:
    """Check, before a page is opened, that the table can be read.

    Raises
    ------
    DbanonError : the database or the table is not there, or cannot be reached.
    """
    with source_of(start) as source:
        source.session.find_source(parse_relation(start.table))


def propose(bench: Workbench, task: BackgroundTask) -> None:
    """Profile the columns, and take the proposed roles until the user decides otherwise.

    Raises
    ------
    DbanonError : as ``dbanon init``.
    """
    start = bench.start
    task.tell("columns", 0.0)
    with source_of(start) as source:
        proposal_of_table = propose_roles(AdviceRequest(table=start.table, key=start.key), source)
        free_name = None
        if start.kinds[0] == VIEW and start.target is None:
            free_name = free_output_name(source.session, parse_relation(start.table))
    stored: tuple[str, ...] = ()
    if not is_of_files(start.url):
        stored = tuple(hierarchy.name for hierarchy in list_hierarchies(start.url))
    is_first = bench.proposed is None
    with bench.lock:
        bench.proposed, bench.stored = proposal_of_table, stored
        bench.free_output_name = free_name
        bench.roles = {
            column.name: proposal(column.attribute, proposal_of_table.roles[column.name]).role
            for column in proposal_of_table.profile.columns
        }
        bench.record_change("columns", task.request.page)
    if is_first and start.opened is not None:
        _decide_as(bench, start.opened, task)


def _decide_as(bench: Workbench, opened: JobDecisions, task: BackgroundTask) -> None:
    """Take the decisions of a job file; its trees are built from the table as it is now."""
    path = bench.start.directory / opened.choice.file
    with bench.lock:
        roles = {name: role for name, role in opened.roles.items() if name in bench.roles}
        bench.roles = bench.roles | roles
        bench.reasons = {name: text for name, text in opened.reasons.items() if name in roles}
        bench.job, bench.files[path] = opened.choice, _digest(opened.text)
        bench.saved = SavedJobFile(opened.choice, opened.text, decided=-1)
    trees = {name: tree for name, tree in opened.trees.items() if name in bench.quasi_identifiers}
    grow(bench, trees, task)
    with bench.lock:
        bench.opened, bench.saved.decided = opened, bench.decided


def grow(bench: Workbench, choices: Mapping[str, TreeChoice], task: BackgroundTask) -> None:
    """Build the trees that were chosen, and count the rows below their nodes.

    Raises
    ------
    DbanonError : a tree cannot be read or made of the column's values.
    """
    trees = {}
    with source_of(bench.start) as source:
        relation = source.session.find_source(parse_relation(bench.start.table))
        for index, (column, choice) in enumerate(choices.items()):
            task.tell("trees", index / len(choices))
            task.field_name = f"tree-{list(bench.roles).index(column)}"
            trial, tree, why = _tree(source, relation, column, choice, bench.start.directory)
            counts = count_tree(source.session, relation, column, tree, bench.k, bench.entity)
            trees[column] = ColumnTree(choice, trial, tree, counts, why)
    with bench.lock:
        bench.trees, bench.chosen = trees, None
        bench.decide("trees", task.request.page)


def count_again(bench: Workbench, task: BackgroundTask) -> None:
    """Count the rows below the nodes of trees for a k that was chosen since.

    Raises
    ------
    DbanonError : the column cannot be read, or has a value that its tree does not have.
    """
    with source_of(bench.start) as source:
        relation = source.session.find_source(parse_relation(bench.start.table))
        names, k = bench.trees_to_recount, bench.k
        for index, name in enumerate(names):
            task.tell("trees", index / len(names))
            tree = bench.trees[name].tree
            counts = count_tree(source.session, relation, name, tree, k, bench.entity)
            with bench.lock:
                bench.trees[name] = replace(bench.trees[name], counts=counts)


def _tree(
    source: SqlSource, relation: Relation, column: str, choice: TreeChoice, directory: Path
) -> tuple[Hierarchy | HierarchySpec, Hierarchy, str]:
    """The tree or builder for trials, the tree itself, and the reason for a suggested one."""
    attribute = relation.attribute(column)
    if choice.kind == "suggest":
        suggested = suggestion(source.distinct(relation, attribute))
        return suggested.tree, suggested.tree, suggested.reason
    if choice.kind == "file":
        spec = parse(directory / choice.more, files=True)
    else:
        spec = parse(choice.plain(""), files=False)
    if isinstance(spec, Hierarchy):
        return spec, spec, ""
    if spec.kind in IN_DATABASES:
        return spec, source.hierarchy(column, spec, lambda: None), ""
    return spec, build(spec, source.distinct(relation, attribute), column), ""


def sweep(bench: Workbench, choice: SweepChoice, task: BackgroundTask) -> None:
    """Try releases. A cancelled sweep keeps those that were tried.

    Raises
    ------
    DbanonError : as ``dbanon advise``.
    """
    start = bench.start
    request = AdviceRequest(
        table=start.table,
        key=start.key,
        quasi_identifiers=bench.quasi_identifiers,
        sensitive=bench.sensitive,
        hierarchies=bench.hierarchies,
        memory_limit=start.memory,
        **vars(choice),
    )
    with bench.lock:
        swept = bench.sweeps[bench.key_of(choice)] = SweepResult(choice)
        bench.sweep_choice, bench.chosen = choice, None
        bench.decide("sweep", task.request.page)
    with source_of(start) as source:
        swept.advice = advise(request, source, task.tell, on_tried=swept.add)
    with bench.lock:
        if swept.advice.recommendation is not None:
            bench.chosen = swept.advice.recommendation.point
        bench.decide("sweep", task.request.page)


def releases_url(bench: Workbench) -> str | None:
    """URL of the database that releases go into; None for a file without one yet."""
    start = bench.start
    if not start.needs_place:
        return start.target or start.url
    path = None if bench.job is None else bench.start.directory / bench.job.place
    return f"duckdb:///{path}" if path is not None and path.exists() else None


def list_releases(bench: Workbench, task: BackgroundTask) -> None:
    """List the current releases."""
    task.tell("releases", 0.0)
    url = releases_url(bench)
    recorded = [] if url is None else releases(url)
    with bench.lock:
        bench.listed = [r for r in recorded if r.state == "current" and r.k_requested]


def look_at(bench: Workbench, outputs: list[str], task: BackgroundTask) -> None:
    """Read the releases that are to be compared.

    Raises
    ------
    DbanonError : as ``dbanon report``.
    """
    url = releases_url(bench)
    for output in outputs:
        task.tell("release", 0.0)
        if url is not None:
            release = inspect_release(open_store(url), parse_relation(output))
            with bench.lock:
                bench.inspections[output] = release


def save(bench: Workbench, choice: JobChoice, task: BackgroundTask, *, replace_file: bool) -> None:
    """Write the job file, and the trees that it names, then check it.

    Raises
    ------
    OutputExists : another file has the name, and the form does not say to replace it.
    JobFileInvalid : the decisions contradict each other; the file is written, to be corrected.
    DbanonError : as ``dbanon init``.
    """
    task.tell("job file", 0.0)
    with bench.lock:
        # The form shows these values whether or not the file can be written.
        bench.job, bench.made = choice, None
        bench.record_change("job", task.request.page)
        decided = bench.decided
        trees = {n: grown for n, grown in bench.trees.items() if n in bench.quasi_identifiers}
    start = bench.start
    files = tree_files(bench, choice)
    decisions = RoleDecisions(
        roles=bench.roles,
        reasons=bench.reasons,
        hierarchies={n: grown.choice.plain(files.get(n, "")) for n, grown in trees.items()},
        options=job_options(bench),
        name=choice.name,
        output=parse_relation(choice.output).name,
        kind=choice.kind,
        target=target_of(bench, choice),
        more=more_keys(choice),
    )
    text = job_file_for(
        start.url, start.table, k=bench.k, key=start.key, reading=start.reading, decided=decisions
    )
    path = start.directory / choice.file
    tree_texts = {start.directory / file: trees[name].tree.to_csv() for name, file in files.items()}
    # The form allows to replace the job file, never another file with the name of a tree.
    for tree_path in tree_texts:
        _require_own(tree_path, bench)
    if not replace_file:
        _require_own(path, bench)
    for file, content in (tree_texts | {path: text}).items():
        write(content, file)
        bench.files[file] = _digest(content)
    with bench.lock:
        bench.saved = SavedJobFile(choice, text, decided, tuple(files.values()))
        bench.record_change("saved", task.request.page)
    read_job_file(path)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def _require_own(path: Path, bench: Workbench) -> None:
    """Check that a path is free or this workbench wrote it; raises OutputExists."""
    if os.path.lexists(path):
        digest = bench.files.get(path)
        if path.is_symlink() or digest is None or _digest(path.read_text("utf-8")) != digest:
            raise OutputExists(
                f"There is already a file {path.name}, which this workbench did not write,"
                " or"
                " which was changed since.",
                hint="Choose another name for the job file, or remove this file. A box on the page"
                " lets the workbench replace a job file.",
            )


def plan(bench: Workbench, task: BackgroundTask) -> None:
    """Plan a run of the job.

    Raises
    ------
    DbanonError : as ``dbanon plan``.
    """
    task.tell("plan", 0.0)
    saved = _saved(bench)
    [job] = bench.start.commands.opened(_path(bench, saved)).chosen([saved.choice.name])
    preview = plan_file_job(job)
    rows = f"{preview.rows:,}"
    if preview.withheld:
        rows += f", {few(preview.withheld, max(preview.k, bench.k))} with a NULL"
    pairs = [(name, rows if name == "rows" else text) for name, text in preview.pairs()]
    with bench.lock:
        saved.plan = pairs
        bench.record_change("plan", task.request.page)


def run(bench: Workbench, task: BackgroundTask) -> None:
    """Run the job, and read its report.

    Raises
    ------
    DbanonError : as ``dbanon run``.
    """
    saved = _saved(bench)
    commands = bench.start.commands
    file = commands.opened(_path(bench, saved))
    [job] = file.chosen([saved.choice.name])

    def committed(published: CompletedJob) -> None:
        # The release is out, whatever fails afterwards.
        report = published.report
        with bench.lock:
            bench.made = PublishedRelease(report.output, report.release_id, (), "", report.warned)
            bench.record_change("run", task.request.page)

    published = run_in_file(file, job, progress=task.tell, committed=committed)
    assert not isinstance(published, SkippedJob)
    commands.save(job, published.report)
    if isinstance(published.report, Report):
        _read(bench, published.report, job.target or job.source)


def _read(bench: Workbench, report: Report, url: str) -> None:
    """Read the report of a release, and recount its classes."""
    store, name = open_store(url), parse_relation(report.output)
    release, recount = inspect_release(store, name), verify(store, name)
    assert isinstance(recount, Verification)
    swept, chosen = bench.current_sweep, bench.chosen
    tradeoff = sweep_map(swept, chosen) if swept is not None and chosen is not None else None
    text = page(report, look=release, recount=recount, tradeoff=tradeoff)
    headline = view_of_page(report, (), None, None)["headline"]
    with bench.lock:
        bench.made = PublishedRelease(
            report.output, report.release_id, headline, text, report.warned
        )
        bench.listed, bench.inspections = None, {report.output: release}


def _saved(bench: Workbench) -> SavedJobFile:
    if bench.saved is None:
        raise InvalidParameter("There is no job file yet.", hint='Save it on the page "Job file".')
    return bench.saved


def _path(bench: Workbench, saved: SavedJobFile) -> Path:
    return bench.start.directory / saved.choice.file
