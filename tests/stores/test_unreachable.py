"""A database that cannot be reached: why, without secrets, and code 4 only where a retry helps."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from sqlalchemy import make_url

import dbanon
from dbanon import errors
from dbanon.doors import install
from dbanon.doors.cli.main import main
from dbanon.doors.cli.options import merge_orders
from dbanon.run.open import open_store
from dbanon.stores.files import read_url
from dbanon.stores.postgresql.connecting import redacted_url, unreachable_error
from tests.postgres_server import Server
from tests.stores.databases import DuckdbDatabase
from tests.stores.people import load_people
from tests.stores.refusal import anonymize

URL = make_url("postgresql://anna:hush@db.example:5433/clinic?sslpassword=hush&password=hush")
SERVER = 'connection to server at "10.0.0.1", port 5433 failed: '

DRIVER_MESSAGES = {
    "refused": (
        SERVER + "Connection refused\n\tIs the server running on that host?",
        4,
        "nothing answers at db.example, port 5433",
    ),
    "no socket": (SERVER + "No such file or directory", 4, "nothing answers"),
    "timeout": ("connection timeout expired", 4, "db.example, port 5433 did not answer in time"),
    "no route": (SERVER + "No route to host", 4, "did not answer in time"),
    "starting": (SERVER + "FATAL:  the database system is starting up", 4, "starting or stopping"),
    "full": (SERVER + "FATAL:  sorry, too many clients already", 4, "no connection left"),
    "lost": (SERVER + "server closed the connection unexpectedly", 4, "cannot be reached"),
    "no answer of the name server": (
        "failed to resolve host 'db.example': [Errno -3] Temporary failure in name resolution",
        4,
        'the host "db.example" could not be resolved now',
    ),
    "no host": (
        "failed to resolve host 'db.example': [Errno -2] Name or service not known",
        2,
        'no host "db.example"',
    ),
    "database": (SERVER + 'FATAL:  database "clinic" does not exist', 2, 'no database "clinic"'),
    "no PostgreSQL": (
        SERVER + "received invalid response to SSL negotiation: H",
        2,
        "is not a PostgreSQL server",
    ),
    "setting": ('connection is bad: invalid sslmode value: "hush"', 2, "does not know a setting"),
    "TLS": (SERVER + "server does not support SSL, but SSL was required", 2, "TLS"),
    "certificate": (SERVER + "SSL error: certificate verify failed", 2, "TLS"),
    "role": (SERVER + 'FATAL:  role "anna" does not exist', 5, 'no role "anna"'),
    "password": (
        SERVER + 'FATAL:  password authentication failed for user "anna"',
        5,
        'the password of role "anna"',
    ),
    "peer": (SERVER + 'FATAL:  Peer authentication failed for user "anna"', 5, "log in"),
    "pg_hba": (
        SERVER + 'FATAL:  no pg_hba.conf entry for host "10.0.0.2", no encryption',
        5,
        "pg_hba.conf",
    ),
    "connect": (SERVER + 'FATAL:  permission denied for database "clinic"', 5, "may not connect"),
}


@pytest.mark.parametrize("driver_message", DRIVER_MESSAGES)
def test_messages_of_the_client_library(driver_message: str) -> None:
    text, code, why = DRIVER_MESSAGES[driver_message]
    error = unreachable_error(Exception(text), URL)
    assert error.exit_code == code
    assert why in str(error)
    assert "hush" not in str(error)
    assert error.exit_code != 4 or isinstance(error, errors.DatabaseUnreachable)


def test_secrets_of_a_url_are_not_shown() -> None:
    redacted = redacted_url(URL)
    assert "hush" not in redacted
    assert redacted.startswith("postgresql://anna:***@db.example:5433/clinic?")
    assert "hush" not in open_store(URL).url


@pytest.fixture
def silent() -> Iterator[int]:
    """A port at which nothing answers."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def install_alone(url: str) -> None:
    """Without Python: an editable install reports a missing package before it connects."""
    install.install(url, sql_only=True)


def test_both_ways_to_connect_to_a_server(pg_server: Server, silent: int) -> None:
    """Sessions and ``dbanon install`` connect in different ways."""
    server_url = make_url(pg_server.url("no_such_database"))
    cases = {
        errors.DatabaseUnreachable: f"postgresql://anna:hush@127.0.0.1:{silent}/clinic",
        errors.DatabaseNotFound: server_url.render_as_string(hide_password=False),
        errors.AccessRefused: pg_server.url(password="hush"),
        errors.TlsFailed: server_url.update_query_dict({"sslmode": "require"}).render_as_string(
            hide_password=False
        ),
        errors.InvalidParameter: f"postgresql://anna@127.0.0.1:{silent}/clinic?sslmode=bogus",
    }
    for kind, url in cases.items():
        for connect in (anonymize, install_alone):
            with pytest.raises(errors.DbanonError) as caught:
                connect(url)
            assert type(caught.value) is kind, (connect, str(caught.value))
            assert "hush" not in str(caught.value)
            assert pg_server.password not in str(caught.value)
            assert caught.value.__cause__ is None
            assert caught.value.__suppress_context__


