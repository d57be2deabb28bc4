"""Exported files: their content, what they leave out, and that no unpublished rows reach them."""

from __future__ import annotations

import csv
import json
import os
import re
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from pyarrow import parquet

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import FormulaInText, OutputExists, RecountFailed
from dbanon.run import export as exporting
from dbanon.stores.exports import destinations, formats
from tests.stores.databases import Database
from tests.stores.people import QUASI_IDENTIFIERS, load_people, rows_of_people

# No engine decides of these.
pytestmark = [pytest.mark.usefixtures("no_temporary_file"), pytest.mark.in_turn(of="file")]

ALL = {"quasi_identifiers": [*QUASI_IDENTIFIERS], "keep": ["site", "id"]}
AGES = {"quasi_identifiers": ["age"], "keep": ["site"]}


def rows_of(database: Database, name: str = "release.people") -> list[tuple[Any, ...]]:
    return database.rows(f"SELECT * FROM {database.relation(name)}")


def left(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in tmp_path.rglob(".dbanon-*"))


def call(*words: Any) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words], env={"COLUMNS": "200"})


def plain(value: Any) -> Any:
    if isinstance(value, (Decimal, float, int)):
        return float(value)
    if isinstance(value, (date, datetime)):
        return value.isoformat(sep=" ") if isinstance(value, datetime) else value.isoformat()
    return value.removesuffix(".000000") if isinstance(value, str) else value


def test_parquet_holds_the_released_rows_in_their_random_order(
    database: Database, tmp_path: Path
) -> None:
    load_people(database)
    path = tmp_path / "new" / "deep" / "people.parquet"
    report = database.anonymize(**ALL, exports=[path])
    table = parquet.read_table(path)
    assert table.num_rows == report.rows_out == 40
    released = rows_of(database)
    exported = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    assert [[plain(v) for v in row] for row in exported] == [
        [plain(v) for v in row] for row in released
    ]
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == path.parent.parent.stat().st_mode & 0o777 == 0o700
    metadata = formats.metadata_of(path)
    assert metadata["release_id"] == report.release_id
    assert (metadata["k_requested"], metadata["k_counted"]) == ("3", str(report.k_achieved))
    assert json.loads(metadata["quasi_identifiers"]) == [*QUASI_IDENTIFIERS]
    assert len(metadata["created_on"]) == 10
    assert set(metadata) == {
        "release_id",
        "version",
        "k_requested",
        "k_counted",
        "guarantee",
        "quasi_identifiers",
        "arguments",
        "created_on",
    }
    [export] = report.arguments["exports"]
    assert (export["path"], export["sha256"]) == (str(path), destinations.sha256(path))
    assert export["bytes"] == path.stat().st_size
    [(arguments,)] = database.rows(f"SELECT arguments FROM {database.ledger()}")
    arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
    assert arguments["exports"] == [export]
    assert report.seconds["export"] > 0


def test_types_of_columns_are_types_of_the_file(database: Database, tmp_path: Path) -> None:
    load_people(database)
    path = tmp_path / "people.parquet"
    database.anonymize(**ALL, exports=[path])
    types = {field.name: field.type for field in parquet.read_schema(path)}
    assert types["born"] == pa.date32()
    assert types["seen"] == pa.timestamp("us")
    assert types["income"].scale == 2
    assert types["height"] == pa.float64()
    assert types["site"] == pa.string()
    assert pa.types.is_integer(types["age"])
    assert not any(pa.types.is_dictionary(kind) for kind in types.values())


def test_csv_holds_the_released_rows(database: Database, tmp_path: Path) -> None:
    rows = rows_of_people()
    rows[0] = (*rows[0][:7], 'a "quoted", text\nof two lines')
    rows[1] = (*rows[1][:7], "")
    rows[2] = (*rows[2][:7], None)
    load_people(database, rows)
    path = tmp_path / "people.csv"
    database.anonymize(**ALL, exports=[path])
    text = path.read_bytes().decode()
    with path.open(newline="") as file:
        header, *lines = csv.reader(file)
    assert header == ["id", "age", "income", "height", "born", "seen", "site"]
    released = {row[0]: row for row in rows_of(database)}
    assert [int(line[0]) for line in lines] == [row[0] for row in rows_of(database)]
    by_id = {int(line[0]): line for line in lines}
    assert by_id[1][6] == 'a "quoted", text\nof two lines'
    assert [float(by_id[i][3]) for i in by_id] == [float(released[i][3]) for i in by_id]
    assert '""' in text
    # An empty text is "", and NULL is nothing.
    ends = sorted(line.rpartition(",")[2] for line in text.splitlines() if line[:2] in ("2,", "3,"))
    assert ends == ["", '""']
    assert "\r" not in text


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_no_value_that_was_not_released_is_in_a_file(
    database: Database, tmp_path: Path, kind: str
) -> None:
    rows = [
        (*row[:1], f"SECRETNAME{row[0]}", *row[2:7], f"SECRETSITE{row[0]}")
        for row in rows_of_people()
    ]
    load_people(database, rows)
    path = tmp_path / f"people.{kind}"
    export = {"path": str(path), "compression": "none"}
    database.anonymize(quasi_identifiers=["age"], keep=["site"], where="id > 5", exports=[export])
    content = path.read_bytes()
    assert b"SECRETSITE40" in content
    assert b"SECRETNAME" not in content
    assert not re.search(rb"SECRETSITE[1-5](?![0-9])", content)


