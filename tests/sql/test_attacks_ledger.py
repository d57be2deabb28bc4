"""Attacks on the ledger: one of a foreign owner, forged entries, copied marks, what hangs on it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from sqlalchemy import NullPool, create_engine

import dbanon
from dbanon import audit, install
from dbanon.errors import InsufficientRights, LedgerNotTrusted, OutputNotOurs
from dbanon.stores import open_store
from dbanon.stores.names import parse_relation
from tests.postgres_server import Server

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]
Role = Callable[..., str]

PEOPLE = (
    "CREATE TABLE app.people AS SELECT g AS id, sin(g) AS a, 'n ' || g AS name"
    " FROM generate_series(1, 60) AS g"
)
SUPER = "SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'"


# --- a ledger of a foreign owner, in a database of clients ----------------------------------------


@pytest.fixture
def client_url(sql_server: Server) -> Iterator[str]:
    """A database without dbanon's functions, with app.people and a role mallory, as superuser."""
    with sql_server.database() as url:
        sql_server.execute("CREATE SCHEMA app", url=url)
        sql_server.execute(PEOPLE, url=url)
        yield url


def anonymize(url: str, output: str = "release.p", **given: Any) -> dbanon.Report:
    engine = create_engine(url, poolclass=NullPool)
    arguments: dict[str, Any] = {"table": "app.people", "quasi_identifiers": ["a"], "k": 5}
    return dbanon.anonymize(engine, output=output, **(arguments | given))


def mallorys_ledger(server: Server, url: str) -> str:
    """Mallory makes the first release of a database, and so its ledger: her URL."""
    mallory = server.create_role("mallory", url=url)
    database = url.rpartition("/")[2]
    for statement in (
        f'GRANT CREATE ON DATABASE "{database}" TO mallory', "GRANT USAGE ON SCHEMA app TO mallory",
        "CREATE TABLE app.hers AS TABLE app.people", "ALTER TABLE app.hers OWNER TO mallory",
    ):  # fmt: skip
        server.execute(statement, url=url)
    anonymize(mallory, table="app.hers", output="hers.p")
    server.execute(
        "CREATE FUNCTION hers.climb() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN"
        " ALTER ROLE mallory SUPERUSER; RETURN true; EXCEPTION WHEN insufficient_privilege THEN"
        " RETURN true; END $$",
        url=mallory,
    )
    server.execute(
        "CREATE FUNCTION hers.climbing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " PERFORM hers.climb(); RETURN coalesce(NEW, OLD); END $$",
        url=mallory,
    )
    return mallory


TRAPS = {
    "nothing yet": [],
    "trigger": [
        "CREATE TRIGGER trap BEFORE INSERT OR UPDATE ON dbanon.release FOR EACH STATEMENT"
        " EXECUTE FUNCTION hers.climbing()"
    ],
    "rule": [
        "CREATE RULE trap AS ON INSERT TO dbanon.release_column WHERE hers.climb() DO ALSO NOTHING"
    ],
    "default": ["ALTER TABLE dbanon.release ADD COLUMN trap boolean DEFAULT hers.climb()"],
    "check": ["ALTER TABLE dbanon.release ADD CHECK (hers.climb())"],
    "policy": [
        "ALTER TABLE dbanon.release ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY trap ON dbanon.release USING (hers.climb())",
    ],
    "type": [
        "CREATE DOMAIN hers.trap AS text CHECK (hers.climb())",
        "ALTER TABLE dbanon.release ALTER COLUMN method TYPE hers.trap",
    ],
    "view": [
        "ALTER TABLE dbanon.release RENAME TO kept",
        "CREATE VIEW dbanon.release AS SELECT * FROM dbanon.kept WHERE hers.climb()",
    ],
}