def test_a_role_that_is_not_there(pg_server: Server) -> None:
    with pytest.raises(errors.AccessRefused, match="nobody_here"):
        anonymize(pg_server.url(user="nobody_here"))


@pytest.mark.parametrize("name", ["postgres", "postgresql", "postgres+psycopg"])
def test_other_names_of_postgresql(name: str) -> None:
    url = read_url(f"{name}://anna@host/clinic")
    assert url.get_backend_name() == "postgresql"
    assert open_store(f"{name}://anna@host/clinic").url.startswith("postgresql")


def test_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    database = DuckdbDatabase(tmp_path / "people.duckdb")
    load_people(database)
    report = database.anonymize(
        database="duckdb:///~/people.duckdb", target="sqlite:///~/new.db", quasi_identifiers=["age"]
    )
    assert report.rows_out == 40
    assert (tmp_path / "new.db").exists()
    (tmp_path / "order.txt").write_text("a\nb\n")
    assert merge_orders({}, ["size=~/order.txt"]) == {"size": ("a", "b")}
    (tmp_path / "tree.csv").write_text("a;*\nb;*\n")
    checked = CliRunner().invoke(main, ["hierarchy", "check", "~/tree.csv"])
    assert checked.exit_code == 0, checked.output


def commands() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in main.commands.items():
        if isinstance(command, click.Group):
            yield from (
                ((name, below), subcommand) for below, subcommand in command.commands.items()
            )
        else:
            yield (name,), command


WITH_URL = {
    names: command
    for names, command in commands()
    if any(param.name == "url" for param in command.params)
}


# Asked for by what else is given, not by the parser.
ALSO = {
    (("anonymize",), "k"),
    (("chain", "create"), "key_out"),
    (("chain", "measure"), "key"),
    (("declare",), "from_comments"),
}


def line_of(names: tuple[str, ...], command: click.Command) -> list[str]:
    """A call of a command that needs its URL, and has none."""
    line = list(names)
    if names == ("workbench",):
        line += ["--table", "people"]
    for param in command.params:
        if isinstance(param, click.Argument) and param.name != "url":
            if names == ("declare",):
                continue  # The file is read first; comments are in the database.
            line += ["name:people" if param.name == "file" else "release.people"]
        elif param.name == "single_q" and names != ("verify",):
            line += ["-q", "age"]
        elif param.name == "sql_only":
            # An editable install reports a package missing for Python before it connects.
            line.append("--sql-only")
        elif isinstance(param, click.Option) and (param.required or (names, param.name) in ALSO):
            values = {
                "k": "5",
                "epsilon": "3",
                "path": "never-written.html",
                "changes": "show",
                "key_out": "never-written.key",
                "key": "env:A_KEY",
            }
            line.append(param.opts[0])
            line += [] if param.is_flag else [values.get(str(param.name), "people")]
    return line


@pytest.mark.parametrize("names", WITH_URL, ids=" ".join)
def test_the_url_may_come_from_the_environment(
    names: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_KEY", "00" * 32)
    command = WITH_URL[names]
    line = line_of(names, command)
    missing = f"duckdb:///{tmp_path / 'missing.duckdb'}"
    completed = CliRunner().invoke(main, line, "7", env={"DBANON_URL": missing})
    assert completed.exit_code == 2
    of_postgresql = ("Only a PostgreSQL database", "Only a ledger on PostgreSQL")
    assert any(part in completed.stderr for part in ("missing.duckdb", *of_postgresql))
    without = CliRunner().invoke(main, line, env={"DBANON_URL": None})
    assert without.exit_code == 2
    assert (
        "Missing argument" in without.stderr or "URL" in without.stderr or "FILE" in without.stderr
    )
    # An explicit one takes precedence.
    first = len(names) + (names[-1] == "check")
    line.insert(first, f"duckdb:///{tmp_path / 'told.duckdb'}")
    wins = CliRunner().invoke(main, line, "7", env={"DBANON_URL": missing})
    assert "missing.duckdb" not in wins.output
    assert wins.exit_code == 2


def test_the_commands_are_all(tmp_path: Path) -> None:
    assert {"anonymize", "verify", "gc", "plan", "install"} <= {names[0] for names in WITH_URL}
    assert not os.listdir(tmp_path)


def test_a_file_that_may_not_be_made(tmp_path: Path) -> None:
    database = DuckdbDatabase(tmp_path / "people.duckdb")
    load_people(database)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    for folder, exit_code in (("/proc", 5), (str(closed), 5)):
        if os.access(folder, os.W_OK):
            continue
        with pytest.raises(dbanon.DbanonError) as caught:
            database.anonymize(target=f"sqlite:///{folder}/new.db", quasi_identifiers=["age"])
        assert caught.value.exit_code == exit_code, str(caught.value)
