"""A refused run writes the reason next to the report's path, in the report's format."""

from __future__ import annotations

import json
from html import unescape
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from dbanon.doors.cli.main import main
from dbanon.doors.html.refusals import describe_refusal, render_refusal_page
from dbanon.errors import OutcomeUnknown, TooFewRecords
from tests.doors.html.pages import HOSTILE
from tests.doors.html.test_page import Outline

PLANTED = "zyxomma"


def expect_refusal(folder: Path, report: str, *more: str) -> tuple[int, str]:
    file = folder / "people.duckdb"
    if not file.exists():
        with duckdb.connect(str(file)) as connection:
            connection.execute(
                "CREATE TABLE people AS SELECT 20 + i % 40 AS age, 'zyxomma ' || i AS ill"
                " FROM range(120) AS t(i)"
            )
    options = ["--table", "people", "-q", "age", "-s", "ill", "--output", "made"]
    done = CliRunner().invoke(
        main,
        ["anonymize", f"duckdb:///{file}", *options, "--report", str(folder / report), *more],
        env={"COLUMNS": "300"},
    )
    return done.exit_code, done.output


@pytest.mark.parametrize("form", ["html", "txt", "json"])
def test_a_refusal_is_explained_and_keeps_its_exit_code(tmp_path: Path, form: str) -> None:
    code, _ = expect_refusal(tmp_path, f"report.{form}", "--k", "500")
    assert code == TooFewRecords.exit_code
    assert not (tmp_path / f"report.{form}").exists()
    path = tmp_path / f"report.refused.{form}"
    assert path.stat().st_mode & 0o777 == 0o600
    text = unescape(path.read_text(encoding="utf-8"))
    for words in ("Not released", "too_few_records", "There are 120 records, fewer than k = 500."):
        assert words in text
    assert "An earlier release of this name, if any, is unchanged." in text
    assert PLANTED not in text
    if form == "json":
        refusal = json.loads(text)["refusal"]
        assert (refusal["output"], refusal["source"], refusal["job"]) == ("made", "people", None)
        assert refusal["error"]["exit_code"] == code


def test_an_infeasible_model_is_reported_without_values(tmp_path: Path) -> None:
    code, _ = expect_refusal(tmp_path, "report.html", "--k", "5", "--model", "ill=distinct_l:500")
    assert code == 3
    text = (tmp_path / "report.refused.html").read_text(encoding="utf-8")
    assert "<h2" in text
    assert PLANTED not in text


def test_a_refusal_leaves_the_report_of_an_earlier_release(tmp_path: Path) -> None:
    assert expect_refusal(tmp_path, "report.json", "--k", "5")[0] == 0
    before = (tmp_path / "report.json").read_bytes()
    assert expect_refusal(tmp_path, "report.json", "--k", "5")[0] == 2
    assert (tmp_path / "report.json").read_bytes() == before
    document = json.loads((tmp_path / "report.refused.json").read_text(encoding="utf-8"))
    assert document["refusal"]["error"]["code"] == "output_exists"
    assert "--if-exists" in document["refusal"]["error"]["hint"]


@pytest.mark.parametrize("form", ["html", "txt", "json"])
def test_a_later_report_removes_the_refusal(tmp_path: Path, form: str) -> None:
    path, report = tmp_path / f"report.refused.{form}", f"report.{form}"
    assert expect_refusal(tmp_path, report, "--k", "500")[0] == 3
    assert path.exists()
    assert expect_refusal(tmp_path, report, "--k", "5")[0] == 0
    assert not path.exists()
    # Other people's files, and targets of links, stay.
    path.write_text("Not released: mine")
    other = tmp_path / "other.txt"
    other.write_text("dbanon refusal 1")
    assert expect_refusal(tmp_path, report, "--k", "5", "--if-exists", "replace")[0] == 0
    assert path.read_text() == "Not released: mine"
    path.unlink()
    path.symlink_to(other)
    assert expect_refusal(tmp_path, report, "--k", "5", "--if-exists", "replace")[0] == 0
    assert path.is_symlink()
    assert other.exists()


def test_no_report_was_asked_for(tmp_path: Path) -> None:
    assert expect_refusal(tmp_path, "report.json", "--k", "500")[0] == 3
    (tmp_path / "report.refused.json").unlink()
    done = CliRunner().invoke(
        main,
        [
            "anonymize",
            f"duckdb:///{tmp_path}/people.duckdb",
            "--table",
            "people",
            "-q",
            "age",
            "--k",
            "500",
            "--output",
            "made",
        ],
    )
    assert done.exit_code == 3
    assert [path.name for path in tmp_path.iterdir()] == ["people.duckdb"]


def test_names_stay_text_and_an_unknown_outcome_is_not_refused() -> None:
    refusal = describe_refusal(
        OutcomeUnknown(HOSTILE[0]), output=HOSTILE[1], source=HOSTILE[2], run_id="1", job=HOSTILE[3]
    )
    text = render_refusal_page(refusal)
    outline = Outline(text)
    assert {tag for tag, _ in outline.elements}.isdisjoint({"script", "img"})
    assert "Outcome unknown" in text
    assert "published nothing" not in text
