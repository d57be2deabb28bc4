"""What a workbench asks of its databases, by what commands ask them; each is a task's work."""

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
from dbanon.doors.jobfile.init import Decided, job_file_for, proposal
from dbanon.doors.jobfile.run import Published, Skipped, plan_file_job, run_in_file
from dbanon.doors.releases import list_hierarchies, releases
from dbanon.doors.workbench.job import job_options, more_keys, target_of, tree_files
from dbanon.doors.workbench.state import (
    Grown,
    JobChoice,
    JobDecisions,
    Made,
    Saved,
    Start,
    SweepChoice,
    Swept,
    TreeChoice,
    Workbench,
)
from dbanon.doors.workbench.tasks import Task
from dbanon.doors.workbench.view import map_told
from dbanon.errors import InvalidParameter, OutputExists
from dbanon.hierarchy.builders import suggestion
from dbanon.hierarchy.spec import IN_DATABASES, HierarchySpec, build, parse
from dbanon.hierarchy.tree import Hierarchy
from dbanon.release.report import Report
from dbanon.run.advise import advise, proposed
from dbanon.run.inspect_release import look
from dbanon.run.open import open_store
from dbanon.run.tree_counts import tree_counts
from dbanon.run.verify import Verification, verify
from dbanon.sessions.base import Relation
from dbanon.sessions.names import parse_relation
from dbanon.stores.folders import is_of_files
from dbanon.stores.sql_source import SqlSource


@contextmanager
def source_of(start: Start) -> Iterator[SqlSource]:
    """The table's database, to be looked at."""
    store = open_store(start.url, reading=start.reading, table=start.table, memory=start.memory)
    with store.planning(staging=True) as session:
        yield SqlSource(session)


def require_table(start: Start) -> None:
    """Check, before a page is opened, that there is something to look at.

    Raises
    ------
    DbanonError : the database or the table is not there, or cannot be reached.
    """
    with source_of(start) as source:
        source.session.find_source(parse_relation(start.table))


def propose(bench: Workbench, task: Task) -> None:
    """Look at the columns; what is proposed for them is decided on until somebody says otherwise.

    Raises
    ------
    DbanonError : as ``dbanon init``.
    """
    start = bench.start
    task.tell("columns", 0.0)
    with source_of(start) as source:
        found = proposed(AdviceRequest(table=start.table, key=start.key), source)
    stored: tuple[str, ...] = ()
    if not is_of_files(start.url):
        stored = tuple(one.name for one in list_hierarchies(start.url))
    is_first = bench.proposed is None
    with bench.lock:
        bench.proposed, bench.stored = found, stored
        bench.roles = {
            column.name: proposal(column.attribute, found.roles[column.name]).role
            for column in found.profile.columns
        }
        bench.changed("columns", task.request.page)
    if is_first and start.opened is not None:
        _decide_as(bench, start.opened, task)


def _decide_as(bench: Workbench, opened: JobDecisions, task: Task) -> None:
    """Decide as a job file says; its trees are made of the table as it is now."""
    place = bench.start.directory / opened.choice.file
    with bench.lock:
        known = {name: role for name, role in opened.roles.items() if name in bench.roles}
        bench.roles = bench.roles | known
        bench.reasons = {name: text for name, text in opened.reasons.items() if name in known}
        bench.job, bench.files[place] = opened.choice, _digest(opened.text)
        bench.saved = Saved(opened.choice, opened.text, decided=-1)
    trees = {name: tree for name, tree in opened.trees.items() if name in bench.quasi_identifiers}
    grow(bench, trees, task)
    with bench.lock:
        bench.opened, bench.saved.decided = opened, bench.decided


