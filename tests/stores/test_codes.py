"""Numbers that are codes: recognized, treated as categories, and never averaged without a word."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import CodesAveraged, InvalidParameter, UnsupportedType
from tests.stores.databases import Database, DuckdbDatabase

NAMES = ["age", "marital"]
CODES = (1, 3, 4)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", CodesAveraged)
        yield


def rows(n: int = 200) -> list[tuple[int, int, int]]:
    """Ages and marital status: 1, 3 or rarely 4, and never 2."""
    rng = np.random.default_rng(7)
    codes = rng.choice(CODES, n, p=[0.48, 0.48, 0.04])
    return [(i, int(rng.integers(18, 40)), int(code)) for i, code in enumerate(codes)]


def load(database: Database) -> None:
    integer = database.types["integer"]
    columns = {"id": "integer PRIMARY KEY", "age": integer, "marital": integer}
    database.load("people", columns, rows())


def released(database: Database) -> list[Any]:
    return [
        v for (v,) in database.rows(f"SELECT marital FROM {database.relation('release.people')}")
    ]


@pytest.mark.in_turn(of="file")
def test_releasing_a_code_that_no_record_has_warns(database: Database) -> None:
    load(database)
    with pytest.warns(CodesAveraged, match='"marital" is a code, and was averaged') as caught:
        report = database.anonymize(quasi_identifiers=NAMES, k=5)
    strange = sum(int(value) not in CODES for value in released(database))
    assert strange > 0
    assert report.arguments["averaged_codes"] == {"marital": strange}
    [text] = [str(warning.message) for warning in caught if warning.category is CodesAveraged]
    assert f"{strange} rows are released with a code that does not occur in the source" in text
    assert any("is a code" in text for text in report.warning_texts)
    assert "CODES AVERAGED" in dict(report.rows())


@pytest.mark.in_turn(of="file")
def test_a_number_that_is_an_amount_is_averaged(database: Database) -> None:
    load(database)
    report = database.anonymize(quasi_identifiers=NAMES, k=5, kinds={"marital": "numeric"})
    assert "averaged_codes" not in report.arguments
    with pytest.raises(InvalidParameter, match="kinds"):
        database.anonymize(quasi_identifiers=NAMES, k=5, kinds={"marital": "ordered"})
    with pytest.raises(InvalidParameter, match='"id", named in `kinds`, is not a quasi-identifier'):
        database.anonymize(quasi_identifiers=NAMES, k=5, kinds={"id": "nominal"})


@pytest.mark.in_turn(of="file")
@pytest.mark.parametrize("options", [{"method": "gaa_cp"}, {"recoding": "representative"}], ids=str)
def test_a_nominal_number_is_a_category(database: Database, options: dict[str, Any]) -> None:
    """The release is that of the same codes as texts."""
    load(database)
    kinds = {"marital": "nominal"}
    report = database.anonymize(quasi_identifiers=NAMES, k=5, kinds=kinds, **options)
    counts = Counter(map(str, released(database)))
    assert set(counts) <= {*map(str, CODES), "*"}
    assert dbanon.verify(database.url, "release.people").k_achieved >= 5
    frame = pd.DataFrame(rows(), columns=["id", *NAMES])
    frame["marital"] = frame["marital"].astype(str)
    texts, same = dbanon.anonymize_frame(frame, quasi_identifiers=NAMES, k=5, **options)
    assert Counter(texts["marital"]) == counts
    assert report.information_loss == same.information_loss
    assert report.arguments["kinds"] == kinds


@pytest.mark.in_turn(of="file")
def test_methods_of_numbers_refuse_a_nominal_column(database: Database) -> None:
    load(database)
    with pytest.raises(UnsupportedType, match='"marital"'):
        database.anonymize(
            quasi_identifiers=NAMES, k=5, method="mdav", kinds={"marital": "nominal"}
        )


@pytest.mark.in_turn(of="file")
def test_advice_and_a_job_file_treat_codes_as_categories(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DBANON_URL", database.url)
    load(database)
    advice = dbanon.advise(database.url, "people", k=[5, 6])
    assert advice.start["kinds"] == {"marital": "nominal"}
    assert advice.start["method"] == "gaa_cp"
    assert advice.rules["marital"] == {"role": "quasi_identifier", "kind": "nominal"}
    runner = CliRunner()
    done = runner.invoke(main, ["init", database.url, "--table", "people"])
    assert "marital: {role: quasi_identifier, kind: nominal}" in done.stdout
    file = tmp_path / "job.yaml"
    # No chain: its key is not there.
    text = done.stdout.replace("    chain: ", "    # chain: ").replace(
        "    entity: ", "    # entity: "
    )
    text = text.replace("    expect: ", "    # expect: ")
    file.write_text(text)
    done = runner.invoke(main, ["run", str(file)])
    assert done.exit_code == 0, done.stderr
    assert set(map(str, released(database))) <= {*map(str, CODES), "*"}


@pytest.mark.in_turn(of="file")
def test_the_command_line_says_and_takes_it(database: Database) -> None:
    load(database)
    words = ["anonymize", database.url, "--table", "people", "-q", "age", "-q", "marital"]
    words += ["--k", "5", "--output", "release.people", "--format", "json"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0
    assert 'Warning: column "marital" is a code, and was averaged' in done.stderr
    words += ["--kind", "marital=nominal", "--method", "gaa_cp", "--if-exists", "replace"]
    words += ["--releases", "independent"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.stderr
    assert "is a code" not in done.stderr
    assert json.loads(done.stdout)["arguments"]["kinds"] == {"marital": "nominal"}


def test_a_rule_says_that_a_column_is_a_code(duckdb_file: DuckdbDatabase) -> None:
    load(duckdb_file)
    rule = {"role": "quasi_identifier", "kind": "nominal"}
    dbanon.declare(
        duckdb_file.url, "people", {"id": "identifier", "age": "quasi_identifier", "marital": rule}
    )
    report = dbanon.anonymize(
        duckdb_file.url,
        table="people",
        output="release.people",
        k=5,
        method="gaa_cp",
        declared=True,
    )
    assert report.arguments["kinds"] == {"marital": "nominal"}
    with pytest.raises(InvalidParameter, match="one of nominal, numeric"):
        dbanon.declare(duckdb_file.url, "people", {"marital": rule | {"kind": "ordered"}})


def test_frames_keep_the_type_of_codes() -> None:
    frame = pd.DataFrame(rows(), columns=["id", *NAMES])
    options: dict[str, Any] = {"quasi_identifiers": NAMES, "k": 5, "kinds": {"marital": "nominal"}}
    released_frame, _ = dbanon.anonymize_frame(frame, recoding="representative", **options)
    assert released_frame["marital"].dtype == frame["marital"].dtype
    assert set(released_frame["marital"]) <= set(CODES)
    with pytest.raises(UnsupportedType, match="not a number, so it cannot be numeric"):
        dbanon.anonymize_frame(
            frame.assign(marital="x"), **(options | {"kinds": {"marital": "numeric"}})
        )
    assert dbanon.partition(
        frame[NAMES], 5, method="gaa_cp", kinds={"marital": "nominal"}
    ).n_classes


def test_numbers_of_other_names_are_averaged_without_a_word() -> None:
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"age": rng.integers(18, 90, 60), "number_of_rooms": [1, 9] * 30})
    dbanon.anonymize_frame(frame, quasi_identifiers=list(frame), k=5)


def roles(frame: pd.DataFrame) -> dict[str, tuple[str, str]]:
    advice = dbanon.advise(frame, k=[5], methods=["gaa_cp"])
    return {c.column.name: (c.role.role, c.role.reason) for c in advice.columns}


def test_a_survey_is_read_as_one() -> None:
    rng = np.random.default_rng(3)
    n = 240
    frame = pd.DataFrame(
        {
            "hhid": np.arange(n) // 4,
            "household_no": np.arange(n) // 4 + 1000,
            "hhsize": rng.integers(1, 9, n),
            "age": rng.integers(0, 95, n),
            "walls": rng.integers(1, 5, n),
            "water": rng.integers(1, 9, n),
            "relation_to_head": rng.integers(1, 8, n),
            "familienstand": rng.integers(1, 6, n),
            "water_bill": rng.integers(10, 900, n),
            "number_of_walls": rng.integers(2, 9, n),
            "sampling_weight": rng.gamma(2, 300, n),
            "fnlwgt": rng.integers(10_000, 900_000, n),
            "body_weight": rng.normal(75, 12, n).round(1),
        }
    )
    roles_by_column = roles(frame)
    code, value = ("quasi_identifier", "code"), ("quasi_identifier", "values")
    assert roles_by_column["hhid"] == roles_by_column["household_no"] == ("identifier", "household")
    assert (
        roles_by_column["sampling_weight"]
        == roles_by_column["fnlwgt"]
        == ("not_copied", "design_weight")
    )
    for name in ("walls", "water", "relation_to_head", "familienstand"):
        assert roles_by_column[name] == code
    for name in ("hhsize", "age", "water_bill", "number_of_walls", "body_weight"):
        assert roles_by_column[name] == value
