"""Released values as analyses take them: midpoints, shares of what labels cover, missing values."""

from __future__ import annotations

import numpy as np
import pytest

from dbanon.data.schema import Attribute, Kind
from dbanon.errors import InvalidParameter, NonFiniteValue, UnsupportedType
from dbanon.hierarchy.tree import Hierarchy
from dbanon.release.analysis_columns import (
    MAX_CATEGORIES,
    ColumnReader,
    ColumnValues,
    join_bounds,
)

TREE = Hierarchy.from_nested({"all": {"school": ["low", "mid"], "university": ["high"]}})
ORDER = ("low", "mid", "high")


def texts(*values, kind=Kind.CATEGORY, order=()):
    missing = np.array([value is None for value in values], bool)
    array = np.array([str(value) for value in values], object)
    return ColumnValues(Attribute("c", kind, order=order), array, missing)


def numbers(*values, kind=Kind.INTEGER, scale=0):
    missing = np.array([value is None for value in values], bool)
    array = np.array([0.0 if value is None else value for value in values], np.float64)
    return ColumnValues(Attribute("c", kind, scale=scale), array, missing)


def released_numbers(original, released, tree=None):
    return ColumnReader(original, released, tree).read_numbers()[1].tolist()


def released_shares(original, released, tree=None):
    """For each released row its share of each category; None if the value is missing."""
    first, second = ColumnReader(original, released, tree).read_categories()
    assert first.labels == second.labels
    return [
        dict(zip(second.labels, second.shares[code].tolist(), strict=True)) if code >= 0 else None
        for code in second.codes
    ]


def only(shares):
    return [None if each is None else {k: v for k, v in each.items() if v} for each in shares]


# --- numbers -------------------------------------------------------------------------------------


def test_intervals_count_by_their_midpoint():
    released = texts("[20, 30)", "[20, 30]", "[20, 30[", "25", "*", None, "[20,30)")
    values = released_numbers(numbers(20, 29, 31), released)
    # Of whole numbers, [20, 30) covers 20 to 29.
    assert values[:4] == [24.5, 25, 24.5, 25]
    assert np.isnan(values[4:6]).all()
    assert values[6] == 24.5
    of_decimals = released_numbers(numbers(20, kind=Kind.DECIMAL, scale=1), texts("[20, 30)"))
    assert of_decimals == [pytest.approx(24.95)]
    assert released_numbers(numbers(20.5, kind=Kind.FLOAT), texts("[20, 30)")) == [25]


def test_numbers_stay_and_nulls_are_missing():
    original, released = ColumnReader(numbers(1, None), numbers(None, 2.5)).read_numbers()
    np.testing.assert_equal(original, [1, np.nan])
    np.testing.assert_equal(released, [np.nan, 2.5])


def test_a_node_of_numbers_counts_as_the_mean_of_its_leaves():
    tree = Hierarchy.from_nested({"any": {"young": ["20", "21", "25"], "old": ["80"]}})
    values = released_numbers(numbers(20, 80), texts("young", "old", "20", "any", "*"), tree)
    assert values[:3] == [22, 80, 20]
    assert np.isnan(values[3:]).all()


def test_an_interval_is_one_also_if_the_hierarchy_has_it():
    tree = Hierarchy.from_nested({"*": {"[20, 30)": ["20", "29"], "[80, 90)": ["80"]}})
    assert released_numbers(numbers(20, 29, 80), texts("[80, 90)"), tree) == [84.5]


def test_two_columns_of_bounds_are_an_interval():
    joined = join_bounds("c", numbers(20, 7, None), numbers(30, 7, None))
    values = released_numbers(numbers(20, 29, 7), joined)
    assert values[:2] == [24.5, 7]
    assert np.isnan(values[2])


@pytest.mark.parametrize(("low", "high"), [("<30", "30-39"), ("a", "a"), (None, None)])
def test_two_columns_of_labels_are_refused(low, high):
    with pytest.raises(UnsupportedType, match='"c" is released as two columns of labels') as error:
        join_bounds("c", texts(low), texts(high))
    assert "30" not in str(error.value)


