"""Local suppression where NULL agrees with every value, on every database: counts and refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dbanon
from dbanon.data.partition import PartitionWithNulls
from dbanon.doors.html.page import render_page
from dbanon.errors import (
    InvalidParameter,
    NullInQuasiIdentifier,
    RecountFailed,
    ReleaseChanged,
)
from dbanon.run.inspect_release import inspect_release
from dbanon.run.open import open_store
from dbanon.sessions.names import parse_relation
from tests.stores.databases import ALL_NAMES, Database

DATABASES = ALL_NAMES
NAMES = ["sex", "age", "town", "day"]

pytestmark = pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")


def people(n: int = 60, *, nulls: bool = False) -> list[tuple[Any, ...]]:
    """Invented persons; ages and towns are skewed, so that some of them are rare."""
    rng = np.random.default_rng(5)
    rows: list[tuple[Any, ...]] = []
    for person in range(n):
        age = int(30 + rng.geometric(0.4)) if not nulls or person % 7 else None
        # Towns that differ only in case differ in every database.
        town = "aAbBc"[min(int(rng.geometric(0.5)) - 1, 4)]
        day = f"2020-01-{1 + int(rng.integers(2)):02}"
        weight = 100 + person % 13
        rows.append((person, "fm"[int(rng.integers(2))], age, town, day, "xyz"[person % 3], weight))
    return rows


def load(database: Database, rows: list[tuple[Any, ...]]) -> None:
    columns = {
        "id": "integer PRIMARY KEY",
        "sex": database.types["text"],
        "age": "integer",
        "town": database.types["text"],
        "day": database.types["date"],
        "ill": database.types["text"],
        "weight": "integer",
    }
    database.load("people", columns, rows)


def suppress(database: Database, **options: Any) -> dbanon.Report:
    method_options = {"missing": "wildcard", **options.pop("options", {})}
    return database.anonymize(
        **{"quasi_identifiers": NAMES, "method": "local_suppression", "options": method_options}
        | options
    )


def released(database: Database) -> list[tuple[Any, ...]]:
    return [
        tuple(None if value is None else str(value) for value in row)
        for row in database.rows(
            f"SELECT sex, age, town, day FROM {database.relation('release.people')}"
        )
    ]


def fewest_agreeing(rows: list[tuple[Any, ...]], others: list[tuple[Any, ...]]) -> int:
    """The smallest number of other rows that agree with a row, pair by pair."""
    return min(
        sum(
            all(a == b or a is None or b is None for a, b in zip(row, other, strict=True))
            for other in others
        )
        for row in rows
    )


@pytest.mark.parametrize("nulls", [False, True])
def test_each_row_agrees_with_k_rows(database: Database, nulls: bool) -> None:
    source = people(nulls=nulls)
    load(database, source)
    if nulls:
        with pytest.raises(NullInQuasiIdentifier):
            suppress(database)
    report = suppress(database, nulls="category", also_k=[{"columns": ["sex", "town"], "k": 6}])
    rows = released(database)
    originals = [
        tuple(None if value is None else str(value) for value in row[1:5]) for row in source
    ]
    assert report.k_achieved == fewest_agreeing(rows, rows) >= 3
    assert fewest_agreeing(rows, originals) >= 3
    assert report.smallest_class < 3
    in_set = [(row[0], row[2]) for row in rows]
    [recorded] = report.arguments["also_k"]
    assert recorded["counted"] == fewest_agreeing(in_set, in_set) >= 6
    assert report.internal is not None
    assert report.internal.suppression is not None
    assert report.internal.suppression["fewest_agreeing_rows"] == fewest_agreeing(originals, rows)
    assert "NULL AGREES WITH EVERY VALUE" in report.guarantee
    assert "ROWS MAY BE UNIQUE" in str(report)
    assert "rows_below_k" not in str(report) + json.dumps(report.to_dict(), default=str)
    verification = dbanon.verify(database.url, "release.people")
    assert verification.k_achieved == report.k_achieved
    assert verification.unchanged
    assert "NULL agrees with every value" in verification.recounted
    with pytest.raises(RecountFailed, match="agrees with"):
        dbanon.verify(database.url, "release.people", k=report.k_achieved + 1)


def test_readers_count_the_same(database: Database) -> None:
    load(database, people())
    report = suppress(database)
    query = str(dbanon.verify(database.url, "release.people").recount_sql).rstrip(";")
    # Towns that differ only in case count as different here, too.
    assert database.reader_rows(query) == [(report.k_achieved, report.classes, 60)]


def test_the_ledger_keeps_what_the_report_says(database: Database) -> None:
    load(database, people())
    report = suppress(database)
    entry = dbanon.show(database.url, report.release_id, internal=True)
    assert report.internal is not None
    assert report.internal.suppression is not None
    assert entry["internal"]["suppression"] == dict(report.internal.suppression)
    [(arguments,)] = database.rows(f"SELECT arguments FROM {database.ledger()}")
    recorded = json.loads(arguments) if isinstance(arguments, str) else arguments
    assert recorded["options"]["missing"] == "wildcard"
    assert recorded["agreeing_rows"] == report.k_achieved
    assert "suppression" not in recorded


def test_a_release_that_was_changed_fails(database: Database) -> None:
    load(database, people())
    suppress(database)
    relation = database.relation("release.people")
    database.execute(f"INSERT INTO {relation} VALUES ('q', 99, 'Q', '2021-01-01')")
    with pytest.raises(RecountFailed, match="agrees with"):
        dbanon.verify(database.url, "release.people")
    database.execute(f"DELETE FROM {relation} WHERE sex = 'q'")
    assert dbanon.verify(database.url, "release.people").unchanged
    # Each row still agrees with k rows, and one of them is another.
    database.execute(f"UPDATE {relation} SET age = NULL WHERE age = 31")
    with pytest.raises(ReleaseChanged):
        dbanon.verify(database.url, "release.people")


@pytest.mark.in_turn
def test_rows_that_fail_the_recount_are_not_published(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(database, people())
    state = database.state()
    group = "dbanon.methods.local_suppression._group_alike"

    def blank_nothing(released: Any) -> PartitionWithNulls:
        return PartitionWithNulls(np.arange(60), np.zeros((60, 4), np.bool_))

    monkeypatch.setattr(group, blank_nothing)
    with pytest.raises(RecountFailed, match="A row counted in the database agrees with 1 row"):
        suppress(database)
    assert database.state() == state


@pytest.mark.parametrize(
    "options",
    [
        {"entity": "ill"},
        {"by": ["ill"]},
        {"sensitive": ["ill"], "models": [dbanon.Model("distinct_l", "ill", 2)]},
        {"keep": ["ill"], "also_k": [["sex", "ill"]]},
        {"design_weight": "weight"},
        {"refine": "fast"},
        {"block_size": 10},
    ],
    ids=str,
)
@pytest.mark.in_turn
def test_options_that_do_not_fit_are_refused(database: Database, options: dict[str, Any]) -> None:
    load(database, people())
    state = database.state()
    with pytest.raises(InvalidParameter, match="missing=wildcard") as refused:
        suppress(database, **options)
    assert "eave out" in str(refused.value.hint)
    assert database.state() == state


@pytest.mark.in_turn
def test_files_and_pages_say_which_rule_was_counted(database: Database, tmp_path: Path) -> None:
    load(database, people())
    file = tmp_path / "people.parquet"
    report = suppress(database, exports=[{"path": str(file)}], evaluate=True, sensitive=["ill"])
    verification = dbanon.verify_file(file)
    assert verification.k_achieved == report.k_achieved
    inspection = inspect_release(open_store(database.url), parse_relation("release.people"))
    page = render_page(report, inspection=inspection)
    assert "ROWS MAY BE UNIQUE" in page
    assert "Rows that agree, NULL with every value: k counts these." in page
    assert f"fewest agreeing rows {report.k_achieved}" in page
    assert "rows_below_k" not in page
    assert all("take NULL as a value" in text for text in report.homogeneous)
    assert report.homogeneous


def test_frames_give_the_same_counts(database: Database) -> None:
    source = people(nulls=True)
    load(database, source)
    report = suppress(database, nulls="category")
    frame = pd.DataFrame(source, columns=["id", *NAMES, "ill", "weight"]).astype({"age": "Int64"})
    rows, frame_report = dbanon.anonymize_frame(
        frame,
        quasi_identifiers=NAMES,
        k=3,
        method="local_suppression",
        options={"missing": "wildcard"},
        nulls="category",
    )
    assert frame_report.k_achieved == report.k_achieved
    assert frame_report.suppressed_cells == report.suppressed_cells
    assert frame_report.classes == report.classes
    assert len(rows) == 60
