"""The error of synthetic rows that advice forecasts, beside the measured one, and its choice.

Generated tables, and Adult, MAGIC, Census and sdcMicro's testdata_full if the reference data is
there (``DBANON_DATA``). Some minutes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.markdown import table
from benchmarks.synthesis_figures import table_errors
from benchmarks.synthesis_numbers import survey
from benchmarks.synthesis_tables import Table, microdata, synthesize_table, tables
from dbanon.advice.synthetic_rows import (
    CHOICE_EPSILON,
    RANGE_FACTOR,
    CellColumn,
    ErrorForecast,
    SyntheticForecast,
    build_listed_column,
    build_number_column,
)
from dbanon.errors import DbanonError
from dbanon.extensions.synthesis.forecast import forecast_synthetic_rows
from tests.reference.data import data_directory

DRAWS = 2
# A choice is near the best one if its error is so much larger at most.
TOLERANCE = 1.05
TITLE = f"""# Forecast errors of synthetic rows

The error of a release is the mean total variation of its tables of two columns, with numbers in ten
cells of equally many rows: the share of the rows in wrong cells. `forecast` is what `dbanon advise`
says before anything is spent, `measured` the mean of {DRAWS} draws, and `ratio` the first divided
by the second. The factors of the forecast were fitted to errors of the tables marked *fitted*, at
epsilon .3, 1 and 3; the others played no part. `-`: the method refuses.

