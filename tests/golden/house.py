"""The environment of the interfaces: a folder, and a database with dbanon's functions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.golden.answers import Classes, Duckdb, Postgresql, SqlCall, Sqlite, load
from tests.golden.doors import Answer, command
from tests.golden.memory import Arrays, Frame
from tests.golden.surface import Commands, Surface
from tests.postgres_server import Server
from tests.stores.databases import PostgresqlDatabase

IN_POSTGRESQL = frozenset({"postgresql", "sql", "classes", "surface"})
# The base of other records comes first.
DOORS = ("duckdb", "arrays", "frame", "sqlite", "cli", "postgresql", "sql", "classes", "surface")


class Answering(Protocol):
    """The methods that every interface has."""

    def answers(self) -> Iterator[tuple[str, Answer]]: ...


@dataclass(frozen=True)
class Open:
    """A folder for files, and, if needed, a database as ``installed`` creates it."""

    folder: Path
    url: str | None = None
    package: Path | None = None
    """The directory from which the database's functions import dbanon."""

    @property
    def folders(self) -> list[Path]:
        """Folders whose paths belong to this run only."""
        return [self.folder] if self.package is None else [self.folder, self.package]


@contextmanager
def installed(server: Server, package: Path) -> Iterator[str]:
    """A database with the tables and all functions: its URL as superuser."""
    with server.database() as url:
        installation = command("install", url, "--python-path", str(package))
        assert installation["exit"] == 0, installation
        load(PostgresqlDatabase(url))
        yield url


@contextmanager
def opened(name: str, environment: Open) -> Iterator[Answering]:
    """Open the interface with this name."""
    if name in IN_POSTGRESQL:
        assert environment.url is not None
        door = {"postgresql": Postgresql, "sql": SqlCall, "classes": Classes, "surface": Surface}[
            name
        ](environment.url)
        try:
            yield door
        finally:
            if isinstance(door, (SqlCall, Classes)):
                door.backend.close()
    elif name in ("duckdb", "sqlite", "cli"):
        yield {"duckdb": Duckdb, "sqlite": Sqlite, "cli": Commands}[name](environment.folder)
    else:
        yield {"frame": Frame, "arrays": Arrays}[name]()
