"""Encodings of client and database, on PostgreSQL: text is read, or refused with a reason."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner
from sqlalchemy import make_url

from dbanon.doors.cli.main import main
from dbanon.errors import UnsupportedType
from tests.postgres_server import Server, conninfo
from tests.stores.databases import PostgresqlDatabase

pytestmark = pytest.mark.own_backends

OPTIONS: dict[str, Any] = {"quasi_identifiers": ["a", "größe"], "method": "gaa_cp", "k": 3}


def load(database: PostgresqlDatabase) -> None:
    rows = [(i, i % 5, f"größe {i % 2}") for i in range(60)]
    database.load("people", {"id": "integer", "a": "integer", "größe": "text"}, rows)


def labels(database: PostgresqlDatabase) -> set[str]:
    return {text for (text,) in database.rows('SELECT DISTINCT "größe" FROM release.people')}


@pytest.mark.parametrize("where", ["environment", "role", "url"])
@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_any_client_encoding(
    postgresql: PostgresqlDatabase, monkeypatch: pytest.MonkeyPatch, where: str, encoding: str
) -> None:
    load(postgresql)
    url = postgresql.url
    if where == "environment":
        monkeypatch.setenv("PGCLIENTENCODING", encoding)
    elif where == "role":
        postgresql.execute("CREATE ROLE reader SUPERUSER LOGIN PASSWORD 'x'")
        postgresql.execute(f"ALTER ROLE reader SET client_encoding = '{encoding}'")
        reader_url = make_url(url).set(username="reader", password="x")
        url = reader_url.render_as_string(hide_password=False)
    else:
        url += f"?client_encoding={encoding}"
    try:
        postgresql.anonymize(database=url, **OPTIONS)
        done = CliRunner().invoke(main, ["verify", url, "release.people"])
        assert done.exit_code == 0, done.output
        monkeypatch.undo()
        assert labels(postgresql) == {"größe 0", "größe 1"}
    finally:
        if where == "role":
            postgresql.execute("DROP OWNED BY reader CASCADE", "DROP ROLE reader")


@pytest.fixture
def ascii_database(pg_server: Server) -> Iterator[PostgresqlDatabase]:
    """A database that takes any bytes for text."""
    name = "ascii_database"
    pg_server.execute(
        f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C'"
        " LC_CTYPE 'C'"
    )
    url = pg_server.url(name) + "?client_encoding=UTF8"
    yield PostgresqlDatabase(url)
    pg_server.drop_database(name)


JOB = """\
version: 1
source: {{url: "{url}"}}
jobs:
  - name: people
    table: people
    output: {{table: release.people, if_exists: replace}}
    k: 3
    method: gaa_cp
{chain}    columns:
      id: {{role: identifier}}
      a: {{role: quasi_identifier}}
      größe: {{role: quasi_identifier, weight: 2}}
"""
CHAIN = """\
    entity: id
    chain: {name: people, key: "file:people.key", changes: freeze, create: true}
"""


@pytest.mark.parametrize("chain", ["", CHAIN], ids=["alone", "chain"])
def test_a_job_in_a_database_without_an_encoding(
    ascii_database: PostgresqlDatabase, tmp_path: Path, chain: str
) -> None:
    """The ledger takes names that are not ASCII, as the source's types and as arguments."""
    load(ascii_database)
    ascii_database.execute("ALTER TABLE people ADD PRIMARY KEY (id)")
    job = tmp_path / "people.yaml"
    job.write_text(JOB.format(url=ascii_database.url, chain=chain))
    for _ in range(2):
        done = CliRunner().invoke(main, ["run", str(job), "--allow-inline-password"])
        assert done.exit_code == 0, done.output
    assert labels(ascii_database) == {"größe 0", "größe 1"}
    recorded = ascii_database.rows(
        "SELECT DISTINCT source_types ->> 'größe', arguments #>> '{weights,größe}'"
        " FROM dbanon.run JOIN dbanon.release USING (release_id)"
    )
    assert recorded == [("text", "2")]


def test_a_database_without_an_encoding(ascii_database: PostgresqlDatabase) -> None:
    load(ascii_database)
    ascii_database.anonymize(**OPTIONS)
    assert labels(ascii_database) == {"größe 0", "größe 1"}
    with psycopg.connect(conninfo(ascii_database.url), autocommit=True) as connection:
        connection.execute("UPDATE people SET \"größe\" = E'gr\\xf6sse' WHERE id = 7")
    with pytest.raises(UnsupportedType, match="not valid UTF-8") as caught:
        ascii_database.anonymize(**OPTIONS, if_exists="replace")
    assert caught.value.exit_code == 2
