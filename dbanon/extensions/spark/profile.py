"""Profile the first rows of a DataFrame to find columns that look like identifiers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from dbanon.advice.forms import MAX_EXAMINED_VALUES, can_hold_identifiers, find_form_of_texts
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
from dbanon.extensions.spark.tasks import translate_spark_errors


def find_retained_identifiers(frame: DataFrame, attributes: Sequence[Attribute]) -> dict[str, str]:
    """Return which of these columns look like identifiers in the first rows, with reasons."""
    profiles = _profiles(frame, attributes)
    # A column whose type cannot be read is judged by its name and type only.
    profiles += [
        ColumnProfile(a, n_non_null=0, n_distinct=0) for a in attributes if a.kind is Kind.OTHER
    ]
    order = {attribute.name: index for index, attribute in enumerate(attributes)}
    return find_identifiers(sorted(profiles, key=lambda profile: order[profile.name]))


def find_identifier_columns(frame: DataFrame, attributes: Sequence[Attribute]) -> dict[str, str]:
    """Find columns that look like person identifiers, with reasons; see ``advice.persons``."""
    candidates = [a for a in attributes if a.name in candidate_identifiers(attributes)]
    # Columns with one value per person, such as a birth date. If a candidate identifies persons,
    # these columns do not vary among the rows with the same value of the candidate.
    constant_attributes = [a for a in attributes if a.name in find_constant_attributes(attributes)]
    if not candidates:
        return {}
    # The first function measures how often two rows are equal in a constant column by chance. The
    # second counts the values of constant columns among the rows that share a candidate's value.
    return find_person_identifiers(
        constant_attributes,
        _profiles(frame, candidates),
        lambda name: _share_of_equal_pairs(frame, name),
        lambda profile: _count_per_shared_value(
            frame, profile.name, [a.name for a in constant_attributes]
        ),
    )


def _profiles(frame: DataFrame, attributes: Sequence[Attribute]) -> list[ColumnProfile]:
    """Profile the first rows of columns."""
    readable = [a for a in attributes if a.kind is not Kind.OTHER]
    if not readable:
        return []
    head = frame.select(
        *(_quoted_column(a.name).alias(f"c{index}") for index, a in enumerate(readable))
    ).limit(HEAD_ROWS)
    with translate_spark_errors("reading the first rows"):
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
    # The format of the values, such as "IBAN"; empty if they have none of the known formats.
    return replace(profile, form=find_form_of_texts(islice(distinct_texts, MAX_EXAMINED_VALUES)))


def _share_of_equal_pairs(frame: DataFrame, name: str) -> float:
    """Return the share of pairs of the first rows that have equal values in a column."""
    head = frame.select(_quoted_column(name).alias("value")).limit(HEAD_ROWS)
    counts = head.where(sql.col("value").isNotNull()).groupBy("value").count()
    with translate_spark_errors("reading the first rows"):
        [(sum_of_squares, n_rows)] = counts.agg(
            sql.sum(sql.col("count") * sql.col("count")), sql.sum("count")
        ).collect()
    n_pairs = n_rows * (n_rows - 1) if n_rows else 0
    # Without pairs nothing can be concluded from constant values: all would be due to chance.
    return (sum_of_squares - n_rows) / n_pairs if n_pairs else 1.0


def _count_per_shared_value(
    frame: DataFrame, name: str, other_names: Sequence[str]
) -> Iterator[list[int]]:
    """For some values shared by several rows, count values in the other columns of these rows.

    Yields a list per shared value: for each other column, the non-NULL and the distinct values.
    """
    columns = [
        _quoted_column(other_name).alias(f"c{index}")
        for index, other_name in enumerate(other_names)
    ]
    rows = frame.select(_quoted_column(name).alias("value"), *columns).limit(SEARCHED_ROWS)
    # Search many rows (SEARCHED_ROWS) for the values of the first few (PROBED_ROWS).
    probe_values = frame.select(_quoted_column(name).alias("value")).where(
        sql.col("value").isNotNull()
    )
    counts = [
        count(f"c{index}").alias(f"n{2 * index + offset}")
        for index in range(len(other_names))
        for offset, count in enumerate((sql.count, sql.count_distinct))
    ]
    values = rows.join(probe_values.limit(PROBED_ROWS).distinct(), "value").groupBy("value")
    value_counts = values.agg(sql.count(sql.lit(1)).alias("rows"), *counts)
    with translate_spark_errors("reading the first rows"):
        shared_counts = value_counts.where(sql.col("rows") > 1).drop("value", "rows").collect()
    yield from (list(row) for row in shared_counts)


def _quoted_column(name: str) -> SparkColumn:
    return sql.col("`" + name.replace("`", "``") + "`")
