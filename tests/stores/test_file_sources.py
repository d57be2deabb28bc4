"""CSV and Parquet files as sources: to a database, or to a file without any database."""

from __future__ import annotations

import csv
import sqlite3
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
from click.testing import CliRunner, Result
from pyarrow import parquet

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import DatabaseNotFound, InvalidParameter
from dbanon.run.open import open_store
from dbanon.run.verify_file import verify_file
from dbanon.sessions.names import parse_relation
from dbanon.stores.duckdb.file_counts import open_file_session
from tests.stores.databases import Database
from tests.stores.people import COLUMNS, load_people, rows_of_people

AGES: dict[str, Any] = {
    "table": "people",
    "quasi_identifiers": ["age", "income"],
    "k": 3,
    "keep": ["id", "site"],
}


def write(tmp_path: Path, kind: str) -> Path:
    rows, path = rows_of_people(), tmp_path / f"people.{kind}"
    if kind == "csv":
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            writer.writerows(rows)
    else:
        frame = pd.DataFrame(rows, columns=list(COLUMNS))
        assert len(frame)
        with duckdb.connect() as connection:
            connection.execute(f"COPY (FROM frame) TO '{path}' (FORMAT parquet)")
    return path


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_file_is_released_into_every_database_as_its_table_would(
    database: Database, tmp_path: Path, kind: str
) -> None:
    load_people(database)
    path = write(tmp_path, kind)
    database.anonymize(**AGES, output="release.one")
    report = dbanon.anonymize(f"file:{path}", target=database.url, **AGES, output="release.two")
    assert report.rows_in == report.rows_out == 40
    first, two = (
        sorted(
            (int(i), float(age), float(income), site)
            for i, age, income, site in database.rows(
                f"SELECT id, age, income, site FROM {database.relation(f'release.{name}')}"
            )
        )
        for name in ("one", "two")
    )
    assert first == two
    assert database.rows(f"SELECT source FROM {database.ledger()} WHERE output_name LIKE '%two'")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_no_database_is_needed(tmp_path: Path, kind: str) -> None:
    source, out = write(tmp_path, kind), tmp_path / "out"
    words = ["anonymize", f"file:{source}", "--table", "people", "--output", "release.people"]
    words += ["--k", "3", "--quasi-identifiers", "age,income", "--keep", "site"]
    done = call(*words, "--export", out / "p.parquet", "--export", out / "p.csv")
    assert done.exit_code == 0, done.stderr
    assert verify_file(out / "p.parquet").rows == 40
    assert len((out / "p.csv").read_text().splitlines()) == 41
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", f"people.{kind}"]
    assert sorted(path.name for path in out.iterdir()) == ["p.csv", "p.parquet"]
    done = call(*words)
    assert done.exit_code == 2
    assert "where the release should go" in done.stderr
    # An exported file may be replaced because its metadata marks it as a release.
    assert call(*words, "--export", out / "p.parquet").exit_code == 2
    assert call(*words, "--export", out / "p.parquet", "--if-exists", "replace").exit_code == 0
    planned = call("plan", *words[1:])
    assert planned.exit_code == 0, planned.stderr


def call(*words: Any) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words], env={"COLUMNS": "200"})


def test_a_file_is_advised_on(tmp_path: Path) -> None:
    done = call("advise", f"file:{write(tmp_path, 'csv')}", "--table", "people", "--k", "3")
    assert done.exit_code == 0, done.stderr
    assert "dbanon anonymize file:" in done.stdout
    for command in ("advise", "plan"):
        words = [command, "people", "--table", "people"]
        words += ["--output", "o", "--k", "3", "-q", "age"] if command == "plan" else []
        done = call(*words)
        assert (done.exit_code, "URL cannot be read" in done.stderr) == (2, True)


