"""A database at which hints are tried, and the steps of those who follow them.

A step is a line of the command line (``dbanon …``), a statement of SQL or a function. Before a
colon stands the role that takes it, by default the superuser. In its text

- ``$t`` is the name of the trial's table, which is in schema app and has 120 rows,
- ``$url``, ``$db`` and ``$path`` are the database, its name and a folder; ``$package`` and
  ``$opendp`` the directories from which the server imports dbanon and OpenDP,
- ``$statement``, ``$command`` and ``$argument`` are what the hint prints: a statement without its
  semicolon, a command of dbanon's, and an argument of a SQL function.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy import make_url

from dbanon.errors import DbanonError
from tests.doors.hint_doors import run_command
from tests.postgres_server import Server, conninfo

# What a person has once; a quasi-identifier; a small number; names; a diagnosis.
TABLE = (
    "CREATE TABLE app.$t AS SELECT g AS id, 20 + g % 40 AS age, g % 7 AS size, 'n' || g AS name,"
    " (ARRAY['x', 'y', 'z'])[1 + g % 3] AS ill FROM generate_series(1, 120) AS g",
    "GRANT SELECT ON app.$t TO PUBLIC",
)


class CommandRefusedError(Exception):
    """A command ended with an error; its hint."""


@dataclass
class Site:
    """A database with dbanon's functions, three roles, and a folder.

    Parameters
    ----------
    urls : of the database, by role.
    table : name of the present trial's table.
    hint : the hint of the error that the trial began with.
    """

    server: Server
    urls: dict[str, str]
    package: Path
    opendp: Path
    path: Path
    table: str = ""
    hint: str = ""
    patch: Any = None
    closing: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _connections: dict[str, psycopg.Connection[Any]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return self.urls["postgres"]

    def connection(self, role: str = "postgres") -> psycopg.Connection[Any]:
        """A connection of the role, which stays open."""
        if role not in self._connections:
            connection = psycopg.connect(conninfo(self.urls[role]), autocommit=True)
            self._connections[role] = connection
        return self._connections[role]

    def close(self, role: str) -> None:
        """Close the connection of a role."""
        if role in self._connections:
            self._connections.pop(role).close()

    def text(self, step: str, role: str = "postgres") -> str:
        """A step with names in the place of words with a dollar sign."""
        names = {
            "t": self.table,
            "url": self.urls[role],
            "path": str(self.path),
            "db": f'"{make_url(self.url).database}"',
            "package": str(self.package),
            "opendp": str(self.opendp),
        }
        patterns = {
            "statement": r"(?:GRANT|CREATE|ALTER|SELECT|DROP) [^;]*",
            "command": r"dbanon [a-z]+ URL[^,;]*",
            "argument": r"\w+ => (?:'[^']*'|ARRAY\[[^\]]*\])",
        }

        def value(word: re.Match[str]) -> str:
            name = word[1].strip("{}")
            if name in names:
                return names[name]
            printed = re.search(patterns[name], self.hint)
            assert printed is not None, (name, self.hint)
            return printed[0].replace("URL", self.urls[role])

        return re.sub(r"\$([a-z]+|\{[a-z]+\})", value, step)

    def write(self, name: str, text: str) -> None:
        (self.path / name).write_text(text)

    def sqlite(self, *statements: str) -> str:
        """Run statements in the trial's database of SQLite, and return its URL."""
        path = self.path / f"{self.table}.sqlite"
        with contextlib.closing(sqlite3.connect(path)) as connection:
            for statement in statements:
                connection.execute(statement)
            connection.commit()
        return f"sqlite:///{path}"

    def take(self, step: Step) -> object:
        """Take a step."""
        if callable(step):
            return step(self)
        with_role = re.fullmatch(r"(anna|bob|nell|fresh): (.*)", step, re.S)
        role, rest = with_role.groups() if with_role else ("postgres", step)
        line = self.text(rest, role)
        if line.startswith("dbanon "):
            hint = run_command(*shlex.split(line)[1:])
            if hint is not None:
                raise CommandRefusedError(hint)
            return True
        cursor = self.connection(role).execute(line.encode())
        return cursor.fetchall() if cursor.description else True

    def hint_of(self, step: Step) -> str:
        """The hint of the error that a step ends with."""
        try:
            self.take(step)
        except DbanonError as error:
            return error.hint or "(no hint)"
        except CommandRefusedError as error:
            return str(error)
        except psycopg.Error as error:
            # A database in SQL_ASCII writes three dots.
            return (error.diag.message_hint or f"(no hint) {error}").replace("...", "…")
        finally:
            for connection in self._connections.values():
                if connection.info.transaction_status != TransactionStatus.IDLE:
                    connection.execute("ROLLBACK")
        raise AssertionError("nothing was refused")


Step = str | Callable[[Site], object]


@dataclass(frozen=True)
class Trial:
    """A hint, the step that raises it, and steps of a user who follows it.

    Parameters
    ----------
    hint : the beginning of its text in the sources.
    before : steps that succeed before.
    after : steps that undo what later trials would notice.
    """

    hint: str
    wrong: Step
    right: Sequence[Step]
    before: Sequence[Step] = ()
    after: Sequence[Step] = ()