def test_minima_and_maxima_are_of_quasi_identifiers_alone(
    database: Database, tmp_path: Path
) -> None:
    load_people(database)
    for statistics in (False, True):
        path = tmp_path / f"people-{statistics}.parquet"
        database.anonymize(
            **ALL,
            output=f"release.p{statistics}".lower(),
            exports=[{"path": str(path), "statistics": statistics}],
        )
        group = parquet.read_metadata(path).row_group(0)
        columns = {
            group.column(i).path_in_schema
            for i in range(group.num_columns)
            if group.column(i).statistics is not None and group.column(i).statistics.has_min_max
        }
        assert columns == {*QUASI_IDENTIFIERS, *(("site", "id") if statistics else ())}
        assert not any(group.column(i).has_offset_index for i in range(group.num_columns))
        metadata = parquet.read_metadata(path).metadata
        assert b"ARROW:schema" not in metadata
        assert b"pandas" not in metadata


FORMULAS = {
    **{
        text: f"'{text}"
        for text in (
            "=1+1",
            "+1",
            "-x",
            "@SUM",
            "\tx",
            "'\tx",
            " =1",
            '"=1',
            "＝1",
            "'=1",
            "−1",
            "-2,5",
        )
    },
    # A spreadsheet that cuts lines elsewhere begins a cell in the middle of these.
    "a;=1+1": "a;'=1+1",
    ";=1+1": ";'=1+1",
    "a\n=1+1": "a\n'=1+1",
    'a\r\n"=1': "a\r\n'\"=1",
    "a\t@SUM": "a\t'@SUM",
    "a,-cmd|x": "a,'-cmd|x",
    "a; -2+3+x": "a;' -2+3+x",
    "a;-2 +x": "a;'-2 +x",
    "=1;=2;＝3": "'=1;'=2;'＝3",
    "\t=1": "'\t'=1",
    "a;'=1": "a;''=1",
}
# A signed number is no formula, wherever it appears.
HARMLESS = ["[-10, -5]", "a;-1.5", "a,+2)", "a;b=1", "1 - 2; 3 = 3", "a\n-7\nb"]


def test_spreadsheets_of_other_countries_read_it(database: Database, tmp_path: Path) -> None:
    kinds = {
        "age": database.types["integer"],
        "owed": database.types["double"],
        "paid": database.types["decimal"],
        "site": database.types["text"],
    }
    rows = [(20 + i % 7, -1.5 * i, f"{i}.25", "a;b" if i % 2 else 'say "x"') for i in range(30)]
    database.load("bills", kinds, rows)
    path = tmp_path / "bills.csv"
    export = {"path": str(path), "separator": ";", "decimal": ",", "byte_order_mark": True}
    report = database.anonymize(
        table="bills",
        quasi_identifiers=["age"],
        k=4,
        method="mdav",
        keep=["owed", "paid", "site"],
        output="release.bills",
        exports=[export],
    )
    assert report.k_achieved >= 4
    content = path.read_bytes()
    assert content.startswith(b"\xef\xbb\xbf")
    with path.open(newline="", encoding="utf-8-sig") as file:
        header, *data_rows = csv.reader(file, delimiter=";")
    assert header == ["age", "owed", "paid", "site"]
    assert len(data_rows) == 30
    expected = {
        (str(owed).replace(".", ","), paid.replace(".", ","), site) for _, owed, paid, site in rows
    }
    assert {(float(o.replace(",", ".")), p, s) for _, o, p, s in data_rows} == {
        (float(o.replace(",", ".")), p, s) for o, p, s in expected
    }
    assert not any("." in owed + paid for _, owed, paid, _ in data_rows)


