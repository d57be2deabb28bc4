"""Find the account for a MariaDB server if the URL has no password.

Like MariaDB's own client, this reads the option file in the home directory and the environment
variable ``MYSQL_PWD``. Only user and password are used: a host or socket from the file could
contradict the URL.
"""

from __future__ import annotations

import configparser
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from pymysql.optionfile import Parser
from sqlalchemy import URL

# Groups of the option file that MariaDB's client reads; later ones take precedence.
_GROUPS = ("client", "client-server", "client-mariadb")
_OPTION_FILE = "read_default_file"


def account_arguments(url: URL) -> dict[str, str]:
    """Return PyMySQL's arguments ``password`` and ``user``, as far as the URL lacks them.

    Returns an empty mapping if the URL has a password, or names an option file for PyMySQL to read
    (``read_default_file``).
    """
    if url.password is not None or _OPTION_FILE in url.query:
        return {}
    options = _private_options(Path("~/.my.cnf").expanduser())
    arguments = {}
    password = options.get("password") or os.environ.get("MYSQL_PWD")
    if password:
        arguments["password"] = password
    if not url.username and options.get("user"):
        arguments["user"] = options["user"]
    return arguments


def _private_options(path: Path) -> dict[str, str]:
    """Read the client's options from an option file; empty if others have access to the file."""
    try:
        with path.open(encoding="utf-8") as file:
            file_status = os.fstat(file.fileno())
            if not stat.S_ISREG(file_status.st_mode) or file_status.st_mode & 0o077:
                return {}
            if file_status.st_uid != os.geteuid():
                return {}
            parser = Parser(strict=False)
            # Skip directives such as !includedir, which this parser does not know.
            parser.read_string("".join(line for line in file if not line.lstrip().startswith("!")))
    except (OSError, ValueError, configparser.Error):
        return {}
    options: dict[str, str] = {}
    for group in _GROUPS:
        if parser.has_section(group):
            # Options such as "compress" have no value.
            values: Iterable[tuple[str, str | None]] = parser.items(group, raw=True)
            options |= {
                name: parser.get(group, name) for name, value in values if value is not None
            }
    return options
