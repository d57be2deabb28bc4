"""What is said of a release made on Spark: its columns, its recount, and its report.

The recount is by GROUP BY on the rows that are kept, as readers have them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from dbanon.data.chunks import encode
from dbanon.data.counts import Cells, Counts, EntityCount, Recount
from dbanon.data.microdata import Coded, Microdata
from dbanon.data.partition import Found, Partition
from dbanon.data.schema import Attribute
from dbanon.hierarchy.leaves import sort_values
from dbanon.measures.information_loss import Loss, loss_of
from dbanon.recoding import find_recoding
from dbanon.recoding.columns import ReleasedColumn
from dbanon.release.outcome import Internal, public_loss
from dbanon.release.recode import ColumnLoss, recode
from dbanon.release.report import Counted, Lost, MadeBy, Report
from dbanon.release.words import now
from dbanon.run.disclosure import findings_of
from dbanon.run.plan import Plan
from dbanon.spark.dataframe import KIND, NAME
from dbanon.spark.layout import Layout
from dbanon.spark.pieces import TableContext
from dbanon.spark.workers import OfBlock
from dbanon.version import version


def released_columns(known: TableContext) -> tuple[ReleasedColumn, ...]:
    """The columns of a release, told by one made-up record that has a value of each column.

    Raises
    ------
    DbanonError : the recoding does not take the columns.
    """
    attributes = known.layout.quasi_identifiers
    measures = known.released
    numbers = [measures.numbers[a.name] for a in attributes if a.kind.is_numeric]
    held = [
        (
            measures.numbers[a.name].count
            if a.kind.is_numeric
            else measures.categories[a.name].counts.sum()
        )
        > 0
        for a in attributes
    ]
    dictionaries = tuple(
        measures.categories[a.name].values for a in attributes if not a.kind.is_numeric
    )
    one = Microdata(
        attributes,
        np.zeros((1, 1), np.int64),
        np.array([[scale.least for scale in numbers]], np.float64),
        np.array([[0 if values else -1 for values in dictionaries]], np.int32),
        dictionaries,
        valid=np.array([held], np.bool_),
        wide=known.wide,
    )
    found = Found(Partition(np.zeros(1, np.int32)), measures=measures)

    def nothing(partition: Partition, wide: Sequence[Attribute]) -> dict[str, NDArray[np.object_]]:
        return {attribute.name: np.array([0], object) for attribute in wide}

    return recode(one, found, known.policy, nothing).columns


def counted(rows: DataFrame, planned: Plan, names: Sequence[str], layout: Layout) -> Counts:
    """The classes of released values within strata, and the persons in them.

    Parameters
    ----------
    rows : as they stand, the released columns as r0, r1, …
    names : of the released columns.
    """
    released = [f"r{i}" for i in range(len(names))]
    strata = [name for name, given in zip(layout.kept_columns, layout.kept, strict=True)
              if given in layout.by]  # fmt: skip
    has_null = sql.lit(False)
    for name in released:
        has_null = has_null | sql.col(name).isNull()
    asked = [sql.count(sql.lit(1)).alias("size"), sql.max(has_null).alias("has_null")]
    asked += [sql.count_distinct(name).alias("persons") for name in layout.entity]
    classes = rows.groupBy(*released, *strata).agg(*asked)
    groups = ["size", "has_null", *(["persons"] if layout.persons else [])]
    found = classes.groupBy(*groups).count().collect()
    recount = Recount.of_sizes((row["size"], row["has_null"], row["count"]) for row in found)
    persons = {}
    for name, given in zip(layout.entity, planned.job.guarantee.persons, strict=True):
        together = rows.agg(sql.count_distinct(name)).collect()[0][0]
        smallest = min((int(row["persons"]) for row in found), default=0)
        persons[given] = EntityCount(int(together), smallest, recount.histogram)
    if not planned.sensitive:
        return Counts(recount, persons)
    cells, in_class = _cells(rows, [*released, *strata], planned, layout)
    for given, count in persons.items():
        persons[given] = replace(count, cells=cells, in_class=in_class)
    return Counts(recount, persons, cells)


def _cells(
    rows: DataFrame, classes: Sequence[str], planned: Plan, layout: Layout
) -> tuple[dict[str, Cells], NDArray[np.int64]]:
    """How often each sensitive value occurs in each class; and the persons of each, int64 (m,).

    Only counts and sensitive values come to the driver, no released value.
    """
    held = {}
    for at, attribute in enumerate(planned.sensitive.values()):
        text = sql.col(layout.kept_columns[layout.kept.index(attribute.name)]).cast("string")
        held[attribute.name] = f"v{at}"
        rows = rows.withColumn(f"v{at}", text)
    found: dict[str, Cells] = {}
    in_class = np.zeros(0, np.int64)
    for name, column in held.items():
        counts = [sql.count(sql.lit(1)).alias("size")]
        counts += [sql.count_distinct(person).alias("persons") for person in layout.entity]
        values = rows.groupBy(*classes, column).agg(*counts)
        own = [sql.col(column).alias("value"), sql.col("size")]
        own += [sql.col("persons") for _ in layout.entity]
        # In the order of classes, so that all columns number them alike.
        together = values.groupBy(*classes).agg(sql.collect_list(sql.struct(*own)).alias("cells"))
        parts = [row[0] for row in together.orderBy(*classes).select("cells").collect()]
        numbers = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        cells = [cell for part in parts for cell in part]
        codes, known = encode(cell["value"] for cell in cells)
        found[name] = Cells(
            numbers,
            _in_order(codes, known, planned.sensitive[name]),
            np.array([cell["size"] for cell in cells], np.int64),
            np.array([cell["persons"] for cell in cells], np.int64) if layout.persons else None,
        )
    for person in layout.entity:
        in_each = rows.groupBy(*classes).agg(sql.count_distinct(person).alias("persons"))
        ordered = in_each.orderBy(*classes).select("persons").collect()
        in_class = np.array([row[0] for row in ordered], np.int64)
    return found, in_class


def _in_order(codes: NDArray[np.int32], known: tuple[str, ...], attribute: Attribute) -> Coded:
    """Codes of values in the column's order, which closeness may look at."""
    texts = tuple(sort_values(known, attribute))
    place = {text: i for i, text in enumerate(texts)}
    # One more place for the code -1 of NULL.
    places = np.array([*(place[text] for text in known), -1], np.int32)
    return Coded(places[codes], texts)


