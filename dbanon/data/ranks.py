"""Ordinal attributes: text that takes part by its place in an order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dbanon.data.schema import Attribute, Kind
from dbanon.errors import ValueNotInOrder


def ranked(
    attributes: tuple[Attribute, ...],
    numbers: NDArray[np.float64],
    codes: NDArray[np.int32],
    categories: Sequence[Sequence[str]],
) -> tuple[NDArray[np.float64], NDArray[np.int32], list[Sequence[str]]]:
    """Ordinal attributes moved from the codes to the numbers, as ranks.

    Parameters
    ----------
    numbers : float64 (n, p), the attributes that were read as numbers, in their order.
    codes, categories : int32 (n, q) and the dictionaries of the others; -1 where NULL.

    Raises
    ------
    ValueNotInOrder : an ordinal attribute holds a value that its order has not.
    """
    coded = [attribute for attribute in attributes if attribute.kind.is_coded]
    plain = iter(numbers.T)
    columns = [
        _ranks(attribute, codes[:, coded.index(attribute)], categories[coded.index(attribute)])
        if attribute.kind is Kind.ORDINAL
        else next(plain)
        for attribute in attributes
        if attribute.kind.is_numeric
    ]
    kept = [i for i, attribute in enumerate(coded) if attribute.kind is not Kind.ORDINAL]
    return np.column_stack(columns), codes[:, kept], [categories[i] for i in kept]


def _ranks(
    attribute: Attribute, codes: NDArray[np.int32], values: Sequence[str]
) -> NDArray[np.float64]:
    """Places in the attribute's order, float64 (n,); 0 where NULL."""
    rank_of = {value: rank for rank, value in enumerate(attribute.order)}
    # One more place for the code -1 of NULL.
    ranks = np.array([*(rank_of.get(value, -1) for value in values), 0], np.float64)[codes]
    unknown = int((ranks < 0).sum())
    if unknown:
        count = sum(value not in rank_of for value in values)
        raise not_in_order(attribute, (count, len(values)), (unknown, len(ranks)))
    return ranks


def not_in_order(
    attribute: Attribute, values: tuple[int, int], rows: tuple[int, int]
) -> ValueNotInOrder:
    """The error of a column with values that its order has not.

    Parameters
    ----------
    values, rows : how many of how many.
    """
    return ValueNotInOrder(
        f'Column "{attribute.name}" holds values that are not in its order:'
        f" {values[0]} of {values[1]} values, in {rows[0]} of {rows[1]} rows.",
        hint="State all values of the column (`orders`), from the lowest to the highest.",
    )