def doors(url: str) -> list[Callable[[], Any]]:
    """Every way by which a client looks at a ledger or writes it."""
    store = open_store(create_engine(url, poolclass=NullPool))
    engine = create_engine(url, poolclass=NullPool)
    return [
        lambda: anonymize(url),
        lambda: anonymize(url, "hers.p", if_exists="replace"),
        lambda: audit.verify(store, parse_relation("hers.p")),
        lambda: audit.collect_garbage(store, 0),
        lambda: dbanon.store_hierarchy(engine, "places", {"tree": {"*": ["a"]}}),
        lambda: dbanon.list_hierarchies(engine),
        lambda: dbanon.load_hierarchy(engine, "name:places"),
        lambda: dbanon.drop_hierarchy(engine, "places"),
        lambda: install.upgrade(url),
    ]


@pytest.mark.parametrize("trap", TRAPS)
def test_a_ledger_of_somebody_else_is_not_touched(
    sql_server: Server, client_url: str, trap: str
) -> None:
    """A superuser's release would run what its owner hung on it: it made her a superuser."""
    mallory = mallorys_ledger(sql_server, client_url)
    for statement in TRAPS[trap]:
        sql_server.execute(statement, url=mallory)
    for door in doors(client_url):
        with pytest.raises(LedgerNotTrusted, match="mallory") as refused:
            door()
        assert (refused.value.exit_code, refused.value.sqlstate) == (5, "42501")
    assert sql_server.execute(SUPER) == [(False,)]
    assert sql_server.execute("SELECT to_regclass('release.p')::text", url=client_url) == [(None,)]
    with pytest.raises(InsufficientRights):
        install.install(client_url, sql_only=True)
    # Taking the objects over is not enough: what hangs on them is looked at, too.
    for statement in ("ALTER SCHEMA dbanon OWNER TO postgres", *(
        f"ALTER TABLE dbanon.{table} OWNER TO postgres"
        for table in ("release", "release_column", "run", "hierarchy", "hierarchy_node",
                      "alembic_version")
    ), *(["ALTER TABLE dbanon.kept OWNER TO postgres"] if trap == "view" else [])):  # fmt: skip
        sql_server.execute(statement, url=client_url)
    if TRAPS[trap]:
        with pytest.raises(LedgerNotTrusted):
            anonymize(client_url)
        with pytest.raises(InsufficientRights):
            install.install(client_url, sql_only=True)
    else:
        install.install(client_url, sql_only=True)
        anonymize(client_url)
    assert sql_server.execute(SUPER) == [(False,)]


@pytest.mark.parametrize("installed", [False, True])
def test_the_right_to_make_triggers_is_refused_whoever_owns_the_table(
    sql_server: Server, client_url: str, installed: bool
) -> None:
    anonymize(client_url, "release.first")
    if installed:
        install.install(client_url, sql_only=True)
    mallory = sql_server.create_role("mallory", url=client_url)
    for statement in (
        "GRANT USAGE ON SCHEMA dbanon TO mallory", "CREATE SCHEMA hers AUTHORIZATION mallory",
        "GRANT ALL ON dbanon.run TO mallory",
    ):  # fmt: skip
        sql_server.execute(statement, url=client_url)
    for _ in range(2):
        with pytest.raises(LedgerNotTrusted, match=r"dbanon\.run, of role mallory"):
            anonymize(client_url)
        sql_server.execute(
            "CREATE OR REPLACE FUNCTION hers.climbing() RETURNS trigger LANGUAGE plpgsql AS $$"
            " BEGIN ALTER ROLE mallory SUPERUSER; RETURN NEW; END $$",
            url=mallory,
        )
        sql_server.execute(
            "CREATE OR REPLACE TRIGGER trap BEFORE INSERT ON dbanon.run"
            " FOR EACH ROW EXECUTE FUNCTION hers.climbing()",
            url=mallory,
        )
    # The installation takes such rights back, but not what was made with them.
    with pytest.raises(InsufficientRights, match="trigger trap"):
        install.install(client_url, sql_only=True)
    sql_server.execute("DROP TRIGGER trap ON dbanon.run", url=client_url)
    install.install(client_url, sql_only=True)
    anonymize(client_url)
    assert sql_server.execute(SUPER) == [(False,)]


