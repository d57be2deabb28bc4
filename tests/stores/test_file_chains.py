"""Chains of files: one file a month, and what a chain over a table would release."""

from __future__ import annotations

import csv
import os
import re
import shlex
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from pyarrow import parquet

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import (
    ChainChanged,
    ChainEntityRows,
    ChainsNotHere,
    DbanonError,
    FileMalformed,
    ForeignFile,
    InvalidParameter,
    JobRunning,
    MemoryLimit,
)
from dbanon.extensions.chains import run as chain_run
from dbanon.run.open import open_store
from tests.prerequisites import only_where
from tests.stores.chain_cases import COLUMNS, OPTIONS, Chained, Months, Person, load, released
from tests.stores.databases import Database, MariadbDatabase, SqliteDatabase
from tests.stores.test_chain_kill import moments_on, require_whole, state
from tests.stores.test_kill import count_moments, kill_at, settle

# Persons leave, come back and wait within these.
MONTHS = 4
DOCS = Path(__file__).resolve().parents[2] / "docs" / "chains.md"
as_root = only_where(os.geteuid() == 0, "files of other accounts are made by root")


def write(path: Path, persons: dict[Any, Person]) -> Path:
    """A file of these persons, in the order in which ``load`` puts them into a table."""
    rows = [(person, *values) for person, values in persons.items()]
    order = np.random.default_rng(len(rows)).permutation(len(rows))
    text = path.with_suffix(".csv")
    with text.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(COLUMNS)
        lines.writerows([*rows[i][:-1], f"{rows[i][-1]:.2f}"] for i in order)
    if path.suffix == ".parquet":
        duckdb.sql(f"COPY (FROM '{text}') TO '{path}'")
    return path


class FileChained(Chained):
    """A chain of files, one a month, whose rows are called `persons`."""

    @classmethod
    def of(cls, database: Database, file: Path, directory: Path, **rules: Any) -> FileChained:
        key = directory / "file.key"
        chain_rules: dict[str, Any] = {
            "changes": "show",
            "min_newcomers": 0,
            "max_wait": 0,
            **rules,
        }
        dbanon.create_chain(
            database.url,
            "files",
            table="persons",
            entity="id",
            key_out=key,
            source=f"file:{file}",
            **chain_rules,
        )
        return cls(database, key, "files")

    def arguments(self, file: Path, **more: Any) -> dict[str, Any]:
        chain = self.chain(accept_turnover=True)
        destination = {"table": "persons", "output": "release.persons", "target": self.database.url}
        return OPTIONS | {"database": f"file:{file}", "chain": chain} | destination | more

    def release_file(self, file: Path, **more: Any) -> dbanon.Report:
        report: dbanon.Report = dbanon.anonymize(**self.arguments(file, **more))
        return report


def of_file(database: Database, columns: str = "age, income, ill") -> Counter[tuple[Any, ...]]:
    return Counter(database.rows(f"SELECT {columns} FROM {database.relation('release.persons')}"))


def invoke(*words: object, **env: str) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words], env={"COLUMNS": "200", **env})


@pytest.fixture
def month(tmp_path: Path) -> Path:
    return write(tmp_path / "persons-2026-01.csv", Months(n=30).now)


@pytest.mark.in_turn(of="file")
@pytest.mark.parametrize(
    ("changes", "ending"), [("show", "csv"), ("freeze", "parquet"), ("hold", "csv")]
)
def test_files_release_what_a_table_does(
    database: Database, tmp_path: Path, ending: str, changes: str
) -> None:
    """The oracle is the same chain over a table: six months, with persons who come back."""
    months = Months(n=40, come_back=0.3, change=0.1)
    options: dict[str, Any] = {"keep": ["cost"], "where": "age >= 20"}
    chained: tuple[Chained, FileChained] | None = None
    for number in range(MONTHS):
        load(database, months.now)
        file = write(tmp_path / f"persons-2026-{number + 1:02}.{ending}", months.now)
        if chained is None:
            table = Chained.create(database, tmp_path, changes=changes)
            chained = table, FileChained.of(database, file, tmp_path, changes=changes)
        table, files = chained
        expected = table.release(chain=table.chain(accept_turnover=True), **options)
        report = files.release_file(file, **options)
        assert of_file(database, "age, income, ill, cost") == released(
            database, "age, income, ill, cost"
        )
        assert (report.rows_in, report.rows_out) == (expected.rows_in, expected.rows_out)
        identity = dict.fromkeys(("name", "chain_id", "source", "outside"))
        chain_records = [
            {**single_report.arguments["chain"], **identity} for single_report in (report, expected)
        ]
        assert chain_records[0] == chain_records[1]
        assert report.source == "main.persons"
        months.pass_on()
    release_lists = [
        dbanon.show_chain(database.url, name).releases for name in ("patients", "files")
    ]
    ids = {"release_id": "", "created_at": ""}
    assert [{**release, **ids} for release in release_lists[0]] == [
        {**release, **ids} for release in release_lists[1]
    ]
    measured = dbanon.measure_chain(database.url, "files", key=f"file:{files.key}")
    assert (measured.releases, measured.exposed) == (MONTHS, 0)
    assert files.smallest() >= 3
    assert invoke("verify", database.url, "release.persons").exit_code == 0
    assert not any("file_rows" in name for _, name in database.relations())


