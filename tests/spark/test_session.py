"""Cluster sessions report missing or different software before anything is read."""

from __future__ import annotations

import os
import re
import socket
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dbanon.errors import (
    InvalidParameter,
    MissingDependency,
    SparkFailed,
    WorkersDiffer,
    WorkersNotPrivate,
)
from dbanon.extensions.spark import session as own_settings
from dbanon.extensions.spark.layout import MAX_PACKET_BYTES
from dbanon.extensions.spark.session import (
    batches_of_any_size,
    describe_differences,
    fit_shuffle_partitions,
    missing_privacy_settings,
    open_session,
    read_own_versions,
    read_worker_versions,
    require_session,
    restoring_shuffle_partitions,
    warn_unless_private,
)
from dbanon.spark import anonymize
from dbanon.stores.scratch import clear_abandoned_directories
from tests.spark.cluster import PAUSE, SMALL, Cluster, free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_without_java_or_pyspark_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingDependency, match="needs Java") as caught:
        open_session("local[1]")
    assert "pip install 'pyspark>=4.1,<5'" in str(caught.value)

    def none(name: str) -> str:
        raise own_settings.PackageNotFoundError(name)

    monkeypatch.setattr(own_settings, "version", none)
    with pytest.raises(MissingDependency, match="pyspark") as caught:
        open_session("local[1]")
    assert "pip install 'pyspark>=4.1,<5'" in str(caught.value)
    monkeypatch.setattr(own_settings, "version", lambda name: "3.5.1")
    with pytest.raises(MissingDependency, match="or newer"):
        open_session("local[1]")


@pytest.mark.parametrize(
    "conf", [{"master": "x"}, {"spark.speculation": "true"}, {"spark.cores.max": 2}]
)
def test_an_unknown_setting(conf: dict[str, str]) -> None:
    with pytest.raises(InvalidParameter):
        open_session("local[1]", conf)


