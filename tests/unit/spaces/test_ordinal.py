"""Ordinal attributes: ranks in, members' values out."""

import numpy as np
import pandas as pd
import pytest

import dbanon
from dbanon.errors import InvalidParameter, UnsupportedType, ValueNotInOrder
from dbanon.methods import METHODS

SCHOOLS = ["none", "school", "bachelor", "master", "doctor"]
ORDERS = {"school": SCHOOLS}

pytestmark = pytest.mark.filterwarnings("ignore::dbanon.errors.RowsNotAnonymous")


def table(n=60, seed=0):
    rng = np.random.default_rng(seed)
    ranks = rng.integers(0, 5, n)
    return (
        pd.DataFrame({"age": rng.integers(20, 70, n), "school": np.array(SCHOOLS)[ranks]}),
        ranks,
    )


def release(frame, k=3, **options):
    names = list(frame.columns)
    return dbanon.anonymize_frame(frame, quasi_identifiers=names, k=k, **options)


def test_worked_example():
    """k = 3; classes {0 0 1 1}, {2 2 3}, {3 4 4}: of four the second counts."""
    ranks = [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    frame = pd.DataFrame({"school": [SCHOOLS[rank] for rank in ranks]})
    released, report = release(frame, method="optimal_univariate", orders=ORDERS)
    counts = released["school"].value_counts().to_dict()
    assert counts == {"none": 4, "bachelor": 3, "doctor": 3}
    assert released["school"].dtype == frame["school"].dtype
    assert report.k_achieved == 3
    # Errors 1 + 1 + 1 + 1 of the sum of squares 20 around the mean 2, on ranks.
    assert report.internal.information_loss == report.internal.information_loss_before_rounding
    assert report.internal.information_loss == pytest.approx(4 / 20)


# Cells of global_recoding cost what their labels leave to lose, and closed intervals of ranks are
# wider than those of whole numbers.
OTHERS = [name for name in METHODS if name not in ("secure_kward", "global_recoding")]


@pytest.mark.parametrize("method", OTHERS)
def test_classes_are_those_of_the_ranks(method):
    frame, ranks = table()
    frame = frame[["school"]] if METHODS[method].max_attributes == 1 else frame
    numbers = frame.assign(school=ranks)
    ordinal = dbanon.partition(frame, 3, method=method, orders=ORDERS)
    plain = dbanon.partition(numbers, 3, method=method)
    for actual, expected in zip(
        getattr(ordinal, "partitions", [ordinal]),
        getattr(plain, "partitions", [plain]),
        strict=True,
    ):
        np.testing.assert_array_equal(actual.labels, expected.labels)
    if isinstance(plain, dbanon.Partition):
        loss = dbanon.information_loss(numbers, plain)
        assert dbanon.information_loss(frame, ordinal, orders=ORDERS) == loss
        loss = dbanon.generalization_loss(numbers, plain)
        assert dbanon.generalization_loss(frame, ordinal, orders=ORDERS) == loss


@pytest.mark.parametrize("recoding", ["mean", "median"])
def test_the_lower_median_of_ranks(recoding):
    frame, ranks = table()
    released, report = release(
        frame.assign(row=range(60)).drop(columns="row"),
        7,
        method="mdav",
        recoding=recoding,
        orders=ORDERS,
    )
    labels = dbanon.partition(frame, 7, orders=ORDERS).labels
    expected = {
        SCHOOLS[sorted(ranks[labels == c])[((labels == c).sum() - 1) // 2]]
        for c in range(labels.max() + 1)
    }
    assert set(released["school"]) == expected
    assert report.arguments["orders"] == {"school": {"values": 5}}


def test_medoids_are_records():
    frame, _ = table()
    released, _ = release(frame, 5, recoding="medoid", orders=ORDERS)
    assert set(map(tuple, released.to_numpy())) <= set(map(tuple, frame.to_numpy()))


def test_ordered_categoricals_keep_their_type():
    frame, _ = table()
    dtype = pd.CategoricalDtype(SCHOOLS, ordered=True)
    ordered = frame.assign(school=frame["school"].astype(dtype))
    released, _ = release(ordered, 4)
    assert released["school"].dtype == dtype
    stated, _ = release(frame, 4, orders=ORDERS)
    assert sorted(map(tuple, released.to_numpy())) == sorted(map(tuple, stated.to_numpy()))
    # Categories that are no texts come back as they were.
    numbered = pd.DataFrame({"x": pd.Categorical([3, 3, 1, 1, 2, 2], [3, 1, 2], ordered=True)})
    released, _ = release(numbered, 2)
    assert released["x"].value_counts().to_dict() == {3: 2, 1: 2, 2: 2}
    assert released["x"].dtype == numbered["x"].dtype
    # Another order goes before that of the categories, and an empty one takes it away.
    other = dbanon.partition(ordered, 4, orders={"school": sorted(SCHOOLS)}).labels
    expected = dbanon.partition(frame, 4, orders={"school": sorted(SCHOOLS)}).labels
    assert other.tolist() == expected.tolist()
    with pytest.raises(UnsupportedType, match='"school"'):
        dbanon.partition(ordered, 4, orders={"school": []})


@pytest.mark.parametrize("nulls", ["suppress", "category"])
def test_nulls(nulls):
    frame, _ = table()
    frame.loc[::4, "school"] = None
    released, report = release(frame, nulls=nulls, max_suppression=1, orders=ORDERS)
    assert report.rows_out == (45 if nulls == "suppress" else 60)
    assert released["school"].isna().sum() == (0 if nulls == "suppress" else 15)
    assert set(released["school"].dropna()) <= set(SCHOOLS)
    complete = frame.dropna() if nulls == "suppress" else frame
    assert dbanon.partition(complete, 3, nulls=nulls, orders=ORDERS).sizes.min() >= 3


def intervals(**options):
    ranks = [0, 1, 1, 2, 4, 4]
    frame = pd.DataFrame({"school": [SCHOOLS[rank] for rank in ranks]})
    return release(frame, 2, method="mondrian", orders=ORDERS, **options)


def test_intervals_of_ranks():
    """Classes {0 1 1} and {2 4 4} of ranks 0 to 4: (1 * 3 + 2 * 3) / 4 of 6 records lost."""
    released, report = intervals()
    assert released["school"].value_counts().to_dict() == {
        "[none, school]": 3,
        "[bachelor, doctor]": 3,
    }
    assert report.internal.information_loss == pytest.approx(9 / 4 / 6)
    assert intervals(local_range=True)[1].internal.information_loss == pytest.approx(9 / 4 / 6)


def test_other_forms_of_intervals():
    assert set(intervals(steps={"school": 2})[0]["school"]) == {
        "[none, school]",
        "[bachelor, doctor]",
    }
    # Steps of three ranks: the second ends with the last value.
    assert set(intervals(steps={"school": 3})[0]["school"]) == {
        "[none, bachelor]",
        "[none, doctor]",
    }
    released, _ = intervals(intervals="bounds")
    assert set(map(tuple, released[["school_low", "school_high"]].to_numpy())) == {
        ("none", "school"),
        ("bachelor", "doctor"),
    }
    assert set(intervals(intervals="midpoint")[0]["school"]) == {"none", "master"}
    with pytest.raises(InvalidParameter, match="whole number"):
        intervals(steps={"school": 1.5})


def test_a_hierarchy_goes_before_ranks():
    tree = dbanon.Hierarchy.from_nested(
        {"*": {"low": ["none", "school"], "high": ["bachelor", "master", "doctor"]}}
    )
    frame, _ = table()
    by_tree = release(frame, method="gaa_cp", hierarchies={"school": tree})[0]
    both = release(frame, method="gaa_cp", hierarchies={"school": tree}, orders=ORDERS)[0]
    assert sorted(map(tuple, both.to_numpy())) == sorted(map(tuple, by_tree.to_numpy()))


def test_a_value_outside_its_order_is_counted_not_named():
    frame, ranks = table()
    with pytest.raises(ValueNotInOrder, match="1 of 5 values, in ") as caught:
        dbanon.partition(frame, 3, orders={"school": SCHOOLS[:-1]})
    assert f"in {(ranks == 4).sum()} of 60 rows" in str(caught.value)
    assert not any(value in str(caught.value) for value in SCHOOLS if value != "school")


@pytest.mark.parametrize(
    ("orders", "error"),
    [
        ({"school": "none"}, InvalidParameter),
        ({"school": [1, 2]}, InvalidParameter),
        ({"school": [*SCHOOLS, "none"]}, InvalidParameter),
        ({"nobody": SCHOOLS}, InvalidParameter),
        ({"age": ["20", "30"]}, UnsupportedType),
    ],
)
def test_orders_that_are_refused(orders, error):
    with pytest.raises(error) as caught:
        dbanon.partition(table()[0], 3, orders=orders)
    assert type(caught.value) is error
    assert "none" not in caught.value.message


def test_where_orders_have_no_place():
    with pytest.raises(InvalidParameter, match="data frame"):
        dbanon.partition(np.zeros((9, 2)), 3, orders={"column 0": SCHOOLS})
    with pytest.raises(UnsupportedType, match="secure"):
        release(table()[0], method="secure_kward", orders=ORDERS)
