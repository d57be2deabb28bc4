"""Groups of values by name: which group a value is in, and wrong groups."""

from __future__ import annotations

from typing import Any

import pytest

from dbanon.data.groups import Groups
from dbanon.errors import InvalidParameter


def test_the_group_of_a_value() -> None:
    groups = Groups.from_plain({"North": ["N1", "N2"], "Other": "*", "South": ["S1"]})
    assert groups.names == ("North", "Other", "South")
    names = [groups.group_of(text, is_number=False) for text in ("N2", "S1", "n2", "")]
    assert names == ["North", "South", "Other", "Other"]
    assert Groups.from_plain({"North": ["N1"]}).group_of("S1", is_number=False) is None


def test_equal_numbers_are_in_one_group() -> None:
    groups = Groups.from_plain({"wood": [1, "2"], "brick": [3]})
    texts = ("1", "1.0", "2.00", "3.0", "4", "NaN", "x")
    names = [groups.group_of(text, is_number=True) for text in texts]
    assert names == ["wood", "wood", "wood", "brick", None, None, None]
    assert groups.group_of("1.0", is_number=False) is None


def test_labels_and_the_description_have_no_values() -> None:
    groups = Groups.from_plain({"North": ["N1", "N2"], "Other": "*"})
    assert [groups.is_label(text) for text in ("North", "Other", "*", "N1", "")] == [
        *(True, True, True),
        *(False, False),
    ]
    assert groups.describe() == {"North": {"values": 2}, "Other": "*"}


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({}, "names of groups must be texts"),
        ({" ": ["a"]}, "names of groups must be texts"),
        ({1: ["a"]}, "names of groups must be texts"),
        ({1: "*"}, "names of groups must be texts"),
        ({"*": ["a"]}, 'cannot be named "\\*"'),
        ({"A": "*", "B": "*"}, 'Only one group can have "\\*"'),
        ({"A": []}, "A group has no value"),
        ({"A": "a"}, "A group has a list of values"),
        ({"A": 7}, "A group has a list of values"),
        ({"A": {"a": 1}}, "A group has a list of values"),
        ({"A": [None]}, "must be texts or whole numbers"),
        ({"A": [True]}, "must be texts or whole numbers"),
        ({"A": [1.5]}, "must be texts or whole numbers"),
        ({"A": ["secret", "b"], "B": ["secret"]}, "list 1 of 3 values again"),
    ],
)
def test_wrong_groups(plain: dict[Any, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message) as caught:
        Groups.from_plain(plain)
    assert caught.value.hint
    assert "secret" not in str(caught.value)
