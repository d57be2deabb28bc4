"""CSV files as people hand them on: dates, decimals, characters and words for NULL, and what is
refused with line and column."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner, Result

import dbanon
from dbanon.data.option import build_options
from dbanon.doors.cli.main import main
from dbanon.errors import FileMalformed, InvalidParameter
from dbanon.extensions.spark.refusals import check_job
from dbanon.job.job import Job
from dbanon.job.reading import ENCODINGS, Reading
from dbanon.run.open import open_store
from dbanon.run.outlook import FileColumn
from dbanon.sessions.base import ColumnReading
from dbanon.sessions.names import parse_relation
from dbanon.stores.duckdb import file_rows
from tests.stays import COLUMNS, LATIN_1, UNKNOWN, UTF_8_BOM, stays, write_stays

GERMAN: dict[str, Any] = {"dates": "dmy", "decimal": ",", "null_words": [UNKNOWN]}
ROWS, PATIENTS = 600, 250


def call(*words: Any) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words], env={"COLUMNS": "200"})


def loaded(path: Path, **reading: Any) -> tuple[dict[str, str], list[tuple[Any, ...]]]:
    """Types by column, and the rows."""
    options = Reading(**{name: reading[name] for name in reading})
    with open_store(f"file:{path}", reading=options, table="t").session(write=False) as session:
        types = dict(session.catalog.list_columns(parse_relation("t")))
        return types, session.rows('SELECT * FROM "t"')


def refused(path: Path, **reading: Any) -> FileMalformed:
    with pytest.raises(FileMalformed) as error:
        loaded(path, **reading)
    return error.value


@pytest.mark.parametrize("encoding", [UTF_8_BOM, LATIN_1])
def test_a_german_file_is_read_in_its_types(tmp_path: Path, encoding: str) -> None:
    path = write_stays(tmp_path / "stays.csv", 1, ROWS, PATIENTS, encoding=encoding)
    more = {"encoding": "latin-1"} if encoding == LATIN_1 else {}
    types, rows = loaded(path, **GERMAN, **more)
    assert types == {
        "Patienten-Nr": "BIGINT",
        "Fallnr": "BIGINT",
        "Geburtsdatum": "DATE",
        "Geschlecht": "VARCHAR",
        "PLZ": "VARCHAR",
        "Aufnahme": "DATE",
        "Entlassung": "DATE",
        "ICD": "VARCHAR",
        "Station": "VARCHAR",
        "Kosten": types["Kosten"],
        "Freitext": "VARCHAR",
    }
    assert types["Kosten"].startswith("DECIMAL(")
    expected = [
        (
            int(row[0]),
            int(row[1]),
            datetime.strptime(row[2], "%d.%m.%Y").date(),
            *(None if text in ("", UNKNOWN) else text for text in row[3:5]),
            *(datetime.strptime(text, "%d.%m.%Y").date() for text in row[5:7]),
            *(None if text in ("", UNKNOWN) else text for text in row[7:9]),
            None if row[9] in ("", UNKNOWN) else Decimal(row[9].replace(",", ".")),
            row[10] or None,
        )
        for row in stays(1, ROWS, PATIENTS)
    ]
    assert rows == expected


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_each_encoding_is_read_as_it_is_written(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "t.csv"
    text = "Größe,Fälle\nÄ,ß\nö,ü\n"
    path.write_bytes(text.encode(encoding))
    types, rows = loaded(path, encoding=encoding)
    assert list(types) == ["Größe", "Fälle"]
    assert list(tmp_path.iterdir()) == [path]
    assert rows == [("Ä", "ß"), ("ö", "ü")]


@pytest.mark.parametrize(
    "text", ["Ort\nOst\n", "Ort\nKöln\n" + "x" * 2**20 + "\n", "Ort\n" + "x" * 2**20 + "\nÃ"]
)
def test_other_encodings_are_read_with_the_option(tmp_path: Path, text: str) -> None:
    """ASCII is the same in both; the last text ends in the middle of a UTF-8 character."""
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode("latin-1"))
    _, rows = loaded(path, encoding="latin-1")
    assert [row for (row,) in rows] == text.split()[1:]


@pytest.mark.parametrize(
    ("reading", "texts", "sql_type", "values"),
    [
        (
            {"dates": "dmy"},
            ["1.2.2020", "31/12/2021", "05-06-2022"],
            "DATE",
            [date(2020, 2, 1), date(2021, 12, 31), date(2022, 6, 5)],
        ),
        (
            {"dates": "mdy"},
            ["1/2/2020", "12-31-2021"],
            "DATE",
            [date(2020, 1, 2), date(2021, 12, 31)],
        ),
        ({"dates": "dmy"}, ["2020-02-01"], "DATE", [date(2020, 2, 1)]),
        (
            {"dates": "dmy"},
            ["01.02.2020 10:30", "01.02.2020 10:30:05"],
            "TIMESTAMP",
            [datetime(2020, 2, 1, 10, 30), datetime(2020, 2, 1, 10, 30, 5)],
        ),
        ({"dates": "dmy"}, ["31.02.2020", "01.01.2020"], "VARCHAR", ["31.02.2020", "01.01.2020"]),
        ({"dates": "dmy"}, ["01.02.20"], "VARCHAR", ["01.02.20"]),
        ({"dates": "dmy"}, ["1.2/2020"], "VARCHAR", ["1.2/2020"]),
        ({}, ["01.02.2020"], "DATE", [date(2020, 2, 1)]),
        (
            {"decimal": ","},
            ["1,5", "-20", "0,25"],
            "DECIMAL(15,2)",
            [Decimal("1.50"), Decimal("-20.00"), Decimal("0.25")],
        ),
        ({"decimal": ","}, ["1,5e3"], "DOUBLE", [1500.0]),
        ({"decimal": ","}, ["1.234", "1"], "BIGINT", [1234, 1]),
        ({"decimal": ","}, ["7", "8"], "BIGINT", [7, 8]),
        ({}, ["1,5"], "DECIMAL(15,1)", [Decimal("1.5")]),
        ({"null_words": ["k.A.", "-9"]}, ["k.A.", "7", "-9"], "BIGINT", [None, 7, None]),
        ({"null_words": ["it's"]}, ["it's", "a"], "VARCHAR", [None, "a"]),
    ],
)
def test_how_values_are_written_is_what_the_options_say(
    tmp_path: Path, reading: dict[str, Any], texts: list[str], sql_type: str, values: list[Any]
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a;b\n" + "".join(f'"{text}";x\n' for text in texts))
    types, rows = loaded(path, **reading)
    assert types["a"] == sql_type
    assert [value for value, _ in rows] == values


SECRET = "S3CRET"


@pytest.mark.parametrize(
    ("content", "reading", "message"),
    [
        (b"a,b,a\n1,2,3\n", {}, "Line 1 of .* two columns the same: columns 1 and 3"),
        (b"a,b,A\n1,2,3\n", {}, "two columns the same: columns 1 and 3"),
        (b"\n\na;a\n1;2\n", {}, "Line 3 of .* two columns the same"),
        # Without a header these are data values.
        (b"4711,4711\n1,2\n", {}, "two columns the same: columns 1 and 2"),
        (b'a,b\n1,"x\ny"\na,b\n1,2\n', {}, "Line 4 of .* repeats its header"),
        (b"a;b\r\n1;S3CRET\r\na;b\r\n", {}, "Line 3 of .* repeats its header"),
        (
            "a;Ort\n1;x\n2;K\u00f6ln S3CRET\n".encode("latin-1"),
            {},
            r"Line 3 of .*, column 2 \(Ort\), is not written in UTF-8",
        ),
        (
            "a;Gr\u00f6\u00dfe\n1;S3CRET\n".encode("latin-1"),
            {},
            "Line 1 of .*, column 2, is not written in UTF-8",
        ),
        (
            b"a;b\n1;x\n2;\x81S3CRET\n",
            {"encoding": "windows-1252"},
            r"Line 3 of .*, column 2 \(b\), is not written in WINDOWS-1252",
        ),
        ("a;b\n1;2\n".encode("utf-16"), {}, "mark of UTF-16"),
        ("\ufeffa;b\n1;2\n".encode(), {"encoding": "latin-1"}, "mark of UTF-8"),
        *(
            (
                "a;b\n1;x\n2;S3CRET ü €\n".encode(),
                {"encoding": encoding},
                f"t.csv is written in UTF-8, not in {encoding}",
            )
            for encoding in ("latin-1", "windows-1252")
        ),
        (b"a,b\n1,2\n3,4,S3CRET\n", {}, "Line 3 of .* has 3 values, and the header 2"),
        (b"a,b\n1,2\nS3CRET\n", {}, "Line 3 of .* has 1 values, and the header 2"),
        (b'a,b\n1,2\n3,"S3CRET\n4,5\n', {}, "Line 3 of .* quotes that are not closed properly"),
        (b"", {}, "has no header"),
        (b"\n\n", {}, "has no header"),
        (b"a," * 2**20, {}, "no header, or one of more than 1 MiB"),
        # DuckDB reads fields of this length, but Python's reader does not.
        (b"a,b\n" + b"x" * 200_000 + b",2\na,b\n", {}, "A line of .* repeats its header"),
    ],
)
def test_what_is_wrong_in_a_file_is_found_with_its_line(
    tmp_path: Path, content: bytes, reading: dict[str, Any], message: str
) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    error = refused(path, **reading)
    assert error.exit_code == 2
    with pytest.raises(FileMalformed, match=message):
        loaded(path, **reading)
    error_json = json.dumps(error.to_dict())
    assert SECRET not in error_json
    assert "4711" not in error_json


@pytest.mark.parametrize("line", ["Line 15002", "Line 2"])
def test_a_late_line_is_found_as_an_early_one_is(tmp_path: Path, line: str) -> None:
    path = tmp_path / "t.csv"
    rows = 15_000 if line == "Line 15002" else 0
    path.write_bytes(b"a,b\n" + b"1,2\n" * rows + b"a,b\n" + b"1,2\n" * 20_000)
    assert refused(path).message.startswith(f"{line} of")


def test_a_column_may_hold_its_own_name(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\na,x\ny,b\n")
    assert loaded(path)[1] == [("a", "x"), ("y", "b")]


def test_too_many_columns_are_refused_before_their_types_are_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That takes minutes for so many."""
    monkeypatch.setattr(file_rows, "TypeInference", None)
    path = tmp_path / "t.csv"
    path.write_text(",".join(f"c{n}" for n in range(20_001)) + "\n" + ",".join("1" * 20_001) + "\n")
    assert "20001 columns, more than 4096" in refused(path).message


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ("id,,x\n1,2,3\n", ["id", "column1", "x"]),
        (
            ",".join(["x", *[""] * 10, "y"]) + "\n" + ",".join("1" * 12) + "\n",
            ["x", *(f"column{n:02d}" for n in range(1, 11)), "y"],
        ),
        ('"a,b";c\n1;2\n', ["a,b", "c"]),
        ("a;b,c\n1;2\n3;4\n", ["a", "b,c"]),
        ("a;b\r\n1;2\r\n", ["a", "b"]),
        ("a\tb\n1\t2\n", ["a", "b"]),
        ("a|b\n1|2\n", ["a", "b"]),
        ('"two\nlines",b\n1,2\n', ["two\nlines", "b"]),
        ("only\n1\n2\n", ["only"]),
        ("a,b", ["a", "b"]),
        (" a, b\n1,2\n", ["a", "b"]),
        ("\r\n\r\na;b\r\n1;2\r\n", ["a", "b"]),
        ("a,b\r1,2\r", ["a", "b"]),
    ],
)
def test_the_header_is_as_it_is_written(tmp_path: Path, content: str, names: list[str]) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content.encode())
    assert [*loaded(path)[0]] == names


