"""Codes are recognized by their shape; their labels are prefixes of values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbanon.hierarchy import builders
from dbanon.hierarchy.tree import flat_hierarchy

ICD = ["B24.1", "B20.0", "B20.1", "E11.9", "E11.90", "I10.0"]
PATHS = [
    # ICD-10, by the WHO and with the marks of the German version
    (ICD, "B24.1", "B24 B2* B* *"),
    (ICD, "E11.90", "E11.9* E11 E1* E* *"),
    ([*ICD, "S72.001A", "A18.0+"], "S72.001A", "S72.001* S72.00* S72.0* S72 S7* S* *"),
    # If codes of one part occur as values, no label equals them.
    ([*ICD, "B24"], "B24.1", "B24* B2* B* *"),
    ([*ICD, "B24"], "B24", "B24* B2* B* *"),
    ([*ICD, "B24"], "E11.9", "E11.9* E11* E1* E* *"),
    (["b24.1", "b24.2", "e11.9"], "b24.1", "b24 b2* b* *"),
    # ICD-9, OPS, NACE, ATC
    (["250.00", "250.01", "V58.6"], "250.01", "250.0* 250 25* 2* *"),
    (["5-820.00", "5-820.01", "8-930"], "5-820.01", "5-820.0* 5-820 5-82* 5-8* 5 *"),
    (["01.11", "01.12", "10.20"], "01.11", "01.1* 01 0* *"),
    (["A10BA02", "A10BB01", "N02BE01"], "A10BA02", "A10BA0* A10BA* A10B* A10* A1* A* *"),
    # NUTS at any level: the first letter of a country alone means nothing
    (["DE111", "DE112", "DEA11", "FR101"], "DE111", "DE11* DE1* DE* *"),
    (["DE", "DE1", "DEA", "DEA1", "DEA2", "FR10", "FR1"], "DEA1", "DEA* DE* *"),
    (["DE", "DE1", "DEA", "DEA1", "DEA2", "FR10", "FR1"], "DE", "DE* *"),
    # Postcodes: Germany, Great Britain, Canada, Poland, Portugal, Sweden, the Netherlands, USA
    (["10115", "10117", "80331"], "10117", "1011* 101** 10*** 1**** *****"),
    (["SW1A 1AA", "SW1A 2AB", "M1 1AE"], "SW1A 1AA", "SW1A 1A* SW1A 1* SW1A SW1* SW* *"),
    (["K1A 0B1", "K1A 0B2"], "K1A 0B1", "K1A 0B* K1A 0* K1A K1* K* *"),
    (["00-950", "00-951", "31-001"], "00-951", "00-95* 00-9* 00 0* *"),
    (["1000-205", "1000-206"], "1000-205", "1000-20* 1000-2* 1000 100* 10* 1* *"),
    (["111 22", "111 23"], "111 22", "111 2* 111 11* 1* *"),
    (["1011 AB", "1011 AC"], "1011 AB", "1011 A* 1011 101* 10* 1* *"),
    (
        ["10115", "10115-1234", "10115-1299"],
        "10115-1234",
        "10115-123* 10115-12* 10115-1* 10115* 1011* 101* 10* 1* *",
    ),
    # French departments, and numbers with many parts, which are cut at the joints
    (["01", "02", "2A", "13"], "02", "0* *"),
    (["192.168.1.10", "192.168.1.2", "10.0.0.1"], "192.168.1.10", "192.168.1 192.168 192 *"),
]


@pytest.mark.parametrize(("values", "value", "expected"), PATHS)
def test_codes_become_trees_of_their_prefixes(values: list[str], value: str, expected: str) -> None:
    proposed = builders.suggestion(values)
    assert " ".join(proposed.tree.path(value)[1:]) == expected
    assert proposed.reason.startswith("codes")
    assert proposed.tree.check(values) == ()
    assert builders.suggest(values) == proposed.tree


NO_CODES = [
    # words and names, with and without numbers
    ["Berlin", "Bern", "Bonn"],
    ["none", "primary", "secondary"],
    ["ZH", "BE", "GE"],
    ["covid19", "covid20"],
    ["Room 5", "Room 6"],
    ["Main Street 1", "Main Street 2"],
    ["10 Downing Street", "11 Downing Street"],
    ["O'Neill", "Al2", "Al3"],
    ["grade 1", "grade 2"],
    ["Anna1990", "Anna1991"],
    ["aspirin 100mg", "aspirin 500mg"],
    # ranges, ages, dates and times, where prefixes are not categories
    ["20-29", "30-39", "40-49"],
    ["5-9", "10-14", "15+"],
    ["17.05.2024", "18.05.2024"],
    ["1/2/2024", "1/12/2024"],
    ["05/2024", "06/2024"],
    ["12:30", "12:45"],
    # codes without a common prefix
    ["A1", "B2"],
    ["A1"],
    # only half are codes
    ["B24.1", "B24.2", "unknown", "not asked"],
    # values that look like generated labels
    ["B24.1", "B24.2", "B2*"],
    # too long for codes
    ["A1" * 11, "A1" * 10 + "A2"],
]


@pytest.mark.parametrize("values", NO_CODES)
def test_what_is_no_code_stands_below_the_root(values: list[str]) -> None:
    proposed = builders.suggestion(values)
    assert proposed.tree == flat_hierarchy(sorted(values))
    assert not proposed.reason.startswith("codes")


@given(
    st.sets(st.text("abcdefghijklmnopqrstuvwxyzABCDEFÄéß '-", min_size=1, max_size=12), min_size=1)
)
def test_random_words_are_no_codes(words: set[str]) -> None:
    assert builders.suggest(sorted(words)) == flat_hierarchy(sorted(words))


@given(st.sets(st.from_regex(r"\A[A-Z][a-z]{2,9}( [A-Z]?[a-z]{2,9}| [0-9]{1,3})?\Z"), min_size=1))
def test_names_and_streets_are_no_codes(names: set[str]) -> None:
    assert builders.suggest(sorted(names)) == flat_hierarchy(sorted(names))


def test_a_few_that_are_none_stand_below_the_root() -> None:
    codes = [f"B{i:02}.{j}" for i in range(10) for j in range(4)]
    tree = builders.suggest([*codes, "unknown"])
    assert tree.path("unknown") == ("unknown", "*")
    assert tree.path("B01.2") == ("B01.2", "B01", "B0*", "B*", "*")


@given(st.sets(st.from_regex(r"\A[A-E]([0-9][0-9](\.[0-9]{1,2}[AB]?)?)\Z"), min_size=2))
def test_a_label_tells_what_all_values_below_begin_with_and_no_more(values: set[str]) -> None:
    tree = builders.suggest(sorted(values))
    assert tree.check(values) == ()
    inner = sorted(set(range(len(tree.labels))) - set(tree.leaves.tolist()) - {0})
    for node in inner:
        label = tree.labels[node]
        first, last = tree.leaf_ranges[node]
        below = [tree.labels[tree.leaves[at]] for at in range(first, last + 1)]
        # No label belongs to a single value or equals a value.
        assert all(value.startswith(label.removesuffix("*")) for value in below)
        assert label not in values


def test_why_names_the_shape_and_no_value() -> None:
    assert builders.suggestion(ICD).reason == (
        "codes: letters and digits, most of them as A99.9; a star stands for what follows"
    )
    assert builders.suggestion(["10115", "10117"]).reason.startswith("codes of 5 digits")
    assert builders.suggestion(["17", "30", "88"]).reason.startswith("numbers")
    assert builders.suggestion(["2024-05-17"]).reason.startswith("dates")
    assert "below the root" in builders.suggestion(["Bern", "Bonn"]).reason
