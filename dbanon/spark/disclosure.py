"""What a Spark release discloses beyond its guarantee, counted on the executors.

Values are compared by 64-bit hashes. In a table of a billion distinct values, two have the same
hash about once in forty tables, which does not change any figure.
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
from dbanon.data.pieces import PIECE_RECORDS
from dbanon.job.job import Job
from dbanon.job.verdict import Verdict
from dbanon.release.attribute_disclosure import (
    DisclosiveColumn,
    FewPersons,
    Frequencies,
    RetainedIdentifier,
    ValueGroups,
    all_different,
    require_all_counted,
    sample_size,
)
from dbanon.release.homogeneity import ClassHomogeneity
from dbanon.release.linkage import MOST_MEMBERS, frequencies_of
from dbanon.release.report import RecountResult
from dbanon.run.disclosure import find_disclosive_columns, find_few_persons, measure_homogeneity
from dbanon.run.linkage import RetainedColumns, find_linking_columns
from dbanon.run.plan import Plan
from dbanon.sessions.base import Relation
from dbanon.spark.layout import KEY, ROWS, Layout
from dbanon.spark.staging import counted_in
from dbanon.spark.tasks import DiskCache, mapped
from dbanon.spark.workers import BlockFacts

# Keys are sampled by their hashes modulo this.
_MODULUS = 1 << 30


@dataclass(frozen=True)
class SourceFindings:
    """Suspicious columns of a source, with reasons, found before its rows are read.

    Parameters
    ----------
    identifiers : retained columns that look like identifiers.
    person_identifiers : columns that look like person identifiers, if k counts rows.
    """

    identifiers: Mapping[str, str]
    person_identifiers: Mapping[str, str]

    @classmethod
    def of(cls, source: ProfiledSource, relation: Relation, job: Job) -> SourceFindings:
        """Inspect the source's first rows."""
        counts_rows = not job.guarantee.persons and job.guarantee.has_k_anonymous_rows
        return cls(
            source.find_direct_identifiers(relation, job.retained_columns),
            source.find_identifier_columns(relation) if counts_rows else {},
        )


class ProfiledSource(Protocol):
    """A source that can profile its columns; see ``stores.ports.Source``."""

    def find_identifier_columns(self, relation: Relation) -> Mapping[str, str]:
        """Return the columns that look like person identifiers, with reasons."""

    def find_direct_identifiers(
        self, relation: Relation, names: Sequence[str]
    ) -> Mapping[str, str]:
        """Return those columns that look like identifiers, with reasons."""


@dataclass(frozen=True, eq=False)
class SelectColumns:
    """A task that selects columns of the rows in its packets."""

    schema: pa.Schema

    def __call__(self, rows: pa.Table) -> Iterator[pa.Table]:
        yield rows.select(self.schema.names).cast(self.schema)


@dataclass(frozen=True, eq=False)
class ReleasedRows:
    """The rows of a release on Spark before it is published.

    Parameters
    ----------
    packets : of the source rows.
    source_rows : the source rows, lazily, with the types of their columns.
    frame : the released rows under internal column names.
    layout : of both.
    names : of the released columns, which are r0, r1, …
    """

    packets: DataFrame
    source_rows: DataFrame
    frame: DataFrame
    layout: Layout
    names: tuple[str, ...]

    def column(self, name: str) -> str:
        """The internal name of a released or retained column in ``frame``."""
        if name in self.layout.retained:
            return self.layout.kept_columns[self.layout.retained.index(name)]
        return f"r{self.names.index(name)}"

    def hashed(self, disks: DiskCache) -> DataFrame:
        """Replace the source rows' values by hashes and cache the result on disk."""
        layout = self.layout
        columns = [f"q{index}" for index in range(len(layout.quasi_identifiers))]
        columns += [*layout.kept_columns, *layout.entity]
        rows = self.source_rows.select(KEY, *columns)
        unpacked = mapped(
            self.packets,
            SelectColumns(to_arrow_schema(rows.schema)),
            rows.schema,
            PIECE_RECORDS,
            ROWS,
        )
        hashes = [_hash(unpacked, name).alias(name) for name in [KEY, *columns]]
        return disks.keep(unpacked.select(*hashes))

    def count_homogeneous_classes(self, name: str) -> ClassHomogeneity:
        """Count the classes in which all rows share one value of a column."""
        strata = [self.column(source_name) for source_name in self.layout.by]
        classes = [*(f"r{index}" for index in range(len(self.names))), *strata]
        value = _hash(self.frame, self.column(name)).alias("value")
        cells = self.frame.select(*classes, value).groupBy(*classes, "value").count()
        sizes = cells.groupBy(*classes).agg(
            sql.count(sql.lit(1)).alias("cells"), sql.sum("count").alias("size")
        )
        single_groups = sizes.groupBy((sql.col("cells") == 1).alias("single"))
        counts = single_groups.agg(sql.count(sql.lit(1)), sql.sum("size")).collect()
        counts_by_single = {
            bool(single): (int(n_classes), int(rows)) for single, n_classes, rows in counts
        }
        homogeneous, mixed = counts_by_single.get(True, (0, 0)), counts_by_single.get(False, (0, 0))
        return ClassHomogeneity(
            name, *homogeneous, homogeneous[0] + mixed[0], homogeneous[1] + mixed[1]
        )

    def count_classes_below_k(self, job: Job, name: str) -> tuple[int, int]:
        """Count the classes that readers see, and those with fewer than k values of a column.

        Every NULL counts as a distinct value.
        """
        number = self.layout.number_columns[self.layout.numbers.index(name)]
        class_columns = [self.column(column) for column in (*self.names, *job.by)]
        rows = sql.count(sql.lit(1))
        persons = sql.count_distinct(number) + rows - sql.count(number)
        classes = self.frame.groupBy(*class_columns).agg((persons < int(job.policy.k)).alias("few"))
        counts = {row["few"]: int(row["count"]) for row in classes.groupBy("few").count().collect()}
        return sum(counts.values()), counts.get(True, 0)


