"""The figures stored in databases are those that readers may see: none is exact."""

from __future__ import annotations

import json

import pytest

import dbanon
from tests.stores.databases import Database
from tests.stores.people import load_people

NUMERIC = ["age", "height"]
TABLES = ("release", "release_column", "run")


@pytest.mark.parametrize("method", ["mdav", "gaa_cp"])
def test_no_exact_figure_is_kept(database: Database, method: str) -> None:
    load_people(database)
    certificate = {"certificate": 5} if method == "mdav" else {}
    report = database.anonymize(
        quasi_identifiers=NUMERIC, method=method, evaluate=True, **certificate
    )
    exact = report.internal
    assert exact is not None
    numbers = {
        exact.information_loss,
        exact.information_loss_before_rounding,
        *(loss.released for loss in exact.column_losses.values()),
        *(value for value in exact.evaluation["losses"].values() if value not in (None, 0, 1)),
    }
    numbers -= {report.information_loss, *(x.released for x in report.column_losses.values())}
    assert numbers
    published = [row for table in TABLES for row in database.ledger_rows(table)]
    published += [dbanon.show(database.url, "release.people"), report.to_dict()]
    text = json.dumps(published, default=str) + str(report)
    for number in numbers:
        assert repr(number)[:8] not in text
    [(loss,)] = database.rows(f"SELECT information_loss FROM {database.ledger()}")
    assert loss == report.information_loss == report.information_loss_before_rounding
