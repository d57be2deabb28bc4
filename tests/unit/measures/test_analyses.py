"""Estimates of analyses equal plain references, and closed forms on tables of a few rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbanon.measures.analyses import classification
from dbanon.measures.analyses.columns import CategoryColumn
from dbanon.measures.analyses.cross_table import (
    build_cross_table,
    count_rare_categories,
    measure_cramers_v,
    measure_total_variation,
)
from dbanon.measures.analyses.estimates import (
    Estimate,
    estimate_correlation,
    estimate_gini,
    estimate_mean,
    estimate_quantiles,
    estimate_total,
    measure_interval_overlap,
)
from dbanon.measures.analyses.regression import fit_regression
from tests.prerequisites import import_or_skip
from tests.reference import analyses as reference


def numbers(*values):
    return np.array(values, np.float64)


def random_rows(seed, n=60):
    """Rows with two numbers and two columns of categories, some of them known in part."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n):
        a = [{"x": 1.0}, {"y": 1.0}, {"x": 0.5, "y": 0.5}][rng.integers(3)]
        b = [{"p": 1.0}, {"q": 1.0}, {"r": 1.0}, {"q": 0.5, "r": 0.5}][rng.integers(4)]
        age, income = float(rng.integers(18, 30)), float(rng.lognormal())
        rows.append({"age": age, "income": income, "a": a, "b": b, "w": float(rng.integers(1, 9))})
    return rows


def array(rows, name):
    return numbers(*(row[name] for row in rows))


def column(rows, name, labels):
    shares = np.array([[row[name].get(label, 0.0) for label in labels] for row in rows])
    distinct, codes = np.unique(shares, axis=0, return_inverse=True)
    return CategoryColumn(name, labels, codes.reshape(-1).astype(np.int32), distinct)


# --- means, totals, quantiles, Gini --------------------------------------------------------------


@given(st.integers(0, 2**32))
def test_estimates_equal_their_references(seed):
    rows = random_rows(seed)
    income, weights = array(rows, "income"), array(rows, "w")
    group = column(rows, "a", ("x", "y")).share_of(1)
    mean, of_group = estimate_mean(income, weights), estimate_mean(income, weights, group)
    assert (mean.value, mean.error) == pytest.approx(reference.mean(rows, "income"))
    assert (of_group.value, of_group.error) == pytest.approx(
        reference.mean(rows, "income", ("a", "y"))
    )
    total = estimate_total(income, weights)
    assert (total.value, total.error) == pytest.approx(reference.total(rows, "income"))
    assert estimate_gini(income, weights).value == pytest.approx(reference.gini(rows, "income"))
    probabilities = (0.01, 0.1, 0.25, 1 / 3, 0.5, 0.75, 0.9, 0.999)
    for values, name in ((income, "income"), (array(rows, "age"), "age")):
        estimates = estimate_quantiles(values, weights, probabilities)
        expected = [reference.quantile(rows, name, p) for p in probabilities]
        assert [each.value for each in estimates] == pytest.approx(expected, rel=1e-15)


@given(st.integers(0, 2**32))
def test_correlations_and_rare_categories_equal_their_references(seed):
    rows = random_rows(seed)
    estimate = estimate_correlation(array(rows, "age"), array(rows, "income"), array(rows, "w"))
    value, error = reference.correlation(rows, "age", "income")
    assert estimate.value == pytest.approx(value, abs=1e-9)
    assert estimate.error == pytest.approx(error, rel=1e-4)
    rng = np.random.default_rng(seed)
    original, released = rng.integers(0, 5, 8) ** 3, rng.integers(0, 3, 8) ** 3
    original[0] = released[0] = 64
    expected = reference.rare_categories(
        dict(enumerate(original.tolist())), dict(enumerate(released.tolist())), 0.1
    )
    counts = count_rare_categories(original.astype(float), released.astype(float), 0.1)
    assert counts[:2] == expected[:2]
    assert counts[2] == pytest.approx(expected[2])