def planned(path: Path, k: int = 5, **more: Any) -> dict[str, str]:
    plan_summary = dbanon.plan(
        f"file:{path}",
        table="stays",
        quasi_identifiers=["Fallnr"],
        k=k,
        output="release.stays",
        **more,
    )
    return {
        label.removeprefix("column "): text
        for label, text in plan_summary.pairs()
        if label.startswith("column ")
    }


def test_the_plan_has_the_former_key_of_a_format_too(tmp_path: Path) -> None:
    path = write_stays(tmp_path / "stays.csv", 1, ROWS, PATIENTS)
    plan = dbanon.plan(
        f"file:{path}", table="stays", quasi_identifiers=["Fallnr"], k=5, output="release.stays"
    )
    columns = plan.to_dict()["file_columns"]
    assert any(column["text_format"] for column in columns)
    assert all(column["text_format"] == column["told"] for column in columns)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["7"] * 12 + ["n/a, unknown"] * 6, "whole numbers"),
        (["7", "12"] * 6 + ["0.5 g"] * 6, "whole numbers"),
        (["7,5"] * 6 + ["7"] * 6 + ["n/a"] * 6, "numbers with a decimal comma"),
    ],
)
def test_texts_of_another_form_do_not_decide(
    tmp_path: Path, texts: list[str], expected: str
) -> None:
    """A comma in a remark makes no column one of decimal commas."""
    path = tmp_path / "doses.csv"
    rows = [f'{index % 3},"{text}"' for index, text in enumerate(texts)]
    path.write_text("\n".join(["age,dose", *rows]) + "\n")
    plan = dbanon.plan(
        f"file:{path}",
        table="doses",
        quasi_identifiers=["age"],
        keep=["dose"],
        k=3,
        output="release.doses",
        types={"dose": "text"},
    )
    [dose] = [column for column in plan.to_dict()["file_columns"] if column["name"] == "dose"]
    assert f"look like {expected}" in dose["text_format"]