def test_a_path_is_answered_with_its_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = write(tmp_path, "csv").name
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "people.csv").write_bytes((tmp_path / rows).read_bytes())
    with closing(sqlite3.connect("people.db")) as connection:
        connection.execute("CREATE TABLE people (age INTEGER)")
        connection.executemany("INSERT INTO people VALUES (?)", [(n % 7,) for n in range(70)])
        connection.commit()
    with duckdb.connect("people.duckdb") as clinic:
        clinic.execute("CREATE TABLE people AS SELECT range % 7 AS age FROM range(70)")
    (tmp_path / "notes.md").write_text("rows")
    for path, url in (
        (rows, f"file:{rows}"),
        ("folder", "file:folder"),
        ("people.db", "sqlite:///people.db"),
        ("people.duckdb", "duckdb:///people.duckdb"),
    ):
        refused = call("advise", path, "--table", "people", "--k", "3")
        assert refused.exit_code == 2
        assert f"Hint: Write {url}.\n" in refused.stderr
        assert call("advise", url, "--table", "people", "--k", "3").exit_code == 0
    refused = call("advise", "notes.md", "--table", "people")
    assert "or file:people.csv, to read a file of rows" in refused.stderr


def test_a_job_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "csv")
    monkeypatch.chdir(tmp_path)
    done = call("init", "file:people.csv", "--table", "people", "--k", "3")
    assert done.exit_code == 0, done.stderr
    text = done.stdout.replace("age:    {role: drop}", "age:    {role: quasi_identifier}")
    text = text.replace('  url: "duckdb:///released.duckdb"\n', "")
    # An export alone has no database that could keep the chain.
    text = "".join(line for line in text.splitlines(True) if "    chain: " not in line)
    text += '    export: [{format: parquet, path: "{release}.parquet"}]\n'
    Path("job.yaml").write_text(text)
    assert call("plan", "job.yaml").exit_code == 0
    done = call("run", "job.yaml")
    assert done.exit_code == 0, done.stderr
    [export] = tmp_path.glob("*.parquet")
    assert verify_file(export).k_achieved >= 3
    with open_store("file:people.csv").job_lock("people"):
        assert call("run", "job.yaml").exit_code == 7


def test_columns_of_csv_have_the_types_that_they_are_written_in(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        "whole,code,amount,mixed,day,moment,truth,much,empty,nothing,float,bad_day\n"
        "1,01234,1.50,1,2020-01-31,2020-01-31 10:00:00,true,99999999999999999999"
        ',"",,1e5,2020-02-31\n'
        "-20,99999,-20,x,1999-12-01,2020-01-31T10:00:01.25,false,1,a,,2.5,2020-01-01\n"
        ",,,,,,,,,,,\n"
    )
    with open_store(f"file:{path}").session(write=False) as session:
        columns = session.catalog.list_columns(parse_relation("t"))
        rows = session.rows("SELECT code, empty FROM t")
    assert dict(columns) == {
        "whole": "BIGINT",
        "code": "VARCHAR",
        "amount": "DECIMAL(15,2)",
        "mixed": "VARCHAR",
        "day": "DATE",
        "moment": "TIMESTAMP",
        "truth": "BOOLEAN",
        "much": "DECIMAL(38,0)",
        "empty": "VARCHAR",
        "nothing": "VARCHAR",
        "float": "DOUBLE",
        "bad_day": "VARCHAR",
    }
    assert rows == [("01234", ""), ("99999", "a"), (None, None)]