def test_the_role_of_the_ledger_is_nobodys(
    run_sql: Run, connect: Connect, sql_role: Role, sql_server: Server, sql_url: str
) -> None:
    run_sql(PEOPLE)
    call = "SELECT dbanon.mdav('app.people', 'release.p', '{a}', 5, if_exists => 'replace')"
    run_sql(call)
    mallory = sql_role("mallory")
    reads = ("SELECT dbanon.verify('release.p')", "SELECT * FROM dbanon.releases()",
             "SELECT dbanon.gc(0)", "SELECT dbanon.information_loss('release.p')",
             "SELECT * FROM dbanon.hierarchies()", "SELECT dbanon.drop_hierarchy('x')",
             "SELECT dbanon.store_hierarchy('x', '{\"tree\": {\"*\": [\"a\"]}}')")  # fmt: skip
    run_sql("GRANT dbanon_ledger TO mallory")
    try:
        for statement in (call, *reads):
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="not trusted"):
                run_sql(statement)
        with pytest.raises(LedgerNotTrusted, match="dbanon_ledger"):
            anonymize(sql_url, "release.q")
        with pytest.raises(InsufficientRights, match="member"):
            install.upgrade(sql_url)
    finally:
        run_sql("REVOKE dbanon_ledger FROM mallory")
    run_sql("ALTER ROLE dbanon_ledger LOGIN")
    try:
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="not trusted"):
            run_sql(call)
        with sql_server.database() as other, pytest.raises(InsufficientRights, match="log in"):
            install.install(other, sql_only=True)
    finally:
        run_sql("ALTER ROLE dbanon_ledger NOLOGIN")
    run_sql(call)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connect(mallory).execute("SET ROLE dbanon_ledger")


# --- entries that are not true --------------------------------------------------------------------


def entry(release_id: str, relation: int, output: int | None = None, **given: Any) -> list[str]:
    """The three arguments of the function that records, of a release of one column."""
    release = {
        "release_id": release_id, "relation_oid": relation, "output_oid": output or relation,
        "dbanon_version": "0.2.0", "source": "app.people", "method": "mdav",
        "arguments": {"by": []}, "k_requested": 5, "k_achieved": 5, "rows_in": 5, "rows_out": 5,
        "suppressed": 0, "null_rows": 0, "classes": 1, "smallest_class": 5, "median_class": 5,
        "largest_class": 5, "histogram": {"5": 1}, "information_loss": 0,
        "information_loss_before_rounding": 0, "seconds": {}, "guarantee": "rows",
        "seed_policy": "fresh", "earlier_releases": "none",
    }  # fmt: skip
    columns = [{"position": 0, "name": "a", "role": "quasi_identifier", "sql_type": "integer"}]
    run = {"door": "sql", "elapsed": 1}
    return [json.dumps(part) for part in (release | given, columns, run)]


RECORD = "SELECT dbanon._record_release(%s::jsonb, %s::jsonb, %s::jsonb)"
MAKE = "CREATE TABLE {0} AS SELECT 1 AS a FROM generate_series(1, 5)"


def oid(connection: psycopg.Connection[Any], name: str) -> int:
    row = connection.execute("SELECT %s::regclass::oid::bigint", (name,)).fetchone()
    assert row is not None
    return int(row[0])


def mark(
    connection: psycopg.Connection[Any], name: str, release_id: str, kind: str = "TABLE"
) -> None:
    connection.execute(f"COMMENT ON {kind} {name} IS 'dbanon release {release_id}'".encode())


def refused(connection: psycopg.Connection[Any], given: list[str], *states: str) -> None:
    with pytest.raises(psycopg.Error) as failure, connection.transaction():
        connection.execute(RECORD, given)
    assert failure.value.sqlstate in (states or ("42501",)), failure.value


@pytest.fixture
def mallory(connect: Connect, sql_role: Role, run_sql: Run) -> psycopg.Connection[Any]:
    """A runner in a transaction; app.people and anna's release.p are there."""
    run_sql(PEOPLE)
    run_sql("GRANT SELECT ON app.people TO PUBLIC")
    connect(sql_role("anna")).execute("SELECT dbanon.mdav('app.people', 'release.p', '{a}', 5)")
    return connect(sql_role("mallory"), autocommit=False)