def test_plan_tells_what_columns_were_read_as(tmp_path: Path) -> None:
    path = write_stays(tmp_path / "stays.csv", 1, ROWS, PATIENTS)
    text = path.read_text(encoding="utf-8-sig")
    born = stays(1, ROWS, PATIENTS)[0][2]
    readings = planned(path)
    assert [*readings] == [*COLUMNS]
    assert readings["Geburtsdatum"] == "date; dates: dmy"
    assert readings["Kosten"].endswith(" % look like numbers with a decimal comma: null_words")
    assert readings["PLZ"].endswith(" % look like codes with leading zeros")
    assert (readings["Fallnr"], readings["Geschlecht"]) == ("bigint", "text")
    # Counts cover the entire file, whatever rows and columns are released.
    assert planned(path, where='"Fallnr" % 2 = 0') == readings
    # If fewer than k values differ, or fewer than k values look the same, no count is given.
    path.write_text(text.replace(born, "unknown", 1))
    assert planned(path)["Geburtsdatum"] == "text; nearly all look like dd.mm.yyyy: null_words"
    readings = planned(path, **GERMAN)
    assert readings["Aufnahme"] == "date; dates: dmy"
    assert readings["Kosten"].endswith('; decimal: ","')
    assert readings["Geburtsdatum"] == "text; nearly all look like dd.mm.yyyy: null_words"


