"""The file that ``dbanon init`` writes for random tables runs unchanged, or no file is written."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.doors.jobfile.file import read_job_file
from tests.stores.databases import Database, DuckdbDatabase, SqliteDatabase
from tests.stores.random_tables import random_table

# Tables that no job file can describe are refused before anything is written.
REFUSED = ("no_quasi_identifiers", "too_few_records")


def run_what_init_writes(database: Database, folder: Path, seed: int) -> str:
    """The code of the error of ``init``; empty where its file was checked and run."""
    table = random_table(seed)
    types = {name: database.types[kind] for name, kind in table.columns.items()}
    database.load("people", types, table.rows)
    runner = CliRunner()
    written = runner.invoke(main, ["init", database.url, "--table", "people"])
    if written.exit_code:
        return written.stderr.partition("[")[2].partition("]")[0]
    file = folder / "job.yaml"
    file.write_text(written.stdout)
    for command in ("check", "run"):
        done = runner.invoke(main, [command, str(file)])
        assert done.exit_code == 0, (seed, written.stdout, done.stderr)
    return ""


def require_advice(database: Database, file: Path) -> None:
    """Advice on the same table with the same k matches the file."""
    [job] = read_job_file(file).jobs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        advice = dbanon.advise(database.url, "people", k=[5], methods=["gaa_cp"])
    assert set(advice.quasi_identifiers) == set(job.job.quasi_identifiers)
    if job.job.chain is None:
        assert (advice.nulls.nulls if advice.nulls else "error") == job.job.policy.nulls


# SQLite answers several times as fast as DuckDB.
@pytest.mark.parametrize(
    ("part", "kind"),
    [(0, SqliteDatabase), (1, SqliteDatabase), (2, SqliteDatabase), (3, DuckdbDatabase)],
)
def test_the_file_of_init_runs_on_random_tables(
    part: int,
    kind: type[DuckdbDatabase] | type[SqliteDatabase],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = []
    for seed in range(10 * part, 10 * part + 10):
        folder = tmp_path / str(seed)
        folder.mkdir()
        monkeypatch.chdir(folder)
        database = kind(folder / "people.db")
        monkeypatch.setenv("DBANON_URL", database.url)
        refused.append(run_what_init_writes(database, folder, seed))
    assert set(refused) <= {"", *REFUSED}
    assert refused.count("") >= 7


@pytest.mark.parametrize("seed", [4, 20, 33])
def test_the_file_of_init_runs_on_each_database(
    database: Database, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables in which no row has a value in every quasi-identifier."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DBANON_URL", database.url)
    assert run_what_init_writes(database, tmp_path, seed) == ""
    require_advice(database, tmp_path / "job.yaml")


def test_init_takes_what_becomes_of_nulls(database: Database, tmp_path: Path) -> None:
    rows = [(20 + i % 9, None if i < 3 else i % 4) for i in range(60)]
    database.load("people", dict.fromkeys(("age", "visits"), database.types["integer"]), rows)
    runner = CliRunner()
    completed_by_option = {
        nulls: runner.invoke(main, ["init", database.url, "--table", "people", "--nulls", nulls])
        for nulls in ("suppress", "category", "error")
    }
    assert "nulls: suppress\n    max_suppression: 0.05\n" in completed_by_option["suppress"].stdout
    assert "nulls: category\n    max_suppression: 0.05\n" in completed_by_option["category"].stdout
    assert "null_in_quasi_identifier" in completed_by_option["error"].stderr


def test_advice_counts_all_rows_of_a_table_without_a_complete_one(database: Database) -> None:
    """No row has a value in both: releases with NULLs are tried."""
    rows = [(i, *((20 + i % 9, None) if i % 2 else (None, i % 7))) for i in range(80)]
    names = ("id", "age", "visits")
    database.load("people", dict.fromkeys(names, database.types["integer"]), rows)
    options = {"quasi_identifiers": ["age", "visits"], "k": [3, 5]}
    advice = dbanon.advise(database.url, "people", **options)
    assert (advice.rows, advice.start["nulls"]) == (80, "category")
    assert "category: a release loses about" in dict(advice.recommended())["nulls"]
    assert database.anonymize(**{**advice.start, "key": ["id"]}).rows_out == 80
    with pytest.raises(dbanon.errors.TooFewRecords, match="80 rows, and no more than 0 rows"):
        dbanon.advise(database.url, "people", nulls="suppress", **options)


def test_a_sample_has_k_of_each_pattern(duckdb_file: DuckdbDatabase) -> None:
    """20 of 3,000 rows have no age, so a sample of 100 would contain one such row."""
    rows = [(20 + i % 50 if i >= 20 else None, i % 13) for i in range(3000)]
    duckdb_file.load("people", {"age": "INTEGER", "visits": "INTEGER"}, rows)
    options = {"quasi_identifiers": ["age", "visits"], "k": [5, 20], "sample": 100}
    advice = dbanon.advise(duckdb_file.url, "people", nulls="category", **options)
    assert {point.k for point in advice.sweep.points} == {5, 20}
    assert all(str(point.suppressed) == "0" for point in advice.sweep.points)
