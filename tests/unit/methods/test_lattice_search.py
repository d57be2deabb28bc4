"""The search for levels: the least loss of all combinations, and a bound where it ends early."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbanon
from dbanon.data.number_levels import NumberLevels
from dbanon.data.partition import Levels, max_count_of_share
from dbanon.data.scales import Scale
from dbanon.methods import full_domain, lattice_search
from dbanon.methods.lattice_search import Budget, Lattice, LeastLossSearch, LevelKeys
from dbanon.spaces.levels import LevelSpace
from dbanon.spaces.mixed import MixedSpace
from tests.generalization_data import spaces, with_levels
from tests.number_columns import ATTRIBUTES, column
from tests.reference.levels import best_levels, rows_at


def narrow(space: MixedSpace, max_combinations: int) -> LevelSpace:
    """The first attributes of a space, but none with which there are too many combinations."""
    full = with_levels(space)
    chosen: list[int] = []
    n_combinations = 1
    for attribute, height in enumerate(full.heights()):
        if n_combinations * (height + 1) <= max_combinations:
            chosen.append(attribute)
            n_combinations *= height + 1
    return with_levels(
        MixedSpace(
            np.ascontiguousarray(space.codes[:, chosen]),
            space.root_costs[chosen],
            tuple(space.trees[attribute] for attribute in chosen),
            tuple(space.names[attribute] for attribute in chosen),
        )
    )


def run(space: LevelSpace, k: int, suppression: float, strata: Any = None) -> Levels:
    rng = np.random.default_rng(0)
    shares: list[float] = []
    levels = full_domain.full_domain(
        space, k, tick=shares.append, rng=rng, suppression=suppression, strata=strata
    )
    assert shares == sorted(shares)
    assert 0 <= shares[0] <= shares[-1] <= 1
    return levels


def draw_strata(n: int, k: int, seed: int) -> np.ndarray:
    """Strata of k records or more, in any order."""
    strata = np.arange(n) % max(min(n // k, 2), 1)
    return np.random.default_rng(seed).permutation(strata)


@given(spaces(largest=50), st.sampled_from([0.0, 0.1, 0.3, 1.0]), st.sampled_from([None, 1, 2]))
@settings(max_examples=150, deadline=None)
def test_levels_and_labels_are_the_best_of_all(
    case: Any, suppression: float, seed: int | None
) -> None:
    mixed, k = case
    space = narrow(mixed, 300)
    strata = None if seed is None else draw_strata(mixed.n_records, k, seed)
    partition = run(space, k, suppression, strata)
    levels, labels = best_levels(space, k, suppression, strata)
    assert tuple(partition.levels.values()) == levels
    assert partition.labels.tolist() == labels
    assert partition.owner_figures == {}


@given(spaces(largest=50), st.sampled_from([0.0, 0.2]), st.integers(1, 30), st.integers(1, 30))
@settings(max_examples=100, deadline=None)
def test_a_search_that_ends_early_has_a_lower_bound(
    case: Any, suppression: float, n_looks: int, n_listed: int
) -> None:
    mixed, k = case
    space = with_levels(mixed)
    n = mixed.n_records
    keys = LevelKeys(space, np.zeros(n, np.int64))
    withheld, root_loss = max_count_of_share(suppression, n), int(space.mixed.root_costs.sum())

    def search(budget: Budget | None) -> tuple[LeastLossSearch, int]:
        least_loss_search = LeastLossSearch(
            keys, k, withheld, root_loss, budget, lambda share: None
        )
        return least_loss_search, least_loss_search.run()

    complete, least = search(None)
    assert least == complete.least_loss
    early, bound = search(Budget(n_looks, n_listed))
    assert bound <= least <= early.least_loss
    again, bound_again = search(Budget(n_looks, n_listed))
    assert (again.best, bound_again, again.n_looks) == (early.best, bound, early.n_looks)
    sizes = Counter(rows_at([space.groups(a) for a in range(len(early.best))], early.best, n, None))
    assert sum(size for size in sizes.values() if size < k) <= withheld


@pytest.mark.parametrize("max_key", [lattice_search._MAX_KEY, 50])
def test_keys_are_numbered_in_the_order_of_codes(
    monkeypatch: pytest.MonkeyPatch, max_key: int
) -> None:
    monkeypatch.setattr(lattice_search, "_MAX_KEY", max_key)
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 30, (200, 30)).astype(np.int32)
    costs = np.full(30, 29)
    mixed = MixedSpace(codes, costs, (None,) * 30, tuple(f"c{i}" for i in range(30)))
    space = with_levels(mixed)
    groups = [space.groups(attribute) for attribute in range(30)]
    strata = rng.integers(0, 3, 200)
    keys = LevelKeys(space, strata)
    for _ in range(20):
        levels = tuple(int(rng.integers(0, len(losses))) for _, losses in groups)
        rows = rows_at(groups, levels, 200, strata)
        sizes = Counter(rows)
        assert sorted(keys.class_sizes(levels).tolist()) == sorted(sizes.values())
        numbers = {row: i for i, row in enumerate(r for r in sorted(sizes) if sizes[r] >= 2)}
        assert keys.labels(levels, 2).tolist() == [numbers.get(row, -1) for row in rows]


def test_open_combinations_are_above_those_of_the_heap() -> None:
    """A lattice of 3 · 4 · 2 combinations, against lists of all."""
    rng = np.random.default_rng(5)
    shape = (3, 4, 2)
    for _ in range(50):
        losses = [np.cumsum(rng.integers(0, 3, size)).tolist() for size in shape]
        lattice, failing = Lattice(losses), np.zeros(shape, np.bool_)
        largest = sum(of_levels[-1] for of_levels in losses)
        while first := lattice.first():
            loss, levels = first
            is_open = [at for at in np.ndindex(*shape) if not failing[at]]
            assert loss == lattice.loss(levels) <= min(map(lattice.loss, is_open))
            assert lattice.fails(levels) == failing[levels]
            if failing[levels]:
                lattice.rise_above_failing(largest)
            elif levels == lattice.top or rng.random() < 0.3:
                assert (loss, levels) == min((lattice.loss(at), at) for at in is_open)
                break
            else:
                highest = tuple(
                    int(rng.integers(low, n)) for low, n in zip(levels, shape, strict=True)
                )
                if highest == lattice.top:
                    continue
                lattice.mark_failing(highest)
                failing[tuple(slice(level + 1) for level in highest)] = True


@given(st.sampled_from(sorted(ATTRIBUTES)), st.integers(0, 10**6), st.integers(2, 60))
@settings(max_examples=60, deadline=None)
def test_higher_levels_of_numbers_lose_no_less(kind: str, seed: int, n: int) -> None:
    _, numbers = column(np.random.default_rng(seed), kind, n)
    levels = NumberLevels.of(ATTRIBUTES[kind], Scale.of(numbers), None)
    losses = [levels.loss(numbers, level) for level in range(levels.top_level + 1)]
    assert (np.diff(losses, axis=0) >= 0).all()


def many_columns(n: int) -> pd.DataFrame:
    """Ten numbers of six levels and ten texts: 62 thousand million combinations of levels."""
    rng = np.random.default_rng(7)
    numbers = {f"x{i}": rng.normal(50 + 5 * (i % 3), 20, n).astype(int) for i in range(10)}
    texts = {f"t{i}": [f"v{j}" for j in rng.integers(0, 3 + i, n)] for i in range(10)}
    return pd.DataFrame({**numbers, **texts})


def test_twenty_columns_are_searched_to_the_end() -> None:
    partition = dbanon.partition(many_columns(300), 3, method="full_domain")
    assert isinstance(partition, Levels)
    assert partition.sizes.min() >= 3
    assert partition.owner_figures == {}


def test_a_bound_is_for_the_owner_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five looks among 20 columns: the bound is a loss at levels that are not released."""
    frame = many_columns(400)

    def release(**options: Any) -> dbanon.Report:
        return dbanon.anonymize_frame(
            frame, quasi_identifiers=list(frame.columns), k=5, method="full_domain", **options
        )[1]

    complete = release()
    assert complete.internal.levels is None
    monkeypatch.setattr(full_domain, "_MIN_LOOKS", 5)
    monkeypatch.setattr(full_domain, "_MAX_LOOKS", 5)
    report = release()
    assert complete.internal.information_loss <= report.internal.information_loss
    assert report.internal.levels is not None
    share = report.internal.levels["lower_bound"]
    assert share * report.internal.information_loss <= complete.internal.information_loss + 1e-12
    assert set(report.internal.levels) == {"looks", "lower_bound"}
    assert report.internal.to_ledger()["levels"] == report.internal.levels
    assert report.method_counts == {}
    readers_json = json.dumps(report.to_dict())
    assert "looks" not in readers_json
    assert "lower_bound" not in readers_json


def test_the_search_that_knew_withheld_rows_is_for_the_owner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(full_domain, "_MIN_LOOKS", 5)
    monkeypatch.setattr(full_domain, "_MAX_LOOKS", 5)
    partition = dbanon.partition(
        many_columns(400),
        5,
        method="full_domain",
        suppression=0.2,
        max_suppression=0.2,
    )
    assert isinstance(partition, Levels)
    assert partition.n_suppressed > 0
    assert "looks_before_withholding" in partition.owner_figures
    assert partition.method_counts == {}
