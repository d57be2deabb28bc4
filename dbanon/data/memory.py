"""The memory and threads that this process may use, from the machine and its control groups."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
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
    return min([physical, *_cgroup_limits(root)])


def database_share(limit_bytes: int | None, n_databases: int = 1) -> int | None:
    """The part of a job's memory limit for each database that is opened for it, in bytes.

    All databases together get half of the limit. No limit stays None.
    """
    return None if limit_bytes is None else limit_bytes // 2 // max(n_databases, 1)


def worker_threads() -> int:
    """The number of threads that work started here may use.

    One per core, unless ``limit_threads`` was called. In a worker thread one, because the others
    have the cores.
    """
    if getattr(_thread, "is_worker", False):
        return 1
    return _thread_limit or os.cpu_count() or 1


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


def _cgroup_limits(root: Path) -> Iterator[int]:
    """Yield the limits, in bytes, of this process's control groups and their ancestors (v1, v2)."""
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
            yield from _read_limits(groups, name, ("memory.max", "memory.high"))
        elif "memory" in controllers.split(","):
            yield from _read_limits(groups / "memory", name, ("memory.limit_in_bytes",))


def _read_limits(mount: Path, name: str, files: tuple[str, ...]) -> Iterator[int]:
    """Yield the limits, in bytes, of a control group and its ancestors.

    Parameters
    ----------
    mount : the directory where the hierarchy of control groups is mounted.
    name : the path of the group below it.
    files : names of files that may contain a limit.
    """
    # In a container, the name may be that of the group on the host, for which the container has no
    # directory. Its own limits are then in the mounted directory itself.
    group = mount / name.strip("/")
    for directory in (group, *group.parents):
        if not directory.is_relative_to(mount):
            return
        for file in files:
            try:
                text = (directory / file).read_text().strip()
            except OSError:
                continue
            # Without a limit, files of version 2 hold "max".
            if text.isdigit() and int(text) > 0:
                yield int(text)
