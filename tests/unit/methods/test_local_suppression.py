"""Local suppression as a method: its worked example, small tables, and properties of classes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pytest

import dbanon
from dbanon.data.partition import Partition
from dbanon.errors import InvalidParameter, UnsupportedType
from dbanon.hierarchy.tree import flat_hierarchy
from dbanon.methods import METHODS
from dbanon.methods.local_suppression import price_columns
from dbanon.spaces.mixed import ROOT_COST, MixedSpace
from tests.prerequisites import require_reference
from tests.reference.suppression import least_cost

KEYS = ["urbrur", "roof", "walls", "water", "electcon", "relat", "sex"]


def partition(table: pd.DataFrame, k: int, **options: object) -> Partition:
    result = dbanon.partition(table, k, method="local_suppression", **options)
    assert isinstance(result, Partition)
    return result


def released(table: pd.DataFrame, classes: Partition) -> pd.DataFrame:
    """The rows as released, by plain loops; None is NULL."""
    cells = table.astype(object).where(table.notna(), None).to_numpy(copy=True)
    for label in range(classes.n_classes):
        members = np.flatnonzero(classes.labels == label)
        for column in range(cells.shape[1]):
            if len({cells[row, column] for row in members}) > 1:
                cells[members, column] = None
    return pd.DataFrame(cells, columns=table.columns)


def lost_cells(table: pd.DataFrame, classes: Partition) -> pd.Series[int]:
    """The number of values of each column that are released as NULL."""
    return (released(table, classes).isna() & table.notna()).sum()


def rarest(table: pd.DataFrame) -> int:
    return min(Counter(map(tuple, table.astype(object).to_numpy().tolist())).values())


def small_table(seed: int) -> tuple[pd.DataFrame, int]:
    """A table of 3 to 6 rows, some of it NULL, and a k."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, 4))
    n = int(rng.integers(3, 6 if m == 3 else 7))
    codes = rng.integers(0, rng.integers(2, 4), (n, m))
    codes[rng.random((n, m)) < 0.1] = -1
    table = pd.DataFrame(codes, columns=list("abc")[:m]).astype("Int64")
    return table.mask(table < 0), int(rng.integers(2, min(n, 3) + 1))


def test_worked_example() -> None:
    """k = 2. Two pairs are equal; the fifth row differs from one of them in its town.

    Rows 4 and 5 share only the sex. Together they lose age and town, which is four cells. If both
    rows of the first pair joined row 4, without towns, row 5 would still need a partner.
    """
    table = pd.DataFrame(
        {
            "sex": ["f", "f", "m", "m", "f", "f"],
            "age": [30, 30, 40, 40, 30, 70],
            "town": ["a", "a", "b", "b", "c", "d"],
        }
    )
    classes = partition(table, 2)
    assert lost_cells(table, classes).to_dict() == {"sex": 0, "age": 2, "town": 2}
    labels = classes.labels.tolist()
    assert labels[0] == labels[1]
    assert labels[2] == labels[3]
    assert labels[4] == labels[5]
    assert classes.n_classes == 3


def test_small_tables_lose_nearly_as_few_cells_as_possible() -> None:
    n_exact, n_cells, n_least = 0, 0, 0
    for seed in range(200):
        table, k = small_table(seed)
        classes = partition(table, k, nulls="category")
        codes = table.fillna(-1).to_numpy(np.int32)
        m = codes.shape[1]
        least = int(least_cost(codes, [(range(m), k)], np.ones(m), "category"))
        cells = int(lost_cells(table, classes).sum())
        assert rarest(released(table, classes)) >= k
        assert cells >= least
        n_exact += cells == least
        n_cells, n_least = n_cells + cells, n_least + least
    assert n_exact >= 190
    assert n_cells <= 1.02 * n_least


@pytest.mark.parametrize("nulls", ["category", "merge"])
def test_null_is_a_value_like_any_other(nulls: str) -> None:
    # Neither pattern of NULLs has k rows by itself.
    table = pd.DataFrame({"sex": ["f"] * 3, "age": pd.array([None, 30, None], "Int64")})
    classes = partition(table, 3, nulls=nulls)
    assert classes.labels.tolist() == [0, 0, 0]
    assert lost_cells(table, classes).to_dict() == {"sex": 0, "age": 1}


def test_importance_spares_the_cells_of_columns() -> None:
    rng = np.random.default_rng(3)
    table = pd.DataFrame({name: rng.integers(0, 4, 60) for name in "abc"})
    for name in "abc":
        counts = lost_cells(table, partition(table, 4, importance=name))
        assert counts[name] == counts.min()
    assert lost_cells(table, partition(table, 4, weights={"a": 9})).idxmin() == "a"
    first_last = lost_cells(table, partition(table, 4, importance="c, b,a"))
    assert first_last["c"] <= first_last["b"] <= first_last["a"]


