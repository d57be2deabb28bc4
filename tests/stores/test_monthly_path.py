"""The monthly path as docs/jobs.md prints it, over six months: no history is shared by fewer than
k.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from dbanon.doors.cli.main import main
from tests.docs.howto import blocks
from tests.stores.databases import Database, DuckdbDatabase
from tests.stores.test_howto import ASKS, answered

K, PERSONS, MONTHS = 5, 300, 6
COLUMNS = {
    "id": "bigint",
    "full_name": "text",
    "age": "bigint",
    "income": "bigint",
    "diagnosis": "text",
    "status": "text",
}
# The page's columns, except the one counted by. Readers of the release do not have it.
COUNTED_BY = (
    "sed -i 's/ full_name: .*/ full_name: {role: keep, reason: \"counted by\"}/' job.yaml\n"
)
UNCHAINED = "sed -i 's/^    chain: .*/    releases: independent/' job.yaml\n"


class Clinic:
    """Patients, of whom some come, leave, grow older and earn otherwise each month."""

    def __init__(self, database: Database, persons: int = PERSONS, seed: int = 5) -> None:
        self._database, self._rng = database, np.random.default_rng(seed)
        self._rows: dict[int, list[Any]] = {}
        self._few = persons // 33
        self._statements: list[str] = []
        self._admit(persons)
        types = {name: database.types[kind] for name, kind in COLUMNS.items()}
        database.load("patient", types, [tuple(row) for row in self._rows.values()])

    def _admit(self, count: int) -> list[int]:
        first = len(self._rows)
        for number in range(first, first + count):
            age, income = self._rng.integers(20, 80), self._rng.integers(20_000, 80_000)
            ill = ("flu", "asthma", "gout")[number * 5 % 3]
            self._rows[number] = [number, f"name {number}", int(age), int(income), ill, "active"]
        return list(range(first, first + count))

    def month_passes(self) -> None:
        """Change a few percent of the table, as a month does."""
        numbers = list(self._rows)
        for number in self._rng.choice(numbers, self._few, replace=False):
            self._change(f"status = 'gone' WHERE id = {number}")
        for number in self._rng.choice(numbers, self._few, replace=False):
            self._change(f"income = income + 997, age = age + 1 WHERE id = {number}")
        for number in self._admit(self._few):
            values = ", ".join(
                f"'{value}'" if isinstance(value, str) else str(value)
                for value in self._rows[number]
            )
            self._statements.append(f"INSERT INTO patient VALUES ({values})")
        self._database.execute(*self._statements)
        self._statements = []

    def _change(self, assignment: str) -> None:
        self._statements.append(f"UPDATE patient SET {assignment}")


def exposed(histories: dict[str, list[Any]]) -> int:
    """The persons whose joint history fewer than k share."""
    shared = Counter(map(tuple, histories.values()))
    return sum(count for count in shared.values() if count < K)


@pytest.mark.parametrize(
    ("more", "persons"), [("", PERSONS), (UNCHAINED, 3_362)], ids=["printed", "independent"]
)
def test_six_months_expose_nobody(
    duckdb_file: DuckdbDatabase,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    more: str,
    persons: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DBANON_URL", duckdb_file.url)
    clinic = Clinic(duckdb_file, persons)
    _, first, decided, run, _ = [text for kind, text in blocks() if kind != "prints"]
    done = answered(
        ["bash", "-euo", "pipefail", "-c", ASKS + first + decided],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    subprocess.run(["bash", "-c", COUNTED_BY + more], check=True)
    words = shlex.split(run.splitlines()[0].partition(" > ")[0])[1:]
    histories: dict[str, list[Any]] = {}
    seen: list[int] = []
    for month in range(MONTHS):
        if month:
            clinic.month_passes()
        created = CliRunner().invoke(main, words)
        assert created.exit_code == 0, created.output
        released = {
            name: (age, income)
            for name, age, income in duckdb_file.rows(
                "SELECT full_name, age, income FROM release.patient"
            )
        }
        for name in released.keys() - histories.keys():
            histories[name] = [None] * month
        for name, history in histories.items():
            history.append(released.get(name))
        if more and month:
            # The report says so on its first line, which may be broken.
            exposure = re.search(
                r"Report JOINT HISTORIES ([0-9]+) of ([0-9]+) persons \(([0-9.]+)%\)",
                " ".join(created.stdout.split()),
            )
            below, everybody = exposed(histories), len(histories)
            seen.append(below)
            assert exposure is not None, created.stdout
            assert exposure.groups() == (
                str(below),
                str(everybody),
                f"{100 * below / everybody:.1f}",
            )
    assert len(histories) >= persons
    if more:
        done = CliRunner().invoke(
            main, ["chain", "measure", duckdb_file.url, "release.patient", "--format", "json"]
        )
        assert done.exit_code == 0, done.output
        assert [release["below"] for release in json.loads(done.stdout)["known"]] == [0, *seen]
        # The reason for the chain: without it most persons would be below k, and most of them
        # unique.
        assert exposed(histories) > 0.9 * len(histories)
    else:
        assert exposed(histories) == 0
