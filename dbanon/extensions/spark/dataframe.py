"""A Spark DataFrame as a source, and its rows under internal column names.

The stages (module ``stages``) cluster and release the rows, which they know only by internal names
such as ``q0`` for the first quasi-identifier (``layout``). Between stages rows travel in packets:
many rows in one binary value. Facts are sums, counts and keys of all rows (``facts``), which the
workers gather while they read the source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, types
from pyspark.sql import functions as sql

from dbanon.data.chunks import duplicate_keys_error
from dbanon.data.pieces import PIECE_RECORDS
from dbanon.data.schema import CASEFOLD, Attribute, Kind, Schema
from dbanon.data.types import JsonMapping
from dbanon.errors import (
    ColumnNotFound,
    InvalidParameter,
    KeyRequired,
    UnsupportedType,
    nearest_names,
)
from dbanon.extensions.spark.facts import MAX_DISTINCT_VALUES, Facts, require_few_values
from dbanon.extensions.spark.layout import KEY, ROWS, Layout
from dbanon.extensions.spark.profile import find_identifier_columns, find_retained_identifiers
from dbanon.extensions.spark.refusals import check_names
from dbanon.extensions.spark.session import JavaObject
from dbanon.extensions.spark.tasks import DiskCache, apply_to_pieces
from dbanon.hierarchy.edges import Pulse
from dbanon.hierarchy.leaves import sort_values
from dbanon.hierarchy.spec import HierarchySpec, build
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.job import Job
from dbanon.recoding.columns import ReleasedColumn
from dbanon.run.plan import Plan
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName

# How reports name a DataFrame and its kind, as a source and as a release.
FRAME_NAME, FRAME_KIND = "DataFrame", "spark"

# An ``Attribute`` knows 16 to 64 bits, so a byte becomes the next wider integer.
_INTEGER_BITS: dict[type, int] = {
    types.ByteType: 16,
    types.ShortType: 16,
    types.IntegerType: 32,
    types.LongType: 64,
}
_KIND_OF_TYPE = {
    types.DoubleType: Kind.FLOAT,
    types.DateType: Kind.DATE,
    types.BooleanType: Kind.BOOLEAN,
    types.StringType: Kind.CATEGORY,
}
# The bits of ``monotonically_increasing_id`` that number the rows of a partition.
_ROW_MASK = (1 << 33) - 1


def quoted_column(name: str) -> Column:
    """Return a column by its exact name, with quoted special characters."""
    return sql.col("`" + name.replace("`", "``") + "`")


def attribute_of(field: types.StructField) -> Attribute:
    """Describe a DataFrame's column; it has ``Kind.OTHER`` if its type cannot be released."""
    data_type, attribute = field.dataType, Attribute(field.name, Kind.OTHER)
    attribute = replace(attribute, sql_type=data_type.simpleString(), nullable=field.nullable)
    if type(data_type) in _INTEGER_BITS:
        return replace(attribute, kind=Kind.INTEGER, bits=_INTEGER_BITS[type(data_type)])
    if isinstance(data_type, types.FloatType):
        return replace(attribute, kind=Kind.FLOAT, bits=32)
    if isinstance(data_type, types.DecimalType):
        attribute = replace(attribute, precision=data_type.precision, scale=data_type.scale)
        return replace(attribute, kind=Kind.DECIMAL)
    if isinstance(data_type, (types.TimestampType, types.TimestampNTZType)):
        has_time_zone = isinstance(data_type, types.TimestampType)
        return replace(attribute, kind=Kind.TIMESTAMP, scale=6, has_time_zone=has_time_zone)
    for spark_type, kind in _KIND_OF_TYPE.items():
        if isinstance(data_type, spark_type):
            return replace(attribute, kind=kind)
    return attribute


