"""Clients and commands to be killed, each forked from a process that has imported everything.

A fresh interpreter per client would spend its time on imports. So would a fork without the module
of its function, so those modules are imported beforehand, too.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.stores import kept_duckdb

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "dbanon.run.run",
        "dbanon.run.export",
        "dbanon.stores.duckdb.store",
        "dbanon.stores.sqlite.store",
        "dbanon.stores.postgresql.store",
        "dbanon.ledger.migrate",
        "alembic.command",
        "sqlalchemy.dialects.sqlite",
        "sqlalchemy.dialects.postgresql",
        "pyarrow.pandas_compat",
        "dbanon.doors.python",
        "dbanon.doors.dispatch",
        "dbanon.run.run_with_ledger",
        "dbanon.run.rules",
        "dbanon.doors.cli.main",
        "dbanon.doors.cli.run",
        "dbanon.doors.cli.jobs",
        "dbanon.doors.jobfile.models",
        "tests.stores.test_kill",
        "tests.stores.test_export_kill",
    ]
)

# Sends "moment" and waits for leave to go on, again and again, and at last "done".
Work = Callable[[Connection, dict[str, Any]], None]


@contextmanager
def client(work: Work, options: dict[str, Any]) -> Iterator[tuple[Any, Connection]]:
    mine, theirs = _CONTEXT.Pipe()
    process = _CONTEXT.Process(target=work, args=(theirs, options))
    process.start()
    theirs.close()
    try:
        yield process, mine
    finally:
        process.kill()
        process.join()
        process.close()
        mine.close()
        # DuckDB files are this process's again.
        if not multiprocessing.active_children():
            kept_duckdb.keep_files()


def count_moments(work: Work, options: dict[str, Any]) -> int:
    with client(work, options) as (_, channel):
        count = 0
        while channel.recv() == "moment":
            count += 1
            channel.send(None)
    return count


def kill_at(work: Work, moment: int, options: dict[str, Any]) -> None:
    with client(work, options) as (process, channel):
        for _ in range(moment):
            assert channel.recv() == "moment"
            channel.send(None)
        assert channel.recv() == "moment"
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        assert process.exitcode == -signal.SIGKILL


class Command:
    """A script in a forked process, with the interface of `subprocess.Popen` and pipes for text.

    Parameters

    ----------

    script, words : the script and its arguments, as for ``python -c``, run in the current
    directory.

    env : the environment.
    """

    def __init__(self, script: str, *words: str, env: Mapping[str, str]) -> None:
        pipes = [_CONTEXT.Pipe(duplex=False) for _ in range(2)]
        ends = [writing for _, writing in pipes]
        self._process = _CONTEXT.Process(
            target=_run, args=(*ends, script, words, dict(env), str(Path.cwd()))
        )
        self._process.start()
        for end in ends:
            end.close()
        self.stdout, self.stderr = (
            os.fdopen(os.dup(reading.fileno()), encoding="utf-8") for reading, _ in pipes
        )
        for reading, _ in pipes:
            reading.close()

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    poll = returncode.fget  # type: ignore[attr-defined]

    def send_signal(self, number: int) -> None:
        pid = self._process.pid
        if pid is not None and self.returncode is None:
            os.kill(pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """All that it printed, and what it said to stderr, once it has ended.

        Raises TimeoutError where it has not.
        """
        with ThreadPoolExecutor(2) as both:
            outputs = [both.submit(end.read) for end in (self.stdout, self.stderr)]
            self._process.join(timeout)
            late = self.returncode is None
            if late:
                self.kill()
        if late:
            raise TimeoutError(f"It runs on after {timeout} s: {outputs[1].result()}")
        self.stdout.close()
        self.stderr.close()
        return outputs[0].result(), outputs[1].result()

    def __enter__(self) -> Command:
        return self

    def __exit__(self, *raised: object) -> None:
        self.kill()
        self._process.join()
        self.stdout.close()
        self.stderr.close()


def _run(
    out: Connection,
    err: Connection,
    script: str,
    words: Sequence[str],
    env: dict[str, str],
    folder: str,
) -> None:
    for number, end in ((1, out), (2, err)):
        os.dup2(end.fileno(), number)
        end.close()
    os.environ.clear()
    os.environ.update(env)
    os.chdir(folder)
    sys.argv = ["-c", *words]
    exec(compile(script, "<string>", "exec"), {"__name__": "__main__"})
