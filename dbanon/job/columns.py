"""Options about the values of a quasi-identifier: their order and their kind."""

from __future__ import annotations

from dbanon.data.option import Option
from dbanon.data.schema import NOMINAL, NUMERIC

VALUE_KINDS = (NOMINAL, NUMERIC)
# The option ``kinds``: how to treat columns of numbers.
KINDS = Option(
    "nominal: treat numbers as codes, whose order and distance mean nothing. numeric: treat them as"
    " amounts, without a warning where a code is expected.",
    choices=VALUE_KINDS,
    item=f"{NOMINAL} or {NUMERIC}",
    flag="kind",
    form="NAME=KIND",
    docs_page="methods.md#codes",
)
# The option ``orders``: the order of the values of text columns.
ORDERS = Option(
    "The values of a text column from the lowest to the highest. The column is then treated as"
    " ranks.",
    flag="order",
    form="NAME=A,B,C",
    is_secret=True,
    docs_page="methods.md#ordinal-attributes",
)