def test_without_localhost_the_error_has_the_line_to_add(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(MissingDependency, match="localhost") as refused:
        own_settings._require_localhost()
    assert "/etc/hosts" in str(refused.value.hint)


def test_workers_have_our_versions(spark: SparkSession) -> None:
    assert read_worker_versions(spark) == [read_own_versions()]
    require_session(spark)
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_each_difference_is_reported() -> None:
    mine = {"python": "3.11", "numpy": "2.3.1"}
    assert describe_differences(mine, [dict(mine), dict(mine)]) == []
    messages = describe_differences(
        mine, [dict(mine), {"python": "3.12", "numpy": "2.3.1"}, {"numpy": "2"}]
    )
    assert messages == [
        "no python on a worker, 3.11 here",
        "numpy 2 on a worker, 2.3.1 here",
        "python 3.12 on a worker, 3.11 here",
    ]


def test_a_session_with_another_setting_is_refused(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        with pytest.raises(InvalidParameter, match="timeZone"):
            require_session(spark)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_our_session_does_not_leak_records(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks are encrypted, in a directory of this account only; otherwise the caller gets a
    warning.
    """
    assert missing_privacy_settings(spark) == []
    local_dir = Path(spark.sparkContext.getConf().get("spark.local.dir", ""))
    assert re.fullmatch(r"dbanon-spark-[0-9a-f]{32}", local_dir.name)
    assert local_dir.stat().st_mode & 0o777 == 0o700
    assert list(local_dir.glob("blockmgr-*"))
    assert clear_abandoned_directories(str(local_dir.parent)) == []
    warn_unless_private(spark)
    monkeypatch.setitem(
        own_settings.PRIVACY_SETTINGS, "spark.io.encryption.enabled", "of the caller"
    )
    frame = spark.range(100).withColumnRenamed("id", "age")
    with pytest.warns(WorkersNotPrivate, match=r"io\.encryption") as caught:
        anonymize(frame, quasi_identifiers=["age"], k=5)
    assert [Path(caught_warning.filename) for caught_warning in caught] == [Path(__file__)]


def test_packets_fit_into_regions_of_the_heap(spark: SparkSession) -> None:
    java: Any = spark.sparkContext._jvm
    arguments = java.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
    options = own_settings._JAVA_OPTIONS.split()
    assert set(options) <= set(arguments)
    executor_options = spark.sparkContext.getConf().get("spark.executor.defaultJavaOptions", "")
    assert executor_options == own_settings._JAVA_OPTIONS
    region_bytes = int(options[0].removeprefix("-XX:G1HeapRegionSize=")[:-1]) << 20
    assert region_bytes // 2 > MAX_PACKET_BYTES
    assert own_settings._JAVA_OPTIONS not in os.environ.get("SPARK_SUBMIT_OPTS", "")


def test_java_options_of_callers_override_those_of_dbanon(spark: SparkSession) -> None:
    java: Any = spark.sparkContext._jvm
    name, _, value = PAUSE.removeprefix("-XX:").partition("=")
    assert name in own_settings._JAVA_OPTIONS
    assert PAUSE not in own_settings._JAVA_OPTIONS.split()
    bean = java.java.lang.management.ManagementFactory.getPlatformMXBean(
        java.java.lang.Class.forName("com.sun.management.HotSpotDiagnosticMXBean")
    )
    assert bean.getVMOption(name).getValue() == value


def test_a_cluster_that_keeps_records_private(on_cluster: SparkSession, cluster: Cluster) -> None:
    assert missing_privacy_settings(on_cluster) == []
    assert len(cluster.executors()) == 2
    assert cluster.secret not in cluster.logs()


def test_a_cluster_that_does_not_is_warned_of(
    on_cluster: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    warn_unless_private(on_cluster)
    monkeypatch.setitem(own_settings.PRIVACY_SETTINGS, "spark.ssl.enabled", "true")
    with pytest.warns(WorkersNotPrivate, match=r"spark\.ssl\.enabled"):
        warn_unless_private(on_cluster)


def test_there_is_one_session(spark: SparkSession) -> None:
    with pytest.raises(InvalidParameter, match="already has a Spark session"):
        open_session("local[1]")


def test_a_missing_master(sessions: Any) -> None:
    sessions.stop()
    conf = SMALL | {"spark.driver.host": "127.0.0.1"}
    with pytest.raises(SparkFailed, match="cannot be reached") as caught:
        open_session(f"spark://127.0.0.1:{free_port()},127.0.0.1:{free_port()}", conf)
    assert caught.value.exit_code == 4
    assert caught.value.detail == "ConnectionRefusedError"
    # So that a job that retries may find the master.
    again = open_session("local[1]", conf)
    try:
        assert again.range(3).count() == 3
    finally:
        again.stop()


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.1:here", ":7077", "127.0.0.1:70000"])
def test_a_master_without_host_or_port(address: str, sessions: Any) -> None:
    sessions.stop()
    with pytest.raises(InvalidParameter, match="by host and port"):
        open_session(f"spark://{address}")


def test_one_of_several_masters_has_to_answer(cluster: Cluster) -> None:
    """Other kinds of masters are for Spark to check."""
    own_settings._require_reachable(f"spark://127.0.0.1:{free_port()},127.0.0.1:{cluster.port}")
    own_settings._require_reachable("yarn")
    own_settings._require_reachable("k8s://https://127.0.0.1:1")


def test_another_version_on_the_workers(
    on_cluster: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver_versions = read_own_versions()
    monkeypatch.setattr(
        own_settings, "read_own_versions", lambda: driver_versions | {"numpy": "1.0"}
    )
    with pytest.raises(WorkersDiffer) as caught:
        require_session(on_cluster)
    assert f"numpy {driver_versions['numpy']} on a worker, 1.0 here" in str(caught.value)


def test_shuffle_partitions_fit_the_rows_unless_the_session_names_them(
    spark: SparkSession,
) -> None:
    name = "spark.sql.shuffle.partitions"
    frame = spark.range(0, 400, 1, 2).selectExpr("id", "id % 90 AS z")
    options: dict[str, Any] = {"quasi_identifiers": ["z"], "k": 5, "key": ["id"]}
    seen = []

    def number(text: str) -> int:
        spark.conf.set(name, text)
        with restoring_shuffle_partitions(spark):
            fit_shuffle_partitions(spark, 1_200_000)
            seen.append(spark.conf.get(name))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            anonymize(frame, **options)
        spark.catalog.clearCache()
        return int(str(spark.conf.get(name)))

    before = str(spark.conf.get(name))
    try:
        # Two threads are two cores; a number that Spark does not set comes from the session.
        assert [number("200"), number("7")] == [200, 7]
        assert seen == ["3", "7"]
    finally:
        spark.conf.set(name, before)


@pytest.mark.parametrize(
    ("columns", "batch_rows", "expected"),
    [
        (
            "k bigint, q double, d date, t timestamp, n decimal(38, 2), b boolean",
            None,
            "2147483647",
        ),
        ("k bigint, note string", None, "same"),
        ("k bigint, points array<double>", None, "same"),
        ("k bigint", "0", "same"),
        ("k bigint", "50000000", "same"),
    ],
)
def test_batches_have_no_limit_of_bytes_if_no_value_is_long(
    spark: SparkSession, columns: str, batch_rows: str | None, expected: str
) -> None:
    from pyspark.sql.types import StructType

    bytes_name = "spark.sql.execution.arrow.maxBytesPerBatch"
    rows_name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    schema = StructType.fromDDL(columns)
    before = spark.conf.get(bytes_name), spark.conf.get(rows_name)
    expected = str(before[0]) if expected == "same" else expected
    if batch_rows is not None:
        spark.conf.set(rows_name, batch_rows)
    try:
        with batches_of_any_size(spark, schema):
            # Spark shows bytes with a unit.
            assert spark.conf.get(bytes_name) in (expected, f"{expected}b")
        assert spark.conf.get(bytes_name) == before[0]
    finally:
        spark.conf.set(rows_name, str(before[1]))
