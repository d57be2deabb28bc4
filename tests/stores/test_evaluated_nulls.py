"""A run's own evaluation takes merged cells as suppressed, as the evaluation of its file does."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dbanon
from tests.stores.databases import ALL_NAMES, Database

DATABASES = ALL_NAMES

NAMES = ["a", "b", "site"]
OPTIONS: dict[str, Any] = {
    "quasi_identifiers": NAMES,
    "k": 5,
    "nulls": "merge",
    "evaluate": True,
    "keep": ["id"],
}
pytestmark = pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")


def frame() -> pd.DataFrame:
    """Two rows lack ``a`` and three ``site``; others lack more."""
    rng = np.random.default_rng(1)
    n = 120
    sites = pd.Series([f"site {i % 4}" for i in range(n)], dtype=object)
    table = pd.DataFrame(
        {
            "id": range(1, n + 1),
            "a": rng.normal(50, 10, n).round(1),
            "b": rng.normal(5, 2, n).round(2),
            "site": sites,
        }
    )
    table.loc[:1, "a"] = np.nan
    table.loc[2:11, ["a", "b"]] = np.nan
    table.loc[12:14, "site"] = None
    table.loc[15:24, ["b", "site"]] = None
    return table


def load(database: Database, table: pd.DataFrame) -> None:
    kinds = {"id": "integer", "a": "double", "b": "double", "site": "text"}
    types = {name: database.types[kind] for name, kind in kinds.items()}
    rows = [
        [None if pd.isna(value) else value for value in row]
        for row in table.itertuples(index=False)
    ]
    database.load("people", types, rows)


def released(database: Database, names: list[str]) -> pd.DataFrame:
    columns = ", ".join(["id", *names])
    rows = database.rows(f"SELECT {columns} FROM {database.relation('release.people')}")
    return pd.DataFrame(rows, columns=["id", *names]).sort_values("id")


def require_same(figures_json: Any, expected: dbanon.Evaluation) -> None:
    assert figures_json["suppressed_cells"] == expected.suppressed_cells
    parts = {"losses": expected.losses, "risks": expected.risks}
    pairs = [(figures_json[kind], figures) for kind, figures in parts.items()]
    pairs += [
        (figures_json["columns"][name], figures) for name, figures in expected.columns.items()
    ]
    for figures_found, figures in pairs:
        # None says nothing that is near to anything.
        assert {n for n, value in figures.items() if value is None} == {
            n for n, value in figures_found.items() if value is None
        }
        assert {
            n: value for n, value in figures_found.items() if value is not None
        } == pytest.approx(
            {n: value for n, value in figures.items() if value is not None}, rel=1e-9
        )


@pytest.mark.in_turn(of="file")
@pytest.mark.parametrize(("method", "names"), [("gaa_cp", NAMES), ("mdav", NAMES[:2])])
def test_a_run_evaluates_as_its_file_is_evaluated(
    database: Database, method: str, names: list[str]
) -> None:
    table = frame()
    load(database, table)
    report = database.anonymize(**(OPTIONS | {"quasi_identifiers": names}), method=method)
    cells = sum(report.suppressed_cells.values())
    assert cells >= 2
    assert report.internal is not None
    assert report.evaluation is not None
    expected = dbanon.evaluate(table, released(database, names), quasi_identifiers=names, key="id")
    require_same(report.internal.evaluation, expected)
    assert report.evaluation["suppressed_cells"] == expected.suppressed_cells == cells
    recorded = dbanon.show(database.url, "release.people")["evaluation"]
    assert recorded == json.loads(json.dumps(report.evaluation))


@pytest.mark.parametrize("extreme", [1e6, -1e6])
def test_published_figures_reveal_no_suppressed_value(extreme: float) -> None:
    """Those of another value differ by no more than one row can decide of."""
    table = frame()[["id", "a", "b"]]
    options = OPTIONS | {"quasi_identifiers": ["a", "b"]}
    other = table.copy()
    other.loc[0, "b"] = extreme
    releases = []
    for data in (table, other):
        rows, report = dbanon.anonymize_frame(data, **options, method="mdav")
        assert report.suppressed_cells == {"b": 2}
        assert report.evaluation is not None
        releases.append((rows.sort_values("id", ignore_index=True), report.evaluation))
    assert releases[0][0].equals(releases[1][0])
    assert releases[0][1]["losses"] == releases[1][1]["losses"]
    for name, risk in releases[0][1]["risks"].items():
        assert risk is None or abs(risk - releases[1][1]["risks"][name]) <= 0.1, name


def test_a_value_that_a_built_tree_lacks_is_left_out() -> None:
    table = frame()
    table.loc[12:14, "site"] = "site 0"
    table["rare"] = table["site"].fillna("site 0")
    table.loc[2:11, "rare"] = None
    table.loc[0:1, "rare"] = "nowhere else"
    rows, report = dbanon.anonymize_frame(
        table,
        **(OPTIONS | {"quasi_identifiers": ["a", "b", "rare"]}),
        method="gaa_cp",
        hierarchies={"rare": {"mask": True}},
    )
    assert report.suppressed_cells["rare"] == 2
    assert report.evaluation is not None
    assert report.evaluation["suppressed_cells"] < sum(report.suppressed_cells.values())
    assert len(rows) == len(table)