Made by `python -m benchmarks synthesis_forecast`.
"""


@dataclass(frozen=True)
class Shape:
    """What a generated table is like.

    Parameters
    ----------
    name : its name.
    n : number of rows.
    sizes : number of values of each column of categories.
    n_numbers : number of columns of numbers, every other one log-normal.
    ranges : number of whole numbers of each column of these.
    dependence : the share of a column's variance that two common factors explain.
    seed : the seed of all draws.
    """

    name: str
    n: int
    sizes: tuple[int, ...]
    n_numbers: int
    ranges: tuple[int, ...]
    dependence: float
    seed: int


FITTED = (
    Shape("categories", 5_000, (2, 3, 5, 8, 12), 0, (), 0.5, 1),
    Shape("mixed", 50_000, (2, 2, 4, 6, 10, 20, 40), 1, (100,), 0.4, 2),
    Shape("few numbers", 3_000, (), 5, (), 0.5, 3),
    Shape("numbers", 30_000, (), 6, (60, 1000), 0.6, 4),
    Shape("many columns", 10_000, (3,) * 14, 1, (), 0.3, 5),
    Shape("long lists", 20_000, (60, 80, 5), 1, (), 0.4, 6),
    Shape("few rows", 1_000, (3, 4), 1, (80,), 0.5, 7),
)
OTHERS = (
    Shape("other categories", 8_000, (2, 2, 3, 4, 6, 9), 0, (), 0.3, 101),
    Shape("other mixed", 15_000, (2, 5, 7, 15), 2, (50,), 0.5, 102),
    Shape("other numbers", 10_000, (3,), 5, (), 0.4, 103),
    Shape("other rows", 100_000, (4, 12, 30), 2, (70,), 0.5, 104),
    Shape("weak dependence", 6_000, (3, 4, 5), 2, (30,), 0.05, 105),
    Shape("fewer rows", 2_000, (2, 3, 6), 1, (), 0.5, 106),
)


@dataclass(frozen=True)
class ErrorMeasurement:
    """A forecast and the measured errors of tables of one and two columns; None if refused."""

    forecast: ErrorForecast
    errors: tuple[float, float] | None


def run(quick: bool = False) -> str:
    """Measure all tables; return Markdown."""
    header = ["table", "method", "epsilon", "forecast", "measured", "ratio"]
    rows: list[list[object]] = []
    choices: list[list[object]] = []
    ratios: dict[bool, list[float]] = {True: [], False: []}
    for is_fitted, data in list(list_tables())[: 2 if quick else None]:
        forecast, measured = measure(data, 1 if quick else DRAWS)
        label = f"{data.name}, {len(data.rows):,} × {len(data.rows.columns)}"
        label += ", *fitted*" if is_fitted else ""
        rows += [[label, *_describe(result)] for result in measured]
        choices.append([label, *_compare_choice(forecast, measured)])
        ratios[is_fitted] += [ratio for ratio in map(find_ratio, measured) if ratio is not None]
    return (
        f"{TITLE}\n## All forecasts\n\n{_summarize(ratios)}\n\n"
        + table(header, rows)
        + f"\n## Choices at epsilon = {CHOICE_EPSILON:g}, without delta\n\n"
        + f"{summarize_choices(choices)}\n\n"
        + table(["table", "chosen", "its error", "best", "its error"], choices)
    )


def list_tables() -> Iterator[tuple[bool, Table]]:
    """Yield all tables, each with whether factors were fitted to it."""
    data = survey()
    yield True, data
    few = data.rows.sample(2_000, random_state=0).reset_index(drop=True)
    yield True, Table("Survey, few rows", few, few.iloc[:0], data.bounds, "owner", data.integers)
    for is_fitted, shapes in ((True, FITTED), (False, OTHERS)):
        yield from ((is_fitted, generate(shape)) for shape in shapes)
    directory = data_directory()
    if directory is not None:
        yield from ((True, data) for data in tables(directory))
        yield False, microdata(directory)


def generate(shape: Shape) -> Table:
    """Generate a table whose columns depend on each other by two common factors."""
    rng, n = np.random.default_rng(shape.seed), shape.n
    factors = rng.normal(size=(n, 2))

    def draw() -> NDArray[np.float64]:
        weights = rng.normal(size=2)
        weights /= np.linalg.norm(weights)
        scales = np.sqrt([shape.dependence, 1 - shape.dependence])
        values: NDArray[np.float64] = scales[0] * (factors @ weights) + scales[1] * rng.normal(
            size=n
        )
        return values

    columns: dict[str, object] = {}
    bounds: dict[str, tuple[float, float]] = {}
    for i, size in enumerate(shape.sizes):
        shares = 1 / np.arange(1, size + 1) ** rng.uniform(0.3, 1.3)
        shares = rng.permutation(shares / shares.sum())
        ranks = draw()
        codes = np.searchsorted(np.quantile(ranks, np.cumsum(shares)[:-1]), ranks)
        columns[f"c{i}"] = pd.Series(codes).map("v{:03d}".format)
    for i in range(shape.n_numbers):
        high = 100_000.0 if i % 2 else 120.0
        numbers = np.exp(8 + 0.8 * draw()) if i % 2 else 50 + 10 * draw()
        columns[f"x{i}"], bounds[f"x{i}"] = numbers.clip(0, high), (0.0, high)
    for i, size in enumerate(shape.ranges):
        numbers = np.rint(size / 2 + size / 8 * draw()).clip(0, size - 1)
        columns[f"i{i}"], bounds[f"i{i}"] = numbers.astype(int), (0.0, size - 1.0)
    rows = pd.DataFrame(columns)
    integers = tuple(f"i{i}" for i in range(len(shape.ranges)))
    return Table(shape.name, rows, rows.iloc[:0], bounds, "", integers)


def encode(data: Table) -> list[CellColumn]:
    """Put all columns into cells, as advice does."""
    columns = []
    for name, values in data.rows.items():
        if name in data.bounds:
            n_values = values.nunique() if name in data.integers else 0
            columns.append(build_number_column(values.to_numpy(float), n_values))
        else:
            columns.append(build_listed_column(values.to_numpy(str), values.nunique()))
    return columns


def measure(data: Table, draws: int) -> tuple[SyntheticForecast, list[ErrorMeasurement]]:
    """Forecast and measure the errors of all methods at all epsilons."""
    forecast = forecast_synthetic_rows(len(data.rows), encode(data))
    return forecast, [_measure(data, error, draws) for error in forecast.errors]


def _measure(data: Table, forecast: ErrorForecast, draws: int) -> ErrorMeasurement:
    options: dict[str, object] = {"method": forecast.method, **forecast.options}
    if forecast.delta is not None:
        options["delta"] = forecast.delta
    # Advice forecasts the errors in cells of equally many rows, also where a table has its own.
    data = replace(data, cells={})
    errors = []
    for _ in range(draws):
        try:
            rows = synthesize_table(data, options, forecast.epsilon)
        except DbanonError:
            return ErrorMeasurement(forecast, None)
        errors.append(table_errors(data, rows, sizes=(1, 2)))
    one_way, two_way = (float(np.mean([error[size] for error in errors])) for size in ("1", "2"))
    return ErrorMeasurement(forecast, (one_way, two_way))


def find_ratio(measured: ErrorMeasurement) -> float | None:
    """The forecast error divided by the measured one; None if the method refused."""
    if measured.errors is None or measured.forecast.two_way is None:
        return None
    return measured.forecast.two_way / measured.errors[1]


def _describe(measured: ErrorMeasurement) -> list[object]:
    forecast, ratio = measured.forecast, find_ratio(measured)
    return [
        _name(forecast),
        forecast.epsilon,
        "-" if forecast.two_way is None else f"{forecast.two_way:.4f}",
        "-" if measured.errors is None else f"{measured.errors[1]:.4f}",
        "-" if ratio is None else f"{ratio:.2f}",
    ]


def _name(forecast: ErrorForecast) -> str:
    return ", ".join([forecast.method, *forecast.options.values()])


def _compare_choice(
    forecast: SyntheticForecast, measured: Sequence[ErrorMeasurement]
) -> list[object]:
    """Name the method that advice chooses, and the one of the least measured error."""
    errors = find_choice_errors(measured)
    if forecast.best is None or not errors:
        return ["-"] * 4
    best = min(errors, key=lambda name: errors[name])
    chosen = _name(forecast.best)
    return [chosen, f"{errors[chosen]:.4f}", best, f"{errors[best]:.4f}"]


def find_choice_errors(measured: Sequence[ErrorMeasurement]) -> dict[str, float]:
    """The measured errors of the methods that advice chooses from, by name."""
    return {
        _name(result.forecast): result.errors[1]
        for result in measured
        if result.errors is not None
        and result.forecast.delta is None
        and result.forecast.epsilon == CHOICE_EPSILON
    }


def _summarize(ratios: dict[bool, list[float]]) -> str:
    texts = []
    for is_fitted, label in ((True, "fitted"), (False, "other")):
        distances = np.abs(np.log(ratios[is_fitted]))
        if len(distances):
            shares = [float((distances <= np.log(f)).mean()) for f in (1.25, 1.5, RANGE_FACTOR, 2)]
            texts.append(
                f"Of {len(distances)} errors of {label} tables, {shares[0]:.0%} are within a factor"
                f" of 1.25 of the forecast, {shares[1]:.0%} within 1.5, {shares[2]:.0%} within"
                f" {RANGE_FACTOR:g}, {shares[3]:.0%} within 2."
            )
    return "\n".join(texts)


def summarize_choices(choices: Sequence[Sequence[object]]) -> str:
    """Say how many choices have the least error, and how much larger those of others are.

    Parameters
    ----------
    choices : the rows of the table of choices.
    """
    errors = [(float(str(row[2])), float(str(row[4]))) for row in choices if row[2] != "-"]
    factors = [chosen / least for chosen, least in errors]
    n_best = sum(factor == 1 for factor in factors)
    n_near = sum(1 < factor <= TOLERANCE for factor in factors)
    return (
        f"Of {len(factors)} choices, {n_best} have the least error, and {n_near} at most"
        f" {TOLERANCE:g} times it; the worst has {max(factors):.2f} times it."
    )


if __name__ == "__main__":
    print(run())
