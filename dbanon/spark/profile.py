"""Profile the first rows of a DataFrame to find columns of identifiers and persons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from dbanon.advice.forms import MAX_EXAMINED_VALUES, can_hold_identifiers, form_of_texts
from dbanon.advice.persons import (
    HEAD_ROWS,
    PROBED_ROWS,
    SEARCHED_ROWS,
    candidate_identifiers,
    find_constant_attributes,
    find_person_identifiers,
)
from dbanon.advice.profile import ColumnProfile
from dbanon.advice.roles import find_identifiers
from dbanon.data.schema import Attribute, Kind
from dbanon.spark.tasks import translated


def identifiers_of(frame: DataFrame, attributes: Sequence[Attribute]) -> dict[str, str]:
    """Return those columns that look like identifiers, with reasons, from the first rows."""
    profiles = _profiles(frame, attributes)
    # For types that cannot be read, only the type is inspected.
    profiles += [ColumnProfile(a, 0, 0) for a in attributes if a.kind is Kind.OTHER]
    order = {attribute.name: index for index, attribute in enumerate(attributes)}
    return find_identifiers(sorted(profiles, key=lambda profile: order[profile.name]))


def find_identifier_columns(frame: DataFrame, attributes: Sequence[Attribute]) -> dict[str, str]:
    """Find columns that look like person identifiers, with reasons; see ``advice.persons``."""
    candidates = [a for a in attributes if a.name in candidate_identifiers(attributes)]
    constant = [a for a in attributes if a.name in find_constant_attributes(attributes)]
    if not candidates:
        return {}
    return find_person_identifiers(
        constant,
        _profiles(frame, candidates),
        lambda name: _agreement(frame, name),
        lambda profile: _shared_values(frame, profile.name, [a.name for a in constant]),
    )


def _profiles(frame: DataFrame, attributes: Sequence[Attribute]) -> list[ColumnProfile]:
    """Profile the first rows of columns."""
    readable = [a for a in attributes if a.kind is not Kind.OTHER]
    if not readable:
        return []
    head = frame.select(
        *(_column(a.name).alias(f"c{index}") for index, a in enumerate(readable))
    ).limit(HEAD_ROWS)
    with translated("the first rows were looked at"):
        rows: pa.Table = head.toArrow()
    return [_profile(a, rows[f"c{index}"]) for index, a in enumerate(readable)]


def _profile(attribute: Attribute, values: pa.ChunkedArray) -> ColumnProfile:
    texts = [str(value) for value in values.drop_null().to_pylist()]
    distinct_texts = dict.fromkeys(texts)
    profile = ColumnProfile(attribute, len(texts), len(distinct_texts))
    if attribute.kind is Kind.CATEGORY and texts:
        profile = replace(
            profile,
            mean_length=sum(map(len, texts)) / len(texts),
            multiword_share=sum(" " in text for text in texts) / len(texts),
        )
    if not can_hold_identifiers(attribute):
        return profile
    return replace(profile, form=form_of_texts(islice(distinct_texts, MAX_EXAMINED_VALUES)))


def _agreement(frame: DataFrame, name: str) -> float:
    """The share of pairs of the first rows that agree in a column."""
    head = frame.select(_column(name).alias("value")).limit(HEAD_ROWS)
    counts = head.where(sql.col("value").isNotNull()).groupBy("value").count()
    with translated("the first rows were looked at"):
        [(squares, rows)] = counts.agg(
            sql.sum(sql.col("count") * sql.col("count")), sql.sum("count")
        ).collect()
    return (squares - rows) / (rows * (rows - 1)) if rows and rows > 1 else 1.0


def _shared_values(frame: DataFrame, name: str, others: Sequence[str]) -> Iterator[list[int]]:
    """For some values that several rows share, count the non-NULL and the distinct values.

    Yields one list per value, with both counts for each other column.
    """
    columns = [_column(other_name).alias(f"c{index}") for index, other_name in enumerate(others)]
    rows = frame.select(_column(name).alias("value"), *columns).limit(SEARCHED_ROWS)
    probe_values = frame.select(_column(name).alias("value")).where(sql.col("value").isNotNull())
    counts = [
        count(f"c{index}").alias(f"n{2 * index + number}")
        for index in range(len(others))
        for number, count in enumerate((sql.count, sql.count_distinct))
    ]
    values = rows.join(probe_values.limit(PROBED_ROWS).distinct(), "value").groupBy("value")
    value_counts = values.agg(sql.count(sql.lit(1)).alias("rows"), *counts)
    with translated("the first rows were looked at"):
        shared_counts = value_counts.where(sql.col("rows") > 1).drop("value", "rows").collect()
    yield from (list(row) for row in shared_counts)


def _column(name: str) -> SparkColumn:
    return sql.col("`" + name.replace("`", "``") + "`")
