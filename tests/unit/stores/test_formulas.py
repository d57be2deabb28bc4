"""Texts that spreadsheets run as formulas are escaped likewise with Arrow and without it."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from dbanon.stores.exports.formulas import are_formulas, escape_formula, escape_formulas


@given(st.text("=+-@,;\t\r\n'\" 19.a]\u200b\u2212\uff1d\uff07", max_size=12))
@example("=1+1")
@example("a;\u200b=1")
@example("[-10, -5]")
def test_one_text_is_escaped_as_in_an_array(text: str) -> None:
    texts = pa.array([text])
    assert escape_formula(text) == escape_formulas(texts)[0].as_py()
    if not are_formulas(texts)[0].as_py():
        assert escape_formula(text) == text
