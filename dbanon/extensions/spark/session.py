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
from typing import TYPE_CHECKING, Any, TypeAlias

from dbanon.errors import (
    InvalidParameter,
    MissingDependency,
    SparkFailed,
    WorkersDiffer,
    WorkersNotPrivate,
    warn_caller,
)
from dbanon.extensions.spark.tasks import translate_spark_errors
from dbanon.stores.scratch import create_locked_directory

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

# An object of the JVM, whose members py4j looks up when they are used; or Spark's context, which
# leads to such objects by attributes without public types.
JavaObject: TypeAlias = Any

CHECKED_PACKAGES = ("dbanon", "numpy", "pyarrow")
# The module that tasks run; importing it loads the compiled core.
WORKER_MODULE = "dbanon.extensions.spark.workers"
_MIN_VERSION = (4, 1)
# Longest wait for a connection to the master.
_CONNECT_SECONDS = 10.0
# Settings that a run needs, which override those of the cluster.
_REQUIRED_SETTINGS = {
    # Starting slow tasks a second time gains nothing: blocks are assigned to tasks by their size.
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
_DEFAULT_SETTINGS = {"spark.ui.showConsoleProgress": "false", "spark.io.encryption.enabled": "true"}
_LOCAL_DIR = "spark.local.dir"
# Java's default collector (G1) marks the whole heap whenever an array takes half a region, as a
# packet of rows does in its default regions, and whenever Spark's classes outgrow a small limit. On
# a busy machine it keeps so few new objects, for the sake of short pauses, that it collects all the
# time. Other collectors accept these options.
_JAVA_OPTIONS = "-XX:G1HeapRegionSize=16m -XX:MetaspaceSize=256m -XX:MaxGCPauseMillis=1000"
_EXECUTOR_JAVA_OPTIONS = "spark.executor.defaultJavaOptions"
# The setting for the number of partitions of sorts and groupings, and Spark's default. The default
# is replaced by a number that fits the rows; any other value is the caller's choice.
SHUFFLE_PARTITIONS, _DEFAULT_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions", "200"
_ROWS_PER_PARTITION = 500_000
# The most bytes and rows of a batch that Java passes to Python, and the number of bytes that Spark
# takes for no limit.
_BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_UNLIMITED_BYTES = str(2**31 - 1)
# Batches up to this size need no limit in bytes.
_SMALL_BATCH_BYTES = 1 << 26
# The bytes of a value of fixed width: at most those of a decimal.
_MAX_VALUE_BYTES = 16
# Settings that encrypt Spark's temporary files and traffic, and authenticate its processes.
PRIVACY_SETTINGS = {
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
    master : the cluster's URL in Spark's form: ``spark://host:7077``, ``yarn``, ``k8s://…`` or
        ``local[4]``.
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
            hint="Pass the existing session to anonymize_table, or stop it first.",
        )
    _require_localhost()
    _require_reachable(master)
    if master.startswith("local"):
        # Local workers are child processes, so they must use this Python.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("dbanon")
    settings = {**_DEFAULT_SETTINGS, **settings, **_REQUIRED_SETTINGS}
    try:
        with translate_spark_errors("opening a session"):
            conf_of_files = _start_java(master, settings)
            settings[_LOCAL_DIR] = _create_private_directories(conf_of_files, settings)
            settings.setdefault(
                _EXECUTOR_JAVA_OPTIONS,
                str(conf_of_files.get(_EXECUTOR_JAVA_OPTIONS, _JAVA_OPTIONS)),
            )
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


def _start_java(master: str, settings: Mapping[str, str]) -> SparkConf:
    """Start Java, which alone can read Spark's settings files, and return the settings."""
    from pyspark import SparkConf, SparkContext

    environment = dict(os.environ)
    # Java must not inherit this variable, which would override ``spark.local.dir`` of the session.
    os.environ.pop("SPARK_LOCAL_DIRS", None)
    # Options of Spark's settings follow those of this variable, and override them.
    submit_options = environment.get("SPARK_SUBMIT_OPTS", "")
    os.environ["SPARK_SUBMIT_OPTS"] = f"{_JAVA_OPTIONS} {submit_options}".strip()
    try:
        spark_conf = SparkConf(loadDefaults=False).setMaster(master).setAll(list(settings.items()))
        SparkContext._ensure_initialized(conf=spark_conf)
    finally:
        for name in ("SPARK_LOCAL_DIRS", "SPARK_SUBMIT_OPTS"):
            os.environ.pop(name, None)
            if name in environment:
                os.environ[name] = environment[name]
    return SparkConf(_jvm=SparkContext._jvm)


def _create_private_directories(conf: SparkConf, settings: Mapping[str, str]) -> str:
    """Create directories for Spark's files below the configured ones, for this account only.

    Returns them separated by commas, as the setting ``spark.local.dir`` needs them.

    Parameters
    ----------
    conf : the settings of Spark's files.
    """
    from pyspark import SparkContext

    if _LOCAL_DIR in settings:
        conf.set(_LOCAL_DIR, settings[_LOCAL_DIR])
    java: JavaObject = SparkContext._jvm
    configured = java.org.apache.spark.util.Utils.getConfiguredLocalDirs(conf._jconf)
    local_dirs = os.environ.get("SPARK_LOCAL_DIRS")
    directories = local_dirs.split(",") if local_dirs else [str(path) for path in configured]
    return ",".join(str(create_locked_directory(path)) for path in directories)


def _require_localhost() -> None:
    """Check that the name localhost resolves, as pyspark requires; minimal images may lack it."""
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
        are not checked.
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
        hint="Check that it runs, and that the settings contain its spark.authenticate.secret.",
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
        installed_version = version("pyspark")
    except PackageNotFoundError:
        raise MissingDependency.of_spark("Spark needs the package pyspark.") from None
    if tuple(int(part) for part in installed_version.split(".")[:2]) < _MIN_VERSION:
        raise MissingDependency.of_spark("Spark needs pyspark 4.1 or newer.")
    java_home = os.environ.get("JAVA_HOME")
    java = str(Path(java_home) / "bin" / "java") if java_home else shutil.which("java")
    if java is None or not os.access(java, os.X_OK):
        raise MissingDependency.of_spark("Spark needs Java.")


def _require_settings(settings: Mapping[Any, Any]) -> None:
    """Check that settings are Spark's and do not conflict with required ones."""
    for name, value in settings.items():
        if not isinstance(name, str) or not isinstance(value, str) or not name.startswith("spark."):
            raise InvalidParameter(
                "A Spark setting needs a name that begins with spark. and a text as its value."
            )
        required = _REQUIRED_SETTINGS.get(name)
        if required is not None and value != required:
            raise InvalidParameter(f"A run needs {name} {required}.", hint="Leave the setting out.")


def require_session(session: SparkSession) -> None:
    """Check that workers have the versions of this process, and that required settings are set.

    Raises
    ------
    InvalidParameter : a required setting has another value.
    WorkersDiffer : a worker has other versions, or lacks a package.
    """
    for name, required in _REQUIRED_SETTINGS.items():
        if name.startswith("spark.executorEnv."):
            continue
        if session.conf.get(name, required) != required:
            raise InvalidParameter(
                f"A run needs {name} {required}.", hint="Set it when the session is built."
            )
    messages = describe_differences(read_own_versions(), read_worker_versions(session))
    if messages:
        raise WorkersDiffer(
            "Workers have different versions than this driver, or lack a package.",
            detail="; ".join(messages) + ".",
            hint="Install the driver's versions on each worker, or ship them:"
            " docs/scale-out.md#workers.",
        )


def read_own_versions() -> dict[str, str]:
    """Return the version of each package in this process, or ``none``."""
    read_versions = _version_reader()
    # On workers, the argument is a row. It is ignored.
    return read_versions(None)


def _version_reader() -> Callable[[object], dict[str, str]]:
    """Return a function that reads the versions of a process, even if it lacks dbanon.

    The function is local, because Spark pickles local functions by value. A worker would have to
    import a function of this module.
    """
    names, worker_module = CHECKED_PACKAGES, WORKER_MODULE

    def read_versions(_: object) -> dict[str, str]:
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


def read_worker_versions(session: SparkSession) -> list[dict[str, str]]:
    """Return the different sets of versions of the workers that are available now.

    There are twice as many tasks as cores, so that each free worker gets one. Arrow is avoided,
    because a worker may lack it.
    """
    tasks = 2 * max(int(session.sparkContext.defaultParallelism), 1)
    with translate_spark_errors("reading the workers' versions"):
        # ``parallelize`` would leave a connection open if disks are encrypted; ``range`` does not.
        worker_versions = session.range(0, tasks, 1, tasks).rdd.map(_version_reader()).collect()
    return [
        dict(pairs)
        for pairs in sorted({tuple(sorted(versions.items())) for versions in worker_versions})
    ]


def describe_differences(
    driver_versions: Mapping[str, str], worker_versions: list[dict[str, str]]
) -> list[str]:
    """Describe how the versions of workers differ from those of the driver."""
    messages = {
        f"no {name} on a worker, {driver_versions[name]} here"
        if versions.get(name, "none") == "none"
        else f"{name} {versions[name]} on a worker, {driver_versions[name]} here"
        for versions in worker_versions
        for name in driver_versions
        if versions.get(name) != driver_versions[name]
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


def fit_shuffle_partitions(session: SparkSession, n_rows: int) -> None:
    """Fit the number of shuffle partitions to the rows, unless the caller configured one.

    At least one partition per core, and at most about 500,000 rows per partition.
    """
    if session.conf.get(SHUFFLE_PARTITIONS) == _DEFAULT_SHUFFLE_PARTITIONS:
        cores = max(int(session.sparkContext.defaultParallelism), 1)
        n_partitions = max(cores, -(-n_rows // _ROWS_PER_PARTITION))
        session.conf.set(SHUFFLE_PARTITIONS, str(n_partitions))


@contextmanager
def batches_of_any_size(session: SparkSession, schema: StructType) -> Iterator[None]:
    """Let Spark fill batches for Python by their number of rows alone, if no value is long.

    Java otherwise computes the size of the batch again after each row, which takes as long as
    writing the row. The block must both define and run what Python gets.

    Parameters
    ----------
    schema : the columns that Python gets. Texts and other values without a fixed width change
        nothing.
    """
    from pyspark.sql.types import BooleanType, DatetimeType, NumericType

    fixed_width = (BooleanType, DatetimeType, NumericType)
    previous = str(session.conf.get(_BATCH_BYTES))
    # 0 or less means that Spark does not limit the rows of a batch.
    batch_bytes = int(str(session.conf.get(_BATCH_ROWS))) * len(schema) * _MAX_VALUE_BYTES
    if not 0 < batch_bytes <= _SMALL_BATCH_BYTES or not all(
        isinstance(field.dataType, fixed_width) for field in schema
    ):
        yield
        return
    session.conf.set(_BATCH_BYTES, _UNLIMITED_BYTES)
    try:
        yield
    finally:
        session.conf.set(_BATCH_BYTES, previous)


def warn_unless_private(session: SparkSession) -> None:
    """Warn with ``WorkersNotPrivate`` if others could read records that Spark moves or stores."""
    missing = missing_privacy_settings(session)
    if missing:
        warn_caller(
            WorkersNotPrivate(
                "Others may read original records between workers and on their disks, where they"
                f" remain if a run is killed. Not set to true: {', '.join(missing)}."
            )
        )


def missing_privacy_settings(session: SparkSession) -> list[str]:
    """List the settings that keep records private and that this session lacks."""
    context: JavaObject = session.sparkContext
    required = dict(PRIVACY_SETTINGS)
    if str(context.master).startswith("local"):
        del required["spark.authenticate"], required["spark.network.crypto.enabled"]
    conf = context.getConf()
    return [name for name, value in required.items() if conf.get(name, "false") != value]
