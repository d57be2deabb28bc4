"""Privacy models through the databases: the written rows satisfy the requested models."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dbanon
from dbanon.errors import (
    HierarchyBroken,
    InvalidParameter,
    MemoryLimit,
    ModelInfeasible,
    RecountFailed,
)
from tests.stores.databases import NAMES, Database
from tests.stores.model_evaluator import (
    Counts,
    counted,
    in_order,
    reached,
    shares,
    values_of,
)
from tests.stores.refusal import refuse

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")

COLUMNS = {"id": "integer", "age": "integer", "place": "text", "site": "text", "ill": "text"} | {
    "grade": "integer",
    "cost": "double",
}
ILLS = ["flu", "cough", "gastritis", None]
TREE = dbanon.Hierarchy.from_levels(
    [["flu", "lungs", "*"], ["cough", "lungs", "*"], ["gastritis", "belly", "*"]]
)
OPTIONS = {
    "quasi_identifiers": ["age", "place"],
    "sensitive": ["ill", "grade", "cost"],
    "method": "gaa_cp",
}


def people(seed: int = 1, n: int = 120) -> list[tuple[Any, ...]]:
    rng = np.random.default_rng(seed)
    return [
        (
            i + 1,
            int(rng.integers(20, 60)),
            str(rng.choice(["north", "south", "east"])),
            str(rng.choice(["a", "b"])),
            ILLS[rng.choice(4, p=[0.5, 0.2, 0.2, 0.1])],
            [2, 9, 10, 100, None][rng.choice(5)],
            [0.5, 1.25, 10.0][rng.choice(3)],
        )
        for i in range(n)
    ]


def load(database: Database, rows: list[tuple[Any, ...]] | None = None) -> None:
    columns = {name: database.types[kind] for name, kind in COLUMNS.items()}
    columns["id"] += " PRIMARY KEY"
    database.load("people", columns, people() if rows is None else rows)


MODELS = {
    "distinct_l": dbanon.Model("distinct_l", "ill", 3),
    "entropy_l": dbanon.Model("entropy_l", "ill", 2.5),
    "recursive_cl": dbanon.Model("recursive_cl", "ill", 1.6, l=2),
    "alpha_k": dbanon.Model("alpha_k", "ill", 0.6),
    "equal": dbanon.Model("t_closeness", "ill", 0.25),
    "ordered": dbanon.Model("t_closeness", "grade", 0.15, distance="ordered"),
    "beta_likeness": dbanon.Model("beta_likeness", "ill", 1.2),
    "delta_disclosure": dbanon.Model("delta_disclosure", "ill", 1.0),
}
AT_LEAST = ("distinct_l", "entropy_l")


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_holds_in_what_is_written(database: Database, kind: str) -> None:
    load(database)
    model = MODELS[kind]
    report = database.anonymize(**OPTIONS, models=[model])
    classes = counted(
        database.rows, database.relation("release.people"), ["age", "place"], model.attribute
    )
    level_reached = reached(kind, classes, in_order(values_of(classes)))
    assert (
        level_reached >= model.level - 1e-9
        if kind in AT_LEAST
        else level_reached <= model.level + 1e-9
    )
    [level] = report.models
    assert (level.model, level.achieved) == (model.describe(), pytest.approx(level_reached))
    assert min(sum(counts.values()) for counts in classes) == report.k_achieved >= 3
    assert sum(sum(counts.values()) for counts in classes) == 120
    assert model.describe() in report.guarantee
    without = database.anonymize(**OPTIONS, output="release.without")
    assert without.classes > report.classes, "the model changed nothing"
    assert without.models == ()


def test_several_models_and_columns_in_the_ledger(database: Database) -> None:
    load(database)
    models = [
        MODELS["distinct_l"],
        MODELS["ordered"],
        dbanon.Model("alpha_k", "cost", 0.7),
        dbanon.Model("t_closeness", "ill", 0.4, distance="ordered"),
    ]
    report = database.anonymize(**OPTIONS, models=models)
    [(arguments,)] = database.rows(f"SELECT arguments FROM {database.ledger()}")
    arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
    assert arguments["models"] == [
        {"model": model.describe(), "counted": pytest.approx(level.achieved)} | model.to_plain()
        for model, level in zip(models, report.models, strict=True)
    ]
    assert dict(report.rows())[models[0].describe()] == f"counted {report.models[0].achieved:g}"
    assert report.to_dict()["models"][0]["model"] == models[0].describe()


def test_null_is_a_value(database: Database) -> None:
    load(database, [(i, i, "x", "a", [None, "flu"][i % 2], None, 1.0) for i in range(40)])
    report = database.anonymize(**OPTIONS, models=[dbanon.Model("distinct_l", "ill", 2)])
    assert report.models[0].achieved == 2
    state = database.state()
    for column in ("grade", "cost"):
        with pytest.raises(ModelInfeasible) as caught:
            database.anonymize(
                **OPTIONS, output="release.x", models=[dbanon.Model("distinct_l", column, 2)]
            )
        assert "1 distinct values" in str(caught.value)
    assert database.state() == state


def test_strata_are_not_crossed(database: Database) -> None:
    load(database)
    model = dbanon.Model("distinct_l", "ill", 3)
    report = database.anonymize(**OPTIONS, by=["site"], models=[model])
    relation = database.relation("release.people")
    classes = counted(database.rows, relation, ["age", "place", "site"], "ill")
    assert reached("distinct_l", classes) == report.models[0].achieved >= 3
    assert len(classes) == report.classes
    sites = database.rows(f"SELECT site, count(*) FROM {relation} GROUP BY site")
    assert Counter(dict(sites)) == Counter(row[3] for row in people())


def test_a_stratum_without_enough_values_is_reported(database: Database) -> None:
    rows = [(*row[:4], "flu" if row[3] == "a" else row[4], *row[5:]) for row in people()]
    load(database, rows)
    error = refuse(
        database,
        ModelInfeasible,
        "violate the models",
        **OPTIONS,
        by=["site"],
        models=[dbanon.Model("distinct_l", "ill", 2)],
    )
    assert 'distinct_l of "ill" is feasible up to 1' in str(error)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (dbanon.Model("distinct_l", "ill", 5), 'distinct_l of "ill" is feasible up to 4.'),
        (dbanon.Model("alpha_k", "ill", 0.1), 'alpha_k of "ill" is feasible from 0.'),
        (dbanon.Model("recursive_cl", "ill", 9, l=5), 'no level of recursive_cl of "ill"'),
    ],
)
def test_out_of_reach(database: Database, model: dbanon.Model, message: str) -> None:
    load(database)
    error = refuse(database, ModelInfeasible, message, **OPTIONS, models=[MODELS["equal"], model])
    assert (error.exit_code, error.sqlstate) == (3, "ZK002")
    assert "flu" not in str(error)


def test_what_is_said_to_be_feasible_is(database: Database) -> None:
    load(database)
    error = refuse(
        database, ModelInfeasible, **OPTIONS, models=[dbanon.Model("entropy_l", "ill", 4)]
    )
    level = float(str(error).split("feasible up to ")[1].split(". Lower")[0])
    database.anonymize(**OPTIONS, models=[dbanon.Model("entropy_l", "ill", level)])


@pytest.mark.parametrize(
    "models",
    [
        [dbanon.Model("distinct_l", "site", 2)],
        [dbanon.Model("distinct_l", "nowhere", 2)],
        [MODELS["ordered"], dbanon.Model("t_closeness", "grade", 0.2, distance=TREE)],
    ],
)
def test_models_of_other_columns(database: Database, models: list[dbanon.Model]) -> None:
    load(database)
    refuse(database, InvalidParameter, **OPTIONS, models=models)


def test_a_hierarchy_of_values(database: Database) -> None:
    load(database)
    model = dbanon.Model("t_closeness", "ill", 0.25, distance=TREE)
    report = database.anonymize(**OPTIONS, models=[model, MODELS["distinct_l"]])
    classes = counted(database.rows, database.relation("release.people"), ["age", "place"], "ill")
    table: Counts = Counter()
    for counts in classes:
        table.update(counts)
    level_reached = 0.0
    for counts in classes:
        extra = {v: shares(counts).get(v, 0) - shares(table)[v] for v in table}
        # Below "lungs" mass moves by half of the tree's height, all else by the whole of it.
        lungs = [extra.get("flu", 0), extra.get("cough", 0)]
        inside = min(sum(max(x, 0) for x in lungs), sum(max(-x, 0) for x in lungs))
        above = [sum(lungs), extra.get("gastritis", 0), extra.get(None, 0)]
        level_reached = max(level_reached, inside / 2 + sum(max(x, 0) for x in above))
    assert report.models[0].achieved == pytest.approx(level_reached)
    assert level_reached <= 0.25 + 1e-9
    tree = dbanon.Hierarchy.from_levels([["flu", "*"], ["cough", "*"]])
    refuse(
        database,
        HierarchyBroken,
        **OPTIONS,
        output="release.x",
        models=[dbanon.Model("t_closeness", "ill", 0.5, distance=tree)],
    )


def test_a_hierarchy_of_numbers(database: Database) -> None:
    load(database)
    trees = {
        "grade": [["2", "low", "*"], ["9", "low", "*"], ["10", "high", "*"], ["100", "high", "*"]],
        "cost": [["0.5", "low", "*"], ["1.25", "low", "*"], ["10", "high", "*"]],
    }
    models = [
        dbanon.Model("t_closeness", name, 0.3, distance=dbanon.Hierarchy.from_levels(rows))
        for name, rows in trees.items()
    ]
    report = database.anonymize(**OPTIONS, models=models)
    assert all(level.achieved <= 0.3 + 1e-9 for level in report.models)


PAIRS = [(source, target) for source in NAMES for target in NAMES if source != target]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        pytest.param(*pair, marks=pytest.mark.postgresql if "postgresql" in pair else ())
        for pair in PAIRS
    ],
)
def test_from_one_database_to_another(
    make_database: Callable[[str], Database], source: str, target: str
) -> None:
    source_database, target_database = make_database(source), make_database(target)
    load(source_database)
    models = [
        *(MODELS["distinct_l"], MODELS["ordered"]),
        dbanon.Model("t_closeness", "cost", 0.3, distance="ordered"),
    ]
    report = source_database.anonymize(
        **OPTIONS, models=models, target=target_database.url, chunk_rows=17
    )
    relation = target_database.relation("release.people")
    for model, kind, level in zip(
        models, ("distinct_l", "ordered", "ordered"), report.models, strict=True
    ):
        classes = counted(target_database.rows, relation, ["age", "place"], model.attribute)
        level_reached = reached(kind, classes, in_order(values_of(classes)))
        assert level.achieved == pytest.approx(level_reached)
    within_source = source_database.anonymize(**OPTIONS, models=models)
    assert [level.achieved for level in within_source.models] == pytest.approx(
        [level.achieved for level in report.models]
    )


def test_what_breaks_a_model_is_not_published(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(database)

    def leave_as_it_is(microdata: Any, partition: Any, *more: Any) -> Any:
        return partition

    monkeypatch.setattr("dbanon.partitioning.protect.protect", leave_as_it_is)
    refuse(
        database,
        RecountFailed,
        "violate distinct_l 3",
        **OPTIONS,
        models=[MODELS["distinct_l"]],
    )


def test_withheld_records_do_not_count(database: Database) -> None:
    """Values that only withheld records have take no place in the order."""
    rows = people() + [(500 + i, None, "north", "a", "x" * i, 10**6 + i, 1.0) for i in range(30)]
    load(database, rows)
    report = database.anonymize(
        **OPTIONS, nulls="suppress", max_suppression=1, models=[MODELS["ordered"]]
    )
    assert (report.rows_out, report.suppressed) == (120, 30)
    classes = counted(database.rows, database.relation("release.people"), ["age", "place"], "grade")
    level_reached = reached("ordered", classes, in_order(values_of(classes)))
    assert report.models[0].achieved == pytest.approx(level_reached)


def test_a_numeric_method_keeps_to_models_too(database: Database) -> None:
    load(database)
    options = OPTIONS | {"quasi_identifiers": ["age"], "method": "mdav"}
    report = database.anonymize(**options, models=[MODELS["distinct_l"]], output_kind="view")
    classes = counted(database.rows, database.relation("release.people"), ["age"], "ill")
    assert reached("distinct_l", classes) == report.models[0].achieved >= 3


def test_counts_need_memory(database: Database) -> None:
    load(database, [(i, i, "x", "a", f"ill {i}", i, 1.0) for i in range(3000)])
    refuse(
        database,
        MemoryLimit,
        "counts",
        **OPTIONS,
        models=[dbanon.Model("distinct_l", "ill", 2)],
        memory_limit=20 * 2**20,
    )
