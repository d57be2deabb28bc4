"""Anonymizing a DataFrame of Spark: in blocks on its workers, counted again before it is given."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from dbanon.data.microdata import Microdata
from dbanon.data.option import make
from dbanon.data.pieces import AT_ONCE
from dbanon.hierarchy.spec import HierarchySource, parse_all
from dbanon.job.job import Job
from dbanon.job.policy import Policy
from dbanon.job.verdict import Expected
from dbanon.run.disclosure import (
    warn_of_homogeneity,
    warn_of_identifiers,
    warn_of_lost_columns,
    warn_of_spellings,
)
from dbanon.run.plan import Plan, plan
from dbanon.spark.dataframe import (
    NAME,
    DataFrameSource,
    LaidOut,
    column,
    laid_out,
    layout_of,
    require_key,
    type_of,
    with_unique,
)
from dbanon.spark.disclosure import ReleasedRows, SourceFindings, findings_on
from dbanon.spark.facts import Facts, measures_of, values_of
from dbanon.spark.layout import FACTS, Layout
from dbanon.spark.pieces import TableContext
from dbanon.spark.refusals import check_facts, check_job, check_known, check_method
from dbanon.spark.report import counted, lost_of, released_columns, report_of
from dbanon.spark.session import (
    fit_shuffle_partitions,
    own_shuffle_partitions,
    require_session,
    warn_unless_private,
)
from dbanon.spark.stages import Stages, sample_limit
from dbanon.spark.tasks import PACKETS, Disks, collect_facts, mapped, translated
from dbanon.spark.trees import Stratum
from dbanon.spark.workers import GatherFacts
from dbanon.stores.ports import Source

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
    """Anonymize a DataFrame in blocks; the result is counted again before it is returned.

    The release is kept on the disks of the executors (``DISK_ONLY``), where it was counted, until
    the session ends or ``spark.catalog.clearCache()``: write it somewhere before. Rows come in
    fresh random order within their tasks. Columns named nowhere are left out.

    Parameters
    ----------
    frame : the records.
    key : columns that tell every row from every other; one whole number needs no sorting. Empty:
        rows are ordered by all their columns.
    tasks : how many work on blocks; None for as many as there are cores, or more.
    quasi_identifiers, k, sensitive, keep, by, entity, entity_normalize, hierarchies, options : as
        of ``anonymize_frame``; ``block_size`` is 50,000 unless it is given.

    Raises
    ------
    DbanonError : its class says what went wrong.
    """
    check_method(options)
    options.setdefault("block_size", BLOCK_SIZE)
    policy = make(Policy, {"k": k, **options})
    job = make(
        Job,
        {
            "policy": policy,
            "table": NAME,
            "output": NAME,
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
    with translated("the release was made"), own_shuffle_partitions(session):
        rows, report, _ = released(job, frame, tasks)
    return rows, report


def released(
    job: Job, frame: DataFrame, tasks: int | None = None, findings: SourceFindings | None = None
) -> tuple[DataFrame, Report, Disks]:
    """The released columns, what was counted on them, and the disks of executors that have them.

    Parameters
    ----------
    findings : what the source has shown already; None to look at the first rows of ``frame``.

    Raises
    ------
    DbanonError : of the class that says what went wrong; nothing is kept then.
    """
    started = time.perf_counter()
    check_job(job)
    source = DataFrameSource(frame)
    planned = plan(job, cast(Source, source))
    if findings is None:
        findings = SourceFindings.of(source, planned.relation, job)
    planned = replace(
        planned, identifiers=findings.identifiers, numbers=tuple(findings.numbers_of_persons)
    )
    identifiers = warn_of_identifiers(planned)
    spellings = warn_of_spellings(planned, source)
    layout = layout_of(planned)
    laid = laid_out(frame, job, layout, planned.relation)
    disks, packed = Disks(), Disks()
    try:
        kept, facts, sample = _gather(laid, planned, layout, packed)
        fit_shuffle_partitions(frame.sparkSession, facts.rows)
        require_key(kept, facts)
        check_facts(facts, planned, laid.withheld)
        known, strata = _known(facts, planned, layout)
        check_known(known)
        columns = released_columns(known)
        names = [one.attribute.name for one in columns]
        with_unique([*names, *layout.kept], frame, columns)
        stages = Stages(known, disks, tasks)
        schema = _schema(frame, layout, columns)
        forest = stages.forest(kept, strata, sample)
        rows, told, _ = stages.classes(kept, forest, lambda: schema)
        disks.done(but=True)
        answers = counted(rows, planned, names, layout)
        expected = Expected(
            facts.rows, sum(one.rows for one in strata if not all(one.pattern)), planned.sensitive
        )
        verdict = planned.guarantee.check(answers, expected)
        rows_beside = ReleasedRows(kept, laid.rows, rows, layout, tuple(names))
        found = findings_on(
            planned,
            rows_beside,
            told,
            answers,
            verdict,
            laid.withheld,
            (identifiers, spellings),
        )
        elapsed = time.perf_counter() - started
        report = report_of(planned, known, names, found, lost_of(told, known, columns), elapsed)
        warn_of_lost_columns(report)
        warn_of_homogeneity(report)
        order = _order(frame, layout, columns)
        return rows.select(*order), report, disks
    except BaseException:
        disks.done()
        raise
    finally:
        packed.done()
        laid.disks.done()


def _gather(
    laid: LaidOut, planned: Plan, layout: Layout, disks: Disks
) -> tuple[DataFrame, Facts, list[pa.Table]]:
    """The rows as packets, and what all pieces tell: the source is read here, and not again.

    Beside them rows of the smallest hashes, enough for one stratum of all, where counting before
    costs little.
    """
    given = {**planned.policy.hierarchies, **planned.given.trees}
    made = frozenset(planned.given.trees)
    limit = sample_limit(planned.policy, laid.rows.count()) if laid.counted else None
    work = GatherFacts(layout, frozenset(given), made, limit)
    at_once = None if layout.persons else AT_ONCE
    kept = disks.keep(mapped(laid.rows, work, PACKETS, at_once))
    found, sample = Facts(), []
    for one in collect_facts(kept):
        if isinstance(one, Facts):
            found.add(one)
        else:
            sample.append(pa.Table.from_batches(one))
    return kept, found, sample


def _known(facts: Facts, planned: Plan, layout: Layout) -> tuple[TableContext, list[Stratum]]:
    """The measures of the table, its policy with its hierarchies, and its strata in an order."""
    persons = layout.persons
    attributes = layout.quasi_identifiers
    measured = measures_of(facts.records, facts.records, layout.sensitive, persons)
    own = facts.clustered
    clustered = measured if own is None else measures_of(own, facts.records, (), False)
    dictionaries = {name: known.values for name, known in measured.categories.items()}
    values: Microdata = values_of(facts, attributes, dictionaries)
    policy = planned.policy_for(values)
    places = sorted({by for by, _ in facts.strata}, key=_with_null_first)
    number = {by: i for i, by in enumerate(places)}
    known = TableContext(layout, policy, measured, clustered, number, frozenset(facts.wide))
    strata = [
        Stratum(number[by], pattern, rows, size)
        for (by, pattern), (rows, size) in facts.strata.items()
    ]
    return known, sorted(strata, key=lambda one: (one.by, one.pattern))


def _with_null_first(by: tuple[str | None, ...]) -> tuple[tuple[bool, str], ...]:
    return tuple((text is not None, text or "") for text in by)


def _schema(frame: DataFrame, layout: Layout, columns: Sequence[Any]) -> Any:
    """The columns of the release as they stand while it is made."""
    from pyspark.sql.types import BinaryType, StringType, StructField, StructType

    own = [StructField(f"r{i}", type_of(one, frame)) for i, one in enumerate(columns)]
    kept = [
        StructField(name, frame.schema[given].dataType)
        for name, given in zip(layout.kept_columns, layout.kept, strict=True)
    ]
    kept += [
        StructField(name, frame.schema[given].dataType)
        for name, given in zip(layout.number_columns, layout.numbers, strict=True)
    ]
    persons = [StructField(name, StringType()) for name in layout.entity]
    return StructType([*own, *kept, *persons, StructField(FACTS, BinaryType())])


def _order(frame: DataFrame, layout: Layout, columns: Sequence[Any]) -> list[Any]:
    """The released columns in the order of the source; bounds stand where their column stood."""
    kept = dict(zip(layout.kept, layout.kept_columns, strict=True))
    found = []
    for name in frame.columns:
        if name in kept:
            found.append(column(kept[name]).alias(name))
        for i, one in enumerate(columns):
            if one.source == name:
                found.append(sql.col(f"r{i}").alias(one.attribute.name))
    return found
