"""kill -9 at each step of an export: the old file or the new one, never half, never unpublished.

The client is killed at every moment from the first byte of a file on: around each step of writing,
counting and renaming, at each file that it opens, renames or removes there, before each statement.
"""

from __future__ import annotations

import json
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

import dbanon
from dbanon.job.export import Export
from dbanon.job.job import Job
from dbanon.job.policy import Policy
from dbanon.run.export import Exporter
from dbanon.run.open import open_store
from dbanon.run.verify_file import verify_file
from dbanon.stores.exports import destinations, formats
from tests.conftest import CAMPAIGN
from tests.stores.databases import Database
from tests.stores.forked import count_moments, kill_at
from tests.stores.people import load_people

# The steps of an export are the same for all databases, and clients on SQLite cost least.
KILLS = {"sqlite": 14}
KILLS_ELSEWHERE = 14 if CAMPAIGN else 6


def _anonymize(channel: Connection, options: dict[str, Any]) -> None:
    """A client that tells each moment from the first of an export on, and waits for leave."""
    started: list[bool] = []

    def moment(*event: Any) -> None:
        if started:
            channel.send("moment")
            channel.recv()

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("open", "os.rename", "os.remove", "os.link"):
            if ".dbanon-" in str(arguments[0]):
                moment()
            if ".tmp" in str(arguments[0]):
                started.append(True)

    sys.addaudithook(watch)
    for owner, name in (
        (formats, "write"),
        (destinations.PendingFile, "flush"),
        (destinations.PendingFile, "finish"),
    ):
        step = getattr(owner, name)

        def around(*all_: Any, _step: Any = step, **more: Any) -> Any:
            moment()
            result = _step(*all_, **more)
            moment()
            return result

        setattr(owner, name, around)
    dbanon.anonymize(**options, progress=moment, on_sql=moment)
    channel.send("done")


def current(database: Database) -> tuple[str, dict[str, Any]]:
    """The newest release, and its file as the ledger has it."""
    [(release, arguments), *_] = database.rows(
        f"SELECT CAST(release_id AS VARCHAR(36)), arguments FROM {database.ledger()}"
        " ORDER BY created_at DESC"
    )
    plain = json.loads(arguments) if isinstance(arguments, str) else arguments
    return release, plain["exports"][0]


@pytest.mark.slow
def test_a_kill_at_any_step_leaves_the_old_file_or_the_new_one(
    database: Database, tmp_path: Path
) -> None:
    load_people(database)
    path = tmp_path / "out" / "people.parquet"
    options: dict[str, Any] = {
        "database": database.url,
        "table": "people",
        "output": "release.people",
        "output_kind": "view",
        "if_exists": "replace",
        "quasi_identifiers": ["age"],
        "keep": ["site"],
        "k": 3,
        "exports": [str(path)],
    }
    dbanon.anonymize(**options)
    moments = count_moments(_anonymize, options)
    kills = KILLS.get(database.name, KILLS_ELSEWHERE)
    assert moments >= kills
    job = Job(
        table="people",
        output="release.people",
        quasi_identifiers=("age",),
        policy=Policy(k=3),
        exports=(Export(str(path)),),
        if_exists="replace",
    )
    published = 0
    for moment in sorted({round(i * (moments - 1) / (kills - 1)) for i in range(kills)}):
        before, _ = current(database)
        assert formats.metadata_of(path)["release_id"] == before
        kill_at(_anonymize, moment, options)
        after, export = current(database)
        # A whole file, of a release that was published.
        verification = verify_file(path)
        assert (verification.release_id in (before, after), verification.rows) == (True, 40)
        assert destinations.sha256(path) == export["sha256"] or verification.release_id == before
        Exporter(job, open_store(database.url)).finish_earlier_runs()
        assert formats.metadata_of(path)["release_id"] == after
        assert destinations.sha256(path) == export["sha256"]
        assert [file.name for file in path.parent.iterdir()] == [path.name]
        published += after != before
    # Kills after COMMIT were among them, and before.
    assert 0 < published < kills