@dataclass(frozen=True, eq=False)
class SparkCounts:
    """Count value groups of retained columns and quasi-identifiers by the hashes of their values.

    Parameters
    ----------
    rows : the release.
    hashed : see ``ReleasedRows.hashed``.
    k, n_rows : of the release.
    hidden_rows : for each quasi-identifier, the rows whose own value is not released.
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
    def nearly_unique(self) -> Mapping[str, DisclosiveColumn]:
        """Columns of large tables that a sample proves nearly unique, including quasi-identifiers.

        By internal column name.
        """
        sample_rows = sample_size(self.n_rows)
        if not sample_rows:
            return {}
        layout = self.rows.layout
        columns = [*(f"q{index}" for index in range(len(self.names))), *layout.kept_columns]
        limit = max(round(sample_rows / self.n_rows * _MODULUS), 1)
        sample = self.hashed.where(sql.pmod(sql.col(KEY), sql.lit(_MODULUS)) < limit)
        counts = [count(name) for name in columns for count in (sql.count, sql.count_distinct)]
        [(n_sampled, *counted)] = sample.agg(sql.count(sql.lit(1)), *counts).collect()
        findings = {
            column: all_different(column, self.n_rows, n_sampled, values, different)
            for column, values, different in zip(columns, counted[::2], counted[1::2], strict=True)
        }
        return {column: finding for column, finding in findings.items() if finding is not None}

    def telling(self) -> dict[str, DisclosiveColumn]:
        """The sample's findings on retained columns, by name."""
        layout = self.rows.layout
        return {
            name: replace(self.nearly_unique[column], name=name)
            for name, column in zip(layout.retained, layout.kept_columns, strict=True)
            if column in self.nearly_unique
        }

    def frequencies(self, name: str) -> Frequencies:
        """Count the released rows with each value of a quasi-identifier."""
        return frequencies_of(self.group_by_original(name, self.rows.layout.retained), self.n_rows)

    def hidden(self, name: str) -> float:
        """The share of released rows whose own value is not released."""
        return self.hidden_rows[self.names.index(name)] / max(self.n_rows, 1)

    def group_by_value(self, name: str) -> ValueGroups:
        """Group the rows by their value of a retained column."""
        quasi_identifier_columns = [f"q{index}" for index in range(len(self.names))]
        return self._counted(name, self.rows.column(name), quasi_identifier_columns)

    def group_by_original(self, name: str, columns: Sequence[str]) -> ValueGroups:
        """Group the rows by their original value of a quasi-identifier."""
        column, retained = f"q{self.names.index(name)}", self.rows.layout.retained
        if column in self.nearly_unique:
            # A group of one row agrees with everything and proves nothing.
            single_group = np.array([1]), np.array([self.n_rows]), np.array([0])
            return ValueGroups(*single_group, np.full((1, len(columns)), self.n_rows))
        groups = self._counted(name, column, self.rows.layout.kept_columns)
        return replace(
            groups, identical=groups.identical[:, [retained.index(other) for other in columns]]
        )

    def class_sizes(self, columns: Sequence[str]) -> Mapping[int, int]:
        """The number of combinations of released values, by the rows that share them."""
        class_columns = [self.rows.column(name) for name in columns]
        return counted_in(self.rows.frame, class_columns, ()).histogram

    def count_profiles(self, columns: Sequence[str], name: str) -> tuple[int, int]:
        """Count the values that several rows share, and those among them with a unique profile."""
        group, profile = self.rows.column(name), [self.rows.column(other) for other in columns]
        parts = [part for other in profile for part in (sql.col(other).isNull(), sql.col(other))]
        # Sums of two hashes identify the rows of a group regardless of their order.
        sums = [
            sql.sum(sql.xxhash64(sql.lit(seed), *parts).cast("decimal(20,0)")).alias(f"p{seed}")
            for seed in (1, 2)
        ]
        present = self.rows.frame.where(sql.col(group).isNotNull())
        groups = present.groupBy(group).agg(sql.count(sql.lit(1)).alias("size"), *sums)
        shared_groups = groups.where((sql.col("size") > 1) & (sql.col("size") <= MOST_MEMBERS))
        identical_profiles = shared_groups.groupBy("size", "p1", "p2").count()
        unique_count = sql.count_if(sql.col("count") == 1)
        [(n_groups, unique)] = identical_profiles.agg(sql.sum("count"), unique_count).collect()
        return int(n_groups or 0), int(unique)

    def _counted(self, name: str, column: str, others: Sequence[str]) -> ValueGroups:
        if column in self._groups:
            return self._groups[column]
        rows = sql.count(sql.lit(1))
        persons = [sql.count_distinct(person) for person in self.rows.layout.entity]
        few = (persons or [rows])[0] < self.k
        is_single_valued = [
            sql.coalesce(
                (sql.count(column_name) == rows) & (sql.min(column_name) == sql.max(column_name)),
                sql.lit(False),
            )
            | (sql.count(column_name) == 0)
            for column_name in others
        ]
        flags = {"rare": few, **{f"a{index}": flag for index, flag in enumerate(is_single_valued)}}
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
        groups = ValueGroups(cells[:, 1], cells[:, 2], cells[:, 3], cells[:, 4:])
        self._groups[column] = groups
        return groups


