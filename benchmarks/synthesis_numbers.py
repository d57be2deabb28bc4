"""Synthetic rows of generated tables with numbers, beside plain noisy histograms.

Compares one column of each of several shapes, and a survey of six categories, an age and an income,
also with its numbers cut into public bins by hand. Some minutes; needs no reference data. Peers
run beside it if an interpreter has them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.markdown import table
from benchmarks.synthesis_figures import table_errors
from benchmarks.synthesis_peers import DELTA, PEERS, synthesize
from benchmarks.synthesis_tables import Table, synthesize_table
from dbanon.errors import DbanonError
from dbanon.job.concentrated import rho_of

Floats = NDArray[np.float64]

N_ROWS = 12_000
EPSILONS = (0.5, 1.0, 3.0)
DRAWS = 5
N_CELLS = 10
N_PLAIN_BINS = 120
# Public bounds of the incomes, from tight to very wide, and the number of draws for each.
WIDE_BOUNDS = (500.0, 60_000.0), (0.01, 1e7), (0.01, 1e9)
WIDE_DRAWS = 25
BOUNDS = {"age": (18.0, 90.0), "income": (500.0, 60_000.0)}
# By name, the method and its options.
PURE: dict[str, dict[str, Any]] = {
    "dp_ranks": {"method": "dp_ranks"},
    "dp_ranks, quantiles": {"method": "dp_ranks", "margins": "quantiles"},
    "dp_marginals": {"method": "dp_marginals"},
}
CONCENTRATED = {"method": "dp_marginals", "accounting": "zcdp", "delta": DELTA}
METHODS = PURE | {"dp_marginals, zcdp": CONCENTRATED}
TITLE = f"""# Numbers in synthetic rows, measured

Generated tables of {N_ROWS:,} rows, one noise for replacing one row, delta = {DELTA:g} where there
is one. Means of {DRAWS} draws.

- *one column*: total variation of {N_CELLS} cells, of equal width for the logarithm of `income` and
  with an equal number of real rows each for the others. The *plain histogram* has {N_PLAIN_BINS}
  bins of equal width between the bounds, Laplace or Gaussian noise on each count, and values drawn
  evenly in a bin; all of its budget is spent on counts. Its rows are drawn by the noisy counts, or
  *spread* by them without chance, as `dp_*` spread theirs.
- *survey*: mean total variation of all tables of one, two and three of the columns; ages by ten
  years, incomes by {N_CELLS} cells as above. *bins by hand*: both numbers are cut into these cells
  before, as listed values. *categories alone*: without the numbers.
- *wide bounds*: the errors of `income` within several bounds, as above, and with
  `scale={{"income": "log"}}`. Means of {WIDE_DRAWS} draws.

