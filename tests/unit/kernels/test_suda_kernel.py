"""The kernel of minimal sample uniques equals a search of all sets of keys, record by record."""

from __future__ import annotations

import time

import numpy as np
import pytest
from numpy.typing import NDArray

from dbanon import kernels
from tests.reference.suda import Keys, minimal_sample_uniques

Codes = NDArray[np.int32]


def run(codes: Codes, max_size: int, budget: int = kernels.DEFAULT_BUDGET) -> kernels.Suda:
    kernel = kernels.Suda(codes, max_size)
    while not kernel.step(budget):
        assert 0.0 <= kernel.progress < 1.0
    assert kernel.progress == 1.0
    return kernel


def key_sets(kernel: kernels.Suda, n: int) -> list[list[Keys]]:
    """The MSUs of each record, in the kernel's order."""
    sets: list[list[Keys]] = [[] for _ in range(n)]
    for record, keys in zip(kernel.msu_records(), kernel.msu_keys().tolist(), strict=True):
        sets[record].append(tuple(key for key in range(27) if keys >> key & 1))
    return sets


def number(keys: Keys) -> int:
    return sum(1 << key for key in keys)


def in_order(sets: list[list[Keys]]) -> list[list[Keys]]:
    return [sorted(row, key=lambda keys: (len(keys), number(keys))) for row in sets]


def random_codes(rng: np.random.Generator) -> Codes:
    """Few or many values for each key, repeated rows, and in half of the tables missing values."""
    n, m = int(rng.integers(1, 70)), int(rng.integers(1, 8))
    low = -int(rng.integers(2))
    values = rng.integers(1, 7, m).clip(max=n)
    codes = np.column_stack([rng.integers(low, top, n) for top in values]).astype(np.int32)
    return np.ascontiguousarray(codes[rng.integers(0, n, n)] if rng.random() < 0.3 else codes)


@pytest.mark.parametrize("seed", range(8))
def test_equals_the_search_of_all_sets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(40):
        codes = random_codes(rng)
        max_size = int(rng.integers(1, codes.shape[1] + 1))
        kernel = run(codes, max_size, int(rng.integers(1, 500)))
        expected = minimal_sample_uniques(codes.tolist(), max_size)
        assert key_sets(kernel, len(codes)) == in_order(expected)
        assert kernel.labels().tolist() == [len(row[0]) if row else 0 for row in expected]
        assert kernel.searched_size == max_size
        _, repeats = np.unique(codes, axis=0, return_counts=True)
        assert kernel.n_unique == np.count_nonzero(repeats == 1)
        assert kernel.n_paired == 2 * np.count_nonzero(repeats == 2)


@pytest.mark.parametrize(
    "codes",
    [
        np.zeros((0, 3), np.int32),
        np.zeros((1, 1), np.int32),
        np.full((1, 3), -1, np.int32),
        np.full((5, 3), -1, np.int32),
        np.zeros((6, 4), np.int32),
        np.repeat(np.arange(9, dtype=np.int32)[:, None], 3, axis=1),
        np.arange(9, dtype=np.int32)[:, None] // 2,
        np.eye(7, dtype=np.int32),
        np.eye(7, dtype=np.int32) - 1,
    ],
    ids=[
        "no_rows",
        "one_row",
        "missing_row",
        "missing",
        "equal",
        "all_unique",
        "one_key",
        "diagonal",
        "gaps",
    ],
)
def test_unusual_tables(codes: Codes) -> None:
    m = codes.shape[1]
    expected = minimal_sample_uniques(codes.tolist(), m)
    assert key_sets(run(np.ascontiguousarray(codes), m), len(codes)) == in_order(expected)


def test_the_largest_number_of_keys() -> None:
    codes = np.random.default_rng(4).integers(0, 2, (60, 27)).astype(np.int32)
    expected = minimal_sample_uniques(codes.tolist(), 2)
    assert key_sets(run(codes, 2), 60) == in_order(expected)


def test_a_search_that_runs_out_of_time_keeps_the_sizes_before() -> None:
    codes = np.random.default_rng(2).integers(0, 4, (3000, 8)).astype(np.int32)
    kernel = kernels.Suda(codes, 8, 0.2)
    while kernel.progress < 0.3:
        if kernel.step(1):
            break
    time.sleep(0.2)
    while not kernel.step():
        pass
    size = kernel.searched_size
    assert size < 8
    if size:
        complete = run(codes, size)
        np.testing.assert_array_equal(kernel.msu_records(), complete.msu_records())
        np.testing.assert_array_equal(kernel.msu_keys(), complete.msu_keys())
    else:
        assert kernel.msu_records().size == 0


@pytest.mark.parametrize(
    ("codes", "max_size", "seconds"),
    [
        (np.zeros((4, 0), np.int32), 1, 0.0),
        (np.zeros((4, 28), np.int32), 1, 0.0),
        (np.zeros((4, 2), np.int32), 0, 0.0),
        (np.zeros((4, 2), np.int32), 3, 0.0),
        (np.zeros((4, 2), np.int32), 1, -1.0),
        (np.zeros((4, 2), np.int32), 1, np.nan),
        (np.full((4, 2), -2, np.int32), 1, 0.0),
        (np.full((4, 2), 4, np.int32), 1, 0.0),
        (np.full((4, 2), 2**31 - 1, np.int32), 1, 0.0),
    ],
)
def test_wrong_arguments_are_refused(codes: Codes, max_size: int, seconds: float) -> None:
    with pytest.raises(ValueError):
        kernels.Suda(codes, max_size, seconds)


def test_a_kernel_can_be_dropped_halfway() -> None:
    kernel = kernels.Suda(np.random.default_rng(1).integers(0, 3, (500, 6)).astype(np.int32), 6)
    assert not kernel.step(1)
    with pytest.raises(RuntimeError):
        kernel.msu_keys()
    with pytest.raises(RuntimeError):
        _ = kernel.searched_size
