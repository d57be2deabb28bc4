"""Anonymize a Spark DataFrame in blocks on its workers, and recount the release."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from dbanon.data.microdata import Microdata
from dbanon.data.option import build_options
from dbanon.data.pieces import PIECE_RECORDS
from dbanon.errors import hints_without_views
from dbanon.hierarchy.spec import HierarchySource, parse_all
from dbanon.job.job import Job
from dbanon.job.policy import Policy
from dbanon.job.verdict import ExpectedRelease
from dbanon.run.disclosure import (
    warn_of_homogeneity,
    warn_of_identifiers,
    warn_of_lost_columns,
    warn_of_spellings,
)
from dbanon.run.plan import Plan, plan
from dbanon.spark.dataframe import (
    FRAME_NAME,
    DataFrameSource,
    SourceRows,
    column,
    lay_out_rows,
    layout_of,
    require_key,
    require_unique_names,
    type_of,
)
from dbanon.spark.disclosure import ReleasedRows, SourceFindings, findings_on
from dbanon.spark.facts import Facts, measures_of, values_of
from dbanon.spark.layout import FACTS, Layout
from dbanon.spark.pieces import TableContext
from dbanon.spark.refusals import check_context, check_facts, check_job, check_method
from dbanon.spark.report import count_classes, losses_of, released_columns, report_of
from dbanon.spark.session import (
    fit_shuffle_partitions,
    require_session,
    restoring_shuffle_partitions,
    warn_unless_private,
)
from dbanon.spark.stages import ClusterStages, sample_limit
from dbanon.spark.tasks import PACKETS, DiskCache, collect_facts, mapped, translated
from dbanon.spark.trees import Stratum
from dbanon.spark.workers import GatherFacts
from dbanon.stores.ports import IN_DATA_FRAME, Source

if TYPE_CHECKING:
    from typing import Unpack

    from dbanon.job.options import PolicyOptions
    from dbanon.release.report import Report

BLOCK_SIZE = 50_000


def anonymize(
    frame: DataFrame,
    *,
    quasi_identifiers: Sequence[str],
    k: int,
    key: Sequence[str] = (),
    sensitive: Sequence[str] = (),
    keep: Sequence[str] = (),
    by: Sequence[str] = (),
    entity: str | None = None,
    entity_normalize: str | None = None,
    hierarchies: Mapping[str, HierarchySource] | None = None,
    tasks: int | None = None,
    **options: Unpack[PolicyOptions],
) -> tuple[DataFrame, Report]:
    """Anonymize a DataFrame in blocks and recount the result before returning it.

    The release stays on the executors' disks (``DISK_ONLY``), where it was counted, until the
    session ends or ``spark.catalog.clearCache()`` is called, so write it somewhere before that.
    Rows are in a new random order within their tasks. Columns that you do not name are left out.

    Parameters
    ----------
    frame : the records.
    key : columns that identify each row; a single integer column avoids a sort. If empty, rows are
        ordered by all their columns.
    tasks : number of tasks that work on blocks; None for at least as many as there are cores.
    quasi_identifiers, k, sensitive, keep, by, entity, entity_normalize, hierarchies, options : see
        ``anonymize_frame``; ``block_size`` defaults to 50,000.

    Raises
    ------
    DbanonError : of the class that describes the problem.
    """
    check_method(options)
    options.setdefault("block_size", BLOCK_SIZE)
    policy = build_options(Policy, {"k": k, **options})
    job = build_options(
        Job,
        {
            "policy": policy,
            "table": FRAME_NAME,
            "output": FRAME_NAME,
            "quasi_identifiers": quasi_identifiers,
            "sensitive": sensitive,
            "keep": keep,
            "by": by,
            "entity": entity,
            "entity_normalize": entity_normalize,
            "key": key,
            "hierarchies": parse_all(hierarchies, files=True),
        },
    )
    session = frame.sparkSession
    require_session(session)
    warn_unless_private(session)
    with (
        hints_without_views(IN_DATA_FRAME),
        translated("the release was made"),
        restoring_shuffle_partitions(session),
    ):
        rows, report, _ = released(job, frame, tasks)
    return rows, report


def released(
    job: Job, frame: DataFrame, tasks: int | None = None, findings: SourceFindings | None = None
) -> tuple[DataFrame, Report, DiskCache]:
    """Return the released columns, their report, and the disks that hold them.

    Parameters
    ----------
    findings : knowledge about the source's columns; None to inspect the first rows of
        ``frame``.

    Raises
    ------
    DbanonError : of the class that describes the problem; nothing is left on the disks.
    """
    started = time.perf_counter()
    check_job(job)
    source = DataFrameSource(frame)
    planned = plan(job, cast(Source, source))
    if findings is None:
        findings = SourceFindings.of(source, planned.relation, job)
    planned = replace(
        planned, identifiers=findings.identifiers, person_columns=tuple(findings.person_identifiers)
    )
    identifiers = warn_of_identifiers(planned)
    spellings = warn_of_spellings(planned, source)
    layout = layout_of(planned)
    source_rows = lay_out_rows(frame, job, layout, planned.relation)
    disks, packet_disks = DiskCache(), DiskCache()
    try:
        packets, facts, sample = _gather(source_rows, planned, layout, packet_disks)
        fit_shuffle_partitions(frame.sparkSession, facts.rows)
        require_key(packets, facts)
        check_facts(facts, planned, source_rows.withheld)
        context, strata = _table_context(facts, planned, layout)
        check_context(context)
        columns = released_columns(context)
        names = [column.attribute.name for column in columns]
        require_unique_names([*names, *layout.retained], frame, columns)
        stages = ClusterStages(context, disks, tasks)
        schema = _schema(frame, layout, columns)
        forest = stages.forest(packets, strata, sample)
        rows, block_facts, _ = stages.classes(packets, forest, lambda: schema)
        disks.release(keep_last=True)
        counts = count_classes(rows, planned, names, layout)
        expected = ExpectedRelease(
            facts.rows,
            sum(stratum.rows for stratum in strata if not all(stratum.pattern)),
            planned.sensitive,
        )
        verdict = planned.guarantee.check(counts, expected)
        release_rows = ReleasedRows(packets, source_rows.rows, rows, layout, tuple(names))
        release_counts = findings_on(
            planned,
            release_rows,
            block_facts,
            counts,
            verdict,
            source_rows.withheld,
            (identifiers, spellings),
        )
        elapsed = time.perf_counter() - started
        report = report_of(
            planned,
            context,
            names,
            release_counts,
            losses_of(block_facts, context, columns),
            elapsed,
        )
        warn_of_lost_columns(report)
        warn_of_homogeneity(report)
        order = _order(frame, layout, columns)
        return rows.select(*order), report, disks
    except BaseException:
        disks.release()
        raise
    finally:
        packet_disks.release()
        source_rows.disks.release()


def _gather(
    source_rows: SourceRows, planned: Plan, layout: Layout, disks: DiskCache
) -> tuple[DataFrame, Facts, list[pa.Table]]:
    """Read the source once: return its rows as packets, the facts of all pieces, and a sample.

    The sample has the rows with the smallest hashes, enough for a single stratum, and is taken only
    if counting the rows in advance is cheap.
    """
    hierarchies = {**planned.policy.hierarchies, **planned.hierarchies.trees}
    built_trees = frozenset(planned.hierarchies.trees)
    limit = (
        sample_limit(planned.policy, source_rows.rows.count()) if source_rows.is_countable else None
    )
    work = GatherFacts(layout, frozenset(hierarchies), built_trees, limit)
    at_once = None if layout.persons else PIECE_RECORDS
    packets = disks.keep(mapped(source_rows.rows, work, PACKETS, at_once))
    facts, sample = Facts(), []
    for fact in collect_facts(packets):
        if isinstance(fact, Facts):
            facts.add(fact)
        else:
            sample.append(pa.Table.from_batches(fact))
    return packets, facts, sample


def _table_context(
    facts: Facts, planned: Plan, layout: Layout
) -> tuple[TableContext, list[Stratum]]:
    """Build the table's measures and policy with hierarchies, and its strata in a fixed order."""
    persons = layout.persons
    attributes = layout.quasi_identifiers
    measured = measures_of(facts.records, facts.records, layout.sensitive, persons)
    clustered_sums = facts.clustered
    clustered = (
        measured
        if clustered_sums is None
        else measures_of(clustered_sums, facts.records, (), False)
    )
    dictionaries = {name: measure.values for name, measure in measured.categories.items()}
    values: Microdata = values_of(facts, attributes, dictionaries)
    policy = planned.policy_for(values)
    strata_values = sorted({by for by, _ in facts.strata}, key=_nulls_first)
    stratum_numbers = {by: i for i, by in enumerate(strata_values)}
    context = TableContext(
        layout, policy, measured, clustered, stratum_numbers, frozenset(facts.wide)
    )
    strata = [
        Stratum(stratum_numbers[by], pattern, rows, size)
        for (by, pattern), (rows, size) in facts.strata.items()
    ]
    return context, sorted(strata, key=lambda stratum: (stratum.by, stratum.pattern))


