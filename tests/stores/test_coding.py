"""Top and bottom coding and named bands, on every database: the release of a data frame."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import InvalidParameter, RecountFailed, TooFewRecords, UnsupportedType
from dbanon.stores.sql_target import SqlTarget
from tests.stores.databases import ALL_NAMES, Database
from tests.stores.refusal import refuse

DATABASES = ALL_NAMES

NAMES = ["age", "height", "income"]
RECODE = {"age": [0, 18, 30, 45, 65], "income": [1000, 2500.5]}


def rows(n: int = 120) -> list[tuple[Any, ...]]:
    draw = np.random.default_rng(5)
    ages = [None if i % 12 == 7 else age for i, age in enumerate(draw.integers(0, 99, n).tolist())]
    heights = draw.integers(150, 200, n).tolist()
    incomes = np.round(draw.lognormal(7, 1, n), 2).tolist()
    return [(i, *row) for i, row in enumerate(zip(ages, heights, incomes, strict=True))]


def load(database: Database) -> pd.DataFrame:
    types = database.types
    columns = {
        "id": "integer PRIMARY KEY",
        "age": types["integer"],
        "height": types["integer"],
        "income": types["double"],
    }
    database.load("people", columns, rows())
    frame = pd.DataFrame(rows(), columns=list(columns))
    return frame.astype({"age": "Int64"})


def released(database: Database, output: str = "release.people") -> list[tuple[str, ...]]:
    values = database.rows(f"SELECT age, height, income FROM {database.relation(output)}")
    return sorted(tuple(map(str, row)) for row in values)


def of_frame(frame: pd.DataFrame, **options: Any) -> list[tuple[str, ...]]:
    released_frame, _ = dbanon.anonymize_frame(frame, quasi_identifiers=NAMES, k=3, **options)
    released_frame = released_frame.astype(object).where(released_frame.notna(), None)
    return sorted(tuple(map(str, row)) for row in released_frame.to_numpy(object).tolist())


@pytest.mark.in_turn(of="file")
@pytest.mark.parametrize(
    "options",
    [
        {"recode": RECODE},
        {"recode": RECODE, "method": "gaa_cp"},
        {"recode": RECODE, "method": "full_domain", "options": {"suppression": 0.1}},
        {"recode": RECODE, "recoding": "medoid", "evaluate": True},
        {"recode": {**RECODE, "height": [160, 170, 180]}, "method": "local_suppression"},
        {"recode": RECODE, "method": "mondrian", "intervals": "bounds"},
        {"top": {"age": 90, "height": 190}, "bottom": {"age": 18}, "recoding": "median"},
        {"top": {"age": 90}, "recode": {"income": [1000]}, "method": "gaa_cp", "refine": "fast"},
        {"bottom": {"age": 18}, "intervals": "midpoint", "method": "gaa_cp"},
    ],
)
def test_the_same_as_of_a_data_frame(database: Database, options: Mapping[str, Any]) -> None:
    frame = load(database)
    options = {"nulls": "category", "max_suppression": 0.2, **options}
    report = database.anonymize(quasi_identifiers=NAMES, **options)
    assert report.k_achieved >= 3
    for option in ("top", "bottom", "recode"):
        assert report.arguments[option] == options.get(option, {})
    assert "coded before classes are made" in str(report)
    if options.get("intervals") != "bounds":
        assert released(database) == of_frame(frame, **options)
    else:
        columns = database.rows(
            f"SELECT DISTINCT age_low, age_high FROM {database.relation('release.people')}"
            " WHERE age_low IS NOT NULL"
        )
        assert {label for row in columns for label in row} <= {
            *("<0", "0-17", "18-29", "30-44", "45-64", "65+")
        }


GROUPS = {"North": ["N1", "n1", "N'2"], "South": ["S1"], "Other": "*"}
REGIONS = ["N1", "n1", "N'2", "S1", "Ö?%s", None]


def load_regions(database: Database) -> pd.DataFrame:
    columns = {
        "id": "integer PRIMARY KEY",
        "region": database.types["text"],
        "walls": database.types["integer"],
        "zone": database.types["integer"],
    }
    table = [(i, REGIONS[i % 6], i * 5 // 7 % 4, (0, 0, 0, 1, 2, None)[i % 6]) for i in range(120)]
    database.load("people", columns, table)
    return pd.DataFrame(table, columns=list(columns)).astype({"zone": "Int64"})


@pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")
@pytest.mark.parametrize("method", ["mdav", "gaa_cp", "local_suppression"])
def test_groups_of_texts_and_codes(database: Database, method: str) -> None:
    frame = load_regions(database)
    options: dict[str, Any] = {
        "quasi_identifiers": ["region", "walls"],
        "keep": ["zone"],
        "k": 3,
        "method": method,
        "nulls": "category",
        "recode": {"region": GROUPS, "walls": {"wood": [0, 1], "brick": [2, 3]}},
    }
    if method == "mdav":
        options["recoding"] = "representative"
    report = database.anonymize(**options)
    of_frame_rows, of_frame_report = dbanon.anonymize_frame(frame, **options)
    names = "region, walls, zone"
    rows = database.rows(f"SELECT {names} FROM {database.relation('release.people')}")
    labels = {label for row in rows for label in row[:2]}
    assert labels <= {*GROUPS, "wood", "brick", "*", None}
    assert {"North", "wood"} <= labels
    expected = of_frame_rows.astype(object).where(of_frame_rows.notna(), None)
    assert sorted(map(str, rows)) == sorted(map(str, expected.itertuples(index=False, name=None)))
    # What a copied column says of the groups is counted by the groups, in SQL as of a frame.
    findings = [finding.describe(3) for finding in report.findings]
    assert findings == [finding.describe(3) for finding in of_frame_report.findings]
    assert any("region" in finding for finding in findings) == (method != "local_suppression")
    [(arguments,)] = database.rows(f"SELECT arguments FROM {database.ledger()}")
    assert "North" in str(arguments)
    assert "S1" not in str(arguments)
    assert dbanon.verify(database.url, "release.people").unchanged
    with pytest.raises(dbanon.errors.RefreshRefused, match="no values of columns: recode"):
        dbanon.refresh(database.url, "release.people")


def test_values_in_no_group(database: Database) -> None:
    load_regions(database)
    error = refuse(
        database,
        InvalidParameter,
        '"region" has 2 values in 40 rows that no group',
        quasi_identifiers=["region"],
        method="gaa_cp",
        nulls="category",
        recode={"region": {"North": ["N1", "n1"], "South": ["S1"]}},
    )
    assert "N'2" not in f"{error} {error.hint}"


def test_the_recount_refuses_a_value_that_is_no_group(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_regions(database)
    count_values = SqlTarget.count_values

    def count_another(self: SqlTarget, staged_release: Any, name: str) -> dict[str | None, int]:
        counts = count_values(self, staged_release, name)
        return {**counts, "S1": counts.pop("South")}

    monkeypatch.setattr(SqlTarget, "count_values", count_another)
    options: dict[str, Any] = {"quasi_identifiers": ["region"], "nulls": "category", "k": 3}
    options |= {"method": "gaa_cp", "recode": {"region": GROUPS}}
    error = refuse(database, RecountFailed, "have the label of a group", **options)
    assert "S1" not in str(error)


def test_groups_to_another_database(database: Database, make_database: Any) -> None:
    frame = load_regions(database)
    other = make_database("sqlite" if database.name == "duckdb" else "duckdb")
    options: dict[str, Any] = {"quasi_identifiers": ["region"], "method": "gaa_cp", "k": 3}
    options |= {"nulls": "category", "recode": {"region": GROUPS}}
    database.anonymize(target=other.url, **options)
    rows = other.rows(f"SELECT region FROM {other.relation('release.people')}")
    expected, _ = dbanon.anonymize_frame(frame, **options)
    labels = expected["region"].astype(object).where(expected["region"].notna(), None)
    assert sorted(map(str, (label for (label,) in rows))) == sorted(map(str, labels))


def test_groups_in_a_job_file_and_on_the_command_line(database: Database, tmp_path: Path) -> None:
    load_regions(database)
    job = {
        "name": "survey",
        "table": "people",
        "on_new_column": "drop",
        "columns": {"region": {"role": "quasi_identifier"}},
        "k": 3,
        "method": "gaa_cp",
        "nulls": "category",
        "recode": {"region": GROUPS},
        "output": {"table": "release.people"},
    }
    path = tmp_path / "job.yaml"
    path.write_text(
        json.dumps({"version": 1, "source": {"url": database.url}, "jobs": [job]}), encoding="utf-8"
    )
    for command in ("check", "plan", "run"):
        result = CliRunner().invoke(main, [command, str(path), "--allow-inline-password"])
        assert result.exit_code == 0, result.output
    command = ["anonymize", database.url, "--table", "people", "--output", "release.again"]
    command += ["-q", "region", "--k", "3", "--nulls", "category", "--method", "gaa_cp"]
    result = CliRunner().invoke(main, [*command, "--recode", f"region={json.dumps(GROUPS)}"])
    assert result.exit_code == 0, result.output
    of_job, again = (
        database.rows(f"SELECT region, count(*) FROM {database.relation(name)} GROUP BY region")
        for name in ("release.people", "release.again")
    )
    assert sorted(map(str, of_job)) == sorted(map(str, again))
    assert {label for label, _ in again} <= {*GROUPS, "*", None}
    wrong = CliRunner().invoke(main, [*command, "--recode", "region={North: N1}"])
    assert wrong.exit_code == 2
    assert "are not JSON" in wrong.output


def test_no_number_beyond_the_threshold_is_in_the_release(database: Database) -> None:
    load(database)
    database.anonymize(
        quasi_identifiers=NAMES, nulls="category", top={"height": 190}, bottom={"height": 160}
    )
    labels = {height for _, height, _ in released(database)}
    assert {"190+", "<160"} <= labels
    assert all(160 <= int(label) < 190 for label in labels - {"190+", "<160"})
    with_count = database.rows(
        f"SELECT height, count(*) FROM {database.relation('release.people')} GROUP BY height"
    )
    assert all(count >= 3 for _, count in with_count)


def test_a_verified_release(database: Database) -> None:
    load(database)
    database.anonymize(quasi_identifiers=NAMES, nulls="category", recode=RECODE)
    assert dbanon.verify(database.url, "release.people").unchanged
    [(arguments,)] = database.rows(f"SELECT arguments FROM {database.ledger()}")
    recorded = json.loads(arguments) if isinstance(arguments, str) else arguments
    assert recorded["recode"] == RECODE


def test_a_retained_column_that_determines_the_band(database: Database) -> None:
    """What a copied column says of a coded one is counted by its bands, in SQL as of a frame."""
    frame = load(database)
    # The group says the band of the height, and not the height.
    database.execute(
        f"ALTER TABLE {database.relation('people')} ADD COLUMN tall integer",
        f"UPDATE {database.relation('people')} SET tall = CASE WHEN height < 170 THEN 1"
        " WHEN height < 185 THEN 2 ELSE 3 END",
    )
    frame["tall"] = 1 + (frame["height"] >= 170) + (frame["height"] >= 185)
    options: dict[str, Any] = {
        "quasi_identifiers": ["age", "height"],
        "keep": ["tall"],
        "nulls": "category",
        "recode": {"height": [170, 185]},
        "k": 3,
    }
    with pytest.warns(dbanon.errors.PrivacyWarning):
        report = database.anonymize(**options)
    with pytest.warns(dbanon.errors.PrivacyWarning):
        _, of_frame_report = dbanon.anonymize_frame(frame, **options)
    findings = [finding.describe(3) for finding in report.findings]
    assert findings == [finding.describe(3) for finding in of_frame_report.findings]
    assert any("height" in finding for finding in findings)


def test_the_recount_refuses_a_value_that_is_no_label(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(database)
    count_values = SqlTarget.count_values

    def count_another(self: SqlTarget, staged_release: Any, name: str) -> dict[str | None, int]:
        counts = count_values(self, staged_release, name)
        return {**counts, "97": counts.pop("90+")}

    monkeypatch.setattr(SqlTarget, "count_values", count_another)
    options: dict[str, Any] = {"quasi_identifiers": NAMES, "nulls": "category", "k": 3}
    error = refuse(database, RecountFailed, '"age" was coded', top={"age": 90}, **options)
    assert "97" not in str(error)


def test_refusals(database: Database) -> None:
    load(database)
    names: dict[str, Any] = {"quasi_identifiers": NAMES, "nulls": "category"}
    refuse(database, TooFewRecords, '"age" are at or above its highest', top={"age": 97}, **names)
    refuse(database, UnsupportedType, "holds numbers with fractions", top={"income": 9}, **names)
    refuse(database, InvalidParameter, "is neither a quasi-identifier nor", top={"id": 9}, **names)
    refuse(database, InvalidParameter, "do not ascend", recode={"age": [2, 1]}, **names)


def test_spilled_jobs_and_chains_refuse_coding(database: Database, tmp_path: Any) -> None:
    load(database)
    names: dict[str, Any] = {"quasi_identifiers": ["age", "height"], "nulls": "category"}
    refuse(
        database,
        InvalidParameter,
        "cannot use coded columns",
        spill=str(tmp_path),
        block_size=50,
        top={"height": 190},
        **names,
    )
    error = refuse(
        database,
        InvalidParameter,
        'column "height" is coded',
        chain=dbanon.Chain("survey", key=f"file:{tmp_path / 'key'}"),
        entity="id",
        top={"height": 190},
        **names,
    )
    assert "without a chain" in str(error.hint)


def test_to_another_database(database: Database, make_database: Any) -> None:
    frame = load(database)
    other = make_database("sqlite" if database.name == "duckdb" else "duckdb")
    options: dict[str, Any] = {"recode": RECODE, "nulls": "category"}
    database.anonymize(quasi_identifiers=NAMES, target=other.url, **options)
    assert released(other) == of_frame(frame, **options)


def test_a_job_file_its_plan_and_its_refresh(database: Database, tmp_path: Path) -> None:
    frame = load(database)
    job = {
        "name": "survey",
        "table": "people",
        "on_new_column": "drop",
        "columns": {name: {"role": "quasi_identifier"} for name in NAMES},
        "k": 3,
        "nulls": "category",
        "top": {"height": 190},
        "bottom": {"height": 160},
        "recode": RECODE,
        "output": {"table": "release.people"},
    }
    path = tmp_path / "job.yaml"
    path.write_text(
        json.dumps({"version": 1, "source": {"url": database.url}, "jobs": [job]}), encoding="utf-8"
    )
    for command in ("check", "plan", "run"):
        result = CliRunner().invoke(main, [command, str(path), "--allow-inline-password"])
        assert result.exit_code == 0, result.output
    options = {name: job[name] for name in ("top", "bottom", "recode", "nulls")}
    expected = of_frame(frame, **options)
    assert released(database) == expected
    # A release is made again from the ledger's entry.
    dbanon.refresh(database.url, "release.people")
    assert released(database) == expected


def test_the_command_line(database: Database) -> None:
    frame = load(database)
    command = ["anonymize", database.url, "--table", "people", "--output", "release.people"]
    command += ["-q", "age", "-q", "height", "-q", "income", "--k", "3", "--nulls", "category"]
    command += ["--top", "height=190", "--bottom", "height=160", "--recode", "age=0,18,30,45,65"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    options: dict[str, Any] = {"top": {"height": 190}, "bottom": {"height": 160}}
    options |= {"recode": {"age": RECODE["age"]}, "nulls": "category"}
    assert released(database) == of_frame(frame, **options)
    wrong = CliRunner().invoke(main, [*command, "--recode", "income=low"])
    assert wrong.exit_code == 2
    assert "Write numbers, as in --recode age=18,65." in wrong.output
    wrong = CliRunner().invoke(main, [*command, "--top", "income=p100"])
    assert wrong.exit_code == 2
    assert "Write a number or a percentile, as in --top age=2 or age=p99.5." in wrong.output
