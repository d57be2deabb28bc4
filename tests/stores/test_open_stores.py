"""The stores of a job's source and target."""

from __future__ import annotations

from pathlib import Path

from dbanon.job.private import build_job
from dbanon.run.open import open_stores

JOB = build_job({"table": "people", "output": "released", "quasi_identifiers": ["age"], "k": 5})


def test_a_target_in_the_same_database_needs_no_store(tmp_path: Path) -> None:
    """One transaction reads and writes, whichever interface names the target."""
    url, other_url = f"sqlite:///{tmp_path}/a.db", f"sqlite:///{tmp_path}/b.db"
    assert open_stores(JOB, url)[1] is None
    source, target = open_stores(JOB, url, url)
    assert target is None
    source, target = open_stores(JOB, url, other_url)
    assert target is not None
    assert not target.is_same_database(source)
