"""The disclosure risk of a release in a database next to that of its source."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import (
    ColumnNotFound,
    DbanonError,
    InvalidParameter,
    OriginalChanged,
    UnknownOption,
    UnsupportedType,
)
from tests.stores.databases import ALL_NAMES, Database, DuckdbDatabase

DATABASES = ALL_NAMES
COLUMNS = {
    "id": "integer",
    "age": "integer",
    "region": "text",
    "height": "decimal",
    "home": "integer",
    "w": "double",
}
NAMES = ["age", "region", "height"]
USE = "For the controller of the data, not for publication."


@pytest.fixture
def duckdb(tmp_path: Path) -> Database:
    return DuckdbDatabase(tmp_path / "survey.duckdb")


def load_survey(database: Database) -> None:
    """Create the table survey: 120 persons in 40 households, some of them alike, with weights."""
    rows = [
        (
            i,
            20 + i * 7 % 6,
            None if i % 9 == 0 else f"qz{i % 4}",
            [Decimal("1.5"), Decimal("2.25")][i % 2],
            i // 3,
            10.5 + i % 3,
        )
        for i in range(120)
    ]
    columns = {name: database.types[kind] for name, kind in COLUMNS.items()}
    columns["id"] += " PRIMARY KEY"
    database.load("survey", columns, rows)


def release(database: Database, **options: Any) -> Any:
    arguments: dict[str, Any] = {
        "table": "survey",
        "quasi_identifiers": NAMES,
        "k": 4,
        "method": "gaa_cp",
        "nulls": "category",
        "design_weight": "w",
    }
    return database.anonymize(**(arguments | options))


def evaluate(database: Database, **options: Any) -> dbanon.ReleaseEvaluation:
    return dbanon.evaluate_release(database.url, "release.people", original="survey", **options)


def figures(risk: Any) -> dict[tuple[str, str | None, str | None], float | None]:
    return {
        (measure, column, note): figure for measure, column, figure, note in risk.measure_rows()
    }


def compare(database: Database, released: str = "release.people", **options: Any) -> Any:
    """Measure the same by the function for samples, which reads rows by their keys."""
    arguments = {"quasi_identifiers": NAMES, "weight": "w", "released": released}
    return dbanon.disclosure_risk(database.url, "survey", **(arguments | options))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"household": "home", "suda": True},
        {"missing": "wildcard", "risk_method": "approximate"},
    ],
)
def test_it_has_the_figures_of_the_function_for_samples(
    database: Database, options: dict[str, Any]
) -> None:
    load_survey(database)
    release(database)
    evaluation = evaluate(database, risk=options)
    assert evaluation.risk is not None
    assert figures(evaluation.risk) == pytest.approx(figures(compare(database, **options)))
    document = json.loads(json.dumps(evaluation.to_dict()))
    assert document["risk"]["before"]["basis"] == document["risk"]["after"]["basis"] == "weights"
    assert dict(evaluation.risk.pairs())["use"] == USE
    assert "qz" not in f"{evaluation.risk}{document}"


def test_bounds_strata_and_named_columns(database: Database) -> None:
    load_survey(database)
    release(database, intervals="bounds", by=["region"], quasi_identifiers=["age", "height"])
    by_all = evaluate(database, risk={})
    assert by_all.risk is not None
    assert figures(by_all.risk) == pytest.approx(figures(compare(database)))
    by_age = evaluate(database, risk={"quasi_identifiers": ["age"], "sampling_fraction": 0.1})
    assert by_age.risk is not None
    expected = compare(database, quasi_identifiers=["age"], weight=None, sampling_fraction=0.1)
    assert figures(by_age.risk) == pytest.approx(figures(expected))


def test_views_need_no_key(database: Database) -> None:
    """Rows are not paired, so nothing has to identify them."""
    load_survey(database)
    release(database)
    survey = database.relation("survey")
    database.execute(f"CREATE VIEW {database.relation('seen')} AS SELECT * FROM {survey}")
    of_view = dbanon.evaluate_release(database.url, "release.people", original="seen", risk={})
    assert of_view.risk is not None
    assert figures(of_view.risk) == pytest.approx(figures(compare(database)))


def test_withheld_rows_are_part_of_the_difference(database: Database) -> None:
    load_survey(database)
    release(database, nulls="suppress", max_suppression=0.5, design_weight=None)
    risk: Any = evaluate(database, risk={"weight": "w"}).risk
    assert (risk.before.records, risk.after.records) == (120, 106)
    assert (risk.before.basis, risk.after.basis) == ("weights", "sampling_fraction")


def test_the_ledger_and_other_evaluations_have_none_of_it(database: Database) -> None:
    load_survey(database)
    release(database)
    before = dbanon.show(database.url, "release.people", internal=True)
    assert "risk" not in evaluate(database).to_dict()
    evaluate(database, risk={})
    assert dbanon.show(database.url, "release.people", internal=True) == before


def test_persons_with_several_rows_are_refused(database: Database) -> None:
    load_survey(database)
    release(database, entity="home", design_weight=None)
    with pytest.raises(InvalidParameter, match="persons have several rows"):
        evaluate(database, risk={})
    release(database, entity="id", design_weight=None, output="release.rows")
    of_rows = dbanon.evaluate_release(database.url, "release.rows", original="survey", risk={})
    assert of_rows.risk is not None


def test_spellings_of_one_person_are_one_person(database: Database) -> None:
    load_survey(database)
    survey, text = database.relation("survey"), database.types["text"]
    p_and_id = "concat('p-', id)" if database.name == "mariadb" else "'p-' || id"
    database.execute(
        f"ALTER TABLE {survey} ADD COLUMN pid {text}",
        f"UPDATE {survey} SET pid = CASE WHEN id = 2 THEN 'P-1' ELSE {p_and_id} END",
    )
    release(database, entity="pid", entity_normalize="casefold", design_weight=None)
    with pytest.raises(InvalidParameter, match="persons have several rows"):
        evaluate(database, risk={})


@pytest.mark.parametrize(
    ("risk", "error", "words"),
    [
        ({"wieght": "w"}, UnknownOption, 'Did you mean "weight"'),
        ({"released": "other"}, UnknownOption, "Known options: quasi_identifiers, weight"),
        ({"weight": "nothing"}, ColumnNotFound, "nothing"),
        ({"quasi_identifiers": ["age"], "weight": "region"}, UnsupportedType, "region"),
        ({"threshold": 2}, InvalidParameter, "risk.threshold must be"),
        ({"suda_size": 9}, InvalidParameter, "Leave out risk.suda_size"),
        ({"quasi_identifiers": []}, InvalidParameter, '"quasi_identifiers": ["…"]'),
        ({"quasi_identifiers": ["home"]}, ColumnNotFound, "none of the quasi-identifiers"),
        ([], InvalidParameter, "must be an object"),
    ],
)
def test_wrong_options(duckdb: Database, risk: Any, error: type[DbanonError], words: str) -> None:
    load_survey(duckdb)
    release(duckdb)
    with pytest.raises(error) as refused:
        evaluate(duckdb, risk=risk)
    assert words in str(refused.value)
    assert "qz" not in str(refused.value)


def test_the_original_is_needed_and_unchanged(duckdb: Database) -> None:
    load_survey(duckdb)
    release(duckdb)
    with pytest.raises(InvalidParameter, match="needs the original"):
        dbanon.evaluate_release(duckdb.url, "release.people", risk={})
    duckdb.execute(f"DELETE FROM {duckdb.relation('survey')} WHERE id = 3")
    with pytest.raises(OriginalChanged):
        evaluate(duckdb, risk={})
    assert evaluate(duckdb, risk={}, changed_source=True).risk is not None


@pytest.mark.parametrize("role", [{"design_weight": "w"}, {"design_weight": None, "entity": "id"}])
def test_another_original_needs_the_columns_of_the_job(
    duckdb: Database, role: dict[str, str | None]
) -> None:
    """Without them, other figures than those of the release would be compared."""
    load_survey(duckdb)
    release(duckdb, **role)
    columns = ", ".join(f'"{name}"' for name in NAMES)
    survey = duckdb.relation("survey")
    duckdb.execute(f"CREATE VIEW {duckdb.relation('seen')} AS SELECT {columns} FROM {survey}")
    with pytest.raises(ColumnNotFound, match="seen has no column"):
        dbanon.evaluate_release(
            duckdb.url, "release.people", original="seen", risk={}, changed_source=True
        )


def test_the_command_says_whose_figures_they_are(duckdb: Database) -> None:
    load_survey(duckdb)
    release(duckdb)
    command = ["evaluate", duckdb.url, "release.people", "--original", "survey", "--risk"]
    result = CliRunner().invoke(main, [*command, "{}"])
    assert result.exit_code == 0, result.output
    title = "Disclosure risk, for the controller of the data, not for publication"
    # Titles are wrapped to the width of their tables.
    assert title in " ".join(result.output.split())
    assert "expected re-identifications" in result.output
    assert "qz" not in result.output
    options = '{"household": "home"}'
    document = json.loads(CliRunner().invoke(main, [*command, options, "--format", "json"]).stdout)
    risk: Any = evaluate(duckdb, risk={"household": "home"}).risk
    assert document["risk"] == json.loads(json.dumps(risk.to_dict()))
    for wrong in ("{", "[1]"):
        assert CliRunner().invoke(main, [*command, wrong]).exit_code == 2
    missing = CliRunner().invoke(main, ["evaluate", duckdb.url, "release.people", "--risk", "{}"])
    assert missing.exit_code == 2
    assert "--original TABLE" in missing.output
