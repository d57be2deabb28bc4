"""Classes in which all rows share one sensitive value are counted, reported and warned of."""

from __future__ import annotations

import json
import warnings
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import HomogeneousClasses
from dbanon.release.homogeneity import ClassHomogeneity
from tests.stores import chain_cases
from tests.stores.databases import Database, DuckdbDatabase

N = 240
RNG = np.random.default_rng(11)
AGE = RNG.integers(18, 60, N).tolist()
# Case matters under any collation, and NULL is a value, too.
ILL = [("flu", "Flu", "cough", None)[i] for i in RNG.choice(4, N, p=[0.6, 0.1, 0.1, 0.2])]
COSTS = [float(cost) for cost in RNG.choice([10.5, 20.25], N, p=[0.9, 0.1])]
OPTIONS: dict[str, Any] = {"quasi_identifiers": ["age"], "sensitive": ["ill", "costs"], "k": 4}
# The text about homogeneous classes in a report, by format.
REPORT_TEXTS = {
    "html": "&#34;ill&#34; has one value in all rows",
    "txt": '"ill" has one value in all rows',
    "json": '{\n  "homogeneity": [',
}
MODEL = dbanon.Model("distinct_l", "ill", 2)


def load(database: Database) -> None:
    kinds = {"id": "integer", "age": "integer", "ill": "text", "costs": "double"}
    types = {name: database.types.get(kind, kind) for name, kind in kinds.items()}
    database.load("people", types, list(zip(range(N), AGE, ILL, COSTS, strict=True)))


def by_definition(
    rows: list[tuple[Any, ...]], names: tuple[str, ...] = ("ill", "costs")
) -> tuple[ClassHomogeneity, ...]:
    """The class and sensitive values of each row, counted in plain Python."""
    classes: defaultdict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    for shared, *values in rows:
        classes[shared].append(tuple(values))
    expected = []
    for index, name in enumerate(names):
        homogeneous = [
            members for members in classes.values() if len({row[index] for row in members}) == 1
        ]
        expected.append(
            ClassHomogeneity(name, len(homogeneous), sum(map(len, homogeneous)), len(classes), N)
        )
    return tuple(expected)


@pytest.mark.in_turn(of="file")
def test_counted_on_what_was_written(database: Database) -> None:
    load(database)
    with pytest.warns(HomogeneousClasses) as caught:
        report = database.anonymize(**OPTIONS, table="people", output="release.people")
    relation = database.relation("release.people")
    expected = by_definition(database.rows(f"SELECT age, ill, costs FROM {relation}"))
    assert report.homogeneity == expected
    assert 0 < expected[0].classes < expected[0].of_classes
    texts = [str(warning.message) for warning in caught if warning.category is HomogeneousClasses]
    assert texts == [f"Column {text}." for text in report.homogeneous]
    assert "flu" not in str(report).lower()
    [(arguments,)] = database.rows(f"SELECT arguments FROM {database.ledger()}")
    recorded = json.loads(arguments) if isinstance(arguments, str) else arguments
    assert [
        ClassHomogeneity(**recorded_column) for recorded_column in recorded["homogeneity"]
    ] == list(expected)
    assert dbanon.show(database.url, "release.people")["arguments"] == recorded


@pytest.mark.in_turn(of="file")
def test_a_column_with_a_model_is_counted_and_not_warned_of(database: Database) -> None:
    load(database)
    with warnings.catch_warnings():
        warnings.simplefilter("error", HomogeneousClasses)
        report = database.anonymize(
            **OPTIONS | {"sensitive": ["ill"]},
            models=[MODEL],
            table="people",
            output="release.people",
        )
    [homogeneity] = report.homogeneity
    assert (homogeneity.classes, homogeneity.rows, homogeneity.of_rows) == (0, 0, report.rows_out)
    assert report.homogeneous == ()
    assert ("homogeneous classes", f'"ill": {homogeneity.describe_counts()}') in report.pairs()


@pytest.mark.in_turn(of="file")
def test_persons_and_strata(database: Database) -> None:
    """Classes are those of released values within strata, and rows are counted."""
    load(database)
    report = database.anonymize(
        **OPTIONS | {"sensitive": ["ill"]}, by=["costs"], table="people", output="release.people"
    )
    relation = database.relation("release.people")
    rows = [
        ((age, costs), ill)
        for age, ill, costs in database.rows(f"SELECT age, ill, costs FROM {relation}")
    ]
    assert report.homogeneity == by_definition(rows, ("ill",))


