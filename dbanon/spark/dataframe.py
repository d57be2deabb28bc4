"""A Spark DataFrame as the source of a plan, and its columns in the layout of the stages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, types
from pyspark.sql import functions as sql

from dbanon.data.chunks import duplicate_keys_error
from dbanon.data.pieces import PIECE_RECORDS
from dbanon.data.schema import CASEFOLD, Attribute, Kind, Schema
from dbanon.errors import (
    ColumnNotFound,
    InvalidParameter,
    KeyRequired,
    UnsupportedType,
    nearest_names,
)
from dbanon.hierarchy.edges import Pulse
from dbanon.hierarchy.leaves import sort_values
from dbanon.hierarchy.spec import HierarchySpec, build
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.job import Job
from dbanon.recoding.columns import ReleasedColumn
from dbanon.run.plan import Plan
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName
from dbanon.spark.facts import MAX_VALUES, Facts, require_few
from dbanon.spark.layout import KEY, ROWS, Layout
from dbanon.spark.profile import find_identifier_columns, identifiers_of
from dbanon.spark.refusals import check_names
from dbanon.spark.tasks import DiskCache, mapped

FRAME_NAME, KIND = "DataFrame", "spark"

_BITS: dict[type, int] = {
    types.ByteType: 16,
    types.ShortType: 16,
    types.IntegerType: 32,
    types.LongType: 64,
}
_PLAIN = {
    types.DoubleType: Kind.FLOAT,
    types.DateType: Kind.DATE,
    types.BooleanType: Kind.BOOLEAN,
    types.StringType: Kind.CATEGORY,
}
# ``monotonically_increasing_id`` numbers the rows of a partition in these bits.
_ROW_MASK = (1 << 33) - 1


def column(name: str) -> Column:
    """Return a column by name, whatever characters the name has."""
    return sql.col("`" + name.replace("`", "``") + "`")


def attribute_of(field: types.StructField) -> Attribute:
    """Describe a DataFrame's column; types that cannot be released are of kind ``other``."""
    kind, plain = field.dataType, Attribute(field.name, Kind.OTHER)
    plain = replace(plain, sql_type=kind.simpleString(), nullable=field.nullable)
    if type(kind) in _BITS:
        return replace(plain, kind=Kind.INTEGER, bits=_BITS[type(kind)])
    if isinstance(kind, types.FloatType):
        return replace(plain, kind=Kind.FLOAT, bits=32)
    if isinstance(kind, types.DecimalType):
        decimal = replace(plain, precision=kind.precision, scale=kind.scale)
        return replace(decimal, kind=Kind.DECIMAL)
    if isinstance(kind, (types.TimestampType, types.TimestampNTZType)):
        has_time_zone = isinstance(kind, types.TimestampType)
        return replace(plain, kind=Kind.TIMESTAMP, scale=6, has_time_zone=has_time_zone)
    for family, attribute_kind in _PLAIN.items():
        if isinstance(kind, family):
            return replace(plain, kind=attribute_kind)
    return plain


