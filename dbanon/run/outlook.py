"""Outlook: what a plan says before anything is run, and nothing is changed for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

from dbanon.data.chunks import bytes_per_record, require_memory
from dbanon.errors import InvalidParameter, UnsupportedType
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.guarantee import WHOLE
from dbanon.job.job import Job
from dbanon.job.requirements import CLIENT
from dbanon.methods.forecast import Shape, in_words
from dbanon.partitioning.forecast import forecast
from dbanon.release.joint_rows import PERSON_ROWS
from dbanon.release.publication import published_loss
from dbanon.release.words import files_note, passthrough_note
from dbanon.run.changes import Changes, PlannedFile, changes, planning_ports
from dbanon.run.hierarchies import require_covered
from dbanon.run.plan import Plan, plan
from dbanon.run.run import Clock, PhaseProgress, read_and_cluster, recoded
from dbanon.sessions.base import ColumnReading, Relation
from dbanon.sessions.names import parse_relation
from dbanon.sessions.session import Session
from dbanon.sessions.store import Store
from dbanon.stores.ports import Source
from dbanon.stores.source_counts import require_feasible
from dbanon.stores.sql_source import SqlSource

LEAVE = "leave the database for this program's memory, and come back"


@dataclass(frozen=True)
class PlannedColumn:
    """A quasi-identifier as it would be read.

    Parameters
    ----------
    kind : what its values are: ``integer``, ``decimal``, ``category`` …
    hierarchy : ``leaves`` and ``height`` of its tree, ``from`` where it is described; None where it
        has none.
    """

    name: str
    sql_type: str
    kind: str
    hierarchy: Mapping[str, Any] | None


@dataclass(frozen=True)
class FileColumn:
    """What a column of a CSV file was read as.

    Parameters
    ----------
    sql_type : ``VARCHAR`` where not all values are of one other type.
    told : what its texts look like, and what would read them; shares alone, and never of fewer than
        k rows. Empty where there is nothing to say.
    """

    name: str
    sql_type: str
    told: str

    @classmethod
    def of(cls, one: ColumnReading, k: int) -> FileColumn:
        """The column, of which no more is told than of k rows."""
        rest = one.n_values - one.n_matching
        if not one.look or one.n_matching < k or 2 * one.n_matching < one.n_values:
            return cls(one.name, one.sql_type, one.by)
        # How many fewer than k there are, nobody is told.
        share = "nearly all" if rest < k else f"{100 * one.n_matching // one.n_values} %"
        words = f"{share if rest else 'all'} look like {one.look}"
        return cls(one.name, one.sql_type, words + (f": {one.option}" if one.option else ""))


@dataclass(frozen=True)
class Clustered:
    """What classes a run would find, and what they would lose."""

    classes: int
    smallest_class: int
    largest_class: int
    suppressed: int
    information_loss: float
    loss_measure: str
    levels: Mapping[str, int] | None
    seconds: Mapping[str, float]


class Section(Protocol):
    """A part of what is told of a job, by the room that knows it."""

    def pairs(self) -> list[tuple[str, str]]:
        """Label and text, for people."""


@dataclass(frozen=True)
class Outlook:
    """What a run of a job would do.

    Holds no value that was read. What the call itself wrote out for a builder of a hierarchy, such
    as ``{"ordered": ["low", "high"]}``, is in ``arguments`` and beside its column as given.

    ``rows`` were counted; of these ``withheld`` have a NULL where none may be. ``key`` says how
    rows are found again: the columns that were named, or none for the relation's own. ``memory`` is
    about what reading and clustering would take, in bytes, and ``forecast`` what finding classes
    would, None where that was not measured. ``replaces`` is the kind of the relation
    that would be replaced. ``creates`` and ``drops`` name relations, ``exports``
    files. ``clustered`` is None where nobody asked for it, ``chain`` where the release would
    belong to none. ``file_columns`` are those of a CSV file, all of them.
    """

    source: str
    source_kind: str
    rows: int
    withheld: int
    key: tuple[str, ...]
    output: str
    output_kind: str
    replaces: str | None
    quasi_identifiers: tuple[PlannedColumn, ...]
    by: tuple[str, ...]
    sensitive: tuple[str, ...]
    kept: tuple[str, ...]
    entity: str | None
    not_copied: tuple[str, ...]
    method: str
    arguments: Mapping[str, Any]
    k: int
    guarantee: str
    memory: int
    memory_limit: int | None
    forecast: Mapping[str, float] | None = None
    creates: tuple[str, ...] = ()
    drops: tuple[str, ...] = ()
    exports: tuple[PlannedFile, ...] = ()
    clustered: Clustered | None = None
    chain: Section | None = None
    file_columns: tuple[FileColumn, ...] = ()

    @property
    def passthrough(self) -> bool:
        """True where columns that are copied leave their database for the client's memory."""
        return self.arguments.get("kept_columns") == CLIENT and "drawn" not in self.arguments

    def to_dict(self) -> dict[str, Any]:
        """The outlook as plain values, for JSON."""
        return asdict(self)

    def pairs(self) -> list[tuple[str, str]]:
        """The outlook as pairs of label and text, for people."""

        def names(values: tuple[str, ...]) -> str:
            return ", ".join(values) or "none"

        replaced = f", replaces a {self.replaces}" if self.replaces else ""
        limit = "" if self.memory_limit is None else f" of {self.memory_limit / 2**20:.0f} MiB"
        found = [
            ("source", f"{self.source} ({self.source_kind})"),
            ("rows", str(self.rows) + (f", {self.withheld} with a NULL" if self.withheld else "")),
            *((f"column {c.name}", _read_as(c)) for c in self.file_columns),
            ("row key", names(self.key) if self.key else "the relation's own"),
            ("output", f"{self.output} ({self.output_kind}{replaced})"),
            *((f"quasi-identifier {c.name}", _described(c)) for c in self.quasi_identifiers),
            ("strata", names(self.by)),
            ("sensitive", names(self.sensitive)),
            ("kept", names(self.kept)),
            *(passthrough_note(self.arguments) if "drawn" in self.arguments else []),
            *files_note(self.arguments),
            *([("columns copied as they are", LEAVE)] if self.passthrough else []),
            ("not copied", names(self.not_copied)),
            ("method", self.method),
            ("guarantee, once it is counted", self.guarantee),
            ("memory, about", f"{self.memory / 2**20:.0f} MiB{limit}"),
            ("to find classes", _seconds(self.forecast)),
        ]
        found += [("creates", names(self.creates))] if self.creates else []
        found += [("drops", names(self.drops))] if self.drops else []
        for one in self.exports:
            more = ", replaces a file" if one.replaces else ""
            more += "" if one.keep_last is None else f", the newest {one.keep_last} stay"
            found.append(("export", f"{one.path} ({one.format}{more})"))
        if self.clustered is not None:
            found += _clustered_pairs(self.clustered)
        if self.chain is not None:
            found += self.chain.pairs()
        return found


