"""Servers whose backends begin with Python, numpy and dbanon loaded, as they are forked.

A backend that first calls a function of dbanon's in PL/Python loads them, which takes it a quarter
of a second: ten times as long as the call of a small table. Here the server's first process has
done it. Each backend is a new one all the same, with modules as they are when just imported, and
runs what the functions do to import them. Tests of that are marked ``own_python``.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from pathlib import Path

from tests.postgres.kept import close_kept
from tests.postgres.kinds import LocalServer
from tests.postgres.server import Server
from tests.postgres.tools import NoServerError
from tests.postgres.warm import close_warm

_SOURCE = Path(__file__).with_suffix(".c")
_SETTING = "shared_preload_libraries"

# The path is as it was: functions put theirs there themselves. Threads do not outlive a fork.
_PRELOADED = """
import gc, sys
sys.path.insert(0, {package!r})
from dbanon.doors import plpython
sys.path.remove({package!r})
gc.collect()
gc.freeze()
"""


def load(server: Server, package: Path) -> None:
    """Start the server again, with the package loaded; without, where it cannot be.

    The library that loads it goes beside the package, where the server's account may look.
    """
    if not isinstance(server, LocalServer) or is_loaded(server):
        return
    library = package.parent / "loaded.so"
    compiler = shutil.which("cc")
    if not library.exists():
        if compiler is None:
            return
        command = [compiler, "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl"]
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            return
        library.chmod(0o755)
    _stop(server)
    server.settings[_SETTING] = str(library)
    server.environment = {
        "PRELOADED": _PRELOADED.format(package=str(package)),
        "OPENBLAS_NUM_THREADS": "1",
    }
    with contextlib.suppress(NoServerError):
        server.start()
        return
    _forget(server)
    server.start()


def unload(server: Server) -> None:
    """Start the server again as any other; its databases and roles stay."""
    if isinstance(server, LocalServer) and is_loaded(server):
        _stop(server)
        _forget(server)
        server.start()


def is_loaded(server: LocalServer) -> bool:
    """Whether `load` did it."""
    return _SETTING in server.settings


def _stop(server: LocalServer) -> None:
    close_kept()
    close_warm()
    server.stop()


def _forget(server: LocalServer) -> None:
    del server.settings[_SETTING]
    server.environment = {}
