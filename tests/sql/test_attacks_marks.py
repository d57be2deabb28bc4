"""Attacks with copied marks and renamed relations: verify, replace and gc."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from sqlalchemy import NullPool, create_engine

from dbanon.errors import OutputNotOurs
from dbanon.run.gc import collect_garbage
from dbanon.run.open import open_store
from tests.sql.ledger_entries import MAKE, anonymize, mark

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]
Role = Callable[..., str]


def test_verify_cannot_be_tricked(forger: psycopg.Connection[Any], run_sql: Run) -> None:
    """A copied mark, a release's name or a hidden entry hides nothing from verification."""
    [(release_id,)] = run_sql("SELECT release_id::text FROM dbanon.release")
    forger.execute(
        "CREATE TABLE release.fake AS SELECT 0.1::float8 AS a FROM generate_series(1, 60)"
    )
    mark(forger, "release.fake", release_id)
    forger.commit()
    with pytest.raises(psycopg.errors.UndefinedTable, match="not the table"):
        forger.execute("SELECT dbanon.verify('release.fake')")
    forger.rollback()
    with pytest.raises(psycopg.errors.UndefinedTable, match="not the table"):
        forger.execute("SELECT dbanon.information_loss('release.fake')")
    forger.rollback()
    for call in ("evaluate('release.fake', 'app.people')", "disclosure_risk('release.fake')"):
        with pytest.raises(psycopg.errors.UndefinedTable, match="not the table"):
            forger.execute(f"SELECT dbanon.{call}".encode())
        forger.rollback()
    # A release renamed away, its name and mark reused: the oid differs.
    run_sql("ALTER TABLE release.p RENAME TO moved")
    run_sql("ALTER TABLE release.fake RENAME TO p")
    with pytest.raises(psycopg.errors.UndefinedTable, match="not the table"):
        run_sql("SELECT dbanon.verify('release.p')")
    assert run_sql("SELECT unchanged FROM dbanon.verify('release.moved')") == [(True,)]
    assert run_sql("SELECT output, state FROM dbanon.releases()") == [("release.moved", "current")]
    run_sql("DROP TABLE release.p")
    run_sql("ALTER TABLE release.moved RENAME TO p")
    # A role that may change ledger rows cannot hide a live release from verification.
    run_sql("UPDATE dbanon.release SET superseded_at = now()")
    assert run_sql("SELECT unchanged FROM dbanon.verify('release.p')") == [(True,)]
    assert run_sql("SELECT state FROM dbanon.releases()") == [("current",)]


def test_a_copied_mark_is_not_replaced(
    forger: psycopg.Connection[Any], run_sql: Run, sql_url: str
) -> None:
    [(release_id,)] = run_sql("SELECT release_id::text FROM dbanon.release")
    forger.execute(MAKE.format("release.hers").encode())
    forger.execute("CREATE VIEW release.seen AS SELECT * FROM release.hers")
    forger.execute(MAKE.format("release.new_summary").encode())
    for kind, name in (("TABLE", "hers"), ("VIEW", "seen"), ("TABLE", "new_summary")):
        mark(forger, f"release.{name}", release_id, kind)
    forger.commit()
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
    assert (
        run_sql(
            "SELECT pg_get_userbyid(relowner) FROM pg_class WHERE relname IN"
            " ('hers', 'seen', 'new_summary')"
        )
        == [("mallory",)] * 3
    )


def test_a_view_of_somebody_else_is_not_published_through(
    forger: psycopg.Connection[Any], run_sql: Run, sql_url: str
) -> None:
    """Her release is recorded correctly, but a replacement would be published through her view."""
    forger.execute(
        "SELECT dbanon.mdav('app.people', 'release.v', '{a}', 5,"
        ' options => \'{"output_kind": "view"}\')'
    )
    forger.commit()
    with pytest.raises(psycopg.errors.DuplicateTable, match="belongs to role mallory"):
        run_sql(
            "SELECT dbanon.mdav('app.people', 'release.v', '{a}', 5, if_exists => 'replace',"
            ' options => \'{"output_kind": "view"}\')'
        )
    with pytest.raises(OutputNotOurs, match="belongs to role mallory"):
        anonymize(sql_url, "release.v", if_exists="replace", output_kind="view")


def test_gc_skips_foreign_objects(
    forger: psycopg.Connection[Any], run_sql: Run, sql_url: str, sql_role: Role
) -> None:
    again = (
        "SELECT dbanon.mdav('app.people', 'release.{}', '{{a}}', 5, if_exists => 'replace',"
        ' options => \'{{"output_kind": "view"}}\')'
    )
    for _ in range(2):
        run_sql(again.format("v"))
        forger.execute(again.format("w").encode())
        forger.commit()
    run_sql(again.format("u"))
    run_sql(again.format("u"))
    # Live releases are hidden, an old table is shown elsewhere, and one is a copy with the mark.
    run_sql("UPDATE dbanon.release SET superseded_at = now() WHERE superseded_at IS NULL")
    old = "SELECT relation_name FROM dbanon.release WHERE output_name = 'v' ORDER BY created_at"
    [(first,), _] = run_sql(old)
    run_sql(f'CREATE VIEW release.mine AS SELECT * FROM release."{first}"')
    store = open_store(create_engine(sql_url, poolclass=NullPool))
    dropped = collect_garbage(store, 0)
    left = dict(
        run_sql(
            "SELECT output_name, count(*) FROM dbanon.release AS r JOIN pg_class AS c"
            " ON c.relname = r.relation_name WHERE output_kind = 'view' GROUP BY 1"
        )
    )
    assert left == {"v": 2, "w": 1, "u": 1}
    assert len(dropped) == 2
    # The same inside the database; a superuser may drop any role's.
    run_sql("DROP VIEW release.mine")
    assert run_sql("SELECT dbanon.gc(0)") == [(f"release.{first}",)]
    for name in ("v", "w", "u"):
        assert run_sql(f"SELECT count(*) FROM release.{name}") == [(60,)]


def test_a_ledger_entry_is_written_by_clients_with_a_runners_rights(
    forger: psycopg.Connection[Any], run_sql: Run, sql_role: Role
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
    assert run_sql(
        "SELECT s.created_at = r.created_at FROM release.s_summary AS s"
        " JOIN dbanon.release AS r USING (release_id)"
    ) == [(True,)]