Made by `python -m benchmarks synthesis_numbers`; with `--beside PYTHON`, of an interpreter that has
dpmm, its MST, AIM and PrivBayes are run on the survey, too.
"""


def run(quick: bool = False, other_python: str | None = None) -> str:
    """Measure all tables; return Markdown."""
    draws = 1 if quick else DRAWS
    text = TITLE + "\n## One column\n\n"
    header = ["column", "method", *(f"epsilon = {epsilon:g}" for epsilon in EPSILONS), "CPU s"]
    text += table(header, _column_rows(draws))
    header = ["rows", "epsilon", "1-way", "2-way", "3-way", "CPU s"]
    text += f"\n## Survey, {N_ROWS:,} × 8\n\n"
    text += table(header, _survey_rows(draws, other_python))
    header = ["bounds", "method", *(f"epsilon = {epsilon:g}" for epsilon in EPSILONS), "CPU s"]
    return text + "\n## Wide bounds\n\n" + table(header, _wide_rows(1 if quick else WIDE_DRAWS))


def columns() -> dict[str, tuple[Floats, tuple[float, float]]]:
    """Generate columns of several shapes; with the public bounds of each."""
    rng = np.random.default_rng(58)
    log_normal = np.exp(rng.normal(8.3, 0.8, N_ROWS))
    spiked = np.where(rng.random(N_ROWS) < 0.4, 0.0, rng.gamma(2.0, 900.0, N_ROWS))
    two_humps = np.where(rng.random(N_ROWS) < 0.3, rng.normal(20, 3, N_ROWS), 0)
    return {
        "income": (log_normal.clip(500, 60_000), (500.0, 60_000.0)),
        "normal, bounds 20 deviations wide": (rng.normal(0, 1, N_ROWS), (-8.0, 12.0)),
        "exponential, bounds 300 means wide": (rng.exponential(1, N_ROWS), (0.0, 300.0)),
        "40 % zeros, else gamma": (spiked, (0.0, 20_000.0)),
        "two humps": (
            np.where(two_humps > 0, two_humps, rng.normal(60, 8, N_ROWS)).clip(0, 120),
            (0.0, 120.0),
        ),
        "uniform": (rng.uniform(0, 1, N_ROWS), (0.0, 1.0)),
    }


def _column_rows(draws: int) -> Iterator[list[object]]:
    for name, (values, bounds) in columns().items():
        cells = cell_edges(name, values)
        for method, options in METHODS.items():
            yield [name, method, *_measure_column(values, bounds, cells, options, draws)]
        for plain, delta in (("plain Laplace", None), ("plain Gaussian", DELTA)):
            # By epsilon and draw: of rows that are drawn, and of rows that are spread.
            errors = np.array(
                [
                    [_plain_errors(values, bounds, cells, e, delta, i) for i in range(draws)]
                    for e in EPSILONS
                ]
            ).mean(axis=1)
            for i, label in enumerate((plain, f"{plain}, spread")):
                yield [name, label, *(f"{error:.4f}" for error in errors[:, i]), ""]


def cell_edges(name: str, values: Floats) -> Floats:
    """The inner edges of the cells that a column is compared in."""
    if name == "income":
        low, high = BOUNDS["income"]
        return np.geomspace(low, high, N_CELLS + 1)[1:-1]
    return np.unique(np.quantile(values, np.linspace(0, 1, N_CELLS + 1)[1:-1]))


def _measure_column(
    values: Floats,
    bounds: tuple[float, float],
    cells: Floats,
    options: dict[str, Any],
    draws: int,
) -> Iterator[str]:
    """Mean error at each epsilon, and CPU seconds of one draw."""
    frame = pd.DataFrame({"x": values})
    data, started = Table("x", frame, frame.iloc[:0], {"x": bounds}, "x"), time.process_time()
    for epsilon in EPSILONS:
        errors = []
        for _ in range(draws):
            rows = synthesize_table(data, options, epsilon)
            errors.append(column_error(values, rows["x"].to_numpy(float), cells))
        yield f"{np.mean(errors):.4f}"
    yield f"{(time.process_time() - started) / draws / len(EPSILONS):.2f}"


def _wide_rows(draws: int) -> Iterator[list[object]]:
    incomes = columns()["income"][0]
    cells = cell_edges("income", incomes)
    for name in ("dp_marginals", "dp_marginals, zcdp"):
        for low, high in WIDE_BOUNDS:
            for label, scale in (("", {}), (", scale log", {"scale": {"x": "log"}})):
                options = METHODS[name] | scale
                figures = _measure_column(incomes, (low, high), cells, options, draws)
                yield [f"{low:g} to {high:g}", f"{name}{label}", *figures]


def column_error(real: Floats, synthetic: Floats, cells: Floats) -> float:
    """Total variation of two columns' shares of the cells."""
    shares = [
        np.bincount(np.searchsorted(cells, values, side="right"), minlength=len(cells) + 1)
        / len(values)
        for values in (real, synthetic)
    ]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def _plain_errors(
    values: Floats,
    bounds: tuple[float, float],
    cells: Floats,
    epsilon: float,
    delta: float | None,
    seed: int,
) -> tuple[float, float]:
    """The errors of a histogram of equal bins with noise: of drawn rows, and of spread rows."""
    rng = np.random.default_rng(seed)
    counts, edges = np.histogram(values, N_PLAIN_BINS, bounds)
    noisy = noisy_counts(counts, epsilon, delta, 1, rng)
    cumulative = np.append(0.0, np.cumsum(noisy))
    positions = (rng.random(N_ROWS), (np.arange(N_ROWS) + 0.5) / N_ROWS)
    drawn_error, spread_error = (
        column_error(values, np.interp(shares * cumulative[-1], cumulative, edges), cells)
        for shares in positions
    )
    return drawn_error, spread_error


def noisy_counts(
    counts: NDArray[np.int64],
    epsilon: float,
    delta: float | None,
    n_columns: int,
    rng: np.random.Generator,
) -> Floats:
    """Add the noise that the counts of one of several columns require, and leave none below 0."""
    if delta is None:
        noise = rng.laplace(0, 2 * n_columns / epsilon, len(counts))
    else:
        noise = rng.normal(0, np.sqrt(n_columns / rho_of(epsilon, delta)), len(counts))
    return (counts + noise).clip(0)


def survey() -> Table:
    """The survey; its held-out rows are another draw."""
    rows = _survey(7)
    cells = {
        "age": np.arange(20.0, 90.0, 10.0),
        "income": cell_edges("income", rows["income"].to_numpy(float)),
    }
    return Table("Survey", rows, _survey(8), dict(BOUNDS), "owner", ("age",), cells=cells)


