"""The effect of each policy for NULLs, and its guarantee."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import NullInQuasiIdentifier, SuppressionOverBudget, TooFewRecords
from dbanon.partitioning.record_memory import bytes_per_record
from tests.stores.databases import ALL_NAMES, Database

DATABASES = ALL_NAMES

NAMES = ["x", "y"]


def load(database: Database, without_x: int = 5, without_y: int = 4, without_both: int = 0) -> None:
    patterns = [(True, True)] * 12
    patterns += [(False, True)] * without_x
    patterns += [(True, False)] * without_y
    patterns += [(False, False)] * without_both
    rows = [
        (i, i * i % 23 if has_x else None, 0.5 * i if has_y else None, f"kept {i}")
        for i, (has_x, has_y) in enumerate(patterns)
    ]
    columns = {
        "id": "integer PRIMARY KEY",
        "x": database.types["decimal"],
        "y": database.types["double"],
        "kept": database.types["text"],
    }
    database.load("people", columns, rows)


def released(database: Database) -> list[tuple[Any, ...]]:
    return database.rows(f"SELECT x, y, kept FROM {database.relation('release.people')}")


def test_by_default_nulls_are_refused_and_counted(database: Database) -> None:
    load(database)
    state = database.state()
    with pytest.raises(NullInQuasiIdentifier, match=r'"x" in 5 rows, "y" in 4 rows') as caught:
        database.anonymize(quasi_identifiers=NAMES)
    assert 'nulls="suppress"' in str(caught.value.hint)
    assert database.state() == state


def test_suppressed_records_are_withheld_and_counted(database: Database) -> None:
    load(database)
    report = database.anonymize(
        quasi_identifiers=NAMES, keep=["kept"], nulls="suppress", max_suppression=9 / 21
    )
    assert (report.rows_in, report.rows_out, report.suppressed) == (21, 12, 9)
    assert report.null_rows == 0
    assert "records with a NULL were withheld" in report.guarantee
    rows = released(database)
    assert {kept_value for *_, kept_value in rows} == {f"kept {i}" for i in range(12)}
    assert not any(value is None for row in rows for value in row)
    [row] = database.rows(f"SELECT rows_in, rows_out, suppressed FROM {database.ledger()}")
    assert row == (21, 12, 9)


def test_a_budget_bounds_what_is_withheld(database: Database) -> None:
    load(database)
    state = database.state()
    with pytest.raises(SuppressionOverBudget, match="9 of 21 records") as caught:
        database.anonymize(quasi_identifiers=NAMES, nulls="suppress", max_suppression=0.42)
    assert caught.value.exit_code == 3
    assert "0.428572" in str(caught.value.hint)
    assert database.state() == state


def test_each_pattern_of_nulls_has_classes_of_its_own(database: Database) -> None:
    load(database)
    report = database.anonymize(quasi_identifiers=NAMES, keep=["kept"], nulls="category")
    assert (report.rows_out, report.suppressed, report.null_rows) == (21, 0, 9)
    assert "NULL counted as a value" in report.guarantee
    rows = released(database)
    assert min(Counter((x, y) for x, y, _ in rows).values()) == report.k_achieved >= 3
    # NULL stays where it was, and nowhere else.
    assert {kept_value for x, _, kept_value in rows if x is None} == {
        f"kept {i}" for i in range(12, 17)
    }
    assert {kept_value for _, y, kept_value in rows if y is None} == {
        f"kept {i}" for i in range(17, 21)
    }


def test_a_pattern_that_is_too_rare_is_refused(database: Database) -> None:
    load(database, without_both=2)
    state = database.state()
    message = 'only 2 records with NULL in "x", "y", fewer than k = 3'
    with pytest.raises(TooFewRecords, match=message):
        database.anonymize(quasi_identifiers=NAMES, nulls="category")
    assert database.state() == state


def test_a_column_of_nulls_only(database: Database) -> None:
    rows = [(i, i, None) for i in range(10)]
    columns = {"id": "integer PRIMARY KEY", "x": "integer", "y": database.types["double"]}
    database.load("people", columns, rows)
    report = database.anonymize(quasi_identifiers=NAMES, nulls="category")
    assert report.null_rows == 10
    assert report.classes == 3
    with pytest.raises(TooFewRecords, match="0 records"):
        database.anonymize(
            quasi_identifiers=NAMES, nulls="suppress", max_suppression=1, output="x.other"
        )


def test_nulls_in_wide_columns(database: Database) -> None:
    big = 2**62
    rows = [(i, big + i if i < 4 else None) for i in range(8)]
    database.load("people", {"id": "integer PRIMARY KEY", "x": database.types["bigint"]}, rows)
    report = database.anonymize(quasi_identifiers=["x"], nulls="category", k=4)
    assert report.null_rows == 4
    released_values = database.rows(f"SELECT x FROM {database.relation('release.people')}")
    # 1.5 more: half to even.
    assert Counter(released_values) == {(big + 2,): 4, (None,): 4}


def test_nulls_in_kept_columns_are_kept(database: Database) -> None:
    columns = {"id": "integer PRIMARY KEY", "x": "integer", "kept": database.types["text"]}
    database.load("people", columns, [(i, i, None if i % 2 else "") for i in range(10)])
    database.anonymize(quasi_identifiers=["x"], keep=["kept"])
    rows = database.rows(f"SELECT kept FROM {database.relation('release.people')}")
    assert Counter(rows) == {(None,): 5, ("",): 5}


@pytest.mark.parametrize("suppression", ["full_domain", "withhold_failing"])
def test_withheld_records_with_nulls_are_not_expected_among_the_written(
    database: Database, suppression: str
) -> None:
    """A pattern of NULLs that is withheld as a whole, or in part, has no rows in the release."""
    rows = [
        (i, i % 4, None if i % 5 == 0 else 1, "a" if i % 5 == 0 else f"v{i % 3}") for i in range(60)
    ]
    rows += [(60 + i, 1000 * i, None, "a") for i in range(2)]
    columns = dict.fromkeys(("id", "x", "y"), database.types["integer"])
    database.load("people", columns | {"kept": database.types["text"]}, rows)
    options: dict[str, Any] = {"quasi_identifiers": NAMES, "nulls": "category"}
    options |= {"max_suppression": 0.5}
    if suppression == "full_domain":
        options |= {"method": "full_domain", "options": {"suppression": 0.5}}
    else:
        model = dbanon.Model("distinct_l", "kept", 2)
        options |= {"sensitive": ["kept"], "models": [model], "withhold_failing": True}
    report = database.anonymize(**options)
    assert report.suppressed > 0
    [(holes,)] = database.rows(
        f"SELECT count(*) FROM {database.relation('release.people')} WHERE y IS NULL"
    )
    assert report.null_rows == holes < 14


def test_a_plan_counts_distinct_rows_and_treats_nulls_as_equal(
    database: Database,
) -> None:
    # 12 of 40 rows have unique values; the other 28 are equal, including NULLs.
    rows = [(i, i % 5 if i < 12 else None, f"of {min(i, 12)}") for i in range(40)]
    columns = {"id": "integer PRIMARY KEY", "x": "integer", "kept": database.types["text"]}
    database.load("people", columns, rows)
    planned = dbanon.plan(
        database.url,
        table="people",
        output="release.people",
        quasi_identifiers=["x", "kept"],
        k=4,
        method="gaa_cp",
        nulls="category",
    )
    # DuckDB runs in this process, and gets as much again.
    n_shares = 2 if database.name == "duckdb" else 1
    assert planned.memory == n_shares * 40 * bytes_per_record(2, 1, 13 / 40)
    assert planned.memory < n_shares * 40 * bytes_per_record(2, 1)
    numbers = dbanon.plan(
        database.url,
        table="people",
        output="release.people",
        quasi_identifiers=["id"],
        k=4,
    )
    assert numbers.memory == n_shares * 40 * bytes_per_record(1)


def test_rare_patterns_join_larger_ones(database: Database) -> None:
    """One row without x joins those without both; its y is released as NULL."""
    load(database, without_x=1, without_y=4, without_both=3)
    options: dict[str, Any] = {"quasi_identifiers": NAMES, "keep": ["kept"], "nulls": "merge"}
    planned = dbanon.plan(database.url, table="people", output="release.people", k=3, **options)
    assert planned.rows == 20
    report = database.anonymize(**options)
    assert (report.rows_out, report.suppressed, report.null_rows) == (20, 0, 8)
    assert report.suppressed_cells == {"y": 1}
    assert "values of rare patterns of NULLs may be released as NULL" in report.guarantee
    rows = released(database)
    assert min(Counter((x, y) for x, y, _ in rows).values()) == report.k_achieved >= 3
    assert {kept_value for x, y, kept_value in rows if x is None and y is None} == {
        f"kept {i}" for i in (12, 17, 18, 19)
    }
    assert {kept_value for x, y, kept_value in rows if y is None and x is not None} == {
        f"kept {i}" for i in range(13, 17)
    }
    verified = dbanon.verify(database.url, "release.people")
    assert verified.k_achieved == report.k_achieved
    [row] = database.rows(f"SELECT rows_out, suppressed, null_rows FROM {database.ledger()}")
    assert row == (20, 0, 8)


def test_wide_values_of_rare_patterns_are_not_released(database: Database) -> None:
    """Exact sums of the database leave out cells that are suppressed."""
    big = 2**62
    rows = [(0, big, None)] + [
        (i, None if i < 5 else big + i, None if i < 5 else i) for i in range(1, 12)
    ]
    columns = {"id": "integer PRIMARY KEY", "x": database.types["bigint"], "y": "integer"}
    database.load("people", columns, rows)
    report = database.anonymize(quasi_identifiers=NAMES, nulls="merge", k=4)
    assert report.suppressed_cells == {"x": 1}
    counts = Counter(
        x for (x,) in database.rows(f"SELECT x FROM {database.relation('release.people')}")
    )
    assert counts == {(None): 5, big + 8: 7}


@pytest.mark.parametrize("by", [(), ("kept",)], ids=["pattern", "stratum"])
def test_what_is_below_k_is_withheld_within_the_budget(
    database: Database, by: tuple[str, ...]
) -> None:
    load(database, without_x=2 if not by else 0, without_y=0)
    if by:
        database.execute("UPDATE people SET kept = CASE WHEN id < 2 THEN 'rare' ELSE 'often' END")
    n = 12 if by else 14
    options: dict[str, Any] = {"quasi_identifiers": NAMES, "nulls": "category", "by": by}
    state = database.state()
    for share, error in ((0, TooFewRecords), (1 / n, SuppressionOverBudget)):
        plan = {"table": "people", "output": "release.people", "k": 3, "max_suppression": share}
        with pytest.raises(error) as planned:
            dbanon.plan(database.url, **plan, **options)
        with pytest.raises(error) as run:
            database.anonymize(max_suppression=share, **options)
        assert str(planned.value) == str(run.value)
    assert database.state() == state
    dbanon.plan(database.url, **(plan | {"max_suppression": 2 / n}), **options)
    report = database.anonymize(max_suppression=2 / n, **options)
    assert (report.rows_out, report.suppressed, report.null_rows) == (n - 2, 2, 0)


@pytest.mark.in_turn(of="file")
@pytest.mark.parametrize("seed", range(12))
def test_a_plan_merges_as_a_run_does(database: Database, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(8, 60)), int(rng.integers(2, 6))
    missing = rng.random((n, 4)) < rng.choice([0.02, 0.1, 0.5], 4)
    rows = [
        (
            i,
            *(None if is_null else int(value) for value, is_null in zip(row, holes, strict=True)),
            i % 2,
        )
        for i, (row, holes) in enumerate(zip(rng.integers(0, 9, (n, 4)), missing, strict=True))
    ]
    names = ["a", "b", "c", "d"]
    integer = database.types["integer"]
    columns = {"id": "integer PRIMARY KEY", **dict.fromkeys([*names, "s"], integer)}
    database.load("people", columns, rows)
    options: dict[str, Any] = {"quasi_identifiers": names, "nulls": "merge", "k": k}
    options |= {"by": ["s"], "max_suppression": float(rng.choice([0, 0.02, 0.1, 1]))}
    outcomes: list[str | None] = []
    for work in (
        lambda: dbanon.plan(database.url, table="people", output="release.people", **options),
        lambda: database.anonymize(**options),
    ):
        try:
            work()
            outcomes.append(None)
        except dbanon.DbanonError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


@pytest.mark.in_turn(of="file")
def test_a_command_and_a_job_merge(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DBANON_URL", database.url)
    load(database, without_x=1, without_y=4, without_both=3)
    words = ["anonymize", database.url, "--table", "people", "-q", "x", "-q", "y", "--k", "3"]
    words += ["--output", "release.people", "--nulls", "merge", "--format", "json"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["arguments"]["suppressed_cells"] == {"y": 1}
    job = tmp_path / "job.yaml"
    job.write_text(
        "version: 1\nsource: {url: '${DBANON_URL}'}\njobs:\n  - name: people\n    table: people\n"
        "    k: 3\n    nulls: merge\n    releases: independent\n"
        "    columns: {id: {role: drop}, x: {role: quasi_identifier}, y: {role: quasi_identifier},"
        " kept: {role: drop}}\n    output: {table: release.again}\n"
    )
    report = dbanon.run_job(job)
    assert report.suppressed_cells == {"y": 1}
    page, text = tmp_path / "report.html", tmp_path / "report.txt"
    for file in (page, text):
        done = CliRunner().invoke(main, ["report", database.url, "release.again", "-o", str(file)])
        assert done.exit_code == 0, done.output
    assert "values of rare patterns" in page.read_text()
    assert "rare cells released as NULL" in text.read_text()