def _nulls_first(by: tuple[str | None, ...]) -> tuple[tuple[bool, str], ...]:
    return tuple((text is not None, text or "") for text in by)


def _schema(frame: DataFrame, layout: Layout, columns: Sequence[Any]) -> Any:
    """The schema of the release with its internal column names."""
    from pyspark.sql.types import BinaryType, StringType, StructField, StructType

    class_fields = [
        StructField(f"r{i}", type_of(column, frame)) for i, column in enumerate(columns)
    ]
    other_fields = [
        StructField(name, frame.schema[source_name].dataType)
        for name, source_name in zip(layout.kept_columns, layout.retained, strict=True)
    ]
    other_fields += [
        StructField(name, frame.schema[source_name].dataType)
        for name, source_name in zip(layout.number_columns, layout.numbers, strict=True)
    ]
    persons = [StructField(name, StringType()) for name in layout.entity]
    return StructType([*class_fields, *other_fields, *persons, StructField(FACTS, BinaryType())])


def _order(frame: DataFrame, layout: Layout, columns: Sequence[Any]) -> list[Any]:
    """The released columns in the source's order; bounds replace their column."""
    retained = dict(zip(layout.retained, layout.kept_columns, strict=True))
    columns_in_order = []
    for name in frame.columns:
        if name in retained:
            columns_in_order.append(column(retained[name]).alias(name))
        for i, released_column in enumerate(columns):
            if released_column.source == name:
                columns_in_order.append(sql.col(f"r{i}").alias(released_column.attribute.name))
    return columns_in_order
