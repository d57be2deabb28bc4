"""The columns, recount and report of a release made on Spark.

The recount runs GROUP BY on the cached rows as readers will see them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from dbanon.data.chunks import encode_texts
from dbanon.data.counts import ClassValueCounts, Counts, EntityCount, Recount
from dbanon.data.microdata import CodedColumn, Microdata
from dbanon.data.partition import ClusteringResult, Partition
from dbanon.data.schema import Attribute
from dbanon.data.types import JsonObject
from dbanon.data.words import also_under_former_key
from dbanon.extensions.spark.dataframe import FRAME_KIND, FRAME_NAME
from dbanon.extensions.spark.layout import Layout
from dbanon.extensions.spark.pieces import TableContext
from dbanon.extensions.spark.workers import BlockFacts
from dbanon.hierarchy.leaves import sort_values
from dbanon.measures.information_loss import Loss, loss_from_sums
from dbanon.recoding import find_recoding
from dbanon.recoding.columns import ReleasedColumn
from dbanon.release.outcome import OperatorFigures, public_loss
from dbanon.release.recode import ColumnLoss, recode
from dbanon.release.report import Provenance, RecountResult, ReleaseLoss, Report
from dbanon.release.words import now
from dbanon.run.disclosure import collect_findings
from dbanon.run.plan import Plan
from dbanon.version import version


def determine_released_columns(context: TableContext) -> tuple[ReleasedColumn, ...]:
    """Determine the columns of a release by recoding an example record.

    Raises
    ------
    DbanonError : the recoding does not support the columns.
    """
    attributes = context.layout.quasi_identifiers
    column_statistics = context.record_statistics
    scales = [column_statistics.scales[a.name] for a in attributes if a.kind.is_numeric]
    # A column with only NULLs is NULL in the example.
    has_values = [
        (
            column_statistics.scales[a.name].count
            if a.kind.is_numeric
            else column_statistics.categories[a.name].counts.sum()
        )
        > 0
        for a in attributes
    ]
    dictionaries = tuple(
        column_statistics.categories[a.name].values for a in attributes if not a.kind.is_numeric
    )
    example_record = Microdata(
        attributes,
        np.zeros((1, 1), np.int64),
        np.array([[scale.least for scale in scales]], np.float64),
        # Code 0 is the first value, -1 is NULL.
        np.array([[0 if values else -1 for values in dictionaries]], np.int32),
        dictionaries,
        valid=np.array([has_values], np.bool_),
        wide=context.wide,
    )
    clustering = ClusteringResult(
        Partition(np.zeros(1, np.int32)), column_statistics=column_statistics
    )

    # ``recode`` asks for the sum per class of wide columns (those with numbers that float64 cannot
    # represent exactly). The values of the example do not matter, so 0 will do.
    def zero_totals(
        partition: Partition, wide_attributes: Sequence[Attribute]
    ) -> dict[str, NDArray[np.object_]]:
        return {attribute.name: np.array([0], object) for attribute in wide_attributes}

    return recode(example_record, clustering, context.policy, zero_totals).columns


def count_classes(rows: DataFrame, run_plan: Plan, names: Sequence[str], layout: Layout) -> Counts:
    """Count the classes of released values within strata, and the persons in them.

    Parameters
    ----------
    rows : the released rows under internal names; the released columns are r0, r1, …
    names : the names of the released columns.
    """
    released = [f"r{i}" for i in range(len(names))]
    strata = [
        name
        for name, source_name in zip(layout.internal_retained, layout.retained_columns, strict=True)
        if source_name in layout.strata_columns
    ]
    has_null = sql.lit(False)
    # As everywhere, NULLs in strata count, too, which are released as they are.
    for name in (*released, *strata):
        has_null = has_null | sql.col(name).isNull()
    aggregates = [sql.count(sql.lit(1)).alias("size"), sql.max(has_null).alias("has_null")]
    aggregates += [sql.count_distinct(name).alias("persons") for name in layout.internal_entity]
    classes = rows.groupBy(*released, *strata).agg(*aggregates)
    groups = ["size", "has_null", *(["persons"] if layout.has_persons else [])]
    size_counts = classes.groupBy(*groups).count().collect()
    recount = Recount.of_sizes((row["size"], row["has_null"], row["count"]) for row in size_counts)
    persons = {}
    for name, person_column in zip(
        layout.internal_entity, run_plan.job.guarantee.entity_columns, strict=True
    ):
        [(n_persons,)] = rows.agg(sql.count_distinct(name)).collect()
        smallest = min((int(row["persons"]) for row in size_counts), default=0)
        persons[person_column] = EntityCount(
            persons=int(n_persons), smallest=smallest, histogram=recount.histogram
        )
    if not run_plan.sensitive:
        return Counts(recount, persons)
    value_counts, persons_per_class = _count_values_in_classes(
        rows, [*released, *strata], run_plan, layout
    )
    for person_column, count in persons.items():
        persons[person_column] = replace(
            count, value_counts=value_counts, persons_per_class=persons_per_class
        )
    return Counts(recount, persons, value_counts)


def _count_values_in_classes(
    rows: DataFrame, classes: Sequence[str], run_plan: Plan, layout: Layout
) -> tuple[dict[str, ClassValueCounts], NDArray[np.int64]]:
    """Count each sensitive value in each class, by column, and the persons per class, int64 (m,).

    The driver receives only counts and sensitive values, no other released values.
    """
    text_columns = {}
    for index, attribute in enumerate(run_plan.sensitive.values()):
        text = sql.col(
            layout.internal_retained[layout.retained_columns.index(attribute.name)]
        ).cast("string")
        text_columns[attribute.name] = f"v{index}"
        rows = rows.withColumn(f"v{index}", text)
    counts_by_column: dict[str, ClassValueCounts] = {}
    persons_per_class = np.zeros(0, np.int64)
    for name, column in text_columns.items():
        counts = [sql.count(sql.lit(1)).alias("size")]
        counts += [sql.count_distinct(person).alias("persons") for person in layout.internal_entity]
        values = rows.groupBy(*classes, column).agg(*counts)
        entry_fields = [sql.col(column).alias("value"), sql.col("size")]
        # There is at most one person column.
        entry_fields += [sql.col("persons") for _ in layout.internal_entity]
        # Order by class, so that classes have the same numbers for every column.
        class_entries = values.groupBy(*classes).agg(
            sql.collect_list(sql.struct(*entry_fields)).alias("entries")
        )
        class_rows = class_entries.orderBy(*classes).select("entries").collect()
        entries_by_class = [class_row["entries"] for class_row in class_rows]
        n_entries = list(map(len, entries_by_class))
        class_numbers = np.repeat(np.arange(len(entries_by_class)), n_entries)
        # An entry is a value in a class, with its number of rows and persons.
        entries = [entry for entries_of_class in entries_by_class for entry in entries_of_class]
        codes, texts = encode_texts(entry["value"] for entry in entries)
        counts_by_column[name] = ClassValueCounts(
            class_numbers,
            _sort_codes(codes, texts, run_plan.sensitive[name]),
            np.array([entry["size"] for entry in entries], np.int64),
            np.array([entry["persons"] for entry in entries], np.int64)
            if layout.has_persons
            else None,
        )
    for person in layout.internal_entity:
        class_persons = rows.groupBy(*classes).agg(sql.count_distinct(person).alias("persons"))
        person_rows = class_persons.orderBy(*classes).select("persons").collect()
        persons_per_class = np.array([n_persons for (n_persons,) in person_rows], np.int64)
    return counts_by_column, persons_per_class


def _sort_codes(
    codes: NDArray[np.int32], texts: tuple[str, ...], attribute: Attribute
) -> CodedColumn:
    """Renumber codes in the column's order, on which closeness models may depend."""
    sorted_texts = tuple(sort_values(texts, attribute))
    ranks_by_text = {text: i for i, text in enumerate(sorted_texts)}
    # NULL has the code -1, which selects the last element.
    ranks = np.array([*(ranks_by_text[text] for text in texts), -1], np.int32)
    return CodedColumn(ranks[codes], sorted_texts)


