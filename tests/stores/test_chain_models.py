"""Privacy models in a chain: each class keeps to them at every moment, on every database."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dbanon
from dbanon.errors import ChainModelBroken, InvalidParameter, ModelInfeasible
from dbanon.extensions.chains import cell_rows, recount
from dbanon.extensions.chains import state as chain_state
from dbanon.extensions.chains.membership import ChainState
from dbanon.measures import Model
from dbanon.run.open import open_store
from dbanon.sessions.names import parse_relation
from tests.stores.chain_cases import Chained, Months, load, released
from tests.stores.databases import Database, SqliteDatabase

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")

MODELS = (
    Model("distinct_l", "ill", 2),
    Model("entropy_l", "ill", 1.7),
    Model("recursive_cl", "ill", 2.5),
    Model("alpha_k", "ill", 0.7),
)


def by_kind(model: Any) -> str:
    return getattr(model, "kind", "")


def row_table(database: Database) -> str:
    """The table with the rows that the chain's classes show."""
    [name] = [name for _, name in database.relations() if "chain_row_" in name]
    return database.ledger(name[name.index("chain_row_") :])


def shown_rows(chained: Chained) -> dict[int, Counter[Any]]:
    """The illnesses that each class shows, as the state has them."""
    database, counts_by_cell = chained.database, {}
    for cell, ill in database.rows(f"SELECT cell, k0 FROM {row_table(database)}"):
        counts_by_cell.setdefault(cell, Counter())[ill] += 1
    return counts_by_cell


def keeps(counts: Counter[Any], model: Model) -> bool:
    """The definition, evaluated on plain numbers."""
    most, *others = sorted(counts.values(), reverse=True)
    size = most + sum(others)
    if model.kind == "distinct_l":
        return len(counts) >= model.level
    if model.kind == "entropy_l":
        shares = np.array([most, *others]) / size
        return float(np.exp(-(shares * np.log(shares)).sum())) >= model.level - 1e-9
    if model.kind == "recursive_cl":
        remaining = sum(others[model.l - 2 :])
        return remaining > 0 and most / remaining < model.level
    return most / size <= model.level + 1e-9


def test_a_class_whose_values_would_break_a_model_stays_as_it_was(
    database: Database, tmp_path: Path
) -> None:
    months = Months(n=12, leave=0, join=0, change=0)
    load(database, months.now)
    chained = Chained.create(database, tmp_path)
    chained.release(models=[MODELS[0]])
    first, history = released(database), chained.history(list(months.now))
    together = [person for person, cell in history.items() if cell == history[1]]
    for person in together:
        months.now[person] = (*months.now[person][:3], "mumps", 0)
    load(database, months.now)
    report = chained.release(models=[MODELS[0]])
    assert released(database) == first
    [now] = [release for release in chained.show().releases if release["sequence"] == 2]
    assert (now["held"], now["unfit"], now["absent"]) == (1, 1, 0)
    # Readers learn neither the values that stand for others nor the number of affected classes.
    assert not {"held", "unfit"} & set(report.arguments["chain"])
    months.now[together[0]] = (*months.now[together[0]][:3], "gout", 0)
    load(database, months.now)
    chained.release(models=[MODELS[0]])
    assert released(database) != first
    assert chained.show().releases[-1]["held"] == 0


@pytest.mark.parametrize("changes", ["show", "hold"])
@pytest.mark.parametrize("model", MODELS, ids=by_kind)
def test_every_class_keeps_to_the_model_at_every_moment(
    database: Database, tmp_path: Path, model: Model, changes: str
) -> None:
    months = Months(n=50, join=9, change=0.15, come_back=0.2)
    load(database, months.now)
    chained = Chained.create(database, tmp_path, changes=changes)
    for _ in range(4):
        load(database, months.now)
        report = chained.release(models=[model], chain=chained.chain(accept_turnover=True))
        assert all(keeps(counts, model) for counts in shown_rows(chained).values())
        [recorded] = report.arguments["models"]
        assert recorded["model"] == model.describe()
        assert f"{model.describe()} in each class; every history" in report.guarantee
        months.pass_on()
    assert chained.smallest() >= 3
    assert "before classes were merged for models" in report.guarantee
    assert dbanon.verify(database.url, "release.people").models[0].counted == recorded["counted"]


def test_newcomers_whom_a_model_keeps_out_stay_out_for_good(
    database: Database, tmp_path: Path
) -> None:
    months = Months(n=12, leave=0, join=0, change=0)
    load(database, months.now)
    chained = Chained.create(database, tmp_path)
    chained.release(models=[MODELS[0]])
    newcomers = {100 + i: (30 + i, 4000, "a", "flu", 0) for i in range(4)}
    months.now |= newcomers
    load(database, months.now)
    report = chained.release(models=[MODELS[0]])
    assert (report.rows_out, report.arguments["chain"]["refused"]) == (12, 4)
    assert "4 excluded by models" in report.earlier_releases
    # Others come with whom they would keep to it, and their own values change.
    months.now |= {200 + i: (30 + i, 4000, "a", ("gout", "none")[i % 2], 0) for i in range(4)}
    months.now |= {
        person: (*values[:3], "gout", 0) for person, values in list(newcomers.items())[:2]
    }
    load(database, months.now)
    report = chained.release(models=[MODELS[0]])
    chain_record = report.arguments["chain"]
    assert (
        report.rows_out,
        chain_record["refused"],
        chain_record["returned"],
        chain_record["waiting"],
    ) == (16, 0, 0, 0)
    assert chained.history(list(newcomers))[100][1] == 2
    assert chained.smallest() >= 3


