"""A DataFrame of Spark as the source of a plan, and its columns laid out for the stages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, types
from pyspark.sql import functions as sql

from dbanon.data.chunks import duplicate_keys
from dbanon.data.pieces import AT_ONCE
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
from dbanon.spark.facts import MOST_VALUES, Facts, require_few
from dbanon.spark.layout import KEY, ROWS, Layout
from dbanon.spark.profile import identifiers_of, numbers_of_persons
from dbanon.spark.refusals import check_names
from dbanon.spark.tasks import Disks, mapped

NAME, KIND = "DataFrame", "spark"

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
# Of the rows of a partition, as ``monotonically_increasing_id`` numbers them.
_ROWS_OF_PARTITION = (1 << 33) - 1


def column(name: str) -> Column:
    """A column by its name, whatever stands in it."""
    return sql.col("`" + name.replace("`", "``") + "`")


def attribute_of(field: types.StructField) -> Attribute:
    """What a column of a DataFrame is; a type that no release has is of kind ``other``."""
    kind, plain = field.dataType, Attribute(field.name, Kind.OTHER)
    plain = replace(plain, sql_type=kind.simpleString(), nullable=field.nullable)
    if type(kind) in _BITS:
        return replace(plain, kind=Kind.INTEGER, bits=_BITS[type(kind)])
    if isinstance(kind, types.FloatType):
        return replace(plain, kind=Kind.FLOAT, bits=32)
    if isinstance(kind, types.DecimalType):
        found = replace(plain, precision=kind.precision, scale=kind.scale)
        return replace(found, kind=Kind.DECIMAL)
    if isinstance(kind, (types.TimestampType, types.TimestampNTZType)):
        zoned = isinstance(kind, types.TimestampType)
        return replace(plain, kind=Kind.TIMESTAMP, scale=6, zoned=zoned)
    for family, of_kind in _PLAIN.items():
        if isinstance(kind, family):
            return replace(plain, kind=of_kind)
    return plain


@dataclass(frozen=True, eq=False)
class DataFrameSource:
    """A DataFrame, of which a plan asks what its columns are."""

    frame: DataFrame

    def describe(self, job: Job) -> Relation:
        """The DataFrame as a relation.

        Raises
        ------
        ColumnNotFound, InvalidParameter : a name is no column, or two, or one but for its case.
        UnsupportedType : a column that is read has a type that no release has.
        """
        names = list(self.frame.columns)
        for name in dict.fromkeys(job.read):
            if name not in names:
                raise ColumnNotFound(
                    f'The DataFrame has no column "{name}".', hint=nearest_names(name, names)
                )
            if names.count(name) > 1:
                raise InvalidParameter(f'The DataFrame has two columns named "{name}".')
        check_names([*job.read, *job.key], names, sees_case(self.frame.sparkSession))
        attributes = tuple(attribute_of(field) for field in self.frame.schema.fields)
        required = job.quasi_identifiers if job.policy.nulls == "suppress" else ()
        return Relation(RelationName(None, NAME), Schema(attributes), KIND, required=required)

    def locate(self, relation: Relation, job: Job, names: Sequence[str]) -> Relation:
        """The DataFrame, whose types are all that is looked at.

        Raises
        ------
        UnsupportedType : a quasi-identifier is of a type that no release has.
        """
        for name in job.quasi_identifiers:
            attribute = relation.attribute(name)
            if attribute.kind is Kind.OTHER:
                raise UnsupportedType(
                    f'Column "{name}" is of type {attribute.sql_type}.',
                    hint="Cast it to text or to a number in a view.",
                )
        return relation

    def state(self, relation: Relation) -> Mapping[str, Any]:
        """Nothing: no ledger keeps what it is known by."""
        return {}

    def pin(self, relation: Relation, names: Sequence[str]) -> Relation:
        """The DataFrame; ``laid_out`` keeps it where its rows could change."""
        return relation

    def inspect(self, relation: Relation, attributes: Sequence[Attribute]) -> tuple[Attribute, ...]:
        """The attributes: types tell all."""
        return tuple(attributes)

    def hierarchy(self, column: str, spec: HierarchySpec, pulse: Pulse) -> Hierarchy:
        """No hierarchy: those of databases are not here; raises InvalidParameter."""
        return build(spec, (), column, pulse)

    def numbers_of_persons(self, relation: Relation) -> dict[str, str]:
        """The columns that look like numbers of persons, and why; the first rows tell it."""
        return numbers_of_persons(self.frame, relation.schema.attributes)

    def identifiers(self, relation: Relation, names: Sequence[str]) -> dict[str, str]:
        """Those of these columns that look like identifiers, and why; the first rows tell it."""
        return identifiers_of(self.frame, [relation.attribute(name) for name in names])

    def spellings(self, relation: Relation, person: Attribute) -> dict[str, int]:
        """The persons by how the identifier is normalized."""
        kinds = list(dict.fromkeys(("", person.normalize, CASEFOLD)))
        texts = (_spelled(self.frame, person.name, kind or None) for kind in kinds)
        [counts] = self.frame.agg(*map(sql.count_distinct, texts)).collect()
        return dict(zip(kinds, map(int, counts), strict=True))

    def require_leaves(self, attribute: Attribute) -> None:
        """Nothing to check: Spark spells all values in one way."""

    def distinct(self, relation: Relation, attribute: Attribute) -> list[str]:
        """The values of a column but for NULL, as leaves spell them, in the column's order.

        Raises
        ------
        MemoryLimit : there are too many.
        """
        texts = self.frame.select(column(attribute.name).cast("string").alias("text"))
        rows = texts.where(sql.col("text").isNotNull()).distinct().limit(MOST_VALUES + 1).collect()
        require_few(attribute.name, len(rows))
        return sort_values([row[0] for row in rows], attribute)


@dataclass(frozen=True, eq=False)
class LaidOut:
    """The rows that may be released, with a number each that has their order.

    Parameters
    ----------
    rows : columns as ``Layout`` has them.
    withheld : how many more rows there are, which have a NULL where none may be.
    counted : whether counting them costs little: they are on disks, or in files that tell it.
    disks : what is held on disks for it.
    """

    rows: DataFrame
    withheld: int
    counted: bool
    disks: Disks


def laid_out(frame: DataFrame, job: Job, layout: Layout, relation: Relation) -> LaidOut:
    """The rows of a DataFrame under the names that the stages know.

    Keys of one whole number are not looked at here: see ``require_key``.

    Raises
    ------
    KeyRequired : a row has no key.
    DuplicateKeys : two have the same.
    """
    names = [*job.named, *job.guarantee.persons, *job.key]
    rows = frame.select(*(column(name) for name in dict.fromkeys([*names, *layout.numbers])))
    plain, still = _is_number(relation, job.key), _stands_still(frame)
    disks = Disks()
    if relation.required and not still:
        # What is withheld and what is not have to be of one reading.
        rows = disks.keep(rows)
    withheld = 0
    if relation.required:
        held = rows
        for name in relation.required:
            held = held.where(column(name).isNotNull())
        withheld, rows = rows.count() - held.count(), held
    if not plain:
        _require_key(rows, job.key)
    if plain:
        number = column(job.key[0]).cast("long")
    else:
        order = [column(name) for name in job.key or dict.fromkeys(names)]
        rows = disks.keep(rows.orderBy(*order))
        number = _numbered(rows)
    columns = [number.alias(KEY)]
    for i, attribute in enumerate(layout.quasi_identifiers):
        given = column(attribute.name)
        columns.append((given.cast("string") if attribute.kind.is_coded else given).alias(f"q{i}"))
    texts = [
        *zip(layout.strata, layout.by, strict=True),
        *zip(layout.entity, job.guarantee.persons, strict=True),
        *((f"s{i}", attribute.name) for i, attribute in enumerate(layout.sensitive)),
    ]
    own = {name: _spelled(rows, name, job.entity_normalize) for name in job.guarantee.persons}
    columns += [own.get(name, column(name).cast("string")).alias(held) for held, name in texts]
    columns += [
        column(name).alias(held)
        for held, name in (
            *zip(layout.kept_columns, layout.kept, strict=True),
            *zip(layout.number_columns, layout.numbers, strict=True),
        )
    ]
    laid = rows.select(*columns)
    if layout.persons:
        # All records of a person are looked at together.
        laid = laid.repartition(*layout.entity)
    counted = (still or not plain) and not layout.persons
    return LaidOut(laid, withheld, counted, disks)


def _spelled(rows: DataFrame, name: str, normalize: str | None) -> Column:
    """The text of a person's identifier as it is compared."""
    text = column(name).cast("string")
    if normalize is None or not isinstance(rows.schema[name].dataType, types.StringType):
        return text
    return spelled_alike(text, normalize)


