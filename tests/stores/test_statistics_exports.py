"""Exports of releases to files of SPSS, Stata and SAS."""

from __future__ import annotations

import sys
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import InvalidParameter, MissingDependency, UnsupportedType
from dbanon.job.export import Export
from dbanon.run.open import open_store
from dbanon.sessions.names import parse_relation
from dbanon.stores.exports.statistics_files import write_statistics_file
from tests.prerequisites import import_or_skip

pyreadstat = import_or_skip("pyreadstat")

PEOPLE = """CREATE TABLE people AS SELECT i AS id, 20 + i % 40 AS age,
  CASE WHEN i % 2 = 0 THEN 'f' ELSE 'm' END AS sex, 1000.5 + i AS income,
  DATE '2020-01-01' + i::INTEGER AS seen, i % 3 = 0 AS is_member,
  CASE WHEN i % 7 > 0 THEN 'note ' || i END AS note
  FROM range(800) AS t(i)"""
READERS = {"sav": "read_sav", "dta": "read_dta", "xpt": "read_xport"}


def release(folder: Path, *paths: str, table: str = PEOPLE, **options: Any) -> Any:
    clinic = duckdb.connect()
    clinic.execute(table)
    arguments = {
        "table": "people",
        "quasi_identifiers": ["age", "sex"],
        "keep": ["income", "seen", "is_member", "note"],
        "k": 5,
        "method": "gaa_cp",
        "output": "released",
        "exports": [str(folder / path) for path in paths],
    }
    dbanon.anonymize(clinic, **{**arguments, **options})
    return clinic


@pytest.mark.parametrize("ending", READERS)
def test_an_export_has_the_rows_of_the_release(tmp_path: Path, ending: str) -> None:
    clinic = release(tmp_path, f"people.{ending}")
    store = open_store(f"file:{tmp_path / f'people.{ending}'}", table="t")
    order = "ORDER BY income"
    with store.session(write=False) as session:
        rows = session.rows(f'SELECT * FROM "t" {order}')
        names = [name for name, _ in session.catalog.list_columns(parse_relation("t"))]
    released = clinic.execute(f"SELECT * REPLACE (income::DOUBLE AS income) FROM released {order}")
    assert names == [column[0] for column in released.description]
    # These formats have no boolean type.
    assert rows == [tuple(map(as_number, row)) for row in released.fetchall()]


def as_number(value: object) -> object:
    return int(value) if isinstance(value, bool) else value


@pytest.mark.parametrize("ending", ["sav", "dta"])
def test_categories_are_numbers_with_labels_in_their_order(tmp_path: Path, ending: str) -> None:
    release(tmp_path, f"people.{ending}", steps={"age": 10.0})
    read = getattr(pyreadstat, READERS[ending])
    frame, metadata = read(tmp_path / f"people.{ending}")
    labels = metadata.variable_value_labels
    assert set(frame["age"]) == set(labels["age"])
    bounds = [label.strip("[)").split(", ") for _, label in sorted(labels["age"].items())]
    assert bounds == sorted(bounds, key=lambda pair: float(pair[0]))
    # Nearly every note is another text.
    assert "note" not in labels
    assert set(frame["is_member"]) == {0, 1}


def test_numbers_sort_intervals(tmp_path: Path) -> None:
    texts = ["[100, 120)", "[20, 30)", "*", "[-5, 0)", "[5.5, 20)", None]
    with tempfile.TemporaryFile() as file:
        table = pa.table({"age": texts})
        write_statistics_file(file, "sav", table.schema, table.to_batches())
        frame, metadata = pyreadstat.read_sav(f"/dev/fd/{file.fileno()}")
    labels = metadata.variable_value_labels["age"]
    assert [labels[float(code)] for code in range(1, 6)] == [
        "*", "[-5, 0)", "[5.5, 20)", "[20, 30)", "[100, 120)",
    ]  # fmt: skip
    assert [labels.get(code) for code in frame["age"]] == texts


def write(values: pa.Array, name: str = "value", file_format: str = "sav") -> pd.DataFrame:
    with tempfile.TemporaryFile() as file:
        table = pa.table({name: values})
        write_statistics_file(file, file_format, table.schema, table.to_batches())
        frame: pd.DataFrame = pyreadstat.read_sav(f"/dev/fd/{file.fileno()}")[0]
        return frame