def test_correlations_by_hand():
    ones = np.ones(4)
    assert estimate_correlation(numbers(1, 2, 3, 4), numbers(2, 4, 6, 8), ones) == Estimate(
        pytest.approx(1), pytest.approx(0, abs=1e-9)
    )
    first, second = numbers(-1, -1, 1, 1), numbers(-1, 1, -1, 1)
    # Independent columns: the error is that of the mean of their product.
    assert estimate_correlation(first, second, ones) == Estimate(0.0, pytest.approx(3**-0.5))
    assert estimate_correlation(first, second, numbers(2, 1, 1, 2)).value == pytest.approx(1 / 3)
    for scale in (1e-200, 1e200):
        tiny_or_large = scale * numbers(1, 2, 3, 4)
        assert estimate_correlation(tiny_or_large, second, ones).value == pytest.approx(0.2**0.5)
    for constant in (ones, numbers()):
        assert estimate_correlation(constant, constant, constant) == Estimate(None)


def test_a_sample_without_weights_has_the_usual_errors():
    values, ones = numbers(1, 2, 4, 9), np.ones(4)
    mean, total = estimate_mean(values, ones), estimate_total(values, ones)
    assert mean == Estimate(4.0, pytest.approx(values.std(ddof=1) / 2))
    assert total == Estimate(16.0, pytest.approx(values.std(ddof=1) * 2))
    assert estimate_mean(values, 50 * ones).error == pytest.approx(mean.error)


def test_quantiles_by_hand():
    values, ones = numbers(4, 1, 3, 2), np.ones(4)

    def quantiles(*probabilities, weights=ones):
        return [each.value for each in estimate_quantiles(values, weights, probabilities)]

    # The median of four values is the mean of the two in the middle; 0.3 of them is the second.
    assert quantiles(0.5, 0.3, 0.25, 0.01, 0.99) == [2.5, 2, 1.5, 1, 4]
    # A row with the weight of three others counts as three rows.
    assert quantiles(0.5, weights=numbers(3, 1, 1, 1)) == [3.5]
    assert estimate_quantiles(numbers(), numbers(), (0.5,)) == [Estimate(None)]


def test_the_gini_coefficient_by_hand():
    ones = np.ones(4)
    assert estimate_gini(numbers(5, 5, 5, 5), ones).value == pytest.approx(0)
    # One of n has everything: (n - 1) / n.
    assert estimate_gini(numbers(0, 0, 0, 7), ones).value == pytest.approx(3 / 4)
    # Of 1, 2, ..., n: (n² - 1) / (3 n²) over (n + 1) / n, that is (n - 1) / (3 n).
    assert estimate_gini(numbers(1, 2, 3, 4), ones).value == pytest.approx(3 / 12)
    # Two groups with shares p of the persons and q of the income: p - q.
    assert estimate_gini(numbers(1, 6), numbers(3, 1)).value == pytest.approx(3 / 4 - 1 / 3)
    assert estimate_gini(numbers(-1, 5), np.ones(2)) == Estimate(None)
    assert estimate_gini(numbers(0, 0), np.ones(2)) == Estimate(None)


def test_few_rows():
    assert estimate_mean(numbers(), numbers()) == Estimate(None)
    assert estimate_total(numbers(), numbers()) == Estimate(None)
    assert estimate_mean(numbers(3), numbers(2)) == Estimate(3.0, None)
    assert estimate_mean(numbers(3, 4), np.ones(2), np.zeros(2)) == Estimate(None)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((0, 1), (0, 1), 1),
        # Half of each lies in the other.
        ((0, 1), (1.959963984540054, 1), 0.5),
        # All of the narrow one lies in the wide one, and a half conversely.
        ((0, 2), (0.5, 1), 0.75),
        ((0, 1), (9, 1), 0),
        # Of no width.
        ((0, 0), (0, 0), 1),
        ((0, 0), (1, 0), 0),
        ((0, 0), (1, 1), 0.5),
    ],
)
def test_the_overlap_of_intervals(first, second, expected):
    estimates = Estimate(*map(float, first)), Estimate(*map(float, second))
    assert measure_interval_overlap(*estimates) == pytest.approx(expected)
    assert measure_interval_overlap(*reversed(estimates)) == pytest.approx(expected)
    if first[1] and second[1]:
        assert reference.overlap(first, second) == pytest.approx(expected)


def test_without_an_error_there_is_no_overlap():
    assert measure_interval_overlap(Estimate(1.0), Estimate(1.0, 2.0)) is None


# --- cross tables --------------------------------------------------------------------------------


