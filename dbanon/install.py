"""Installing, upgrading and removing the SQL side of a PostgreSQL database."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dbanon.errors import (
    DatabaseUnreachable,
    InstallRefused,
    InsufficientRights,
    MissingDependency,
    PythonNotUsable,
)
from dbanon.sql_script import script
from dbanon.stores.ledger import TABLES
from dbanon.version import version

CONTROL = """comment = 'k-anonymous releases of tables, recounted before they are visible'
default_version = '{version}'
schema = dbanon
relocatable = false
superuser = true
requires = 'plpython3u'
"""

# This line and the first one of CONTROL tell our files: another version must still find them.
_FIRST_LINE = '\\echo Use "CREATE EXTENSION dbanon CASCADE" to load this file. \\quit'

# Runs as the server's account: what that one can import is what counts.
_PROBE = """
import json, os, stat, sys
said = {{"python": sys.version.split()[0], "executable": sys.executable, "uid": os.geteuid()}}
try:
    for path in {paths!r}:
        for part in (path, os.path.join(path, "dbanon")):
            if os.path.exists(part) and os.stat(part).st_mode & stat.S_IWOTH:
                said["writable"] = part
        if path not in sys.path:
            sys.path.insert(0, path)
    from dbanon import plpython
    said["found"] = json.loads(plpython.check(plpy, {version!r}))
except Exception as error:
    said["error"] = type(error).__name__ + ": " + str(error)
return json.dumps(said)
"""


def own_paths() -> list[str]:
    """Directories from which this Python imports dbanon and numpy."""
    import numpy as np

    from dbanon.kernels import _kernels

    homes = [Path(_kernels.__file__).parents[2], Path(np.__file__).parents[1]]
    return list(dict.fromkeys(str(home) for home in homes))


def install(
    url: str,
    *,
    python_paths: Sequence[str] = (),
    sql_only: bool = False,
    extension: bool = False,
) -> list[tuple[str, str]]:
    """Install the SQL side; what ``dbanon.check()`` then says.

    Parameters
    ----------
    python_paths : where the server's Python shall import dbanon and numpy from; this Python's
        own directories when empty.
    sql_only : leave out what needs PL/Python.
    extension : copy the extension's files to this machine's server, and CREATE EXTENSION.

    Raises
    ------
    DbanonError : it cannot be installed; nothing was changed in the database then.
    """
    paths = None if sql_only else list(python_paths) or own_paths()
    with _connected(url) as connection:
        if paths is not None:
            _require_python(connection, paths)
        if _is_extension(connection):
            raise InstallRefused(
                "dbanon is installed as an extension in this database.",
                hint="Run: dbanon upgrade",
            )
        if extension:
            write_extension(extension_directory(), list(paths or ()))
            connection.execute("CREATE EXTENSION dbanon CASCADE")
        else:
            if not _rows(connection, "SELECT 1 FROM pg_namespace WHERE nspname = 'dbanon'"):
                connection.execute("CREATE SCHEMA dbanon")
            connection.execute(script(paths))
        return _checked(connection)


def upgrade(url: str, *, python_paths: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Bring the SQL side to this version, in the way it was installed; ledger and grants stay.

    Raises
    ------
    InstallRefused : it is not installed.
    """
    with _connected(url) as connection:
        if not _rows(connection, "SELECT to_regprocedure('dbanon.version()')")[0][0]:
            raise InstallRefused(hint="Run: dbanon install")
        with_python = _rows(connection, "SELECT to_regprocedure('dbanon._check()')")[0][0]
        paths = (list(python_paths) or own_paths()) if with_python else None
        if paths is not None:
            _require_python(connection, paths)
        if _is_extension(connection):
            write_extension(extension_directory(), list(paths or ()))
            connection.execute(f"ALTER EXTENSION dbanon UPDATE TO '{version()}'")
        else:
            connection.execute(script(paths))
        return _checked(connection)


def uninstall(url: str, *, ledger: bool = False) -> None:
    """Remove functions and types; the ledger stays unless ``ledger`` says otherwise.

    Raises
    ------
    InstallRefused : it is not installed.
    """
    with _connected(url) as connection:
        if not _rows(connection, "SELECT to_regprocedure('dbanon.version()')")[0][0]:
            raise InstallRefused(hint="There is nothing to remove.")
        if _is_extension(connection):
            for table in (*TABLES, "alembic_version"):
                connection.execute(f"ALTER EXTENSION dbanon DROP TABLE dbanon.{table}")
            connection.execute("DROP EXTENSION dbanon")
        else:
            for name in _rows(
                connection,
                "SELECT p.oid::regprocedure::text FROM pg_proc p"
                " WHERE p.pronamespace = 'dbanon'::regnamespace",
            ):
                connection.execute(f"DROP FUNCTION {name[0]} CASCADE")
            connection.execute("DROP TYPE dbanon.release_info, dbanon.verification")
        if ledger:
            for table in (*TABLES, "alembic_version"):
                connection.execute(f"DROP TABLE dbanon.{table}")
            connection.execute("DROP SCHEMA dbanon")


