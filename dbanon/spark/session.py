"""Open a cluster session with the settings that a run needs, and check its workers."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbanon.errors import (
    InvalidParameter,
    MissingDependency,
    SparkFailed,
    WorkersDiffer,
    WorkersNotPrivate,
    warn_caller,
)
from dbanon.spark.tasks import translated
from dbanon.stores.scratch import create_locked_directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGES = ("dbanon", "numpy", "pyarrow")
# The module that workers run, which loads the compiled core.
WORKER_MODULE = "dbanon.spark.workers"
_MIN_VERSION = (4, 1)
# Seconds in which a running master answers.
_CONNECT_SECONDS = 10.0
# Settings that a run needs regardless of the cluster's own.
_REQUIRED = {
    # A second attempt of a task gains nothing: blocks are already packed by cost.
    "spark.speculation": "false",
    # Dates and instants must not depend on the machines' time zones.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    # Each task has one core; library threads would take those of other tasks.
    "spark.executorEnv.OMP_NUM_THREADS": "1",
    "spark.executorEnv.OPENBLAS_NUM_THREADS": "1",
    "spark.executorEnv.ARROW_NUM_THREADS": "1",
}
# Defaults that the caller may override.
_DEFAULTS = {"spark.ui.showConsoleProgress": "false", "spark.io.encryption.enabled": "true"}
_LOCAL_DIR = "spark.local.dir"
# Partitions of sorts and groupings. Spark's default is replaced by a number that fits the rows; any
# other value is the caller's choice.
SHUFFLE_PARTITIONS, _DEFAULT_PARTITIONS = "spark.sql.shuffle.partitions", "200"
_ROWS_PER_PARTITION = 500_000
# Settings that encrypt shuffled records and restrict access to them.
PRIVATE = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.io.encryption.enabled": "true",
}


def open_session(master: str, conf: Mapping[str, str] | None = None) -> SparkSession:
    """Open a session of a cluster with the required settings, and check its workers.

    The caller stops the session. Spark's own files on disk are encrypted unless ``conf`` disables
    it. They are in directories that only this account can access, one below each of
    ``spark.local.dir``.

    Parameters
    ----------
    master : in Spark's form: ``spark://host:7077``, ``yarn``, ``k8s://…`` or ``local[4]``.
    conf : Spark settings by name; they override those of Spark's files.

    Raises
    ------
    MissingDependency : pyspark, Java or the name localhost is missing.
    InvalidParameter : a setting is not Spark's, or conflicts with a required one; or this process
        already has a session.
    SparkFailed : the cluster cannot be reached; an unreachable master is reported at once.
    WorkersDiffer : a worker has other versions.
    """
    settings = dict(conf or {})
    _require_settings(settings)
    require_pyspark()
    from pyspark.sql import SparkSession

    if SparkSession.getActiveSession() is not None:
        raise InvalidParameter(
            "This process already has a Spark session, and can have only one.",
            hint="Give that one to anonymize_table, or stop it first.",
        )
    _require_localhost()
    _require_reachable(master)
    if master.startswith("local"):
        # Local workers are child processes, so they must use this Python.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("dbanon")
    settings = {**_DEFAULTS, **settings, **_REQUIRED}
    try:
        with translated("no session with the master"):
            settings[_LOCAL_DIR] = _private_directories(master, settings)
            for name, value in settings.items():
                builder = builder.config(name, value)
            session: SparkSession = builder.getOrCreate()
    except SparkFailed as error:
        _end_context()
        raise _unreachable(error.detail) from None
    try:
        require_session(session)
    except BaseException:
        session.stop()
        raise
    return session


def _private_directories(master: str, settings: Mapping[str, str]) -> str:
    """Directories for this driver's files, below the configured ones, for this account only."""
    from pyspark import SparkConf, SparkContext

    # Java prefers this variable to Spark's settings files, which only Java reads.
    local_dirs = os.environ.pop("SPARK_LOCAL_DIRS", None)
    try:
        spark_conf = SparkConf(loadDefaults=False).setMaster(master).setAll(list(settings.items()))
        SparkContext._ensure_initialized(conf=spark_conf)
    finally:
        if local_dirs is not None:
            os.environ["SPARK_LOCAL_DIRS"] = local_dirs
    java: Any = SparkContext._jvm
    conf = SparkConf(_jvm=java)
    if _LOCAL_DIR in settings:
        conf.set(_LOCAL_DIR, settings[_LOCAL_DIR])
    configured = java.org.apache.spark.util.Utils.getConfiguredLocalDirs(conf._jconf)
    directories = local_dirs.split(",") if local_dirs else [str(path) for path in configured]
    return ",".join(str(create_locked_directory(path)) for path in directories)


