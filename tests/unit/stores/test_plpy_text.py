"""How statements and arrays are written for SPI."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from dbanon.errors import InvalidName
from dbanon.sessions.names import array_text, literal
from dbanon.stores.postgresql.given import bind_parameters, given, provide_texts
from dbanon.stores.postgresql.summary import binned_count


def test_parameters_become_literals_and_quoted_names_stay() -> None:
    sql = 'INSERT INTO "a?""?b" VALUES (?, ?, ?)'
    assert bind_parameters(sql, ("it's \\", None, 3)) == (
        "INSERT INTO \"a?\"\"?b\" VALUES (E'it''s \\\\', NULL, E'3')",
        [],
    )
    assert bind_parameters('SELECT "?"', ()) == ('SELECT "?"', [])
    with pytest.raises((AssertionError, StopIteration)):
        bind_parameters("SELECT ?", (1, 2))


def test_texts_with_a_cast_are_handed_over_beside_the_statement() -> None:
    statement_and_values = bind_parameters(
        'SELECT "?::x", f(?::jsonb, ?, ?::jsonb, ?::oid)', ("{}", "n", "[]", 7)
    )
    assert statement_and_values == (
        "SELECT \"?::x\", f((SELECT dbanon._given(0)::jsonb), E'n',"
        " (SELECT dbanon._given(1)::jsonb), E'7'::oid)",
        ["{}", "[]"],
    )
    with pytest.raises(InvalidName):
        bind_parameters("SELECT ?::text", ("a\0b",))


def test_a_value_is_there_for_its_statement_only() -> None:
    assert given(0) is None
    with provide_texts(["a", None]):
        with provide_texts(["b"]):
            assert [given(i) for i in (0, 1, -1)] == ["b", None, None]
        assert [given(i) for i in (0, 1, 2)] == ["a", None, None]
    with pytest.raises(ZeroDivisionError), provide_texts(["a"]):
        raise ZeroDivisionError
    assert given(0) is None


def test_literals_of_lists_and_truth() -> None:
    assert literal(["a", "b'"]) == "ARRAY[E'a', E'b''']::text[]"
    assert literal(True) == "true"
    with pytest.raises(InvalidName):
        literal("a\0b")


def test_arrays_hold_the_same_numbers() -> None:
    values = np.array([0.1, -1e-300, 1 / 3, 1e22, 5e-324])
    text = array_text(values)
    assert [float(part) for part in text[1:-1].split(",")] == values.tolist()
    assert array_text(np.array([1, -2], np.int32)) == "{1,-2}"
    assert array_text(np.array([True, False])) == "{t,f}"
    assert array_text(np.array(["a,b", 'c"\\', None, "", "NULL"], object)) == (
        '{"a,b","c\\"\\\\",NULL,"","NULL"}'
    )


def test_small_counts_are_ranges() -> None:
    assert [binned_count(count, 5) for count in (0, 1, 4, 5)] == ["0", "1-4", "1-4", "5"]


@drawn(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_floats_are_read_back_as_they_were(values: list[float]) -> None:
    text = array_text(np.array(values))
    for element, value in zip(text[1:-1].split(","), values, strict=True):
        # C reads both spellings like this.
        read = float.fromhex(element) if "x" in element else float(element)
        assert (read, np.signbit(read)) == (value, np.signbit(value))


def test_floats_without_a_hexadecimal_form() -> None:
    assert array_text(np.array([], float)) == "{}"
    assert array_text(np.array([1.0, 5e-324])) == "{1.0, 5e-324}"
    assert array_text(np.array([1.0, -np.inf])) == "{1.0, -inf}"
    assert array_text(np.array([1.5, -0.0, 4.0])) == "{0x1.8p0,-0,0x1p2}"