def spelled_alike(text: Column, normalize: str) -> Column:
    """A text as it is compared: without white space around it, and without capitals."""
    around = r"^[ \t\n\x0b\f\r]+|[ \t\n\x0b\f\r]+$"
    trimmed = sql.regexp_replace(text, around, "")
    return sql.lower(trimmed) if normalize == CASEFOLD else trimmed


def _is_number(relation: Relation, key: Sequence[str]) -> bool:
    return len(key) == 1 and relation.attribute(key[0]).kind is Kind.INTEGER


def _require_key(rows: DataFrame, key: Sequence[str]) -> None:
    if not key:
        return
    one = sql.struct(*(column(name) for name in key))
    no_key = sql.lit(False)
    for name in key:
        no_key = no_key | column(name).isNull()
    found = rows.select(one.alias("key"), no_key.alias("none")).agg(
        sql.count(sql.lit(1)), sql.count_distinct("key"), sql.sum(sql.col("none").cast("long"))
    )
    count, distinct, without = found.collect()[0]
    if without:
        raise _no_key(without, count)
    if distinct != count:
        raise duplicate_keys()


def require_key(kept: DataFrame, facts: Facts) -> None:
    """Check that all rows have a key of their own, by what a look told, or else by sorting keys.

    Parameters
    ----------
    kept : packets of all rows.

    Raises
    ------
    KeyRequired, DuplicateKeys : they have not.
    """
    if facts.no_key:
        raise _no_key(facts.no_key, facts.rows)
    if facts.keys.twice:
        raise duplicate_keys()
    if facts.keys.sparse:
        keys = types.StructType([types.StructField(KEY, types.LongType())])
        _require_key(mapped(kept, _keys, keys, AT_ONCE, ROWS), [KEY])