def test_a_runner_writes_no_row_by_hand(mallory: psycopg.Connection[Any]) -> None:
    for statement in (
        "INSERT INTO dbanon.release SELECT * FROM dbanon.release",
        "UPDATE dbanon.release SET superseded_at = now()",
        "UPDATE dbanon.release SET published_by = 'mallory'",
        "DELETE FROM dbanon.release",
        "INSERT INTO dbanon.release_column SELECT * FROM dbanon.release_column",
        "UPDATE dbanon.release_column SET role = 'sensitive'",
        "INSERT INTO dbanon.run SELECT * FROM dbanon.run",
        "TRUNCATE dbanon.release",
        "SELECT * FROM dbanon.release FOR UPDATE",
        "LOCK TABLE dbanon.release IN ACCESS EXCLUSIVE MODE",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege), mallory.transaction():
            mallory.execute(statement.encode())


def test_an_entry_is_of_a_relation_that_its_owner_marked_in_this_transaction(
    mallory: psycopg.Connection[Any], run_sql: Run
) -> None:
    one, fresh = str(uuid.uuid4()), str(uuid.uuid4())
    # Another's table: with its own mark, with a mark of ours that only its owner could write.
    theirs = oid(mallory, "release.p")
    [(release_id,)] = run_sql("SELECT release_id::text FROM dbanon.release")
    refused(mallory, entry(fresh, theirs))
    refused(mallory, entry(release_id, theirs))
    with pytest.raises(psycopg.errors.InsufficientPrivilege), mallory.transaction():
        mark(mallory, "release.p", fresh)
    run_sql("GRANT ALL ON release.p TO mallory WITH GRANT OPTION")
    with pytest.raises(psycopg.errors.InsufficientPrivilege), mallory.transaction():
        mark(mallory, "release.p", fresh)
    # Our own, but not marked, marked for another release, or marked before.
    mallory.execute(MAKE.format("release.mine").encode())
    mine = oid(mallory, "release.mine")
    refused(mallory, entry(one, mine))
    mark(mallory, "release.mine", fresh)
    refused(mallory, entry(one, mine))
    mark(mallory, "release.mine", one)
    mallory.commit()
    refused(mallory, entry(one, mine))
    refused(mallory, entry(fresh, mine, theirs))
    # A comment on a column, or on another catalog's object of this oid, is no mark.
    mallory.execute(f"COMMENT ON COLUMN release.mine.a IS 'dbanon release {fresh}'".encode())
    refused(mallory, entry(fresh, mine))
    mark(mallory, "release.mine", one)
    mallory.execute(RECORD, entry(one, mine))
    refused(mallory, entry(one, mine), "23505")
    mallory.commit()
    mark(mallory, "release.mine", one)
    refused(mallory, entry(one, mine), "23505")
    assert run_sql("SELECT output_name, published_by, superseded_at, created_at <= now()"
                   " FROM dbanon.release ORDER BY created_at") == [
        ("p", "anna", None, True), ("mine", "mallory", None, True)
    ]  # fmt: skip


