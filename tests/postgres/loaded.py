"""Servers whose backends are forked with Python, numpy and dbanon loaded.

The first PL/Python call of dbanon in a backend loads them, which takes a quarter of a second, ten
times as long as a call on a small table. Here the postmaster has already loaded them. Each backend
is still new, with freshly imported modules, and runs the functions' own import code. Tests of
loading are marked ``own_python``.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from pathlib import Path

from tests.postgres.connection_pool import close_idle
from tests.postgres.kinds import LocalServer
from tests.postgres.server import Server
from tests.postgres.tools import NoServerError
from tests.postgres.warm import close_warm

_SOURCE = Path(__file__).with_suffix(".c")
_SETTING = "shared_preload_libraries"

# The path is unchanged: functions add their own entries. Threads do not survive a fork.
_PRELOADED = """
import gc, sys
sys.path[:0] = {places!r}
from dbanon.doors import plpython
if {private!r}:
    from dbanon.extensions.synthesis import plpython as plpython_private
    from opendp import domains, measurements, measures, metrics, mod
del sys.path[:{count}]
gc.collect()
gc.freeze()
"""


def load(server: Server, package: Path, opendp: Path | None = None) -> None:
    """Restart the server with the package and OpenDP preloaded, unless it runs so already.

    Runs without if that is impossible. The library that loads them is put next to the package,
    where the server's account can read it.
    """
    places = [str(package_path) for package_path in (package, opendp) if package_path is not None]
    preloaded = _PRELOADED.format(places=places, private=opendp is not None, count=len(places))
    if not isinstance(server, LocalServer) or server.environment.get("PRELOADED") == preloaded:
        return
    library = package.parent / "loaded.so"
    if not library.exists() and not _compile(library):
        return
    _stop(server)
    server.settings[_SETTING] = str(library)
    server.environment = {"PRELOADED": preloaded, "OPENBLAS_NUM_THREADS": "1"}
    with contextlib.suppress(NoServerError):
        server.start()
        return
    _forget(server)
    server.start()


def unload(server: Server) -> None:
    """Restart the server without preloading; its databases and roles stay."""
    if isinstance(server, LocalServer) and server.environment:
        _stop(server)
        _forget(server)
        server.start()


def _compile(library: Path) -> bool:
    if (compiler := shutil.which("cc")) is None:
        return False
    command = [compiler, "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl"]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        return False
    library.chmod(0o755)
    return True


def _stop(server: LocalServer) -> None:
    close_idle()
    close_warm()
    server.stop()


def _forget(server: LocalServer) -> None:
    server.settings.pop(_SETTING, None)
    server.environment = {}