def sum_losses(
    block_facts: Sequence[BlockFacts], context: TableContext, columns: Sequence[ReleasedColumn]
) -> tuple[ReleaseLoss, ReleaseLoss, dict[str, int]]:
    """Add up the losses and the method's counts of all blocks, in their order.

    Returns the loss that readers may see, the exact loss, and the counts by name.
    """
    recoding = find_recoding(str(context.policy.recoding))
    # With the measure iloss, columns without losses are not measured.
    measured_columns = [
        column.quasi_identifier
        for column in columns
        if recoding.measure != "iloss" or column.losses is not None
    ]
    # The losses before and after the released values are rounded.
    before, after = (
        _total_loss([getattr(block, name) for block in block_facts])
        for name in ("losses_before", "losses_after")
    )
    losses = {
        name: ColumnLoss(name, float(before_rounding), float(after_rounding))
        for name, before_rounding, after_rounding in zip(
            measured_columns, before.columns, after.columns, strict=True
        )
    }
    suppressed_in_blocks = [set(block.suppressed_columns) for block in block_facts]
    fully_suppressed = tuple(
        a.name
        for a in context.layout.quasi_identifiers
        if all(a.name in suppressed for suppressed in suppressed_in_blocks)
    )
    counts: Counter[str] = Counter()
    for block in block_facts:
        counts.update(block.method_counts)
    exact = ReleaseLoss(
        after.total,
        before.total,
        losses,
        recoding.measure,
        # Only a full-domain search has one level per column, and it does not run in blocks.
        levels=None,
        lost_columns=fully_suppressed,
    )
    # Readers see a loss that is computed from these sums. The exact loss could reveal the extremes
    # of a column, so only the operator sees it (``OperatorFigures`` below).
    public_sums = zip(*(block.public_sums for block in block_facts), strict=True)
    sums = [reduce(add, column_sums) for column_sums in public_sums]
    return public_loss(measured_columns, sums, exact), exact, dict(counts)


