"""The Python of a PostgreSQL server: its version, its imports, and commands to set it up."""

from __future__ import annotations

import inspect
import json
import shlex
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from dbanon.doors import python_path
from dbanon.errors import InstallRefused, PythonNotUsable
from dbanon.version import version

_DIRECTORY = "/usr/local/lib/dbanon"
_OLDEST = (3, 11)

# Runs as the server's account, whose imports and file permissions are decisive. It imports nothing
# from an unsafe directory.
_PROBE = """
import json, os, sys
said = {{"python": sys.version.split()[0], "executable": sys.executable, "uid": os.geteuid()}}
scope = {{"__name__": "dbanon_probe"}}
exec({check!a}, scope)
try:
    scope["require_safe"]({paths!a}, {owners!a})
    for path in {paths!a}:
        if path not in sys.path:
            sys.path.insert(0, path)
    from dbanon.doors import plpython
    # Where the directories have none of it, it came from elsewhere.
    homes = {{os.path.dirname(module.__file__) for name, module in list(sys.modules.items())
             if name in ("dbanon", "numpy") and getattr(module, "__file__", None)}}
    scope["require_safe"](sorted(homes), {owners!a})
    said["found"] = json.loads(plpython.check(plpy, {version!a}))
except scope["UnsafeError"] as error:
    said["unsafe"] = list(error.args)
except Exception as error:
    said["error"] = type(error).__name__ + ": " + str(error)
return json.dumps(said)
"""


_VERSION = """
import sys
return "%d.%d" % sys.version_info[:2]
"""


def own_paths() -> list[str]:
    """Return the directories from which this Python imports dbanon and numpy.

    Raises
    ------
    PythonNotUsable : dbanon is an editable install, which other Pythons cannot import.
    """
    import numpy as np

    from dbanon import kernels
    from dbanon.kernels import _kernels

    modules, core = Path(kernels.__file__).parent, Path(_kernels.__file__).parent
    if modules != core:
        refused = PythonNotUsable(
            "dbanon is an editable install here, so there is no single directory from which a"
            " server can import it.",
            detail=f"Its modules are in {modules.parent}, the compiled core is in {core}.",
            hint=install_hint("3", str(modules.parents[1])),
        )
        refused.checkout = str(modules.parents[1])
        try:
            raise refused
        finally:
            del refused
    homes = [Path(_kernels.__file__).parents[2], Path(np.__file__).parents[1]]
    return list(dict.fromkeys(str(home) for home in homes))


def install_hint(python: str, source: str | None = None) -> str:
    """Return the command that installs dbanon on the server's machine.

    Parameters
    ----------
    python : the server's version, as `3.11`.
    source : a checkout or wheel file to install. By default the one that this installation came
        from, if it still exists, else a wheel file of this version in the current directory.
    """
    python_version = tuple(int(part) for part in python.split("."))
    if len(python_version) > 1 and python_version < _OLDEST:
        return (
            f"The server's Python is {python}, and dbanon needs {_OLDEST[0]}.{_OLDEST[1]} or newer:"
            " take a server whose PL/Python has that, or dbanon install --sql-only."
        )
    source = source or _installed_from()
    if source is None:
        # A shell expands the tags of the platform.
        intro, argument = f", with the wheel of dbanon {version()}", f"./dbanon-{version()}-*.whl"
    else:
        intro, argument = "", shlex.quote(source)
    return (
        f"On the server's machine run{intro}: sudo python{python} -m pip install"
        f" --target {_DIRECTORY} {argument} && dbanon install --python-path {_DIRECTORY}"
    )


def _installed_from() -> str | None:
    """Find the checkout or wheel file from which pip installed this package; None if missing."""
    try:
        record = distribution("dbanon").read_text("direct_url.json")
    except PackageNotFoundError:
        return None
    url = urlsplit(str(json.loads(record).get("url", "")) if record else "")
    path = unquote(url.path)
    return path if url.scheme == "file" and Path(path).exists() else None


def server_python_version(connection: Any) -> str:
    """Ask for the version of the server's Python, as `3.11`; leaves PL/Python in the transaction.

    Raises
    ------
    InstallRefused : the server has no PL/Python.
    """
    return str(_in_python(connection, _VERSION))


def require_python(connection: Any, paths: Sequence[str], owners: Sequence[str]) -> None:
    """Check, as the server's account, that its Python can use the package from these paths.

    Raises
    ------
    PythonNotUsable : it cannot; the hint has the command to run.
    InstallRefused : the server has no PL/Python.
    """
    check = inspect.getsource(python_path)
    body = _PROBE.format(check=check, paths=list(paths), owners=list(owners), version=version())
    probe = json.loads(_in_python(connection, body))
    if "unsafe" in probe:
        message, hint = probe["unsafe"]
        raise PythonNotUsable(message, hint=hint)
    package_check = probe.get("found", {})
    if "error" in probe or "error" in package_check:
        reason = probe.get("error") or package_check["error"]["message"]
        raise PythonNotUsable(
            f"The server's Python {probe['python']} cannot use dbanon from {', '.join(paths)}.",
            detail=f"As user {probe['uid']}: {reason}",
            hint=install_hint(".".join(probe["python"].split(".")[:2])),
        )


def _in_python(connection: Any, body: str) -> Any:
    """Run code in a temporary PL/Python function, and return its result."""
    query = "SELECT 1 FROM pg_available_extensions WHERE name = 'plpython3u'"
    if not connection.execute(query).fetchall():
        major = int(connection.execute("SHOW server_version_num").fetchall()[0][0]) // 10_000
        raise InstallRefused(
            "The server has no PL/Python (plpython3u).",
            hint=f"On Debian, run on the server's machine: sudo apt-get install"
            f" postgresql-plpython3-{major}. Or install without Python: dbanon install --sql-only.",
        )
    connection.execute("CREATE EXTENSION IF NOT EXISTS plpython3u")
    connection.execute(
        "CREATE FUNCTION pg_temp.dbanon_probe() RETURNS text LANGUAGE plpython3u"
        f" AS $dbanon_probe${body}$dbanon_probe$"
    )
    result = connection.execute("SELECT pg_temp.dbanon_probe()").fetchall()[0][0]
    connection.execute("DROP FUNCTION pg_temp.dbanon_probe()")
    return result
