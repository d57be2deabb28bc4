"""Do a dry run of a job: describe what a run would do, without changing anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from dbanon.data.schema import Kind
from dbanon.data.types import JsonMapping, JsonObject
from dbanon.data.words import also_under_former_key
from dbanon.errors import DbanonError, InvalidParameter, UnsupportedType
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.guarantee import WHOLE_PERSONS
from dbanon.job.job import Job
from dbanon.job.requirements import CLIENT
from dbanon.job.weight import MEAN, WEIGHT_RECORD
from dbanon.methods.forecast import Shape, describe_seconds
from dbanon.partitioning.coding import code_columns
from dbanon.partitioning.forecast import ClusteringSeconds, forecast
from dbanon.partitioning.nulls import merge_nulls
from dbanon.partitioning.record_memory import RecordMemory, bytes_per_record
from dbanon.partitioning.trials import MIN_RECORDS, SAMPLE_RECORDS, forecast_by_trials
from dbanon.release.joint_rows import PERSON_ROWS
from dbanon.release.publication import compute_published_loss
from dbanon.release.words import (
    describe_coding,
    describe_date_shift,
    describe_files_of_other_accounts,
    describe_passthrough,
    describe_profile,
    describe_weight,
)
from dbanon.run.changes import Changes, PlannedFile, open_planning_ports, plan_changes
from dbanon.run.date_shift import describe_shift
from dbanon.run.hierarchies import require_coverage
from dbanon.run.job_runner import JobRunner, Section
from dbanon.run.memory import count_databases, share_memory
from dbanon.run.plan import Plan, plan
from dbanon.run.run import Clock, PhaseProgress, read_and_cluster, recode_release
from dbanon.sessions.base import ColumnReading, Relation
from dbanon.sessions.names import parse_relation
from dbanon.sessions.session import Session
from dbanon.sessions.store import Store
from dbanon.stores.ports import Source
from dbanon.stores.sample import read_sample
from dbanon.stores.source_counts import require_feasible
from dbanon.stores.sql_source import SqlSource

# The key in ``arguments`` of the summary of rows that were copied from another system; see
# ``Source.copied_rows_summary``. Ledgers contain this key, so it cannot be renamed.
_COPIED_ROWS = "drawn"
CLIENT_PASSTHROUGH_NOTE = "pass through this program's memory"


@dataclass(frozen=True)
class PlannedColumn:
    """A quasi-identifier as it would be read.

    Parameters
    ----------
    kind : the kind of its values: ``integer``, ``decimal``, ``category`` …
    hierarchy : the number of ``leaves`` and the ``height`` of its tree, and in ``from`` where it
        comes from; None without a hierarchy.
    """

    name: str
    sql_type: str
    kind: str
    hierarchy: JsonMapping | None


@dataclass(frozen=True)
class FileColumn:
    """The type that a column of a CSV file was read as.

    Parameters
    ----------
    sql_type : ``VARCHAR`` unless all values fit one other type.
    text_format : the format of most of its texts, and the option that would parse them. If most
        texts have no known format, the option that sets the column's type; empty if there is none.
        A percentage in the text never concerns fewer than k rows.
    """

    name: str
    sql_type: str
    text_format: str

    @classmethod
    def of(cls, reading: ColumnReading, k: int) -> FileColumn:
        """Describe a column without revealing anything about fewer than k rows."""
        # The texts without the pattern that most texts have.
        n_different = reading.n_values - reading.n_matching
        # Name no pattern that fewer than k texts, or fewer than half of the texts, have.
        if (
            not reading.pattern
            or reading.n_matching < k
            or 2 * reading.n_matching < reading.n_values
        ):
            return cls(reading.name, reading.sql_type, reading.type_option)
        # Do not reveal a number of rows below k.
        share = (
            "nearly all" if n_different < k else f"{100 * reading.n_matching // reading.n_values} %"
        )
        description = f"{share if n_different else 'all'} look like {reading.pattern}"
        return cls(
            reading.name,
            reading.sql_type,
            description + (f": {reading.parse_option}" if reading.parse_option else ""),
        )


@dataclass(frozen=True)
class ClusteringSummary:
    """Summary of the classes a run would find, with their information loss.

    Parameters
    ----------
    classes : number of classes.
    smallest_class, largest_class : number of rows in the smallest and in the largest class.
    suppressed : number of rows that would not be released.
    information_loss : the loss that a report would show.
    loss_measure : ``sse``, ``iloss`` or ``gower``.
    levels : by quasi-identifier, its level of generalization; None unless the method is full-domain
        generalization.
    seconds : seconds by phase, such as ``read``.
    """

    classes: int
    smallest_class: int
    largest_class: int
    suppressed: int
    information_loss: float
    loss_measure: str
    levels: Mapping[str, int] | None
    seconds: Mapping[str, float]


@dataclass(frozen=True)
class Outlook:
    """The result of a dry run: the effects that a run of the job would have.

    Contains no value read from the source. Values that the caller listed in a hierarchy, such as
    ``{"ordered": ["low", "high"]}``, appear in ``arguments`` and in the column's hierarchy.

    ``rows`` is the number of rows; ``withheld`` of them would not be released because of NULLs.
    ``key`` are the columns that identify rows; empty for the relation's own key. ``memory`` is the
    approximate number of bytes for reading and clustering. ``forecast`` is the estimated time for
    clustering, in seconds; None if the method was not measured on such tables. ``replaces`` is the
    kind of the relation that would be replaced. ``arguments`` are the options as the ledger would
    record them, by name. ``creates`` and ``drops`` name relations, ``exports`` files. ``clustered``
    is None unless clustering was requested, ``chain`` is None without a chain. ``file_columns`` are
    all columns of a CSV file.
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
    arguments: JsonMapping
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
        """True if copied columns leave their database for the client's memory.

        False if all rows were copied from another system; then ``arguments`` describe that copy.
        """
        return self.arguments.get("kept_columns") == CLIENT and _COPIED_ROWS not in self.arguments

    def to_dict(self) -> JsonObject:
        """Return the outlook as plain values, for JSON."""
        values = asdict(self)
        for column in values["file_columns"]:
            column |= also_under_former_key("text_format", column["text_format"])
        return values

    def pairs(self) -> list[tuple[str, str]]:
        """Return the outlook as pairs of label and text, for display."""

        def join_names(values: tuple[str, ...]) -> str:
            return ", ".join(values) or "none"

        replaced_text = f", replaces a {self.replaces}" if self.replaces else ""
        limit_text = "" if self.memory_limit is None else f" of {self.memory_limit / 2**20:.0f} MiB"
        pairs = [
            ("source", f"{self.source} ({self.source_kind})"),
            ("rows", str(self.rows) + (f", {self.withheld} with a NULL" if self.withheld else "")),
            *((f"column {column.name}", _describe_reading(column)) for column in self.file_columns),
            ("row key", join_names(self.key) if self.key else "the relation's own"),
            ("output", f"{self.output} ({self.output_kind}{replaced_text})"),
            *(
                (f"quasi-identifier {column.name}", _describe_column(column))
                for column in self.quasi_identifiers
            ),
            *describe_profile(self.arguments),
            *describe_coding(self.arguments),
            *describe_date_shift(self.arguments),
            *describe_weight(self.arguments),
            ("strata", join_names(self.by)),
            ("sensitive", join_names(self.sensitive)),
            ("kept", join_names(self.kept)),
            *(describe_passthrough(self.arguments) if _COPIED_ROWS in self.arguments else []),
            *describe_files_of_other_accounts(self.arguments),
            *(
                [("columns copied as they are", CLIENT_PASSTHROUGH_NOTE)]
                if self.passthrough
                else []
            ),
            ("not copied", join_names(self.not_copied)),
            ("method", self.method),
            ("guarantee (after the recount)", self.guarantee),
            ("memory, about", f"{self.memory / 2**20:.0f} MiB{limit_text}"),
            ("time to find classes", _describe_seconds(self.forecast)),
        ]
        pairs += [("creates", join_names(self.creates))] if self.creates else []
        pairs += [("drops", join_names(self.drops))] if self.drops else []
        for export in self.exports:
            details = ", replaces a file" if export.replaces else ""
            details += "" if export.keep_last is None else f", keeps the newest {export.keep_last}"
            pairs.append(("export", f"{export.path} ({export.format}{details})"))
        if self.clustered is not None:
            pairs += _describe_clustering(self.clustered)
        if self.chain is not None:
            pairs += self.chain.pairs()
        return pairs


