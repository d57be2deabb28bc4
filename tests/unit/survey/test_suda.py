"""SUDA scores equal their definitions, and those of sdcMicro."""

from __future__ import annotations

import csv
import gzip
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dbanon.errors import InvalidParameter
from dbanon.extensions.survey.suda import SudaRisk, measure_suda
from tests.prerequisites import require_reference
from tests.reference import suda as reference

KEYS = ("urbrur", "roof", "walls", "water", "electcon", "relat", "sex")


def codes_of(rows: list[list[int]]) -> NDArray[np.int32]:
    return np.array(rows, np.int32)


def assert_equals_reference(codes: NDArray[np.int32], max_size: int, fraction: float) -> None:
    risk = measure_suda(codes, max_size=max_size, dis_fraction=fraction)
    rows, m = codes.tolist(), codes.shape[1]
    msus = reference.minimal_sample_uniques(rows, max_size)
    scores = reference.scores(msus, m, max_size)
    assert risk.scores.tolist() == scores
    np.testing.assert_allclose(
        risk.dis_scores, reference.dis_scores(rows, scores, m, fraction), rtol=1e-9
    )
    contributions = [
        [reference.contribution(row, key, m, max_size) for key in range(m)] for row in msus
    ]
    np.testing.assert_allclose(risk.record_contributions(), contributions, rtol=1e-12)
    unique = np.unique(codes, axis=0, return_counts=True)[1] == 1
    assert risk.n_unexplained == np.count_nonzero(unique) - sum(map(bool, msus))
    if any(scores):
        weighted = np.array(contributions) * np.array(scores)[:, None]
        np.testing.assert_allclose(risk.key_contributions(), weighted.sum(axis=0) / sum(scores))


@pytest.mark.parametrize("seed", range(30))
def test_equals_the_definitions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(2, 60)), int(rng.integers(1, 8))
    codes = rng.integers(-int(rng.integers(2)), 4, (n, m)).astype(np.int32)
    assert_equals_reference(codes, int(rng.integers(1, m + 1)), float(rng.uniform(0.001, 1)))


def test_equals_sdcmicro() -> None:
    folder = require_reference("sdcmicro/testdata_full.csv", "sdcmicro/testdata_suda7.csv.gz")
    with (folder / "sdcmicro" / "testdata_full.csv").open(newline="", encoding="utf-8") as file:
        rows = [[int(row[key]) for key in KEYS] for row in csv.DictReader(file)]
    with gzip.open(folder / "sdcmicro" / "testdata_suda7.csv.gz", "rt") as file:
        expected = [(float(row["score"]), float(row["dis"])) for row in csv.DictReader(file)]
    risk = measure_suda(codes_of(rows))
    scores, dis_scores = np.array(expected).T
    assert np.count_nonzero(scores) == 157
    np.testing.assert_array_equal(risk.scores, scores)
    # sdcMicro computes parts of it in float32.
    np.testing.assert_allclose(risk.dis_scores, dis_scores, rtol=0, atol=1e-6)
    bands = np.histogram(risk.dis_scores[scores > 0], [0, 0.1, 0.2, 0.3, 0.6, 1])[0]
    assert bands.tolist() == [122, 22, 12, 0, 1]
    assert (risk.is_complete, risk.describe_limit(), risk.n_unexplained) == (True, None, 0)
    assert_equals_reference(codes_of(rows), 7, 0.01)
    assert_equals_reference(codes_of(rows), 3, 0.01)


def test_a_worked_example() -> None:
    # The first record is alone with its last value, the second with its first two values.
    codes = codes_of([[0, 0, 1], [1, 1, 0], [0, 1, 0], [1, 0, 0], [0, 1, 0], [1, 0, 0]])
    risk = measure_suda(codes)
    assert risk.msu_records.tolist() == [0, 0, 1]
    assert risk.msu_keys.tolist() == [0b100, 0b011, 0b011]
    # (3 - 1) (3 - 2) for one key, 3 - 2 for two.
    assert risk.scores.tolist() == [3, 1, 0, 0, 0, 0]
    np.testing.assert_allclose(risk.record_contributions()[0], [1 / 3, 1 / 3, 2 / 3])
    np.testing.assert_allclose(risk.key_contributions(), [2 / 4, 2 / 4, 2 / 4])
    # Four records are in pairs, so the odds of 1.25 and (1/3^1.25) against are 4 * 0.99 / 0.01.
    shares = 3**1.25 * (1 + 3**-1.25), 1 + 3**-1.25
    expected = [1 / (1 + 396 / share) for share in shares]
    np.testing.assert_allclose(risk.dis_scores[:2], expected, rtol=1e-12)