@dataclass(frozen=True, eq=False)
class DataFrameSource:
    """A DataFrame whose columns a plan can inspect."""

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
        required = job.quasi_identifiers if job.policy.nulls == "suppress" else ()
        return Relation(
            RelationName(None, FRAME_NAME), Schema(attributes), KIND, required_columns=required
        )

    def locate(self, relation: Relation, job: Job, names: Sequence[str]) -> Relation:
        """Check the types of quasi-identifiers; rows need no locator here.

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

    def describe_state(self, relation: Relation) -> Mapping[str, Any]:
        """Return an empty state, since no ledger records a DataFrame."""
        return {}

    def pin(self, relation: Relation, names: Sequence[str]) -> Relation:
        """Return the DataFrame; ``lay_out_rows`` caches it if its rows could change."""
        return relation

    def inspect(self, relation: Relation, attributes: Sequence[Attribute]) -> tuple[Attribute, ...]:
        """Return the attributes; the declared types are sufficient."""
        return tuple(attributes)

    def load_hierarchy(self, column: str, spec: HierarchySpec, pulse: Pulse) -> Hierarchy:
        """Build a hierarchy without database access; raises InvalidParameter."""
        return build(spec, (), column, pulse)

    def find_identifier_columns(self, relation: Relation) -> dict[str, str]:
        """Find columns that look like person identifiers, with reasons, in the first rows."""
        return find_identifier_columns(self.frame, relation.schema.attributes)

    def find_direct_identifiers(self, relation: Relation, names: Sequence[str]) -> dict[str, str]:
        """Return those columns that look like identifiers, with reasons, from the first rows."""
        return identifiers_of(self.frame, [relation.attribute(name) for name in names])

    def count_spellings(self, relation: Relation, person: Attribute) -> dict[str, int]:
        """Count the persons under each normalization of the identifier."""
        kinds = list(dict.fromkeys(("", person.normalize, CASEFOLD)))
        texts = (_person_text(self.frame, person.name, kind or None) for kind in kinds)
        [counts] = self.frame.agg(*map(sql.count_distinct, texts)).collect()
        return dict(zip(kinds, map(int, counts), strict=True))

    def require_leaves(self, attribute: Attribute) -> None:
        """Do nothing: Spark formats all values consistently."""

    def list_distinct_values(self, relation: Relation, attribute: Attribute) -> list[str]:
        """The non-NULL values of a column as leaves spell them, in the column's order.

        Raises
        ------
        MemoryLimit : there are too many.
        """
        texts = self.frame.select(column(attribute.name).cast("string").alias("text"))
        rows = texts.where(sql.col("text").isNotNull()).distinct().limit(MAX_VALUES + 1).collect()
        require_few(attribute.name, len(rows))
        return sort_values([row[0] for row in rows], attribute)


@dataclass(frozen=True, eq=False)
class SourceRows:
    """The rows that may be released, each with a number that gives their order.

    Parameters
    ----------
    rows : columns in the form of ``Layout``.
    withheld : number of other rows, which have NULL in a required column.
    is_countable : whether counting them is cheap, because they are cached or in Parquet files.
    disks : the caches that they use.
    """

    rows: DataFrame
    withheld: int
    is_countable: bool
    disks: DiskCache


def lay_out_rows(frame: DataFrame, job: Job, layout: Layout, relation: Relation) -> SourceRows:
    """Prepare the rows of a DataFrame under the column names that the stages use.

    Keys of one integer column are checked later, by ``require_key``.

    Raises
    ------
    KeyRequired : a row has no key.
    DuplicateKeys : two rows have the same key.
    """
    names = [*job.named_columns, *job.guarantee.persons, *job.key]
    rows = frame.select(*(column(name) for name in dict.fromkeys([*names, *layout.numbers])))
    has_number_key, is_repeatable = _is_number(relation, job.key), _is_repeatable(frame)
    disks = DiskCache()
    if relation.required_columns and not is_repeatable:
        # Withheld and other rows must come from the same evaluation.
        rows = disks.keep(rows)
    withheld = 0
    if relation.required_columns:
        complete = rows
        for name in relation.required_columns:
            complete = complete.where(column(name).isNotNull())
        withheld, rows = rows.count() - complete.count(), complete
    if not has_number_key:
        _require_key(rows, job.key)
    if has_number_key:
        number = column(job.key[0]).cast("long")
    else:
        order = [column(name) for name in job.key or dict.fromkeys(names)]
        rows = disks.keep(rows.orderBy(*order))
        number = _numbered(rows)
    columns = [number.alias(KEY)]
    for i, attribute in enumerate(layout.quasi_identifiers):
        source_column = column(attribute.name)
        columns.append(
            (source_column.cast("string") if attribute.kind.is_coded else source_column).alias(
                f"q{i}"
            )
        )
    texts = [
        *zip(layout.strata, layout.by, strict=True),
        *zip(layout.entity, job.guarantee.persons, strict=True),
        *((f"s{i}", attribute.name) for i, attribute in enumerate(layout.sensitive)),
    ]
    person_texts = {
        name: _person_text(rows, name, job.entity_normalize) for name in job.guarantee.persons
    }
    columns += [
        person_texts.get(name, column(name).cast("string")).alias(staged_name)
        for staged_name, name in texts
    ]
    columns += [
        column(name).alias(staged_name)
        for staged_name, name in (
            *zip(layout.kept_columns, layout.retained, strict=True),
            *zip(layout.number_columns, layout.numbers, strict=True),
        )
    ]
    source_rows = rows.select(*columns)
    if layout.persons:
        # The stages process all records of a person together.
        source_rows = source_rows.repartition(*layout.entity)
    is_countable = (is_repeatable or not has_number_key) and not layout.persons
    return SourceRows(source_rows, withheld, is_countable, disks)


def _person_text(rows: DataFrame, name: str, normalize: str | None) -> Column:
    """The text of a person identifier in normalized form."""
    text = column(name).cast("string")
    if normalize is None or not isinstance(rows.schema[name].dataType, types.StringType):
        return text
    return normalize_text(text, normalize)


def normalize_text(text: Column, normalize: str) -> Column:
    """Trim white space from a text, and convert it to lowercase if requested."""
    outer_space = r"^[ \t\n\x0b\f\r]+|[ \t\n\x0b\f\r]+$"
    trimmed = sql.regexp_replace(text, outer_space, "")
    return sql.lower(trimmed) if normalize == CASEFOLD else trimmed


def _is_number(relation: Relation, key: Sequence[str]) -> bool:
    return len(key) == 1 and relation.attribute(key[0]).kind is Kind.INTEGER


def _require_key(rows: DataFrame, key: Sequence[str]) -> None:
    if not key:
        return
    key_struct = sql.struct(*(column(name) for name in key))
    has_null = sql.lit(False)
    for name in key:
        has_null = has_null | column(name).isNull()
    key_counts = rows.select(key_struct.alias("key"), has_null.alias("none")).agg(
        sql.count(sql.lit(1)), sql.count_distinct("key"), sql.sum(sql.col("none").cast("long"))
    )
    count, distinct, n_null_keys = key_counts.collect()[0]
    if n_null_keys:
        raise _no_key(n_null_keys, count)
    if distinct != count:
        raise duplicate_keys_error()


def require_key(packets: DataFrame, facts: Facts) -> None:
    """Check that all rows have unique keys, by the gathered facts, or else by sorting keys.

    Parameters
    ----------
    packets : packets of all rows.

    Raises
    ------
    KeyRequired, DuplicateKeys : a key is missing or repeated.
    """
    if facts.no_key:
        raise _no_key(facts.no_key, facts.rows)
    if facts.keys.has_duplicates:
        raise duplicate_keys_error()
    if facts.keys.is_sparse:
        keys = types.StructType([types.StructField(KEY, types.LongType())])
        _require_key(mapped(packets, _keys, keys, PIECE_RECORDS, ROWS), [KEY])


def _keys(rows: pa.Table) -> Iterator[pa.Table]:
    yield rows.select([KEY]).cast(pa.schema([pa.field(KEY, pa.int64())]))


def _no_key(n_null_keys: int, rows: int) -> KeyRequired:
    return KeyRequired(
        f"{n_null_keys} of {rows} rows have NULL in their key.",
        hint='Name columns that are never NULL, or none: `key=["…"]`.',
    )


def _is_repeatable(frame: DataFrame) -> bool:
    """Return whether every evaluation gives the same rows: a fixed list of files, no randomness."""
    try:
        plan: Any = frame._jdf.queryExecution().analyzed()
        return bool(plan.deterministic()) and bool(frame.inputFiles())
    except (AttributeError, TypeError):
        return False


def _numbered(rows: DataFrame) -> Column:
    """The index of each row in the order of the cached rows."""
    partition = sql.spark_partition_id()
    partition_rows = rows.groupBy(partition.alias("p")).count().collect()
    counts: dict[int, int] = {int(row[0]): int(row[1]) for row in partition_rows}
    starts, start = [], 0
    for partition_index in range(max(counts, default=-1) + 1):
        starts.append(start)
        start += counts.get(partition_index, 0)
    first = sql.element_at(
        sql.array(*(sql.lit(x).cast("long") for x in starts or [0])), partition + 1
    )
    return first + sql.monotonically_increasing_id().bitwiseAND(sql.lit(_ROW_MASK))


def type_of(column: ReleasedColumn, frame: DataFrame) -> types.DataType:
    """The Spark type of a released column."""
    if column.attribute.kind is Kind.CATEGORY:
        return types.StringType()
    return frame.schema[column.source].dataType


def is_case_sensitive(session: SparkSession) -> bool:
    """Return whether the session distinguishes column names by case."""
    return str(session.conf.get("spark.sql.caseSensitive", "false")) == "true"


def require_unique_names(
    names: Sequence[str], frame: DataFrame, released: Sequence[ReleasedColumn]
) -> None:
    """Check that no two columns of a release have one name; raises InvalidParameter."""
    check_names(names, (), is_case_sensitive(frame.sparkSession))
    for released_column in released:
        name = released_column.attribute.name
        is_bound = released_column.source_name is not None
        if list(names).count(name) > 1 or (is_bound and name in frame.columns):
            raise InvalidParameter(f'The DataFrame has a column named "{name}" already.')


def layout_of(planned: Plan) -> Layout:
    """How the columns of a plan stand."""
    job = planned.job
    return Layout(
        planned.roles.quasi_identifiers,
        tuple(job.by),
        bool(job.guarantee.persons),
        tuple(planned.sensitive.values()),
        tuple(job.retained_columns),
        planned.person_columns,
    )
