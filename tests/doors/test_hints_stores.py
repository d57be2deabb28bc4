"""Hints of stores, sources and exports are followed as they are printed."""

from __future__ import annotations

import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace

import pytest

import dbanon
from tests.doors.hint_list import text_of
from tests.doors.hint_steps import FRAME, hint_of
from tests.doors.hints_databases import ALIKE, DATABASES, POSTGRESQL, REST, SCRATCH
from tests.doors.hints_mariadb import MARIADB, SETTINGS, TABLES, release
from tests.doors.hints_stores import FILES, FRAMES, Stores, StoreSteps
from tests.doors.test_hints_followed import pattern
from tests.mariadb_server import NoServerError, throwaway_mariadb
from tests.prerequisites import skip_or_fail
from tests.stores.databases import MariadbDatabase, PostgresqlDatabase


def follow(steps: StoreSteps, world: Stores) -> None:
    """Raise the error, and do what its hint says."""
    text = text_of(steps.hint)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        world.hints.append(hint_of(steps.wrong, world))  # type: ignore[arg-type]
        assert pattern(text).match(world.hints[-1]), (text, world.hints[-1])
        for act in steps.right:
            act(world)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stores]:
    """A folder with a database of a table and its release."""
    world = Stores(tmp_path_factory.mktemp("hints"))
    with closing(sqlite3.connect(world.path / "people.sqlite")) as connection:
        FRAME.to_sql("people", connection, index=False)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.chdir(world.path)
        dbanon.anonymize(world.url, table="people", output="taken", quasi_identifiers=["age"], k=4)
        yield world


STEPS = (*FILES, *FRAMES, *DATABASES, *SCRATCH, *REST)


@pytest.mark.parametrize("steps", STEPS, ids=lambda steps: steps.hint[:40])
def test_a_hint_of_a_store_can_be_followed(steps: StoreSteps, world: Stores) -> None:
    follow(steps, world)


@pytest.fixture(scope="module")
def world_of_server(world: Stores) -> Iterator[Stores]:
    """The same with a MariaDB server that writes a binary log."""
    with ExitStack() as stack:
        try:
            server = stack.enter_context(throwaway_mariadb(SETTINGS))
        except NoServerError as error:
            skip_or_fail(str(error))
        database = MariadbDatabase(server)
        database.clear()
        database.execute(*TABLES)
        of_server = replace(world, maria=database)
        # The first release makes the ledger, which each case may need.
        release(of_server)
        yield of_server


@pytest.mark.parametrize("steps", POSTGRESQL, ids=["csv", "parquet"])
def test_a_hint_of_postgresql_can_be_followed(
    steps: StoreSteps, world: Stores, pg_url: str
) -> None:
    PostgresqlDatabase(pg_url).execute(*ALIKE)
    follow(steps, replace(world, postgresql=pg_url))


@pytest.mark.mariadb
@pytest.mark.parametrize("steps", MARIADB, ids=lambda steps: steps.hint[:40])
def test_a_hint_of_mariadb_can_be_followed(steps: StoreSteps, world_of_server: Stores) -> None:
    follow(steps, world_of_server)