def _require_localhost() -> None:
    """Check that localhost resolves, where pyspark listens; minimal images may lack it."""
    try:
        socket.getaddrinfo("localhost", None)
    except OSError:
        raise MissingDependency(
            "This machine does not know the name localhost, on which pyspark listens.",
            hint="Add the line `127.0.0.1 localhost` to /etc/hosts.",
        ) from None


def _require_reachable(master: str) -> None:
    """Check that the master's port is open; Spark would retry for a minute.

    Parameters
    ----------
    master : for a standalone cluster, one or more of ``spark://host:port,host:port``; other kinds
        are left to Spark.
    """
    kind, _, addresses = master.partition("://")
    if kind != "spark":
        return
    error_name = ""
    for address in addresses.split(","):
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or int(port) >= 1 << 16:
            raise InvalidParameter(
                "A Spark master must be named by host and port.",
                hint="Write it as `spark://host:7077`.",
            )
        try:
            with socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS):
                return
        except OSError as error:
            error_name = type(error).__name__
    raise _unreachable(error_name)


def _unreachable(detail: str | None) -> SparkFailed:
    return SparkFailed(
        "The Spark master cannot be reached, or refused this driver.",
        detail=detail,
        hint="See that it runs, and that the settings have its spark.authenticate.secret.",
    )


