"""Files of SPSS, Stata and SAS as sources."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import (
    DatabaseFailure,
    DbanonError,
    FileMalformed,
    InvalidParameter,
    MemoryLimit,
)
from dbanon.job.reading import Reading
from dbanon.run.open import open_store
from dbanon.sessions.names import parse_relation
from dbanon.stores.duckdb import statistics_files
from tests.prerequisites import import_or_skip

pyreadstat = import_or_skip("pyreadstat")

SEX = {1.0: "male", 2.0: "female"}
PEOPLE = pd.DataFrame(
    {
        "age": [30.0, 40.0, None, 98.0],
        "sex": [1.0, 2.0, 2.0, 1.0],
        "income": [1.5, 2.25, 3.0, None],
        "name": ["a", "", "ü", "d"],
        "born": [date(1990, 1, 1), None, date(1800, 2, 3), date(2001, 2, 28)],
        "seen": [datetime(2020, 1, 1, 12, 3, 4), None, datetime(1999, 1, 1), None],
        "nothing": [None, None, None, None],
    }
).astype({"nothing": "float64"})
ROWS = [
    (30, "male", 1.5, "a", date(1990, 1, 1), datetime(2020, 1, 1, 12, 3, 4), None),
    (40, "female", 2.25, None, None, None, None),
    (None, "female", 3.0, "ü", date(1800, 2, 3), datetime(1999, 1, 1), None),
    (98, "male", None, "d", date(2001, 2, 28), None, None),
]
LABELS = {"sex": SEX, "age": {98.0: "refused"}}


def write_spss(path: Path, **options: Any) -> None:
    pyreadstat.write_sav(PEOPLE, path, variable_value_labels=LABELS, **options)


def write_stata(path: Path) -> None:
    pyreadstat.write_dta(PEOPLE, path, variable_value_labels=LABELS)


def write_sas(path: Path) -> None:
    pyreadstat.write_xport(PEOPLE, path)


def load(path: Path, memory: int | None = None, **reading: Any) -> tuple[list[str], list[Any]]:
    """The types of the columns, and the rows."""
    store = open_store(f"file:{path}", reading=Reading(**reading), table="t", memory=memory)
    with store.session(write=False) as session:
        types = [sql_type for _, sql_type in session.catalog.list_columns(parse_relation("t"))]
        return types, session.rows('SELECT * FROM "t"')


@pytest.mark.parametrize(
    ("ending", "write"),
    [(".sav", write_spss), (".zsav", write_spss), (".dta", write_stata), (".xpt", write_sas)],
)
def test_columns_have_the_types_of_their_values(
    tmp_path: Path, ending: str, write: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"people{ending}"
    write(path)
    has_labels = ending != ".xpt"
    expected = [
        (row[0], row[1] if has_labels else float(row[1] == "female") + 1, *row[2:]) for row in ROWS
    ]
    types, rows = load(path)
    assert rows == expected
    sex_type = "VARCHAR" if has_labels else "BIGINT"
    assert types[:6] == ["BIGINT", sex_type, "DOUBLE", "VARCHAR", "DATE", "TIMESTAMP"]
    # In pieces of two rows, of which some have no value, and at the end of which none is left.
    monkeypatch.setattr(statistics_files, "_CELLS_PER_READ", 2 * PEOPLE.shape[1])
    assert load(path) == (types, rows)


def test_labels_are_read_if_all_values_have_one_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "people.sav"
    write_spss(path)
    # Only one age has a label, so ages stay numbers.
    assert [row[:2] for row in load(path)[1]] == [row[:2] for row in ROWS]
    assert [row[1] for row in load(path, value_labels="codes")[1]] == [1, 2, 2, 1]
    same_labels = {"sex": {1.0: "person", 2.0: "person"}}
    pyreadstat.write_sav(PEOPLE, path, variable_value_labels=same_labels)
    assert [row[1] for row in load(path)[1]] == [1, 2, 2, 1]


def test_values_that_the_file_declares_missing_are_null(tmp_path: Path) -> None:
    path = tmp_path / "people.sav"
    write_spss(path, missing_ranges={"age": [98], "sex": [{"lo": 2, "hi": 9}]})
    assert [row[:2] for row in load(path)[1]] == [
        (30, "male"),
        (40, None),
        (None, None),
        (None, "male"),
    ]


def test_whole_numbers_that_floats_cannot_tell_apart_stay_floats(tmp_path: Path) -> None:
    path = tmp_path / "people.sav"
    pyreadstat.write_sav(pd.DataFrame({"id": [1.0, 2.0**53]}), path)
    assert load(path)[0] == ["DOUBLE"]
    pyreadstat.write_sav(pd.DataFrame({"id": [-1.0, 2.0**53 - 1]}), path)
    assert load(path) == (["BIGINT"], [(-1,), (2**53 - 1,)])


def test_a_survey_is_released(tmp_path: Path) -> None:
    survey = pd.DataFrame({"age": [20.0 + i for i in range(40)], "sex": [1.0, 2.0] * 20})
    path = tmp_path / "survey.sav"
    pyreadstat.write_sav(survey, path, variable_value_labels={"sex": SEX})
    report = dbanon.anonymize(
        f"file:{path}",
        target=f"duckdb:///{tmp_path / 'released.duckdb'}",
        table="survey",
        quasi_identifiers=["age", "sex"],
        k=5,
        method="gaa_cp",
        nulls="error",
        output="release.survey",
    )
    assert report.rows_out == 40
    assert report.k_achieved >= 5


def test_a_folder_is_one_table(tmp_path: Path) -> None:
    for year in (2024, 2025):
        folder = tmp_path / f"year={year}"
        folder.mkdir()
        write_stata(folder / "people.dta")
    types, rows = load(tmp_path)
    assert types[-1] == "BIGINT"
    assert [row[-1] for row in rows] == [2024] * 4 + [2025] * 4
    (tmp_path / "year=2025" / "more.csv").write_text("age\n1\n")
    with pytest.raises(InvalidParameter, match="CSV files and files of SPSS, Stata or SAS"):
        load(tmp_path)


@pytest.mark.parametrize("ending", [".sav", ".por", ".dta", ".sas7bdat", ".xpt"])
def test_other_contents_are_refused(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"people{ending}"
    path.write_bytes(b"age,secret\n1,4711\n" * 100)
    with pytest.raises(FileMalformed, match="is not of the kind that its name says") as error:
        load(path)
    assert "4711" not in str(error.value)


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "people.sav"
    write_spss(path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(FileMalformed, match="It may be truncated"):
        load(path)


def test_a_crash_of_the_reader_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pyreadstat 1.3.7 ends with a segmentation fault on some damaged files."""
    path = tmp_path / "people.sav"
    write_spss(path)
    (tmp_path / "pyreadstat.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(FileMalformed, match="is not of the kind that its name says") as error:
        load(path)
    assert error.value.detail == "SIGSEGV"


@pytest.mark.parametrize("end", ["raise MemoryError", "import os; os.kill(os.getpid(), 9)"])
def test_another_end_of_the_reader_says_nothing_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    path = tmp_path / "people.sav"
    write_spss(path)
    (tmp_path / "pyreadstat.py").write_text(end)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(DatabaseFailure, match="ended before it was done"):
        load(path)


def test_no_module_of_the_working_directory_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "people.sav"
    write_spss(path)
    (tmp_path / "pyarrow.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    assert len(load(path)[1]) == len(ROWS)


def test_rows_beyond_the_memory_limit_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "people.sav"
    pyreadstat.write_sav(pd.DataFrame({"a": [0.5] * 200_000}), path, compress=True)
    assert path.stat().st_size < 100_000
    with pytest.raises(MemoryLimit, match="is read into memory"):
        load(path, memory=1_000_000)


def test_options_of_other_formats_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "people.sav"
    write_spss(path)
    with pytest.raises(InvalidParameter, match="decimal only applies to CSV files"):
        load(path, decimal=",")
    csv = tmp_path / "people.csv"
    csv.write_text("age\n1\n")
    with pytest.raises(InvalidParameter, match="value_labels only applies to SPSS and Stata files"):
        load(csv, value_labels="codes")
    with pytest.raises(DbanonError, match="value_labels must be one of"):
        load(path, value_labels="both")


def test_the_command_line_has_the_option(tmp_path: Path) -> None:
    path = tmp_path / "people.sav"
    write_spss(path)
    words = ["plan", f"file:{path}", "--table", "people", "--quasi-identifiers", "sex", "--k", "2"]
    words += ["--output", "r.t", "--target", f"duckdb:///{tmp_path / 'r.duckdb'}"]
    words += ["--method", "mdav", "--value-labels", "codes"]
    result = CliRunner().invoke(main, words, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
