"""Runs a workbench: its server and its tasks, until a signal ends it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from dbanon.doors.jobfile.field_types import has_written_password
from dbanon.errors import InvalidParameter
from dbanon.extensions.workbench import database
from dbanon.extensions.workbench.access import Access
from dbanon.extensions.workbench.routes import Routes
from dbanon.extensions.workbench.server import HOST, Server
from dbanon.extensions.workbench.state import Workbench, WorkbenchArguments


def run_workbench(
    arguments: WorkbenchArguments, *, port: int, on_ready: Callable[[str], None]
) -> bool:
    """Answer requests until a signal arrives; return whether a task was running then.

    Parameters
    ----------
    arguments : the arguments of ``dbanon workbench``.
    port : the port to listen on; 0 for any free one.
    on_ready : called with the address to open, which contains the key.

    Raises
    ------
    InvalidParameter : the port is in use.
    DbanonError : the table does not exist, or cannot be reached.
    """
    for name, url in (("DBANON_URL", arguments.url), ("DBANON_TARGET", arguments.target)):
        if url is not None and has_written_password(url):
            # The job file contains this variable instead of the URL.
            os.environ[name] = url
    database.require_table(arguments)
    bench = Workbench(arguments)
    try:
        server = Server(port)
    except OSError:
        raise InvalidParameter(
            f"Port {port} of {HOST} is not available.",
            hint="Another program uses it. Leave out --port to get a free port, or name another"
            " one: --port NUMBER.",
        ) from None
    access = Access(server.port)
    routes = Routes(bench, access)
    server.answer = routes.answer
    server_thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True
    )
    server_thread.start()
    try:
        on_ready(access.address)
        # In a thread, because ``begin_profiling`` waits a moment for its task, which runs below.
        threading.Thread(target=routes.begin_profiling, daemon=True).start()
        bench.tasks.run()
    except KeyboardInterrupt:
        return bench.tasks.is_busy
    finally:
        server.shutdown()
        server.server_close()
    return False
