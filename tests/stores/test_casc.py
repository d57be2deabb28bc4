"""MDAV through a database: published losses, and those of a plain MDAV."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import dbanon
from tests.conftest import CAMPAIGN
from tests.reference import methods as reference
from tests.reference.data import Table
from tests.stores.databases import Database
from tests.synthetic_data import census_like, sse_share, standardized

LOSSES = {
    "tarragona": {3: "16.9326", 4: "19.5460", 5: "22.4619", 10: "33.1929"},
    "census": {3: "5.6922", 4: "7.4947", 5: "9.0884", 10: "14.1559"},
    "eia": {3: "0.4829", 4: "0.6713", 5: "1.6667", 10: "3.8397"},
}


# No engine decides of a loss: each table is released on one, and each of both has tables.
ALL = [(name, kind) for name in LOSSES for kind in ("duckdb", "postgresql")]
SOME = [("tarragona", "duckdb"), ("census", "postgresql"), ("eia", "duckdb")]


@pytest.mark.parametrize(("name", "kind"), ALL if CAMPAIGN else SOME)
def test_published_losses(
    casc: Callable[[str], Table],
    make_database: Callable[[str], Database],
    name: str,
    kind: str,
) -> None:
    losses = released_losses(make_database(kind), casc(name), [*LOSSES[name]])
    assert {k: f"{100 * loss:.4f}" for k, loss in losses.items()} == LOSSES[name]


@pytest.mark.parametrize("kind", ["duckdb", "postgresql"])
def test_losses_are_those_of_a_plain_mdav(
    make_database: Callable[[str], Database], kind: str
) -> None:
    """The same on a table like Census: classes and losses of tests/reference."""
    values = census_like(240, 6)
    points = standardized(values)
    losses = released_losses(
        make_database(kind), Table(tuple(f"a{j}" for j in range(6)), values), [3, 5, 10]
    )
    assert losses == pytest.approx(
        {k: sse_share(points, reference.mdav(points, k)) for k in losses}, rel=1e-9
    )


def released_losses(database: Database, table: Table, ks: list[int]) -> dict[int, float]:
    """By k, the exact loss of releasing the table in a database."""
    columns = dict.fromkeys(table.names, "double precision")
    rows = [(i, *row) for i, row in enumerate(table.values.tolist())]
    database.load("app.numbers", {"row number": "integer PRIMARY KEY"} | columns, rows)
    losses = {}
    for k in ks:
        report = dbanon.anonymize(
            database.url,
            table="app.numbers",
            k=k,
            quasi_identifiers=list(table.names),
            output="release.numbers",
            if_exists="replace",
        )
        assert report.rows_out == len(rows)
        assert report.k_achieved >= k
        assert report.internal is not None
        losses[k] = report.internal.information_loss_before_rounding
    return losses
