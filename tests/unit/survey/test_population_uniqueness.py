"""Estimators of population uniques: their equations hold, and so do simulated populations.

The simulations have known numbers of population uniques. *Bias* is the mean estimate relative to
the mean truth. *Coverage* is the share of samples whose truth is in an interval around the
estimate. Seeds are fixed. The figures measured are noted; tolerances leave room for other seeds,
whose figures were similar.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbanon.errors import InvalidParameter
from dbanon.extensions.survey import log_linear, population_uniqueness
from dbanon.extensions.survey.log_linear import assess_sample_uniques
from dbanon.extensions.survey.population_uniqueness import (
    PITMAN,
    SLIDE_NEGATIVE_BINOMIAL,
    ZAYATZ,
    estimate_by_pitman,
    estimate_by_slide_negative_binomial,
    estimate_by_zayatz,
    estimate_population_uniques,
)
from tests.reference import survey_risk as reference

ESTIMATORS = (estimate_by_pitman, estimate_by_zayatz, estimate_by_slide_negative_binomial)


def sizes_of(*sizes):
    return np.array(sizes, np.int64)


def draw_class_sizes(population, fraction, rng):
    """Sizes of the classes in a simple random sample of a population, int64 (c,)."""
    sample = rng.choice(population, round(fraction * len(population)), replace=False)
    sizes = np.bincount(sample)
    return sizes[sizes > 0].astype(np.int64)


def count_uniques(population):
    return int((np.bincount(population) == 1).sum())


# --- the equations -------------------------------------------------------------------------------


@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=20), factor=st.sampled_from([1, 2, 30])
)
def test_zayatz_is_the_exact_fraction(sizes, factor):
    population_size = factor * sum(sizes)
    estimate = estimate_by_zayatz(np.array(sizes, np.int64), population_size)
    assert estimate == pytest.approx(reference.zayatz(sizes, population_size), rel=1e-9)


@pytest.mark.parametrize(("theta", "alpha"), [(5, 0.3), (100, 0.6), (40, 0.1)])
def test_pitman_maximizes_the_likelihood(theta, alpha):
    rng = np.random.default_rng(4)
    population = reference.pitman_population(2000, theta, alpha, rng)
    sizes = draw_class_sizes(population, 0.3, rng)
    counts = np.bincount(sizes, minlength=3)
    fitted = population_uniqueness._PitmanLikelihood(counts).maximize()
    assert fitted is not None

    def value(theta, alpha):
        return reference.pitman_likelihood(theta, alpha, sizes.tolist())

    best = value(*fitted)
    for d_theta, d_alpha in ((0.1, 0), (-0.1, 0), (0, 0.003), (0, -0.003), (0.1, -0.003)):
        assert value(fitted[0] + d_theta, fitted[1] + d_alpha) < best
    for other_theta in np.geomspace(0.1, 10_000, 12):
        for other_alpha in np.linspace(0, 0.98, 12):
            assert value(other_theta, other_alpha) <= best
    uniques = math.gamma(fitted[0] + 1) / math.gamma(fitted[0] + fitted[1]) * 2000 ** fitted[1]
    assert estimate_by_pitman(sizes, 2000) == pytest.approx(uniques, rel=1e-9)


@pytest.mark.parametrize(("alpha", "beta", "fraction"), [(0.5, 0.1, 0.3), (2, 0.3, 0.5)])
def test_the_slide_negative_binomial_solves_its_equations(alpha, beta, fraction):
    ones, twos = (reference.expected_sample_classes(alpha, beta, fraction, size) for size in (1, 2))
    solutions = population_uniqueness._solve_slide_negative_binomial(
        math.log(ones), math.log(twos), fraction
    )
    assert any(np.allclose(solution, (alpha, beta), rtol=1e-4) for solution in solutions)
    for solution in solutions:
        for size, expected in ((1, ones), (2, twos)):
            share = reference.expected_sample_classes(*solution, fraction, size)
            assert share == pytest.approx(expected, rel=1e-4)


@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=20).filter(lambda sizes: 1 in sizes),
    fraction=st.floats(0.01, 0.9),
)
def test_the_number_of_classes_is_that_of_shlosser(sizes, fraction):
    counts = np.bincount(sizes, minlength=3)
    estimate = population_uniqueness._estimate_population_classes(counts, fraction)
    assert estimate == pytest.approx(reference.shlosser(sizes, fraction), rel=1e-9)


@pytest.mark.parametrize("estimate", ESTIMATORS)
def test_without_sample_uniques_there_are_no_population_uniques(estimate):
    assert estimate(sizes_of(2, 3, 3), 100) == 0


def test_a_census_has_its_own_uniques():
    sizes = sizes_of(1, 1, 1, 2, 2, 3, 4, 5)
    estimates = estimate_population_uniques(sizes, int(sizes.sum()))
    assert estimates.estimates[ZAYATZ] == pytest.approx(3)
    assert estimates.uniques == pytest.approx(3)
    assert estimates.share == pytest.approx(3 / sizes.sum())


@pytest.mark.parametrize("sizes", [[1], [1, 1, 1], [1, 1, 1, 2]])
def test_models_that_cannot_be_fitted_have_no_estimate(sizes):
    estimates = estimate_population_uniques(np.array(sizes, np.int64), 1000)
    assert estimates.estimates[PITMAN] is None
    assert estimates.selected == ZAYATZ
    assert 0 < estimates.uniques <= 1000


def test_the_rule_selects_by_sampling_fraction():
    rng = np.random.default_rng(8)
    population = reference.pitman_population(20_000, 200, 0.6, rng)
    small = estimate_population_uniques(draw_class_sizes(population, 0.1, rng), 20_000)
    assert small.selected == PITMAN
    large = estimate_population_uniques(draw_class_sizes(population, 0.3, rng), 20_000)
    by_estimator = large.estimates
    assert large.uniques == min(by_estimator[ZAYATZ], by_estimator[SLIDE_NEGATIVE_BINOMIAL])


@pytest.mark.parametrize("estimate", ESTIMATORS)
def test_wrong_class_sizes_and_populations_are_refused(estimate):
    for sizes in (np.array([1.0]), sizes_of(), sizes_of(0, 1), np.ones((2, 2), np.int64), [1]):
        with pytest.raises(InvalidParameter):
            estimate(sizes, 100)
    for population_size in (3, math.nan, math.inf):
        with pytest.raises(InvalidParameter):
            estimate(sizes_of(1, 3), population_size)


# --- log-linear models ---------------------------------------------------------------------------


def draw_codes(seed, n):
    rng = np.random.default_rng(seed)
    codes = rng.integers(-1, 3, (n, 3))
    codes[:, 2] += codes[:, 0] * (rng.random(n) < 0.5)
    return np.maximum(codes, -1).astype(np.int32)


# In small tables, some means are 0 and fitting converges slowly.
@pytest.mark.parametrize(("n", "tolerance"), [(400, 1e-6), (60, 0.02)])
@pytest.mark.parametrize("seed", range(3))
def test_two_way_interactions_are_those_of_the_scaled_table(seed, n, tolerance, monkeypatch):
    monkeypatch.setattr(log_linear, "_MAX_DEVIATION", 1e-9)
    codes = draw_codes(seed, n)
    uniques = assess_sample_uniques(codes, 10 * n, model="two_way")
    levels = np.column_stack([np.unique(key, return_inverse=True)[1] for key in codes.T]).tolist()
    table = reference.two_way_table(levels, 200)
    expected = [table[tuple(levels[record])] for record in uniques.records]
    assert uniques.deviation <= tolerance
    assert uniques.means == pytest.approx(expected, abs=tolerance)


def test_parameters_are_counted():
    codes = np.array([[0, 0, 0], [1, 1, 1], [2, 1, 0], [0, 0, 0]], np.int32)
    assert assess_sample_uniques(codes, 9).records_per_parameter == 4 / (1 + 2 + 1 + 1)
    two_way = assess_sample_uniques(codes, 9, model="two_way")
    assert two_way.records_per_parameter == 4 / (1 + 2 + 1 + 1 + 2 * 1 + 2 * 1 + 1 * 1)


@pytest.mark.parametrize("model", ["main_effects", "two_way"])
def test_two_keys_have_known_means(model):
    codes = np.array([[0, 0]] * 3 + [[0, 1], [1, 0], [-1, 1]], np.int32)
    uniques = assess_sample_uniques(codes, 60, model=model)
    assert uniques.records.tolist() == [3, 4, 5]
    # Two-way interactions of two keys are a saturated model.
    expected = [1.0] * 3 if model == "two_way" else [4 * 2 / 6, 1 * 4 / 6, 1 * 2 / 6]
    assert uniques.means == pytest.approx(expected)
    unsampled = np.array(expected) * 54 / 6
    assert uniques.population_unique == pytest.approx(np.exp(-unsampled))
    assert uniques.match_probabilities == pytest.approx((1 - np.exp(-unsampled)) / unsampled)
    assert uniques.expected_matches > uniques.expected_population_uniques


def test_uniques_of_a_census_are_unique():
    uniques = assess_sample_uniques(draw_codes(1, 30), 30)
    assert (uniques.population_unique == 1).all()
    assert (uniques.match_probabilities == 1).all()
    assert uniques.standard_deviation == 0


@pytest.mark.parametrize("model", ["main_effects", "two_way"])
def test_tables_with_one_key_or_no_uniques(model):
    codes = np.array([[0], [0], [1]], np.int32)
    assert assess_sample_uniques(codes, 9, model=model).means.tolist() == [1.0]
    uniques = assess_sample_uniques(np.zeros((4, 2), np.int32), 9, model=model)
    assert len(uniques.records) == uniques.expected_matches == 0


def test_wrong_models_and_too_large_tables_are_refused(monkeypatch):
    codes = draw_codes(1, 60)
    with pytest.raises(InvalidParameter):
        assess_sample_uniques(codes, 600, model="three_way")  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter):
        assess_sample_uniques(codes, 59)
    monkeypatch.setattr(log_linear, "_MAX_CELLS", 20)
    with pytest.raises(InvalidParameter, match="possible cells"):
        assess_sample_uniques(codes, 600, model="two_way")
    assert len(assess_sample_uniques(codes, 600).records)


# --- simulated populations -----------------------------------------------------------------------


POPULATIONS, SAMPLES_PER_POPULATION = range(10, 18), 4


def simulate_log_linear(model, interaction, fraction):
    """Draw samples from eight log-linear populations of about 50,000 persons with five keys.

    Returns the bias of the number of population uniques, that of the number of right matches, both
    as means over the populations, and the coverage of the interval of 1.96 standard deviations.
    """
    biases, coverages = [], []
    for seed in POPULATIONS:
        rng = np.random.default_rng(seed)
        cells, probabilities = reference.random_cells((6, 5, 8, 4, 7), rng, interaction=interaction)
        truths, estimates = [], []
        for _ in range(SAMPLES_PER_POPULATION):
            sizes = rng.poisson(50_000 * probabilities)
            population = np.repeat(np.arange(len(cells)), sizes)
            sample = rng.choice(population, round(fraction * len(population)), replace=False)
            uniques = assess_sample_uniques(cells[sample], len(population), model=model)
            matching = sizes[sample[uniques.records]]
            n_unique, estimate = (matching == 1).sum(), uniques.expected_population_uniques
            truths.append([n_unique, (1 / matching).sum()])
            estimates.append([estimate, uniques.expected_matches])
            coverages.append(abs(n_unique - estimate) <= 1.96 * uniques.standard_deviation)
        biases.append(np.mean(estimates, axis=0) / np.mean(truths, axis=0) - 1)
    return *np.mean(biases, axis=0), np.mean(coverages)


# Measured: biases of 1.2 %, 1.1 % and -0.5 %, of matches -0.1 %, 0.2 % and -0.2 %; coverage 97 %.
@pytest.mark.slow
@pytest.mark.parametrize("fraction", [0.02, 0.1, 0.3])
def test_main_effects_are_right_for_independent_keys(fraction):
    bias, match_bias, coverage = simulate_log_linear("main_effects", 0, fraction)
    assert abs(bias) <= 0.04
    assert abs(match_bias) <= 0.01
    assert coverage >= 0.9


# Measured: bias -1.2 %, of matches -0.5 %; coverage 91 %.
@pytest.mark.slow
def test_two_way_interactions_are_right_for_dependent_keys_in_large_samples():
    bias, match_bias, coverage = simulate_log_linear("two_way", 0.8, 0.3)
    assert abs(bias) <= 0.04
    assert abs(match_bias) <= 0.02
    assert coverage >= 0.85


# The documented failures. Measured: -56 % and -35 %; coverage 16 %.
@pytest.mark.slow
def test_two_way_interactions_underestimate_with_few_records_per_parameter():
    bias, match_bias, coverage = simulate_log_linear("two_way", 0.8, 0.02)
    assert -0.8 < bias < -0.3
    assert -0.5 < match_bias < -0.2
    assert coverage < 0.5


@pytest.mark.slow
def test_main_effects_overestimate_for_dependent_keys():
    bias, match_bias, _ = simulate_log_linear("main_effects", 0.8, 0.02)
    assert bias > 0.3
    assert match_bias > 0.1


def simulate_estimator(estimate, draw_population, fraction, tolerance, n_samples=20):
    """Draw populations and a sample of each.

    Returns the bias, and the share of samples whose estimate is in the tolerance, relative to the
    truth.
    """
    rng = np.random.default_rng(5)
    truths, estimates = [], []
    for _ in range(n_samples):
        population = draw_population(rng)
        truths.append(count_uniques(population))
        estimates.append(estimate(draw_class_sizes(population, fraction, rng), len(population)))
    truth, values = np.array(truths), np.array(estimates, np.float64)
    is_near = np.abs(values - truth) <= tolerance * truth
    return values.mean() / truth.mean() - 1, is_near.mean()


def draw_pitman(rng):
    return reference.pitman_population(20_000, 100, 0.6, rng)


def draw_slide_negative_binomial(rng):
    return reference.slide_negative_binomial_population(10_000, 0.5, 0.1, rng)


# Measured: biases of 0.7 %, -2.6 % and -0.1 %, coverage 100 %; with other seeds -6.9 % to 1.7 %.
@pytest.mark.slow
@pytest.mark.parametrize(("fraction", "tolerance"), [(0.05, 0.4), (0.1, 0.25), (0.3, 0.12)])
def test_pitman_is_right_for_its_own_populations(fraction, tolerance):
    bias, coverage = simulate_estimator(estimate_by_pitman, draw_pitman, fraction, tolerance)
    assert abs(bias) <= tolerance / 2
    assert coverage >= 0.85


# Measured: biases of -3.0 % and -1.2 %, coverage 100 % and 95 %.
@pytest.mark.slow
@pytest.mark.parametrize(("fraction", "tolerance"), [(0.2, 0.2), (0.5, 0.06)])
def test_the_slide_negative_binomial_is_right_for_its_own_populations(fraction, tolerance):
    bias, coverage = simulate_estimator(
        estimate_by_slide_negative_binomial, draw_slide_negative_binomial, fraction, tolerance
    )
    assert abs(bias) <= tolerance / 2
    assert coverage >= 0.85


# The documented failure of samples below one half. Measured: 539 %, 65 % and 0.5 %.
@pytest.mark.parametrize(
    ("fraction", "low", "high"), [(0.05, 4, 7), (0.2, 0.5, 0.8), (0.5, -0.03, 0.03)]
)
def test_zayatz_overestimates_in_small_samples(fraction, low, high):
    bias, _ = simulate_estimator(
        estimate_by_zayatz, draw_slide_negative_binomial, fraction, tolerance=0.1
    )
    assert low <= bias <= high


# Measured: biases of 0.7 % and 0.7 %, coverage 100 %.
@pytest.mark.slow
@pytest.mark.parametrize(("fraction", "tolerance"), [(0.05, 0.4), (0.3, 0.15)])
def test_the_rule_is_right_for_populations_of_pitman(fraction, tolerance):
    def estimate(class_sizes, population_size):
        return estimate_population_uniques(class_sizes, population_size).uniques

    bias, coverage = simulate_estimator(estimate, draw_pitman, fraction, tolerance)
    assert abs(bias) <= tolerance / 2
    assert coverage >= 0.85
