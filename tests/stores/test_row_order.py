"""The place of a row in a release says nothing of its place in the source.

Bounds are six standard deviations or more off what chance gives, so that chance breaks none.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.stores.databases import Database, PostgresqlDatabase

N, K = 1200, 4


def load(database: Database) -> None:
    """Rows whose value, key and physical order all ascend: the easiest source to match."""
    rows = [(i, i, i) for i in range(N)]
    columns = {"id": "integer PRIMARY KEY", "x": "integer", "kept": "integer"}
    database.load("people", columns, rows)


def order_of(database: Database) -> np.ndarray[Any, Any]:
    """The place in the source of each row of the release, in the order a reader gets them."""
    address = {"postgresql": "ctid", "sqlite": "rowid", "duckdb": "rowid"}[database.name]
    rows = database.rows(
        f"SELECT kept FROM {database.relation('release.people')} ORDER BY {address}"
    )
    places = np.array([position for (position,) in rows])
    assert sorted(places) == list(range(N))
    return places


def check(places: np.ndarray[Any, Any]) -> None:
    original_order = np.arange(N)
    # On average one row keeps its position by chance; more than 16 do in fewer than 1 of 1e14 runs.
    assert (places == original_order).sum() <= 16
    assert (places == original_order[::-1]).sum() <= 16
    # Rows of a class may be adjacent, so the test checks the order of classes.
    deviation = math.sqrt(2 * K / N)
    assert abs(np.corrcoef(places, original_order)[0, 1]) < 6 * deviation
    # Within a class, and from one class to the next, up is as likely as down.
    ascending = (np.diff(places) > 0).mean()
    assert abs(ascending - 0.5) < 6 * 0.5 / math.sqrt(N)
    # Neighbours of the source are not at a fixed distance from one another.
    position = np.argsort(places)
    steps = np.diff(position)
    assert np.bincount(np.abs(steps)).max() < N * 0.5


@pytest.mark.parametrize("copied", [False, True])
def test_places_match_by_chance_only(
    database: Database, sqlite_file: Database, copied: bool
) -> None:
    load(database)
    target = sqlite_file if copied else database
    options: dict[str, Any] = {"target": target.url} if copied else {}
    orders = []
    for _ in range(2):
        database.anonymize(
            quasi_identifiers=["x"], keep=["kept"], k=K, if_exists="replace", **options
        )
        orders.append(order_of(target))
        check(orders[-1])
    assert (orders[0] == orders[1]).sum() <= 16


def test_the_callers_seed_does_not_steer_it(postgresql: PostgresqlDatabase) -> None:
    load(postgresql)
    url = f"{postgresql.url}?options=-c%20seed%3D0.5"
    orders = []
    for _ in range(2):
        postgresql.anonymize(
            database=url, quasi_identifiers=["x"], keep=["kept"], k=K, if_exists="replace"
        )
        orders.append(order_of(postgresql))
        check(orders[-1])
    assert (orders[0] == orders[1]).sum() <= 16


def test_the_seed_of_a_method_does_not_steer_it(database: Database) -> None:
    load(database)
    orders = []
    for _ in range(2):
        database.anonymize(quasi_identifiers=["x"], keep=["kept"], k=K, if_exists="replace", seed=7)
        orders.append(order_of(database))
    assert (orders[0] == orders[1]).sum() <= 16