def test_what_is_exported_is_read_as_it_was(tmp_path: Path) -> None:
    source = write(tmp_path, "csv")
    options = {**AGES, "quasi_identifiers": ["age", "income", "born", "seen"]}
    exports = [tmp_path / "again.csv", tmp_path / "again.parquet"]
    dbanon.anonymize(f"file:{source}", **options, output="release.people", exports=exports)
    contents = []
    for path in exports:
        with open_store(f"file:{path}").session(write=False) as session:
            contents.append(session.rows('SELECT * FROM "again"'))
    assert contents[0] == contents[1]
    assert parquet.read_table(exports[1]).num_rows == 40


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DatabaseNotFound, match="There is no file"):
        dbanon.anonymize(f"file:{tmp_path / 'no.csv'}", **AGES, output="o", exports=["x.csv"])
    for url in ("file:people.json", "file://people.csv", "file:"):
        with pytest.raises(InvalidParameter):
            open_store(url)
    broken = tmp_path / "people.parquet"
    broken.write_bytes(b"SECRET no parquet")
    with pytest.raises(dbanon.DbanonError) as refused:
        dbanon.anonymize(f"file:{broken}", **AGES, output="o", exports=["x.csv"])
    assert "SECRET" not in str(refused.value)
    ragged = tmp_path / "people.csv"
    ragged.write_text('age,income,id,site\n1,2,3,"SECRET\n')
    with pytest.raises(dbanon.DbanonError) as refused:
        dbanon.anonymize(f"file:{ragged}", **AGES, output="o", exports=["x.csv"])
    assert "SECRET" not in str(refused.value)


def test_patterns_in_names_are_no_patterns(tmp_path: Path) -> None:
    directory = tmp_path / "a[b]*'c"
    directory.mkdir()
    source = write(directory, "csv")
    out = directory / "{release}" / "p*.parquet"
    report = dbanon.anonymize(f"file:{source}", **AGES, output="release.people", exports=[out])
    assert verify_file(directory / report.release_id / "p*.parquet").rows == 40


def test_decimals_have_room_on_both_sides_of_the_point(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"amount,wide\n123456.7,{'9' * 28}.5\n0.12345,0.{'1' * 27}\n,\n")
    with open_store(f"file:{path}").session(write=False) as session:
        assert dict(session.catalog.list_columns(parse_relation("t"))) == {
            "amount": "DECIMAL(15,5)",
            "wide": "DOUBLE",
        }
        rows = session.rows("SELECT amount FROM t")
    assert rows == [(Decimal("123456.70000"),), (Decimal("0.12345"),), (None,)]


def test_quotes_that_stand_in_late_rows_only_are_quotes(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    # More rows than DuckDB looks at to guess.
    path.write_text("a,b\n" + "'x',2\n" * 30_000 + '"x, ""y""",3\n"z",4\n')
    with open_store(f"file:{path}").session(write=False) as session:
        rows = session.rows("SELECT a, b, count(*) FROM t GROUP BY a, b ORDER BY b")
    assert rows == [("'x'", 2, 30_000), ('x, "y"', 3, 1), ("z", 4, 1)]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_file_of_another_form_is_no_failure_that_is_tried_again(
    tmp_path: Path, kind: str
) -> None:
    path = tmp_path / f"t.{kind}"
    path.write_bytes(b"a,b\n" + b"1,2\n" * 30_000 + b"1,2,SECRET\xff\n")
    for _ in range(2):
        with (
            pytest.raises(InvalidParameter, match=r"not of the kind|Line 30002 of") as refused,
            open_store(f"file:{path}").session(write=False),
        ):
            pass
        assert "SECRET" not in str(refused.value)


def test_what_does_not_fit_the_memory_stands_on_no_disk_when_a_file_is_counted(
    tmp_path: Path,
) -> None:
    # DuckDB would write released values to .tmp of the directory that this runs in.
    path = write(tmp_path, "parquet")
    with open_file_session(path, "parquet") as (session, _):
        assert session.rows("SELECT current_setting('temp_directory')") == [("",)]


def test_phases_are_reported_from_their_start(tmp_path: Path) -> None:
    first_shares: dict[str, float] = {}
    dbanon.anonymize(
        f"file:{write(tmp_path, 'parquet')}",
        **AGES,
        output="release.people",
        exports=[tmp_path / "out.parquet"],
        progress=lambda at, share: first_shares.setdefault(at, share),
    )
    assert [first_shares[at] for at in ("read", "cluster", "write", "verify", "export")] == [
        0.0
    ] * 5
