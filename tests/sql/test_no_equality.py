"""Types without equality as strata, entities and keys: refused by name in every interface."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import dbanon
from dbanon.errors import UnsupportedType

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]

TYPES = {
    "json": "'{}'",
    "point": "'(1,2)'",
    "json[]": "'{}'",
    "app.pair": "ROW('{}', 1)::app.pair",
}


@pytest.fixture(params=list(TYPES))
def people(request: pytest.FixtureRequest, run_sql: Run) -> None:
    run_sql("CREATE TYPE app.pair AS (a json, b integer)")
    run_sql(
        f"CREATE TABLE app.people AS SELECT g AS id, g AS a, {TYPES[request.param]}::"
        f"{request.param} AS odd FROM generate_series(1, 30) AS g"
    )
    run_sql("CREATE VIEW app.seen AS SELECT * FROM app.people")


@pytest.mark.parametrize("role", ["by", "entity", "key"])
@pytest.mark.usefixtures("people")
def test_it_is_refused_by_name(run_sql: Run, sql_url: str, role: str) -> None:
    value: Any = "odd" if role == "entity" else ["odd"]
    with pytest.raises(UnsupportedType, match=r'"odd".* is of type') as caught:
        dbanon.anonymize(
            sql_url,
            table="app.people",
            quasi_identifiers=["a"],
            k=3,
            output="release.p",
            **{role: value},
        )
    assert caught.value.exit_code == 2
    arguments = {
        "by": 'options => \'{"by": ["odd"]}\'',
        "entity": "entity => 'odd'",
        "key": 'options => \'{"key": ["odd"]}\'',
    }[role]
    with pytest.raises(psycopg.errors.FeatureNotSupported, match=r'"odd".* is of type'):
        run_sql(f"SELECT dbanon.mdav('app.people', 'release.p', '{{a}}', 3, {arguments})")
    if role != "by":
        arguments = arguments if role == "key" else 'options => \'{"entity": "odd"}\''
        with pytest.raises(psycopg.errors.FeatureNotSupported, match=r'"odd".* is of type'):
            run_sql(f"SELECT * FROM dbanon.classes('app.people', 'mdav', '{{a}}', 3, {arguments})")
    assert run_sql("SELECT count(*) FROM dbanon.release") == [(0,)]


@pytest.mark.usefixtures("people")
def test_it_can_still_be_kept_and_modelled(run_sql: Run, sql_url: str) -> None:
    """Values that are copied or counted as text need no equality."""
    for how in ({"keep": ["odd"]}, {"sensitive": ["odd"]}):
        report = dbanon.anonymize(
            sql_url,
            table="app.people",
            quasi_identifiers=["a"],
            k=3,
            output="release.p",
            if_exists="replace",
            **how,
        )
        assert report.rows_out == 30
    assert dict(
        run_sql(
            "SELECT 1, (dbanon.mdav('app.people', 'release.q', '{a}', 3, keep => '{odd}')).rows_out"
        )
    ) == {1: 30}
