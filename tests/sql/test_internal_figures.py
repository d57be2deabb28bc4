"""Exact figures on PostgreSQL: readable for the role that published a release, not for readers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import NullPool, create_engine

import dbanon
from dbanon.doors import install
from tests.figures import leading_digits
from tests.postgres_server import Server

Run = Callable[..., list[tuple[Any, ...]]]
Role = Callable[..., str]

NOTE = "internal: contains the extremes of the originals"
PEOPLE = (
    "CREATE TABLE app.people AS SELECT g AS id, (g * 7919 % 1009)::integer AS a,"
    " (g * 104729 % 997)::integer AS b FROM generate_series(1, 200) AS g"
)
CALL = (
    "SELECT release_id FROM dbanon.mdav('app.people', 'release.p', '{a,b}', 5,"
    " options => '{\"evaluate\": true}')"
)
# All queries that a role may try about things it may not read.
PATHS = (
    "SELECT * FROM release.p",
    "SELECT * FROM release.p_summary",
    "SELECT * FROM pg_catalog.pg_description",
    "SELECT * FROM pg_catalog.pg_stats",
    "SELECT * FROM pg_catalog.pg_stats_ext",
    "SELECT * FROM information_schema.columns",
    "SELECT * FROM information_schema.tables",
    "SELECT pg_get_viewdef(c.oid) FROM pg_class AS c"
    " WHERE c.relkind = 'v' AND c.relnamespace = 'dbanon'::regnamespace",
    "SELECT prosrc FROM pg_proc WHERE pronamespace = 'dbanon'::regnamespace",
    "SELECT * FROM pg_stat_activity",
    "SELECT * FROM pg_settings",
)
LEDGER = (
    "SELECT * FROM dbanon.release",
    "SELECT to_jsonb(r) FROM dbanon.release AS r",
    "SELECT * FROM dbanon.release_column",
    "SELECT * FROM dbanon.run",
    "SELECT dbanon.show('release.p')",
    "SELECT * FROM dbanon.releases()",
    "SELECT * FROM dbanon.evaluate('release.p')",
    "SELECT * FROM dbanon.verify('release.p')",
    "SELECT * FROM dbanon.internal_of_publisher",
)
REFUSED = (
    "SELECT * FROM dbanon.release_internal",
    "SELECT internal FROM dbanon.release_internal",
    "COPY dbanon.release_internal TO STDOUT",
    "SELECT i FROM dbanon.release_internal AS i",
    "DELETE FROM dbanon.release_internal RETURNING internal",
    "DELETE FROM dbanon.release_internal WHERE internal IS NOT NULL",
    "SELECT count(*) FROM dbanon.release_internal AS i WHERE i.internal IS NOT NULL",
    "SELECT dbanon.internal_figures('release.p')",
)


@pytest.fixture
def publish_figures(run_sql: Run, sql_role: Role) -> tuple[str, set[str]]:
    """URL of the role that published ``release.p``, and digits of its exact figures."""
    run_sql(PEOPLE)
    publisher = sql_role("publisher")
    run_sql("GRANT SELECT ON app.people TO publisher")
    run_sql(CALL, url=publisher)
    [(figures,)] = run_sql("SELECT dbanon.internal_figures('release.p')", url=publisher)
    assert figures["note"] == NOTE
    [(loss,)] = run_sql("SELECT information_loss FROM dbanon.release")
    assert abs(loss - figures["information_loss"]) > 1e-4
    exact = {figures["information_loss"]} | {
        value for value in figures["evaluation"]["losses"].values() if value not in (None, 0, 1)
    }
    public = str(run_sql("SELECT evaluation FROM dbanon.release"))
    digits = {leading_digits(figure) for figure in exact}
    return publisher, {text for text in digits if text not in public}


def readable_texts(run: Run, url: str, queries: tuple[str, ...]) -> str:
    """Collect what a role gets from queries; some are refused."""
    texts = []
    for query in queries:
        try:
            texts.append(str(run(query, url=url)))
        except psycopg.Error as error:
            texts.append(str(error))
    return "\n".join(texts)


@pytest.mark.parametrize("kind", ["reader", "dbanon_reader", "dbanon_runner", "dbanon_admin"])
def test_no_reader_reads_exact_figures(
    run_sql: Run,
    sql_server: Server,
    sql_url: str,
    publish_figures: tuple[str, set[str]],
    kind: str,
) -> None:
    _, numbers = publish_figures
    options = "" if kind == "reader" else f"IN ROLE {kind}"
    reader = sql_server.create_role("spy", url=sql_url, options=options)
    run_sql("GRANT USAGE, CREATE ON SCHEMA release TO spy")
    run_sql("GRANT SELECT ON release.p, release.p_summary TO spy")
    run_sql("ANALYZE dbanon.release_internal")
    text = readable_texts(run_sql, reader, (*PATHS, *LEDGER))
    assert not [number for number in numbers if number in text]
    for query in REFUSED:
        with pytest.raises(psycopg.Error) as refused:
            run_sql(query, url=reader)
        assert refused.value.sqlstate == "42501", query
        assert not [number for number in numbers if number in str(refused.value)]
    if kind in ("dbanon_runner", "dbanon_admin"):
        engine = create_engine(reader, poolclass=NullPool)
        assert dbanon.show(engine, "release.p", internal=True)["internal"] is None


def test_functions_of_a_reader_do_not_see_rows_of_the_view(
    run_sql: Run, sql_server: Server, sql_url: str, publish_figures: tuple[str, set[str]]
) -> None:
    """The planner runs a cheap function first, unless the view is a security barrier."""
    reader = sql_server.create_role("spy", url=sql_url, options="IN ROLE dbanon_runner")
    run_sql("GRANT USAGE, CREATE ON SCHEMA release TO spy")
    run_sql(
        "CREATE FUNCTION release.leak(value jsonb) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS"
        " $$ BEGIN RAISE EXCEPTION 'seen: %', value; END $$",
        url=reader,
    )
    query = "SELECT * FROM dbanon.internal_of_publisher WHERE release.leak(internal)"
    assert run_sql(query, url=reader) == []


def test_members_of_the_publishing_role_and_superusers_read_them(
    run_sql: Run, sql_server: Server, sql_url: str, publish_figures: tuple[str, set[str]]
) -> None:
    publisher, numbers = publish_figures
    member = sql_server.create_role("member", url=sql_url, options="IN ROLE publisher")
    for url in (publisher, member, sql_url):
        text = json.dumps(run_sql("SELECT dbanon.internal_figures('release.p')", url=url))
        assert [number for number in numbers if number in text]
        engine = create_engine(url, poolclass=NullPool)
        internal = dbanon.show(engine, "release.p", internal=True)["internal"]
        assert internal["note"] == NOTE
    # A role that becomes owner of the relation without having published it gets nothing.
    sql_server.create_role("heir", url=sql_url, options="IN ROLE dbanon_runner")
    run_sql("ALTER TABLE release.p OWNER TO heir")
    heir = sql_server.create_role("heir_two", url=sql_url, options="IN ROLE heir")
    with pytest.raises(psycopg.Error, match="for the role that published it"):
        run_sql("SELECT dbanon.internal_figures('release.p')", url=heir)


def test_a_runner_forges_no_publisher(
    run_sql: Run, sql_role: Role, publish_figures: tuple[str, set[str]]
) -> None:
    """Only the catalog determines the publisher, and figures belong to their own entry."""
    spy = sql_role("spy")
    run_sql("CREATE TABLE release.own AS SELECT 1 AS a", url=spy)
    [(release_id,)] = run_sql("SELECT release_id::text FROM dbanon.release")
    entry = json.dumps({"release_id": release_id, "internal": {"note": "mine"}})
    with pytest.raises(psycopg.Error):
        run_sql("SELECT dbanon._record_release(%s, '[]', '{}')", entry, url=spy)
    with pytest.raises(psycopg.Error, match="permission denied"):
        run_sql("UPDATE dbanon.release SET publisher_oid = 0", url=spy)
    with pytest.raises(psycopg.Error, match="permission denied"):
        run_sql("INSERT INTO dbanon.release_internal VALUES (gen_random_uuid(), '{}')", url=spy)


def test_installing_again_takes_rights_back_and_keeps_figures(
    run_sql: Run,
    sql_url: str,
    backend_path: Path,
    sql_server: Server,
    publish_figures: tuple[str, set[str]],
) -> None:
    publisher, _ = publish_figures
    before = run_sql("SELECT dbanon.internal_figures('release.p')", url=publisher)
    reader = sql_server.create_role("spy", url=sql_url)
    run_sql("GRANT USAGE ON SCHEMA dbanon TO spy")
    run_sql("GRANT SELECT ON ALL TABLES IN SCHEMA dbanon TO spy")
    install.upgrade(sql_url, python_paths=[str(backend_path)])
    with pytest.raises(psycopg.Error, match="permission denied"):
        run_sql("SELECT * FROM dbanon.release_internal", url=reader)
    assert run_sql("SELECT dbanon.internal_figures('release.p')", url=publisher) == before


def test_a_view_of_another_role_is_not_read(run_sql: Run, sql_url: str) -> None:
    run_sql(PEOPLE)
    run_sql(CALL)
    run_sql("CREATE ROLE mallory")
    run_sql("ALTER VIEW dbanon.internal_of_publisher OWNER TO mallory")
    with pytest.raises(psycopg.Error, match="internal_of_publisher, of role mallory"):
        run_sql("SELECT dbanon.internal_figures('release.p')")
    engine = create_engine(sql_url, poolclass=NullPool)
    with pytest.raises(dbanon.errors.LedgerNotTrusted, match="not trusted"):
        dbanon.show(engine, "release.p", internal=True)


def test_only_superusers_can_use_a_restored_ledger_until_it_is_attached(
    run_sql: Run, publish_figures: tuple[str, set[str]]
) -> None:
    publisher, _ = publish_figures
    run_sql("UPDATE dbanon.release SET ledger_oid = 1")
    with pytest.raises(psycopg.Error, match="for the role that published it"):
        run_sql("SELECT dbanon.internal_figures('release.p')", url=publisher)
