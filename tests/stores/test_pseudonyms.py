"""Pseudonyms: keyed hashes of identifiers on every database, and no trace of their key."""

from __future__ import annotations

import hashlib
import hmac
import json
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import (
    DbanonError,
    InvalidParameter,
    PseudonymKeyWrong,
    PseudonymsLink,
    RecountFailed,
    TellingColumnRefused,
    UnsupportedType,
)
from tests.stores.databases import Database

KEY, OTHER = "ab" * 32, "cd" * 32
# Where pseudonyms are made inside of them: MariaDB's driver would write the key into statements.
DATABASES = ("postgresql", "duckdb", "sqlite")
COLUMNS = {"id": "integer", "name": "text", "age": "integer", "ill": "text"}
# A person has two rows; every fiftieth row has no number.
ROWS = [
    (i // 2 if i % 50 else None, f"Ärger '{i // 2}", 20 + i % 40, ("flu", "cold")[i % 2])
    for i in range(120)
]
OPTIONS: dict[str, Any] = {
    "table": "people",
    "output": "release.people",
    "quasi_identifiers": ["age"],
    "k": 5,
    "sensitive": ["ill"],
    "pseudonyms": ["id", "name"],
    "pseudonym_key": "env:PSEUDONYMS",
}


def pseudonym(value: object, key: str = KEY) -> str:
    """The definition in docs/guarantees.md."""
    derived_key = hmac.new(bytes.fromhex(key), b"dbanon pseudonym 1", hashlib.sha256).digest()
    return hmac.new(derived_key, str(value).encode(), hashlib.sha256).hexdigest()[:32]


IDS = sorted(pseudonym(row[0]) for row in ROWS if row[0] is not None)
NAMES = sorted(pseudonym(row[1]) for row in ROWS)


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PSEUDONYMS", KEY)
    monkeypatch.setenv("OTHERS", OTHER)


@pytest.fixture
def people(database: Database) -> Database:
    load(database)
    return database


def load(database: Database) -> None:
    typed = {name: database.types[kind] for name, kind in COLUMNS.items()}
    database.load("people", typed, ROWS)


def released(database: Database, **more: Any) -> dbanon.Report:
    with pytest.warns(PseudonymsLink):
        return dbanon.anonymize(database.url, **(OPTIONS | more))


def written(database: Database) -> tuple[list[str], list[str]]:
    rows = database.rows(f"SELECT id, name FROM {database.relation('release.people')}")
    assert sum(identifier is None for identifier, _ in rows) == 3
    return sorted(identifier for identifier, _ in rows if identifier is not None), sorted(
        name for _, name in rows
    )


def test_values_join_by_their_pseudonyms_and_null_has_none(people: Database) -> None:
    report = released(people)
    assert written(people) == (IDS, NAMES)
    assert report.arguments["pseudonyms"]["columns"] == ["id", "name"]
    assert "PSEUDONYMS LINK ROWS" in dict(report.rows())
    assert report.kept == ("id", "name")
    assert "id" not in report.not_copied
    assert dbanon.verify(people.url, "release.people").unchanged
    # With the same key rows of another table can be joined; `entity` keeps a person in one class.
    released(people, output="release.visits", entity="name", pseudonyms=["name"], k=3)
    [(together,)] = people.rows(
        f"SELECT count(DISTINCT a.name) FROM {people.relation('release.people')} AS a JOIN"
        f" {people.relation('release.visits')} AS b ON a.name = b.name"
    )
    assert together == 60
    [(apart,)] = people.rows(
        "SELECT max(n) FROM (SELECT count(DISTINCT age) AS n FROM"
        f" {people.relation('release.visits')} GROUP BY name) AS t"
    )
    assert apart == 1


def test_the_release_again_under_its_own_key_alone(people: Database) -> None:
    released(people)
    with pytest.raises(InvalidParameter):
        dbanon.refresh(people.url, "release.people")
    with pytest.raises(PseudonymKeyWrong) as refused:
        dbanon.refresh(people.url, "release.people", pseudonym_key="env:OTHERS")
    assert OTHER not in str(refused.value.to_dict())
    done = CliRunner().invoke(
        main, ["refresh", people.url, "release.people", "--pseudonym-key", "env:PSEUDONYMS"]
    )
    assert done.exit_code == 0, done.output
    assert "pseudonyms link rows" in done.stderr
    assert written(people) == (IDS, NAMES)


def test_the_key_stands_nowhere(people: Database, tmp_path: Path) -> None:
    statements: list[str] = []
    report = released(people, on_sql=statements.append)
    derived_key = hmac.new(bytes.fromhex(KEY), b"dbanon pseudonym 1", hashlib.sha256).hexdigest()
    recorded_text = json.dumps(report.to_dict(), default=str) + "".join(statements)
    for table in ("release", "release_column", "run"):
        recorded_text += str(people.ledger_rows(table))
    for file in tmp_path.glob("test.*"):
        # DuckDB removes its log of changes when it has written them.
        with suppress(FileNotFoundError):
            content = file.read_bytes()
            recorded_text += content.hex() + content.decode("latin-1")
    for secret in (KEY, derived_key):
        assert secret not in recorded_text
        assert secret.upper() not in recorded_text
        block = bytes(byte ^ 0x36 for byte in bytes.fromhex(secret))
        assert block.hex() not in recorded_text


@pytest.mark.parametrize("is_statement_open", [False, True])
def test_a_failed_run_leaves_no_key_in_a_connection_to_sqlite(is_statement_open: bool) -> None:
    """The key is in a function of the connection, which no rollback removes."""
    from dbanon.stores.sqlite.store import SqliteStore

    with closing(sqlite3.connect(":memory:")) as connection:
        cursor = connection.cursor()
        with suppress(KeyboardInterrupt), SqliteStore(connection).session(write=True) as session:
            session.tags.stage_key(b"inner", b"outer")
            if is_statement_open:
                # As after an interrupt. SQLite then removes no function.
                cursor.execute("WITH n(i) AS (VALUES (1), (2)) SELECT i FROM n").fetchone()
            raise KeyboardInterrupt
        with pytest.raises(sqlite3.OperationalError):
            connection.execute("SELECT dbanon_keyed_tag('x')").fetchall()


@pytest.mark.in_turn(of="file")
def test_strict_refuses_them_before_a_row_is_read(people: Database) -> None:
    with pytest.raises(TellingColumnRefused):
        dbanon.anonymize(people.url, **(OPTIONS | {"strict": True}))
    assert ("release", "people") not in people.relations()


def test_fewer_pseudonyms_than_values_are_not_published(
    people: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the hash has an error, the count in the transaction stops it."""
    from dbanon.sessions.person_tags import PersonTags
    from dbanon.stores.postgresql.tags import PostgresqlPersonTags
    from dbanon.stores.sqlite.tags import SqlitePersonTags

    for kind in (PersonTags, PostgresqlPersonTags, SqlitePersonTags):
        monkeypatch.setattr(kind, "pseudonym_of", lambda self, text: f"substr({text}, 1, 7)")
    with pytest.raises(RecountFailed):
        dbanon.anonymize(people.url, **(OPTIONS | {"pseudonyms": ["name"]}))
    assert ("release", "people") not in people.relations()


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("more", "code", "match"),
    [
        ({"pseudonym_key": None}, "invalid_parameter", "need a key"),
        ({"pseudonym_key": KEY}, "invalid_parameter", "file:PATH or env:NAME"),
        ({"pseudonym_key": "env:NOT_SET"}, "pseudonym_key_wrong", "NOT_SET"),
        ({"pseudonyms": []}, "invalid_parameter", "no column has pseudonyms"),
        ({"pseudonyms": ["age"]}, "invalid_parameter", "age"),
        ({"pseudonyms": ["nobody"]}, "column_not_found", "nobody"),
        ({"kept_columns": "client"}, "invalid_parameter", "kept_columns"),
        (
            {"chain": dbanon.Chain("c", "env:PSEUDONYMS"), "entity": "name"},
            "invalid_parameter",
            "A chain prevents readers",
        ),
        # A value that is made anew has nothing that a set could bring together.
        ({"also_k": [["name"]]}, "invalid_parameter", '"name" of `also_k`'),
        ({"also_k": [["age", "id"]]}, "invalid_parameter", '"id" of `also_k`'),
    ],
)
def test_what_cannot_be_is_refused_and_tells_no_key(
    people: Database, more: dict[str, Any], code: str, match: str
) -> None:
    with pytest.raises(DbanonError, match=match) as refused:
        dbanon.anonymize(people.url, **(OPTIONS | more))
    assert refused.value.code == code
    assert KEY not in str(refused.value.to_dict())
    assert ("release", "people") not in people.relations()


@pytest.mark.in_turn(of="file")
def test_numbers_with_several_texts_are_refused(database: Database) -> None:
    database.load(
        "people",
        {"id": database.types["double"], "age": database.types["integer"]},
        [(float(i), i) for i in range(20)],
    )
    with pytest.raises(UnsupportedType):
        dbanon.anonymize(database.url, **(OPTIONS | {"pseudonyms": ["id"], "sensitive": []}))


@pytest.mark.in_turn(of="file")
def test_rules_say_which_and_the_call_says_the_key(people: Database) -> None:
    rules = {"id": "pseudonym", "name": {"role": "entity", "pseudonym": True}, "ill": "sensitive"}
    name = "people" if people.name != "postgresql" else "public.people"
    dbanon.declare(people.url, name, rules | {"age": "quasi_identifier"})
    rule_options = {
        "quasi_identifiers": [],
        "sensitive": [],
        "pseudonyms": [],
        "declared": True,
        "k": 3,
        "releases": "independent",
    }
    with pytest.raises(InvalidParameter):
        dbanon.anonymize(people.url, **(OPTIONS | rule_options | {"pseudonym_key": None}))
    report = released(people, **rule_options)
    assert (report.entity, written(people)) == ("name", (IDS, NAMES))
    with pytest.warns(PseudonymsLink):
        dbanon.refresh(people.url, "release.people", pseudonym_key="env:PSEUDONYMS")
    assert written(people) == (IDS, NAMES)


@pytest.mark.in_turn(of="file")
def test_a_job_file_and_a_key_in_a_file(people: Database, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(KEY)
    (tmp_path / "key").chmod(0o600)
    (tmp_path / "jobs.yaml").write_text(
        f"""version: 1
source: {{url: "{people.url}"}}
jobs:
- name: people
  table: people
  output: {{table: release.people}}
  k: 5
  pseudonym_key: file:key
  columns:
    id: {{role: pseudonym}}
    name: {{role: pseudonym}}
    age: {{role: quasi_identifier}}
    ill: {{role: sensitive}}
""",
        encoding="utf-8",
    )
    done = CliRunner().invoke(main, ["run", str(tmp_path / "jobs.yaml"), "--allow-inline-password"])
    assert done.exit_code == 0, done.output
    assert written(people) == (IDS, NAMES)
    (tmp_path / "key").chmod(0o644)
    done = CliRunner().invoke(main, ["run", str(tmp_path / "jobs.yaml"), "--allow-inline-password"])
    assert done.exit_code != 0
    assert KEY not in done.output


def test_values_are_hashed_before_they_are_in_another_database(
    people: Database, duckdb_file: Database
) -> None:
    statements: list[str] = []
    released(people, target=duckdb_file.url, on_sql=statements.append, entity="name", k=3)
    assert written(duckdb_file) == (IDS, NAMES)
    # The log first: what it held is in the file behind it where it is gone by then.
    for file in sorted(duckdb_file.path.parent.glob("other*"), reverse=True):
        with suppress(FileNotFoundError):
            assert "Ärger".encode() not in file.read_bytes()


def test_types_of_fixed_length_join_wherever_they_are_hashed(
    database: Database, sqlite_file: Database, duckdb_file: Database
) -> None:
    """Spaces behind a value count where its database counts them, and nowhere else."""
    database.load(
        "people",
        {"name": "CHAR(6)", "age": "INTEGER"},
        [(f"p{i} ", 20 + i % 20) for i in range(100)],
    )
    options = {"pseudonyms": ["name"], "sensitive": []}
    released(database, **options)
    has_padding = database.name == "postgresql"
    expected = sorted(pseudonym(f"p{i}" + ("" if has_padding else " ")) for i in range(100))
    for target in (database, sqlite_file, duckdb_file):
        if target is not database:
            released(database, target=target.url, **options)
        names = target.rows(f"SELECT name FROM {target.relation('release.people')}")
        assert sorted(name for (name,) in names) == expected


def test_half_a_character_is_refused_and_not_revealed() -> None:
    names = pd.Series(["secret \ud800", *(f"n{i}" for i in range(9))], dtype=object)
    frame = pd.DataFrame({"name": names, "age": [30] * 10})
    with pytest.raises(UnsupportedType, match='Column "name"') as refused:
        dbanon.anonymize_frame(
            frame,
            quasi_identifiers=["age"],
            k=5,
            pseudonyms=["name"],
            pseudonym_key="env:PSEUDONYMS",
        )
    error: BaseException | None = refused.value
    while error is not None:
        assert not isinstance(error, UnicodeError)
        assert "secret" not in repr(error)
        error = error.__context__


def test_frames() -> None:
    frame = pd.DataFrame(ROWS, columns=list(COLUMNS)).astype({"id": "Int64"})
    options = {
        name: OPTIONS[name] for name in ("quasi_identifiers", "k", "pseudonyms", "pseudonym_key")
    }
    with pytest.warns(PseudonymsLink):
        released_frame, report = dbanon.anonymize_frame(frame, **options)
    assert (sorted(released_frame.id.dropna()), sorted(released_frame.name)) == (IDS, NAMES)
    assert report.arguments["pseudonyms"]["columns"] == ["id", "name"]
    with pytest.raises(UnsupportedType):
        dbanon.anonymize_frame(frame.astype({"id": "Float64"}), **options)


@pytest.mark.mariadb
def test_mariadb_makes_none_and_takes_some(mariadb: Database, duckdb_file: Database) -> None:
    load(mariadb)
    with pytest.raises(DbanonError) as refused:
        dbanon.anonymize(mariadb.url, **OPTIONS)
    assert refused.value.code == "pseudonyms_not_here"
    released(mariadb, target=duckdb_file.url)
    assert written(duckdb_file) == (IDS, NAMES)
