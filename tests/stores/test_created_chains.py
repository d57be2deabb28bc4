"""Jobs whose first run creates their chain: the file from `init` runs unchanged, repeatedly."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dbanon.doors.cli.main import main
from tests.stores.databases import DuckdbDatabase

JOB = """\
version: 1
source: {{url: "{url}"}}
target: {{schema: release}}
defaults: {{k: 5}}
jobs:
  - name: people
    table: people
    entity: id
    chain: {chain}
    columns:
      id: {{role: identifier}}
      age: {{role: quasi_identifier}}
      size: {{role: quasi_identifier}}
    output: {{view: people}}
"""
CHAIN = '{name: people, key: "file:people.key", changes: freeze, create: true}'


def call(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture
def job(duckdb_file: DuckdbDatabase, tmp_path: Path) -> Path:
    rows = [(number, 20 + number * 7 % 50, number * 3 % 40) for number in range(60)]
    duckdb_file.load("people", dict.fromkeys(("id", "age", "size"), "INTEGER"), rows)
    file = tmp_path / "jobs" / "job.yaml"
    file.parent.mkdir()
    file.write_text(JOB.format(url=duckdb_file.url, chain=CHAIN))
    return file


def test_the_first_run_makes_the_chain_and_later_runs_continue_it(
    duckdb_file: DuckdbDatabase, job: Path
) -> None:
    key = job.parent / "people.key"
    assert call("check", job).exit_code == 0
    planned = call("plan", job)
    assert planned.exit_code == 0, planned.stderr
    assert "people: the first run creates it" in " ".join(planned.stdout.split())
    assert not key.exists()
    assert duckdb_file.rows(
        "SELECT count(*) FROM duckdb_tables() WHERE schema_name = 'dbanon'"
    ) == [(0,)]
    for release in (1, 2):
        done = call("run", job)
        assert done.exit_code == 0, done.stderr
        assert f"chain people, release {release}" in " ".join(done.stdout.split())
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert duckdb_file.rows("SELECT count(*) FROM dbanon.chain") == [(1,)]
    # Now it is planned as any release of the chain.
    assert "the first run creates it" not in call("plan", job).stdout


def test_a_chain_without_its_key_and_a_key_without_its_chain_are_refused(
    duckdb_file: DuckdbDatabase, job: Path
) -> None:
    key = job.parent / "people.key"
    assert call("run", job).exit_code == 0
    moved_key = key.rename(job.parent / "kept.key")
    for command in ("plan", "run"):
        refused = call(command, job)
        assert refused.exit_code == 2, refused.stderr
        assert "[chain_key_wrong]" in refused.stderr
    assert not key.exists()
    # Like a restored database that is older than the key file.
    moved_key.rename(key)
    duckdb_file.execute("DROP SCHEMA dbanon CASCADE", "DROP SCHEMA release CASCADE")
    for command in ("plan", "run"):
        refused = call(command, job)
        assert "[chain_not_found]" in refused.stderr


@pytest.mark.parametrize(
    "chain",
    [
        '{name: people, key: "file:people.key", create: true}',
        "{name: people, key: env:KEY, changes: freeze, create: true}",
    ],
)
def test_what_the_first_run_needs_is_checked(job: Path, chain: str) -> None:
    job.write_text(job.read_text().replace(CHAIN, chain))
    refused = call("check", job)
    assert refused.exit_code == 2
    assert "create: true needs changes" in " ".join(refused.stderr.split())


def test_a_first_run_that_is_refused_leaves_a_chain_with_its_key_or_neither(
    duckdb_file: DuckdbDatabase, job: Path
) -> None:
    job.write_text(job.read_text().replace("entity: id", "entity: nobody"))
    assert call("run", job).exit_code
    assert os.listdir(job.parent) == ["job.yaml"]
    job.write_text(job.read_text().replace("entity: nobody", "entity: id"))
    duckdb_file.execute("INSERT INTO people SELECT * FROM people WHERE id < 3")
    assert "[chain_entity_rows]" in call("run", job).stderr
    assert (job.parent / "people.key").exists()
    duckdb_file.execute("DELETE FROM people WHERE id < 3")
    assert call("run", job).exit_code == 0
