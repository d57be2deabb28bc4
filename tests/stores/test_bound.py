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

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")

TABLE: dict[str, Any] = {"table": "people", "quasi_identifiers": ["age", "income"]}


def frame_of(database: Database) -> pd.DataFrame:
    rows = database.rows(f"SELECT age, income FROM {database.relation('people')}")
    return pd.DataFrame(rows, columns=["age", "income"]).astype(float)


def test_a_table_has_the_bound_of_its_rows(database: Database) -> None:
    load_people(database)
    before = database.state()
    certificate = dbanon.certificate(database.url, 4, **TABLE)
    words = ["--table", "people", "--quasi-identifiers", "age", "-q", "income", "--k", "4"]
    completed = CliRunner().invoke(main, ["bound", database.url, *words, "--format", "json"])
    assert completed.exit_code == 0
    assert database.state() == before
    frame = frame_of(database)
    assert certificate.share == pytest.approx(dbanon.lower_bound(frame, 4), rel=1e-4)
    plain = json.loads(completed.stdout)
    assert plain["lower_bound"] == pytest.approx(certificate.share, rel=1e-4)
    assert (plain["records"], plain["k"], plain["method"]) == (40, 4, "classes")
    assert 0 < plain["simple_bound"] < plain["lower_bound"]
    assert set(plain) == {
        "k",
        "records",
        "lower_bound",
        "method",
        "way",
        "complete",
        "simple_bound",
        "seconds",
    }
    report = database.anonymize(**TABLE, k=4, refine="thorough", refine_iterations=1000)
    assert report.internal.information_loss_before_rounding >= certificate.share


def test_the_bound_is_printed_for_people(database: Database) -> None:
    load_people(database)
    words = ["--table", "people", "--quasi-identifiers", "age,income", "--k", "9"]
    completed = CliRunner().invoke(main, ["bound", database.url, *words], env={"COLUMNS": "200"})
    assert completed.exit_code == 0
    assert "at least" in completed.stdout
    assert "pairs" in completed.stdout


@pytest.mark.in_turn
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
    words = ["--table", "people", "--quasi-identifiers", "age,income", "--k", "3"]
    completed = CliRunner().invoke(main, ["bound", url, *words, "--format", "json"])
    assert completed.exit_code == 0
    expected = dbanon.lower_bound(frame, 3)
    assert json.loads(completed.stdout)["lower_bound"] == pytest.approx(expected, rel=1e-4)


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


def test_a_release_says_how_near_it_is_to_the_least_loss(database: Database) -> None:
    load_people(database)
    report = database.anonymize(**TABLE, k=4, refine="fast", certificate=30)
    certificate = report.arguments["certificate"]
    bound = dbanon.lower_bound(frame_of(database), 4)
    assert certificate["limit"] == 30
    assert (certificate["method"], certificate["records"]) == ("classes", 40)
    exact = report.internal.certificate
    assert exact["lower_bound"] == pytest.approx(bound, rel=1e-4)
    assert exact["above"] == pytest.approx(
        report.internal.information_loss / exact["lower_bound"] - 1
    )
    # Readers see the ratio, upwards in hundredths, and no bound of the originals.
    assert exact["above"] <= certificate["above"] < exact["above"] + 0.0101
    assert (certificate["lower_bound"], certificate["simple_bound"]) == (None, None)
    assert f"at most {100 * certificate['above']:.2f} % above the least possible loss" in str(
        report
    )
    assert "certificate" in report.seconds
    # The ledger has it, too.
    entry = dbanon.show(database.url, "release.people")
    assert entry["arguments"]["certificate"] == certificate


def test_without_being_asked_nothing_is_bounded(database: Database) -> None:
    load_people(database)
    report = database.anonymize(**TABLE, k=4)
    assert report.arguments["certificate"] is None
    assert report.nearness is None
    assert "certificate" not in str(report)


def test_a_release_that_cannot_be_bounded_stands_and_says_why(database: Database) -> None:
    load_people(database)
    database.execute(f"UPDATE {database.relation('people')} SET age = NULL WHERE id < 6")
    report = database.anonymize(**TABLE, k=4, nulls="category", certificate=5)
    assert "NULL" in report.arguments["certificate"]["failed"]
    assert "not known" in str(report)


def test_withheld_rows_are_no_part_of_the_bound(database: Database) -> None:
    load_people(database)
    database.execute(f"UPDATE {database.relation('people')} SET age = NULL WHERE id = 1")
    suppression = {"nulls": "suppress", "max_suppression": 0.1}
    report = database.anonymize(**TABLE, k=4, certificate=30, **suppression)
    certificate = report.arguments["certificate"]
    assert certificate["records"] == 39
    exact = report.internal.certificate
    assert 0 < exact["lower_bound"] <= report.internal.information_loss_before_rounding


@pytest.mark.parametrize(
    "more",
    [
        {"certificate": 0},
        {"certificate": "long"},
        {"certificate": 5, "method": "mondrian"},
        {"certificate": 5, "method": "individual_ranking", "guarantee": "per_attribute"},
    ],
)
def test_what_no_release_can_be_certified_by_is_refused(
    database: Database, more: dict[str, Any]
) -> None:
    load_people(database)
    with pytest.raises(InvalidParameter):
        database.anonymize(**TABLE, k=4, **more)
