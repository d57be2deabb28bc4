"""Anonymize a Spark DataFrame in blocks on its workers, and recount the release.

Workers process the rows in pieces, i.e. rows that one task has in memory together. Between stages
rows travel in packets: many rows in one binary value (``layout``). With its rows a task can return
facts, such as sums and counts; the driver adds up those of all tasks. A forest has a tree of cuts
for each stratum, whose leaves make up the blocks (``trees``). A null pattern says which
quasi-identifiers are present: True where a value is *not* NULL.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from dbanon.data.microdata import Microdata
from dbanon.data.option import build_options
from dbanon.data.pieces import PIECE_RECORDS
from dbanon.errors import hints_without_views
from dbanon.extensions.spark.dataframe import (
    FRAME_NAME,
    DataFrameSource,
    SourceRows,
    assign_roles,
    lay_out_rows,
    quoted_column,
    require_unique_keys,
    require_unique_names,
    spark_type_of,
)
from dbanon.extensions.spark.disclosure import ReleasedRows, SourceFindings, combine_findings
from dbanon.extensions.spark.facts import Facts, build_distinct_microdata, compute_column_statistics
from dbanon.extensions.spark.layout import FACTS, Layout
from dbanon.extensions.spark.pieces import StrataValues, TableContext
from dbanon.extensions.spark.refusals import check_context, check_facts, check_job, check_method
from dbanon.extensions.spark.report import (
    build_report,
    count_classes,
    determine_released_columns,
    sum_losses,
)
from dbanon.extensions.spark.session import (
    batches_of_any_size,
    fit_shuffle_partitions,
    require_session,
    restoring_shuffle_partitions,
    warn_unless_private,
)
from dbanon.extensions.spark.stages import ClusterStages, sample_hash_limit
from dbanon.extensions.spark.tasks import (
    PACKETS,
    DiskCache,
    apply_to_pieces,
    collect_facts,
    translate_spark_errors,
)
from dbanon.extensions.spark.trees import Stratum
from dbanon.extensions.spark.workers import GatherFacts
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
from dbanon.stores.ports import IN_DATA_FRAME, Source

if TYPE_CHECKING:
    from typing import Unpack

    from pyspark.sql import Column
    from pyspark.sql.types import StructType

    from dbanon.job.options import PolicyOptions
    from dbanon.recoding.columns import ReleasedColumn
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
    Each task has its classes, and the rows of each class, in a new random order. Columns that you
    do not name are left out.

    Parameters
    ----------
    frame : the records.
    key : columns that identify each row; a single integer column avoids a sort. If empty, rows are
        ordered by all their columns.
    tasks : number of tasks that work on blocks; None for at least one per core.
    quasi_identifiers, k, sensitive, keep, by, entity, entity_normalize, hierarchies, options : see
        ``anonymize_frame``; ``block_size`` defaults to 50,000.

    Raises
    ------
    DbanonError : its class says what went wrong.
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
        # Hints say "in the data frame" in place of "in a view", which a DataFrame cannot have.
        hints_without_views(IN_DATA_FRAME),
        translate_spark_errors("computing the release"),
        restoring_shuffle_partitions(session),
    ):
        # Keep the cache of the rows (the third result), because the caller reads the rows later.
        rows, report, _ = release_frame(job, frame, tasks)
    return rows, report


def _plan_release(job: Job, source: DataFrameSource, findings: SourceFindings | None) -> Plan:
    """Plan a release, and note which columns look like identifiers; see ``release_frame``."""
    # ``source`` has the methods of ``Source`` that a plan calls.
    run_plan = plan(job, cast(Source, source))
    if findings is None:
        findings = SourceFindings.of(source, run_plan.relation, job)
    return replace(
        run_plan,
        identifiers=findings.identifiers,
        person_columns=tuple(findings.person_identifiers),
    )


def release_frame(
    job: Job,
    frame: DataFrame,
    tasks: int | None = None,
    findings: SourceFindings | None = None,
    *,
    is_rereadable: bool = False,
) -> tuple[DataFrame, Report, DiskCache]:
    """Compute and recount a release; return its rows, its report, and the cache of the rows.

    Parameters
    ----------
    frame : the source.
    tasks : see ``anonymize``.
    findings : the columns of the source that look like identifiers; None to search the first rows
        of ``frame`` for them.
    is_rereadable : see ``PinnedSource``.

    Raises
    ------
    DbanonError : its class says what went wrong; all caches have been dropped.
    """
    start_seconds = time.perf_counter()
    check_job(job)
    source = DataFrameSource(frame)
    run_plan = _plan_release(job, source, findings)
    identifiers = warn_of_identifiers(run_plan)
    # Person identifiers that differ only in white space or case, and so count as two persons.
    spellings = warn_of_spellings(run_plan, source, job.entity) if job.entity else ()
    layout = assign_roles(run_plan)
    source_rows = lay_out_rows(frame, job, layout, run_plan.relation, is_rereadable=is_rereadable)
    disk_cache, packet_cache = DiskCache(), DiskCache()
    try:
        packets, facts, sample = _gather_facts(source_rows, run_plan, layout, packet_cache)
        fit_shuffle_partitions(frame.sparkSession, facts.n_rows)
        require_unique_keys(packets, facts)
        check_facts(facts, run_plan, source_rows.n_withheld)
        context, strata = _build_table_context(facts, run_plan, layout)
        check_context(context)
        columns = determine_released_columns(context)
        # Intervals can be released as two columns, so names differ from the quasi-identifiers'.
        names = [column.attribute.name for column in columns]
        require_unique_names([*names, *layout.retained_columns], frame, columns)
        stages = ClusterStages(context, disk_cache, tasks)
        schema = _release_schema(frame, layout, columns)
        forest = stages.cut_strata(packets, strata, sample)
        rows, block_facts, _ = stages.cluster_and_release(packets, forest, lambda: schema)
        # The last cache has the released rows; those of earlier stages are no longer needed.
        disk_cache.release(keep_last=True)
        counts = count_classes(rows, run_plan, names, layout)
        expected = ExpectedRelease(
            n_rows=facts.n_rows,
            null_rows=sum(stratum.n_rows for stratum in strata if not all(stratum.null_pattern)),
            sensitive=run_plan.sensitive,
        )
        verdict = run_plan.guarantee.check(counts, expected)
        release_rows = ReleasedRows(
            None if source_rows.is_rereadable else packets,
            source_rows.rows,
            rows,
            layout,
            tuple(names),
        )
        release_counts = combine_findings(
            run_plan,
            release_rows,
            block_facts,
            counts,
            verdict,
            source_rows.n_withheld,
            identifiers,
            spellings,
        )
        elapsed_seconds = time.perf_counter() - start_seconds
        report = build_report(
            run_plan,
            context,
            names,
            release_counts,
            sum_losses(block_facts, context, columns),
            elapsed_seconds,
        )
        warn_of_lost_columns(report)
        warn_of_homogeneity(report)
        return rows.select(*_select_in_source_order(frame, layout, columns)), report, disk_cache
    except BaseException:
        disk_cache.release()
        raise
    finally:
        packet_cache.release()
        source_rows.disk_cache.release()


def _gather_facts(
    source_rows: SourceRows, run_plan: Plan, layout: Layout, disk_cache: DiskCache
) -> tuple[DataFrame, Facts, list[pa.Table]]:
    """Read the source once: return its rows as packets, facts about all rows, and a sample.

    The sample contains the rows with the smallest key hashes, enough to choose where to cut a table
    of a single stratum into blocks. It is empty unless the rows can be counted cheaply beforehand.
    """
    # The policy has complete hierarchies. The plan's may have to be built from the table's values.
    hierarchies = {**run_plan.policy.hierarchies, **run_plan.hierarchies.trees}
    built_hierarchies = frozenset(run_plan.hierarchies.trees)
    hash_limit = (
        sample_hash_limit(run_plan.policy, source_rows.rows.count())
        if source_rows.is_countable
        else None
    )
    # Tasks return sampled rows to the driver like facts. Their other rows stay on the workers.
    work = GatherFacts(layout, frozenset(hierarchies), built_hierarchies, hash_limit)
    rows_per_piece = None if layout.has_persons else PIECE_RECORDS
    rows = source_rows.rows
    with batches_of_any_size(rows.sparkSession, rows.schema):
        packets = disk_cache.keep(apply_to_pieces(rows, work, PACKETS, rows_per_piece))
        results = collect_facts(packets)
    facts, sample = Facts(), []
    for result in results:
        if isinstance(result, Facts):
            facts.add(result)
        else:
            sample.append(pa.Table.from_batches(result))
    return packets, facts, sample


def _build_table_context(
    facts: Facts, run_plan: Plan, layout: Layout
) -> tuple[TableContext, list[Stratum]]:
    """Derive from facts what workers need to know about the whole table, and list the strata.

    Workers need the column statistics, the hierarchies of the policy, and a number for each
    combination of values of the strata columns. Several strata can have the same combination, with
    different patterns of NULLs. The strata are sorted.
    """
    record_statistics = compute_column_statistics(
        sums=facts.record_sums,
        record_sums=facts.record_sums,
        sensitive=layout.sensitive,
        counts_persons=layout.has_persons,
    )
    # Without persons, records are clustered.
    clustered_statistics = record_statistics
    if facts.clustered_sums is not None:
        clustered_statistics = compute_column_statistics(
            sums=facts.clustered_sums,
            record_sums=facts.record_sums,
            sensitive=(),
            counts_persons=False,
        )
    dictionaries = {
        name: frequencies.values for name, frequencies in record_statistics.categories.items()
    }
    distinct_values: Microdata = build_distinct_microdata(
        facts, layout.quasi_identifiers, dictionaries
    )
    policy = run_plan.policy_for(distinct_values)
    strata_values = sorted({values for values, _ in facts.strata_sizes}, key=_nulls_first)
    combination_numbers = {values: number for number, values in enumerate(strata_values)}
    context = TableContext(
        layout,
        policy,
        record_statistics,
        clustered_statistics,
        combination_numbers,
        frozenset(facts.wide),
    )
    strata = [
        Stratum(combination_numbers[values], null_pattern, n_rows, n_units)
        for (values, null_pattern), (n_rows, n_units) in facts.strata_sizes.items()
    ]
    return context, sorted(
        strata, key=lambda stratum: (stratum.combination_number, stratum.null_pattern)
    )


def _nulls_first(values: StrataValues) -> tuple[tuple[bool, str], ...]:
    """Return a sort key that orders NULL before all texts."""
    return tuple((text is not None, text or "") for text in values)


def _release_schema(
    frame: DataFrame, layout: Layout, columns: Sequence[ReleasedColumn]
) -> StructType:
    """Return Spark's schema of the release, with internal column names."""
    from pyspark.sql.types import BinaryType, StringType, StructField, StructType

    class_fields = [
        StructField(f"r{i}", spark_type_of(column, frame)) for i, column in enumerate(columns)
    ]
    copied_fields = [
        StructField(name, frame.schema[source_name].dataType)
        for name, source_name in zip(layout.internal_retained, layout.retained_columns, strict=True)
    ]
    copied_fields += [
        StructField(name, frame.schema[source_name].dataType)
        for name, source_name in zip(
            layout.internal_person_identifiers, layout.person_identifiers, strict=True
        )
    ]
    person_fields = [StructField(name, StringType()) for name in layout.internal_entity]
    # Workers return facts as rows of their own, in which all other columns are NULL.
    return StructType(
        [*class_fields, *copied_fields, *person_fields, StructField(FACTS, BinaryType())]
    )


def _select_in_source_order(
    frame: DataFrame, layout: Layout, columns: Sequence[ReleasedColumn]
) -> list[Column]:
    """Select the released columns in the source's order.

    If intervals are released as lower and upper bounds, both columns take the place of the source's
    column.
    """
    retained = dict(zip(layout.retained_columns, layout.internal_retained, strict=True))
    columns_in_order = []
    for name in frame.columns:
        if name in retained:
            columns_in_order.append(quoted_column(retained[name]).alias(name))
        for i, released_column in enumerate(columns):
            if released_column.quasi_identifier == name:
                columns_in_order.append(sql.col(f"r{i}").alias(released_column.attribute.name))
    return columns_in_order