def build_outlook(
    job: Job,
    source: Store,
    target: Store | None = None,
    *,
    cluster: bool = False,
    keep_last: int | None = None,
    progress: PhaseProgress | None = None,
    runner: JobRunner | None = None,
) -> Outlook:
    """Plan a job: check everything that can be checked without reading rows, and describe the run.

    This counts rows and checks rights and names. Only the forecast of the time reads a sample of
    them. It changes nothing and records no run.

    Parameters
    ----------
    target : the database that would be written to; None for the database of the source.
    cluster : whether to read the quasi-identifiers and find the classes, which needs temporary
        tables.
    keep_last : the number of replaced releases of the output view to keep; None to keep all.
    progress : called with a phase and the share of it that is done; None to report nothing.
    runner : what runs the job; None if no option of the job asks for one.

    Raises
    ------
    DbanonError : the error that the run would raise, such as MemoryLimit for too many rows.
    """
    if cluster and job.chain is not None:
        raise InvalidParameter(
            "The classes of a chain depend on its earlier releases, so a plan cannot find them.",
            hint="Leave out cluster.",
        )
    clock = Clock(progress)
    needs_staging = cluster or job.chain is not None
    with (
        share_memory(job, source, target),
        open_planning_ports(source, target, staging=needs_staging) as (sql_source, sql_target),
    ):
        source_session = sql_source.session
        if runner is not None:
            sql_source = runner.open_source(job, sql_source, sql_target.session)
        with clock.phase("read") as tick:
            try:
                planned = plan(job, sql_source, sql_target, pulse=lambda: tick(0.0))
            except UnsupportedType as error:
                error.detail = error.detail or _describe_text_columns(job, source_session)
                raise
            chain = (
                None if runner is None else runner.plan_release(job, planned, sql_source.session)
            )
            rows = sql_source.count(planned.relation)
            withheld = sql_source.count_withheld(planned.relation)
        # The rows of a file may have been staged in the database of the chain. The session on the
        # file itself, which knows the types of its columns, has no such staging table.
        unstaged_name = replace(planned.relation.name, staging_table=None)
        file_columns = _describe_file_columns(
            job, source_session, replace(planned.relation, name=unstaged_name)
        )
        distinct_share = _measure_distinct_share(planned, sql_source, rows)
        memory = _estimate_memory(
            planned,
            sql_source.session,
            rows - withheld,
            distinct_share,
            count_databases(source, target),
        )
        # A chain need not build classes from all rows, so these checks do not apply to it.
        if job.chain is None:
            require_coverage(sql_source, planned.relation, planned.hierarchies)
            require_feasible(
                sql_source.session, planned.relation, planned.roles, planned.policy, rows, withheld
            )
        clustering_summary = _cluster(planned, sql_source, clock) if cluster else None
        planned_changes = plan_changes(
            job, planned.written_output, sql_target.session, target or source, keep_last
        )
        # Values that cannot be read may abort the transaction, so this is the last that it does.
        seconds_forecast = forecast(
            planned.policy, rows - withheld, _forecast_shape(planned), distinct_share
        )
        if job.chain is None and not cluster:
            by_trials = _forecast_by_trials(planned, sql_source, rows - withheld, distinct_share)
            seconds_forecast = by_trials or seconds_forecast
    result = _assemble_outlook(
        planned, rows, withheld, memory, seconds_forecast, planned_changes, clustering_summary
    )
    # If rows were copied from another system, describe how.
    if sql_source.copied_rows_summary:
        result = replace(
            result,
            arguments={**result.arguments, _COPIED_ROWS: dict(sql_source.copied_rows_summary)},
        )
    return replace(result, chain=chain, file_columns=file_columns)


