"""A job's expectations of its source: a truncated source is refused, and the last release stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dbanon
from dbanon.errors import InvalidParameter, UnexpectedCounts
from tests.prerequisites import skip_case
from tests.stores.databases import ALL_NAMES, Database, DuckdbDatabase
from tests.stores.job_lines import call, job, job_results, write

DATABASES = ALL_NAMES
ROLES = {
    "id": "{role: identifier}",
    "age": "{role: quasi_identifier}",
    "income": "{role: quasi_identifier}",
    "note": "{role: drop}",
}
COLUMNS = {"id": "integer", "age": "integer", "income": "integer", "note": "text"}
CHAIN = "{name: people, key: file:people.key}"


def _rows(rows: int, persons: int, nulls: int = 0) -> list[tuple[Any, ...]]:
    """Rows of persons, each with constant values."""
    return [
        (n % persons, 20 + n % persons % 50, 100 * (n % persons), None if n < nulls else "seen")
        for n in range(rows)
    ]


def _load(database: Database, rows: list[tuple[Any, ...]], table: str = "people") -> None:
    database.execute(f"DROP TABLE IF EXISTS {table}")
    database.load(table, {name: database.types[kind] for name, kind in COLUMNS.items()}, rows)


def _released(database: Database) -> int:
    [(count,)] = database.rows(f"SELECT count(*) FROM {database.relation('release.people')}")
    return int(count)


@pytest.mark.in_turn(of="file")
def test_a_truncated_table_is_refused_and_accepted_once(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEOPLE", database.url)
    file = write(
        tmp_path,
        job(roles=ROLES, output="{table: people}", expect="{rows: 30 %}", where='"age > 0"'),
    )
    _load(database, _rows(80, 80))
    first = call("run", file)
    assert first.exit_code == 0, first.stderr
    assert "Job people: no earlier release to compare rows with" in first.stderr
    # Typical growth within a month.
    _load(database, _rows(100, 100))
    second = call("run", file)
    assert (second.exit_code, "to compare" in second.stderr) == (0, False), second.stderr
    _load(database, _rows(69, 69))
    for command in ("plan", "run"):
        refused = call(command, file)
        assert refused.exit_code == 6
        assert "[unexpected_counts]" in refused.stderr
        assert "rows: 69; the last release had 100, and 70 to 130 are expected" in refused.stderr
        assert _released(database) == 100
    assert "one run of job people: --accept-counts rows." in refused.stderr
    accepted = call("run", file, "--accept-counts", "rows", "--format", "json")
    assert accepted.exit_code == 0, accepted.stderr
    [job_result] = job_results(accepted)
    assert job_result["report"]["arguments"]["expect"]["accepted"] == ["rows"]
    # That release is the next one's measure.
    assert call("run", file).exit_code == 0
    assert _released(database) == 69
    _load(database, _rows(100, 100))
    assert call("run", file).exit_code == 6


@pytest.mark.in_turn(of="file")
def test_persons_and_nulls_are_counted(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEOPLE", database.url)
    expect = "{persons: ± 10 %, share_null: {note: 5 %}}"
    of_persons = job(
        roles=ROLES, entity="id", releases="independent", output="{table: people}", expect=expect
    )
    file = write(tmp_path, of_persons)
    _load(database, _rows(100, 50, nulls=5))
    assert call("run", file).exit_code == 0
    # Recorded in a column next to the column types.
    [(types, counts)] = database.rows(
        f"SELECT source_types, source_counts FROM {database.ledger('run')}"
    )
    recorded = [
        value if isinstance(value, dict) else json.loads(value) for value in (types, counts)
    ]
    assert set(recorded[0]) == set(ROLES)
    assert recorded[1] == {"rows": 100, "persons": 50}
    _load(database, _rows(100, 44, nulls=6))
    refused = call("run", file)
    assert refused.exit_code == 6
    assert "persons: 44; the last release had 50, and 45 to 55 are expected" in refused.stderr
    assert 'share_null: "note" is NULL in 6.0% of the rows; at most 5.0% are' in refused.stderr
    assert "--accept-counts persons,share_null" in refused.stderr
    with pytest.raises(UnexpectedCounts, match="share_null"):
        dbanon.run_job(file, accept_counts=["persons"])
    assert dbanon.run_job(file, accept_counts=["persons", "share_null"]) is not None
    for wrong in ("rows", ["note"]):
        with pytest.raises(InvalidParameter, match="accept_counts"):
            dbanon.run_job(file, accept_counts=wrong)


@pytest.mark.in_turn(of="file")
def test_numbers_hold_from_the_first_run(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEOPLE", database.url)
    _load(database, _rows(40, 40))
    for limits, exit_code in (
        ("{least: 41}", 6),
        ("{most: 39}", 6),
        ("{least: 40, most: 40}", 0),
    ):
        named = job(roles=ROLES, output="{table: people}", expect=f"{{rows: {limits}}}")
        done = call("run", write(tmp_path, named))
        assert done.exit_code == exit_code, done.stderr
        assert "to compare" not in done.stderr


@pytest.mark.in_turn(of="file")
@pytest.mark.parametrize("elsewhere", [False, True])
def test_releases_of_a_chain(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    if database.name == "mariadb":
        skip_case("MariaDB cannot store chains")
    monkeypatch.setenv("PEOPLE", database.url)
    _load(database, _rows(60, 60))
    created = call(
        "chain",
        "create",
        database.url,
        "people",
        "--table",
        "people",
        "--entity",
        "id",
        "--changes",
        "freeze",
        "--key-out",
        tmp_path / "people.key",
    )
    assert created.exit_code == 0, created.stderr
    expect = "{rows: 30 %, persons: 30 %}"
    chained = job(roles=ROLES, entity="id", chain=CHAIN, output="{table: people}", expect=expect)
    file = write(tmp_path, chained)
    if elsewhere:
        text = file.read_text().replace("schema: release", f'url: "duckdb:///{tmp_path}/to.duckdb"')
        file.write_text(text)
    first = call("run", file)
    assert first.exit_code == 0, first.stderr
    assert "no earlier release to compare rows and persons with" in first.stderr
    database.execute("DELETE FROM people WHERE id >= 20")
    refused = call("run", file)
    assert refused.exit_code == 6
    assert "persons: 20; the last release had 60" in refused.stderr
    # Nothing of the chain went on.
    chain_shown = json.loads(
        call("chain", "show", database.url, "people", "--format", "json").stdout
    )
    assert len(chain_shown["releases"]) == 1
    database.execute(
        *(f"INSERT INTO people VALUES {(*row[:3], 'seen')}" for row in _rows(66, 66)[20:])
    )
    assert call("run", file).exit_code == 0


@pytest.mark.parametrize("data_path", ["in/people.csv", "in/*.parquet", "in/"])
def test_files_and_folders(tmp_path: Path, data_path: str) -> None:
    (tmp_path / "in").mkdir()
    form = "parquet" if data_path.endswith("parquet") else "csv"

    def deliver(rows: int) -> None:
        with duckdb.connect() as connection:
            connection.execute(
                f"COPY (SELECT range AS id, 20 + range % 50 AS age, range AS income, 'x' AS note"
                f" FROM range({rows})) TO '{tmp_path}/in/people.{form}'"
            )

    named = job(
        roles=ROLES,
        entity="id",
        releases="independent",
        output="{table: people}",
        expect="{rows: ±30%, persons: 30 %}",
    )
    file = write(tmp_path, named)
    text = file.read_text().replace('url: "${PEOPLE}"', f'path: "{data_path}"')
    file.write_text(text.replace("schema: release", f'url: "duckdb:///{tmp_path}/to.duckdb"'))
    deliver(552)
    assert call("run", file).exit_code == 0
    deliver(123)
    refused = call("run", file)
    assert refused.exit_code == 6
    assert "rows: 123; the last release had 552" in refused.stderr
    assert "persons: 123; the last release had 552" in refused.stderr
    deliver(600)
    assert call("run", file).exit_code == 0


def test_another_source_or_output_is_not_compared(
    duckdb_file: DuckdbDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEOPLE", duckdb_file.url)
    _load(duckdb_file, _rows(80, 80))
    _load(duckdb_file, _rows(20, 20), "fewer")
    for table, output in (("people", "one"), ("fewer", "one"), ("fewer", "two"), ("people", "two")):
        more = {} if table == "people" else {"table": table}
        named = job(roles=ROLES, output=f"{{table: {output}}}", expect="{rows: 30 %}", **more)
        done = call("run", write(tmp_path, named))
        assert (done.exit_code, "to compare rows with" in done.stderr) == (0, True), done.stderr


def test_init_proposes_what_refuses_a_truncated_file(tmp_path: Path) -> None:
    delivered = tmp_path / "people.csv"
    lines = ["id,age,income\n", *(f"{n},{20 + n % 50},{n * 37 % 900}\n" for n in range(500))]
    delivered.write_text("".join(lines))
    written = call("init", f"file:{delivered}", "--table", "people").stdout
    assert "    expect: {rows: 30 %, persons: 30 %}\n" in written
    file = tmp_path / "job.yaml"
    file.write_text(written)
    environment = {"DBANON_TARGET": f"duckdb:///{tmp_path}/to.duckdb"}
    written = written.replace("duckdb:///released.duckdb", environment["DBANON_TARGET"])
    file.write_text(written)
    assert call("run", file, **environment).exit_code == 0
    delivered.write_text("".join(lines[:112]))
    assert call("run", file, **environment).exit_code == 6


def test_init_expects_persons_where_it_names_them(duckdb_file: DuckdbDatabase) -> None:
    duckdb_file.execute(
        "CREATE TABLE stays AS SELECT range % 200 AS patient_id, 20 + range % 200 % 50 AS age,"
        " range AS day FROM range(600)"
    )
    written = call("init", duckdb_file.url, "--table", "stays").stdout
    assert "    entity: patient_id\n" in written
    assert "    expect: {rows: 30 %, persons: 30 %}\n" in written