def lost_of(
    told: Sequence[OfBlock], known: TableContext, columns: Sequence[ReleasedColumn]
) -> tuple[Lost, Lost, dict[str, int]]:
    """What all blocks lose together, added in their order, and what the method counted in them.

    The loss is given as readers may see it, and exactly.
    """
    recoding = find_recoding(str(known.policy.recoding))
    measured = [
        one.source for one in columns if recoding.measure != "iloss" or one.losses is not None
    ]
    before, after = (
        _together([getattr(one, name) for one in told]) for name in ("before", "after")
    )
    losses = {
        name: ColumnLoss(name, float(first), float(last))
        for name, first, last in zip(measured, before.columns, after.columns, strict=True)
    }
    everywhere = [set(one.lost) for one in told]
    completely = tuple(
        a.name for a in known.layout.quasi_identifiers if all(a.name in one for one in everywhere)
    )
    counts: Counter[str] = Counter()
    for one in told:
        counts.update(one.told)
    exact = Lost(after.total, before.total, losses, recoding.measure, None, completely)
    blocks = zip(*(one.public for one in told), strict=True)
    sums = [reduce(add, of_column) for of_column in blocks]
    return public_loss(measured, sums, exact), exact, dict(counts)


def _together(parts: Sequence[tuple[tuple[float, float], ...]]) -> Loss:
    columns = zip(*parts, strict=True)
    return loss_of(
        [(sum(a for a, _ in one), sum(b for _, b in one)) for one in map(tuple, columns)]
    )


def report_of(
    planned: Plan,
    known: TableContext,
    names: Sequence[str],
    counted: Counted,
    losses: tuple[Lost, Lost, dict[str, int]],
    seconds: float,
) -> Report:
    """What is said of a release that was counted where it is kept."""
    lost, exact, told = losses
    more: dict[str, Any] = {**findings_of(counted), "engine": "spark"}
    if planned.job.entity_normalize is not None:
        more["entity_normalize"] = planned.job.entity_normalize
    if told:
        more["told"] = told
    return Report(
        planned.request(known.policy, counted.verdict, names, (NAME, NAME, KIND), more),
        counted,
        lost,
        MadeBy(
            release_id=planned.release_id,
            created_at=now(),
            dbanon_version=version(),
            relation=NAME,
            seconds={"total": seconds},
        ),
        internal=Internal(exact),
    )