def _cluster(planned: Plan, source: Source, clock: Clock) -> ClusteringSummary:
    """Read the quasi-identifiers and find the classes, without writing them."""
    # Nothing is written, so do not read the columns that would only be copied.
    planned = replace(planned, roles=replace(planned.roles, passthrough=None))
    microdata, policy, result = read_and_cluster(planned, source, clock)
    with clock.phase("cluster"):
        release = recode_release(planned, policy, source, microdata, result)
    sizes = release.partition.sizes
    has_classes = release.partition.n_classes > 0
    return ClusteringSummary(
        classes=release.partition.n_classes,
        smallest_class=int(sizes.min()) if has_classes else 0,
        largest_class=int(sizes.max()) if has_classes else 0,
        suppressed=microdata.n_withheld + release.partition.n_suppressed,
        information_loss=compute_published_loss(release.public_sums, release.measure).total,
        loss_measure=release.measure,
        # Only a full-domain search has levels: the chosen level of each attribute.
        levels=None if result.levels is None else dict(result.levels.levels),
        seconds=dict(clock.seconds),
    )


def _assemble_outlook(
    planned: Plan,
    rows: int,
    withheld: int,
    memory: int,
    seconds_forecast: ClusteringSeconds | None,
    planned_changes: Changes,
    clustering_summary: ClusteringSummary | None,
) -> Outlook:
    """Build the result of a dry run, except for its chain and the columns of its file.

    Parameters
    ----------
    rows, withheld : number of rows of the source, and of those withheld because of a NULL.
    memory : the memory that a run needs, in bytes.
    seconds_forecast : CPU seconds to find classes; None if unknown.
    """
    job, output = planned.job, planned.written_output
    # Describe the trees that exist already. Hierarchies that a run builds from the values of a
    # column have no size yet, so only say where they come from.
    trees = {
        name: tree
        for name, tree in planned.hierarchies.trees.items()
        if isinstance(tree, Hierarchy)
    }
    descriptions = planned.hierarchies.describe({**planned.policy.hierarchies, **trees})
    hierarchies = {**planned.hierarchies.origins, **descriptions}
    banded_columns = {*planned.policy.coding.columns} - {*planned.policy.coding.groups}
    arguments = {**planned.policy.arguments(), "by": list(job.by), "hierarchies": hierarchies}
    if planned.percentiles:
        arguments["thresholds_from_data"] = dict(planned.percentiles)
    if planned.copy_codings:
        arguments["coded_copies"] = [*planned.copy_codings]
    if job.shift_dates is not None:
        arguments["shift_dates"] = describe_shift(job)
    if job.kept_columns == CLIENT:
        arguments["kept_columns"] = CLIENT
    if job.persons != WHOLE_PERSONS:
        arguments[PERSON_ROWS] = job.persons
    if job.design_weight is not None:
        arguments[WEIGHT_RECORD] = {"column": job.design_weight, "as": job.weight_as or MEAN}
    return Outlook(
        source=str(planned.relation.name),
        source_kind=planned.relation.kind,
        rows=rows,
        withheld=withheld,
        key=job.key,
        output=str(output.name),
        output_kind=output.kind,
        replaces=output.replaced_kind,
        quasi_identifiers=tuple(
            PlannedColumn(
                a.name,
                a.sql_type,
                (Kind.ORDINAL if a.name in banded_columns else a.kind).value,
                hierarchies.get(a.name),
            )
            for a in planned.roles.quasi_identifiers
        ),
        by=job.by,
        sensitive=job.sensitive,
        kept=(*job.keep, *job.copied_weights),
        entity=job.entity,
        not_copied=planned.not_copied,
        method=job.policy.method,
        arguments=arguments,
        k=int(job.policy.k),
        guarantee=planned.guarantee.describe(job.quasi_identifiers),
        memory=memory,
        memory_limit=job.memory_limit,
        forecast=None if seconds_forecast is None else seconds_forecast.to_dict(),
        creates=planned_changes.creates,
        drops=planned_changes.drops,
        exports=planned_changes.files,
        clustered=clustering_summary,
    )