def _survey(seed: int) -> pd.DataFrame:
    """Generate the survey: categories, ages and incomes that depend on each other."""
    rng = np.random.default_rng(seed)
    age = rng.gamma(6.0, 5.0, N_ROWS).clip(0, 72).astype(int) + 18
    education = _draw(rng, [0.2, 0.45, 0.25, 0.1], shift=(age > 60) * -0.6)
    region = rng.choice(8, N_ROWS, p=[0.3, 0.2, 0.15, 0.1, 0.1, 0.07, 0.05, 0.03])
    job = np.where(
        age > 66, 5, _draw(rng, [0.25, 0.3, 0.25, 0.15, 0.05], shift=education * 0.5 - 0.6)
    )
    household = _draw(rng, [0.35, 0.35, 0.15, 0.1, 0.05], shift=((age > 28) & (age < 55)) * 0.7)
    health = _draw(rng, [0.3, 0.5, 0.2], shift=(age - 45) / 40)
    logarithm = 7.6 + 0.25 * education + 0.12 * (job == 3) - 0.4 * (job == 5)
    logarithm = logarithm + 0.012 * np.minimum(age, 55) + rng.normal(0, 0.55, N_ROWS)
    income = np.exp(logarithm).clip(*BOUNDS["income"]).round(2)
    owner = rng.random(N_ROWS) < 1 / (1 + np.exp(-(np.log(income) - 8.3 + (age - 50) / 25)))
    categories = {
        "region": region,
        "education": education,
        "job": job,
        "household": household,
        "health": health,
        "owner": owner.astype(int),
    }
    return pd.DataFrame(
        {name: pd.Series(codes).map("v{}".format) for name, codes in categories.items()}
        | {"age": age, "income": income}
    )


def _draw(rng: np.random.Generator, shares: list[float], shift: Any) -> NDArray[np.int64]:
    """Draw ordered categories by a normal variable, which ``shift`` moves row by row."""
    ranks = rng.normal(0, 1, N_ROWS)
    edges = np.quantile(ranks, np.cumsum(shares)[:-1])
    return np.searchsorted(edges, ranks + shift).astype(np.int64)


def _survey_rows(draws: int, other_python: str | None) -> Iterator[list[object]]:
    data = survey()
    cut = pd.DataFrame({c: _cells(data, c) for c in data.rows})
    by_hand = Table("Survey by hand", cut, cut.iloc[:0], {}, "owner")
    categories = cut.drop(columns=list(BOUNDS))
    only_categories = Table("Survey's categories", categories, categories.iloc[:0], {}, "owner")
    rng = np.random.default_rng(0)
    shuffled = data.rows.apply(lambda column: column.to_numpy()[rng.permutation(N_ROWS)])
    yield ["shuffled apart", "", *_errors(data, shuffled), ""]
    for epsilon in EPSILONS:
        for name, options in METHODS.items():
            yield _survey_row(data, name, options, epsilon, draws)
        for label, other in (("bins by hand", by_hand), ("categories alone", only_categories)):
            for name in ("dp_marginals", "dp_marginals, zcdp"):
                yield _survey_row(other, f"{name}: {label}", METHODS[name], epsilon, draws)
        if epsilon == 1 and other_python is not None:
            for peer in PEERS:
                rows, seconds = synthesize(peer, data, epsilon, other_python)
                yield [peer, epsilon, *_errors(data, rows), f"{seconds:.1f}"]


def _survey_row(
    data: Table, name: str, options: dict[str, Any], epsilon: float, draws: int
) -> list[object]:
    started, errors = time.process_time(), []
    for _ in range(draws):
        try:
            rows = synthesize_table(data, options, epsilon)
        except DbanonError as error:
            return [name, epsilon, "-", "-", "-", f"refused: {error.code}"]
        errors.append(list(table_errors(data, rows).values()))
    seconds = (time.process_time() - started) / draws
    return [name, epsilon, *(f"{e:.4f}" for e in np.mean(errors, axis=0)), f"{seconds:.2f}"]


def _errors(data: Table, rows: pd.DataFrame) -> list[str]:
    return [f"{error:.4f}" for error in table_errors(data, rows).values()]


def _cells(data: Table, column: str) -> pd.Series[Any]:
    """The cells of a column as text; categories as they are."""
    values = data.rows[column]
    if column not in data.cells:
        return values
    cells = np.searchsorted(data.cells[column], values.to_numpy(float), side="right")
    return pd.Series(cells).map("c{:02d}".format)


if __name__ == "__main__":
    print(run())
