from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any

import pytest

from tests.prerequisites import skip_or_fail
from tests.spark.cluster import SMALL, Cluster, NoSparkError, descendants, end, require_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NEEDS_SPARK = {"spark", "cluster", "on_cluster", "sessions"}
LOCAL = "local[2]"
# The Python workers of this process's sessions are forks of tests/spark/daemon.py.
FORKED = {"spark.python.daemon.module": "tests.spark.daemon"}
FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if set(getattr(item, "fixturenames", ())) & _NEEDS_SPARK:
            item.add_marker("spark")
    # Each change of session costs a Java process. To keep them few, all Spark tests are adjacent in
    # the list, and those of one session follow each other.
    spark_indices = [number for number, item in enumerate(items) if item.path.parent == FOLDER]
    ordered = sorted((items[number] for number in spark_indices), key=_session_of)
    for number, item in zip(spark_indices, ordered, strict=True):
        items[number] = item


def _session_of(item: pytest.Item) -> tuple[int, bool]:
    """First tests with this process's session, then without, then the cluster's; last those that
    kill parts of it.
    """
    fixtures = set(getattr(item, "fixturenames", ()))
    if "on_cluster" in fixtures:
        return 2, item.get_closest_marker("slow") is not None
    if "cluster" in fixtures:
        return 3, False
    if "spark" in fixtures or "sessions" not in fixtures:
        return 0, False
    # Of these the slow ones end this process's Java, and start their own drivers.
    return 1, item.get_closest_marker("slow") is not None


class Sessions:
    """The single session that a process can have: a session for another master replaces it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._master = ""
        self._session: SparkSession | None = None

    def of(self, master: str, conf: dict[str, str]) -> SparkSession:
        """The session for a master, reused if it is the current one."""
        from dbanon.extensions.spark.session import open_session

        if self._session is not None and self._master == master:
            return self._session
        # Including its Java process: a stopped context leaves settings and threads there.
        self.end()
        driver_settings = SMALL | {
            "spark.local.dir": str(self._folder),
            "spark.sql.warehouse.dir": str(self._folder / "warehouse"),
        }
        self._session = open_session(master, driver_settings | conf)
        self._master = master
        return self._session

    def stop(self) -> None:
        """End the session; the Java process stays for the next one."""
        if self._session is not None:
            self._session.stop()
            self._session = None

    def end(self) -> None:
        """End the session and its Java process."""
        from pyspark import SparkContext

        self.stop()
        gateway = SparkContext._gateway
        if gateway is not None:
            java = gateway.proc
            below = descendants(java.pid)
            gateway.shutdown()
            SparkContext._gateway = SparkContext._jvm = None
            with suppress(Exception):
                java.stdin.close()
            java.wait(30)
            for pid in below:
                end(pid)


@pytest.fixture(scope="session")
def _folder() -> Iterator[Path]:
    # Short: Spark appends long names.
    folder = Path(tempfile.mkdtemp(prefix="dbanon-spark-"))
    try:
        yield folder
    finally:
        rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def sessions(_folder: Path) -> Iterator[Sessions]:
    try:
        require_spark()
    except NoSparkError as error:
        skip_or_fail(str(error))
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # For the cluster's workers, too, which may have another python3.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    (_folder / "driver").mkdir()
    open_sessions = Sessions(_folder / "driver")
    yield open_sessions
    open_sessions.end()


@pytest.fixture
def spark(sessions: Sessions) -> SparkSession:
    """A session with two threads of this process, shared by all tests."""
    return sessions.of(LOCAL, {"spark.driver.memory": "1g"} | FORKED)


@pytest.fixture(scope="session")
def cluster(sessions: Sessions, _folder: Path) -> Iterator[Cluster]:
    """A master and two workers for separate drivers; started on first use."""
    folder = _folder / "cluster"
    folder.mkdir()
    running_cluster = Cluster(folder)
    try:
        running_cluster.start()
        yield running_cluster
    finally:
        running_cluster.stop()


@pytest.fixture
def on_cluster(sessions: Sessions, cluster: Cluster) -> SparkSession:
    """A session of this process on the cluster, shared by all tests."""
    return sessions.of(cluster.master, cluster.conf | FORKED)


@pytest.fixture
def rows_of() -> Callable[[Any], list[tuple[Any, ...]]]:
    """The rows of a DataFrame, as sorted plain tuples."""
    return lambda frame: sorted((tuple(row) for row in frame.collect()), key=repr)