def grow(bench: Workbench, choices: Mapping[str, TreeChoice], task: Task) -> None:
    """Make the trees that were chosen, and count what lies below their nodes.

    Raises
    ------
    DbanonError : a tree cannot be read or made of the column's values.
    """
    grown = {}
    with source_of(bench.start) as source:
        relation = source.session.find_source(parse_relation(bench.start.table))
        for place, (column, choice) in enumerate(choices.items()):
            task.tell("trees", place / len(choices))
            task.field_name = f"tree-{list(bench.roles).index(column)}"
            given, tree, why = _tree(source, relation, column, choice, bench.start.directory)
            counts = tree_counts(source.session, relation, column, tree, bench.k, bench.entity)
            grown[column] = Grown(choice, given, tree, counts, why)
    with bench.lock:
        bench.trees, bench.chosen = grown, None
        bench.decide("trees", task.request.page)


def count_again(bench: Workbench, task: Task) -> None:
    """Count what lies below the nodes of trees for a k that was chosen since.

    Raises
    ------
    DbanonError : the column cannot be read, or has a value that its tree does not have.
    """
    with source_of(bench.start) as source:
        relation = source.session.find_source(parse_relation(bench.start.table))
        names, k = bench.outgrown, bench.k
        for place, name in enumerate(names):
            task.tell("trees", place / len(names))
            tree = bench.trees[name].tree
            counts = tree_counts(source.session, relation, name, tree, k, bench.entity)
            with bench.lock:
                bench.trees[name] = replace(bench.trees[name], counts=counts)


def _tree(
    source: SqlSource, relation: Relation, column: str, choice: TreeChoice, directory: Path
) -> tuple[Hierarchy | HierarchySpec, Hierarchy, str]:
    """What trials are made with, the tree itself, and why it is this one."""
    attribute = relation.attribute(column)
    if choice.kind == "suggest":
        found = suggestion(source.distinct(relation, attribute))
        return found.tree, found.tree, found.why
    if choice.kind == "file":
        given = parse(directory / choice.more, files=True)
    else:
        given = parse(choice.plain(""), files=False)
    if isinstance(given, Hierarchy):
        return given, given, ""
    if given.kind in IN_DATABASES:
        return given, source.hierarchy(column, given, lambda: None), ""
    return given, build(given, source.distinct(relation, attribute), column), ""