def test_role_time_and_names_are_not_the_callers_to_say(mallory: psycopg.Connection[Any]) -> None:
    mallory.execute(MAKE.format("release.mine").encode())
    mine, one = oid(mallory, "release.mine"), str(uuid.uuid4())
    mark(mallory, "release.mine", one)
    for key, value in (
        ("published_by", "anna"), ("created_at", "2099-01-01"), ("superseded_at", "2000-01-01"),
        ("output_name", "p"), ("output_schema", "release"), ("relation_name", "p"),
        ("output_kind", "view"), ("xmin", "1"), ("tableoid", "1"), ("ctid", "(0,1)"), ("a b", 1),
    ):  # fmt: skip
        refused(mallory, entry(one, mine, **{key: value}), "22023")
    given = entry(one, mine)
    refused(mallory, [given[0], '[{"position": 0, "release_id": "x"}]', given[2]], "22023")
    refused(mallory, [given[0], given[1], '{"door": "sql", "started_at": "2000-01-01"}'], "22023")
    refused(mallory, [given[0], given[1], '{"door": "root", "elapsed": 1}'], "23502")
    for odd in ("null", "[]", '"x"', "1", "{}"):
        refused(mallory, [odd, given[1], given[2]], "22023", "42501")
        refused(mallory, [given[0], given[1], odd], "22023", "23502")
        if odd != "[]":
            refused(mallory, [given[0], odd, given[2]], "22023")
    for place in ("relation_oid", "output_oid"):
        for number in (0, -1, 2**62, 2**70, "x", None, 1.5, [mine], 1259):
            odd_oid = entry(one, mine, **{place: number})
            refused(mallory, odd_oid, "42501", "22P02", "22003")
    refused(mallory, entry("x", mine), "22P02")
    refused(mallory, entry(one, mine, source="x" * 20_000_000), "54000")
    refused(mallory, [given[0], json.dumps([{}] * 5000), given[2]], "54000")
    for value in (None, [], "x", [[]] * 5000):
        refused(mallory, entry(one, mine, arguments=value), "22023")
    refused(mallory, ["[" * 9999 + "]" * 9999, given[1], given[2]], "54001", "22023")
    refused(mallory, entry(one, mine, k_requested="many"), "22P02")
    refused(mallory, entry(one, mine, k_requested=None), "23502")
    refused(mallory, entry(one, mine, rows_in=2**70), "22003")


def test_subtransactions_and_savepoints(mallory: psycopg.Connection[Any], run_sql: Run) -> None:
    one, two = str(uuid.uuid4()), str(uuid.uuid4())
    # Marked below, called above; called below, marked above: one transaction.
    with mallory.transaction():
        with mallory.transaction():
            mallory.execute(MAKE.format("release.mine").encode())
            mark(mallory, "release.mine", one)
        with mallory.transaction():
            mallory.execute(RECORD, entry(one, oid(mallory, "release.mine")))
    mallory.commit()
    # A mark that was rolled back is none; nor is a release that was.
    mallory.execute(MAKE.format("release.other").encode())
    other = oid(mallory, "release.other")
    with mallory.transaction(force_rollback=True):
        mark(mallory, "release.other", two)
        mallory.execute(RECORD, entry(two, other))
    refused(mallory, entry(two, other))
    mallory.rollback()
    # Dropped after it was recorded: the entry says so.
    mallory.execute(MAKE.format("release.gone").encode())
    mark(mallory, "release.gone", two)
    gone = oid(mallory, "release.gone")
    mallory.execute(RECORD, entry(two, gone))
    mallory.execute("DROP TABLE release.gone")
    refused(mallory, entry(str(uuid.uuid4()), gone))
    mallory.commit()
    assert run_sql(
        "SELECT output, state FROM dbanon.releases() WHERE published_by = 'mallory' ORDER BY 1"
    ) == [("release.gone", "dropped"), ("release.mine", "current")]
    # At REPEATABLE READ the snapshot is older than the transaction's own number.
    mallory.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    mallory.execute("SELECT 1")
    run_sql("CREATE TABLE app.later (a integer)")
    three = str(uuid.uuid4())
    mallory.execute(MAKE.format("release.third").encode())
    mark(mallory, "release.third", three)
    mallory.execute(RECORD, entry(three, oid(mallory, "release.third")))
    mallory.commit()


