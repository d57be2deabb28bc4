"""Where the account of a MariaDB server comes from when the URL has no password.

As for MariaDB's own client: the option file of the home directory, then ``MYSQL_PWD``. Of the file
only the account is taken. Its socket or host would lead elsewhere than the URL says.
"""

from __future__ import annotations

import configparser
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from pymysql.optionfile import Parser
from sqlalchemy import URL

# Groups that MariaDB's client reads; a later one wins.
_GROUPS = ("client", "client-server", "client-mariadb")
_OPTION_FILE = "read_default_file"


def account_arguments(url: URL) -> dict[str, str]:
    """Account arguments for PyMySQL that a URL lacks: ``password``, and with it ``user``.

    A URL with a password, or with ``read_default_file``, lacks none: PyMySQL reads that file.
    """
    if url.password is not None or _OPTION_FILE in url.query:
        return {}
    options = _private_options(Path("~/.my.cnf").expanduser())
    found = {}
    password = options.get("password") or os.environ.get("MYSQL_PWD")
    if password:
        found["password"] = password
    if not url.username and options.get("user"):
        found["user"] = options["user"]
    return found


def _private_options(path: Path) -> dict[str, str]:
    """The client's options in an option file that only this account can read; else none."""
    try:
        with path.open(encoding="utf-8") as file:
            state = os.fstat(file.fileno())
            if not stat.S_ISREG(state.st_mode) or state.st_mode & 0o077:
                return {}
            if state.st_uid != os.geteuid():
                return {}
            parser = Parser(strict=False)
            # Directives such as !includedir are the client's own.
            parser.read_string("".join(line for line in file if not line.lstrip().startswith("!")))
    except (OSError, ValueError, configparser.Error):
        return {}
    found: dict[str, str] = {}
    for group in _GROUPS:
        if parser.has_section(group):
            # An option may have no value, as "compress".
            values: Iterable[tuple[str, str | None]] = parser.items(group, raw=True)
            found |= {name: parser.get(group, name) for name, value in values if value is not None}
    return found