def _forecast_shape(planned: Plan) -> Shape:
    """Return the number of quasi-identifiers of each kind, on which forecasts depend."""
    return Shape.of(planned.roles.quasi_identifiers, planned.hierarchies.trees)


def _measure_distinct_share(planned: Plan, source: SqlSource, rows: int) -> float:
    """Measure the number of distinct combinations of quasi-identifiers per row, 0 to 1.

    Returns 1 if the forecast does not need the share.
    """
    names = [attribute.name for attribute in planned.roles.quasi_identifiers]
    # In a mixed shape not all columns are numbers. Only then do forecasts count equal rows once.
    is_needed = _forecast_shape(planned).is_mixed and rows > 0
    return source.estimate_distinct_share(planned.relation, names) if is_needed else 1.0


def _forecast_by_trials(
    planned: Plan, source: SqlSource, rows: int, distinct_share: float
) -> ClusteringSeconds | None:
    """Forecast the CPU seconds to find classes by trials on a random sample of the rows.

    Returns None for few rows, if the sample exceeds the memory limit, or if trials fail.

    Parameters
    ----------
    rows : the number of rows to release.
    distinct_share : distinct combinations of quasi-identifiers per row, 0 to 1.
    """
    attributes, limit = planned.roles.quasi_identifiers, planned.job.memory_limit
    sample_bytes = SAMPLE_RECORDS * bytes_per_record(len(attributes), len(attributes))
    if rows < MIN_RECORDS or (limit is not None and 2 * sample_bytes > limit):
        return None
    try:
        # Half of the rows at most, so that the trials take no longer than the run.
        share = min(SAMPLE_RECORDS / rows, 0.5)
        microdata = read_sample(source.session, planned.relation, attributes, share)
        microdata = code_columns(microdata, planned.policy, planned.zip_areas)
        microdata = merge_nulls(microdata, planned.policy)
        return forecast_by_trials(
            microdata,
            planned.policy_for(microdata),
            rows,
            _forecast_shape(planned),
            distinct_share=distinct_share,
            trees=planned.build_trees,
        )
    except (DbanonError, ValueError, OverflowError):
        # The run refuses such values, or the sample has too few rows of a band.
        return None


