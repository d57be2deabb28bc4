"""Values that are constant per person identifier: frames count them as a plain loop does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from dbanon.stores.frame import source
from dbanon.stores.frame.source import FrameSource

Codes = NDArray[np.int64]


def plainly(number: Codes, others: list[Codes], probed: int) -> list[list[int]]:
    counts_by_value = []
    for value in sorted({code for code in number[:probed].tolist() if code >= 0}):
        rows = np.flatnonzero(number == value)
        present_codes = [[code for code in codes[rows].tolist() if code >= 0] for codes in others]
        if len(rows) > 1:
            counts_by_value.append(
                [count for codes in present_codes for count in (len(codes), len(set(codes)))]
            )
    return counts_by_value


def test_counts_within_values_are_those_of_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "PROBED_ROWS", 6)
    rng, several = np.random.default_rng(1), 0
    for _ in range(300):
        n = int(rng.integers(1, 40))
        number = rng.integers(-1, rng.integers(1, 12), n)
        others = [rng.integers(-1, rng.integers(0, 5), n) for _ in range(rng.integers(1, 4))]
        expected = plainly(number, others, 6)
        assert source._dependency_counts(number, others) == expected
        several += len(expected) > 1
    assert several > 100


def test_columns_of_one_name_are_not_looked_at() -> None:
    rows = np.arange(300)
    frame = pd.DataFrame({"patient_id": rows // 3, "age": rows % 50})
    # A frame has one relation, and does not look at it.
    relation: Any = None
    assert list(FrameSource(frame).find_identifier_columns(relation)) == ["patient_id"]
    twice = pd.concat([frame, frame[["patient_id"]]], axis=1)
    assert FrameSource(twice).find_identifier_columns(relation) == {}
