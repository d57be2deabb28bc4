"""Clients that are killed at a moment of theirs, each forked from a process that has all imports.

A fresh interpreter a client would spend its time on imports. So would a forked one with the module
that its function is of: those are imported before, too.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    ["dbanon.run.run", "dbanon.run.export", "dbanon.stores.duckdb.store",
     "dbanon.stores.sqlite.store", "dbanon.stores.postgresql.store", "dbanon.ledger.migrate",
     "alembic.command", "tests.stores.test_kill", "tests.stores.test_export_kill"]
)  # fmt: skip

# Sends "moment" and waits for leave to go on, again and again, and at last "done".
Told = Callable[[Connection, dict[str, Any]], None]


@contextmanager
def client(work: Told, given: dict[str, Any]) -> Iterator[tuple[Any, Connection]]:
    mine, theirs = _CONTEXT.Pipe()
    process = _CONTEXT.Process(target=work, args=(theirs, given))
    process.start()
    theirs.close()
    try:
        yield process, mine
    finally:
        process.kill()
        process.join()
        process.close()
        mine.close()


def count_moments(work: Told, given: dict[str, Any]) -> int:
    with client(work, given) as (_, channel):
        count = 0
        while channel.recv() == "moment":
            count += 1
            channel.send(None)
    return count


def kill_at(work: Told, moment: int, given: dict[str, Any]) -> None:
    with client(work, given) as (process, channel):
        for _ in range(moment):
            assert channel.recv() == "moment"
            channel.send(None)
        assert channel.recv() == "moment"
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        assert process.exitcode == -signal.SIGKILL
