"""What each policy for NULLs does, and what it guarantees."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import dbanon
from dbanon.data.chunks import bytes_per_record
from dbanon.errors import NullInQuasiIdentifier, SuppressionOverBudget, TooFewRecords
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
    found = released(database)
    assert {kept for *_, kept in found} == {f"kept {i}" for i in range(12)}
    assert not any(value is None for row in found for value in row)
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
    found = released(database)
    assert min(Counter((x, y) for x, y, _ in found).values()) == report.k_achieved >= 3
    # NULL stays where it was, and nowhere else.
    assert {kept for x, _, kept in found if x is None} == {f"kept {i}" for i in range(12, 17)}
    assert {kept for _, y, kept in found if y is None} == {f"kept {i}" for i in range(17, 21)}


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
    found = database.rows(f"SELECT x FROM {database.relation('release.people')}")
    # 1.5 more: half to even.
    assert Counter(found) == {(big + 2,): 4, (None,): 4}


def test_nulls_in_kept_columns_are_kept(database: Database) -> None:
    columns = {"id": "integer PRIMARY KEY", "x": "integer", "kept": database.types["text"]}
    database.load("people", columns, [(i, i, None if i % 2 else "") for i in range(10)])
    database.anonymize(quasi_identifiers=["x"], keep=["kept"])
    found = database.rows(f"SELECT kept FROM {database.relation('release.people')}")
    assert Counter(found) == {(None,): 5, ("",): 5}


@pytest.mark.parametrize("way", ["full_domain", "withhold_failing"])
def test_withheld_records_with_nulls_are_not_expected_among_the_written(
    database: Database, way: str
) -> None:
    """A pattern of NULLs that is withheld as a whole, or in part, has no rows in the release."""
    rows = [(i, i % 4, None if i % 5 == 0 else 1, "a" if i % 5 == 0 else f"v{i % 3}")
            for i in range(60)]  # fmt: skip
    rows += [(60 + i, 1000 * i, None, "a") for i in range(2)]
    columns = dict.fromkeys(("id", "x", "y"), database.types["integer"])
    database.load("people", columns | {"kept": database.types["text"]}, rows)
    given: dict[str, Any] = {"quasi_identifiers": NAMES, "nulls": "category"}
    given |= {"max_suppression": 0.5}
    if way == "full_domain":
        given |= {"method": "full_domain", "options": {"suppression": 0.5}}
    else:
        model = dbanon.Model("distinct_l", "kept", 2)
        given |= {"sensitive": ["kept"], "models": [model], "withhold_failing": True}
    report = database.anonymize(**given)
    assert report.suppressed > 0
    [(holes,)] = database.rows(
        f"SELECT count(*) FROM {database.relation('release.people')} WHERE y IS NULL"
    )
    assert report.null_rows == holes < 14


def test_a_plan_counts_rows_that_are_different_and_takes_nulls_for_alike(
    database: Database,
) -> None:
    # Of 40 rows 12 have values of their own; of the others 28 are equal, NULL and all.
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
    assert planned.memory == 40 * bytes_per_record(2, 1, 13 / 40)
    assert planned.memory < 40 * bytes_per_record(2, 1)
    numbers = dbanon.plan(
        database.url,
        table="people",
        output="release.people",
        quasi_identifiers=["id"],
        k=4,
    )
    assert numbers.memory == 40 * bytes_per_record(1)
