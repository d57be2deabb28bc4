"""The ledger's record of job runs, done and failed; older ledgers have none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import dbanon
from dbanon.ledger import job_history
from dbanon.run.open import open_store
from tests.stores.databases import Database
from tests.stores.job_lines import call, job, job_results, write
from tests.stores.people import load_people

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")


@pytest.fixture(autouse=True)
def _people(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEOPLE", database.url)


def test_each_attempt_is_listed(database: Database, tmp_path: Path) -> None:
    load_people(database)
    assert dbanon.attempts(database.url, "people") == []
    assert call("run", write(tmp_path, job(k="41"))).exit_code == 3
    file = write(tmp_path, job(), job("other", output="{table: other}"))
    first, other = job_results(call("run", file, "--format", "json"))
    database.anonymize(quasi_identifiers=["age"], output="release.by_hand")
    assert call("run", write(tmp_path, job(k="41"))).exit_code == 3
    attempts = dbanon.attempts(database.url, "people")
    # The first one failed before there was a ledger.
    assert [(attempt.state, attempt.error_code, attempt.release_id) for attempt in attempts] == [
        ("failed", "too_few_records", None),
        ("done", None, first["report"]["release_id"]),
    ]
    assert all(
        attempt.finished_at and attempt.finished_at >= attempt.started_at for attempt in attempts
    )
    done = call("releases", database.url, "--job", "other", "--format", "json")
    [listed_attempt] = json.loads(done.stdout)
    assert (listed_attempt["state"], listed_attempt["release_id"]) == (
        "done",
        other["report"]["release_id"],
    )
    release = dbanon.show(database.url, listed_attempt["release_id"])
    assert release["run"]["job"] == "other"
    assert "too_few_records" in call("releases", database.url, "--job", "people").stdout
    assert call("releases", database.url, "--job", "nobody", "--format", "json").stdout == "[]\n"


def test_a_ledger_that_knows_of_no_jobs(database: Database, tmp_path: Path) -> None:
    load_people(database)
    database.anonymize(quasi_identifiers=["age"], output="release.by_hand")
    for column in ("job", "source_types", "fingerprint", "source_counts"):
        database.execute(f"ALTER TABLE {database.ledger('run')} DROP COLUMN {column}")
    assert dbanon.attempts(database.url, "people") == []
    with open_store(database.url).session(write=False) as session:
        assert job_history.last_release(session, "people") is None
    # One that fails is noted as it can be.
    assert call("run", write(tmp_path, job(k="41"))).exit_code == 3
    states = database.rows(f"SELECT state FROM {database.ledger('run')} ORDER BY state")
    assert states == [("done",), ("failed",)]
