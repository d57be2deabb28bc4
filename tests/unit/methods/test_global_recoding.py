"""Global recoding with local suppression: one level per column for all rows, and a few NULLs."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbanon
from dbanon.data.partition import Levels
from dbanon.errors import InvalidParameter, SuppressionOverBudget
from dbanon.hierarchy.tree import Hierarchy
from dbanon.methods import level_search
from tests.reference.suppression import least_cost

PLACES = Hierarchy.from_nested(
    {"*": {"north": {"coast": ["Kiel", "Husum"], "plain": ["Celle", "Jena"]}, "south": ["Ulm"]}}
)
JOBS = Hierarchy.from_nested({"any": {"care": ["nurse", "medic"], "shop": ["clerk", "buyer"]}})
HOMES = Hierarchy.from_nested({"*": {"a": ["a1", "a2"], "b": ["b1", "b2", "b3"]}})
TREES = {"place": PLACES, "job": JOBS, "home": HOMES}


def persons(n: int, seed: int, share_of_nulls: float = 0.0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "place": rng.choice([PLACES.labels[node] for node in PLACES.leaves], n),
            "job": rng.choice([JOBS.labels[node] for node in JOBS.leaves], n),
            "age": pd.array(rng.integers(20, 60, n), "Int64"),
        }
    )
    return table.mask(rng.random(table.shape) < share_of_nulls)


def release(table: pd.DataFrame, k: int, **options: Any) -> tuple[pd.DataFrame, dbanon.Report]:
    keys = [name for name in table.columns if name not in ("row", "side")]
    options = {"method": "global_recoding", **options}
    options["hierarchies"] = {name: tree for name, tree in TREES.items() if name in keys}
    return dbanon.anonymize_frame(
        table, quasi_identifiers=keys, keep=[n for n in table if n == "row"], k=k, **options
    )


def rarest(table: pd.DataFrame) -> int:
    cells = table.astype(object).where(table.notna(), None)
    return min(Counter(map(tuple, cells.to_numpy().tolist())).values())


def test_worked_example() -> None:
    """k = 2. As leaves, four of eight rows are unique.

    One step up, five rows are from the coast and two from the plain, and the row from the south
    loses its place. That is 7 of 3 * 8 steps of places, and one whole cell: 1/8 * (7/3 + 1). At the
    leaves, the cheapest choice blanks the four places, 1/8 * 4, and two steps up all but one row
    lose two steps of three, and the row from the south still loses its cell.
    """
    table = pd.DataFrame(
        {"place": ["Kiel", "Kiel", "Kiel", "Kiel", "Husum", "Celle", "Jena", "Ulm"]}
    )
    # One row from the coast, or two, would have to lose its place with that from the south.
    out, report = release(table, 2, options={"cells": 0.3})
    assert report.levels == {"place": 1}
    places = Counter(out["place"].astype(object).where(out["place"].notna(), None))
    assert places == {"coast": 4, "plain": 2, None: 2}
    assert report.suppressed_cells == {"place": 2}
    assert report.information_loss == pytest.approx((6 / 3 + 2) / 8)
    # Without a cell to lose, the root is the only common label.
    out, report = release(table, 2, options={"cells": 0.0})
    assert report.levels == {"place": PLACES.height}
    assert set(out["place"]) == {"*"}


def least_loss(table: pd.DataFrame, k: int, share: float) -> float:
    """The least loss of all levels and all choices of cells, by plain loops."""
    n, names = len(table), list(table.columns)
    heights = [TREES[name].height for name in names]
    losses = []
    for levels in itertools.product(*(range(height + 1) for height in heights)):
        codes = np.full(table.shape, -1, np.int32)
        loss_of_labels, mean_losses = 0.0, []
        for column, (name, level) in enumerate(zip(names, levels, strict=True)):
            tree, steps = TREES[name], []
            for row, value in enumerate(table[name]):
                if pd.isna(value):
                    continue
                leaf = tree.positions[value]
                codes[row, column] = tree.nodes_at_level(level)[leaf]
                steps.append(level / tree.height if level else 0.0)
            loss_of_labels += sum(steps)
            mean_losses.append(sum(steps) / max(len(steps), 1))
        prices = 1 - np.array(mean_losses)
        sets = [(range(len(names)), k)]
        cost = float(least_cost(codes, sets, prices, "category"))
        is_allowed = share == 1 or least_cost(codes, sets, np.ones(len(names)), "category") == 0
        losses.append((loss_of_labels + cost) / (n * len(names)) if is_allowed else np.inf)
    return min(losses)


def compute_loss(table: pd.DataFrame, out: pd.DataFrame) -> float:
    """The loss of released rows per cell: the steps of labels, and 1 for a value that is NULL."""
    joined, losses = out.merge(table, on="row", suffixes=("", "_own")), []
    for name in out.columns.drop("row"):
        tree = TREES[name]
        for label, original in zip(joined[name], joined[f"{name}_own"], strict=True):
            if not pd.isna(original):
                leaf = tree.positions[original]
                nodes = [int(tree.nodes_at_level(level)[leaf]) for level in range(tree.height + 1)]
                labels = [tree.labels[node] for node in nodes]
                losses.append(1 if pd.isna(label) else labels.index(label) / tree.height)
    return sum(losses) / (len(out) * (len(out.columns) - 1))


def test_small_tables_lose_nearly_as_little_as_possible() -> None:
    n_least = 0
    for seed in range(60):
        share = float(seed % 4 != 0)
        table = persons(5, seed)[["job"]]
        table["home"] = np.random.default_rng(seed).choice(["a1", "a2", "b1", "b2", "b3"], 5)
        if share:
            table = table.mask(np.random.default_rng(seed).random((5, 2)) < 0.1)
        out, _ = release(table.assign(row=range(5)), 2, options={"cells": share}, nulls="category")
        assert rarest(out.drop(columns="row")) >= 2
        loss = compute_loss(table.assign(row=range(5)), out)
        # A lost cell counts with the steps of its own label here, and with their mean there.
        n_least += loss <= least_loss(table, 2, share) + 1e-9
    assert n_least == 60


def test_nulls_that_need_more_cells_than_allowed_are_refused() -> None:
    table = persons(12, 1)
    table.loc[0, "place"] = None
    with pytest.raises(SuppressionOverBudget) as error:
        release(table, 2, nulls="category", options={"cells": 0.0})
    share = float(str(error.value.hint).split('"cells": ')[1].split("}")[0])
    out, _ = release(table, 2, nulls="category", options={"cells": share})
    assert rarest(out) >= 2


@given(st.integers(0, 10**6), st.integers(20, 60), st.integers(2, 4), st.sampled_from([0.0, 0.1]))
@settings(max_examples=40, deadline=None)
def test_each_cell_is_at_its_level_or_null(seed: int, n: int, k: int, nulls: float) -> None:
    table = persons(n, seed, nulls)
    table["row"] = range(n)
    out, report = release(table, k, nulls="category", options={"cells": 0.4})
    keys = ["place", "job", "age"]
    assert rarest(out[keys]) >= k
    assert report.levels is not None
    joined = out.merge(table, on="row", suffixes=("", "_own"))
    for name, tree in (("place", PLACES), ("job", JOBS)):
        for label, original in zip(joined[name], joined[f"{name}_own"], strict=True):
            if not pd.isna(original) and not pd.isna(label):
                node = tree.nodes_at_level(report.levels[name])[tree.positions[original]]
                assert label == tree.labels[node]
            assert not (pd.isna(original) and not pd.isna(label))
    counts = {
        name: int((joined[name].isna() & joined[f"{name}_own"].notna()).sum()) for name in keys
    }
    assert report.suppressed_cells == {name: count for name, count in counts.items() if count}
    assert sum(counts.values()) <= 0.4 * n * len(keys)


@pytest.mark.parametrize("seed", range(6))
def test_without_cells_it_is_full_domain(seed: int) -> None:
    table = persons(60, seed)
    _, expected = release(table, 3, method="full_domain")
    _, report = release(table, 3, options={"cells": 0.0})
    assert report.information_loss == expected.information_loss
    assert report.suppressed_cells == {}


def test_strata_share_their_levels() -> None:
    table = persons(200, 3)
    table["side"] = np.arange(200) % 2
    out, report = release(table, 4, by=["side"])
    assert rarest(out) >= 4
    assert report.levels is not None


def test_bounds_are_below_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    plan_loss = level_search._plan_loss

    def compare(table: Any, levels: Any, rng: Any, tick: Any) -> tuple[float, int]:
        loss, n_pairs = plan_loss(table, levels, rng, tick)
        rare = level_search._bound_of_rare_rows(table, levels)
        single = level_search._bound_of_single_cells(table, levels, tick)
        assert rare is not None
        assert single is not None
        assert rare <= single * (1 + 1e-12)
        assert single <= loss * (1 + 1e-12)
        compared.append(levels)
        return loss, n_pairs

    monkeypatch.setattr(level_search, "_plan_loss", compare)
    for seed in range(12):
        release(persons(80, seed, 0.05), 3, options={"cells": 1.0}, nulls="category")
    assert len(compared) > 20


def test_a_search_that_ends_early_tells_the_owner_what_it_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = persons(80, 1)
    _, complete = release(table, 3, options={"cells": 1.0})
    monkeypatch.setattr(level_search, "_MAX_PAIRS", 1)
    out, report = release(table, 3, options={"cells": 1.0})
    assert rarest(out) >= 3
    assert float(report.information_loss or 0) >= float(complete.information_loss or 0)
    assert complete.internal.levels is None
    assert report.internal.levels is not None
    assert report.internal.levels["combinations_left"] > 0
    # The number depends on rows that readers do not see.
    assert report.method_counts == {}
    assert "combinations_left" not in json.dumps(report.to_dict())


def test_the_partition_has_levels() -> None:
    classes = dbanon.partition(
        persons(60, 2), 3, method="global_recoding", hierarchies={"place": PLACES, "job": JOBS}
    )
    assert isinstance(classes, Levels)
    assert set(classes.levels) == {"place", "job", "age"}
    assert classes.sizes.min() >= 3


def test_too_many_combinations_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(level_search, "_MAX_COMBINATIONS", 10)
    with pytest.raises(InvalidParameter, match="combinations of levels"):
        release(persons(60, 2), 3)
