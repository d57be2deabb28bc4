"""Attacks through recorded requests: conditions, column sets, sources, keys."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url

import dbanon
from dbanon.errors import PseudonymsLink
from tests.postgres_server import Server
from tests.sql.mallory import sprung
from tests.sql.server_logging import ALL_LOGGING, printed_bytes, require_values_logged, unwrap
from tests.sql.test_rules import PERSON

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]

pytestmark = pytest.mark.one_database

KEY = "5e" * 32
EXACT = "SELECT output, stale, stale_by FROM dbanon.releases(true) WHERE state = 'current'"


@pytest.fixture
def mallorys(mallory: psycopg.Connection[Any], run_sql: Run, sql_url: str) -> str:
    """URL of mallory, a runner with the trap set, who may read app.person and owns nothing yet."""
    run_sql(PERSON)
    run_sql("ALTER ROLE mallory PASSWORD 'x'")
    run_sql("GRANT dbanon_runner TO mallory")
    run_sql("GRANT SELECT ON app.person TO mallory")
    run_sql("GRANT USAGE, CREATE ON SCHEMA app, release TO mallory")
    return make_url(sql_url).set(username="mallory", password="x").render_as_string(False)


def released(url: str, **more: Any) -> None:
    arguments: dict[str, Any] = {
        "table": "app.person",
        "output": "release.person",
        "k": 5,
        "quasi_identifiers": ["age"],
    }
    dbanon.anonymize(url, **(arguments | more))


def forge(run_sql: Run, **changes: Any) -> None:
    """The release's entry as mallory might have forged it."""
    [(request,)] = run_sql("SELECT request::text FROM dbanon.release")
    record = json.loads(request)
    record["asked"] |= changes.pop("asked", {})
    record["source"]["read"] |= changes
    run_sql("UPDATE dbanon.release SET request = %s", json.dumps(record))


def test_exact_staleness_runs_no_foreign_condition(mallorys: str, run_sql: Run) -> None:
    trap = "evil.spring()"
    released(mallorys, source_digest=True)
    assert run_sql(EXACT) == [("release.person", False, "digest")]
    forge(run_sql, asked={"where": trap})
    assert run_sql(EXACT)[0][2] != "digest"
    assert not sprung(run_sql)


# Forged records of a source, and whether the release is then stale by its digest.
FORGED_SOURCES: tuple[tuple[dict[str, Any], bool | None], ...] = (
    # The source lacks this column, so it is a different source.
    ({"columns": ['age" FROM app.person; ALTER ROLE mallory SUPERUSER; --']}, True),
    ({"hash": "0" * 64}, True),
    ({"columns": [], "salt": "0); ALTER ROLE mallory SUPERUSER; --"}, None),
    ({"asked": {"table": "app.person; ALTER ROLE mallory SUPERUSER"}}, None),
    ({"asked": {"table": 7}, "columns": 7}, None),
    ({"asked": {"key": 7}}, None),
    ({"salt": None, "way": {}, "hash": []}, None),
    ({"columns": 7}, None),
    ({"columns": None}, None),
    ({"columns": [7]}, None),
    ({"columns": []}, None),
    ({"salt": "a text"}, None),
    ({"salt": 2**70}, None),
    ({"salt": -1}, None),
    ({"way": "another"}, None),
)


def test_recorded_sources_are_not_trusted(mallorys: str, run_sql: Run, sql_url: str) -> None:
    released(mallorys, source_digest=True)
    [(recorded,)] = run_sql("SELECT request::text FROM dbanon.release")
    for changes, stale in FORGED_SOURCES:
        forge(run_sql, **changes)
        # Without a digest the server's counters may decide.
        by_digest = [] if stale is None else [stale]
        by_sql = [stale for _, stale, by in run_sql(EXACT) if by == "digest"]
        assert by_sql == by_digest, changes
        releases = dbanon.releases(sql_url, exact=True)
        by_client = [release.stale for release in releases if release.stale_by == "digest"]
        assert by_client == by_digest, changes
        assert len(releases) == 1
        superuser = run_sql("SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'")
        assert superuser == [(False,)], changes
        run_sql("UPDATE dbanon.release SET request = %s", recorded)


def test_a_source_whose_reading_runs_code_of_another_role_is_not_read(
    mallorys: str, run_sql: Run, connect: Connect
) -> None:
    owner = connect(mallorys)
    owner.execute(b"CREATE TABLE app.own AS SELECT person_id, age FROM app.person")
    released(mallorys, table="app.own", source_digest=True)
    owner.execute(b"DROP TABLE app.own")
    owner.execute(b"CREATE VIEW app.own AS SELECT 1 AS person_id, 2 AS age WHERE evil.spring()")
    run_sql(EXACT)
    assert not sprung(run_sql)


def test_roles_that_lost_the_read_right_learn_nothing(
    mallorys: str, run_sql: Run, connect: Connect
) -> None:
    released(mallorys, source_digest=True)
    run_sql("REVOKE SELECT ON app.person FROM mallory")
    run_sql("UPDATE app.person SET age = age + 1 WHERE person_id = 1")
    [(_, _, by)] = connect(mallorys).execute(EXACT.encode()).fetchall()
    assert by != "digest"
    [listed] = dbanon.releases(mallorys, exact=True)
    assert listed.stale_by != "digest"
    assert run_sql(EXACT) == [("release.person", True, "digest")]


