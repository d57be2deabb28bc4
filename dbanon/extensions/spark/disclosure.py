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
from dbanon.extensions.spark.layout import KEY, ROWS, Layout
from dbanon.extensions.spark.staging import count_combinations
from dbanon.extensions.spark.tasks import DiskCache, apply_to_pieces
from dbanon.extensions.spark.workers import BlockFacts
from dbanon.job.job import Job
from dbanon.job.verdict import Verdict
from dbanon.release.attribute_disclosure import (
    DisclosiveColumn,
    FewPersons,
    Frequencies,
    RetainedIdentifier,
    ValueGroups,
    proof_sample_size,
    prove_nearly_unique,
    require_all_counted,
)
from dbanon.release.homogeneity import ClassHomogeneity
from dbanon.release.linkage import MAX_GROUP_SIZE, frequencies_of
from dbanon.release.report import RecountResult
from dbanon.run.disclosure import find_disclosive_columns, find_few_persons, measure_homogeneity
from dbanon.run.linkage import RetainedColumns, find_linking_columns
from dbanon.run.plan import Plan
from dbanon.sessions.base import Relation

# A key is in a sample if its hash modulo this number is below a limit.
_HASH_MODULUS = 1 << 30


@dataclass(frozen=True)
class SourceFindings:
    """Suspicious columns of a source, with reasons, found before all of its rows are read.

    Parameters
    ----------
    identifiers : retained columns that look like identifiers.
    person_identifiers : columns that look like person identifiers; empty if k counts persons.
    """

    identifiers: Mapping[str, str]
    person_identifiers: Mapping[str, str]

    @classmethod
    def of(cls, source: ProfiledSource, relation: Relation, job: Job) -> SourceFindings:
        """Inspect the source's first rows."""
        # If k counts persons, the job has named the person column.
        counts_rows = not job.guarantee.entity_columns and job.guarantee.has_k_anonymous_rows
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
        """Return which of these columns look like identifiers, with reasons."""


@dataclass(frozen=True, eq=False)
class SelectColumns:
    """Worker function that selects the columns of ``schema``."""

    schema: pa.Schema

    def __call__(self, rows: pa.Table) -> Iterator[pa.Table]:
        yield rows.select(self.schema.names).cast(self.schema)


@dataclass(frozen=True, eq=False)
class ReleasedRows:
    """The rows of a release on Spark before it is published.

    Parameters
    ----------
    packets : the source rows, packed in binary values (see ``layout``); None if ``source_rows`` can
        be read again at less cost.
    source_rows : the source rows under internal column names. With ``packets``, only its schema is
        used, because evaluating it would read the source again.
    frame : the released rows under internal column names.
    layout : the columns of ``source_rows`` and ``frame``, by role.
    names : the names of the released columns, whose internal names are r0, r1, …
    """

    packets: DataFrame | None
    source_rows: DataFrame
    frame: DataFrame
    layout: Layout
    names: tuple[str, ...]

    def internal_name(self, name: str) -> str:
        """Return the internal name of a released or retained column in ``frame``."""
        if name in self.layout.retained_columns:
            return self.layout.internal_retained[self.layout.retained_columns.index(name)]
        return f"r{self.names.index(name)}"

    def hash_source_rows(self, disk_cache: DiskCache) -> DataFrame:
        """Return the source rows with hashes for values; cached on disk if they were packed."""
        layout = self.layout
        columns = [f"q{index}" for index in range(len(layout.quasi_identifiers))]
        columns += [*layout.internal_retained, *layout.internal_entity]
        rows = self.source_rows.select(KEY, *columns)
        if self.packets is None:
            # Java reads the few columns of a count from files at a fraction of what it costs to get
            # all of them from Python and to cache them.
            return rows.select(*(_hash_values(rows, name).alias(name) for name in rows.columns))
        # Unpack the column ROWS of the packets, at least PIECE_RECORDS rows at a time.
        unpacked = apply_to_pieces(
            self.packets,
            SelectColumns(to_arrow_schema(rows.schema)),
            rows.schema,
            PIECE_RECORDS,
            ROWS,
        )
        hashes = [_hash_values(unpacked, name).alias(name) for name in [KEY, *columns]]
        return disk_cache.keep(unpacked.select(*hashes))

    def count_homogeneous(self, name: str) -> ClassHomogeneity:
        """Count the classes in which all rows have the same value of a column, and their rows."""
        strata = [self.internal_name(source_name) for source_name in self.layout.strata_columns]
        classes = [*(f"r{index}" for index in range(len(self.names))), *strata]
        value = _hash_values(self.frame, self.internal_name(name)).alias("value")
        class_values = self.frame.select(*classes, value).groupBy(*classes, "value").count()
        sizes = class_values.groupBy(*classes).agg(
            sql.count(sql.lit(1)).alias("n_values"), sql.sum("count").alias("size")
        )
        by_homogeneity = sizes.groupBy((sql.col("n_values") == 1).alias("is_homogeneous"))
        rows = by_homogeneity.agg(sql.count(sql.lit(1)), sql.sum("size")).collect()
        counts = {
            bool(is_homogeneous): (int(n_classes), int(n_rows))
            for is_homogeneous, n_classes, n_rows in rows
        }
        homogeneous_classes, homogeneous_rows = counts.get(True, (0, 0))
        mixed_classes, mixed_rows = counts.get(False, (0, 0))
        return ClassHomogeneity(
            name,
            homogeneous_classes,
            homogeneous_rows,
            homogeneous_classes + mixed_classes,
            homogeneous_rows + mixed_rows,
        )

    def count_classes_below_k(self, job: Job, name: str) -> tuple[int, int]:
        """Count the classes that readers see, and those with fewer than k persons of a column.

        Every NULL counts as a distinct value.
        """
        person = self.layout.internal_person_identifiers[self.layout.person_identifiers.index(name)]
        class_columns = [self.internal_name(column) for column in (*self.names, *job.by)]
        n_rows = sql.count(sql.lit(1))
        n_persons = sql.count_distinct(person) + n_rows - sql.count(person)
        is_below_k = (n_persons < int(job.policy.k)).alias("is_below_k")
        classes = self.frame.groupBy(*class_columns).agg(is_below_k)
        rows = classes.groupBy("is_below_k").count().collect()
        counts = {row["is_below_k"]: int(row["count"]) for row in rows}
        return sum(counts.values()), counts.get(True, 0)


