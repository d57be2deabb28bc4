"""Columns between public bounds, as whole numbers and back.

What a value becomes depends on that value and on public figures alone, so that one row changes one
whole number; and no value ends a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.errors import BoundsRequired, InvalidParameter, UnsupportedType
from dbanon.synthesis.shares import GRID

_NEVER = "Say what anybody may know: never the least and the largest of the data."


@dataclass(frozen=True)
class PublicColumn:
    """What is public of a column.

    Parameters
    ----------
    name : the column's.
    dtype : of whole numbers, truths, floating-point numbers or moments (``datetime64``).
    low, high : bounds; of moments in units of the type since 1970.
    null_as : what stands for NULL; None where the type holds none. NaN is NULL.
    """

    name: str
    dtype: np.dtype[Any]
    low: float
    high: float
    null_as: float | None = None

    @property
    def whole(self) -> bool:
        """True where values are counted in whole units."""
        return self.dtype.kind != "f"

    def on_line(self, values: NDArray[Any], nulls: NDArray[np.bool_] | None) -> NDArray[np.float64]:
        """The values between the bounds, float64 (n,); ``nulls``, bool (n,), are none."""
        if self.dtype.kind == "M":
            values = values.astype(self.dtype).astype(np.int64)
        numbers = np.array(values, np.float64)
        missing = np.isnan(numbers) if nulls is None else np.isnan(numbers) | nulls
        numbers[missing] = self.low if self.null_as is None else self.null_as
        return numbers.clip(self.low, self.high)

    def to_grid(self, numbers: NDArray[np.float64]) -> NDArray[np.int64]:
        """Values between the bounds as whole numbers from 0 to ``GRID``, int64 (n,)."""
        share = (numbers - self.low) / (self.high - self.low)
        return np.rint(share * GRID).clip(0, GRID).astype(np.int64)

    def of_grid(self, grid: NDArray[np.float64]) -> NDArray[Any]:
        """Values of the column's type, (n,), from places between 0 and ``GRID``."""
        numbers = self.low + grid / GRID * (self.high - self.low)
        if self.whole:
            numbers = np.rint(numbers).clip(np.ceil(self.low), np.floor(self.high))
            whole = numbers.astype(np.int64)
            return whole.astype(self.dtype)
        return numbers.clip(self.low, self.high).astype(self.dtype)

    def holds(self, values: NDArray[Any]) -> bool:
        """Whether all values are between the bounds, and none is NULL."""
        if self.dtype.kind == "M":
            values = values.astype(np.int64)
        numbers = np.asarray(values, np.float64)
        # The type may round a bound, as float32 does.
        low, high = (np.float64(self._typed(bound)) for bound in (self.low, self.high))
        return bool(((numbers >= low) & (numbers <= high)).all())

    def _typed(self, bound: float) -> Any:
        return np.array(bound).astype(self.dtype) if self.dtype.kind == "f" else bound


def public_columns(
    names: Sequence[str],
    dtypes: Sequence[np.dtype[Any]],
    nullable: Sequence[bool],
    bounds: Mapping[str, Sequence[Any]],
    null_as: Mapping[str, Any],
) -> tuple[PublicColumn, ...]:
    """What is public of these columns, from types and options alone.

    Raises
    ------
    BoundsRequired : a column has none.
    InvalidParameter : bounds are no two finite ones in their order; a column may hold NULL and
        nothing says what stands for it; an option names no column.
    UnsupportedType : a column holds neither numbers nor moments.
    """
    for option, given in (("bounds", bounds), ("null_as", null_as)):
        for name in given:
            if name not in names:
                raise InvalidParameter(f'{option} name "{name}", which is no column.')
    return tuple(
        _public(name, dtype, may_miss, bounds, null_as)
        for name, dtype, may_miss in zip(names, dtypes, nullable, strict=True)
    )


def _public(
    name: str,
    dtype: np.dtype[Any],
    nullable: bool,
    bounds: Mapping[str, Sequence[Any]],
    null_as: Mapping[str, Any],
) -> PublicColumn:
    if dtype.kind not in "iufbM":
        raise UnsupportedType(
            f'Column "{name}" is of type {dtype}; dp_ranks takes numbers, truths and moments.',
            hint="Leave it out: a column without public bounds cannot be released.",
        )
    if name not in bounds and dtype.kind != "b":
        raise BoundsRequired(f'Column "{name}" has no public bounds.', hint=_NEVER)
    pair = (0, 1) if dtype.kind == "b" else bounds[name]
    if len(pair) != 2:
        raise InvalidParameter(f'The bounds of "{name}" must be two: the low and the high.')
    low, high = (_number(name, dtype, bound) for bound in pair)
    if not (low < high and np.isfinite(high - low)):
        raise InvalidParameter(f'The bounds of "{name}" must be finite, the low below the high.')
    if not _fits(dtype, low, high):
        raise InvalidParameter(f'The bounds of "{name}" must be values of its type, {dtype}.')
    if dtype.kind != "f" and np.floor(high) <= np.ceil(low):
        raise InvalidParameter(f'No two values of "{name}" are between its bounds.')
    if nullable and name not in null_as:
        raise InvalidParameter(
            f'Column "{name}" may hold NULL, and a release that says where is not private.',
            hint="Say what stands for NULL, whether there is one or not: `null_as`.",
        )
    missing = _number(name, dtype, null_as[name]) if name in null_as else None
    if missing is not None and not low <= missing <= high:
        raise InvalidParameter(f'null_as of "{name}" must be between its bounds.')
    return PublicColumn(name, dtype, low, high, missing)


def _number(name: str, dtype: np.dtype[Any], given: Any) -> float:
    """A bound as a number; of moments in units of the type."""
    try:
        if dtype.kind == "M":
            moment = np.datetime64(given).astype(dtype)
            return float("nan") if np.isnat(moment) else float(moment.astype(np.int64))
        return float(given)
    except (TypeError, ValueError, OverflowError):
        what = "a date or time" if dtype.kind == "M" else "a number"
        raise InvalidParameter(f'Bounds and null_as of "{name}" must be {what}.') from None


def _fits(dtype: np.dtype[Any], low: float, high: float) -> bool:
    if dtype.kind == "f":
        return bool(max(-low, high) <= np.finfo(dtype).max)
    if dtype.kind == "b":
        return (low, high) == (0, 1)
    held = np.iinfo(np.int64 if dtype.kind == "M" else dtype)
    # Whole numbers beyond 2^62 and their floats do not agree on what is inside.
    return bool(max(held.min, -(2**62)) <= low and high <= min(held.max, 2**62))
