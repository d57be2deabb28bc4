"""How far differentially private synthetic rows are forecast to be from the rows of a table.

The error of a release is the mean total variation of its tables of two columns: the share of the
rows that would have to be in another cell. A listed value is a cell of its own, and numbers are in
ten cells of about equally many rows. An extension computes the forecasts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dbanon.advice.profile import Profile
from dbanon.data.frozen import dataclass
from dbanon.data.microdata import Microdata, first_record_mask
from dbanon.data.schema import Kind
from dbanon.data.types import JsonObject

# The epsilons that errors are forecast for. The method is chosen at the middle one.
EPSILONS = (0.5, 1.0, 3.0)
CHOICE_EPSILON = 1.0
# The delta of forecasts with one.
DELTA = 1e-9
# Measured errors were within this factor of the forecast; docs/advise.md says where.
RANGE_FACTOR = 1.6
# With more of the rows in wrong cells, a release is said to be of little use.
MAX_ERROR = 0.10
# Cells of a column of numbers; and the most cells of a column in tables of two columns.
N_CELLS, MAX_CELLS = 10, 60
# The label of the method that is chosen.
SYNTHETIC_LABEL = "synthetic rows"
# Rows by which the dependence of columns is measured, and the seed by which they are drawn.
_SAMPLE_ROWS, _SEED = 20_000, 58


@dataclass(frozen=True, eq=False)
class CellColumn:
    """A column whose values are in cells.

    Parameters
    ----------
    codes : int64 (m,), the cell of each row of a sample: from 0, below ``MAX_CELLS``. Cells of
        listed values are ordered by falling number of rows, and the last may have several values.
    shares : the share of the rows with each listed value, or in each cell of numbers, float64.
    n_values : number of listed values or, for whole numbers and dates, of different ones. 0 for
        other numbers.
    is_listed : whether the values have no order, unlike numbers and dates.
    """

    codes: NDArray[np.int64]
    shares: NDArray[np.float64]
    n_values: int
    is_listed: bool


@dataclass(frozen=True)
class ErrorForecast:
    """The error of one method for one budget.

    Parameters
    ----------
    method : the name of the method.
    options : the options of the method that are not defaults, with their values.
    epsilon, delta : the budget; delta is None for a budget without one.
    one_way, two_way : mean total variation of all tables of one and of two columns, 0 to 1; None if
        the method refuses.
    refusal : the code of the error with which the method refuses; None if it does not.
    """

    method: str
    options: dict[str, str]
    epsilon: float
    delta: float | None
    one_way: float | None = None
    two_way: float | None = None
    refusal: str | None = None

    def to_dict(self) -> JsonObject:
        """As plain values; errors have two digits."""
        return {
            "method": self.method,
            "options": dict(self.options),
            "epsilon": self.epsilon,
            "delta": self.delta,
            "one_way": _round_error(self.one_way),
            "two_way": _round_error(self.two_way),
            "low": None if self.two_way is None else _round_error(self.two_way / RANGE_FACTOR),
            "high": None if self.two_way is None else _round_error(self.two_way * RANGE_FACTOR),
            "refusal": self.refusal,
        }


@dataclass(frozen=True)
class Remedies:
    """What would bring the error at ``CHOICE_EPSILON`` down to ``MAX_ERROR``; None for nothing.

    Parameters
    ----------
    epsilon : the least epsilon.
    n_columns : the most columns, if those with the most values are left out.
    n_values : the most values of a column, if similar values are put together.
    """

    epsilon: float | None
    n_columns: int | None
    n_values: int | None


@dataclass(frozen=True)
class SyntheticForecast:
    """Forecasts of the errors of all methods, and the method of the least error.

    Parameters
    ----------
    n_columns : number of columns. Of one column, errors are those of the column itself.
    errors : the forecasts, by method and budget.
    independent : the error if all columns were released without error, but as independent.
    best : the forecast of the method that is chosen; None if all refuse.
    remedies : what would do if ``best`` is None or its error is above ``MAX_ERROR``; else None.
    """

    n_columns: int
    errors: tuple[ErrorForecast, ...]
    independent: float
    best: ErrorForecast | None
    remedies: Remedies | None

    def to_dict(self) -> JsonObject:
        """As plain values."""
        return {
            "best": self.best and self.best.to_dict(),
            "independent": _round_error(self.independent),
            "remedies": self.remedies and dict(vars(self.remedies)),
            "errors": [error.to_dict() for error in self.errors],
        }

    def pairs(self) -> list[tuple[str, str]]:
        """The choice and its reason, as pairs of label and text."""
        pairs = [(SYNTHETIC_LABEL, self._describe_choice())]
        if self.best is not None:
            pairs.append(("error of synthetic rows", self._describe_errors(self.best)))
        if self.remedies is not None:
            pairs.append(("too small an epsilon", self._describe_remedies(self.remedies)))
        return pairs

    def _describe_choice(self) -> str:
        text = "for differential privacy instead of k: "
        if self.best is None:
            return f"{text}no method, because all refuse so few rows at epsilon {CHOICE_EPSILON:g}"
        others = [
            f"{_name_method(error)} {format_error(error.two_way)}"
            for error in self.errors
            if error.two_way is not None
            and error.delta is None
            and error.epsilon == CHOICE_EPSILON
            and error is not self.best
        ]
        compared = f"; {', '.join(others)}" if others else ""
        return (
            f"{text}{_name_method(self.best)}, because its {self._tables} is forecast to be nearest"
            f" at epsilon {CHOICE_EPSILON:g}: about {format_error(self.best.two_way)} of"
            f" the rows in wrong cells{compared}"
        )

    @property
    def _tables(self) -> str:
        """What errors are those of."""
        return "table of two columns" if self.n_columns > 1 else "column"

    def _describe_errors(self, best: ErrorForecast) -> str:
        two_way = best.two_way or 0.0
        text = (
            f"at epsilon {CHOICE_EPSILON:g} about {format_error(two_way)} of the rows in wrong"
            f" cells of a {self._tables}, within {format_error(two_way / RANGE_FACTOR)} to"
            f" {format_error(min(two_way * RANGE_FACTOR, 1.0))}"
        )
        for delta, label in ((None, ""), (DELTA, f"with delta {DELTA:g} ")):
            others = [
                f"{format_error(error.two_way)} at epsilon {error.epsilon:g}"
                for error in self.errors
                if error.two_way is not None
                and error.method == best.method
                and error.delta == delta
                and (delta is not None or error.options == best.options)
                and error is not best
            ]
            if others:
                text += f"; {label}{', '.join(others)}"
        return text

    def _describe_remedies(self, remedies: Remedies) -> str:
        limit = format_error(MAX_ERROR)
        alternatives = []
        if remedies.epsilon is not None:
            alternatives.append(f"epsilon {remedies.epsilon:g}")
        if remedies.n_columns is not None:
            alternatives.append(f"{remedies.n_columns} columns (those with the fewest values)")
        if remedies.n_values is not None:
            alternatives.append(f"at most {remedies.n_values} values a column")
        remedy_text = (
            f"{', or '.join(alternatives)} would do"
            if alternatives
            else "neither more epsilon nor fewer or coarser columns alone would do"
        )
        return (
            f"epsilon {CHOICE_EPSILON:g} is too small for these rows and columns, if more than"
            f" {limit} of the rows in wrong cells is too much: {remedy_text}. Exact columns without"
            f" dependence would have {format_error(self.independent)}"
        )


def encode_cells(microdata: Microdata, profile: Profile) -> tuple[int, list[CellColumn]]:
    """Put the quasi-identifiers into cells; return the number of protected units, too.

    Units are rows, or persons if rows have an entity. Of each person, one row counts.
    """
    rows = np.arange(microdata.n_records)
    if microdata.entities is not None:
        rows = np.flatnonzero(first_record_mask(microdata.entities.astype(np.int64)))
    n = len(rows)
    if n > _SAMPLE_ROWS:
        rows = np.random.default_rng(_SEED).choice(rows, _SAMPLE_ROWS, replace=False)
    columns = []
    numeric_columns = [attribute.name for attribute in microdata.numeric]
    categorical_columns = [attribute.name for attribute in microdata.categorical]
    for attribute in microdata.attributes:
        name, kind = attribute.name, attribute.kind
        n_distinct = profile.column(name).n_distinct
        if name in numeric_columns:
            numbers = microdata.numbers[rows, numeric_columns.index(name)]
        else:
            numbers = microdata.codes[rows, categorical_columns.index(name)].astype(np.float64)
        valid = microdata.valid_column(name)
        # NULL is a listed value of its own, and a number is released in its place.
        values = numbers if valid is None else np.where(valid[rows], numbers, -np.inf)
        if kind.is_coded:
            columns.append(build_listed_column(values, n_distinct))
        else:
            is_equidistant = kind not in (Kind.DECIMAL, Kind.FLOAT)
            columns.append(build_number_column(values, n_distinct if is_equidistant else 0))
    return n, columns


def build_listed_column(values: NDArray[np.generic], n_values: int) -> CellColumn:
    """Put listed values into cells.

    Parameters
    ----------
    values : the value of each row, as text or codes, (m,).
    n_values : number of listed values; at least those that occur.
    """
    _, codes, counts = np.unique(values, return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return CellColumn(
        codes=np.minimum(ranks[codes.reshape(-1)], MAX_CELLS - 1),
        shares=counts[order] / len(values),
        n_values=max(n_values, len(counts)),
        is_listed=True,
    )


def build_number_column(values: NDArray[np.float64], n_values: int) -> CellColumn:
    """Put numbers into cells of about equally many rows.

    Parameters
    ----------
    values : the number of each row, float64 (m,).
    n_values : number of different values of whole numbers and dates; 0 for other numbers.
    """
    ordered = np.sort(values)
    edges = np.unique(ordered[np.arange(1, N_CELLS) * len(ordered) // N_CELLS])
    codes = np.searchsorted(edges, values, side="right")
    codes = np.unique(codes, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return CellColumn(codes, np.bincount(codes) / len(values), n_values, is_listed=False)


class ForecastFunction(Protocol):
    """Forecasts errors; an extension has it."""

    def __call__(self, n: int, columns: Sequence[CellColumn]) -> SyntheticForecast:
        """Forecast the errors of all methods.

        Parameters
        ----------
        n : number of protected units: rows, or persons if rows have an entity.
        columns : the quasi-identifiers, of a sample of these units.
        """


def format_error(error: float | None) -> str:
    """Format an error in percent, with two digits."""
    return "-" if error is None else f"{float(f'{100 * error:.2g}'):g} %"


def _round_error(error: float | None) -> float | None:
    return None if error is None else float(f"{min(error, 1.0):.2g}")


def _name_method(error: ErrorForecast) -> str:
    """Name a method with its options."""
    options = "".join(f" with {name} {value}" for name, value in error.options.items())
    return f"{error.method}{options}"
