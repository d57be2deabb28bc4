"""CALL dbanon.dp_ranks: its output and spending, and attempts to release without spending."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from sqlalchemy import NullPool, create_engine

import dbanon
from tests.postgres_server import Server
from tests.prerequisites import import_or_skip
from tests.sql.mallory import TRAP, sprung
from tests.sql.private_calls import CALL, Connect, Run, spent, state_of
from tests.sql.server_logging import ALL_LOGGING, require_values_logged

import_or_skip("opendp")

ISOLATIONS = ("read committed", "repeatable read", "serializable")


@pytest.fixture
def sql_url(private_url: str) -> str:
    """A database with OpenDP next to dbanon, and rows to release."""
    return private_url


def test_a_call_releases_and_spends(
    run_sql: Run, connect: Connect, sql_role: Callable[..., str], sql_url: str, budget: None
) -> None:
    anna = connect(sql_role("anna"))
    anna.execute(CALL.format("magic", 1))
    assert spent(run_sql) == (1.0, 1)
    assert run_sql(
        "SELECT count(*), count(a), count(b), min(a) >= 0, max(a) <= 350, min(b) >= 0,"
        " max(b) <= 1000 FROM release.magic"
    ) == [(1000, 1000, 1000, True, True, True, True)]
    [entry] = run_sql(
        "SELECT method, k_requested, histogram, information_loss, epsilon::float8, neighbours,"
        " budget, rows_in, published_by, seconds::text FROM dbanon.release"
    )
    assert entry == ("dp_ranks", None, None, None, 1.0, "row", "magic", 1000, "anna", "{}")
    [(state, release)] = run_sql("SELECT state, release_id FROM dbanon.spending")
    assert (state, [(release,)]) == ("published", run_sql("SELECT release_id FROM dbanon.release"))
    verdict = dbanon.verify(sql_url, "release.magic")
    assert (verdict.rows, verdict.unchanged, verdict.epsilon) == (1000, True, 1.0)
    assert run_sql("SELECT state, epsilon, k_requested FROM dbanon.releases()") == [
        ("current", 1.0, None)
    ]
    [(rows, smallest, unchanged)] = run_sql(
        "SELECT rows, smallest_class, unchanged FROM dbanon.verify('release.magic')"
    )
    assert (rows, smallest, unchanged) == (1000, None, True)


def test_a_client_spends_by_the_same_function(
    run_sql: Run, sql_role: Callable[..., str], budget: None
) -> None:
    """A runner cannot write budgets; a role without rights to the ledger spends nothing."""
    arguments: dict[str, Any] = {
        "table": "app.magic",
        "quasi_identifiers": ["a"],
        "method": "dp_ranks",
        "epsilon": 1.0,
        "bounds": {"a": (0, 350)},
        "budget": "magic",
    }
    with pytest.raises(dbanon.DbanonError):
        dbanon.anonymize(sql_role("nobody", runner=False), **arguments, output="release.n")
    assert spent(run_sql) == (0.0, 0)
    anna = create_engine(sql_role("anna"), poolclass=NullPool)
    report = dbanon.anonymize(anna, **arguments, output="release.client")
    assert run_sql("SELECT state, release_id::text, spent_by FROM dbanon.spending") == [
        ("published", report.release_id, "anna")
    ]
    assert dbanon.verify(anna, "release.client").unchanged


def test_refused_inside_begin_before_anything_is_spent(
    run_sql: Run, connect: Connect, sql_role: Callable[..., str], budget: None
) -> None:
    anna = connect(sql_role("anna"), autocommit=False)
    with pytest.raises(psycopg.Error, match="transaction is open") as failure:
        anna.execute(CALL.format("magic", 1))
    assert state_of(failure) == "25001"
    anna.rollback()
    plain = connect(sql_role("berta"))
    with pytest.raises(psycopg.Error, match="transaction is open"):
        plain.execute(
            f"DO $do$ BEGIN BEGIN {CALL.format('magic', 1)};"
            " EXCEPTION WHEN division_by_zero THEN NULL; END; END $do$"
        )
    assert spent(run_sql) == (0.0, 0)
    assert run_sql("SELECT count(*) FROM dbanon.release") == [(0,)]


def test_failures_after_spending_do_not_refund(
    run_sql: Run, connect: Connect, sql_role: Callable[..., str], budget: None
) -> None:
    """Everything that a call did is rolled back, except the spending."""
    url = sql_role("anna")
    run_sql(
        "CREATE FUNCTION app.no() RETURNS event_trigger LANGUAGE plpgsql AS"
        " $$ BEGIN IF current_user = 'anna' AND tg_tag = 'ALTER TABLE'"
        " THEN RAISE EXCEPTION 'no'; END IF; END $$"
    )
    run_sql("CREATE EVENT TRIGGER no ON ddl_command_end EXECUTE FUNCTION app.no()")
    with pytest.raises(psycopg.Error):
        connect(url).execute(CALL.format("magic", 1))
    run_sql("DROP EVENT TRIGGER no")
    assert spent(run_sql) == (1.0, 1)
    assert run_sql("SELECT state, release_id FROM dbanon.spending") == [("spent", None)]
    assert run_sql("SELECT to_regclass('release.magic')") == [(None,)]


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_race_never_spends_more_than_there_is(
    run_sql: Run, connect: Connect, sql_role: Callable[..., str], budget: None, isolation: str
) -> None:
    """Eight concurrent calls on a budget for three."""
    url, outcomes = sql_role("anna"), []
    sessions = [connect(url) for _ in range(8)]
    barrier = threading.Barrier(8)

    def release_once(number: int) -> None:
        sessions[number].execute(f"SET default_transaction_isolation = '{isolation}'")
        barrier.wait()
        try:
            sessions[number].execute(CALL.format(f"m{number}", 1))
            outcomes.append("released")
        except psycopg.Error as error:
            outcomes.append(str(error.sqlstate))

    threads = [threading.Thread(target=release_once, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [(released,)] = run_sql("SELECT count(*) FROM dbanon.release")
    assert spent(run_sql) == (3.0, 3)
    assert released == outcomes.count("released") <= 3
    assert set(outcomes) <= {"released", "ZK009", "40001"}
    assert outcomes.count("ZK009") >= 5


@pytest.mark.parametrize(
    "epsilon", ["-1", "0", "'NaN'", "'Infinity'", "'-Infinity'", "1e-400::numeric", "NULL"]
)
def test_epsilon_is_a_number_above_0(
    run_sql: Run, connect: Connect, sql_role: Callable[..., str], budget: None, epsilon: str
) -> None:
    anna = connect(sql_role("anna"))
    with pytest.raises(psycopg.Error):
        anna.execute(CALL.format("magic", epsilon))
    if "numeric" not in epsilon:
        with pytest.raises(psycopg.Error) as failure:
            anna.execute(f"SELECT dbanon._spend('magic', {epsilon}, gen_random_uuid())")
        assert state_of(failure) == "22023"
    assert spent(run_sql) == (0.0, 0)


def test_only_the_owner_writes_budgets(
    run_sql: Run, connect: Connect, sql_role: Callable[..., str], budget: None
) -> None:
    anna = connect(sql_role("anna"))
    anna.execute("SELECT dbanon._spend('magic', 1, gen_random_uuid())")
    for attack in (
        "UPDATE dbanon.budget SET spent = 0",
        "UPDATE dbanon.budget SET epsilon_total = 100",
        "INSERT INTO dbanon.budget SELECT 'mine', 'app.magic', 'row', NULL, 9, 0, now(), 'anna',"
        " NULL, 1",
        "DELETE FROM dbanon.budget",
        "TRUNCATE dbanon.budget",
        "DELETE FROM dbanon.spending",
        "UPDATE dbanon.spending SET epsilon = 0.1",
        "ALTER TABLE dbanon.budget DROP CONSTRAINT budget_not_overspent",
        "CREATE TRIGGER t BEFORE UPDATE ON dbanon.budget FOR EACH ROW"
        " EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        "SET ROLE dbanon_ledger",
    ):
        with pytest.raises(psycopg.Error) as failure:
            anna.execute(attack)
        assert state_of(failure) == "42501", attack
    run_sql("CREATE TABLE app.other AS SELECT * FROM app.magic")
    run_sql("GRANT SELECT ON app.other TO PUBLIC")
    berta = sql_role("berta")
    for options in (
        {"source": "app.magic", "raises": "magic"},
        {"source": "app.other", "unit": "person", "entity": "p"},
    ):
        with pytest.raises(dbanon.DbanonError, match="owner of the ledger"):
            dbanon.create_budget(berta, "b", epsilon=9, **options)
    # A savepoint, and then the transaction, roll back unused spendings.
    anna.execute("BEGIN")
    anna.execute("SAVEPOINT before")
    anna.execute("SELECT dbanon._spend('magic', 1, gen_random_uuid())")
    anna.execute("ROLLBACK TO before")
    anna.execute("COMMIT")
    assert spent(run_sql) == (1.0, 1)
    # The owner's own statements must satisfy the budget's constraints, too.
    for wrong in ("spent = 4", "spent = -1", "spent = 'NaN'", "epsilon_total = 'NaN'"):
        with pytest.raises(psycopg.Error) as failure:
            run_sql(f"UPDATE dbanon.budget SET {wrong}")
        assert state_of(failure) == "23514", wrong
    # A check of the same name with another condition is not ours.
    run_sql("ALTER TABLE dbanon.budget DROP CONSTRAINT budget_not_overspent")
    run_sql("ALTER TABLE dbanon.budget ADD CONSTRAINT budget_not_overspent CHECK (spent > -9)")
    with pytest.raises(psycopg.Error, match="not trusted"):
        run_sql("SELECT dbanon._require_ledger()")


def test_a_release_is_recorded_with_its_own_spending_alone(
    run_sql: Run, connect: Connect, sql_role: Callable[..., str], budget: None
) -> None:
    """An entry that claims a spending that does not exist or was already used."""
    anna = connect(sql_role("anna"))
    anna.execute(CALL.format("first", 1))
    [(used,)] = anna.execute("SELECT release_id FROM dbanon.release").fetchall()
    for id_ in (uuid.uuid4(), used):
        entry = (
            "jsonb_build_object('release_id', %s::text, 'relation_oid', 'release.x'::regclass::oid,"
            " 'output_oid', 'release.x'::regclass::oid, 'dbanon_version', '0', 'source',"
            " 'app.magic', 'method', 'dp_ranks', 'arguments', '{}'::jsonb, 'rows_in', 1,"
            " 'rows_out', 1, 'suppressed', 0, 'null_rows', 0, 'seconds', '{}'::jsonb,"
            " 'guarantee', '',"
            " 'seed_policy', '', 'earlier_releases', '', 'epsilon', 1, 'neighbours', 'row',"
            " 'budget', 'magic')"
        )
        anna.execute("BEGIN")
        anna.execute("CREATE TABLE release.x (a int)")
        anna.execute(f"COMMENT ON TABLE release.x IS 'dbanon release {id_}'")
        recorded = f"SELECT dbanon._record_release({entry}, '[]', '{{\"door\": \"sql\"}}')"
        with pytest.raises(psycopg.Error, match="Nothing was spent"):
            anna.execute(recorded, (str(id_),))
        anna.execute("ROLLBACK")


def test_a_hostile_search_path_runs_no_foreign_code(
    run_sql: Run, connect: Connect, sql_role: Callable[..., str], budget: None
) -> None:
    """Mallory's functions, operators, types and tables come first in the caller's path."""
    mallory = connect(sql_role("mallory", runner=False))
    run_sql("CREATE SCHEMA evil AUTHORIZATION mallory")
    mallory.execute(TRAP.encode())
    bodies = "LANGUAGE plpgsql AS $$ BEGIN PERFORM evil.note(); "
    for definition in (
        f"FUNCTION evil.set_config(text, text, boolean) RETURNS text {bodies} RETURN $2; END $$",
        f"FUNCTION evil.current_setting(text) RETURNS text {bodies} RETURN ''; END $$",
        f"FUNCTION evil.count(bigint) RETURNS bigint {bodies} RETURN 0; END $$",
        f"FUNCTION evil.row_to_json(record) RETURNS json {bodies} RETURN '{{}}'; END $$",
        f"FUNCTION evil.eq(text, text) RETURNS boolean {bodies} RETURN true; END $$",
        f"FUNCTION evil.lt(numeric, numeric) RETURNS boolean {bodies} RETURN true; END $$",
        f"FUNCTION evil.ltf(float8, float8) RETURNS boolean {bodies} RETURN true; END $$",
        f"FUNCTION evil._spend(text, numeric, uuid) RETURNS jsonb {bodies} RETURN '{{}}'; END $$",
        "OPERATOR evil.= (FUNCTION = evil.eq, LEFTARG = text, RIGHTARG = text)",
        "OPERATOR evil.<= (FUNCTION = evil.lt, LEFTARG = numeric, RIGHTARG = numeric)",
        "OPERATOR evil.< (FUNCTION = evil.ltf, LEFTARG = float8, RIGHTARG = float8)",
        "TYPE evil.text AS (a integer)",
        "TYPE evil.regclass AS (a integer)",
        "TYPE evil.int8 AS (a integer)",
        "TABLE evil.budget (name text, spent numeric)",
    ):
        mallory.execute(f"CREATE {definition}".encode())
    run_sql("GRANT USAGE ON SCHEMA evil TO PUBLIC")
    # A qualified name does not resolve to mallory's table; an unqualified one does.
    anna = connect(sql_role("anna"))
    anna.execute("SET search_path = evil, app, pg_catalog, public")
    anna.execute(CALL.format("magic", 1))
    assert not sprung(run_sql)
    assert spent(run_sql) == (1.0, 1)
    assert anna.execute("SHOW search_path").fetchall() == [("evil, app, pg_catalog, public",)]
    anna.execute(CALL.format("other", 1).replace("'app.magic'", "'magic'"))
    assert not sprung(run_sql)
    assert spent(run_sql) == (2.0, 2)


def test_values_end_no_run(run_sql: Run, sql_url: str, connect: Connect) -> None:
    """NULL, NaN, infinities and values out of bounds, in every column type."""
    run_sql("""CREATE TABLE app.odd AS SELECT
        CASE g % 9 WHEN 0 THEN NULL WHEN 1 THEN 'NaN' WHEN 2 THEN 'Infinity' WHEN 3 THEN '-Infinity'
                   ELSE g::text END::float8 AS f,
        CASE g % 9 WHEN 0 THEN NULL WHEN 1 THEN 'NaN' WHEN 2 THEN '1e5000' ELSE g::text
                   END::numeric AS n,
        CASE g % 9 WHEN 0 THEN NULL WHEN 1 THEN 'infinity' WHEN 2 THEN '-infinity'
                   WHEN 3 THEN '4000-01-01 BC' ELSE '2020-01-01' END::date AS d,
        CASE g % 9 WHEN 0 THEN NULL WHEN 1 THEN 'infinity' WHEN 2 THEN '-infinity'
                   ELSE '2020-01-01' END::timestamptz AS t,
        CASE g % 9 WHEN 0 THEN NULL ELSE 9223372036854775807 END AS i,
        CASE g % 9 WHEN 0 THEN NULL ELSE g % 2 = 0 END AS b
        FROM generate_series(1, 3000) AS g""")
    dbanon.create_budget(sql_url, "odd", source="app.odd", epsilon=9)
    connect().execute("""CALL dbanon.dp_ranks('app.odd', 'release.odd', '{f,n,d,t,i,b}',
        epsilon => 9, budget => 'odd', bounds => '{"f": [0, 3000], "n": [0, 0.3], "i": [0, 9],
        "d": ["2020-01-01", "2020-12-31"], "t": ["2020-01-01", "2020-12-31"]}',
        null_as => '{"f": 0, "n": 0, "d": "2020-01-01", "t": "2020-01-01", "i": 0, "b": 0}')""")
    assert run_sql(
        "SELECT count(*), count(*) FILTER (WHERE f BETWEEN 0 AND 3000 AND n BETWEEN 0 AND 0.3"
        " AND d BETWEEN '2020-01-01' AND '2020-12-31' AND t >= '2020-01-01 00:00+00'"
        " AND t <= '2020-12-31 00:00+00' AND i BETWEEN 0 AND 9 AND b IS NOT NULL)"
        " FROM release.odd"
    ) == [(3000, 3000)]
    assert dbanon.verify(sql_url, "release.odd").unchanged


def test_nothing_is_revealed_without_spending(
    run_sql: Run, connect: Connect, sql_url: str, sql_server: Server, budget: None
) -> None:
    """No value and no exact statistic of the source in ledger, log, notices or errors."""
    run_sql("UPDATE app.magic SET a = 345.678912 WHERE b = 0")
    # Exact statistics of the source alone: mean, deviation, median of each column.
    [answers] = run_sql(
        "SELECT round(avg(a)::numeric, 4)::text, round(stddev_samp(a)::numeric, 4)::text,"
        " round(avg(b), 2)::text, round(stddev_samp(b), 4)::text FROM app.magic"
    )
    traces = ["345.678", *answers]
    connection = connect()
    texts: list[str] = []
    connection.add_notice_handler(lambda notice: texts.append(str(notice.message_primary)))
    for setting in ALL_LOGGING:
        connection.execute(setting.encode())
    require_values_logged(connection, sql_server)
    before = sql_server.log_size()
    connection.execute(CALL.format("magic", 1))
    with pytest.raises(psycopg.Error) as failure:
        connection.execute(CALL.format("magic", 1))
    log = sql_server.log_text(before)
    assert "dense_rank" not in log
    assert "least" in log.lower()  # The reading statement is there, with its public bounds.
    texts += [str(failure.value), log]
    for table in ("release", "release_column", "run", "budget", "spending"):
        texts += [str(row) for row in run_sql(f"SELECT to_jsonb(t)::text FROM dbanon.{table} AS t")]
    texts.append(str(dbanon.show(sql_url, "release.magic")))
    assert not [trace for trace in traces for text in texts if trace in text]


def test_other_options_are_refused_in_words(run_sql: Run, connect: Connect, budget: None) -> None:
    connection = connect()
    for option, why in (
        ('{"recoding": "mean"}', "have no classes"),
        ('{"where": "a > 3"}', "filter"),
        ('{"seed": 1}', "no seed"),
        ('{"evaluate": true}', "no budget is spent"),
        ('{"nonsense": 1}', "Known options"),
    ):
        with pytest.raises(psycopg.Error, match=why) as failure:
            connection.execute(CALL.format("magic", 1)[:-1] + f", options => '{option}')")
        assert state_of(failure) == "22023"
    assert spent(run_sql) == (0.0, 0)
