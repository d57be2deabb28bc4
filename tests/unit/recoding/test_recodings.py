"""Median and medoid: worked examples, types, NULL and numbers too wide."""

import numpy as np
import pandas as pd
import pytest

import dbanon
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import UnsupportedType
from dbanon.recoding.columns import ReleasedColumn, require_fit


def release(frame, k, recoding, **policy):
    released, _ = dbanon.anonymize_frame(
        frame, quasi_identifiers=list(frame.columns), k=k, recoding=recoding, **policy
    )
    assert released.dtypes.tolist() == frame.dtypes.tolist()
    return sorted(map(tuple, released.drop_duplicates().to_numpy().tolist()))


FRAME = pd.DataFrame({"a": [1, 2, 4, 9, 100, 101, 108], "b": [10, 40, 20, 30, 500, 500, 530]})


def test_median_worked_example():
    """k = 3: {1 2 4 9} and {100 101 108}; of four values the second counts."""
    assert release(FRAME, 3, "median") == [(2, 20), (101, 500)]


def test_medoid_worked_example():
    """Means (4, 25) and (103, 510): nearest are (4, 20) and (101, 500)."""
    assert release(FRAME, 3, "medoid") == [(4, 20), (101, 500)]


@pytest.mark.parametrize("recoding", ["median", "medoid"])
def test_types_and_nulls(recoding):
    frame = pd.DataFrame(
        {
            "when": pd.to_datetime([f"2020-01-{day:02d}" for day in range(1, 9)]),
            "size": np.arange(8, dtype="float32") / 3,
            "count": pd.array([1, 2, 3, 4, None, None, None, None], dtype="Int64"),
        }
    )
    released, report = dbanon.anonymize_frame(
        frame, quasi_identifiers=list(frame.columns), k=4, recoding=recoding, nulls="category"
    )
    assert report.smallest_class == 4
    assert released["count"].isna().sum() == 4
    for name in frame.columns:
        assert set(released[name].dropna()) <= set(frame[name].dropna())


@pytest.mark.parametrize("recoding", ["median", "medoid"])
def test_wide_numbers_are_refused(recoding):
    frame = pd.DataFrame({"a": [2**60, 2**60 + 1, 2**60 + 2, 5]})
    with pytest.raises(UnsupportedType, match=recoding):
        dbanon.anonymize_frame(frame, quasi_identifiers=["a"], k=2, recoding=recoding)


@pytest.mark.parametrize(
    ("attribute", "least", "most"),
    [
        (Attribute("x", Kind.INTEGER, bits=16), -(2**15), 2**15 - 1),
        (Attribute("x", Kind.INTEGER, bits=32), -(2**31), 2**31 - 1),
        (Attribute("x", Kind.DECIMAL, precision=3, scale=1), -999, 999),
    ],
)
def test_the_room_of_a_type_ends_where_its_values_end(attribute, least, most):
    require_fit(attribute, np.array([least, 0, most]), "")
    for beyond in (least - 1, most + 1):
        with pytest.raises(UnsupportedType):
            require_fit(attribute, np.array([0, beyond]), "")


def test_losses_follow_their_classes():
    values = np.array(["x", "y"], object)
    column = ReleasedColumn(
        Attribute("town", Kind.CATEGORY), values, losses=np.array([0.0, 2.0])
    ).take(np.array([1, 0]))
    assert column.values.tolist() == ["y", "x"]
    assert column.losses.tolist() == [2.0, 0.0]
