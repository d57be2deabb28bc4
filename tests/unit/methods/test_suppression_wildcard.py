"""Local suppression where NULL agrees with every value: optimal, and verified by plain counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import dbanon
from dbanon.errors import InvalidParameter, TooFewRecords
from dbanon.measures.agreement import count_fewest_matches, number_distinct_rows
from dbanon.methods.suppression_problem import Codes, Demand
from dbanon.methods.suppression_wildcard import count_least_cells
from tests.prerequisites import require_reference
from tests.reference.suppression import count_rows, least_cost

KEYS = ["urbrur", "roof", "walls", "water", "electcon", "relat", "sex"]
SDCMICRO_CELLS = {3: 293, 5: 500, 10: 911}

pytestmark = pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")


def release(table: pd.DataFrame, k: int, **options: Any) -> tuple[pd.DataFrame, dbanon.Report]:
    """The rows as released, in the order of the table, and the report."""
    method_options = {"missing": "wildcard", **options.pop("options", {})}
    return dbanon.anonymize_frame(
        table,
        quasi_identifiers=list(table.columns),
        k=k,
        method="local_suppression",
        options=method_options,
        nulls="category",
        rows="input",
        **options,
    )


def code(table: pd.DataFrame, values: pd.DataFrame) -> Codes:
    """Code a table by the values of another one, int32 (n, m); -1 is NULL."""
    return np.column_stack(
        [
            pd.Categorical(table[name].astype(object), sorted(values[name].dropna().unique())).codes
            for name in table.columns
        ]
    ).astype(np.int32)


def suppression_of(report: dbanon.Report) -> dict[str, int]:
    assert report.internal is not None
    assert report.internal.suppression is not None
    return dict(report.internal.suppression)


def small_table(seed: int) -> tuple[Codes, int, list[tuple[list[int], int]]]:
    """Codes of 3 to 7 rows, some of them -1, with a k and further sets of columns."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, 4))
    n = int(rng.integers(3, 6 if m == 3 else 7))
    codes = rng.integers(0, rng.integers(2, 4), (n, m)).astype(np.int32)
    codes[rng.random((n, m)) < 0.1] = -1
    k = int(rng.integers(2, min(n, 3) + 1))
    sets: list[tuple[list[int], int]] = []
    if seed % 3 == 0:
        columns = sorted(rng.permutation(m)[: int(rng.integers(1, m + 1))].tolist())
        sets = [(columns, int(rng.integers(k, min(n, 4) + 1)))]
    return codes, k, sets


def survey_like(n: int, seed: int) -> pd.DataFrame:
    """Columns of 2 to 9 values, most rows with the common ones, and some NULLs."""
    rng = np.random.default_rng(seed)
    columns = [rng.geometric(0.5, n).clip(1, size) - 1 for size in (2, 5, 3, 8, 3, 9, 2)]
    table = pd.DataFrame(np.stack(columns, axis=1), columns=list("abcdefg")).astype("Int64")
    return table.mask(rng.random(table.shape) < 0.02)


def test_worked_example_of_three_rows() -> None:
    """k = 2. Each released row agrees with two persons or more, and the first person with one row.

    The second row may lose either cell. The town comes first of two columns of equal price.
    """
    table = pd.DataFrame({"town": ["a", "a", "b"], "sex": ["f", "m", "m"]})
    rows, report = release(table, 2)
    assert rows.astype(object).where(rows.notna(), None).to_numpy().tolist() == [
        ["a", None],
        [None, "m"],
        [None, "m"],
    ]
    assert report.k_achieved == 3
    assert report.smallest_class == 1
    assert suppression_of(report) == {
        "cells": 3,
        "least_cells": 3,
        "rows_below_k": 1,
        "fewest_agreeing_rows": 1,
    }


def test_small_tables_lose_as_few_cells_as_possible() -> None:
    for seed in range(200):
        codes, k, sets = small_table(seed)
        table = pd.DataFrame(codes, columns=list("abc")[: codes.shape[1]]).astype("Int64")
        table = table.mask(table < 0)
        rows, report = release(
            table, k, also_k=[{"columns": [*table.columns[columns]], "k": n} for columns, n in sets]
        )
        released = rows.fillna(-1).to_numpy(np.int32)
        demands = [(range(codes.shape[1]), k), *sets]
        cells = int(((released < 0) & (codes >= 0)).sum())
        least = int(least_cost(codes, demands, np.ones(codes.shape[1]), "own_wildcard"))
        assert cells == least == suppression_of(report)["least_cells"], seed
        for columns, needed in demands:
            assert count_rows(released, codes, columns, "own_wildcard").min() >= needed
            assert count_rows(released, codes, columns, "wildcard").min() >= needed
        counts = count_rows(released, codes, demands[0][0], "wildcard")
        assert report.k_achieved == counts.min()
        # Swapped, the plain count takes originals as rows and released rows as originals.
        exposed = count_rows(codes, released, demands[0][0], "own_wildcard")
        assert suppression_of(report)["rows_below_k"] == (exposed < k).sum()
        assert suppression_of(report)["fewest_agreeing_rows"] == exposed.min()


