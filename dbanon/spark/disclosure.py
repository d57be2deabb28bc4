"""What a release on Spark reveals beside its guarantee: counted on the executors, as in databases.

Values are compared by their 64-bit hashes, which travel in place of values. Two of a billion
different values have the same hash about once in forty tables, which changes no figure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, types
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_schema

from dbanon.data.counts import Counts
from dbanon.data.pieces import AT_ONCE
from dbanon.job.job import Job
from dbanon.job.verdict import Verdict
from dbanon.release.attribute_disclosure import (
    FewPersons,
    Frequencies,
    KeptIdentifier,
    TellingColumn,
    ValueGroups,
    all_different,
    require_all_counted,
    sample_size,
)
from dbanon.release.homogeneity import ClassHomogeneity
from dbanon.release.linkage import MEMBERS, frequencies_of
from dbanon.release.report import Counted
from dbanon.run.disclosure import few_persons, homogeneity_of, telling_columns
from dbanon.run.linkage import KeptColumns, linking_columns
from dbanon.run.plan import Plan
from dbanon.sessions.base import Relation
from dbanon.spark.layout import KEY, ROWS, Layout
from dbanon.spark.staging import counted_in
from dbanon.spark.tasks import Disks, mapped
from dbanon.spark.workers import OfBlock

# Of a sample, keys are chosen by their hashes modulo this.
_MODULUS = 1 << 30


@dataclass(frozen=True)
class SourceFindings:
    """What a source shows of its columns before rows are read, with the reasons.

    Parameters
    ----------
    identifiers : kept columns that look like identifiers.
    numbers_of_persons : columns that look like numbers of persons, where k counts rows.
    """

    identifiers: Mapping[str, str]
    numbers_of_persons: Mapping[str, str]

    @classmethod
    def of(cls, source: ProfiledSource, relation: Relation, job: Job) -> SourceFindings:
        """Look at the source's first rows."""
        counts_rows = not job.guarantee.persons and job.guarantee.bounds_rows
        return cls(
            source.identifiers(relation, job.kept),
            source.numbers_of_persons(relation) if counts_rows else {},
        )


class ProfiledSource(Protocol):
    """What shows something of its columns; as ``stores.ports.Source``."""

    def numbers_of_persons(self, relation: Relation) -> Mapping[str, str]:
        """The columns that look like numbers of persons, and why."""

    def identifiers(self, relation: Relation, names: Sequence[str]) -> Mapping[str, str]:
        """Those of these columns that look like identifiers, and why."""


@dataclass(frozen=True, eq=False)
class SelectColumns:
    """The work of a task: some columns of the rows in its packets."""

    schema: pa.Schema

    def __call__(self, rows: pa.Table) -> Iterator[pa.Table]:
        yield rows.select(self.schema.names).cast(self.schema)


@dataclass(frozen=True, eq=False)
class ReleasedRows:
    """The rows of a release as Spark has them, before anybody sees them.

    Parameters
    ----------
    packets : of the rows as they were read.
    laid : these rows, lazily, with the types of their columns.
    frame : the released rows as they stand.
    layout : of both.
    names : of the released columns, which stand as r0, r1, …
    """

    packets: DataFrame
    laid: DataFrame
    frame: DataFrame
    layout: Layout
    names: tuple[str, ...]

    def column(self, name: str) -> str:
        """Where a released column or one that is released as it is stands in ``frame``."""
        if name in self.layout.kept:
            return self.layout.kept_columns[self.layout.kept.index(name)]
        return f"r{self.names.index(name)}"

    def hashed(self, disks: Disks) -> DataFrame:
        """The rows as they were read, hashes in place of values, kept on disks."""
        layout = self.layout
        columns = [f"q{place}" for place in range(len(layout.quasi_identifiers))]
        columns += [*layout.kept_columns, *layout.entity]
        rows = self.laid.select(KEY, *columns)
        unpacked = mapped(
            self.packets, SelectColumns(to_arrow_schema(rows.schema)), rows.schema, AT_ONCE, ROWS
        )
        hashes = [_hash(unpacked, name).alias(name) for name in [KEY, *columns]]
        return disks.keep(unpacked.select(*hashes))

    def homogeneity(self, name: str) -> ClassHomogeneity:
        """The classes in which all rows share one value of a column."""
        strata = [self.column(given) for given in self.layout.by]
        classes = [*(f"r{place}" for place in range(len(self.names))), *strata]
        value = _hash(self.frame, self.column(name)).alias("value")
        cells = self.frame.select(*classes, value).groupBy(*classes, "value").count()
        sizes = cells.groupBy(*classes).agg(
            sql.count(sql.lit(1)).alias("cells"), sql.sum("count").alias("size")
        )
        found = sizes.groupBy((sql.col("cells") == 1).alias("single"))
        counts = found.agg(sql.count(sql.lit(1)), sql.sum("size")).collect()
        of = {bool(single): (int(many), int(rows)) for single, many, rows in counts}
        own, others = of.get(True, (0, 0)), of.get(False, (0, 0))
        return ClassHomogeneity(name, *own, own[0] + others[0], own[1] + others[1])

    def classes_below(self, job: Job, name: str) -> tuple[int, int]:
        """Classes that readers see, and those of them that hold fewer than k values of a column.

        Every NULL counts as a value of its own.
        """
        number = self.layout.number_columns[self.layout.numbers.index(name)]
        shown = [self.column(one) for one in (*self.names, *job.by)]
        rows = sql.count(sql.lit(1))
        persons = sql.count_distinct(number) + rows - sql.count(number)
        classes = self.frame.groupBy(*shown).agg((persons < int(job.policy.k)).alias("few"))
        counts = {row["few"]: int(row["count"]) for row in classes.groupBy("few").count().collect()}
        return sum(counts.values()), counts.get(True, 0)


