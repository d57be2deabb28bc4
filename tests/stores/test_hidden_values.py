"""A reader's attack: published figures stay the same, whatever the values that a release hides.

Two tables differ in one hidden value only, such as the highest income above a coded threshold. All
that readers may have of their releases must be equal: rows, report, page, ledger and summary. If a
figure differed, readers could try values until the figure is theirs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from tests.stores.databases import Database

# An id, a digest, a time, or the number of earlier releases: they differ between any two runs.
_OF_A_RUN = re.compile(
    r"has \d+ of the same source|\b[a-z]+1(:-?\d+)+|\b[0-9a-f]{12}\b|"
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}|\b[0-9a-f]{64}\b|\d{4}-\d\d-\d\d[ T]\d\d:\d\d[\d:.]*\S*"
)
_KEYS_OF_A_RUN = {"release_id", "seconds", "digest", "created_at", "started_at", "counted_at"}
EXTREMES = {"age": (97, 119), "income": (90_000.0, 7_250_000.0)}
CODED = {"top": {"age": 90, "income": 80_000.0}}
CASES: dict[str, Mapping[str, Any]] = {
    "top, median": {**CODED, "recoding": "median", "quasi_identifiers": ["age", "income"]},
    "top, generalized": {**CODED, "method": "gaa_cp"},
    "bands, blanked": {
        "recode": {"age": [0, 30, 60, 90], "income": [20_000, 80_000]},
        "method": "local_suppression",
    },
    "bands, global": {
        "recode": {"age": [0, 30, 60, 90], "income": [20_000, 80_000]},
        "method": "global_recoding",
    },
    "top, copied": {
        **CODED,
        "quasi_identifiers": ["age", "sex"],
        "keep": ["income"],
        "method": "gaa_cp",
    },
    "blanked, where NULL agrees with every value": {
        "recode": {"age": [0, 30, 60, 90], "income": [20_000, 80_000]},
        "method": "local_suppression",
        "options": {"missing": "wildcard"},
    },
    "bands, full domain": {
        "recode": {"age": [0, 30, 60, 90], "income": [20_000, 80_000]},
        "method": "full_domain",
    },
}


def people() -> list[tuple[Any, ...]]:
    """100 persons; the values of the last one are hidden."""
    draw = np.random.default_rng(4)
    rows = [
        (i, int(age), float(income), "fm"[i % 2])
        for i, (age, income) in enumerate(
            zip(draw.integers(18, 90, 96), draw.integers(10, 79, 96) * 1000, strict=True)
        )
    ]
    oldest = [(96 + i, 91 + i, 81_000.0 + i, "f") for i in range(3)]
    return [*rows, *oldest, (99, 94, 85_000.0, "m")]


def load(database: Database) -> None:
    types = database.types
    columns = {
        "id": "integer PRIMARY KEY",
        "age": types["integer"],
        "income": types["double"],
        "sex": types["text"],
    }
    database.load("people", columns, people())


def without_run(value: Any) -> Any:
    """A JSON value without what differs between two runs of one job."""
    if isinstance(value, dict):
        return {k: without_run(v) for k, v in value.items() if k not in _KEYS_OF_A_RUN}
    if isinstance(value, list):
        return [without_run(element) for element in value]
    return _OF_A_RUN.sub("…", value) if isinstance(value, str) else value


def publish(database: Database, extreme: int, options: Mapping[str, Any], folder: Path) -> Any:
    """All that readers may have of a release of the table with this extreme."""
    age, income = EXTREMES["age"][extreme], EXTREMES["income"][extreme]
    table = database.relation("people")
    database.execute(f"UPDATE {table} SET age = {age}, income = {income} WHERE id = 99")
    report = database.anonymize(
        **{"quasi_identifiers": ["age", "income", "sex"], **options},
        evaluate=True,
        if_exists="replace",
        releases="independent",
        seed=3,
    )
    page = folder / f"page{extreme}.html"
    done = CliRunner().invoke(
        main, ["report", database.url, "release.people", "-o", str(page)], env={"COLUMNS": "400"}
    )
    assert done.exit_code == 0, done.output
    return {
        "rows": sorted(
            tuple(map(str, row))
            for row in database.rows(f"SELECT * FROM {database.relation('release.people')}")
        ),
        "report": without_run(json.loads(json.dumps(report.to_dict(), default=str))),
        "text": without_run(
            "\n".join(line for line in str(report).splitlines() if not line.startswith("seconds"))
        ),
        "page": re.sub(r"(?s)<dt>seconds.*?</dd>", "", without_run(page.read_text("utf-8"))),
        "ledger": without_run(dbanon.show(database.url, "release.people")),
    }


@pytest.mark.in_turn(of="file")
@pytest.mark.parametrize("case", CASES)
def test_all_that_is_published_is_the_same(case: str, database: Database, tmp_path: Path) -> None:
    load(database)
    # The first release replaces none, as the other two do.
    publish(database, 0, CASES[case], tmp_path)
    first = publish(database, 0, CASES[case], tmp_path)
    second = publish(database, 1, CASES[case], tmp_path)
    for part, published in first.items():
        assert published == second[part], part


def test_values_that_are_not_hidden_make_a_difference(database: Database, tmp_path: Path) -> None:
    options = {"quasi_identifiers": ["age", "income"], "method": "mdav"}
    load(database)
    first, second = (publish(database, extreme, options, tmp_path) for extreme in (0, 1))
    assert all(first[part] != second[part] for part in ("rows", "report", "page", "ledger"))