@dataclass(frozen=True, eq=False)
class SparkCounts:
    """Counts groups of rows with the same value in a column, by the hashes of the values.

    It has the methods that ``find_disclosive_columns`` and ``RetainedColumns`` call.

    Parameters
    ----------
    release : the rows of the release.
    hashed_rows : see ``ReleasedRows.hash_source_rows``.
    k, n_rows : the release's k and its number of rows.
    hidden_rows : for each quasi-identifier, number of rows whose original value the release hides,
        for example because its label also stands for other values.
    """

    release: ReleasedRows
    hashed_rows: DataFrame
    k: int
    n_rows: int
    hidden_rows: Sequence[int]
    # The results of ``_count_groups``, by internal column name.
    _groups: dict[str, ValueGroups] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The names of the quasi-identifiers."""
        return [attribute.name for attribute in self.release.layout.quasi_identifiers]

    @cached_property
    def nearly_unique(self) -> Mapping[str, DisclosiveColumn]:
        """Columns that a sample of a large table shows to be nearly unique, by internal name.

        Includes quasi-identifiers; empty for small tables.
        """
        # 0 for a table so small that all values are counted, which needs no proof by a sample.
        sample_rows = proof_sample_size(self.n_rows)
        if not sample_rows:
            return {}
        layout = self.release.layout
        columns = [*(f"q{index}" for index in range(len(self.names))), *layout.internal_retained]
        hash_limit = max(round(sample_rows / self.n_rows * _HASH_MODULUS), 1)
        sample = self.hashed_rows.where(sql.pmod(sql.col(KEY), sql.lit(_HASH_MODULUS)) < hash_limit)
        # Spark orders the distinct counts of an aggregate in a new way each time, and Java would
        # compile each order. So all columns become one, next to the index of the column.
        values = sample.select(sql.posexplode(sql.array(*columns)).alias("column", "value"))
        counts = values.groupBy("column").agg(
            sql.count(sql.lit(1)), sql.count("value"), sql.count_distinct("value")
        )
        # A finding is None if the sample proves nothing, as when two of its rows share a value.
        findings = {
            columns[index]: prove_nearly_unique(columns[index], self.n_rows, *sample_counts)
            for index, *sample_counts in counts.collect()
        }
        return {column: finding for column, finding in findings.items() if finding is not None}

    def nearly_unique_retained(self) -> dict[str, DisclosiveColumn]:
        """Return the retained columns that the sample shows to be nearly unique, by name."""
        layout = self.release.layout
        return {
            name: replace(self.nearly_unique[column], name=name)
            for name, column in zip(layout.retained_columns, layout.internal_retained, strict=True)
            if column in self.nearly_unique
        }

    def frequencies(self, name: str) -> Frequencies:
        """Count the released rows with each value of a quasi-identifier."""
        return frequencies_of(
            self.group_by_original(name, self.release.layout.retained_columns), self.n_rows
        )

    def hidden_share(self, name: str) -> float:
        """Return the share of released rows whose original value is not released."""
        return self.hidden_rows[self.names.index(name)] / max(self.n_rows, 1)

    def group_by_value(self, name: str) -> ValueGroups:
        """Group the rows by their value of a retained column."""
        quasi_identifier_columns = [f"q{index}" for index in range(len(self.names))]
        return self._count_groups(name, self.release.internal_name(name), quasi_identifier_columns)

    def group_by_original(self, name: str, columns: Sequence[str]) -> ValueGroups:
        """Group the rows by their original value of a quasi-identifier.

        ``identical`` of the result counts the groups with a single value in each of ``columns``.
        """
        column, retained = f"q{self.names.index(name)}", self.release.layout.retained_columns
        if column in self.nearly_unique:
            # Take every row for a group of its own. Such a group has a single value in each column,
            # so it counts as identical in all of them. Groups below k are reported for retained
            # columns only, so ``rare`` is not counted here.
            return ValueGroups(
                sizes=np.array([1]),
                counts=np.array([self.n_rows]),
                rare=np.array([0]),
                identical=np.full((1, len(columns)), self.n_rows),
            )
        groups = self._count_groups(name, column, self.release.layout.internal_retained)
        return replace(
            groups, identical=groups.identical[:, [retained.index(other) for other in columns]]
        )

    def class_sizes(self, columns: Sequence[str]) -> Mapping[int, int]:
        """Count the combinations of released values, by the number of rows that share them."""
        class_columns = [self.release.internal_name(name) for name in columns]
        return count_combinations(self.release.frame, class_columns).histogram

    def count_profiles(self, columns: Sequence[str], name: str) -> tuple[int, int]:
        """Count a column's values that several rows share, and those whose rows are recognizable.

        The profile of a value is the multiset of its rows' values in ``columns``. The rows of a
        value are recognizable if no other value has the same profile.
        """
        group = self.release.internal_name(name)
        profile = [self.release.internal_name(other) for other in columns]
        hash_inputs = [
            value for other in profile for value in (sql.col(other).isNull(), sql.col(other))
        ]
        # Sums of two hashes identify the rows of a group regardless of their order.
        sums = [
            sql.sum(sql.xxhash64(sql.lit(seed), *hash_inputs).cast("decimal(20,0)")).alias(
                f"p{seed}"
            )
            for seed in (1, 2)
        ]
        grouped_rows = self.release.frame.where(sql.col(group).isNotNull())
        groups = grouped_rows.groupBy(group).agg(sql.count(sql.lit(1)).alias("size"), *sums)
        # Larger groups are no group identifiers, such as those of families.
        shared_groups = groups.where((sql.col("size") > 1) & (sql.col("size") <= MAX_GROUP_SIZE))
        identical_profiles = shared_groups.groupBy("size", "p1", "p2").count()
        unique_count = sql.count_if(sql.col("count") == 1)
        [(n_groups, unique)] = identical_profiles.agg(sql.sum("count"), unique_count).collect()
        return int(n_groups or 0), int(unique)

    def _count_groups(self, name: str, column: str, other_columns: Sequence[str]) -> ValueGroups:
        """Count the groups of rows with the same value of a column, by their size.

        Parameters
        ----------
        name, column : the column's name, for errors, and its internal name.
        other_columns : internal names of columns in which groups may have a single value.
        """
        if column in self._groups:
            return self._groups[column]
        n_rows = sql.count(sql.lit(1))
        n_persons = [sql.count_distinct(person) for person in self.release.layout.internal_entity]
        # If there is a person column, k counts persons.
        is_rare = (n_persons or [n_rows])[0] < self.k
        is_single_valued = [
            sql.coalesce(
                (sql.count(column_name) == n_rows) & (sql.min(column_name) == sql.max(column_name)),
                sql.lit(False),
            )
            | (sql.count(column_name) == 0)
            for column_name in other_columns
        ]
        flags = {
            "rare": is_rare,
            **{f"a{index}": flag for index, flag in enumerate(is_single_valued)},
        }
        values = self.hashed_rows.groupBy(column).agg(
            n_rows.alias("size"), *(flag.alias(alias) for alias, flag in flags.items())
        )
        sizes = values.groupBy(sql.col(column).isNull().alias("null"), "size").agg(
            sql.count(sql.lit(1)), *(sql.count_if(sql.col(flag)) for flag in flags)
        )
        # Columns of the table: whether the value is NULL, the group size, how many groups have it,
        # how many of them are rare, and for each other column, how many have a single value in it.
        table = np.array([list(row) for row in sizes.collect()], np.int64)
        table = table.reshape(-1, 3 + len(flags))
        is_null, group_sizes, n_groups, n_rare = table[:, :4].T
        require_all_counted(name, int(group_sizes @ n_groups), self.n_rows)
        has_value = is_null == 0
        groups = ValueGroups(
            group_sizes[has_value], n_groups[has_value], n_rare[has_value], table[has_value, 4:]
        )
        self._groups[column] = groups
        return groups


def _hash_values(rows: DataFrame, name: str) -> Column:
    """Hash a value such that equal values have equal hashes; NULL for NULL."""
    data_type, value = rows.schema[name].dataType, sql.col(name)
    if isinstance(data_type, (types.FloatType, types.DoubleType)):
        # Adding 0.0 makes both signed zeros equal.
        value = value + sql.lit(0.0)
    elif "map<" in data_type.simpleString():
        value = value.cast("string")
    elif "variant" in data_type.simpleString():
        value = sql.to_json(value)
    return sql.when(sql.col(name).isNotNull(), sql.xxhash64(value))


def combine_findings(
    run_plan: Plan,
    rows: ReleasedRows,
    block_facts: Sequence[BlockFacts],
    counts: Counts,
    verdict: Verdict,
    n_withheld: int,
    identifiers: tuple[RetainedIdentifier, ...],
    spellings: tuple[FewPersons, ...],
) -> RecountResult:
    """Combine the counts of a release with the findings on its columns.

    Parameters
    ----------
    rows, block_facts : the released rows, and what workers report about their blocks.
    counts, verdict : the classes as Spark counted them, and whether they keep the guarantee.
    n_withheld : number of source rows that are not released.
    identifiers : retained columns of the source that look like identifiers.
    spellings : findings of person identifiers that differ only in white space or case.

    Raises
    ------
    DbanonError : there is a finding, and the policy is strict.
    """
    job, disk_cache = run_plan.job, DiskCache()
    released = counts.rows
    recount = RecountResult(
        released.rows + n_withheld, n_withheld, released, verdict, identifiers=identifiers
    )
    try:
        if job.retained_columns:
            # The sums over all blocks, for each quasi-identifier.
            hidden_rows = [
                sum(block_counts)
                for block_counts in zip(*(block.hidden_rows for block in block_facts), strict=True)
            ]
            spark_counts = SparkCounts(
                rows,
                rows.hash_source_rows(disk_cache),
                k=int(job.policy.k),
                n_rows=released.rows,
                hidden_rows=hidden_rows,
            )
            disclosive_columns = find_disclosive_columns(
                job,
                spark_counts,
                spark_counts.group_by_value,
                spark_counts.nearly_unique_retained(),
            )
            # ``SparkCounts`` counts both original and retained values.
            columns = RetainedColumns(
                run_plan, originals=spark_counts, counts=spark_counts, released_names=rows.names
            )
            # Retained columns that, with the released values, single out rows or groups of rows.
            linking = find_linking_columns(columns, disclosive_columns)
            recount = replace(recount, disclosive_columns=disclosive_columns, linking=linking)
    finally:
        disk_cache.release()
    # Spellings are found only if k counts persons, columns with few persons only if it counts rows.
    few_persons = spellings or find_few_persons(
        run_plan, lambda name: rows.count_classes_below_k(job, name)
    )
    # ``ReleasedRows`` knows the columns of its classes, so the argument for them is ignored.
    homogeneity = measure_homogeneity(
        run_plan, rows.names, lambda _, name: rows.count_homogeneous(name)
    )
    return replace(recount, few_persons=few_persons, homogeneity=homogeneity)