@dataclass(frozen=True, eq=False)
class DataFrameSource:
    """A DataFrame as a source; its methods are those of ``stores.ports.Source``."""

    frame: DataFrame

    def describe(self, job: Job) -> Relation:
        """Describe the DataFrame as a relation.

        Raises
        ------
        ColumnNotFound, InvalidParameter : a name matches no column or several, or differs in case.
        UnsupportedType : a column to read has a type that cannot be released.
        """
        names = list(self.frame.columns)
        for name in dict.fromkeys(job.columns_to_read):
            if name not in names:
                raise ColumnNotFound(
                    f'The DataFrame has no column "{name}".', hint=nearest_names(name, names)
                )
            if names.count(name) > 1:
                raise InvalidParameter(f'The DataFrame has two columns named "{name}".')
        check_names(
            [*job.columns_to_read, *job.key], names, is_case_sensitive(self.frame.sparkSession)
        )
        attributes = tuple(attribute_of(field) for field in self.frame.schema.fields)
        # Rows with NULL in these columns are withheld. Other policies release or refuse NULL.
        required = job.quasi_identifiers if job.policy.nulls == "suppress" else ()
        return Relation(
            RelationName(None, FRAME_NAME),
            Schema(attributes),
            FRAME_KIND,
            non_null_columns=required,
        )

    def with_row_locator(self, relation: Relation, job: Job, names: Sequence[str]) -> Relation:
        """Check the types of quasi-identifiers, and return the relation as it is.

        Other sources add a row locator: SQL that finds a row again. Spark keeps the rows instead.

        Raises
        ------
        UnsupportedType : a quasi-identifier has a type that cannot be released.
        """
        for name in job.quasi_identifiers:
            attribute = relation.attribute(name)
            if attribute.kind is Kind.OTHER:
                raise UnsupportedType(
                    f'Column "{name}" is of type {attribute.sql_type}.',
                    hint="Cast it to text or to a number in a view.",
                )
        return relation

    def describe_state(self, relation: Relation) -> JsonMapping:
        """Return an empty state, since no ledger records a DataFrame."""
        return {}

    def pin(self, relation: Relation, names: Sequence[str]) -> Relation:
        """Return the relation as it is; ``lay_out_rows`` caches the rows if they could change."""
        return relation

    def complete_attributes_from_values(
        self, relation: Relation, attributes: Sequence[Attribute]
    ) -> tuple[Attribute, ...]:
        """Return the attributes; the declared types are sufficient."""
        return tuple(attributes)

    def load_hierarchy(self, column: str, spec: HierarchySpec, pulse: Pulse) -> Hierarchy:
        """Refuse a hierarchy that is stored in a database; raises InvalidParameter."""
        return build(spec, (), column, pulse)

    def count_zip_populations(self, table: str) -> dict[str, float]:
        """Raise an error: a cluster checks no profile, and refuses the option before."""
        raise InvalidParameter("Profiles are not checked on a cluster.")

    def find_identifier_columns(self, relation: Relation) -> dict[str, str]:
        """Find columns that look like person identifiers, with reasons, in the first rows."""
        return find_identifier_columns(self.frame, relation.schema.attributes)

    def find_direct_identifiers(self, relation: Relation, names: Sequence[str]) -> dict[str, str]:
        """Return which of these columns look like identifiers in the first rows, with reasons."""
        return find_retained_identifiers(self.frame, [relation.attribute(name) for name in names])

    def count_spellings(self, relation: Relation, person: Attribute) -> dict[str, int]:
        """Count the distinct person identifiers under each normalization, by its name."""
        # Ways to compare texts: as they are (""), as the job says, and as loosely as possible.
        normalizations = list(dict.fromkeys(("", person.normalize, CASEFOLD)))
        texts = (
            _normalized_person(self.frame, person.name, normalization or None)
            for normalization in normalizations
        )
        [counts] = self.frame.agg(*map(sql.count_distinct, texts)).collect()
        return dict(zip(normalizations, map(int, counts), strict=True))

    def require_leaves(self, attribute: Attribute) -> None:
        """Accept every sensitive column: equal values always become the same text on Spark.

        Elsewhere, this refuses types whose texts differ between databases, because hierarchies find
        their leaves by text.
        """

    def list_distinct_values(self, relation: Relation, attribute: Attribute) -> list[str]:
        """Return a column's distinct non-NULL values as text, in the column's order.

        Raises
        ------
        MemoryLimit : there are too many.
        """
        texts = self.frame.select(quoted_column(attribute.name).cast("string").alias("text"))
        rows = (
            texts.where(sql.col("text").isNotNull())
            .distinct()
            .limit(MAX_DISTINCT_VALUES + 1)
            .collect()
        )
        require_few_values(attribute.name, len(rows))
        return sort_values([text for (text,) in rows], attribute)


@dataclass(frozen=True, eq=False)
class SourceRows:
    """The source rows that may be released, each with an integer key that gives their order.

    Parameters
    ----------
    rows : the rows, with the internal columns of ``Layout``.
    n_withheld : number of source rows that are left out, with NULL in a required column.
    is_countable : whether counting ``rows`` is cheap, because they are cached or in Parquet files.
    is_rereadable : whether reading ``rows`` again is cheap, too, and a change would be noticed:
        they are cached, or the source checks that its files have not changed.
    disk_cache : the caches that ``rows`` reads.
    """

    rows: DataFrame
    n_withheld: int
    is_countable: bool
    is_rereadable: bool
    disk_cache: DiskCache