def outlook(
    job: Job,
    source: Store,
    target: Store | None = None,
    *,
    cluster: bool = False,
    keep_last: int | None = None,
    progress: PhaseProgress | None = None,
    of_chain: Callable[[Job, Plan, Session], Section] | None = None,
    source_of_chain: Callable[[Job, SqlSource, Session], SqlSource] | None = None,
) -> Outlook:
    """Plan a job: everything that can be refused before a row is read, and what would be done.

    Rows are counted, rights and names looked at; nothing is changed, and no run is noted.

    Parameters
    ----------
    target : the database that would be written to; the source's own when None.
    keep_last : replaced releases of its view that would stay; None for all.
    cluster : read the quasi-identifiers, too, and find the classes. Temporary tables are needed.
    of_chain, source_of_chain : plans the next release of the job's chain, where it has one; what
        that reads.

    Raises
    ------
    DbanonError : what the run would raise. MemoryLimit also where the rows counted are too many.
    """
    if cluster and job.chain is not None:
        raise InvalidParameter(
            "The classes of a chain are those of its earlier releases: a plan finds none.",
            hint="Ask for its plan alone.",
        )
    clock = Clock(progress)
    staging = cluster or job.chain is not None
    with planning_ports(source, target, staging) as (reads, writes):
        as_read = reads.session
        if source_of_chain is not None:
            reads = source_of_chain(job, reads, writes.session)
        with clock.phase("read") as tick:
            try:
                planned = plan(job, reads, writes, lambda: tick(0.0))
            except UnsupportedType as error:
                error.detail = error.detail or _texts_of(job, as_read)
                raise
            chain = None if of_chain is None else of_chain(job, planned, reads.session)
            rows = reads.count(planned.relation)
            withheld = reads.count_withheld(planned.relation)
        unstaged = replace(planned.relation.name, staged=None)
        file_columns = _file_columns(job, as_read, replace(planned.relation, name=unstaged))
        different = _different(planned, reads, rows)
        memory = _memory(planned, rows - withheld, different)
        if job.chain is None:
            session, read = reads.session, planned.relation
            require_covered(reads, read, planned.given)
            require_feasible(session, read, planned.wanted, planned.policy, rows, withheld)
        found = _cluster(planned, reads, clock) if cluster else None
        changed = changes(job, planned.place, writes.session, target or source, keep_last)
    told = _outlook(planned, rows, withheld, memory, different, changed, found)
    if reads.drawn:
        told = replace(told, arguments={**told.arguments, "drawn": dict(reads.drawn)})
    return replace(told, chain=chain, file_columns=file_columns)


def _cluster(planned: Plan, source: Source, clock: Clock) -> Clustered:
    # Nothing is written: what would be carried stays where it is.
    planned = replace(planned, wanted=replace(planned.wanted, passthrough=None))
    microdata, policy, found = read_and_cluster(planned, source, clock)
    with clock.phase("cluster"):
        release = recoded(planned, policy, source, microdata, found)
    sizes = release.partition.sizes
    return Clustered(
        classes=release.partition.n_classes,
        smallest_class=int(sizes.min(initial=sizes.max(initial=0))),
        largest_class=int(sizes.max(initial=0)),
        suppressed=microdata.withheld + release.partition.n_suppressed,
        information_loss=published_loss(release.public, release.measure).total,
        loss_measure=release.measure,
        levels=None if found.levels is None else dict(found.levels.levels),
        seconds=dict(clock.seconds),
    )