def test_the_ledger_has_no_originals_of_a_file(
    database: Database, tmp_path: Path, month: Path
) -> None:
    """Exact figures stay with the person who made the release, and a refresh does not read them."""
    report = FileChained.of(database, month, tmp_path).release_file(month)
    with pytest.raises(DbanonError):
        dbanon.refresh(database.url, "release.persons")
    release = dbanon.show(database.url, "release.persons", internal=True)
    assert release["internal"] is None
    assert report.internal is not None


@pytest.mark.in_turn(of="file")
@pytest.mark.parametrize(
    ("replacement", "expected"),
    [
        (b"1001.00", ""),
        (b"", ""),
        (b"1001.125", "income"),
        (b"unknown", "income"),
    ],
    ids=["whole", "null", "scale", "text"],
)
def test_columns_keep_the_types_of_the_first_release(
    database: Database, tmp_path: Path, replacement: bytes, expected: str
) -> None:
    def of(values: list[bytes]) -> Path:
        rows = [b"%d,%d,%s,x" % (i, 20 + i % 9, code) for i, code in enumerate(values)]
        path = tmp_path / "persons.csv"
        path.write_bytes(b"\n".join([b"id,age,income,ill", *rows]))
        return path

    file = of([b"%d.50" % (1000 + i % 7) for i in range(30)])
    chained = FileChained.of(database, file, tmp_path)
    options: dict[str, Any] = {"quasi_identifiers": ["age"], "keep": ["income"]}
    chained.release_file(file, **options)
    before, rows = state(database), of_file(database)
    file = of([replacement] * 30)
    if not expected:
        chained.release_file(file, **options)
        return
    with pytest.raises(ChainChanged, match="different types") as caught:
        chained.release_file(file, **options)
    assert caught.value.detail is not None
    assert f'"{expected}" of ' in caught.value.detail
    assert b"1001" not in str(caught.value).encode()
    assert (state(database), of_file(database)) == (before, rows)


@pytest.mark.in_turn(of="file")
def test_a_wrong_value_is_named_by_line_and_column(
    database: Database, tmp_path: Path, month: Path
) -> None:
    chained = FileChained.of(database, month, tmp_path)
    types = {"types": {"age": "integer"}}
    chained.release_file(month, **types)
    before = state(database)
    lines = month.read_text(encoding="utf-8").splitlines()
    lines[4] = re.sub(r",\d+,", ",n.k.,", lines[4], count=1)
    month.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(FileMalformed, match="Line 5") as caught:
        chained.release_file(month, **types)
    assert "(age)" in str(caught.value)
    assert state(database) == before


@pytest.mark.in_turn(of="file")
def test_a_person_with_two_rows_is_refused(database: Database, tmp_path: Path, month: Path) -> None:
    chained = FileChained.of(database, month, tmp_path)
    lines = month.read_text(encoding="utf-8").splitlines()
    month.write_text("\n".join([*lines, lines[-1]]), encoding="utf-8")
    with pytest.raises(ChainEntityRows):
        chained.release_file(month)


def test_a_condition_may_not_read_what_is_kept(
    database: Database, tmp_path: Path, month: Path
) -> None:
    chained = FileChained.of(database, month, tmp_path)
    for condition in ("ill <> 'flu'", "columns('i.*l') <> 'flu'"):
        with pytest.raises(InvalidParameter, match="`where` may not use"):
            chained.release_file(month, where=condition)


def test_a_link_is_refused(database: Database, tmp_path: Path, month: Path) -> None:
    chained = FileChained.of(database, month, tmp_path)
    before = state(database)
    private = month.rename(tmp_path / "private.csv")
    folder = tmp_path / "drop"
    folder.mkdir()
    (folder / "persons.csv").symlink_to(private)
    with pytest.raises(ForeignFile):
        chained.release_file(Path(f"{folder}/"))
    assert state(database) == before


