"""Analyses of readers on a release in a database: as on the same tables in memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import ColumnNotFound, DbanonError, HierarchyNotFound, TableNotFound
from tests.stores.databases import ALL_NAMES, Database, PostgresqlDatabase

DATABASES = ALL_NAMES
TREE = {"tree": {"*": {"north": ["n1", "n2"], "south": ["s1", "s2"]}}}
COLUMNS = {
    "id": "integer",
    "age": "integer",
    "income": "decimal",
    "size": "double",
    "region": "text",
    "vote": "text",
    "w": "double",
}
REQUEST: dict[str, Any] = {
    "weight": "w",
    "analyses": [
        {"mean": "income", "by": "region"},
        {"total": "income"},
        {"quantiles": "age", "probabilities": [0.1, 0.5, 0.9]},
        {"gini": "income"},
        {"correlation": ["age", "income"]},
        {"rare": "region", "below": 0.25},
        {"table": ["region", "vote"]},
        {"regression": "income", "on": ["age", "size", "region"]},
        {"regression": "vote", "on": ["age"], "model": "logistic", "event": "yes"},
        {"classify": "vote", "by": ["age", "region"]},
    ],
}


def rows_of_survey(n: int = 120) -> list[tuple[Any, ...]]:
    rng = np.random.default_rng(5)
    ages = rng.integers(18, 90, n)
    regions = rng.choice(["n1", "n2", "s1", "s2"], n)
    return [
        (
            i,
            int(ages[i]),
            round(float(rng.lognormal(8, 0.5)), 2),
            None if i == 7 else round(float(rng.normal(170, 10)), 3),
            None if i == 9 else str(regions[i]),
            ["yes", "no", "maybe"][int(ages[i] + rng.integers(0, 40)) % 3],
            float(rng.integers(1, 9)),
        )
        for i in range(n)
    ]


def load_survey(database: Database, **options: Any) -> pd.DataFrame:
    """Load and release the survey; returns it as a frame."""
    rows = rows_of_survey()
    columns = {name: database.types[kind] for name, kind in COLUMNS.items()}
    columns["id"] += " PRIMARY KEY"
    database.load("people", columns, rows)
    arguments: dict[str, Any] = {
        "quasi_identifiers": ["age", "region"],
        "keep": ["income", "size", "vote", "w"],
        "method": "gaa_cp",
        "nulls": "merge",
        "max_suppression": None,
        "hierarchies": {"region": TREE},
    }
    database.anonymize(**(arguments | options))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def released_frame(database: Database, names: list[str]) -> pd.DataFrame:
    columns = ", ".join(f'"{name}"' for name in names)
    rows = database.rows(f"SELECT {columns} FROM {database.relation('release.people')}")
    frame = pd.DataFrame(rows, columns=names)
    return frame.astype({name: float for name in ("income", "size", "w") if name in names})


def figures(comparison: dbanon.AnalysisComparison) -> dict[tuple[str, str, str], float]:
    """All figures; NaN where there is none."""
    return {
        (analysis.name, estimate.name, table): (
            np.nan if getattr(estimate, table) is None else getattr(estimate, table)
        )
        for analysis in comparison.analyses
        for estimate in analysis.estimates
        for table in ("original", "released", "difference", "overlap")
    }


@pytest.mark.parametrize("intervals", ["text", "bounds"])
def test_a_database_gives_the_figures_of_frames(database: Database, intervals: str) -> None:
    frame = load_survey(database, intervals=intervals)
    names = [*([f"age_{end}" for end in ("low", "high")] if intervals == "bounds" else ["age"])]
    released = released_frame(database, [*names, "income", "size", "region", "vote", "w"])
    options: dict[str, Any] = {"hierarchies": {"region": TREE}, "seed": 3}
    in_memory = dbanon.compare_analyses(frame, released, REQUEST, **options)
    in_database = dbanon.compare_analyses(
        "people", "release.people", REQUEST, database=database.url, **options
    )
    assert figures(in_database) == pytest.approx(figures(in_memory), rel=1e-6, nan_ok=True)
    assert in_database.original_rows == 120
    # The size of one person and the region of another are missing.
    rows = {a.name: (a.original_rows, a.released_rows) for a in in_database.analyses}
    assert rows["linear regression of income on age, size, region"][0] == 118
    assert rows["total of income"] == (120, in_database.released_rows)


def test_ranges_of_postgresql_are_intervals(postgresql: PostgresqlDatabase) -> None:
    load_survey(postgresql, intervals="range")
    postgresql.anonymize(
        output="release.texts",
        quasi_identifiers=["age", "region"],
        keep=["income"],
        method="gaa_cp",
        nulls="merge",
        max_suppression=None,
        hierarchies={"region": TREE},
        releases="independent",
    )
    figures_of = [
        figures(
            dbanon.compare_analyses(
                "people",
                f"release.{name}",
                [{"mean": "age"}, {"quantiles": "age"}],
                database=postgresql.url,
            )
        )
        for name in ("people", "texts")
    ]
    assert figures_of[0] == pytest.approx(figures_of[1], nan_ok=True)


def test_nothing_is_written_and_reports_stay_as_they_are(database: Database) -> None:
    load_survey(database, evaluate=True)
    before = database.state()
    [release] = dbanon.releases(database.url)
    entry = dbanon.show(database.url, release.release_id)
    dbanon.compare_analyses(
        "people", "release.people", REQUEST, database=database.url, hierarchies={"region": TREE}
    )
    assert database.state() == before
    assert dbanon.show(database.url, release.release_id) == entry
    assert "analyses" not in json.dumps(entry, default=str)


def test_hierarchies_can_be_stored_ones(database: Database) -> None:
    load_survey(database)
    dbanon.store_hierarchy(database.url, "regions", TREE)

    def compare(name: str) -> dbanon.AnalysisComparison:
        return dbanon.compare_analyses(
            "people",
            "release.people",
            [{"table": "region"}],
            database=database.url,
            hierarchies={"region": f"name:{name}"},
        )

    assert compare("regions").analyses[0].estimates[0].difference is not None
    with pytest.raises(HierarchyNotFound):
        compare("nowhere")


def test_tables_and_columns_that_are_missing(database: Database) -> None:
    load_survey(database)
    for original, analyses, error in (
        ("people", [{"mean": "incme"}], ColumnNotFound),
        ("peple", [{"mean": "income"}], TableNotFound),
        # The release has no row key.
        ("people", [{"mean": "id"}], ColumnNotFound),
    ):
        with pytest.raises(error):
            dbanon.compare_analyses(original, "release.people", analyses, database=database.url)


def test_the_command(database: Database, tmp_path: Path) -> None:
    load_survey(database)
    (tmp_path / "tree.json").write_text(json.dumps(TREE["tree"]))
    file = tmp_path / "analyses.yaml"
    file.write_text(json.dumps(REQUEST))
    line = ["evaluate", database.url, "release.people", "--original", "people"]
    options = ["--analyses", str(file), "--hierarchy", f"region={tmp_path}/tree.json"]
    done = CliRunner().invoke(main, [*line, *options], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    assert "for the owner of the data, not for publication" in done.stdout
    assert "linear regression of income on age, size, region" in done.stdout
    assert "class_risk" in done.stdout
    plain = json.loads(CliRunner().invoke(main, [*line, *options, "--format", "json"]).stdout)
    expected = dbanon.compare_analyses(
        "people", "release.people", REQUEST, database=database.url, hierarchies={"region": TREE}
    )
    assert plain["analyses"] == json.loads(json.dumps(expected.to_dict()))
    without = json.loads(CliRunner().invoke(main, [*line, "--format", "json"]).stdout)
    assert "analyses" not in without


def test_an_original_that_changed_is_refused(database: Database, tmp_path: Path) -> None:
    load_survey(database)
    file = tmp_path / "analyses.yaml"
    file.write_text("analyses: [{mean: income}]")
    database.execute(f"DELETE FROM {database.relation('people')} WHERE id = 1")
    line = ["evaluate", database.url, "release.people", "--original", "people"]
    line += ["--analyses", str(file)]
    assert CliRunner().invoke(main, line).exit_code == 6
    assert CliRunner().invoke(main, [*line, "--changed-source"]).exit_code == 0


def test_a_label_without_its_hierarchy_is_refused(database: Database) -> None:
    load_survey(database)
    with pytest.raises(DbanonError, match="neither values of the original") as refused:
        dbanon.compare_analyses(
            "people", "release.people", [{"table": "region"}], database=database.url
        )
    assert "north" not in f"{refused.value.message} {refused.value.detail}"
