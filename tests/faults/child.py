"""A client process that a test can kill: prints ``ready`` after its imports, then waits.

Reads a line of JSON from stdin: ``{"words": […]}`` for the command line, or ``{"url", "text",
"parameters"}`` for a SQL call. It starts at the next line. ``memory`` and ``file_size`` are limits
of the process from then on, in bytes above the current size, and in bytes; ``statement_timeout``
applies to its sessions, in milliseconds.
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
    order = json.loads(sys.stdin.readline())
    if "words" in order:
        import alembic.command  # noqa: F401
        import psycopg
        import sqlalchemy.dialects.postgresql.psycopg  # noqa: F401

        from dbanon.doors.cli import start
        from dbanon.doors.cli.main import main as command

        # Import the library first: failing to load it for lack of memory is not tested here.
        assert psycopg.pq.version()
        if "memory" in order:
            _load()
        # The state at program start: signals may arrive before the command installs its handlers.
        for number in start._EXIT_SIGNALS:
            signal.signal(number, start._exit_on_signal)
        _wait(order)
        command(order["words"])
    _call(order)


# Only modules that the command may import.
_ROOMS = (
    "advice",
    "doors/cli",
    "job",
    "ledger",
    "methods",
    "partitioning",
    "release",
    "run",
    "spaces",
    "stores",
)


def _load() -> None:
    """Import everything that a run imports lazily."""
    import rich.console
    import rich.table  # noqa: F401

    import dbanon

    package = Path(dbanon.__file__).parent
    for room in _ROOMS:
        prefix = f"dbanon.{room.replace('/', '.')}."
        for module in pkgutil.walk_packages([str(package / room)], prefix):
            importlib.import_module(module.name)


def _wait(order: dict[str, Any]) -> None:
    print("ready", flush=True)
    sys.stdin.readline()
    if limit := order.get("statement_timeout"):
        os.environ["PGOPTIONS"] = f"-c statement_timeout={limit}"
    if room := order.get("memory"):
        pages = int(open("/proc/self/statm").read().split()[0])  # noqa: SIM115
        most = pages * resource.getpagesize() + room
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    if size := order.get("file_size"):
        # Let the write fail as on a full disk; the default action would kill the process.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def _call(order: dict[str, Any]) -> None:
    import psycopg
    from psycopg.types.json import Jsonb

    with psycopg.connect(order["url"], autocommit=True) as connection:
        _wait(order)
        if limit := order.get("statement_timeout"):
            connection.execute(f"SET statement_timeout = {int(limit)}".encode())
        wrapped = [Jsonb(p) if isinstance(p, dict) else p for p in order["parameters"]]
        try:
            connection.execute(order["text"], wrapped)
        except psycopg.Error as error:
            print(json.dumps({"error": {"code": None, "sqlstate": error.sqlstate}}))
            print(error, error.diag.message_detail, error.diag.context, file=sys.stderr)
            sys.exit(4)


if __name__ == "__main__":
    main()