def test_set_role_definer_wrappers_and_shadows(
    mallory: psycopg.Connection[Any], run_sql: Run
) -> None:
    """The entry is the owner's, whoever calls, logs in, or shadows names."""
    run_sql("CREATE ROLE team IN ROLE dbanon_runner")
    run_sql("GRANT team TO mallory")
    run_sql("GRANT CREATE, USAGE ON SCHEMA release TO team")
    for name in ("release", "release_column", "run", "pg_class", "pg_description", "pg_namespace"):
        mallory.execute(f"CREATE TEMPORARY TABLE {name} (release_id uuid, oid oid)".encode())
    mallory.execute("CREATE TYPE pg_temp.jsonb AS (a integer)")
    mallory.execute("CREATE TYPE pg_temp.uuid AS (a integer)")
    mallory.execute(
        "CREATE FUNCTION pg_temp.clock_timestamp() RETURNS timestamptz RETURN '2099-01-01'"
        "::timestamptz"
    )
    mallory.execute("SET search_path = pg_temp, release, pg_catalog")
    mallory.execute("SET ROLE team")
    mallory.execute(MAKE.format("release.mine").encode())
    mallory.execute("RESET ROLE")
    one = str(uuid.uuid4())
    mark(mallory, "release.mine", one)
    mallory.execute(
        RECORD.replace("::jsonb", "::pg_catalog.jsonb"), entry(one, oid(mallory, "release.mine"))
    )
    mallory.commit()
    assert run_sql("SELECT published_by, created_at <= clock_timestamp() FROM dbanon.release"
                   " WHERE output_name = 'mine'") == [("team", True)]  # fmt: skip
    # A wrapper of a superuser gives mallory no entry of what she does not own.
    run_sql(
        "CREATE FUNCTION app.wrapped(jsonb, jsonb, jsonb) RETURNS jsonb SECURITY DEFINER"
        " LANGUAGE sql AS 'SELECT dbanon._record_release($1, $2, $3)'"
    )
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="does not bear"):
        mallory.execute(
            "SELECT app.wrapped(%s::pg_catalog.jsonb, %s::pg_catalog.jsonb, %s::pg_catalog.jsonb)",
            entry(str(uuid.uuid4()), oid(mallory, "release.p")),
        )


def test_an_output_is_a_view_of_its_table_alone(
    mallory: psycopg.Connection[Any], run_sql: Run
) -> None:
    one = str(uuid.uuid4())
    for statement in (
        MAKE.format("release.mine"), MAKE.format("release.other"),
        "CREATE VIEW release.right AS SELECT a FROM release.mine",
        "CREATE VIEW release.wrong AS SELECT a FROM release.other",
        "CREATE VIEW release.both AS SELECT o.a FROM release.other AS o, release.mine AS m",
        "CREATE VIEW release.nothing AS SELECT 1 AS a",
        "CREATE MATERIALIZED VIEW release.stale AS SELECT a FROM release.mine",
        "CREATE TEMPORARY TABLE mine AS SELECT 1 AS a",
    ):  # fmt: skip
        mallory.execute(statement.encode())
    for kind, name in (("TABLE", "release.mine"), ("TABLE", "release.other"),
                       ("VIEW", "release.right"), ("VIEW", "release.wrong"),
                       ("VIEW", "release.both"), ("VIEW", "release.nothing"),
                       ("MATERIALIZED VIEW", "release.stale"),
                       ("TABLE", "pg_temp.mine")):  # fmt: skip
        mark(mallory, name, one, kind)
    mine = oid(mallory, "release.mine")
    for name in ("wrong", "both", "nothing", "stale", "other"):
        refused(mallory, entry(one, mine, oid(mallory, f"release.{name}")))
    right = oid(mallory, "release.right")
    refused(mallory, entry(one, right, right))
    temporary = oid(mallory, "pg_temp.mine")
    refused(mallory, entry(one, temporary))
    mallory.execute(RECORD, entry(one, mine, right))
    mallory.commit()
    assert run_sql("SELECT output_kind, output_name, relation_name FROM dbanon.release"
                   " WHERE published_by = 'mallory'") == [("view", "right", "mine")]  # fmt: skip