def test_the_bound_of_classes_holds_for_small_tables() -> None:
    for seed in range(60):
        codes, k, sets = small_table(seed)
        m = codes.shape[1]
        demands = [(range(m), k), *sets]
        bound = count_least_cells(
            codes, [Demand(tuple(columns), n) for columns, n in demands], missing_agrees=False
        )
        assert bound <= least_cost(codes, demands, np.ones(m), "category")


def test_a_bound_that_ends_early_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    table = survey_like(300, seed=1)
    codes, demands = code(table, table), [Demand(tuple(range(7)), 5)]
    full = count_least_cells(codes, demands, missing_agrees=True)
    n_rows = len(number_distinct_rows(codes)[0])
    bounds = []
    for n_masks in (1, 5, 20, 128):
        monkeypatch.setattr(
            "dbanon.methods.suppression_wildcard._MAX_BOUND_PAIRS", n_masks * n_rows
        )
        bounds.append(count_least_cells(codes, demands, missing_agrees=True))
    assert bounds[0] > 0
    assert bounds == sorted(bounds)
    assert bounds[-1] == full


def test_larger_tables_meet_several_demands() -> None:
    table = survey_like(400, seed=2)
    rows, report = release(
        table, 3, also_k=[{"columns": ["a", "b", "c"], "k": 10}, {"columns": ["d", "f"], "k": 6}]
    )
    originals, released = code(table, table), code(rows, table)
    assert ((released == originals) | (released < 0)).all()
    for columns, k in ((range(7), 3), ((0, 1, 2), 10), ((3, 5), 6)):
        assert count_rows(released, originals, columns, "own_wildcard").min() >= k
        assert count_rows(released, originals, columns, "wildcard").min() >= k
    category = dbanon.anonymize_frame(
        table, quasi_identifiers=[*"abcdefg"], k=3, method="local_suppression", nulls="category"
    )[1]
    plain = release(table, 3)[1]
    assert sum(plain.suppressed_cells.values()) < sum(category.suppressed_cells.values())
    suppression = suppression_of(category)
    assert set(suppression) == {"cells", "least_cells"}
    assert 0 < suppression["least_cells"] <= suppression["cells"]
    assert suppression["cells"] == sum(category.suppressed_cells.values())
    assert suppression_of(report)["cells"] == sum(report.suppressed_cells.values())


@pytest.mark.parametrize("seed", range(5))
def test_the_recount_equals_plain_counts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 3, (80, 4)).astype(np.int32)
    codes[rng.random(codes.shape) < 0.2 * rng.random()] = -1
    for columns in ([0, 1, 2, 3], [2, 0], [3]):
        rows, ids = number_distinct_rows(codes[:, columns])
        fewest = count_fewest_matches(rows, np.bincount(ids).astype(np.int64))
        assert fewest == count_rows(codes, codes, columns, "wildcard").min()
    assert count_fewest_matches(codes[:0], np.zeros(0, np.int64)) == 0


def test_importance_and_weights_spare_columns() -> None:
    table = pd.DataFrame({"a": [0, 0, 0, 1, 1], "b": [0, 0, 1, 1, 1]})
    for name, other in (("a", "b"), ("b", "a")):
        assert release(table, 2, options={"importance": name})[1].suppressed_cells == {other: 1}
        assert release(table, 2, weights={name: 2})[1].suppressed_cells == {other: 1}


def test_a_table_that_needs_nothing_loses_nothing() -> None:
    table = pd.DataFrame({"a": [1] * 5, "b": [2] * 5})
    rows, report = release(table, 5)
    assert rows.equals(table)
    assert suppression_of(report) == {
        "cells": 0,
        "least_cells": 0,
        "rows_below_k": 0,
        "fewest_agreeing_rows": 5,
    }


def test_calls_that_return_classes_alone_refuse() -> None:
    with pytest.raises(InvalidParameter, match="no classes of k rows") as refused:
        dbanon.partition(
            pd.DataFrame({"a": [1, 1, 2]}), 2, method="local_suppression", missing="wildcard"
        )
    assert "Leave out missing" in str(refused.value.hint)


def test_too_few_records() -> None:
    with pytest.raises(TooFewRecords):
        release(pd.DataFrame({"a": [1, 1, 2]}), 4)


def test_the_survey_of_sdcmicro_loses_fewer_cells() -> None:
    """Also by the stricter rule, in which each row agrees with k rows of the source."""
    file = "sdcmicro/testdata_full.csv"
    table = pd.read_csv(require_reference(file) / file)[KEYS]
    for k, cells in ((3, 283), (5, 461), (10, 767)):
        rows, report = release(table, k)
        assert int((rows.isna() & table.notna()).to_numpy().sum()) == cells < SDCMICRO_CELLS[k]
        assert suppression_of(report)["least_cells"] == cells
        assert report.k_achieved >= k


def test_the_count_accepts_the_release_of_sdcmicro() -> None:
    files = ("sdcmicro/testdata_full.csv", "sdcmicro/testdata_kanon7_k3.csv.gz")
    folder = require_reference(*files)
    originals, released = (pd.read_csv(folder / file)[KEYS] for file in files)
    assert int((released.isna() & originals.notna()).to_numpy().sum()) == SDCMICRO_CELLS[3]
    rows, ids = number_distinct_rows(code(released, originals))
    assert count_fewest_matches(rows, np.bincount(ids).astype(np.int64)) == 3