@given(st.integers(0, 2**32))
def test_cross_tables_equal_their_reference(seed):
    tables, cells = [], []
    for rows in (random_rows(seed), random_rows(seed + 1, n=30)):
        first, second = column(rows, "a", ("x", "y")), column(rows, "b", ("p", "q", "r"))
        tables.append(build_cross_table([first, second], array(rows, "w")))
        cells.append(reference.cross_table(rows, "a", "b"))
        for (i, a), (j, b) in (
            ((i, a), (j, b)) for i, a in enumerate("xy") for j, b in enumerate("pqr")
        ):
            assert tables[-1][i, j] == pytest.approx(cells[-1].get((a, b), 0))
        assert measure_cramers_v(tables[-1]) == pytest.approx(reference.cramers_v(cells[-1]))
        assert build_cross_table([first], array(rows, "w")) == pytest.approx(tables[-1].sum(axis=1))
    assert measure_total_variation(*tables) == pytest.approx(reference.total_variation(*cells))


def test_tables_by_hand():
    diagonal, even = np.diag([3.0, 5.0]), np.ones((2, 2))
    assert measure_cramers_v(diagonal) == pytest.approx(1)
    assert measure_cramers_v(even) == pytest.approx(0)
    # Of a 2 x 2 table it is |ad - bc| over the root of the product of the margins.
    assert measure_cramers_v(np.array([[1.0, 2], [3, 4]])) == pytest.approx(
        2 / math.sqrt(3 * 7 * 4 * 6)
    )
    assert measure_cramers_v(np.array([[1.0, 2], [0, 0]])) is None
    assert measure_total_variation(diagonal, diagonal * 7) == pytest.approx(0)
    assert measure_total_variation(np.diag([1.0, 0]), np.diag([0, 1.0])) == 1
    assert measure_total_variation(even, np.zeros((2, 2))) is None


# --- regression ----------------------------------------------------------------------------------


def random_design(seed, n=40):
    rng = np.random.default_rng(seed)
    design = np.column_stack(
        [np.ones(n), rng.normal(40, 15, n), rng.integers(0, 2, n), rng.choice([0, 0.5, 1], n)]
    )
    return design, rng.uniform(1, 9, n), rng