def test_a_text_that_is_no_number_is_refused_with_what_it_looks_like(tmp_path: Path) -> None:
    path = write_stays(tmp_path / "stays.csv", 1, ROWS, PATIENTS)
    text = path.read_text(encoding="utf-8-sig")
    born = [row[2] for row in stays(1, ROWS, PATIENTS)[:60]]
    for birth_date in born:
        text = text.replace(birth_date, "unknown")
    path.write_text(text)
    done = call(
        "plan",
        f"file:{path}",
        "--table",
        "stays",
        "-q",
        "Geburtsdatum",
        "--k",
        "5",
        "--output",
        "release.stays",
    )
    assert done.exit_code == 2
    assert "unsupported_type" in done.stderr
    assert " % look like dd.mm.yyyy: null_words" in done.stderr


@pytest.mark.parametrize(
    ("n_similar", "n_recognized", "expected"),
    [
        (0, 100, ""),
        (4, 4, ""),
        (5, 5, "all look like x: y"),
        (49, 100, ""),
        (96, 100, "nearly all look like x: y"),
        (95, 100, "95 % look like x: y"),
        (9_999, 10_004, "99 % look like x: y"),
        (50, 100, "50 % look like x: y"),
    ],
)
def test_no_share_tells_of_fewer_than_k(n_similar: int, n_recognized: int, expected: str) -> None:
    column_reading = ColumnReading("a", "VARCHAR", "x", "y", n_similar, n_recognized)
    assert FileColumn.of(column_reading, 5) == FileColumn("a", "VARCHAR", expected)