def test_a_run_that_failed_is_of_who_logged_in(
    mallory: psycopg.Connection[Any], run_sql: Run
) -> None:
    good = {"door": "cli", "method": "mdav", "source": "app.people", "output_schema": "release",
            "output_name": "p", "error_code": "too_few_records", "elapsed": 2.5}  # fmt: skip
    for bad in (
        {"run_by": "anna"}, {"state": "done"}, {"started_at": "2000-01-01"}, {"release_id": "x"},
        {"door": "sql"}, {"error_code": "I quote a value"}, {"error_code": None},
        {"method": "x; y"}, {"source": "x" * 1000}, {"output_name": None}, {"source": "x" * 99999},
    ):  # fmt: skip
        with pytest.raises(psycopg.errors.InvalidParameterValue), mallory.transaction():
            mallory.execute("SELECT dbanon._record_run(%s::jsonb)", (json.dumps(good | bad),))
    mallory.execute("SELECT dbanon._record_run(%s::jsonb)", (json.dumps(good),))
    mallory.commit()
    assert run_sql(
        "SELECT run_by, state, release_id, finished_at - started_at = '2.5 s'"
        " FROM dbanon.run WHERE state = 'failed'"
    ) == [("mallory", "failed", None, True)]


# --- verify, replace and gc look at marks, oids and owners ----------------------------------------


def test_verify_is_not_made_to_say_yes(mallory: psycopg.Connection[Any], run_sql: Run) -> None:
    """Neither a copied mark, nor a renamed release, nor a hidden entry covers anything."""
    [(release_id,)] = run_sql("SELECT release_id::text FROM dbanon.release")
    mallory.execute(
        "CREATE TABLE release.fake AS SELECT 0.1::float8 AS a FROM generate_series(1, 60)"
    )
    mark(mallory, "release.fake", release_id)
    mallory.commit()
    with pytest.raises(psycopg.errors.UndefinedTable, match="not the relation"):
        mallory.execute("SELECT dbanon.verify('release.fake')")
    mallory.rollback()
    with pytest.raises(psycopg.errors.UndefinedTable, match="not the relation"):
        mallory.execute("SELECT dbanon.information_loss('release.fake')")
    mallory.rollback()
    # The name of a release that was renamed away, with its mark: the oid is another.
    run_sql("ALTER TABLE release.p RENAME TO moved")
    run_sql("ALTER TABLE release.fake RENAME TO p")
    with pytest.raises(psycopg.errors.UndefinedTable, match="not the relation"):
        run_sql("SELECT dbanon.verify('release.p')")
    with pytest.raises(psycopg.errors.UndefinedTable, match="not the relation"):
        run_sql("SELECT dbanon.verify('release.moved')")
    run_sql("DROP TABLE release.p")
    run_sql("ALTER TABLE release.moved RENAME TO p")
    # Whoever may change the ledger's rows cannot hide a live release from its recount.
    run_sql("UPDATE dbanon.release SET superseded_at = now()")
    assert run_sql("SELECT unchanged FROM dbanon.verify('release.p')") == [(True,)]
    assert run_sql("SELECT state FROM dbanon.releases()") == [("current",)]


def test_a_copied_mark_is_not_replaced(
    mallory: psycopg.Connection[Any], run_sql: Run, sql_url: str
) -> None:
    [(release_id,)] = run_sql("SELECT release_id::text FROM dbanon.release")
    mallory.execute(MAKE.format("release.hers").encode())
    mallory.execute("CREATE VIEW release.seen AS SELECT * FROM release.hers")
    mallory.execute(MAKE.format("release.new_summary").encode())
    for kind, name in (("TABLE", "hers"), ("VIEW", "seen"), ("TABLE", "new_summary")):
        mark(mallory, f"release.{name}", release_id, kind)
    mallory.commit()
    call = (
        "SELECT dbanon.mdav('app.people', 'release.{}', '{{a}}', 5, if_exists => 'replace',"
        ' options => \'{{"output_kind": "{}"}}\')'
    )
    for name, kind in (("hers", "table"), ("seen", "view"), ("new", "table")):
        with pytest.raises(psycopg.errors.DuplicateTable, match=r"dbanon did not make|not made by"):
            run_sql(call.format(name, kind))
        if name != "new":
            with pytest.raises(OutputNotOurs):
                anonymize(sql_url, f"release.{name}", if_exists="replace", output_kind=kind)
    assert run_sql("SELECT count(*) FROM release.hers, release.seen") == [(25,)]
    assert run_sql("SELECT pg_get_userbyid(relowner) FROM pg_class WHERE relname IN"
                   " ('hers', 'seen', 'new_summary')") == [("mallory",)] * 3  # fmt: skip