def test_formulas_are_refused_escaped_or_kept(database: Database, tmp_path: Path) -> None:
    rows = rows_of_people()
    texts = [*FORMULAS, *HARMLESS]
    rows = [(*row[:7], texts[i] if i < len(texts) else row[7]) for i, row in enumerate(rows)]
    load_people(database, rows)
    path = tmp_path / "people.csv"
    before = database.state()
    with pytest.raises(FormulaInText) as refused:
        database.anonymize(**AGES, exports=[path])
    assert f'column "site" as formulas: {len(FORMULAS)} of' in refused.value.message
    assert not any(text in str(refused.value) for text in ("SUM", "1+1"))
    assert database.state() == before
    assert not path.exists()
    for formulas in ("escape", "keep"):
        path = tmp_path / f"{formulas}.csv"
        database.anonymize(
            **AGES,
            output=f"release.{formulas}",
            exports=[{"path": str(path), "formulas": formulas}],
        )
        with path.open(newline="") as file:
            cells = {row[1] for row in list(csv.reader(file))[1:]}
        assert {*HARMLESS, *(FORMULAS.values() if formulas == "escape" else FORMULAS)} <= cells
    # Numbers keep their sign: the type decides.
    database.load("debts", {"owed": database.types["integer"]}, [[-row[2]] for row in rows])
    path = tmp_path / "debts.csv"
    database.anonymize(
        table="debts", quasi_identifiers=["owed"], output="release.debts", exports=[path]
    )
    assert path.read_text().splitlines()[1].startswith("-")


