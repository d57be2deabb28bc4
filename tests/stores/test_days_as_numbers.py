"""Days written as integers: statistics computed from them are not days, and dbanon warns."""

from __future__ import annotations

import warnings
from datetime import date, timedelta

import pandas as pd
import pytest

import dbanon
from dbanon.errors import DaysAsNumbers
from tests.stores.databases import Database

DAYS = [int(f"{date(2019, 1, 1) + timedelta(days=n * 7 % 365):%Y%m%d}") for n in range(40)]


def warned(numbers: list[int], **options: object) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dbanon.anonymize_frame(
            pd.DataFrame({"seen": numbers}), quasi_identifiers=["seen"], k=5, **options
        )
    return [str(warning.message) for warning in caught if warning.category is DaysAsNumbers]


@pytest.mark.parametrize("recoding", ["mean", "median", "generalization"])
def test_days_as_numbers_are_warned_of(recoding: str) -> None:
    [message] = warned(DAYS, recoding=recoding)
    assert 'Column "seen" holds days as numbers' in message
    assert not any(str(day) in message for day in DAYS)


@pytest.mark.parametrize(
    ("numbers", "options"),
    [
        (DAYS, {"recoding": "medoid"}),
        (DAYS, {"hierarchies": {"seen": {"intervals": [10_000, 100_000]}}, "method": "gaa_cp"}),
        ([*DAYS[:-1], 20191301], {}),
        ([*DAYS[:-1], 7], {}),
        ([20190101] * 40, {}),
    ],
)
def test_other_numbers_and_values_of_records_are_not(
    numbers: list[int], options: dict[str, object]
) -> None:
    assert warned(numbers, **options) == []


def test_databases_warn_too(database: Database) -> None:
    database.load("stays", {"seen": database.types["integer"]}, [(day,) for day in DAYS])
    database.make_schema("release")
    with pytest.warns(DaysAsNumbers, match="not be valid days"):
        database.anonymize(
            table="stays", quasi_identifiers=["seen"], output="release.stays", method="mdav"
        )