def test_codes_that_stata_cannot_hold_are_refused() -> None:
    table = pa.table({"town": ["A", "B", "*"]})
    for codes, has_room in (
        ({"A": 2**31 - 28, "B": 1, "*": 2}, True),
        # The text without a code needs a number with more digits.
        ({"A": 2**31 - 28, "B": 1}, False),
        ({"A": 9_999_999_999, "B": 1, "*": 2}, False),
    ):
        with tempfile.TemporaryFile() as file:
            rows = (table.schema, table.to_batches(), {"town": codes})
            if not has_room:
                with pytest.raises(InvalidParameter, match="codes of labels that are too large"):
                    write_statistics_file(file, "dta", *rows)
                continue
            write_statistics_file(file, "dta", *rows)
            frame, metadata = pyreadstat.read_dta(f"/dev/fd/{file.fileno()}")
            labels = metadata.variable_value_labels["town"]
            assert [labels[code] for code in frame["town"]] == ["A", "B", "*"]


def test_values_that_would_change_are_refused() -> None:
    assert write(pa.array([2**53, -(2**53), None]))["value"].tolist()[:2] == [2**53, -(2**53)]
    # The declared number of digits does not matter.
    decimals = pa.array(
        [Decimal("1.25"), None, Decimal("-90071992547409.92")], pa.decimal128(38, 2)
    )
    assert write(decimals)["value"].tolist()[::2] == [1.25, -90071992547409.92]
    for values in (
        pa.array([1, 2**53 + 1]),
        pa.array([-(2**53) - 1]),
        pa.array([Decimal("-90071992547409.93")]),
        pa.array([Decimal(10**37)], pa.decimal128(38, 0)),
    ):
        with pytest.raises(
            UnsupportedType, match="more digits than the file format holds"
        ) as error:
            write(values)
        assert "9007199254740993" not in str(error.value)


@pytest.mark.parametrize(
    ("ending", "inside", "outside"),
    [
        ("dta", [8.98e307, -1e-300, 0.0], [1e308, -1e308, float("inf")]),
        ("xpt", [4.52e74, -4.52e74, 5.4e-79, -5.4e-79, 0.0], [4.53e74, 5.3e-79, -1e-300, 1e308]),
    ],
)
def test_numbers_beyond_the_range_of_a_format_are_refused(
    tmp_path: Path, ending: str, inside: list[float], outside: list[float]
) -> None:
    path = tmp_path / f"numbers.{ending}"
    for numbers in (inside, *([number] for number in outside)):
        table = pa.table({"size": [*numbers, None, float("nan")]})
        with path.open("w+b") as file:
            if numbers is not inside:
                with pytest.raises(UnsupportedType, match="too large or too small for a") as error:
                    write_statistics_file(file, ending, table.schema, table.to_batches())
                assert str(numbers[0]) not in str(error.value)
                continue
            write_statistics_file(file, ending, table.schema, table.to_batches())
        written = getattr(pyreadstat, READERS[ending])(path)[0]["size"]
        assert written.dropna().tolist() == inside
        assert written.isna().sum() == 2


def test_a_name_that_the_format_does_not_allow_is_refused(tmp_path: Path) -> None:
    table = PEOPLE.replace("AS sex", 'AS "the sex"')
    with pytest.raises(InvalidParameter, match=r"cannot be written as a \.sav file") as error:
        release(tmp_path, "people.sav", table=table, quasi_identifiers=["age", "the sex"])
    assert "rename them in a view" in str(error.value.hint)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("package", ["pandas", "pyreadstat"])
def test_a_missing_package_is_named_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependency, match=package):
        release(tmp_path / "out", "people.sav")
    assert not (tmp_path / "out").exists()


def test_verify_says_what_the_file_lacks(tmp_path: Path) -> None:
    release(tmp_path, "people.sav")
    path = str(tmp_path / "people.sav")
    result = CliRunner().invoke(main, ["verify", path], env={"COLUMNS": "400"})
    assert result.exit_code == 2
    assert "is a .sav file, which does not say which release it is" in result.output
    words = ["verify", f"file:{path}", "people", "--quasi-identifiers", "age,sex", "--k", "5"]
    assert CliRunner().invoke(main, words).exit_code == 0
    words[-1] = "799"
    assert CliRunner().invoke(main, words).exit_code != 0


