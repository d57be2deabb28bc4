"""Disclosure checks beyond the guarantee: Spark reports and refuses what frames do."""

from __future__ import annotations

import warnings
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

import dbanon
import dbanon.spark
from dbanon.errors import (
    DbanonError,
    EntitySpellingsRefused,
    KeptColumnIdentifies,
    KeptColumnTells,
    KeptIdentifierRefused,
    LinkingColumnRefused,
    PersonsBelowK,
    PrivacyWarning,
    TellingColumnRefused,
    TooFewPersons,
)
from dbanon.extensions.spark.disclosure import ReleasedRows
from dbanon.spark import anonymize_table
from tests.spark.statements import execute
from tests.spark.test_equal_local import in_files, table
from tests.stores import linking, test_persons

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BLOCKS = {"method": "mdav", "block_size": 300, "k": 5}


def codings() -> pd.DataFrame:
    """Columns that recode an age, household numbers, and ordinary ones."""
    frame = pd.DataFrame({name: values for name, (_, values) in linking.COLUMNS.items()})
    frame["some_code"] = frame["some_code"].astype("Int64")
    places = np.arange(len(frame))
    return frame.assign(id=places, place=places * 1.5, signed=np.where(frame["age"] % 2, 0.0, -0.0))


def patients() -> pd.DataFrame:
    """Rows of patients, several each."""
    frame = pd.DataFrame(test_persons.stays(), columns=list(test_persons.TYPES))
    frame["born"] = frame["born"].map(date.fromisoformat)
    return frame


def addresses() -> pd.DataFrame:
    """Identifiers by their form, with an unremarkable name."""
    frame = table(1200)[["id", "x", "place", "z"]]
    return frame.assign(c7=[f"p{i % 40}@example.org" for i in range(1200)])


CODINGS = [*linking.CODINGS, "sex", "visits", "household", "signed", "id"]
QUASI = {"quasi_identifiers": ["age", "height"]}
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "codings": (codings, QUASI | {"keep": CODINGS, "sensitive": ["illness"]}),
    "codings, median": (codings, QUASI | {"keep": CODINGS[:4], "recoding": "median"}),
    "codings, persons": (codings, QUASI | {"keep": CODINGS[3:6], "entity": "household"}),
    "patients": (
        patients,
        {"quasi_identifiers": ["born", "zip"], "keep": ["row_no", "sex"], "key": ["row_no"]},
    ),
    "addresses": (addresses, {"quasi_identifiers": ["x", "z"], "keep": ["c7", "place"]}),
    "holes": (
        lambda: table(1200),
        {
            "quasi_identifiers": ["x", "holed", "town"],
            "keep": ["few", "town_code", "holed_code"],
            "recoding": "representative",
            "nulls": "category",
        },
    ),
}


def with_codes(frame: pd.DataFrame) -> pd.DataFrame:
    if "town" not in frame:
        return frame
    codes = frame["town"].map({t: i for i, t in enumerate(frame["town"].dropna().unique())})
    tens = (frame["holed"] // 10).astype("Int64")
    return frame.assign(town_code=codes.astype("Int64"), holed_code=tens)


def said_of(call: Any) -> tuple[set[tuple[type[Warning], str]], Any]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    warnings_raised = {
        (caught_warning.category, str(caught_warning.message)) for caught_warning in caught
    }  # type: ignore[arg-type]
    return {raised for raised in warnings_raised if issubclass(raised[0], PrivacyWarning)}, result


# The same rows as above, with fewer other columns.
CAMPAIGNS = {"codings, median", "codings, persons"}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.campaign] * (n in CAMPAIGNS)) for n in CASES]
)
def test_findings_are_those_of_a_frame(spark: SparkSession, name: str, tmp_path: Path) -> None:
    make_rows, options = CASES[name]
    frame = with_codes(make_rows())
    options = BLOCKS | options
    key = options.pop("key", ["id"])
    rows = in_files(spark, frame, tmp_path)
    local, (_, of_frame) = said_of(lambda: dbanon.anonymize_frame(frame, **options))
    spark_warnings, (_, report) = said_of(lambda: dbanon.spark.anonymize(rows, key=key, **options))
    spark.catalog.clearCache()
    assert local
    assert spark_warnings == local
    assert report.disclosive_columns == of_frame.disclosive_columns
    assert report.linking == of_frame.linking
    assert report.few_persons == of_frame.few_persons
    assert report.kept_identifiers == of_frame.kept_identifiers
    assert report.homogeneity == of_frame.homogeneity
    assert len(report.homogeneity) == len(options.get("sensitive", ()))
    for key in (
        "disclosive_columns",
        "telling",
        "linking",
        "few_persons",
        "kept_identifiers",
        "homogeneity",
    ):
        assert report.arguments.get(key) == of_frame.arguments.get(key)


