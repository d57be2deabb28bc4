"""A second release of the same persons outside a chain, at every store and door."""

from __future__ import annotations

import json
import re
import shlex
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner, Result

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import InvalidParameter, ReleasesIntersect, SecondRelease
from dbanon.job.chain import Chain
from dbanon.run.inspect_release import inspect_release
from dbanon.run.open import open_store
from dbanon.sessions.names import parse_relation
from tests.stores.databases import ALL_NAMES, Database, DuckdbDatabase, PostgresqlDatabase
from tests.stores.job_lines import job, write
from tests.stores.people import load_people
from tests.stores.refusal import refuse

DATABASES = ALL_NAMES

OPTIONS: dict[str, Any] = {"quasi_identifiers": ["age", "income"], "k": 5, "entity": "id"}
LINE = ["--table", "people", "--k", "5", "-q", "age", "-q", "income"]
INDEPENDENT = {"releases": "independent"}


@pytest.fixture
def people(database: Database) -> Database:
    load_people(database)
    database.anonymize(**OPTIONS)
    return database


def invoke(*words: str) -> Result:
    return CliRunner().invoke(main, words, env={"COLUMNS": "200"})


@pytest.mark.in_turn(of="file")
def test_it_is_refused_until_it_is_asked_for_by_name(people: Database) -> None:
    for more in ({"output": "release.other"}, {"if_exists": "replace"}):
        error = refuse(
            people, SecondRelease, 'already released with "id" as the entity', **(OPTIONS | more)
        )
        assert (error.exit_code, error.code, error.sqlstate) == (3, "second_release", "ZK011")
        assert "release.people" in str(error.detail).replace("release_people", "release.people")
    # Readers may have kept a release that was dropped.
    dbanon.drop(people.url, "release.people")
    refuse(people, SecondRelease, "already released", **OPTIONS)
    with pytest.raises(SecondRelease):
        dbanon.plan(people.url, table="people", output="release.other", **OPTIONS)
    report = people.anonymize(**OPTIONS, **INDEPENDENT)
    assert [caution.title for caution in report.cautions] == ["JOINT HISTORIES"]
    assert "has 1 of the same source" in report.earlier_releases


def test_the_hint_of_the_command_works_as_it_is_printed(people: Database, tmp_path: Path) -> None:
    line = [*LINE, "--entity", "id", "--output", "release.second"]
    done = invoke("anonymize", people.url, *line)
    assert done.exit_code == 3, done.output
    hint = done.stderr.partition("Hint:")[2]
    option = hint.rpartition("against this: ")[2].split()[:2]
    assert option == ["--releases", "independent"]
    if people.name == "mariadb":
        assert "not a database that supports chains" in hint
        assert "chain create" not in hint
    else:
        [command] = re.findall(r"dbanon chain create .*", " ".join(hint.split("\n")[1:2]))
        words = [people.url if word == "URL" else word for word in shlex.split(command)[1:]]
        key = tmp_path / words[-1]
        assert invoke(*words[:-1], str(key)).exit_code == 0
        chained = [*line, "--key", "id", "--chain", words[3], "--chain-key", f"file:{key}"]
        assert invoke("anonymize", people.url, *chained).exit_code == 0
        line = [*line, "--if-exists", "replace"]
        # Releases of a chain count, too.
        assert invoke("anonymize", people.url, *line).exit_code == 3
    done = invoke("anonymize", people.url, *line, *option)
    assert done.exit_code == 0, done.output


@pytest.mark.in_turn(of="file")
def test_without_an_entity_each_run_warns(people: Database) -> None:
    options = {name: value for name, value in OPTIONS.items() if name != "entity"}
    for number in (1, 2):
        with pytest.warns(ReleasesIntersect, match=f"before: {number} earlier release"):
            report = people.anonymize(**options, output="release.rows", if_exists="replace")
        [text] = [text for label, text in report.rows() if label == "RELEASES INTERSECT"]
        assert "fewer than k" in text
        # A page that is made later says it, too.
        again = inspect_release(open_store(people.url), parse_relation("release.rows"))
        assert again.record.report.cautions == report.cautions != ()
    done = invoke("anonymize", people.url, *LINE, "--output", "release.more")
    assert (done.exit_code, done.stderr.count("was released before: 3 earlier")) == (0, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ReleasesIntersect)
        people.anonymize(**options, **INDEPENDENT, output="release.named")


@pytest.mark.in_turn(of="file")
def test_what_is_no_second_release(people: Database) -> None:
    """Other tables and other persons; noise has a budget."""
    types = {"id": people.types["integer"], "age": people.types["integer"]}
    people.load("others", types, [(n, n % 4) for n in range(40)])
    with warnings.catch_warnings():
        warnings.simplefilter("error", ReleasesIntersect)
        people.anonymize(
            table="others", entity="id", quasi_identifiers=["age"], k=5, output="release.others"
        )