@as_root
@pytest.mark.in_turn
def test_a_file_of_another_account_is_refused(
    database: Database, tmp_path: Path, month: Path
) -> None:
    chained = FileChained.of(database, month, tmp_path)
    folder = tmp_path / "drop"
    folder.mkdir()
    os.chown(month.rename(folder / "persons.csv"), 65534, 65534)
    with pytest.raises(ForeignFile):
        chained.release_file(Path(f"{folder}/"))


def test_a_file_that_changes_meanwhile_is_read_once(
    database: Database, tmp_path: Path, month: Path
) -> None:
    """The staged rows are the checked ones: the release shows the file as of that moment."""
    chained = FileChained.of(database, month, tmp_path)
    chained.release_file(month)
    rows = of_file(database)

    def change(statement: str) -> None:
        if "dbanon_file_rows" in statement and month.exists():
            month.unlink()

    chained.release_file(month, on_sql=change)
    assert not month.exists()
    assert of_file(database) == rows


@pytest.mark.own_backends
def test_a_killed_run_leaves_nothing_of_a_file(
    database: Database, tmp_path: Path, month: Path
) -> None:
    chained = FileChained.of(database, month, tmp_path)
    chained.release_file(month)
    months = Months(n=30)
    months.pass_on()
    file = write(tmp_path / "persons-2026-02.csv", months.now)
    before, rows, relations = state(database), of_file(database), database.relations()
    arguments, files = chained.arguments(file), {*tmp_path.iterdir()}
    total = count_moments(arguments)
    # The first run that goes through is that which counts the moments.
    before, rows, relations = state(database), of_file(database), database.relations()
    months.pass_on()
    arguments = chained.arguments(write(tmp_path / "persons-2026-02.csv", months.now))
    kills = moments_on(database)
    for moment in range(kills):
        kill_at(moment * (total - 1) // (kills - 1), arguments)
        settle(database)
        assert (state(database), of_file(database)) == (before, rows)
        assert database.relations() == relations
    left = [path.name for path in {*tmp_path.iterdir()} - files]
    # DuckDB's and SQLite's own logs of the transaction, and the lock's file, hold no rows of it.
    assert not [name for name in left if name.endswith(".tmp")]
    planted = b"ill," if database.name == "postgresql" else b"dbanon_file_rows"
    assert not [
        n
        for n in left
        if n.endswith((".wal", "-wal", "-journal")) and planted in (tmp_path / n).read_bytes()
    ]
    report = dbanon.anonymize(**arguments)
    assert report.arguments["chain"]["sequence"] == 3
    require_whole(rows, of_file(database))


def test_two_runs_at_once(database: Database, tmp_path: Path, month: Path) -> None:
    chained = FileChained.of(database, month, tmp_path)
    with open_store(database.url).job_lock("chain-files"), pytest.raises(JobRunning):
        chained.release_file(month)
    assert chained.release_file(month).arguments["chain"]["sequence"] == 1


@pytest.mark.in_turn(of="file")
def test_a_file_that_holds_more_than_the_limit(
    database: Database, tmp_path: Path, month: Path
) -> None:
    chained = FileChained.of(database, month, tmp_path)
    before, large = state(database), tmp_path / "large.parquet"
    duckdb.sql(
        "COPY (SELECT range AS id, 30 AS age, 40 AS income, 'sixteen letters.' AS ill"
        f" FROM range(2000000)) TO '{large}'"
    )
    with pytest.raises(MemoryLimit):
        chained.release_file(large, memory_limit=16 * 2**20)
    assert state(database) == before


def test_settings_of_a_connection_stay(tmp_path: Path, month: Path) -> None:
    with duckdb.connect(str(tmp_path / "d.duckdb")) as connection:
        connection.execute(f"SET temp_directory = '{tmp_path}/spill'")
        dbanon.create_chain(
            connection,
            "files",
            table="persons",
            entity="id",
            changes="show",
            key_out=tmp_path / "k",
            source=f"file:{month}",
        )
        chain = dbanon.Chain("files", key=f"file:{tmp_path / 'k'}")
        dbanon.anonymize(
            f"file:{month}",
            table="persons",
            output="release.persons",
            target=connection,
            **OPTIONS | {"chain": chain},
        )
        [(directory,)] = connection.execute("SELECT current_setting('temp_directory')").fetchall()
        assert directory == f"{tmp_path}/spill"
        assert (
            connection.execute(
                "SELECT table_name FROM duckdb_tables() WHERE database_name = 'temp'"
            ).fetchall()
            == []
        )


@pytest.mark.in_turn(of="file")
def test_exports_go_to_a_place_of_their_own(
    database: Database, tmp_path: Path, month: Path
) -> None:
    chained = FileChained.of(database, month, tmp_path)
    export_path = tmp_path / "out" / "persons.parquet"
    for _ in range(2):
        chained.release_file(month, exports=[str(export_path)])
    assert invoke("verify", export_path).exit_code == 0
    assert parquet.read_metadata(export_path).num_rows == 30


@pytest.mark.in_turn(of="file")
def test_a_release_outside_of_the_chain_is_refused_and_reported(
    database: Database, tmp_path: Path, month: Path
) -> None:
    """Either way round: the ledger knows the rows of files by what the job calls them."""
    options: dict[str, Any] = OPTIONS | {"table": "persons", "target": database.url}
    url = f"file:{month}"
    dbanon.anonymize(url, **options, output="release.first")
    with pytest.raises(dbanon.DbanonError, match="was already released with") as caught:
        dbanon.anonymize(url, **options, output="release.second")
    hint = str(caught.value)
    [line] = re.findall(r"dbanon (chain create .*)", hint)
    words = shlex.split(line.replace("URL", database.url))
    key = tmp_path / "persons.key"
    words[-1] = str(key)
    assert invoke(*words).exit_code == 0, line
    chain = dbanon.Chain(words[3], key=f"file:{key}")
    report = dbanon.anonymize(url, **options | {"chain": chain}, output="release.persons")
    assert "release.first" in str(report) or "release_first" in str(report)
    with pytest.raises(dbanon.DbanonError, match="was already released with"):
        dbanon.anonymize(url, **options, output="release.third")


# -- doors -----------------------------------------------------------------------------------------


def test_the_page_runs_as_it_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job and the commands of docs/chains.md, with a file of another name each month."""
    monkeypatch.chdir(tmp_path)
    text = DOCS.read_text(encoding="utf-8")
    job, commands = re.findall(r"<!-- files -->\n```\w+\n(.*?)```", text, re.S)
    Path("job.yaml").write_text(job, encoding="utf-8")
    Path("in").mkdir()
    for number in range(1, MONTHS + 1):
        rows = "".join(
            f"{i},{20 + i * 37 % 60},{20000 + i * 7919 % 60000},{'abc'[i * number % 3]}\n"
            for i in range(number * 3, 200 + number * 2)
        )
        Path(f"in/people-2026-{number:02}.csv").write_text(f"id,age,income,illness\n{rows}")
    lines = commands.splitlines()
    runs = [f"month=2026-{n:02} dbanon run job.yaml" for n in range(1, MONTHS + 1)]
    assert lines[:2] == runs[:2]
    for line in (*runs, *lines[2:]):
        words = shlex.split(line)
        env = dict([words.pop(0).split("=")]) if "=" in words[0] else {}
        if "run" in words:
            assert invoke("plan", "job.yaml", **env).exit_code == 0
        done = invoke(*words[1:], **env)
        assert done.exit_code == 0, done.output
    assert "0 (0.0%)" in done.stdout
    assert len([*Path("out").iterdir()]) == MONTHS


@pytest.mark.in_turn(of="file")
def test_what_init_proposes_for_a_file_runs_month_after_month(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DBANON_TARGET", database.url)
    months = Months(n=60)
    write(tmp_path / "persons.csv", months.now)
    done = invoke("init", "file:persons.csv", "--table", "persons")
    assert done.exit_code == 0, done.stderr
    text = done.stdout
    assert "chain: {name: persons," in text
    assert "create: true" in text
    text = text.replace("duckdb:///released.duckdb", "${DBANON_TARGET}")
    Path("job.yaml").write_text(text, encoding="utf-8")
    assert invoke("check", "job.yaml").exit_code == 0
    for number in range(1, 4):
        planned = invoke("plan", "job.yaml")
        assert planned.exit_code == 0, planned.stderr
        done = invoke("run", "job.yaml")
        assert done.exit_code == 0, done.stderr
        assert f"chain persons, release {number}" in " ".join(done.stdout.split())
        months.pass_on()
        write(tmp_path / "persons.csv", months.now)
    measured = dbanon.measure_chain(database.url, "persons", key="file:persons.key")
    assert measured.exposed == 0


def test_advise_prints_the_command_for_a_file(tmp_path: Path) -> None:
    file = write(tmp_path / "persons.csv", Months(n=60).now)
    advice = dbanon.advise(f"file:{file}", table="persons", k=[5])
    assert advice.chain is not None
    assert f"--source file:{file}" in advice.chain


def test_where_no_chain_is_kept(
    make_database: Callable[[str], Database], tmp_path: Path, month: Path
) -> None:
    """A file alone, and rows that are drawn: the refusal says which database to name."""
    sqlite = make_database("sqlite")
    chained = FileChained.of(sqlite, month, tmp_path)
    with pytest.raises(InvalidParameter, match="keeps its state in a database") as caught:
        chained.release_file(month, target=None, exports=[str(tmp_path / "o.csv")])
    assert "duckdb:///released.duckdb" in str(caught.value)
    with pytest.raises(InvalidParameter, match="not in a file"):
        dbanon.create_chain(
            f"file:{month}",
            "c",
            table="persons",
            entity="id",
            changes="show",
            key_out=tmp_path / "k",
        )
    with pytest.raises(InvalidParameter, match="table of its database, or files"):
        dbanon.create_chain(
            sqlite.url,
            "c",
            table="persons",
            entity="id",
            changes="show",
            key_out=tmp_path / "k",
            source=sqlite.url,
        )
    frame = pa.table({"id": [1], "age": [2], "income": [3], "ill": ["x"]})
    with pytest.raises(InvalidParameter, match="with chain"):
        dbanon.anonymize(**chained.arguments(month) | {"database": frame, "kept_columns": "client"})


def test_several_tables_are_refused(
    sqlite_file: SqliteDatabase, tmp_path: Path, month: Path
) -> None:
    load(sqlite_file, Months(n=9).now)
    with pytest.raises(InvalidParameter, match="does not read files"):
        FileChained.of(sqlite_file, month, tmp_path, tables=["people"], max_rows_per_person=2)
    assert not (tmp_path / "file.key").exists()


@pytest.mark.mariadb
def test_mariadb_keeps_no_chain_of_a_file(
    mariadb: MariadbDatabase, tmp_path: Path, month: Path
) -> None:
    with pytest.raises(ChainsNotHere):
        FileChained.of(mariadb, month, tmp_path)
    assert not (tmp_path / "file.key").exists()


@pytest.mark.in_turn(of="file")
def test_files_that_others_see_before_the_commit(
    database: Database, tmp_path: Path, month: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with an object store, the state is committed before the rows are staged once more."""
    monkeypatch.setattr(chain_run, "_writes_only_local_files", lambda job: False)
    chained, export_path = FileChained.of(database, month, tmp_path), tmp_path / "out" / "p.parquet"
    for sequence in (1, 2):
        report = chained.release_file(month, exports=[str(export_path)])
        assert report.arguments["chain"]["sequence"] == sequence
        assert sum(of_file(database).values()) == 30
    chain = dbanon.show_chain(database.url, "files")
    assert [release["confirmed"] for release in chain.releases] == [True, True]


@pytest.mark.in_turn
def test_a_kept_name_of_a_rows_address(database: Database, tmp_path: Path) -> None:
    """Columns that are not read may have any name; those that are read must leave an address."""
    text = "".join(f"{i},{20 + i % 7},{i},x,\n" for i in range(30))
    file = tmp_path / "persons.csv"
    file.write_text(f"id,age,rowid,ill,ctid\n{text}", encoding="utf-8")
    chained = FileChained.of(database, file, tmp_path)
    assert chained.release_file(file, quasi_identifiers=["age"]).rows_out == 30
    if database.name == "duckdb":
        with pytest.raises(InvalidParameter, match='column named "rowid"'):
            chained.release_file(file, quasi_identifiers=["age"], keep=["rowid"])


@pytest.mark.in_turn(of="file")
@pytest.mark.parametrize("mode", ["several", "measure", "next"])
def test_other_kinds_of_chains(database: Database, tmp_path: Path, month: Path, mode: str) -> None:
    """Persons with several rows, chains that only count, and a chain that follows another one."""
    lines = month.read_text(encoding="utf-8").splitlines()
    if mode == "several":
        month.write_text("\n".join([*lines, *lines[1:8]]) + "\n", encoding="utf-8")
    rules = {"several": {"max_rows_per_person": 2}, "measure": {"mode": "measure"}}
    chained = FileChained.of(database, month, tmp_path, **rules.get(mode, {}))
    for sequence in (1, 2):
        report = chained.release_file(month)
        assert report.arguments["chain"]["sequence"] == sequence
    assert report.rows_out == (37 if mode == "several" else 30)
    if mode == "next":
        dbanon.close_chain(database.url, "files")
        key = f"file:{chained.key}"
        dbanon.create_chain(
            database.url,
            "later",
            table="persons",
            entity="id",
            changes="show",
            new_chain_from="files",
            key=key,
            source=f"file:{month}",
        )
        chain = dbanon.Chain("later", key=key)
        assert chained.release_file(month, chain=chain).rows_out == 30
