"""A newcomer's way: a hospital's messy CSV file, from the first look to a report, by commands."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
import yaml
from click.testing import CliRunner

from dbanon.doors.cli.main import main
from tests.stays import write_stays

WRITTEN = ("--dates", "dmy", "--decimal", ",", "--null-words", "k.A.")
# Enough for blocks of several classes, and for each fault of the file.
STAYS, PATIENTS = 5_000, 2_000
TARGET = "duckdb:///released.duckdb"


def command_output(*words: str, code: int = 0) -> str:
    """The output of a command whose exit code is checked."""
    # Tables as wide as that are not broken.
    done = CliRunner(env={"COLUMNS": "300"}).invoke(main, words)
    assert done.exit_code == code, (words, done.output)
    return done.stdout + done.stderr


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the file of stays, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    write_stays(tmp_path / "stays.csv", rows=STAYS, patients=PATIENTS)
    return tmp_path


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")
def test_from_a_messy_file_to_a_report(folder: Path) -> None:
    # Only the user knows the words for missing values; the values show how the file is written.
    refused = command_output("init", "file:stays.csv", "--table", "stays", code=2)
    assert "[file_malformed]: Line " in refused
    assert "column 10 (Kosten)" in refused
    assert "--null-words" in refused
    assert "k.A." not in refused
    first = folder / "first.yaml"
    first.write_text(command_output("init", "file:stays.csv", "--table", "stays", *WRITTEN[-2:]))
    [described] = yaml.safe_load(first.read_text())["jobs"]
    assert described["entity"] == "Patienten-Nr"
    assert (described["dates"], described["decimal"]) == ("dmy", ",")
    assert described["types"]["Kosten"] == "decimal"
    plan_text = command_output("plan", "first.yaml")
    assert "date; types: date" in plan_text

    advice = command_output(
        "advise",
        "file:stays.csv",
        "--table",
        "stays",
        *WRITTEN,
        "--k",
        "5,10",
        "--methods",
        "gaa_cp",
    )
    assert '"Patienten-Nr" identifies persons' in advice
    assert "--nulls merge" in advice

    job = folder / "job.yaml"
    job.write_text(command_output("init", "file:stays.csv", "--table", "stays", *WRITTEN))
    [described] = yaml.safe_load(job.read_text())["jobs"]
    assert described["entity"] == "Patienten-Nr"
    roles = {name: column["role"] for name, column in described["columns"].items()}
    assert {roles["Patienten-Nr"], roles["Fallnr"]} == {"identifier"}
    assert {roles["Geburtsdatum"], roles["PLZ"], roles["Geschlecht"]} == {"quasi_identifier"}
    assert described["nulls"] == "merge"

    command_output("check", "job.yaml")
    planned = command_output("plan", "job.yaml")
    assert str(STAYS) in planned
    assert not (folder / "released.duckdb").exists()
    report = " ".join(command_output("run", "job.yaml").split())
    assert 'persons: distinct values of "Patienten-Nr"' in report
    assert "as released" in command_output("verify", TARGET, "release.stays")
    command_output(
        "report",
        TARGET,
        "release.stays",
        "-o",
        "report.html",
        "--for",
        "Registry",
        "--purpose",
        "Quality of care",
    )
    page = (folder / "report.html").read_text()
    assert "Registry" in page
    assert "Quality of care" in page
    assert str(folder) not in page
    counted(folder)


def counted(folder: Path) -> None:
    """Count the release by statements of our own, beside the persons of the file."""
    with duckdb.connect("released.duckdb", read_only=True) as database:
        columns = [name for name, *_ in database.sql("DESCRIBE release.stays").fetchall()]
        assert "Patienten-Nr" not in columns
        assert "Fallnr" not in columns
        classes = ", ".join(f'"{name}"' for name in columns if name != "ICD")
        [(rows, smallest)] = database.sql(
            f"SELECT sum(n), min(n) FROM (SELECT count(*) AS n FROM release.stays"
            f" GROUP BY {classes})"
        ).fetchall()
        released_texts = {
            str(v) for row in database.sql("FROM release.stays").fetchall() for v in row
        }
    assert rows > STAYS / 2
    assert smallest >= 5
    numbers = {
        line.partition(";")[0]
        for line in (folder / "stays.csv").read_text("utf-8-sig").splitlines()
        if line.partition(";")[0].isdigit() and line.count(";") >= 10
    }
    assert len(numbers) == PATIENTS
    assert not numbers & released_texts
