"""Arrays: classes and their loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import dbanon
from dbanon import errors

POINTS = np.random.default_rng(3).normal(size=(50, 3))


def test_a_partition_of_an_array() -> None:
    before = POINTS.copy()
    partition = dbanon.partition(POINTS, 4)
    assert partition.labels.dtype == np.int32
    assert partition.labels.shape == (50,)
    assert partition.n_classes == len(partition.sizes) == 12
    assert sorted(np.bincount(partition.labels)) == sorted(partition.sizes)
    assert partition.sizes.min() >= 4
    np.testing.assert_array_equal(POINTS, before)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool", "object"])
def test_any_numbers_in_any_layout(dtype: str, order: Any) -> None:
    data = np.round(POINTS * 10).astype("int64").astype(dtype)
    plain = dbanon.partition(data.astype("float64"), 4)
    partition = dbanon.partition(np.asarray(data, order=order), 4)
    np.testing.assert_array_equal(partition.labels, plain.labels)
    read_only = data.copy()
    read_only.setflags(write=False)
    np.testing.assert_array_equal(dbanon.partition(read_only, 4).labels, plain.labels)
    as_frame = pd.DataFrame(data.astype("float64"))
    np.testing.assert_array_equal(dbanon.partition(as_frame, 4).labels, plain.labels)
    np.testing.assert_array_equal(dbanon.partition(data.tolist(), 4).labels, plain.labels)


def test_the_loss_is_sse_by_sst_on_z_scores() -> None:
    partition = dbanon.partition(POINTS, 5)
    scores = (POINTS - POINTS.mean(axis=0)) / POINTS.std(axis=0, ddof=1)
    sse = sum(
        np.square(scores[partition.labels == c] - scores[partition.labels == c].mean(axis=0)).sum()
        for c in range(partition.n_classes)
    )
    sst = np.square(scores).sum()
    assert dbanon.information_loss(POINTS, partition) == pytest.approx(sse / sst, rel=1e-12)


def test_losses_at_the_ends() -> None:
    singletons = dbanon.Partition(np.arange(50))
    together = dbanon.Partition(np.zeros(50, int))
    assert dbanon.information_loss(POINTS, singletons) == 0
    assert dbanon.information_loss(POINTS, together) == pytest.approx(1, rel=1e-12)
    assert dbanon.information_loss(np.ones((50, 2)), together) == 0


def test_the_loss_of_a_frame_with_nulls_leaves_them_out() -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0, np.nan, np.nan], "y": range(6)})
    partition = dbanon.partition(frame, 2, nulls="category")
    loss = dbanon.information_loss(frame, partition)
    assert 0 < loss < 1


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (np.array([[1.0], [np.nan], [2.0]]), errors.NonFiniteValue),
        (np.array([[1.0], [np.inf], [2.0]]), errors.NonFiniteValue),
        (np.empty((0, 2)), errors.TooFewRecords),
        (np.ones((2, 2)), errors.TooFewRecords),
        (np.ones(5), errors.InvalidParameter),
        (np.ones((5, 0)), errors.InvalidParameter),
        (np.ones((2, 2, 2)), errors.InvalidParameter),
        ([["a"], ["b"], ["c"]], errors.InvalidParameter),
        ([[1, 2], [3]], errors.InvalidParameter),
        (pd.DataFrame({"x": [1.0, np.nan, 2.0, 3.0]}), errors.NullInQuasiIdentifier),
        (pd.DataFrame({"x": list("abcd")}), errors.UnsupportedType),
    ],
)
def test_bad_data(data: Any, error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        dbanon.partition(data, 3)
    assert type(caught.value) is error


def test_a_partition_of_other_data() -> None:
    with pytest.raises(errors.InvalidParameter, match="50 records"):
        dbanon.information_loss(POINTS[:40], dbanon.partition(POINTS, 4))


@pytest.mark.parametrize("k", [1, 0, -1, 2.5, "3", None, True])
def test_k_must_be_a_whole_number_of_two_or_more(k: Any) -> None:
    with pytest.raises(errors.InvalidParameter, match="k must be a whole number"):
        dbanon.partition(POINTS, k)


def test_numpy_integers_are_whole_numbers() -> None:
    assert dbanon.partition(POINTS, np.int64(4)).n_classes == 12  # type: ignore[arg-type]


def test_public_names() -> None:
    for name in dbanon.__all__:
        assert getattr(dbanon, name) is not None
    assert {*dbanon.__all__} <= {*dir(dbanon)}
    assert dbanon.__version__
    with pytest.raises(AttributeError, match="anonimize"):
        dbanon.anonimize  # noqa: B018