def test_a_first_release_that_models_refuse_keeps_nothing(
    database: Database, tmp_path: Path
) -> None:
    persons = {i: (20 + i, 2000 + i, "a", ("flu", "gout")[i % 2], 0) for i in range(12)}
    persons |= {20 + i: (20 + i, 2000 + i, "b", "flu", 0) for i in range(4)}
    load(database, persons)
    chained = Chained.create(database, tmp_path)
    options: dict[str, Any] = {"by": ["site"], "models": [MODELS[0]]}
    with pytest.raises(ModelInfeasible):
        chained.release(**options)
    assert (chained.show().sequence, chained.cells()) == (0, {})
    options |= {"withhold_failing": True, "max_suppression": 0.25}
    report = chained.release(**options)
    assert (report.rows_out, report.arguments["chain"]["refused"]) == (12, 4)
    assert report.suppressed == 4
    assert chained.release(**options).rows_out == 12
    assert sum(left == 1 for _, left in chained.cells().values()) == 4


def test_no_group_leaves_a_class_under_a_model(database: Database, tmp_path: Path) -> None:
    """Otherwise the missing values would be those of the persons who left, and they may all be
    equal.
    """
    months = Months(n=12, leave=0, join=0, change=0)
    load(database, months.now)
    chained = Chained.create(database, tmp_path, class_size=12)
    chained.release(models=[MODELS[0]])
    first = released(database)
    for person in range(1, 5):
        months.now.pop(person)
    load(database, months.now)
    chained.release(models=[MODELS[0]], chain=chained.chain(accept_turnover=True))
    assert released(database) == first


@pytest.mark.parametrize("model", MODELS, ids=by_kind)
@pytest.mark.parametrize("forged", ["values of now", "classes"])
def test_a_class_that_breaks_a_model_is_found_by_the_recount(
    database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    model: Model,
    forged: str,
) -> None:
    months = Months(n=30, leave=0, join=0, change=0)
    load(database, months.now)
    chained = Chained.create(database, tmp_path)
    if forged == "classes":
        monkeypatch.setattr(
            "dbanon.partitioning.protect.protect",
            lambda microdata, partition, *args: partition,
        )
        months.now = {person: (*v[:3], "flu", 0) for person, v in months.now.items()}
        months.now |= {person: (*months.now[person][:3], "gout", 0) for person in range(1, 15)}
        months.now = {person: (person, person, *v[2:]) for person, v in months.now.items()}
        load(database, months.now)
    else:
        chained.release(models=[model])
        monkeypatch.setattr(cell_rows, "freeze_failing_cells", lambda *args: 0)
        load(database, {person: (*v[:3], "flu", 0) for person, v in months.now.items()})
    before = chained.show().sequence
    with pytest.raises(ChainModelBroken) as refused:
        chained.release(models=[model])
    assert (refused.value.exit_code, refused.value.sqlstate) == (3, "ZK006")
    assert "flu" not in str(refused.value)
    assert chained.show().sequence == before


@pytest.mark.parametrize("model", MODELS, ids=by_kind)
def test_the_recount_is_the_definition(database: Database, tmp_path: Path, model: Model) -> None:
    """On rows that no run wrote, some of which reach a level exactly; NULL is a value."""
    load(database, Months(n=12).now)
    chained = Chained.create(database, tmp_path)
    chained.release()
    chance = random.Random(3)
    rows = [
        (cell, chance.choice([None, "flu", "flu", "flu", "gout", "Flu"]))
        for cell in range(1000, 1100)
        for _ in range(chance.choice((3, 4, 6, 7, 10)))
    ]
    table = row_table(database)
    tuples = [f"({cell}, {'NULL' if ill is None else repr(ill)})" for cell, ill in rows]
    written = f"INSERT INTO {table} (cell, k0) VALUES {', '.join(tuples)}"
    database.execute(f"DELETE FROM {table}", written)
    counts_by_cell: dict[int, Counter[Any]] = {}
    for cell, ill in rows:
        counts_by_cell.setdefault(cell, Counter())[ill] += 1
    with open_store(database.url).session(write=False) as session:
        chain = chain_state.find_chain(session, "patients")
        sensitive = [session.catalog.find_source(parse_relation("people")).attribute("ill")]
        state = ChainState(session, chain, 1, 3)
        failing = recount.count_failing_cells(state, sensitive, [model])
    assert failing == sum(not keeps(counts, model) for counts in counts_by_cell.values())
    assert 5 < failing < 95


def test_what_a_chain_does_not_keep_is_refused(sqlite_file: SqliteDatabase, tmp_path: Path) -> None:
    load(sqlite_file, Months(n=20).now)
    chained = Chained.create(sqlite_file, tmp_path)
    with pytest.raises(InvalidParameter, match="not refined"):
        chained.release(models=[MODELS[0]], refine="fast")
    chained.release(models=[MODELS[0]])
    with pytest.raises(dbanon.DbanonError) as changed:
        chained.release(models=[Model("distinct_l", "ill", 3)])
    assert (changed.value.code, changed.value.detail) == (
        "chain_changed",
        "These settings differ: models.",
    )


def test_models_are_kept_where_the_release_goes_elsewhere(
    database: Database, make_database: Any, tmp_path: Path
) -> None:
    other = make_database("duckdb" if database.name != "duckdb" else "sqlite")
    months = Months(n=40, join=6, change=0.1)
    chained = None
    for _ in range(3):
        load(database, months.now)
        chained = chained or Chained.create(database, tmp_path)
        report = chained.release(target=other.url, models=[MODELS[0]], sensitive=["ill", "cost"])
        months.pass_on()
    classes: dict[Any, set[Any]] = {}
    for age, income, ill in released(other):
        classes.setdefault((age, income), set()).add(ill)
    assert min(map(len, classes.values())) == report.arguments["models"][0]["counted"] >= 2
