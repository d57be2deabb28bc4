"""Engines whose pool has no connection left: an error of dbanon's, after one wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import QueuePool, create_engine

import dbanon
from dbanon.errors import DatabaseUnreachable
from tests.prerequisites import skip_case
from tests.stores.databases import Database, DuckdbDatabase
from tests.stores.people import load_people

OPTIONS: dict[str, Any] = {"table": "people", "quasi_identifiers": ["age"], "k": 5}
DOORS: dict[str, Callable[[Any], Any]] = {
    "anonymize": lambda engine: dbanon.anonymize(engine, **OPTIONS, output="release.people"),
    "plan": lambda engine: dbanon.plan(engine, **OPTIONS, output="release.people"),
    "advise": lambda engine: dbanon.advise(engine, table="people"),
    "releases": dbanon.releases,
}


class CountingPool(QueuePool):
    """A pool that counts the connections requested from it."""

    n_connections = 0

    def _do_get(self) -> Any:
        type(self).n_connections += 1
        return super()._do_get()


@pytest.mark.parametrize("door", DOORS)
def test_an_exhausted_pool_is_waited_for_once(database: Database, door: str) -> None:
    if isinstance(database, DuckdbDatabase):
        skip_case("DuckDB has no engine of SQLAlchemy")
    load_people(database)
    engine = create_engine(
        database.url, poolclass=CountingPool, pool_size=1, max_overflow=0, pool_timeout=0.05
    )
    try:
        with engine.connect():
            CountingPool.n_connections = 0
            with pytest.raises(DatabaseUnreachable, match="engine's pool") as refused:
                DOORS[door](engine)
        assert refused.value.exit_code == 4
        assert "pool_size" in str(refused.value.hint)
        assert CountingPool.n_connections == 1
    finally:
        engine.dispose()
