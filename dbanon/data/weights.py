"""Design weights: how many persons of a population each row of a survey stands for."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dbanon.data.schema import Attribute, Kind
from dbanon.errors import InvalidParameter, UnsupportedType

# Kinds of amounts. Dates and times are numbers, too, but none of persons.
WEIGHT_KINDS = (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT)


def require_weight_type(attribute: Attribute) -> None:
    """Check that a column can be a design weight.

    Raises
    ------
    UnsupportedType : it does not hold numbers.
    """
    if attribute.kind not in WEIGHT_KINDS:
        raise UnsupportedType(
            f'Column "{attribute.name}" is of type {attribute.sql_type or "text"}, and cannot be'
            " the number of persons that a row stands for.",
            hint="Name a column of numbers, or cast it to a number in a view.",
        )


def require_positive_weights(
    weights: NDArray[np.float64], is_valid: NDArray[np.bool_], name: str
) -> None:
    """Check that each record has a design weight.

    Parameters
    ----------
    weights : float64 (n,).
    is_valid : bool (n,), False for NULL.
    name : the name of the column.

    Raises
    ------
    InvalidParameter : a weight is NULL, not finite, or not above 0.
    """
    # Comparisons with NaN are False.
    is_positive = is_valid & (weights > 0) & (weights < math.inf)
    n_invalid = len(weights) - int(is_positive.sum())
    if n_invalid:
        raise InvalidParameter(
            f'Column "{name}" is NULL, infinite, or not above 0 in {n_invalid} of {len(weights)}'
            " rows, and cannot be the number of persons that a row stands for.",
            hint="A row without such a number stands for nobody. Leave out these rows in a view.",
        )


def require_finite_sum(weights: NDArray[np.float64], name: str) -> None:
    """Check that design weights, float64 (n,), can be added up; raises InvalidParameter."""
    if len(weights) and float(weights.max()) > np.finfo(np.float64).max / len(weights):
        raise InvalidParameter(
            f'The numbers in column "{name}" are too large to be added up.',
            hint="Name a column with the numbers of persons that rows stand for: `design_weight`.",
        )
