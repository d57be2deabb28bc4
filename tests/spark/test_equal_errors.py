"""Spark refuses what one machine refuses, with the same texts, plus what it does not support."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dbanon
import dbanon.spark
from dbanon.errors import DbanonError, DuplicateKeys, InvalidParameter, KeyRequired, SparkFailed
from dbanon.extensions.spark.tasks import collect_from
from tests.spark.test_equal_local import in_files, table

SECRET = "Wanne-Eickel"


def infinite(frame):
    frame.loc[[3, 77], "y"] = np.inf
    return frame


def same(frame):
    return frame


SMALL = {"quasi_identifiers": ["x", "z"], "k": 5, "block_size": 300}

REFUSED = {
    "NULLs": (same, SMALL | {"quasi_identifiers": ["x", "holed"]}),
    "too many NULLs": (
        same,
        SMALL | {"quasi_identifiers": ["x", "holed"], "nulls": "suppress", "max_suppression": 0.01},
    ),
    "infinity": (infinite, SMALL | {"quasi_identifiers": ["x", "y"]}),
    "too few": (lambda frame: frame.head(4), SMALL),
    "a small stratum": (same, SMALL | {"by": ["region"], "k": 40}),
    "too few persons": (same, SMALL | {"entity": "person", "k": 1000, "block_size": 3000}),
    "nobody's": (
        lambda frame: frame.assign(person=frame["person"].where(frame["id"] % 3 > 0)),
        SMALL | {"entity": "person"},
    ),
    "no value of the order": (
        same,
        SMALL | {"quasi_identifiers": ["x", "grade"], "orders": {"grade": ["low", "high"]}},
    ),
    "no leaf": (
        same,
        SMALL
        | {
            "quasi_identifiers": ["x", "place"],
            "method": "gaa_cp",
            "hierarchies": {"place": {"tree": {"*": ["Kiel", "Hof", "Bonn", "Ulm"]}}},
        },
    ),
    "no column": (same, SMALL | {"quasi_identifiers": ["x", "hight"]}),
    "two roles": (same, SMALL | {"by": ["x"]}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_match_those_of_one_machine(spark, name, tmp_path):
    change, options = REFUSED[name]
    frame = change(table(1200))
    with pytest.raises(DbanonError) as local:
        dbanon.anonymize_frame(frame, **options)
    rows = in_files(spark, frame, tmp_path)
    spark.catalog.clearCache()
    with pytest.raises(DbanonError) as raised:
        dbanon.spark.anonymize(rows, key=["id"], **options)
    assert type(raised.value) is type(local.value)
    message = str(raised.value).replace("DataFrame", "data frame")
    if name != "no leaf":  # a piece that lacks a leaf has other counts
        assert message == str(local.value)
    # Nothing is left on the executors' disks.
    assert not spark.sparkContext._jsc.getPersistentRDDs()


@pytest.mark.parametrize(
    "options",
    [
        {"standardize": "mahalanobis"},
        {"block_size": None},
        {"evaluate": True},
        {"certificate": 1.0},
        {"nulls": "merge"},
        {"method": "local_suppression"},
        {"kinds": {"x": "nominal"}},
        {"top": {"x": 90}},
        {"recode": {"x": [10, 20]}},
        {"method": "gaa_cp", "intervals": "range"},
        {"method": "individual_ranking", "guarantee": "per_attribute", "recoding": "mean"},
        {"refine": "fast", "refine_seconds": 1.0},
    ],
    ids=str,
)
def test_unsupported_options_on_spark_are_refused_with_a_hint(spark, options, tmp_path):
    rows = in_files(spark, table(600), tmp_path)
    with pytest.raises(InvalidParameter):
        dbanon.spark.anonymize(rows, key=["id"], **SMALL | options)


TWO = 'columns "X" and "x" differ in case only'


def test_columns_that_differ_in_case_only(spark, tmp_path):
    """Spark would report an ambiguous name, or not even that."""
    rows = in_files(spark, table(600), tmp_path)
    twice = rows.withColumnRenamed("y", "X")
    for options in (SMALL, SMALL | {"quasi_identifiers": ["z"], "key": ["x"]}):
        with pytest.raises(InvalidParameter, match=TWO):
            dbanon.spark.anonymize(twice, **{"key": ["id"]} | options)
    # The name of a generated bound equals that of a kept column.
    renamed = rows.withColumnRenamed("place", "X_LOW")
    bounds = SMALL | {"method": "gaa_cp", "intervals": "bounds", "keep": ["X_LOW"]}
    with pytest.raises(InvalidParameter, match='"X_LOW" and "x_low" differ'):
        dbanon.spark.anonymize(renamed, key=["id"], **bounds)
    # Neither is read.
    other = rows.withColumnRenamed("place", "Day")
    _, report = dbanon.spark.anonymize(other, key=["id"], **SMALL)
    assert report.rows_out == 600
    spark.catalog.clearCache()
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        _, report = dbanon.spark.anonymize(twice, key=["id"], keep=["X"], **SMALL)
        assert report.rows_out == 600
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
        spark.catalog.clearCache()


def test_files_whose_columns_differ_in_case_only(spark, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    source_table = pa.Table.from_pandas(table(600)[["id", "x", "y", "z"]], preserve_index=False)
    pq.write_table(source_table.rename_columns(["id", "x", "X", "z"]), folder / "0.parquet")
    with pytest.raises(InvalidParameter, match=TWO):
        dbanon.spark.anonymize_table(spark, str(folder), str(tmp_path / "out"), key=["id"], **SMALL)
    assert not (tmp_path / "out").exists()


def test_a_key_identifies_every_row(spark, tmp_path):
    frame = table(600)
    rows = in_files(spark, frame, tmp_path)
    with pytest.raises(DuplicateKeys):
        dbanon.spark.anonymize(rows, key=["z"], **SMALL)
    with pytest.raises(KeyRequired, match="of 600 rows"):
        dbanon.spark.anonymize(rows, key=["town", "id"], **SMALL)


class Broken:
    """Work that fails on a value and includes it in the error."""

    def __call__(self, rows):
        raise ValueError(f"no place for {SECRET}")


class Refusing:
    """Work that raises dbanon's own refusal."""

    def __call__(self, rows):
        raise InvalidParameter("This does not go.", hint="Leave it: `block_size`.")


def test_an_error_of_a_worker_is_data(spark, tmp_path, capfd):
    rows = in_files(spark, table(600), tmp_path)
    with pytest.raises(SparkFailed) as raised:
        collect_from(rows, Broken(), None)
    assert raised.value.message == "A piece failed on a worker; nothing was published."
    assert raised.value.detail == "ValueError"
    assert SECRET not in repr(raised.getrepr(chain=True))
    with pytest.raises(InvalidParameter) as refused:
        collect_from(rows, Refusing(), None)
    assert refused.value.hint == "Leave it: block_size."
    written = capfd.readouterr()
    assert SECRET not in written.out + written.err
