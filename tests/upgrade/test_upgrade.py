"""Databases of version 0.1.0 with this version: releases, grants, verify, gc, replacement.

Every later ledger change adds its step here: the state of an older database afterwards, and the
reports about releases recorded before. `make_fixtures` created the databases with that version's
package.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import NullPool, create_engine, make_url

import dbanon
from dbanon.doors.cli.main import main
from dbanon.doors.releases import list_hierarchies
from dbanon.errors import InsufficientRights, ReleaseChanged, ReleaseNotFound
from dbanon.ledger import tables as ledger_tables
from dbanon.run.gc import collect_garbage
from dbanon.run.open import open_store
from dbanon.run.verify import verify
from dbanon.sessions.names import parse_relation
from tests.postgres_server import Server
from tests.prerequisites import import_or_skip
from tests.stores.databases import Database, PostgresqlDatabase

CLIENT = ("plain", "alone", "persons", "modelled", "trees")
JOB: dict[str, Any] = {
    "table": "app.people",
    "quasi_identifiers": ["age", "cost"],
    "k": 3,
    "sensitive": ["ill"],
}
NEW_COLUMNS = {
    "relation_oid",
    "output_oid",
    "digest",
    "evaluation",
    "chain_id",
    "chain_sequence",
    "epsilon",
    "neighbours",
    "budget",
    "request",
    "delta",
    "rho",
    "owner_oid",
    "publisher_oid",
    "ledger_oid",
    "source_oid",
    "source_owner_oid",
    "person_salt",
}

Upgrade = Callable[[Database], None]


def verified(database: Database, name: str) -> Any:
    return verify(open_store(database.url), parse_relation(name))


def old_columns(database: Database) -> str:
    """The columns that the ledger had."""
    names = [name for name, _, _ in ledger_tables.RELEASE_COLUMNS if name not in NEW_COLUMNS]
    return ", ".join(names)


def as_role(database: Database, role: str) -> str:
    return make_url(database.url).set(username=role, password="old").render_as_string(False)


def releases(database: Database) -> dict[str, int]:
    """The number of recorded releases per output."""
    name = "output_name" if database.name == "sqlite" else "output_schema || '.' || output_name"
    rows = database.rows(f"SELECT {name} FROM {database.ledger()}")
    return Counter(output for (output,) in rows)


def test_the_fixtures_are_of_the_old_version(old: Database) -> None:
    with_sql = 2 if old.name == "postgresql" else 0
    assert sum(releases(old).values()) == 8 + with_sql
    versions = old.rows(f"SELECT DISTINCT dbanon_version FROM {old.ledger()}")
    assert versions == [("0.1.0",)]


def test_old_releases_before_anything_is_written(old: Database) -> None:
    """Reading does not migrate a ledger; without a digest no release is called 'unchanged'."""
    for name in ("plain", "shown", "persons", "modelled"):
        before = verified(old, f"release.{name}")
        assert (before.unchanged, before.digest) == (None, "not recorded")
        assert before.k_achieved >= 3


def test_the_ledger_is_kept(old: Database, upgrade: Upgrade) -> None:
    columns = old_columns(old)
    order = "ORDER BY CAST(release_id AS VARCHAR(36))"
    queries = [
        f"SELECT CAST(({columns}) AS VARCHAR) FROM {old.ledger()} {order}"
        if old.name != "sqlite"
        else f"SELECT {columns} FROM {old.ledger()} {order}",
        f"SELECT name, role, sql_type FROM {old.ledger('release_column')} {order}, position",
        f"SELECT node, label FROM {old.ledger('hierarchy_node')} ORDER BY 1",
    ]
    if old.name == "duckdb":
        queries[0] = f"SELECT CAST(row({columns}) AS VARCHAR) FROM {old.ledger()} {order}"
    before = [old.rows(query) for query in queries]
    assert all(before)
    upgrade(old)
    old.anonymize(**(JOB | {"output": "release.first_of_now"}))
    new = old.rows(
        f"SELECT CAST(release_id AS VARCHAR(36)) FROM {old.ledger()}"
        f" WHERE dbanon_version = '{dbanon.__version__}'"
    )[0][0]
    for table in ("release", "release_column"):
        old.execute(
            f"DELETE FROM {old.ledger(table)} WHERE CAST(release_id AS VARCHAR(36)) = '{new}'"
        )
    assert [old.rows(query) for query in queries] == before
    assert [tree.name for tree in list_hierarchies(old.url)] == ["schools"]


def test_old_releases_are_verified(old: Database, upgrade: Upgrade) -> None:
    upgrade(old)
    old.anonymize(**(JOB | {"output": "release.first_of_now"}))
    for name in (*CLIENT, "shown"):
        again = verified(old, f"release.{name}")
        assert (again.unchanged, again.digest) == (None, "not recorded"), name
    assert verified(old, "release.first_of_now").unchanged
    done = CliRunner().invoke(main, ["verify", old.url, "release.plain"], env={"COLUMNS": "200"})
    assert done.exit_code == 0
    assert "digest not recorded" in done.stdout
    table = old.relation("release.plain")
    old.execute(f"ALTER TABLE {table} ADD COLUMN full_name {old.types['text']}")
    with pytest.raises(ReleaseChanged, match="columns differ"):
        verified(old, "release.plain")


def test_old_releases_are_replaced(old: Database, upgrade: Upgrade) -> None:
    upgrade(old)
    # As the owner: another role's view would show a table that it may not read.
    url = as_role(old, "old_clerk") if old.name == "postgresql" else old.url
    for kind, name in (("table", "plain"), ("view", "shown")):
        arguments = JOB if kind == "table" else JOB | {"sensitive": [], "keep": ["ill"]}
        old.anonymize(
            database=create_engine(url, poolclass=NullPool) if url != old.url else url,
            **(arguments | {"output": f"release.{name}"}),
            output_kind=kind,
            if_exists="replace",
        )
        assert verified(old, f"release.{name}").unchanged
    key = "release_plain" if old.name == "sqlite" else "release.plain"
    assert releases(old)[key] == 2
    current = old.rows(
        f"SELECT count(*) FROM {old.ledger()} WHERE superseded_at IS NULL"
        " AND output_name LIKE '%plain'"
    )
    assert current == [(1,)]


def test_superseded_tables_of_before_are_dropped(old: Database, upgrade: Upgrade) -> None:
    upgrade(old)
    remaining = [
        name
        for (name,) in old.rows(
            f"SELECT relation_name FROM {old.ledger()} WHERE output_kind = 'view'"
            " ORDER BY created_at"
        )
    ]
    assert len(remaining) == 3
    dropped = collect_garbage(open_store(old.url), keep_last=1)
    assert [name.rpartition(".")[2] for name in dropped] == remaining[:1]
    names = {name for _, name in old.relations()}
    assert set(remaining[1:]) <= names
    assert remaining[0] not in names
    assert verified(old, "release.shown").k_achieved == 5


def test_old_databases_keep_budgets_now(old: Database, upgrade: Upgrade) -> None:
    """Releases without classes coexist with old ones, whose class statistics are unchanged."""
    import_or_skip("opendp")
    before = Counter(entry.k_achieved for entry in dbanon.releases(old.url))
    upgrade(old)
    dbanon.create_budget(old.url, "people", source="app.people", epsilon=20)
    report = dbanon.anonymize(
        old.url,
        table="app.people",
        quasi_identifiers=["age"],
        method="dp_ranks",
        epsilon=10.0,
        bounds={"age": (0, 120)},
        null_as={"age": 0},
        budget="people",
        output="release.synthetic",
    )
    assert (report.spent, report.total) == (10.0, 20.0)
    assert verified(old, "release.synthetic").unchanged
    now = Counter(entry.k_achieved for entry in dbanon.releases(old.url))
    assert now - before == Counter({None: 1})


# -- additional objects in PostgreSQL --------------------------------------------------------------


@pytest.fixture(params=["script", "extension"])
def installed(
    request: pytest.FixtureRequest,
    old_postgresql: Callable[[str], PostgresqlDatabase],
    upgrade: Upgrade,
) -> PostgresqlDatabase:
    """A database of 0.1.0 after ``dbanon upgrade``."""
    database = old_postgresql(request.param)
    upgrade(database)
    return database


def test_versions_agree(installed: PostgresqlDatabase) -> None:
    assert installed.rows("SELECT dbanon.version()") == [(dbanon.__version__,)]
    assert installed.rows("SELECT version_num FROM dbanon.alembic_version") == [
        (ledger_tables.LEDGER_REVISION,)
    ]


def test_sql_knows_old_releases(installed: PostgresqlDatabase) -> None:
    outputs = Counter(name for (name,) in installed.rows("SELECT output FROM dbanon.releases()"))
    assert outputs == releases(installed)
    assert outputs["release.shown"] == 3
    for name in (*CLIENT, "shown", "by_call", "trees_by_call"):
        assert installed.rows(
            f"SELECT unchanged, digest, k_achieved >= 3 FROM dbanon.verify('release.{name}')"
        ) == [(None, "not recorded", True)], name
    assert installed.rows("SELECT count(*) FROM dbanon.gc()") == [(1,)]


def test_a_runner_goes_on(installed: PostgresqlDatabase, sql_server: Server) -> None:
    """A runner keeps the rights granted then: calls, the client, replacement, its own gc."""
    clerk = as_role(installed, "old_clerk")
    for output, how in (("by_call", "replace"), ("new_call", "error")):
        statement = (
            f"SELECT verified FROM dbanon.mdav('app.people', 'release.{output}', '{{age,cost}}',"
            f" 3, sensitive => '{{ill}}', if_exists => '{how}')"
        )
        assert sql_server.execute(statement, url=clerk) == [(True,)]
        assert sql_server.execute(
            f"SELECT unchanged, digest FROM dbanon.verify('release.{output}')", url=clerk
        ) == [(True, "unchanged")]
    engine = create_engine(clerk, poolclass=NullPool)
    dbanon.anonymize(engine, **JOB, output="release.plain", if_exists="replace")
    assert verify(open_store(clerk), parse_relation("release.plain")).unchanged
    assert len(collect_garbage(open_store(clerk))) == 1
    assert sql_server.execute(
        "SELECT k_achieved >= 3 FROM dbanon.gaa_cp('app.people', 'release.trees_by_call',"
        " '{age,school}', 3, if_exists => 'replace',"
        """ hierarchies => '{"school": {"name": "schools"}}')""",
        url=clerk,
    ) == [(True,)]


def test_a_reader_goes_on(installed: PostgresqlDatabase, sql_server: Server) -> None:
    """Grants on a view survive the upgrade and the next release; verifying with columns works."""
    auditor, clerk = as_role(installed, "old_auditor"), as_role(installed, "old_clerk")
    dbanon.anonymize(
        create_engine(clerk, poolclass=NullPool),
        **(JOB | {"sensitive": [], "keep": ["ill"]}),
        output="release.shown",
        output_kind="view",
        if_exists="replace",
    )
    for name in ("shown", "plain"):
        assert sql_server.execute(f"SELECT count(*) FROM release.{name}", url=auditor) == [(60,)]
        assert sql_server.execute(
            f"SELECT k_achieved >= 3 FROM dbanon.verify('release.{name}', '{{age,cost}}', 3)",
            url=auditor,
        ) == [(True,)]
    with pytest.raises(Exception, match="permission denied"):
        sql_server.execute("SELECT count(*) FROM release.modelled", url=auditor)
    with pytest.raises((InsufficientRights, ReleaseNotFound)):
        verify(open_store(auditor), parse_relation("release.plain"))


def test_a_dump_after_the_upgrade(installed: PostgresqlDatabase, sql_server: Server) -> None:
    """After a restore a current release still matches its digest: no type or row differs."""
    from tests.sql.test_digest import dump_of

    installed.anonymize(**(JOB | {"output": "release.first_of_now"}))
    with sql_server.database() as url:
        sql_server.psql(dump_of(installed.url), url=url)
        restored = PostgresqlDatabase(url)
        assert sum(releases(restored).values()) == 11
        assert restored.rows("SELECT name FROM dbanon.hierarchy") == [("schools",)]


@pytest.mark.parametrize(
    "name",
    ["anonymize", "check_hierarchy", "classes", "store_hierarchy", "suggest_hierarchy", "check"],
)
def test_old_functions_explain_the_upgrade(name: str) -> None:
    """Functions of 0.1.0 call this package until the database is upgraded."""
    scope: dict[str, Any] = {}
    exec("from dbanon import plpython", scope)
    arguments = () if name == "check" else ("{}",)
    outcome = getattr(scope["plpython"], name)(None, "0.1.0", *arguments)
    if name == "classes":
        # One row with the error instead of rows.
        [(_, _, outcome)] = outcome
    answer = json.loads(outcome)
    assert answer["error"]["code"] == "version_mismatch"
    assert "dbanon upgrade" in answer["error"]["hint"]