def _estimate_memory(
    planned: Plan, session: Session, rows: int, distinct_share: float, n_databases: int
) -> int:
    """Estimate the bytes of memory that a run needs; raise MemoryLimit if the run would.

    Parameters
    ----------
    session : the session on the source.
    distinct_share : the number of distinct records as a share of all records.
    n_databases : the number of databases that share the memory limit with the records.
    """
    memory = RecordMemory.of(
        planned.job,
        planned.roles.columns,
        spills=planned.job.spill is not None,
        key_width=len(planned.relation.required_locator.types),
        n_databases=n_databases,
    )
    # Runs assume that all rows are distinct. Here the share of distinct rows is known.
    retained_bytes = None
    if planned.roles.passthrough is not None:
        row_bytes = session.passthrough.estimate_value_bytes(
            planned.relation, planned.roles.passthrough
        )
        retained_bytes = rows * row_bytes
    memory.require(rows, retained_bytes)
    return memory.needed_limit(rows, distinct_share, retained_bytes)


def _describe_seconds(forecast_seconds: Mapping[str, float] | None) -> str:
    """Describe a forecast of CPU seconds, for display."""
    if forecast_seconds is None:
        return "unknown: this method was never measured on such a table"
    return describe_seconds(forecast_seconds["seconds"], forecast_seconds["refinement_seconds"])


def _describe_file_columns(
    job: Job, session: Session, relation: Relation
) -> tuple[FileColumn, ...]:
    """Describe the columns of a CSV file, from all of its rows; empty for other sources."""
    return tuple(
        FileColumn.of(reading, int(job.policy.k))
        for reading in session.describe_file_columns(relation)
    )


def _describe_text_columns(job: Job, session: Session) -> str | None:
    """Describe the formats of a CSV file's text columns, for an error about a column's type."""
    relation = session.catalog.find_source(parse_relation(job.table))
    columns = _describe_file_columns(job, session, relation)
    text_columns = [
        column for column in columns if column.text_format and column.sql_type == "VARCHAR"
    ]
    return (
        ". ".join(f'"{column.name}": {_describe_reading(column)}' for column in text_columns)
        or None
    )


def _describe_reading(column: FileColumn) -> str:
    """Describe the type that a column of a CSV file is read as."""
    kind = "text" if column.sql_type == "VARCHAR" else column.sql_type.lower()
    return f"{kind}; {column.text_format}" if column.text_format else kind


def _describe_column(column: PlannedColumn) -> str:
    """Describe the type of a quasi-identifier, and its hierarchy."""
    text = f"{column.sql_type or column.kind}, treated as {column.kind}"
    if column.hierarchy is None:
        return text
    if "height" not in column.hierarchy:
        return f"{text}; a hierarchy made from its values"
    tree = column.hierarchy
    return f"{text}; a hierarchy of {tree['leaves']} leaves, height {tree['height']}"


def _describe_clustering(summary: ClusteringSummary) -> list[tuple[str, str]]:
    """Return pairs of label and text about the classes, for display."""
    measure = {
        "sse": "SSE/SST",
        "iloss": "iloss per cell",
        "gower": "Gower's distance per cell",
    }[summary.loss_measure]
    levels = ", ".join(f"{name} {level}" for name, level in (summary.levels or {}).items())
    return [
        (
            "classes: number, smallest / largest",
            f"{summary.classes}, {summary.smallest_class} / {summary.largest_class} rows",
        ),
        ("suppressed", str(summary.suppressed)),
        *([("levels", levels)] if levels else []),
        (f"information loss, {measure}", f"{summary.information_loss:.6f}"),
        (
            "seconds",
            ", ".join(f"{name} {value:.2f}" for name, value in summary.seconds.items() if value),
        ),
    ]
