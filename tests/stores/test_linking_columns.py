"""Kept columns that undo classes: other codings of a quasi-identifier, and household numbers."""

from __future__ import annotations

import json
import warnings
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import KeptColumnLinks, KeptColumnTells, LinkingColumnRefused
from dbanon.release.linkage import MAX_GROUP_SIZE, LinkingColumn, count_unique_profiles
from dbanon.run.open import open_store
from dbanon.sessions.names import parse_relation
from dbanon.sessions.recount_statements import unique_profiles as unique_profiles_statement
from tests.stores.databases import ALL_NAMES, Database
from tests.stores.linking import CODINGS, COLUMNS, OPTIONS, ORDINARY, K, N, load
from tests.stores.refusal import refuse

DATABASES = ALL_NAMES
Row = tuple[Any, ...]


def below_k(rows: list[Row]) -> float:
    """The share of rows that fewer than k share, in hundredths, rounded down."""
    counts = Counter(rows)
    return sum(size for size in counts.values() if size < K) * 100 // N / 100


def share_alone(rows: list[Row]) -> float:
    """The share of groups, the last value of each row, that are alone with their profiles."""
    members = defaultdict(list)
    for *profile, group in rows:
        members[group].append(tuple(profile))
    profiles = Counter(tuple(sorted(values)) for values in members.values())
    return sum(n == 1 for n in profiles.values()) * 100 // len(members) / 100


def rows_of(database: Database, name: str) -> list[Row]:
    return database.rows(f"SELECT age, height, {name} FROM {database.relation('release.people')}")


def test_a_coding_is_counted_beside_persons(database: Database) -> None:
    kinds = {name: database.types[COLUMNS[name][0]] for name in ("age", "height", "age_code")}
    values = [COLUMNS[name][1] for name in kinds]
    rows = list(zip(*values, range(N), strict=True))
    database.load("people", {**kinds, "person": "integer"}, rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = database.anonymize(**OPTIONS, keep=["age_code"], entity="person")
    assert [finding.name for finding in report.linking] == ["age_code"]


@pytest.mark.in_turn(of="file")
def test_codings_are_counted_by_what_they_do_to_k(database: Database) -> None:
    load(database)
    for name in CODINGS:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            report = database.anonymize(**OPTIONS, keep=[name, *ORDINARY], if_exists="replace")
        assert not report.disclosive_columns
        [finding] = report.linking
        assert finding == LinkingColumn(name, "age", below_k(rows_of(database, name)))
        assert finding.share > 0.05
        messages = [
            str(warning.message) for warning in caught if warning.category is KeptColumnLinks
        ]
        assert messages == [f"Column {finding.describe(K)}."]
        assert [text for label, text in report.rows() if label == "LINKING COLUMN"] == [
            finding.describe(K)
        ]
    [(recorded,)] = database.rows(
        f"SELECT arguments FROM {database.ledger()} ORDER BY created_at DESC LIMIT 1"
    )
    arguments = recorded if isinstance(recorded, dict) else json.loads(recorded)
    assert arguments["linking"] == [vars(finding)]


@pytest.mark.in_turn(of="file")
def test_strict_refuses_codings_and_households(database: Database) -> None:
    load(database)
    database.make_schema("release")
    for name in ("age_code", "household"):
        error = refuse(
            database, LinkingColumnRefused, f'"{name}"', **OPTIONS, keep=[name], strict=True
        )
        assert (error.code, error.sqlstate) == ("linking_column", "ZK005")
    report = database.anonymize(
        **OPTIONS, keep=["visits"], sensitive=["illness", "sex"], strict=True
    )
    assert report.linking == ()
    assert "linking" not in report.arguments


@pytest.mark.in_turn(of="file")
def test_groups_that_are_alone_with_their_profiles(database: Database) -> None:
    load(database)
    with pytest.warns(KeptColumnLinks, match="household"):
        report = database.anonymize(**OPTIONS, keep=["household"])
    share = share_alone(rows_of(database, "household"))
    assert report.linking == (LinkingColumn("household", None, share),)
    assert share > 0.5


def test_frames_count_like_databases() -> None:
    frame = pd.DataFrame({name: values for name, (_, values) in COLUMNS.items()})
    for name in (*CODINGS, "household"):
        with pytest.warns(KeptColumnLinks):
            released, report = dbanon.anonymize_frame(frame, **OPTIONS, keep=[name, *ORDINARY])
        rows = list(
            released[["age", "height", name]].astype(object).fillna(-1).itertuples(index=False)
        )
        share = share_alone(rows) if name == "household" else below_k(rows)
        assert [(column.name, column.share) for column in report.linking] == [(name, share)]
    with pytest.raises(LinkingColumnRefused):
        dbanon.anonymize_frame(frame, **OPTIONS, keep=["age_code"], strict=True)


@pytest.mark.in_turn(of="file")
def test_a_column_that_was_told_of_already_is_told_of_once(database: Database) -> None:
    """For groups below k the values are nearly unique, and the warning says only that."""
    load(database)
    with pytest.warns(KeptColumnTells):
        report = database.anonymize(**OPTIONS | {"k": 8}, keep=["household"])
    assert report.linking == ()


@pytest.mark.in_turn(of="file")
def test_command_and_job_say_it(database: Database, tmp_path: Path, monkeypatch: Any) -> None:
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
        str(K),
        "-q",
        "age",
        "-q",
        "height",
        "--keep",
        "age_code",
    ]
    done = CliRunner().invoke(main, [*line, "--strict"])
    assert done.exit_code == 6, done.output
    assert "linking_column" in done.stderr
    done = CliRunner().invoke(main, line)
    assert done.exit_code == 0, done.output
    assert 'Warning: column "age_code" is another coding of "age"' in done.stderr
    monkeypatch.setenv("DBANON_URL", database.url)
    file = tmp_path / "job.yaml"
    roles = dict.fromkeys(COLUMNS, "drop") | {
        "age": "quasi_identifier",
        "height": "quasi_identifier",
        "household": "keep, reason: as asked",
    }
    columns = "".join(f"      {name}: {{role: {role}}}\n" for name, role in roles.items())
    file.write_text(
        "version: 1\nsource: {url: '${DBANON_URL}'}\ndefaults: {k: 5}\njobs:\n  - name: one\n"
        f"    table: people\n    columns:\n{columns}    output: {{table: release.of_job}}\n"
    )
    done = CliRunner().invoke(main, ["run", str(file)])
    assert done.exit_code == 0, done.output
    assert 'column "household" groups rows' in done.stderr


def test_groups_of_more_rows_than_one_person_knows_are_not_counted(database: Database) -> None:
    """Their sums of squares might not fit into an integer, and not all members are known."""
    groups = [*[0] * (MAX_GROUP_SIZE + 1), *[1] * MAX_GROUP_SIZE, 2, 2, 3, 3, 4]
    profiles = [*range(MAX_GROUP_SIZE + 1), *range(MAX_GROUP_SIZE), 0, 1, 0, 1, 0]
    rows = list(zip(groups, profiles, strict=True))
    database.load("t", {"g": "integer", "p": "integer"}, rows)
    with open_store(database.url).session(write=False) as session:
        relation = session.catalog.find_source(parse_relation("t")).name
        profile, [group] = (
            session.catalog.columns_as_displayed(relation, [name]) for name in ("p", "g")
        )
        query = unique_profiles_statement(relation, profile, group, MAX_GROUP_SIZE)
        [(several, unique)] = session.rows(query)
    assert (int(several), int(unique)) == (3, 1)
    assert count_unique_profiles(np.array(groups), np.array(profiles)) == (3, 1)
