"""Local suppression inside PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]

PEOPLE = (
    "CREATE TABLE app.people AS SELECT g AS id, CASE WHEN g < 39 THEN g % 3 ELSE g END AS a,"
    " g % 2 = 0 AS b, 't ' || g % 4 AS t FROM generate_series(1, 40) AS g"
)
RELEASE = "SELECT * FROM dbanon.local_suppression('app.people', 'release.p', '{a,b,t}', 3"


def test_a_release_keeps_values_and_is_counted(run_sql: Run) -> None:
    run_sql(PEOPLE)
    [row] = run_sql(f"{RELEASE})")
    assert row[3:6] == (40, 40, 0)
    assert run_sql("SELECT (dbanon.verify('release.p')).k_achieved >= 3") == [(True,)]
    [(sizes,)] = run_sql(
        "SELECT min(n) FROM (SELECT count(*) AS n FROM release.p GROUP BY a, b, t) AS sizes"
    )
    assert sizes >= 3
    # The two values of a that are unique are gone, and the type of a stays.
    assert run_sql("SELECT max(a), pg_typeof(max(a))::text FROM release.p") == [(2, "integer")]
    [(cells, nulls)] = run_sql(
        "SELECT (SELECT sum(value::int) FROM dbanon.release,"
        " jsonb_each_text(arguments::jsonb->'suppressed_cells')),"
        " (SELECT sum(num_nulls(a, b, t)) FROM release.p)"
    )
    assert cells == nulls > 0


def test_options_and_classes(run_sql: Run) -> None:
    run_sql(PEOPLE)
    run_sql("UPDATE app.people SET t = NULL WHERE id = 7")
    with pytest.raises(psycopg.Error, match='"t" in 1 row') as failure:
        run_sql(f"{RELEASE})")
    assert failure.value.sqlstate == "22004"
    options = '{"importance": "t,b", "seed": 4}'
    run_sql(f"{RELEASE}, nulls => 'category', options => '{options}')")
    assert run_sql("SELECT count(t) >= count(a) FROM release.p") == [(True,)]
    wrong = f"{RELEASE}, nulls => 'category', options => '{{\"importance\": \"q\"}}')"
    wrong = wrong.replace("release.p", "release.q")
    with pytest.raises(psycopg.Error, match='importance of "q"'):
        run_sql(wrong)
    classes = "dbanon.classes('app.people', 'local_suppression', '{a,b}', 3)"
    [(smallest,)] = run_sql(
        f"SELECT min(n) FROM (SELECT count(*) AS n FROM {classes} GROUP BY class) AS sizes"
    )
    assert smallest >= 3


def test_null_may_agree_with_every_value(run_sql: Run) -> None:
    run_sql(PEOPLE)
    run_sql(f'{RELEASE}, options => \'{{"missing": "wildcard"}}\')')
    [(k,)] = run_sql("SELECT (dbanon.verify('release.p')).k_achieved")
    assert run_sql("SELECT k_achieved, (arguments->>'agreeing_rows')::int FROM dbanon.release") == [
        (k, k)
    ]
    rows = run_sql("SELECT a, b, t FROM release.p")
    assert k >= 3
    assert k == min(
        sum(
            all(x == y or x is None or y is None for x, y in zip(row, other, strict=True))
            for other in rows
        )
        for row in rows
    )
    with pytest.raises(psycopg.Error, match=f"agrees with {k} rows") as failure:
        run_sql(f"SELECT dbanon.verify('release.p', k => {k + 1})")
    assert failure.value.sqlstate == "ZK001"
    run_sql("INSERT INTO release.p (a, b, t) VALUES (77, true, 'other')")
    with pytest.raises(psycopg.Error, match="agrees with") as failure:
        run_sql("SELECT dbanon.verify('release.p')")
    run_sql("DELETE FROM release.p WHERE a = 77")
    [(smallest,)] = run_sql(
        "SELECT min(n) FROM (SELECT count(*) AS n FROM release.p GROUP BY a, b, t) AS sizes"
    )
    assert smallest < 3
    classes = "dbanon.classes('app.people', 'local_suppression', '{a,b}', 3"
    with pytest.raises(psycopg.Error, match="no classes of k rows"):
        run_sql(f'SELECT * FROM {classes}, options => \'{{"missing": "wildcard"}}\')')
    wrong = RELEASE.replace("release.p", "release.q")
    with pytest.raises(psycopg.Error, match="missing"):
        run_sql(f'{wrong}, options => \'{{"missing": "all"}}\')')


def test_a_column_that_is_lost_is_noticed(run_sql: Run, sql_url: str) -> None:
    run_sql(
        "CREATE TABLE app.people AS SELECT g AS id, g AS a, 1 AS b FROM generate_series(1, 9) g"
    )
    notices: list[str] = []
    with psycopg.connect(sql_url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.add_notice_handler(lambda notice: notices.append(str(notice.message_primary)))
        connection.execute("SELECT dbanon.local_suppression('app.people', 'release.p', '{a,b}', 3)")
    assert any("released as NULL in 100% of the rows" in text for text in notices)
