"""Models that compare with a table, in a chain: with that of its first release, at every moment."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import dbanon
from dbanon.data.measures import ValueFrequencies
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import ChainChanged, ChainModelBroken
from dbanon.extensions.chains import cell_rows
from dbanon.extensions.chains.reference import Reference
from dbanon.hierarchy.tree import Hierarchy
from dbanon.measures import Model
from tests.stores.chain_cases import Chained, Months, load, released
from tests.stores.databases import Database, DuckdbDatabase, SqliteDatabase
from tests.stores.test_chain_models import shown_rows

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")

TREE = Hierarchy(["*", "painful", "flu", "gout", "mumps", "none"], [-1, 0, 1, 1, 0, 0])
MODELS = (
    Model("t_closeness", "ill", 0.5),
    Model("t_closeness", "ill", 0.4, distance="ordered"),
    Model("t_closeness", "ill", 0.5, distance=TREE),
    Model("beta_likeness", "ill", 1.5),
    Model("delta_disclosure", "ill", 1.1),
)
ORDER = ("flu", "gout", "mumps", "none")


def by_name(model: Any) -> str:
    if not isinstance(model, Model):
        return str(model)
    return f"{model.kind} {model.distance if isinstance(model.distance, str) else 'tree'}"


def level_of(counts: Counter[Any], table: Counter[Any], model: Model) -> float:
    """The definitions, evaluated on plain numbers."""
    n, total = sum(counts.values()), sum(table.values())
    both = [(counts[ill] / n, table[ill] / total) for ill in ORDER]
    if model.kind == "beta_likeness":
        return max((q - p) / p if p else math.inf for q, p in both if q)
    if model.kind == "delta_disclosure":
        return max(abs(math.log(q / p)) if p else math.inf for q, p in both if q)
    extra = [q - p for q, p in both]
    if model.distance == "ordered":
        sums = [abs(sum(extra[: i + 1])) for i in range(len(extra))]
        return sum(sums) / (len(extra) - 1)
    if model.distance == "equal":
        return sum(max(difference, 0) for difference in extra)
    flu, gout, mumps, none = extra
    inside = min(max(flu, 0) + max(gout, 0), max(-flu, 0) + max(-gout, 0))
    outside = [flu + gout, mumps, none]
    return inside / 2 + sum(max(difference, 0) for difference in outside)


def test_the_table_does_not_go_along(database: Database, tmp_path: Path) -> None:
    """All of the source change at once, and no class is shown with what it would be alike now."""
    model = Model("t_closeness", "ill", 0.7)
    chained, months = all_well(database, tmp_path, model)
    first = released(database)
    load(database, {person: (*values[:3], "none", 0) for person, values in months.now.items()})
    chained.release(models=[model])
    assert released(database) == first


@pytest.mark.parametrize("model", MODELS, ids=by_name)
def test_every_class_satisfies_the_model_against_the_first_release(
    database: Database, tmp_path: Path, model: Model
) -> None:
    months = Months(n=50, join=9, change=0.15, come_back=0.2)
    load(database, months.now)
    chained = Chained.create(database, tmp_path, changes="show")
    table: Counter[Any] = Counter()
    for _ in range(4):
        load(database, months.now)
        report = chained.release(models=[model], chain=chained.chain(accept_turnover=True))
        counts_by_cell = shown_rows(chained)
        table = table or sum(counts_by_cell.values(), Counter())
        levels = [level_of(counts, table, model) for counts in counts_by_cell.values()]
        assert max(levels) <= model.level + 1e-9
        [recorded] = report.arguments["models"]
        assert recorded["model"] == f"{model.describe()}, beside the chain's first release"
        assert recorded["counted"] == pytest.approx(max(levels))
        months.pass_on()
    assert chained.smallest() >= 3
    [verified] = dbanon.verify(database.url, "release.people").models
    assert (verified.counted, verified.recorded) == (None, recorded["counted"])
    assert "first release of its chain" in str(verified.why_not)


def all_well(database: Database, tmp_path: Path, model: Model) -> tuple[Chained, Months]:
    """A first release of twelve, of each illness as many but one, ``none``."""
    months = Months(n=12, leave=0, join=0, change=0)
    months.now = {
        person: (*values[:3], ORDER[person % 3], 0) for person, values in months.now.items()
    }
    load(database, months.now)
    chained = Chained.create(database, tmp_path)
    chained.release(models=[model])
    return chained, months


@pytest.mark.parametrize("kind", ["beta_likeness", "delta_disclosure"])
def test_a_value_that_the_first_release_lacks_holds_its_class(
    database: Database, tmp_path: Path, kind: str
) -> None:
    model = Model(kind, "ill", 2)
    chained, months = all_well(database, tmp_path, model)
    first = released(database)
    months.now[1] = (*months.now[1][:3], "none", 0)
    load(database, months.now)
    chained.release(models=[model])
    assert released(database) == first
    [now] = [release for release in chained.show().releases if release["sequence"] == 2]
    assert (now["held"], now["unfit"]) == (1, 1)
    # Newcomers with this value are not admitted either: their entire stratum stays out.
    months.now |= {100 + i: (30 + i, 4000, "a", ORDER[i % 4], 0) for i in range(4)}
    load(database, months.now)
    report = chained.release(models=[model])
    assert report.arguments["chain"]["refused"] == 4
    assert released(database) == first


@pytest.mark.parametrize("forged", ["held", "table"])
def test_what_breaks_a_model_is_found_by_the_recount(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forged: str
) -> None:
    model = Model("t_closeness", "ill", 0.7)
    chained, months = all_well(database, tmp_path, model)
    if forged == "held":
        monkeypatch.setattr(cell_rows, "freeze_failing_cells", lambda *args: 0)
    else:
        # The table of now decides in place of the first release's.
        as_it_is = cell_rows.find_failing_cells
        now = ValueFrequencies(np.array([12]), ("none",))
        monkeypatch.setattr(
            cell_rows,
            "find_failing_cells",
            lambda *args: as_it_is(*args[:4], replace(args[4], distribution=now)),
        )
    load(database, {person: (*values[:3], "none", 0) for person, values in months.now.items()})
    with pytest.raises(ChainModelBroken) as refused:
        chained.release(models=[model])
    assert "none" not in str(refused.value)
    assert chained.show().sequence == 1


def test_values_have_their_place_among_those_of_the_first_release() -> None:
    age = Attribute("age", Kind.INTEGER, sql_type="integer")
    distribution = ValueFrequencies(np.array([1, 2, 1, 4]), ("2", "10", "30"))
    ordered = Reference(age, distribution, None, True)
    assert ordered.find_positions(["1", "02", "9", "10.0", "500"]).tolist() == [0, 0, 0, 1, 2, 3]
    assert ordered.table.counts.tolist() == [1, 2, 1, 4]
    # Without an order they come last, and so does NULL if the first release had none.
    equal = Reference(age, ValueFrequencies(np.array([1, 2, 1]), ("2", "10", "30")), None, False)
    assert equal.find_positions(["30", "9", "10"]).tolist() == [2, 3, 1, 3]
    assert equal.table.counts.tolist() == [1, 2, 1, 0]
    table = equal.table
    assert table.after_withholding(np.array([0, 0], np.int32)) is table


def test_no_model_asks_for_it_and_nothing_is_remembered(
    sqlite_file: SqliteDatabase, tmp_path: Path
) -> None:
    load(sqlite_file, Months(n=20).now)
    chained = Chained.create(sqlite_file, tmp_path)
    chained.release(models=[Model("distinct_l", "ill", 2)])
    [(definition,)] = sqlite_file.rows(
        f"SELECT definition FROM {sqlite_file.ledger('chain_definition')}"
    )
    assert '"sensitive": {}' in definition
    assert "mumps" not in definition


def test_an_instant_is_one_value_in_every_zone(tmp_path: Path) -> None:
    """DuckDB writes it in the session's zone, which is the process's, and may change its day."""
    clinic = DuckdbDatabase(tmp_path / "clinic.duckdb")
    load(clinic, Months(n=24).now)
    noon = "timestamptz '2024-01-01 12:00:00+00'"
    clinic.execute("ALTER TABLE people ADD COLUMN seen TIMESTAMPTZ")
    clinic.execute(f"UPDATE people SET seen = {noon} + (id % 4) * INTERVAL 1 HOUR")
    chained = Chained.create(clinic, tmp_path)
    options = {"sensitive": ["seen"], "models": [Model("beta_likeness", "seen", 5)]}
    reports = []
    for zone in ("UTC", "Asia/Tokyo"):
        with duckdb.connect(clinic.path) as caller:
            caller.execute(f"SET TimeZone = '{zone}'")
            reports.append(chained.release(database=caller, **options))
    first, second = (report.arguments["models"][0]["counted"] for report in reports)
    assert first == second
    assert chained.show().releases[-1]["held"] == 0


def test_an_option_that_an_older_version_did_not_know_was_not_used(
    sqlite_file: SqliteDatabase, tmp_path: Path
) -> None:
    load(sqlite_file, Months(n=20).now)
    chained = Chained.create(sqlite_file, tmp_path)
    chained.release()
    table = sqlite_file.ledger("chain_definition")
    [(definition,)] = sqlite_file.rows(f"SELECT definition FROM {table}")
    older = json.loads(definition)
    del older["sensitive"], older["job"]["also_k"], older["job"]["weights"]
    sqlite_file.execute(f"UPDATE {table} SET definition = '{json.dumps(older)}'")
    with pytest.raises(ChainChanged) as refused:
        chained.release(weights={"age": 2})
    assert refused.value.detail == "These settings differ: weights."
    chained.release()
    assert chained.show().sequence == 2