def test_a_file_that_is_read_back_holds_no_formula(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clinic = duckdb.connect()
    clinic.execute("CREATE TABLE t AS SELECT 1 AS age, 'a;=1+1' AS site FROM range(9)")
    clinic.execute("""CREATE TABLE named AS SELECT age, site AS "a;=1" FROM t""")
    options: dict[str, Any] = {"quasi_identifiers": ["age"], "k": 3}
    for formulas in ("error", "escape"):
        with pytest.raises(FormulaInText, match="the header"):
            dbanon.anonymize(
                clinic,
                table="named",
                keep=["a;=1"],
                output="named_out",
                **options,
                exports=[{"path": str(tmp_path / "named.csv"), "formulas": formulas}],
            )
    dbanon.anonymize(
        clinic,
        table="named",
        keep=["a;=1"],
        output="named_out",
        **options,
        exports=[{"path": str(tmp_path / "named.csv"), "formulas": "keep"}],
    )
    assert "a;=1" in (tmp_path / "named.csv").read_text().splitlines()[0]
    (tmp_path / "named.csv").unlink()
    monkeypatch.setattr(formats, "escape_formulas", lambda texts: texts)
    path = tmp_path / "people.csv"
    with pytest.raises(RecountFailed, match='Column "site" of the file') as refused:
        dbanon.anonymize(
            clinic,
            table="t",
            keep=["site"],
            output="out",
            **options,
            exports=[{"path": str(path), "formulas": "escape"}],
        )
    assert "1+1" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_stays_unless_it_is_of_a_release(
    database: Database, tmp_path: Path
) -> None:
    load_people(database)
    for kind in ("parquet", "csv"):
        path = tmp_path / f"people.{kind}"
        path.write_text("somebody's")
        for if_exists in ("error", "replace"):
            with pytest.raises(OutputExists):
                database.anonymize(**AGES, exports=[path], if_exists=if_exists)
        assert path.read_text() == "somebody's"
        path.unlink()
        database.anonymize(**AGES, exports=[path], if_exists="replace")
        first = path.read_bytes()
        with pytest.raises(OutputExists):
            database.anonymize(**AGES, output="release.other", exports=[path])
        database.anonymize(**AGES, exports=[path], if_exists="replace")
        assert path.read_bytes() != first


def test_files_of_earlier_releases_are_removed_as_requested(
    database: Database, tmp_path: Path
) -> None:
    load_people(database)
    export = {"path": str(tmp_path / "{release}.parquet"), "keep_last": 2}
    file_names = []
    for turn in range(4):
        report = database.anonymize(
            **AGES, exports=[export], if_exists="replace", output_kind="view"
        )
        file_names.append(f"{report.release_id}.parquet")
        if turn == 2:
            # Someone changed it, so it is no longer our file.
            (tmp_path / file_names[2]).write_bytes(b"changed")
    database.anonymize(**AGES, exports=[export], if_exists="replace", output_kind="view")
    names = {path.name for path in tmp_path.glob("*.parquet")}
    # Two of ours, and the changed one.
    assert len(names) == 3
    assert file_names[2] in names
    assert {file_names[0], file_names[1]} & names == set()


def test_a_run_that_fails_leaves_no_file(database: Database, tmp_path: Path) -> None:
    load_people(database)
    path = tmp_path / "people.parquet"

    def progress(phase: str, share: float) -> None:
        if phase == "verify" and share == 1.0:
            assert left(tmp_path)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        database.anonymize(**AGES, exports=[path], progress=progress)
    assert not path.exists()


def test_what_a_crash_left_is_finished_or_taken_away_by_the_next_run(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_people(database)
    pattern = str(tmp_path / "{release}.parquet")
    options: dict[str, Any] = {**AGES, "exports": [pattern], "if_exists": "replace"}
    # The machine stops right after COMMIT …
    monkeypatch.setattr(exporting.Exporter, "finish", exporting.Exporter.leave_pending)
    published = database.anonymize(**options)
    assert len(left(tmp_path)) == 1
    monkeypatch.undo()
    # … and, in another run, right before it.
    tag = left(tmp_path)[0].split("-")[1]
    orphan = tmp_path / f".dbanon-{tag}-{os.urandom(4).hex()}-0000-4000-8000-000000000000-0.tmp"
    orphan.write_bytes(b"never published")
    # Files of another output, and of a run that has not ended.
    other = tmp_path / f".dbanon-{'0' * 12}-{published.release_id}-0.tmp"
    other.write_bytes(b"another one's")
    running = destinations.PendingFile.begin(tmp_path / "x.parquet", tag, published.release_id, 7)
    report = database.anonymize(**options)
    names = {path.name for path in tmp_path.glob("*.parquet")}
    assert names == {f"{published.release_id}.parquet", f"{report.release_id}.parquet"}
    assert left(tmp_path) == sorted([other.name, running.path.name])
    running.undo()
    other.unlink()


def test_python_takes_paths_and_objects_and_says_what_is_wrong(tmp_path: Path) -> None:
    nowhere: Any = "duckdb:////nowhere.duckdb"
    for wrong in (
        "a.txt",
        {},
        {"path": "a.csv", "formulas": "run"},
        {"path": "a.csv", "separator": "|"},
        {"path": "a.csv", "decimal": ","},
        {"path": "a.csv", "byte_order_mark": "yes"},
        {"path": "a.parquet", "x": 1},
        {"path": "a.csv", "keep_last": 2},
        {"path": "a.csv", "keep_last": -1},
        {"path": "{release}.csv", "keep_last": 0},
    ):
        with pytest.raises(dbanon.DbanonError) as refused:
            dbanon.anonymize(nowhere, table="t", output="o", k=3, **AGES, exports=[wrong])
        assert refused.value.exit_code == 2
        assert "export" in refused.value.message


def test_the_command_line_and_a_job_file_export(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_people(database)
    done = call(
        "anonymize",
        database.url,
        "--table",
        "people",
        "--output",
        "release.people",
        "--k",
        3,
        "--quasi-identifiers",
        "age",
        "--export",
        tmp_path / "a" / "people.parquet",
        "--export",
        tmp_path / "people.csv",
    )
    assert done.exit_code == 0, done.stderr
    assert str(tmp_path / "people.csv") in done.stdout
    assert parquet.read_table(tmp_path / "a" / "people.parquet").num_rows == 40
    assert len((tmp_path / "people.csv").read_text().splitlines()) == 41
    monkeypatch.setenv("PEOPLE", database.url)
    file = tmp_path / "job.yaml"
    dropped = ("id", "name", "income", "height", "born", "seen", "site")
    file.write_text(
        'version: 1\nsource: {url: "${PEOPLE}"}\njobs:\n  - name: monthly\n    table: people\n'
        "    k: 3\n    columns:\n      age: {role: quasi_identifier}\n"
        + "".join(f"      {name}: {{role: drop}}\n" for name in dropped)
        + "    output: {view: release.of_job, keep_last: 2}\n"
        '    export: [{format: parquet, path: "${OUT:-out}/{job}/{release}.parquet",'
        " keep_last: 2}]\n"
    )
    monkeypatch.chdir("/")
    for _ in range(3):
        done = call("run", file, "--format", "json")
        assert done.exit_code == 0, done.stderr
    release = json.loads(done.stdout)["jobs"][0]["report"]["release_id"]
    names = [path.name for path in (tmp_path / "out" / "monthly").iterdir()]
    assert len(names) == 2
    assert f"{release}.parquet" in names