@pytest.mark.in_turn(of="file")
def test_a_job_file(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEOPLE", database.url)
    load_people(database)
    table = "{table: people}"
    file = write(tmp_path, job(entity="id", output=table))
    skip = ("run", str(file), "--skip-unchanged")
    assert invoke(*skip).exit_code == 0
    # The release that is there is the one that the job would make.
    assert invoke(*skip).exit_code == 99
    database.execute("UPDATE people SET age = age + 1 WHERE id < 9")
    for words in (skip, ("run", str(file)), ("plan", str(file))):
        done = invoke(*words)
        assert done.exit_code == 3, done.output
        assert "releases: independent" in done.stderr
    write(tmp_path, job(entity="id", output=table, releases="independent"))
    assert invoke(*skip).exit_code == 0
    write(tmp_path, job(entity="id", output=table, releases="other"))
    done = invoke("check", str(file))
    assert (done.exit_code, "releases: must be one of independent" in done.stderr) == (2, True)


@pytest.mark.in_turn(of="file")
def test_a_refresh_is_another_release(people: Database) -> None:
    refused = invoke("refresh", people.url, "release.people")
    assert refused.exit_code == 3, refused.output
    option = refused.stderr.rpartition("against this: ")[2].split()[:2]
    assert option == ["--accept", "independent"]
    with pytest.raises(SecondRelease, match=re.escape('accept=["independent"]')):
        dbanon.refresh(people.url, "release.people")
    assert invoke("refresh", people.url, "release.people", *option).exit_code == 0
    # It was asked for by name, which the entry keeps.
    assert dbanon.refresh(people.url, "release.people").persons == 40


@pytest.mark.in_turn(of="file")
def test_a_chain_is_not_independent(people: Database, tmp_path: Path) -> None:
    chain = Chain("c", f"file:{tmp_path / 'key'}")
    with pytest.raises(InvalidParameter, match="cannot be independent"):
        people.anonymize(**OPTIONS, **INDEPENDENT, chain=chain)


def test_in_another_database(
    make_database: Callable[[str], Database], duckdb_file: DuckdbDatabase
) -> None:
    source = make_database("sqlite")
    load_people(source)
    source.anonymize(**OPTIONS, target=duckdb_file.url)
    with pytest.raises(SecondRelease):
        source.anonymize(**OPTIONS, target=duckdb_file.url, output="release.second")


def test_a_file_of_rows(duckdb_file: DuckdbDatabase, tmp_path: Path) -> None:
    rows = tmp_path / "people.csv"
    for month in (1, 2):
        text = "".join(f"{n},{n * 7 * month % 50}\n" for n in range(30))
        rows.write_text(f"id,age\n{text}", encoding="utf-8")
        options: dict[str, Any] = {
            "quasi_identifiers": ["age"],
            "k": 5,
            "entity": "id",
            "target": duckdb_file.url,
        }
        url = f"file:{rows}"
        if month == 1:
            dbanon.anonymize(url, table="people", output="release.people", **options)
            continue
        with pytest.raises(SecondRelease):
            dbanon.anonymize(url, table="people", output="release.other", **options)


@pytest.mark.postgresql
def test_a_renamed_table_is_recognized(postgresql: PostgresqlDatabase) -> None:
    load_people(postgresql)
    postgresql.anonymize(**OPTIONS)
    postgresql.execute("ALTER TABLE people RENAME TO persons")
    with pytest.raises(SecondRelease):
        postgresql.anonymize(**OPTIONS, table="persons", output="release.second")


@pytest.mark.in_turn(of="file")
def test_an_entry_that_is_broken_stops_nobody(people: Database) -> None:
    broken = json.dumps({"entity": ["id"]})
    people.execute(f"UPDATE {people.ledger()} SET arguments = '{broken}'")
    assert people.anonymize(**OPTIONS, output="release.second").persons == 40


@pytest.mark.parametrize("ending", ["csv", "parquet", "folder"])
def test_the_hint_of_a_file_leads_to_a_chain(
    duckdb_file: DuckdbDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    """Follow the printed hint literally, month after month."""
    monkeypatch.chdir(tmp_path)
    data_path = Path("it's data" if ending == "folder" else f"people.{ending}")

    def load(month: int) -> None:
        rows = f"SELECT i AS id, i * {7 * month} % 50 AS age FROM range({30 - month}) AS t(i)"
        if ending == "folder":
            data_path.mkdir(exist_ok=True)
        to = data_path / "one.parquet" if ending == "folder" else data_path
        escaped = str(to).replace("'", "''")
        duckdb.sql(f"COPY ({rows}) TO '{escaped}'")

    common_words = ["--table", "people", "--k", "5", "-q", "age", "--entity", "id"]
    file, target = f"file:{data_path}", ["--target", duckdb_file.url, "--output", "release.people"]
    replaced = ["anonymize", file, *common_words, *target, "--if-exists", "replace"]
    load(1)
    assert invoke("anonymize", file, *common_words, *target).exit_code == 0
    load(2)
    done = invoke(*replaced)
    assert done.exit_code == 3, done.output
    hint = done.stderr.partition("Hint:")[2]
    [create] = re.findall(r"^ *dbanon (chain create .*)$", hint, re.M)
    words = shlex.split(create.replace("URL", duckdb_file.url))
    assert invoke(*words).exit_code == 0
    name, key = words[3], words[-1]
    for month in (2, 3, 4):
        load(month)
        done = invoke(*replaced, "--chain", name, "--chain-key", f"file:{key}")
        assert done.exit_code == 0, done.output
    done = invoke("chain", "measure", duckdb_file.url, name, "--chain-key", f"file:{key}")
    assert done.exit_code == 0, done.output


def test_a_file_knows_no_earlier_releases(tmp_path: Path) -> None:
    rows = tmp_path / "people.csv"
    rows.write_text("id,age\n" + "".join(f"{n},{n * 7 % 50}\n" for n in range(30)))
    options: dict[str, Any] = {"quasi_identifiers": ["age"], "k": 5, "table": "people"}
    report = dbanon.anonymize(
        f"file:{rows}",
        output="release.people",
        entity="id",
        exports=[{"path": str(tmp_path / "out.csv")}],
        **options,
    )
    label, text = report.rows()[0]
    assert label == "JOINT HISTORIES"
    assert text.startswith("not measured: a file keeps no ledger")
    assert "a chain keeps" in text
