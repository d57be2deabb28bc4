"""Dry run of a job: describes what a run would do, without changing anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

from dbanon.data.chunks import bytes_per_record, require_memory
from dbanon.data.words import both_keys
from dbanon.errors import InvalidParameter, UnsupportedType
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.guarantee import WHOLE_PERSONS
from dbanon.job.job import Job
from dbanon.job.requirements import CLIENT
from dbanon.methods.forecast import Shape, in_words
from dbanon.partitioning.forecast import forecast
from dbanon.release.joint_rows import PERSON_ROWS
from dbanon.release.publication import compute_published_loss
from dbanon.release.words import describe_foreign_files, describe_passthrough
from dbanon.run.changes import Changes, PlannedFile, changes, planning_ports
from dbanon.run.hierarchies import require_covered
from dbanon.run.plan import Plan, plan
from dbanon.run.run import Clock, PhaseProgress, read_and_cluster, recode_release
from dbanon.sessions.base import ColumnReading, Relation
from dbanon.sessions.names import parse_relation
from dbanon.sessions.session import Session
from dbanon.sessions.store import Store
from dbanon.stores.ports import Source
from dbanon.stores.source_counts import require_feasible
from dbanon.stores.sql_source import SqlSource

LEAVE = "pass through this program's memory"


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
    """The type that a column of a CSV file was read as.

    Parameters
    ----------
    sql_type : ``VARCHAR`` where not all values are of one other type.
    text_format : the format its texts seem to have, and the option that would parse them; only
        shares, and never of fewer than k rows. Empty without a finding.
    """

    name: str
    sql_type: str
    text_format: str

    @classmethod
    def of(cls, reading: ColumnReading, k: int) -> FileColumn:
        """Describe a column without revealing anything about fewer than k rows."""
        n_different = reading.n_values - reading.n_matching
        if not reading.look or reading.n_matching < k or 2 * reading.n_matching < reading.n_values:
            return cls(reading.name, reading.sql_type, reading.by)
        # Do not reveal a number of rows below k.
        share = (
            "nearly all" if n_different < k else f"{100 * reading.n_matching // reading.n_values} %"
        )
        words = f"{share if n_different else 'all'} look like {reading.look}"
        return cls(
            reading.name,
            reading.sql_type,
            words + (f": {reading.option}" if reading.option else ""),
        )


@dataclass(frozen=True)
class ClusteringSummary:
    """Summary of the classes a run would find, with their information loss."""

    classes: int
    smallest_class: int
    largest_class: int
    suppressed: int
    information_loss: float
    loss_measure: str
    levels: Mapping[str, int] | None
    seconds: Mapping[str, float]


class Section(Protocol):
    """A part of the description of a job, supplied by a layer above."""

    def pairs(self) -> list[tuple[str, str]]:
        """Pairs of label and text, for people."""


@dataclass(frozen=True)
class Outlook:
    """The effects that a run of a job would have.

    Contains no value that was read. Values that the caller wrote out for a builder of a hierarchy,
    such as ``{"ordered": ["low", "high"]}``, are in ``arguments`` and in the column's hierarchy.

    ``rows`` is the number of rows, of which ``withheld`` have a NULL where none is allowed. ``key``
    are the columns that identify rows; empty for the relation's own key. ``memory`` is the
    approximate number of bytes for reading and clustering, and ``forecast`` the time for
    clustering, None where it was not measured. ``replaces`` is the kind of the relation that would
    be replaced. ``creates`` and ``drops`` name relations, ``exports`` files. ``clustered`` is None
    unless clustering was requested, ``chain`` is None without a chain. ``file_columns`` are all
    columns of a CSV file.
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
    clustered: ClusteringSummary | None = None
    chain: Section | None = None
    file_columns: tuple[FileColumn, ...] = ()

    @property
    def passthrough(self) -> bool:
        """True if copied columns leave their database for the client's memory."""
        return self.arguments.get("kept_columns") == CLIENT and "drawn" not in self.arguments

    def to_dict(self) -> dict[str, Any]:
        """The outlook as plain values, for JSON."""
        values = asdict(self)
        for column in values["file_columns"]:
            column |= both_keys("text_format", column["text_format"])
        return values

    def pairs(self) -> list[tuple[str, str]]:
        """The outlook as pairs of label and text, for people."""

        def names(values: tuple[str, ...]) -> str:
            return ", ".join(values) or "none"

        replaced = f", replaces a {self.replaces}" if self.replaces else ""
        limit = "" if self.memory_limit is None else f" of {self.memory_limit / 2**20:.0f} MiB"
        pairs = [
            ("source", f"{self.source} ({self.source_kind})"),
            ("rows", str(self.rows) + (f", {self.withheld} with a NULL" if self.withheld else "")),
            *((f"column {c.name}", _read_as(c)) for c in self.file_columns),
            ("row key", names(self.key) if self.key else "the relation's own"),
            ("output", f"{self.output} ({self.output_kind}{replaced})"),
            *((f"quasi-identifier {c.name}", _describe_column(c)) for c in self.quasi_identifiers),
            ("strata", names(self.by)),
            ("sensitive", names(self.sensitive)),
            ("kept", names(self.kept)),
            *(describe_passthrough(self.arguments) if "drawn" in self.arguments else []),
            *describe_foreign_files(self.arguments),
            *([("columns copied as they are", LEAVE)] if self.passthrough else []),
            ("not copied", names(self.not_copied)),
            ("method", self.method),
            ("guarantee, once it is counted", self.guarantee),
            ("memory, about", f"{self.memory / 2**20:.0f} MiB{limit}"),
            ("to find classes", _seconds(self.forecast)),
        ]
        pairs += [("creates", names(self.creates))] if self.creates else []
        pairs += [("drops", names(self.drops))] if self.drops else []
        for export in self.exports:
            more = ", replaces a file" if export.replaces else ""
            more += "" if export.keep_last is None else f", the newest {export.keep_last} stay"
            pairs.append(("export", f"{export.path} ({export.format}{more})"))
        if self.clustered is not None:
            pairs += _clustered_pairs(self.clustered)
        if self.chain is not None:
            pairs += self.chain.pairs()
        return pairs


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
    """Plan a job: check all that can be checked before a row is read, and describe the run.

    Counts rows and checks rights and names. Changes nothing and records no run.

    Parameters
    ----------
    target : the database that would be written to; the source's own when None.
    keep_last : replaced releases of its view that would stay; None for all.
    cluster : also read the quasi-identifiers and find the classes. Needs temporary tables.
    of_chain, source_of_chain : plan the next release of the job's chain, if any, and return the
        source that it reads.

    Raises
    ------
    DbanonError : what the run would raise. MemoryLimit also where the rows counted are too many.
    """
    if cluster and job.chain is not None:
        raise InvalidParameter(
            "The classes of a chain depend on its earlier releases, so a plan cannot find them.",
            hint="Leave out cluster.",
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
            require_covered(reads, read, planned.hierarchies)
            require_feasible(session, read, planned.roles, planned.policy, rows, withheld)
        clustered = _cluster(planned, reads, clock) if cluster else None
        changed = changes(job, planned.written_output, writes.session, target or source, keep_last)
    result = _outlook(planned, rows, withheld, memory, different, changed, clustered)
    if reads.drawn:
        result = replace(result, arguments={**result.arguments, "drawn": dict(reads.drawn)})
    return replace(result, chain=chain, file_columns=file_columns)


def _cluster(planned: Plan, source: Source, clock: Clock) -> ClusteringSummary:
    # Nothing is written, so do not read the columns that would only be copied.
    planned = replace(planned, roles=replace(planned.roles, passthrough=None))
    microdata, policy, result = read_and_cluster(planned, source, clock)
    with clock.phase("cluster"):
        release = recode_release(planned, policy, source, microdata, result)
    sizes = release.partition.sizes
    return ClusteringSummary(
        classes=release.partition.n_classes,
        smallest_class=int(sizes.min(initial=sizes.max(initial=0))),
        largest_class=int(sizes.max(initial=0)),
        suppressed=microdata.withheld + release.partition.n_suppressed,
        information_loss=compute_published_loss(release.public, release.measure).total,
        loss_measure=release.measure,
        levels=None if result.levels is None else dict(result.levels.levels),
        seconds=dict(clock.seconds),
    )


def _outlook(
    planned: Plan,
    rows: int,
    withheld: int,
    memory: int,
    different: float,
    changed: Changes,
    clustered: ClusteringSummary | None,
) -> Outlook:
    job, output = planned.job, planned.written_output
    foreseen = forecast(planned.policy, rows - withheld, _shape(planned), different)
    trees = {n: t for n, t in planned.hierarchies.trees.items() if isinstance(t, Hierarchy)}
    described = planned.hierarchies.described({**planned.policy.hierarchies, **trees})
    hierarchies = {**planned.hierarchies.origins, **described}
    arguments = {**planned.policy.arguments(), "by": list(job.by), "hierarchies": hierarchies}
    if job.kept_columns == CLIENT:
        arguments["kept_columns"] = CLIENT
    if job.persons != WHOLE_PERSONS:
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
            for a in planned.roles.quasi_identifiers
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
        clustered=clustered,
    )


