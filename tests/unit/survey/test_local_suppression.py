"""Local suppression: optimal on small tables, verified by plain counts, with bounds that hold."""

import csv
import gzip

import numpy as np
import pytest

from dbanon.errors import InvalidParameter
from dbanon.extensions.survey import local_suppression
from dbanon.extensions.survey.local_suppression import suppress_cells
from dbanon.extensions.survey.suppression_recount import recount_rows
from tests.prerequisites import import_or_skip, require_reference
from tests.reference.suppression import count_rows, least_cost

RULES = ("wildcard", "own_wildcard", "category")
KEYS = ("urbrur", "roof", "walls", "water", "electcon", "relat", "sex")
SDCMICRO_CELLS = {3: 293, 5: 500, 10: 911}


def small_table(seed):
    """A table of 3 to 7 rows with its k, further demands and weights."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, 4))
    n = int(rng.integers(3, 6 if m == 3 else 7))
    codes = rng.integers(0, rng.integers(2, 4), (n, m)).astype(np.int32)
    codes[rng.random((n, m)) < 0.1] = -1
    k = int(rng.integers(1, min(n, 3) + 1))
    also_k = []
    if seed % 3 == 0:
        columns = rng.permutation(m)[: int(rng.integers(1, m + 1))].tolist()
        also_k = [(columns, int(rng.integers(2, min(n, 4) + 1)))]
    weights = np.ones(m) if seed % 2 else rng.integers(1, 4, m) + rng.integers(0, 2) / 2
    return codes, k, also_k, weights


def survey_like(n, seed):
    """Columns of 2 to 9 values, most rows with the common ones."""
    rng = np.random.default_rng(seed)
    columns = [rng.geometric(0.5, n).clip(1, size) - 1 for size in (2, 5, 3, 8, 3, 9, 2)]
    return np.stack(columns, axis=1).astype(np.int32)


def released_rows(codes, result):
    return np.where(result.blanked, np.int32(-1), codes)


def check_result(codes, result, demands, weights, missing):
    """Hold a result to plain counts and to its own figures."""
    assert not (result.blanked & (codes < 0)).any()
    assert (result.counts_by_column == result.blanked.sum(axis=0)).all()
    assert result.cost == pytest.approx((result.blanked * weights).sum())
    assert result.lower_bound <= result.cost
    released, exposed = released_rows(codes, result), np.zeros(len(codes), bool)
    for (columns, k), counts in zip(demands, result.achieved_counts, strict=True):
        plain = count_rows(released, codes, columns, missing)
        assert (counts == plain).all()
        assert (plain >= k).all()
        exposed |= count_rows(released, codes, columns, "own_wildcard") < k
    assert result.n_exposed_rows == exposed.sum()


@pytest.mark.slow
@pytest.mark.parametrize("missing", RULES)
@pytest.mark.parametrize("first", range(0, 200, 50))
def test_small_tables_lose_as_few_cells_as_possible(first, missing):
    import_or_skip("highspy")
    for seed in range(first, first + 50):
        codes, k, also_k, weights = small_table(seed)
        result = suppress_cells(codes, k, missing=missing, also_k=also_k, weights=weights)
        demands = [(range(codes.shape[1]), k), *also_k]
        check_result(codes, result, demands, weights, missing)
        assert result.exact, seed
        assert result.cost == pytest.approx(least_cost(codes, demands, weights, missing)), seed


@pytest.mark.parametrize("missing", RULES)
def test_bounds_hold_without_a_solver(missing, monkeypatch):
    monkeypatch.setattr(local_suppression, "has_solver", lambda: False)
    for seed in range(20):
        codes, k, also_k, weights = small_table(seed)
        result = suppress_cells(codes, k, missing=missing, also_k=also_k, weights=weights)
        demands = [(range(codes.shape[1]), k), *also_k]
        check_result(codes, result, demands, weights, missing)
        least = least_cost(codes, demands, weights, missing)
        assert result.lower_bound <= least + 1e-9
        assert least <= result.cost + 1e-9
        assert not result.exact or result.cost == pytest.approx(least)


@pytest.mark.parametrize("missing", RULES)
def test_larger_tables_meet_several_demands(missing, monkeypatch):
    monkeypatch.setattr(local_suppression, "has_solver", lambda: False)
    codes = survey_like(300, seed=1)
    codes[np.random.default_rng(2).random(codes.shape) < 0.02] = -1
    also_k = [((0, 1, 2), 10), ((3, 5), 6)]
    weights = np.array([1.0, 1, 2, 1, 1, 3, 1])
    result = suppress_cells(codes, 3, missing=missing, also_k=also_k, weights=weights, seconds=1)
    check_result(codes, result, [(range(7), 3), *also_k], weights, missing)
    assert result.lower_bound > 0


@pytest.mark.parametrize("missing", RULES)
def test_blocks_of_a_large_table_meet_k(missing, monkeypatch):
    monkeypatch.setattr(local_suppression, "has_solver", lambda: False)
    monkeypatch.setattr("dbanon.methods.suppression_category._MAX_PAIRS", 40 * 128)
    codes = survey_like(500, seed=3)
    result = suppress_cells(codes, 4, missing=missing, seconds=1)
    check_result(codes, result, [(range(7), 4)], np.ones(7), missing)


def test_the_rules_are_ordered_by_cost(monkeypatch):
    monkeypatch.setattr(local_suppression, "has_solver", lambda: False)
    codes = survey_like(400, seed=4)
    costs = [suppress_cells(codes, 3, missing=rule, seconds=1).cost for rule in RULES]
    assert costs == sorted(costs)


def test_rows_without_values_satisfy_wildcards_and_leave_rows_exposed():
    """The count of sdcMicro accepts k - 1 empty rows, whatever the other rows reveal."""
    codes = np.arange(60, dtype=np.int32)[:, None] + np.zeros((60, 3), np.int32)
    result = suppress_cells(codes, 3, missing="wildcard", seconds=1)
    assert result.cost == 2 * 3
    assert result.n_exposed_rows == 58
    assert suppress_cells(codes, 3, missing="own_wildcard").cost == 60 * 3


def test_an_order_spares_the_columns_named_first():
    codes = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 2 + [[0, 2], [2, 0]], np.int32)
    by_order = [
        suppress_cells(codes, 2, missing="own_wildcard", order=order).counts_by_column.tolist()
        for order in ([0, 1], [1, 0])
    ]
    assert by_order == [[1, 1], [1, 1]]
    codes = np.array([[0, 0], [0, 0], [0, 1], [1, 1], [1, 1]], np.int32)
    for order, expected in (([0, 1], [0, 1]), ([1, 0], [1, 0])):
        result = suppress_cells(codes, 2, missing="own_wildcard", order=order)
        assert result.counts_by_column.tolist() == expected


def test_a_table_that_needs_nothing_loses_nothing():
    codes = np.zeros((5, 2), np.int32)
    for missing in RULES:
        result = suppress_cells(codes, 5, missing=missing)
        assert result.exact
        assert result.cost == result.gap == 0


@pytest.mark.parametrize("missing", RULES)
def test_results_repeat(missing, monkeypatch):
    monkeypatch.setattr(local_suppression, "has_solver", lambda: False)
    codes = survey_like(60, seed=6)
    first, second = (suppress_cells(codes, 3, missing=missing, seconds=60) for _ in range(2))
    assert (first.blanked == second.blanked).all()


@pytest.mark.parametrize("missing", RULES)
def test_the_recount_equals_plain_counts(missing):
    rng = np.random.default_rng(7)
    originals = rng.integers(0, 3, (80, 4)).astype(np.int32)
    originals[rng.random(originals.shape) < 0.1] = -1
    released = np.where(rng.random(originals.shape) < 0.2, np.int32(-1), originals)
    for columns in ([0, 1, 2, 3], [2, 0], [3]):
        counts = recount_rows(released, originals, columns, missing)
        assert (counts == count_rows(released, originals, columns, missing)).all()


@pytest.mark.parametrize(
    "arguments",
    [
        {"k": 0},
        {"k": 9},
        {"missing": "nothing"},
        {"also_k": [((), 2)]},
        {"also_k": [((0, 0), 2)]},
        {"also_k": [((0, 3), 2)]},
        {"also_k": [((0,), 7)]},
        {"weights": [1.0, 0.0, 1.0]},
        {"weights": [1.0]},
        {"order": [0, 1]},
        {"order": [0, 1, 2], "weights": [1.0, 1.0, 1.0]},
        {"codes": np.zeros((6, 13), np.int32)},
        {"codes": np.zeros((6, 3))},
        {"codes": np.full((6, 3), -2, np.int32)},
        {"codes": np.zeros((0, 3), np.int32)},
    ],
)
def test_bad_arguments_are_refused(arguments):
    values = {"codes": np.zeros((6, 3), np.int32), "k": 2, "missing": "category", **arguments}
    with pytest.raises(InvalidParameter) as caught:
        suppress_cells(**values)
    assert caught.value.hint


def read_keys(path):
    """The key columns of a file of the reference data, int32 (n, 7), with -1 for missing cells."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt") as file:
        rows = list(csv.DictReader(file))
    cells = [[row[key] for key in KEYS] for row in rows]
    return np.array(
        [[-1 if cell in ("", "NA") else int(cell) for cell in row] for row in cells], np.int32
    )