def test_prices_of_important_columns() -> None:
    assert price_columns(list("abc"), "") == {}
    assert price_columns(list("abc"), "b") == {"a": 1, "b": 2, "c": 1}
    assert price_columns(list("abc"), " c ,a") == {"a": 2, "b": 1, "c": 3}
    assert price_columns(list("abc"), "c,a,b") == {"a": 2, "b": 1, "c": 3}
    for importance in ("d", "a,a", "a,,b"):
        with pytest.raises(InvalidParameter, match="importance"):
            price_columns(list("abc"), importance)


def test_the_seed_draws_which_of_equal_rows_lose_cells() -> None:
    # Two rows of the first ten must join the last one.
    table = pd.DataFrame({"a": [1] * 10 + [2]})
    draws = set()
    for seed in range(30):
        classes = partition(table.assign(b=0), 3, seed=seed)
        is_null = released(table.assign(b=0), classes)["a"].isna().to_numpy()
        assert is_null.sum() == 3
        assert is_null[10]
        draws.add(tuple(np.flatnonzero(is_null[:10]).tolist()))
    assert len(draws) > 10
    assert len({row for draw in draws for row in draw}) == 10


def test_a_constant_column_changes_nothing() -> None:
    rng = np.random.default_rng(4)
    table = pd.DataFrame({name: rng.integers(0, 3, 50) for name in "abc"})
    labels = partition(table, 3).labels
    np.testing.assert_array_equal(partition(table.assign(d=7), 3).labels, labels)


def test_sets_of_columns_are_met_with_fewer_cells_than_by_coarser_classes() -> None:
    rng = np.random.default_rng(5)
    table = pd.DataFrame({name: rng.geometric(0.5, 400).clip(1, 5) for name in "abcd"})
    sets = [{"columns": ["a", "b"], "k": 30}]
    rows, report = dbanon.anonymize_frame(
        table, quasi_identifiers=list("abcd"), k=3, method="local_suppression", also_k=sets
    )
    assert rarest(rows[["a", "b"]]) >= 30
    assert rarest(rows) >= 3
    plain = dbanon.anonymize_frame(
        table, quasi_identifiers=list("abcd"), k=3, method="local_suppression"
    )[1]
    cells = [sum(r.suppressed_cells.values()) for r in (report, plain)]
    assert cells[1] <= cells[0] < 0.2 * table.size


def test_at_most_twelve_columns() -> None:
    table = pd.DataFrame({f"c{i}": [1, 1, 2, 2] for i in range(13)})
    with pytest.raises(InvalidParameter, match="takes 12 quasi-identifiers, not 13"):
        partition(table, 2)
    assert partition(table.iloc[:, :12], 2).n_classes == 2


def test_numbers_that_float_cannot_hold_are_refused_unless_nominal() -> None:
    table = pd.DataFrame({"id": [2**60, 2**60, 2**60 + 1, 2**60 + 1]})
    with pytest.raises(UnsupportedType) as refused:
        partition(table, 2)
    assert "state their kind as nominal" in str(refused.value.hint)
    assert partition(table, 2, kinds={"id": "nominal"}).labels.tolist() == [0, 0, 1, 1]


def test_a_plain_space_has_no_missing_cells() -> None:
    tree = flat_hierarchy(["x", "y"])
    codes = np.array([[0], [0], [1], [1], [1]], np.int32)
    space = MixedSpace(codes, np.full(1, ROOT_COST), (tree,), ("a",))
    method = METHODS["local_suppression"]
    rng = np.random.default_rng(0)
    shares: list[float] = []
    result = method.run(space, 2, tick=shares.append, rng=rng, **method.check_options({}))
    assert result.labels.tolist() == [0, 0, 1, 1, 1]
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_the_survey_of_sdcmicro_loses_few_cells() -> None:
    """sdcMicro needs 293, 500 and 911 cells where a missing cell agrees with every value.

    There k - 1 rows without any value would do for all others. Here NULL is a value of its own.
    """
    file = "sdcmicro/testdata_full.csv"
    table = pd.read_csv(require_reference(file) / file)[KEYS]
    for k, most in ((3, 385), (5, 710), (10, 1350)):
        classes = partition(table, k)
        assert rarest(released(table, classes)) >= k
        assert lost_cells(table, classes).sum() <= most
    refined = partition(table, 3, refine="thorough")
    assert lost_cells(table, refined).sum() <= 370


def test_trial_releases_compare_it_with_other_methods() -> None:
    rng = np.random.default_rng(6)
    table = pd.DataFrame({name: rng.choice(list("uvwxyz"), 300) for name in "abc"})
    table["n"] = rng.integers(0, 3, 300)
    methods = ["local_suppression", "gaa_cp"]
    for columns in (["a", "b", "n"], ["n"]):
        advice = dbanon.advise(table, quasi_identifiers=columns, methods=methods, k=[3])
        assert advice.sweep is not None
        assert {point.curve for point in advice.sweep.points} >= {"local_suppression"}