def test_the_options_are_taken_at_each_door(tmp_path: Path) -> None:
    path = write_stays(tmp_path / "stays_2025-01.csv", 1, ROWS, PATIENTS, encoding=LATIN_1)
    options = {**GERMAN, "encoding": "latin-1"}
    words = ["--dates", "dmy", "--decimal", ",", "--encoding", "latin-1", "--null-words", UNKNOWN]
    words_of_source = ["--table", "stays", "-q", "Geburtsdatum", "-q", "Aufnahme", "--k", "5"]
    words_of_output = ["--output", "release.stays", "--export", tmp_path / "out.parquet"]
    done = call("plan", f"file:{path}", *words_of_source, *words_of_output[:2], *words)
    assert (done.exit_code, "date; dates: dmy" in done.stdout) == (0, True), done.output
    done = call(
        "anonymize", f"file:{path}", *words_of_source, *words_of_output, *words, "--format", "json"
    )
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["rows_out"] == ROWS
    report = dbanon.anonymize(
        f"file:{path}",
        table="stays",
        quasi_identifiers=["Kosten"],
        k=5,
        output="release.stays",
        exports=[tmp_path / "costs.parquet"],
        nulls="suppress",
        max_suppression=0.1,
        **options,
    )
    assert report.arguments["reading"] == {
        "dates": "dmy",
        "decimal": ",",
        "encoding": "latin-1",
        "null_words": [UNKNOWN],
    }
    done = call(
        "advise",
        f"file:{path}",
        *words_of_source[:2],
        *words,
        "--methods",
        "mdav",
        "--k",
        "5",
        "-q",
        "Geburtsdatum",
    )
    assert done.exit_code == 0, done.stderr
    assert "--dates dmy" in done.stdout
    assert "--null-words k.A." in done.stdout
    done = call(
        "bound",
        f"file:{path}",
        *words_of_source[:2],
        "--k",
        "5",
        "-q",
        "Geburtsdatum",
        *words,
        "--seconds",
        "0.1",
    )
    assert done.exit_code == 0, done.stderr


def test_an_option_of_spreadsheets_is_refused_by_its_kind(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match=r"sheet only applies to .xlsx files"):
        dbanon.plan(
            f"duckdb:///{tmp_path / 'a.duckdb'}",
            table="t",
            quasi_identifiers=["a"],
            k=3,
            output="o",
            sheet="people",
        )


def test_a_replacement_character_in_a_header_is_text(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("age,na\ufffdme\n" + "".join(f"{age},x\n" for age in range(9)), "utf-8")
    columns = {"table": "people", "quasi_identifiers": ["age"], "k": 3, "output": "o"}
    plan = dbanon.plan(f"file:{path}", target=f"duckdb:///{tmp_path / 'a.duckdb'}", **columns)
    assert plan.rows == 9


@pytest.mark.parametrize("option", ["dates", "decimal", "encoding", "null_words"])
def test_what_is_of_csv_is_refused_elsewhere(tmp_path: Path, option: str) -> None:
    value = {**GERMAN, "encoding": "latin-1"}[option]
    duck = f"duckdb:///{tmp_path / 'a.duckdb'}"
    arguments: dict[str, Any] = {"table": "t", "quasi_identifiers": ["a"], "k": 3, "output": "o"}
    doors: tuple[Callable[..., Any], ...] = (dbanon.anonymize, dbanon.plan)
    for url in (duck, f"file:{tmp_path / 'a.parquet'}"):
        for door in doors:
            with pytest.raises(InvalidParameter, match=f"{option} only applies to CSV files"):
                door(url, **arguments, **{option: value})
    with pytest.raises(InvalidParameter, match=f"Spark does not have {option}"):
        check_job(build_options(Job, {**arguments, "block_size": 9, option: value}))
    frame = pd.DataFrame({"a": range(9)})
    for refuse_reading in (
        lambda more: dbanon.advise(frame, **more),
        lambda more: dbanon.certificate(frame, 3, **more),
    ):
        with pytest.raises(InvalidParameter, match=f"{option} only applies to CSV files"):
            refuse_reading({option: value})


def test_a_header_with_the_mark_of_its_file_is_found_among_the_rows(tmp_path: Path) -> None:
    """Like spreadsheet files that were concatenated."""
    path = tmp_path / "t.csv"
    path.write_bytes(2 * b"\xef\xbb\xbfid;age\n1;30\n2;31\n")
    with (
        pytest.raises(FileMalformed, match="Line 4"),
        open_store(f"file:{path}").session(write=False) as session,
    ):
        session.catalog.find_source(parse_relation("t"))
