"""The files of the two PostgreSQL extensions: one for the ledger, one for types and functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dbanon.data.types import SqlRow
from dbanon.doors.sql_script import LEDGER_EXTENSION, functions_script, ledger_script
from dbanon.errors import InstallRefused, InsufficientRights
from dbanon.version import version

if TYPE_CHECKING:
    from psycopg import Connection

# The content of an extension's control file, in which PostgreSQL reads its properties.
CONTROL_TEMPLATE = """comment = '{comment}'
default_version = '{version}'
schema = dbanon
relocatable = false
superuser = true
"""

# The comment of each extension, by name.
COMMENTS = {
    "dbanon": "k-anonymous releases of tables, recounted before they are visible",
    LEDGER_EXTENSION: "the ledger of dbanon: releases, runs, hierarchies",
}


def extension_directory(connection: Connection[SqlRow]) -> Path:
    """Query a connection's server for its directory of extensions.

    This does not run pg_config from PATH, which may belong to another version or to an attacker.

    Raises
    ------
    InstallRefused : the server does not report the directory.
    """
    query = "SELECT setting FROM pg_catalog.pg_config WHERE name = 'SHAREDIR'"
    rows = connection.execute(query).fetchall()
    share_directory = rows[0][0] if rows else None
    if not share_directory:
        raise InstallRefused(
            "The server does not report where its extensions are.",
            hint="Run dbanon install without --extension.",
        )
    return Path(share_directory) / "extension"


def write_extension(directory: Path, python_paths: Sequence[str]) -> list[Path]:
    """Write control files, this version's scripts, and an upgrade from each older version.

    Returns the paths of the files.

    Parameters
    ----------
    directory : the server's directory of extensions.
    python_paths : directories from which the server's Python imports dbanon.

    Raises
    ------
    InsufficientRights : the directory cannot be written.
    InstallRefused : another extension's files have these names.
    """
    control_files = {
        name: CONTROL_TEMPLATE.format(comment=COMMENTS[name], version=version())
        for name in COMMENTS
    }
    control_files["dbanon"] += f"requires = 'plpython3u, {LEDGER_EXTENSION}'\n"
    scripts = {
        # Upgrades of this extension run without the ledger's script, so its own script creates the
        # database roles and checks who owns the schema.
        "dbanon": functions_script(python_paths, with_roles=True),
        # ``extension`` makes the ledger's tables members of the PostgreSQL extension.
        LEDGER_EXTENSION: ledger_script(extension=True),
    }
    files: dict[str, str] = {}
    for name, script in scripts.items():
        text = f"{_first_line(name)}\n{script}"
        # Files named name--version.sql install a version; name--old--new.sql are upgrades.
        older_versions = {
            old_version
            for file in directory.glob(f"{name}--*.sql")
            if "--" not in (old_version := file.stem.removeprefix(f"{name}--"))
            and old_version != version()
        }
        files |= {
            f"{name}.control": control_files[name],
            f"{name}--{version()}.sql": text,
            # The script can be run over older versions, so it is also their upgrade.
            **{f"{name}--{old_version}--{version()}.sql": text for old_version in older_versions},
        }
    _require_own_files(directory, files)
    written_paths = []
    try:
        for name, content in files.items():
            path = directory / name
            path.write_text(content)
            path.chmod(0o644)
            written_paths.append(path)
    except OSError as error:
        raise InsufficientRights(
            f"The extension's files cannot be written to {directory} ({type(error).__name__}).",
            hint="Run it as root on the server's machine, or run dbanon install without"
            " --extension.",
        ) from None
    return written_paths


def _first_line(name: str) -> str:
    """Return the first line of an extension's scripts, the same in every version."""
    return f'\\echo Use "CREATE EXTENSION {name} CASCADE" to load this file. \\quit'


def _require_own_files(directory: Path, files: Mapping[str, str]) -> None:
    """Refuse to overwrite files of another extension with the same name."""
    for name, content in files.items():
        path = directory / name
        # The first line is the same in every version, for control files and scripts.
        first_line = content.partition("\n")[0]
        if path.exists() and not path.read_text(errors="replace").startswith(first_line):
            raise InstallRefused(
                f"{path} exists and was not written by dbanon, so it is not replaced.",
                hint=f"Run dbanon install without --extension, or remove {path} first.",
            )
