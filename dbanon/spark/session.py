"""The session of a cluster: opened with what a run needs, and its workers compared with us."""

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
from dbanon.stores.scratch import held_among_others

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGES = ("dbanon", "numpy", "pyarrow")
# What workers run, the compiled core among it.
WORKS = "dbanon.spark.workers"
_LEAST = (4, 1)
# Seconds in which a master that is there has answered.
_ANSWERS = 10.0
# What a run needs whatever a cluster's own settings are.
_NEEDED = {
    # Two attempts of one task at once gain nothing: blocks are packed by what they cost.
    "spark.speculation": "false",
    # Days and instants are what they are, wherever driver and workers stand.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    # One core a task: the libraries' own threads would take those of other tasks.
    "spark.executorEnv.OMP_NUM_THREADS": "1",
    "spark.executorEnv.OPENBLAS_NUM_THREADS": "1",
    "spark.executorEnv.ARROW_NUM_THREADS": "1",
}
# What others may say.
_USUAL = {"spark.ui.showConsoleProgress": "false", "spark.io.encryption.enabled": "true"}
_LOCAL = "spark.local.dir"
# What sorts and groups of rows are cut into: Spark's own number is left for one that fits the rows,
# another one is the caller's.
SHUFFLE_PARTITIONS, _SPARKS_OWN = "spark.sql.shuffle.partitions", "200"
_ROWS_A_PARTITION = 500_000
# Where shuffled records are encrypted and kept from others, and what says so.
PRIVATE = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.io.encryption.enabled": "true",
}


def open_session(master: str, conf: Mapping[str, str] | None = None) -> SparkSession:
    """A session of a cluster, with what a run needs set, and all workers as this process is.

    Parameters
    ----------
    master : as Spark has it: ``spark://host:7077``, ``yarn``, ``k8s://…`` or ``local[4]``.
    conf : settings of Spark by name, over its own files; whoever opens it stops it. What Spark
        writes to disks is encrypted unless they say otherwise, and lies in a directory of this
        account alone below each of ``spark.local.dir``.

    Raises
    ------
    MissingDependency : pyspark, Java or the name localhost is not here.
    InvalidParameter : a setting is not Spark's, or one that a run needs otherwise; or this process
        has a session already.
    SparkFailed : the cluster cannot be reached; a master that does not answer is told of at once.
    WorkersDiffer : a worker has other versions.
    """
    settings = dict(conf or {})
    _require_settings(settings)
    require_pyspark()
    from pyspark.sql import SparkSession

    if SparkSession.getActiveSession() is not None:
        raise InvalidParameter(
            "This process has a session of Spark already, and can have one.",
            hint="Give that one to anonymize_table, or stop it first.",
        )
    _require_localhost()
    _require_answer(master)
    if master.startswith("local"):
        # Workers are this machine's: as they were not started by hand, they have this Python.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("dbanon")
    settings = {**_USUAL, **settings, **_NEEDED}
    try:
        with translated("no session with the master"):
            settings[_LOCAL] = _own_directories(master, settings)
            for name, value in settings.items():
                builder = builder.config(name, value)
            session: SparkSession = builder.getOrCreate()
    except SparkFailed as error:
        _end_context()
        raise _unreached(error.detail) from None
    try:
        require_session(session)
    except BaseException:
        session.stop()
        raise
    return session


def _own_directories(master: str, settings: Mapping[str, str]) -> str:
    """Where this driver's Java puts files: below what is set for it, for this account alone."""
    from pyspark import SparkConf, SparkContext

    # Java knows Spark's own files of settings, and it takes this variable before them.
    named = os.environ.pop("SPARK_LOCAL_DIRS", None)
    try:
        given = SparkConf(loadDefaults=False).setMaster(master).setAll(list(settings.items()))
        SparkContext._ensure_initialized(conf=given)
    finally:
        if named is not None:
            os.environ["SPARK_LOCAL_DIRS"] = named
    java: Any = SparkContext._jvm
    conf = SparkConf(_jvm=java)
    if _LOCAL in settings:
        conf.set(_LOCAL, settings[_LOCAL])
    places = java.org.apache.spark.util.Utils.getConfiguredLocalDirs(conf._jconf)
    found = named.split(",") if named else [str(place) for place in places]
    return ",".join(str(held_among_others(place)) for place in found)


def _require_localhost() -> None:
    """Check that this machine knows localhost, where pyspark listens; minimal images may not."""
    try:
        socket.getaddrinfo("localhost", None)
    except OSError:
        raise MissingDependency(
            "This machine does not know the name localhost, on which pyspark listens.",
            hint="Add the line `127.0.0.1 localhost` to /etc/hosts.",
        ) from None


def _require_answer(master: str) -> None:
    """Check that somebody listens where a master should: Spark asks for a minute before it tells.

    Parameters
    ----------
    master : of a standalone cluster, one or more of ``spark://host:port,host:port``; what others
        are is left to Spark.
    """
    kind, _, places = master.partition("://")
    if kind != "spark":
        return
    failed = ""
    for place in places.split(","):
        host, _, port = place.rpartition(":")
        if not host or not port.isdecimal() or int(port) >= 1 << 16:
            raise InvalidParameter(
                "A master of Spark is named by its host and its port.",
                hint="Write it as `spark://host:7077`.",
            )
        try:
            with socket.create_connection((host.strip("[]"), int(port)), _ANSWERS):
                return
        except OSError as error:
            failed = type(error).__name__
    raise _unreached(failed)


def _unreached(detail: str | None) -> SparkFailed:
    return SparkFailed(
        "The Spark master cannot be reached, or refused this driver.",
        detail=detail,
        hint="See that it runs, and that the settings have its spark.authenticate.secret.",
    )