def lay_out_rows(
    frame: DataFrame, job: Job, layout: Layout, relation: Relation, *, is_rereadable: bool
) -> SourceRows:
    """Select the rows to release, under the internal column names that the stages use.

    If the key is one integer column, ``require_unique_keys`` checks it later.

    Parameters
    ----------
    is_rereadable : see ``PinnedSource``.

    Raises
    ------
    KeyRequired : a row has no key.
    DuplicateKeys : two rows have the same key.
    """
    names = [*job.named_columns, *job.guarantee.entity_columns, *job.key]
    rows = frame.select(
        *(quoted_column(name) for name in dict.fromkeys([*names, *layout.person_identifiers]))
    )
    has_integer_key, is_repeatable = _is_integer_key(relation, job.key), _is_repeatable(frame)
    disk_cache = DiskCache()
    if relation.non_null_columns and not is_repeatable:
        # The withheld and the other rows must come from the same evaluation of the frame.
        rows = disk_cache.keep(rows)
    n_withheld = 0
    if relation.non_null_columns:
        complete = rows
        for name in relation.non_null_columns:
            complete = complete.where(quoted_column(name).isNotNull())
        n_withheld, rows = rows.count() - complete.count(), complete
    if not has_integer_key:
        _check_keys(rows, job.key)
    if has_integer_key:
        row_number = quoted_column(job.key[0]).cast("long")
    else:
        order = [quoted_column(name) for name in job.key or dict.fromkeys(names)]
        rows = disk_cache.keep(rows.orderBy(*order))
        row_number = _number_rows(rows)
    columns = [row_number.alias(KEY)]
    for i, attribute in enumerate(layout.quasi_identifiers):
        # Values that are coded by a dictionary are read as text, others as numbers or dates.
        source_column = quoted_column(attribute.name)
        columns.append(
            (source_column.cast("string") if attribute.kind.is_coded else source_column).alias(
                f"q{i}"
            )
        )
    text_columns = [
        *zip(layout.internal_strata, layout.strata_columns, strict=True),
        *zip(layout.internal_entity, job.guarantee.entity_columns, strict=True),
        *((f"s{i}", attribute.name) for i, attribute in enumerate(layout.sensitive)),
    ]
    person_texts = {
        name: _normalized_person(rows, name, job.entity_normalize)
        for name in job.guarantee.entity_columns
    }
    columns += [
        person_texts.get(name, quoted_column(name).cast("string")).alias(internal_name)
        for internal_name, name in text_columns
    ]
    # If k counts rows, ``person_identifiers`` are columns that look like identifiers of persons;
    # their counts only lead to warnings. If k counts persons, the job has named their column, and
    # ``internal_entity`` is its name here.
    columns += [
        quoted_column(name).alias(internal_name)
        for internal_name, name in (
            *zip(layout.internal_retained, layout.retained_columns, strict=True),
            *zip(layout.internal_person_identifiers, layout.person_identifiers, strict=True),
        )
    ]
    source_rows = rows.select(*columns)
    if layout.has_persons:
        # The stages process all records of a person together.
        source_rows = source_rows.repartition(*layout.internal_entity)
    # Without an integer key the sorted rows are cached. Repartitioning by person is not cheap.
    is_countable = (is_repeatable or not has_integer_key) and not layout.has_persons
    is_rereadable = is_countable and (is_rereadable or not has_integer_key)
    return SourceRows(source_rows, n_withheld, is_countable, is_rereadable, disk_cache)


def _normalized_person(rows: DataFrame, name: str, normalize: str | None) -> Column:
    """Return a person identifier as text, normalized if it is a text column."""
    text = quoted_column(name).cast("string")
    if normalize is None or not isinstance(rows.schema[name].dataType, types.StringType):
        return text
    return normalize_text(text, normalize)


def normalize_text(text: Column, normalize: str) -> Column:
    """Trim white space from a text, and convert it to lowercase if requested."""
    outer_space = r"^[ \t\n\x0b\f\r]+|[ \t\n\x0b\f\r]+$"
    trimmed = sql.regexp_replace(text, outer_space, "")
    return sql.lower(trimmed) if normalize == CASEFOLD else trimmed


def _is_integer_key(relation: Relation, key: Sequence[str]) -> bool:
    return len(key) == 1 and relation.attribute(key[0]).kind is Kind.INTEGER