def test_a_view_of_somebody_else_is_not_published_through(
    mallory: psycopg.Connection[Any], run_sql: Run, sql_url: str
) -> None:
    """Her release, truly recorded: who replaces it would publish through a view that is hers."""
    mallory.execute(
        "SELECT dbanon.mdav('app.people', 'release.v', '{a}', 5,"
        ' options => \'{"output_kind": "view"}\')'
    )
    mallory.commit()
    with pytest.raises(psycopg.errors.DuplicateTable, match="belongs to role mallory"):
        run_sql("SELECT dbanon.mdav('app.people', 'release.v', '{a}', 5, if_exists => 'replace',"
                " options => '{\"output_kind\": \"view\"}')")  # fmt: skip
    with pytest.raises(OutputNotOurs, match="belongs to role mallory"):
        anonymize(sql_url, "release.v", if_exists="replace", output_kind="view")


def test_gc_passes_over_what_is_not_its_own(
    mallory: psycopg.Connection[Any], run_sql: Run, sql_url: str, sql_role: Role
) -> None:
    again = (
        "SELECT dbanon.mdav('app.people', 'release.{}', '{{a}}', 5, if_exists => 'replace',"
        ' options => \'{{"output_kind": "view"}}\')'
    )
    for _ in range(2):
        run_sql(again.format("v"))
        mallory.execute(again.format("w").encode())
        mallory.commit()
    run_sql(again.format("u"))
    run_sql(again.format("u"))
    # The live ones are hidden, one old table is shown elsewhere, and one is a copy with the mark.
    run_sql("UPDATE dbanon.release SET superseded_at = now() WHERE superseded_at IS NULL")
    old = "SELECT relation_name FROM dbanon.release WHERE output_name = 'v' ORDER BY created_at"
    [(first,), _] = run_sql(old)
    run_sql(f'CREATE VIEW release.mine AS SELECT * FROM release."{first}"')
    store = open_store(create_engine(sql_url, poolclass=NullPool))
    dropped = audit.collect_garbage(store, 0)
    left = dict(
        run_sql(
            "SELECT output_name, count(*) FROM dbanon.release AS r JOIN pg_class AS c"
            " ON c.relname = r.relation_name WHERE output_kind = 'view' GROUP BY 1"
        )
    )
    assert left == {"v": 2, "w": 1, "u": 1}
    assert len(dropped) == 2
    # Inside the database, alike; a superuser may drop everybody's.
    run_sql("DROP VIEW release.mine")
    assert run_sql("SELECT dbanon.gc(0)") == [(f"release.{first}",)]
    for name in ("v", "w", "u"):
        assert run_sql(f"SELECT count(*) FROM release.{name}") == [(60,)]


def test_a_ledger_entry_is_written_by_clients_with_a_runners_rights(
    mallory: psycopg.Connection[Any], run_sql: Run, sql_role: Role
) -> None:
    url = sql_role("berta")
    report = anonymize(url, "release.q")
    [row] = run_sql(
        "SELECT r.created_at::text, r.published_by, u.door, u.state, u.run_by, r.output_oid"
        " = 'release.q'::regclass::oid::bigint FROM dbanon.release AS r JOIN dbanon.run AS u"
        " USING (release_id) WHERE r.output_name = 'q'"
    )
    assert row[1:] == ("berta", "python", "done", "berta", True)
    same = "SELECT created_at = %s::timestamptz FROM dbanon.release WHERE output_name = 'q'"
    assert run_sql(same, report.created_at) == [(True,)]
    run_sql("SELECT dbanon.mdav('app.people', 'release.s', '{a}', 5)", url=url)
    assert run_sql("SELECT s.created_at = r.created_at FROM release.s_summary AS s"
                   " JOIN dbanon.release AS r USING (release_id)") == [(True,)]  # fmt: skip
