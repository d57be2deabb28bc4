"""A quasi-identifier of which nothing is left is told, with what would help, at every door."""

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


def told(frame: pd.DataFrame = FRAME, **given: Any) -> tuple[dbanon.Report, list[str]]:
    call = {"quasi_identifiers": list(frame.columns), "k": 3, "method": "mondrian"} | given
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", ColumnLost)
        _, report = dbanon.anonymize_frame(frame, **call)
    return report, [str(one.message) for one in said if one.category is ColumnLost]


def test_a_column_of_stars_is_told_with_what_would_help() -> None:
    report, [said] = told()
    assert report.lost_columns == ("town",)
    assert said.startswith('Column "town" is lost completely: all rows have one label.')
    assert "a hierarchy of its values, or their order; if readers do not need it" in said
    assert "COLUMN LOST" in str(report)
    assert report.to_dict()["lost_columns"] == ("town",)
    assert "town 0" not in said


def test_another_hint_where_it_has_a_hierarchy() -> None:
    report, [said] = told(hierarchies={"town": {"tree": {"anywhere": TOWNS}}})
    assert report.lost_columns == ("town",)
    assert "a hierarchy with more levels" in said


@pytest.mark.parametrize("given", [{}, {"hierarchies": {"town": {"tree": {"anywhere": TOWNS}}}}])
def test_no_hint_proposes_to_release_it_as_it_is(given: dict[str, Any]) -> None:
    _, [said] = told(**given)
    remedies, _, danger = said.partition("What helps: ")[2].partition(" Copied as it is")
    assert not any(word in remedies for word in ("sensitive", "kept", "keep", "role"))
    assert "may identify persons" in danger


def test_each_remedy_helps() -> None:
    """An order, a hierarchy with more levels, fewer quasi-identifiers; and not to copy it."""
    levels = {"anywhere": {"north": TOWNS[:6], "south": TOWNS[6:]}}
    for given in (
        {"orders": {"town": TOWNS}},
        {"hierarchies": {"town": {"tree": levels}}},
        {"quasi_identifiers": ["town"], "hierarchies": {"town": {"tree": levels}}},
        {"quasi_identifiers": ["age"]},
    ):
        report, _ = told(**given)
        assert report.lost_columns == (), given


@pytest.mark.parametrize(
    "given",
    [
        {"orders": {"town": TOWNS}},
        {"hierarchies": {"town": {"ordered": TOWNS}}},
        {"frame": FRAME.assign(town="one")},
        {"frame": FRAME[["age"]]},
        {"frame": FRAME[["age"]], "method": "mdav"},
    ],
    ids=["order", "hierarchy", "one value", "number", "means"],
)
def test_nothing_is_said_of_columns_that_tell_something(given: dict[str, Any]) -> None:
    report, said = told(**given)
    assert report.lost_columns == ()
    assert said == []
    assert "COLUMN LOST" not in str(report)


def test_the_command_says_it_on_stderr_and_in_the_report(tmp_path: Path) -> None:
    database = DuckdbDatabase(tmp_path / "people.duckdb")
    types = {"age": database.types["integer"], "town": database.types["text"]}
    database.load("people", types, list(FRAME.itertuples(index=False, name=None)))
    database.make_schema("release")
    line = ["anonymize", database.url, "--table", "people", "--output", "release.people"]
    line += ["--quasi-identifiers", "age,town", "--k", "3", "--method", "mondrian"]
    done = CliRunner().invoke(main, [*line, "--format", "json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["lost_columns"] == ["town"]
    [said] = done.stderr.splitlines()
    assert said.startswith('Warning: column "town" is lost completely')


def ranges(step: timedelta, **given: Any) -> list[str]:
    seen = [datetime(2020, 1, 1) + i * step for i in range(12)]
    released, _ = dbanon.anonymize_frame(
        pd.DataFrame({"seen": seen}), quasi_identifiers=["seen"], k=3, method="mondrian", **given
    )
    return list(released["seen"])


def test_moments_have_digits_of_seconds_where_a_border_needs_them() -> None:
    assert all("." not in text and ":00, " in text for text in ranges(timedelta(days=5)))
    whole = ranges(timedelta(seconds=5), local_range=True)
    assert "[2020-01-01 00:00:00, 2020-01-01 00:00:10]" in whole
    assert all(text.count(".") == 2 for text in ranges(timedelta(seconds=1.5), local_range=True))
