"""Kept columns that undo classes, in SQL: a WARNING with a share, or refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.stores.linking import COLUMNS

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]

CALL = "SELECT dbanon.mdav('app.people', 'release.people', '{age,height}', 5, keep => %s)"
COUNTED = """
SELECT trunc(sum(n) FILTER (WHERE n < 5) / 600, 2) FROM
(SELECT count(*) AS n FROM release.people GROUP BY age, height, age_code) AS t"""


@pytest.fixture
def warnings_for(run_sql: Run, connect: Connect) -> Callable[[str], list[str]]:
    """Return the warnings of a call with this kept column."""
    kinds = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
    run_sql(f"CREATE TABLE app.people ({kinds})")
    columns = [list(values) for _, values in COLUMNS.values()]
    arrays = ", ".join(f"%s::{kind}[]" for kind, _ in COLUMNS.values())
    run_sql(f"INSERT INTO app.people SELECT * FROM unnest({arrays})", *columns)

    def call(name: str) -> list[str]:
        connection = connect()
        notices: list[tuple[str | None, str | None]] = []
        connection.add_notice_handler(lambda d: notices.append((d.severity, d.message_primary)))
        connection.execute(CALL, ([name],))
        connection.commit()
        return [str(text) for severity, text in notices if severity == "WARNING"]

    return call


def test_another_coding_is_a_warning(
    run_sql: Run, warnings_for: Callable[[str], list[str]]
) -> None:
    [warning] = [text for text in warnings_for("age_code") if "another coding" in text]
    [(share,)] = run_sql(COUNTED)
    assert 'column "age_code" is another coding of "age"' in warning
    assert f"about {share:.0%} of the rows" in warning
    assert share > 0
    [(recorded,)] = run_sql("SELECT arguments->'linking' FROM dbanon.release")
    assert recorded == [{"name": "age_code", "codes": "age", "share": float(share)}]


def test_households_are_a_warning(warnings_for: Callable[[str], list[str]]) -> None:
    assert any('column "household" groups rows' in text for text in warnings_for("household"))


def test_others_are_none(warnings_for: Callable[[str], list[str]]) -> None:
    assert not [text for text in warnings_for("visits") if text.startswith("dbanon: column")]


@pytest.mark.usefixtures("warnings_for")
def test_strict_refuses(run_sql: Run) -> None:
    with pytest.raises(psycopg.Error, match="distinguishes rows") as caught:
        run_sql(CALL.replace(")", ", options => '{\"strict\": true}')"), ["age_code"])
    assert caught.value.sqlstate == "ZK005"
    assert run_sql("SELECT count(*) FROM dbanon.release") == [(0,)]
