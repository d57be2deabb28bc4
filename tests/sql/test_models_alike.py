"""Classes with equal labels satisfy delta-disclosure together, inside PostgreSQL, too."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.stores.model_evaluator import counted, reached

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]

# Ages in decades: means of numbers with more than 15 digits, exact only in the database.
PEOPLE = (
    "CREATE TABLE app.people AS SELECT i AS id,"
    " (1::bigint << 60) + (i * i * 7919 % 40 + 20) / {width} AS age,"
    " (ARRAY['flu', 'flu', 'flu', 'cough', 'cough', 'gastritis', NULL])[i * i * 104729 % 7 + 1]"
    " AS ill FROM generate_series(1, 120) AS i"
)
DELTA = json.dumps({"delta_disclosure": {"ill": 1.0}})


@pytest.mark.parametrize("width", [1, 5, 10])
def test_written_classes_satisfy_it(run_sql: Run, width: int) -> None:
    run_sql(PEOPLE.format(width=width))
    run_sql(
        "SELECT dbanon.mdav('app.people', 'release.p', '{age}', 3, sensitive => '{ill}',"
        " options => %s)",
        DELTA,
    )
    value = reached("delta_disclosure", counted(run_sql, "release.p", ["age"], "ill"))
    assert value <= 1 + 1e-9
    [(rows,)] = run_sql("SELECT count(*) FROM release.p")
    assert rows == 120
    run_sql("SELECT dbanon.verify('release.p')")
