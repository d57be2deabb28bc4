"""``dbanon.certificate`` and ``dbanon bound`` of tables: one bound at every door, and no writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import (
    ColumnNotFound,
    DbanonError,
    InvalidParameter,
    NullInQuasiIdentifier,
    TooFewRecords,
    UnsupportedType,
)
from tests.stores.databases import Database
from tests.stores.people import load_people

TABLE: dict[str, Any] = {"table": "people", "quasi_identifiers": ["age", "income"]}


def frame_of(database: Database) -> pd.DataFrame:
    rows = database.rows(f"SELECT age, income FROM {database.relation('people')}")
    return pd.DataFrame(rows, columns=["age", "income"]).astype(float)


def test_a_table_has_the_bound_of_its_rows(database: Database) -> None:
    load_people(database)
    before = database.state()
    found = dbanon.certificate(database.url, 4, **TABLE)
    given = ["--table", "people", "--quasi-identifiers", "age", "-q", "income", "--k", "4"]
    told = CliRunner().invoke(main, ["bound", database.url, *given, "--format", "json"])
    assert told.exit_code == 0
    assert database.state() == before
    frame = frame_of(database)
    assert found.share == pytest.approx(dbanon.lower_bound(frame, 4), rel=1e-4)
    plain = json.loads(told.stdout)
    assert plain["lower_bound"] == pytest.approx(found.share, rel=1e-4)
    assert (plain["records"], plain["k"], plain["way"]) == (40, 4, "classes")
    assert 0 < plain["simple_bound"] < plain["lower_bound"]
    assert set(plain) == {
        "k", "records", "lower_bound", "way", "complete", "simple_bound", "seconds",
    }  # fmt: skip
    report = database.anonymize(**TABLE, k=4, refine="thorough", refine_iterations=1000)
    assert report.information_loss_before_rounding >= found.share


def test_people_read_it(database: Database) -> None:
    load_people(database)
    given = ["--table", "people", "--quasi-identifiers", "age,income", "--k", "9"]
    told = CliRunner().invoke(main, ["bound", database.url, *given], env={"COLUMNS": "200"})
    assert told.exit_code == 0
    assert "at least" in told.stdout
    assert "pairs" in told.stdout


@pytest.mark.parametrize(
    ("change", "more", "error"),
    [
        ("age = NULL", {}, NullInQuasiIdentifier),
        (None, {"quasi_identifiers": ["age", "site"]}, UnsupportedType),
        (None, {"quasi_identifiers": ["nothing"]}, ColumnNotFound),
        (None, {"k": 41}, TooFewRecords),
        (None, {"k": 1}, InvalidParameter),
        (None, {"seconds": 0}, InvalidParameter),
        (None, {"seconds": "long"}, InvalidParameter),
    ],
)
def test_what_has_no_bound_is_refused(
    database: Database, change: str | None, more: dict[str, Any], error: type[DbanonError]
) -> None:
    load_people(database)
    if change:
        database.execute(f"UPDATE {database.relation('people')} SET {change} WHERE id = 1")
    with pytest.raises(error):
        dbanon.certificate(database.url, **{"k": 4, **TABLE, **more})


def test_a_file_of_rows_is_a_table(tmp_path: Path) -> None:
    frame = pd.DataFrame({"age": range(20, 50), "income": [i * i % 17 for i in range(30)]})
    frame.to_csv(tmp_path / "people.csv", index=False)
    url = f"file:{tmp_path / 'people.csv'}"
    given = ["--table", "people", "--quasi-identifiers", "age,income", "--k", "3"]
    told = CliRunner().invoke(main, ["bound", url, *given, "--format", "json"])
    assert told.exit_code == 0
    expected = dbanon.lower_bound(frame, 3)
    assert json.loads(told.stdout)["lower_bound"] == pytest.approx(expected, rel=1e-4)


def test_ranks_and_what_a_frame_may_not_be() -> None:
    frame = pd.DataFrame({"age": [1.0, 2, 3, 4, 5, 6], "size": list("smlsml")})
    with pytest.raises(UnsupportedType):
        dbanon.lower_bound(frame, 2)
    orders = {"size": ["s", "m", "l"]}
    bound = dbanon.lower_bound(frame, 2, orders=orders)
    classes = dbanon.partition(frame, 2, orders=orders, refine="fast")
    assert 0 < bound <= dbanon.information_loss(frame, classes, orders=orders)
    frame.loc[0, "age"] = float("nan")
    with pytest.raises(NullInQuasiIdentifier):
        dbanon.lower_bound(frame, 2, orders=orders)
    with pytest.raises(InvalidParameter):
        dbanon.certificate(frame, 2, quasi_identifiers=["age"])
    assert dbanon.lower_bound([[1.0], [1.0], [1.0]], 2) == 0.0
