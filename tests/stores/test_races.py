"""Several runs that replace one output at once: each succeeds, or says that a retry may help."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from dbanon.errors import DbanonError
from tests.conftest import CAMPAIGN
from tests.stores.databases import Database
from tests.stores.people import load_people

pytestmark = pytest.mark.own_backends

RUNS = 4
# Each turn and the release it replaces, if any; campaigns add two turns like the first three.
OUTPUTS = ("a", "a", "b", "c", *(("d", "d") if CAMPAIGN else ()))


def race(run: Callable[[int], Any], runs: int = RUNS) -> Counter[str]:
    """Run at the same time with 3, 4, … : how often each outcome came."""
    outcomes: list[str] = []
    barrier = threading.Barrier(runs)

    def release_with(k: int) -> None:
        try:
            barrier.wait()
            run(k)
            outcomes.append("done")
        except DbanonError as error:
            outcomes.append(f"{error.exit_code} {error.code}: {error.message}")
        except Exception as error:
            outcomes.append(f"unexpected {type(error).__name__}")

    threads = [threading.Thread(target=release_with, args=(3 + i,)) for i in range(runs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Counter(outcomes)


@pytest.mark.parametrize("kind", ["table", "view"])
def test_the_losers_may_try_again(database: Database, kind: str) -> None:
    """Also where nothing is there yet: neither schema, nor ledger, nor output."""
    load_people(database)
    seen: Counter[str] = Counter()
    for turn, output in enumerate(OUTPUTS):
        if turn == 3 and database.name != "sqlite":
            # The schema is there, and the ledger is not.
            database.execute("DROP SCHEMA dbanon CASCADE")
        # Runs start together, and in every other turn also reach the writing step together.
        meet = threading.Barrier(RUNS) if turn % 2 else None

        def run(k: int, meet: threading.Barrier | None = meet, output: str = output) -> None:
            def progress(phase: str, share: float) -> None:
                if meet is not None and (phase, share) == ("write", 0.0):
                    # Where a database lets one session write at a time, they never meet.
                    with suppress(threading.BrokenBarrierError):
                        meet.wait(1)

            database.anonymize(
                quasi_identifiers=["age", "height"],
                keep=["site"],
                k=k,
                output_kind=kind,
                if_exists="replace",
                progress=progress,
                output=f"release.{output}",
            )

        outcomes = race(run)
        seen += outcomes
        assert outcomes["done"] >= 1, seen
        current = database.rows(
            f"SELECT k_requested FROM {database.ledger()} WHERE superseded_at IS NULL"
            f" AND output_name IN ('{output}', 'release_{output}')"
        )
        assert len(current) == 1
        sizes = database.rows(
            f"SELECT count(*) FROM {database.relation(f'release.{output}')} GROUP BY age, height"
        )
        assert min(size for (size,) in sizes) >= current[0][0]
    assert all(outcome.startswith(("done", "4 ")) for outcome in seen), seen
    print(seen)