def _hash(rows: DataFrame, name: str) -> Column:
    """Hash a value such that equal values have equal hashes; NULL for NULL."""
    kind, value = rows.schema[name].dataType, sql.col(name)
    if isinstance(kind, (types.FloatType, types.DoubleType)):
        # Adding 0.0 makes both signed zeros equal.
        value = value + sql.lit(0.0)
    elif "map<" in kind.simpleString():
        value = value.cast("string")
    elif "variant" in kind.simpleString():
        value = sql.to_json(value)
    return sql.when(sql.col(name).isNotNull(), sql.xxhash64(value))


def findings_on(
    planned: Plan,
    rows: ReleasedRows,
    blocks: Sequence[BlockFacts],
    counts: Counts,
    verdict: Verdict,
    withheld: int,
    earlier: tuple[tuple[RetainedIdentifier, ...], tuple[FewPersons, ...]],
) -> RecountResult:
    """Combine the counts of a release with the findings on its columns; raises as other runs do.

    Parameters
    ----------
    withheld : number of rows that are not released.
    earlier : findings from before rows were read, on identifiers and on spellings of persons.
    """
    job, disks = planned.job, DiskCache()
    identifiers, spellings = earlier
    counted = RecountResult(
        counts.rows.rows + withheld, withheld, counts.rows, verdict, identifiers=identifiers
    )
    try:
        if job.retained_columns:
            hidden = [sum(rows) for rows in zip(*(block.hidden for block in blocks), strict=True)]
            spark_counts = SparkCounts(
                rows, rows.hashed(disks), int(job.policy.k), counts.rows.rows, hidden
            )
            telling = find_disclosive_columns(
                job, spark_counts, spark_counts.group_by_value, spark_counts.telling()
            )
            columns = RetainedColumns(planned, spark_counts, spark_counts, rows.names)
            linking = find_linking_columns(columns, telling)
            counted = replace(counted, disclosive_columns=telling, linking=linking)
    finally:
        disks.release()
    persons = spellings or find_few_persons(
        planned, lambda name: rows.count_classes_below_k(job, name)
    )
    homogeneity = measure_homogeneity(
        planned, rows.names, lambda _, name: rows.count_homogeneous_classes(name)
    )
    return replace(counted, few_persons=persons, homogeneity=homogeneity)
