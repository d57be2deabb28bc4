"""The release is bit-identical however a table is split into files, partitions and tasks."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import functions as sql

import dbanon
import dbanon.spark
from dbanon.extensions.spark import stages
from tests.spark.test_equal_local import NUMBERS, both, hex_floats, in_files, on_spark, table

ARGUMENTS = NUMBERS | {"refine": "pass", "method": "vmdav", "block_size": 500}


def folder(parent, name):
    (parent / name).mkdir()
    return parent / name


def test_files_partitions_and_tasks_change_nothing(spark, tmp_path):
    frame = table(4000)
    first, _ = on_spark(
        spark, in_files(spark, frame, folder(tmp_path, "a"), 1), tasks=1, **ARGUMENTS
    )
    rows = in_files(spark, frame, folder(tmp_path, "b"), 7).repartition(5, "y")
    second, _ = on_spark(spark, rows, tasks=6, **ARGUMENTS)
    assert hex_floats(first) == hex_floats(second)
    # The order of rows is random each time.
    assert first["id"].tolist() != second["id"].tolist() != sorted(second["id"])


def test_classes_and_their_rows_are_in_random_order(spark, tmp_path):
    rows = in_files(spark, table(4000), tmp_path, 1)
    orders = []
    for _ in range(2):
        # One task has eight blocks.
        released, _ = on_spark(spark, rows, tasks=1, **NUMBERS | {"block_size": 500})
        labels = released.groupby(NUMBERS["quasi_identifiers"], dropna=False).ngroup()
        # The rows of a class follow each other: there are as many changes as further classes.
        assert (labels.diff().dropna() != 0).sum() == labels.nunique() - 1
        ids_by_class = released["id"].groupby(labels, sort=False).apply(list)
        assert any(ids != sorted(ids) for ids in ids_by_class)
        first_ids = [min(ids) for ids in ids_by_class]
        assert first_ids != sorted(first_ids)
        orders.append(first_ids)
        assert sorted(released["id"]) == list(range(4000))
    assert sorted(orders[0]) == sorted(orders[1])
    assert orders[0] != orders[1]


def test_a_drawn_column_is_drawn_once(spark, tmp_path):
    rows = in_files(spark, table(6000), tmp_path).withColumn("x", sql.rand())
    released, report = dbanon.spark.anonymize(rows, key=["id"], **NUMBERS)
    assert released.count() == 6000 == report.rows_out
    assert report.k_achieved >= 5


@pytest.mark.parametrize("key", [["place", "id"], []], ids=["of two columns", "none"])
def test_other_keys_are_orders(spark, tmp_path, key):
    """Rows are numbered in the order of their key, or of all their columns."""
    frame = table(6000)
    columns = [*key] or ["x", "y", "z", "id"]
    ordered = frame.sort_values(columns, ignore_index=True)
    keep = list(dict.fromkeys([*key, "id"]))
    local, _ = dbanon.anonymize_frame(ordered, keep=keep, **NUMBERS)
    spark_rows, _ = on_spark(
        spark, in_files(spark, frame, tmp_path), keep=keep, **NUMBERS | {"key": key}
    )
    assert hex_floats(spark_rows) == hex_floats(local)


def test_rows_are_not_counted_if_a_sample_shows_that_blocks_are_large(spark, tmp_path, monkeypatch):
    counted = []

    class CountingLeaves(stages.CountLeaves):
        def __init__(self, *arguments):
            counted.append(arguments)
            super().__init__(*arguments)

        def __reduce__(self):
            # Workers know only the class that this one extends.
            return stages_count_leaves, (self.context, self.forest)

    stages_count_leaves = stages.CountLeaves
    monkeypatch.setattr(stages, "CountLeaves", CountingLeaves)
    # The sample has 1,000 of 6,000 rows.
    monkeypatch.setattr("dbanon.partitioning.cuts._MIN_SAMPLED", 0)
    rows = in_files(spark, table(6000), tmp_path)
    arguments = NUMBERS | {"block_size": 3000}
    uncounted, _ = on_spark(spark, rows, **arguments)
    assert not counted
    monkeypatch.setattr(stages, "_CERTAINTY", math.inf)
    with_count, _ = on_spark(spark, rows, **arguments)
    assert len(counted) == 1
    assert hex_floats(uncounted) == hex_floats(with_count)
    # A sample of all rows has counted them.
    monkeypatch.setattr("dbanon.partitioning.cuts._MIN_SAMPLED", 6000)
    on_spark(spark, rows, **arguments)
    assert len(counted) == 1


def log_upper_tail(count, n, p):
    """The logarithm of the probability that a binomial variable is at least ``count``."""
    logs = [
        math.lgamma(n + 1)
        - math.lgamma(i + 1)
        - math.lgamma(n - i + 1)
        + i * math.log(p)
        + (n - i) * math.log1p(-p)
        for i in range(count, n + 1)
    ]
    return max(logs) + math.log(sum(math.exp(x - max(logs)) for x in logs))


@pytest.mark.parametrize(
    ("n_units", "min_units"), [(4000, 5), (4000, 150), (100_000, 2500), (4_000_000, 2500)]
)
def test_what_a_sample_shows_of_a_leaf(n_units, min_units):
    n_sampled, share = 1000, min_units / n_units
    # The second of two leaves is the smaller one.
    least = min(
        count
        for count in range(n_sampled // 2 + 1)
        if stages._shows_large(np.array([n_sampled - count, count]), n_units, min_units)
    )
    assert log_upper_tail(least, n_sampled, share) <= -50.0
    # Chernoff's bound wastes little.
    assert log_upper_tail(least - 1, n_sampled, share) > -60.0
    assert not stages._shows_large(np.array([n_sampled, 0]), n_units, min_units)


def test_all_rows_equal(spark, tmp_path):
    frame = pd.DataFrame({"id": np.arange(6000), "x": np.full(6000, 0.1), "y": np.ones(6000)})
    spark_rows, report = both(
        spark, frame, tmp_path, quasi_identifiers=["x", "y"], k=5, block_size=1000, refine="pass"
    )
    # Blocks are cut by keys; with equal labels all rows form one class.
    assert report.classes == 1
    assert report.smallest_class == 6000
    assert report.internal.information_loss == 0.0
    assert set(spark_rows["x"]) == {0.1}


@pytest.mark.campaign
def test_three_values_are_three_classes(spark, tmp_path):
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"id": np.arange(9000), "x": rng.integers(0, 3, 9000), "y": 1.5})
    _, report = both(spark, frame, tmp_path, quasi_identifiers=["x", "y"], k=4, block_size=1000)
    assert report.k_achieved >= 4


def test_numbers_beyond_float64_have_exact_means(spark, tmp_path):
    rng = np.random.default_rng(6)
    frame = table(6000)
    frame["z"] = rng.integers(2**60, 2**62, 6000)
    both(spark, frame, tmp_path, **NUMBERS)


def test_a_table_smaller_than_a_block_is_released_as_without_blocks(spark, tmp_path):
    frame = table(900)
    options = NUMBERS | {"refine": "fast", "refine_iterations": 50}
    spark_rows, _ = both(spark, frame, tmp_path, **options)
    unblocked, _ = dbanon.anonymize_frame(frame, keep=["id"], **options | {"block_size": None})
    assert hex_floats(spark_rows) == hex_floats(unblocked)