def _outlook(
    planned: Plan,
    rows: int,
    withheld: int,
    memory: int,
    different: float,
    changed: Changes,
    found: Clustered | None,
) -> Outlook:
    job, output = planned.job, planned.place
    foreseen = forecast(planned.policy, rows - withheld, _shape(planned), different)
    trees = {n: t for n, t in planned.given.trees.items() if isinstance(t, Hierarchy)}
    described = planned.given.described({**planned.policy.hierarchies, **trees})
    hierarchies = {**planned.given.origins, **described}
    arguments = {**planned.policy.arguments(), "by": list(job.by), "hierarchies": hierarchies}
    if job.kept_columns == CLIENT:
        arguments["kept_columns"] = CLIENT
    if job.persons != WHOLE:
        arguments[PERSON_ROWS] = job.persons
    return Outlook(
        source=str(planned.relation.name),
        source_kind=planned.relation.kind,
        rows=rows,
        withheld=withheld,
        key=job.key,
        output=str(output.name),
        output_kind=output.kind,
        replaces=output.replaces,
        quasi_identifiers=tuple(
            PlannedColumn(a.name, a.sql_type, a.kind.value, hierarchies.get(a.name))
            for a in planned.wanted.quasi_identifiers
        ),
        by=job.by,
        sensitive=job.sensitive,
        kept=job.keep,
        entity=job.entity,
        not_copied=planned.not_copied,
        method=job.policy.method,
        arguments=arguments,
        k=int(job.policy.k),
        guarantee=planned.guarantee.sentence(job.quasi_identifiers),
        memory=memory,
        memory_limit=job.memory_limit,
        forecast=None if foreseen is None else foreseen.to_dict(),
        creates=changed.creates,
        drops=changed.drops,
        exports=changed.files,
        clustered=found,
    )


def _shape(planned: Plan) -> Shape:
    return Shape.of(planned.wanted.quasi_identifiers, planned.given.trees)


def _different(planned: Plan, source: SqlSource, rows: int) -> float:
    """The share of rows whose quasi-identifiers no row before has, where that matters."""
    names = [one.name for one in planned.wanted.quasi_identifiers]
    known = _shape(planned).is_mixed and rows > 0
    return source.different_rows(planned.relation, names) if known else 1.0


def _memory(planned: Plan, rows: int, different: float) -> int:
    """About the bytes that a run takes; raises MemoryLimit where the run would."""
    columns, job = planned.wanted.columns, planned.job
    coded = sum(one.kind.is_coded for one in columns)
    on_disk = job.spill is not None
    most = require_memory(rows, len(columns), job.memory_limit, "would be read", on_disk, coded)
    return most if on_disk else rows * bytes_per_record(len(columns), coded, different)


def _seconds(found: Mapping[str, float] | None) -> str:
    """A forecast in words."""
    if found is None:
        return "not known: nobody measured this method and table"
    return in_words(found["seconds"], found["refinement_seconds"])


def _file_columns(job: Job, session: Session, relation: Relation) -> tuple[FileColumn, ...]:
    """The columns of a CSV file, by all of its rows."""
    return tuple(FileColumn.of(one, int(job.policy.k)) for one in session.as_written(relation))


def _texts_of(job: Job, session: Session) -> str | None:
    """What texts of a CSV file look like, for the error of one that cannot be what it is named."""
    relation = session.find_source(parse_relation(job.table))
    columns = _file_columns(job, session, relation)
    texts = [one for one in columns if one.told and one.sql_type == "VARCHAR"]
    return ". ".join(f'"{one.name}": {_read_as(one)}' for one in texts) or None


def _read_as(column: FileColumn) -> str:
    kind = "text" if column.sql_type == "VARCHAR" else column.sql_type.lower()
    return f"{kind}; {column.told}" if column.told else kind


def _described(column: PlannedColumn) -> str:
    text = f"{column.sql_type or column.kind}, taken as {column.kind}"
    if column.hierarchy is None:
        return text
    if "height" not in column.hierarchy:
        return f"{text}; a hierarchy made from its values"
    tree = column.hierarchy
    return f"{text}; a hierarchy of {tree['leaves']} leaves, height {tree['height']}"


def _clustered_pairs(found: Clustered) -> list[tuple[str, str]]:
    measure = {
        "sse": "SSE/SST",
        "iloss": "iloss a cell",
        "gower": "Gower's distance a cell",
    }[found.loss_measure]
    levels = ", ".join(f"{name} {level}" for name, level in (found.levels or {}).items())
    return [
        (
            "classes: number, smallest / largest",
            f"{found.classes}, {found.smallest_class} / {found.largest_class} rows",
        ),
        ("suppressed", str(found.suppressed)),
        *([("levels", levels)] if levels else []),
        (f"information loss, {measure}", f"{found.information_loss:.6f}"),
        (
            "seconds",
            ", ".join(f"{name} {value:.2f}" for name, value in found.seconds.items() if value),
        ),
    ]