def test_numbers_are_refused_where_there_are_none():
    for label in ("many", "[a, b)"):
        with pytest.raises(InvalidParameter, match="neither a value nor an interval"):
            released_numbers(numbers(1), texts(label))
    tree = Hierarchy.from_nested({"*": {"young": ["twenty"]}})
    with pytest.raises(InvalidParameter, match="leaves that are none"):
        released_numbers(numbers(1), texts("young"), tree)
    endless = Hierarchy.from_nested({"*": {"young": ["inf", "1"]}})
    for read in (released_numbers, released_shares):
        with pytest.raises(InvalidParameter, match="leaves that are none"):
            read(numbers(1), texts("young"), endless)
    with pytest.raises(UnsupportedType, match="does not hold numbers"):
        released_numbers(texts("a"), texts("a"))
    with pytest.raises(UnsupportedType, match="which analyses cannot take"):
        ColumnReader(numbers(1, kind=Kind.DATE), numbers(1))
    with pytest.raises(UnsupportedType, match="of numbers in the release"):
        ColumnReader(texts("a"), numbers(1))
    with pytest.raises(NonFiniteValue):
        ColumnReader(numbers(np.inf, kind=Kind.FLOAT), numbers(1))


# --- categories ----------------------------------------------------------------------------------


def test_a_node_spreads_over_its_leaves():
    released = texts("school", "high", "low", "university", "all", "*", None)
    shares = released_shares(texts("low", "mid", "high"), released, TREE)
    assert only(shares) == [
        {"low": 0.5, "mid": 0.5},
        {"high": 1},
        {"low": 1},
        {"high": 1},
        None,
        None,
        None,
    ]


def test_a_node_spreads_over_leaves_that_no_original_has():
    shares = released_shares(texts("low", "high"), texts("school"), TREE)
    assert shares == [{"high": 0, "low": 0.5, "mid": 0.5}]


def test_an_interval_of_an_order_spreads_over_it():
    original = texts("low", "high", kind=Kind.ORDINAL, order=ORDER)
    shares = released_shares(original, texts("[low, mid]", "high", "[low, high]"))
    assert list(shares[0]) == ["low", "mid", "high"]
    assert only(shares)[:2] == [{"low": 0.5, "mid": 0.5}, {"high": 1}]
    assert set(shares[2].values()) == {1 / 3}


def test_codes_of_categories_keep_their_order_and_spread_over_those_that_occur():
    original = numbers(1, 2, 10)
    shares = released_shares(original, texts("2", "[1, 5)", "[3, 4]", "1.5"))
    assert list(shares[0]) == ["1", "1.5", "2", "3.5", "10"]
    assert only(shares) == [{"2": 1}, {"1": 0.5, "2": 0.5}, {"3.5": 1}, {"1.5": 1}]
    assert only(released_shares(original, numbers(2, 1.5, None))) == [{"2": 1}, {"1.5": 1}, None]


def test_originals_are_of_one_category_each():
    first, _ = ColumnReader(texts("b", "a", None), texts("a")).read_categories()
    assert first.labels == ("a", "b")
    assert first.all_shares().tolist() == [[0, 1], [1, 0], [0, 0]]
    assert first.weigh(np.array([3.0, 2, 9])).tolist() == [2, 3]
    assert first.valid.tolist() == [True, True, False]


def test_unknown_labels_are_refused_without_naming_them():
    with pytest.raises(InvalidParameter, match="neither values of the original") as refused:
        released_shares(texts("secret"), texts("other"))
    assert "other" not in str(refused.value.message)
    assert "secret" not in str(refused.value.message)


def test_too_many_categories_are_refused():
    values = [f"v{i}" for i in range(MAX_CATEGORIES + 1)]
    with pytest.raises(InvalidParameter, match=f"{MAX_CATEGORIES + 1} values"):
        released_shares(texts(*values), texts("v1"))
    # Of whole numbers, the interval covers one category that no original has.
    with pytest.raises(InvalidParameter, match=f"{MAX_CATEGORIES + 1} values"):
        released_shares(numbers(*range(MAX_CATEGORIES)), texts("[600, 602)"))


def test_many_originals_are_refused_before_released_labels_are_compared_with_them():
    with pytest.raises(InvalidParameter, match=f"{MAX_CATEGORIES + 1} values"):
        released_shares(numbers(*range(MAX_CATEGORIES + 1)), texts("no label"))


def test_bounds_that_are_infinite_are_refused():
    with pytest.raises(NonFiniteValue, match="in 1 of 2 rows"):
        join_bounds("c", numbers(1, -np.inf), numbers(2, 3))


@pytest.mark.parametrize(
    ("written", "category"),
    [("2", "2"), ("2.0", "2"), ("1.50", "1.5"), ("nan", "nan"), ("inf", "inf"), ("x", "x")],
)
def test_a_value_that_a_user_wrote_is_a_category_of_numbers(written, category):
    assert ColumnReader(numbers(2), numbers(2)).find_category(written) == category
    assert ColumnReader(texts("2"), texts("2")).find_category(written) == written


def test_a_release_without_rows():
    first, second = ColumnReader(texts("a"), texts()).read_categories()
    assert (len(first.codes), len(second.codes)) == (1, 0)
    assert released_numbers(numbers(1), numbers()) == []