def _end_context() -> None:
    """End what a session that failed was begun with: another try would be given it."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is not None:
        with suppress(Exception):
            context.stop()
        SparkContext._active_spark_context = None


def require_pyspark() -> None:
    """Check that pyspark and a Java are here.

    Raises
    ------
    MissingDependency : one is not.
    """
    try:
        found = version("pyspark")
    except PackageNotFoundError:
        raise MissingDependency.of_spark("Spark needs the package pyspark.") from None
    if tuple(int(part) for part in found.split(".")[:2]) < _LEAST:
        raise MissingDependency.of_spark("Spark needs pyspark 4.1 or newer.")
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java") if not home else str(Path(home) / "bin" / "java")
    if java is None or not os.access(java, os.X_OK):
        raise MissingDependency.of_spark("Spark needs Java.")


def _require_settings(settings: Mapping[Any, Any]) -> None:
    for name, value in settings.items():
        if not isinstance(name, str) or not isinstance(value, str) or not name.startswith("spark."):
            raise InvalidParameter(
                "A setting of Spark has a name that begins with spark. and a text as its value."
            )
        needed = _NEEDED.get(name)
        if needed is not None and value != needed:
            raise InvalidParameter(f"A run needs {name} {needed}.", hint="Leave the setting out.")


def require_session(session: SparkSession) -> None:
    """Check that a session's workers have the versions of this process, and its settings a run's.

    Raises
    ------
    InvalidParameter : a setting that a run needs is another one.
    WorkersDiffer : a worker has other versions, or lacks a package.
    """
    for name, needed in _NEEDED.items():
        if name.startswith("spark.executorEnv."):
            continue
        if session.conf.get(name, needed) != needed:
            raise InvalidParameter(
                f"A run needs {name} {needed}.", hint="Set it when the session is built."
            )
    differing = differences(versions(), versions_of_workers(session))
    if differing:
        raise WorkersDiffer(
            "Workers have other versions than this driver, or lack a package.",
            detail="; ".join(differing) + ".",
            hint="Install the same on each, or ship it: docs/scale-out.md#workers.",
        )


def versions() -> dict[str, str]:
    """The versions of this process, by package; of one that is missing or does not load, none."""
    return _asked()(0)


def _asked() -> Callable[[Any], dict[str, str]]:
    """What tells the versions of a process, with nothing of ours around it: it may have no dbanon.

    Made here, it travels as its code: the name of a function of a module would be imported.
    """
    names, loaded = PACKAGES, WORKS

    def tell(_: Any) -> dict[str, str]:
        import importlib
        import importlib.metadata
        import sys

        told = {"python": f"{sys.version_info[0]}.{sys.version_info[1]}"}
        for name in names:
            try:
                told[name] = importlib.metadata.version(name)
            except Exception:
                told[name] = "none"
        try:
            importlib.import_module(loaded)
            told[loaded] = "loads"
        except Exception as error:
            # Its words have a path of the worker's.
            told[loaded] = f"fails with {type(error).__name__}"
        return told

    return tell


def versions_of_workers(session: SparkSession) -> list[dict[str, str]]:
    """The versions that the workers have which are there now, each once.

    More tasks than there are cores: each worker that is free gets one. No Arrow is used, which a
    worker may lack.
    """
    tasks = max(int(session.sparkContext.defaultParallelism), 1) * 2
    with translated("the workers' versions were asked for"):
        # Not ``parallelize``, which leaves a connection open where disks are encrypted.
        found = session.range(0, tasks, 1, tasks).rdd.map(_asked()).collect()
    return [dict(one) for one in sorted({tuple(sorted(told.items())) for told in found})]


def differences(mine: Mapping[str, str], others: list[dict[str, str]]) -> list[str]:
    """What other processes have otherwise, in words."""
    found = {
        f"no {name} on a worker, {mine[name]} here"
        if other.get(name, "none") == "none"
        else f"{name} {other[name]} on a worker, {mine[name]} here"
        for other in others
        for name in mine
        if other.get(name) != mine[name]
    }
    return sorted(found)


@contextmanager
def own_shuffle_partitions(session: SparkSession) -> Iterator[None]:
    """Restore the session's number of shuffle partitions at the end of the block."""
    before = session.conf.get(SHUFFLE_PARTITIONS)
    try:
        yield
    finally:
        session.conf.set(SHUFFLE_PARTITIONS, str(before))


def fit_shuffle_partitions(session: SparkSession, rows: int) -> None:
    """Set the number of shuffle partitions for so many rows, unless the session names one.

    Each core has one at least, and a partition some 500,000 rows at most.
    """
    if session.conf.get(SHUFFLE_PARTITIONS) == _SPARKS_OWN:
        cores = max(int(session.sparkContext.defaultParallelism), 1)
        fitting = max(cores, -(-rows // _ROWS_A_PARTITION))
        session.conf.set(SHUFFLE_PARTITIONS, str(fitting))


def warn_unless_private(session: SparkSession) -> None:
    """Warn with ``WorkersNotPrivate`` where others may read records that Spark has on its way."""
    missing = not_private(session)
    if missing:
        warn_caller(
            WorkersNotPrivate(
                "Others may read original records between workers and on their disks, where they"
                f" stay after a run that is killed. Not set to true: {', '.join(missing)}."
            )
        )


def not_private(session: SparkSession) -> list[str]:
    """The settings that keep records private, and that this session lacks."""
    context: Any = session.sparkContext
    wanted = dict(PRIVATE)
    if str(context.master).startswith("local"):
        del wanted["spark.authenticate"], wanted["spark.network.crypto.enabled"]
    conf = context.getConf()
    return [name for name, value in wanted.items() if conf.get(name, "false") != value]
