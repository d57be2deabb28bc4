"""Every interface reports a quasi-identifier that is lost completely, and suggests remedies."""

from __future__ import annotations

import json
import warnings
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import ColumnLost
from tests.stores.databases import DuckdbDatabase

TOWNS = [f"town {i:02}" for i in range(12)]
FRAME = pd.DataFrame({"age": range(12), "town": TOWNS})


def release_and_warnings(
    frame: pd.DataFrame = FRAME, **options: Any
) -> tuple[dbanon.Report, list[str]]:
    call = {"quasi_identifiers": list(frame.columns), "k": 3, "method": "mondrian"} | options
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ColumnLost)
        _, report = dbanon.anonymize_frame(frame, **call)
    return report, [str(warning.message) for warning in caught if warning.category is ColumnLost]


def test_a_fully_suppressed_column_is_reported_with_remedies() -> None:
    report, [text] = release_and_warnings()
    assert report.lost_columns == ("town",)
    assert text.startswith('Column "town" is lost completely: all rows have one label.')
    assert "a hierarchy of its values, or their order; if readers do not need it" in text
    assert "COLUMN LOST" in str(report)
    assert report.to_dict()["lost_columns"] == ("town",)
    assert "town 0" not in text


def test_a_column_with_a_hierarchy_gets_another_hint() -> None:
    report, [text] = release_and_warnings(hierarchies={"town": {"tree": {"anywhere": TOWNS}}})
    assert report.lost_columns == ("town",)
    assert "a hierarchy with more levels" in text


@pytest.mark.parametrize("options", [{}, {"hierarchies": {"town": {"tree": {"anywhere": TOWNS}}}}])
def test_no_hint_proposes_to_release_it_unchanged(options: dict[str, Any]) -> None:
    _, [text] = release_and_warnings(**options)
    remedies, _, danger = text.partition("What helps: ")[2].partition(" Copied as it is")
    assert not any(word in remedies for word in ("sensitive", "kept", "keep", "role"))
    assert "may identify persons" in danger


def test_each_remedy_helps() -> None:
    """An order, a hierarchy with more levels, fewer quasi-identifiers; but not to copy it."""
    levels = {"anywhere": {"north": TOWNS[:6], "south": TOWNS[6:]}}
    for options in (
        {"orders": {"town": TOWNS}},
        {"hierarchies": {"town": {"tree": levels}}},
        {"quasi_identifiers": ["town"], "hierarchies": {"town": {"tree": levels}}},
        {"quasi_identifiers": ["age"]},
    ):
        report, _ = release_and_warnings(**options)
        assert report.lost_columns == (), options


@pytest.mark.parametrize(
    "options",
    [
        {"orders": {"town": TOWNS}},
        {"hierarchies": {"town": {"ordered": TOWNS}}},
        {"frame": FRAME.assign(town="one")},
        {"frame": FRAME[["age"]]},
        {"frame": FRAME[["age"]], "method": "mdav"},
    ],
    ids=["order", "hierarchy", "one value", "number", "means"],
)
def test_no_warning_for_columns_that_keep_information(options: dict[str, Any]) -> None:
    report, texts = release_and_warnings(**options)
    assert report.lost_columns == ()
    assert texts == []
    assert "COLUMN LOST" not in str(report)


def test_the_command_reports_it_on_stderr_and_in_the_report(tmp_path: Path) -> None:
    database = DuckdbDatabase(tmp_path / "people.duckdb")
    types = {"age": database.types["integer"], "town": database.types["text"]}
    database.load("people", types, list(FRAME.itertuples(index=False, name=None)))
    database.make_schema("release")
    line = ["anonymize", database.url, "--table", "people", "--output", "release.people"]
    line += ["--quasi-identifiers", "age,town", "--k", "3", "--method", "mondrian"]
    done = CliRunner().invoke(main, [*line, "--format", "json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["lost_columns"] == ["town"]
    [stderr_line] = done.stderr.splitlines()
    assert stderr_line.startswith('Warning: column "town" is lost completely')


def ranges(step: timedelta, **options: Any) -> list[str]:
    seen = [datetime(2020, 1, 1) + i * step for i in range(12)]
    released, _ = dbanon.anonymize_frame(
        pd.DataFrame({"seen": seen}), quasi_identifiers=["seen"], k=3, method="mondrian", **options
    )
    return list(released["seen"])


def test_moments_have_digits_of_seconds_where_a_border_needs_them() -> None:
    assert all("." not in text and ":00, " in text for text in ranges(timedelta(days=5)))
    seconds_ranges = ranges(timedelta(seconds=5), local_range=True)
    assert "[2020-01-01 00:00:00, 2020-01-01 00:00:10]" in seconds_ranges
    assert all(text.count(".") == 2 for text in ranges(timedelta(seconds=1.5), local_range=True))
