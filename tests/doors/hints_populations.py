"""Hints about tables of populations: cases as in ``run_steps``."""

from __future__ import annotations

from functools import partial
from typing import Any

import pandas as pd

import dbanon
from tests.doors.run_steps import Acts, K, N, Runs, case


def _zip_clinic(world: Runs) -> Any:
    """A clinic whose patients have ZIP codes, and what releases them by a table of populations."""
    clinic = world.clinic()
    rows = [("10001" if i % 2 else "03601", 20 + i % 5) for i in range(N)]
    clinic.table("patients", "zip TEXT, size INTEGER", rows)
    clinic.table("census", "zip TEXT, population INTEGER", [("10001", 90000), ("03601", 900)])
    options = {"quasi_identifiers": ["zip"], "method": "gaa_cp", "profile": "hipaa"}
    return clinic, partial(clinic.anonymize, table="patients", **options)


@case('Use `profile="hipaa"`, or leave out `zip_population`.')
def populations_without_a_profile(world: Runs) -> Acts:
    _, release = _zip_clinic(world)
    yield lambda: release(zip_population="census", profile=None)
    yield lambda: release(zip_population="census")
    yield lambda: release(profile=None)


@case("Leave out `zip_population`, or name a column of texts such as zip.")
def populations_without_zip_codes(world: Runs) -> Acts:
    _, release = _zip_clinic(world)
    yield lambda: release(zip_population="census", quasi_identifiers=["size"])
    yield lambda: release(quasi_identifiers=["size"])
    yield lambda: release(zip_population="census", quasi_identifiers=["size", "zip"])


@case("Leave out the hierarchy (`hierarchies`), or `zip_population`.")
def zip_codes_with_a_hierarchy(world: Runs) -> Acts:
    _, release = _zip_clinic(world)
    hierarchies = {"zip": {"mask": [1]}}
    yield lambda: release(zip_population="census", hierarchies=hierarchies)
    yield lambda: release(zip_population="census")
    yield lambda: release(hierarchies=hierarchies, profile=None)


@case("Leave out the groups (`recode`), or `zip_population`.")
def zip_codes_with_groups(world: Runs) -> Acts:
    _, release = _zip_clinic(world)
    groups = {"zip": {"A": ["10001"], "B": "*"}}
    yield lambda: release(zip_population="census", recode=groups)
    yield lambda: release(zip_population="census")
    yield lambda: release(recode=groups, profile=None)


@case("Name a table with each ZIP code, or each area, once: `zip_population`.")
def populations_that_count_twice(world: Runs) -> Acts:
    clinic, release = _zip_clinic(world)
    clinic.table("twice", "zip TEXT, population INTEGER", [("10001", 9000), ("10001", 19000)])
    yield lambda: release(zip_population="twice")
    yield lambda: release(zip_population="census")
    clinic.table("areas", "zip3 TEXT, population INTEGER", [("100", 9000), ("036", 30000)])
    yield lambda: release(zip_population="areas")


@case("Name a table with these columns, or a view that names them so: `zip_population`.")
def populations_of_other_columns(world: Runs) -> Acts:
    clinic, release = _zip_clinic(world)
    clinic.table("codes", "code TEXT, people INTEGER", [("10001", 90000)])
    yield lambda: release(zip_population="codes")
    yield lambda: release(zip_population="census")
    clinic.run("CREATE VIEW named AS SELECT code AS zip, people AS population FROM codes")
    yield lambda: release(zip_population="named")


@case("As numbers, ZIP codes lose their first zeros. Cast the columns in a view, and name")
def populations_of_numbers(world: Runs) -> Acts:
    clinic, release = _zip_clinic(world)
    clinic.table("numbers", "zip INTEGER, population INTEGER", [(10001, 90000), (3601, 9)])
    yield lambda: release(zip_population="numbers")
    clinic.run("CREATE TABLE texts (zip TEXT, population INTEGER)")
    clinic.run("INSERT INTO texts SELECT printf('%05d', zip), population FROM numbers")
    clinic.run("CREATE VIEW cast_codes AS SELECT * FROM texts")
    yield lambda: release(zip_population="cast_codes")


@case("Release from a database, or leave out `zip_population` and the ZIP codes.")
def populations_of_a_frame(world: Runs) -> Acts:
    _, release = _zip_clinic(world)
    frame = pd.DataFrame({"zip": ["10001"] * N, "size": range(N)})
    options: dict[str, Any] = {"k": K, "method": "gaa_cp", "profile": "hipaa"}
    yield lambda: dbanon.anonymize_frame(
        frame, quasi_identifiers=["zip", "size"], zip_population="census", **options
    )
    yield lambda: release(zip_population="census")
    yield lambda: dbanon.anonymize_frame(frame, quasi_identifiers=["size"], **options)