def test_missing_values_make_no_record_unique() -> None:
    risk = measure_suda(codes_of([[0, -1], [0, 1], [0, 1], [0, 0], [0, 0]]))
    assert risk.scores.tolist() == [0] * 5
    assert risk.n_unexplained == 1
    # Nor do they keep one from being unique.
    risk = measure_suda(codes_of([[0, -1], [1, 1], [1, 1], [0, 0], [1, 0]]))
    assert risk.msu_records.tolist() == [3, 4]
    assert risk.msu_keys.tolist() == [0b11, 0b11]


def test_without_pairs_each_record_with_an_msu_has_a_dis_score_of_one() -> None:
    risk = measure_suda(codes_of([[0, 0], [1, 1], [2, 2], [2, 2], [2, 2]]))
    assert risk.dis_scores.tolist() == [1, 1, 0, 0, 0]


def test_large_and_strided_codes() -> None:
    rng = np.random.default_rng(5)
    codes = rng.integers(-1, 4, (50, 4)).astype(np.int32)
    spread = np.where(codes < 0, codes, codes * 500_000_000).astype(np.int32)
    for same in (spread, np.asfortranarray(codes), np.repeat(codes, 2, axis=1)[:, ::2]):
        risk, expected = measure_suda(same), measure_suda(codes)
        np.testing.assert_array_equal(risk.msu_records, expected.msu_records)
        np.testing.assert_array_equal(risk.msu_keys, expected.msu_keys)


def test_no_records() -> None:
    risk = measure_suda(np.zeros((0, 3), np.int32))
    assert risk.scores.shape == risk.dis_scores.shape == (0,)
    assert risk.record_contributions().shape == (0, 3)
    assert risk.key_contributions().tolist() == [0, 0, 0]


def limit_of(risk: SudaRisk) -> str:
    limit = risk.describe_limit()
    assert limit is not None
    return limit


def test_a_limit_is_described() -> None:
    codes = np.random.default_rng(3).integers(0, 3, (400, 6)).astype(np.int32)
    by_size = measure_suda(codes, max_size=3)
    assert (by_size.searched_size, by_size.is_complete) == (3, False)
    assert limit_of(by_size).startswith(
        "The search was limited in size: only sets of up to 3 of 6 columns were searched."
    )
    assert limit_of(by_size).endswith(f": {by_size.n_unexplained}.")
    complete = measure_suda(codes)
    assert by_size.n_unexplained == np.count_nonzero(complete.scores) - np.count_nonzero(
        by_size.scores
    )
    by_time = measure_suda(codes, seconds=1e-9)
    assert (by_time.searched_size, by_time.is_complete) == (0, False)
    assert not by_time.scores.any()
    assert not by_time.dis_scores.any()
    assert by_time.n_unexplained == np.count_nonzero(complete.scores)
    assert limit_of(by_time).startswith(
        "The search ran out of time: only sets of up to 0 of 6 columns were searched."
    )
    assert measure_suda(codes, seconds=3600).is_complete


def test_progress_is_reported_and_an_exception_ends_the_search() -> None:
    codes = np.random.default_rng(3).integers(0, 5, (30_000, 8)).astype(np.int32)
    shares: list[float] = []
    measure_suda(codes, tick=shares.append)
    assert len(shares) > 5
    assert shares == sorted(shares)
    assert shares[-1] == 1

    def interrupt(share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure_suda(codes, tick=interrupt)


@pytest.mark.parametrize(
    ("codes", "options"),
    [
        (np.zeros((3, 0), np.int32), {}),
        (np.zeros((3, 28), np.int32), {}),
        (np.zeros(3, np.int32), {}),
        (np.zeros((3, 2)), {}),
        (np.full((3, 2), -2, np.int32), {}),
        (np.zeros((3, 2), np.int32), {"max_size": 0}),
        (np.zeros((3, 2), np.int32), {"max_size": 3}),
        (np.zeros((3, 2), np.int32), {"seconds": 0.0}),
        (np.zeros((3, 2), np.int32), {"seconds": float("nan")}),
        (np.zeros((3, 2), np.int32), {"dis_fraction": 0.0}),
        (np.zeros((3, 2), np.int32), {"dis_fraction": 1.5}),
        (np.zeros((3, 2), np.int32), {"dis_fraction": float("nan")}),
    ],
)
def test_wrong_arguments_are_refused(codes: NDArray[np.int32], options: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        measure_suda(codes, **options)
