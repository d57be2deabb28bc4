from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dbanon.doors.cli.demo_data import generate_persons

Persons = dict[str, NDArray[Any]]

KINDS = {
    "person_id": "i",
    "full_name": "U",
    "email": "U",
    "national_id": "U",
    "birth_date": "M",
    "sex": "U",
    "region": "U",
    "site": "U",
    "education": "U",
    "occupation": "U",
    "marital_status": "U",
    "household_size": "i",
    "height_cm": "i",
    "weight_kg": "f",
    "income": "i",
    "commute_km": "f",
    "visits": "i",
    "diagnosis": "U",
    "note": "U",
}


@pytest.fixture(scope="module")
def persons() -> Persons:
    return generate_persons(20_000, seed=7)


@pytest.fixture(scope="module")
def age(persons: Persons) -> NDArray[np.float64]:
    days = (np.datetime64("2025-01-01") - persons["birth_date"]).astype(np.int64)
    years: NDArray[np.float64] = days / 365.2425
    return years


def correlation(x: NDArray[Any], y: NDArray[Any]) -> float:
    return float(np.corrcoef(x.astype(float), y.astype(float))[0, 1])


def test_columns_have_their_type_and_length(persons: Persons) -> None:
    assert {name: column.dtype.kind for name, column in persons.items()} == KINDS
    assert {column.shape for column in persons.values()} == {(20_000,)}
    assert persons["birth_date"].dtype == np.dtype("datetime64[D]")
    assert persons["person_id"].dtype == persons["visits"].dtype == np.int64


@pytest.mark.parametrize("n", [0, 1, 2])
def test_small_tables(n: int) -> None:
    small = generate_persons(n, seed=1)
    assert {name: column.dtype.kind for name, column in small.items()} == KINDS
    assert {len(column) for column in small.values()} == {n}


def test_a_negative_number_is_refused() -> None:
    with pytest.raises(ValueError, match="number of persons"):
        generate_persons(-1, seed=1)


def test_the_seed_decides() -> None:
    first, again, other = (generate_persons(500, seed=seed) for seed in (3, 3, 4))
    for name in KINDS:
        np.testing.assert_array_equal(first[name], again[name])
        assert not np.array_equal(first[name], other[name])


@pytest.mark.parametrize("name", ["person_id", "national_id", "email"])
def test_identifiers_are_distinct_and_invented(persons: Persons, name: str) -> None:
    assert len(np.unique(persons[name])) == 20_000
    assert all(address.isascii() for address in persons["email"])
    assert np.all(np.char.endswith(persons["email"], "@example.org"))
    assert np.all(np.char.startswith(persons["national_id"], "ZZ-"))
    assert np.all(np.char.str_len(persons["national_id"]) == 12)


def test_row_order_tells_nothing(persons: Persons, age: NDArray[np.float64]) -> None:
    assert abs(correlation(persons["person_id"], np.arange(20_000))) < 0.03
    assert abs(correlation(persons["person_id"], age)) < 0.03


def test_values_are_in_believable_ranges(persons: Persons, age: NDArray[np.float64]) -> None:
    assert age.min() >= 18
    assert age.max() <= 95
    assert 140 <= persons["height_cm"].min() <= persons["height_cm"].max() <= 215
    assert 30 < persons["weight_kg"].min() <= persons["weight_kg"].max() < 250
    np.testing.assert_array_equal(persons["weight_kg"], np.round(persons["weight_kg"], 1))
    assert persons["income"].min() > 0
    assert 20_000 < np.median(persons["income"]) < 45_000
    # Skewed to the right, as incomes are.
    assert np.mean(persons["income"]) > 1.05 * np.median(persons["income"])
    assert 1 <= persons["household_size"].min() <= persons["household_size"].max() <= 9
    assert persons["commute_km"].min() == 0
    assert persons["commute_km"].max() <= 150.1
    assert persons["visits"].min() == 0


def test_numeric_columns_are_correlated(persons: Persons, age: NDArray[np.float64]) -> None:
    assert correlation(persons["height_cm"], persons["weight_kg"]) > 0.3
    assert correlation(persons["height_cm"], persons["sex"] == "male") > 0.5
    assert correlation(persons["visits"], age) > 0.1
    assert correlation(persons["household_size"], age) < -0.1
    without_work = np.isin(persons["occupation"], ["student", "unemployed", "retired"])
    np.testing.assert_array_equal(persons["commute_km"] == 0, without_work)


def test_categories_follow_age_and_income(persons: Persons, age: NDArray[np.float64]) -> None:
    def mean_income(column: str, value: str) -> float:
        return float(persons["income"][persons[column] == value].mean())

    def mean_age(column: str, value: str) -> float:
        return float(age[persons[column] == value].mean())

    assert mean_income("education", "doctorate") > 1.5 * mean_income("education", "lower secondary")
    assert mean_income("occupation", "medicine") > 2 * mean_income("occupation", "retail")
    assert mean_income("region", "Capital") > 1.1 * mean_income("region", "Mountains")
    assert mean_age("occupation", "retired") > 65 > 28 > mean_age("occupation", "student")
    assert mean_age("marital_status", "widowed") > mean_age("marital_status", "married")
    assert mean_age("marital_status", "married") > mean_age("marital_status", "single")
    assert age[persons["education"] == "doctorate"].min() >= 27


def test_weight_follows_age_and_education(persons: Persons, age: NDArray[np.float64]) -> None:
    index = persons["weight_kg"] / (persons["height_cm"] / 100) ** 2

    def mean(column: str, value: str) -> float:
        return float(index[(persons[column] == value) & (age > 30)].mean())

    assert mean("education", "lower secondary") > mean("education", "doctorate") + 1
    assert mean("sex", "male") > mean("sex", "female") + 0.4
    assert index[(age > 55) & (age < 65)].mean() > index[age < 25].mean() + 2


def test_each_site_lies_in_one_region(persons: Persons) -> None:
    pairs = set(zip(persons["site"], persons["region"], strict=True))
    assert len(pairs) == len(np.unique(persons["site"])) == 18


def test_the_diagnosis_depends_on_age_and_weight(
    persons: Persons, age: NDArray[np.float64]
) -> None:
    index = persons["weight_kg"] / (persons["height_cm"] / 100) ** 2
    assert 24 < index.mean() < 28
    healthy = persons["diagnosis"] == "none"
    assert 0.25 < healthy.mean() < 0.6
    diabetic = persons["diagnosis"] == "diabetes type 2"
    assert index[diabetic].mean() > index[healthy].mean() + 1.5
    assert age[diabetic].mean() > age[healthy].mean() + 5
    # A rare and delicate one: too few for a release by that value alone.
    assert 0 < (persons["diagnosis"] == "HIV infection").mean() < 0.01


def test_the_note_names_the_person(persons: Persons) -> None:
    assert np.all(np.char.startswith(persons["note"], persons["full_name"]))