def _shape(planned: Plan) -> Shape:
    return Shape.of(planned.roles.quasi_identifiers, planned.hierarchies.trees)


def _different(planned: Plan, source: SqlSource, rows: int) -> float:
    """The share of distinct rows among quasi-identifiers, where that matters."""
    names = [attribute.name for attribute in planned.roles.quasi_identifiers]
    is_needed = _shape(planned).is_mixed and rows > 0
    return source.different_rows(planned.relation, names) if is_needed else 1.0


def _memory(planned: Plan, rows: int, different: float) -> int:
    """The approximate bytes that a run takes; raises MemoryLimit where the run would."""
    columns, job = planned.roles.columns, planned.job
    coded = sum(column.kind.is_coded for column in columns)
    on_disk = job.spill is not None
    most = require_memory(rows, len(columns), job.memory_limit, "would be read", on_disk, coded)
    return most if on_disk else rows * bytes_per_record(len(columns), coded, different)


def _seconds(forecast_seconds: Mapping[str, float] | None) -> str:
    """A forecast in words."""
    if forecast_seconds is None:
        return "unknown: this method was never measured on such a table"
    return in_words(forecast_seconds["seconds"], forecast_seconds["refinement_seconds"])


def _file_columns(job: Job, session: Session, relation: Relation) -> tuple[FileColumn, ...]:
    """The columns of a CSV file, by all of its rows."""
    return tuple(
        FileColumn.of(reading, int(job.policy.k)) for reading in session.as_written(relation)
    )


