"""Kept columns that look like identifiers: every run warns, and strict mode refuses them."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import KeptColumnIdentifies, KeptIdentifierRefused
from dbanon.job.chain import Chain
from dbanon.release.attribute_disclosure import RetainedIdentifier
from tests.stores.databases import ALL_NAMES, Database
from tests.stores.refusal import refuse

DATABASES = ALL_NAMES
KINDS = {
    "full_name": "text",
    "contact": "text",
    "visits": "integer",
    "illness": "text",
    "hospital_name": "text",
    "age": "integer",
}
# Twelve persons of ten visits each: no column is nearly unique.
ROWS = [
    (
        f"Name {person}",
        f"p{person}@example.org",
        visit,
        f"illness {visit % 3}",
        f"clinic {visit % 4}",
        20 + person,
    )
    for person in range(12)
    for visit in range(10)
]
OPTIONS: dict[str, Any] = {"quasi_identifiers": ["age"], "k": 10}
OTHERS = {"keep": ["visits", "hospital_name"], "sensitive": ["illness"]}
EXPECTED = [RetainedIdentifier("full_name", "name"), RetainedIdentifier("contact", "form")]


def load(database: Database) -> None:
    database.load("people", {n: database.types[kind] for n, kind in KINDS.items()}, ROWS)


def warnings_of(caught: list[warnings.WarningMessage]) -> list[str]:
    return [str(warning.message) for warning in caught if warning.category is KeptColumnIdentifies]


@pytest.mark.in_turn(of="file")
@pytest.mark.parametrize(
    "roles",
    [
        {"keep": ["full_name", "contact", "visits"]},
        {"sensitive": ["full_name", "contact", "illness"]},
        {"by": ["full_name", "contact"]},
    ],
    ids=["keep", "sensitive", "by"],
)
def test_every_run_warns(database: Database, roles: dict[str, list[str]]) -> None:
    load(database)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report = database.anonymize(**OPTIONS, **roles)
    assert list(report.kept_identifiers) == EXPECTED
    assert warnings_of(caught) == [f"Column {identifier.describe(10)}." for identifier in EXPECTED]
    assert all("Name 1" not in text and "@" not in text for text in warnings_of(caught))
    assert [text for label, text in report.rows() if label == "KEPT IDENTIFIER"] == [
        identifier.describe(10) for identifier in EXPECTED
    ]
    assert report.warning_texts[:2] == tuple(
        f"column {identifier.describe(10)}" for identifier in EXPECTED
    )
    # The ledger keeps it, and a report that is made from it says it again.
    [(recorded,)] = database.rows(f"SELECT arguments FROM {database.ledger()}")
    arguments = recorded if isinstance(recorded, dict) else json.loads(recorded)
    assert [
        RetainedIdentifier(**arguments_of_column)
        for arguments_of_column in arguments["kept_identifiers"]
    ] == EXPECTED


@pytest.mark.in_turn(of="file")
def test_strict_refuses_and_reads_nothing(database: Database) -> None:
    load(database)
    database.make_schema("release")
    error = refuse(
        database, KeptIdentifierRefused, '"full_name"', **OPTIONS, keep=["full_name"], strict=True
    )
    assert (error.exit_code, error.code, error.sqlstate) == (6, "kept_identifier", "ZK005")
    assert "Name 1" not in repr(vars(error))


@pytest.mark.in_turn(of="file")
@pytest.mark.filterwarnings("error::dbanon.errors.KeptColumnIdentifies")
def test_ordinary_columns_are_kept_without_a_word(database: Database) -> None:
    load(database)
    report = database.anonymize(**OPTIONS, **OTHERS)
    assert report.kept_identifiers == ()
    assert "kept_identifiers" not in report.arguments


@pytest.mark.in_turn(of="file")
@pytest.mark.filterwarnings("error::dbanon.errors.KeptColumnIdentifies")
def test_a_filter_ends_the_run_before_anything_is_published(database: Database) -> None:
    load(database)
    before = database.state()
    with pytest.raises(KeptColumnIdentifies):
        database.anonymize(**OPTIONS, keep=["contact"])
    assert database.state() == before


@pytest.mark.in_turn(of="file")
def test_the_rows_that_a_condition_chooses(database: Database) -> None:
    """Only values that are released have a form."""
    rows = [(*row[:1], row[1] if row[5] < 30 else "none", *row[2:]) for row in ROWS]
    database.load("people", {n: database.types[kind] for n, kind in KINDS.items()}, rows)
    with pytest.warns(KeptColumnIdentifies, match="contact"):
        database.anonymize(**OPTIONS, keep=["contact"], where="age < 30")
    report = database.anonymize(
        **OPTIONS, keep=["contact"], where="age >= 30", output="release.old"
    )
    assert report.kept_identifiers == ()


def test_frames_are_looked_at_alike() -> None:
    frame = pd.DataFrame(ROWS, columns=list(KINDS))
    with pytest.warns(KeptColumnIdentifies):
        _, report = dbanon.anonymize_frame(frame, **OPTIONS, keep=["full_name", "contact"])
    assert list(report.kept_identifiers) == EXPECTED
    with pytest.raises(KeptIdentifierRefused):
        dbanon.anonymize_frame(frame, **OPTIONS, keep=["contact"], strict=True)


@pytest.mark.in_turn(of="file")
def test_the_command_says_it_on_stderr(database: Database) -> None:
    load(database)
    database.make_schema("release")
    line = [
        "anonymize",
        database.url,
        "--table",
        "people",
        "--output",
        "release.people",
        "--k",
        "10",
        "-q",
        "age",
        "--keep",
        "full_name",
    ]
    done = CliRunner().invoke(main, [*line, "--strict"])
    assert done.exit_code == 6, done.output
    assert "kept_identifier" in done.stderr
    done = CliRunner().invoke(main, line)
    assert done.exit_code == 0, done.output
    assert f"Warning: column {EXPECTED[0].describe(10)}." in done.stderr
    assert "Name 1" not in done.output


@pytest.mark.in_turn(of="file")
def test_a_job_says_it(database: Database, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("DBANON_URL", database.url)
    load(database)
    file = tmp_path / "job.yaml"
    roles = {
        "age": "quasi_identifier",
        "full_name": "keep, reason: as asked",
        "contact": "drop",
        "visits": "drop",
        "illness": "sensitive",
        "hospital_name": "drop",
    }
    columns = "".join(f"      {name}: {{role: {role}}}\n" for name, role in roles.items())
    file.write_text(
        "version: 1\nsource: {url: '${DBANON_URL}'}\ndefaults: {k: 10}\njobs:\n  - name: one\n"
        f"    table: people\n    columns:\n{columns}    output: {{table: release.people}}\n"
    )
    done = CliRunner().invoke(main, ["run", str(file)])
    assert done.exit_code == 0, done.output
    assert f"column {EXPECTED[0].describe(10)}" in done.stderr


@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "elsewhere"])
def test_releases_of_a_chain_say_it(
    sqlite_file: Database, duckdb_file: Database, tmp_path: Path, elsewhere: bool
) -> None:
    types = sqlite_file.types
    kinds = {
        "person": f"{types['bigint']} PRIMARY KEY",
        "age": types["integer"],
        "full_name": types["text"],
        "ward": types["text"],
    }
    rows = [(n, 20 + n % 7, f"Name {n % 12}", f"ward {n % 3}") for n in range(60)]
    sqlite_file.load("people", kinds, rows)
    key = tmp_path / "key"
    dbanon.create_chain(
        sqlite_file.url, "c", table="people", entity="person", changes="show", key_out=key
    )
    options = {
        "quasi_identifiers": ["age"],
        "entity": "person",
        "k": 3,
        "if_exists": "replace",
        "chain": Chain("c", f"file:{key}"),
        "keep": ["full_name", "ward"],
    }
    if elsewhere:
        options |= {"target": duckdb_file.url}
    with pytest.warns(KeptColumnIdentifies, match="full_name"):
        report = sqlite_file.anonymize(**options)
    assert list(report.kept_identifiers) == EXPECTED[:1]
    with pytest.warns(KeptColumnIdentifies, match="full_name"):
        sqlite_file.anonymize(**options)
    assert len(sqlite_file.rows("SELECT * FROM dbanon_chain")) == 1
