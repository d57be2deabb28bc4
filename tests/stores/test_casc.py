"""MDAV on the reference data, through a database and the command line: the published losses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from dbanon.doors.cli.main import main
from tests.conftest import CAMPAIGN
from tests.reference.data import Table
from tests.stores.databases import Database

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
    tmp_path: Path,
    name: str,
    kind: str,
) -> None:
    table = casc(name)
    database = make_database(kind)
    columns = dict.fromkeys(table.names, "double precision")
    rows = [(i, *row) for i, row in enumerate(table.values.tolist())]
    database.load(f"app.{name}", {"row number": "integer PRIMARY KEY"} | columns, rows)
    found = {}
    for k in LOSSES[name]:
        done = CliRunner().invoke(
            main,
            ["anonymize", database.url, "--table", f"app.{name}", "--k", str(k),
             "--quasi-identifiers", ",".join(table.names), "--output", f"release.{name}",
             "--if-exists", "replace", "--no-progress", "--format", "json"],
        )  # fmt: skip
        assert done.exit_code == 0, done.stderr
        report = json.loads(done.stdout)
        assert report["rows_out"] == len(rows)
        assert report["k_achieved"] >= k
        found[k] = f"{100 * report['information_loss_before_rounding']:.4f}"
    assert found == LOSSES[name]