def _end_context() -> None:
    """Stop the context of a failed session, which the next attempt would otherwise reuse."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is not None:
        with suppress(Exception):
            context.stop()
        SparkContext._active_spark_context = None


def require_pyspark() -> None:
    """Check that pyspark and Java are installed.

    Raises
    ------
    MissingDependency : one is missing.
    """
    try:
        installed = version("pyspark")
    except PackageNotFoundError:
        raise MissingDependency.of_spark("Spark needs the package pyspark.") from None
    if tuple(int(part) for part in installed.split(".")[:2]) < _MIN_VERSION:
        raise MissingDependency.of_spark("Spark needs pyspark 4.1 or newer.")
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java") if not home else str(Path(home) / "bin" / "java")
    if java is None or not os.access(java, os.X_OK):
        raise MissingDependency.of_spark("Spark needs Java.")


def _require_settings(settings: Mapping[Any, Any]) -> None:
    for name, value in settings.items():
        if not isinstance(name, str) or not isinstance(value, str) or not name.startswith("spark."):
            raise InvalidParameter(
                "A Spark setting needs a name that begins with spark. and a text as its value."
            )
        required = _REQUIRED.get(name)
        if required is not None and value != required:
            raise InvalidParameter(f"A run needs {name} {required}.", hint="Leave the setting out.")


def require_session(session: SparkSession) -> None:
    """Check that workers have this process's versions, and the session the required settings.

    Raises
    ------
    InvalidParameter : a required setting has another value.
    WorkersDiffer : a worker has other versions, or lacks a package.
    """
    for name, required in _REQUIRED.items():
        if name.startswith("spark.executorEnv."):
            continue
        if session.conf.get(name, required) != required:
            raise InvalidParameter(
                f"A run needs {name} {required}.", hint="Set it when the session is built."
            )
    differing = differences(own_versions(), versions_of_workers(session))
    if differing:
        raise WorkersDiffer(
            "Workers have different versions than this driver, or lack a package.",
            detail="; ".join(differing) + ".",
            hint="Install the same on each, or ship it: docs/scale-out.md#workers.",
        )


def own_versions() -> dict[str, str]:
    """The version of each package in this process; ``none`` if it is missing or fails to load."""
    return _version_reader()(0)


def _version_reader() -> Callable[[Any], dict[str, str]]:
    """Return a function that reads a process's versions, even without dbanon installed.

    A local function is pickled by value; a module's function would be imported on the worker.
    """
    names, worker_module = PACKAGES, WORKER_MODULE

    def read_versions(_: Any) -> dict[str, str]:
        import importlib
        import importlib.metadata
        import sys

        versions = {"python": f"{sys.version_info[0]}.{sys.version_info[1]}"}
        for name in names:
            try:
                versions[name] = importlib.metadata.version(name)
            except Exception:
                versions[name] = "none"
        try:
            importlib.import_module(worker_module)
            versions[worker_module] = "loads"
        except Exception as error:
            # The error's text may contain a path of the worker.
            versions[worker_module] = f"fails with {type(error).__name__}"
        return versions

    return read_versions


def versions_of_workers(session: SparkSession) -> list[dict[str, str]]:
    """The distinct versions of the workers that are available now.

    Twice as many tasks as cores, so that each free worker gets one. Avoids Arrow, which a worker
    may lack.
    """
    tasks = max(int(session.sparkContext.defaultParallelism), 1) * 2
    with translated("the workers' versions were asked for"):
        # Unlike range, parallelize leaves a connection open if disks are encrypted.
        worker_versions = session.range(0, tasks, 1, tasks).rdd.map(_version_reader()).collect()
    return [
        dict(pairs)
        for pairs in sorted({tuple(sorted(versions.items())) for versions in worker_versions})
    ]


def differences(
    driver_versions: Mapping[str, str], worker_versions: list[dict[str, str]]
) -> list[str]:
    """Describe how workers differ from the driver."""
    messages = {
        f"no {name} on a worker, {driver_versions[name]} here"
        if other.get(name, "none") == "none"
        else f"{name} {other[name]} on a worker, {driver_versions[name]} here"
        for other in worker_versions
        for name in driver_versions
        if other.get(name) != driver_versions[name]
    }
    return sorted(messages)


@contextmanager
def restoring_shuffle_partitions(session: SparkSession) -> Iterator[None]:
    """Restore the session's number of shuffle partitions at the end of the block."""
    previous = session.conf.get(SHUFFLE_PARTITIONS)
    try:
        yield
    finally:
        session.conf.set(SHUFFLE_PARTITIONS, str(previous))


def fit_shuffle_partitions(session: SparkSession, rows: int) -> None:
    """Fit the number of shuffle partitions to the rows, unless the caller configured one.

    At least one partition per core, and at most about 500,000 rows per partition.
    """
    if session.conf.get(SHUFFLE_PARTITIONS) == _DEFAULT_PARTITIONS:
        cores = max(int(session.sparkContext.defaultParallelism), 1)
        fitting = max(cores, -(-rows // _ROWS_PER_PARTITION))
        session.conf.set(SHUFFLE_PARTITIONS, str(fitting))


def warn_unless_private(session: SparkSession) -> None:
    """Warn with ``WorkersNotPrivate`` if others could read records that Spark moves or stores."""
    missing = not_private(session)
    if missing:
        warn_caller(
            WorkersNotPrivate(
                "Others may read original records between workers and on their disks, where they"
                f" remain if a run is killed. Not set to true: {', '.join(missing)}."
            )
        )


def not_private(session: SparkSession) -> list[str]:
    """List the settings that keep records private and that this session lacks."""
    context: Any = session.sparkContext
    required = dict(PRIVATE)
    if str(context.master).startswith("local"):
        del required["spark.authenticate"], required["spark.network.crypto.enabled"]
    conf = context.getConf()
    return [name for name, value in required.items() if conf.get(name, "false") != value]