def _total_loss(block_sums: Sequence[tuple[tuple[float, float], ...]]) -> Loss:
    """Compute the loss of all blocks.

    Parameters
    ----------
    block_sums : for each block, one pair per column: the sum of the losses, and what it is divided
        by (as SSE and SST).
    """
    totals = []
    for column_sums in zip(*block_sums, strict=True):
        errors, deviations = zip(*column_sums, strict=True)
        totals.append((sum(errors), sum(deviations)))
    return loss_from_sums(totals)


def build_report(
    run_plan: Plan,
    context: TableContext,
    names: Sequence[str],
    recount: RecountResult,
    losses: tuple[ReleaseLoss, ReleaseLoss, dict[str, int]],
    elapsed_seconds: float,
) -> Report:
    """Build the report of a release.

    Parameters
    ----------
    context : the policy with its hierarchies.
    names : the names of the released columns.
    recount : the result of the recount on the executors.
    losses : as returned by ``sum_losses``.
    """
    public_losses, exact_losses, method_counts = losses
    further_arguments: JsonObject = {**collect_findings(recount), "engine": "spark"}
    if run_plan.job.entity_normalize is not None:
        further_arguments["entity_normalize"] = run_plan.job.entity_normalize
    if method_counts:
        # Readers of earlier versions know the entry by its former key.
        further_arguments |= also_under_former_key("method_counts", method_counts)
    return Report(
        run_plan.build_request(
            context.policy,
            recount.verdict,
            names,
            source=FRAME_NAME,
            output=FRAME_NAME,
            output_kind=FRAME_KIND,
            further_arguments=further_arguments,
        ),
        recount,
        public_losses,
        Provenance(
            release_id=run_plan.release_id,
            created_at=now(),
            dbanon_version=version(),
            relation=FRAME_NAME,
            seconds={"total": elapsed_seconds},
        ),
        internal=OperatorFigures(exact_losses),
    )