def _texts_of(job: Job, session: Session) -> str | None:
    """The formats of text columns of a CSV file, for an error about a column's type."""
    relation = session.find_source(parse_relation(job.table))
    columns = _file_columns(job, session, relation)
    texts = [column for column in columns if column.text_format and column.sql_type == "VARCHAR"]
    return ". ".join(f'"{column.name}": {_read_as(column)}' for column in texts) or None


def _read_as(column: FileColumn) -> str:
    kind = "text" if column.sql_type == "VARCHAR" else column.sql_type.lower()
    return f"{kind}; {column.text_format}" if column.text_format else kind


def _describe_column(column: PlannedColumn) -> str:
    text = f"{column.sql_type or column.kind}, taken as {column.kind}"
    if column.hierarchy is None:
        return text
    if "height" not in column.hierarchy:
        return f"{text}; a hierarchy made from its values"
    tree = column.hierarchy
    return f"{text}; a hierarchy of {tree['leaves']} leaves, height {tree['height']}"


def _clustered_pairs(clustered: ClusteringSummary) -> list[tuple[str, str]]:
    measure = {
        "sse": "SSE/SST",
        "iloss": "iloss per cell",
        "gower": "Gower's distance per cell",
    }[clustered.loss_measure]
    levels = ", ".join(f"{name} {level}" for name, level in (clustered.levels or {}).items())
    return [
        (
            "classes: number, smallest / largest",
            f"{clustered.classes}, {clustered.smallest_class} / {clustered.largest_class} rows",
        ),
        ("suppressed", str(clustered.suppressed)),
        *([("levels", levels)] if levels else []),
        (f"information loss, {measure}", f"{clustered.information_loss:.6f}"),
        (
            "seconds",
            ", ".join(f"{name} {value:.2f}" for name, value in clustered.seconds.items() if value),
        ),
    ]
