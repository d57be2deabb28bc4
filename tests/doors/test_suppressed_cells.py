"""Other tools' releases with blank cells: each costs its value, and only protects that much.

The reference links records with plain loops: the remaining cells of a row must all agree, and among
such rows it takes the one with the most cells.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import dbanon
from tests.prerequisites import require_reference


def blank_cells(table: pd.DataFrame, seed: int, share: float = 0.5) -> pd.DataFrame:
    """The table without some of its cells."""
    return table.mask(np.random.default_rng(seed).random(table.shape) < share)


def texts(seed: int, n: int = 120, columns: int = 5) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame({f"c{i}": rng.choice(list("uvwx"), n) for i in range(columns)})


def numbers(seed: int, n: int = 120, columns: int = 4) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame({f"c{i}": rng.integers(0, 50, n).astype(float) for i in range(columns)})


def identified_share(original: pd.DataFrame, released: pd.DataFrame) -> float:
    """The share of originals that are identified by the remaining cells."""
    before, after = original.to_numpy(object), released.to_numpy(object)
    blank = released.isna().to_numpy()
    total = 0.0
    for index, record in enumerate(before):
        agree = [
            row
            for row in range(len(after))
            if all(blank[row, at] or after[row, at] == record[at] for at in range(len(record)))
        ]
        fewest = min(int(blank[row].sum()) for row in agree)
        nearest = [row for row in agree if blank[row].sum() == fewest]
        # The attacker guesses one of them; equal released rows count as the same.
        nearest_records = [tuple(map(str, after[row])) for row in nearest]
        if tuple(map(str, after[index])) in nearest_records:
            total += 1 / len(nearest)
    return total / len(before)


def test_blank_categories_cost_their_values_and_remaining_cells_link() -> None:
    table = texts(1)
    released = blank_cells(table, 2)
    evaluation = dbanon.evaluate(table, released)
    cells = int(released.isna().to_numpy().sum())
    assert evaluation.suppressed_cells == cells
    assert evaluation.to_dict()["suppressed_cells"] == cells
    assert f"suppressed cells        {cells}" in str(evaluation)
    assert evaluation.losses["label_loss"] == pytest.approx(cells / table.size)
    assert (evaluation.losses["entropy_loss"] or 0) > 0.3
    # The better of two attackers counts.
    assert (
        (evaluation.risks["linkage_risk"] or 0) >= identified_share(table, released) - 1e-12 > 0.1
    )


def test_numbers_are_identified_by_the_remaining_cells() -> None:
    table = numbers(3)
    released = blank_cells(table, 4)
    evaluation = dbanon.evaluate(table, released)
    assert evaluation.suppressed_cells == int(released.isna().to_numpy().sum())
    share = evaluation.suppressed_cells / table.size
    assert evaluation.losses["label_loss"] == pytest.approx(share)
    assert (
        (evaluation.risks["linkage_risk"] or 0) >= identified_share(table, released) - 1e-12 > 0.8
    )


def test_stars_and_nulls_say_the_same() -> None:
    table = texts(5)
    released = blank_cells(table, 6, 0.2)
    of_nulls = dbanon.evaluate(table, released)
    of_stars = dbanon.evaluate(table, released.fillna("*"))
    assert of_nulls.losses["label_loss"] == pytest.approx(of_stars.losses["label_loss"])


def test_original_nulls_cost_nothing_and_hide_nothing() -> None:
    table = blank_cells(texts(7), 8, 0.1)
    same = dbanon.evaluate(table, table)
    assert same.suppressed_cells == 0
    assert same.losses["label_loss"] == 0
    more = blank_cells(table, 9, 0.1)
    evaluation = dbanon.evaluate(table, more)
    cells = int((more.isna() & table.notna()).to_numpy().sum())
    assert evaluation.suppressed_cells == cells
    assert evaluation.losses["label_loss"] == pytest.approx(cells / table.size)
    assert (evaluation.risks["linkage_risk"] or 0) > 0.2


def test_all_blank_rows_identify_no_person() -> None:
    table = texts(10, columns=2)
    released = table.mask(np.ones(table.shape, bool))
    evaluation: Any = dbanon.evaluate(table, released)
    assert evaluation.losses["label_loss"] == 1
    assert evaluation.risks["linkage_risk"] == pytest.approx(1 / len(table))


def test_local_suppression_of_sdcmicro() -> None:
    files = ("sdcmicro/testdata_full.csv", "sdcmicro/testdata_kanon7_k3.csv.gz")
    folder = require_reference(*files)
    released = pd.read_csv(folder / files[1])
    original = pd.read_csv(folder / files[0])[list(released.columns)]
    assert int(released.isna().to_numpy().sum()) == 293
    # Key variables are codes.
    before = original.astype("Int64").astype(str)
    after = released.astype("Int64").astype(str).where(released.notna())
    evaluation = dbanon.evaluate(before, after)
    assert evaluation.suppressed_cells == 293
    assert evaluation.losses["label_loss"] == pytest.approx(293 / original.size)
    assert 0 < (evaluation.risks["linkage_risk"] or 0) < 1 / 3