def sweep(bench: Workbench, choice: SweepChoice, task: Task) -> None:
    """Try releases; those that were tried stay when it is cancelled.

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
        swept = bench.sweeps[bench.key_of(choice)] = Swept(choice)
        bench.sweep_choice, bench.chosen = choice, None
        bench.decide("sweep", task.request.page)
    with source_of(start) as source:
        swept.advice = advise(request, source, task.tell, tried=swept.add)
    with bench.lock:
        if swept.advice.recommendation is not None:
            bench.chosen = swept.advice.recommendation.point
        bench.decide("sweep", task.request.page)


def releases_url(bench: Workbench) -> str | None:
    """URL of the database that releases go into; None where a file has none yet."""
    start = bench.start
    if not start.needs_place:
        return start.target or start.url
    place = None if bench.job is None else bench.start.directory / bench.job.place
    return f"duckdb:///{place}" if place is not None and place.exists() else None


def list_releases(bench: Workbench, task: Task) -> None:
    """Look which releases there are."""
    task.tell("releases", 0.0)
    url = releases_url(bench)
    found = [] if url is None else releases(url)
    with bench.lock:
        bench.listed = [one for one in found if one.state == "current" and one.k_requested]


def look_at(bench: Workbench, outputs: list[str], task: Task) -> None:
    """Look at releases that are to be compared.

    Raises
    ------
    DbanonError : as ``dbanon report``.
    """
    url = releases_url(bench)
    for output in outputs:
        task.tell("release", 0.0)
        if url is not None:
            found = look(open_store(url), parse_relation(output))
            with bench.lock:
                bench.looks[output] = found


def save(bench: Workbench, choice: JobChoice, task: Task, *, replace_file: bool) -> None:
    """Write the job file, and the trees that it names, then check it.

    Raises
    ------
    OutputExists : there is another file, and nobody said that it may be replaced.
    JobFileInvalid : what was decided on is not allowed together; the file is there to be mended.
    DbanonError : as ``dbanon init``.
    """
    task.tell("job file", 0.0)
    with bench.lock:
        # Whatever it comes to, the form shows what was asked for.
        bench.job, bench.made = choice, None
        bench.changed("job", task.request.page)
        decided = bench.decided
        trees = {n: grown for n, grown in bench.trees.items() if n in bench.quasi_identifiers}
    start = bench.start
    files = tree_files(bench, choice)
    wanted = Decided(
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
        start.url, start.table, k=bench.k, key=start.key, reading=start.reading, decided=wanted
    )
    place = start.directory / choice.file
    written = {start.directory / file: trees[name].tree.to_csv() for name, file in files.items()}
    # What may be replaced is the job file, and no table that has the name of a tree.
    for one in written:
        _require_own(one, bench)
    if not replace_file:
        _require_own(place, bench)
    for one, content in (written | {place: text}).items():
        write(content, one)
        bench.files[one] = _digest(content)
    with bench.lock:
        bench.saved = Saved(choice, text, decided, tuple(files.values()))
        bench.changed("saved", task.request.page)
    read_job_file(place)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def _require_own(place: Path, bench: Workbench) -> None:
    """Check that nothing has a place, or what this workbench wrote there; raises OutputExists."""
    if os.path.lexists(place):
        ours = bench.files.get(place)
        if place.is_symlink() or ours is None or _digest(place.read_text("utf-8")) != ours:
            raise OutputExists(
                f"There is a file {place.name} already, which this workbench did not write, or"
                " which was changed since.",
                hint="Choose another name for the job file, or say that it is to be replaced.",
            )


def plan(bench: Workbench, task: Task) -> None:
    """Say what a run of the job would do.

    Raises
    ------
    DbanonError : as ``dbanon plan``.
    """
    task.tell("plan", 0.0)
    saved = _saved(bench)
    [job] = bench.start.commands.opened(_path(bench, saved)).chosen([saved.choice.name])
    found = plan_file_job(job)
    rows = f"{found.rows:,}"
    if found.withheld:
        rows += f", {few(found.withheld, max(found.k, bench.k))} with a NULL"
    told = [(name, rows if name == "rows" else text) for name, text in found.pairs()]
    with bench.lock:
        saved.plan = told
        bench.changed("plan", task.request.page)


def run(bench: Workbench, task: Task) -> None:
    """Run the job, and read its report.

    Raises
    ------
    DbanonError : as ``dbanon run``.
    """
    saved = _saved(bench)
    commands = bench.start.commands
    file = commands.opened(_path(bench, saved))
    [job] = file.chosen([saved.choice.name])

    def committed(made: Published) -> None:
        # From here on it is released, whatever follows.
        report = made.report
        with bench.lock:
            bench.made = Made(report.output, report.release_id, (), "", report.warned)
            bench.changed("run", task.request.page)

    made = run_in_file(file, job, progress=task.tell, committed=committed)
    assert not isinstance(made, Skipped)
    commands.save(job, made.report)
    if isinstance(made.report, Report):
        _read(bench, made.report, job.target or job.source)


def _read(bench: Workbench, report: Report, url: str) -> None:
    """Read the report of a release, its classes counted again."""
    store, name = open_store(url), parse_relation(report.output)
    found, recount = look(store, name), verify(store, name)
    assert isinstance(recount, Verification)
    swept, chosen = bench.swept, bench.chosen
    tradeoff = map_told(swept, chosen) if swept is not None and chosen is not None else None
    text = page(report, look=found, recount=recount, tradeoff=tradeoff)
    headline = view_of_page(report, (), None, None)["headline"]
    with bench.lock:
        bench.made = Made(report.output, report.release_id, headline, text, report.warned)
        bench.listed, bench.looks = None, {report.output: found}


def _saved(bench: Workbench) -> Saved:
    if bench.saved is None:
        raise InvalidParameter("There is no job file yet.", hint="Save it first.")
    return bench.saved


def _path(bench: Workbench, saved: Saved) -> Path:
    return bench.start.directory / saved.choice.file
