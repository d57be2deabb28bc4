"""Chains that release into another database: the output is theirs before their state moves on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dbanon.errors import OutputBusy
from tests.stores.chain_cases import Chained, Months, load
from tests.stores.databases import DuckdbDatabase, PostgresqlDatabase

NUMERIC = ["age", "income"]


def test_no_other_run_takes_the_output_of_a_chain_meanwhile(
    duckdb_file: DuckdbDatabase, postgresql: PostgresqlDatabase, tmp_path: Path
) -> None:
    months = Months(n=12)
    for database in (duckdb_file, postgresql):
        load(database, months.now)
    postgresql.anonymize(quasi_identifiers=NUMERIC, output="release.other")
    chained = Chained.create(duckdb_file, tmp_path)
    refused: list[OutputBusy] = []

    def run_another(phase: str, share: float) -> None:
        if phase == "cluster" and not refused:
            with pytest.raises(
                OutputBusy, match=r"Another run is writing release\.people"
            ) as caught:
                postgresql.anonymize(quasi_identifiers=NUMERIC)
            refused.append(caught.value)

    options: dict[str, Any] = {"target": postgresql.url, "progress": run_another}
    report = chained.release(**options)
    assert refused[0].exit_code == 4
    assert postgresql.rows(
        "SELECT release_id::text FROM dbanon.release WHERE output_name = 'people'"
    ) == [(report.release_id,)]
    assert report.arguments["chain"]["sequence"] == 1
