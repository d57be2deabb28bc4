"""A running server, independent of how it is run."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy import URL, make_url

from tests.postgres.connection_pool import close_idle, pooled
from tests.postgres.tools import (
    binary,
    conninfo,
    libpq_environment,
    literal_sql,
)
from tests.postgres.warm import close_warm

STARTUP_SECONDS = 60
SUPERUSER = "postgres"
_ALL_STATEMENTS = {
    "log_statement": "all",
    "log_parameter_max_length": "-1",
    "log_error_verbosity": "default",
}


class Log:
    """What the server has logged since a point in time."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._start = server.log_size()

    @property
    def text(self) -> str:
        return self._server.log_text(self._start)


class Server(ABC):
    """A running server; `host`, `port`, `version` (major) and URLs survive restarts."""

    host: str
    port: int
    version: int
    log_path: Path | None = None
    """The log file; None in a container, where `log_text` asks Docker."""
    is_local: bool
    """Whether the server runs locally and can import this environment's packages."""

    def __init__(self) -> None:
        self.password = secrets.token_urlsafe(16)

    @abstractmethod
    def start(self) -> None:
        """Start after `stop` or `crash`, and wait until it accepts connections."""

    @abstractmethod
    def stop(self) -> None:
        """Shut down in order: end sessions, write a checkpoint."""

    @abstractmethod
    def crash(self) -> None:
        """Stop at once without a checkpoint; the next start recovers from the write-ahead log."""

    @abstractmethod
    def remove(self) -> None:
        """Stop the server and delete its data."""

    @abstractmethod
    def log_text(self, start: int = 0) -> str:
        """Everything logged since the server was created, or since `log_size` was `start`."""

    def log_size(self) -> int:
        """The current size of the log."""
        return len(self.log_text())

    def url(
        self, database: str = "postgres", user: str = SUPERUSER, password: str | None = None
    ) -> str:
        """SQLAlchemy URL, for the superuser by default."""
        return URL.create(
            "postgresql+psycopg",
            username=user,
            password=self.password if password is None else password,
            host=self.host,
            port=self.port,
            database=database,
        ).render_as_string(hide_password=False)

    @property
    def superuser_url(self) -> str:
        return self.url()

    def execute(
        self, statement: str | sql.Composed, *parameters: Any, url: str | None = None
    ) -> list[tuple[Any, ...]]:
        """Run one statement in a connection in its initial state (autocommit) and return
        its rows.
        """
        # psycopg's types require literal text, against injection; here callers write the
        # statements.
        query: Any = statement
        with pooled(conninfo(url or self.superuser_url)) as connection:
            cursor = connection.execute(query, parameters or None)
            return cursor.fetchall() if cursor.description is not None else []

    def psql(
        self, script: str, *, url: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a script (statements and backslash commands) through psql, unaligned, tuples only.

        The first error stops it; with `check` it raises, with psql's messages in the exception.
        """
        command = [binary("psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-f", "-"]
        done = subprocess.run(
            command,
            input=script,
            capture_output=True,
            text=True,
            env={**os.environ, **libpq_environment(url or self.superuser_url)},
            check=False,
        )
        if check and done.returncode != 0:
            raise RuntimeError(f"psql ended with {done.returncode}: {done.stderr.strip()}")
        return done

    def create_database(self, name: str | None = None, *, template: str = "template1") -> str:
        """Copy `template`, which must have no connections, and return the new database's URL."""
        name = name or f"test_{secrets.token_hex(6)}"
        close_idle(template)
        self.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
                sql.Identifier(name), sql.Identifier(template)
            )
        )
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Drop a database together with its sessions."""
        close_idle(name)
        self.execute(
            sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
        )

    @contextlib.contextmanager
    def database(self, *, template: str = "template1") -> Iterator[str]:
        """URL of a new database; it and all roles created meanwhile are dropped afterwards."""
        with self.roles_dropped():
            url = self.create_database(template=template)
            try:
                yield url
            finally:
                self.drop_database(make_url(url).database or "")

    @contextlib.contextmanager
    def roles_dropped(self, url: str | None = None) -> Iterator[None]:
        """Drop all roles created meanwhile; with `url` also what they own in that database."""
        roles = self._roles()
        try:
            yield
        finally:
            # Roles belong to the server: the next test would see those left behind.
            for role in map(sql.Identifier, self._roles() - roles):
                if url is not None:
                    self.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(role), url=url)
                self.execute(sql.SQL("DROP ROLE {}").format(role))

    def create_role(self, name: str, *, url: str, options: str = "") -> str:
        """Create a role that may log in, and return its URL for the database of `url`.

        `options` are options of CREATE ROLE, such as `"CREATEDB IN ROLE dbanon_runner"`.
        """
        password = secrets.token_urlsafe(16)
        self.execute(
            sql.SQL("CREATE ROLE {} LOGIN PASSWORD {} ").format(sql.Identifier(name), password)
            + literal_sql(options)
        )
        return self.url(make_url(url).database or "", name, password)

    @contextlib.contextmanager
    def capture_log(self, *, statements: bool = False) -> Iterator[Log]:
        """Capture what the server logs inside the block, after checking that it logs a control's
        values.

        By default it logs failing statements, with `statements` all, with their bind parameters.
        The control shows that a value would be in the log, so that tests can rely on its absence.
        """
        with self.settings_changed(_ALL_STATEMENTS if statements else {}):
            self.require_values_logged(bind_parameters=statements)
            yield Log(self)

    def require_values_logged(self, *, bind_parameters: bool) -> None:
        """Fail unless the log shows the values of a control, whatever the server's version."""
        start = self.log_size()
        # The statement has the message's value in two halves: only the message joins them.
        with contextlib.suppress(psycopg.errors.InvalidTextRepresentation):
            self.execute("SELECT ('control ' || 'message')::integer AS \"control statement\"")
        values = ["control message", "control statement"]
        if bind_parameters:
            self.execute("SELECT 'control literal', %s::text", "control parameter")
            values += ["control literal", "control parameter"]
        log = self.log_text(start)
        missing = [value for value in values if value not in log]
        assert not missing, f"the server's log does not show the {missing}: it proves nothing"

    @contextlib.contextmanager
    def settings_changed(self, settings: Mapping[str, str]) -> Iterator[None]:
        """Apply server settings during the block, for new sessions."""
        if not settings:
            yield
            return
        close_warm()
        before = {name: self._setting(name) for name in settings}
        self._change_settings(settings)
        try:
            yield
        finally:
            self._change_settings(before)

    def _change_settings(self, settings: Mapping[str, str]) -> None:
        for name, value in settings.items():
            self.execute(
                sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), sql.Literal(value))
            )
        self.execute("SELECT pg_reload_conf()")
        # The signal is handled some time later; new sessions show when.
        deadline = time.monotonic() + STARTUP_SECONDS
        while any(self._setting(name) != value for name, value in settings.items()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the server does not take the new {', '.join(settings)}")
            time.sleep(0.01)

    def _setting(self, name: str) -> str:
        [(value,)] = self.execute("SELECT current_setting(%s)", name)
        return str(value)

    def _roles(self) -> set[str]:
        return {name for (name,) in self.execute("SELECT rolname FROM pg_roles")}

    def _read_version(self) -> int:
        [(number,)] = self.execute("SELECT current_setting('server_version_num')::integer")
        return int(number) // 10000
