"""Persons of many rows and privacy models, through the databases: one person fills no class."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dbanon
from dbanon.data.counts import ClassValueCounts, EntityCount
from dbanon.doors.cli.render import verification_table
from dbanon.errors import ModelInfeasible, RecountFailed, ReleaseChanged
from dbanon.run.open import open_store
from dbanon.run.verify import verify
from dbanon.sessions.names import parse_relation
from dbanon.stores.sql_target import SqlTarget
from tests.stores.databases import NAMES, Database
from tests.stores.person_evaluator import Class, diversity, least_diverse, shares_of
from tests.stores.refusal import refuse

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")

COLUMNS = {"id": "integer", "who": "text", "age": "integer", "site": "text", "ill": "text"}
OPTIONS: dict[str, Any] = {
    "quasi_identifiers": ["age"],
    "keep": ["id"],
    "sensitive": ["ill"],
    "method": "gaa_cp",
    "k": 4,
    "entity": "who",
}
OTHERS = ("flu", "cough", "gastritis", "asthma")
# One person has all the values that make the class of the young diverse.
ONE_FILLS = [*[("flu",)] * 3, OTHERS[1:], *[(ill,) for ill in OTHERS]]
# All the young have the flu, half of their rows something else.
ALL_HAVE = [*[("flu", ill) for ill in "abcd"], *[(ill, ill + ill) for ill in "abcd"]]


def load(database: Database, values_by_person: list[tuple[str, ...]], kind: str = "text") -> None:
    """Rows of persons, half of them 20 and half 50 years old, with the values that each has."""
    rows, half = [], len(values_by_person) // 2
    for person, values in enumerate(values_by_person):
        age = 20 + 30 * (person >= half) + person % 2
        for ill in values:
            site = "ab"[person % 2]
            rows.append((len(rows) + 1, f"person {person}", age, site, ill))
    columns = {name: database.types[kind] for name, kind in COLUMNS.items()}
    columns["id"] += " PRIMARY KEY"
    columns["ill"] = database.types.get(kind, kind)
    database.load("people", columns, rows)


def classes_of(database: Database, columns: str = "age") -> list[Class]:
    """Whose value is whose in each released class, by a join on the kept key."""
    named = ", ".join(f"r.{name}" for name in columns.split(", "))
    classes: dict[Any, Class] = defaultdict(lambda: defaultdict(set))
    for *key, who, ill in database.rows(
        f"SELECT {named}, p.who, r.ill FROM {database.relation('release.people')} AS r"
        " JOIN people AS p ON p.id = r.id"
    ):
        classes[tuple(key)][who].add(ill)
    return [dict(members) for members in classes.values()]


def test_one_person_does_not_make_a_class_diverse(database: Database) -> None:
    load(database, ONE_FILLS)
    report = database.anonymize(**OPTIONS, models=[dbanon.Model("distinct_l", "ill", 3)])
    for members in classes_of(database):
        # Excluding one value for one person of the class does not determine another value with
        # certainty.
        holders = Counter(ill for values in members.values() for ill in values).most_common()
        assert sum(count for _, count in holders[:2]) < len(members)
    assert report.models[0].achieved == 3


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_file_of_rows_holds_what_models_counted_in_persons(
    database: Database, kind: str, tmp_path: Path
) -> None:
    # A value can be more frequent among rows than among persons, and vice versa.
    load(database, [(OTHERS[i % 4],) * (1 + i % 3) + (OTHERS[i // 4],) for i in range(16)])
    models = [
        dbanon.Model("distinct_l", "ill", 2),
        dbanon.Model("alpha_k", "ill", 1),
        dbanon.Model("t_closeness", "ill", 0.9),
    ]
    path = tmp_path / f"people.{kind}"
    report = database.anonymize(**OPTIONS, models=models, exports=[path])
    assert path.exists()
    assert all("counted in persons" in level.model for level in report.models)


def test_a_value_that_all_have_is_no_half_of_them(database: Database) -> None:
    load(database, ALL_HAVE)
    report = database.anonymize(**OPTIONS, models=[dbanon.Model("alpha_k", "ill", 0.5)])
    assert max(max(shares_of([members]).values()) for members in classes_of(database)) <= 0.5
    assert report.models[0].achieved == 0.5


def test_what_all_persons_have_is_refused(database: Database) -> None:
    load(database, [("flu", ill) for ill in "abcdabcd"])
    error = refuse(
        database,
        ModelInfeasible,
        "violates",
        **OPTIONS,
        models=[dbanon.Model("distinct_l", "ill", 2)],
    )
    assert "feasible up to 1; persons are counted, each of whom may have several" in str(error)


def visits(seed: int = 1, persons: int = 60) -> list[tuple[str, ...]]:
    rng = np.random.default_rng(seed)
    return [
        tuple(rng.choice(["a", "b", "c", "d", "e"], rng.integers(1, 4))) for _ in range(persons)
    ]


MODELS = [
    dbanon.Model("distinct_l", "ill", 2),
    dbanon.Model("entropy_l", "ill", 1.5),
    dbanon.Model("t_closeness", "ill", 0.6, distance="ordered"),
    dbanon.Model("beta_likeness", "ill", 1.0),
]


@pytest.mark.parametrize("by", [[], ["site"]])
def test_the_recount_counts_persons(database: Database, by: list[str]) -> None:
    load(database, visits())
    report = database.anonymize(**OPTIONS, by=by, models=MODELS)
    classes = classes_of(database, ", ".join(["age", *by]))
    assert len(classes) > 2
    assert report.models[0].achieved == min(len(least_diverse(members)) for members in classes)
    least = [diversity("entropy_l", least_diverse(members)) for members in classes]
    assert report.models[1].achieved == pytest.approx(min(least))
    table = shares_of(classes)
    beta = max(s / table[v] - 1 for members in classes for v, s in shares_of([members]).items())
    assert report.models[3].achieved == pytest.approx(beta)
    [(arguments,)] = database.rows(f"SELECT arguments FROM {database.ledger()}")
    arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
    for recorded, level, model in zip(arguments["models"], report.models, MODELS, strict=True):
        assert recorded["counted_in"] == "persons"
        assert recorded["model"] == level.model == f"{model.describe()}, counted in persons"
        assert recorded["counted"] == level.achieved
    assert 'distinct_l 2 of "ill" in each class, counted in persons' in report.guarantee


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
    load(source_database, visits(5))
    report = source_database.anonymize(**OPTIONS, models=MODELS, target=target_database.url)
    within_source = source_database.anonymize(**OPTIONS, models=MODELS)
    for level, other in zip(report.models, within_source.models, strict=True):
        assert level.model == other.model
        assert level.achieved == pytest.approx(other.achieved)


def test_a_later_verify_says_that_persons_are_not_there(database: Database) -> None:
    load(database, ONE_FILLS)
    database.anonymize(**OPTIONS, models=[dbanon.Model("distinct_l", "ill", 3)])
    store, relation = open_store(database.url), parse_relation("release.people")
    verification = verify(store, relation)
    assert verification.unchanged
    [model] = verification.models
    assert (model.recorded, model.counted) == (3, None)
    assert model.why_not == (
        "it was counted in persons, and the release does not show which rows belong to one person"
    )
    cells = [str(cell) for cell in verification_table(verification).columns[1].cells]
    assert any(f"released 3, NOT recounted: {model.why_not}" in cell for cell in cells)
    # A changed value is still detected, because the digest covers everything that was counted.
    written = database.relation("release.people")
    database.execute(f"UPDATE {written} SET ill = 'flu' WHERE ill = 'cough'")
    with pytest.raises(ReleaseChanged, match="rows"):
        verify(store, relation)


@pytest.mark.parametrize(
    ("kind", "spelling", "other"), [("decimal", "7", "7.0"), ("float", "7", "7.0")]
)
def test_a_number_is_one_value_however_it_is_written(
    database: Database, kind: str, spelling: str, other: str
) -> None:
    values_by_person: list[Any] = [(spelling, other), (spelling,), (spelling,), ("8",)] * 2
    kind = database.types.get(kind, kind)
    if database.name == "postgresql" and "numeric" in kind:
        kind = "numeric"
    load(database, values_by_person, kind)
    report = database.anonymize(**OPTIONS, models=[dbanon.Model("alpha_k", "ill", 0.8)])
    assert report.models[0].achieved == 0.75


def test_what_does_not_hold_is_not_published(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(database, visits())
    options = {**OPTIONS, "models": MODELS[:1]}
    count = SqlTarget.count

    def all_have_it(entity_count: EntityCount, cells: ClassValueCounts) -> EntityCount:
        assert cells.persons is not None
        everybody = replace(cells, persons=entity_count.persons_per_class[cells.classes])
        return replace(entity_count, value_counts={"ill": everybody})

    def another_row(entity_count: EntityCount, cells: ClassValueCounts) -> EntityCount:
        sizes = cells.sizes.copy()
        sizes[:2] += (1, -1)
        return replace(entity_count, value_counts={"ill": replace(cells, sizes=sizes)})

    for wrong, message in (
        (all_have_it, "violate distinct_l 2"),
        (another_row, "differ from"),
    ):

        def counted(self: Any, *args: Any, wrong: Any = wrong) -> Any:
            result = count(self, *args)
            persons = result.persons["who"]
            return replace(result, persons={"who": wrong(persons, persons.value_counts["ill"])})

        monkeypatch.setattr(SqlTarget, "count", counted)
        refuse(database, RecountFailed, message, **options)
        monkeypatch.undo()
