"""``dbanon.disclosure_risk`` of tables: one result on every database, and no writes."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dbanon
from dbanon.errors import ColumnNotFound, InvalidParameter, KeyRequired, UnsupportedType
from tests.stores.databases import ALL_NAMES, Database

DATABASES = ALL_NAMES

COLUMNS = ("pid", "sex", "score", "born", "home", "w")
ROWS = [
    (
        100 + i,
        "fm"[i % 2] if i % 11 else None,
        f"{i % 7}.50",
        f"19{50 + i % 5}-01-02",
        i // 4 if i % 13 else None,
        10 + i % 3,
    )
    for i in range(120)
]
NAMED: dict[str, Any] = {
    "quasi_identifiers": ["sex", "score", "born"],
    "weight": "w",
    "household": "home",
}


def load(database: Database, table: str = "people", rows: list[Any] = ROWS) -> None:
    kinds = database.types
    types = [kinds[name] for name in ("bigint", "text", "decimal", "date", "integer", "double")]
    database.load(table, dict(zip(COLUMNS, types, strict=True)), rows)


def figures_of(result: dbanon.SampleRisk) -> dict[str, Any]:
    return {**result.to_dict(), "source": ""}


def test_a_table_has_the_risk_of_its_rows(database: Database, tmp_path: Path) -> None:
    load(database)
    load(database, "persons", [*ROWS, *ROWS[:60]])
    before = database.state()
    frame = pd.DataFrame(ROWS, columns=list(COLUMNS))
    population = pd.concat([frame, frame[:60]])
    path = tmp_path / "records.csv"
    result = dbanon.disclosure_risk(
        database.url, "people", **NAMED, population="persons", suda=True, key=["pid"], records=path
    )
    expected = dbanon.disclosure_risk(frame, **NAMED, population=population, suda=True)
    assert database.state() == before
    assert figures_of(result) == figures_of(expected)
    assert result.incomplete == 11
    with path.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert sorted(int(line["pid"]) for line in lines) == [row[0] for row in ROWS]
    for missing in ("wildcard", "category"):
        of_table = dbanon.disclosure_risk(database.url, "people", **NAMED, missing=missing)
        of_frame = dbanon.disclosure_risk(frame, **NAMED, missing=missing)
        assert figures_of(of_table) == figures_of(of_frame)


def test_a_view_and_a_list_need_a_key(database: Database, tmp_path: Path) -> None:
    load(database)
    people, view = database.relation("people"), database.relation("seen")
    database.execute(f"CREATE VIEW {view} AS SELECT * FROM {people}")
    with pytest.raises(KeyRequired):
        dbanon.disclosure_risk(database.url, "seen", **NAMED)
    result = dbanon.disclosure_risk(database.url, "seen", **NAMED, key=["pid"])
    assert figures_of(result) == figures_of(dbanon.disclosure_risk(database.url, "people", **NAMED))
    path = tmp_path / "records.csv"
    with pytest.raises(InvalidParameter, match="identify a row"):
        dbanon.disclosure_risk(database.url, "people", **NAMED, records=path)
    with pytest.raises(KeyRequired, match="population"):
        dbanon.disclosure_risk(database.url, "people", **NAMED, population="seen")
    with pytest.raises(UnsupportedType, match='Column "born"'):
        dbanon.disclosure_risk(
            database.url, "people", quasi_identifiers=["sex"], weight="born", key=["pid"]
        )
    with pytest.raises(ColumnNotFound):
        dbanon.disclosure_risk(database.url, "people", **(NAMED | {"weight": "weight"}))
    assert not path.exists()


def test_a_release_is_measured_like_its_table(database: Database) -> None:
    load(database)
    released_rows = [(i, None, score[0], born, home, w) for i, _, score, born, home, w in ROWS[4:]]
    kinds = database.types
    types = [kinds[name] for name in ("bigint", "text", "text", "date", "integer", "double")]
    database.load("released", dict(zip(COLUMNS, types, strict=True)), released_rows)
    before = database.state()
    comparison = dbanon.disclosure_risk(database.url, "people", **NAMED, released="released")
    assert database.state() == before
    frame = pd.DataFrame(ROWS, columns=list(COLUMNS))
    released = pd.DataFrame(released_rows, columns=list(COLUMNS))
    expected = dbanon.disclosure_risk(frame, **NAMED, released=released)
    assert figures_of(comparison.before) == figures_of(expected.before)
    assert figures_of(comparison.after) == figures_of(expected.after)
    assert comparison.table_rows() == expected.table_rows()
    mixed = dbanon.disclosure_risk(database.url, "people", **NAMED, released=released)
    assert mixed.table_rows() == expected.table_rows()
    people, view = database.relation("people"), database.relation("seen")
    database.execute(f"CREATE VIEW {view} AS SELECT * FROM {people}")
    with pytest.raises(KeyRequired, match="release is a view"):
        dbanon.disclosure_risk(database.url, "people", **NAMED, released="seen")
