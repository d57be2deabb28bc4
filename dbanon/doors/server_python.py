"""The Python of a PostgreSQL server: its version, its imports, and commands to set it up."""

from __future__ import annotations

import inspect
import json
import shlex
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from dbanon.data.types import SqlRow
from dbanon.doors import python_path
from dbanon.errors import InstallRefused, PythonNotUsable
from dbanon.version import version

if TYPE_CHECKING:
    from psycopg import Connection

# Directory into which hints install dbanon on the server's machine.
_INSTALL_DIRECTORY = "/usr/local/lib/dbanon"
_MIN_PYTHON = (3, 11)

# Body of a PL/Python function that tests the package on the server, with the imports and the file
# permissions of the server's account. It imports nothing from an unsafe directory.
_PROBE_BODY = """
import json, os, sys
result = {{"python": sys.version.split()[0], "executable": sys.executable, "uid": os.geteuid()}}
scope = {{"__name__": "dbanon_probe"}}
exec({checker_source!a}, scope)
try:
    scope["require_safe"]({paths!a}, {owners!a})
    for path in {paths!a}:
        if path not in sys.path:
            sys.path.insert(0, path)
    from dbanon.doors import plpython
    # A package that is not in these directories was imported from another one: check that, too.
    directories = {{os.path.dirname(module.__file__) for name, module in list(sys.modules.items())
             if name in ("dbanon", "numpy") and getattr(module, "__file__", None)}}
    scope["require_safe"](sorted(directories), {owners!a})
    result["check"] = json.loads(plpython.check(plpy, {version!a}))
except scope["UnsafeError"] as error:
    result["unsafe"] = list(error.args)
except Exception as error:
    result["error"] = type(error).__name__ + ": " + str(error)
return json.dumps(result)
"""


# Body of a PL/Python function that returns the version of the server's Python.
_VERSION_BODY = """
import sys
return "%d.%d" % sys.version_info[:2]
"""


def find_import_paths() -> list[str]:
    """Return the directories from which this Python imports dbanon and numpy.

    Raises
    ------
    PythonNotUsable : dbanon is an editable install, which other Pythons cannot import.
    """
    import numpy as np

    from dbanon import kernels
    from dbanon.kernels import _kernels

    module_directory = Path(kernels.__file__).parent
    core_directory = Path(_kernels.__file__).parent
    # An editable install has its modules in the checkout, and the compiled core elsewhere.
    if module_directory != core_directory:
        error = PythonNotUsable(
            "dbanon is an editable install here, so there is no single directory from which a"
            " server can import it.",
            detail=f"Its modules are in {module_directory.parent}, the compiled core is in"
            f" {core_directory}.",
            hint=install_hint("3", str(module_directory.parents[1])),
        )
        error.checkout = str(module_directory.parents[1])
        # The error's traceback refers to this frame. Without ``del``, the frame would refer to the
        # error, and neither would be freed soon.
        try:
            raise error
        finally:
            del error
    # The core is in dbanon/kernels, two levels below the directory to import from.
    import_directories = [core_directory.parents[1], Path(np.__file__).parents[1]]
    return list(dict.fromkeys(str(directory) for directory in import_directories))


def install_hint(python: str, source: str | None = None) -> str:
    """Return the command that installs dbanon on the server's machine.

    Parameters
    ----------
    python : the version of the server's Python, such as ``3.11``.
    source : a checkout or wheel file to install. By default the one from which dbanon was installed
        here, if it still exists, else a wheel file of this version in the current directory.
    """
    python_version = tuple(int(number) for number in python.split("."))
    if len(python_version) > 1 and python_version < _MIN_PYTHON:
        return (
            f"The server's Python is {python}, and dbanon needs"
            f" {_MIN_PYTHON[0]}.{_MIN_PYTHON[1]} or newer:"
            " use a server whose PL/Python has that, or run dbanon install --sql-only."
        )
    source = source or _find_install_source()
    if source is None:
        # The shell expands ``*`` to the platform tags of the file.
        intro, argument = f", with the wheel of dbanon {version()}", f"./dbanon-{version()}-*.whl"
    else:
        intro, argument = "", shlex.quote(source)
    return (
        f"On the server's machine run{intro}: sudo python{python} -m pip install"
        f" --target {_INSTALL_DIRECTORY} {argument}"
        f" && dbanon install --python-path {_INSTALL_DIRECTORY}"
    )


def _find_install_source() -> str | None:
    """Return the checkout or wheel file from which pip installed dbanon; None if it is gone."""
    try:
        record = distribution("dbanon").read_text("direct_url.json")
    except PackageNotFoundError:
        return None
    url = urlsplit(str(json.loads(record).get("url", "")) if record else "")
    path = unquote(url.path)
    return path if url.scheme == "file" and Path(path).exists() else None


def server_python_version(connection: Connection[SqlRow]) -> str:
    """Return the version of the server's Python, such as ``3.11``.

    This creates the extension plpython3u in the transaction if it is missing.

    Raises
    ------
    InstallRefused : the server has no PL/Python.
    """
    return str(_run_in_python(connection, _VERSION_BODY))


def require_python(
    connection: Connection[SqlRow], paths: Sequence[str], owners: Sequence[str]
) -> None:
    """Check that the server's Python, run by the server's account, can use the package.

    Parameters
    ----------
    paths : directories of dbanon and numpy on the server's machine.
    owners : names or numbers of accounts that may own the files, besides root and the server's.

    Raises
    ------
    PythonNotUsable : the server's Python cannot use the package; the hint has the command to run.
    InstallRefused : the server has no PL/Python.
    """
    body = _PROBE_BODY.format(
        checker_source=inspect.getsource(python_path),
        paths=list(paths),
        owners=list(owners),
        version=version(),
    )
    probe = json.loads(_run_in_python(connection, body))
    if "unsafe" in probe:
        message, hint = probe["unsafe"]
        raise PythonNotUsable(message, hint=hint)
    package_check = probe.get("check", {})
    if "error" in probe or "error" in package_check:
        reason = probe.get("error") or package_check["error"]["message"]
        raise PythonNotUsable(
            f"The server's Python {probe['python']} cannot use dbanon from {', '.join(paths)}.",
            detail=f"As user {probe['uid']}: {reason}",
            hint=install_hint(".".join(probe["python"].split(".")[:2])),
        )


def _run_in_python(connection: Connection[SqlRow], body: str) -> str:
    """Run the body of a PL/Python function once, and return its result."""
    query = "SELECT 1 FROM pg_available_extensions WHERE name = 'plpython3u'"
    if not connection.execute(query).fetchall():
        [(version_number,)] = connection.execute("SHOW server_version_num").fetchall()
        major_version = int(version_number) // 10_000
        raise InstallRefused(
            "The server has no PL/Python (plpython3u).",
            hint=f"On Debian, run on the server's machine: sudo apt-get install"
            f" postgresql-plpython3-{major_version}. Or install without Python: dbanon install"
            " --sql-only.",
        )
    connection.execute("CREATE EXTENSION IF NOT EXISTS plpython3u")
    connection.execute(
        "CREATE FUNCTION pg_temp.dbanon_probe() RETURNS text LANGUAGE plpython3u"
        f" AS $dbanon_probe${body}$dbanon_probe$"
    )
    [(result,)] = connection.execute("SELECT pg_temp.dbanon_probe()").fetchall()
    connection.execute("DROP FUNCTION pg_temp.dbanon_probe()")
    return str(result)
