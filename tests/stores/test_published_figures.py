"""The figures stored in databases are those that readers may see: none is exact."""

from __future__ import annotations

import json

import pytest

import dbanon
from tests.figures import unpublished_digits
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
    published = [row for table in TABLES for row in database.ledger_rows(table)]
    published += [dbanon.show(database.url, "release.people"), report.to_dict()]
    text = json.dumps(published, default=str) + str(report)
    for digits in unpublished_digits(report):
        assert digits not in text
    [(loss,)] = database.rows(f"SELECT information_loss FROM {database.ledger()}")
    assert loss == report.information_loss == report.information_loss_before_rounding
