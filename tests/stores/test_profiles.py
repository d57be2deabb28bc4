"""The profile hipaa, checked on a table with all 18 kinds of identifiers of Safe Harbor."""

from __future__ import annotations

import datetime
import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from click.testing import CliRunner

import dbanon
from dbanon.advice.safe_harbor import KINDS, first_birth_year
from dbanon.doors.cli.main import main
from dbanon.errors import InvalidParameter, ProfileBroken, PseudonymsNotHere
from dbanon.job.zip_codes import ZipAreas
from tests.stores.databases import ALL_NAMES, Database
from tests.stores.refusal import refuse

DATABASES = ALL_NAMES

N_ROWS = 120
YEAR = datetime.datetime.now(datetime.UTC).year
# By letter of 45 CFR 164.514(b)(2)(i): columns of the kind, their type, and values by row.
COLUMNS: dict[str, list[tuple[str, str, Any]]] = {
    "A": [
        ("patient_name", "text", lambda i: f"Name {i}"),
        ("employer_name", "text", lambda i: f"Firm {i % 4}"),
    ],
    "B": [
        ("zip3", "text", lambda i: f"{100 + i % 3}"),
        ("street_address", "text", lambda i: f"{i} High St"),
        ("county", "text", lambda i: "ABC"[i % 3]),
        ("latitude", "double", lambda i: 40 + i % 7 / 8),
    ],
    "C": [
        ("admission", "date", lambda i: datetime.date(2020, 1, 1 + i % 28)),
        ("discharge_date", "text", lambda i: f"2020-02-{1 + i % 28:02}"),
        ("birth_month", "integer", lambda i: 1 + i % 12),
        ("age", "integer", lambda i: 40 + i % 60),
        ("birth_year", "integer", lambda i: YEAR - 40 - i % 60),
    ],
    "D": [("home_phone", "text", lambda i: f"212-555-{i:04}")],
    "E": [("fax", "text", lambda i: f"212-556-{i:04}")],
    "F": [("email", "text", lambda i: f"p{i}@example.org")],
    "G": [("ssn", "text", lambda i: f"123-45-{i:04}")],
    "H": [("mrn", "integer", lambda i: 7000 + i)],
    "I": [("member_id", "integer", lambda i: 5000 + i)],
    "J": [("account_no", "integer", lambda i: 9000 + i)],
    "K": [("license_number", "text", lambda i: f"L{i}")],
    "L": [("license_plate", "text", lambda i: f"AB {i}")],
    "M": [("device_serial", "text", lambda i: f"S{i}")],
    "N": [("website", "text", lambda i: f"https://example.org/{i}")],
    "O": [("ip_address", "text", lambda i: f"10.0.0.{i}")],
    "P": [("fingerprint", "text", lambda i: f"arch {i}")],
    "Q": [("photo", "text", lambda i: f"{i}.jpg")],
    "R": [
        ("id", "integer", lambda i: i),
        ("encounter_id", "integer", lambda i: 100 + i),
        # Only values show what this is.
        ("contact", "text", lambda i: f"q{i}@example.org"),
    ],
}
# What a release may have.
ALLOWED: list[tuple[str, str, Any]] = [
    ("state", "text", lambda i: ["NY", "NJ"][i % 2]),
    ("admission_year", "integer", lambda i: 2015 + i % 4),
    ("height", "integer", lambda i: 150 + i % 40),
    ("diagnosis", "text", lambda i: ["flu", "cold", "gout"][i % 3]),
    ("phone_type", "text", lambda i: ["home", "work"][i % 2]),
]
BROKEN = [(letter, column) for letter, columns in COLUMNS.items() for column in columns]
# Columns that can be coded, by the rule for which they need it.
CODED = ("age", "birth_year")


def load(database: Database) -> pd.DataFrame:
    columns = [column for _, column in BROKEN] + ALLOWED
    rows = [tuple(value(i) for _, _, value in columns) for i in range(N_ROWS)]
    types = {
        name: "integer PRIMARY KEY" if name == "id" else database.types[sql_type]
        for name, sql_type, _ in columns
    }
    database.load("people", types, rows)
    return pd.DataFrame(rows, columns=list(types))


def options(**others: Any) -> dict[str, Any]:
    return {
        "quasi_identifiers": ["height", "admission_year"],
        "sensitive": ["diagnosis"],
        "k": 3,
        "profile": "hipaa",
        **others,
    }


def test_there_are_18_kinds() -> None:
    letters = [chr(ord("A") + i) for i in range(18)]
    assert sorted({kind.letter for kind in KINDS}) == letters == list(COLUMNS)


@pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")
def test_all_kinds_are_refused_by_name(database: Database) -> None:
    frame = load(database)
    names = [name for _, (name, _, _) in BROKEN]
    error = refuse(database, ProfileBroken, **options(keep=names))
    assert error.detail is not None
    for letter, (name, _, _) in BROKEN:
        assert f'olumn "{name}": ({letter}) ' in error.detail
    # No allowed column is named, and no value.
    for name in ("height", "admission_year", "diagnosis", "example.org", "High St"):
        assert name not in f"{error} {error.detail}"
    with pytest.raises(ProfileBroken) as refused:
        dbanon.anonymize_frame(frame, **options(keep=names))
    assert refused.value.detail == error.detail
    # Without the profile, the job is not refused.
    database.anonymize(**options(keep=["county"], profile=None))


@pytest.mark.in_turn
@pytest.mark.parametrize(("letter", "column"), BROKEN, ids=[column[0] for _, column in BROKEN])
def test_each_kind_is_refused_in_any_role(
    database: Database, letter: str, column: tuple[str, str, Any]
) -> None:
    load(database)
    name = column[0]
    categories = {"method": "gaa_cp", "recoding": "generalization", "sensitive": []}
    for roles in (
        {"keep": [name]},
        {"sensitive": [name]},
        {"by": [name], "max_suppression": 1.0},
        {**categories, "quasi_identifiers": ["height", name]},
    ):
        error = refuse(database, ProfileBroken, **options(**roles))
        assert error.detail is not None
        assert error.detail.startswith(f'Column "{name}": ({letter}) ')
        assert "column" not in error.detail


def test_pseudonyms_are_refused(database: Database, tmp_path: Path) -> None:
    load(database)
    key = tmp_path / "key"
    key.write_text("0123456789abcdef" * 4, encoding="utf-8")
    key.chmod(0o600)
    names = options(pseudonyms=["phone_type"], pseudonym_key=f"file:{key}")
    if database.name == "mariadb":
        refuse(database, PseudonymsNotHere, **names)
        return
    assert "pseudonyms are derived" in str(refuse(database, ProfileBroken, **names).detail)


def test_columns_of_a_frame_whose_values_are_not_examined() -> None:
    frame = pd.DataFrame(
        {
            "height": np.arange(40),
            "scan": [b"GIF"] * 40,
            "waited": pd.to_timedelta(np.arange(40), "s"),
            "on": [datetime.date(2020, 1, 1)] * 40,
            "moment": pd.Timestamp("2020-01-01"),
            "kind": pd.Categorical(["a", "b"] * 20),
        }
    )
    job: dict[str, Any] = {"quasi_identifiers": ["height"], "k": 3, "profile": "hipaa"}
    with pytest.raises(ProfileBroken) as refused:
        dbanon.anonymize_frame(frame, keep=["scan", "waited", "on", "moment", "kind"], **job)
    assert refused.value.detail == (
        'Column "scan": its type is one whose values are not examined;'
        ' column "waited": its type is one whose values are not examined;'
        ' column "on": (C) elements of dates other than the year;'
        ' column "moment": (C) elements of dates other than the year.'
    )
    released, _ = dbanon.anonymize_frame(frame, keep=["kind"], **job)
    assert list(released) == ["height", "kind"]


@pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")
def test_what_is_allowed_is_released(database: Database) -> None:
    load(database)
    report = database.anonymize(
        **options(
            quasi_identifiers=["age", "birth_year", "height", "admission_year"],
            keep=["state", "phone_type"],
            top={"age": 90},
            bottom={"birth_year": first_birth_year(YEAR)},
            method="gaa_cp",
        )
    )
    assert report.arguments["profile"] == "hipaa"
    assert "hipaa: names, types and first values" in str(report)
    released = database.rows(f"SELECT age, birth_year FROM {database.relation('release.people')}")
    assert len(released) == N_ROWS
    for age, birth_year in released:
        numbers = [int(number) for number in re.findall("[0-9]+", str(age))]
        assert max(numbers, default=0) < 90 or str(age).endswith("90+")
        assert max(numbers, default=0) <= 90
        years = [int(number) for number in re.findall("[0-9]+", str(birth_year))]
        assert min(years, default=YEAR) >= first_birth_year(YEAR)


@pytest.mark.in_turn(of="file")
@pytest.mark.parametrize(
    ("name", "coding"),
    [
        ("age", {"top": {"age": 91}}),
        ("age", {"bottom": {"age": 50}}),
        ("age", {"recode": {"age": [50, 95]}}),
        ("birth_year", {"bottom": {"birth_year": first_birth_year(YEAR) - 1}}),
        ("birth_year", {"top": {"birth_year": YEAR - 50}}),
        ("birth_year", {"recode": {"birth_year": [YEAR - 95, YEAR - 50]}}),
    ],
)
def test_coding_that_does_not_suffice(
    database: Database, name: str, coding: dict[str, Any]
) -> None:
    load(database)
    error = refuse(database, ProfileBroken, **options(quasi_identifiers=[name, "height"], **coding))
    assert str(error.detail).startswith(f'Column "{name}": (C) ')


@pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")
@pytest.mark.parametrize(
    "coding",
    [
        {"top": {"age": 85}, "recode": {"birth_year": [first_birth_year(YEAR), YEAR - 60]}},
        {"recode": {"age": [50, 90], "birth_year": [YEAR - 80]}},
    ],
)
def test_coding_that_suffices(database: Database, coding: dict[str, Any]) -> None:
    load(database)
    names = ["age", "birth_year", "height"]
    assert database.anonymize(**options(quasi_identifiers=names, **coding)).k_achieved >= 3


def test_a_job_file(database: Database, tmp_path: Path) -> None:
    load(database)
    columns = {
        "height": {"role": "quasi_identifier"},
        "admission_year": {"role": "quasi_identifier"},
        "diagnosis": {"role": "sensitive"},
        "county": {"role": "keep", "reason": "needed"},
    }
    job: dict[str, Any] = {
        "name": "survey",
        "table": "people",
        "on_new_column": "drop",
        "columns": columns,
        "k": 3,
        "profile": "hipaa",
        "output": {"table": "release.people"},
    }
    path = tmp_path / "job.yaml"

    def run(command: str) -> Any:
        file = {"version": 1, "source": {"url": database.url}, "jobs": [job]}
        path.write_text(json.dumps(file), encoding="utf-8")
        return CliRunner().invoke(main, [command, str(path), "--allow-inline-password"])

    for command in ("plan", "run"):
        result = run(command)
        assert result.exit_code == 3, result.output
        assert '"county": (B) geographic parts smaller than a state' in result.output
    del columns["county"]
    for command in ("check", "plan", "run"):
        result = run(command)
        assert result.exit_code == 0, result.output
    assert len(database.rows(f"SELECT * FROM {database.relation('release.people')}")) == N_ROWS
    # A release is made again from the ledger's entry, with its profile.
    report = dbanon.refresh(database.url, "release.people")
    assert report.arguments["profile"] == "hipaa"


def test_chains_refuse_a_profile(database: Database, tmp_path: Path) -> None:
    load(database)
    chain = dbanon.Chain("survey", key=f"file:{tmp_path / 'key'}")
    error = refuse(database, InvalidParameter, "of one table", **options(chain=chain, entity="id"))
    assert "without a chain" in str(error.hint)


@pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")
def test_the_proposed_job_keeps_the_rules(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(database)
    # A proposed file has this variable in place of a password.
    monkeypatch.setenv("DBANON_URL", database.url)
    arguments = [database.url, "--table", "people", "--k", "3", "--profile", "hipaa"]
    proposed = CliRunner().invoke(main, ["init", *arguments])
    assert proposed.exit_code == 0, proposed.output
    job = yaml.safe_load(proposed.output)["jobs"][0]
    assert job["profile"] == "hipaa"
    assert job["top"] == {"age": 90}
    assert job["bottom"] == {"birth_year": first_birth_year(YEAR)}
    assert "chain" not in job
    released = {
        name
        for name, column in job["columns"].items()
        if column["role"] not in ("drop", "identifier")
    }
    assert released == {*CODED, *(name for name, _, _ in ALLOWED)}
    path = tmp_path / "job.yaml"
    path.write_text(proposed.output, encoding="utf-8")
    for command in ("check", "plan", "run"):
        result = CliRunner().invoke(main, [command, str(path), "--allow-inline-password"])
        assert result.exit_code == 0, result.output


@pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")
def test_advice_keeps_the_rules(database: Database) -> None:
    frame = load(database)
    options: dict[str, Any] = {"profile": "hipaa", "k": [3, 4], "methods": ["gaa_cp"]}
    advice = dbanon.advise(database.url, "people", **options)
    assert advice.start["top"] == {"age": 90}
    assert advice.start["bottom"] == {"birth_year": first_birth_year(YEAR)}
    assert advice.chain is None
    names = {*advice.start["quasi_identifiers"], *advice.start["sensitive"]}
    assert names == {*CODED, *(name for name, _, _ in ALLOWED)}
    report = dbanon.anonymize(database.url, **advice.start)
    assert report.arguments["profile"] == "hipaa"
    # The trials were made with the coded values. Their records may be in another order.
    assert advice.recommendation is not None
    assert report.information_loss == pytest.approx(advice.recommendation.point.loss, rel=0.05)
    of_frame = dbanon.advise(frame, **options)
    _, frame_report = dbanon.anonymize_frame(frame, **of_frame.start)
    assert frame_report.arguments["profile"] == "hipaa"


def test_advice_refuses_named_columns_of_the_kinds(database: Database) -> None:
    load(database)
    cases: list[dict[str, Any]] = [
        {"quasi_identifiers": ["age", "county"]},
        {"quasi_identifiers": ["age"], "sensitive": ["county"]},
    ]
    for names in cases:
        with pytest.raises(ProfileBroken) as refused:
            dbanon.advise(database.url, "people", profile="hipaa", k=[3, 4], **names)
        assert refused.value.detail is not None
        assert '"county": (B)' in refused.value.detail
        assert "age" not in refused.value.detail


ZIP_CODES = ["10001", "10002-1234", "03601", "036011234", "100", "99999", "K1A 0B1", None]
POPULATIONS = [("10001", 15_000), ("10002", 6_000), ("03601", 20_000), ("10101", None)]


def load_zip_codes(
    database: Database, populations: Any = POPULATIONS, zip_name: str = "zip"
) -> Any:
    rows = [(i, ZIP_CODES[i % 8], 150 + i % 40) for i in range(N_ROWS)]
    types = {"id": "integer", "zip": "text", "height": "integer"}
    database.load("people", {name: database.types[kind] for name, kind in types.items()}, rows)
    kinds = {zip_name: database.types["text"], "population": database.types["integer"]}
    database.load("census", kinds, populations)
    return partial(
        dbanon.anonymize,
        database.url,
        table="people",
        quasi_identifiers=["zip"],
        k=3,
        output="released",
        method="gaa_cp",
        nulls="category",
        profile="hipaa",
        zip_population="census",
    )


def released_zip_codes(database: Database) -> dict[Any, int]:
    rows = database.rows(f"SELECT zip, count(*) FROM {database.relation('released')} GROUP BY zip")
    return {value: int(count) for value, count in rows}


def test_zip_codes_become_areas_of_more_than_20000(database: Database) -> None:
    load_zip_codes(database)()
    each = N_ROWS // 8
    assert released_zip_codes(database) == {"100": 3 * each, "000": 4 * each, None: each}


def test_populations_of_areas_and_their_limit(database: Database) -> None:
    load_zip_codes(database, [("100", 20_000), ("036", 20_001)], "zip3")()
    each = N_ROWS // 8
    assert released_zip_codes(database) == {"036": 2 * each, "000": 5 * each, None: each}


@pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")
def test_copied_zip_codes_and_numbers_are_refused(database: Database) -> None:
    release = load_zip_codes(database)
    with pytest.raises(ProfileBroken, match="hipaa") as refused:
        release(quasi_identifiers=["zip", "height"], zip_population=None)
    assert "with zip_population" in str(refused.value.detail)
    with pytest.raises(InvalidParameter, match="No quasi-identifier holds ZIP codes"):
        release(quasi_identifiers=["height"], keep=["zip"])


def test_people_are_counted_once(database: Database) -> None:
    for twice in ([("10001", 15_000)] * 2, [("100", 9), ("10001", 9)], [("10x", 30_000)], []):
        database.execute("DROP TABLE IF EXISTS people", "DROP TABLE IF EXISTS census")
        with pytest.raises(InvalidParameter, match="one row per ZIP code"):
            load_zip_codes(database, twice)()


def test_labels_show_no_smaller_area() -> None:
    areas = ZipAreas(("zip",), frozenset({"100"}))
    for text, is_label in (
        ("100", True),
        ("000", True),
        ("{000, 100}", True),
        ("*", True),
        ("1**", True),
        ("101", False),
        ("10001", False),
        ("{100, 101}", False),
    ):
        assert areas.is_label(text) == is_label
    assert [areas.code(text) for text in ("10001", " 100 ", "1000", "10101", "")] == [
        "100",
        "100",
        "000",
        "000",
        "000",
    ]


@pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")
def test_ema_bounds_the_risk_and_refuses_direct_identifiers(database: Database) -> None:
    frame = load(database)
    ema = {"profile": "ema", "k": 11}
    with pytest.raises(ProfileBroken, match=r"0\.09, and with k = 10"):
        dbanon.anonymize_frame(frame, **options(profile="ema", k=10))
    direct = [name for letter, (name, _, _) in BROKEN if letter not in "BC"]
    quasi_identifying = [name for letter, (name, _, _) in BROKEN if letter in "BC"]
    error = refuse(database, ProfileBroken, **options(keep=[*direct, *quasi_identifying], **ema))
    for name in direct:
        assert f'olumn "{name}": a direct identifier (' in str(error.detail)
    for name in quasi_identifying:
        assert f'olumn "{name}": others may know' in str(error.detail)
    for name in ("height", "admission_year", "diagnosis", "example.org", "High St"):
        assert name not in f"{error} {error.detail}"
    named = ["height", "age", "birth_year"]
    report = dbanon.anonymize_frame(frame, **options(quasi_identifiers=named, **ema))[1]
    assert report.k_achieved >= 11
