"""standardize=mahalanobis: distances, null directions, patterns of NULLs, what it refuses."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import dbanon
from dbanon.data.scales import compute_whitening
from dbanon.errors import InvalidParameter
from tests.scales import standardization

RNG = np.random.default_rng(7)
MIXED = RNG.normal(size=(60, 4)) @ RNG.normal(size=(4, 4)) * [1.0, 1e6, 1e-9, 3.0] + 5.0


def whitened(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    points = standardization(numbers, "mahalanobis").apply(numbers)
    return compute_whitening(points).apply(points)


def gaps(points: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.square(points[:, None] - points[None]).sum(axis=2)


def expected(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Squared Mahalanobis distances by the textbook, on z-scores, which changes none."""
    scores = standardization(numbers).apply(numbers)
    inverse = np.linalg.pinv(np.atleast_2d(np.cov(scores.T)), rcond=1e-9, hermitian=True)
    differences = scores[:, None] - scores[None]
    distances: NDArray[np.float64] = np.einsum("abi,ij,abj->ab", differences, inverse, differences)
    return distances


def test_worked_example() -> None:
    """(0,0) (2,0) (0,2) (2,2) (1,1): no covariance, variance 1; and the same sheared."""
    square = np.array([[0.0, 0], [2, 0], [0, 2], [2, 2], [1, 1]])
    sheared = square @ np.array([[1.0, 3.0], [0.0, 1.0]])
    for numbers in (square, sheared):
        distances = gaps(whitened(numbers))
        assert distances[0] == pytest.approx([0, 4, 4, 8, 2])


def test_distances_are_those_of_the_inverse_covariance() -> None:
    np.testing.assert_allclose(gaps(whitened(MIXED)), expected(MIXED), rtol=1e-8, atol=1e-10)
    order = [2, 0, 3, 1]
    np.testing.assert_allclose(gaps(whitened(MIXED[:, order])), expected(MIXED), rtol=1e-8)
    assert np.cov(whitened(MIXED).T) == pytest.approx(np.eye(4), abs=1e-9)


def test_null_directions_do_not_count() -> None:
    numbers = np.column_stack([MIXED, MIXED[:, 0] - 2 * MIXED[:, 3], np.full(60, 7.0), MIXED[:, 1]])
    points = whitened(numbers)
    assert (points[:, 4:] == 0).all()
    np.testing.assert_array_equal(points[:, :4], whitened(MIXED))
    np.testing.assert_allclose(gaps(points), expected(numbers), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_fewer_records_than_columns(n: int) -> None:
    points = whitened(MIXED[:n])
    assert points.shape == (n, 4)
    assert np.isfinite(points).all()
    assert (points.any(axis=0)).sum() <= max(n - 1, 0)


def test_linear_maps_change_no_class() -> None:
    plain = RNG.normal(size=(60, 4))
    mapped = plain @ RNG.normal(size=(4, 4))
    label_pair = [dbanon.partition(x, 4, standardize="mahalanobis").labels for x in (plain, mapped)]
    np.testing.assert_array_equal(*label_pair)
    constant = dbanon.partition(np.full((9, 2), 3.0), 3, standardize="mahalanobis")
    assert constant.n_classes == 3
    one_column = [
        dbanon.partition(MIXED[:, :1], 3, standardize=how) for how in ("zscore", "mahalanobis")
    ]
    np.testing.assert_array_equal(one_column[0].labels, one_column[1].labels)


def test_each_pattern_of_nulls_has_its_covariance() -> None:
    """Records without b: whitened by a and c of all records, b or not."""
    numbers = MIXED[:, :3].copy()
    frame = pd.DataFrame(numbers, columns=list("abc"))
    frame.loc[:19, "b"] = np.nan
    labels = dbanon.partition(frame, 4, nulls="category", standardize="mahalanobis").labels
    points = whitened(numbers[:, [0, 2]])[:20]
    classes = dbanon.partition(points, 4, standardize="none").labels
    pairs = set(zip(labels[:20], classes, strict=True))
    assert len(pairs) == len(set(classes)) == len(set(labels[:20]))
    complete = whitened(numbers[20:])
    expected = dbanon.partition(complete, 4, standardize="none").labels
    assert len(set(zip(labels[20:], expected, strict=True))) == len(set(expected))


def test_refusals() -> None:
    with pytest.raises(InvalidParameter, match="Weights"):
        dbanon.Policy(k=3, standardize="mahalanobis", weights={"a": 2.0})
    with pytest.raises(InvalidParameter, match="individual_ranking"):
        dbanon.Policy(k=3, standardize="mahalanobis", method="individual_ranking")


def test_every_method_of_points_takes_it() -> None:
    for method in dbanon.METHODS.values():
        if method.takes_categories or method.name == "individual_ranking":
            continue
        columns = MIXED[:, : method.max_attributes or 4]
        result = dbanon.partition(columns, 3, method=method.name, standardize="mahalanobis")
        assert min(np.bincount(result.labels)) >= 3