def test_counts_read_a_directory_again_but_no_frame(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of a directory are checked for changes. The rows of a frame are counted as packed."""
    was_packed: list[bool] = []

    def hash_rows(rows: ReleasedRows, disk_cache: Any) -> Any:
        was_packed.append(rows.packets is not None)
        return hash_source_rows(rows, disk_cache)

    hash_source_rows = ReleasedRows.hash_source_rows
    monkeypatch.setattr(ReleasedRows, "hash_source_rows", hash_rows)
    make_rows, options = CASES["codings"]
    options = BLOCKS | options | {"key": ["id"]}
    source = tmp_path / "source"
    source.mkdir()
    rows = in_files(spark, with_codes(make_rows()), source)
    _, of_frame = dbanon.spark.anonymize(rows, **options)
    spark.catalog.clearCache()
    released = str(tmp_path / "released")
    of_directory = anonymize_table(spark, str(source), released, **options)
    assert was_packed == [True, False]
    assert of_frame.disclosive_columns == of_directory.disclosive_columns
    assert of_frame.linking == of_directory.linking
    assert of_frame.linking


REFUSED: dict[str, tuple[Any, dict[str, Any], type[DbanonError]]] = {
    "tells": (codings, QUASI | {"keep": ["age_code"]}, LinkingColumnRefused),
    "unique": (codings, QUASI | {"keep": ["place"]}, TellingColumnRefused),
    "identifies": (addresses, {"quasi_identifiers": ["x"], "keep": ["c7"]}, KeptIdentifierRefused),
    "persons": (patients, {"quasi_identifiers": ["born", "zip"], "key": ["row_no"]}, TooFewPersons),
    "spellings": (
        lambda: pd.DataFrame(
            {"id": range(80), "p": [f"{'pP'[i % 2]}{i // 2}" for i in range(80)], "x": range(80)}
        ),
        {"quasi_identifiers": ["x"], "entity": "p"},
        EntitySpellingsRefused,
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_strict_turns_warnings_into_refusals(
    spark: SparkSession, name: str, tmp_path: Path
) -> None:
    make_rows, options, error = REFUSED[name]
    frame, options = make_rows(), BLOCKS | options | {"strict": True}
    key = options.pop("key", ["id"])
    with pytest.raises(error) as local:
        dbanon.anonymize_frame(frame, **options)
    rows = in_files(spark, frame, tmp_path)
    spark.catalog.clearCache()
    with pytest.raises(error) as refused:
        dbanon.spark.anonymize(rows, key=key, **options)
    assert str(refused.value) == str(local.value)
    # Nothing is left on the executors' disks.
    assert not spark.sparkContext._jsc.getPersistentRDDs()


def test_a_strict_release_without_findings_succeeds(spark: SparkSession, tmp_path: Path) -> None:
    rows = in_files(spark, codings(), tmp_path)
    options = BLOCKS | QUASI | {"keep": ["sex", "visits"], "sensitive": ["illness"]}
    _, report = dbanon.spark.anonymize(rows, key=["id"], strict=True, **options)
    assert report.findings == ()
    assert report.arguments["disclosive_columns"] == []


def test_a_sample_proves_that_values_differ(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dbanon.release.attribute_disclosure.MAX_FULLY_COUNTED_ROWS", 100)
    frame = codings().assign(height=lambda rows: rows["id"] * 7.5)
    rows = in_files(spark, frame, tmp_path)
    options = BLOCKS | QUASI | {"keep": ["place", "decade", "sex"]}
    spark_warnings, (_, report) = said_of(
        lambda: dbanon.spark.anonymize(rows, key=["id"], **options)
    )
    # In at least nine rows of ten, as databases report; a height in a single row determines
    # nothing.
    assert [
        (finding.name, finding.determines, finding.share) for finding in report.disclosive_columns
    ] == [("place", None, 0.9)]
    assert [finding.codes for finding in report.linking] == ["age"]
    assert len(spark_warnings) == 2


def test_a_table_of_postgresql_is_looked_at_in_its_snapshot(
    spark: SparkSession, pg_url: str
) -> None:
    """The entity column is not released, and no other column of the source is read."""
    execute(
        pg_url,
        "CREATE TABLE stays AS SELECT i AS id, i / 6 AS patient_id, 18 + i / 6 * 7 % 70 AS age,"
        " 100 * sin(i / 6) AS pay, 'p' || i % 400 || '@example.org' AS c7, i AS other"
        " FROM generate_series(1, 1500) AS i; ALTER TABLE stays ADD PRIMARY KEY (id)",
    )
    options: dict[str, Any] = {
        "quasi_identifiers": ["age", "pay"],
        "k": 5,
        "keep": ["c7"],
        "block_size": 500,
    }
    named = {"table": "stays", "output": "release.stays"}
    options |= {"releases": "independent"}
    spark_warnings, report = said_of(
        lambda: anonymize_table(spark, pg_url, pg_url, **options, **named)
    )
    local, of_sql = said_of(
        lambda: dbanon.anonymize(pg_url, **options, table="stays", output="release.again")
    )
    kinds = {KeptColumnIdentifies, PersonsBelowK}
    assert {category for category, _ in spark_warnings} >= kinds
    assert {raised for raised in spark_warnings if raised[0] in kinds} == {
        raised for raised in local if raised[0] in kinds
    }
    assert report.few_persons == of_sql.few_persons
    assert report.not_copied == ("id", "patient_id", "other")
    columns = "SELECT column_name::text FROM information_schema.columns"
    columns += " WHERE table_schema = 'release' AND table_name = 'stays' ORDER BY 1"
    assert execute(pg_url, columns) == [("age",), ("c7",), ("pay",)]
    [(arguments,)] = execute(
        pg_url, "SELECT arguments FROM dbanon.release WHERE relation_name = 'stays'"
    )
    assert arguments["few_persons"] == [vars(finding) for finding in report.few_persons]
    [release] = [
        release_entry
        for release_entry in dbanon.releases(pg_url)
        if release_entry.output.endswith("stays")
    ]
    assert release
    execute(pg_url, "DROP TABLE release.stays")
    with pytest.raises(KeptIdentifierRefused):
        anonymize_table(spark, pg_url, pg_url, **options, **named, strict=True)
    assert execute(pg_url, "SELECT to_regclass('release.stays') IS NULL") == [(True,)]


def test_types_that_have_no_hash_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    rows = in_files(spark, table(1200), tmp_path)
    source_rows = rows.selectExpr(
        "id",
        "x",
        "z",
        "map('a', id % 3) AS m",
        "parse_json(cast(id AS string)) AS v",
        "array(place, NULL) AS l",
        "named_struct('p', place) AS s",
    )
    options = BLOCKS | {"quasi_identifiers": ["x", "z"], "keep": ["m", "l", "s"]}
    with warnings.catch_warnings():
        warnings.simplefilter("error", KeptColumnTells)
        _, report = dbanon.spark.anonymize(source_rows, key=["id"], **options)
    assert report.disclosive_columns == ()