def extension_directory() -> Path:
    """Where the server on this machine looks for extensions.

    Raises
    ------
    InstallRefused : pg_config is not there.
    """
    try:
        told = subprocess.run(
            ["pg_config", "--sharedir"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        raise InstallRefused(
            "pg_config is not on PATH, so the server's directory of extensions is not known.",
            hint="Install the server's development package, or run dbanon install without"
            " --extension.",
        ) from None
    return Path(told.stdout.strip()) / "extension"


def write_extension(directory: Path, paths: Sequence[str]) -> list[Path]:
    """Write the control file, this version's script, and a step from each older version there."""
    text = f"{_FIRST_LINE}\n{script(paths, extension=True)}"
    older = {
        name
        for file in directory.glob("dbanon--*.sql")
        if "--" not in (name := file.stem.removeprefix("dbanon--")) and name != version()
    }
    files = {
        "dbanon.control": CONTROL.format(version=version()),
        f"dbanon--{version()}.sql": text,
        # A script that can be run over an older version is the step from there, too.
        **{f"dbanon--{name}--{version()}.sql": text for name in older},
    }
    _require_own(directory, files)
    written = []
    try:
        for name, content in files.items():
            path = directory / name
            path.write_text(content)
            path.chmod(0o644)
            written.append(path)
    except OSError as error:
        raise InsufficientRights(
            f"The extension's files cannot be written to {directory} ({type(error).__name__}).",
            hint="Run it as root on the server, or run dbanon install without --extension.",
        ) from None
    return written


def _require_own(directory: Path, names: Iterable[str]) -> None:
    """Refuse to write over files of another extension that has dbanon's name."""
    for name in names:
        path = directory / name
        own = CONTROL.partition("\n")[0] if path.suffix == ".control" else _FIRST_LINE
        if path.exists() and not path.read_text(errors="replace").startswith(own):
            raise InstallRefused(
                f"{path} exists and was not written by dbanon, so it is not replaced.",
                hint="Remove the other extension, or run dbanon install without --extension.",
            )


def _require_python(connection: Any, paths: Sequence[str]) -> None:
    """Check, as the server's account, that its Python can use the package from these paths."""
    connection.execute("CREATE EXTENSION IF NOT EXISTS plpython3u")
    body = _PROBE.format(paths=list(paths), version=version())
    connection.execute(
        "CREATE FUNCTION pg_temp.dbanon_probe() RETURNS text LANGUAGE plpython3u"
        f" AS $dbanon_probe${body}$dbanon_probe$"
    )
    said = json.loads(_rows(connection, "SELECT pg_temp.dbanon_probe()")[0][0])
    connection.execute("DROP FUNCTION pg_temp.dbanon_probe()")
    if "writable" in said:
        raise PythonNotUsable(
            f"Everybody may write to {said['writable']}: whoever does would run code as the"
            " server's account.",
            hint="Take that right away: chmod o-w",
        )
    found = said.get("found", {})
    if "error" in said or "error" in found:
        reason = said.get("error") or found["error"]["message"]
        raise PythonNotUsable(
            f"The server's Python {said['python']} cannot use dbanon from {', '.join(paths)}.",
            detail=f"As user {said['uid']}: {reason}",
            hint="Install it for that Python in a directory that the server's account can read,"
            f" and name it: python{'.'.join(said['python'].split('.')[:2])} -m pip install"
            f" --target /usr/local/lib/dbanon dbanon=={version()}; then dbanon install"
            " --python-path /usr/local/lib/dbanon",
        )


def _checked(connection: Any) -> list[tuple[str, str]]:
    return _rows(connection, "SELECT item, found FROM dbanon.check()")


def _is_extension(connection: Any) -> bool:
    return bool(_rows(connection, "SELECT 1 FROM pg_extension WHERE extname = 'dbanon'"))


def _rows(connection: Any, query: str) -> list[Any]:
    found: list[Any] = connection.execute(query).fetchall()
    return found


@contextmanager
def _connected(url: str) -> Iterator[Any]:
    """A connection whose transaction is committed at the end of the block."""
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        import psycopg
    except ModuleNotFoundError:
        raise MissingDependency(
            "PostgreSQL needs the package psycopg.",
            hint='Install it with: pip install "dbanon[postgres]"',
        ) from None
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise InstallRefused("The database URL cannot be read.") from None
    if parsed.get_backend_name() != "postgresql":
        raise InstallRefused("Only a PostgreSQL database has a SQL side to install.")
    conninfo = parsed.set(drivername="postgresql").render_as_string(hide_password=False)
    try:
        connection = psycopg.connect(conninfo)
    except psycopg.OperationalError as error:
        raise DatabaseUnreachable(
            f"The database {parsed.render_as_string(hide_password=True)} cannot be reached.",
            detail=type(error).__name__,
        ) from None
    with connection:
        try:
            connection.execute("SET LOCAL search_path = pg_catalog, pg_temp")
            connection.execute("SET LOCAL client_min_messages = warning")
            yield connection
        except psycopg.Error as error:
            # DDL of ours alone: the server's text holds no value of a table.
            text = error.diag.message_primary or type(error).__name__
            if error.sqlstate == "42501":
                raise InsufficientRights(text, hint=error.diag.message_hint) from None
            raise InstallRefused(text, hint=error.diag.message_hint) from None
