"""pgbouncer in front of a server, as Debian packages it."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import make_url

from tests.postgres.server import SUPERUSER, Server
from tests.postgres.tools import UNPACKED, NoServerError, free_port, server_account


@contextlib.contextmanager
def pgbouncer(
    server: Server, mode: str = "transaction", size: int = 2, **more: object
) -> Iterator[int]:
    """The port of a pgbouncer with so many connections to the server; others wait for one.

    Parameters
    ----------
    more : settings of pgbouncer.ini.

    Raises
    ------
    NoServerError : there is none here.
    """
    folders = os.pathsep.join(
        [os.environ.get("PATH", os.defpath), "/usr/sbin", str(UNPACKED / "usr/sbin")]
    )
    program = shutil.which("pgbouncer", path=folders)
    if program is None:
        raise NoServerError("no pgbouncer; on Debian: apt-get install pgbouncer")
    folder = Path(tempfile.mkdtemp(prefix="dbanon-pgbouncer-"))
    port = free_port()
    settings = {
        "listen_addr": "127.0.0.1",
        "listen_port": port,
        "auth_type": "any",
        "unix_socket_dir": "",
        "pool_mode": mode,
        "default_pool_size": size,
        "min_pool_size": size,
        "max_client_conn": 100,
        "ignore_startup_parameters": "extra_float_digits",
        "server_round_robin": 1,
        **more,
    }
    # Several are used in turn: a client's next transaction does not see what the last one left.
    server_of = f"host={server.host} port={server.port} user={SUPERUSER} password={server.password}"
    lines = ["[databases]", f"* = {server_of}", "[pgbouncer]"]
    (folder / "pgbouncer.ini").write_text(
        "\n".join([*lines, *(f"{name} = {value}" for name, value in settings.items()), ""])
    )
    command = [program, "-q", str(folder / "pgbouncer.ini")]
    if account := server_account():
        shutil.chown(folder, account)
        shutil.chown(folder / "pgbouncer.ini", account)
        command[1:1] = ["-u", account]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        _wait_for(port, process, folder / "log")
        yield port
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def through(url: str, port: int) -> str:
    """A URL of the server through the pooler."""
    return make_url(url).set(host="127.0.0.1", port=port).render_as_string(hide_password=False)


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 30
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        if process.poll() is not None or time.monotonic() > deadline:
            raise NoServerError(f"pgbouncer did not start: {log.read_text()[-500:]}")
        time.sleep(0.02)