@given(st.integers(0, 2**32))
def test_linear_regressions_equal_their_reference(seed):
    design, weights, rng = random_design(seed)
    outcome = design @ [1.0, 0.1, -2.0, 3.0] + rng.normal(size=len(design))
    fit = fit_regression(design, outcome, weights, is_logistic=False)
    coefficients, errors = reference.linear(design, outcome, weights)
    assert [each.value for each in fit.coefficients] == pytest.approx(coefficients, rel=1e-8)
    assert [each.error for each in fit.coefficients] == pytest.approx(errors, rel=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_logistic_regressions_equal_their_reference(seed):
    design, weights, rng = random_design(seed, n=200)
    chances = 1 / (1 + np.exp(-(design @ [-2.0, 0.05, -1.0, 1.0])))
    outcome = (rng.uniform(size=len(design)) < chances).astype(float)
    # Outcomes known in part.
    outcome[:20] = 0.5
    fit = fit_regression(design, outcome, weights, is_logistic=True)
    coefficients, errors = reference.logistic(design, outcome, weights)
    assert fit.converged
    assert [each.value for each in fit.coefficients] == pytest.approx(coefficients, rel=1e-7)
    assert [each.error for each in fit.coefficients] == pytest.approx(errors, rel=1e-7)


def test_a_line_through_two_points():
    design = np.array([[1.0, 2], [1, 4], [1, 4]])
    fit = fit_regression(design, numbers(1, 7, 9), numbers(1, 1, 3), is_logistic=False)
    # The weighted mean at 4 is 8.5, so the slope is 7.5 / 2.
    assert [each.value for each in fit.coefficients] == pytest.approx([-6.5, 3.75])


def test_the_log_odds_of_a_two_by_two_table():
    design = np.array([[1.0, 0], [1, 0], [1, 1], [1, 1]])
    weights = numbers(30, 10, 20, 40)
    fit = fit_regression(design, numbers(1, 0, 1, 0), weights, is_logistic=True)
    intercept, slope = (each.value for each in fit.coefficients)
    assert intercept == pytest.approx(math.log(30 / 10))
    assert slope == pytest.approx(math.log(20 / 40) - math.log(30 / 10))


def test_units_and_origins_change_nothing():
    design, weights, rng = random_design(3)
    outcome = rng.normal(size=len(design))
    fit = fit_regression(design, outcome, weights, is_logistic=False)
    moved = design.copy()
    moved[:, 1] = 1e7 + design[:, 1] / 1000
    other = fit_regression(moved, outcome, 50 * weights, is_logistic=False)
    assert other.coefficients[1].value == pytest.approx(1000 * fit.coefficients[1].value)
    assert other.coefficients[1].error == pytest.approx(1000 * fit.coefficients[1].error)
    assert other.coefficients[2].error == pytest.approx(fit.coefficients[2].error)


def test_columns_that_determine_each_other_have_no_coefficients():
    design, weights, rng = random_design(4)
    doubled = np.column_stack([design, 2 * design[:, 2], np.full(len(design), 7.0)])
    outcome = rng.normal(size=len(design))
    fit = fit_regression(doubled, outcome, weights, is_logistic=False)
    expected = fit_regression(design, outcome, weights, is_logistic=False)
    for position in (2, 4, 5):
        assert fit.coefficients[position] == Estimate(None)
    for position in (0, 1, 3):
        assert fit.coefficients[position].value == pytest.approx(
            expected.coefficients[position].value
        )
        assert fit.coefficients[position].error == pytest.approx(
            expected.coefficients[position].error
        )


def test_a_separated_outcome_has_no_finite_solution():
    design, weights, _ = random_design(5)
    fit = fit_regression(design, design[:, 2], weights, is_logistic=True)
    assert not fit.converged
    assert {each.value for each in fit.coefficients} == {None}


def test_no_rows():
    fit = fit_regression(np.ones((0, 2)), numbers(), numbers(), is_logistic=False)
    assert fit.coefficients == (Estimate(None), Estimate(None))


# --- classification ------------------------------------------------------------------------------

LABELS = {"a": ("x", "y"), "b": ("p", "q", "r")}


@pytest.mark.parametrize("seed", range(4))
def test_the_classifier_equals_its_reference(seed):
    rows = random_rows(seed)
    predictors = classification.Predictors(
        (array(rows, "age"), array(rows, "income")), (column(rows, "a", LABELS["a"]),)
    )
    target = column(rows, "b", LABELS["b"])
    classifier = classification.train(predictors, target, array(rows, "w"))
    predicted = [LABELS["b"][code] for code in classifier.predict(predictors)]
    assert predicted == reference.naive_bayes(rows, rows, "b", ("age", "income"), ("a",), LABELS)


def test_numbers_alone_are_classified_as_by_scikit_learn():
    naive_bayes = import_or_skip("sklearn.naive_bayes")
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, 400)
    values, weights = rng.normal(labels, 1.0, (2, 400)).T, rng.uniform(1, 5, 400)
    target = CategoryColumn("t", ("0", "1", "2"), labels.astype(np.int32), np.eye(3))
    predictors = classification.Predictors(tuple(values.T), ())
    classifier = classification.train(predictors, target, weights)
    other = naive_bayes.GaussianNB().fit(values, labels, sample_weight=weights)
    assert (classifier.predict(predictors) == other.predict(values)).all()


def test_a_class_without_rows_is_never_predicted():
    codes = np.array([0, 0, 2, 2], np.int32)
    target = CategoryColumn("t", ("0", "1", "2"), codes, np.eye(3))
    predictors = classification.Predictors((numbers(1, 2, 8, 9), np.ones(4)), ())
    classifier = classification.train(predictors, target, np.ones(4))
    assert classifier.predict(predictors).tolist() == [0, 0, 2, 2]
    nobody = classification.Predictors((numbers(),), ())
    assert classification.train(nobody, target.take(np.zeros(0, np.int64)), numbers()) is None


def test_accuracies_by_hand():
    predicted, actual = np.array([0, 0, 1, 1]), np.array([0, 0, 0, 1])
    weights = numbers(1, 1, 2, 1)
    assert classification.measure_accuracy(predicted, actual, weights) == 3 / 5
    assert classification.measure_balanced_accuracy(predicted, actual, weights) == 3 / 4


def test_folds_are_a_partition_that_the_seed_decides():
    folds = classification.draw_folds(23, 5, seed=1)
    assert sorted(np.concatenate(folds)) == list(range(23))
    assert {len(fold) for fold in folds} == {4, 5}
    same, other = classification.draw_folds(23, 5, seed=1), classification.draw_folds(23, 5, 2)
    assert all((a == b).all() for a, b in zip(folds, same, strict=True))
    assert any(list(a) != list(b) for a, b in zip(folds, other, strict=True))
    assert len(classification.draw_folds(3, 5, seed=1)) == 3