def test_a_frame_and_its_filter() -> None:
    frame = pd.DataFrame({"age": AGE, "ill": ILL, "costs": COSTS})
    with pytest.warns(HomogeneousClasses, match='"ill" has one value in all rows of a class'):
        released, report = dbanon.anonymize_frame(frame, **OPTIONS)
    plain = released.astype(object).where(released.notna(), None)
    rows = list(plain[["age", "ill", "costs"]].itertuples(index=False, name=None))
    assert report.homogeneity == by_definition(rows)
    report_json = report.to_dict()
    assert next(iter(report_json)) == "homogeneity"
    assert report_json["homogeneity"][0] == vars(report.homogeneity[0])
    assert [text for label, text in report.pairs() if label == "HOMOGENEOUS CLASSES"] == list(
        report.homogeneous
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", HomogeneousClasses)
        with pytest.raises(HomogeneousClasses):
            dbanon.anonymize_frame(frame, **OPTIONS)


def test_nothing_is_counted_without_a_sensitive_column_or_classes_of_rows() -> None:
    frame = pd.DataFrame({"age": AGE, "ill": ILL, "costs": COSTS})
    _, report = dbanon.anonymize_frame(frame, quasi_identifiers=["age"], keep=["ill"], k=4)
    assert (report.homogeneity, "homogeneity" in report.arguments) == ((), False)
    options = OPTIONS | {"method": "individual_ranking", "guarantee": "per_attribute"}
    with pytest.warns(dbanon.errors.RowsNotAnonymous):
        _, report = dbanon.anonymize_frame(frame, **options)
    assert report.homogeneity == ()


def test_an_error_filter_leaves_no_release(duckdb_file: DuckdbDatabase) -> None:
    load(duckdb_file)
    before = duckdb_file.relations()
    with warnings.catch_warnings():
        warnings.simplefilter("error", HomogeneousClasses)
        with pytest.raises(HomogeneousClasses):
            duckdb_file.anonymize(**OPTIONS, table="people", output="release.people")
    assert duckdb_file.relations() == before


def test_every_form_of_the_command_says_it(duckdb_file: DuckdbDatabase, tmp_path: Path) -> None:
    load(duckdb_file)
    words_of_source = [
        "--table",
        "people",
        "--quasi-identifiers",
        "age",
        "--sensitive",
        "ill",
        "--k",
        "4",
    ]
    for form in ("html", "txt", "json"):
        report_path = tmp_path / f"report.{form}"
        where = ["--output", f"release.{form}", "--report", str(report_path)]
        completed = CliRunner().invoke(
            main, ["anonymize", duckdb_file.url, *words_of_source, *where]
        )
        assert completed.exit_code == 0, completed.output
        assert 'Warning: column "ill" has one value in all rows of a class' in completed.stderr
        assert REPORT_TEXTS[form] in report_path.read_text(encoding="utf-8")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    top = page[: page.index("<nav")]
    assert "homogeneous classes" in top
    assert "Classes reveal a sensitive value." in page


@pytest.mark.in_turn(of="file")
def test_a_chain_says_it_once_it_is_published(database: Database, tmp_path: Path) -> None:
    """A refusal would depend on which value each person of a class has."""
    persons = {
        person: (*row[:3], "flu" if person % 5 else row[3], row[4])
        for person, row in chain_cases.Months().now.items()
    }
    chain_cases.load(database, persons)
    chained = chain_cases.Chained.create(database, tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error", HomogeneousClasses)
        with pytest.raises(HomogeneousClasses, match='"ill" has one value'):
            chained.release()
    assert [release["sequence"] for release in chained.show().releases] == [1]
    report = chained.release()
    columns = f"SELECT age, income, ill FROM {database.relation('release.people')}"
    rows = [((age, income), ill) for age, income, ill in database.rows(columns)]
    [expected] = by_definition(rows, ("ill",))
    assert report.homogeneity == (replace(expected, of_rows=report.rows_out),)
    assert expected.classes


def test_a_chain_that_is_released_into_another_database_says_it(
    duckdb_file: DuckdbDatabase, tmp_path: Path
) -> None:
    persons = {
        person: (*row[:3], "flu", row[4]) for person, row in chain_cases.Months().now.items()
    }
    chain_cases.load(duckdb_file, persons)
    chained = chain_cases.Chained.create(duckdb_file, tmp_path)
    with pytest.warns(HomogeneousClasses, match='"ill" has one value'):
        chained.release(target=f"duckdb:///{tmp_path / 'elsewhere.duckdb'}")