@pytest.mark.parametrize(
    "sets",
    [
        [{"columns": ['age" FROM pg_class; ALTER ROLE mallory SUPERUSER; --'], "k": 2}],
        [{"columns": ["nobody"], "k": 2}],
        [{"columns": 7, "k": "x"}],
        [{"columns": ["age", "diagnosis"], "k": None}],
        [{"columns": None, "k": 2}],
        [{"k": 2}],
        {"columns": ["age"]},
        7,
    ],
)
def test_recorded_column_sets_are_not_trusted(
    mallorys: str, run_sql: Run, sql_url: str, sets: Any
) -> None:
    released(mallorys, also_k=[["age"]], sensitive=["diagnosis"])
    # Without its own level a set uses the release's k, which is too high for these two columns.
    [(fewest,)] = run_sql(
        "SELECT min(n) FROM (SELECT count(*) AS n FROM release.person GROUP BY age, diagnosis) AS t"
    )
    assert fewest < 5
    run_sql(
        "UPDATE dbanon.release SET arguments = jsonb_set(arguments, '{also_k}', %s)",
        json.dumps(sets),
    )
    with pytest.raises(psycopg.Error):
        run_sql("SELECT * FROM dbanon.verify('release.person')")
    with pytest.raises(dbanon.DbanonError):
        dbanon.verify(sql_url, "release.person")
    assert run_sql("SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'") == [(False,)]


def test_column_sets_are_enforced_and_recounted_in_sql(run_sql: Run) -> None:
    run_sql(PERSON)
    options = json.dumps({"also_k": [{"columns": ["age", "diagnosis"], "k": 4}]})
    run_sql(
        "SELECT dbanon.mondrian('app.person', 'release.person', '{age}', 5,"
        f" sensitive => '{{diagnosis}}', options => '{options}')"
    )
    [(set_entry,)] = run_sql("SELECT arguments->'also_k'->0 FROM dbanon.release")
    [(fewest,)] = run_sql(
        "SELECT min(n) FROM (SELECT count(*) AS n FROM release.person GROUP BY age, diagnosis) AS t"
    )
    assert set_entry == {"columns": ["age", "diagnosis"], "k": 4, "counted": fewest}
    assert fewest >= 4
    run_sql("SELECT * FROM dbanon.verify('release.person')")
    run_sql(
        "UPDATE release.person SET diagnosis = 'one' WHERE ctid ="
        " (SELECT min(ctid) FROM release.person)"
    )
    with pytest.raises(psycopg.Error) as failed:
        run_sql("SELECT * FROM dbanon.verify('release.person')")
    assert failed.value.sqlstate == "ZK001"
    assert "age, diagnosis" in str(failed.value)


@pytest.mark.parametrize(
    "options", ['{"pseudonyms": ["person_id"]}', '{"pseudonym_key": "file:/etc/passwd"}']
)
def test_a_call_in_sql_takes_no_key(run_sql: Run, options: str) -> None:
    run_sql(PERSON)
    with pytest.raises(psycopg.Error) as refused:
        run_sql(
            "SELECT dbanon.mdav('app.person', 'release.person', '{age}', 5,"
            f" options => '{options}')"
        )
    assert refused.value.sqlstate == "0A000"
    assert "/etc" not in str(refused.value)
    rules = json.dumps(
        {"age": "quasi_identifier", "person_id": "pseudonym", "name": "drop", "diagnosis": "drop"}
    )
    run_sql(f"SELECT * FROM dbanon.declare('app.person', '{rules}')")
    with pytest.raises(psycopg.Error):
        run_sql("SELECT dbanon.mdav('app.person', 'release.person', k => 5)")


def test_neither_logs_nor_other_sessions_see_a_key(
    mallorys: str,
    run_sql: Run,
    connect: Connect,
    sql_server: Server,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PSEUDONYMS", KEY)
    for setting in ALL_LOGGING:
        words = setting.replace("LOAD 'auto", "SET session_preload_libraries = 'auto")
        run_sql(f"ALTER ROLE mallory {words}")
    require_values_logged(connect(mallorys), sql_server)
    before = sql_server.log_size()
    seen: list[str] = []
    watcher = connect()

    def look(statement: str) -> None:
        query = b"SELECT query FROM pg_stat_activity WHERE query IS NOT NULL"
        seen.extend([statement, *(text for (text,) in watcher.execute(query).fetchall())])

    how = {"pseudonyms": ["person_id"], "pseudonym_key": "env:PSEUDONYMS"}
    with pytest.warns(PseudonymsLink):
        released(mallorys, **how, on_sql=look)
    log = sql_server.log_text(before)
    assert "dbanon_secret" in log
    assert len(seen) > 20
    hmac_key = hmac.new(bytes.fromhex(KEY), b"dbanon pseudonym 1", hashlib.sha256).digest()
    padded = hmac_key.ljust(64, b"\0")
    for secret in (
        bytes.fromhex(KEY),
        hmac_key,
        *(bytes(b ^ x for b in padded) for x in (0x36, 0x5C)),
    ):
        for text in (unwrap(log), *seen):
            assert secret.hex() not in text.lower()
            assert printed_bytes(secret) not in text
    # SQL cannot repeat this release and says which interface can.
    with pytest.raises(psycopg.Error) as refused:
        connect(mallorys).execute(b"SELECT dbanon.refresh('release.person')")
    assert "key" in str(refused.value)