# The codes of a questionnaire. No row has the code 3.
LABELS = {"sex": {1.0: "male", 2.0: "female", 3.0: "diverse"}, "town": {10.0: "A", 20.0: "B"}}


def coded_survey(folder: Path, ending: str) -> str:
    """A file of persons with codes and labels; returns its URL."""
    frame = pd.DataFrame(
        {
            "age": [float(20 + i % 4) for i in range(40)],
            "sex": [float(1 + i % 2) for i in range(40)],
            "town": [float(10 + 10 * (i // 20)) for i in range(40)],
        }
    )
    path = folder / f"survey.{ending}"
    write_labels = pyreadstat.write_sav if ending == "sav" else pyreadstat.write_dta
    write_labels(frame, path, variable_value_labels=LABELS)
    return f"file:{path}"


@pytest.mark.parametrize("codes", ["source", "release"])
@pytest.mark.parametrize("endings", [("sav", "dta"), ("dta", "sav")])
def test_labels_keep_the_codes_of_their_file_if_asked(
    tmp_path: Path, endings: tuple[str, str], codes: str
) -> None:
    url, path = coded_survey(tmp_path, endings[0]), tmp_path / f"released.{endings[1]}"
    dbanon.anonymize(
        url,
        table="survey",
        quasi_identifiers=["age", "sex"],
        keep=["town"],
        k=20,
        method="gaa_cp",
        recoding="generalization",
        output="released",
        exports=[{"path": str(path), "codes": codes}],
    )
    read = getattr(pyreadstat, READERS[endings[1]])
    frame, metadata = read(path)
    labels = metadata.variable_value_labels
    keeps = codes == "source"
    # No label that no released row has.
    assert labels["sex"] == {(1.0 if keeps else 2.0): "male", (2.0 if keeps else 1.0): "female"}
    assert labels["town"] == ({10.0: "A", 20.0: "B"} if keeps else {1.0: "A", 2.0: "B"})
    assert set(frame["town"]) == set(labels["town"])
    assert set(frame["sex"]) == {1.0, 2.0}


def test_other_texts_have_numbers_that_no_label_of_the_file_has() -> None:
    texts = ["male", "*", "female", None, "{female, male}"]
    table = pa.table({"sex": texts})
    codes = {"sex": {"male": 1, "female": 12, "diverse": 300}}
    with tempfile.TemporaryFile() as file:
        write_statistics_file(file, "sav", table.schema, table.to_batches(), codes)
        frame, metadata = pyreadstat.read_sav(f"/dev/fd/{file.fileno()}")
    labels = metadata.variable_value_labels["sex"]
    assert labels == {1.0: "male", 12.0: "female", 100.0: "*", 101.0: "{female, male}"}
    assert [labels.get(code) for code in frame["sex"]] == texts


def test_files_whose_codes_differ_have_none(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    for index, labels in enumerate(({1.0: "m", 2.0: "f"}, {2.0: "m", 1.0: "f"})):
        frame = pd.DataFrame({"sex": [1.0, 2.0] * 10, "age": [20.0 + index] * 20})
        pyreadstat.write_sav(frame, folder / f"{index}.sav", variable_value_labels={"sex": labels})
    path = tmp_path / "released.sav"
    dbanon.anonymize(
        f"file:{folder}",
        table="parts",
        quasi_identifiers=["sex"],
        k=5,
        method="gaa_cp",
        output="released",
        exports=[{"path": str(path), "codes": "source"}],
    )
    labels = pyreadstat.read_sav(path)[1].variable_value_labels
    assert labels["sex"] == {1.0: "f", 2.0: "m"}


def test_codes_are_those_of_statistics_programs_alone() -> None:
    for path in ("a.csv", "a.parquet", "a.xpt"):
        with pytest.raises(InvalidParameter, match=r"Only \.sav and \.dta"):
            Export(path, codes="source")
    with pytest.raises(InvalidParameter, match="codes of an export must be one of"):
        Export("a.sav", codes="mine")
