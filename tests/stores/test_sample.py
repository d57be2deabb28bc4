"""Samples of a relation's rows, on which plans try methods."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dbanon
from dbanon.data.microdata import Microdata
from dbanon.job.policy import Policy
from dbanon.methods.forecast import Shape
from dbanon.partitioning import trials
from dbanon.partitioning.forecast import forecast
from dbanon.run import outlook
from tests.stores.databases import ALL_NAMES, Database, PostgresqlDatabase

DATABASES = ALL_NAMES
N = 16_000
NAMES = ["age", "weight", "born", "seen", "job"]


def load(database: Database) -> None:
    """Create the table people; one of ten has no job."""
    kinds = database.types
    columns = {"id": kinds["integer"] + " PRIMARY KEY", "age": kinds["integer"]}
    columns |= {"weight": kinds["decimal"], "born": kinds["date"], "seen": kinds["timestamp"]}
    columns["job"] = kinds["text"]
    rows = [
        (
            *(i, i * 5 % 91, f"{50 + i % 40}.25", f"19{50 + i % 50}-0{1 + i % 9}-11"),
            f"2024-03-{10 + i % 20} 11:0{i % 10}:05",
            None if i % 10 == 0 else f"job {i % 13}",
        )
        for i in range(N)
    ]
    database.load("people", columns, rows)


def plan(database: Database, **options: Any) -> dbanon.Outlook:
    arguments: dict[str, Any] = {"quasi_identifiers": NAMES, "k": 3, "method": "gaa_cp"}
    arguments |= {"table": "people", "output": "release.people", "nulls": "suppress"}
    arguments["max_suppression"] = 0.5
    return dbanon.plan(database.url, **arguments | options)


def count_records(monkeypatch: pytest.MonkeyPatch) -> list[Microdata]:
    """Let a trial take a microsecond for each record; return the records of all trials."""
    tried: list[Microdata] = []

    def measure(records: Microdata, policy: Policy, trees: object) -> float:
        assert policy.k == 3
        tried.append(records)
        return records.n_records * 1e-6

    monkeypatch.setattr(trials, "_measure_seconds", measure)
    return tried


def test_plans_try_methods_on_half_of_the_rows(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(database)
    before = database.state()
    tried = count_records(monkeypatch)
    planned = plan(database)
    assert database.state() == before
    assert planned.forecast == {"seconds": 0.014, "refinement_seconds": 0.0}
    largest = tried[-1]
    # 7,200 of 14,400 rows are expected, with a standard deviation of 60.
    assert 6_700 < largest.n_records < 7_700
    assert [attribute.name for attribute in largest.attributes] == NAMES
    assert largest.valid is None
    # Numbers are those of some rows, together.
    age, weight, born, seen = largest.numbers.T
    last_digits = (weight - 50.25) % 10
    assert (age.min(), age.max()) == (0, 90)
    assert set(np.unique(weight)) == {50.25 + i for i in range(40) if i % 10}
    years = born.astype("datetime64[D]").astype("datetime64[Y]").astype(int) + 1970
    assert (years % 10 == last_digits).all()
    # Servers may show timestamps in a time zone of whole hours.
    assert (seen // (60 * 10**6) % 60 == last_digits).all()
    assert (seen // 10**6 % 60 == 5).all()
    assert largest.categories == (tuple(sorted(f"job {i}" for i in range(13))),)


def test_conditions_select_the_sample(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    load(database)
    tried = count_records(monkeypatch)
    assert plan(database, where="age < 80").forecast is not None
    assert tried[-1].numbers[:, 0].max() == 79


def test_small_tables_chains_and_small_memory_are_not_tried(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(database)
    tried = count_records(monkeypatch)
    assert plan(database, where="age < 50").forecast is not None
    assert plan(database, cluster=True).forecast is not None
    assert plan(database, memory_limit=20 * 2**20).forecast is not None
    assert not tried


def test_trials_that_fail_leave_the_plan(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sample may lack what the table has; then the forecast is that of power laws."""
    load(database)

    def read(*_: object) -> Microdata:
        raise ValueError("year 20000 is out of range")

    by_laws = plan(database, cluster=True).forecast
    monkeypatch.setattr(outlook, "read_sample", read)
    assert plan(database).forecast == by_laws


@pytest.mark.postgresql
def test_a_value_that_aborts_the_transaction_leaves_the_plan(
    postgresql: PostgresqlDatabase,
) -> None:
    """No double holds 1e400, which the run refuses."""
    columns = {"id": "integer PRIMARY KEY", "size": "numeric"}
    postgresql.load("people", columns, [(i, i % 50) for i in range(N)])
    postgresql.execute("UPDATE people SET size = 1e400 WHERE id % 3 = 0")
    by_laws = forecast(Policy(k=3, method="mdav"), N, Shape(1))
    assert by_laws is not None
    planned = plan(postgresql, quasi_identifiers=["size"], method="mdav")
    assert planned.forecast == by_laws.to_dict()