def _keys(rows: pa.Table) -> Iterator[pa.Table]:
    yield rows.select([KEY]).cast(pa.schema([pa.field(KEY, pa.int64())]))


def _no_key(without: int, rows: int) -> KeyRequired:
    return KeyRequired(
        f"{without} of {rows} rows have NULL in their key.",
        hint='Name columns that are never NULL, or none: `key=["…"]`.',
    )


def _stands_still(frame: DataFrame) -> bool:
    """Whether each reading gives the same rows: files of a fixed list, and nothing drawn."""
    try:
        plan: Any = frame._jdf.queryExecution().analyzed()
        return bool(plan.deterministic()) and bool(frame.inputFiles())
    except (AttributeError, TypeError):
        return False


def _numbered(rows: DataFrame) -> Column:
    """The place of each row among all, in the order they are kept in."""
    partition = sql.spark_partition_id()
    found = rows.groupBy(partition.alias("p")).count().collect()
    counts: dict[int, int] = {int(row[0]): int(row[1]) for row in found}
    starts, start = [], 0
    for at in range(max(counts, default=-1) + 1):
        starts.append(start)
        start += counts.get(at, 0)
    first = sql.element_at(
        sql.array(*(sql.lit(x).cast("long") for x in starts or [0])), partition + 1
    )
    return first + sql.monotonically_increasing_id().bitwiseAND(sql.lit(_ROWS_OF_PARTITION))


def type_of(column: ReleasedColumn, frame: DataFrame) -> types.DataType:
    """The type of a released column."""
    if column.attribute.kind is Kind.CATEGORY:
        return types.StringType()
    return frame.schema[column.source].dataType


def sees_case(session: SparkSession) -> bool:
    """Whether a session tells names apart that differ in case only."""
    return str(session.conf.get("spark.sql.caseSensitive", "false")) == "true"


def with_unique(names: Sequence[str], frame: DataFrame, released: Sequence[ReleasedColumn]) -> None:
    """Check that no two columns of a release have one name; raises InvalidParameter."""
    check_names(names, (), sees_case(frame.sparkSession))
    for one in released:
        name = one.attribute.name
        if list(names).count(name) > 1 or (one.source_name is not None and name in frame.columns):
            raise InvalidParameter(f'The DataFrame has a column named "{name}" already.')


def layout_of(planned: Plan) -> Layout:
    """How the columns of a plan stand."""
    job = planned.job
    return Layout(
        planned.wanted.quasi_identifiers,
        tuple(job.by),
        bool(job.guarantee.persons),
        tuple(planned.sensitive.values()),
        tuple(job.kept),
        planned.numbers,
    )
