"""The forecast of the error of synthetic rows, beside measured errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.synthesis_forecast import (
    Shape,
    encode,
    find_choice_errors,
    find_ratio,
    generate,
    measure,
)
from dbanon.advice.synthetic_rows import MAX_ERROR, CellColumn, build_listed_column
from dbanon.extensions.synthesis import forecast as forecasts
from dbanon.extensions.synthesis import marginals
from dbanon.extensions.synthesis.forecast import CellTables, forecast_synthetic_rows
from dbanon.job.concentrated import Cost
from dbanon.job.synthesis import DP_MARGINALS, DP_RANKS
from tests.prerequisites import import_or_skip

# Docs say that errors are mostly within a factor of 1.6; means of two draws may be farther, most of
# all those of ``dp_ranks``, whose noise in a column of numbers differs much between draws.
FACTORS = {DP_MARGINALS: 2.25, DP_RANKS: 4.0}
# The largest error of the chosen method, relative to the least one.
MAX_EXCESS = 1.75
SHAPES = (
    Shape("categories and numbers", 4_000, (2, 3, 6), 2, (), 0.4, 41),
    Shape("numbers", 6_000, (), 3, (40,), 0.5, 42),
    Shape("categories", 3_000, (2, 4, 4, 8), 0, (), 0.5, 43),
)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_measured_errors_are_near_the_forecast_and_the_choice_is_among_the_best(
    shape: Shape,
) -> None:
    import_or_skip("opendp")
    forecast, measured = measure(generate(shape), draws=2)
    for result in measured:
        ratio = find_ratio(result)
        # Both refuse, or both have an error.
        assert (ratio is None) == (result.errors is None) == (result.forecast.refusal is not None)
        factor = FACTORS[result.forecast.method]
        assert ratio is None or 1 / factor < ratio < factor, (result, ratio)
    assert forecast.best is not None
    errors = find_choice_errors(measured)
    chosen = ", ".join([forecast.best.method, *forecast.best.options.values()])
    assert errors[chosen] <= MAX_EXCESS * min(errors.values())


def _columns() -> list[CellColumn]:
    return encode(generate(SHAPES[0]))


def test_errors_fall_with_epsilon_and_with_rows() -> None:
    columns = _columns()
    errors = {
        (n, error.method, tuple(error.options), error.delta, error.epsilon): error.two_way
        for n in (4_000, 40_000)
        for error in forecast_synthetic_rows(n, columns).errors
    }
    n_compared = 0
    for (n, *method, epsilon), error in errors.items():
        more_epsilon = errors.get((n, *method, {0.5: 1.0, 1.0: 3.0}.get(epsilon, 0.0)))
        more_rows = errors.get((10 * n, *method, epsilon))
        for less in (more_epsilon, more_rows):
            if error is not None and less is not None:
                # Where a method begins to count pairs or values, errors may be a little larger.
                assert less < 1.1 * error
                n_compared += 1
    # Eight of the twelve forecasts have a next epsilon, with either number of rows.
    assert n_compared == 8 + 8 + 12


def test_the_shares_of_the_budget_are_those_of_the_method(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = CellTables(4_000, _columns())
    before = forecasts._forecast_marginals(tables, Cost(1.0))
    divide_amount = marginals.divide_amount

    def divide_less(n: int, amount: float, *others: object) -> marginals.AmountShares:
        return divide_amount(n, amount / 4, *others)

    monkeypatch.setattr(marginals, "divide_amount", divide_less)
    assert forecasts._forecast_marginals(tables, Cost(4.0)) == before
    assert forecasts._forecast_marginals(tables, Cost(1.0)) > before


def test_a_refusal_has_the_code_of_the_method() -> None:
    forecast = forecast_synthetic_rows(30, [replace_codes(column, 30) for column in _columns()])
    assert forecast.best is None
    assert {error.refusal for error in forecast.errors} == {"noise_too_large"}
    assert "all refuse" in dict(forecast.pairs())["synthetic rows"]


def replace_codes(column: CellColumn, n: int) -> CellColumn:
    """The first n rows of a column."""
    return replace(column, codes=column.codes[:n])


def test_each_remedy_that_is_named_would_do_by_the_forecast() -> None:
    rng = np.random.default_rng(5)
    factor = rng.normal(size=3_000)
    columns = [
        build_listed_column(np.floor(5 * (factor + rng.normal(size=3_000))), 60) for _ in range(5)
    ]
    forecast = forecast_synthetic_rows(3_000, columns)
    assert forecast.best is not None
    assert (forecast.best.two_way or 0) > MAX_ERROR
    remedies = forecast.remedies
    assert remedies is not None
    assert remedies.n_values is not None
    tables = CellTables(3_000, columns)
    changed = tables.coarsen(remedies.n_values)
    assert all(column.n_values <= remedies.n_values for column in changed.columns)
    for tables_to_try, epsilon in (
        (changed, 1.0),
        *([(tables, remedies.epsilon)] if remedies.epsilon else []),
    ):
        best = forecasts._find_best(list(forecasts._forecast_pure(tables_to_try, epsilon)))
        assert best is not None
        assert (best.two_way or 1) <= MAX_ERROR


def test_selected_columns_have_the_tables_of_these_columns_alone() -> None:
    columns = _columns()
    selected = CellTables(4_000, columns).select([0, 2, 4])
    separate = CellTables(4_000, [columns[j] for j in (0, 2, 4)])
    assert selected.pairs.keys() == separate.pairs.keys()
    assert [tree and tree.n_leaves for tree in selected.trees] == [
        tree and tree.n_leaves for tree in separate.trees
    ]
    for pair, table in selected.pairs.items():
        np.testing.assert_array_equal(table.shares, separate.pairs[pair].shares)
        assert table.dependence == separate.pairs[pair].dependence


def test_the_dependence_of_a_sample_is_not_that_of_chance() -> None:
    rng = np.random.default_rng(6)
    columns = [build_listed_column(rng.integers(0, 20, 2_000), 20) for _ in range(2)]
    # Of all rows these are independent, so that only chance makes pairs depend on each other.
    assert CellTables(10**7, columns).independent_error < 0.02
    assert CellTables(2_000, columns).independent_error > 0.05