@dataclass(frozen=True, eq=False)
class SparkCounts:
    """The counts of kept columns and of what they are beside, on hashes of values.

    Parameters
    ----------
    rows : the release.
    hashed : as of ``ReleasedRows.hashed``.
    k, n_rows : of the release.
    hidden_rows : of each quasi-identifier, the rows whose own value the release does not show.
    """

    rows: ReleasedRows
    hashed: DataFrame
    k: int
    n_rows: int
    hidden_rows: Sequence[int]
    _groups: dict[str, ValueGroups] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The quasi-identifiers."""
        return [attribute.name for attribute in self.rows.layout.quasi_identifiers]

    @cached_property
    def proved(self) -> Mapping[str, TellingColumn]:
        """Columns of many rows of which a sample proves that nearly all values differ.

        By where they stand: quasi-identifiers are among them.
        """
        wanted = sample_size(self.n_rows)
        if not wanted:
            return {}
        layout = self.rows.layout
        columns = [*(f"q{at}" for at in range(len(self.names))), *layout.kept_columns]
        limit = max(round(wanted / self.n_rows * _MODULUS), 1)
        sample = self.hashed.where(sql.pmod(sql.col(KEY), sql.lit(_MODULUS)) < limit)
        counts = [count(name) for name in columns for count in (sql.count, sql.count_distinct)]
        [(drawn, *counted)] = sample.agg(sql.count(sql.lit(1)), *counts).collect()
        findings = {
            column: all_different(column, self.n_rows, drawn, values, different)
            for column, values, different in zip(columns, counted[::2], counted[1::2], strict=True)
        }
        return {column: finding for column, finding in findings.items() if finding is not None}

    def telling(self) -> dict[str, TellingColumn]:
        """The findings on kept columns that a sample proves, by name."""
        layout = self.rows.layout
        return {
            name: replace(self.proved[column], name=name)
            for name, column in zip(layout.kept, layout.kept_columns, strict=True)
            if column in self.proved
        }

    def frequencies(self, name: str) -> Frequencies:
        """How many released rows had each value of a quasi-identifier."""
        return frequencies_of(self.originals(name, self.rows.layout.kept), self.n_rows)

    def hidden(self, name: str) -> float:
        """The share of released rows whose own value the release does not show."""
        return self.hidden_rows[self.names.index(name)] / max(self.n_rows, 1)

    def groups(self, name: str) -> ValueGroups:
        """The rows by their value of a kept column."""
        held = [f"q{at}" for at in range(len(self.names))]
        return self._counted(name, self.rows.column(name), held)

    def originals(self, name: str, columns: Sequence[str]) -> ValueGroups:
        """The rows by their original value of a quasi-identifier."""
        column, kept = f"q{self.names.index(name)}", self.rows.layout.kept
        if column in self.proved:
            # A group of one row agrees with everything, so that nothing follows from it.
            one = np.array([1]), np.array([self.n_rows]), np.array([0])
            return ValueGroups(*one, np.full((1, len(columns)), self.n_rows))
        groups = self._counted(name, column, self.rows.layout.kept_columns)
        return replace(groups, alike=groups.alike[:, [kept.index(one) for one in columns]])

    def class_sizes(self, columns: Sequence[str]) -> Mapping[int, int]:
        """How many combinations of released values there are, by the rows that share them."""
        held = [self.rows.column(name) for name in columns]
        return counted_in(self.rows.frame, held, ()).histogram

    def profiles(self, columns: Sequence[str], name: str) -> tuple[int, int]:
        """The groups of several rows with one value, and those that are alone with their rows."""
        group, held = self.rows.column(name), [self.rows.column(one) for one in columns]
        parts = [part for one in held for part in (sql.col(one).isNull(), sql.col(one))]
        # Sums of two hashes tell the rows of a group from others, in any order.
        sums = [
            sql.sum(sql.xxhash64(sql.lit(seed), *parts).cast("decimal(20,0)")).alias(f"p{seed}")
            for seed in (1, 2)
        ]
        present = self.rows.frame.where(sql.col(group).isNotNull())
        groups = present.groupBy(group).agg(sql.count(sql.lit(1)).alias("size"), *sums)
        several = groups.where((sql.col("size") > 1) & (sql.col("size") <= MEMBERS))
        alike = several.groupBy("size", "p1", "p2").count()
        alone = sql.count_if(sql.col("count") == 1)
        [(number, unique)] = alike.agg(sql.sum("count"), alone).collect()
        return int(number or 0), int(unique)

    def _counted(self, name: str, column: str, others: Sequence[str]) -> ValueGroups:
        if column in self._groups:
            return self._groups[column]
        rows = sql.count(sql.lit(1))
        persons = [sql.count_distinct(person) for person in self.rows.layout.entity]
        few = (persons or [rows])[0] < self.k
        alike = [
            sql.coalesce((sql.count(one) == rows) & (sql.min(one) == sql.max(one)), sql.lit(False))
            | (sql.count(one) == 0)
            for one in others
        ]
        flags = {"rare": few, **{f"a{at}": flag for at, flag in enumerate(alike)}}
        values = self.hashed.groupBy(column).agg(
            rows.alias("size"), *(flag.alias(alias) for alias, flag in flags.items())
        )
        sizes = values.groupBy(sql.col(column).isNull().alias("null"), "size").agg(
            sql.count(sql.lit(1)), *(sql.count_if(sql.col(flag)) for flag in flags)
        )
        cells = np.array([list(row) for row in sizes.collect()], np.int64)
        cells = cells.reshape(-1, 3 + len(flags))
        require_all_counted(name, int(cells[:, 1] @ cells[:, 2]), self.n_rows)
        cells = cells[cells[:, 0] == 0]
        found = ValueGroups(cells[:, 1], cells[:, 2], cells[:, 3], cells[:, 4:])
        self._groups[column] = found
        return found


def _hash(rows: DataFrame, name: str) -> Column:
    """A hash of a value, which is the same for equal values; NULL of NULL."""
    kind, value = rows.schema[name].dataType, sql.col(name)
    if isinstance(kind, (types.FloatType, types.DoubleType)):
        # Zeros are equal whatever their sign.
        value = value + sql.lit(0.0)
    elif "map<" in kind.simpleString():
        value = value.cast("string")
    elif "variant" in kind.simpleString():
        value = sql.to_json(value)
    return sql.when(sql.col(name).isNotNull(), sql.xxhash64(value))


def findings_on(
    planned: Plan,
    rows: ReleasedRows,
    blocks: Sequence[OfBlock],
    counts: Counts,
    verdict: Verdict,
    withheld: int,
    earlier: tuple[tuple[KeptIdentifier, ...], tuple[FewPersons, ...]],
) -> Counted:
    """What was counted of a release, with the findings on its columns; raises as other runs do.

    Parameters
    ----------
    withheld : rows that the release leaves out.
    earlier : the findings from before rows were read, on identifiers and on spellings of persons.
    """
    job, disks = planned.job, Disks()
    identifiers, spellings = earlier
    counted = Counted(
        counts.rows.rows + withheld, withheld, counts.rows, verdict, identifiers=identifiers
    )
    try:
        if job.kept:
            hidden = [sum(rows) for rows in zip(*(one.hidden for one in blocks), strict=True)]
            spark_counts = SparkCounts(
                rows, rows.hashed(disks), int(job.policy.k), counts.rows.rows, hidden
            )
            telling = telling_columns(
                job, spark_counts, spark_counts.groups, spark_counts.telling()
            )
            columns = KeptColumns(planned, spark_counts, spark_counts, rows.names)
            linking = linking_columns(columns, telling)
            counted = replace(counted, telling=telling, linking=linking)
    finally:
        disks.done()
    persons = spellings or few_persons(planned, lambda name: rows.classes_below(job, name))
    homogeneity = homogeneity_of(planned, rows.names, lambda _, name: rows.homogeneity(name))
    return replace(counted, few_persons=persons, homogeneity=homogeneity)
