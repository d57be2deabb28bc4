"""A throw-away PostgreSQL server for tests, benchmarks and examples.

    with throwaway_server() as server:
        with server.database() as url:
            ...

`python -m tests.postgres_server` starts one and prints its URL until it is interrupted.

A server is a container when a Docker daemon answers, otherwise a cluster made with installed server
binaries, in a temporary directory, or in memory where its files need not last and there is room.
`DBANON_TEST_SERVER=local` or `=container` allows only the one. PL/Python functions import this
environment's packages, so they need a local server: `throwaway_server(kind="local")`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from typing import Literal

from tests.postgres.kinds import ContainerServer, LocalServer
from tests.postgres.server import Server as Server
from tests.postgres.tools import NoServerError as NoServerError
from tests.postgres.tools import conninfo as conninfo
from tests.postgres.tools import find_server_binaries as find_server_binaries
from tests.postgres.tools import libpq_environment as libpq_environment

Kind = Literal["local", "container"]


@contextlib.contextmanager
def throwaway_server(
    *, fsync: bool = True, settings: Mapping[str, str] | None = None, kind: Kind | None = None
) -> Iterator[Server]:
    """A new server with default settings, removed at the end of the block.

    `fsync=False` avoids disk writes, for tests but not for benchmarks: safe against `crash`, but
    not against a power failure. `settings` are those of postgresql.conf. `kind` overrides
    DBANON_TEST_SERVER.

    Raises NoServerError with the reasons if no server can be started.
    """
    server_settings = dict(settings or {})
    if not fsync:
        # Compiling a long catalog query takes .2 seconds; dbanon's sessions never compile.
        server_settings = {
            "fsync": "off",
            "full_page_writes": "off",
            "jit": "off",
            **server_settings,
        }
    server = _make_server(server_settings, kind or os.environ.get("DBANON_TEST_SERVER"))
    try:
        yield server
    finally:
        server.remove()


def _make_server(settings: Mapping[str, str], kind: str | None) -> Server:
    if kind not in (None, "", "local", "container"):
        raise ValueError(f"DBANON_TEST_SERVER is {kind!r}, not 'local' or 'container'")
    reasons = []
    for makes, name in ((ContainerServer, "container"), (LocalServer, "local")):
        if kind in (None, "", name):
            try:
                return makes(settings)
            # A failure in Docker, such as fetching the image, must not prevent a local server.
            except Exception as error:
                reasons.append(f"{name}: {error}")
    raise NoServerError("no PostgreSQL server: " + "; ".join(reasons))


def _main() -> None:
    parser = argparse.ArgumentParser(description="Run a PostgreSQL server until interrupted.")
    parser.add_argument("--no-fsync", action="store_true", help="faster, not for measurements")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    arguments = parser.parse_args()
    # SystemExit, unlike the signal's default, lets the server be removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    settings = dict(pair.split("=", 1) for pair in arguments.set)
    with (
        contextlib.suppress(KeyboardInterrupt),
        throwaway_server(fsync=not arguments.no_fsync, settings=settings) as server,
    ):
        print(server.superuser_url, flush=True)
        signal.pause()


if __name__ == "__main__":
    _main()