def test_the_recount_accepts_the_release_of_sdcmicro():
    folder = require_reference("sdcmicro/testdata_full.csv", "sdcmicro/testdata_kanon7_k3.csv.gz")
    originals = read_keys(folder / "sdcmicro/testdata_full.csv")
    released = read_keys(folder / "sdcmicro/testdata_kanon7_k3.csv.gz")
    assert ((released < 0) & (originals >= 0)).sum() == SDCMICRO_CELLS[3]
    assert recount_rows(released, originals, range(7), "wildcard").min() == 3
    # Its donors cover for rows that fewer than three originals agree with.
    assert (recount_rows(released, originals, range(7), "own_wildcard") < 3).sum() == 18


@pytest.mark.parametrize("k", [3, 5, 10])
def test_fewer_cells_than_sdcmicro(k):
    """Also by the stricter rule, which is exact and leaves no row exposed."""
    folder = require_reference("sdcmicro/testdata_full.csv")
    codes = read_keys(folder / "sdcmicro/testdata_full.csv")
    strict = suppress_cells(codes, k, missing="own_wildcard")
    assert strict.exact
    assert strict.n_exposed_rows == 0
    assert strict.cost == {3: 283, 5: 461, 10: 767}[k] < SDCMICRO_CELLS[k]
    released = released_rows(codes, strict)
    assert recount_rows(released, codes, range(7), "wildcard").min() >= k
    # The literal count needs k - 1 rows without values, and no protection of the others.
    literal = suppress_cells(codes, k, missing="wildcard", seconds=5)
    assert literal.cost == (k - 1) * 7
    assert literal.lower_bound > 0.9 * literal.cost
    assert literal.n_exposed_rows > 250


@pytest.mark.slow
def test_categories_of_the_survey_stay_near_their_bound():
    """A bound that the solver proves in the time; the heuristic alone needs 372 cells."""
    import_or_skip("highspy")
    folder = require_reference("sdcmicro/testdata_full.csv")
    codes = read_keys(folder / "sdcmicro/testdata_full.csv")
    result = suppress_cells(codes, 3, missing="category", seconds=10)
    assert 283 <= result.lower_bound <= result.cost <= 400
    assert recount_rows(released_rows(codes, result), codes, range(7), "wildcard").min() >= 3
