"""Servers whose backends are forked with Python, numpy and dbanon imported.

A backend's first call of a function of dbanon takes .27 CPU seconds, .24 of which are imports, and
most tests of SQL begin one or more. Tests of how a backend comes to its Python are marked
``own_python``: they have a server as others run it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.postgres.tools import NoServerError, find_server_binaries

_SOURCE = Path(__file__).with_suffix(".c")
_IMPORTS = """
import gc, os, sys
# Threads do not outlive a fork.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.path.insert(0, {package!r})
import dbanon.doors.plpython
# A function looks for its modules where it was installed for, as ever.
sys.path.remove({package!r})
del os.environ["OPENBLAS_NUM_THREADS"]
# Looking for garbage in all of this would copy it into each backend.
gc.collect()
gc.freeze()
"""


def forked_python(folder: Path, package: Path) -> Mapping[str, str]:
    """The environment of such a server; empty where there is no compiler or no PL/Python.

    Parameters
    ----------
    folder : a directory that the server's account may read, for a library.
    package : where the server finds numpy and dbanon.
    """
    compiler = shutil.which("cc")
    python = _library_of_plpython()
    if compiler is None or python is None:
        return {}
    made = folder / "forked_python.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", made, _SOURCE, "-ldl"],
        check=True,
        capture_output=True,
        stdin=subprocess.DEVNULL,
    )
    made.chmod(0o755)
    return {
        "LD_PRELOAD": str(made),
        "DBANON_TEST_LIBPYTHON": python,
        "DBANON_TEST_IMPORTS": _IMPORTS.format(package=str(package)),
    }


def _library_of_plpython() -> str | None:
    """What PL/Python is linked with, on Linux."""
    ldd = shutil.which("ldd")
    try:
        prefix = find_server_binaries().parent
    except NoServerError:
        return None
    found = [*prefix.glob("lib/**/plpython3.so")]
    if ldd is None or not found:
        return None
    told = subprocess.run(
        [ldd, found[0]], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    ).stdout
    linked = re.search(r"=> (\S*libpython3\S+)", told)
    return linked[1] if linked else None
