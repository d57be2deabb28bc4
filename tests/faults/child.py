"""A client of its own, to be killed: ready when everything is imported, off when told so.

Reads a line of JSON from stdin: ``{"words": […]}`` for the command line, or ``{"url", "text",
"parameters"}`` for a SQL call; prints a line ``ready``, and waits for another line. ``memory`` and
``file_size`` are limits of the process from then on, in bytes above what it has, and in bytes;
``statement_timeout`` is that of its sessions, in milliseconds.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import resource
import signal
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    given = json.loads(sys.stdin.readline())
    if "words" in given:
        import alembic.command  # noqa: F401
        import psycopg
        import sqlalchemy.dialects.postgresql.psycopg  # noqa: F401

        from dbanon.doors.cli import start
        from dbanon.doors.cli.main import main as command

        # With its library: what cannot be loaded for want of memory is not what is asked here.
        assert psycopg.pq.version()
        if "memory" in given:
            _load()
        # As the program begins: signals that come before the command has handlers of its own.
        for number in start._ENDS:
            signal.signal(number, start._end)
        _wait(given)
        command(given["words"])
    _call(given)


# Of what a command may run.
_ROOMS = ("advice", "doors/cli", "job", "ledger", "partitioning", "release", "run", "stores")


def _load() -> None:
    """Load all that a run may load when it first needs it."""
    import rich.console
    import rich.table  # noqa: F401

    import dbanon

    here = Path(dbanon.__file__).parent
    for room in _ROOMS:
        prefix = f"dbanon.{room.replace('/', '.')}."
        for module in pkgutil.walk_packages([str(here / room)], prefix):
            importlib.import_module(module.name)


def _wait(given: dict[str, Any]) -> None:
    print("ready", flush=True)
    sys.stdin.readline()
    if limit := given.get("statement_timeout"):
        os.environ["PGOPTIONS"] = f"-c statement_timeout={limit}"
    if room := given.get("memory"):
        pages = int(open("/proc/self/statm").read().split()[0])  # noqa: SIM115
        most = pages * resource.getpagesize() + room
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    if size := given.get("file_size"):
        # As on a full disk, the write fails; the signal's default would end the process.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def _call(given: dict[str, Any]) -> None:
    import psycopg
    from psycopg.types.json import Jsonb

    with psycopg.connect(given["url"], autocommit=True) as connection:
        _wait(given)
        if limit := given.get("statement_timeout"):
            connection.execute(f"SET statement_timeout = {int(limit)}".encode())
        wrapped = [Jsonb(p) if isinstance(p, dict) else p for p in given["parameters"]]
        try:
            connection.execute(given["text"], wrapped)
        except psycopg.Error as error:
            print(json.dumps({"error": {"code": None, "sqlstate": error.sqlstate}}))
            print(error, error.diag.message_detail, error.diag.context, file=sys.stderr)
            sys.exit(4)


if __name__ == "__main__":
    main()