def _check_keys(rows: DataFrame, key: Sequence[str]) -> None:
    """Check that no row has NULL in its key and no two rows have the same key."""
    if not key:
        return
    key_struct = sql.struct(*(quoted_column(name) for name in key))
    has_null = sql.lit(False)
    for name in key:
        has_null = has_null | quoted_column(name).isNull()
    key_counts = rows.select(key_struct.alias("key"), has_null.alias("has_null")).agg(
        sql.count(sql.lit(1)), sql.count_distinct("key"), sql.sum(sql.col("has_null").cast("long"))
    )
    [(n_rows, n_distinct, n_null_keys)] = key_counts.collect()
    if n_null_keys:
        raise _null_key_error(n_null_keys, n_rows)
    if n_distinct != n_rows:
        raise duplicate_keys_error()


def require_unique_keys(packets: DataFrame, facts: Facts) -> None:
    """Check that all rows have unique keys, by facts or, if keys are sparse, by counting them.

    Parameters
    ----------
    packets : all rows, packed in binary values (see ``layout``).
    facts : what workers gathered about all rows, with their keys as bitmaps.

    Raises
    ------
    KeyRequired, DuplicateKeys : a key is missing or repeated.
    """
    if facts.n_without_key:
        raise _null_key_error(facts.n_without_key, facts.n_rows)
    if facts.keys.has_duplicates:
        raise duplicate_keys_error()
    # Sparse keys have no bitmaps; Spark counts them instead.
    if facts.keys.is_sparse:
        key_schema = types.StructType([types.StructField(KEY, types.LongType())])
        _check_keys(apply_to_pieces(packets, _select_keys, key_schema, PIECE_RECORDS, ROWS), [KEY])


def _select_keys(rows: pa.Table) -> Iterator[pa.Table]:
    yield rows.select([KEY]).cast(pa.schema([pa.field(KEY, pa.int64())]))


def _null_key_error(n_null_keys: int, n_rows: int) -> KeyRequired:
    return KeyRequired(
        f"{n_null_keys} of {n_rows} rows have NULL in their key.",
        hint='Name columns that are never NULL, or none: `key=["…"]`.',
    )


def _is_repeatable(frame: DataFrame) -> bool:
    """Return whether every evaluation gives the same rows.

    This is so if the rows are read from files, and no expression is random.
    """
    try:
        plan: JavaObject = frame._jdf.queryExecution().analyzed()
        return bool(plan.deterministic()) and bool(frame.inputFiles())
    except (AttributeError, TypeError):
        return False


def _number_rows(rows: DataFrame) -> Column:
    """Return a column with the index of each row in the order of the cached rows.

    The index is the number of rows in earlier partitions of Spark, plus the row's own number in its
    partition.
    """
    partition = sql.spark_partition_id()
    partition_rows = rows.groupBy(partition.alias("p")).count().collect()
    counts: dict[int, int] = {int(index): int(count) for index, count in partition_rows}
    partition_starts, n_rows_before = [], 0
    for partition_index in range(max(counts, default=-1) + 1):
        partition_starts.append(n_rows_before)
        n_rows_before += counts.get(partition_index, 0)
    # ``element_at`` counts from 1, partitions from 0.
    partition_start = sql.element_at(
        sql.array(*(sql.lit(x).cast("long") for x in partition_starts or [0])), partition + 1
    )
    return partition_start + sql.monotonically_increasing_id().bitwiseAND(sql.lit(_ROW_MASK))


def spark_type_of(column: ReleasedColumn, frame: DataFrame) -> types.DataType:
    """Return the Spark type of a released column."""
    if column.attribute.kind is Kind.CATEGORY:
        return types.StringType()
    return frame.schema[column.quasi_identifier].dataType


def is_case_sensitive(session: SparkSession) -> bool:
    """Return whether the session distinguishes column names by case."""
    return str(session.conf.get("spark.sql.caseSensitive", "false")) == "true"


def require_unique_names(
    names: Sequence[str], frame: DataFrame, released: Sequence[ReleasedColumn]
) -> None:
    """Check that no two columns of a release have the same name; raises InvalidParameter."""
    check_names(names, (), is_case_sensitive(frame.sparkSession))
    for released_column in released:
        name = released_column.attribute.name
        # The lower and upper bounds of intervals are columns with new names.
        is_bound = released_column.renamed_from is not None
        if list(names).count(name) > 1 or (is_bound and name in frame.columns):
            raise InvalidParameter(f'The DataFrame has a column named "{name}" already.')


def assign_roles(run_plan: Plan) -> Layout:
    """Assign the columns of a plan to their roles in the layout."""
    job = run_plan.job
    return Layout(
        quasi_identifiers=run_plan.roles.quasi_identifiers,
        strata_columns=tuple(job.by),
        has_persons=bool(job.guarantee.entity_columns),
        sensitive=tuple(run_plan.sensitive.values()),
        retained_columns=tuple(job.retained_columns),
        person_identifiers=run_plan.person_columns,
    )
