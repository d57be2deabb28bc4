"""The memory and threads that this process may use, from the machine and its control groups."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

# Smallest memory limit for DuckDB. The limit does not include rows that were read from DuckDB.
MIN_DATABASE_BYTES = 32 * 2**20
# DuckDB gets one thread for each of these.
_BYTES_PER_THREAD = 64 * 2**20

# The number of worker threads if it is limited.
_thread_limit: int | None = None
# Its attribute ``is_worker`` is set in worker threads.
_thread = threading.local()


def half_of_memory() -> int:
    """Half of the memory available to this process, in bytes: the default limit of a job."""
    return available_bytes() // 2


def available_bytes(root: Path = Path("/")) -> int:
    """Return the memory available to this process: the machine's, or the limit of its cgroup.

    Parameters
    ----------
    root : the directory that contains ``proc`` and ``sys``, for tests.
    """
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    texts = _read_cgroups(root, "memory", ["memory.max", "memory.high"], ["memory.limit_in_bytes"])
    # Without a limit, files of version 2 hold "max".
    limits = [int(text) for text in texts if text.isdigit() and int(text) > 0]
    return min([physical, *limits])


def available_cores(root: Path = Path("/")) -> int:
    """Return the number of cores that this process may use: the machine's, or its cgroup's quota.

    A quota is processor time per period. A part of a core counts as one.

    Parameters
    ----------
    root : the directory that contains ``proc`` and ``sys``, for tests.
    """
    n_cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        n_cores = len(os.sched_getaffinity(0))
    texts = _read_cgroups(root, "cpu", ["cpu.max"], ["cpu.cfs_quota_us cpu.cfs_period_us"])
    quotas = [text.split() for text in texts]
    # Without a quota, version 2 has "max" and version 1 has -1.
    limits = [
        -(-int(quota[0]) // int(quota[1]))
        for quota in quotas
        if len(quota) == 2 and all(number.isdigit() and int(number) > 0 for number in quota)
    ]
    return min([n_cores, *limits])


@cache
def _cores_at_start() -> int:
    return available_cores()


def database_share(limit_bytes: int | None, n_databases: int = 1) -> int | None:
    """The part of a job's memory limit for each database that runs in this process, in bytes.

    All databases together get half of the limit. No limit stays None.
    """
    return None if limit_bytes is None else max(limit_bytes // 2 // max(n_databases, 1), 1)


def records_share(limit_bytes: int, n_databases: int) -> int:
    """The part of a job's memory limit for its records, in bytes: what databases leave of it.

    Parameters
    ----------
    n_databases : the number of databases that run in this process for the job.
    """
    return limit_bytes - limit_bytes // 2 if n_databases else limit_bytes


def worker_threads() -> int:
    """The number of threads that work started here may use.

    One per core, unless ``limit_threads`` was called. In a worker thread one, because the others
    have the cores.
    """
    if getattr(_thread, "is_worker", False):
        return 1
    return _thread_limit or _cores_at_start()


def limit_threads(n_threads: int | None) -> None:
    """Set the number of worker threads of this process; None for one per core."""
    global _thread_limit
    _thread_limit = n_threads


def start_worker_thread() -> None:
    """Initialize a worker thread of a pool.

    It starts no further threads, and blocks all signals: a server backend handles them in the main
    thread.
    """
    _thread.is_worker = True
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())


def duckdb_limit_statements(memory: int) -> list[str]:
    """Build the statements that limit the memory of DuckDB, and its threads accordingly.

    Parameters
    ----------
    memory : the limit in bytes.
    """
    memory = max(memory, MIN_DATABASE_BYTES)
    threads = max(1, min(worker_threads(), memory // _BYTES_PER_THREAD))
    return [f"SET memory_limit = '{memory}B'", f"SET threads = {threads}"]


def _read_cgroups(
    root: Path, controller: str, version_2: Sequence[str], version_1: Sequence[str]
) -> Iterator[str]:
    """Yield the settings of this process's control groups and their ancestors (v1, v2).

    Parameters
    ----------
    version_2, version_1 : names of files that may exist. The texts of files whose names are in one
        string, separated by blanks, are yielded together in the same way.
    """
    groups = root / "sys" / "fs" / "cgroup"
    try:
        lines = (root / "proc" / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        # A line is number:controllers:path. Version 2 names no controllers. Other lines get the
        # controller "none", which matches no branch below, so they are skipped.
        _, controllers, name = line.split(":", 2) if line.count(":") >= 2 else ("", "none", "")
        if not controllers:
            yield from _read_group(groups, name, version_2)
        elif controller in controllers.split(","):
            yield from _read_group(groups / controller, name, version_1)


def _read_group(mount: Path, name: str, files: Sequence[str]) -> Iterator[str]:
    """Yield the settings of a control group and its ancestors.

    Parameters
    ----------
    mount : the directory where the hierarchy of control groups is mounted.
    name : the path of the group below it.
    files : see ``_read_cgroups``.
    """
    # In a container, the name may be that of the group on the host, for which the container has no
    # directory. Its own limits are then in the mounted directory itself.
    group = mount / name.strip("/")
    for directory in (group, *group.parents):
        if not directory.is_relative_to(mount):
            return
        for names in files:
            try:
                yield " ".join((directory / file).read_text().strip() for file in names.split())
            except OSError:
                continue
